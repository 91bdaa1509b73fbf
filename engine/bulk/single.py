"""Writes new rows one by one through `TableWriter`, with a lock on each: for small COPYs, and tables that refer to
themselves.

An insertion does not use the statement's snapshot, so after a lock wait only the row itself is tried again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING

from catalog.errors import SqlError
from engine.bulk.rows import Row
from engine.execute.writer import Checks, TableWriter
from engine.txn.interface import LockWait

if TYPE_CHECKING:
    from engine.bulk.session import BulkSession

SLICE = 500  # rows written in one turn of the event loop


class SingleInsert:
    """One statement's rows. `finish` runs the checks that need all rows."""

    def __init__(self, session: BulkSession, writer: TableWriter) -> None:
        assert session.transaction is not None
        self._session = session
        self._transaction = session.transaction
        self._context = session.context()
        self._writer = writer
        self._checks = Checks()

    async def add(self, rows: list[Row], failed: Callable[[int, SqlError], SqlError]) -> None:
        """Writes complete rows. `failed(place, error)` makes the error to raise for a row."""
        for place, row in enumerate(rows):
            try:
                await self._add_one(row)
            except SqlError as error:
                raise failed(place, error) from None
            if place % SLICE == SLICE - 1:
                await asyncio.sleep(0)

    async def _add_one(self, row: Row) -> None:
        transaction = self._transaction
        mark, known = transaction.mark(), len(self._checks)
        while True:
            try:
                self._writer.write_new(transaction, self._context, row, self._checks)
                return
            except LockWait as wait:
                transaction.rollback_to(mark)
                del self._checks[known:]
                await self._session.wait_for(wait)

    async def finish(self) -> None:
        """Checks foreign keys. Raises 23503."""
        while True:
            try:
                self._checks.finish()
                return
            except LockWait as wait:
                await self._session.wait_for(wait)
