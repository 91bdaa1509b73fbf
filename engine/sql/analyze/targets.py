"""Target lists: names of output columns, expansion of *, origin of columns (parse_target.c)."""

from __future__ import annotations

from catalog.types.oids import UNKNOWN
from engine.sql import ast, tree
from engine.sql.analyze import coerce, scope
from engine.sql.analyze.dispatch import expression
from engine.sql.analyze.errors import fail
from engine.sql.analyze.record_variables import record_fields
from engine.sql.analyze.state import State
from engine.sql.analyze.typeinfo import type_name


def target_list(state: State, nodes: tuple[ast.ResTarget, ...], kind: str) -> list[tree.Target]:
    """transformTargetList: the output columns; unknown literals are left for later."""
    targets: list[tree.Target] = []
    for node in nodes:
        value = node.expression
        assert value is not None
        if isinstance(value, ast.ColumnRef) and value.names[-1] == "*":
            targets.extend(make_target(state, expr, name) for name, expr in expand_star(state, value))
        elif isinstance(value, ast.Indirection) and value.steps[-1] == "*":
            targets.extend(make_target(state, expr, name) for name, expr in _expand_row(state, value, kind))
        else:
            targets.append(make_target(state, expression(state, value, kind), node.name or column_name(value)))
    return targets


def make_target(state: State, expr: tree.Expr, name: str) -> tree.Target:
    """A target, with the table column that it returns unchanged, if there is one."""
    if isinstance(expr, tree.Var):
        table, column = _origin(state, expr)
        return tree.Target(expr, name, False, table, column)
    return tree.Target(expr, name)


def _origin(state: State, var: tree.Var) -> tuple[int, int]:
    """markTargetListOrigin."""
    level = state.up(var.levels_up)
    entry = level.entries[var.relation]
    if not var.column:
        return 0, 0
    if isinstance(entry, tree.RangeTable):
        return entry.table.oid, var.column
    if isinstance(entry, tree.RangeSubquery):
        if entry.view is not None:
            return entry.view, var.column
        target = entry.query.output[var.column - 1]
        return target.origin_table, target.origin_column
    if isinstance(entry, tree.RangeJoin):
        merged = entry.expressions[var.column - 1]
        return _origin(level, merged) if isinstance(merged, tree.Var) else (0, 0)
    if isinstance(entry, tree.RangeCte):
        cte = level.up(entry.levels_up).ctes.get(entry.name)
        if cte is not None:
            targets = cte.query.output if isinstance(cte.query, tree.Query) else cte.query.returning
            target = targets[var.column - 1]
            return target.origin_table, target.origin_column
    return 0, 0


def expand_star(state: State, node: ast.ColumnRef) -> list[tuple[str, tree.Expr]]:
    """The columns of * or t.*, with their names."""
    names, location = node.names, node.location
    if len(names) == 1:
        found: list[tuple[str, tree.Expr]] = []
        any_item = False
        for item in state.namespace:
            if not item.columns_visible or item.lateral_only:
                continue
            any_item = True
            found.extend(
                (name, scope.raise_levels(expr, 0, location))
                for name, expr in zip(item.names, item.read_all(), strict=True)
            )
        if not any_item:
            fail("42601", "SELECT * with no tables specified is not valid", location)
        return found
    if len(names) == 4 and names[0] != state.environment.database_name:
        fail("0A000", f"cross-database references are not implemented: {'.'.join(names[:-1])}", location)
    schema = names[-3] if len(names) > 2 else None
    qualifier = names[-2]
    place = scope.find_item(state, schema, qualifier, location)
    if place is None:
        value = scope.find_column(state, qualifier, location) if schema is None else None
        columns = scope.row_columns(state, value) if value is not None else None
        if columns is not None:
            return columns
        if (record := record_fields(state, names[:-1], location)) is not None:
            if not record[1]:
                fail("42809", "record type has not been registered")
            return record[1]
        scope.missing_table(state, qualifier, location)
        raise AssertionError
    item, levels = place
    return [
        (name, scope.raise_levels(expr, levels, location))
        for name, expr in zip(item.names, item.read_all(), strict=True)
    ]


def _expand_row(state: State, node: ast.Indirection, kind: str) -> list[tuple[str, tree.Expr]]:
    """(row).*"""
    inner = node.argument if len(node.steps) == 1 else ast.Indirection(node.argument, node.steps[:-1])
    value = expression(state, inner, kind)
    columns = scope.row_columns(state, value)
    if columns is None:
        fail("42809", f"type {type_name(value.type.oid)} is not composite", node)
    return columns


def settle(state: State, targets: list[tree.Target]) -> None:
    """resolveTargetListUnknowns: unknown literals become text."""
    for position, target in enumerate(targets):
        if target.expression.type.oid == UNKNOWN:
            expr = coerce.settle_unknown(state, target.expression)
            targets[position] = tree.Target(expr, target.name, target.junk)


def range_columns(targets: tuple[tree.Target, ...]) -> tuple[tree.RangeColumn, ...]:
    """The columns of a query's output for the outer query."""
    return tuple(tree.RangeColumn(target.name, target.expression.type) for target in targets if not target.junk)


# ---- names ----------------------------------------------------------------------------------------------------------


def column_name(node: ast.Node) -> str:
    """FigureColname: the name of an output column without an alias."""
    return _figure(node)[0] or "?column?"


def _figure(node: ast.Node | None) -> tuple[str, int]:
    """(name, strength): strength 2 for real names, 1 for names of types and constructs, 0 for none."""
    if isinstance(node, ast.ColumnRef):
        return next(((name, 2) for name in reversed(node.names) if name != "*"), ("", 0))
    if isinstance(node, ast.FuncCall):
        return node.names[-1], 2
    if isinstance(node, ast.Indirection):
        for step in reversed(node.steps):
            if isinstance(step, str) and step != "*":
                return step, 2
        return _figure(node.argument)
    if isinstance(node, ast.TypeCast):
        name, strength = _figure(node.argument)
        return (name, strength) if strength > 1 else (node.type.names[-1], 1)
    if isinstance(node, ast.CollateClause):
        return _figure(node.argument)
    if isinstance(node, ast.CaseExpr):
        name, strength = _figure(node.default)
        return (name, strength) if strength > 1 else ("case", 1)
    if isinstance(node, ast.SubLink):
        return _figure_sublink(node)
    if isinstance(node, ast.SqlValueFunction):
        return node.name, 2
    if isinstance(node, ast.MinMaxExpr):
        return node.operator, 2
    if isinstance(node, ast.Expression) and node.kind == "nullif":
        return "nullif", 2
    fixed = _FIXED_NAMES.get(type(node))
    return (fixed, 2) if fixed else ("", 0)


_FIXED_NAMES: dict[type, str] = {
    ast.CoalesceExpr: "coalesce",
    ast.ArrayExpr: "array",
    ast.RowExpr: "row",
    ast.GroupingFunc: "grouping",
}


def _figure_sublink(node: ast.SubLink) -> tuple[str, int]:
    if node.kind in ("exists", "array"):
        return node.kind, 2
    if node.kind != "expr":
        return "", 0
    query = node.query
    while query.left is not None:
        query = query.left
    if query.targets:
        target = query.targets[0]
        if target.name:
            return target.name, 2
        return _figure(target.expression)
    if query.values:
        return "column1", 2
    return "", 0
