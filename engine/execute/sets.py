"""UNION, INTERSECT and EXCEPT of limited lists of rows. Rows that SQL does not distinguish are the same, including
NULLs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

from catalog.types.base import SqlType
from engine.sql import tree

Rows = list[tuple[object, ...]]
Identity = Callable[[tuple[object, ...]], object]


def leftmost(operation: tree.SetOperation | tree.FromRef) -> int:
    """The range table index of the first leaf, which has the names of the columns."""
    while isinstance(operation, tree.SetOperation):
        operation = operation.left
    return operation.relation


def identity_of(types: Sequence[SqlType]) -> Identity:
    """A function that returns the identity of rows of these types."""
    keys = [known.sort_key() for known in types]

    def identity(row: tuple[object, ...]) -> object:
        return tuple(
            [value if key is None or value is None else key(value) for key, value in zip(keys, row, strict=True)]
        )

    return identity


def set_combiner(operation: tree.SetOperation, identity: Identity) -> Callable[[Rows, Rows], Rows]:
    """Makes the function that combines the rows of both sides."""
    if operation.kind == "union":
        return lambda left, right: list({identity(row): row for row in reversed(left + right)}.values())[::-1]
    keep_common = operation.kind == "intersect"

    def combine(left: Rows, right: Rows) -> Rows:
        others = Counter(map(identity, right))
        seen: set[object] = set()
        found = []
        for row in left:
            key = identity(row)
            if operation.all:
                common = others[key] > 0
                if common:
                    others[key] -= 1
            else:
                if key in seen:
                    continue
                seen.add(key)
                common = key in others
            if common == keep_common:
                found.append(row)
        return found

    return combine
