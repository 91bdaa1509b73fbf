"""min() and max() of a column with an ordered key or index: read one row from one end.

As in PostgreSQL, each such aggregate becomes a scalar sub-query:

    SELECT max(a) FROM t WHERE b = 1
    SELECT (SELECT a FROM t WHERE b = 1 AND a IS NOT NULL ORDER BY a DESC LIMIT 1)
"""

from __future__ import annotations

from dataclasses import replace

from catalog.catalog import Catalog
from catalog.functions.registry import aggregate_of, operator
from catalog.schema import FIRST_USER_OID, Table
from catalog.types.base import TypeRef
from catalog.types.oids import INT8
from engine.execute.access import Finder, order_served
from engine.sql import tree
from engine.sql.tree_walk import conjuncts, has_sublink, is_volatile, shift_levels, substitute, walk


def ends_of_indexes(catalog: Catalog, query: tree.Query, without: frozenset[int] | None) -> tree.Query:
    """The query with its aggregates replaced, or the unchanged query if one of them has no such key. `without`: see
    Finder."""
    if not query.has_aggregates or query.group_by or query.having or query.distinct is not None or query.order_by:
        return query
    if len(query.from_items) != 1 or not isinstance(query.from_items[0], tree.FromRef):
        return query
    relation = query.from_items[0].relation
    entry = query.range_table[relation]
    if not isinstance(entry, tree.RangeTable) or not isinstance(entry.table, Table):
        return query
    if is_volatile(query.where) or has_sublink(query.where) or has_sublink(query.targets):
        return query
    found = [item for item in walk(query.targets) if isinstance(item, tree.Aggref)]
    inner = {item: _end(catalog, query, entry.table, relation, item, without) for item in found}
    if not all(inner.values()):
        return query

    def change(node: object, depth: int) -> object:
        if isinstance(node, tree.Aggref) and (end := inner[node]) is not None:
            return tree.SubLink("expr", end, node.type)
        return None

    targets = substitute(query.targets, change)
    return replace(query, targets=targets, range_table=(), from_items=(), where=None, has_aggregates=False)


def _end(
    catalog: Catalog,
    query: tree.Query,
    table: Table,
    relation: int,
    item: tree.Aggref,
    without: frozenset[int] | None,
) -> tree.Query | None:
    """The sub-query that computes one aggregate from the end of a key or index, None if none has its order."""
    if item.filter is not None or item.levels_up or len(item.arguments) != 1 or item.order_by:
        return None
    sort = aggregate_of(item.function).sort_operator
    if not sort:
        return None
    if sort >= FIRST_USER_OID:
        return None
    descending = operator(sort).name == ">"
    argument = item.arguments[0]
    order = (tree.SortClause(argument, descending, descending),)
    parts = (*conjuncts(query.where), tree.NullTest(argument, False))
    finder = Finder(catalog, table, relation, without=without)
    finder.add(parts)
    if order_served(finder.best(order), relation, order) is None:
        return None
    where = parts[0] if len(parts) == 1 else tree.BoolExpr("and", parts)
    inner = tree.Query(
        targets=(tree.Target(argument, "end"),),
        range_table=query.range_table,
        from_items=query.from_items,
        where=where,
        order_by=order,
        limit=tree.Const(1, TypeRef(INT8)),
    )
    return shift_levels(inner, 1)
