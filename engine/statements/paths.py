"""The choice of the path of a query or a change: the row path plan, and the columnar path, which is made when it is
needed."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from catalog.errors import SqlError
from engine.execute.planner import plan_row
from engine.foreign.changes import remote_change
from engine.foreign.scans import concerns_foreign
from engine.partitions.parts import parts_of
from engine.sql import tree
from engine.sql.parts import take_locks_apart
from engine.statements.columnar_read import ColumnarRead
from engine.statements.compound import CompoundPath
from engine.statements.dml import ColumnarChange
from engine.statements.foreign_path import ForeignPath
from engine.statements.rows_plan import ColumnarPath, RowsPlan

if TYPE_CHECKING:
    from engine.session.session import Session


def columnar_of(session: Session, plan: RowsPlan) -> ColumnarPath:
    """The plan's columnar path, made once. Raises 0A000, and errors of its generation."""
    if plan.all_locks:
        plan.locks = plan.all_locks
    if plan.columnar is None:
        root = plan.analyzed.statement
        if concerns_foreign(plan.catalog, plan.analyzed):
            change = remote_change(root, plan.catalog)
            path: ColumnarPath = ForeignPath(session, plan, _part, columnar_of, change)
            plan.columnar = path
            return path
        changes_members = isinstance(root, tree.Update | tree.Delete) and root.members
        parts = parts_of(root, session.environment) if plan.row is None or changes_members else None
        if parts is None and isinstance(root, tree.Query) and root.row_marks:
            parts = take_locks_apart(root)
        if parts is not None:
            plan.columnar = CompoundPath(session, plan, parts, _part, columnar_of)
            plan.writes = True
        elif isinstance(root, tree.Query):
            plan.columnar = ColumnarRead(plan.analyzed, plan.settings)
        else:
            plan.columnar = ColumnarChange(plan.analyzed, plan.settings)
    return plan.columnar


def columnar_besides(session: Session, plan: RowsPlan) -> ColumnarPath:
    """The columnar path of a plan that another path runs."""
    inner = RowsPlan(plan.analyzed, plan.catalog, plan.settings, plan.writes)
    return columnar_of(session, inner)


def choose(session: Session, plan: RowsPlan) -> None:
    """Makes the columnar path if there is no row path plan, or if `shoal.path` is columnar."""
    if plan.row is None:
        columnar_of(session, plan)
    elif session.key.path == "columnar":
        _move_to_columnar(session, plan)


def _move_to_columnar(session: Session, plan: RowsPlan) -> None:
    """Drops the row path plan, unless the columnar path refuses the statement."""
    row = plan.row
    plan.set_row(None)
    try:
        columnar_of(session, plan)
    except SqlError as error:
        if error.sqlstate != "0A000":
            raise
        plan.set_row(row)


def _part(session: Session, whole: RowsPlan, statement: tree.Statement) -> RowsPlan:
    """The plan of a part of a statement."""
    plan = RowsPlan(replace(whole.analyzed, statement=statement), whole.catalog, whole.settings, writes=True)
    plan.set_row(plan_row(plan.analyzed, plan.catalog, plan.settings))
    choose(session, plan)
    return plan
