"""The directory store when the disk, or the process, does not do what it should."""

from __future__ import annotations

import asyncio
import errno
import os
import threading
import time
from pathlib import Path

import pytest

from replication.interface import ObjectExistsError, ObjectMissingError, StoreFullError, StoreUnavailableError
from replication.stores.files import THREADS, FileStore
from replication.stores.store_files import StoreFiles


class FaultyFiles(StoreFiles):
    """Fails the Nth operation of a kind, and notes what is done."""

    def __init__(self) -> None:
        self.log: list[tuple[str, str]] = []
        self.fail: dict[tuple[str, int], int] = {}  # (operation, number of it from 1) -> errno
        self.hang = threading.Event()
        self.hang.set()
        self._paths: dict[int, str] = {}

    def _do(self, operation: str, path: str) -> None:
        if threading.current_thread() is not threading.main_thread():  # on the loop nothing may hang but the sync
            self.hang.wait(10)
        self.log.append((operation, os.path.basename(path.rstrip("/"))))
        number = sum(done == operation for done, _ in self.log)
        code = self.fail.get((operation, number))
        if code is not None:
            raise OSError(code, os.strerror(code))

    def create(self, path: str) -> int:
        self._do("create", path)
        fd = super().create(path)
        self._paths[fd] = path
        return fd

    def reopen(self, path: str) -> int:
        self._do("reopen", path)
        fd = super().reopen(path)
        self._paths[fd] = path
        return fd

    def write(self, fd: int, data: bytes | memoryview, offset: int) -> None:
        self._do("write", self._paths[fd])
        super().write(fd, data, offset)

    def sync(self, fd: int) -> None:
        self._do("sync", self._paths.get(fd, "directory"))
        super().sync(fd)

    def sync_data(self, fd: int) -> None:
        self._do("sync data", self._paths.get(fd, "unknown"))
        super().sync_data(fd)

    def sync_directory(self, path: str) -> None:
        self._do("sync directory", path)
        fd = os.open(path, os.O_RDONLY)
        os.fsync(fd)
        os.close(fd)

    def link(self, old: str, new: str) -> None:
        self._do("link", new)
        super().link(old, new)

    def unlink(self, path: str) -> None:
        self._do("unlink", path)
        super().unlink(path)


@pytest.fixture
def files() -> FaultyFiles:
    return FaultyFiles()


@pytest.fixture
def store(tmp_path: Path, files: FaultyFiles) -> FileStore:
    return FileStore(str(tmp_path / "made" / "store"), timeout=5.0, files=files)


def steps(files: FaultyFiles) -> list[str]:
    return [step if step != "sync directory" else f"{step} {path}" for step, path in files.log]


async def test_data_are_synced_before_their_name_and_the_name_before_the_answer(
    store: FileStore, files: FaultyFiles, tmp_path: Path
) -> None:
    await store.put("ts/ledger/a", b"x")
    put = ["create", "write", "sync"]
    assert steps(files) == [
        f"sync directory {tmp_path.name}",  # the store's directory and its parent were made
        "sync directory made",
        *put,
        "sync directory store",  # so were the parents of the object
        "sync directory ts",
        "link",
        "sync directory ledger",
        "unlink",
    ]
    files.log.clear()
    await store.put("ts/ledger/b", b"y")
    assert steps(files) == [*put, "link", "sync directory ledger", "unlink"]


async def test_another_process_syncs_directories_that_it_did_not_make(store: FileStore, tmp_path: Path) -> None:
    await store.put("ts/ledger/a", b"x")
    files = FaultyFiles()
    await FileStore(store.directory, files=files).put("ts/ledger/b", b"y")
    assert "sync directory store" in steps(files) and "sync directory ts" in steps(files)


async def test_that_a_name_exists_is_said_only_when_it_is_durable(store: FileStore, files: FaultyFiles) -> None:
    await store.put("a/b", b"x")
    files.fail = {("sync directory", sum(step == "sync directory" for step, _ in files.log) + 1): errno.EIO}
    with pytest.raises(StoreUnavailableError):
        await store.put("a/b", b"x")
    with pytest.raises(ObjectExistsError):
        await store.put("a/b", b"x")


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT])
@pytest.mark.parametrize("operation", ["create", "write", "sync", "link"])
async def test_a_full_disk_writes_nothing_and_recovers(
    store: FileStore, files: FaultyFiles, operation: str, code: int, tmp_path: Path
) -> None:
    files.fail = {(operation, 1): code, (operation, 2): code}
    (tmp_path / "file").write_bytes(b"z")
    with pytest.raises(StoreFullError):
        await store.put("a/b", b"x")
    with pytest.raises(StoreFullError):
        await store.put_file("a/b", str(tmp_path / "file"))
    with pytest.raises(ObjectMissingError):
        await store.get("a/b")
    await store.put("a/b", b"y")
    assert await store.get("a/b") == b"y"
    await store.close()
    await incoming_is_empty(store)


async def incoming_is_empty(store: FileStore) -> None:
    """`close` does not wait for what a thread does at that moment."""
    deadline = time.monotonic() + 10
    while (left := os.listdir(os.path.join(store.directory, "~incoming"))) and time.monotonic() < deadline:
        await asyncio.sleep(0.001)
    assert left == []


async def test_a_file_that_waits_for_a_thread_to_be_removed_is_removed_at_close(store: FileStore) -> None:
    await store.put("a/b", b"x")
    incoming = store.receive()
    go_on, begun = threading.Event(), threading.Barrier(THREADS + 1)

    def wait() -> None:
        begun.wait(10)
        go_on.wait(10)

    busy = [asyncio.ensure_future(store.run(wait)) for _ in range(THREADS)]
    await asyncio.to_thread(begun.wait, 10)  # what no thread has begun is given up at close
    store.run_later(incoming.discard)
    try:
        await store.close()
        assert os.listdir(os.path.join(store.directory, "~incoming")) == []
    finally:
        go_on.set()
    await asyncio.gather(*busy)


@pytest.mark.parametrize("operation", ["create", "write", "sync", "link", "sync directory", "unlink"])
async def test_a_failing_disk_never_shows_a_piece(store: FileStore, files: FaultyFiles, operation: str) -> None:
    await store.put("a/first", b"")
    done = [step for step, _ in files.log].count(operation)
    files.fail = {(operation, done + 1): errno.EIO}
    if operation == "unlink":  # it is done all the same
        await store.put("a/b", b"x" * 1000)
    else:
        with pytest.raises(StoreUnavailableError) as failed:
            await store.put("a/b", b"x" * 1000)
        assert not isinstance(failed.value, StoreFullError)
    try:
        assert await store.get("a/b") == b"x" * 1000
    except ObjectMissingError:
        await store.put("a/b", b"again")


async def test_what_a_crash_left_is_not_shown_and_goes_after_a_day(store: FileStore) -> None:
    await store.put("a/b", b"x")
    incoming = Path(store.directory, "~incoming")
    for name, age in (("fresh", 60), ("torn", 2 * 86_400)):
        (incoming / name).write_bytes(b"half an obj")
        os.utime(incoming / name, (time.time() - age,) * 2)
    after = FileStore(store.directory)
    assert [info.name async for info in after.list("")] == ["a/b"]
    assert sorted(os.listdir(incoming)) == ["fresh"]
    await after.delete_folder("")
    assert [info.name async for info in after.list("")] == []


async def test_a_directory_that_is_gone_is_no_empty_store(store: FileStore, tmp_path: Path) -> None:
    await store.put("a/b", b"x")
    os.rename(tmp_path / "made", tmp_path / "unmounted")
    with pytest.raises(StoreUnavailableError, match="is gone"):
        await store.get("a/b")
    with pytest.raises(StoreUnavailableError, match="is gone"):
        [info async for info in store.list("a/")]
    with pytest.raises(StoreUnavailableError, match="is gone"):
        await store.delete("a/b")
    with pytest.raises(StoreUnavailableError):
        await store.put("a/c", b"x")
    os.rename(tmp_path / "unmounted", tmp_path / "made")
    assert await store.get("a/b") == b"x"


async def test_a_disk_that_hangs_holds_nobody_up(tmp_path: Path, files: FaultyFiles) -> None:
    store = FileStore(str(tmp_path), timeout=0.05, files=files)
    await store.put("first", b"")
    files.hang.clear()
    with pytest.raises(StoreUnavailableError, match=r"no answer within 0.05 s"):
        await store.put("a", b"x")
    with pytest.raises(StoreUnavailableError):
        await store.delete("first")
    files.hang.set()


async def test_close_ends_what_is_under_way(tmp_path: Path, files: FaultyFiles) -> None:
    store = FileStore(str(tmp_path), timeout=60.0, files=files)
    await store.put("first", b"")
    files.hang.clear()
    waiting = [asyncio.ensure_future(store.put(f"a/{number}", b"x")) for number in range(10)]
    await asyncio.sleep(0.01)
    await store.close()
    for put in waiting:
        with pytest.raises(StoreUnavailableError, match="closed"):
            await put
    files.hang.set()


async def test_a_file_in_the_way_of_a_folder_is_an_error_and_no_crash(store: FileStore) -> None:
    await store.put("a", b"x")
    with pytest.raises(StoreUnavailableError):
        await store.put("a/b", b"x")
