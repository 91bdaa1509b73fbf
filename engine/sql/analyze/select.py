"""SELECT and VALUES: one query level from its raw tree to a `tree.Query` (transformSelectStmt)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from engine.sql import ast, tree
from engine.sql.analyze import clauses, coerce, common_types
from engine.sql.analyze.aggregates import check_grouping, first_aggregate, window_clauses
from engine.sql.analyze.dispatch import analyses, expression
from engine.sql.analyze.errors import fail, refuse
from engine.sql.analyze.from_clause import from_clause
from engine.sql.analyze.scope import positional_item
from engine.sql.analyze.set_operations import set_operation
from engine.sql.analyze.state import State
from engine.sql.analyze.targets import expand_star, make_target, settle, target_list
from engine.sql.analyze.with_clause import with_clause

MAX_QUERIES_WITHIN = 500
"""The maximum number of nested queries. Planning so many takes 0.5 s, and for nested queries in FROM the time grows
with the square of their number. PostgreSQL's limit is its stack (max_stack_depth)."""


@analyses(ast.SelectStmt)
def select_statement(state: State, node: ast.SelectStmt, settle: bool) -> tree.Query:
    """See `select_query`."""
    if state.depth > MAX_QUERIES_WITHIN:
        hint = f"At most {MAX_QUERIES_WITHIN} queries can stand within one another."
        fail("54001", "stack depth limit exceeded", hint=hint)
    if node.with_clause is not None:
        with_clause(state, node.with_clause)
    if node.into is not None:
        fail("42601", "SELECT ... INTO is not allowed here", node.into)
    if node.set_operation:
        return set_operation(state, node)
    if node.values:
        return _values(state, node, settle)
    return _plain(state, node, settle)


def _plain(state: State, node: ast.SelectStmt, settle_unknown: bool) -> tree.Query:
    state.windows = list(node.windows)
    places = from_clause(state, node.from_clause) if node.from_clause else ()
    set_calls = state.set_calls
    targets = target_list(state, node.targets, "select")
    where = None
    if node.where is not None:
        where = coerce.to_boolean(state, expression(state, node.where, "WHERE"), "WHERE")
    having = None
    if node.having is not None:
        having = coerce.to_boolean(state, expression(state, node.having, "HAVING"), "HAVING")
    order = clauses.order_by(state, node.order_by, targets) if node.order_by else ()
    group_by: tuple[tree.Expr, ...] = ()
    grouping_sets: tuple[tuple[int, ...], ...] = ()
    if node.group_by:
        group_by, grouping_sets = clauses.group_by(state, node, targets)
    distinct = None
    if node.distinct is not None:
        distinct = clauses.distinct(state, node, targets, order)
    offset = clauses.limit(state, node.offset, "OFFSET") if node.offset is not None else None
    limit = None
    if node.limit is not None:
        limit = clauses.limit(state, node.limit, "LIMIT", node.limit_with_ties)
    windows = window_clauses(state, targets) if state.windows else ()
    if settle_unknown:
        settle(state, targets)
    query = tree.Query(
        tuple(targets), tuple(state.entries), places, where, group_by, grouping_sets, having, windows, distinct, order,
        limit, node.limit_with_ties, offset, None, tuple(state.ctes.values()), (),
        state.aggregates or having is not None,  # HAVING alone groups: all rows are one group
        state.window_calls, state.set_calls > set_calls, state.volatile,
    )  # fmt: skip
    if query.has_aggregates or group_by or grouping_sets:
        _check_grouping(state, query)
    elif state.grouping_calls:
        fail("42803", "arguments to GROUPING must be grouping expressions of the associated query level")
    if node.locking:
        query = _add_locks(state, node, query)
    return query


def _add_locks(state: State, node: ast.SelectStmt, query: tree.Query) -> tree.Query:
    clauses.check_lockable(node, query)
    marks = clauses.row_marks(state, node)
    return replace(query, range_table=tuple(state.entries), row_marks=marks)


def _check_grouping(state: State, query: tree.Query) -> None:
    """parseCheckAggregates over everything that is computed after grouping."""
    if state.aggregates and any(isinstance(entry, tree.RangeCte) and entry.recursive_self for entry in state.entries):
        fail(
            "42P19",
            "aggregate functions are not allowed in a recursive query's recursive term",
            first_aggregate([*(target.expression for target in query.targets), query.having]),
        )
    exprs = [target.expression for target in query.targets]
    if query.having is not None:
        exprs.append(query.having)
    exprs.extend(clause.expression for clause in query.order_by)
    exprs.extend(query.distinct or ())
    for window in query.windows:
        exprs.extend(window.partition_by)
        exprs.extend(clause.expression for clause in window.order_by)
    always = frozenset(range(len(query.group_by)))
    for grouping_set in query.grouping_sets:
        always &= frozenset(grouping_set)
    check_grouping(state, exprs, query.group_by, always)


# ---- VALUES ---------------------------------------------------------------------------------------------------------


def _values_row(state: State, row: Sequence[ast.Node], kind: str) -> list[tree.Expr]:
    """One row; `t.*` in it stands for all columns of t."""
    cells: list[tree.Expr] = []
    for cell in row:
        if isinstance(cell, ast.SetToDefault):
            fail("42601", "DEFAULT is not allowed in this context", cell)
        if isinstance(cell, ast.ColumnRef) and cell.names[-1] == "*":
            cells += [expr for _, expr in expand_star(state, cell)]
        else:
            cells.append(expression(state, cell, kind))
    return cells


def _values(state: State, node: ast.SelectStmt, settle_unknown: bool) -> tree.Query:
    """transformValuesClause: a query over a list of rows; each column has the common type of its values."""
    kind = "single VALUES" if len(node.values) == 1 else "VALUES"
    rows = [_values_row(state, row, kind) for row in node.values]
    width = len(rows[0])
    if not width:
        refuse("VALUES without columns", node)
    for written, row in zip(node.values, rows, strict=True):
        if len(row) != width:
            fail("42601", "VALUES lists must all be the same length", written[0] if written else node)
    columns = [[row[position] for row in rows] for position in range(width)]
    ready, types = [], []
    for cells in columns:
        oid = common_types.select_common_type(cells, "VALUES")[0]
        if len(cells) == 1 and not settle_unknown:
            oid = cells[0].type.oid
        cast = [coerce.to_common(state, cell, oid, "VALUES") for cell in cells]
        types.append(common_types.common_type(cast, oid))
        ready.append(cast)
    names = [f"column{position}" for position in range(1, width + 1)]
    range_columns = tuple(tree.RangeColumn(name, found) for name, found in zip(names, types, strict=True))
    entry = tree.RangeValues(tuple(zip(*ready, strict=True)), "*VALUES*", range_columns, bool(state.parent))
    item = positional_item(state.add(entry), entry)
    state.names.append(item)
    state.namespace.append(item)
    targets = [make_target(state, expr, name) for name, expr in zip(names, item.read_all(), strict=True)]
    order = clauses.order_by(state, node.order_by, targets)
    offset = clauses.limit(state, node.offset, "OFFSET")
    limit = clauses.limit(state, node.limit, "LIMIT", node.limit_with_ties)
    if node.locking:
        fail("0A000", f"FOR {node.locking[0].strength.upper()} cannot be applied to VALUES")
    return tree.Query(
        tuple(targets), tuple(state.entries), (tree.FromRef(item.index),), order_by=order, limit=limit,
        limit_with_ties=node.limit_with_ties, offset=offset, ctes=tuple(state.ctes.values()), volatile=state.volatile,
    )  # fmt: skip
