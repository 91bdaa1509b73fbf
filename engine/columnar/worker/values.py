"""Converts values between their internal form (catalog/types/base.py) and Arrow columns in DuckDB's types, for UDFs,
virtual tables, and types whose result text is made for each value.

engine/storage/columns.py converts each SQL type to its one stored form. This module adds the other forms that DuckDB
expressions have: numeric as DECIMAL or HUGEINT, results in another integer type, STRUCTs. It needs only Arrow, not
DuckDB, so the engine's process uses it too.
"""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import pyarrow as pa

from catalog.duckdb.types import DecimalType, DuckDBType, ListType, StructType, parse_type
from catalog.types import oids
from engine.columnar.worker.timestamps import check_column
from engine.storage.columns import from_values, one_array, takes_shapes, to_values, values_in_form, whole_form


def from_arrow(column: pa.Array | pa.ChunkedArray, oid: int) -> list[Any]:
    """Returns a column's values in the internal form of the SQL type; None for NULL."""
    array = one_array(column)
    kind = array.type
    if pa.types.is_null(kind):
        return [None] * len(array)
    if oid == oids.NUMERIC and not pa.types.is_string(kind):
        values: list[Any] = array.to_pylist()
        if pa.types.is_decimal(kind):
            return values
        return [None if value is None else Decimal(value) for value in values]
    return to_values(array, oid)


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
    """Returns the Arrow type of a DuckDB type, as DuckDB imports and exports it: 'DECIMAL(10,2)[]' is a list of
    decimal128(10, 2)."""
    return _arrow_type(parse_type(duckdb_type))


def _arrow_type(form: DuckDBType) -> pa.DataType:
    if isinstance(form, ListType):
        return pa.list_(_arrow_type(form.element))
    if isinstance(form, DecimalType):
        return pa.decimal128(form.precision, form.scale)
    return _ARROW[str(form)]


def struct_fields(duckdb_type: str) -> list[tuple[str, str]]:
    """Returns [('f1', 'BIGINT'), ('f2', 'DECIMAL(10,2)')] for 'STRUCT(f1 BIGINT, f2 DECIMAL(10,2))'."""
    form = parse_type(duckdb_type)
    assert isinstance(form, StructType)
    return [(name, str(type_)) for name, type_ in form.fields]


def to_arrow(values: Sequence[Any], oid: int, duckdb_type: str) -> pa.Array:
    """Returns internal-form values as an Arrow array of the DuckDB type. Raises the errors of the type's encoder, 0A000
    for an array that a LIST cannot hold and for a timestamp too late for DuckDB, and pyarrow.ArrowInvalid for another
    value that the DuckDB type cannot hold."""
    wanted = arrow_type(duckdb_type)
    if pa.types.is_string(wanted) and takes_shapes(oid):
        return values_in_form(whole_form(oid), values, oid)
    if pa.types.is_decimal(wanted):
        return pa.array(values, type=wanted)
    made = from_values(values, oid)
    check_column(made)
    return made if made.type == wanted else made.cast(wanted)
