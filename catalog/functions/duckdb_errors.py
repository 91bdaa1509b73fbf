"""Passes errors through DuckDB SQL with PostgreSQL's SQLSTATE and message.

Generated SQL raises errors by `error('SHOAL:22012:division by zero')`. A table maps messages of DuckDB's own errors
(overflow, division by zero) to PostgreSQL's. Other errors become XX000 with DuckDB's message.
"""

from __future__ import annotations

import re

from catalog.duckdb.nodes import Raising, Sql, fill
from catalog.errors import SqlError, stack_depth_exceeded

_MARK = "SHOAL"
_OWN = re.compile(_MARK + r":([0-9A-Z]{5}):(.*)", re.DOTALL)

_PART, _NEWLINE = "\x1e", "\x1f"  # separates message, detail and hint; replaces line ends

_RANGES = {"INT16": "smallint out of range", "INT32": "integer out of range", "INT64": "bigint out of range"}
_TYPE_OF_MINIMUM = {"32768": "INT16", "2147483648": "INT32", "9223372036854775808": "INT64"}

LATE = "timestamps after 294247-01-10 04:00:54 in an analytic query are not supported"
NO_NUMBER = "NaN in a column of type numeric(p,s) in an analytic query is not supported"
NO_ROOM = "could not write columns: No space left on device"
TOO_MANY_DIGITS = "numeric results of more than 38 digits in a column are not supported"

# (DuckDB's message, SQLSTATE, PostgreSQL's message; {0} is the range message of the type in group 1)
_TABLE: tuple[tuple[re.Pattern[str], str, str], ...] = tuple(
    (re.compile(pattern, re.DOTALL), sqlstate, message)
    for pattern, sqlstate, message in (
        (r"cast decimal value [^ ]+ to type (INT16|INT32|INT64)", "22003", "{0}"),
        (r"Casting value .* to type DECIMAL", "0A000", TOO_MANY_DIGITS),
        (r"Overflow in HUGEINT (?:addition|subtraction|multiplication)", "0A000", TOO_MANY_DIGITS),
        (r"Overflow in (?:addition|subtraction|multiplication|division) of (INT16|INT32|INT64)", "22003", "{0}"),
        (r"Overflow in negation of integer", "22003", "integer out of range"),
        (r"Overflow in (?:division|negation) of -(32768|2147483648|9223372036854775808)\b", "22003", "{0}"),
        (r"Overflow on abs\(-(32768|2147483648|9223372036854775808)\)", "22003", "{0}"),
        (r"value [^ ]+ can't be cast .*out of range for the destination type (INT16|INT32|INT64)", "22003", "{0}"),
        (r"Overflow in (?:addition|subtract(?:ion)?|multiplication|SUM|negation) of DECIMAL", "0A000", TOO_MANY_DIGITS),
        (r"Could not cast value .* to DECIMAL\(", "0A000", TOO_MANY_DIGITS),
        (r"Could not convert string '\d{10,}' to U?INT(?:32|64)", "22003", "value is out of range for type oid"),
        (r'Could not convert string "NaN" to DECIMAL', "0A000", NO_NUMBER),
        (r"Date and time not in timestamp range|Conversion Error: Date out of range", "22008", "timestamp out of range"),  # noqa: E501
        (r"Out of Range Error: Date out of range", "22008", "date out of range"),
        (r"with value 2942(?:4[7-9]|[56]\d|7[0-6])-[-0-9]+ can't be cast to the destination type INT64", "0A000", LATE),
        (r"with value [^ ]+(?: \(BC\))? can't be cast to the destination type INT64|Out of Range Error: Timestamp out of range", "22008", "date out of range for timestamp"),  # noqa: E501
        (r"Cannot subtract infinite timestamps", "22008", "cannot subtract infinite timestamps"),
        (r"Argument for ntile must be greater than zero", "22014", "argument of ntile must be greater than zero"),
        (r"Invalid (?:RANGE|ROWS|GROUPS) (?:PRECEDING|FOLLOWING) value", "22013", "invalid preceding or following size in window function"),  # noqa: E501
        (r"Window \w+ PRECEDING expression cannot be negative", "22013", "frame starting offset must not be negative"),
        (r"Window \w+ FOLLOWING expression cannot be negative", "22013", "frame ending offset must not be negative"),
        (r"Division by zero", "22012", "division by zero"),
        (r"(?i)sum.*out of range|HUGEINT.*INT64|(INT64) out of range", "22003", "bigint out of range"),
        (r"out of range for the destination type FLOAT", "22003", "value out of range: overflow"),
        (r"More than one row returned by a subquery", "21000", "more than one row returned by a subquery used as an expression"),  # noqa: E501
        (r"^Interrupt|INTERRUPT Error", "57014", "canceling statement due to user request"),
        (r"max_temp_directory_size", "53100", "no space is left to spill an analytic query"),
        (r"IO Error.*(?:No space left on device|Disk quota exceeded)", "53100", NO_ROOM),
        (r"Out of Memory Error|UDF: MemoryError", "53200", "out of memory"),
        (r"Max expression depth limit|Maximum recursion depth", "54001", "stack depth limit exceeded"),
    )
)  # fmt: skip


_HINTS = {
    "53100": "Free space on the file system of the server's directory, or raise the setting columnar_spill.",
    "53200": "Raise the server's setting columnar_memory, or let the statement sort, collect or build less at once.",
    "54001": "Simplify the statement: it nests too deeply.",
}


_DETAILS = {"53200": "The analytic worker has no memory left for this statement."}


def memory_error(detail: str = _DETAILS["53200"]) -> SqlError:
    """Returns error 53200 for a query for which the analytic worker has no memory."""
    return SqlError("53200", "out of memory", detail=detail, hint=_HINTS["53200"])


def no_room_error() -> SqlError:
    """Returns error 53100 for columns for which the file system has no room."""
    return SqlError("53100", NO_ROOM, hint=_HINTS["53100"])


def sql_literal(text: str) -> str:
    """Returns a DuckDB string literal. Texts contain no NUL character, which DuckDB's SQL could not."""
    return "'" + text.replace("'", "''") + "'"


def sql_error_call(sqlstate: str, message: str) -> str:
    """Returns SQL that raises an error, for templates. Its type is NULL, so that any CASE may contain it."""
    return f"error({sql_literal(f'{_MARK}:{sqlstate}:{message}')})"


def sql_error_call_of(sqlstate: str, message_sql: str) -> str:
    """Returns the same with a message that is SQL of type VARCHAR."""
    return f"error({sql_literal(f'{_MARK}:{sqlstate}:')} || {message_sql})"


def raising(sqlstate: str, message: str) -> Raising:
    """Returns an expression that raises an error, as a node."""
    return Raising(sql_literal(f"{_MARK}:{sqlstate}:{message}"))


def raising_with(sqlstate: str, message: Sql) -> Raising:
    """Returns the same with a message that is SQL of type VARCHAR."""
    return Raising(fill("{} || {}", sql_literal(f"{_MARK}:{sqlstate}:"), message))


def udf_error_message(error: SqlError) -> str:
    """Returns the message that a UDF raises in DuckDB, from which `translate` restores the error."""
    parts = [error.message, error.detail or "", error.hint or ""] if error.detail or error.hint else [error.message]
    return f"{_MARK}:{error.sqlstate}:{_PART.join(parts)}".replace("\n", _NEWLINE)


def translate(message: str) -> SqlError:
    """Returns the SqlError for a message of DuckDB; XX000 with DuckDB's message if the message is unknown."""
    head = message.split("\nLINE ", 1)[0]  # the rest quotes the statement, which may contain other errors
    own = _OWN.search(head)
    if own:
        parts = [part.replace(_NEWLINE, "\n") for part in own[2].split("\n", 1)[0].split(_PART)]
        message, detail, hint = (*parts, "", "")[:3]
        return SqlError(own[1], message, detail=detail or None, hint=hint or None)
    if "RecursionError: " in head:
        return stack_depth_exceeded()
    for pattern, sqlstate, text in _TABLE:
        match = pattern.search(head)
        if match:
            key = match[1] if match.re.groups and match[1] else ""
            shown = text.format(_RANGES.get(_TYPE_OF_MINIMUM.get(key, key), ""))
            return SqlError(sqlstate, shown, detail=_DETAILS.get(sqlstate), hint=_HINTS.get(sqlstate))
    return SqlError("XX000", message)
