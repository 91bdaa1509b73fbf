"""The columns of a frame made those of a table, and what is wrong with a value, in words.

Fields of CSV and JSON come as text, whatever they are, and become values here: so what is no value of its column's type
is found with its column, its text and its type, and numbers of any length stay exact. What the server alone can judge
(ranges, addresses, domains, CHECK, keys) it judges when the rows are handed in, and then the whole job fails.

Typed columns (Parquet) are widened where that loses nothing; what does not fit else is refused by the server, with the
column and both types, before anything is read.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pyspark.sql import Column
from pyspark.sql import functions as f
from pyspark.sql import types as t

from shoal_spark.jobs.server import TableColumn

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
class Formats:
    """Patterns of Spark for dates and times of text; None: ISO 8601."""

    date: str | None = None
    timestamp: str | None = None


@dataclass(frozen=True)
class Fitted:
    """A column of the table: the value, and what is wrong with it (NULL: nothing), as expressions over the frame."""

    value: Column
    problem: Column | None = None


def from_text(column: TableColumn, source: Column, formats: Formats) -> Fitted:
    """Of a field of text."""
    kind = column.sql.type_name
    value, sure = _parsed(column, source, formats)
    problems = [] if sure else [f.when(source.isNotNull() & value.isNull(), _no_value(column, source))]
    return Fitted(value, _first([*problems, *_limits(column, value, kind)]))


def from_typed(column: TableColumn, source: Column, kind: t.DataType) -> Fitted:
    """Of a column that has a type."""
    wanted = column.sql.spark_type
    if isinstance(kind, t.StringType | t.VarcharType | t.CharType) and not isinstance(wanted, t.ArrayType):
        return from_text(column, source, Formats())
    if isinstance(kind, t.StructType | t.MapType) and column.sql.type_name in ("json", "jsonb"):
        return Fitted(f.to_json(source), _first(_limits(column, source, "")))
    value = source.cast(wanted) if isinstance(kind, _WIDER.get(type(wanted), ())) else source
    return Fitted(value, _first(_limits(column, value, "")))


def _parsed(column: TableColumn, source: Column, formats: Formats) -> tuple[Column, bool]:
    """The value, and whether nothing can be wrong with it here."""
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
    """What the definition asks of any value."""
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
