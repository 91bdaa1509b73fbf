"""Assignment to a slice of an array: UPDATE t SET a[1:2] = '{3,4}' (array_set_slice in arrayfuncs.c)."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from catalog.errors import SqlError
from catalog.functions.base import Function
from catalog.functions.registry import declare, implement
from catalog.types import oids
from catalog.types.array import MAX_ELEMENTS, check_size
from catalog.types.base import EMPTY_ARRAY, Array

ASSIGN_SLICE = "shoal_assign_slice"  # of one dimension, for the columnar path


def assign_slice(
    array: Array | None,
    lower: Sequence[int | None],
    upper: Sequence[int | None],
    omitted: Sequence[tuple[bool, bool]],
    value: Array | None,
) -> Array:
    """Returns the array after array[a:b] = value. `omitted` has, for each dimension, whether the lower and whether the
    upper bound was omitted. A NULL value changes nothing.

    Raises 22004 for a NULL subscript, 2202E for bounds that do not fit and for too few values, 54000 for too large
    arrays.
    """
    bounds = list(zip(lower, upper, omitted, strict=True))
    if any((low is None and not no_low) or (high is None and not no_high) for low, high, (no_low, no_high) in bounds):
        raise SqlError("22004", "array subscript in assignment must not be null")
    if array is None:
        array = EMPTY_ARRAY
    if value is None:
        return array
    if not array.dimensions:
        return _first_slice(bounds, value)
    if len(array.dimensions) < len(bounds):
        raise SqlError("2202E", "wrong number of array subscripts")
    spans = []
    for number, (length, start) in enumerate(zip(array.dimensions, array.lower_bounds, strict=True)):
        low, high = bounds[number][:2] if number < len(bounds) else (None, None)
        low = start if low is None else low
        high = start + length - 1 if high is None else high
        if low > high:
            raise SqlError("2202E", "upper bound cannot be less than lower bound")
        if len(array.dimensions) > 1 and (low < start or high >= start + length):
            raise SqlError("2202E", "array subscript out of range")
        spans.append((low, high))
    wanted = 1
    for low, high in spans:
        wanted *= high - low + 1
    if len(value.elements) < wanted:
        raise SqlError("2202E", "source array too small")
    if len(spans) == 1:
        return _stored_span(array, *spans[0], value.elements)
    return _stored_block(array, spans, value.elements)


def _first_slice(bounds: Sequence[tuple[int | None, int | None, tuple[bool, bool]]], value: Array) -> Array:
    dimensions, starts = [], []
    for low, high, _ in bounds:
        if low is None or high is None:
            detail = "When assigning to a slice of an empty array value, slice boundaries must be fully specified."
            raise SqlError("2202E", "array slice subscript must provide both boundaries", detail=detail)
        if high - low + 1 >= 1 << 31:
            raise SqlError("54000", f"array size exceeds the maximum allowed ({MAX_ELEMENTS})")
        dimensions.append(high - low + 1)
        starts.append(low)
    wanted = 1
    for length in dimensions:
        wanted *= max(length, 0)
        check_size(wanted)
    if len(value.elements) < wanted:
        raise SqlError("2202E", "source array too small")
    return Array(value.elements[:wanted], tuple(dimensions), tuple(starts)) if wanted else EMPTY_ARRAY


def _stored_span(array: Array, low: int, high: int, values: Sequence[object]) -> Array:
    """Assigns values to the subscripts `low` to `high` of a one-dimensional array. The array grows if necessary; a gap
    is filled with NULLs."""
    start, length = array.lower_bounds[0], array.dimensions[0]
    first, end = min(low, start), max(high + 1, start + length)
    check_size(end - first)
    elements = [None] * (start - first) + list(array.elements) + [None] * (end - start - length)
    elements[low - first : high + 1 - first] = values[: high - low + 1]
    return Array(tuple(elements), (len(elements),), (first,))


def _stored_block(array: Array, spans: Sequence[tuple[int, int]], values: Sequence[object]) -> Array:
    elements = list(array.elements)
    ranges = [
        range(low - start, high - start + 1) for (low, high), start in zip(spans, array.lower_bounds, strict=True)
    ]
    for index, value in zip(itertools.product(*ranges), values, strict=False):
        position = 0
        for step, length in zip(index, array.dimensions, strict=True):
            position = position * length + step
        elements[position] = value
    return Array(tuple(elements), array.dimensions, array.lower_bounds)


def _assign_one_dimension(
    array: Array | None, low: int | None, high: int | None, no_low: bool, no_high: bool, value: Array | None
) -> Array:
    return assign_slice(array, (low,), (high,), ((no_low, no_high),), value)


declare(
    Function(9945, ASSIGN_SLICE, ASSIGN_SLICE, "f", False, False, "i", (oids.INTERNAL,), oids.ANYARRAY, 0, 0),
    inner=True,
)
implement(ASSIGN_SLICE, _assign_one_dimension)
