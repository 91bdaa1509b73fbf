"""SQL types as Spark's, and back.

bool, int2, int4, int8, oid, float4, float8     boolean, short, int, long, long, float, double
numeric(p,s) up to 38 digits                    decimal(p,s)
numeric without a precision                     decimal(38,18), as by JDBC; a value that does not fit is an error
text, varchar, bpchar, name                     string
bytea, date                                     binary, date
timestamptz, timestamp                          timestamp, timestamp_ntz
arrays of these (one-dimensional)               array
any other                                       string: PostgreSQL's text
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pyspark.sql import types as t

_SIMPLE: Mapping[str, t.DataType] = {
    "bool": t.BooleanType(),
    "int2": t.ShortType(),
    "int4": t.IntegerType(),
    "int8": t.LongType(),
    "oid": t.LongType(),
    "float4": t.FloatType(),
    "float8": t.DoubleType(),
    "text": t.StringType(),
    "varchar": t.StringType(),
    "bytea": t.BinaryType(),
    "date": t.DateType(),
    "timestamp": t.TimestampNTZType(),
    "timestamptz": t.TimestampType(),
}
_MOST_DIGITS = 38
ANY_NUMERIC = t.DecimalType(38, 18)
_VARHDRSZ = 4

_SQL: Mapping[type[t.DataType], str] = {
    t.BooleanType: "boolean",
    t.ByteType: "smallint",
    t.ShortType: "smallint",
    t.IntegerType: "integer",
    t.LongType: "bigint",
    t.FloatType: "real",
    t.DoubleType: "double precision",
    t.BinaryType: "bytea",
    t.DateType: "date",
    t.TimestampType: "timestamp with time zone",
    t.TimestampNTZType: "timestamp",
    t.StringType: "text",
}


@dataclass(frozen=True)
class SqlColumn:
    """A column of a result. `type_name`: pg_type's name, of the element for an array; `modifier`: -1 for none."""

    name: str
    type_name: str
    modifier: int = -1
    is_array: bool = False

    @property
    def compares_alike(self) -> bool:
        """Whether Spark compares values of the column as SQL does, so that the server may evaluate filters on it."""
        return not self.is_array and (self.type_name in _SIMPLE or self.type_name == "numeric")

    @property
    def spark_type(self) -> t.DataType:
        element = self._element()
        return t.ArrayType(element, True) if self.is_array else element

    def _element(self) -> t.DataType:
        if self.type_name != "numeric":
            return _SIMPLE.get(self.type_name, t.StringType())
        if self.modifier < 0:
            return ANY_NUMERIC
        precision, scale = (self.modifier - _VARHDRSZ) >> 16 & 0xFFFF, (self.modifier - _VARHDRSZ) & 0x7FF
        fits = precision <= _MOST_DIGITS and scale <= precision
        return t.DecimalType(precision, scale) if fits else ANY_NUMERIC


def schema_of(columns: list[SqlColumn]) -> t.StructType:
    return t.StructType([t.StructField(column.name, column.spark_type) for column in columns])


def sql_type(field: t.StructField) -> str:
    """The type of a new column for a field. Raises ValueError for a type without a counterpart."""
    found = _of(field.dataType)
    if found is None:
        raise ValueError(
            f'column "{field.name}" is of Spark\'s type {field.dataType.simpleString()}, which has no SQL type; '
            "to_json makes a string of it"
        )
    return found


def _of(kind: t.DataType) -> str | None:
    if isinstance(kind, t.DecimalType):
        return f"numeric({kind.precision}, {kind.scale})"
    if isinstance(kind, t.ArrayType):
        element = None if isinstance(kind.elementType, t.ArrayType) else _of(kind.elementType)
        return None if element is None else f"{element}[]"
    return next((name for known, name in _SQL.items() if isinstance(kind, known)), None)
