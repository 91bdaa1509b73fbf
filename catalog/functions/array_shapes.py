"""Arrays of any shape: additional dimensions, elements, slices.

The row path calls these functions directly. The columnar path calls them as UDFs, under the names that are registered
here, if arrays are text.
"""

from __future__ import annotations

from collections.abc import Sequence

from catalog.errors import SqlError
from catalog.functions.base import Function
from catalog.functions.registry import declare, implement
from catalog.types import oids
from catalog.types.array import MAX_DIMENSIONS, too_many_dimensions
from catalog.types.base import EMPTY_ARRAY, Array

NEST, SUBSCRIPT, SLICE, RESHAPE = "shoal_nest", "shoal_subscript", "shoal_slice", "shoal_reshape"


def build_array(elements: Sequence[Array | None]) -> Array:
    """ARRAY[array, ...]: the result has one dimension more. Raises 2202E if the elements' dimensions differ, 54000 for
    too many dimensions."""
    present = [element for element in elements if element is not None and element.dimensions]
    if not present:
        return EMPTY_ARRAY
    first = present[0]
    if len(first.dimensions) >= MAX_DIMENSIONS:
        raise too_many_dimensions(len(first.dimensions) + 1)
    for element in elements:
        if element is None or element.dimensions != first.dimensions:
            raise SqlError("2202E", "multidimensional arrays must have array expressions with matching dimensions")
    flat = tuple(value for element in present for value in element.elements)
    return Array(flat, (len(present), *first.dimensions), (1, *first.lower_bounds))


def subscript(array: Array | None, indexes: Sequence[int | None]) -> object:
    """array[i][j]. NULL for a NULL subscript, a subscript out of range, and too few or too many subscripts."""
    if array is None or len(indexes) != len(array.dimensions):
        return None
    position = 0
    for index, length, lower in zip(indexes, array.dimensions, array.lower_bounds, strict=True):
        if index is None or not lower <= index < lower + length:
            return None
        position = position * length + index - lower
    return array.elements[position]


def array_slice(
    array: Array | None,
    lower: Sequence[int | None],
    upper: Sequence[int | None],
    open_ends: Sequence[tuple[bool, bool]],
) -> Array | None:
    """array[l:u][l:u]. The bounds are limited to the array's; the result's subscripts start at 1. It is empty if the
    bounds do not overlap with the array's, and NULL for a NULL bound.

    `open_ends` has, for each dimension, whether the lower and whether the upper bound was omitted.
    """
    if array is None:
        return None
    for low, high, (no_low, no_high) in zip(lower, upper, open_ends, strict=True):
        if (low is None and not no_low) or (high is None and not no_high):
            return None
    if len(lower) > len(array.dimensions):
        return EMPTY_ARRAY
    spans: list[range] = []
    for dimension, (length, start) in enumerate(zip(array.dimensions, array.lower_bounds, strict=True)):
        first, last = start, start + length - 1
        if dimension < len(lower):
            low, high = lower[dimension], upper[dimension]
            first = max(first, low) if low is not None else first
            last = min(last, high) if high is not None else last
        if first > last:
            return EMPTY_ARRAY
        spans.append(range(first - start, last - start + 1))
    positions = [0]
    for length, span in zip(array.dimensions, spans, strict=True):
        positions = [position * length + offset for position in positions for offset in span]
    return Array(tuple(array.elements[position] for position in positions), tuple(map(len, spans)), (1,) * len(spans))


def _slice(array: Array | None, *bounds: int | bool | None) -> Array | None:
    """`array_slice` with four arguments for each dimension: lower, upper, whether lower and whether upper was
    omitted."""
    quads = [bounds[start : start + 4] for start in range(0, len(bounds), 4)]
    ends = [(bool(no_low), bool(no_high)) for _, _, no_low, no_high in quads]
    return array_slice(array, [low for low, *_ in quads], [high for _, high, *_ in quads], ends)


for _oid, _name in enumerate((NEST, SUBSCRIPT, SLICE, RESHAPE), 9950):
    declare(Function(_oid, _name, _name, "f", False, False, "i", (oids.INTERNAL,), oids.ANYELEMENT, 0, 0), inner=True)
implement(NEST, lambda *arrays: build_array(arrays))
implement(SUBSCRIPT, lambda array, *indexes: subscript(array, indexes))
implement(SLICE, _slice)
implement(RESHAPE, lambda shape, array: Array(array.elements, shape.dimensions, shape.lower_bounds))
