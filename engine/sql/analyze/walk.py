"""Walking and rebuilding analysed trees."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import fields, is_dataclass, replace
from typing import Any, TypeVar

from engine.sql import tree

# Types of fields (as annotations are kept: in text) that hold no nodes. The columns of range entries are names.
_PLAIN = frozenset((
    "TypeRef", "int", "str", "bool", "Function", "Operator", "str | None", "int | None", "bool | None",
    "Operator | None", "Table", "Table | VirtualTable", "Table | None", "frozenset[int] | None", "dict[object, object]",
    "tuple[Table, ...]", "tuple[RangeColumn, ...]", "tuple[str, ...]", "tuple[int, ...]", "tuple[TypeRef, ...]",
    "tuple[bool, ...]", "tuple[Function, ...]", "tuple[Operator, ...]", "tuple[tuple[int, ...], ...]",
    "tuple[tuple[Operator, Function], ...]",
))  # fmt: skip
_ONE = re.compile(r"(\w+)( \| FromRef)?( \| None)?")
_MANY = re.compile(r"tuple\[(\w+), \.\.\.\]")
_ROWS = re.compile(r"tuple\[tuple\[Expr, (Expr|\.\.\.)\], \.\.\.\]")
_LEVELS = (tree.Query, tree.Insert, tree.Update, tree.Delete, tree.Merge)

Reader = Callable[[Any], Sequence[object]]
NO_NODE: tuple[str, ...] = ("",)
"""In place of the fields of what is no node."""


class _Fields(dict[type, tuple[str, ...]]):
    def __missing__(self, kind: type) -> tuple[str, ...]:
        if not is_dataclass(kind) or kind.__module__ != tree.__name__:
            found = NO_NODE
        elif kind is tree.Const:  # its value may be a list of 100,000 items, none of which is a node
            found = ()
        else:
            found = tuple(item.name for item in fields(kind) if item.type not in _PLAIN)
        self[kind] = found
        return found


node_fields = _Fields()
"""The fields in which other nodes may lie, by class; NO_NODE for what is none. Planning walks every tree many times."""


class _Readers(dict[type, Reader]):
    """What gives the nodes directly under a node, by its class: functions that are written from the annotations of the
    class, because a walk that looks at each field and its value takes ten times as long. `inner`: without leaves, and
    with what is in targets and their like in place of these."""

    def __init__(self, inner: bool) -> None:
        self._inner = inner

    def __missing__(self, kind: type) -> Reader:
        names = node_fields[kind]
        if names is NO_NODE:
            raise TypeError(f"{kind.__name__} is not a node of an analysed tree")
        annotations = {item.name: str(item.type) for item in fields(kind)}
        step = _inner_step if self._inner else _step
        lines = ["found = []", *[step(name, annotations[name]) for name in names], "return found"]
        known: dict[str, Any] = {"flat": _flat, "leaves": _LEAVES}
        exec("\n    ".join(["def read(node):", *lines]), known)
        found: Reader = known["read"] if names else _nothing
        self[kind] = found
        return found


def _step(name: str, annotation: str) -> str:
    """A line that puts the nodes in a field into `found`."""
    if _MANY.fullmatch(annotation):
        return f"found += node.{name}"
    if _ROWS.fullmatch(annotation):
        return f"for row in node.{name}: found += row"
    if not (one := _ONE.fullmatch(annotation)):
        return f"found += flat(node.{name})"
    step = f"found.append(node.{name})"
    return f"if node.{name} is not None: {step}" if one[3] else step


def _inner_step(name: str, annotation: str) -> str:
    """The same without leaves."""
    kept = "if type(part) not in leaves: found.append(part)"
    if many := _MANY.fullmatch(annotation):
        if wrapped := _wrapped(many[1]):
            return f"for item in node.{name}:\n        part = item.{wrapped}\n        {kept}"
        return f"for part in node.{name}:\n        {kept}"
    if _ROWS.fullmatch(annotation):
        return f"for row in node.{name}:\n        for part in row:\n            {kept}"
    if _ONE.fullmatch(annotation):
        return f"part = node.{name}\n    {kept}"
    return f"if node.{name}:\n        for part in flat(node.{name}):\n            {kept}"


def _wrapped(name: str) -> str:
    """The only field with a node of a class that is there to say more of it; '' for other classes."""
    kind = getattr(tree, name)
    if not isinstance(kind, type) or kind not in (tree.Target, tree.SortClause, tree.Assignment):
        return ""
    (field,) = node_fields[kind]
    return field


def _nothing(node: object) -> Sequence[object]:
    return ()


def _flat(values: Any) -> list[object]:
    """The nodes in tuples within one another."""
    found: list[object] = []
    for value in values if isinstance(values, tuple) else (values,):
        if isinstance(value, tuple):
            found += _flat(value)
        elif node_fields[type(value)] is not NO_NODE:
            found.append(value)
    return found


_LEAVES = frozenset(
    kind for kind in (*vars(tree).values(), type(None)) if isinstance(kind, type) and node_fields[kind] in ((), NO_NODE)
)
_readers, _inner_readers = _Readers(inner=False), _Readers(inner=True)


def children(node: object) -> Sequence[object]:
    """The nodes directly under a node (expressions, queries, clauses), tuples flattened."""
    return _readers[type(node)](node)


def inner_nodes(node: object) -> list[object]:
    """`node`, and every node below it that has others below it, in no order that means anything: without the columns,
    constants and parameters, which are most of a tree, and without targets, sort clauses and assignments, but with what
    is in them."""
    readers, found = _inner_readers, [node]
    for item in found:
        found += readers[type(item)](item)
    return found


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
    for name in node_fields[type(node)]:
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
    if node_fields[type(value)] is not NO_NODE:
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
    readers = _readers
    pending: list[tuple[object, int]] = [(node, 0)]
    while pending:
        item, depth = pending.pop()
        yield item, depth
        below = readers[type(item)](item)
        if below:
            inner = depth + 1 if isinstance(item, _LEVELS) else depth
            pending += [(child, inner) for child in reversed(below)]


def is_volatile(node: object) -> bool:
    """Whether it calls something that gives another value each time (or does something). `node`: a node, or nodes."""
    return any(
        isinstance(item, tree.NextValueExpr) or (isinstance(item, tree.FuncExpr) and item.function.volatility == "v")
        for part in _flat(node)
        for item, _ in expressions_in(part)
    )
