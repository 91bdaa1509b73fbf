"""SET of UPDATE, MERGE and ON CONFLICT: the columns that are assigned, and values as their types (analyze.c)."""

from __future__ import annotations

from collections.abc import Sequence

from catalog.schema import Column, Table
from catalog.types.base import TypeRef
from catalog.types.oids import UNKNOWN
from engine.sql import ast, tree
from engine.sql.analyze import coerce
from engine.sql.analyze.assignments import check_default, store_part
from engine.sql.analyze.dispatch import expression, select_query
from engine.sql.analyze.errors import expr_location, fail, refuse
from engine.sql.analyze.rules import TableRules
from engine.sql.analyze.state import NamespaceItem, State
from engine.sql.analyze.system_columns import NAMES as SYSTEM_COLUMNS
from engine.sql.analyze.targets import expand_star, range_columns
from engine.sql.analyze.typeinfo import type_name
from engine.sql.tree_walk import shift_levels

_REWRITE = "You will need to rewrite or cast the expression."


def target_column(table: Table, item: NamespaceItem, name: str, verb: str, location: int) -> Column:
    """The column of a target by its name there. 42703, and 0A000 for one that a view computes."""
    column = table.column(name) if item.view is None else item.view.column(name, verb, location)
    if column is None:
        if name in SYSTEM_COLUMNS and item.view is None and verb == "update":
            fail("0A000", f'cannot assign to system column "{name}"', location)
        relation = table.name if item.view is None else item.view.view.name
        fail("42703", f'column "{name}" of relation "{relation}" does not exist', location)
    return column


def own_name(table: Table, column: Column) -> str:
    """A column's name in its table, where a view has given it another."""
    return table.column_by_number(column.number).name


def assign(state: State, value: tree.Expr, column: Column, location: int = -1) -> tree.Expr:
    """transformAssignedExpr: the value as the column's type, by assignment cast. 42804 if there is none."""
    if value.type == column.type:
        return value
    # The conditions of a domain are rules of the table (rules.py).
    if column.type.domain and value.type.oid == UNKNOWN and isinstance(value, tree.Param):
        value = state.shared.resolve_parameter(value, column.type, location)
    result = coerce.coerce(state, value, TypeRef(column.type.oid, column.type.typmod), "a")
    if result is None:
        fail(
            "42804",
            f'column "{column.name}" is of type {type_name(column.type.declared)} but expression is of type '
            f"{type_name(value.type.oid)}",
            expr_location(value) if location < 0 else location,
            hint=_REWRITE,
        )
    return result


def update_assignments(
    state: State,
    nodes: Sequence[ast.ResTarget | ast.MultiAssign],
    table: Table,
    item: NamespaceItem,
    rules: TableRules,
    kind: str = "UPDATE",
) -> tuple[tree.Assignment, ...]:
    """transformUpdateTargetList: SET col = value, SET (a, b) = row. 42601 for a column assigned twice."""
    values: dict[int, tree.Expr] = {}
    plain: set[int] = set()
    for node in nodes:
        if isinstance(node, ast.MultiAssign):
            pairs = _multiple(state, node, kind)
        else:
            assert node.expression is not None
            is_default = isinstance(node.expression, ast.SetToDefault)
            pairs = [(node, None if is_default else expression(state, node.expression, kind))]
        for target, value in pairs:
            _assign_one(state, target, value, table, item, rules, values, plain)
    return tuple(tree.Assignment(number, value) for number, value in values.items())


def _assign_one(
    state: State,
    target: ast.ResTarget,
    value: tree.Expr | None,
    table: Table,
    item: NamespaceItem,
    rules: TableRules,
    values: dict[int, tree.Expr],
    plain: set[int],
) -> None:
    assert target.name is not None
    column = target_column(table, item, target.name, "update", target.location)
    number = column.number
    if value is not None and (column.generated is not None or column.identity == "a"):
        what = (
            "is a generated column."
            if column.generated is not None
            else "is an identity column defined as GENERATED ALWAYS."
        )
        fail("428C9", f'column "{column.name}" can only be updated to DEFAULT', detail=f'Column "{column.name}" {what}')
    if target.indirection:
        if value is None:
            check_default(target)
        if number in plain:
            fail("42601", f'multiple assignments to same column "{own_name(table, column)}"')
        before = values.get(number) or item.read(item.by_name[column.name])
        values[number] = store_part(state, before, column, target, value, "UPDATE")
        return
    if number in values:
        fail("42601", f'multiple assignments to same column "{own_name(table, column)}"')
    plain.add(number)
    if value is None:
        if column.generated is None:
            values[number] = rules.default(column)
        return
    values[number] = assign(state, value, column)


def _multiple(state: State, node: ast.MultiAssign, kind: str) -> list[tuple[ast.ResTarget, tree.Expr | None]]:
    """SET (a, b) = ROW(x, y), or = (SELECT x, y ...), which becomes one scalar subquery a column."""
    source = node.source
    if isinstance(source, ast.RowExpr):
        values: list[tree.Expr | None] = []
        for element in source.elements:
            if isinstance(element, ast.ColumnRef) and element.names[-1] == "*":
                values += [expr for _, expr in expand_star(state, element)]
            else:
                values.append(None if isinstance(element, ast.SetToDefault) else expression(state, element, kind))
        if len(values) != len(node.targets):
            fail("42601", "number of columns does not match number of values", source)
        return list(zip(node.targets, values, strict=True))
    if not isinstance(source, ast.SubLink):
        fail(
            "0A000",
            "source for a multiple-column UPDATE item must be a sub-SELECT or ROW() expression",
            source,
        )
    saved, state.kind = state.kind, kind
    query = select_query(State(state.shared, state), source.query, settle=True)
    state.kind = saved
    if len(query.output) != len(node.targets):
        fail("42601", "number of columns does not match number of values", source)
    if query.volatile:
        refuse("a volatile subquery that sets several columns", source)
    inner = shift_levels(query, 1)
    assert isinstance(inner, tree.Query)
    columns = range_columns(inner.targets)
    pairs: list[tuple[ast.ResTarget, tree.Expr | None]] = []
    for position, (target, column) in enumerate(zip(node.targets, columns, strict=True), 1):
        picked = tree.Query(
            (tree.Target(tree.Var(0, position, column.type, 0, column.name), column.name),),
            (tree.RangeSubquery(inner, "*SELECT*", columns),),
            (tree.FromRef(0),),
        )
        found = TypeRef(column.type.oid, column.type.typmod)
        pairs.append((target, tree.SubLink("expr", picked, found, location=source.location)))
    return pairs
