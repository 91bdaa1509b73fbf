"""Statements that functions run: in the session's transaction, each with a snapshot of its own. A statement of the row
path runs at once; where it has to wait, and for every other statement, the function's greenlet is left (suspend.py).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Sequence
from typing import TYPE_CHECKING, TypeVar

from catalog.errors import SqlError, not_supported
from catalog.memory import meter
from catalog.types import lookup
from engine.execute.context import Field, RowPathFull
from engine.session.portal import Portal
from engine.session.prepared import Prepared, StalePlan
from engine.sql import tree
from engine.statements import run as run_portal
from engine.statements.collect import Collector, decode_row
from engine.statements.plpgsql.suspend import wait
from engine.statements.routine_path import RoutinePath
from engine.statements.rows_plan import RowsPlan
from engine.txn.interface import LockWait

if TYPE_CHECKING:
    from engine.session.session import Session
    from engine.txn.statement_view import StatementView

Rows = Sequence[tuple[object, ...]]
T = TypeVar("T")


class NestedStatements:
    """Runs the statements of one call. `count`: the rows of the last one."""

    def __init__(self, session: Session, is_volatile: bool) -> None:
        self._session = session
        self._is_volatile = is_volatile
        self._view = None if is_volatile else session.statement_view
        self.count = 0

    def rows(
        self, prepared: Prepared, parameters: Sequence[object], *, may_commit: bool = False
    ) -> tuple[Sequence[Field], Rows]:
        """Runs a statement: its columns and rows. `may_commit`: it may end the transaction, if it is CALL or DO."""
        session = self._session
        if session.transaction is not None:
            session.transaction.defers = True
        if not self._is_volatile:
            refuse_change(prepared)
            if self._view is not None and isinstance(prepared.plan, RowsPlan):
                return self._rows_of_view(prepared, parameters, self._view)
        while True:
            plan = prepared.plan
            if not isinstance(plan, RowsPlan) or not plan.at_once or plan.row is None:
                break
            try:
                rows, self.count = session.plain_rows.run_within(prepared, plan.rows_function, parameters)  # type: ignore[arg-type]
                return () if plan.columns is None else plan.columns.fields, rows
            except LockWait as lock:
                wait_within(session, session.wait_for(lock))
            except StalePlan:
                prepared = wait_within(session, run_portal.current(session, prepared))
            except RowPathFull:
                break
            finally:
                meter().begin(session.query_memory, session.memory)  # the statement has used the function's
        return self._run_apart(prepared, parameters, may_commit)

    def _rows_of_view(
        self, prepared: Prepared, parameters: Sequence[object], view: StatementView
    ) -> tuple[Sequence[Field], Rows]:
        """Runs a query over what the statement around the function sees. Raises 0A000 for one that needs the columnar
        path, where that would be another state."""
        session, transaction = self._session, view.transaction
        locked = all(transaction.table_locks.get(oid, 0) & mode for oid, mode in prepared.plan.locks)
        if not locked or prepared.catalog is not session.catalog:
            prepared = wait_within(session, run_portal.current(session, prepared))
        plan = prepared.plan
        assert isinstance(plan, RowsPlan)
        calls = isinstance(plan.columnar, RoutinePath)
        if plan.row is None or calls or transaction.serial is not None:
            if transaction.mark() != view.start and not calls:
                not_supported("this query of a function that is not VOLATILE, in a statement that changes rows,")
            return self._run_apart(prepared, parameters, False)
        context = session.context()
        context.reader = context.transaction = view  # it is one to the row path
        context.stays = True
        try:
            rows, self.count = plan.row.rows(context, parameters)
        finally:
            meter().begin(session.query_memory, session.memory)
        return prepared.fields or (), rows

    def _run_apart(
        self, prepared: Prepared, parameters: Sequence[object], may_commit: bool
    ) -> tuple[Sequence[Field], Rows]:
        """Runs a statement that may have to wait."""
        fields = prepared.fields or ()
        collector = Collector(self._session.memory)
        portal = Portal(prepared, parameters, (1,) * len(fields))
        portal.may_commit, portal.view = may_commit, self._view
        wait_within(self._session, run_portal.run(self._session, portal, 0, collector))
        self.count = portal.count
        decoders = [lookup(item.type.oid).binary_decoder() for item in fields]
        rows = [decode_row(message, decoders) for message in collector.split()]
        if prepared.fields is not None and prepared.command == "SELECT":
            self.count = len(rows)
        return fields, rows


def refuse_change(prepared: Prepared) -> None:
    """Raises 0A000 for a statement that a function may not run that is not VOLATILE."""
    plan, command = prepared.plan, prepared.command
    if isinstance(plan, RowsPlan):
        query = plan.analyzed.statement
        if isinstance(query, tree.Query) and query.row_marks:
            command = f"SELECT FOR {query.row_marks[0].strength.upper()}"
        elif not plan.writes:
            return
    raise SqlError("0A000", f"{command or _first_word(prepared)} is not allowed in a non-volatile function")


def _first_word(prepared: Prepared) -> str:
    """The command of a statement that is neither a query nor a change of rows."""
    return prepared.statement.text.split(maxsplit=1)[0].upper()


def wait_within(session: Session, awaitable: Awaitable[T]) -> T:
    """The result of an awaitable, for a function. Its notices are sent first. A cancellation becomes an error, which
    the function may handle; not the end of the session."""
    tell = session.client.tell_now
    if session.notices and tell is not None:
        for notice in session.notices:
            tell(notice)
        session.notices.clear()
    try:
        return wait(awaitable)
    except asyncio.CancelledError:
        error, task = session.cancel_error, session.task
        if error is None or error.severity == "FATAL" or task is None:
            raise
        session.cancel_error = None
        task.uncancel()
        raise error from None
