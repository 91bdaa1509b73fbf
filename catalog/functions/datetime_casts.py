"""Casts among date, time, timetz, timestamp, timestamptz and interval, and comparisons of two of these types.

Functions that convert between local time and UTC use the session's time zone, so they take the context. On the columnar
path they are UDFs, or the DuckDB side for local time if the session's zone is UTC (`duckdb_in_utc`).

Infinite dates and timestamps stay infinite, and their time of day is NULL. The range of dates is larger than that of
timestamps: the cast of a later date raises 22008, but a comparison with it is correct.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

from catalog.duckdb.nodes import Sql, fill
from catalog.errors import SqlError
from catalog.functions.base import CallContext, Side, Trait
from catalog.functions.duckdb_sql import evaluate_once, once
from catalog.functions.registry import implement
from catalog.types import lookup, oids
from catalog.types.base import Interval, TypeRef
from catalog.types.datetime import (
    DATE_INFINITY,
    DATE_MINUS_INFINITY,
    END_TIMESTAMP,
    LATE_TIMESTAMP,
    TIMESTAMP_INFINITY,
    TIMESTAMP_MINUS_INFINITY,
    UNIX_EPOCH_SECONDS,
    USECS_PER_DAY,
    USECS_PER_SECOND,
    check_timestamp,
    local_offset,
    offset_at,
    timestamp_is_infinite,
    to_local,
    to_utc,
)
from catalog.types.timezones import find_zone

_END_TIMESTAMP_DAYS = END_TIMESTAMP // USECS_PER_DAY

_COMPARED_DATE = (
    "CASE WHEN {0} > DATE '294247-01-10' AND {0} < DATE 'infinity' "
    f"THEN make_timestamp({LATE_TIMESTAMP + UNIX_EPOCH_SECONDS * USECS_PER_SECOND}) ELSE CAST({{0}} AS TIMESTAMP) END"
)


# ---- casts ----


def date_to_timestamp(days: int) -> int:
    """date -> timestamp: midnight. Raises 22008."""
    if days in (DATE_INFINITY, DATE_MINUS_INFINITY):
        return TIMESTAMP_INFINITY if days > 0 else TIMESTAMP_MINUS_INFINITY
    if days >= _END_TIMESTAMP_DAYS:
        raise SqlError("22008", "date out of range for timestamp")
    return days * USECS_PER_DAY


def timestamp_to_date(value: int) -> int:
    if value in (TIMESTAMP_INFINITY, TIMESTAMP_MINUS_INFINITY):
        return DATE_INFINITY if value > 0 else DATE_MINUS_INFINITY
    return value // USECS_PER_DAY


def timestamp_to_time(value: int) -> int | None:
    return None if timestamp_is_infinite(value) else value % USECS_PER_DAY


def local_time(context: CallContext, value: int) -> int:
    """timestamptz -> timestamp in the session's zone. Raises 22008."""
    return to_local(value, find_zone(context.timezone))


def utc_time(context: CallContext, value: int) -> int:
    """timestamp in the session's zone -> timestamptz. Raises 22008."""
    return to_utc(value, find_zone(context.timezone))


def date_to_timestamptz(context: CallContext, days: int) -> int:
    """date -> timestamptz: midnight in the session's zone. Raises 22008."""
    value = date_to_timestamp(days)
    if timestamp_is_infinite(value):
        return value
    try:
        return to_utc(value, find_zone(context.timezone))
    except SqlError:
        raise SqlError("22008", "date out of range for timestamp") from None


def date_and_time(days: int, microseconds: int) -> int:
    """date + time. Raises 22008."""
    value = date_to_timestamp(days)
    if timestamp_is_infinite(value):
        return value
    return check_timestamp(value + microseconds)


def date_and_timetz(days: int, time: tuple[int, int]) -> int:
    """date + timetz. Raises 22008."""
    if days in (DATE_INFINITY, DATE_MINUS_INFINITY):
        return date_to_timestamp(days)
    if days >= _END_TIMESTAMP_DAYS:
        raise SqlError("22008", "date out of range for timestamp")
    value = days * USECS_PER_DAY + time[0] + time[1] * USECS_PER_SECOND
    try:
        return check_timestamp(value)
    except SqlError:
        raise SqlError("22008", "date out of range for timestamp") from None


def _timestamptz_to_timetz(context: CallContext, value: int) -> tuple[int, int] | None:
    if timestamp_is_infinite(value):
        return None
    zone = find_zone(context.timezone)
    return to_local(value, zone) % USECS_PER_DAY, -offset_at(zone, value)


def _time_to_timetz(context: CallContext, value: int) -> tuple[int, int]:
    """time -> timetz, with the offset of the session's zone at this time on the day of the transaction."""
    zone = find_zone(context.timezone)
    today = to_local(context.transaction_time, zone) // USECS_PER_DAY
    return value, -local_offset(zone, today * USECS_PER_DAY + value)


def _after(
    convert: Callable[[Any], object], inner: Callable[[CallContext, int], int]
) -> Callable[[CallContext, int], object]:
    return lambda context, value: convert(inner(context, value))


_DAY = "CAST({0} AS DATE)"
_TIME = once("(CASE WHEN isfinite({0}) THEN CAST({0} AS TIME) END)")
_MIDNIGHT = "CAST({0} AS TIMESTAMP)"
_DATE_AND_TIME = "(CASE WHEN isfinite(@) THEN @ + # WHEN # IS NOT NULL THEN CAST(@ AS TIMESTAMP) END)"


def _casts() -> None:
    implement("date_timestamp", date_to_timestamp, _MIDNIGHT, traits=(Trait.NEVER_FAILS,))
    implement("date_timestamptz", date_to_timestamptz, needs_context=True, duckdb_in_utc=_MIDNIGHT)
    implement("timestamp_date", timestamp_to_date, _DAY, inline="timestamp_to_date({0})",
              names={"timestamp_to_date": timestamp_to_date})  # fmt: skip
    implement("timestamptz_date", _after(timestamp_to_date, local_time), needs_context=True, duckdb_in_utc=_DAY)
    implement("timestamp_time", timestamp_to_time, _TIME)
    implement("timestamptz_time", _after(timestamp_to_time, local_time), needs_context=True, duckdb_in_utc=_TIME)
    implement("timestamptz_timetz", _timestamptz_to_timetz, needs_context=True)
    implement("timestamp_timestamptz", utc_time, needs_context=True, duckdb_in_utc="{0}")
    implement("timestamptz_timestamp", local_time, needs_context=True, duckdb_in_utc="{0}")
    implement("timetz_time", lambda value: value[0])
    implement("time_timetz", _time_to_timetz, needs_context=True)
    implement("time_interval", lambda value: Interval(0, 0, value))
    implement("interval_time", lambda value: value.microseconds % USECS_PER_DAY)
    implement("datetime_timestamp", date_and_time, once(_DATE_AND_TIME.replace("@", "{0}").replace("#", "{1}")))
    implement("timedate_pl", lambda time, date: date_and_time(date, time),
              once(_DATE_AND_TIME.replace("@", "{1}").replace("#", "{0}")))  # fmt: skip
    implement("datetimetz_timestamptz", date_and_timetz)
    implement("timetzdate_pl", lambda time, date: date_and_timetz(date, time))
    implement("timestamptz", lambda context, date, time: utc_time(context, date_and_time(date, time)),
              needs_context=True)  # fmt: skip


# ---- length coercions as functions, such as timestamp(2) ----


def _scale(oid: int) -> Callable[[Any, int], object]:
    def scale(value: Any, typmod: int) -> object:
        coerce = lookup(oid).length_coercion(typmod, True)
        return value if coerce is None else coerce(value)

    return scale


def _scales() -> None:
    for name, oid in (
        ("timestamp", oids.TIMESTAMP),
        ("timestamptz", oids.TIMESTAMPTZ),
        ("time", oids.TIME),
        ("timetz", oids.TIMETZ),
        ("interval", oids.INTERVAL),
    ):
        implement(f"{name}_scale", _scale(oid))


# ---- comparisons across types ----

_OPERATORS: tuple[tuple[str, str, Callable[[Any, Any], bool]], ...] = (
    ("eq", "=", operator.eq), ("ne", "<>", operator.ne), ("lt", "<", operator.lt),
    ("le", "<=", operator.le), ("gt", ">", operator.gt), ("ge", ">=", operator.ge),
)  # fmt: skip


def _instant_of_timestamp(context: CallContext, value: int) -> int:
    """Returns a local time as an instant, for comparisons, also outside of the range of timestamptz."""
    if timestamp_is_infinite(value):
        return value
    return value - local_offset(find_zone(context.timezone), value) * USECS_PER_SECOND


def _instant_of_date(context: CallContext, days: int) -> int:
    if days in (DATE_INFINITY, DATE_MINUS_INFINITY):
        return date_to_timestamp(days)
    if days >= _END_TIMESTAMP_DAYS:
        return TIMESTAMP_INFINITY - 1
    return _instant_of_timestamp(context, days * USECS_PER_DAY)


def _same_instant(context: CallContext, value: int) -> int:
    return value


def _comparison(
    compare: Callable[[Any, Any], Any],
    left_instant: Callable[[CallContext, int], int],
    right_instant: Callable[[CallContext, int], int],
) -> Callable[[CallContext, int, int], Any]:
    return lambda context, left, right: compare(left_instant(context, left), right_instant(context, right))


def order(left: Any, right: Any) -> int:
    """Returns -1, 0 or 1, like a btree support function."""
    return int(left > right) - int(left < right)


def date_comparison(symbol: str, place: int) -> Side:
    """Returns the DuckDB side of a comparison of a date (argument number `place`) with a timestamp. The date becomes
    its midnight; a date later than all timestamps in columns becomes the value that stands for these."""
    template = f"({{}} {symbol} {{}})"

    def side(arguments: Sequence[Sql], types: Sequence[TypeRef]) -> Sql:
        both = list(arguments)
        both[place] = evaluate_once([arguments[place]], f"({_COMPARED_DATE})")
        return fill(template, *both)

    return side


def _comparisons_in_zone() -> None:
    instants = {"date": _instant_of_date, "timestamp": _instant_of_timestamp, "timestamptz": _same_instant}
    for left, right in (("date", "timestamptz"), ("timestamptz", "date"), ("timestamp", "timestamptz"),
                        ("timestamptz", "timestamp")):  # fmt: skip
        for suffix, symbol, compare in _OPERATORS:
            dates = [place for place, name in enumerate((left, right)) if name == "date"]
            side = date_comparison(symbol, dates[0]) if dates else f"({{0}} {symbol} {{1}})"
            implement(f"{left}_{suffix}_{right}", _comparison(compare, instants[left], instants[right]),
                      needs_context=True, duckdb_in_utc=side)  # fmt: skip
        implement(f"{left}_cmp_{right}", _comparison(order, instants[left], instants[right]), needs_context=True)


_casts()
_scales()
_comparisons_in_zone()
