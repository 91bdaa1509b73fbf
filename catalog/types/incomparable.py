"""Values of types without an order in rows. A comparison of rows raises an error only if all earlier fields are equal.

The field types of an undeclared row are known only when two rows are compared (record_cmp and record_eq in
rowtypes.c). So a single row, or rows that differ in their first field, may have a field of json.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

from catalog.errors import SqlError
from catalog.types import oids
from catalog.types.base import SqlType

_ORDERED_WITHOUT_KEYS = frozenset((oids.RECORD, oids.RECORD_ARRAY, oids.TSQUERY, oids.TSQUERY_ARRAY))


class Incomparable:
    """A value whose comparison raises 42883, also with NULL."""

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
    """Returns the types of an array's elements or of a composite type's fields; () for other types."""
    element = getattr(known, "element", None)
    parts: tuple[SqlType, ...] = getattr(known, "types", ()) if element is None else (element,)
    return parts


def no_comparison(known: SqlType, equality: bool = False) -> SqlError:
    """Returns error 42883 for a comparison of rows with a field of this type; `equality`: for equality only."""
    what = "an equality operator" if equality else "a comparison function"
    return SqlError("42883", f"could not identify {what} for type {known.sql_name}")


def field_key(known: SqlType, equality: bool = False) -> Callable[[Any], object]:
    """Returns the sort key of a row's field. NULL is the greatest value and equal to itself. `equality`: the key is for
    tests of equality only."""
    if not (has_equality(known) if equality else has_order(known)):
        message = no_comparison(known, equality).message
        return lambda value: Incomparable(message)
    key = known.equality_key() if equality else known.sort_key()
    if key is None:
        return lambda value: (True, 0) if value is None else (False, value)
    return lambda value: (True, 0) if value is None else (False, key(value))


def order_key(known: SqlType) -> Callable[[Any], object] | None:
    """Returns the sort key for an ordering operator, which exists for every array and row type: if the type has no
    order, the comparison of two values raises an error. Grouping uses `sort_key`, and checks the type before."""
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
    """Returns the sort key of rows with fields of these types."""
    keys = [field_key(known, equality) for known in fields]
    return lambda row: tuple([key(value) for key, value in zip(keys, row, strict=True)])
