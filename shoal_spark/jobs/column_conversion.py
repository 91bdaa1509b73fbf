"""Converts the columns of a frame to those of a table, and describes the problem of a value as text.

Fields of CSV and JSON come as text, and are converted here. So a value that does not fit its column's type is reported
with its column, its text and its type, and numbers of any length stay exact. The server checks ranges, addresses,
domains, CHECK and keys when it receives the rows, and an error there fails the whole job.

Typed columns (Parquet) are widened if that loses nothing. The server refuses other columns that do not fit, with both
types, before anything is read.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pyspark.sql import Column
from pyspark.sql import functions as f
from pyspark.sql import types as t

from shoal_spark.jobs.server_access import TableColumn

_TRUE = ("t", "tr", "tru", "true", "y", "ye", "yes", "on", "1")
_FALSE = ("f", "fa", "fal", "fals", "false", "n", "no", "of", "off", "0")
_UUID = "^\\{?[0-9a-fA-F]{4}(-?[0-9a-fA-F]{4}){7}\\}?$"
_NUMERIC = "(?i)^\\s*([+-]?(\\d+(\\.\\d*)?|\\.\\d+)(e[+-]?\\d+)?|nan|[+-]?inf(inity)?)\\s*$"
_HEX = "^\\\\x([0-9a-fA-F]{2})*$"
_SHOWN = 60  # characters of a value in a reason
_TEXTS = ("varchar", "bpchar")
_WIDER: Mapping[type[t.DataType], tuple[type[t.DataType], ...]] = {
    t.ShortType: (t.ByteType,),
    t.IntegerType: (t.ByteType, t.ShortType),
    t.LongType: (t.ByteType, t.ShortType, t.IntegerType),
    t.DoubleType: (t.FloatType, t.ByteType, t.ShortType, t.IntegerType),
    t.TimestampNTZType: (t.DateType,),
}


@dataclass(frozen=True)
class TimeFormats:
    """Patterns of Spark for dates and times in text; None: ISO 8601."""

    date: str | None = None
    timestamp: str | None = None


@dataclass(frozen=True)
class ConvertedColumn:
    """A column of the table: its value, and the value's problem (NULL: none), as expressions over the frame."""

    value: Column
    problem: Column | None = None


def from_text(column: TableColumn, source: Column, formats: TimeFormats) -> ConvertedColumn:
    """Converts a field of text."""
    kind = column.sql.type_name
    value, sure = _parse_text(column, source, formats)
    problems = [] if sure else [f.when(source.isNotNull() & value.isNull(), _no_value(column, source))]
    return ConvertedColumn(value, _first([*problems, *_limits(column, value, kind)]))


def from_typed(column: TableColumn, source: Column, kind: t.DataType) -> ConvertedColumn:
    """Converts a column that has a type."""
    wanted = column.sql.spark_type
    if isinstance(kind, t.StringType | t.VarcharType | t.CharType) and not isinstance(wanted, t.ArrayType):
        return from_text(column, source, TimeFormats())
    if isinstance(kind, t.StructType | t.MapType) and column.sql.type_name in ("json", "jsonb"):
        return ConvertedColumn(f.to_json(source), _first(_limits(column, source, "")))
    value = source.cast(wanted) if isinstance(kind, _WIDER.get(type(wanted), ())) else source
    return ConvertedColumn(value, _first(_limits(column, value, "")))


def _parse_text(column: TableColumn, source: Column, formats: TimeFormats) -> tuple[Column, bool]:
    """The value, and whether it always fits."""
    kind, wanted = column.sql.type_name, column.sql.spark_type
    if column.sql.is_array:
        return source, True
    if column.labels is not None:
        return f.when(source.isin(*column.labels), source), False
    if kind == "bool":
        text = f.lower(f.trim(source))
        return f.when(text.isin(*_TRUE), True).when(text.isin(*_FALSE), False), False
    if kind == "uuid":
        return f.when(f.trim(source).rlike(_UUID), source), False
    if kind in ("json", "jsonb"):
        return f.when(f.try_parse_json(source).isNotNull(), source), False
    if kind == "bytea":
        return f.when(source.rlike(_HEX), f.unhex(f.substring(source, 3, 1 << 30))), False
    if kind == "numeric" and column.sql.modifier < 0:
        return f.when(source.rlike(_NUMERIC), source), False
    if kind == "date" and formats.date is not None:
        return f.try_to_timestamp(source, f.lit(formats.date)).cast("date"), False
    if isinstance(wanted, t.TimestampType | t.TimestampNTZType) and formats.timestamp is not None:
        return f.try_to_timestamp(source, f.lit(formats.timestamp)).cast(wanted), False
    if isinstance(wanted, t.StringType):
        return source, True
    return source.try_cast(wanted), False


def _limits(column: TableColumn, value: Column, kind: str) -> list[Column]:
    """The problems of values that violate the limits of the column's definition."""
    found = []
    if column.not_null:
        found.append(f.when(value.isNull(), f.lit(f'null value in column "{column.name}", which is NOT NULL')))
    if kind in _TEXTS and column.sql.modifier > 0:
        most = column.sql.modifier - 4
        # Blanks beyond the length are cut off, as by COPY.
        message = f'value too long for column "{column.name}" of type {column.type}'
        found.append(f.when(f.length(f.rtrim(value)) > most, f.lit(message)))
    return found


def _no_value(column: TableColumn, source: Column) -> Column:
    said = f.when(f.length(source) > _SHOWN, f.concat(f.substring(source, 1, _SHOWN), f.lit("..."))).otherwise(source)
    return f.concat(f.lit(f'column "{column.name}": "'), said, f.lit(f'" is not a value of type {column.type}'))


def _first(problems: Sequence[Column]) -> Column | None:
    return f.coalesce(*problems) if problems else None
