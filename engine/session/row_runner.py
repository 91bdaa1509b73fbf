"""Runs row path plans: the cached path. Nothing is awaited, and nothing is computed that planning could have computed.

A session has one runner, which its settings choose (`Session.settings_changed`). Other runners wrap it for special
settings, so that other sessions have no cost.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from time import perf_counter
from typing import TYPE_CHECKING, Any

from catalog.errors import SqlError
from engine.execute.context import RowPathFull
from engine.session import statement_log
from engine.session.errors import aborted_error, canceled_error
from engine.session.other_waits import wait_for_met
from engine.session.plan import RunRow
from engine.session.prepared import Prepared, StalePlan
from engine.session.serializable_statements import look_for_dependency
from engine.txn.interface import LockWait
from engine.txn.transaction import Transaction

if TYPE_CHECKING:
    from engine.session.session import Session


class RowRunner:
    """See the module's text."""

    looks_at_each = False  # execution: so several cannot be one

    def __init__(self, session: Session) -> None:
        self.session = session

    def run(self, prepared: Prepared, run: RunRow, parameters: Sequence[object]) -> tuple[bytes, int, int]:
        """Runs a row path plan: framed rows, row count, and an LSN that must be durable before the answer is sent (0:
        none).

        Raises LockWait, RowPathFull and StalePlan (the caller calls engine/statements/run.py), SqlError (the caller
        calls `fail`).
        """
        session = self.session
        session.began = began = perf_counter()
        node = session.node
        transaction = session.transaction
        context = session.row_context
        plan = prepared.plan
        if transaction is None:
            if session.status == "E":
                raise aborted_error()
            if not plan.writes and not node.exclusive_tables:
                if prepared.catalog is not node.catalogs[session.database_oid]:
                    raise StalePlan
                context.reader = node.store.current
                context.transaction = None
                context.catalog = prepared.catalog
                context.made = None
                data, count = run(context, parameters)
                tally = prepared.tally or node.statements.tally(prepared)
                if count != 1:
                    tally.rows += count - 1
                times = tally.alone
                times.append(perf_counter() - began)
                if len(times) >= tally.limit:
                    node.statements.full(tally)
                logged = node.sequences.last_logged_lsn
                return data, count, logged if logged > node.store.durable_lsn else 0
            transaction = session.transactions.begin_implicit()
        elif session.status == "E":
            raise aborted_error()
        mark = transaction.begin_statement()
        context.reader = transaction
        context.transaction = transaction
        context.catalog = prepared.catalog
        context.made = None
        held = transaction.table_locks
        held_before = len(held)
        for oid, mode in plan.locks:
            if not held.get(oid, 0) & mode:
                transaction.lock_table(oid, mode)
        # Only now no other session can change the tables; they may have changed during the wait for the locks.
        current = session.catalog if transaction.changed_objects else node.catalogs[session.database_oid]
        if prepared.catalog is not current:
            raise StalePlan
        if plan.writes and transaction.read_only and not plan.temporary:
            transaction.refuse_if_read_only(plan.command)
        try:
            data, count = run(context, parameters)
            if transaction.serial is not None:
                transaction.serial.wrote_since(mark)
        except BaseException as error:
            self._undo(prepared, transaction, mark, held_before, error)
            raise
        tally = prepared.tally or node.statements.tally(prepared)
        if count != 1:
            tally.rows += count - 1
        times = tally.inside
        if session.waited:
            began -= session.waited
            session.waited = 0.0
        times.append(perf_counter() - began)
        if len(times) >= tally.limit:
            node.statements.full(tally)
        return data, count, 0

    def run_within(self, prepared: Prepared, run: RunRow, parameters: Sequence[object]) -> tuple[Any, int]:
        """`run` for a statement of a function, in its transaction. It is not counted by itself."""
        session = self.session
        transaction = session.transaction
        if transaction is None or session.status == "E":
            return self.run(prepared, run, parameters)[:2]
        context, plan = session.row_context, prepared.plan
        mark = transaction.begin_statement()
        context.reader = context.transaction = transaction
        context.catalog = prepared.catalog
        context.made = None
        held = transaction.table_locks
        held_before = len(held)
        for oid, mode in plan.locks:
            if not held.get(oid, 0) & mode:
                transaction.lock_table(oid, mode)
        current = session.catalog if transaction.changed_objects else session.node.catalogs[session.database_oid]
        if prepared.catalog is not current:
            raise StalePlan
        if plan.writes and transaction.read_only and not plan.temporary:
            transaction.refuse_if_read_only(plan.command)
        try:
            found = run(context, parameters)
            if transaction.serial is not None:
                transaction.serial.wrote_since(mark)
        except BaseException as error:
            self._undo(prepared, transaction, mark, held_before, error)
            raise
        if prepared.tally is not None:
            prepared.tally.single += 1
        return found

    def _undo(
        self, prepared: Prepared, transaction: Transaction, mark: int, held_before: int, error: BaseException
    ) -> None:
        """Undoes a row path plan that has failed after `mark`. It may keep more table locks than it had before."""
        session = self.session
        look_for_dependency(session.catalog, transaction, error)
        transaction.rollback_to(mark)
        if session.advisory_held is not None and not isinstance(error, SqlError):
            session.advisory_held.restart()
        if transaction.met and isinstance(error, SqlError):
            try:
                wait_for_met(session.node, session.waits.late(transaction))
            except LockWait as wait:
                self._keep_rows(prepared, transaction, wait)
                raise
        if isinstance(error, LockWait):
            self._keep_rows(prepared, transaction, error)
        if isinstance(error, RowPathFull):  # it starts again, and may need a stronger lock first
            for taken in list(transaction.table_locks)[held_before:]:
                transaction.unlock_table(taken)

    @staticmethod
    def _keep_rows(prepared: Prepared, transaction: Transaction, wait: LockWait) -> None:
        """The statement will run again after its wait, on the rows that it has found."""
        row = prepared.plan.row
        if row is not None and row.finds_rows:
            transaction.run_again(wait)
        elif row is not None:
            transaction.run_anew()

    def together(self, prepared: Prepared, rows: Sequence[Sequence[object]]) -> bool:
        """Runs a plan once for each of these rows, together (`RowPlan.together`). False: one fails or has to wait, and
        nothing has happened."""
        row, session = prepared.plan.row, self.session
        assert row is not None
        together = row.together
        if together is None or self.looks_at_each:
            return False
        notices = len(session.notices)
        locked = 0 if session.transaction is None else len(session.transaction.row_locks)
        began = perf_counter()
        try:
            self.run(prepared, together.run, rows)
        except (SqlError, LockWait, RowPathFull, StalePlan) as error:
            if isinstance(error, LockWait):
                error.ticket.cancel(canceled_error())
            del session.notices[notices:]
            if session.transaction is not None:
                session.transaction.let_go_after(locked)
            return False
        tally = prepared.tally
        assert tally is not None
        counted = 1
        if tally.inside:  # as if it had taken long
            tally.inside.pop()
            tally.rows += 1
            counted = 0
        executions = len(rows) // together.rows
        tally.add_alike((perf_counter() - began) / executions, executions - counted, 0)
        return True

    def each(
        self, prepared: Prepared, run: RunRow, rows: Sequence[Sequence[object]]
    ) -> tuple[list[int], SqlError | None]:
        """Runs a repeating row path plan (`RowPlan.repeats`) for each of these parameters, up to the first one that
        fails or has to wait. Returns how many rows each one wrote, and the error. Without an error, that row must run
        again alone, because it waits or the plan does not fit it. In any case nothing of that row remains.
        """
        session = self.session
        counts: list[int] = []
        failed: SqlError | None = None
        notices = len(session.notices)
        began = perf_counter()
        try:
            counts.append(self.run(prepared, run, rows[0])[1])
            began = perf_counter()
            transaction, context = session.transaction, session.row_context
            assert transaction is not None
            for parameters in islice(rows, 1, None):
                notices = len(session.notices)
                mark = transaction.begin_statement()
                context.made = None
                try:
                    counts.append(run(context, parameters)[1])
                except BaseException as error:
                    transaction.rollback_to(mark)
                    if transaction.met and isinstance(error, SqlError):
                        wait_for_met(session.node, session.waits.late(transaction))
                    raise
        except SqlError as error:
            failed = error
        except (LockWait, RowPathFull, StalePlan) as error:
            if isinstance(error, LockWait):
                error.ticket.cancel(canceled_error())  # the row that needs it requests it again
            del session.notices[notices:]
        more = len(counts) - 1
        if more > 0:
            assert prepared.tally is not None
            prepared.tally.add_alike((perf_counter() - began) / more, more, sum(counts) - counts[0])
        return counts, failed


class SerializableRunner(RowRunner):
    """For SERIALIZABLE sessions, whose statements always need a transaction."""

    looks_at_each = True

    def __init__(self, within: RowRunner) -> None:
        super().__init__(within.session)
        self._within = within

    def run(self, prepared: Prepared, run: RunRow, parameters: Sequence[object]) -> tuple[bytes, int, int]:
        if self.session.transaction is None and self.session.status != "E":
            self.session.begin_implicit()
        return self._within.run(prepared, run, parameters)


class WatchedRunner(RowRunner):
    """Logs statements that take long."""

    looks_at_each = True

    def __init__(self, within: RowRunner) -> None:
        super().__init__(within.session)
        self._within = within

    def run(self, prepared: Prepared, run: RunRow, parameters: Sequence[object]) -> tuple[bytes, int, int]:
        began = perf_counter() - self.session.waited
        found = self._within.run(prepared, run, parameters)
        statement_log.ran(self.session, prepared, perf_counter() - began)
        return found
