"""Writes into LMDB, in this process or in a separate one.

    python -m engine.storage.lmdb_writer DIRECTORY MAP_BYTES put COMMIT_BYTES
    python -m engine.storage.lmdb_writer DIRECTORY MAP_BYTES delete KEYS NAME ...
    python -m engine.storage.lmdb_writer DIRECTORY MAP_BYTES pack KEYS FROM UPTO

py-lmdb releases the interpreter for each key that it puts or deletes, and then competes for it with the engine's
thread, which loses as much: 400,000 keys take 0.2 s alone, and 4 s beside a busy thread, which then works at three
quarters of its speed. So a separate process writes large layers and deletes large ranges. It gets its input on standard
input, and reports its result on standard output: "done", or one of MAP_FULL, DISK, OTHER, a space and LMDB's message.

`put` reads batches, as columns:

    batch    u32 rows, u64 bytes of keys, u64 of values, u8 whether some are deleted;
             (rows + 1) x i64 offsets of the keys, the keys; the same of the values; with deletions: a byte a row, 0 for
             a row that is deleted
    end      u32 0, u64 the layer's LSN, u64 number of dropped storage ids, u8 0; a u32 each; further entries of `meta`:
             u32 their number, and of each u32 bytes of its name, i64 of its value (-1: it is deleted), both

If the input ends before the end of a layer (the server has died), the process undoes its work. `delete` continues until
the standard input ends: KEYS a transaction; the NAMEs mark the ranges in `meta`, in hexadecimal digits. `pack` rewrites
the keys of a range, so that they fill their pages, until the standard input ends: then the answer is "upto", a space,
and the next key.

The process inherits the lock of the directory, so no other server starts before it has ended
(engine/storage/tablespace.py). It imports no large modules, because it runs for a second or less.

LMDB's format of the content: engine/storage/checkpoint.py.
"""

from __future__ import annotations

import os
import select
import struct
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import pairwise, starmap
from typing import Any, BinaryIO

import lmdb

COMMIT_BYTES = 128 << 20
DROP_PAUSE = 0.01  # seconds between two slices
PACKED_BYTES = 8 << 20  # of values, from which on a packed slice is large enough
ENTRY_BYTES = 64  # an estimate for a key with LMDB's data about it
LEANS = 0x80
"""The first byte of keys from which on they lean (engine/storage/branch_storage.py): their deletions are empty
values."""

FLUSHED, DROP = b"flushed", b"drop"
MAP_FULL, DISK, OTHER = "map-full", "disk", "other"
DONE, UPTO = "done", "upto"

U32 = struct.Struct("<I")
U64 = struct.Struct("<Q")
HEADER = struct.Struct("<IQQB")
ENTRY = struct.Struct("<Iq")

Pairs = Sequence[tuple[bytes, bytes | None]]


class LayerWriter:
    """One layer that is written into an environment. `put` all of it, later slices over earlier ones, then `finish`.

    A layer beyond `commit_bytes` (bulk runs) takes several LMDB transactions, because LMDB keeps a transaction's pages
    in memory. Only the last one moves `flushed`. The writes of the earlier ones are hidden by the layer itself, which
    is read first until the end, and which the changelog restores after a crash.
    """

    def __init__(self, environment: lmdb.Environment, rows: Any, meta: Any, commit_bytes: int) -> None:
        self._begin: Callable[[], lmdb.Transaction] = lambda: environment.begin(db=rows, write=True)
        self._meta = meta
        self._commit_bytes = commit_bytes
        self._size = 0
        self._transaction: lmdb.Transaction | None = None

    def put(self, pairs: Pairs) -> None:
        """Keys with their values, None for a deletion. Raises lmdb.Error."""
        transaction = self._open()
        stored = [(key, value) for key, value in pairs if value is not None]
        self._size += len(pairs) * ENTRY_BYTES + sum([len(value) for _, value in stored])
        if len(stored) < len(pairs):
            for key in [key for key, value in pairs if value is None]:
                if key[0] >= LEANS:
                    transaction.put(key, b"")
                else:
                    transaction.delete(key)
        with transaction.cursor() as cursor:
            cursor.putmulti(stored)
        if self._size > self._commit_bytes:
            self._commit(transaction)

    def finish(self, lsn: int, drops: Iterable[int], entries: Pairs = ()) -> None:
        """The layer is complete: everything up to this LSN is durable. `drops`: storage ids to be deleted from now on.
        `entries`: further entries of `meta`. Raises lmdb.Error."""
        transaction = self._open()
        put_entries(transaction, self._meta, entries)
        for storage_id in drops:
            transaction.put(DROP + storage_id.to_bytes(4, "big"), b"", db=self._meta)
        transaction.put(FLUSHED, U64.pack(lsn), db=self._meta)
        self._commit(transaction)

    def abandon(self) -> None:
        """Undoes what has not been committed; nothing after `finish`."""
        if self._transaction is not None:
            self._transaction.abort()
            self._transaction = None

    def _open(self) -> lmdb.Transaction:
        if self._transaction is None:
            self._transaction = self._begin()
        return self._transaction

    def _commit(self, transaction: lmdb.Transaction) -> None:
        self._transaction, self._size = None, 0
        transaction.commit()


def put_entries(transaction: lmdb.Transaction, meta: Any, entries: Pairs) -> None:
    """Puts names with their values, None for a deletion, into `meta`. Raises lmdb.Error."""
    for name, value in entries:
        if value is None:
            transaction.delete(name, db=meta)
        else:
            transaction.put(name, value, db=meta)


def failure(error: lmdb.Error) -> str:
    """The result of a failed write as one line: its kind, a space, LMDB's message."""
    kind = MAP_FULL if isinstance(error, lmdb.MapFullError) else DISK if isinstance(error, lmdb.DiskError) else OTHER
    return f"{kind} {error}"


def delete_slice(environment: lmdb.Environment, rows: Any, meta: Any, name: bytes, count: int) -> bool:
    """Deletes `count` keys of a range that is marked in `meta`. Deletes all remaining keys and the mark, and returns
    False, if there are fewer. Raises lmdb.Error."""
    prefix = name[len(DROP) :]
    with environment.begin(db=rows, write=True) as transaction, transaction.cursor() as cursor:
        found = cursor.set_range(prefix)
        for _ in range(count):
            if not found or not cursor.key().startswith(prefix):
                cursor.close()
                transaction.delete(name, db=meta)
                return False
            found = cursor.delete() and bool(cursor.key())
    return True


def pack_slice(environment: lmdb.Environment, rows: Any, low: bytes, high: bytes, count: int) -> bytes | None:
    """Removes up to `count` of the keys in [low, high) and puts them again, in one transaction: keys in order fill
    their pages. Returns the next key, None at the end. Raises lmdb.Error."""
    with environment.begin(db=rows, write=True) as transaction, transaction.cursor() as cursor:
        taken: list[tuple[bytes, bytes]] = []
        found, size = cursor.set_range(low), 0
        while found and (key := cursor.key()) < high and len(taken) < count and size < PACKED_BYTES:
            taken.append((key, cursor.value()))
            size += len(taken[-1][1])
            found = cursor.delete() and bool(cursor.key())
        following = cursor.key() if found and cursor.key() < high else None
        cursor.putmulti(taken)
    return following


def receive(source: BinaryIO, writer: LayerWriter) -> None:
    """Writes a layer that arrives in the form above. Raises EOFError if the input ends too early, lmdb.Error."""
    while True:
        rows, key_bytes, value_bytes, deletions = HEADER.unpack(_exactly(source, HEADER.size))
        if not rows:
            drops = _exactly(source, U32.size * value_bytes)
            (count,) = U32.unpack(_exactly(source, U32.size))
            entries = [_entry(source) for _ in range(count)]
            writer.finish(key_bytes, [number for (number,) in U32.iter_unpack(drops)], entries)
            return
        keys = _column(source, rows, key_bytes)
        values: list[bytes | None] = list(_column(source, rows, value_bytes))
        if deletions:
            kept = _exactly(source, rows)
            values = [value if here else None for value, here in zip(values, kept, strict=True)]
        writer.put(list(zip(keys, values, strict=True)))


def frame_end(lsn: int, drops: Sequence[int], entries: Pairs) -> Iterator[bytes]:
    """The end of a layer in the form that `receive` reads."""
    yield HEADER.pack(0, lsn, len(drops), 0)
    yield from map(U32.pack, drops)
    yield U32.pack(len(entries))
    for name, value in entries:
        yield ENTRY.pack(len(name), -1 if value is None else len(value))
        yield name
        yield value or b""


def _entry(source: BinaryIO) -> tuple[bytes, bytes | None]:
    name_bytes, value_bytes = ENTRY.unpack(_exactly(source, ENTRY.size))
    return _exactly(source, name_bytes), None if value_bytes < 0 else _exactly(source, value_bytes)


def _column(source: BinaryIO, rows: int, size: int) -> list[bytes]:
    offsets = memoryview(_exactly(source, 8 * (rows + 1))).cast("q").tolist()
    data = _exactly(source, size)
    start = offsets[0]
    if start:
        offsets = [offset - start for offset in offsets]
    return list(map(data.__getitem__, starmap(slice, pairwise(offsets))))


def _exactly(source: BinaryIO, size: int) -> bytes:
    data = source.read(size)
    if len(data) < size:
        raise EOFError
    return data


def main(arguments: Sequence[str]) -> int:
    """The process; its exit status."""
    directory, map_bytes, what, *more = arguments
    try:
        with lmdb.open(directory, map_size=int(map_bytes), max_dbs=4, max_readers=1024, readahead=False) as environment:
            rows, meta = (environment.open_db(name, create=False) for name in (b"rows", b"meta"))
            answer = DONE
            if what == "put":
                _put(environment, rows, meta, int(more[0]))
            elif what == "delete":
                _delete(environment, rows, meta, int(more[0]), map(bytes.fromhex, more[1:]))
            else:
                left = _pack(environment, rows, int(more[0]), bytes.fromhex(more[1]), bytes.fromhex(more[2]))
                answer = DONE if left is None else f"{UPTO} {left.hex()}"
    except EOFError:
        return 1
    except lmdb.Error as error:
        answer = failure(error)
    print(answer, flush=True)
    return 0


def _put(environment: lmdb.Environment, rows: Any, meta: Any, commit_bytes: int) -> None:
    writer = LayerWriter(environment, rows, meta, commit_bytes)
    try:
        receive(sys.stdin.buffer, writer)
    finally:
        writer.abandon()


def _delete(environment: lmdb.Environment, rows: Any, meta: Any, count: int, names: Iterable[bytes]) -> None:
    for name in names:
        while delete_slice(environment, rows, meta, name, count):
            if select.select([sys.stdin], [], [], DROP_PAUSE)[0]:  # it has ended
                return


def _pack(environment: lmdb.Environment, rows: Any, count: int, low: bytes, high: bytes) -> bytes | None:
    left: bytes | None = low
    while left is not None:
        left = pack_slice(environment, rows, left, high, count)
        if select.select([sys.stdin], [], [], DROP_PAUSE)[0]:  # it has ended
            break
    return left


if __name__ == "__main__":
    os.umask(0o077)
    sys.exit(main(sys.argv[1:]))
