"""Functions of numbers."""

from __future__ import annotations

from engine.sql.dialects.functions import ALL, Call, define, form, same
from engine.sql.dialects.writer import integer_of


def _round(call: Call) -> str:
    """ROUND, which rounds half away from zero in these dialects; PostgreSQL does that only for numeric."""
    call.check(1, 2)
    if len(call) == 1:
        return f"round(CAST({call.text(0)} AS numeric))"
    return f"round(CAST({call.text(0)} AS numeric), {call.text(1)})"


def _mysql_round(call: Call) -> str:
    call.check(1, 2)
    return f"round({', '.join(call.texts())})"


def _truncate(call: Call) -> str:
    call.check(2)
    return f"trunc(CAST({call.text(0)} AS numeric), {call.text(1)})"


def _truncate_number(call: Call) -> str:
    """TRUNC of Oracle and Snowflake for numbers. TRUNC for dates has a string as second argument."""
    if len(call) != 2 or integer_of(call.arguments[1]) is None:
        call.refuse("without a number of digits")
    return _truncate(call)


def _remainder(call: Call) -> str:
    call.check(2)
    value, divisor = call.text(0), call.text(1)
    dialect = call.writer.dialect
    if integer_of(call.arguments[1]) or dialect not in ("mysql", "oracle"):
        return f"mod({value}, {divisor})"
    if dialect == "mysql":
        return f"mod({value}, NULLIF({divisor}, 0))"
    return f"CASE WHEN {call.operand(1)} = 0 THEN {value} ELSE mod({value}, {divisor}) END"


def _logarithm(call: Call) -> str:
    """LOG: the natural logarithm for one argument. Of two arguments the base is the first, in BigQuery and T-SQL the
    second."""
    call.check(1, 2)
    if len(call) == 1:
        if call.writer.dialect in ("snowflake", "oracle"):
            call.refuse("with 1 arguments")
        return f"ln({call.text(0)})"
    base, value = (1, 0) if call.writer.dialect in ("bigquery", "tsql") else (0, 1)
    return f"log(CAST({call.text(base)} AS numeric), CAST({call.text(value)} AS numeric))"


def _quotient(call: Call) -> str:
    """DIV(a, b) of BigQuery."""
    call.check(2)
    return f"CAST(div({call.text(0)}, {call.text(1)}) AS bigint)"


define(ALL, "ABS", same("abs", 1))
define("MSWBTO", "SIGN", same("sign", 1))
define("MSWBTD", "CEILING", same("ceil", 1))
define("MSWBOD", "CEIL", same("ceil", 1))
define(ALL, "FLOOR", same("floor", 1))
define("SWBTOD", "ROUND", _round)
define("M", "ROUND", _mysql_round)
define("M", "TRUNCATE", _truncate)
define("WO", "TRUNC", _truncate_number)
define("MSWBO", "MOD", _remainder)
define(ALL, "SQRT", same("sqrt", 1))
define(ALL, "EXP", same("exp", 1))
define("MSWBOD", "LN", same("ln", 1))
define("MSWBTO", "LOG", _logarithm)
define("D", "LOG", same("log", 1))
define("MSBTD", "LOG10", same("log10", 1))
define("MSD", "LOG2", form("log(2.0, CAST({0} AS numeric))", 1))
define("MSWBD", "POWER POW", same("power", 2))
define("O", "POWER", form("power(CAST({0} AS numeric), CAST({1} AS numeric))", 2))
define("B", "DIV", _quotient)
for _name in ("SIN", "COS", "TAN", "ASIN", "ACOS", "ATAN", "DEGREES", "RADIANS"):
    define("MSWTD", _name, form(f"{_name.lower()}(CAST({{0}} AS double precision))", 1))
define("MSTWD", "PI", same("pi", 0))
define("MSBD", "RAND", same("random", 0))
define("D", "RANDOM", same("random", 0))
