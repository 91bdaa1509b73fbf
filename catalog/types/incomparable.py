"""Values of types without an order within rows: nobody is told so before everything in front of them is equal.

What a row of no declared type consists of is known when two of them are compared (rowtypes.c: record_cmp, record_eq),
so that one row alone, or rows that differ in their first field, may have a field of json.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

from catalog.errors import SqlError
from catalog.types import oids
from catalog.types.base import SqlType

_ORDERED_WITHOUT_KEYS = frozenset((oids.RECORD, oids.RECORD_ARRAY, oids.TSQUERY, oids.TSQUERY_ARRAY))


class Incomparable:
    """A value that no other may be compared with (42883); NULL is none that may."""

    __slots__ = ("message",)

    def __init__(self, message: str) -> None:
        self.message = message

    def _refuse(self, other: object) -> NoReturn:
        raise SqlError("42883", self.message)

    __eq__ = __ne__ = __lt__ = __le__ = __gt__ = __ge__ = _refuse

    def __hash__(self) -> int:
        return 0


def has_order(known: SqlType) -> bool:
    """Whether values of the type have a btree order."""
    if known.oid in _ORDERED_WITHOUT_KEYS or known.key_encoder() is not None:
        return True
    parts = _parts(known)
    return bool(parts) and all(map(has_order, parts))


def has_equality(known: SqlType) -> bool:
    if known.oid in oids.EQUALITY_ONLY or has_order(known):
        return True
    parts = _parts(known)
    return bool(parts) and all(map(has_equality, parts))


def _parts(known: SqlType) -> tuple[SqlType, ...]:
    """The types that an array's elements, or a composite type's fields, are of."""
    element = getattr(known, "element", None)
    parts: tuple[SqlType, ...] = getattr(known, "types", ()) if element is None else (element,)
    return parts


def no_comparison(known: SqlType, equality: bool = False) -> SqlError:
    """What comparing rows with a field of this type raises: for `equality` alone, or for their order."""
    what = "an equality operator" if equality else "a comparison function"
    return SqlError("42883", f"could not identify {what} for type {known.sql_name}")


def field_key(known: SqlType, equality: bool = False) -> Callable[[Any], object]:
    """Makes what a field of a row is compared by, NULL among its values: behind all else, and equal to itself.
    `equality`: rows are asked for whether they are equal alone."""
    if not (has_equality(known) if equality else has_order(known)):
        message = no_comparison(known, equality).message
        return lambda value: Incomparable(message)
    key = known.equality_key() if equality else known.sort_key()
    if key is None:
        return lambda value: (True, 0) if value is None else (False, value)
    return lambda value: (True, 0) if value is None else (False, key(value))


def order_key(known: SqlType) -> Callable[[Any], object] | None:
    """`sort_key` for an ordering operator, which is found for every array and row: where the type has no order, that is
    an error when two values are compared. What groups values asks for `sort_key`, and has looked at the type before."""
    if has_order(known):
        return known.sort_key()
    element = getattr(known, "element", None)
    if element is None:
        return row_key(_parts(known))
    error = no_comparison(element)

    def refuse(value: Any) -> object:
        raise SqlError("42883", error.message)

    return refuse


def row_key(fields: tuple[SqlType, ...], equality: bool = False) -> Callable[[Any], object]:
    """Makes what rows with fields of these types are compared by."""
    keys = [field_key(known, equality) for known in fields]
    return lambda row: tuple([key(value) for key, value in zip(keys, row, strict=True)])
