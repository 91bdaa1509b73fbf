"""The Nth operation on a file of the changelog fails, for every N; and bytes of a changelog are flipped, one by one."""

from __future__ import annotations

import contextlib
import pathlib
import queue
import random
import shutil

from catalog.errors import SqlError
from engine.storage.edits import Edits
from replication.files import Files
from replication.segments import BLOCK
from tests.engine.storage.harness import Store, key

COMMITS = 40


class FailingFiles(Files):
    """The Nth write, sync or rename fails, half done, and all after it do. `reached`: whether there was an Nth."""

    def __init__(self, nth: int) -> None:
        self.left = nth
        self.reached = False

    def _fails(self) -> None:
        self.left -= 1
        if self.left < 0:
            self.reached = True
            raise OSError(5, "Input/output error")

    def write(self, fd: int, data: bytes | memoryview, offset: int) -> None:
        try:
            self._fails()
        except OSError:
            with contextlib.suppress(OSError):
                super().write(fd, memoryview(data)[: len(data) // 2], offset)
            raise
        super().write(fd, data, offset)

    def sync(self, fd: int) -> None:
        self._fails()
        super().sync(fd)

    def sync_data(self, fd: int) -> None:
        self._fails()
        super().sync_data(fd)

    def rename(self, old: str, new: str) -> None:
        self._fails()
        super().rename(old, new)

    def unlink(self, path: str) -> None:
        self._fails()
        super().unlink(path)


def _commits(store: Store, chance: random.Random) -> int:
    """The last acknowledged of COMMITS commits, with flushes among them. Stops at the first error."""
    acknowledged = 0
    for number in range(1, COMMITS + 1):
        try:
            store.space.sequence(_edits(number), 0, 0)
            lsn = store.space.sequenced_lsn
            while store.space.durable_lsn < lsn:
                store.loop.calls.get(timeout=2)()
                if store.fatal:
                    return acknowledged
            acknowledged = number
            if chance.random() < 0.2:
                store.space.flush()
        except (SqlError, OSError, queue.Empty):
            return acknowledged
    return acknowledged


def _edits(number: int) -> Edits:
    text = b"%d" % number
    return Edits({key(0): text, key(number): text * 60, key(number, 2): text})


def fail_at(folder: pathlib.Path, nth: int, kind: type[FailingFiles] = FailingFiles) -> tuple[bool, str]:
    """Whether there was an Nth operation, and what is wrong then, '' if nothing."""
    shutil.rmtree(folder, ignore_errors=True)
    files = kind(nth)
    acknowledged = 0
    try:
        store = Store(folder, files, segment_bytes=4000)
        acknowledged = _commits(store, random.Random(nth))
        with contextlib.suppress(SqlError, OSError):
            store.close()
    except (SqlError, OSError):
        pass  # it could not even be opened
    return files.reached, verify(folder, acknowledged)


def verify(folder: pathlib.Path, acknowledged: int) -> str:
    """What is wrong with what is found, '' if nothing."""
    try:
        store = Store(folder)
    except Exception as error:
        return f"cannot be opened again: {error}"
    try:
        last = int(store.space.current.get(key(0)) or b"0")
        if last < acknowledged:
            return f"{acknowledged} was acknowledged, {last} is the last"
        if store.contents(b"\0\0\0\2") != {key(n, 2): b"%d" % n for n in range(1, last + 1)}:
            return f"torn: {last} is the last"
        return ""
    finally:
        store.close()


def flips(folder: pathlib.Path, every: int) -> tuple[int, int]:
    """How many bytes of a changelog were flipped, one at a time, and how many of the flips went unnoticed: another
    content without an error. Bytes behind the last entry mean nothing."""
    shutil.rmtree(folder, ignore_errors=True)
    store = Store(folder)
    for number in range(1, 13):
        store.commit(_edits(number).writes)
    expected = store.contents(b"\0\0\0\2"), store.contents()
    segment = next((folder / "changelog").glob("*.segment"))
    end = store.space._changelog._offset  # type: ignore[attr-defined]
    flushed = folder.parent / "unflushed"
    shutil.rmtree(flushed, ignore_errors=True)
    shutil.copytree(folder, flushed)  # as after a crash: nothing is in LMDB
    store.close()
    tried = unnoticed = 0
    broken = folder.parent / "broken"
    for position in [*range(52), *range(BLOCK, end, every)]:
        shutil.rmtree(broken, ignore_errors=True)
        shutil.copytree(flushed, broken)
        path = broken / "changelog" / segment.name
        data = bytearray(path.read_bytes())
        data[position] ^= 0x10
        path.write_bytes(data)
        tried += 1
        try:
            found = Store(broken)
        except SqlError:
            continue
        unnoticed += (found.contents(b"\0\0\0\2"), found.contents()) != expected
        found.close()
    return tried, unnoticed
