"""The path of statements that call functions in PL/pgSQL.

The statement runs on the row path, over a view of the transaction as it was when the statement began
(engine/txn/statement_view.py): it does not see what its functions write. It runs in a greenlet, so that the statements
of a function can wait in the middle of it.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

from catalog.errors import not_supported
from catalog.patience import too_long
from engine.execute.context import RowPathFull
from engine.statements.plpgsql import suspend
from engine.statistics.statements import ROW
from engine.txn.interface import LockWait
from engine.txn.statement_view import StatementView

if TYPE_CHECKING:
    from engine.session.plan import RunRow
    from engine.session.portal import Portal
    from engine.session.session import Session
    from engine.statements.rows_plan import RowsPlan


class RoutinePath:
    """The path of a statement with such calls (`ColumnarPath` of rows_plan.py)."""

    def __init__(self, plan: RowsPlan) -> None:
        assert plan.row is not None
        self._plan = plan
        self._row = plan.row
        self._runs: dict[tuple[int, ...], RunRow] = {}

    def with_constants(self, parameters: Sequence[object]) -> RoutinePath:
        return self

    def compute_in_worker(self) -> None:
        raise too_long() from None

    async def begin(self, session: Session, portal: Portal, held: Mapping[Hashable, int]) -> None:
        """Runs the whole statement."""
        await suspend.run(partial(self.run_whole, session, portal, held))

    def run_whole(self, session: Session, portal: Portal, held: Mapping[Hashable, int]) -> None:
        """`begin`, in a greenlet."""
        transaction = session.transaction
        assert transaction is not None
        run = self._runs.get(portal.formats)
        if run is None:
            run = self._runs[portal.formats] = self._row.make_encoder(portal.formats)
        changed, dropped = dict(transaction.changed_objects), len(transaction.dropped_storage)
        said = len(session.notices)
        while True:
            view = portal.view or StatementView(transaction)
            around, session.statement_view = session.statement_view, view
            context = session.context()
            context.reader = context.transaction = view  # it is one to the row path
            context.stays = True
            try:
                with session.using(self._plan.relations):
                    found = run(context, portal.parameters)
                portal.pending, portal.count = found
                portal.pending_rows = portal.count if portal.prepared.fields is not None else 0
                portal.path = ROW
                return
            except LockWait as wait:
                if portal.view is not None:
                    raise
                view.undo()
                transaction.changed_objects, transaction.catalog = dict(changed), None
                del transaction.dropped_storage[dropped:]
                del session.notices[said:]  # its functions will say that again
                suspend.wait(session.wait_for(wait))
            except RowPathFull:
                if portal.view is None:
                    view.undo()
                not_supported("a function in PL/pgSQL over so many rows")
            finally:
                session.statement_view = around
                if portal.view is None:
                    view.close()

    def explain(self, command: str, verbose: bool) -> list[str]:
        return self._row.explain()
