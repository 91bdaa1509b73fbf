"""Walking analysed trees: what an expression refers to, and copies of it with parts replaced."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Any, cast

from engine.sql import tree
from engine.sql.analyze.walk import NO_NODE, node_fields
from engine.sql.analyze.walk import children as nodes_under

_LEAVES = (
    tree.Const,
    tree.Param,
    tree.Var,
    tree.CaseTestExpr,
    tree.DomainValue,
    tree.NextValueExpr,
    tree.SqlValueFunction,
    tree.CurrentOf,
)
_CONSTANT = (
    tree.Const,
    tree.Param,
    tree.FuncExpr,
    tree.BoolExpr,
    tree.NullTest,
    tree.BooleanTest,
    tree.ScalarArrayOp,
    tree.ArrayExpr,
    tree.RelabelType,
    tree.CoerceViaIO,
    tree.CoerceTypmod,
)


def children(node: object) -> Iterator[object]:
    """The nodes directly under one, those in tuples included."""
    if isinstance(node, tuple):
        items: Iterable[object] = node
    else:
        names = node_fields[type(node)]
        items = () if names is NO_NODE else [getattr(node, name) for name in names]
    for item in items:
        if isinstance(item, tuple):
            yield from children(item)
        elif node_fields[type(item)] is not NO_NODE:
            yield item


def walk(node: object, depth: int = 0) -> list[tuple[object, int]]:
    """Every node of the tree under (and with) `node`, with the number of queries entered on the way to it."""
    found: list[tuple[object, int]] = []
    _collect(node, depth, found)
    return found


def _collect(node: object, depth: int, found: list[tuple[object, int]]) -> None:
    if isinstance(node, tuple):
        for item in node:
            _collect(item, depth, found)
        return
    names = node_fields[type(node)]
    if names is NO_NODE:
        return
    found.append((node, depth))
    if type(node) is tree.Query:
        depth += 1
    for name in names:
        child = getattr(node, name)
        if child is not None:
            _collect(child, depth, found)


def variables(node: object) -> list[tree.Var]:
    """The columns that an expression refers to, those of outer queries and from inside sub-queries included.

    `levels_up` of what comes back is relative to the expression's own query; Vars of queries inside it are left out.
    """
    found: list[tree.Var] = []
    _collect_variables(node, 0, found)
    return found


def _collect_variables(node: object, depth: int, found: list[tree.Var]) -> None:
    kind = type(node)
    if kind is tuple:
        for item in node:  # type: ignore[attr-defined]
            _collect_variables(item, depth, found)
        return
    if kind is tree.Var:
        assert isinstance(node, tree.Var)
        if node.levels_up >= depth:
            found.append(replace(node, levels_up=node.levels_up - depth) if depth else node)
        return
    if kind is tree.Query:
        for item in _outer_variables(node):  # type: ignore[arg-type]
            if item.levels_up >= depth:
                found.append(replace(item, levels_up=item.levels_up - depth) if depth else item)
        return
    names = node_fields[kind]
    if names and names is not NO_NODE:
        for child in nodes_under(node):
            _collect_variables(child, depth, found)


def _outer_variables(query: tree.Query) -> list[tree.Var]:
    """What a query refers to of those around it, seen from the one that it stands in."""
    known = cast(list[tree.Var] | None, query.facts.get(_outer_variables))
    if known is None:
        known = []
        _collect_variables(own_parts(query), 1, known)
        query.facts[_outer_variables] = known
    return known


def outer_ctes(query: tree.Query) -> frozenset[int]:
    """The queries around this one whose WITH it reads: 0 for the one that it stands in, 1 for the next, ..."""
    known = cast(frozenset[int] | None, query.facts.get(outer_ctes))
    if known is None:
        known = frozenset([levels - 1 for levels in _cte_levels(own_parts(query)) if levels])
        query.facts[outer_ctes] = known
    return known


def own_parts(query: tree.Query) -> tuple[object, ...]:
    """What a query is made of, for walks that begin within it."""
    return tuple([getattr(query, name) for name in node_fields[tree.Query]])


def _cte_levels(node: object) -> Iterator[int]:
    """`levels_up` of what reads WITH under a node, as from the query that the node is of."""
    if isinstance(node, tree.Query):
        yield from outer_ctes(node)
        return
    if isinstance(node, tree.RangeCte):
        yield node.levels_up
    for child in children(node):
        yield from _cte_levels(child)


def relations_of(node: object) -> frozenset[int]:
    """Range table indexes of the expression's own query that it refers to."""
    return frozenset([item.relation for item in variables(node) if item.levels_up == 0])


def contains(node: object, test: Callable[[object], bool]) -> bool:
    """Whether the test holds for a node of the tree; not all are looked at once it does."""
    pending = [node]
    while pending:
        item = pending.pop()
        kind = type(item)
        if kind is tuple:
            pending += item  # type: ignore[arg-type]
            continue
        if node_fields[kind] is NO_NODE:
            continue
        if test(item):
            return True
        if kind is tree.Query and test in _ASKED_AGAIN:
            query = cast(tree.Query, item)
            known = query.facts.get(test)
            if known is None:
                known = query.facts[test] = contains(own_parts(query), test)
            if known:
                return True
            continue
        pending += nodes_under(item)
    return False


def is_volatile(node: object) -> bool:
    """Whether it calls something that gives another value each time (or does something)."""
    return contains(node, _changes)


def _changes(node: object) -> bool:
    kind = type(node)
    return (kind is tree.FuncExpr and node.function.volatility == "v") or kind is tree.NextValueExpr  # type: ignore[attr-defined]


def is_the_same_for_every_row(condition: tree.Expr) -> bool:
    """Whether it is made of constants and parameters, so that PostgreSQL tells it, errors included, without any row."""
    return not contains(condition, _differs)


def _differs(node: object) -> bool:
    return not isinstance(node, _CONSTANT) or _changes(node)


def has_sublink(node: object) -> bool:
    """Whether there is a sub-query in it."""
    return contains(node, _is_sublink)


def _is_sublink(node: object) -> bool:
    return type(node) is tree.SubLink


_ASKED_AGAIN = (_changes, _is_sublink)  # at every level; what they find in a query is kept with it


def transform(node: Any, change: Callable[[Any, int], Any], depth: int = 0) -> Any:
    """A copy with `change(node, depth)` put in place of every node for which it gives something other than None."""
    if isinstance(node, tuple):
        items = [transform(item, change, depth) for item in node]
        return node if all(a is b for a, b in zip(items, node, strict=True)) else tuple(items)
    if node_fields[type(node)] is NO_NODE:
        return node
    changed = change(node, depth)
    if changed is not None:
        return changed
    if isinstance(node, _LEAVES):
        return node
    inner = depth + isinstance(node, tree.Query)
    found: dict[str, Any] = {}
    for name in node_fields[type(node)]:
        child = getattr(node, name)
        new = transform(child, change, inner)
        if new is not child:
            found[name] = new
    return replace(cast(Any, node), **found) if found else node


def conjuncts(condition: tree.Expr | None) -> list[tree.Expr]:
    """The conditions that an AND joins, flat."""
    if condition is None:
        return []
    if isinstance(condition, tree.BoolExpr) and condition.operator == "and":
        return [item for argument in condition.arguments for item in conjuncts(argument)]
    return [condition]
