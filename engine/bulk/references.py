"""Foreign keys of many rows: every distinct key once, with PostgreSQL's lock on the row that it refers to."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING

from engine.bulk.rows import Row, RowSet
from engine.execute.foreign_keys import Outgoing
from engine.execute.writer import TableWriter
from engine.txn.interface import LockWait

if TYPE_CHECKING:
    from engine.session.session import Session

_SLICE = 500  # look-ups in one turn of the event loop


def refers_to_itself(writer: TableWriter) -> bool:
    """Whether a row of the table may refer to a row of the same statement."""
    return any(foreign.parent is writer for foreign in writer.outgoing)


def distinct_keys(writer: TableWriter, foreign: Outgoing, rows: RowSet) -> list[Row]:
    """Rows that hold nothing but a foreign key's columns: each distinct key among the given rows once, but for those
    with a NULL that MATCH SIMPLE lets through."""
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


async def check(session: Session, foreign: Outgoing, keys: Sequence[Row]) -> None:
    """Locks every referenced row FOR KEY SHARE, waiting where it must. Raises 23503."""
    transaction = session.transaction
    assert transaction is not None
    for place, row in enumerate(keys):
        while True:
            try:
                foreign.check(transaction, row)
                break
            except LockWait as wait:
                await session.wait_for(wait)
        if place % _SLICE == _SLICE - 1:
            await asyncio.sleep(0)
