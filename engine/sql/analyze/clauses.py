"""ORDER BY, GROUP BY, DISTINCT, LIMIT and locking clauses (parse_clause.c)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations, product

from catalog.schema import Table
from catalog.types import oids
from catalog.types.oids import UNKNOWN
from engine.sql import ast, tree
from engine.sql.analyze import coerce, scope
from engine.sql.analyze.dispatch import expression
from engine.sql.analyze.errors import expr_location, fail, location_of, refuse
from engine.sql.analyze.sortable import find_sort_expression, must_have_equality, sort_clause
from engine.sql.analyze.state import State
from engine.sql.tree_walk import walk_with_depth


def find_target(state: State, node: ast.Node, targets: list[tree.Target], clause: str) -> tree.Expr:
    """findTargetlistEntrySQL92: an output column by name or position, else an expression."""
    if isinstance(node, ast.ColumnRef) and len(node.names) == 1 and node.names[0] != "*":
        name = node.names[0]
        if clause != "GROUP BY" or scope.find_column(state, name, node.location, local_only=True) is None:
            position = -1
            for index, target in enumerate(targets):
                if target.name == name and not target.junk:
                    if position >= 0 and targets[position].expression != target.expression:
                        fail("42702", f'{clause} "{name}" is ambiguous', node)
                    if position < 0:
                        position = index
            if position >= 0:
                return _settle(state, targets, position, clause)
    if isinstance(node, ast.Literal):
        if node.kind != "integer":
            fail("42601", f"non-integer constant in {clause}", node)
        position = int(str(node.value)) - 1
        if not 0 <= position < len(targets):
            fail("42P10", f"{clause} position {position + 1} is not in select list", node)
        return _settle(state, targets, position, clause)
    return find_sort_expression(state, node, targets, clause)


def _settle(state: State, targets: list[tree.Target], position: int, clause: str) -> tree.Expr:
    target = targets[position]
    if target.expression.type.oid == UNKNOWN:
        target = tree.Target(coerce.settle_unknown(state, target.expression), target.name)
        targets[position] = target
    if clause == "GROUP BY":
        for item, depth in walk_with_depth(target.expression):
            if isinstance(item, tree.Aggref) and item.levels_up == depth:
                fail("42803", "aggregate functions are not allowed in GROUP BY", item.location)
            if isinstance(item, tree.WindowFunc) and depth == 0:
                fail("42P20", "window functions are not allowed in GROUP BY", item.location)
    return target.expression


def order_by(state: State, items: tuple[ast.SortBy, ...], targets: list[tree.Target]) -> tuple[tree.SortClause, ...]:
    """transformSortClause: a repeated key is dropped."""
    found: list[tree.SortClause] = []
    for item in items:
        value = find_target(state, item.expression, targets, "ORDER BY")
        clause = sort_clause(state, value, item)
        if all(value != other.expression for other in found):
            found.append(clause)
    return tuple(found)


def distinct(
    state: State,
    node: ast.SelectStmt,
    targets: list[tree.Target],
    order: tuple[tree.SortClause, ...],
) -> tuple[tree.Expr, ...] | None:
    """transformDistinctClause and transformDistinctOnClause: None, () or the ON expressions. 42P10 as they give it."""
    if node.distinct is None:
        return None
    if not node.distinct:
        outputs = []
        for position in range(len(targets)):
            outputs.append(must_have_equality(state, _settle(state, targets, position, "DISTINCT")))
        for clause in order:
            if clause.expression not in outputs:
                fail(
                    "42P10",
                    "for SELECT DISTINCT, ORDER BY expressions must appear in select list",
                    expr_location(clause.expression),
                )
        return ()
    found: list[tree.Expr] = []
    places: list[ast.Node] = []
    for item in node.distinct:
        value = must_have_equality(state, find_target(state, item, targets, "DISTINCT ON"), location_of(item))
        if value not in found:
            found.append(value)
            places.append(item)
    _match_order(found, places, order)
    return tuple(found)


def _match_order(found: list[tree.Expr], places: list[ast.Node], order: tuple[tree.SortClause, ...]) -> None:
    """DISTINCT ON expressions must come first in ORDER BY, in whatever order."""
    message = "SELECT DISTINCT ON expressions must match initial ORDER BY expressions"
    skipped = False
    matched: list[tree.Expr] = []
    for clause in order:
        if clause.expression not in found:
            skipped = True
        elif skipped:
            fail("42P10", message, places[found.index(clause.expression)])
        else:
            matched.append(clause.expression)
    for value, place in zip(found, places, strict=True):
        if skipped and value not in matched:
            fail("42P10", message, place)


def limit(state: State, node: ast.Node | None, construct: str, with_ties: bool = False) -> tree.Expr | None:
    """transformLimitClause: a bigint without variables of this level."""
    if node is None:
        return None
    value = coerce.to_specific(state, expression(state, node, construct), oids.INT8, construct)
    for item, depth in walk_with_depth(value):
        if isinstance(item, tree.Var) and item.levels_up == depth:
            fail("42P10", f"argument of {construct} must not contain variables", item.location)
    if with_ties and isinstance(value, tree.Const) and value.value is None:
        fail("2201W", "row count cannot be null in FETCH FIRST ... WITH TIES clause")
    return value


# ---- GROUP BY -------------------------------------------------------------------------------------------------------


def group_by(
    state: State, node: ast.SelectStmt, targets: list[tree.Target]
) -> tuple[tuple[tree.Expr, ...], tuple[tuple[int, ...], ...]]:
    """transformGroupClause: the grouping expressions, and the grouping sets as indexes into them (() for plain)."""
    exprs: list[tree.Expr] = []

    def place(item: ast.Node) -> int:
        value = must_have_equality(state, find_target(state, item, targets, "GROUP BY"), location_of(item))
        if value in exprs:
            if sets and sum(target.expression == value for target in targets) > 1:
                refuse("grouping sets over one expression in several output columns", item)
            return exprs.index(value)
        exprs.append(value)
        return len(exprs) - 1

    sets = any(isinstance(item, ast.GroupingSet) for item in node.group_by)
    if not sets:
        for item in node.group_by:
            for part in item.elements if isinstance(item, ast.RowExpr) and not item.explicit else (item,):
                place(part)
        return tuple(exprs), ()
    factors = [_sets(item, place) for item in node.group_by]
    combined = [tuple(dict.fromkeys(index for part in parts for index in part)) for parts in product(*factors)]
    if len(combined) > 4096:
        fail("54001", "too many grouping sets present (maximum 4096)")
    if node.group_distinct:
        combined = list({tuple(sorted(item)): item for item in combined}.values())
    return tuple(exprs), tuple(combined)


def _sets(item: ast.Node, place: object) -> list[tuple[int, ...]]:
    """The grouping sets that one item of GROUP BY stands for."""
    assert callable(place)

    def simple(node: ast.Node) -> tuple[int, ...]:
        if isinstance(node, ast.GroupingSet) and node.kind == "simple":
            return tuple(index for part in node.content for index in simple(part))
        if isinstance(node, ast.RowExpr) and not node.explicit:
            return tuple(place(part) for part in node.elements)
        return (place(node),)

    if not isinstance(item, ast.GroupingSet):
        return [simple(item)]
    if item.kind == "empty":
        return [()]
    if item.kind == "simple":
        return [simple(item)]
    if item.kind == "sets":
        return [found for part in item.content for found in _sets(part, place)]
    parts = [simple(part) for part in item.content]
    if item.kind == "rollup":
        chosen: Sequence[Sequence[tuple[int, ...]]] = [parts[:count] for count in range(len(parts), -1, -1)]
    else:
        if len(parts) > 12:
            fail("54011", "CUBE is limited to 12 elements", item)
        chosen = [found for count in range(len(parts), -1, -1) for found in combinations(parts, count)]
    return [tuple(index for part in found for index in part) for found in chosen]


# ---- FOR UPDATE -----------------------------------------------------------------------------------------------------

_STRENGTHS = ("key share", "share", "no key update", "update")


def check_lockable(node: ast.SelectStmt, query: tree.Query) -> None:
    """CheckSelectLocking: 0A000 if the rows of the result are not rows of a table."""
    what = f"FOR {node.locking[0].strength.upper()}"
    reasons = (
        (query.set_operation is not None, "UNION/INTERSECT/EXCEPT"),
        (query.distinct is not None, "DISTINCT clause"),
        (bool(query.group_by or query.grouping_sets), "GROUP BY clause"),
        (query.having is not None, "HAVING clause"),
        (query.has_aggregates, "aggregate functions"),
        (query.has_windows, "window functions"),
        (query.has_set_functions, "set-returning functions in the target list"),
    )
    for present, name in reasons:
        if present:
            fail("0A000", f"{what} is not allowed with {name}")


def row_marks(state: State, node: ast.SelectStmt) -> tuple[tree.RowMark, ...]:
    """transformLockingClause: a mark for each table that FOR UPDATE or a similar clause locks. Subqueries are marked
    inside."""
    marks: dict[int, tree.RowMark] = {}
    for clause in node.locking:
        if not clause.of:
            for index in _reachable(state):
                _mark(state, index, clause, marks)
            continue
        for name in clause.of:
            item = next((item for item in state.names if item.alias == name), None)
            if item is None:
                fail(
                    "42P01",
                    f'relation "{name}" in FOR {clause.strength.upper()} clause not found in FROM clause',
                    clause,
                )
            refused = _UNLOCKABLE.get(type(item.entry))
            if refused is not None:
                fail("0A000", f"FOR {clause.strength.upper()} cannot be applied to {refused}", clause)
            _mark(state, item.index, clause, marks)
    return tuple(marks.values())


_UNLOCKABLE: dict[type, str] = {
    tree.RangeJoin: "a join",
    tree.RangeFunction: "a function",
    tree.RangeValues: "VALUES",
    tree.RangeCte: "a WITH query",
}


def _reachable(state: State) -> list[int]:
    return [
        index for index, entry in enumerate(state.entries) if isinstance(entry, (tree.RangeTable, tree.RangeSubquery))
    ]


def _mark(state: State, index: int, clause: ast.LockingClause, marks: dict[int, tree.RowMark]) -> None:
    entry = state.entries[index]
    if isinstance(entry, tree.RangeSubquery):
        state.entries[index] = replace(entry, query=_mark_inside(state, entry.query, clause))
        return
    if isinstance(entry, tree.RangeTable) and isinstance(entry.table, Table) and entry.table.query is not None:
        fail("42809", f'cannot lock rows in materialized view "{entry.table.name}"')
    old = marks.get(index)
    strength, wait = clause.strength, clause.wait
    if old is not None:
        strength = max(strength, old.strength, key=_STRENGTHS.index)
        wait = (
            "nowait" if "nowait" in (wait, old.wait) else "skip locked" if "skip locked" in (wait, old.wait) else wait
        )
    marks[index] = tree.RowMark(index, strength, wait)
    if isinstance(entry, tree.RangeTable):
        state.shared.locked[entry.table.oid] = None


def _mark_inside(state: State, query: tree.Query, clause: ast.LockingClause) -> tree.Query:
    """The subquery with all its tables locked too."""
    inner_node = ast.SelectStmt(locking=(clause,))
    check_lockable(inner_node, query)
    marks = {mark.relation: mark for mark in query.row_marks}
    entries = list(query.range_table)
    for index, entry in enumerate(entries):
        if isinstance(entry, tree.RangeSubquery):
            entries[index] = replace(entry, query=_mark_inside(state, entry.query, clause))
        elif isinstance(entry, tree.RangeTable) and index not in marks:
            marks[index] = tree.RowMark(index, clause.strength, clause.wait, from_outer=True)
            state.shared.locked[entry.table.oid] = None
    return replace(query, range_table=tuple(entries), row_marks=tuple(marks.values()))
