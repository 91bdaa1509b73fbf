"""Splits a query level into two, for catalog functions over window functions and sets.

    SELECT format_type(unnest(a), NULL) FROM t
    SELECT format_type(q.c1, NULL) FROM (SELECT unnest(a) FROM t) AS q

A function that reads the catalog becomes a sub-query that contains its arguments (`catalog_functions`). DuckDB allows
neither window functions nor UNNEST there. So the lower level computes them and the other columns.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from engine.columnar.generate.catalog_functions import catalog_functions, codec
from engine.sql import tree
from engine.sql.levels import Below, makes_rows, over
from engine.sql.tree_walk import walk_with_depth

_ABOVE = ("targets", "distinct", "order_by")


def lookups_above(query: tree.Query) -> tree.Query:
    """Returns the query with its catalog functions above a sub-query that computes the rest; the query itself if that
    is not necessary. Raises 0A000."""
    if not (query.has_windows or query.has_set_functions):
        return query
    above = {name: getattr(query, name) for name in _ABOVE}
    if not any(_looks_up(item) and _has_rows_below(item) for item in _here(above.values())):
        return query
    below = Below(query)
    changed = {name: below.rebuilt(value) for name, value in above.items()}
    inner = replace(query, distinct=None, order_by=(), limit=None, offset=None, limit_with_ties=False)
    return over(query, inner, below, **changed)


def _here(parts: Any) -> list[object]:
    """Returns the expressions of this level, without those of sub-queries."""
    return [item for item, depth in walk_with_depth(tuple(parts)) if depth == 0]


def _looks_up(item: object) -> bool:
    if isinstance(item, tree.CoerceViaIO):
        return codec(item.argument.type.oid, "out") is not None or codec(item.type.oid, "in") is not None
    return isinstance(item, tree.FuncExpr) and item.function.source in catalog_functions


def _has_rows_below(item: object) -> bool:
    return any(inner is not item and makes_rows(inner) for inner in _here([item]))
