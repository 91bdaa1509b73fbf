"""Functions of dates and times."""

from __future__ import annotations

import re
from typing import Any

import sqlglot.expressions as exp

from engine.sql.dialects import values
from engine.sql.dialects.functions import Call, Function, define, form, literal, literal_of, same
from engine.sql.dialects.writer import Writer, text_of, word_of

# Fields with the same numbers in all dialects, and PostgreSQL's names for them.
_FIELDS = {
    "YEAR": "year", "QUARTER": "quarter", "MONTH": "month", "DAY": "day", "HOUR": "hour", "MINUTE": "minute",
    "DAYOFYEAR": "doy", "DOY": "doy",
}  # fmt: skip
# Short names of T-SQL and Snowflake.
_SHORT = {
    "YY": "YEAR", "YYYY": "YEAR", "QQ": "QUARTER", "Q": "QUARTER", "MM": "MONTH", "M": "MONTH", "DD": "DAY", "D": "DAY",
    "DY": "DAYOFYEAR", "HH": "HOUR", "MI": "MINUTE", "N": "MINUTE", "SS": "SECOND", "S": "SECOND",
}  # fmt: skip
_TRUNCATED = ("YEAR", "QUARTER", "MONTH", "DAY", "HOUR", "MINUTE", "SECOND")
_MONDAYS = (("WEEK", "spark"), ("WEEK", "duckdb"), ("ISOWEEK", "bigquery"))  # weeks from Monday, as in PostgreSQL
_DAY = re.compile(r"\d{4}-\d\d-\d\d\Z")
_FRACTION_OF_SECOND = ("spark", "oracle")  # dialects whose SECOND has a fraction


def extract(writer: Writer, node: Any, unit: str, value: Any) -> str:
    """Returns a field of a date or time as a number. Raises 0A000 for a field that PostgreSQL counts differently."""
    of = _moment(writer, value)
    if unit in _FIELDS:
        return f"CAST(extract({_FIELDS[unit]} FROM {of}) AS integer)"
    if unit == "SECOND":
        found = f"extract(second FROM {of})"
        return found if writer.dialect in _FRACTION_OF_SECOND else f"CAST(floor({found}) AS integer)"
    if unit in ("DAYOFWEEK", "WEEKDAY", "DW") and writer.dialect in ("mysql", "spark", "bigquery", "tsql"):
        return f"(CAST(extract(dow FROM {of}) AS integer) + 1)"
    if unit in ("ISODOW", "DAYOFWEEKISO", "DAYOFWEEK_ISO") and writer.dialect in ("spark", "snowflake", "duckdb"):
        return f"CAST(extract(isodow FROM {of}) AS integer)"
    if unit in ("ISOWEEK", "WEEKISO", "ISO_WEEK") and writer.dialect in ("bigquery", "snowflake", "tsql"):
        return f"CAST(extract(week FROM {of}) AS integer)"
    writer.refuse(f"EXTRACT {unit}", node)


def _moment(writer: Writer, node: Any) -> str:
    """Returns a date or time; a string literal needs a cast in PostgreSQL."""
    text = writer.text(node)
    return f"CAST({text} AS timestamp)" if text_of(node) is not None else text


def unit_of(call: Call, number: int) -> str:
    """Returns an argument that is a unit, as a word or a string. Raises 0A000 for other arguments."""
    node = call.arguments[number]
    name = text_of(node) or word_of(node)
    if name is None:
        call.refuse("with a unit that is not a word")
    unit = name.upper()
    if call.writer.dialect in ("tsql", "snowflake"):
        unit = _SHORT.get(unit, unit)
    return unit[:-1] if unit.endswith("S") and unit[:-1] in values.UNITS else unit


def _field(unit: str) -> Function:
    def write(call: Call) -> str:
        call.check(1)
        return extract(call.writer, call.node, unit, call.arguments[0])

    return write


def _part(call: Call) -> str:
    """DATEPART(unit, x)."""
    call.check(2)
    return extract(call.writer, call.node, unit_of(call, 0), call.arguments[1])


# ---- sums ----------------------------------------------------------------------------------------------------------


def _plus(call: Call, value: Any, amount: str, unit: str, sign: str) -> str:
    of_day = call.writer.dialect == "mysql" and _DAY.match(text_of(value) or "") is not None  # only a date
    found = f"{f'CAST({call.writer.text(value)} AS date)' if of_day else _moment(call.writer, value)} {sign} {amount}"
    if (of_day or values.is_date(value)) and unit in ("YEAR", "QUARTER", "MONTH", "WEEK", "DAY"):
        return f"CAST({found} AS date)"
    return f"({found})"


def _plus_interval(sign: str) -> Function:
    """DATE_ADD(x, INTERVAL n unit)."""

    def write(call: Call) -> str:
        call.check(2)
        value, span = call.arguments
        if not isinstance(span, exp.Interval):
            call.refuse("without INTERVAL")
        unit = span.args["unit"].name.upper() if span.args.get("unit") is not None else ""
        found = _plus(call, value, call.writer.text(span), unit, sign)
        if call.writer.dialect == "bigquery" and not found.startswith("CAST"):
            return f"CAST({found} AS date)" if call.name.startswith("DATE_") else found
        return found

    return write


def _plus_days(sign: str) -> Function:
    """DATE_ADD(x, days) of Spark, which returns a date."""

    def write(call: Call) -> str:
        call.check(2)
        return f"({_as_date_text(call, 0)} {sign} {call.operand(1)})"

    return write


def _plus_units(call: Call) -> str:
    """DATEADD(unit, n, x)."""
    call.check(3)
    unit = unit_of(call, 0)
    amount = values.interval(call.writer, call.node, _amount(call.arguments[1]), unit)
    return _plus(call, call.arguments[2], amount, unit, "+")


def _amount(node: Any) -> Any:
    """Converts a negative literal to a string literal, which an interval accepts."""
    if isinstance(node, exp.Neg) and isinstance(node.this, exp.Literal):
        return exp.Literal.string(f"-{node.this.this}")
    return node


def _plus_months(call: Call) -> str:
    """ADD_MONTHS of Spark."""
    call.check(2)
    months = values.interval(call.writer, call.node, _amount(call.arguments[1]), "MONTH")
    return f"CAST({_as_date_text(call, 0)} + {months} AS date)"


def _as_date_text(call: Call, number: int) -> str:
    """Returns an argument as a date, with a cast if necessary."""
    text = call.text(number)
    return text if values.is_date(call.arguments[number]) else f"CAST({text} AS date)"


# ---- differences ---------------------------------------------------------------------------------------------------


def _days_between(call: Call) -> str:
    """DATEDIFF(end, start) of MySQL and Spark, in days."""
    call.check(2)
    return f"({_as_date_text(call, 0)} - {_as_date_text(call, 1)})"


def _boundaries(unit: int, first: int, last: int) -> Function:
    """DATEDIFF, which counts the beginnings of a unit between two times."""

    def write(call: Call) -> str:
        call.check(3)
        return difference(call, unit_of(call, unit), call.text(first), call.text(last))

    return write


def difference(call: Call, unit: str, first: str, last: str) -> str:
    if unit == "DAY":
        return f"(CAST({last} AS date) - CAST({first} AS date))"
    moments = [f"CAST({text} AS timestamp)" for text in (last, first)]
    if unit in ("YEAR", "QUARTER", "MONTH"):
        per_year = {"YEAR": 1, "QUARTER": 4, "MONTH": 12}[unit]
        counts = [f"extract(year FROM {moment}) * {per_year}" for moment in moments]
        if per_year > 1:
            counts = [f"{count} + extract({unit.lower()} FROM {m})" for count, m in zip(counts, moments, strict=True)]
        return f"CAST({counts[0]} - ({counts[1]}) AS integer)"
    if unit in ("HOUR", "MINUTE", "SECOND"):
        seconds = {"HOUR": 3600, "MINUTE": 60, "SECOND": 1}[unit]
        begins = [f"date_trunc({literal(unit.lower())}, {moment})" for moment in moments]
        return f"CAST(extract(epoch FROM {begins[0]} - {begins[1]}) / {seconds} AS bigint)"
    call.refuse(f"of {unit}")


# ---- other ---------------------------------------------------------------------------------------------------------


def _date_trunc(unit: int, value: int) -> Function:
    """DATE_TRUNC. BigQuery's returns a date. Weeks of dialects begin on different days."""

    def write(call: Call) -> str:
        call.check(2)
        name = unit_of(call, unit)
        if (name, call.writer.dialect) in _MONDAYS:
            name = "week"
        elif name not in _TRUNCATED:
            call.refuse(f"of {name}")
        found = f"date_trunc({literal(name.lower())}, CAST({call.text(value)} AS timestamp))"
        is_date = call.writer.dialect == "bigquery" or values.is_date(call.arguments[value])
        return f"CAST({found} AS date)" if is_date and call.writer.dialect in ("bigquery", "snowflake") else found

    return write


def _last_day(call: Call) -> str:
    call.check(1)
    month = f"date_trunc('month', CAST({call.text(0)} AS timestamp))"
    return f"CAST({month} + make_interval(months => 1) - make_interval(days => 1) AS date)"


def _as_date(call: Call) -> str:
    """DATE(x), TO_DATE(x), DATE(y, m, d)."""
    if len(call) == 3 and call.writer.dialect == "bigquery":
        return f"make_date({', '.join(call.texts())})"
    call.check(1)
    return f"CAST({call.text(0)} AS date)"


def _now(call: Call) -> str:
    call.check(0)
    return values.now(call.writer, whole_seconds=call.writer.dialect == "mysql")


def _today(call: Call) -> str:
    call.check(0)
    return "CAST(statement_timestamp() AS date)"


_PERCENT = {"Y": "YYYY", "m": "MM", "d": "DD", "H": "HH24", "y": "YY", "j": "DDD"}
_PERCENT_OF = {
    "mysql": {**_PERCENT, "i": "MI", "s": "SS", "S": "SS"},
    "bigquery": {**_PERCENT, "M": "MI", "S": "SS", "F": "YYYY-MM-DD", "T": "HH24:MI:SS"},
    "duckdb": {**_PERCENT, "M": "MI", "S": "SS"},
}
_PICTURES = ("YYYY", "MM", "DD", "HH24", "MI", "SS")
_LETTER_RUNS = {"yyyy": "YYYY", "MM": "MM", "dd": "DD", "HH": "HH24", "mm": "MI", "ss": "SS"}
_BETWEEN = frozenset(" -/:.,")


def picture(call: Call, text: str) -> str:
    """Converts a date format to one of to_char. Raises 0A000 for elements other than numbers of fixed width."""
    dialect = call.writer.dialect
    if dialect in _PERCENT_OF:
        parts = re.findall(r"%.|[^%]", text, re.DOTALL)
        known = {f"%{letter}": found for letter, found in _PERCENT_OF[dialect].items()}
        if call.writer.dialect == "mysql":
            del known["%y"], known["%j"]
    elif dialect == "spark":
        parts = [found[0] for found in re.finditer(r"([A-Za-z])\1*|.", text, re.DOTALL)]
        known = dict(_LETTER_RUNS)
    else:
        parts = re.findall(r"YYYY|HH24|MM|DD|MI|SS|.", text.upper(), re.DOTALL)
        known = {name: name for name in _PICTURES}
    known |= {sign: sign for sign in _BETWEEN}
    if not all(part in known for part in parts):
        call.refuse(f"with the format {literal(text)}")
    return literal("".join(known[part] for part in parts))


def _date_text(value: int, pattern: int) -> Function:
    """DATE_FORMAT, FORMAT_DATE and TO_CHAR for dates."""

    def write(call: Call) -> str:
        call.check(2)
        text = literal_of(call, pattern)
        if text is None:
            call.refuse("with a format that is not a literal")
        return f"to_char(CAST({call.text(value)} AS timestamp), {picture(call, text)})"

    return write


def _read_date(call: Call) -> str:
    """TO_DATE(text, format) of Oracle, whose dates include a time."""
    call.check(2)
    text = literal_of(call, 1)
    if text is None:
        call.refuse("with a format that is not a literal")
    return f"CAST(to_timestamp({call.text(0)}, {picture(call, text)}) AS timestamp(0))"


for _unit in ("YEAR", "QUARTER", "MONTH", "DAY", "HOUR", "MINUTE", "SECOND"):
    define("MSWD" + ("T" if _unit in ("YEAR", "MONTH", "DAY") else ""), _unit, _field(_unit))
define("MSWD", "DAYOFMONTH", _field("DAY"))
define("MSWD", "DAYOFYEAR", _field("DAYOFYEAR"))
define("MS", "DAYOFWEEK", _field("DAYOFWEEK"))
define("M", "WEEKDAY", form("(CAST(extract(isodow FROM CAST({0} AS timestamp)) AS integer) - 1)", 1))
define("S", "WEEKDAY", form("(CAST(extract(isodow FROM CAST({0} AS timestamp)) AS integer) - 1)", 1))
define("S", "WEEKOFYEAR", form("CAST(extract(week FROM CAST({0} AS timestamp)) AS integer)", 1))
define("W", "WEEKISO", form("CAST(extract(week FROM CAST({0} AS timestamp)) AS integer)", 1))
define("T", "DATEPART", _part)
define("WSD", "DATE_PART", _part)
define("MB", "DATE_ADD", _plus_interval("+"))
define("MB", "DATE_SUB", _plus_interval("-"))
define("M", "ADDDATE", _plus_interval("+"))
define("M", "SUBDATE", _plus_interval("-"))
define("B", "DATETIME_ADD TIMESTAMP_ADD", _plus_interval("+"))
define("B", "DATETIME_SUB TIMESTAMP_SUB", _plus_interval("-"))
define("S", "DATE_ADD", _plus_days("+"))
define("S", "DATE_SUB", _plus_days("-"))
define("TW", "DATEADD", _plus_units)
define("W", "TIMESTAMPADD", _plus_units)
define("S", "ADD_MONTHS", _plus_months)
define("MS", "DATEDIFF", _days_between)
define("TW", "DATEDIFF", _boundaries(0, 1, 2))
define("D", "DATE_DIFF DATEDIFF", _boundaries(0, 1, 2))
define("B", "DATE_DIFF", _boundaries(2, 1, 0))
define("SWD", "DATE_TRUNC", _date_trunc(0, 1))
define("B", "DATE_TRUNC", _date_trunc(1, 0))
define("MSWBD", "LAST_DAY", _last_day)
define("T", "EOMONTH", _last_day)
define("MSB", "DATE", _as_date)
define("S", "TO_DATE", _as_date)
define("T", "DATEFROMPARTS", same("make_date", 3))
define("WD", "DATE_FROM_PARTS MAKE_DATE", same("make_date", 3))
define("M", "NOW", _now)
define("SD", "NOW", _now)
define("MSWBD", "CURRENT_TIMESTAMP", _now)
define("T", "GETDATE", _now)
define("MSB", "CURDATE", _today)
define("MSWB", "CURRENT_DATE", _today)
define("M", "DATE_FORMAT", _date_text(0, 1))
define("S", "DATE_FORMAT", _date_text(0, 1))
define("B", "FORMAT_DATE FORMAT_DATETIME", _date_text(1, 0))
define("D", "STRFTIME", _date_text(0, 1))
define("OW", "TO_CHAR", _date_text(0, 1))
define("O", "TO_DATE", _read_date)
