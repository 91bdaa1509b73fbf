"""The LMDB environment of a tablespace: its format, and how layers get into it.

Two databases: `rows` (every key of every table and index, storage id first) and `meta`:

    format     u32  the version of all that is written here; a newer one is refused
    tablespace 16 bytes, made up when the directory is
    flushed    u64  every change up to this LSN is in `rows`
    drop<id>   a storage id (4 bytes, big-endian) whose range is being deleted
    whole<id>  a storage id (4 bytes, big-endian) that leans on nothing here (engine/storage/leaning.py)

A layer is written in one LMDB transaction that also moves `flushed`, so the file is the exact state at that LSN
whenever the process ends. (A large bulk layer takes several, see engine/storage/writing.py: then some keys may already
have what they get at the layer's own LSN.) The map is far larger than any disk: it costs address space only, so it is
never full. No WRITEMAP (a full disk would be SIGBUS). A failed commit is fatal: the system may have thrown the pages
away and let the next sync succeed.
"""

from __future__ import annotations

import logging
import os
import pathlib
import shutil
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

from catalog.errors import SqlError
from engine.priority import beside
from engine.storage.columns import Column, Numbers
from engine.storage.keys import storage_prefix
from engine.storage.leaning import BASE_RANGE
from engine.storage.pages import PageCounter
from engine.storage.views import Layer
from engine.storage.writing import (
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
    LayerWriter,
    delete_slice,
)

log = logging.getLogger("shoal.storage")

FORMAT = 1
MIN_MAP = 1 << 40
APART_KEYS = 20_000  # layers of that many are written by a process of its own, which takes 50 ms to start
SLICE = 512
PART_BYTES = 4 << 20
DROP_SLICE = 5000  # keys
DELETING_LOOKS = 0.05  # seconds after which a deletion looks whether it is to stop

_WHOLE = b"whole"
_FILE = "data.mdb"  # LMDB's name for it
_MAKING = "making"  # the folder of an environment that is not all there
_PACKAGES = str(pathlib.Path(__file__).resolve().parents[2])  # where `engine` is imported from


class FormatTooNew(SqlError):  # noqa: N818 - named for what is the matter
    """The directory was written by a newer release (XX001)."""

    def __init__(self, path: str, found: int) -> None:
        super().__init__("XX001", f'directory "{path}" has format {found}, this release reads up to {FORMAT}')


def sync_directory(path: str) -> None:
    """What was made, renamed and removed in it stays so."""
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
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
        """`identity`: the tablespace's id if the environment is new; default: one that nobody else has. `lock`: the
        descriptor of a lock that keeps others out, which processes that write here are to hold too; None: there are no
        such processes."""
        os.makedirs(path, exist_ok=True)
        self._lock = lock
        self.path = path
        if os.path.isdir(making := os.path.join(path, _MAKING)):
            shutil.rmtree(making)  # of one that ended meanwhile
        if not os.path.exists(os.path.join(path, _FILE)):
            self._make(identity)
        self._open(path, identity)

    def _make(self, identity: bytes | None) -> None:
        """The file of a new environment, which is there whole or not at all: LMDB cannot open half of one."""
        apart = os.path.join(self.path, _MAKING)
        os.mkdir(apart)
        self._open(apart, identity)
        self.environment.close()
        os.rename(os.path.join(apart, _FILE), os.path.join(self.path, _FILE))
        shutil.rmtree(apart)
        sync_directory(self.path)

    def _open(self, path: str, identity: bytes | None) -> None:
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
        """The databases in the environment, made if it is new. Raises lmdb.Error, FormatTooNew."""
        self.environment.reader_check()
        self.rows: Any = self.environment.open_db(b"rows")
        self._meta: Any = self.environment.open_db(b"meta")
        with self.environment.begin(db=self._meta) as transaction:
            fresh = transaction.get(b"format") is None
        if fresh:
            with self.environment.begin(db=self._meta, write=True) as transaction:
                transaction.put(b"format", U32.pack(FORMAT))
                transaction.put(b"tablespace", identity or uuid.uuid4().bytes)
                transaction.put(FLUSHED, U64.pack(0))
        with self.environment.begin(db=self._meta) as transaction:
            (version,) = U32.unpack(transaction.get(b"format") or b"")
            if version > FORMAT:
                self.environment.close()
                raise FormatTooNew(self.path, version)
            self.tablespace = transaction.get(b"tablespace") or b""
            self.flushed_lsn: int = U64.unpack(transaction.get(FLUSHED) or b"")[0]
            self.whole = frozenset(name[len(_WHOLE) :] for name in self._names(transaction, _WHOLE))

    @property
    def file_bytes(self) -> tuple[int, int]:
        """Bytes of the file, and those of its pages that have ever been used."""
        pages = self.environment.info()["last_pgno"] + 1
        return os.path.getsize(os.path.join(self.path, _FILE)), pages * self.environment.stat()["psize"]

    def write(self, layer: Layer, pause: Callable[[float], None]) -> None:
        """Writes a frozen layer, synced. `pause` is called between slices with the processor seconds that one took."""
        with self.writing():
            if self._lock is None or layer.keys < APART_KEYS or not self._write_apart(layer, pause, self._lock):
                self._write_here(layer, pause)
        self.flushed_lsn = layer.last_lsn

    def _write_here(self, layer: Layer, pause: Callable[[float], None]) -> None:
        writer = LayerWriter(self.environment, self.rows, self._meta, COMMIT_BYTES)
        try:
            for keys, values in layer.newest():
                for start in range(0, len(keys), SLICE):
                    started = time.thread_time()
                    part = keys.slice(start, SLICE).to_pylist(), values.slice(start, SLICE).to_pylist()
                    writer.put(list(zip(*part, strict=True)))
                    pause(time.thread_time() - started)
            writer.finish(layer.last_lsn, layer.drops)
        finally:
            writer.abandon()

    def _write_apart(self, layer: Layer, pause: Callable[[float], None], lock: int) -> bool:
        """Lets a process of its own do it. False if none could be started."""
        with self._process(lock, "put", str(COMMIT_BYTES)) as process:
            if process is None:
                return False
            with suppress(BrokenPipeError), closing(process.stdin) as sink:  # it says why it has ended
                for keys, values in layer.newest():
                    for start, stop in _parts(keys, values):
                        started = time.thread_time()
                        sink.writelines(_frame(keys[start:stop], values[start:stop]))
                        pause(time.thread_time() - started)
                sink.write(HEADER.pack(0, layer.last_lsn, len(layer.drops), 0))
                sink.writelines(map(U32.pack, layer.drops))
        return True

    def _delete_apart(self, names: list[bytes], stop: Callable[[], bool], lock: int) -> bool:
        """Lets a process of its own delete ranges, until `stop`. False if none could be started."""
        with self._process(lock, "delete", str(DROP_SLICE), *(name.hex() for name in names)) as process:
            if process is None:
                return False
            while process.poll() is None and not stop():
                with suppress(subprocess.TimeoutExpired):
                    process.wait(DELETING_LOOKS)
        return True

    @contextmanager
    def _process(self, lock: int, *command: str) -> Iterator[Any]:
        """A process that writes here (engine/storage/writing.py), which is to end with the block, or None. Raises what
        it has met."""
        try:
            process = subprocess.Popen(
                [sys.executable, "-P", "-m", "engine.storage.writing", self.path, str(map_size(self.path)), *command],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                pass_fds=(lock,),
                env={**os.environ, "PYTHONPATH": _PACKAGES},
                start_new_session=True,  # a key on the terminal is for the server, and so are its parts of processors
            )
        except OSError as error:
            log.warning("the server itself writes its tables, a process for it cannot be started: %s", error)
            yield None
            return
        with process, beside(process.pid):
            assert process.stdin is not None and process.stdout is not None
            try:
                yield process
            finally:
                process.stdin.close()
            answer = process.stdout.read().decode(errors="replace").rstrip("\n")
        if answer != DONE:
            self._not_done(answer, process.returncode)

    def _not_done(self, answer: str, status: int) -> NoReturn:
        """The error of a process that wrote here and has not done it."""
        kind, _, text = answer.partition(" ")
        if kind == MAP_FULL:
            raise lmdb.MapFullError(text)
        if kind == DISK:
            raise lmdb.DiskError(text)
        raise lmdb.Error(text or f"the process that wrote them has ended with status {status}")

    def delete_dropped(self, pause: Callable[[float], None], stop: Callable[[], bool]) -> None:
        """Deletes the ranges of dropped storage ids, a slice a transaction, until `stop`; goes on where the last call,
        or one before a crash, has ended."""
        with self.environment.begin(db=self._meta) as transaction:
            names = [DROP + storage_prefix(storage_id) for storage_id in self.drops_in(transaction)]
        lock = self._lock
        with self.writing():
            while names and not stop():
                if not delete_slice(self.environment, self.rows, self._meta, names[0], DROP_SLICE):
                    del names[0]
                elif lock is not None:  # a large one
                    if self._delete_apart(names, stop, lock):
                        return
                    lock = None  # it is done here after all
                pause(DROP_PAUSE)

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Says what could not be written, and where: 58030; 53100 for a full disk, or map. LMDB has undone it."""
        try:
            yield
        except lmdb.MapFullError as error:
            raise SqlError("53100", f'the map of the tables in "{self.path}" is full') from error
        except lmdb.DiskError as error:
            raise SqlError("53100", f'the tables in "{self.path}" cannot be written: {error}') from error
        except lmdb.Error as error:
            raise SqlError("58030", f'the tables in "{self.path}" cannot be written: {error}') from error

    def drops_in(self, transaction: Any) -> list[int]:
        """The storage ids that are dropped and whose keys may still be there, as a transaction of LMDB sees it."""
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

    def pages(self) -> PageCounter:
        """What counts the pages of ranges of keys; close it."""
        return PageCounter(self.environment, b"rows", self.rows)

    def adopt(self, tablespace: bytes, lsn: int, whole: bool = False) -> None:
        """What was written into this fresh environment is a tablespace's exact state at an LSN; durable on return.
        `whole`: what leans on others has been written in full."""
        with self.writing():
            with self.environment.begin(db=self._meta, write=True) as transaction:
                for name in self._based(transaction) if whole else ():
                    transaction.put(_WHOLE + name, b"")
                transaction.put(b"tablespace", tablespace)
                transaction.put(FLUSHED, U64.pack(lsn))
            self.environment.sync(True)
        self.tablespace, self.flushed_lsn = tablespace, lsn

    def _based(self, transaction: Any) -> list[bytes]:
        """The prefixes of the storage ids that lean on others."""
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


def _parts(keys: Column, values: Column) -> Iterator[tuple[int, int]]:
    """Ranges of rows of about PART_BYTES."""
    step = max(len(keys) * PART_BYTES // (keys.nbytes + values.nbytes), 1)
    for start in range(0, len(keys), step):
        yield start, min(start + step, len(keys))


def _frame(keys: Column, values: Column) -> Iterator[Any]:
    """The buffers of a batch on its way to engine/storage/writing.py."""
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
