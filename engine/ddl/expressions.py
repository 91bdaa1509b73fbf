"""Expressions that are stored as text: defaults, checks, generated columns, index expressions and predicates.

They are analysed when they are defined, and stored as the deparsed result (engine/sql/deparse.py), with qualified names
and explicit casts. So they mean the same under every search_path.
"""

from __future__ import annotations

from catalog.errors import SqlError
from catalog.schema import Routine, Table
from catalog.types.base import TypeRef
from engine.ddl.context import DdlContext
from engine.sql import ast, tree
from engine.sql.analyze import analyze_expression
from engine.sql.analyze.routine_rights import may_execute
from engine.sql.analyze.routines import expanded_expression, is_routine
from engine.sql.analyze.typeinfo import BOOL_REF
from engine.sql.deparse import deparse_expression
from engine.sql.privileges import role_of
from engine.sql.tree_walk import walk


def stored_default(context: DdlContext, constraint: ast.ConstraintDef, target: TypeRef) -> str:
    """A DEFAULT expression, checked against the type of the column. Raises 42804, 0A000 (columns, sub-queries,
    aggregates)."""
    assert constraint.expression is not None
    return default_text(context, constraint.expression, target)


def default_text(context: DdlContext, expression: ast.Node, target: TypeRef) -> str:
    plain = TypeRef(target.oid, target.typmod)
    found = analyze_expression(expression, context.environment, None, plain, "DEFAULT expressions")
    return stored_text(context, found)


def stored_generated(
    context: DdlContext, table: Table, constraint: ast.ConstraintDef, target: TypeRef, own: int
) -> str:
    """GENERATED ALWAYS AS (...) STORED, of the column `own`. Raises 42P17 if it is not immutable, or uses another
    generated column."""
    assert constraint.expression is not None
    kind = "column generation expressions"
    plain = TypeRef(target.oid, target.typmod)
    found = analyze_expression(constraint.expression, context.environment, table, plain, kind)
    check_immutable(context, found, "generation expression is not immutable")
    for number in columns_used(found):
        if number == own or (number and table.column_by_number(number).generated is not None):
            raise from_generated(table.column_by_number(number).name)
    return stored_text(context, found, table)


def from_generated(name: str) -> SqlError:
    """42P17 for an expression that uses a generated column."""
    return SqlError(
        "42P17",
        f'cannot use generated column "{name}" in column generation expression',
        detail="A generated column cannot reference another generated column.",
    )


def stored_check(context: DdlContext, table: Table, constraint: ast.ConstraintDef) -> tuple[str, tuple[int, ...]]:
    """A check's text, and the columns in it."""
    assert constraint.expression is not None
    found = analyze_expression(constraint.expression, context.environment, table, BOOL_REF, "check constraints")
    return stored_text(context, found, table), columns_used(found)


def stored_index_expression(context: DdlContext, table: Table, expression: ast.Node) -> tuple[str, TypeRef]:
    """An index column's expression and type. Raises 42P17 if it is not immutable."""
    found = analyze_expression(expression, context.environment, table, None, "index expressions")
    check_immutable(context, found, "functions in index expression must be marked IMMUTABLE")
    return stored_text(context, found, table), found.type


def stored_predicate(context: DdlContext, table: Table, expression: ast.Node) -> str:
    """The condition of a partial index."""
    found = analyze_expression(expression, context.environment, table, BOOL_REF, "index predicates")
    check_immutable(context, found, "functions in index predicate must be marked IMMUTABLE")
    return stored_text(context, found, table)


def stored_text(context: DdlContext, expression: tree.Expr, table: Table | None = None) -> str:
    """An analysed expression as text that can be parsed again. Its columns are columns of `table`."""
    if table is None:
        return deparse_expression(expression, (), context.catalog)
    columns = tuple(tree.RangeColumn(column.name, column.type) for column in table.columns)
    return deparse_expression(expression, (tree.RangeTable(table, table.name, columns),), context.catalog)


def columns_used(expression: tree.Expr) -> tuple[int, ...]:
    """The attnums of the columns in an expression, each once, in the order of their first use."""
    found = [item.column for item in walk(expression) if isinstance(item, tree.Var)]
    return tuple(dict.fromkeys(found))


def check_immutable(context: DdlContext, expression: tree.Expr, message: str) -> None:
    """Raises 42P17 with this message. A function in SQL that the user may call counts as immutable if the functions in
    its body are; otherwise its declaration counts. Raises 42501 for such a function that is declared immutable, because
    it would run for existing rows."""
    catalog = context.catalog
    role = role_of(catalog, context.environment.user_name)
    for item in walk(expression):
        routine = catalog.get(item.function.oid) if isinstance(item, tree.FuncExpr) and is_routine(item) else None
        if isinstance(routine, Routine) and routine.volatility != "i" and not may_execute(routine, catalog, role):
            raise SqlError("42P17", message)
    for item in walk(expanded_expression(expression, context.environment)):
        volatile = isinstance(item, tree.FuncExpr) and item.function.volatility != "i"
        if volatile or isinstance(item, tree.SqlValueFunction):
            raise SqlError("42P17", message)
