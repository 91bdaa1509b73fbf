"""Literals, columns, parameters, intervals."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import sqlglot.expressions as exp
from sqlglot.expressions import DType

from engine.sql.dialects.writer import Writer, string, text_of

_DECIMAL = re.compile(r"(\d+\.?\d*|\.\d+)\Z")
_EXPONENT = re.compile(r"(\d+\.?\d*|\.\d+)[eE][+-]?\d+\Z")
# Units of intervals, by their names without an s: the argument of make_interval, and the number of its units.
UNITS = {
    "YEAR": ("years", 1),
    "QUARTER": ("months", 3),
    "MONTH": ("months", 1),
    "WEEK": ("weeks", 1),
    "DAY": ("days", 1),
    "HOUR": ("hours", 1),
    "MINUTE": ("mins", 1),
    "SECOND": ("secs", 1),
}
_WHOLE = re.compile(r"\s*([+-]?\d+)\s*\Z")
_PSEUDO_COLUMNS = {
    "oracle": frozenset(("rownum", "rowid", "level", "sysdate", "systimestamp", "user", "uid", "ora_rowscn")),
    "bigquery": frozenset(("_partitiontime", "_partitiondate", "_table_suffix")),
    "spark": frozenset(("_metadata",)),
}
_PARAMETER = re.compile(r"\$[1-9]\d*\Z")


def _literal(writer: Writer, node: Any) -> str:
    value, is_string = writer.take(node, "this", "is_string")
    if is_string:
        return "NULL" if writer.traits.empty_is_null and not value else string(value)
    if _DECIMAL.match(value):
        return str(value)
    if not _EXPONENT.match(value):
        writer.refuse(value, node)
    return f"CAST({value} AS double precision)" if writer.traits.exponent_is_double else str(value)


def _plain_string(writer: Writer, node: Any) -> str:
    """N'..', r'..' and q'[..]', as plain string literals."""
    (value,) = writer.take(node, "this")
    return "NULL" if writer.traits.empty_is_null and not value else string(str(value))


def _adjacent_strings(writer: Writer, node: Any) -> str:
    """Adjacent string literals are one string (MySQL, Spark). sqlglot reads them as a call of CONCAT."""
    (items,) = writer.take(node, "expressions", "coalesce", "safe")[:1]
    values = [text_of(item) for item in items]
    if None in values:
        writer.refuse("CONCAT", node)
    return string("".join(value for value in values if value is not None))


def _date_literal(writer: Writer, node: Any) -> str:
    (value,) = writer.take(node, "this")
    if text_of(value) is None:
        writer.refuse("DATE", node)
    return f"CAST({writer.text(value)} AS date)"


def _null(writer: Writer, node: Any) -> str:
    writer.take(node)
    return "NULL"


def _boolean(writer: Writer, node: Any) -> str:
    (value,) = writer.take(node, "this")
    return "TRUE" if value else "FALSE"


def _star(writer: Writer, node: Any) -> str:
    writer.take(node)
    return "*"


def _column(writer: Writer, node: Any) -> str:
    """A column, or $n, which some dialects read as a name."""
    parts = writer.take(node, "catalog", "db", "table", "this")
    name = parts[-1]
    if isinstance(name, exp.Identifier) and not name.args.get("quoted"):
        if not any(parts[:-1]) and _PARAMETER.match(name.this):
            return str(writer.take(name, "this", "quoted")[0])
        if name.this.lower() in _PSEUDO_COLUMNS.get(writer.dialect, ()):
            writer.refuse(name.this.upper(), node)
        if name.this.startswith(("@", "$")):
            writer.refuse(name.this, node)
    names = [writer.name(part) for part in parts[:-1] if part is not None]
    return ".".join([*names, "*" if isinstance(name, exp.Star) and not writer.take(name) else writer.name(name)])


def _number_parameter(writer: Writer, node: Any) -> str:
    """$1 in dialects that read it as a parameter or a variable."""
    (value,) = writer.take(node, "this")
    number = value.this if isinstance(value, exp.Literal) else value
    if not str(number).isdigit() or not 0 < int(number) < 65536:
        writer.refuse(f"@{number}", node)
    return f"${number}"


def _placeholder(writer: Writer, node: Any) -> str:
    (name,) = writer.take(node, "this")
    if name is None:
        return writer.parameter(node)
    if not str(name).isdigit() or not 0 < int(str(name)) < 65536:
        writer.refuse(f":{name}", node)
    return f"${name}"


def _interval(writer: Writer, node: Any) -> str:
    amount, unit = writer.take(node, "this", "unit")
    name = unit.name.upper() if isinstance(unit, exp.Var | exp.Column) else ""
    return interval(writer, node, amount, name)


def interval(writer: Writer, node: Any, amount: Any, unit: str) -> str:
    """Returns an interval of `amount` units. Raises 0A000 for a unit without a counterpart."""
    known = UNITS.get(unit.removesuffix("S"))
    if known is None:
        writer.refuse(f"INTERVAL {unit}".rstrip(), node)
    argument, times = known
    value = text_of(amount)
    if value is None and isinstance(amount, exp.Literal):
        value = str(amount.this)
    if value is not None:
        whole = _WHOLE.match(value)
        if whole is None:
            writer.refuse(f"INTERVAL '{value}' {unit}", node)
        return f"INTERVAL '{int(whole[1]) * times} {argument}'"
    found = writer.operand(amount)
    return f"make_interval({argument} => {found if times == 1 else f'({found} * {times})'})"


def is_date(node: Any) -> bool:
    """Whether an expression is a date for any types of columns. Oracle's dates include a time."""
    if isinstance(node, exp.Cast):
        return bool(node.to.this == DType.DATE)
    if isinstance(node, exp.Add | exp.Sub):
        return is_date(node.this) and is_of_days(node.expression)
    if isinstance(node, exp.Anonymous):
        return str(node.name).upper() in ("CURDATE", "CURRENT_DATE", "DATE", "LAST_DAY", "EOMONTH")
    return isinstance(node, exp.CurrentDate | exp.DateStrToDate)


def is_of_days(node: Any) -> bool:
    """Whether a node is an interval of days or longer units."""
    unit = node.args.get("unit") if isinstance(node, exp.Interval) else None
    return unit is not None and unit.name.upper().removesuffix("S") in ("YEAR", "QUARTER", "MONTH", "WEEK", "DAY")


def _date_now(writer: Writer, node: Any) -> str:
    writer.take(node)
    return "CAST(statement_timestamp() AS date)"


def _now(writer: Writer, node: Any) -> str:
    """CURRENT_TIMESTAMP, and Oracle's SYSDATE."""
    precision, sysdate = writer.take(node, "this", "sysdate")
    if precision is not None:
        writer.refuse("CURRENT_TIMESTAMP with a precision", node)
    return now(writer, whole_seconds=bool(sysdate) or writer.dialect == "mysql")


def now(writer: Writer, whole_seconds: bool) -> str:
    """Returns the start of the statement, with the dialect's type."""
    if whole_seconds:
        return "date_trunc('second', CAST(statement_timestamp() AS timestamp))"
    if writer.dialect == "tsql":
        return "CAST(statement_timestamp() AS timestamp(3))"
    return "now()" if writer.dialect == "duckdb" else "statement_timestamp()"


WRITERS: dict[type, Callable[[Writer, Any], str]] = {
    exp.Literal: _literal,
    exp.National: _plain_string,
    exp.RawString: _plain_string,
    exp.Concat: _adjacent_strings,
    exp.DateStrToDate: _date_literal,
    exp.Null: _null,
    exp.Boolean: _boolean,
    exp.Star: _star,
    exp.Column: _column,
    exp.Parameter: _number_parameter,
    exp.Placeholder: _placeholder,
    exp.Interval: _interval,
    exp.CurrentDate: _date_now,
    exp.CurrentTimestamp: _now,
}
