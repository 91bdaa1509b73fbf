"""Columns of COPY data that Arrow reads: by their type, or as text that is converted for storage.

A converter has the Arrow type for the CSV reader, and completes the column. It raises `Doubt` if Arrow reads a value
differently from PostgreSQL's input function (a hexadecimal integer), or if a value needs more than reading (a text that
is too long, digits to round). Columns of other types are read by the input function.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import date
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from catalog.types import oids
from catalog.types.base import FormatSettings, TypeRef
from engine.storage.columns import Column, Numbers, numbers_of

_VARHDRSZ = 4
_FIRST_DAY = date(1, 1, 1)


class Doubt(Exception):  # noqa: N818 - not an error: the column is to be read by the type's own function
    """Arrow may read a value differently from PostgreSQL."""


class Source:
    """A piece of data, searched once for all columns. NumPy searches megabytes for single bytes, because it is fast and
    releases the interpreter lock."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self._view = np.frombuffer(data, np.uint8)

    @cached_property
    def hexadecimal(self) -> bool:
        """Whether the data contains 0x."""
        return any(bool((self._before(places) == ord("0")).any()) for places in map(self._places, b"xX"))

    @cached_property
    def small_exponents(self) -> bool:
        """Whether the data contains e-."""
        before = self._before(self._minuses)
        return bool(((before == ord("e")) | (before == ord("E"))).any())

    @cached_property
    def negative_zeros(self) -> bool:
        """Whether the data contains -0."""
        return bool((self._after(self._minuses) == ord("0")).any())

    @cached_property
    def escaped(self) -> frozenset[int]:
        """The bytes after backslashes; 0 for the end of the data."""
        return frozenset(np.unique(self._after(self._places(ord("\\")))).tolist())

    @property
    def pairs_of_line_ends(self) -> int:
        """The number of carriage returns that precede a newline."""
        return int(np.count_nonzero(self._after(self._places(13)) == 10))

    @cached_property
    def _minuses(self) -> Numbers:
        return self._places(ord("-"))

    def _places(self, byte: int) -> Numbers:
        return np.flatnonzero(self._view == byte)

    def _before(self, places: Numbers) -> Numbers:
        return self._view[places[places > 0] - 1]

    def _after(self, places: Numbers) -> Numbers:
        after = np.minimum(places + 1, len(self._view) - 1)
        return np.where(places + 1 < len(self._view), self._view[after], 0)


@dataclass(frozen=True, slots=True)
class Converter:
    """`finish(column, source)` converts the column that Arrow has read from a piece."""

    reads: Any
    finish: Callable[[Column, Source], Column]


def converter_of(type_: TypeRef, settings: FormatSettings) -> Converter | None:
    """The converter of a type, or None."""
    oid, typmod = type_.oid, type_.typmod
    if oid in _INTEGERS:
        return Converter(_INTEGERS[oid], _integer)
    if oid in oids.FLOATS:
        return Converter(pa.float32() if oid == oids.FLOAT4 else pa.float64(), _float)
    if oid == oids.BOOL:
        return Converter(pa.bool_(), lambda column, _: column)
    if oid == oids.TEXT:
        return Converter(pa.string(), lambda column, _: column)
    if oid == oids.VARCHAR:
        return Converter(pa.string(), _varchar(typmod))
    if oid == oids.BPCHAR:
        return Converter(pa.string(), _bpchar(typmod))
    if oid == oids.NUMERIC:
        return Converter(pa.string(), _numeric(typmod))
    if oid == oids.DATE:
        return Converter(pa.date32(), _date)
    if oid == oids.TIME and typmod in (-1, 6):
        return Converter(pa.time64("us"), lambda column, _: column)
    if oid == oids.TIMESTAMP and typmod in (-1, 6):
        return Converter(pa.string(), _timestamp(""))
    if oid == oids.TIMESTAMPTZ and typmod in (-1, 6):
        return Converter(pa.string(), _timestamp(settings.timezone))
    if oid == oids.UUID:
        return Converter(pa.string(), _uuid)
    return None


_INTEGERS = {oids.INT2: pa.int16(), oids.INT4: pa.int32(), oids.INT8: pa.int64()}


def _integer(column: Column, source: Source) -> Column:
    if source.hexadecimal:
        raise Doubt
    return column


def _float(column: Column, source: Source) -> Column:
    numbers = numbers_of(column, "<f4" if pa.types.is_float32(column.type) else "<f8")
    if np.isinf(numbers).any():
        raise Doubt  # written so, or too large
    if source.small_exponents and (numbers == 0).any():
        raise Doubt  # zero, or too small
    return column


def _varchar(typmod: int) -> Callable[[Column, Source], Column]:
    def finish(column: Column, source: Source) -> Column:
        if typmod >= 0 and _longest(column) > typmod - _VARHDRSZ:
            raise Doubt
        return column

    return finish


def _longest(column: Column) -> int:
    longest = pc.max(pc.utf8_length(column)).as_py()
    return 0 if longest is None else int(longest)


def _bpchar(typmod: int) -> Callable[[Column, Source], Column]:
    def finish(column: Column, source: Source) -> Column:
        if typmod < 0:
            return column
        width = typmod - _VARHDRSZ
        lengths = pc.min_max(pc.utf8_length(column))
        shortest, longest = lengths["min"].as_py(), lengths["max"].as_py()
        if longest is None or shortest == longest == width:
            return column
        if longest > width:
            raise Doubt
        if longest == 0 and not column.null_count:
            return _blanks(len(column), width)
        return pc.utf8_rpad(column, width)

    return finish


def _blanks(count: int, width: int) -> Column:
    offsets = np.arange(0, (count + 1) * width, width, dtype=np.int32)
    data = np.full(count * width, 0x20, np.uint8)
    return pa.Array.from_buffers(pa.string(), count, [None, pa.py_buffer(offsets), pa.py_buffer(data)])


def _numeric(typmod: int) -> Callable[[Column, Source], Column]:
    """Text in the form that PostgreSQL prints. Similar texts are converted by Arrow's decimals."""
    digits = "(0|[1-9][0-9]*)"
    pattern = f"^-?{digits}(\\.[0-9]+)?$"
    kind: Any = None
    if typmod >= 0:
        precision, scale = (typmod - _VARHDRSZ) >> 16 & 0xFFFF, (typmod - _VARHDRSZ) & 0x7FF
        if scale > 1000 or scale > precision:
            return _never  # a negative scale, or more of them than digits
        whole = precision - scale
        digits = f"(0|[1-9][0-9]{{0,{whole - 1}}})" if whole else "0"
        pattern = f"^-?{digits}{f'[.][0-9]{{{scale}}}' if scale else ''}$"
        kind = pa.decimal128(precision, scale) if precision <= 38 else None

    def finish(column: Column, source: Source) -> Column:
        plain = pc.all(pc.match_substring_regex(column, pattern)).as_py()
        negative_zero = source.negative_zeros and pc.any(pc.match_substring_regex(column, "^-0([.]0*)?$")).as_py()
        if plain is not False and not negative_zero:
            return column
        if kind is None:
            raise Doubt
        return column.cast(kind)

    return finish


def _never(column: Column, source: Source) -> Column:
    raise Doubt


def _date(column: Column, source: Source) -> Column:
    first = pc.min(pc.cast(column, pa.int32())).as_py()
    if first is not None and first < (_FIRST_DAY - date(1970, 1, 1)).days:
        raise Doubt
    return column


def _timestamp(zone: str) -> Callable[[Column, Source], Column]:
    """`zone`: the session's, for timestamptz; '' for timestamp."""

    def finish(column: Column, source: Source) -> Column:
        lengths = pc.binary_length(column)
        full = pc.or_(pc.equal(lengths, 10), pc.equal(pc.utf8_slice_codeunits(column, 13, 14), ":"))
        if pc.all(full).as_py() is False:
            raise Doubt
        if zone:
            try:
                made = column.cast(pa.timestamp("us", "UTC"))
            except pa.ArrowInvalid:
                if zone not in ("UTC", "Etc/UTC"):
                    raise
                made = column.cast(pa.timestamp("us"))
        else:
            made = column.cast(pa.timestamp("us"))
        made = made.view(pa.int64())
        first = pc.min(made).as_py()
        if first is not None and first < (_FIRST_DAY - date(1970, 1, 1)).days * 86_400_000_000:
            raise Doubt
        return made.view(pa.timestamp("us"))

    return finish


_HEX = np.full(256, 255, np.uint8)
_HEX[np.frombuffer(b"0123456789abcdef", np.uint8)] = np.arange(16)
_HEX[np.frombuffer(b"ABCDEF", np.uint8)] = np.arange(10, 16)
_UUID_TEXT, _DASHES = 36, (8, 13, 18, 23)
_DIGITS = np.array([place for place in range(_UUID_TEXT) if place not in _DASHES])


def _uuid(column: Column, source: Source) -> Column:
    filled = column.fill_null("0" * 8 + "-0000-0000-0000-" + "0" * 12) if column.null_count else column
    count = len(filled)
    offsets = np.frombuffer(filled.buffers()[1], "<i4", count + 1, filled.offset * 4)
    if not (np.diff(offsets) == _UUID_TEXT).all():
        raise Doubt
    text = np.frombuffer(filled.buffers()[2], np.uint8, count * _UUID_TEXT, int(offsets[0])).reshape(-1, _UUID_TEXT)
    if (text[:, _DASHES] != ord("-")).any():
        raise Doubt
    digits = _HEX[text[:, _DIGITS]]
    if (digits > 15).any():
        raise Doubt
    packed = np.ascontiguousarray(digits[:, 0::2] << 4 | digits[:, 1::2])
    ends = np.arange(0, 16 * (count + 1), 16, dtype=np.int32)
    made = pa.Array.from_buffers(pa.binary(), count, [None, pa.py_buffer(ends), pa.py_buffer(packed)])
    return pc.if_else(column.is_valid(), made, pa.scalar(None, pa.binary())) if column.null_count else made
