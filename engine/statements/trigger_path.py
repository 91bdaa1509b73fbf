"""The path of statements whose changes may fire triggers.

The statement runs in a greenlet, as those that call functions in PL/pgSQL do (routine_path.py): a trigger's function
may wait in the middle of it. So may the statement itself: where it meets a lock it waits at once, and goes on. It is
not undone, because its triggers have fired for the rows before.

    BEFORE STATEMENT    then the rows, by the row path or the columnar path    then the statement's checks, which are
    foreign keys and AFTER ROW triggers in one queue                           then AFTER STATEMENT
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

from catalog.patience import too_long
from engine.execute.context import ExecContext, RowPathFull
from engine.execute.transitions import Capture
from engine.execute.triggers import Change, RunningStatement, StatementTriggers, captured_tables, firing
from engine.execute.writer import Checks
from engine.sql import tree
from engine.statements import paths
from engine.statements.patient_transaction import patient
from engine.statements.plpgsql import suspend
from engine.txn.statement_view import StatementView

if TYPE_CHECKING:
    from engine.execute.context import RowPlan
    from engine.session.plan import RunRow
    from engine.session.portal import Portal
    from engine.session.session import Session
    from engine.statements.rows_plan import ColumnarPath, RowsPlan
    from engine.txn.transaction import Transaction


def changes_with_triggers(session: Session, statement: tree.Statement) -> tuple[Change, ...]:
    """The changes in a statement, before it is expanded; () if none of them may fire a trigger."""
    triggering = session.catalog.triggering
    parts = (statement, *(cte.query for cte in statement.ctes))
    changes = tuple(part for part in parts if not isinstance(part, tree.Query))
    return changes if any(change.table.oid in triggering for change in changes) else ()


class TriggerPath:
    """See `ColumnarPath` of rows_plan.py."""

    def __init__(self, plan: RowsPlan, changes: Sequence[Change]) -> None:
        self._plan = plan
        self._row: RowPlan | None = plan.row
        self._runs: dict[tuple[int, ...], RunRow] = {}
        self._columnar: ColumnarPath | None = None
        self._captured = captured_tables(plan.catalog, changes)
        self._statement = StatementTriggers(plan.catalog, changes)
        tables = [change.table for change in changes]
        indexes = [index for change in changes if not isinstance(change, tree.Delete) for index in change.table.indexes]
        self._relations = frozenset((*plan.relations, *(table.oid for table in tables), *indexes))

    def with_constants(self, parameters: Sequence[object]) -> TriggerPath:
        return self

    def compute_in_worker(self) -> None:
        raise too_long() from None

    async def begin(self, session: Session, portal: Portal, held: Mapping[Hashable, int]) -> None:
        """Runs the whole statement."""
        await suspend.run(partial(self.run_whole, session, portal, held))

    def run_whole(self, session: Session, portal: Portal, held: Mapping[Hashable, int]) -> None:
        """`begin`, in a greenlet."""
        triggers = session.routines.triggers
        capture = None if self._captured is None else Capture(self._plan.catalog, self._captured)
        running = RunningStatement(capture, None if self._statement.is_empty else self._statement)
        with triggers.during(running), session.using(self._relations):
            if not self._begin(session, portal):
                suspend.wait(self._run_columnar(session, portal, held))
                self._end(session)

    def _begin(self, session: Session, portal: Portal) -> bool:
        """Runs the whole statement, if it runs on the row path; otherwise its BEFORE STATEMENT triggers alone."""
        transaction = session.transaction
        assert transaction is not None
        transaction.begin_statement()
        if self._row is None:
            self._fire_before(session)
            return False
        if not self._run_row(self._row, session, portal, transaction):
            return False
        self._end(session)
        return True

    def _fire_before(self, session: Session) -> None:
        if not self._statement.is_empty:
            self._statement.before(session.context())

    @staticmethod
    def _end(session: Session) -> None:
        session.routines.triggers.end_rows()

    def _run_row(self, row: RowPlan, session: Session, portal: Portal, transaction: Transaction) -> bool:
        """Runs it on the row path. False: there are too many rows, and none was written."""
        run = self._runs.get(portal.formats)
        if run is None:
            run = self._runs[portal.formats] = row.make_encoder(portal.formats)
        view = StatementView(transaction)  # the statement does not see what its own BEFORE triggers write
        try:
            self._fire_before(session)
            notices = len(session.notices)
            context = session.context()
            context.reader = context.transaction = patient(session, view)
            context.checks = Checks()
            context.stays = True
            portal.pending, portal.count = self._run(run, context, portal.parameters)
        except RowPathFull:
            del session.notices[notices:]
            return False
        except BaseException:
            view.undo()
            raise
        finally:
            view.close()
        portal.pending_rows = portal.count if portal.prepared.fields is not None else 0
        return True

    @staticmethod
    def _run(run: RunRow, context: ExecContext, parameters: Sequence[object]) -> tuple[bytes, int]:
        found = run(context, parameters)
        assert context.checks is not None
        firing(context).running.end_rows(context, context.checks)
        context.checks.finish()
        return found

    async def _run_columnar(self, session: Session, portal: Portal, held: Mapping[Hashable, int]) -> None:
        if self._columnar is None:
            self._columnar = paths.columnar_besides(session, self._plan)
        path = self._columnar.with_constants(portal.parameters)
        await path.begin(session, portal, held)

    def explain(self, command: str, verbose: bool) -> list[str]:
        if self._row is not None:
            return self._row.explain()
        return [f"{command.title()} with triggers"]
