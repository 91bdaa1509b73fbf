"""Queries of which one level becomes two.

    SELECT format_type(unnest(a), NULL) FROM t
    SELECT format_type(q.c1, NULL) FROM (SELECT unnest(a) FROM t) AS q

A function that looks into the catalog becomes a sub-query with its arguments inside (`catalog_functions`). DuckDB takes
neither window functions nor UNNEST there. So the level below computes them, and the columns beside them.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from catalog.errors import not_supported
from engine.columnar.generate.catalog_functions import catalog_functions, codec
from engine.sql import tree
from engine.sql.analyze.walk import expressions_in, shift_levels, substitute

_ABOVE = ("targets", "distinct", "order_by")


def lookups_above(query: tree.Query) -> tree.Query:
    """The query with such look-ups above a sub-query for all else; itself where it has none. Raises 0A000."""
    if not (query.has_windows or query.has_set_functions):
        return query
    above = {name: getattr(query, name) for name in _ABOVE}
    if not any(_looks_up(item) and _has_rows_below(item) for item in _here(above.values())):
        return query
    below = _Below(query)
    changed = {name: below.rebuilt(value) for name, value in above.items()}
    inner = replace(
        query,
        targets=tuple(tree.Target(item, f"c{number}") for item, number in below.numbers.items()),
        distinct=None,
        order_by=(),
        limit=None,
        offset=None,
        limit_with_ties=False,
    )
    columns = tuple(tree.RangeColumn(target.name, target.expression.type) for target in inner.targets)
    return tree.Query(
        **changed,
        range_table=(tree.RangeSubquery(shift_levels(inner, 1), "below", columns),),
        from_items=(tree.FromRef(0),),
        limit=query.limit,
        offset=query.offset,
        limit_with_ties=query.limit_with_ties,
        volatile=query.volatile,
    )


def _here(parts: Any) -> list[object]:
    """The expressions of this level."""
    pending: list[Any] = list(parts)
    found: list[object] = []
    while pending:
        part = pending.pop()
        if isinstance(part, tuple):
            pending.extend(part)
        elif part is not None:
            found.extend(item for item, depth in expressions_in(part) if depth == 0)
    return found


def _looks_up(item: object) -> bool:
    if isinstance(item, tree.CoerceViaIO):
        return codec(item.argument.type.oid, "out") is not None or codec(item.type.oid, "in") is not None
    return isinstance(item, tree.FuncExpr) and item.function.source in catalog_functions


def _has_rows_below(item: object) -> bool:
    return any(inner is not item and _makes_rows(inner) for inner in _here([item]))


def _makes_rows(item: object) -> bool:
    return isinstance(item, tree.WindowFunc) or (isinstance(item, tree.FuncExpr) and item.function.returns_set)


class _Below:
    """The columns of the level below: what the expressions above are made of."""

    def __init__(self, query: tree.Query) -> None:
        self.numbers: dict[tree.Expr, int] = {}
        self._grouped = bool(query.group_by or query.grouping_sets or query.has_aggregates)
        self._groups = frozenset(query.group_by)
        self._ctes = frozenset(cte.name for cte in query.ctes)

    def rebuilt(self, value: Any) -> Any:
        if isinstance(value, tuple):
            return tuple(self.rebuilt(item) for item in value)
        return value if value is None else substitute(value, self._column)

    def _column(self, item: object, depth: int) -> object:
        if depth and isinstance(item, tree.RangeCte) and item.levels_up == depth and item.name in self._ctes:
            not_supported(f"WITH query {item.name} in a sub-query beside this call")
        if not self._is_column(item, depth):
            return item
        made: Any = item
        here = replace(made, levels_up=0) if depth else made
        if depth and (isinstance(item, tree.Aggref) or (self._grouped and here not in self._groups)):
            not_supported("a sub-query over groups beside this call")
        number = self.numbers.setdefault(here, len(self.numbers) + 1)
        return tree.Var(0, number, made.type, depth)

    def _is_column(self, item: object, depth: int) -> bool:
        if isinstance(item, (tree.Var, tree.Aggref)):
            return item.levels_up == depth
        if depth:
            return False
        return _makes_rows(item) or isinstance(item, tree.GroupingFunc) or item in self._groups
