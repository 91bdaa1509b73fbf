"""The order of rows after window functions, for queries without ORDER BY.

PostgreSQL evaluates one window after the other, each over rows sorted for it, so a client sees the order of the last
sort. SQL guarantees no order, but clients rely on this one. So a query for a client gets that sort as its ORDER BY. The
order of the windows follows planner.c (select_active_windows, common_prefix_cmp).
"""

from __future__ import annotations

from dataclasses import replace
from functools import cmp_to_key

from engine.sql import tree
from engine.sql.tree_walk import walk_with_depth

_Key = tuple[int, bool, bool]  # (number of the expression, descending, nulls first)


def in_window_order(query: tree.Query) -> tree.Query:
    """Returns the query with the order of its last window as ORDER BY; also if the windows are in the only sub-query in
    FROM and this level does not group or limit the rows."""
    grouped = query.group_by or query.has_aggregates or query.set_operation is not None
    if query.order_by or query.distinct is not None or query.limit_with_ties or query.row_marks:
        return query
    if query.windows:
        return replace(query, order_by=_last_sort(query))
    item = query.from_items[0] if len(query.from_items) == 1 else None
    if grouped or query.limit is not None or query.offset is not None or not isinstance(item, tree.FromRef):
        return query
    entry = query.range_table[item.relation]
    if not isinstance(entry, tree.RangeSubquery):
        return query
    inner = in_window_order(entry.query)
    if inner is entry.query:
        return query
    entries = list(query.range_table)
    entries[item.relation] = replace(entry, query=inner)
    return replace(query, range_table=tuple(entries))


def _last_sort(query: tree.Query) -> tuple[tree.SortClause, ...]:
    used = {
        item.window
        for target in query.targets
        for item, depth in walk_with_depth(target.expression)
        if isinstance(item, tree.WindowFunc) and depth == 0
    }
    numbers: dict[tree.Expr, int] = {}
    for expression in query.group_by:
        numbers.setdefault(expression, len(numbers))
    sorts: list[dict[_Key, tree.SortClause]] = []
    for place, window in enumerate(query.windows):
        clauses = (*map(tree.SortClause, window.partition_by), *window.order_by)
        keyed = {
            (numbers.setdefault(clause.expression, len(numbers)), clause.descending, clause.nulls_first): clause
            for clause in clauses
        }
        if place in used:
            sorts.append(keyed)
    current: dict[_Key, tree.SortClause] = {}
    for keyed in sorted(sorts, key=cmp_to_key(_evaluated_before)):
        keys = list(keyed)
        if list(current)[: len(keys)] != keys:
            current = keyed
    return tuple(clause for clause in current.values() if not isinstance(clause.expression, (tree.Const, tree.Param)))


def _evaluated_before(one: dict[_Key, tree.SortClause], other: dict[_Key, tree.SortClause]) -> int:
    for first, second in zip(one, other, strict=False):
        if first != second:
            return -1 if first > second else 1
    return len(other) - len(one)
