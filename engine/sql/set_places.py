"""Functions in the select list that PostgreSQL evaluates at another place: set-returning and volatile ones.

In GROUP BY they become functions in FROM:

    SELECT unnest(a) AS x, count(*) FROM t GROUP BY x
    SELECT u.x, count(*) FROM t, ROWS FROM (unnest(a)) AS u(x) GROUP BY u.x

Both forms expand rows after WHERE and before grouping, several functions in step, and drop a row without results.
(PostgreSQL: a ProjectSet below the Agg, split_pathtarget_at_srfs.)

With a DISTINCT ON that is sorted by other expressions, they move above it:

    SELECT DISTINCT ON (a) a, unnest(b) FROM t ORDER BY a, c
    SELECT q.a, unnest(q.b) FROM (SELECT DISTINCT ON (a) a, b, c FROM t ORDER BY a, c) AS q ORDER BY q.a, q.c

Volatile functions that no sort key has are called after the sort, so that a sequence numbers rows in their order:

    SELECT nextval('s'), a FROM t ORDER BY a LIMIT 5
    SELECT nextval('s'), q.a FROM (SELECT a FROM t ORDER BY a LIMIT 5) AS q

(PostgreSQL: make_sort_input_target, which evaluates both after the sort.)
"""

from __future__ import annotations

from dataclasses import replace

from catalog.errors import SqlError
from catalog.types.oids import RECORD
from engine.sql import tree
from engine.sql.levels import Below, over
from engine.sql.tree_walk import is_volatile, transform, walk_with_depth


def sets_apart(query: tree.Query) -> tree.Query:
    """Moves set-returning and volatile functions to their places. Returns the query itself if it has none."""
    if query.has_set_functions:
        return _sets_above(_sets_in_from(query))
    return _volatile_above(query) if query.volatile and query.order_by else query


def _volatile_above(query: tree.Query) -> tree.Query:
    keys = [clause.expression for clause in query.order_by]
    plain = [target.expression for target in query.targets if not is_volatile(target.expression)]
    late = [target for target in query.targets if target.expression not in (*plain, *keys)]
    if (
        not late
        or query.limit_with_ties
        or query.distinct is not None
        or query.set_operation is not None
        or query.row_marks
    ):
        return query
    below = BelowFunctions(query, (*keys, *plain))
    try:
        targets = below.rebuilt(query.targets)
    except SqlError:  # a sub-query that cannot move
        return query
    if any(is_volatile(column) and column not in keys for column in below.columns):
        return query  # within an aggregate or a window function
    unlimited = replace(query, limit=None, offset=None, limit_with_ties=False)
    if query.offset is None:
        return over(unlimited, query, below, targets=targets)
    return over(query, unlimited, below, targets=targets)  # they are called for rows that OFFSET skips


def _sets_above(query: tree.Query) -> tree.Query:
    keys = (*(query.distinct or ()), *(clause.expression for clause in query.order_by))
    if not (query.distinct and query.order_by and query.has_set_functions) or sets_in(keys):
        return query
    below = BelowFunctions(query, keys)
    above = {name: below.rebuilt(getattr(query, name)) for name in ("targets", "order_by")}
    for key in query.distinct:
        below.number(key)
    inner = replace(query, limit=None, offset=None, limit_with_ties=False, has_set_functions=False)
    return over(query, inner, below, **above, has_set_functions=True)


class BelowFunctions(Below):
    """The columns below functions that are called later: keys, and all expressions except these functions."""

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
    calls = sets_in(query.group_by)
    if not calls or any(sets_in(call.arguments) or _gives_records(call) for call in calls):
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
        has_set_functions=any(sets_in(target.expression) for target in changed["targets"]),
    )


def sets_in(node: object) -> list[tree.FuncExpr]:
    """The calls of set-returning functions in expressions, each once, without those in sub-queries."""
    found = [item for item, depth in walk_with_depth(node) if depth == 0]
    return list(dict.fromkeys(item for item in found if isinstance(item, tree.FuncExpr) and item.function.returns_set))


def _gives_records(call: tree.FuncExpr) -> bool:
    return call.type.oid == RECORD or len(call.function.output_types) > 1
