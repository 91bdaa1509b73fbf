"""Values between their internal form (catalog/types/base.py) and Arrow columns in DuckDB's types.

    SQL type                 Arrow, as DuckDB gives it           internal form
    date                     date32, days since 1970             days since 2000
    time                     time64[us]                          microseconds
    timestamp, timestamptz   timestamp[us] since 1970            microseconds since 2000
    interval                 month_day_nano_interval             Interval(months, days, microseconds)
    numeric                  decimal128, or string               Decimal with its scale
    T[]                      list<T>                             Array, one-dimensional
    anything else that lies in a string but is none (timetz): its text form

Infinite dates and timestamps are the ends of the integer range on both sides, but not the same ends: DuckDB's minus
infinity is -(2**31 - 1) and -(2**63 - 1), PostgreSQL's is one less.

Used for UDFs, for parameters, for virtual tables, and for the types whose result text is made value by value. Pure
Arrow: nothing here needs DuckDB, so the engine's side uses it too.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from catalog import types
from catalog.errors import not_supported
from catalog.types import oids
from catalog.types.base import Array, Interval

EPOCH_DAYS = 10957  # 1970-01-01 .. 2000-01-01
EPOCH_MICROSECONDS = EPOCH_DAYS * 86_400_000_000

_DATE_MIN, _DATE_MAX = -(2**31), 2**31 - 1
_TIMESTAMP_MIN, _TIMESTAMP_MAX = -(2**63), 2**63 - 1

INTERVAL_DTYPE = np.dtype([("months", "<i4"), ("days", "<i4"), ("nanoseconds", "<i8")])

STRING_INTERNAL = frozenset(  # the internal form is str already
    (oids.CHAR, oids.NAME, oids.TEXT, oids.JSON, oids.JSONB, oids.XML, oids.UNKNOWN, oids.BPCHAR, oids.VARCHAR)
)


def fixed_view(array: pa.Array, dtype: npt.DTypeLike) -> npt.NDArray[Any]:
    """The values buffer of a fixed-width Arrow array as NumPy, NULL slots included, without copying."""
    item = np.dtype(dtype).itemsize
    buffer = array.buffers()[1]
    if buffer is None:
        return np.zeros(len(array), dtype=dtype)
    return np.frombuffer(buffer, dtype=dtype, count=len(array), offset=array.offset * item)


def postgres_days(array: pa.Array) -> npt.NDArray[np.int32]:
    """date32 -> days since 2000-01-01 with PostgreSQL's infinities (NULL slots hold anything)."""
    days = fixed_view(array, np.int32)
    shifted = (days.astype(np.int64) - EPOCH_DAYS).astype(np.int32)
    shifted[days == _DATE_MAX] = _DATE_MAX
    shifted[days == _DATE_MIN + 1] = _DATE_MIN
    return shifted


def postgres_microseconds(array: pa.Array) -> npt.NDArray[np.int64]:
    """timestamp[us] -> microseconds since 2000-01-01 with PostgreSQL's infinities (NULL slots hold anything)."""
    stamps = fixed_view(array, np.int64)
    shifted = stamps - EPOCH_MICROSECONDS
    shifted[stamps == _TIMESTAMP_MAX] = _TIMESTAMP_MAX
    shifted[stamps == _TIMESTAMP_MIN + 1] = _TIMESTAMP_MIN
    return shifted


def combined(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    """One contiguous array of a column."""
    if isinstance(column, pa.ChunkedArray):
        return column.combine_chunks() if column.num_chunks != 1 else column.chunk(0)
    return column


def _with_nulls(array: pa.Array, values: list[Any]) -> list[Any]:
    if array.null_count:
        for index in np.flatnonzero(~valid_mask(array)).tolist():
            values[index] = None
    return values


def valid_mask(array: pa.Array) -> npt.NDArray[np.bool_]:
    """True where the value is not NULL."""
    mask: npt.NDArray[np.bool_] = array.is_valid().to_numpy(zero_copy_only=False)
    return mask


def from_arrow(column: pa.Array | pa.ChunkedArray, oid: int) -> list[Any]:
    """A column's values in the internal form of the SQL type; None for NULL."""
    array = combined(column)
    kind = array.type
    if pa.types.is_date32(kind):
        return _with_nulls(array, postgres_days(array).tolist())
    if pa.types.is_timestamp(kind):
        return _with_nulls(array, postgres_microseconds(array).tolist())
    if pa.types.is_time64(kind):
        return _with_nulls(array, fixed_view(array, np.int64).tolist())
    if pa.types.is_interval(kind):
        parts = fixed_view(array, INTERVAL_DTYPE)
        intervals = [Interval(m, d, n // 1000) for m, d, n in parts.tolist()]
        return _with_nulls(array, intervals)
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return _arrays_from_arrow(array, oid)
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        if oid in STRING_INTERNAL:
            return array.to_pylist()  # type: ignore[no-any-return]
        decode: Callable[[str], Any] = Decimal if oid == oids.NUMERIC else types.lookup(oid).text_decoder()
        return [None if text is None else decode(text) for text in array.to_pylist()]
    values: list[Any] = array.to_pylist()
    if oid == oids.NUMERIC and not pa.types.is_decimal(kind):
        return [None if value is None else Decimal(value) for value in values]
    return values


def _arrays_from_arrow(array: pa.Array, oid: int) -> list[Any]:
    element = element_oid(oid)
    elements = from_arrow(array.values, element)
    offsets = array.offsets.to_pylist()
    return _with_nulls(array, [Array.of(tuple(elements[offsets[i] : offsets[i + 1]])) for i in range(len(array))])


def element_oid(array_oid: int) -> int:
    """The element type of an array type; the type itself where it is none."""
    return types.element_of(array_oid) or array_oid


_ARROW: dict[str, pa.DataType] = {
    "BOOLEAN": pa.bool_(),
    "TINYINT": pa.int8(),
    "SMALLINT": pa.int16(),
    "INTEGER": pa.int32(),
    "BIGINT": pa.int64(),
    "UINTEGER": pa.uint32(),
    "UBIGINT": pa.uint64(),
    "FLOAT": pa.float32(),
    "DOUBLE": pa.float64(),
    "VARCHAR": pa.string(),
    "BLOB": pa.binary(),
    "DATE": pa.date32(),
    "TIME": pa.time64("us"),
    "TIMESTAMP": pa.timestamp("us"),
    "INTERVAL": pa.month_day_nano_interval(),
    "HUGEINT": pa.decimal128(38, 0),
}


def arrow_type(duckdb_type: str) -> pa.DataType:
    """The Arrow type in which DuckDB gives and takes a type of its own: 'DECIMAL(10,2)[]'."""
    if duckdb_type.endswith("[]"):
        return pa.list_(arrow_type(duckdb_type[:-2]))
    if duckdb_type.startswith("DECIMAL("):
        precision, scale = duckdb_type[8:-1].split(",")
        return pa.decimal128(int(precision), int(scale))
    return _ARROW[duckdb_type]


def struct_fields(duckdb_type: str) -> list[tuple[str, str]]:
    """('f1', 'BIGINT'), ... of 'STRUCT(f1 BIGINT, f2 DECIMAL(10,2))'."""
    inner = duckdb_type[duckdb_type.index("(") + 1 : -1]
    fields = re.split(r",\s*(?![^()]*\))", inner)
    return [(name.strip('"'), kind.strip()) for name, _, kind in (field.strip().partition(" ") for field in fields)]


def to_arrow(values: Sequence[Any], oid: int, duckdb_type: str) -> pa.Array:
    """Internal-form values as an Arrow array of the DuckDB type. Raises what the type's encoder raises, and
    pyarrow.ArrowInvalid for a value that the DuckDB type cannot hold."""
    if duckdb_type.endswith("[]"):
        return _arrays_to_arrow(values, oid, duckdb_type)
    if duckdb_type == "DATE":
        days = [None if v is None else _shift(v, EPOCH_DAYS, _DATE_MIN, _DATE_MAX) for v in values]
        return pa.array(days, type=pa.int32()).view(pa.date32())
    if duckdb_type == "TIMESTAMP":
        stamps = [None if v is None else _shift(v, EPOCH_MICROSECONDS, _TIMESTAMP_MIN, _TIMESTAMP_MAX) for v in values]
        return pa.array(stamps, type=pa.int64()).view(pa.timestamp("us"))
    if duckdb_type == "TIME":
        return pa.array(values, type=pa.int64()).view(pa.time64("us"))
    if duckdb_type == "INTERVAL":
        return pa.array(
            [None if v is None else pa.MonthDayNano([v.months, v.days, v.microseconds * 1000]) for v in values],
            type=pa.month_day_nano_interval(),
        )
    if duckdb_type == "VARCHAR" and oid not in STRING_INTERNAL:
        encode = types.lookup(oid).text_encoder()
        return pa.array([None if v is None else encode(v).decode() for v in values], type=pa.string())
    return pa.array(values, type=arrow_type(duckdb_type))


def _shift(value: int, epoch: int, low: int, high: int) -> int:
    if value == high:
        return value
    return low + 1 if value == low else value + epoch


def _arrays_to_arrow(values: Sequence[Any], oid: int, duckdb_type: str) -> pa.Array:
    offsets: list[int | None] = []
    elements: list[Any] = []
    for value in values:
        if value is None:
            offsets.append(None)
            continue
        if len(value.dimensions) > 1 or value.lower_bounds not in ((), (1,)):
            not_supported("an array of several dimensions, or not starting at 1, in an analytic query")
        offsets.append(len(elements))
        elements.extend(value.elements)
    offsets.append(len(elements))
    child = to_arrow(elements, element_oid(oid), duckdb_type[:-2])
    return pa.ListArray.from_arrays(pa.array(offsets, type=pa.int32()), child)
