"""The LMDB environment of a tablespace: its format, and the writing of layers.

Two databases: `rows` (every key of every table and index, storage id first) and `meta`:

    format     u32  the version of the format; a newer one is refused
    tablespace 16 bytes, the random id of the directory
    flushed    u64  every change up to this LSN is in `rows`
    drop<id>   a storage id (4 bytes, big-endian) whose range is being deleted
    whole<id>  a storage id (4 bytes, big-endian) that leans on nothing here (engine/storage/branch_storage.py)
    noted<id>, keys<id><lsn>  the rows that have changed since their columns were saved (engine/storage/key_notes.py)

A layer is written in one LMDB transaction that also moves `flushed`, so the file is the exact state at that LSN
whenever the process ends. (A large bulk layer takes several transactions, see engine/storage/lmdb_writer.py: then some
keys may already have their value at the layer's own LSN.) The map is far larger than any disk, so it is never full; it
costs address space only. No WRITEMAP (a full disk would be SIGBUS). A failed commit is fatal: the system may have
discarded the pages and let the next sync succeed.
"""

from __future__ import annotations

import errno
import logging
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from typing import Any, NoReturn

import lmdb
import numpy as np
import pyarrow as pa

from catalog.errors import DISK_FULL, SqlError
from catalog.processes import kill_when_still
from engine.priority import beside
from engine.storage.branch_storage import BASE_RANGE
from engine.storage.columns import Column, Numbers
from engine.storage.holes import Given, allocated_bytes, give_back, oldest_reader, readers
from engine.storage.key_notes import KeyNotes, Taking
from engine.storage.keys import storage_prefix
from engine.storage.lmdb_writer import (
    COMMIT_BYTES,
    DISK,
    DONE,
    DROP,
    DROP_PAUSE,
    FLUSHED,
    HEADER,
    MAP_FULL,
    U32,
    U64,
    UPTO,
    LayerWriter,
    delete_slice,
    frame_end,
    pack_slice,
    put_entries,
)
from engine.storage.pages import PageCounter
from engine.storage.views import Layer

log = logging.getLogger("shoal.storage")

FORMAT = 1
MIN_MAP = 1 << 40
SHRINK_BYTES = 64 << 20  # of pages without rows, and half of all, from which on they are given back unasked
FULL = 0.85  # share of used bytes from which on a range is not packed
NO_ROOM = 1 << 20  # free bytes of a file system after which a partial write means a full disk
APART_KEYS = 20_000  # layers of this size are written by a process of its own, which takes 50 ms to start
_SENT = frozenset((signal.SIGHUP, signal.SIGINT, signal.SIGKILL, signal.SIGTERM))  # by a signal, not by a fault
SLICE = 512
PART_BYTES = 4 << 20
DROP_SLICE = 5000  # keys
DELETING_LOOKS = 0.05  # seconds between two checks whether a deletion must stop

_WHOLE = b"whole"
_IO_ERROR = os.strerror(errno.EIO)
_FILE, _READERS = "data.mdb", "lock.mdb"  # LMDB's names for them
_MAKING = "making"  # the folder of an incomplete environment
_PACKAGES = str(pathlib.Path(__file__).resolve().parents[2])  # the directory from which `engine` is imported


class FormatTooNew(SqlError):  # noqa: N818 - named for what is the matter
    """The directory was written by a newer release (XX001)."""

    def __init__(self, path: str, found: int) -> None:
        super().__init__("XX001", f'directory "{path}" has format {found}, this release reads up to {FORMAT}')


class WriterKilled(lmdb.Error):
    """A writing process was ended by a signal, from the system for its memory or from this server
    (catalog/processes.py): its uncommitted work is undone, and nothing else is wrong."""


def sync_directory(path: str) -> None:
    """Makes creations, renames and removals in the directory durable."""
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def sync_file(path: str) -> None:
    """Makes the content of the file durable."""
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def map_size(path: str) -> int:
    """Bytes of address space for the environment in this directory: more than its file system can ever hold."""
    status = os.statvfs(path)
    return max(MIN_MAP, 2 * status.f_blocks * status.f_frsize)


class Checkpoint:
    """One open LMDB environment, for reading and writing."""

    def __init__(self, path: str, identity: bytes | None = None, lock: int | None = None) -> None:
        """`identity`: the tablespace's id if the environment is new; default: a random one. `lock`: the descriptor of
        the directory's lock, which writing processes inherit; None: there are no such processes."""
        os.makedirs(path, 0o700, exist_ok=True)
        self._lock = lock
        self.path = path
        if os.path.isdir(making := os.path.join(path, _MAKING)):
            shutil.rmtree(making)  # of a process that has ended meanwhile
        if not os.path.exists(os.path.join(path, _FILE)):
            self._make(identity)
        self._open(path)
        self._told: int | None = None  # the last logged error of returning space
        if lock is not None and self.mostly_free:
            self._shrink()

    def free_bytes(self) -> int:
        """Bytes of pages without rows that take space on disk. LMDB reuses such pages, and never makes its file
        smaller."""
        with self.environment.begin() as transaction:
            found = [transaction.stat(database) for database in (self.rows, self._meta)]
        pages = sum(item[kind] for item in found for kind in ("branch_pages", "leaf_pages", "overflow_pages"))
        taken, _ = self.file_bytes
        return max(taken - int(found[0]["psize"] * pages), 0)

    @property
    def mostly_free(self) -> bool:
        """Whether most of the file has no rows, and the free space is worth an effort."""
        free = self.free_bytes()
        return free >= SHRINK_BYTES and free > self.file_bytes[0] // 2

    def _shrink(self) -> None:
        """Replaces the file by a copy without empty pages; no other process has it open. Changes nothing if there is no
        space for the copy. For file systems that cannot take back parts of a file."""
        apart, place = os.path.join(self.path, _MAKING), os.path.join(self.path, _FILE)
        before, copy = allocated_bytes(place), os.path.join(apart, _FILE)
        os.mkdir(apart, 0o700)
        try:
            self.environment.copy(apart, compact=True)
            sync_file(copy)
        except (OSError, lmdb.Error) as error:
            shutil.rmtree(apart, ignore_errors=True)
            log.warning('the tables in "%s" cannot be made smaller: %s', self.path, error)
            return
        self.environment.close()
        # LMDB's table of readers says which of a file's two roots is the newer one, and LMDB trusts it if another
        # process has the file open, even one that is about to end. For the copy the old table may name the empty root.
        os.unlink(os.path.join(self.path, _READERS))
        os.rename(copy, place)
        shutil.rmtree(apart)
        sync_directory(self.path)
        self._open(self.path)
        log.info('the tables in "%s" take %d MB, after %d', self.path, allocated_bytes(place) >> 20, before >> 20)

    def _make(self, identity: bytes | None) -> None:
        """Makes the file of a new environment, complete or not at all: LMDB cannot open an incomplete one."""
        apart = os.path.join(self.path, _MAKING)
        os.mkdir(apart, 0o700)
        self._open(apart, identity or uuid.uuid4().bytes)
        self.environment.close()
        os.rename(os.path.join(apart, _FILE), os.path.join(self.path, _FILE))
        shutil.rmtree(apart)
        sync_directory(self.path)

    def _open(self, path: str, identity: bytes | None = None) -> None:
        """`identity`: of a new environment; None: it must exist, and is never created."""
        try:
            self.environment: Any = lmdb.open(
                path, map_size=map_size(path), max_dbs=4, max_readers=1024, readahead=False, mode=0o600
            )
        except lmdb.Error as error:
            raise SqlError("XX001", f'the tables in "{self.path}" cannot be opened: {error}') from error
        try:
            self._open_databases(identity)
        except lmdb.Error as error:
            self.environment.close()
            raise SqlError("58030", f'the tables in "{self.path}" cannot be opened: {error}') from error

    def _open_databases(self, identity: bytes | None) -> None:
        """The databases in the environment, created if it is new (`identity`). Raises lmdb.Error, FormatTooNew."""
        self.forget_dead_readers()
        self.rows: Any = self.environment.open_db(b"rows", create=identity is not None)
        self._meta: Any = self.environment.open_db(b"meta", create=identity is not None)
        if identity is not None:
            with self.environment.begin(db=self._meta, write=True) as transaction:
                transaction.put(b"format", U32.pack(FORMAT))
                transaction.put(b"tablespace", identity)
                transaction.put(FLUSHED, U64.pack(0))
        with self.environment.begin(db=self._meta) as transaction:
            (version,) = U32.unpack(transaction.get(b"format") or b"")
            if version > FORMAT:
                self.environment.close()
                raise FormatTooNew(self.path, version)
            self.tablespace = transaction.get(b"tablespace") or b""
            self.flushed_lsn: int = U64.unpack(transaction.get(FLUSHED) or b"")[0]
            self.whole = frozenset(name[len(_WHOLE) :] for name in self._names(transaction, _WHOLE))
        self.key_notes = KeyNotes(self.environment, self._meta, self.flushed_lsn)

    def forget_dead_readers(self) -> None:
        """Removes readers of ended processes from LMDB's table: they would keep their pages."""
        self.environment.reader_check()

    @property
    def file_bytes(self) -> tuple[int, int]:
        """Bytes that the file takes on disk, and bytes of its pages that were ever used."""
        pages = self.environment.info()["last_pgno"] + 1
        return allocated_bytes(os.path.join(self.path, _FILE)), pages * self.environment.stat()["psize"]

    def write(self, layer: Layer, pause: Callable[[float], None]) -> None:
        """Writes a frozen layer and syncs it. Calls `pause` between slices with the processor seconds of the last
        slice."""
        taking = self.key_notes.begin(layer.first_lsn, layer.last_lsn, layer.drops)
        with self.writing():
            if self._lock is None or layer.keys < APART_KEYS or not self._write_apart(layer, taking, pause, self._lock):
                self._write_here(layer, taking, pause)
        self.key_notes.end(taking)
        self.flushed_lsn = layer.last_lsn

    def write_notes(self) -> None:
        """Writes the beginning and end of lists of changed keys, between two flushes."""
        if self.key_notes.is_behind:
            with self.writing(), self.environment.begin(write=True) as transaction:
                put_entries(transaction, self._meta, self.key_notes.entries_at(self.flushed_lsn))

    def _write_here(self, layer: Layer, taking: Taking, pause: Callable[[float], None]) -> None:
        writer = LayerWriter(self.environment, self.rows, self._meta, COMMIT_BYTES)
        try:
            for keys, values in taking.pass_on(layer.newest()):
                for start in range(0, len(keys), SLICE):
                    started = time.thread_time()
                    part = keys.slice(start, SLICE).to_pylist(), values.slice(start, SLICE).to_pylist()
                    writer.put(list(zip(*part, strict=True)))
                    pause(time.thread_time() - started)
            writer.finish(layer.last_lsn, layer.drops, taking.entries())
        finally:
            writer.abandon()

    def _write_apart(self, layer: Layer, taking: Taking, pause: Callable[[float], None], lock: int) -> bool:
        """Writes in a separate process. False if it could not be started, or was killed."""
        try:
            with self._process(lock, "put", str(COMMIT_BYTES)) as process:
                if process is None:
                    return False
                with suppress(BrokenPipeError), closing(process.stdin) as sink:  # it reports why it has ended
                    for keys, values in taking.pass_on(layer.newest()):
                        for start, stop in _parts(keys, values):
                            started = time.thread_time()
                            sink.writelines(_frame(keys[start:stop], values[start:stop]))
                            pause(time.thread_time() - started)
                    sink.writelines(frame_end(layer.last_lsn, layer.drops, taking.entries()))
        except WriterKilled as error:
            log.warning("the server itself writes its tables: %s", error)
            return False
        return True

    def _delete_apart(self, names: list[bytes], stop: Callable[[], bool], lock: int) -> bool:
        """Deletes ranges in a separate process, until `stop`. False if it could not be started, or was killed."""
        ranges = [name.hex() for name in names]
        return self._done_apart(lock, stop, "deletes what was dropped", "delete", str(DROP_SLICE), *ranges)

    def _pack_apart(self, low: bytes, high: bytes, stop: Callable[[], bool], lock: int) -> bytes | None:
        """Packs a range in a separate process, until `stop`. Returns the key at which to continue, None at the end. If
        the process could not be started or was killed, that is the beginning of the range."""
        answers: list[str] = []
        command = "pack", str(DROP_SLICE), low.hex(), high.hex()
        if not self._done_apart(lock, stop, "packs tables", *command, answers=answers):
            return low
        return bytes.fromhex(answers[0].partition(" ")[2]) if answers else None

    def _done_apart(
        self, lock: int, stop: Callable[[], bool], work: str, *command: str, answers: list[str] | None = None
    ) -> bool:
        """Waits for a process without input, until `stop`. False if it could not be started, or was killed: then the
        server does its `work`."""
        try:
            with self._process(lock, *command, answers=answers) as process:
                if process is None:
                    return False
                _wait(process, stop)
        except WriterKilled as error:
            log.warning("the server itself %s: %s", work, error)
            return False
        return True

    @contextmanager
    def _process(self, lock: int, *command: str, answers: list[str] | None = None) -> Iterator[Any]:
        """A process that writes here (engine/storage/lmdb_writer.py) and ends with the block, or None. Raises its
        error, WriterKilled if it was killed. `answers`: receives its other output."""
        try:
            process = subprocess.Popen(
                [
                    sys.executable,
                    "-P",
                    "-m",
                    "engine.storage.lmdb_writer",
                    self.path,
                    str(map_size(self.path)),
                    *command,
                ],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                pass_fds=(lock,),
                env={**os.environ, "PYTHONPATH": _PACKAGES},
                start_new_session=True,  # signals of the terminal, and the processors' groups, are for the server
            )
        except OSError as error:
            log.warning("the server itself writes its tables, a process for it cannot be started: %s", error)
            yield None
            return
        with process, beside(process.pid), kill_when_still(process):
            assert process.stdin is not None and process.stdout is not None
            try:
                yield process
            finally:
                process.stdin.close()
            answer = process.stdout.read().decode(errors="replace").rstrip("\n")
        if answers is not None and answer.startswith(UPTO):
            answers.append(answer)
        elif answer != DONE:
            self.forget_dead_readers()
            self._not_done(answer, process.returncode)

    def _not_done(self, answer: str, status: int) -> NoReturn:
        """The error of a process that has not done its work."""
        kind, _, text = answer.partition(" ")
        if kind == MAP_FULL:
            raise lmdb.MapFullError(text)
        if kind == DISK:
            raise lmdb.DiskError(text)
        why = text or f"the process that wrote them has ended with status {status}"
        raise WriterKilled(why) if -status in _SENT else lmdb.Error(why)

    def delete_dropped(self, pause: Callable[[float], None], stop: Callable[[], bool]) -> bool:
        """Deletes the ranges of dropped storage ids, a slice a transaction, until `stop`. Continues after the last
        call, or one before a crash. Returns whether there were any."""
        with self.environment.begin(db=self._meta) as transaction:
            names = [DROP + storage_prefix(storage_id) for storage_id in self.drops_in(transaction)]
        lock, found = self._lock, bool(names)
        with self.writing():
            while names and not stop():
                if not delete_slice(self.environment, self.rows, self._meta, names[0], DROP_SLICE):
                    del names[0]
                elif lock is not None:  # a large one
                    if self._delete_apart(names, stop, lock):
                        break
                    lock = None  # done here in the end
                pause(DROP_PAUSE)
        return found

    def pack(self, low: bytes, high: bytes, pause: Callable[[float], None], stop: Callable[[], bool]) -> bytes | None:
        """Rewrites the keys in [low, high) whose pages are not full, until `stop`. Returns the key at which to
        continue, None at the end. The rows do not change."""
        with closing(self.pages()) as pages:
            if pages.fullness(low, high) > FULL:
                return None
        left: bytes | None = low
        with self.writing():
            left = pack_slice(self.environment, self.rows, low, high, DROP_SLICE)
            if left is not None and self._lock is not None:
                left = self._pack_apart(left, high, stop, self._lock)
            while left is not None and not stop():
                pause(DROP_PAUSE)
                left = pack_slice(self.environment, self.rows, left, high, DROP_SLICE)
        return left

    def part_from_readers(self) -> None:
        """Commits without a change: readers that begin after it do not need pages that were left free before it."""
        with self.writing(), self.environment.begin(db=self._meta, write=True) as transaction:
            transaction.put(FLUSHED, transaction.get(FLUSHED) or b"")

    @property
    def oldest_reader(self) -> int:
        """The oldest commit of LMDB that a reader uses, by its id."""
        return oldest_reader(self.environment)

    @property
    def oldest_process(self) -> int:
        """The process of that reader; 0 for none."""
        return min(readers(self.environment), default=(0, 0))[1]

    def give_back(self, least: int, pause: Callable[[float], None], stop: Callable[[], bool]) -> Given:
        """As engine.storage.holes.give_back. Changes nothing if the file system does not support it."""
        self.forget_dead_readers()
        with self.writing():
            try:
                given = give_back(self.environment, os.path.join(self.path, _FILE), least, pause, stop)
            except OSError as error:
                given = Given(error=error)
        if given.error is not None and given.error.errno != self._told:
            log.warning('not all free space of the tables in "%s" could be returned: %s', self.path, given.error)
        if given.whole:
            self._told = None if given.error is None else given.error.errno
        return given

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Reports failed writes with their place: 58030; 53100 for a full disk, or map. LMDB has undone them. LMDB
        calls a partial write an input/output error: it means that the disk is full."""
        try:
            yield
        except lmdb.MapFullError as error:
            raise SqlError("53100", f'the map of the tables in "{self.path}" is full') from error
        except lmdb.DiskError as error:
            raise self._full(str(error)) from error
        except lmdb.Error as error:
            if _IO_ERROR in str(error) and self._has_no_room():
                raise self._full("No space left on device") from error
            raise SqlError("58030", f'the tables in "{self.path}" cannot be written: {error}') from error

    def _full(self, why: str) -> SqlError:
        return SqlError(
            DISK_FULL,
            f'the tables in "{self.path}" cannot be written: {why}',
            hint="Free or add space on the file system.",
        )

    def _has_no_room(self) -> bool:
        status = os.statvfs(self.path)
        return status.f_bavail * status.f_frsize < NO_ROOM

    def drops_in(self, transaction: Any) -> list[int]:
        """The dropped storage ids whose keys may still exist, as a transaction of LMDB sees them."""
        return [int.from_bytes(name[len(DROP) :], "big") for name in self._names(transaction, DROP)]

    def _names(self, transaction: Any, prefix: bytes) -> list[bytes]:
        """The keys of `meta` that begin with a prefix."""
        cursor = transaction.cursor(db=self._meta)
        found = []
        if cursor.set_range(prefix):
            for name in cursor.iternext(values=False):
                if not name.startswith(prefix):
                    break
                found.append(name)
        return found

    def weighs(self, ranges: list[tuple[bytes, bytes]], most: int) -> bool:
        """Whether ranges of keys take at least this many bytes; False if that is unknown."""
        found = 0
        with suppress(SqlError), closing(self.pages()) as pages:
            for low, high in ranges:
                found += pages.bytes_of(low, high)
                if found >= most:
                    return True
        return False

    def pages(self) -> PageCounter:
        """A counter of the pages of ranges of keys; close it."""
        return PageCounter(self.environment, b"rows", self.rows)

    def adopt(self, tablespace: bytes, lsn: int, whole: bool = False) -> None:
        """Declares the content of this fresh environment a tablespace's exact state at an LSN; durable on return.
        `whole`: leaning storage ids that have been written in full."""
        with self.writing():
            with self.environment.begin(db=self._meta, write=True) as transaction:
                for name in self._get_base(transaction) if whole else ():
                    transaction.put(_WHOLE + name, b"")
                transaction.put(b"tablespace", tablespace)
                transaction.put(FLUSHED, U64.pack(lsn))
            self.environment.sync(True)
        self.tablespace, self.flushed_lsn = tablespace, lsn

    def _get_base(self, transaction: Any) -> list[bytes]:
        """The base prefixes of leaning storage ids."""
        low, high = BASE_RANGE
        cursor = transaction.cursor(db=self.rows)
        found = []
        if cursor.set_range(low):
            for key in cursor.iternext(values=False):
                if key >= high:
                    break
                found.append(key[len(low) :])
        return found

    def close(self) -> None:
        self.environment.close()


def _wait(process: Any, stop: Callable[[], bool]) -> None:
    """Waits until a process has ended, or must end."""
    while process.poll() is None and not stop():
        with suppress(subprocess.TimeoutExpired):
            process.wait(DELETING_LOOKS)


def _parts(keys: Column, values: Column) -> Iterator[tuple[int, int]]:
    """Ranges of rows of about PART_BYTES."""
    step = max(len(keys) * PART_BYTES // (keys.nbytes + values.nbytes), 1)
    for start in range(0, len(keys), step):
        yield start, min(start + step, len(keys))


def _frame(keys: Column, values: Column) -> Iterator[Any]:
    """The buffers of a batch for engine/storage/lmdb_writer.py."""
    (key_offsets, key_data), (value_offsets, value_data) = _buffers(keys), _buffers(values)
    yield HEADER.pack(len(keys), len(key_data), len(value_data), values.null_count > 0)
    yield from (key_offsets, key_data, value_offsets, value_data)
    if values.null_count:
        yield values.is_valid().to_numpy(zero_copy_only=False).view(np.uint8)


def _buffers(column: Column) -> tuple[Numbers, memoryview]:
    """Offsets (int64, one more than rows; they need not begin at 0) and the bytes from the first to the last."""
    column = column.cast(pa.large_binary())
    _, offsets, data = column.buffers()
    bounds = np.frombuffer(offsets, np.int64, len(column) + 1, 8 * column.offset)
    return bounds, memoryview(data or b"")[bounds[0] : bounds[-1]]
