"""Sets of users' functions in the target list become rows of FROM, in step with the other sets of that list.

    SELECT x, (f(x)).a, unnest(y) FROM t
    SELECT x, r.a, r.unnest FROM t, LATERAL ROWS FROM (f(x), unnest(y)) AS r(a, b, unnest)

With groups, aggregates or window functions, the sets come after them:

    SELECT f(count(*)) FROM t
    SELECT r.f FROM (SELECT count(*) AS c FROM t) AS below, LATERAL f(below.c) AS r(f)

(PostgreSQL: ProjectSet, which is above grouping and windows, and below DISTINCT.)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from catalog.errors import not_supported
from catalog.routines import LANGUAGE
from catalog.types import oids
from engine.sql import tree
from engine.sql.analyze.routine_columns import columns_of_call, is_row
from engine.sql.levels import over
from engine.sql.set_places import BelowFunctions, sets_in
from engine.sql.tree_walk import substitute

Calls = Sequence[tree.FuncExpr]


def set_calls(query: tree.Query) -> list[tree.FuncExpr]:
    """The distinct calls of sets in the target list, if one of them is of a user's function. Raises 0A000 for a set of
    another set."""
    calls = sets_in((query.targets, query.order_by, query.distinct or (), query.group_by))
    if not any(call.function.language == LANGUAGE for call in calls):
        return []
    for call in calls:
        if sets_in(call.arguments):
            not_supported(f"function {call.function.name}, which returns a set, of another set")
    return calls


def is_sorted_before(query: tree.Query) -> bool:
    """Whether its rows are sorted before its sets make several of each; these must stay together, in their order."""
    return bool(query.order_by) and not sets_in(query.order_by)


def below_sets(query: tree.Query) -> tree.Query:
    """The query with its groups and windows in a sub-query, if its sets come after them."""
    is_plain = not (query.group_by or query.grouping_sets or query.has_aggregates or query.has_windows)
    if is_plain or sets_in(query.group_by):
        return query
    below = BelowFunctions(query, query.group_by)
    above = {name: below.rebuilt(getattr(query, name)) for name in ("targets", "order_by", "distinct")}
    inner = replace(
        query, order_by=(), distinct=None, limit=None, offset=None, limit_with_ties=False, has_set_functions=False
    )
    return over(query, inner, below, **above, has_set_functions=True)


def in_from(query: tree.Query, calls: Calls, rows_of: Callable[[tree.FuncExpr], tree.Query] | None) -> tree.Query:
    """The query with the calls in FROM. `rows_of` gives the rows of the only call as a sub-query; None: the calls stay
    calls, in step. Raises 0A000 for records without declared columns."""
    relation, name = len(query.range_table), calls[0].function.name
    columns = [columns_of_call(call) for call in calls]
    entry: tree.RangeEntry
    if rows_of is not None:
        rows = rows_of(calls[0])
        columns = [tuple(tree.RangeColumn(target.name, target.expression.type) for target in rows.output)]
        entry = tree.RangeSubquery(rows, name, columns[0], True)
    else:
        if not all(columns):
            not_supported(f"function {name}, which returns a set of records, in a target list")
        flat = tuple(column for each in columns for column in each)
        entry = tree.RangeFunction(tuple(calls), name, flat, tuple(map(len, columns)), lateral=True)
    values: dict[object, list[tree.Expr]] = {}
    wholes: dict[object, tree.Expr] = {}
    number = 0
    for call, each in zip(calls, columns, strict=True):
        values[call] = [tree.Var(relation, n, column.type, 0, column.name) for n, column in enumerate(each, number + 1)]
        number += len(each)
        wholes[call] = values[call][0]
        if call.type.oid == oids.RECORD or is_row(call.type):
            names = call.function.output_names or tuple(column.name for column in each)
            wholes[call] = tree.RowExpr(tuple(values[call]), names, call.type)

    def change(item: object, depth: int) -> object:
        if depth:
            return None
        if isinstance(item, tree.FieldSelect) and item.argument in values:
            return values[item.argument][item.field - 1]
        return wholes.get(item) if isinstance(item, tree.FuncExpr) else None

    changed = {
        part: substitute(getattr(query, part), change) for part in ("targets", "order_by", "distinct", "group_by")
    }
    return replace(
        query,
        **changed,
        range_table=(*query.range_table, entry),
        from_items=(*query.from_items, tree.FromRef(relation)),
        has_set_functions=False,
    )
