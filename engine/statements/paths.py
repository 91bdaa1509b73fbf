"""The choice of the path of a query or a change: the row path plan, and the columnar path, which is made when it is
needed."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from catalog.errors import SqlError, not_supported
from engine.execute.planner import plan_row
from engine.execute.routine_source import calls_routines, calls_session
from engine.foreign.changes import remote_change
from engine.foreign.scans import concerns_foreign
from engine.partitions.parts import parts_of
from engine.sql import tree
from engine.sql.parts import Parts, take_locks_apart
from engine.sql.stages import calls_above, in_stages, source_above
from engine.statements.columnar_read import ColumnarRead
from engine.statements.compound import CompoundPath
from engine.statements.dml import ColumnarChange
from engine.statements.foreign_path import ForeignPath
from engine.statements.rows_plan import ColumnarPath, RowsPlan

if TYPE_CHECKING:
    from engine.session.session import Session


MOST_LEVELS = 10  # of parts within parts for calls of functions of the session


def columnar_of(session: Session, plan: RowsPlan, level: int = 0) -> ColumnarPath:
    """The plan's columnar path, made once. `level`: the number of statements around it that have it as a part. Raises
    0A000, and errors of its generation."""
    if plan.all_locks:
        plan.locks = plan.all_locks
    if plan.columnar is None:
        root = plan.analyzed.statement
        if concerns_foreign(plan.catalog, plan.analyzed):
            make_path, change = partial(columnar_of, level=level + 1), remote_change(root, plan.catalog)
            plan.columnar = ForeignPath(session, plan, partial(_part, level + 1), make_path, change)
            return plan.columnar
        changes_members = isinstance(root, tree.Update | tree.Delete) and root.members
        calls = plan.row is None and calls_routines(session.catalog, root)
        if calls:
            root = in_stages(root, partial(calls_routines, session.catalog))
        parts = parts_of(root, session.environment, level) if plan.row is None or changes_members else None
        if parts is None and isinstance(root, tree.Query) and root.row_marks:
            parts = take_locks_apart(root)
        if parts is None and calls:
            not_supported("a function in PL/pgSQL in a statement of this kind")
        if parts is not None:
            plan.columnar = _compound(session, plan, parts, level)
            plan.writes = plan.writes or not calls
        elif isinstance(root, tree.Query):
            plan.columnar = _read(session, plan, root, level)
        else:
            plan.columnar = _change(session, plan, root, level)
    return plan.columnar


def _compound(session: Session, plan: RowsPlan, parts: Parts, level: int) -> CompoundPath:
    make_path = partial(columnar_of, level=level + 1)
    return CompoundPath(session, plan, parts, partial(_part, level + 1), make_path)


def _read(session: Session, plan: RowsPlan, root: tree.Query, level: int) -> ColumnarPath:
    """A query without parts; with functions of the session, which DuckDB cannot call, in a part of its own."""
    try:
        return ColumnarRead(plan.analyzed, plan.settings)
    except SqlError as error:
        if error.sqlstate != "0A000" or level > MOST_LEVELS or not calls_session(root):
            raise
        staged = calls_above(root, calls_session)
        parts = None if staged is root else parts_of(staged, session.environment, level)
        if parts is None:
            raise
        return _compound(session, plan, parts, level)


def _change(session: Session, plan: RowsPlan, root: tree.Statement, level: int) -> ColumnarPath:
    """A change without parts; the source of an INSERT with functions of the session is a part of its own."""
    try:
        return ColumnarChange(plan.analyzed, plan.settings)
    except SqlError as error:
        if error.sqlstate != "0A000" or not isinstance(root, tree.Insert) or not calls_session(root.source):
            raise
        parts = None if level > MOST_LEVELS else parts_of(source_above(root), session.environment, level)
        if parts is None:
            raise
        return _compound(session, plan, parts, level)


def columnar_besides(session: Session, plan: RowsPlan) -> ColumnarPath:
    """The columnar path of a plan that another path runs."""
    inner = RowsPlan(plan.analyzed, plan.catalog, plan.settings, plan.writes)
    return columnar_of(session, inner)


def choose(session: Session, plan: RowsPlan, level: int = 0) -> None:
    """Makes the columnar path if there is no row path plan, or if `shoal.path` is columnar. `level`: see
    `columnar_of`."""
    if plan.row is None:
        columnar_of(session, plan, level)
    elif session.key.path == "columnar":
        _move_to_columnar(session, plan, level)


def _move_to_columnar(session: Session, plan: RowsPlan, level: int) -> None:
    """Drops the row path plan, unless the columnar path refuses the statement."""
    row = plan.row
    plan.set_row(None)
    try:
        columnar_of(session, plan, level)
    except SqlError as error:
        if error.sqlstate != "0A000":
            raise
        plan.set_row(row)


def _part(level: int, session: Session, whole: RowsPlan, statement: tree.Statement) -> RowsPlan:
    """The plan of a part of a statement; `level`: see `columnar_of`."""
    plan = RowsPlan(replace(whole.analyzed, statement=statement), whole.catalog, whole.settings, writes=True)
    plan.set_row(plan_row(plan.analyzed, plan.catalog, plan.settings))
    choose(session, plan, level)
    return plan
