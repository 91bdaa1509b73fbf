"""Small functions that belong to no other family: counts of NULLs, sizes, Unicode forms, parts of identifiers,
sleep."""

from __future__ import annotations

import heapq
import re
import time
import unicodedata
from collections.abc import Sequence
from decimal import Decimal
from functools import cache

from catalog.duckdb.nodes import Sql, columns_of, fill
from catalog.errors import SqlError
from catalog.functions.base import Function, Trait, udf_name
from catalog.functions.numeric import multiply, to_integer
from catalog.functions.registry import declare, implement
from catalog.types import oids
from catalog.types.base import Array, TypeRef
from catalog.types.numeric import parse_numeric

# ---- NULLs ----


def _counts() -> None:
    implement("pg_num_nulls", lambda *values: sum(value is None for value in values))
    implement("pg_num_nonnulls", lambda *values: sum(value is not None for value in values))


# ---- sizes ----

_SIZE = re.compile(r"[ \t\n\v\f\r]*([+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)[ \t\n\v\f\r]*(.*?)[ \t\n\v\f\r]*",
                   re.ASCII | re.DOTALL)  # fmt: skip
_UNITS = {"bytes": 0, "kb": 10, "mb": 20, "gb": 30, "tb": 40, "pb": 50}


def size_in_bytes(text: str) -> int:
    """pg_size_bytes('1.5 GB'). Raises 22023, 22003."""
    match = _SIZE.fullmatch(text)
    if match is None:
        raise SqlError("22023", f'invalid size: "{text}"')
    number, unit = parse_numeric(match[1]), match[2]
    if unit:
        if unit.lower() not in _UNITS:
            raise SqlError(
                "22023",
                f'invalid size: "{text}"',
                detail=f'Invalid size unit: "{unit}".',
                hint='Valid units are "bytes", "kB", "MB", "GB", "TB", and "PB".',
            )
        number = multiply(number, Decimal(1 << _UNITS[unit.lower()]))
    return to_integer(8)(number)


# ---- Unicode ----

_FORMS = ("NFC", "NFD", "NFKC", "NFKD")


def _form(name: str) -> str:
    if name.upper() not in _FORMS:
        raise SqlError("22023", f"invalid normalization form: {name}")
    return name.upper()


def normalize(text: str, form: str = "NFC") -> str:
    """normalize(). Raises 22023 for an unknown form."""
    return unicodedata.normalize(_form(form), _in_order(text))  # type: ignore[arg-type]


def is_normalized(text: str, form: str = "NFC") -> bool:
    ordered = _in_order(text)
    return ordered == text and unicodedata.is_normalized(_form(form), text)  # type: ignore[arg-type]


_LONG_RUN = 256  # consecutive marks
_SORTED_AT_ONCE = 1 << 15


def _in_order(text: str) -> str:
    """Decomposes long runs of marks and sorts them into canonical order, which does not change normal forms.
    unicodedata sorts them in one step of C that takes quadratic time."""
    if len(text) < _LONG_RUN or text.isascii():
        return text
    return _long_runs().sub(_run_in_order, text)


@cache
def _long_runs() -> re.Pattern[str]:
    marks = (chr(code) for code in range(0x300, 0x20000) if not 0xD800 <= code < 0xE000)
    found = "".join(mark for mark in marks if unicodedata.combining(unicodedata.normalize("NFD", mark)[0]))
    return re.compile(f"[{found}]{{{_LONG_RUN},}}")


def _run_in_order(found: re.Match[str]) -> str:
    marks = found[0]
    for mark in set(marks):
        if (parts := unicodedata.normalize("NFD", mark)) != mark:
            marks = marks.replace(mark, parts)
    pieces = (marks[at : at + _SORTED_AT_ONCE] for at in range(0, len(marks), _SORTED_AT_ONCE))
    ordered = [sorted(piece, key=unicodedata.combining) for piece in pieces]
    return "".join(heapq.merge(*ordered, key=unicodedata.combining))


_ESCAPE = re.compile(r"\\(?:(\\)|([0-9A-Fa-f]{4})|u([0-9A-Fa-f]{4})|\+([0-9A-Fa-f]{6})|U([0-9A-Fa-f]{8}))?", re.ASCII)


def unescape(text: str) -> str:
    """unistr(): \\XXXX, \\+XXXXXX, \\uXXXX and \\UXXXXXXXX, with surrogates in pairs. Raises 42601."""
    result: list[str] = []
    position, high = 0, 0
    for match in _ESCAPE.finditer(text):
        between = text[position : match.start()]
        digits = next((group for group in match.groups()[1:] if group), None)
        if high and (between or digits is None):
            raise SqlError("42601", "invalid Unicode surrogate pair")
        result.append(between)
        position = match.end()
        if match[1]:
            result.append("\\")
        elif digits is None:
            raise SqlError("42601", "invalid Unicode escape",
                           hint="Unicode escapes must be \\XXXX, \\+XXXXXX, \\uXXXX, or \\UXXXXXXXX.")  # fmt: skip
        else:
            high = _take(int(digits, 16), high, result)
    if high:
        raise SqlError("42601", "invalid Unicode surrogate pair")
    return "".join([*result, text[position:]])


def _take(code: int, high: int, result: list[str]) -> int:
    """Adds a code point to the result, or returns the first half of a surrogate pair. Raises 42601."""
    if high:
        if not 0xDC00 <= code < 0xE000:
            raise SqlError("42601", "invalid Unicode surrogate pair")
        result.append(chr(0x10000 + ((high & 0x3FF) << 10) + (code & 0x3FF)))
        return 0
    if 0xD800 <= code < 0xDC00:
        return code
    if 0xDC00 <= code < 0xE000:
        raise SqlError("42601", "invalid Unicode surrogate pair")
    if not 0 < code <= 0x10FFFF:
        raise SqlError("22023", f"invalid Unicode code point: {code:04X}")
    result.append(chr(code))
    return 0


# ---- identifiers ----

_BLANKS = " \t\n\r\f"
_FIRST = re.compile(r"[A-Za-z_\x80-\U0010ffff]")
_REST = re.compile(r"[A-Za-z0-9_$\x80-\U0010ffff]*")


def parse_identifier(text: str, strict: bool = True) -> Array:
    """parse_ident(): 'a."B".c' as an array of names. Raises 22023."""

    def refuse(detail: str = "") -> SqlError:
        return SqlError("22023", f'string is not a valid identifier: "{text}"', detail=detail or None)

    parts: list[str] = []
    position, after_dot = _skip(text, 0), False
    while True:
        if text[position : position + 1] == '"':
            end = position + 1
            while text[end : end + 1] != '"' or text[end + 1 : end + 2] == '"':
                if end >= len(text):
                    raise refuse("String has unclosed double quotes.")
                end += 2 if text[end] == '"' else 1
            name = text[position + 1 : end].replace('""', '"')
            if not name:
                raise refuse("Quoted identifier must not be empty.")
            position = end + 1
        elif _FIRST.match(text, position):
            match = _REST.match(text, position)
            assert match is not None
            name = "".join([c.lower() if "A" <= c <= "Z" else c for c in match[0]])
            position = match.end()
        elif text[position : position + 1] == ".":
            raise refuse('No valid identifier before ".".')
        else:
            raise refuse('No valid identifier after ".".' if after_dot else "")
        parts.append(name)
        position = _skip(text, position)
        if text[position : position + 1] == ".":
            after_dot, position = True, _skip(text, position + 1)
        elif position >= len(text) or not strict:
            return Array.of(tuple(parts))
        else:
            raise refuse()


def _skip(text: str, position: int) -> int:
    while text[position : position + 1] and text[position] in _BLANKS:
        position += 1
    return position


# ---- sleep ----

_SLICE = 0.05  # seconds between two checks for cancellation
_CHUNK = 2048  # rows in one call of a function by DuckDB
_SLEEP_SLICE = 9102


def _sleep_slice(row: int, seconds: float) -> str:
    """Sleeps for a slice in the first row of each chunk; DuckDB checks for interrupts between chunks."""
    number, rest = divmod(row, _CHUNK)
    if rest == 0:
        time.sleep(max(0.0, min(_SLICE, seconds - number * _SLICE)))
    return ""


_SLEEP = (
    f"(CASE WHEN {{0}} IS NOT NULL THEN coalesce((SELECT max({udf_name('sleep_slice')}(r.i, {{0}})) "
    f"FROM range(CAST(ceil(greatest({{0}}, 0) / {_SLICE}) * {_CHUNK} AS BIGINT)) AS r(i)), '') END)"
)


def _sleep(arguments: Sequence[Sql], types: Sequence[TypeRef]) -> Sql | None:
    """Returns the SQL of pg_sleep for an argument without columns, else None."""
    return None if any(columns_of(arguments[0])) else fill(_SLEEP, *arguments)


def _sleep_for(arguments: Sequence[Sql], types: Sequence[TypeRef]) -> Sql | None:
    return _sleep([fill("CAST(epoch({}) AS DOUBLE)", *arguments)], types)


def _sleep_until(arguments: Sequence[Sql], types: Sequence[TypeRef]) -> Sql | None:
    return _sleep([fill("(epoch({}) - epoch(get_current_timestamp()))", *arguments)], types)


def _register() -> None:
    _counts()
    implement("pg_size_bytes", size_in_bytes)
    implement("unicode_normalize_func", normalize)
    implement("unicode_is_normalized", is_normalized)
    implement("unistr", unescape)
    implement("parse_ident", parse_identifier)
    implement("sleep_slice", _sleep_slice)
    declare(Function(_SLEEP_SLICE, "sleep_slice", "sleep_slice", "f", True, False, "v", (oids.INT8, oids.FLOAT8),
                     oids.TEXT, 0, 0), inner=True)  # fmt: skip
    implement("pg_sleep", duckdb=_sleep, duckdb_udfs=("sleep_slice",), traits=(Trait.SESSION_ONLY,))
    implement("pg_sleep_for", duckdb=_sleep_for, duckdb_udfs=("sleep_slice",))
    implement("pg_sleep_until", duckdb=_sleep_until, duckdb_udfs=("sleep_slice",))


_register()
