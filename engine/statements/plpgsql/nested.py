"""Statements that functions run: in the session's transaction, each with a snapshot of its own. A statement of the row
path runs at once; where it has to wait, and for every other statement, the function's greenlet is left (suspend.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from catalog.types import lookup
from engine.execute.context import Field, RowPathFull
from engine.session.portal import Portal
from engine.session.prepared import Prepared, StalePlan
from engine.statements import run as run_portal
from engine.statements.collect import Collector, decode_row
from engine.statements.plpgsql.suspend import wait
from engine.statements.rows_plan import RowsPlan
from engine.txn.interface import LockWait

if TYPE_CHECKING:
    from engine.session.session import Session

Rows = Sequence[tuple[object, ...]]


class NestedStatements:
    """Runs the statements of one call. `count`: the rows of the last one."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self.count = 0

    def rows(self, prepared: Prepared, parameters: Sequence[object]) -> tuple[Sequence[Field], Rows]:
        """Runs a statement: its columns and rows."""
        session = self._session
        while True:
            plan = prepared.plan
            if not isinstance(plan, RowsPlan) or not plan.at_once or plan.row is None:
                break
            try:
                rows, self.count, _ = session.rows.run(prepared, plan.row.rows, parameters)  # type: ignore[arg-type]
                return prepared.fields or (), rows  # type: ignore[return-value]
            except LockWait as lock:
                wait(session.wait_for(lock))
            except StalePlan:
                prepared = wait(run_portal.current(session, prepared))
            except RowPathFull:
                break
        return self._run_apart(prepared, parameters)

    def _run_apart(self, prepared: Prepared, parameters: Sequence[object]) -> tuple[Sequence[Field], Rows]:
        """Runs a statement that may have to wait."""
        fields = prepared.fields or ()
        collector = Collector(self._session.memory)
        portal = Portal(prepared, parameters, (1,) * len(fields))
        wait(run_portal.run(self._session, portal, 0, collector))
        self.count = portal.count
        decoders = [lookup(item.type.oid).binary_decoder() for item in fields]
        rows = [decode_row(message, decoders) for message in collector.split()]
        if prepared.fields is not None and prepared.command == "SELECT":
            self.count = len(rows)
        return fields, rows
