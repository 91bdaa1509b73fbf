"""Compares the analytic worker's copies of tables with the rows: a part of `shoal_check_indexes()`, and of a check of
all replicas (engine/checks.py).

The worker computes the same sums over its copy and over the stored rows, which it receives in slices, as the overlay of
a query. A sum over the hashes of a column's values does not depend on the order of rows. A table without a copy in the
worker is skipped.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from catalog.errors import SqlError
from catalog.schema import Table
from engine.bulk.thread import BulkThread
from engine.checkpoint.capture import Capture, Pause
from engine.columnar.client import WorkerClient
from engine.columnar.frames import Buffer, encode_columns
from engine.columnar.interface import ColumnarQuery
from engine.storage.columns import takes_shapes
from engine.storage.moments import Moment

if TYPE_CHECKING:
    from engine.node_services import NodeServices
    from engine.storage.columns import Column
    from engine.storage.tablespace import Tablespace
    from engine.storage.views import Snapshot


@dataclass(frozen=True, slots=True)
class MomentReader:
    """Reads one tablespace at one LSN, as the reader of a columnar query does."""

    lsn: Moment
    get: Callable[[bytes], bytes | None]

    @classmethod
    def of(cls, snapshot: Snapshot, slot: int) -> MomentReader:
        return cls(Moment((0,) * slot + (snapshot.lsn,)), snapshot.get)


SLICE_ROWS = 65_536
SLICE_BYTES = 16 << 20
SUMMED = 1 << 128  # sums are kept below it


class CopyChecks:
    """Compares the worker's tables of one tablespace with a capture of its rows. Must be created in the same turn of
    the event loop as the capture."""

    def __init__(self, node: NodeServices, space: Tablespace, lsn: int) -> None:
        worker = self._worker = node.columnar
        self._tables = [
            (f"{catalog.schema_name(table.schema)}.{table.name}", table)
            for catalog in node.catalogs.values()
            for table in catalog.tables()
            if table.partitioning is None and table.persistence != "t"
            if worker.has_copy(table) and node.store.of(table.storage_id) is space
        ]
        self._snapshot = space.snapshot(lsn) if self._tables else None
        self._slot = space.slot

    async def compare(
        self, capture: Capture, thread: BulkThread, pause: Pause
    ) -> tuple[int, tuple[tuple[str, str], ...]]:
        """The number of compared tables, and the names of the tables that differ, each with the difference. The
        capture's state must be durable. A worker that ends meanwhile has no tables to compare."""
        count = 0
        wrong: list[tuple[str, str]] = []
        if self._snapshot is not None:
            reader = MomentReader.of(self._snapshot, self._slot)
            for name, table in self._tables:
                try:
                    found = await difference(self._worker, table, capture, reader, thread, pause)
                except SqlError as error:
                    found = None if error.sqlstate == "57P02" else f"the analytic copy cannot be read: {error.message}"
                count += found is not None
                if found:
                    wrong.append((name, found))
        self.close()
        return count, tuple(wrong)

    def close(self) -> None:
        """Releases the snapshot."""
        snapshot, self._snapshot = self._snapshot, None
        if snapshot is not None:
            snapshot.close()


async def difference(
    worker: WorkerClient, table: Table, capture: Capture, reader: object, thread: BulkThread, pause: Pause
) -> str | None:
    """Describes the difference between a table and its copy: '' if they are equal, None if there is no copy. `reader`
    and `capture` have the same LSN, which is durable."""
    if not worker.has_copy(table):
        return None
    query = _sums_of(table)
    (copied,) = [sums async for sums in _answers(worker, query, reader, None)]
    stored = [0] * len(copied)
    slices = _slices(table, capture, pause)
    while (part := await thread.run(next, slices, None)) is not None:
        if not worker.has_copy(table):
            return None  # the table has been dropped meanwhile, or the worker has ended
        async for sums in _answers(worker, query, reader, part):
            stored = [(one + other) % SUMMED for one, other in zip(stored, sums, strict=True)]
    if copied[0] != stored[0]:
        return f"the analytic copy has {copied[0]} rows, the table {stored[0]}"
    wrong = [
        column.name for column, one, other in zip(table.columns, copied[1:], stored[1:], strict=True) if one != other
    ]
    return f"the analytic copy has other values in {', '.join(wrong)}" if wrong else ""


def _sums_of(table: Table) -> ColumnarQuery:
    sums = ["count(*)", *(f"coalesce(sum(hash(c{column.number})::HUGEINT), 0)" for column in table.columns)]
    shown = ", ".join(f"CAST({item} AS VARCHAR) AS s{number}" for number, item in enumerate(sums))
    number = table.storage_id
    if any(takes_shapes(column.type.oid) for column in table.columns):  # uses the form for arrays of any shape
        return ColumnarQuery(f"SELECT {shown} FROM {{w{number}}}", (), (table,), (), (), whole=True, arrays=(number,))
    return ColumnarQuery(f"SELECT {shown} FROM {{t{number}}}", (), (table,), (), ())


async def _answers(
    worker: WorkerClient, query: ColumnarQuery, reader: object, rows: list[Buffer] | None
) -> AsyncIterator[list[int]]:
    stream = await worker.batches(query, (), reader, rows=rows)
    try:
        async for batch in stream:
            found: Any = batch
            for row in found.to_pylist():
                yield [int(value) % SUMMED for value in row.values()]
    finally:
        await stream.close()


def _slices(table: Table, capture: Capture, pause: Pause) -> Iterator[list[Buffer]]:
    """The stored rows in the form of overlays."""
    for keys, values in capture.batches(table.storage_id, pause=pause):
        pause()
        rows = max(1, min(SLICE_ROWS, len(keys) * SLICE_BYTES // max(_size(keys) + _size(values), 1)))
        for first in range(0, len(keys), rows):
            yield encode_columns(keys.slice(first, rows), values.slice(first, rows))


def _size(column: Column) -> int:
    return int(column.nbytes)
