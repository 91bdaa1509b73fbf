"""Foreign keys of many rows: each distinct key is checked once, with PostgreSQL's lock on the referenced row."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from engine.bulk.rows import Row, RowSet
from engine.execute.foreign_keys import Outgoing
from engine.execute.writer import IndexWriter, TableWriter
from engine.storage.columns import binary_array, column_form
from engine.storage.keys import PREFIX_BYTES, encode_index_entries, encode_keys
from engine.storage.newest import NewestRows
from engine.txn.interface import LockWait

if TYPE_CHECKING:
    from engine.bulk.session import BulkSession

_SLICE = 500  # look-ups in one turn of the event loop


def concerns_itself(writer: TableWriter) -> bool:
    """Whether a row of the table may refer to a row of the same statement, or must be compared with it at the end
    (exclusions.py). Such rows are written one by one."""
    above = {table.oid for table in writer.catalog.partitioned_above(writer.table)}
    return bool(writer.exclusions) or any(
        foreign.parent is writer or foreign.parent.table.oid in above for foreign in writer.outgoing
    )


def distinct_keys(writer: TableWriter, foreign: Outgoing, rows: RowSet) -> list[Row]:
    """The distinct foreign keys of the given rows, as rows with only these columns. Keys with a NULL that MATCH SIMPLE
    accepts are left out."""
    numbers = foreign.constraint.columns
    found = dict.fromkeys(zip(*(rows.values(number) for number in numbers), strict=True))
    full = foreign.constraint.match == "f"
    made = []
    for key in found:
        if None in key and (not full or all(value is None for value in key)):
            continue
        row: list[object] = [None] * len(writer.table.columns)
        for number, value in zip(numbers, key, strict=True):
            row[writer.positions[number]] = value
        made.append(tuple(row))
    return made


async def check(session: BulkSession, foreign: Outgoing, keys: Sequence[Row], now: bool = False) -> None:
    """Locks every referenced row FOR KEY SHARE, and waits if necessary. Raises 23503. `now`: also for a deferred
    foreign key."""
    transaction = session.transaction
    assert transaction is not None
    for place, row in enumerate(keys):
        while True:
            try:
                foreign.check(transaction, row, now)
                break
            except LockWait as wait:
                await session.wait_for(wait)
        if place % _SLICE == _SLICE - 1:
            await asyncio.sleep(0)


class ParentKeys:
    """Looks up many referenced keys at once, in the newest rows of a table that is locked against writers."""

    def __init__(self, foreign: Outgoing, newest: NewestRows, index: IndexWriter | None) -> None:
        self._foreign = foreign
        self._newest = newest
        self._index = index
        parent = foreign.parent.table
        referenced = foreign.constraint.referenced_columns
        ordered = parent.key_columns if index is None else [column.number for column in index.index.columns]
        self._own = [foreign.constraint.columns[referenced.index(number)] for number in ordered]
        self._types = [parent.column_by_number(number).type for number in ordered]

    @classmethod
    async def open(cls, session: BulkSession, foreign: Outgoing) -> ParentKeys:
        """The newest keys of the referenced table."""
        assert session.transaction is not None
        parent, wanted = foreign.parent, set(foreign.constraint.referenced_columns)
        index = None
        if wanted != set(parent.table.key_columns):
            index = next(
                item for item in parent.indexes if item.unique and not item.on_expressions and item.columns == wanted
            )
        storage_id = parent.table.storage_id if index is None else index.index.storage_id
        return cls(
            foreign,
            await NewestRows.of(session.transaction, storage_id),
            index,
        )

    def doubtful(self, writer: TableWriter, rows: RowSet) -> list[Row]:
        """The distinct keys of the rows that were not found here, and must be checked one by one."""
        keys = distinct_keys(writer, self._foreign, rows)
        if not keys:
            return keys
        found = RowSet(writer.table, len(keys), None, keys)
        try:
            columns = [
                found.column(number).cast(column_form(type_.oid).arrow_type)
                for number, type_ in zip(self._own, self._types, strict=True)
            ]
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
            return keys
        if any(column.null_count for column in columns):
            return keys
        if self._index is None:
            wanted = encode_keys(self._foreign.parent.table.storage_id, self._types, columns)
        else:
            nothing = binary_array([bytes(PREFIX_BYTES)] * len(keys))
            definition = self._index.index
            wanted, _ = encode_index_entries(definition.storage_id, self._index.key_types, columns, nothing, True)
        missing = np.flatnonzero(~self._newest.existing(wanted))
        return [keys[place] for place in missing.tolist()]

    def close(self) -> None:
        self._newest.end()
