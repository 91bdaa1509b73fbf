"""Reads a table from LMDB in another process: the columnar worker builds its first copy in this way.

The environment is opened read-only beside the writing process. LMDB's lock file keeps the pages of an open read
transaction from being reused. The LSN comes from the same transaction as the rows, so they are the exact state at it.
"""

from __future__ import annotations

import struct
from collections.abc import Generator, Iterator, Sequence
from itertools import islice
from typing import Any

import lmdb
import pyarrow as pa

from engine.storage.branch_storage import known_values, leans, moved_keys
from engine.storage.checkpoint import map_size
from engine.storage.columns import Column, binary_array
from engine.storage.key_notes import changed_keys
from engine.storage.keys import prefix_range, storage_prefix
from engine.storage.leaves import Leaves
from engine.storage.merging import Pair, merge_batches
from engine.storage.row_batches import RowBatches

BATCH_ROWS = 65_536


def read_table_batches(
    path: str, storage_id: int, codec: RowBatches, bases: Sequence[int] = (), batch_rows: int = BATCH_ROWS
) -> tuple[int, Generator[tuple[Column, Any], None, None]]:
    """(flushed LSN, iterator over the table): batches of the rows' keys (a binary array) and a pyarrow RecordBatch with
    columns c<number>.

    `path` is `Tablespace.checkpoint_path`. The hidden row numbers of a table without a primary key are in the keys
    (engine/storage/keys.py). `bases`: the storage ids that it leans on, nearest first
    (engine/storage/branch_storage.py). Exhausting or closing the iterator closes the environment.
    """
    environment, rows, meta, transaction = _open(path)
    flushed = _flushed_lsn(transaction, meta)
    return flushed, _batches(environment, transaction, rows, (storage_id, *bases), codec, batch_rows)


def read_changes(
    path: str, storage_id: int, token: bytes, after: int, batch_rows: int = BATCH_ROWS
) -> tuple[int, int, Generator[Pair, None, None]] | None:
    """(flushed LSN, number of keys, iterator): the keys of a table that were flushed after an LSN, in order, in batches
    with their present values (NULL for a deletion). None if the list with this token does not have all of them
    (engine/storage/key_notes.py). Exhausting or closing the iterator closes the environment."""
    environment, rows, meta, transaction = _open(path)
    keys = changed_keys(transaction, meta, storage_id, token, after)
    if keys is None:
        transaction.abort()
        environment.close()
        return None
    return _flushed_lsn(transaction, meta), len(keys), _values(environment, transaction, rows, keys, batch_rows)


def _values(
    environment: Any, transaction: Any, rows: Any, keys: Column, batch_rows: int
) -> Generator[Pair, None, None]:
    try:
        with transaction.cursor(db=rows) as cursor:
            for start in range(0, len(keys), batch_rows):
                part = keys.slice(start, batch_rows)
                names = part.to_pylist()
                found = dict(cursor.getmulti(names))
                yield pa.array(names, pa.binary()), pa.array(list(map(found.get, names)), pa.binary())
    finally:
        transaction.abort()
        environment.close()


def _open(path: str) -> tuple[Any, Any, Any, Any]:
    """The environment, its databases, and a transaction."""
    environment: Any = lmdb.open(
        path, map_size=map_size(path), max_dbs=4, readonly=True, readahead=True, create=False, max_readers=1024
    )
    rows = environment.open_db(b"rows", create=False)
    meta = environment.open_db(b"meta", create=False)
    return environment, rows, meta, environment.begin()


def _flushed_lsn(transaction: Any, meta: Any) -> int:
    (flushed,) = struct.unpack("<Q", transaction.get(b"flushed", db=meta))
    return int(flushed)


def _batches(
    environment: Any, transaction: Any, rows: Any, storage_ids: Sequence[int], codec: RowBatches, batch_rows: int
) -> Generator[tuple[Column, Any], None, None]:
    try:
        if not leans(storage_ids[0]):
            for keys, values in _read_rows(environment, transaction, rows, storage_ids[0], batch_rows):
                yield keys, codec.decode(values)
            return
        parts = [_read_rows(environment, transaction, rows, storage_id, batch_rows) for storage_id in storage_ids]
        prefix = storage_prefix(storage_ids[0])
        for keys, values in merge_batches([_move_rows(part, prefix) for part in parts]):
            yield keys, codec.decode(values.to_pylist())
    finally:
        transaction.abort()
        environment.close()


def _read_rows(environment: Any, transaction: Any, rows: Any, storage_id: int, batch_rows: int) -> Iterator[Pair]:
    """All keys and values of a storage id in batches: page by page, or by a cursor if that is impossible."""
    low, high = prefix_range(storage_prefix(storage_id))
    leaves = Leaves.of(environment, b"rows", transaction)
    try:
        for part in [(low, high)] if leaves is None else leaves.batches(low, high):
            if isinstance(part[0], bytes):
                for keys, values in _pairs(transaction.cursor(db=rows), part[0], part[1], batch_rows):
                    yield binary_array(keys), binary_array(values)
            else:
                yield part
    finally:
        if leaves is not None:
            leaves.close()


def _pairs(cursor: Any, low: bytes, high: bytes, batch_rows: int) -> Iterator[tuple[Sequence[bytes], Sequence[bytes]]]:
    """Everything from `low` on, before `high`, in batches: keys, values."""
    found = cursor.set_range(low)
    items = cursor.iternext()
    while found:
        part = list(islice(items, batch_rows))
        last = len(part) < batch_rows or part[-1][0] >= high
        if last:
            while part and part[-1][0] >= high:
                part.pop()
        if part:
            keys, values = zip(*part, strict=True)
            yield keys, values
        found = not last


def _move_rows(parts: Iterator[Pair], prefix: bytes) -> Iterator[Pair]:
    """The same rows under another prefix, with deletions as NULL."""
    for keys, values in parts:
        yield moved_keys(keys, prefix), known_values(values)
