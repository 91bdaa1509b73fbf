"""Walks and rebuilds trees: the nodes below a node, and copies with parts replaced.

A node is an object of engine/sql/tree.py (analysed) or engine/sql/ast (syntax). The annotations of its class show which
fields contain nodes. From these, functions are generated once for each class: a generic walk over fields takes ten
times as long, and planning walks every tree many times. All other modules use these functions to find the parts of a
node.

A tree is a node, a tuple of nodes (also nested), or None.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import fields, is_dataclass, replace
from typing import Any, TypeVar, cast, overload

from engine.sql import ast, tree

Reader = Callable[[Any], Sequence[object]]
Change = Callable[[Any, int], Any]
_Rebuilder = Callable[[Any, Callable[..., Any], Change, int], Any]
_Tree = TypeVar("_Tree")

NO_NODE: tuple[str, ...] = ("",)
"""The entry in `node_fields` of a class that is not a node."""
_LEVELS = (tree.Query, tree.Insert, tree.Update, tree.Delete, tree.Merge)
_WORD = re.compile(r"\w+")
_ONE = re.compile(r"(\w+)( \| FromRef)?( \| None)?")
_MANY = re.compile(r"tuple\[(\w+), \.\.\.\]")
_ROWS = re.compile(r"tuple\[tuple\[Expr, (Expr|\.\.\.)\], \.\.\.\]")


# ---- fields with nodes ----------------------------------------------------------------------------------------------


def _is_node(kind: type) -> bool:
    if issubclass(kind, ast.Node):
        return True
    return kind.__module__ == tree.__name__ and is_dataclass(kind)


def _words(module: object, unions: Sequence[str]) -> frozenset[str]:
    """The names of node types in annotations."""
    kinds = {name for name, value in vars(module).items() if isinstance(value, type) and _is_node(value)}
    return frozenset((*kinds, *unions))


_NAMES = _words(tree, ("Expr", "RangeEntry", "FromItem", "Statement"))
_SYNTAX_NAMES = _words(ast, ("Node", "Any"))


def _words_of(annotation: str) -> list[str]:
    return [] if annotation.startswith("np.") else _WORD.findall(annotation)


class _Fields(dict[type, tuple[str, ...]]):
    def __missing__(self, kind: type) -> tuple[str, ...]:
        found = NO_NODE
        if _is_node(kind):
            names = _SYNTAX_NAMES if issubclass(kind, ast.Node) else _NAMES
            found = tuple(item.name for item in fields(kind) if not names.isdisjoint(_words_of(str(item.type))))
        self[kind] = found
        return found


node_fields = _Fields()
"""The fields that may contain nodes, by class; NO_NODE for a class that is not a node."""


# ---- the nodes below a node -----------------------------------------------------------------------------------------


class _Readers(dict[type, Reader]):
    """Makes functions that return the nodes directly below a node, by its class. `inner`: without leaves, and with the
    content of targets and similar nodes in their place."""

    def __init__(self, inner: bool) -> None:
        self._inner = inner

    def __missing__(self, kind: type) -> Reader:
        names = node_fields[kind]
        if names is NO_NODE:
            raise TypeError(f"{kind.__name__} is not a node of a tree")
        annotations = {item.name: str(item.type) for item in fields(kind)}
        step = _inner_step if self._inner else _step
        lines = ["found = []", *[step(name, annotations[name]) for name in names], "return found"]
        known: dict[str, Any] = {"flat": _flat, "leaves": _LEAVES}
        exec("\n    ".join(["def read(node):", *lines]), known)
        found: Reader = known["read"] if names else _nothing
        self[kind] = found
        return found


def _step(name: str, annotation: str) -> str:
    """A line of code that adds the nodes in a field to `found`."""
    if _MANY.fullmatch(annotation):
        return f"found += node.{name}"
    if _ROWS.fullmatch(annotation):
        return f"for row in node.{name}: found += row"
    one = _ONE.fullmatch(annotation)
    if not one or one[1] == "Any":
        return f"found += flat(node.{name})"
    step = f"found.append(node.{name})"
    return f"if node.{name} is not None: {step}" if one[3] else step


def _inner_step(name: str, annotation: str) -> str:
    """Like `_step`, without leaves."""
    kept = "if type(part) not in leaves: found.append(part)"
    if many := _MANY.fullmatch(annotation):
        if wrapped := _wrap(many[1]):
            return f"for item in node.{name}:\n        part = item.{wrapped}\n        {kept}"
        return f"for part in node.{name}:\n        {kept}"
    if _ROWS.fullmatch(annotation):
        return f"for row in node.{name}:\n        for part in row:\n            {kept}"
    if _ONE.fullmatch(annotation):
        return f"part = node.{name}\n    {kept}"
    return f"if node.{name}:\n        for part in flat(node.{name}):\n            {kept}"


def _wrap(name: str) -> str:
    """The field with the content of a node that only adds properties to it (such as a target); '' for other classes."""
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
_readers.update({tuple: _flat, type(None): _nothing})


def children(node: object) -> Sequence[object]:
    """The nodes directly under a node (expressions, queries, clauses), in the order of its fields, tuples flattened."""
    return _readers[type(node)](node)


def own_parts(query: tree.Query) -> tuple[object, ...]:
    """The parts of a query, for walks that start within it."""
    return tuple([getattr(query, name) for name in node_fields[tree.Query]])


@overload
def walk(node: ast.Node) -> Iterator[ast.Node]: ...
@overload
def walk(node: object) -> Iterator[object]: ...
def walk(node: object) -> Iterator[object]:
    """Every node below and including `node`, in order of appearance."""
    readers = _readers
    pending = [node] if node is not None and type(node) is not tuple else _flat(node)[::-1]
    while pending:
        item = pending.pop()
        yield item
        below = readers[type(item)](item)
        if below:
            pending += reversed(below)


def walk_with_depth(node: object) -> Iterator[tuple[object, int]]:
    """Every node below and including `node`, each with the number of queries and changes entered to reach it."""
    readers = _readers
    pending = [(node, 0)] if type(node) is not tuple and node is not None else [(item, 0) for item in _flat(node)[::-1]]
    while pending:
        item, depth = pending.pop()
        yield item, depth
        below = readers[type(item)](item)
        if below:
            inner = depth + 1 if isinstance(item, _LEVELS) else depth
            pending += [(child, inner) for child in reversed(below)]


def inner_nodes(node: object) -> list[object]:
    """`node`, and every node below it that has nodes below it, in any order. Columns, constants and parameters, which
    are most of a tree, are left out. Targets, sort clauses and assignments are replaced by their content."""
    readers, found = _inner_readers, [node]
    for item in found:
        found += readers[type(item)](item)
    return found


# ---- copies with parts replaced -------------------------------------------------------------------------------------


class _Rebuilders(dict[type, _Rebuilder]):
    """Makes functions that return a node with `put(part, change, depth)` in place of each part, by its class, or the
    node itself if nothing changes."""

    def __missing__(self, kind: type) -> _Rebuilder:
        names = node_fields[kind]
        if names is NO_NODE:
            raise TypeError(f"{kind.__name__} is not a node of a tree")
        found = _written_rebuilder(kind, names) if names else _as_it_is
        self[kind] = found
        return found


def _written_rebuilder(kind: type, names: Sequence[str]) -> _Rebuilder:
    annotations = {item.name: str(item.type) for item in fields(kind)}
    lines = ["depth += 1"] if kind in _LEVELS else []
    lines += [f"new_{name} = {_put(name, annotations[name])}" for name in names]
    same = " and ".join(f"new_{name} is node.{name}" for name in names)
    given = (item.name for item in fields(kind) if item.init)
    values = ", ".join(f"{name}={'new_' if name in names else 'node.'}{name}" for name in given)
    lines.append(f"return node if {same} else kind({values})")
    known: dict[str, Any] = {"put_all": _put_all, "put_any": _put_any, "kind": kind}
    exec("\n    ".join(["def rebuild(node, put, change, depth):", *lines]), known)
    return cast(_Rebuilder, known["rebuild"])


def _put(name: str, annotation: str) -> str:
    """The value of a field in which each node is replaced."""
    if _MANY.fullmatch(annotation):
        return f"put_all(node.{name}, put, change, depth) if node.{name} else node.{name}"
    one = _ONE.fullmatch(annotation)
    if not one or one[1] == "Any":
        return f"put_any(node.{name}, put, change, depth)"
    return f"put(node.{name}, change, depth)" + (f" if node.{name} is not None else None" if one[3] else "")


def _put_all(nodes: tuple[Any, ...], put: Callable[..., Any], change: Change, depth: int) -> tuple[Any, ...]:
    items = [put(item, change, depth) for item in nodes]
    for new, old in zip(items, nodes, strict=True):
        if new is not old:
            return tuple(items)
    return nodes


def _put_any(value: Any, put: Callable[..., Any], change: Change, depth: int) -> Any:
    if isinstance(value, tuple):
        items = [_put_any(item, put, change, depth) for item in value]
        return value if all(new is old for new, old in zip(items, value, strict=True)) else tuple(items)
    return value if node_fields[type(value)] is NO_NODE else put(value, change, depth)


def _as_it_is(node: Any, put: Callable[..., Any], change: Change, depth: int) -> Any:
    return node


_rebuilders = _Rebuilders()
_rebuilders.update({tuple: _put_any, type(None): _as_it_is})


def transform(node: _Tree, change: Change, depth: int = 0) -> _Tree:
    """Rebuilds a tree bottom-up: `change(node, depth)` gives the replacement, or the node itself.

    `depth` counts the queries and changes entered on the way down. Unchanged nodes are shared, not copied.
    """
    new: _Tree = _rebuilders[type(node)](node, transform, change, depth)
    return new if new is None or type(new) is tuple else cast(_Tree, change(new, depth))


def substitute(node: _Tree, change: Change, depth: int = 0) -> _Tree:
    """Rebuilds a tree top-down. The result of `change(node, depth)` replaces a node and is not searched. If it is None,
    the parts of the node are rebuilt. `depth` and sharing are as in `transform`."""
    if node is not None and type(node) is not tuple:
        new = change(node, depth)
        if new is not None:
            return cast(_Tree, new)
    return cast(_Tree, _rebuilders[type(node)](node, substitute, change, depth))


def shift_levels(node: _Tree, levels: int) -> _Tree:
    """The expression or query moved `levels` query levels further in, with its outer references adjusted."""
    if not levels:
        return node

    def change(item: object, depth: int) -> object:
        if isinstance(item, (tree.Var, tree.Aggref, tree.RangeCte)) and item.levels_up >= depth:
            return replace(item, levels_up=item.levels_up + levels)
        return item

    return transform(node, change)


# ---- references of a tree -------------------------------------------------------------------------------------------


def variables(node: object) -> list[tree.Var]:
    """The columns that an expression refers to, including those of outer queries and those in sub-queries.

    `levels_up` of the results is relative to the expression's own query. Vars of queries inside of it are left out.
    """
    found: list[tree.Var] = []
    _collect_variables(node, 0, found)
    return found


def _collect_variables(node: object, depth: int, found: list[tree.Var]) -> None:
    kind = type(node)
    if kind is tree.Var:
        assert isinstance(node, tree.Var)
        if node.levels_up >= depth:
            found.append(replace(node, levels_up=node.levels_up - depth) if depth else node)
    elif kind is tree.Query:
        for item in _outer_variables(cast(tree.Query, node)):
            if item.levels_up >= depth:
                found.append(replace(item, levels_up=item.levels_up - depth) if depth else item)
    else:
        for child in _readers[kind](node):
            _collect_variables(child, depth, found)


def _outer_variables(query: tree.Query) -> list[tree.Var]:
    """The outer references of a query, relative to the query that contains it."""
    known = cast(list[tree.Var] | None, query.facts.get(_outer_variables))
    if known is None:
        known = []
        _collect_variables(own_parts(query), 1, known)
        query.facts[_outer_variables] = known
    return known


def relations_of(node: object) -> frozenset[int]:
    """Range table indexes of the expression's own query that it uses."""
    return frozenset([item.relation for item in variables(node) if item.levels_up == 0])


def outer_ctes(query: tree.Query) -> frozenset[int]:
    """The outer queries whose WITH it reads: 0 for the containing one, 1 for the next, ..."""
    known = cast(frozenset[int] | None, query.facts.get(outer_ctes))
    if known is None:
        known = frozenset([levels - 1 for levels in _cte_levels(own_parts(query)) if levels])
        query.facts[outer_ctes] = known
    return known


def _cte_levels(node: object) -> Iterator[int]:
    """`levels_up` of references to WITH below a node, relative to the node's query."""
    if isinstance(node, tree.Query):
        yield from outer_ctes(node)
        return
    if isinstance(node, tree.RangeCte):
        yield node.levels_up
    for child in children(node):
        yield from _cte_levels(child)


def firm_places(items: tuple[tree.FromItem, ...]) -> Iterator[int]:
    """The relations that outer joins never fill with NULLs."""
    for item in items:
        if isinstance(item, tree.FromRef):
            yield item.relation
        elif item.kind in ("inner", "cross"):
            yield from firm_places((item.left, item.right))
        elif item.kind in ("left", "right"):
            yield from firm_places((item.left if item.kind == "left" else item.right,))


# ---- questions ------------------------------------------------------------------------------------------------------


def contains(node: object, test: Callable[[Any], bool]) -> bool:
    """Whether the test is true for a node of the tree. The search stops at the first one."""
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
        pending += _readers[kind](item)
    return False


def changes(node: object) -> bool:
    """Whether the node itself returns a new value each time (or has an effect): a call of a volatile function, or the
    next value of a sequence."""
    kind = type(node)
    return (kind is tree.FuncExpr and node.function.volatility == "v") or kind is tree.NextValueExpr  # type: ignore[attr-defined]


def is_volatile(node: object) -> bool:
    """Whether it contains a node that `changes`."""
    return contains(node, changes)


def has_sublink(node: object) -> bool:
    """Whether it contains a sub-query."""
    return contains(node, _is_sublink)


def _is_sublink(node: object) -> bool:
    return type(node) is tree.SubLink


_ASKED_AGAIN = (changes, _is_sublink)  # searched at every level, so each query keeps the result

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


def is_the_same_for_every_row(condition: tree.Expr) -> bool:
    """Whether it consists of constants and parameters, so that PostgreSQL evaluates it, and raises its errors, without
    any row."""
    return not contains(condition, _differs)


def _differs(node: object) -> bool:
    return not isinstance(node, _CONSTANT) or changes(node)


def conjuncts(condition: tree.Expr | None) -> list[tree.Expr]:
    """The conditions that an AND joins, flat."""
    if condition is None:
        return []
    if isinstance(condition, tree.BoolExpr) and condition.operator == "and":
        return [item for argument in condition.arguments for item in conjuncts(argument)]
    return [condition]
