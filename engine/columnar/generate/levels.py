"""Queries of which one level becomes two.

    SELECT format_type(unnest(a), NULL) FROM t
    SELECT format_type(q.c1, NULL) FROM (SELECT unnest(a) FROM t) AS q

A function that looks into the catalog becomes a sub-query with its arguments inside (`catalog_functions`). DuckDB takes
neither window functions nor UNNEST there. So the level below computes them, and the columns beside them.
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
    """The query with such look-ups above a sub-query for all else; itself where it has none. Raises 0A000."""
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
    """The expressions of this level."""
    return [item for item, depth in walk_with_depth(tuple(parts)) if depth == 0]


def _looks_up(item: object) -> bool:
    if isinstance(item, tree.CoerceViaIO):
        return codec(item.argument.type.oid, "out") is not None or codec(item.type.oid, "in") is not None
    return isinstance(item, tree.FuncExpr) and item.function.source in catalog_functions


def _has_rows_below(item: object) -> bool:
    return any(inner is not item and makes_rows(inner) for inner in _here([item]))
