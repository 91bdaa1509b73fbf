"""x = ANY (array) and x <> ALL (array) by hash: x IN (a, b, ...) is the first, NOT IN the second.

Comparing with each element would cost as many comparisons as rows times elements. PostgreSQL hashes arrays of nine and
more elements for the same reason.

    members_of(array, key)(x)            the elements are known when the statement is planned
    RepeatedArray(key, compare)          known when it runs: hashed when the same array comes for a second row

Both return TRUE or FALSE; NULL if that depends on a NULL. `key` returns equal values, which hash equally, for values
that SQL takes for equal; None if the values themselves do.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from catalog.types import lookup
from catalog.types.base import Array
from catalog.types.incomparable import has_equality
from catalog.types.oids import RECORDS
from engine.execute.operations import all_of, any_of
from engine.execute.python_sides import same_equality
from engine.sql import tree

FEWEST = 9
"""Elements of an array that is worth hashing."""

Key = Callable[[Any], object] | None
Members = Callable[[object], bool | None]


def is_membership(expression: tree.ScalarArrayOp) -> bool:
    """Whether this is = ANY or <> ALL."""
    return expression.function.strict and expression.operator.name == ("=" if expression.use_or else "<>")


def hash_key(expression: tree.ScalarArrayOp, element: int) -> tuple[bool, Key]:
    """Whether membership among elements of this type may be found by hash, and by which key."""
    left, operator = expression.left.type.oid, expression.operator
    if not is_membership(expression):
        return False, None
    if same_equality(left, operator.right) and same_equality(left, element):
        return True, None
    if left != element or operator.left != operator.right or left in RECORDS:
        return False, None
    known = lookup(left)
    return has_equality(known), known.equality_key()


def members_of(array: Array, key: Key, negated: bool) -> Members:
    """For an array that is the same for all rows; `negated`: for <> ALL."""
    found = frozenset(array.elements if key is None else [None if e is None else key(e) for e in array.elements])
    if not found:
        return lambda value: negated
    other = None if None in found else negated
    if key is None:
        return lambda value: None if value is None else not negated if value in found else other
    return lambda value: None if value is None else not negated if key(value) in found else other


class RepeatedArray:
    """For one run of a statement, in which all rows, or many one after the other, may have the same array."""

    __slots__ = ("_array", "_compare", "_key", "_loop", "_members", "_negated")

    def __init__(self, key: Key, compare: Callable[[object, object], object], negated: bool) -> None:
        self._key, self._compare, self._negated = key, compare, negated
        self._loop = all_of if negated else any_of
        self._array: Array | None = None
        self._members: Members | None = None  # of that array

    def __call__(self, value: object, array: Array | None) -> bool | None:
        if array is not self._array:
            self._array, self._members = array, None
        elif self._members is not None:
            return self._members(value)
        elif array is not None and len(array.elements) >= FEWEST:
            self._members = members_of(array, self._key, self._negated)
            return self._members(value)
        return self._loop(self._compare, value, array)
