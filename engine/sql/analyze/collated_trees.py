"""Converts parts of analysed trees to collated types (catalog/types/collated.py), for collations.py."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from catalog import collations
from catalog.types import element_of
from catalog.types.collated import Rules
from catalog.types.collated_oids import FIRST_OID, plain
from catalog.types.oids import COLLATABLE
from engine.sql import tree
from engine.sql.analyze.targets import range_columns
from engine.sql.tree_walk import shift_levels, substitute


def loose(rules: Rules | None) -> bool:
    """Whether different texts can be equal."""
    return rules is not None and not rules.deterministic


def texts(node: Any) -> bool:
    """Whether the type is text, or an array of texts."""
    oid = plain(node.type.oid)
    return oid in COLLATABLE or element_of(oid) in COLLATABLE


def as_collated(node: Any, rules: Rules | None) -> Any:
    """The expression relabelled to the collated type, if the collation has rules and the expression is text."""
    if rules is None or not texts(node) or node.type.oid >= FIRST_OID:
        return node
    type_ = collations.collated_type(node.type.oid, rules)
    if isinstance(node, tree.ArrayExpr):
        element = collations.collated_type(node.element_type.oid, rules)
        elements = tuple(as_collated(item, rules) for item in node.elements)
        return replace(node, elements=elements, type=type_, element_type=element)
    return tree.RelabelType(node, type_)


def grouped_loosely(node: tree.Query, equal: Sequence[tuple[tree.Expr, Rules | None]]) -> tree.Query:
    """GROUP BY under collations in which different texts can be equal. The keys are collated, and the output is one
    text of each group."""
    keys = {item: as_collated(item, rules) for item, rules in equal}
    shown = {item: tree.RelabelType(key, item.type) for item, key in keys.items()}

    def change(item: Any, depth: int) -> Any:
        if isinstance(item, tree.Aggref | tree.Query):
            return item
        return shown.get(item)

    def put(part: Any) -> Any:
        return substitute(part, change)

    return replace(
        node,
        group_by=tuple(keys.get(item, item) for item in node.group_by),
        targets=tuple(replace(target, expression=put(target.expression)) for target in node.targets),
        having=put(node.having),
        order_by=tuple(replace(item, expression=put(item.expression)) for item in node.order_by),
        windows=tuple(put(item) for item in node.windows),
        distinct=None if node.distinct is None else tuple(put(item) for item in node.distinct),
    )


def with_collated_output(query: tree.Query, found: dict[int, Rules]) -> tree.Query:
    """The query with some output columns (by place) as collated types."""
    if query.set_operation is None and query.distinct is None and not query.has_set_functions:
        place = -1
        targets = []
        for target in query.targets:
            place += not target.junk
            rules = None if target.junk else found.get(place)
            targets.append(replace(target, expression=as_collated(target.expression, rules)))
        return replace(query, targets=tuple(targets))
    inner = shift_levels(query, 1)
    columns = range_columns(inner.targets)
    outer = tuple(
        tree.Target(as_collated(tree.Var(0, n, column.type, 0, column.name), found.get(n - 1)), column.name)
        for n, column in enumerate(columns, 1)
    )
    return tree.Query(outer, (tree.RangeSubquery(inner, "*SELECT*", columns),), (tree.FromRef(0),))
