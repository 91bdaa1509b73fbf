"""Splits one query level into two: a sub-query computes the inputs of the expressions above it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from catalog.errors import not_supported
from engine.sql import tree
from engine.sql.tree_walk import shift_levels, substitute


def over(query: tree.Query, inner: tree.Query, below: Below, **above: Any) -> tree.Query:
    """A level with these parts over `inner`, which returns the columns of `below`, with the limits of the query."""
    targets = tuple(tree.Target(item, f"c{number}") for number, item in enumerate(below.columns, 1))
    columns = tuple(tree.RangeColumn(target.name, target.expression.type) for target in targets)
    inner = replace(inner, targets=targets)
    return tree.Query(
        **above,
        range_table=(tree.RangeSubquery(shift_levels(inner, 1), "below", columns),),
        from_items=(tree.FromRef(0),),
        limit=query.limit,
        offset=query.offset,
        limit_with_ties=query.limit_with_ties,
        volatile=query.volatile,
    )


def makes_rows(item: object) -> bool:
    """Whether it is a window function or a set-returning one."""
    return isinstance(item, tree.WindowFunc) or (isinstance(item, tree.FuncExpr) and item.function.returns_set)


class Below:
    """The columns of the lower level, which are the inputs of the expressions above."""

    def __init__(self, query: tree.Query) -> None:
        self.columns: list[tree.Expr] = []
        self.grouped = bool(query.group_by or query.grouping_sets or query.has_aggregates)
        self.groups = frozenset(query.group_by)
        self._numbers: dict[tree.Expr, int] = {}
        self._ctes = frozenset(cte.name for cte in query.ctes)

    def rebuilt(self, value: Any) -> Any:
        return substitute(value, self._column)

    def add(self, item: tree.Expr) -> int:
        """Adds a column."""
        self.columns.append(item)
        return len(self.columns)

    def number(self, item: tree.Expr) -> int:
        """The number of the column for an expression. Equal expressions share a column."""
        found = self._numbers.get(item)
        if found is None:
            found = self._numbers[item] = self.add(item)
        return found

    def _column(self, item: object, depth: int) -> object:
        if depth and isinstance(item, tree.RangeCte) and item.levels_up == depth and item.name in self._ctes:
            not_supported(f"WITH query {item.name} in a sub-query beside this call")
        if not self.is_column(item, depth):
            return None
        made: Any = item
        here = replace(made, levels_up=0) if depth else made
        if depth and (isinstance(item, tree.Aggref) or (self.grouped and here not in self.groups)):
            not_supported("a sub-query over groups beside this call")
        return tree.Var(0, self.number(here), made.type, depth)

    def is_column(self, item: object, depth: int) -> bool:
        """Whether it becomes a column, at this depth of nested queries."""
        if isinstance(item, (tree.Var, tree.Aggref)):
            return item.levels_up == depth
        if depth:
            return False
        return makes_rows(item) or isinstance(item, tree.GroupingFunc) or item in self.groups
