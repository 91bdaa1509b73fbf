"""One byte after the other is flipped in everything that is on a disk: whoever reads it has to notice, or see the same.

    changelog      segments, the mark of what was acknowledged, a bulk run: a start refuses, and so does `shoal doctor`
    checkpoint     manifest, catalog, Parquet files: `verify_checkpoint` names it
    backup         records, the owner, archived changelog, checkpoints: `shoal verify` names it
    objects        entries of a cluster's changelog, as objects of their own and in packs: a reader refuses them

The tables themselves are LMDB's, which has no checksums: docs/guarantees.md says so. Of each byte one bit is flipped,
another one in each run.
"""

from __future__ import annotations

import asyncio
import pathlib
import random
import shutil
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from unittest import mock

from catalog.errors import SqlError
from engine.checkpoint import checkpoint_lsns, read_manifest, verify_checkpoint
from replication.interface import HeadObject, ObjectDamagedError, ObjectMissingError, StoreUnavailableError
from replication.log import Position, ledger_object
from replication.log.ledger_object import decode_object, encode_log_entry
from replication.segments import BLOCK
from replication.stores import open_store
from shoal.archive.contents import read_contents, verify_all
from shoal.commands.doctor import diagnose
from tests.engine.storage.harness import Store
from tests.torture.durability import works
from tests.torture.durability.works import Backups, Checkpoints, unflushed

NOTICED = (SqlError, ObjectDamagedError, ObjectMissingError, StoreUnavailableError)
FEW_ROWS = 20
SMALL_SEGMENT = 4000  # bytes; what is behind the last entry of a segment means nothing
TABLESPACE = b"T" * 16


@dataclass(slots=True)
class Flipped:
    """`bytes`: how many there are; `tried` of them were flipped; `harmless`: the same was read."""

    bytes: int = 0
    tried: int = 0
    harmless: int = 0
    unnoticed: list[str] = field(default_factory=list)


class Target:
    """Files below `folder / "data"`, and what reads them. `same` raises one of NOTICED for damage, else tells whether
    the same was read; '' or a complaint."""

    name = ""

    def __init__(self, folder: pathlib.Path) -> None:
        self.folder = folder

    def make(self) -> None:
        raise NotImplementedError

    def places(self) -> Iterator[tuple[pathlib.Path, int]]:
        """Every byte that means something."""
        for path in sorted((self.folder / "data").rglob("*")):
            if path.is_file():
                yield from ((path, offset) for offset in range(path.stat().st_size))

    def complaint(self) -> str:
        raise NotImplementedError

    def undo(self) -> None:
        """Called after a look that changed files."""


class Changelog(Target):
    name = "changelog"

    def make(self) -> None:
        store = unflushed(self.folder / "live")
        self._expected = self._contents(store)
        shutil.copytree(self.folder / "live", self.folder / "made")  # as after a crash
        store.close()
        shutil.rmtree(self.folder / "live")
        self.undo()
        log = self.folder / "data" / "changelog"
        self._ends = {path.name: _end(path) for path in [*log.glob("*.segment"), log / "durable"]}

    def undo(self) -> None:
        shutil.rmtree(self.folder / "data", ignore_errors=True)
        shutil.copytree(self.folder / "made" / "data", self.folder / "data")

    def places(self) -> Iterator[tuple[pathlib.Path, int]]:
        for path in sorted((self.folder / "data" / "changelog").rglob("*")):
            if path.is_file() and not path.name.startswith(("spare", "new")):
                end = self._ends.get(path.name, path.stat().st_size)
                whole = range(end) if path.suffix != ".segment" else [*range(52), *range(BLOCK, end)]
                yield from ((path, offset) for offset in whole)

    @staticmethod
    def _contents(store: Store) -> list[dict[bytes, bytes]]:
        return [store.contents(bytes((0, 0, 0, storage_id))) for storage_id in range(1, 5)]

    def complaint(self) -> str:
        found = [problem for report in diagnose(self.folder / "data") for problem in report.problems]
        try:
            store = Store(self.folder / "data")
        except SqlError as error:
            if not found:
                return f"a start refuses it ({error.message}), and doctor finds nothing"
            raise
        try:
            return "" if self._contents(store) == self._expected else "something else is read"
        finally:
            store.close()


def _end(path: pathlib.Path) -> int:
    return len(path.read_bytes().rstrip(b"\0"))


class Checkpoint(Target):
    name = "checkpoint"

    def make(self) -> None:
        works.ROWS = FEW_ROWS
        work = Checkpoints()
        work.prepare(self.folder)
        work.run(self.folder, lambda _: None)
        self._expected = asyncio.run(self._read())

    async def _read(self) -> list[object]:
        files = open_store(f"file://{self.folder}/data")
        try:
            found: list[object] = []
            for lsn in await checkpoint_lsns(files, ""):
                manifest = await read_manifest(files, "", lsn)
                for wrong in await verify_checkpoint(files, "", manifest, tempfile.mkdtemp(dir=self.folder) + "/v"):
                    raise SqlError("XX001", wrong)
                found.append(manifest)
            return found
        finally:
            await files.close()

    def complaint(self) -> str:
        return "" if asyncio.run(self._read()) == self._expected else "something else is read"


class Backup(Target):
    name = "backup"

    def make(self) -> None:
        works.ROWS = FEW_ROWS
        work = Backups()
        work.prepare(self.folder)
        work.run(self.folder, lambda _: None)
        self._expected = asyncio.run(self._read())

    async def _read(self) -> object:
        store = open_store(f"file://{self.folder}/data")
        try:
            found = await read_contents(store)
            verified = await verify_all(found, tempfile.mkdtemp(dir=self.folder) + "/v", lambda *_: None)
            for wrong in verified.findings:
                raise SqlError("XX001", wrong)
            return found.owner, found.records, verified
        finally:
            await store.close()

    def complaint(self) -> str:
        return "" if asyncio.run(self._read()) == self._expected else "something else is read"


class Objects(Target):
    name = "objects"

    def make(self) -> None:
        previous, lsn = bytes(32), 0
        self._items: list[tuple[HeadObject, bytes]] = []
        for number in range(4):
            first, parts = lsn + 1, []
            for _ in range(3):
                lsn += 1
                entry, previous = encode_log_entry(
                    lsn, b"body %d" % lsn * 5, lsn, 1, ["bulk"] if number == 2 else [], lsn - 1, 5, TABLESPACE, previous
                )
                parts.append(entry)
            self._items.append((HeadObject(1, first, lsn, f"{number}"), b"".join(parts)))
        asyncio.run(self._write())
        self._expected = asyncio.run(self._read())

    async def _write(self) -> None:
        store = open_store(f"file://{self.folder}/data")
        for number, (_, data) in enumerate(self._items):
            await (store.put if number % 2 else store.append)(f"a/ledger-1/{number}", data)
        await store.close()

    async def _read(self) -> list[object]:
        store = open_store(f"file://{self.folder}/data")
        try:
            found: list[object] = []
            position = Position(0, None)
            for number, (item, _) in enumerate(self._items):
                data = await store.get(f"a/ledger-1/{number}")
                for read in decode_object(data, item, TABLESPACE, 5, position):
                    position = Position(read.entry.lsn, read.hash)
                    found.append(read)
            return found
        finally:
            await store.close()

    def places(self) -> Iterator[tuple[pathlib.Path, int]]:
        for path in sorted((self.folder / "data").rglob("*")):
            if path.is_file():  # a pack grows by zeros
                yield from ((path, offset) for offset in range(_end(path)))

    def complaint(self) -> str:
        return "" if asyncio.run(self._read()) == self._expected else "something else is read"


class Believing(Objects):
    """A planted fault: the checksums of entries are not compared."""

    def complaint(self) -> str:
        with mock.patch.object(ledger_object, "verify", lambda *_: True):
            return super().complaint()


TARGETS = (Changelog, Checkpoint, Backup, Objects)


def flip(kind: type[Target], folder: pathlib.Path, seconds: float, seed: int, most: int = 1_000_000) -> Flipped:
    """Bytes in a random order, until all were flipped or the time is over; at least one of each file."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    target = kind(folder)
    target.make()
    if complaint := target.complaint():
        raise AssertionError(f"{kind.name}, untouched: {complaint}")
    target.undo()
    chance = random.Random(seed)
    places = list(target.places())
    chance.shuffle(places)
    firsts = {path: number for number, (path, _) in reversed(list(enumerate(places)))}
    order = [*firsts.values(), *(set(range(len(places))) - set(firsts.values()))]
    found = Flipped(len(places))
    end = time.monotonic() + seconds
    for number in order[:most]:
        path, offset = places[number]
        whole = path.read_bytes()
        bit = 1 << chance.randrange(8)
        path.write_bytes(whole[:offset] + bytes((whole[offset] ^ bit,)) + whole[offset + 1 :])
        found.tried += 1
        try:
            complaint = target.complaint()
        except NOTICED:
            pass
        except Exception as error:  # noticed, but by nobody who says what is the matter
            found.unnoticed.append(f"{path.relative_to(folder)} at {offset}, bit {bit}: {error!r}"[:300])
        else:
            found.harmless += not complaint
            if complaint:
                found.unnoticed.append(f"{path.relative_to(folder)} at {offset}, bit {bit}: {complaint}")
        path.write_bytes(whole) if path.parent.exists() else None
        target.undo()
        if time.monotonic() > end and len(firsts) <= found.tried:
            break
    return found
