"""FOR UPDATE and similar clauses of queries that the row path does not run: the query runs first, on either path, and
returns the keys of the rows as well (engine/sql/parts.py); then its rows are locked in their order, up to LIMIT.

    SELECT a FROM p ORDER BY b LIMIT 1 FOR UPDATE SKIP LOCKED      p is partitioned: p1, p2
    SELECT a, <key>, <table>, 1 FROM (p1 UNION ALL p2) ORDER BY b  -> lock row after row -> the first that was free

A row that has changed since the snapshot of the statement makes READ COMMITTED run the whole statement again on a new
snapshot, with the locks that it has; REPEATABLE READ raises 40001.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from catalog.catalog import Catalog
from catalog.errors import SqlError
from catalog.schema import Table, VirtualTable
from engine.execute.context import ExecContext, begin_meter
from engine.execute.output import check_limit, check_offset
from engine.execute.row_lock_words import STRENGTHS, lock_refusal
from engine.execute.writer import same_key_test
from engine.sql import tree
from engine.sql.parts import LockStep
from engine.sql.table_subqueries import row_columns
from engine.sql.tree_records import RowPlace
from engine.statements.data_change import SLICE, Again
from engine.storage.keys import row_key_encoder, row_number_key
from engine.txn.interface import KEY_SHARE

if TYPE_CHECKING:
    from engine.session.session import Session
    from engine.txn.statement_view import StatementView

Row = Sequence[Any]


@dataclass(frozen=True, slots=True)
class _Member:
    """A table of which a mark locks rows."""

    key: Callable[[Row], bytes]
    refusal: Callable[[SqlError], SqlError]
    same_key: Callable[[bytes, bytes], bool] | None


class _Mark:
    """A locking clause on one range table entry."""

    def __init__(self, mark: tree.RowMark, catalog: Catalog) -> None:
        self.strength = STRENGTHS[mark.strength]
        self.wait = mark.wait
        self._members = {place.table.oid: self._member(place, catalog) for place in mark.members}
        self._table_column = mark.table_column - 1 if mark.table_column else None
        self._first = next(iter(self._members.values()))

    def _member(self, place: RowPlace, catalog: Catalog) -> _Member:
        same_key = same_key_test(catalog, place.table) if self.strength == KEY_SHARE else None
        return _Member(_key_function(place), lock_refusal(place.table.name), same_key)

    def keys(self, rows: Sequence[Row]) -> list[bytes]:
        """The keys of its rows."""
        if self._table_column is None:
            return [*map(self._first.key, rows)]
        return [self.member(row).key(row) for row in rows]

    def member(self, row: Row) -> _Member:
        return self._first if self._table_column is None else self._members[row[self._table_column]]


def _key_function(place: RowPlace) -> Callable[[Row], bytes]:
    table: Table = place.table
    positions = [number - 1 for number in place.columns]
    storage = table.storage_id
    if not table.key_columns:
        (position,) = positions
        return lambda row: row_number_key(storage, row[position])
    encode = row_key_encoder(storage, [type_ for _, type_ in row_columns(table)])
    if len(positions) == 1:
        return lambda row: encode((row[positions[0]],))
    take = itemgetter(*positions)
    return lambda row: encode(take(row))


class LockPlan:
    """The step that locks the rows of a part, for all executions of its plan."""

    def __init__(self, step: LockStep, result: VirtualTable, catalog: Catalog) -> None:
        self.marks = [_Mark(mark, catalog) for mark in step.marks]
        self.width = len(result.columns)
        self.limit = step.limit
        self.offset = step.offset

    def begin(self, session: Session, context: ExecContext, view: StatementView) -> Locker:
        """For one execution."""
        return Locker(self, session, context, view)


class Locker:
    """Locks the rows of one execution. `done`: there are as many as LIMIT says."""

    def __init__(self, locks: LockPlan, session: Session, context: ExecContext, view: StatementView) -> None:
        self.done = False
        self._locks = locks
        self._session = session
        self._context = context
        self._view = view
        self._left = -1
        self._skip = 0
        self._begun = False

    async def lock(self, rows: Sequence[Row]) -> list[Row]:
        """Locks the next rows; returns those that belong to the result, without the places. Raises LockWait, Again,
        40001, 55P03."""
        kept: list[Row] = []
        if rows and not self._begun:
            self._begin(rows[0])
        for start in range(0, len(rows), SLICE):
            if self.done:
                break
            if start:
                await asyncio.sleep(0)
                begin_meter(self._context)  # others have run since the previous slice
            self._lock_slice(rows[start : start + SLICE], kept)
        return kept

    def _begin(self, first: Row) -> None:
        """LIMIT and OFFSET, which are columns of each row."""
        locks = self._locks
        self._begun = True
        if locks.limit is not None:
            self._left = check_limit(first[locks.limit - 1])
            self.done = self._left == 0
        if locks.offset is not None:
            self._skip = check_offset(first[locks.offset - 1])

    def _lock_slice(self, rows: Sequence[Row], kept: list[Row]) -> None:
        marks, width = self._locks.marks, self._locks.width
        if self._left < 0 and not self._skip and self._lock_together(rows):
            kept.extend(row[:width] for row in rows)
            return
        for row in rows:
            if not all([self._lock_row(mark, row) for mark in marks]):
                continue
            if self._skip:
                self._skip -= 1
                continue
            kept.append(row[:width])
            self._left -= 1
            if self._left == 0:
                self.done = True
                return

    def _lock_together(self, rows: Sequence[Row]) -> bool:
        """Locks rows that all belong to the result. False: one of them may not, and nothing has happened."""
        marks, transaction = self._locks.marks, self._context.transaction
        assert transaction is not None
        strength = marks[0].strength
        if any(mark.strength != strength for mark in marks):
            return False
        return transaction.lock_unchanged([key for mark in marks for key in mark.keys(rows)], strength)

    def _lock_row(self, mark: _Mark, row: Row) -> bool:
        """Whether the row exists, and is locked now."""
        member = mark.member(row)
        key = member.key(row)
        transaction = self._context.transaction
        assert transaction is not None
        try:
            if transaction.get_locked(key, mark.strength, mark.wait, member.same_key) is not None:
                self._check_unchanged(key)
                return True
            if mark.wait != "skip locked" and transaction.get_moved(key, mark.strength, mark.wait)[1] is not None:
                raise Again
        except SqlError as error:
            raise member.refusal(error) from None
        return False

    def _check_unchanged(self, key: bytes) -> None:
        """Raises Again if another transaction has changed the row since the statement's snapshot."""
        transaction = self._session.transaction
        assert transaction is not None
        if key in transaction.writes or any(run.get(key) is not None for run in transaction.runs):
            return
        newest = self._session.node.store.newest(key)
        if newest is None or newest[0] > self._view.snapshot_lsn:
            raise Again
