"""Compares the analytic worker's copies of tables with the rows: a part of `shoal_check_indexes()`.

The worker computes the same sums over its copy and over the stored rows, which it receives in slices, as the overlay of
a query. A sum over the hashes of a column's values does not depend on the order of rows. A table without a copy in the
worker is skipped.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from catalog.schema import Table
from engine.bulk.thread import BulkThread
from engine.checkpoint.capture import Capture, Pause
from engine.columnar.client import WorkerClient
from engine.columnar.frames import Buffer, encode_pairs
from engine.columnar.interface import ColumnarQuery
from engine.storage.columns import takes_shapes
from engine.storage.moments import Moment

if TYPE_CHECKING:
    from engine.storage.columns import Column
    from engine.storage.views import Snapshot


@dataclass(frozen=True, slots=True)
class MomentReader:
    """Reads one tablespace at one LSN, as the reader of a columnar query does."""

    lsn: Moment
    get: Callable[[bytes], bytes | None]

    @classmethod
    def of(cls, snapshot: Snapshot, slot: int) -> MomentReader:
        return cls(Moment((0,) * slot + (snapshot.lsn,)), snapshot.get)


SLICE_ROWS = 16_384
SLICE_BYTES = 4 << 20
SUMMED = 1 << 128  # sums are kept below it


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
    if any(takes_shapes(column.type.oid) for column in table.columns):  # the form in which all arrays are alike
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
            part = keys.slice(first, rows).to_pylist(), values.slice(first, rows).to_pylist()
            yield encode_pairs(zip(*part, strict=True))


def _size(column: Column) -> int:
    return int(column.nbytes)
