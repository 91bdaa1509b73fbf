"""Computes volatile operands of aggregates, windows, DISTINCT and ORDER BY in a lower query level.

    SELECT row_number() OVER (ORDER BY random()) FROM t
    SELECT row_number() OVER (ORDER BY q.c1) FROM (SELECT random() AS c1 FROM t) AS q

The generated SQL contains such a value several times (as a key and as output, in a sum and a count), a lambda cannot
bind it there, and DuckDB refuses volatile expressions in a window's ORDER BY. A column of the lower level has one value
for each row. The sub-queries of DISTINCT aggregates become columns too, because the SQL contains them twice as well.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from engine.sql import tree
from engine.sql.levels import Below, over
from engine.sql.tree_walk import is_volatile, walk, walk_with_depth


def volatile_below(query: tree.Query) -> tree.Query:
    """Returns the query with such values in lower sub-queries; the query itself if it has none. Raises 0A000."""
    if query.set_operation is not None:
        return query
    if query.volatile:
        query = _sorted_above(query)
        query = _windows_above(query)
    return _groups_above(query)


def _sorted_above(query: tree.Query) -> tree.Query:
    keys = (*(clause.expression for clause in query.order_by), *(query.distinct or ()))
    named = query.distinct == () and not all(isinstance(target.expression, tree.Var) for target in query.output)
    if not is_volatile(keys) and not (named and is_volatile(tuple(target.expression for target in query.output))):
        return query
    below = _Sorted(query)
    targets = tuple(replace(target, expression=below.column(target.expression)) for target in query.output)
    distinct = tuple(below.key(item) for item in query.distinct) if query.distinct is not None else None
    order_by = tuple(replace(clause, expression=below.key(clause.expression)) for clause in query.order_by)
    inner = replace(query, distinct=None, order_by=(), limit=None, offset=None, limit_with_ties=False)
    return over(query, inner, below, targets=targets, distinct=distinct, order_by=order_by)


def _windows_above(query: tree.Query) -> tree.Query:
    if not query.has_windows:
        return query
    calls = tuple(_calls(query, tree.WindowFunc))
    if not is_volatile((query.windows, calls)):
        return query
    below = _Windows(query, (*_parts(query.windows), *_parts(calls)))
    above = {name: below.rebuilt(getattr(query, name)) for name in ("targets", "windows", "distinct", "order_by")}
    inner = replace(
        query, windows=(), distinct=None, order_by=(), limit=None, offset=None, limit_with_ties=False,
        has_windows=False, has_set_functions=False,
    )  # fmt: skip
    return over(query, inner, below, **above, has_windows=True, has_set_functions=query.has_set_functions)


def _groups_above(query: tree.Query) -> tree.Query:
    if not (query.group_by or query.has_aggregates):
        return query
    calls = tuple(_calls(query, tree.Aggref))
    queries = tuple(_distinct_queries(calls))
    volatile = tuple(_parts(calls)) if query.volatile else ()
    if not queries and not volatile and not (query.volatile and is_volatile(query.group_by)):
        return query
    below = _Groups(query, volatile, queries)
    names = ("targets", "group_by", "having", "windows", "distinct", "order_by")
    above = {name: below.rebuilt(getattr(query, name)) for name in names}
    inner = replace(
        query, group_by=(), grouping_sets=(), having=None, windows=(), distinct=None, order_by=(), limit=None,
        offset=None, limit_with_ties=False, has_aggregates=False, has_windows=False, has_set_functions=False,
    )  # fmt: skip
    return over(
        query, inner, below, **above, grouping_sets=query.grouping_sets, has_aggregates=query.has_aggregates,
        has_windows=query.has_windows, has_set_functions=query.has_set_functions,
    )  # fmt: skip


def _calls(query: tree.Query, kind: type) -> Iterable[Any]:
    """Yields the calls of this kind at this query level."""
    for part in (*query.targets, query.having, *query.order_by, *query.windows, *(query.distinct or ())):
        if part is not None:
            for item, depth in walk_with_depth(part):
                if depth == 0 and isinstance(item, kind) and getattr(item, "levels_up", 0) == 0:
                    yield item


def _parts(nodes: Iterable[Any]) -> Iterable[tree.Expr]:
    """Yields the volatile operands of calls and the volatile keys of windows."""
    for node in nodes:
        if isinstance(node, tree.WindowClause):
            parts: tuple[Any, ...] = (*node.partition_by, *(clause.expression for clause in node.order_by))
        else:
            parts = (*node.arguments, *([node.filter] if node.filter is not None else []))
        if isinstance(node, tree.Aggref):
            parts += (*node.direct_arguments, *(clause.expression for clause in node.order_by))
        yield from (part for part in parts if is_volatile(part))


def _distinct_queries(calls: Iterable[tree.Aggref]) -> Iterable[tree.Expr]:
    """Yields the operands of DISTINCT aggregates that contain sub-queries. DuckDB never treats two sub-queries as
    equal, so it would not find the expression of ORDER BY among the arguments."""
    for call in calls:
        if call.distinct:
            for part in (*call.arguments, *(clause.expression for clause in call.order_by)):
                if any(isinstance(item, tree.SubLink) for item in walk(part)):
                    yield part


class _Sorted(Below):
    """The lower level of a sort. Its columns are the output, and the sort keys that are not in the output."""

    def __init__(self, query: tree.Query) -> None:
        super().__init__(query)
        self._made: list[tuple[tree.Expr, tree.Var]] = []

    def column(self, item: tree.Expr) -> tree.Var:
        made = tree.Var(0, self.add(item), item.type)
        self._made.append((item, made))
        return made

    def key(self, item: tree.Expr) -> tree.Var:
        same = [made for known, made in self._made if known is item] or [m for known, m in self._made if known == item]
        return same[0] if same else self.column(item)


class _Windows(Below):
    """The lower level of windows. Its columns are columns, aggregates, groups, and the volatile operands of windows and
    their calls: each call has its own value."""

    def __init__(self, query: tree.Query, volatile: tuple[tree.Expr, ...]) -> None:
        super().__init__(query)
        self._volatile = {id(item) for item in volatile}
        self._keys = {
            key: None for clause in query.windows for key in _parts((clause,))
        }  # the same in a window and in ORDER BY

    def is_column(self, item: object, depth: int) -> bool:
        if isinstance(item, (tree.Var, tree.Aggref)):
            return item.levels_up == depth
        if depth:
            return False
        return isinstance(item, tree.GroupingFunc) or item in self.groups or self._is_volatile(item)

    def _is_volatile(self, item: object) -> bool:
        return id(item) in self._volatile or item in self._keys

    def number(self, item: tree.Expr) -> int:
        alone = id(item) in self._volatile and item not in self._keys
        return self.add(item) if alone else super().number(item)


class _Groups(Below):
    """The lower level of a grouped query. Its columns are columns, volatile expressions of GROUP BY, volatile operands
    of aggregates, and operands with sub-queries."""

    def __init__(self, query: tree.Query, volatile: tuple[tree.Expr, ...], queries: tuple[tree.Expr, ...]) -> None:
        super().__init__(query)
        self.grouped = False  # the lower level has no GROUP BY
        self._volatile = {id(item) for item in volatile}
        self._queries = {id(item) for item in queries}
        self._keys = {item: None for item in query.group_by if is_volatile(item)}

    def is_column(self, item: object, depth: int) -> bool:
        if isinstance(item, tree.Var):
            return item.levels_up == depth
        return not depth and (id(item) in self._volatile or id(item) in self._queries or item in self._keys)

    def number(self, item: tree.Expr) -> int:
        alone = id(item) in self._volatile and item not in self._keys
        return self.add(item) if alone else super().number(item)
