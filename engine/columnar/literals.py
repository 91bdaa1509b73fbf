"""Parameter values as DuckDB SQL, and the query text with these values and the names of tables.

A value becomes a literal with its type (`CAST('-5' AS INTEGER)`) and is not bound, because DuckDB would guess the type
of a bound value from its Python type, and has no bound form of infinite dates. Single quotes are doubled; no other
character has a meaning inside DuckDB's plain literals.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from functools import lru_cache
from typing import Any

from catalog import types
from catalog.duckdb.types import DecimalType, ListType, parse_type
from catalog.errors import not_supported
from catalog.types import oids
from catalog.types.base import Array
from catalog.types.datetime import LATE_TIMESTAMP
from engine.storage.columns import ShapedArray

_PIECES = re.compile(r"""('[^']*+(?:''[^']*+)*+'|"[^"]*+(?:""[^"]*+)*+")|\$([0-9]+)""")

LATE = "a timestamp after 294247-01-10 04:00:54 in an analytic query"

_DATE_MIN, _DATE_MAX = -(2**31), 2**31 - 1
_TIMESTAMP_MIN, _TIMESTAMP_MAX = -(2**63), 2**63 - 1
_LONGEST_KEPT = 1 << 16  # characters; the split of a longer query is not cached
_EPOCH_MICROSECONDS = 946_684_800_000_000
_EPOCH_DAYS = 10957


@lru_cache(maxsize=1024)
def _split(sql: str) -> tuple[tuple[str, ...], tuple[int, ...]]:
    """The texts between the parameters, and the numbers of the parameters. `$1` inside quotes is text."""
    texts: list[str] = []
    numbers: list[int] = []
    start = 0
    for match in _PIECES.finditer(sql):
        if match[2] is None:
            continue
        texts.append(sql[start : match.start()])
        numbers.append(int(match[2]))
        start = match.end()
    texts.append(sql[start:])
    return tuple(texts), tuple(numbers)


def fill(sql: str, relations: Mapping[str, str], parameters: Sequence[str]) -> str:
    """Replaces `{name}` in a ColumnarQuery's `sql` by `relations[name]`, and `$n` by `parameters[n - 1]` (all SQL)."""
    texts, numbers = _split(sql) if len(sql) <= _LONGEST_KEPT else _split.__wrapped__(sql)
    filled = [texts[0].format_map(relations)]
    for number, text in zip(numbers, texts[1:], strict=True):
        filled.append(parameters[number - 1])
        filled.append(text.format_map(relations))
    return "".join(filled)


def literal(value: Any, duckdb_type: str) -> str:
    """A value in internal form as SQL of exactly this DuckDB type. Raises 0A000 if the type does not have the value."""
    if value is None:
        return f"CAST(NULL AS {duckdb_type})"
    form = parse_type(duckdb_type)
    if isinstance(form, ListType):
        return _list(value, form)
    if isinstance(form, DecimalType):
        return _decimal(value, form)
    write = _WRITERS.get(duckdb_type)
    return write(value) if write is not None else f"CAST({quote_text(str(value))} AS {duckdb_type})"


def quote_text(text: str) -> str:
    """A DuckDB string literal."""
    return "'" + text.replace("'", "''") + "'"


def _varchar(value: Any) -> str:
    if isinstance(value, str):
        return quote_text(value)
    if isinstance(value, Decimal):
        return quote_text(types.lookup(oids.NUMERIC).text_encoder()(value).decode())
    if isinstance(value, tuple) and not isinstance(value, Array) and len(value) == 2:
        return quote_text(types.lookup(oids.TIMETZ).text_encoder()(value).decode())
    return quote_text(str(value))


def _date(days: Any) -> str:
    if days in (_DATE_MIN, _DATE_MAX):
        return f"CAST('{'-' if days < 0 else ''}infinity' AS DATE)"
    return f"(DATE '1970-01-01' + CAST('{days + _EPOCH_DAYS}' AS INTEGER))"


def _timestamp(microseconds: Any) -> str:
    if microseconds in (_TIMESTAMP_MIN, _TIMESTAMP_MAX):
        return f"CAST('{'-' if microseconds < 0 else ''}infinity' AS TIMESTAMP)"
    if microseconds >= LATE_TIMESTAMP:
        not_supported(LATE)
    return f"make_timestamp(CAST('{microseconds + _EPOCH_MICROSECONDS}' AS BIGINT))"


def _time(microseconds: Any) -> str:
    seconds, rest = divmod(microseconds, 1_000_000)
    return f"CAST('{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}.{rest:06}' AS TIME)"


def _interval(value: Any) -> str:
    return (
        f"(to_months(CAST('{value.months}' AS INTEGER)) + to_days(CAST('{value.days}' AS INTEGER))"
        f" + to_microseconds(CAST('{value.microseconds}' AS BIGINT)))"
    )


def _list(value: Any, form: ListType) -> str:
    if len(value.dimensions) > 1 or value.lower_bounds not in ((), (1,)):
        raise ShapedArray
    elements = ", ".join(literal(element, str(form.element)) for element in value.elements)
    return f"CAST([{elements}] AS {form})"


def _decimal(value: Any, form: DecimalType) -> str:
    number = Decimal(value)
    exponent = number.as_tuple().exponent
    exact = isinstance(exponent, int)
    if exact:
        digits = number.normalize().as_tuple()
        trailing = digits.exponent if isinstance(digits.exponent, int) else 0
        exact = not number or (-trailing <= form.scale and number.adjusted() < form.precision - form.scale)
    if not exact:
        not_supported(f"numeric value {number} as {form} in an analytic query")
    return f"CAST('{number:f}' AS {form})"


_WRITERS: dict[str, Callable[[Any], str]] = {
    "BOOLEAN": lambda value: "true" if value else "false",
    "VARCHAR": _varchar,
    "BLOB": lambda value: f"unhex('{value.hex()}')",
    "DATE": _date,
    "TIMESTAMP": _timestamp,
    "TIME": _time,
    "INTERVAL": _interval,
    "FLOAT": lambda value: f"CAST('{value!r}' AS FLOAT)",
    "DOUBLE": lambda value: f"CAST('{value!r}' AS DOUBLE)",
}
