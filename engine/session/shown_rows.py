"""Errors that show a row: the user sees only columns that he may read or has written."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from catalog.errors import SqlError
from catalog.row_security import is_restricted
from catalog.schema import Table
from engine.execute.shown import ShownKey, ShownRow
from engine.session.prepared import Prepared
from engine.sql import ast
from engine.sql.analyze import analyze
from engine.sql.dialects.statements import statements_in
from engine.sql.privileges import given_columns

if TYPE_CHECKING:
    from engine.session.interface import SessionCore


def narrow(session: SessionCore, error: SqlError) -> None:
    """Removes columns from an error's detail that the user may not see."""
    detail = error.detail
    if not isinstance(detail, ShownKey | ShownRow):
        return
    user = session.user
    if user is not None and user.superuser:
        return
    error.detail = None
    if user is not None and is_restricted(session.catalog, _present_table(session, detail.table), user):
        error.detail = detail.hidden if isinstance(detail, ShownKey) else None
    elif user is not None:
        with suppress(SqlError):  # of a statement whose tables have changed meanwhile
            error.detail = detail.narrow(session.catalog, user, lambda table: _get_given(session, table))


def _present_table(session: SessionCore, table: Table) -> Table:
    found = session.catalog.get(table.oid)
    return found if isinstance(found, Table) else table


def _get_given(session: SessionCore, table: Table) -> frozenset[int]:
    """The columns of a table to which the running statement gives values."""
    prepared = session.shown
    if isinstance(prepared, bytes):  # of one statement that had a plan for its text
        (alone,) = statements_in(prepared.decode(), session.key.dialect, session.key.conforming)
        analyzed = analyze(alone.tree, session.environment)
        return given_columns(analyzed.statement, table)
    if not isinstance(prepared, Prepared):
        return frozenset()
    if (statement := prepared.plan.analysed_statement) is not None:
        return given_columns(statement, table)
    copy = prepared.statement.tree
    if not isinstance(copy, ast.CopyStmt) or not copy.is_from:
        return frozenset()
    return frozenset(item.number for item in table.columns if not copy.columns or item.name in copy.columns)
