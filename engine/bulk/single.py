"""Writes new rows one by one through `TableWriter`, with a lock on each: for small COPYs, and tables that refer to
themselves.

An insertion does not use the statement's snapshot, so after a lock wait only the row itself is tried again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, cast

from catalog.errors import SqlError
from engine.bulk.rows import Row
from engine.execute.context import NotTogether
from engine.execute.writer import Checks, TableWriter
from engine.txn.interface import BatchTransaction, LockWait

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
        self._fires = writer.oid in session.catalog.triggering
        if self._fires:
            self._transaction = self._context.transaction = session.routines.patient(session.transaction)

    async def add(self, rows: list[Row], failed: Callable[[int, SqlError], SqlError]) -> int:
        """Writes complete rows; returns how many were written. `failed(place, error)` makes the error to raise for a
        row."""
        if self._fires:
            count = 0
            for start in range(0, len(rows), SLICE):
                add = partial(self._add_fired, rows, start, failed)
                count += await self._session.routines.run_patiently(add)
            return count
        for place, row in enumerate(rows):
            try:
                await self._add_one(row)
            except SqlError as error:
                raise failed(place, error) from None
            if place % SLICE == SLICE - 1:
                await asyncio.sleep(0)
        return len(rows)

    def _add_fired(self, rows: list[Row], start: int, failed: Callable[[int, SqlError], SqlError]) -> int:
        """A slice of the rows of a table with triggers."""
        count = self._add_together(rows[start : start + SLICE]) if self._may_write_together() else None
        if count is not None:
            return count
        triggers, count = self._writer.triggers, 0
        for place in range(start, min(start + SLICE, len(rows))):
            try:
                row = rows[place] if triggers is None else triggers.new_row(self._context, rows[place])
                if row is not None:
                    self._writer.write_new(self._transaction, self._context, row, self._checks)
                    count += 1
            except SqlError as error:
                raise failed(place, error) from None
        return count

    def _may_write_together(self) -> bool:
        """Whether the triggers may fire for some rows before the first of them is written."""
        writer, triggers = self._writer, self._writer.triggers
        if type(writer) is not TableWriter or writer.exclusions:
            return False
        if any(foreign.parent is writer for foreign in writer.outgoing):
            return False
        return triggers is None or triggers.inserts_apart(self._context)

    def _add_together(self, rows: list[Row]) -> int | None:
        """Writes rows together. None: one fails, and nothing has happened."""
        triggers, transaction, context = self._writer.triggers, self._transaction, self._context
        mark, known, notices = transaction.mark(), len(self._checks), len(self._session.notices)
        try:
            made = rows
            if triggers is not None:
                made = triggers.new_rows(context, rows)  # type: ignore[assignment]
            self._writer.write_together(cast(BatchTransaction, transaction), context, made, self._checks)
            return len(made)
        except (SqlError, NotTogether):
            transaction.rollback_to(mark)
            del self._checks[known:]
            del self._session.notices[notices:]
            return None

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
        """Checks foreign keys, and fires AFTER triggers. Raises 23503."""
        if self._fires:
            await self._session.routines.run_patiently(self._checks.finish)
            return
        while True:
            try:
                self._checks.finish()
                return
            except LockWait as wait:
                await self._session.wait_for(wait)
