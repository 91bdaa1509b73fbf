"""Set-returning functions by which rows are grouped, as functions in FROM.

    SELECT unnest(a) AS x, count(*) FROM t GROUP BY x
    SELECT u.x, count(*) FROM t, ROWS FROM (unnest(a)) AS u(x) GROUP BY u.x

Both expand rows after WHERE and before they are grouped, several functions in step, and drop a row for which there are
none. (PostgreSQL: a ProjectSet below the Agg, split_pathtarget_at_srfs.)
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from catalog.types.oids import RECORD
from engine.sql import tree
from engine.sql.analyze.walk import expressions_in, transform


def sets_in_from(query: tree.Query) -> tree.Query:
    """The query with such functions in FROM; itself where it has none, or one of records or of another's rows."""
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
        name: _changed(getattr(query, name), change)
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
    """The calls of set-returning functions in expressions, those of sub-queries left out, each once."""
    parts = node if isinstance(node, tuple) else (node,)
    found = [item for part in parts for item, depth in expressions_in(part) if depth == 0]
    return list(dict.fromkeys(item for item in found if isinstance(item, tree.FuncExpr) and item.function.returns_set))


def _gives_records(call: tree.FuncExpr) -> bool:
    return call.type.oid == RECORD or len(call.function.output_types) > 1


def _changed(value: Any, change: Callable[[object, int], object]) -> Any:
    if isinstance(value, tuple):
        return tuple(_changed(item, change) for item in value)
    return value if value is None else transform(value, change)
