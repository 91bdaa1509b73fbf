"""Functions of texts."""

from __future__ import annotations

from engine.sql.dialects.functions import ALL, Call, Function, define, form, literal, literal_of, same
from engine.sql.dialects.writer import integer_of

# Unicode's White_Space, which BigQuery's TRIM removes.
_WHITE_SPACE = "\t\n\v\f\r \x85\xa0\u1680" + "".join(map(chr, range(0x2000, 0x200B))) + "\u2028\u2029\u202f\u205f\u3000"
_ZERO_IS_ONE = ("spark", "snowflake", "bigquery", "oracle")  # SUBSTR(x, 0) begins with the first character


def _concatenation(call: Call) -> str:
    """CONCAT, whose result is NULL in some dialects if an argument is NULL."""
    call.check(1, 100)
    if call.writer.dialect in ("tsql", "duckdb", "oracle"):
        return call.or_null(f"concat({', '.join(call.texts())})")
    parts = [call.text(n) if call.is_literal(n) else f"CAST({call.text(n)} AS text)" for n in range(len(call))]
    return f"({' || '.join(parts)})" if len(parts) > 1 else f"CAST({call.text(0)} AS text)"


def _with_separator(call: Call) -> str:
    call.check(2, 100)
    if call.writer.dialect == "tsql" and literal_of(call, 0) is None:
        call.refuse("with a separator that may be NULL")
    return f"concat_ws({', '.join(call.texts())})"


def _part(call: Call) -> str:
    """SUBSTR. Dialects differ for a start of zero or less, so the start must be a literal, except in T-SQL, which has
    PostgreSQL's meaning."""
    call.check(2, 3)
    dialect = call.writer.dialect
    if dialect == "tsql":
        call.check(3)
        return f"substr({', '.join(call.texts())})"
    start = integer_of(call.arguments[1])
    length = integer_of(call.arguments[2]) if len(call) == 3 else 0
    if start == 0 and dialect in _ZERO_IS_ONE:
        start = 1
    if start is None or start < 1 or (length is not None and length < 0):
        call.refuse("from a place that is not known to be positive")
    counted = f", {_not_negative(call, 2)}" if len(call) == 3 else ""
    return call.or_null(f"substr({call.text(0)}, {start}{counted})")


def _not_negative(call: Call, number: int) -> str:
    """Returns a length that is at least 0. For a negative length these dialects return an empty string; PostgreSQL
    raises an error or omits so many characters."""
    if integer_of(call.arguments[number]) is not None:
        return call.text(number)
    return f"CASE WHEN {call.operand(number)} < 0 THEN 0 ELSE {call.text(number)} END"


def _side(call: Call) -> str:
    call.check(2)
    length = integer_of(call.arguments[1])
    if length is not None and length < 0:
        call.refuse("with a negative length")
    return f"{call.name.lower()}({call.text(0)}, {_not_negative(call, 1)})"


def _pad(call: Call) -> str:
    call.check(2, 3)
    length = integer_of(call.arguments[1])
    pad = literal_of(call, 2) if len(call) == 3 else " "
    if length is None or length < 0 or not pad or (len(call) == 2 and call.writer.dialect in ("mysql", "duckdb")):
        call.refuse("with these arguments")
    return call.or_null(f"{call.name.lower()}({call.text(0)}, {length}, {literal(pad)})")


def _trim(name: str) -> Function:
    """TRIM, LTRIM, RTRIM as calls. In Spark the characters are the first argument; MySQL has no such argument."""

    def write(call: Call) -> str:
        dialect = call.writer.dialect
        call.check(1, 1 if dialect in ("mysql", "spark", "tsql") else 2)
        if len(call) == 1:
            characters = literal(_WHITE_SPACE if dialect == "bigquery" else " ")
            return call.or_null(f"{name}({call.text(0)}, {characters})")
        return call.or_null(f"{name}({call.text(0)}, {call.text(1)})")

    return write


def _replace(call: Call) -> str:
    dialect = call.writer.dialect
    call.check(2 if dialect in ("spark", "snowflake", "oracle") else 3, 3)
    if dialect == "oracle" and (not literal_of(call, 1) or (len(call) == 3 and literal_of(call, 2) is None)):
        call.refuse("of a text that may be empty")
    by = (literal_of(call, 2) or "") if dialect == "oracle" and len(call) == 3 else None
    last = "''" if len(call) == 2 else literal(by) if by is not None else call.text(2)
    return call.or_null(f"replace({call.text(0)}, {call.text(1)}, {last})")


def _place(value: int, part: int) -> Function:
    """The position of a text in another one. Some dialects return 0 for an empty text, so there it must be a literal
    that is not empty."""

    def write(call: Call) -> str:
        call.check(2)
        if call.writer.dialect in ("tsql", "oracle", "snowflake", "bigquery") and not literal_of(call, part):
            call.refuse("of a text that may be empty")
        return f"strpos({call.text(value)}, {call.text(part)})"

    return write


def _repeat(call: Call) -> str:
    call.check(2)
    if (integer_of(call.arguments[1]) or -1) < 0 and call.writer.dialect in ("tsql", "bigquery"):
        call.refuse("of a number that may be negative")
    return f"repeat({call.text(0)}, {call.text(1)})"


define(ALL, "CONCAT", _concatenation)
define("MSTD", "CONCAT_WS", _with_separator)
define(ALL, "UPPER", same("upper", 1))
define(ALL, "LOWER", same("lower", 1))
define("MSD", "UCASE", same("upper", 1))
define("MSD", "LCASE", same("lower", 1))
define("O", "INITCAP", same("initcap", 1))
define("M", "LENGTH OCTET_LENGTH", form("octet_length(CAST({0} AS text))", 1))
define("MSBD", "CHAR_LENGTH CHARACTER_LENGTH", same("char_length", 1))
define("SWBD", "LENGTH", same("char_length", 1))
define("W", "LEN", same("char_length", 1))
define("D", "LEN", same("char_length", 1))
define("T", "LEN", form("char_length(rtrim({0}, ' '))", 1))
define("O", "LENGTH", form("NULLIF(char_length({0}), 0)", 1))
define("MSWBOD", "SUBSTR", _part)
define("MSWBTD", "SUBSTRING", _part)
define("M", "MID", _part)
define("MSWBTD", "LEFT RIGHT", _side)
define("MSWBOD", "LPAD RPAD", _pad)
define("MSWBTOD", "LTRIM", _trim("ltrim"))
define("MSWBTOD", "RTRIM", _trim("rtrim"))
define("WBD", "TRIM", _trim("btrim"))
define(ALL, "REPLACE", _replace)
define("MSWBTD", "REVERSE", same("reverse", 1))
define("MSWBD", "REPEAT", _repeat)
define("T", "REPLICATE", _repeat)
define("MS", "LOCATE", _place(1, 0))
define("MSOBD", "INSTR", _place(0, 1))
define("TW", "CHARINDEX", _place(1, 0))
define("BD", "STRPOS", _place(0, 1))
define("MSWD", "MD5", form("md5(CAST({0} AS text))", 1))
define("MSWBD", "STARTS_WITH STARTSWITH", same("starts_with", 2))
define("MTD", "SPACE", form("repeat(' ', {0})", 1))
