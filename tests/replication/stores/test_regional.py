"""A regional copy of a store: read once from afar, verified, and never needed."""

from __future__ import annotations

from pathlib import Path

import pytest

from replication.interface import ObjectMissingError, StoreUnavailableError
from replication.stores.regional import FOLDER, RegionalStore, sweep_regional
from tests.replication.memory_store import MemoryStore

TABLESPACE = "0123456789abcdef" * 2
NAME = f"{TABLESPACE}/ledger-0000000007/{1:020d}-{9:020d}-{'c' * 32}"
BULK = f"{TABLESPACE}/ledger-0000000007/bulk/rows"


class Region:
    """A primary store, a regional one, and two readers, each with a handle of its own."""

    def __init__(self) -> None:
        self.far: dict[str, bytes] = {}
        self.near: dict[str, bytes] = {}
        self.readers = [RegionalStore(MemoryStore(self.far), MemoryStore(self.near)) for _ in range(2)]

    async def read(self, reader: int, name: str = NAME) -> bytes:
        found = await self.readers[reader].get(name)
        await self.filled(reader)
        return found

    async def filled(self, reader: int) -> None:
        for task in list(self.readers[reader]._fills):
            await task

    def reads(self) -> list[tuple[int, int]]:
        """(from the region, from afar) of each reader."""
        return [(reader.read_here, reader.read_there) for reader in self.readers]


@pytest.fixture
def region() -> Region:
    return Region()


async def test_an_object_comes_from_afar_once(region: Region) -> None:
    await region.readers[0].put(NAME, b"entries")
    assert region.near == {}
    assert [await region.read(reader) for reader in (0, 1, 0)] == [b"entries"] * 3
    assert region.reads() == [(1, 1), (1, 0)]


async def test_files_too(region: Region, tmp_path: Path) -> None:
    data = bytes(range(256)) * 9000
    region.far[BULK] = data
    for number, reader in enumerate((0, 1, 1)):
        await region.readers[reader].get_file(BULK, str(tmp_path / str(number)))
        assert (tmp_path / str(number)).read_bytes() == data
    assert region.reads() == [(0, 1), (2, 0)]


@pytest.mark.parametrize("place", [0, 3, -1, -6])
@pytest.mark.parametrize("name", [NAME, BULK])
async def test_a_damaged_copy_is_made_anew(region: Region, tmp_path: Path, name: str, place: int) -> None:
    region.far[name] = b"what was committed"
    for attempt in range(3):
        if name == NAME:
            assert await region.read(0, name) == b"what was committed"
        else:
            await region.readers[0].get_file(name, str(tmp_path / str(attempt)))
            assert (tmp_path / str(attempt)).read_bytes() == b"what was committed"
        if attempt == 0:
            copy = bytearray(region.near[FOLDER + name])
            copy[place] ^= 1
            region.near[FOLDER + name] = bytes(copy)
    assert region.reads()[0] == (1, 2)


@pytest.mark.parametrize("left", [b"", b"SREG", b"x"])
async def test_what_has_no_seal_is_no_copy(region: Region, tmp_path: Path, left: bytes) -> None:
    for name in (NAME, BULK):
        region.far[name] = b"what was committed"
        region.near[FOLDER + name] = left
    assert await region.read(0) == b"what was committed"
    await region.readers[0].get_file(BULK, str(tmp_path / "file"))
    assert (tmp_path / "file").read_bytes() == b"what was committed"


async def test_the_region_may_be_away(region: Region, tmp_path: Path) -> None:
    class Away(MemoryStore):
        async def get(self, name: str) -> bytes:
            raise StoreUnavailableError("away")

        async def put(self, name: str, data: bytes) -> None:
            raise StoreUnavailableError("away")

        async def get_file(self, name: str, path: str) -> None:
            Path(path).write_bytes(b"half of it")
            raise StoreUnavailableError("away")

        async def put_file(self, name: str, path: str) -> None:
            raise StoreUnavailableError("away")

    region.far.update({NAME: b"entries", BULK: b"rows"})
    region.readers[0] = RegionalStore(MemoryStore(region.far), Away({}))
    assert await region.read(0) == b"entries"
    await region.readers[0].get_file(BULK, str(tmp_path / "file"))
    assert (tmp_path / "file").read_bytes() == b"rows"


async def test_only_what_belongs_to_ledgers_is_copied(region: Region) -> None:
    for name in ("cluster", f"{TABLESPACE}/checkpoint-{5:020d}/manifest.json"):
        region.far[name] = b"x"
        assert await region.read(0, name) == b"x"
    assert region.near == {}
    with pytest.raises(ObjectMissingError):
        await region.read(0)
    assert region.near == {}


async def test_copies_of_dropped_ledgers_go() -> None:
    other = "f" * 32
    names = [
        f"{FOLDER}{tablespace}/ledger-{ledger:010d}/{part}"
        for tablespace in (TABLESPACE, other)
        for ledger in (1, 2, 10)
        for part in ("a", "bulk/b")
    ]
    near = dict.fromkeys([*names, "cluster", f"{FOLDER}strange"], b"")
    assert await sweep_regional(MemoryStore(near), {TABLESPACE: 2}) == 4
    assert sorted(near) == sorted([*names[2:6], "cluster", f"{FOLDER}strange"])
