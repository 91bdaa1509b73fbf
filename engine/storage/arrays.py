"""Stored arrays as a LIST column, many rows at a time.

An array is stored in PostgreSQL's binary form: a header, length and lower bound of each dimension, then every element
after its size. The position of an element depends on those before it, so all rows are read in step: all first elements,
then all second ones, up to the length of the longest array.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa

from catalog.types import columns_of, oids
from engine.storage.columns import Column, ColumnForm, Numbers, column_form, one_array, pack_slices, with_validity

LONGEST = 10_000  # elements of an array up to which rows are read in step
_HEADER, _BOUNDS = 12, 20  # bytes before the first dimension, and of an array of one dimension before its elements

ListsOut = Callable[[Column, Numbers | None], Column | None]


def lists_of(element_oid: int) -> ListsOut | None:
    """A function that makes a LIST column of arrays that start at 1 from their stored bytes and a mask of those that
    are not NULL; it returns None if an array has another shape or is very long. None for element types with another
    stored form."""
    if element_oid not in oids.TEXTS and not columns_of(element_oid).sent:
        return None
    form = column_form(element_oid)

    def lists_out(stored: Column, valid: Numbers | None) -> Column | None:
        stored = one_array(stored)
        _, ends, heap = stored.buffers()
        if heap is None or len(heap) < _HEADER:
            return None
        data, offsets = np.frombuffer(heap, np.uint8), np.frombuffer(ends, np.int32, len(stored) + 1)
        found = _elements(data, offsets.astype(np.int64))
        if found is None:
            return None
        ends, starts, sizes = found
        elements = _column(data, starts, sizes, element_oid, form)
        if elements is None:
            return None
        mask = None if valid is None else pa.array(~valid)
        return pa.ListArray.from_arrays(pa.array(ends, pa.int32()), elements, mask=mask)

    return lists_out


def _at(data: Numbers, dtype: str) -> Numbers:
    """The values of that type that start at each byte."""
    return np.ndarray((len(data) - np.dtype(dtype).itemsize + 1,), dtype, data, 0, (1,))


def _elements(data: Numbers, offsets: Numbers) -> tuple[Numbers, Numbers, Numbers] | None:
    """The start of each row's elements in the column, and the position of each element with its size (-1: NULL)."""
    whole = _at(data, ">i4")
    rows = np.flatnonzero(np.diff(offsets))  # a NULL has no bytes
    begin = offsets[rows]
    dimensions = whole[begin]
    if (dimensions > 1).any():
        return None
    rows, begin = rows[dimensions == 1], begin[dimensions == 1]
    counts = np.zeros(len(offsets) - 1, np.int64)
    if len(rows):
        if (whole[begin + _HEADER + 4] != 1).any():
            return None
        counts[rows] = whole[begin + _HEADER]
        if int(counts.max()) > LONGEST:
            return None
    ends = np.zeros(len(offsets), np.int64)
    np.cumsum(counts, out=ends[1:])
    starts, sizes = np.empty(int(ends[-1]), np.int64), np.empty(int(ends[-1]), np.int64)
    place, left, position = ends[rows], counts[rows], begin + _BOUNDS
    while len(place):
        size = whole[position].astype(np.int64)
        starts[place], sizes[place] = position + 4, size
        position = position + 4 + np.maximum(size, 0)
        more = left > 1
        place, left, position = place[more] + 1, left[more] - 1, position[more]
    return ends, starts, sizes


def _column(data: Numbers, starts: Numbers, sizes: Numbers, oid: int, form: ColumnForm) -> Column | None:
    valid = sizes >= 0
    mask = None if valid.all() else valid
    if oid in oids.TEXTS:
        assert form.bytes_out is not None
        return with_validity(form.bytes_out(pack_slices(data, starts, starts + np.maximum(sizes, 0))), mask)
    sent = columns_of(oid).sent
    dtype = np.dtype(sent)
    assert form.numbers_out is not None
    numbers = np.zeros(len(starts), dtype.newbyteorder("<"))
    numbers[valid] = _at(data, sent)[starts[valid]]
    return with_validity(form.numbers_out(numbers), mask)
