"""Walking and rebuilding analysed trees."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import fields, is_dataclass, replace
from typing import Any, TypeVar

from engine.sql import tree

_SKIPPED = frozenset({"function", "operator", "functions", "operators", "type", "table", "location", "element_type"})


_LEVELS = (tree.Query, tree.Insert, tree.Update, tree.Delete, tree.Merge)
_fields_of: dict[type, tuple[str, ...]] = {}


def _child_fields(node: Any) -> tuple[str, ...]:
    """Fields of a node in which other nodes may lie."""
    kind = type(node)
    found = _fields_of.get(kind)
    if found is None and kind is tree.Const:  # its value may be a list of 100,000 items, none of which is a node
        found = _fields_of[kind] = ()
    if found is None:
        found = tuple(item.name for item in fields(node) if item.name not in _SKIPPED or kind is tree.RangeFunction)
        _fields_of[kind] = found
    return found


def children(node: Any) -> Iterator[object]:
    """The nodes directly under a node (expressions, queries, clauses), tuples flattened."""
    for name in _child_fields(node):
        yield from _flat(getattr(node, name))


def _flat(value: object) -> Iterator[object]:
    if isinstance(value, tuple):
        for item in value:
            yield from _flat(item)
    elif is_dataclass(value) and not isinstance(value, type) and type(value).__module__ == tree.__name__:
        yield value


def transform(node: Any, change: Callable[[object, int], object], depth: int = 0) -> object:
    """Rebuilds a tree bottom-up: `change(node, depth)` gives the replacement, or the node itself.

    `depth` counts the queries entered on the way down. Unchanged nodes are shared, not copied.
    """
    return change(_with_parts(node, transform, change, depth), depth)


def substitute(node: Any, found: Callable[[object, int], object], depth: int = 0) -> object:
    """Rebuilds a tree top-down: what `found(node, depth)` gives in place of a node stands there as it is. `depth` and
    sharing are as in `transform`."""
    new = found(node, depth)
    return new if new is not node else _with_parts(node, substitute, found, depth)


def _with_parts(node: Any, rebuild: Callable[..., object], change: Callable[[object, int], object], depth: int) -> Any:
    """The node with `rebuild(part, change, depth)` for each part of it."""
    inner = depth + 1 if isinstance(node, _LEVELS) else depth
    changes: dict[str, object] = {}
    for name in _child_fields(node):
        old = getattr(node, name)
        new = _rebuilt(old, rebuild, change, inner)
        if new is not old:
            changes[name] = new
    return replace(node, **changes) if changes else node


def _rebuilt(
    value: object, rebuild: Callable[..., object], change: Callable[[object, int], object], depth: int
) -> object:
    if isinstance(value, tuple):
        items = [_rebuilt(item, rebuild, change, depth) for item in value]
        if all(new is old for new, old in zip(items, value, strict=True)):
            return value
        return tuple(items)
    if is_dataclass(value) and not isinstance(value, type) and type(value).__module__ == tree.__name__:
        return rebuild(value, change, depth)
    return value


_Node = TypeVar("_Node")


def shift_levels(node: _Node, levels: int) -> _Node:
    """The expression or query as it reads `levels` query levels further in: its outward references reach further."""

    def change(item: object, depth: int) -> object:
        if isinstance(item, (tree.Var, tree.Aggref, tree.RangeCte)) and item.levels_up >= depth:
            return replace(item, levels_up=item.levels_up + levels)
        return item

    return transform(node, change)  # type: ignore[return-value]


def expressions_in(node: object) -> Iterator[tuple[object, int]]:
    """Every node below and including `node`, in order of appearance, with the number of queries entered to reach it."""
    pending: list[tuple[object, int]] = [(node, 0)]
    while pending:
        item, depth = pending.pop()
        yield item, depth
        inner = depth + 1 if isinstance(item, _LEVELS) else depth
        pending.extend([(child, inner) for child in children(item)][::-1])


def is_volatile(node: object) -> bool:
    """Whether it calls something that gives another value each time (or does something). `node`: a node, or nodes."""
    return any(
        isinstance(item, tree.NextValueExpr) or (isinstance(item, tree.FuncExpr) and item.function.volatility == "v")
        for part in _flat(node)
        for item, _ in expressions_in(part)
    )
