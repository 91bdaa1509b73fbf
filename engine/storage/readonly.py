"""Reading a table from LMDB in another process: how the columnar worker first builds its copy.

The environment is opened read-only beside the process that writes it; LMDB's lock file keeps the pages of an open read
transaction from being reused. The LSN comes from the same transaction as the rows, so they are the exact state at it.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from itertools import islice
from typing import Any

import lmdb

from engine.storage.checkpoint import map_size
from engine.storage.columns import Column, binary_array
from engine.storage.keys import prefix_range, storage_prefix
from engine.storage.row_batches import RowBatches

BATCH_ROWS = 65_536


def read_table_batches(
    path: str, storage_id: int, codec: RowBatches, batch_rows: int = BATCH_ROWS
) -> tuple[int, Iterator[tuple[Column, Any]]]:
    """(flushed LSN, iterator over the table): batches of the rows' keys (a binary array) and a pyarrow RecordBatch with
    columns c<number>.

    `path` is `Tablespace.checkpoint_path`. The hidden row numbers of a table without a primary key are in the keys
    (engine/storage/keys.py). Exhausting or closing the iterator closes the environment.
    """
    environment: Any = lmdb.open(
        path, map_size=map_size(path), max_dbs=4, readonly=True, readahead=True, create=False, max_readers=1024
    )
    rows = environment.open_db(b"rows", create=False)
    meta = environment.open_db(b"meta", create=False)
    transaction = environment.begin()
    (flushed,) = struct.unpack("<Q", transaction.get(b"flushed", db=meta))
    return flushed, _batches(environment, transaction, rows, storage_id, codec, batch_rows)


def _batches(
    environment: Any, transaction: Any, rows: Any, storage_id: int, codec: RowBatches, batch_rows: int
) -> Iterator[tuple[Column, Any]]:
    low, high = prefix_range(storage_prefix(storage_id))
    try:
        cursor = transaction.cursor(db=rows)
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
                yield binary_array(keys), codec.decode(values)
            found = not last
    finally:
        transaction.abort()
        environment.close()
