"""The LMDB environment of a tablespace: its format, and how layers get into it.

Two databases: `rows` (every key of every table and index, storage id first) and `meta`:

    format     u32  the version of all that is written here; a newer one is refused
    tablespace 16 bytes, made up when the directory is
    flushed    u64  every change up to this LSN is in `rows`
    drop<id>   a storage id (4 bytes, big-endian) whose range is being deleted
    whole<id>  a storage id (4 bytes, big-endian) that leans on nothing here (engine/storage/leaning.py)

A layer is written in one LMDB transaction that also moves `flushed`, so the file is the exact state at that LSN
whenever the process ends. (A large bulk layer takes several, see `write`: then some keys may already have what they get
at the layer's own LSN.) The map is far larger than any disk: it costs address space only, so it is never full.
No WRITEMAP (a full disk would be SIGBUS). A failed commit is fatal: the system may have thrown the pages away and let
the next sync succeed.
"""

from __future__ import annotations

import os
import struct
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import lmdb

from catalog.errors import SqlError
from engine.storage.keys import storage_prefix
from engine.storage.leaning import BASE_RANGE, LEANS
from engine.storage.pages import PageCounter
from engine.storage.views import Layer

FORMAT = 1
MIN_MAP = 1 << 40
DROP_SLICE = 5000
COMMIT_BYTES = 128 << 20
ENTRY_BYTES = 64  # of a key and what LMDB keeps beside it

_U32 = struct.Struct("<I")
_U64 = struct.Struct("<Q")
_DROP, _WHOLE = b"drop", b"whole"


class FormatTooNew(SqlError):  # noqa: N818 - named for what is the matter
    """The directory was written by a newer release (XX001)."""

    def __init__(self, path: str, found: int) -> None:
        super().__init__("XX001", f'directory "{path}" has format {found}, this release reads up to {FORMAT}')


def map_size(path: str) -> int:
    """Bytes of address space for the environment in this directory: more than its file system can ever hold."""
    status = os.statvfs(path)
    return max(MIN_MAP, 2 * status.f_blocks * status.f_frsize)


class Checkpoint:
    """One open LMDB environment, for reading and writing."""

    def __init__(self, path: str, identity: bytes | None = None) -> None:
        """`identity`: the tablespace's id if the environment is new; default: one that nobody else has."""
        os.makedirs(path, exist_ok=True)
        self.path = path
        try:
            self.environment: Any = lmdb.open(
                path, map_size=map_size(path), max_dbs=4, max_readers=1024, readahead=False, mode=0o600
            )
        except lmdb.Error as error:
            raise SqlError("XX001", f'the tables in "{path}" cannot be opened: {error}') from error
        try:
            self._open(identity)
        except lmdb.Error as error:
            self.environment.close()
            raise SqlError("58030", f'the tables in "{path}" cannot be opened: {error}') from error

    def _open(self, identity: bytes | None) -> None:
        """The databases in the environment, made if it is new. Raises lmdb.Error, FormatTooNew."""
        self.environment.reader_check()
        self.rows: Any = self.environment.open_db(b"rows")
        self._meta: Any = self.environment.open_db(b"meta")
        with self.environment.begin(db=self._meta) as transaction:
            fresh = transaction.get(b"format") is None
        if fresh:
            with self.environment.begin(db=self._meta, write=True) as transaction:
                transaction.put(b"format", _U32.pack(FORMAT))
                transaction.put(b"tablespace", identity or uuid.uuid4().bytes)
                transaction.put(b"flushed", _U64.pack(0))
        with self.environment.begin(db=self._meta) as transaction:
            (version,) = _U32.unpack(transaction.get(b"format") or b"")
            if version > FORMAT:
                self.environment.close()
                raise FormatTooNew(self.path, version)
            self.tablespace = transaction.get(b"tablespace") or b""
            self.flushed_lsn: int = _U64.unpack(transaction.get(b"flushed") or b"")[0]
            self.whole = frozenset(name[len(_WHOLE) :] for name in self._names(transaction, _WHOLE))

    @property
    def file_bytes(self) -> tuple[int, int]:
        """Bytes of the file, and those of its pages that have ever been used."""
        pages = self.environment.info()["last_pgno"] + 1
        return os.path.getsize(os.path.join(self.path, "data.mdb")), pages * self.environment.stat()["psize"]

    def write(self, layer: Layer, pause: Callable[[float], None]) -> None:
        """Writes a frozen layer, synced. `pause` is called between slices with the processor seconds that one took.

        A layer beyond COMMIT_BYTES (bulk runs) takes several LMDB transactions, of which only the last moves `flushed`:
        LMDB keeps a transaction's pages in memory. What the earlier ones wrote is hidden by the layer itself, which is
        read first until the end, and which the changelog brings back after a crash.
        """
        parts = layer.newest()
        with self.writing():
            while not self._write_some(layer, parts, pause):
                pass
        self.flushed_lsn = layer.last_lsn

    def _write_some(
        self, layer: Layer, parts: Iterator[list[tuple[bytes, bytes | None]]], pause: Callable[[float], None]
    ) -> bool:
        """One LMDB transaction. True when it was the layer's last."""
        size = 0
        with self.environment.begin(db=self.rows, write=True) as transaction:
            cursor = transaction.cursor()
            for part in parts:
                started = time.thread_time()
                values = [value for _, value in part]
                size += len(part) * ENTRY_BYTES + sum(map(len, filter(None, values)))
                stored = part
                if None in values:
                    stored = [item for item in part if item[1] is not None]
                    for key in [key for key, value in part if value is None]:
                        if key[0] >= LEANS:
                            transaction.put(key, b"")
                        else:
                            transaction.delete(key)
                cursor.putmulti(stored)
                pause(time.thread_time() - started)
                if size > COMMIT_BYTES:
                    return False
            for storage_id in layer.drops:
                transaction.put(_DROP + storage_prefix(storage_id), b"", db=self._meta)
            transaction.put(b"flushed", _U64.pack(layer.last_lsn), db=self._meta)
        return True

    def delete_dropped(self, pause: Callable[[float], None], stop: Callable[[], bool]) -> None:
        """Deletes the ranges of dropped storage ids, a slice a transaction, until `stop`; goes on where the last call,
        or one before a crash, has ended."""
        with self.environment.begin(db=self._meta) as transaction:
            names = [_DROP + storage_prefix(storage_id) for storage_id in self.drops_in(transaction)]
        with self.writing():
            for name in names:
                while not stop() and self._delete_slice(name):
                    pause(0.01)

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
        return [int.from_bytes(name[len(_DROP) :], "big") for name in self._names(transaction, _DROP)]

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
                transaction.put(b"flushed", _U64.pack(lsn))
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

    def _delete_slice(self, name: bytes) -> bool:
        """Deletes some keys of a dropped storage id. False when it was the last of them."""
        prefix = name[len(_DROP) :]
        with self.environment.begin(db=self.rows, write=True) as transaction:
            cursor = transaction.cursor()
            found = cursor.set_range(prefix)
            for _ in range(DROP_SLICE):
                if not found or not cursor.key().startswith(prefix):
                    cursor.close()
                    transaction.delete(name, db=self._meta)
                    return False
                found = cursor.delete() and bool(cursor.key())
            cursor.close()
        return True

    def close(self) -> None:
        self.environment.close()
