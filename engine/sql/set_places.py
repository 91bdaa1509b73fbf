"""Set-returning functions at places other than the select list.

In GROUP BY they become functions in FROM:

    SELECT unnest(a) AS x, count(*) FROM t GROUP BY x
    SELECT u.x, count(*) FROM t, ROWS FROM (unnest(a)) AS u(x) GROUP BY u.x

Both forms expand rows after WHERE and before grouping, several functions in step, and drop a row without results.
(PostgreSQL: a ProjectSet below the Agg, split_pathtarget_at_srfs.)

With a DISTINCT ON that is sorted by other expressions, they move above it:

    SELECT DISTINCT ON (a) a, unnest(b) FROM t ORDER BY a, c
    SELECT q.a, unnest(q.b) FROM (SELECT DISTINCT ON (a) a, b, c FROM t ORDER BY a, c) AS q ORDER BY q.a, q.c

(PostgreSQL: make_sort_input_target, which evaluates them after the sort.)
"""

from __future__ import annotations

from dataclasses import replace

from catalog.types.oids import RECORD
from engine.sql import tree
from engine.sql.levels import Below, over
from engine.sql.tree_walk import transform, walk_with_depth


def sets_apart(query: tree.Query) -> tree.Query:
    """Moves set-returning functions to supported places. Returns the query itself if it has none."""
    return _sets_above(_sets_in_from(query)) if query.has_set_functions else query


def _sets_above(query: tree.Query) -> tree.Query:
    keys = (*(query.distinct or ()), *(clause.expression for clause in query.order_by))
    if not (query.distinct and query.order_by and query.has_set_functions) or _calls(keys):
        return query
    below = _Expanded(query, keys)
    above = {name: below.rebuilt(getattr(query, name)) for name in ("targets", "order_by")}
    for key in query.distinct:
        below.number(key)
    inner = replace(query, limit=None, offset=None, limit_with_ties=False, has_set_functions=False)
    return over(query, inner, below, **above, has_set_functions=True)


class _Expanded(Below):
    """The columns below the set-returning functions: all expressions except these functions."""

    def __init__(self, query: tree.Query, keys: tuple[tree.Expr, ...]) -> None:
        super().__init__(query)
        self._keys = frozenset(keys)

    def is_column(self, item: object, depth: int) -> bool:
        if not depth and item in self._keys:
            return True
        return super().is_column(item, depth) and not isinstance(item, tree.FuncExpr)


def _sets_in_from(query: tree.Query) -> tree.Query:
    """Moves set-returning functions to FROM. Returns the query itself if it has none, or one that returns records or
    belongs to an outer query."""
    if not (query.group_by and query.has_set_functions):
        return query
    calls = _calls(query.group_by)
    if not calls or any(_calls(call.arguments) or _gives_records(call) for call in calls):
        return query
    relation = len(query.range_table)
    values = {
        call: tree.Var(relation, number, call.type, 0, call.function.name) for number, call in enumerate(calls, 1)
    }

    def change(node: object, depth: int) -> object:
        return values.get(node, node) if depth == 0 and isinstance(node, tree.FuncExpr) else node

    columns = tuple(tree.RangeColumn(call.function.name, call.type) for call in calls)
    entry = tree.RangeFunction(tuple(calls), calls[0].function.name, columns, (1,) * len(calls), lateral=True)
    changed = {
        name: transform(getattr(query, name), change)
        for name in ("targets", "group_by", "having", "windows", "distinct", "order_by")
    }
    return replace(
        query,
        **changed,
        range_table=(*query.range_table, entry),
        from_items=(*query.from_items, tree.FromRef(relation)),
        has_set_functions=any(_calls(target.expression) for target in changed["targets"]),
    )


def _calls(node: object) -> list[tree.FuncExpr]:
    """The calls of set-returning functions in expressions, each once, without those in sub-queries."""
    found = [item for item, depth in walk_with_depth(node) if depth == 0]
    return list(dict.fromkeys(item for item in found if isinstance(item, tree.FuncExpr) and item.function.returns_set))


def _gives_records(call: tree.FuncExpr) -> bool:
    return call.type.oid == RECORD or len(call.function.output_types) > 1
