"""Packs of the directory store when the disk, the process or the power does not do what it should."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import gc
import os
import random
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Coroutine
from functools import partial
from pathlib import Path

import pytest

from replication.file_sync import SyncCallback, kernel_can_sync
from replication.interface import (
    ChangelogStore,
    ObjectDamagedError,
    ObjectExistsError,
    ObjectMissingError,
    StoreFullError,
    StoreUnavailableError,
)
from replication.stores import open_store, pack_reader, pack_writer
from replication.stores.files import FileStore, is_local
from replication.stores.pack_reader import decode_record, encode_record, pack_seed
from replication.stores.store_files import StoreFiles
from tests.replication.stores.log_process import ROOT
from tests.replication.stores.test_files import FaultyFiles, steps


@pytest.fixture
def files() -> FaultyFiles:
    return FaultyFiles()


class FaultySync:
    """In the kernel's place, with the faults of FaultyFiles."""

    def __init__(self, files: FaultyFiles, loop: asyncio.AbstractEventLoop, done: SyncCallback) -> None:
        self.files, self.loop, self.done = files, loop, done

    def begin(self, fd: int) -> None:
        if not self.files.hang.is_set():
            self.loop.call_later(0.001, self.begin, fd)
            return
        error: OSError | None = None
        try:
            self.files.sync_data(fd)
        except OSError as failure:
            error = failure
        self.loop.call_soon(self.done, error)

    def finish(self) -> None: ...

    def close(self) -> None: ...


@pytest.fixture(params=["thread", "loop"])
async def store(tmp_path: Path, files: FaultyFiles, request: pytest.FixtureRequest) -> AsyncIterator[FileStore]:
    """What small appends are written by: the thread, or the loop."""
    open_sync = partial(FaultySync, files) if request.param == "loop" else None
    store = FileStore(str(tmp_path / "store"), timeout=5.0, files=files, open_sync=open_sync)
    yield store
    await store.close()


async def test_small_appends_to_an_open_pack_need_no_thread(tmp_path: Path) -> None:
    if not kernel_can_sync():
        pytest.skip("this kernel does not sync for others")
    store = FileStore(str(tmp_path / "store"))
    await store.append("l/0", b"")
    threads = {thread.name for thread in threading.enumerate()}
    store._pack_writer._thread.shutdown()  # whoever needs it from now on fails
    await asyncio.gather(*(store.append(f"l/{number}", b"%d" % number) for number in range(1, 100)))
    assert {thread.name for thread in threading.enumerate()} <= threads
    for handle in (store, FileStore(store.directory)):
        for number in range(1, 100):
            assert await handle.get(f"l/{number}") == b"%d" % number


def test_whether_a_disk_is_of_this_machine_is_known(tmp_path: Path) -> None:
    kind = subprocess.run(["stat", "-f", "-c", "%T", str(tmp_path)], capture_output=True, text=True, check=True)
    assert is_local(str(tmp_path / "to" / "come")) == (kind.stdout.strip() in ("ext2/ext3", "xfs", "f2fs", "tmpfs"))
    assert not is_local("/proc/self")


async def test_a_folder_deleted_while_the_kernel_syncs_takes_nothing_along(
    store: FileStore, files: FaultyFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    await store.append("l/a", b"1")
    usual = files.sync_data

    def deleted_meanwhile(fd: int) -> None:
        usual(fd)
        shutil.rmtree(f"{store.directory}/l", ignore_errors=True)
        monkeypatch.setattr(files, "sync_data", usual)

    monkeypatch.setattr(files, "sync_data", deleted_meanwhile)
    await store.append("l/b", b"2")
    assert await FileStore(store.directory).get("l/b") == b"2"


def packs(store: FileStore) -> list[Path]:
    return sorted(Path(store.directory).rglob("*.pack"))


async def names(store: ChangelogStore) -> list[str]:
    return [info.name async for info in store.list("")]


async def content(store: ChangelogStore, name: str) -> bytes | None:
    try:
        return await store.get(name)
    except ObjectMissingError:
        return None


def test_a_record_is_known_at_its_place_only() -> None:
    seed = pack_seed("one.pack")
    record = encode_record(seed, 64, 8, "name", b"data")
    assert len(record) % 8 == 0
    found = decode_record(record, 0, 64, seed)
    assert found is not None and (found.name, found.durable, found.data(record)) == ("name", 8, b"data")
    assert decode_record(record, 0, 72, seed) is None
    assert decode_record(record, 0, 64, pack_seed("two.pack")) is None
    for place in range(len(record)):
        broken = bytes(byte ^ (index == place) for index, byte in enumerate(record))
        found = decode_record(broken, 0, 64, seed)
        assert found is None or found.data(broken) is None or broken[: found.start + found.size] == record.rstrip(b"\0")


async def test_a_name_is_durable_before_its_first_record_and_then_one_sync_is_enough(
    store: FileStore, files: FaultyFiles
) -> None:
    await store.append("ts/ledger/a", b"x")
    made = ["create", "write", "sync", "sync directory ~packs", "write", "sync data"]
    assert steps(files)[-7:] == ["sync directory ledger", *made]
    files.log.clear()
    await store.append("ts/ledger/b", b"y")
    assert steps(files) == ["write", "sync data"]


async def test_what_waits_shares_a_sync(store: FileStore, files: FaultyFiles) -> None:
    await store.append("l/first", b"")
    files.log.clear()
    files.hang.clear()
    waiting = [asyncio.ensure_future(store.append(f"l/{number}", b"x")) for number in range(20)]
    await asyncio.sleep(0.05)
    files.hang.set()
    await asyncio.gather(*waiting)
    assert steps(files).count("sync data") <= 2


@pytest.mark.parametrize("operation", ["create", "write", "sync", "sync data", "sync directory"])
@pytest.mark.parametrize("later", [False, True])
async def test_after_a_failure_a_new_pack_begins_and_nothing_acknowledged_is_lost(
    store: FileStore, files: FaultyFiles, operation: str, later: bool
) -> None:
    await store.put("l/file", b"")
    if later:
        for number in range(5):
            await store.append(f"l/{number}", b"%d" % number)
    done = [step for step, _ in files.log].count(operation)
    files.fail = {(operation, done + 1): errno.EIO}
    appended = ["l/b", "l/c"]
    failed = []
    for name in appended:
        try:
            await store.append(name, b"x" * 1000)
        except StoreUnavailableError as error:
            assert not isinstance(error, StoreFullError)
            failed.append(name)
    assert len(failed) <= 1 and (failed or (later and operation in ("create", "sync", "sync directory")))
    if later and failed:
        assert len(packs(store)) == 2
    for name in failed:
        with contextlib.suppress(ObjectExistsError):
            await store.append(name, b"x" * 1000)
    for handle in (store, FileStore(store.directory)):
        for name in appended:
            assert await handle.get(name) == b"x" * 1000
        for number in range(5 if later else 0):
            assert await handle.get(f"l/{number}") == b"%d" % number


async def test_what_a_failed_sync_left_counts_for_nothing(store: FileStore, files: FaultyFiles) -> None:
    await store.append("l/a", b"1")
    files.fail = {("sync data", 2): errno.EIO}
    with pytest.raises(StoreUnavailableError):
        await store.append("l/b", b"2")
    assert await content(FileStore(store.directory), "l/b") is None
    await store.append("l/b", b"2")  # not: it exists
    first, second = sorted(packs(store), key=lambda path: path.stat().st_mtime_ns)
    assert b"2" not in first.read_bytes()[64:] and await store.get("l/b") == b"2"
    assert first != second


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT])
@pytest.mark.parametrize("operation", ["create", "write", "sync", "sync data"])
async def test_a_full_disk_writes_nothing_and_recovers(
    store: FileStore, files: FaultyFiles, operation: str, code: int
) -> None:
    files.fail = {(operation, number): code for number in range(1, 4)}
    for _ in range(3):
        with pytest.raises(StoreFullError):
            await store.append("a/b", b"x")
    assert packs(store) == [] and await content(store, "a/b") is None
    await store.append("a/b", b"y")
    assert await store.get("a/b") == b"y"


@pytest.mark.parametrize("closed", [False, True])
async def test_nothing_complains_of_a_failed_append_whose_answer_was_let_go(
    store: FileStore, files: FaultyFiles, closed: bool
) -> None:
    complaints: list[dict[str, object]] = []
    asyncio.get_running_loop().set_exception_handler(lambda loop, context: complaints.append(context))
    await store.append("a/a", b"")
    if closed:
        await store.close()
    files.fail = {("write", number): errno.EIO for number in range(100)}
    answer = store.append("a/b", b"x")
    assert isinstance(answer, Coroutine)
    answer.close()
    del answer
    with pytest.raises(StoreUnavailableError):  # behind it
        await store.append("a/c", b"x")
    gc.collect()
    assert complaints == []


async def test_a_disk_that_hangs_holds_nobody_up(tmp_path: Path, files: FaultyFiles) -> None:
    store = FileStore(str(tmp_path), files=files)
    await store.append("first", b"")
    files.hang.clear()
    usual, store._calls.timeout = store._calls.timeout, 0.05  # only here: a busy disk may take longer
    for _ in range(3):
        with pytest.raises(StoreUnavailableError, match=r"no answer within 0.05 s"):
            await store.append("a", b"x")
    files.hang.set()
    store._calls.timeout = usual
    await store.append("b", b"y")
    assert await store.get("b") == b"y"
    with contextlib.suppress(ObjectExistsError):
        await store.append("a", b"x")
    assert await store.get("a") == b"x"
    await store.close()


async def test_close_ends_what_is_under_way(tmp_path: Path, files: FaultyFiles) -> None:
    store = FileStore(str(tmp_path), timeout=60.0, files=files)
    await store.append("first", b"")
    files.hang.clear()
    waiting = [asyncio.ensure_future(store.append(f"a/{number}", b"x")) for number in range(10)]
    await asyncio.sleep(0.01)
    await store.close()
    for append in waiting:
        with pytest.raises(StoreUnavailableError, match="closed"):
            await append
    files.hang.set()


class CutFiles(StoreFiles):
    """Knows what a power cut leaves: what was synced of files whose names were."""

    def __init__(self) -> None:
        self.synced: dict[str, bytes] = {}
        self.named: dict[str, set[str]] = {}

    def sync(self, fd: int) -> None:
        super().sync(fd)
        path = os.readlink(f"/proc/self/fd/{fd}")
        if os.path.isfile(path):
            self.synced[path] = Path(path).read_bytes()

    def sync_data(self, fd: int) -> None:
        super().sync_data(fd)
        path = os.readlink(f"/proc/self/fd/{fd}")
        size = len(self.synced[path])  # the file's size is not what this syncs
        self.synced[path] = Path(path).read_bytes()[:size]

    def sync_directory(self, path: str) -> None:
        super().sync_directory(path)
        self.named[path] = set(os.listdir(path))

    def cut(self, source: str, target: str) -> None:
        """What is there of a directory when the power comes back."""
        os.makedirs(target, exist_ok=True)
        for name in self.named.get(source, set()):
            path = os.path.join(source, name)
            if os.path.isdir(path):
                self.cut(path, os.path.join(target, name))
            elif path in self.synced:
                Path(target, name).write_bytes(self.synced[path])


async def test_a_power_cut_leaves_everything_acknowledged(tmp_path: Path) -> None:
    files = CutFiles()
    store = FileStore(str(tmp_path / "store"), files=files)
    contents: dict[str, bytes] = {}
    for number in range(60):
        name, data = f"t/ledger-{number // 20}/{number:03}", random.Random(number).randbytes(number * 100)
        await store.append(name, data)
        contents[name] = data
        if number % 10 == 7:
            await store.delete(name)
            del contents[name]
        if number % 6 == 0:
            target = tmp_path / f"cut-{number}"
            files.cut(store.directory, str(target))
            (target / "~incoming").mkdir(exist_ok=True)
            after = FileStore(str(target))
            assert await names(after) == list(contents)
            for name, data in contents.items():
                assert await after.get(name) == data
            await after.close()
    await store.close()


WRITER = """
import asyncio, random, sys
from replication.stores.files import FileStore

async def main():
    store = FileStore(sys.argv[1])
    async def write(of):
        for number in range(100000):
            name = f"l/{of}-{number:06}"
            await store.append(name, random.Random(name).randbytes(number % 5000))
            print(name, flush=True)
    await asyncio.gather(*(write(of) for of in range(4)))
asyncio.run(main())
"""


async def test_a_process_that_is_killed_leaves_everything_acknowledged(tmp_path: Path) -> None:
    acknowledged: list[str] = []
    for _ in range(3):
        acknowledged.clear()
        process = subprocess.Popen(
            [sys.executable, "-c", WRITER, str(tmp_path / "store")], cwd=ROOT, stdout=subprocess.PIPE, text=True
        )
        assert process.stdout is not None
        reader = FileStore(str(tmp_path / "store"))
        for line in process.stdout:
            acknowledged.append(line.strip())
            if len(acknowledged) % 50 == 0:
                assert len(await reader.get(acknowledged[-1])) == int(acknowledged[-1][-6:]) % 5000
            if len(acknowledged) == 400:
                process.send_signal(signal.SIGKILL)
        process.wait()
        for handle in (reader, FileStore(str(tmp_path / "store"))):
            found = await names(handle)
            assert set(found) >= set(acknowledged)
            for name in found:
                assert await handle.get(name) == random.Random(name).randbytes(int(name[-6:]) % 5000)


async def made(store: FileStore) -> tuple[Path, dict[str, bytes], dict[str, int]]:
    """A pack with objects that were acknowledged one after the other; their contents, and where they lie."""
    contents = {f"l/{number}": random.Random(number).randbytes(600) for number in range(40)}
    places = {}
    for name, data in contents.items():
        await store.append(name, data)
    (pack,) = packs(store)
    found = pack.read_bytes()
    for name, data in contents.items():
        places[name] = found.index(data)
    return pack, contents, places


def garble(path: Path, offset: int, data: bytes) -> None:
    with open(path, "r+b") as file:
        file.seek(offset)
        file.write(data)


async def test_a_torn_tail_ends_the_reading_for_now(store: FileStore) -> None:
    pack, contents, places = await made(store)
    for damage in (b"\1", bytes(700)):
        garble(pack, places["l/39"], damage)
        after = FileStore(store.directory)
        assert set(await names(after)) == set(contents) - {"l/39"}
        assert await content(after, "l/39") is None
        garble(pack, places["l/39"], contents["l/39"] + bytes(100))  # it was on its way
        assert await after.get("l/39") == contents["l/39"]
        assert set(await names(after)) == set(contents)


@pytest.mark.parametrize("known", [False, True])
async def test_damage_of_data_is_told_by_its_name(store: FileStore, known: bool) -> None:
    pack, contents, places = await made(store)
    after = FileStore(store.directory)
    if known:
        assert await after.get("l/39") == contents["l/39"]
    garble(pack, places["l/7"] + 100, b"\0\0\0\0\0\0")
    with pytest.raises(ObjectDamagedError):
        await after.get("l/7")
    for name in contents:
        if name != "l/7":
            assert await after.get(name) == contents[name]
    with pytest.raises(ObjectMissingError):
        await after.get("l/never")
    assert set(await names(after)) == set(contents)
    await after.put("l/7", contents["l/7"])  # as a repairer does
    assert await after.get("l/7") == contents["l/7"]
    assert set(await names(FileStore(store.directory))) == set(contents)


@pytest.mark.parametrize("damage", [b"\xff" * 8, bytes(8), bytes(1400), os.urandom(1400)])
async def test_damage_of_names_makes_nothing_missing(store: FileStore, damage: bytes) -> None:
    pack, contents, places = await made(store)
    garble(pack, places["l/7"] - 25, damage)
    for after in (FileStore(store.directory), FileStore(store.directory)):
        with pytest.raises(ObjectDamagedError):
            await after.get("l/7")
        with pytest.raises(ObjectDamagedError):
            await after.get("l/never")
        with pytest.raises(ObjectDamagedError):
            await names(after)
        assert await after.get("l/39") == contents["l/39"]
        assert await after.get("l/6") == contents["l/6"]
    await after.put("l/7", contents["l/7"])
    assert await after.get("l/7") == contents["l/7"]


async def test_a_quorum_reads_what_is_damaged_elsewhere(tmp_path: Path) -> None:
    quorum = open_store("quorum(3,3,3):" + ",".join(f"file://{tmp_path}/{number}" for number in range(3)))
    contents = {f"l/{number}": random.Random(number).randbytes(600) for number in range(20)}
    for name, data in contents.items():
        await quorum.append(name, data)
    for number, place in enumerate(("l/3", "l/5")):
        member = FileStore(str(tmp_path / str(number)))
        (pack,) = packs(member)
        garble(pack, pack.read_bytes().index(contents[place]) - number * 25, b"\0" * 9)
    for name, data in contents.items():
        assert await quorum.get(name) == data
    assert set(await names(quorum)) == set(contents)
    await quorum.close()


async def test_what_users_store_does_not_look_like_a_record(store: FileStore) -> None:
    await store.append("l/first", b"x" * 100)
    (pack,) = packs(store)
    copied = pack.read_bytes()[:256]
    forged = b"".join(encode_record(0, at, 1 << 30, "l/forged", b"") for at in range(0, 4096, 8))
    await store.append("l/second", copied + forged)
    await store.append("l/third", b"y")
    garble(pack, pack.read_bytes().index(b"second") - 20, bytes(26))
    after = FileStore(store.directory)
    assert await after.get("l/third") == b"y"
    with pytest.raises(ObjectDamagedError):
        await after.get("l/forged")


async def test_a_get_reads_on_and_not_again(store: FileStore, monkeypatch: pytest.MonkeyPatch) -> None:
    reader = FileStore(store.directory)
    for number in range(300):
        await store.append(f"l/{number}", b"x" * 3000)
    assert await reader.get("l/299")
    read: list[int] = []
    pread = os.pread

    def counted(fd: int, size: int, offset: int) -> bytes:
        read.append(size)
        return pread(fd, size, offset)

    monkeypatch.setattr("replication.stores.pack_reader.os.pread", counted)
    await store.append("l/next", b"y")
    assert await reader.get("l/next") == b"y"
    assert len(read) <= 2 and sum(read) < 20_000


async def test_packs_grow_and_end(store: FileStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pack_writer, "MAX_PACK", 500_000)
    monkeypatch.setattr(pack_writer, "FIRST_STEP", 10_000)
    contents = {f"l/{number:03}": random.Random(number).randbytes(number * 170) for number in range(200)}
    for name, data in contents.items():
        await store.append(name, data)
    assert len(packs(store)) > 3
    after = FileStore(store.directory)
    assert await names(after) == list(contents)
    for name, data in contents.items():
        assert await after.get(name) == data
    await store.close()


async def test_what_is_remembered_is_bounded(store: FileStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pack_reader, "MAX_NAMES", 100)
    monkeypatch.setattr(pack_writer, "MAX_OPEN", 3)
    reader = FileStore(store.directory)
    for number in range(10):
        for folder in range(12):
            await store.append(f"l{folder}/{number}", b"%d" % folder)
    for folder in range(12):
        for number in range(10):
            assert await reader.get(f"l{folder}/{number}") == b"%d" % folder
    assert len(reader._packs._folders) <= 10
    assert sum(pack.is_open for pack in store._pack_writer._packs.values()) <= 3
    assert len(packs(store)) == 12


async def test_nothing_is_left_of_a_deleted_folder(store: FileStore) -> None:
    other = FileStore(store.directory)
    await store.append("l/a", b"x")
    await other.append("l/b", b"y")
    await other.delete("l/a")
    await store.delete_folder("l/")
    assert not os.path.exists(os.path.join(store.directory, "l"))
    await store.append("l/a", b"again")
    await other.append("l/b", b"again")
    assert await names(FileStore(store.directory)) == ["l/a", "l/b"]


async def test_a_directory_that_is_gone_is_no_empty_store(store: FileStore, tmp_path: Path) -> None:
    await store.append("a/b", b"x")
    os.rename(store.directory, tmp_path / "unmounted")
    with pytest.raises(StoreUnavailableError, match="is gone"):
        await store.append("a/c", b"x")
    with pytest.raises(StoreUnavailableError, match="is gone"):
        await store.get("a/b")
    with pytest.raises(StoreUnavailableError, match="is gone"):
        await store.delete("a/b")
    os.rename(tmp_path / "unmounted", store.directory)
    assert await store.get("a/b") == b"x"


async def test_a_page_of_a_listing_looks_at_its_own_names_only(
    store: FileStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a log server lists: each page is a walk of its own."""
    total, page = 6_000, 1_000
    for start in range(0, total, 500):
        await asyncio.gather(*(store.append(f"f/{number:06d}", b"x") for number in range(start, start + 500)))
    looked = 0
    of = pack_reader._Folder.places_of

    def counted(self: pack_reader._Folder, name: str) -> tuple[int, ...]:
        nonlocal looked
        looked += 1
        return of(self, name)

    assert len(await names(store)) == total
    monkeypatch.setattr(pack_reader._Folder, "places_of", counted)
    after, found = "", []
    for number in range(total // page):
        some = [info.name for info, _ in zip(store.walk("f/", after), range(page), strict=False)]
        assert looked <= (number + 1) * (page + pack_reader.PAGE)
        found += some
        after = some[-1]
    assert found == [f"f/{number:06d}" for number in range(total)]
    await asyncio.gather(*(store.append(f"f/{number:06d}a", b"x") for number in range(0, total, 7)))
    monkeypatch.undo()
    wanted = sorted([*found, *(f"f/{number:06d}a" for number in range(0, total, 7))])
    assert [info.name async for info in store.list("f/", "f/001000")] == [name for name in wanted if name > "f/001000"]
