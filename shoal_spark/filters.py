"""Translates Spark's filters into SQL conditions. Spark evaluates a filter that may have another meaning in SQL."""

from __future__ import annotations

import datetime
import math
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from pyspark.sql import datasource as d

from shoal_spark.options import quote_name
from shoal_spark.types import SqlColumn

_COMPARISONS: Mapping[type[d.Filter], str] = {
    d.EqualTo: "=",
    d.EqualNullSafe: "IS NOT DISTINCT FROM",
    d.GreaterThan: ">",
    d.GreaterThanOrEqual: ">=",
    d.LessThan: "<",
    d.LessThanOrEqual: "<=",
}
_PATTERNS: Mapping[type[d.Filter], tuple[str, str]] = {
    d.StringStartsWith: ("", "%"),
    d.StringEndsWith: ("%", ""),
    d.StringContains: ("%", "%"),
}
_MOST_ITEMS = 1000  # of an IN list
_TEXTS = ("text", "varchar")


class UnsupportedFilter(Exception):  # noqa: N818 - not an error: Spark evaluates the filter
    """Spark must evaluate the filter itself."""


def condition(item: d.Filter, columns: Mapping[str, SqlColumn]) -> str | None:
    """The filter as SQL, or None if Spark must evaluate it. `columns` by name."""
    try:
        return _condition(item, columns)
    except UnsupportedFilter:
        return None


def _condition(item: d.Filter, columns: Mapping[str, SqlColumn]) -> str:
    if isinstance(item, d.Not):
        return f"NOT ({_condition(item.child, columns)})"
    path: tuple[str, ...] = getattr(item, "attribute", ())
    column = columns.get(path[0]) if len(path) == 1 else None
    if column is None:
        raise UnsupportedFilter
    name = quote_name(column.name)
    if isinstance(item, d.IsNull):
        return f"{name} IS NULL"
    if isinstance(item, d.IsNotNull):
        return f"{name} IS NOT NULL"
    if not column.compares_alike:
        raise UnsupportedFilter
    if isinstance(item, d.In):
        if not 0 < len(item.value) <= _MOST_ITEMS:
            raise UnsupportedFilter
        return f"{name} IN ({', '.join(literal(value, column) for value in item.value)})"
    if type(item) in _PATTERNS:
        before, after = _PATTERNS[type(item)]
        return f"{name} LIKE {literal(before + _escape_pattern(item, column) + after, column)}"
    if type(item) not in _COMPARISONS:
        raise UnsupportedFilter
    return f"{name} {_COMPARISONS[type(item)]} {literal(getattr(item, 'value', None), column)}"


def _escape_pattern(item: Any, column: SqlColumn) -> str:
    text = item.value
    if not isinstance(text, str) or column.type_name not in _TEXTS:
        raise UnsupportedFilter
    return text.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")


def literal(value: object, column: SqlColumn) -> str:
    """A value that is compared with a column. Raises UnsupportedFilter."""
    kind = column.type_name
    if value is None:
        return "NULL"
    if isinstance(value, bool):
        return _as(str(value).lower(), "boolean", kind == "bool")
    if isinstance(value, int | Decimal):
        return _as(
            str(value), "numeric" if isinstance(value, Decimal) else "int8", kind not in ("bool", "bytea", *_TEXTS)
        )
    if isinstance(value, float):
        text = "NaN" if math.isnan(value) else repr(value)
        return _as(text.replace("inf", "Infinity"), "float8", kind in ("float4", "float8"))
    if isinstance(value, str):
        if "\0" in value:
            raise UnsupportedFilter
        return _as(value, "text", kind in _TEXTS)
    if isinstance(value, bytes | bytearray):
        return _as("\\x" + value.hex(), "bytea", kind == "bytea")
    if isinstance(value, datetime.datetime):
        wanted = "timestamp" if value.tzinfo is None else "timestamptz"
        return _as(value.isoformat(), wanted, kind == wanted)
    if isinstance(value, datetime.date):
        return _as(value.isoformat(), "date", kind == "date")
    raise UnsupportedFilter


def _as(text: str, kind: str, sure: bool) -> str:
    if not sure:
        raise UnsupportedFilter
    quoted_text = "'" + text.replace("'", "''") + "'"
    return f"{quoted_text}::{kind}"
