"""Functions that generated code calls: SQL expressions that are more than one Python expression.

All of these take and return internal-form values (catalog/types/base.py), None being SQL's NULL.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NoReturn

from catalog.errors import SqlError
from catalog.types.array import check_size
from catalog.types.base import Array

Comparison = Callable[[object, object], object]


def overflow(type_name: str) -> NoReturn:
    raise SqlError("22003", f"{type_name} out of range")


def any_of(compare: Comparison, left: object, array: Array | None) -> bool | None:
    """left operator ANY (array), for a strict operator: true if one is, else NULL if one is unknown, else false."""
    if array is None:
        return None
    unknown = False
    for element in array.elements:
        if left is None or element is None:
            unknown = True
            continue
        result = compare(left, element)
        if result:
            return True
        if result is None:
            unknown = True
    return None if unknown else False


def all_of(compare: Comparison, left: object, array: Array | None) -> bool | None:
    """left operator ALL (array), for a strict operator: false if one is, else NULL if one is unknown, else true."""
    if array is None:
        return None
    unknown = False
    for element in array.elements:
        if left is None or element is None:
            unknown = True
            continue
        result = compare(left, element)
        if result is None:
            unknown = True
        elif not result:
            return False
    return None if unknown else True


def greatest(key: Callable[[object], object] | None, values: Iterable[object]) -> object:
    """The largest value that is not NULL; of equal ones the first."""
    best: object = None
    for value in values:
        if value is not None and (best is None or _key(key, value) > _key(key, best)):  # type: ignore[operator]
            best = value
    return best


def least(key: Callable[[object], object] | None, values: Iterable[object]) -> object:
    """The smallest value that is not NULL; of equal ones the first."""
    best: object = None
    for value in values:
        if value is not None and (best is None or _key(key, value) < _key(key, best)):  # type: ignore[operator]
            best = value
    return best


def _key(key: Callable[[object], object] | None, value: object) -> object:
    return value if key is None else key(value)


def name_character(name: str | None, indexes: Sequence[int | None]) -> str | None:
    """name[i], counted from 0: a "char", empty after the end of the name; NULL outside of its 64 bytes."""
    if name is None or len(indexes) != 1 or indexes[0] is None or not 0 <= indexes[0] < 64:
        return None
    return chr(name.encode()[indexes[0]]) if indexes[0] < len(name.encode()) else ""


def assign_element(array: Array | None, indexes: Sequence[int | None], value: object) -> Array:
    """The array after array[i] = value: one dimension grows to reach i, with NULLs in the gap.

    Raises 22004 for a NULL subscript, 2202E where a fixed dimension would have to grow.
    """
    if any(index is None for index in indexes):
        raise SqlError("22004", "array subscript in assignment must not be null")
    subscripts = [index for index in indexes if index is not None]
    if array is None or not array.dimensions:
        return Array((value,), (1,) * len(subscripts), tuple(subscripts))
    if len(subscripts) != len(array.dimensions):
        raise SqlError("2202E", "wrong number of array subscripts")
    elements = list(array.elements)
    if len(subscripts) == 1:
        index, start, length = subscripts[0], array.lower_bounds[0], array.dimensions[0]
        check_size(max(index + 1, start + length) - min(index, start))
        if index < start:
            elements[:0] = [None] * (start - index)
            start = index
        elif index >= start + length:
            elements.extend([None] * (index - start - length + 1))
        elements[index - start] = value
        return Array(tuple(elements), (len(elements),), (start,))
    position = 0
    for index, length, lower in zip(subscripts, array.dimensions, array.lower_bounds, strict=True):
        if not lower <= index < lower + length:
            raise SqlError("2202E", "array subscript out of range")
        position = position * length + index - lower
    elements[position] = value
    return Array(tuple(elements), array.dimensions, array.lower_bounds)


def null_row(value: tuple[object, ...] | None) -> bool:
    """IS NULL of a composite value: it is NULL, or all of its fields are."""
    return value is None or all(item is None for item in value)


def full_row(value: tuple[object, ...] | None) -> bool:
    """IS NOT NULL of a composite value: none of its fields is NULL."""
    return value is not None and all(item is not None for item in value)


def first_known(values: Sequence[object]) -> object:
    """COALESCE of many available values."""
    return next((value for value in values if value is not None), None)
