"""The SQL types in a checkpoint's Parquet files, in a form that any reader understands (docs/checkpoints.md has the
table).

An `OpenForm` converts between the columns of stored rows (engine/storage/columns.py, 'form' columns) and Parquet's. A
value that the Parquet type cannot hold (an infinite date, NaN as numeric(10,2), an array of two dimensions) becomes
NULL. This module does not detect such values: engine/checkpoint/exact.py converts everything back, and keeps every row
that differs.

Intervals and arrays are converted value by value, because the engine's columns cannot hold all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from catalog.types import element_of, oids
from catalog.types.base import Array, Interval, TypeRef
from catalog.types.datetime import USECS_PER_DAY
from catalog.types.numeric import precision_of, scale_of
from engine.storage.columns import (
    Column,
    Numbers,
    column_form,
    from_values,
    numbers_of,
    one_array,
    valid_mask,
    with_validity,
)

DECIMAL_DIGITS = 38
_FIRST_MOMENT = -210_866_803_200_000_000  # 4714-11-24 BC, where PostgreSQL's timestamps begin, counted from 1970
_INTERVAL_FIELDS = [("months", pa.int32()), ("days", pa.int32()), ("microseconds", pa.int64())]
_NANOSECONDS = 1000
_MAX_MICROSECONDS = (2**63 - 1) // _NANOSECONDS
_MONTH_DAY_NANO = np.dtype([("months", "<i4"), ("days", "<i4"), ("nanoseconds", "<i8")])


@dataclass(frozen=True, slots=True)
class OpenForm:
    """The form of one type. `arrow_type` is the type in Parquet.

    Exactly one of `out` (from a form column) and `values_out` (from a list of values in internal form) is set. `back`
    makes the form column from a Parquet column.
    """

    arrow_type: Any
    back: Callable[[Column], Column]
    out: Callable[[Column], Column] | None = None
    values_out: Callable[[Sequence[Any]], Column] | None = None


def open_form(type_: TypeRef) -> OpenForm:
    """The Parquet form of a column's type."""
    oid, form = type_.oid, None
    if oid == oids.NUMERIC:
        form = _decimal_form(type_.typmod)
    elif oid in oids.JSON_TYPES:
        form = OpenForm(pa.json_(), _storage_of, lambda column: pa.ExtensionArray.from_storage(pa.json_(), column))
    elif oid == oids.UUID:
        form = OpenForm(pa.uuid(), lambda column: _storage_of(column).cast(pa.binary()), _uuid_out)
    elif oid == oids.INTERVAL:
        form = OpenForm(pa.struct(_INTERVAL_FIELDS), _intervals_back, values_out=_intervals_out)
    elif oid == oids.DATE:
        form = OpenForm(pa.date32(), _same, _dates_out)
    elif oid == oids.TIME:
        form = OpenForm(pa.time64("us"), _same, _times_out)
    elif oid == oids.TIMESTAMP:
        form = OpenForm(pa.timestamp("us"), _same, _moments_out)
    elif oid == oids.TIMESTAMPTZ:
        form = OpenForm(
            pa.timestamp("us", "UTC"),
            lambda column: _retype(column, pa.timestamp("us")),
            lambda column: _retype(_moments_out(column), pa.timestamp("us", "UTC")),
        )
    elif element := element_of(oid):
        form = _list_form(TypeRef(element, type_.typmod), 0 if oid in oids.VECTORS else 1)
    return form or OpenForm(column_form(oid).arrow_type, _same, _same)


def _same(column: Column) -> Column:
    return column


def _storage_of(column: Column) -> Column:
    return column.storage


def _retype(column: Column, arrow_type: Any) -> Column:
    """The same numbers with another type."""
    return pa.Array.from_buffers(arrow_type, len(column), column.buffers(), column.null_count, column.offset)


def _without(column: Column, unfit: Numbers) -> Column:
    """The column with NULL where `unfit` is True."""
    if not unfit.any():
        return column
    valid = valid_mask(column)
    fit = ~unfit
    return with_validity(one_array(column), fit if valid is None else fit & valid)


# --- scalars ---------------------------------------------------------------------------------------------------------


def _decimal_form(typmod: int) -> OpenForm | None:
    if typmod < 4:
        return None
    precision, scale = precision_of(typmod), scale_of(typmod)
    if precision > DECIMAL_DIGITS or not 0 <= scale <= precision:
        return None
    kind = pa.decimal128(precision, scale)

    def out(column: Column) -> Column:
        try:
            return column.cast(kind)
        except pa.ArrowInvalid:
            return pa.array([_decimal(text, kind) for text in column.to_pylist()], kind)

    return OpenForm(kind, _same, out)


def _decimal(text: str | None, kind: Any) -> Any:
    """A decimal, or None for NaN and for values with too many digits."""
    if text is None:
        return None
    try:
        return pa.scalar(text).cast(kind).as_py()
    except pa.ArrowInvalid:
        return None


def _uuid_out(column: Column) -> Column:
    return pa.ExtensionArray.from_storage(pa.uuid(), column.cast(pa.binary(16)))


def _dates_out(column: Column) -> Column:
    days = numbers_of(column, "<i4")
    info = np.iinfo(np.int32)
    return _without(column, (days == info.max) | (days == info.min + 1))


def _times_out(column: Column) -> Column:
    return _without(column, numbers_of(column, "<i8") >= USECS_PER_DAY)


def _moments_out(column: Column) -> Column:
    """Timestamps before the first moment become minus infinity. They include those that overflow 64 bits when counted
    from 1970 in place of 2000."""
    moments = numbers_of(column, "<i8")
    return _without(column, (moments == np.iinfo(np.int64).max) | (moments < _FIRST_MOMENT))


# --- intervals -------------------------------------------------------------------------------------------------------


def _intervals_out(values: Sequence[Interval | None]) -> Column:
    known = [Interval(0, 0, 0) if value is None else value for value in values]
    months, days, microseconds = zip(*known, strict=True) if known else ((), (), ())
    mask = pa.array([value is None for value in values], pa.bool_())
    children = [pa.array(months, pa.int32()), pa.array(days, pa.int32()), pa.array(microseconds, pa.int64())]
    return pa.StructArray.from_arrays(children, fields=[pa.field(*field) for field in _INTERVAL_FIELDS], mask=mask)


def _intervals_back(column: Column) -> Column:
    """Intervals from Parquet. NULL also for those that do not fit into nanoseconds."""
    count = len(column)
    months, days, microseconds = (one_array(item) for item in column.flatten())
    valid = column.is_valid().to_numpy(zero_copy_only=False)
    made = np.zeros(count, _MONTH_DAY_NANO)
    if count:
        parts = numbers_of(microseconds, "<i8")
        fits = (parts <= _MAX_MICROSECONDS) & (parts >= -_MAX_MICROSECONDS)
        valid = valid & fits
        made["months"] = numbers_of(months, "<i4")
        made["days"] = numbers_of(days, "<i4")
        made["nanoseconds"] = np.where(fits, parts, 0) * _NANOSECONDS
    bits = pa.py_buffer(np.packbits(valid, bitorder="little").tobytes())
    return pa.Array.from_buffers(pa.month_day_nano_interval(), count, [bits, pa.py_buffer(made)])


# --- arrays ----------------------------------------------------------------------------------------------------------


def _element_form(type_: TypeRef) -> OpenForm:
    """The form of an array's elements. UUIDs and JSON are text, because pandas cannot read lists of Parquet's own
    types."""
    if type_.oid in oids.JSON_TYPES:
        return OpenForm(pa.string(), _same, _same)
    if type_.oid == oids.UUID:
        return OpenForm(pa.string(), _uuids_of_text, _uuids_as_text)
    return open_form(type_)


def _uuids_as_text(column: Column) -> Column:
    texts = [None if value is None else value.hex() for value in column.to_pylist()]
    return pa.array(
        [text and f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}" for text in texts], pa.string()
    )


def _uuids_of_text(column: Column) -> Column:
    values = [None if text is None else bytes.fromhex(text.replace("-", "")) for text in column.to_pylist()]
    return pa.array(values, pa.binary())


def _list_form(element: TypeRef, first: int) -> OpenForm:
    """A LIST for arrays with one dimension that start at `first`; NULL for others."""
    form = _element_form(element)
    kind = pa.list_(pa.field("element", form.arrow_type))

    def values_out(values: Sequence[Array | None]) -> Column:
        offsets = np.zeros(len(values) + 1, np.int32)
        elements: list[Any] = []
        missing = np.zeros(len(values), np.bool_)
        for place, value in enumerate(values):
            if value is None or len(value.dimensions) > 1 or value.lower_bounds not in ((), (first,)):
                missing[place] = True
            else:
                elements += value.elements
            offsets[place + 1] = len(elements)
        if form.values_out is not None:
            column = form.values_out(elements)
        else:
            assert form.out is not None
            column = form.out(from_values(elements, element.oid))
        return pa.ListArray.from_arrays(pa.array(offsets), column, kind, mask=pa.array(missing))

    def back(column: Column) -> Column:
        whole = one_array(column)
        offsets = np.frombuffer(whole.buffers()[1], "<i4", len(whole) + 1) if len(whole) else np.zeros(1, np.int32)
        missing = pc.is_null(whole)
        return pa.ListArray.from_arrays(pa.array(offsets), form.back(one_array(whole.values)), mask=missing)

    return OpenForm(kind, back, values_out=values_out)
