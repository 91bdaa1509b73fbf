"""Values between their internal form (catalog/types/base.py) and Arrow columns in DuckDB's types, for UDFs, virtual
tables, and the types whose result text is made value by value.

engine/storage/columns.py has the conversion of each SQL type in the one form in which it is stored; here is what DuckDB
expressions add to that: numeric as DECIMAL or HUGEINT, results in another integer type, STRUCTs. Pure Arrow: nothing
here needs DuckDB, so the engine's side uses it too.
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
    """A column's values in the internal form of the SQL type; None for NULL."""
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
    """The Arrow type in which DuckDB gives and takes a type of its own: 'DECIMAL(10,2)[]'."""
    return _arrow_type(parse_type(duckdb_type))


def _arrow_type(form: DuckDBType) -> pa.DataType:
    if isinstance(form, ListType):
        return pa.list_(_arrow_type(form.element))
    if isinstance(form, DecimalType):
        return pa.decimal128(form.precision, form.scale)
    return _ARROW[str(form)]


def struct_fields(duckdb_type: str) -> list[tuple[str, str]]:
    """('f1', 'BIGINT'), ... of 'STRUCT(f1 BIGINT, f2 DECIMAL(10,2))'."""
    form = parse_type(duckdb_type)
    assert isinstance(form, StructType)
    return [(name, str(type_)) for name, type_ in form.fields]


def to_arrow(values: Sequence[Any], oid: int, duckdb_type: str) -> pa.Array:
    """Internal-form values as an Arrow array of the DuckDB type. Raises what the type's encoder raises, 0A000 for an
    array that a LIST cannot hold and for a late timestamp, and pyarrow.ArrowInvalid for another value that the DuckDB
    type cannot."""
    wanted = arrow_type(duckdb_type)
    if pa.types.is_string(wanted) and takes_shapes(oid):
        return values_in_form(whole_form(oid), values, oid)
    if pa.types.is_decimal(wanted):
        return pa.array(values, type=wanted)
    made = from_values(values, oid)
    check_column(made)
    return made if made.type == wanted else made.cast(wanted)
