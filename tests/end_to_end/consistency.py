"""A stopped server's directory, looked at from inside: every index entry has its row and every row its entries."""

from __future__ import annotations

import os
import pathlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from catalog.schema import Table
from engine.bulk.encode import TableEncoder
from engine.bulk.rows import RowSet
from engine.columnar.client import WorkerClient
from engine.node.node import Node
from engine.storage.keys import prefix_range, storage_prefix
from engine.storage.newest import NewestRows
from engine.storage.tablespace import Tablespace
from shoal.data_directory import open_spaces


def _at_once(work: Callable[[], None]) -> None:
    work()


def _fatal(error: BaseException) -> None:
    raise AssertionError(f"storage failed: {error}")


@contextmanager
def opened(data: pathlib.Path) -> Iterator[Node]:
    """The directory's node in this process, recovered as a server would; flushed when it is closed."""
    spaces = open_spaces(data, _at_once, _fatal)
    store = spaces.open()
    try:
        node = Node(store, WorkerClient(store, str(data / "columnar")), tablespaces=spaces)
        node.bootstrap()
        yield node
    finally:
        spaces.close()


async def problems(data: pathlib.Path) -> list[str]:
    """What is wrong: index entries without rows, rows without entries, files that nothing refers to."""
    found: list[str] = []
    with opened(data):
        pass  # flushes what there is, so that nothing refers to files any more
    with opened(data) as node:
        for catalog in node.catalogs.values():
            for table in [item for item in catalog.objects.values() if isinstance(item, Table)]:
                found += await _of_table(node.store.of(table.storage_id), TableEncoder(catalog, table))
    for directory in (data, *data.glob("tablespaces/*")):
        bulk = os.listdir(directory / "changelog" / "bulk")
        if bulk:
            found.append(f"bulk files that nothing refers to: {bulk}")
    return found


async def _of_table(store: Tablespace, encoder: TableEncoder) -> list[str]:
    expected: dict[int, dict[bytes, bytes]] = {index.index.storage_id: {} for index in encoder.indexes}
    numbers = [column.number for column in encoder.table.columns]
    newest = await NewestRows.open(store, encoder.table.storage_id)
    for keys, stored in newest.batches():
        batch = encoder.codec.batches.decode(stored, numbers)
        rows = RowSet(encoder.table, len(stored), dict(zip(numbers, batch.columns, strict=True)))
        if encoder.table.key_columns and encoder.keys(rows).to_pylist() != keys.to_pylist():
            return [f"{encoder.table.name}: rows under keys that are not theirs"]
        for index in encoder.indexes:
            entries, values, _ = encoder.entries(index, rows, keys)
            expected[index.index.storage_id].update(zip(entries.to_pylist(), values.to_pylist(), strict=True))
    found = []
    for index in encoder.indexes:
        low, high = prefix_range(storage_prefix(index.index.storage_id))
        there = dict(store.scan(low, high, store.sequenced_lsn))
        wanted = expected[index.index.storage_id]
        if there != wanted:
            lacks, has = len(wanted.keys() - there.keys()), len(there.keys() - wanted.keys())
            found.append(f"{index.index.name}: {lacks} entries are missing, {has} are too many, of {len(wanted)}")
    return found
