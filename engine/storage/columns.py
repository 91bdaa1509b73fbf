"""Columns between Arrow (in DuckDB's types, catalog/types 'Values in columns'), stored form and internal form.

For each SQL type a `ColumnForm` defines its Arrow type and the conversion of whole columns:

    fixed in the row       a NumPy array of the stored dtype <-> Arrow          (integers, floats, dates, times, bool)
    bytes in the row       the heap's bytes as a binary array <-> Arrow         (text, bytea, numeric's text)
    anything else          value by value, through the internal form            (interval, arrays, timetz)

DuckDB counts from 1970 and its minus infinity is -(2**31 - 1) and -(2**63 - 1), where PostgreSQL counts from 2000 and
has -2**31 and -2**63; plus infinity is the top of the range on both sides.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from catalog.errors import SqlError, not_supported
from catalog.types import element_of, lookup, oids
from catalog.types.array import vector_of
from catalog.types.base import Array, Interval, Layout, SqlType
from catalog.types.collated_oids import plain
from catalog.types.user import FIRST_USER_OID

Numbers = Any  # numpy.ndarray: NumPy's own stubs make every dtype a type parameter
Column = Any  # pyarrow.Array

_UNSHAPED = (*oids.VECTORS, oids.RECORD_ARRAY)


@dataclass(frozen=True, slots=True)
class ColumnForm:
    """The conversions of a type's columns. Exactly one of the three pairs is set; NULL slots may hold anything.

    numbers_in/out: Arrow array -> stored dtype, and back (without validity). bytes_in/out: Arrow array <-> the same
    array as binary (validity kept). values_in/out: Arrow array <-> list of internal-form values, None for NULL. With
    the last pair, `stored_out` may make the column from stored bytes and a mask of those that are not NULL; it returns
    None if the values must be converted one by one.
    """

    arrow_type: Any
    numbers_in: Callable[[Column], Numbers] | None = None
    numbers_out: Callable[[Numbers], Column] | None = None
    bytes_in: Callable[[Column], Column] | None = None
    bytes_out: Callable[[Column], Column] | None = None
    values_in: Callable[[Column], list[Any]] | None = None
    values_out: Callable[[Sequence[Any]], Column] | None = None
    stored_out: Callable[[Column, Numbers | None], Column | None] | None = None


def column_form(oid: int) -> ColumnForm:
    """The form of a type. 0A000 for a type that cannot be stored in columns."""
    found = _FORMS.get(oid)
    if found is None:
        found = _FORMS[oid] = _make_form(lookup(oid))
    return found


class ShapedArray(SqlError):  # noqa: N818 - named for what is the matter
    """0A000: an array that a LIST cannot hold, because of its dimensions or its lower bound."""

    MESSAGE = "arrays of several dimensions, or not starting at 1, in this analytic query are not supported"

    def __init__(self) -> None:
        super().__init__("0A000", self.MESSAGE)


def takes_shapes(oid: int) -> bool:
    """Whether values of the type may have a shape that a LIST cannot hold, and their text represents them completely:
    arrays of built-in types. The text of user-defined types and of object names may change; vectors have one form."""
    oid = plain(oid)
    element = 0 if oid >= FIRST_USER_OID or oid in _UNSHAPED else element_of(oid)
    return bool(element) and element not in oids.NAMED_TYPES


def whole_form(oid: int) -> ColumnForm:
    """The form of a column that holds arrays of any shape as their text, under default settings."""
    if not takes_shapes(oid):
        return column_form(oid)
    found = _WHOLE_FORMS.get(oid)
    if found is None:
        found = _WHOLE_FORMS[oid] = _text_form(lookup(oid))
    return found


def one_array(column: Any) -> Column:
    """A ChunkedArray or Array as one Array that starts at offset 0 of its buffers."""
    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks() if column.num_chunks != 1 else column.chunk(0)
    if column.offset:
        column = pa.concat_arrays([column])
        if column.offset:  # a single array is returned unchanged
            column = column.take(pa.array(np.arange(len(column))))
    return column


def binary_array(values: Sequence[bytes]) -> Column:
    """The values as a binary array: four times as fast as `pyarrow.array` for a million of them."""
    offsets = np.zeros(len(values) + 1, np.int32)
    np.cumsum(np.fromiter(map(len, values), np.int32, len(values)), out=offsets[1:])
    return pa.Array.from_buffers(
        pa.binary(), len(values), [None, pa.py_buffer(offsets), pa.py_buffer(b"".join(values))]
    )


def numbers_of(column: Column, dtype: str) -> Numbers:
    """The values buffer of a fixed-width Arrow array, NULL slots included, without copying."""
    buffer = column.buffers()[1]
    if buffer is None:
        return np.zeros(len(column), dtype=dtype)
    item = np.dtype(dtype).itemsize
    return np.frombuffer(buffer, dtype=dtype, count=len(column), offset=column.offset * item)


def valid_mask(column: Column) -> Numbers | None:
    """Booleans, True where the value is not NULL; None when no value is."""
    if not column.null_count:
        return None
    return column.is_valid().to_numpy(zero_copy_only=False)


def with_validity(column: Column, valid: Numbers | None) -> Column:
    """The array with NULL where `valid` is False."""
    if valid is None:
        return column
    bits = pa.py_buffer(np.packbits(valid, bitorder="little").tobytes())
    return pa.Array.from_buffers(column.type, len(column), [bits, *column.buffers()[1:]])


def pack_slices(data: Numbers, first: Numbers, last: Numbers) -> Column:
    """data[first[i]:last[i]] for ascending slices, as a binary array.

    Starts and ends interleaved make one array of 2n - 1 slots over the same bytes; taking every other slot packs it.
    """
    count = len(first)
    if not count:
        return pa.array([], pa.binary())
    offsets = np.empty(2 * count, np.int32)
    offsets[0::2] = first
    offsets[1::2] = last
    slots = pa.Array.from_buffers(pa.binary(), 2 * count - 1, [None, pa.py_buffer(offsets), pa.py_buffer(data)])
    return slots.take(pa.array(np.arange(0, 2 * count, 2, dtype=np.int32)))


def _make_form(sql_type: SqlType) -> ColumnForm:
    make = _LAYOUTS.get(sql_type.columns.layout)
    if make is not None:
        return make(sql_type)
    oid = plain(sql_type.oid)
    if element := element_of(oid):
        return _array_form(oid, element)
    if sql_type.duckdb_type() != "VARCHAR":
        not_supported(f"type {sql_type.sql_name} in columns")
    return _text_form(sql_type)


_DTYPES = {"?": "?", "h": "<i2", "i": "<i4", "q": "<i8", "I": "<u4", "Q": "<u8", "f": "<f4", "d": "<f8", "16s": "S16"}


def stored_dtype(struct_code: str) -> str:
    """The NumPy dtype of a struct code of `Storage`."""
    return "V16" if struct_code == "16s" else _DTYPES[struct_code]


def _number_form(sql_type: SqlType) -> ColumnForm:
    columns = sql_type.columns
    arrow_type, dtype = pa.type_for_alias(columns.arrow), _DTYPES[sql_type.storage.struct_code or ""]
    if columns.epoch:
        return _shifted_form(arrow_type, dtype, columns.epoch)

    def numbers_in(column: Column) -> Numbers:
        return numbers_of(column if column.type == arrow_type else column.cast(arrow_type), dtype)

    def numbers_out(numbers: Numbers) -> Column:
        data = np.ascontiguousarray(numbers)
        return pa.Array.from_buffers(arrow_type, len(data), [None, pa.py_buffer(data)])

    return ColumnForm(arrow_type, numbers_in=numbers_in, numbers_out=numbers_out)


def _shifted_form(arrow_type: Any, dtype: str, epoch: int) -> ColumnForm:
    info = np.iinfo(dtype)
    low, high = info.min, info.max

    def numbers_in(column: Column) -> Numbers:
        numbers = numbers_of(column if column.type == arrow_type else column.cast(arrow_type), dtype)
        shifted = numbers - numbers.dtype.type(epoch)
        shifted[numbers == high] = high
        shifted[numbers == low + 1] = low
        return shifted

    def numbers_out(numbers: Numbers) -> Column:
        shifted = numbers + numbers.dtype.type(epoch)
        shifted[numbers == high] = high
        shifted[numbers == low] = low + 1
        return pa.Array.from_buffers(arrow_type, len(shifted), [None, pa.py_buffer(shifted)])

    return ColumnForm(arrow_type, numbers_in=numbers_in, numbers_out=numbers_out)


def _widened_form(sql_type: SqlType) -> ColumnForm:
    dtype = _DTYPES[sql_type.storage.struct_code or ""]
    return ColumnForm(
        pa.int64(),
        numbers_in=lambda column: numbers_of(column, "<i8").astype(dtype),
        numbers_out=lambda numbers: pa.array(numbers.astype(np.int64)),
    )


def _boolean_form(_: SqlType) -> ColumnForm:
    return ColumnForm(
        pa.bool_(),
        numbers_in=lambda column: column.fill_null(False).to_numpy(zero_copy_only=False),
        numbers_out=lambda numbers: pa.array(numbers.astype(np.bool_)),
    )


def _as_binary(column: Column) -> Column:
    if pa.types.is_large_string(column.type) or pa.types.is_string_view(column.type):
        column = column.cast(pa.string())
    if column.type == pa.string():
        return column.view(pa.binary())
    return column if column.type == pa.binary() else column.cast(pa.binary())


def _as_string(column: Column) -> Column:
    """Bytes from our own rows: they were UTF-8 when they were stored, so they are not checked again."""
    return pa.Array.from_buffers(pa.string(), len(column), column.buffers(), column.null_count, column.offset)


def _numeric_bytes(column: Column) -> Column:
    """DuckDB's DECIMAL, whole numbers, or PostgreSQL's text: as PostgreSQL's text."""
    if pa.types.is_string(column.type):
        return column.view(pa.binary())
    text = column.cast(pa.string())
    if pa.types.is_decimal(column.type) and pc.any(pc.match_substring(text, "E")).as_py():
        text = pa.array([None if value is None else format(value, "f") for value in column.to_pylist()], pa.string())
    return text.view(pa.binary())


def _uuid_in(column: Column) -> Numbers:
    if column.null_count:
        column = column.fill_null(bytes(16))
    offsets, data = column.buffers()[1], column.buffers()[2]
    first = int(np.frombuffer(offsets, "<i4", 1, column.offset * 4)[0])
    return np.frombuffer(data, "V16", len(column), first)


def _uuid_out(numbers: Numbers) -> Column:
    data = np.ascontiguousarray(numbers)
    offsets = np.arange(0, 16 * (len(data) + 1), 16, dtype=np.int32)
    return pa.Array.from_buffers(
        pa.binary(), len(data), [None, pa.py_buffer(offsets), pa.py_buffer(data.view(np.uint8))]
    )


def _intervals_in(column: Column) -> list[Any]:
    return [
        None if value is None else Interval(value.months, value.days, value.nanoseconds // 1000)
        for value in column.to_pylist()
    ]


def _intervals_out(values: Sequence[Any]) -> Column:
    """Converts intervals to Arrow, which counts nanoseconds. Raises 0A000 for intervals that are too long."""
    made = [None if v is None else pa.MonthDayNano([v.months, v.days, v.microseconds * 1000]) for v in values]
    try:
        return pa.array(made, pa.month_day_nano_interval())
    except OverflowError:
        not_supported("an interval of more than 2562047 hours in an analytic query")


def _text_form(sql_type: SqlType) -> ColumnForm:
    """A type that DuckDB holds as text (timetz)."""
    carrier = sql_type.carrier()
    encode, decode = carrier.text_encoder(), carrier.text_decoder()
    return ColumnForm(
        pa.string(),
        values_in=lambda column: [None if text is None else decode(text) for text in column.to_pylist()],
        values_out=lambda values: pa.array([None if v is None else encode(v).decode() for v in values], pa.string()),
    )


def _array_form(oid: int, element_oid: int) -> ColumnForm:
    """A LIST of elements; `first` is the index at which all arrays of the type start. Text has the form of
    `whole_form`."""
    from engine.storage.arrays import lists_of  # it needs the forms of elements

    element = column_form(element_oid)
    first, make = (0, vector_of) if oid in oids.VECTORS else (1, Array.of)

    def values_in(column: Column) -> list[Any]:
        if pa.types.is_string(column.type):
            as_text = whole_form(oid).values_in
            assert as_text is not None
            return as_text(column)
        elements = to_values(one_array(column.values), element_oid)
        offsets = column.offsets.to_pylist()
        valid = column.is_valid().to_pylist()
        return [
            make(tuple(elements[start:stop])) if known else None
            for start, stop, known in zip(offsets, offsets[1:], valid, strict=False)
        ]

    def values_out(values: Sequence[Any]) -> Column:
        offsets: list[int | None] = []
        elements: list[Any] = []
        for value in values:
            if value is None:
                offsets.append(None)
                continue
            if len(value.dimensions) > 1 or value.lower_bounds not in ((), (first,)):
                raise ShapedArray
            offsets.append(len(elements))
            elements.extend(value.elements)
        offsets.append(len(elements))
        return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), from_values(elements, element_oid))

    stored_out = lists_of(element_oid) if first else None
    return ColumnForm(pa.list_(element.arrow_type), values_in=values_in, values_out=values_out, stored_out=stored_out)


def to_values(column: Column, oid: int) -> list[Any]:
    """A column's values in internal form, None for NULL."""
    form, storage = column_form(oid), lookup(oid).storage
    if form.values_in is not None:
        return form.values_in(column)
    if form.bytes_in is not None:
        values = form.bytes_in(column).to_pylist()
    else:
        assert form.numbers_in is not None
        numbers = form.numbers_in(column)
        values = [item.tobytes() for item in numbers] if storage.struct_code == "16s" else numbers.tolist()
        if (valid := valid_mask(column)) is not None:
            for index in np.flatnonzero(~valid).tolist():
                values[index] = None
    decode = storage.from_storage
    return values if decode is None else [None if value is None else decode(value) for value in values]


def from_values(values: Sequence[Any], oid: int) -> Column:
    """Internal-form values as a column."""
    return values_in_form(column_form(oid), values, oid)


def values_in_form(form: ColumnForm, values: Sequence[Any], oid: int) -> Column:
    """Internal-form values as a column in one of the forms of the type."""
    storage = lookup(oid).storage
    if form.values_out is not None:
        return form.values_out(values)
    encode = storage.to_storage
    stored = values if encode is None else [None if value is None else encode(value) for value in values]
    if form.bytes_out is not None:
        return form.bytes_out(pa.array(stored, pa.binary()))
    assert form.numbers_out is not None and storage.struct_code is not None
    valid = np.array([value is not None for value in stored], dtype=np.bool_)
    empty: Any = bytes(16) if storage.struct_code == "16s" else 0
    dtype = stored_dtype(storage.struct_code)
    filled: list[Any] = [empty if value is None else value for value in stored]
    numbers = np.frombuffer(b"".join(filled), dtype) if dtype == "V16" else np.array(filled, dtype=dtype)
    column = form.numbers_out(numbers)
    return column if valid.all() else with_validity(column, valid)


_LAYOUTS: dict[Layout, Callable[[SqlType], ColumnForm]] = {
    Layout.NUMBERS: _number_form,
    Layout.WIDENED: _widened_form,
    Layout.BOOLEANS: _boolean_form,
    Layout.TEXT: lambda _: ColumnForm(pa.string(), bytes_in=_as_binary, bytes_out=_as_string),
    Layout.DECIMALS: lambda _: ColumnForm(pa.string(), bytes_in=_numeric_bytes, bytes_out=_as_string),
    Layout.BYTES: lambda _: ColumnForm(pa.binary(), bytes_in=_as_binary, bytes_out=_as_binary),
    Layout.FIXED_BYTES: lambda _: ColumnForm(pa.binary(), numbers_in=_uuid_in, numbers_out=_uuid_out),
    Layout.INTERVALS: lambda _: ColumnForm(
        pa.month_day_nano_interval(), values_in=_intervals_in, values_out=_intervals_out
    ),
}
_FORMS: dict[int, ColumnForm] = {}
_WHOLE_FORMS: dict[int, ColumnForm] = {}
