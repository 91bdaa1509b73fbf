"""Arithmetic of dates, times, timestamps and intervals, the clock, ages and series (PostgreSQL 16 manual, 9.9).

timestamptz + interval adds months and days by the calendar of the session's zone, so it takes the context; the engine
computes the constant `now() - interval '1 day'` before a query. DuckDB adds timestamps and intervals as PostgreSQL
does, within other limits: the templates check PostgreSQL's lower limit (4714-11-24 BC), and DuckDB's error about its
upper limit is translated (the last timestamp in a column is 30 years earlier than PostgreSQL's, 294247-01-10).
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from catalog.duckdb.nodes import Constant, Sql, fill
from catalog.errors import SqlError
from catalog.functions.base import CallContext, Side, Trait, udf_name
from catalog.functions.datetime_casts import (
    date_to_timestamp,
    date_to_timestamptz,
    order,
)
from catalog.functions.duckdb_errors import sql_error_call
from catalog.functions.duckdb_sql import bind_once, once
from catalog.functions.registry import implement
from catalog.types import oids
from catalog.types.base import Interval, TypeRef
from catalog.types.datetime import (
    TIMESTAMP_MINUS_INFINITY,
    USECS_PER_DAY,
    USECS_PER_SECOND,
    add_interval,
    add_interval_in_zone,
    add_intervals,
    check_date,
    civil_from_timestamp,
    current_time,
    date_is_infinite,
    days_in_month,
    divide_interval,
    interval_span,
    justify_days,
    justify_hours,
    justify_interval,
    multiply_interval,
    negate_interval,
    offset_at,
    subtract_intervals,
    subtract_timestamps,
    timestamp_is_infinite,
    timestamp_out_of_range,
    to_local,
)
from catalog.types.timezones import find_zone

# ---- dates ----


def add_days(date: int, days: int) -> int:
    """date + integer. Raises 22008."""
    return date if date_is_infinite(date) else check_date(date + days)


def subtract_days(date: int, days: int) -> int:
    """date - integer. Raises 22008."""
    return date if date_is_infinite(date) else check_date(date - days)


def days_between(left: int, right: int) -> int:
    """date - date. Raises 22008 for infinite dates."""
    if date_is_infinite(left) or date_is_infinite(right):
        raise SqlError("22008", "cannot subtract infinite dates")
    return left - right


_DATE_ERROR = sql_error_call("22008", "date out of range")
_INFINITE_DATES = sql_error_call("22008", "cannot subtract infinite dates")


def _days_side(sign: str, date: str, days: str) -> str:
    result = f"{date} {sign} {days}"
    return (
        f"(CASE WHEN NOT isfinite({date}) THEN CASE WHEN {days} IS NOT NULL THEN {date} END"
        f" WHEN {result} > DATE '5874897-12-31' OR {result} < DATE '4714-11-24 (BC)' THEN {_DATE_ERROR}"
        f" ELSE {result} END)"
    )


def _dates() -> None:
    implement("date_pli", add_days, once(_days_side("+", "{0}", "{1}")),
              inline="add_days({0}, {1})", names={"add_days": add_days})  # fmt: skip
    implement("integer_pl_date", lambda days, date: add_days(date, days), once(_days_side("+", "{1}", "{0}")))
    implement("date_mii", subtract_days, once(_days_side("-", "{0}", "{1}")),
              inline="subtract_days({0}, {1})", names={"subtract_days": subtract_days})  # fmt: skip
    implement("date_mi", days_between, once(
        f"(CASE WHEN isfinite({{0}}) AND isfinite({{1}}) THEN CAST({{0}} - {{1}} AS INTEGER)"
        f" WHEN {{0}} IS NOT NULL AND {{1}} IS NOT NULL THEN {_INFINITE_DATES} END)"
    ))  # fmt: skip


# ---- timestamps and intervals ----


def _opposite(value: Interval) -> Interval:
    return Interval(-value.months, -value.days, -value.microseconds)


def subtract_interval(value: int, interval: Interval) -> int:
    """timestamp - interval. Raises 22008."""
    return add_interval(value, _opposite(interval))


def add_in_session_zone(context: CallContext, value: int, interval: Interval) -> int:
    """timestamptz + interval. Raises 22008."""
    if interval.months or interval.days:
        return add_interval_in_zone(value, interval, find_zone(context.timezone))
    return add_interval(value, interval)


def _date_plus_interval(date: int, interval: Interval) -> int:
    return add_interval(date_to_timestamp(date), interval)


_TIMESTAMP_ERROR = sql_error_call("22008", "timestamp out of range")


def _sum_side(sign: str, value: str, interval: str) -> str:
    """Returns the template of timestamp (or date) plus or minus interval, with PostgreSQL's lower limit."""
    result = f"{value} {sign} {interval}"
    return (
        f"(CASE WHEN {interval} IS NULL THEN NULL"
        f" WHEN {result} < TIMESTAMP '4714-11-24 (BC) 00:00:00' AND isfinite({value}) THEN {_TIMESTAMP_ERROR}"
        f" ELSE {result} END)"
    )


def _timestamps() -> None:
    plus, minus = once(_sum_side("+", "{0}", "{1}")), once(_sum_side("-", "{0}", "{1}"))
    swapped = once(_sum_side("+", "{1}", "{0}"))
    implement("timestamp_pl_interval", add_interval, plus)
    implement("timestamp_mi_interval", subtract_interval, minus)
    implement("interval_pl_timestamp", lambda interval, value: add_interval(value, interval), swapped)
    implement("timestamptz_pl_interval", add_in_session_zone, needs_context=True, duckdb_in_utc=plus)
    implement("timestamptz_mi_interval",
              lambda context, value, interval: add_in_session_zone(context, value, _opposite(interval)),
              needs_context=True, duckdb_in_utc=minus)  # fmt: skip
    implement("interval_pl_timestamptz",
              lambda context, interval, value: add_in_session_zone(context, value, interval),
              needs_context=True, duckdb_in_utc=swapped)  # fmt: skip
    implement("date_pl_interval", _date_plus_interval, once(_sum_side("+", "CAST({0} AS TIMESTAMP)", "{1}")))
    implement("date_mi_interval", lambda date, interval: _date_plus_interval(date, _opposite(interval)),
              once(_sum_side("-", "CAST({0} AS TIMESTAMP)", "{1}")))  # fmt: skip
    implement("interval_pl_date", lambda interval, date: _date_plus_interval(date, interval),
              once(_sum_side("+", "CAST({1} AS TIMESTAMP)", "{0}")))  # fmt: skip
    implement("timestamp_mi", subtract_timestamps, "({0} - {1})")


# ---- times ----


def _time_plus(time: int, interval: Interval) -> int:
    return (time + interval.microseconds) % USECS_PER_DAY


def _timetz_plus(time: tuple[int, int], interval: Interval) -> tuple[int, int]:
    return (time[0] + interval.microseconds) % USECS_PER_DAY, time[1]


def _times() -> None:
    implement("time_pl_interval", _time_plus, "({0} + {1})")
    implement("time_mi_interval", lambda time, interval: _time_plus(time, _opposite(interval)), "({0} - {1})")
    implement("interval_pl_time", lambda interval, time: _time_plus(time, interval), "({1} + {0})")
    implement("timetz_pl_interval", _timetz_plus)
    implement("timetz_mi_interval", lambda time, interval: _timetz_plus(time, _opposite(interval)))
    implement("interval_pl_timetz", lambda interval, time: _timetz_plus(time, interval))
    implement("time_mi_time", lambda left, right: Interval(0, 0, left - right))


# ---- intervals ----


_EXACT = 1 << 53  # a product of integers up to this is exact as a float


def _times_whole(source: str, interval: int) -> Side:
    """Returns the DuckDB side of a constant interval (the argument of this number) times a number. DuckDB computes
    products with small integers, which carry nothing from months to days; the UDF computes the others."""

    def side(arguments: Sequence[Sql], types: Sequence[TypeRef]) -> Sql | None:
        constant = arguments[interval]
        if not isinstance(constant, Constant) or not isinstance(constant.value, Interval):
            return None
        months, days, microseconds = constant.value
        most = min((1 << 31) // (abs(months) + 1), (1 << 31) // (abs(days) + 1), _EXACT // (abs(microseconds) + 1))
        call = ", ".join("{0}" if number != interval else "{1}" for number in range(2))
        parts = f"to_days(CAST({{0}} AS INTEGER) * {days}) + to_microseconds(CAST({{0}} AS BIGINT) * {microseconds})"
        product = f"to_months(CAST({{0}} AS INTEGER) * {months}) + {parts}"
        test = f"{{0}} = trunc({{0}}) AND abs({{0}}) < {most}"
        other = f"WHEN {{0}} IS NOT NULL THEN {udf_name(source)}({call})"
        template = f"CASE WHEN {test} THEN {product} {other} END"
        return bind_once([arguments[1 - interval]], lambda factor: fill(template, factor, constant))

    return side


def _intervals() -> None:
    implement("interval_pl", add_intervals)
    implement("interval_mi", subtract_intervals)
    implement("interval_um", negate_interval)
    implement("interval_mul", multiply_interval, _times_whole("interval_mul", 0), duckdb_udfs=("interval_mul",))
    implement("mul_d_interval", lambda factor, interval: multiply_interval(interval, factor),
              _times_whole("mul_d_interval", 1), duckdb_udfs=("mul_d_interval",))  # fmt: skip
    implement("interval_div", divide_interval)
    implement("interval_justify_hours", justify_hours)
    implement("interval_justify_days", justify_days)
    implement("interval_justify_interval", justify_interval)
    implement("interval_cmp", lambda left, right: order(interval_span(left), interval_span(right)))

    def step(state: Any, value: Interval) -> Any:
        return (value, 1) if state is None else (add_intervals(state[0], value), state[1] + 1)

    implement("avg(interval)", python_aggregate=(
        lambda: None, step, lambda state: None if state is None else divide_interval(state[0], float(state[1]))
    ))  # fmt: skip


def _finiteness() -> None:
    implement("timestamp_finite", lambda value: not timestamp_is_infinite(value), "isfinite({0})")
    implement("date_finite", lambda value: not date_is_infinite(value), "isfinite({0})")
    implement("interval_finite", lambda value: True, "({0} IS NOT NULL OR NULL)")


# ---- the clock ----

_DAYS = ("Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat")
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")


def time_of_day(context: CallContext) -> str:
    """timeofday(): 'Fri Nov 20 06:17:05.123456 2026 UTC'."""
    now, zone = current_time(), find_zone(context.timezone)
    local = now + offset_at(zone, now) * USECS_PER_SECOND
    civil = civil_from_timestamp(local)
    weekday = _DAYS[(local // USECS_PER_DAY + 6) % 7]
    clock = f"{civil.hour:02d}:{civil.minute:02d}:{civil.second:02d}.{civil.microsecond:06d}"
    offset = zone.at((now // USECS_PER_SECOND) + 946_684_800)
    return f"{weekday} {_MONTHS[civil.month - 1]} {civil.day:02d} {clock} {civil.year:04d} {offset.abbreviation}"


def _clock() -> None:
    implement("now", lambda context: context.transaction_time, needs_context=True)
    implement("statement_timestamp", lambda context: context.statement_time, needs_context=True)
    implement("clock_timestamp", current_time, traits=(Trait.CLOCK_OR_CHANCE,))
    implement("timeofday", time_of_day, needs_context=True, traits=(Trait.CLOCK_OR_CHANCE,))


# ---- ages ----


def _difference(left: int, right: int, negative: bool) -> Interval:
    """Returns the difference of two local times in years to microseconds, borrowing from months as timestamp_age
    does."""
    if TIMESTAMP_MINUS_INFINITY in (left, right):  # PostgreSQL computes with the other infinity as a number
        raise timestamp_out_of_range()
    one, other = civil_from_timestamp(left), civil_from_timestamp(right)
    sign = -1 if negative else 1
    years, months, days, hours, minutes, seconds, fraction = (
        sign * (a - b) for a, b in zip(one, other, strict=True)
    )  # fmt: skip
    carry, fraction = divmod(fraction, USECS_PER_SECOND)
    carry, seconds = divmod(seconds + carry, 60)
    carry, minutes = divmod(minutes + carry, 60)
    carry, hours = divmod(hours + carry, 24)
    days += carry
    lender = one if negative else other
    while days < 0:
        days += days_in_month(lender.year, lender.month)
        months -= 1
    carry, months = divmod(months, 12)
    years += carry
    clock = ((hours * 60 + minutes) * 60 + seconds) * USECS_PER_SECOND + fraction
    return Interval(sign * (years * 12 + months), sign * days, sign * clock)


def age(left: int, right: int) -> Interval:
    """age(timestamp, timestamp). Raises 22008."""
    return _difference(left, right, left < right)


def _age_in_zone(context: CallContext, left: int, right: int) -> Interval:
    zone = find_zone(context.timezone)
    one, other = (
        value if timestamp_is_infinite(value) and value < 0 else value + offset_at(zone, value) * USECS_PER_SECOND
        for value in (left, right)
    )
    return _difference(one, other, left < right)


def _age_of_today(types: Sequence[TypeRef], result: TypeRef) -> Callable[..., object]:
    """age(x): the difference from today's midnight in the session's zone."""

    def today(context: CallContext) -> int:
        return to_local(context.transaction_time, find_zone(context.timezone)) // USECS_PER_DAY

    if types[0].oid == oids.TIMESTAMPTZ:
        return lambda context, value: _age_in_zone(context, date_to_timestamptz(context, today(context)), value)
    return lambda context, value: age(date_to_timestamp(today(context)), value)


def _ages() -> None:
    implement("timestamp_age", age)
    implement("timestamptz_age", _age_in_zone, needs_context=True)
    implement("age", python_for_types=_age_of_today, needs_context=True)


# ---- series ----

Add = Callable[[int, Interval], int]


def _series(add: Add, start: int, stop: int, step: Interval) -> Iterator[int]:
    """generate_series(start, stop, step). Raises 22023 for a step of zero, 22008 for a value out of range."""
    span = interval_span(step)
    if span == 0:
        raise SqlError("22023", "step size cannot equal zero")
    return _series_values(add, start, stop, step, operator.le if span > 0 else operator.ge)


def _series_values(
    add: Add, current: int, stop: int, step: Interval, within: Callable[[int, int], bool]
) -> Iterator[int]:
    while within(current, stop):
        yield current
        current = add(current, step)


def _series_in_zone(context: CallContext, start: int, stop: int, step: Interval) -> Iterator[int]:
    zone = find_zone(context.timezone)
    return _series(lambda value, interval: add_interval_in_zone(value, interval, zone), start, stop, step)


def _sets() -> None:
    implement("generate_series_timestamp", lambda start, stop, step: _series(add_interval, start, stop, step))
    implement("generate_series_timestamptz", _series_in_zone, needs_context=True)


# ---- overlaps ----


def overlaps(left: Any, left_end: Any, right: Any, right_end: Any) -> bool | None:
    """(a, b) OVERLAPS (c, d) for comparable values: ends may be NULL or in either order (overlaps_timestamp)."""
    left, left_end = _period(left, left_end)
    right, right_end = _period(right, right_end)
    if left is None or right is None:
        return None
    if left > right:
        return _covers(left, right_end, left_end)
    if left < right:
        return _covers(right, left_end, right_end)
    return None if left_end is None or right_end is None else True


def _period(start: Any, end: Any) -> tuple[Any, Any]:
    """Orders start and end; a NULL start becomes the end."""
    if start is None:
        return end, None
    if end is not None and start > end:
        return end, start
    return start, end


def _covers(start: Any, other_end: Any, own_end: Any) -> bool | None:
    """Whether the period that began earlier lasts beyond `start`; None if NULL ends make that unknown."""
    if other_end is None:
        return None
    if start < other_end:
        return True
    return None if own_end is None else False


def _overlaps_with_intervals(types: Sequence[TypeRef], result: TypeRef) -> Callable[..., object]:
    """OVERLAPS with the length of one or both periods instead of the end."""
    kind = types[0].oid
    lengths = (types[1].oid == oids.INTERVAL, types[3].oid == oids.INTERVAL)

    def end(context: CallContext, start: Any, given: Any, is_length: bool) -> Any:
        if not is_length:
            return given
        if start is None or given is None:
            return None
        if kind == oids.TIMESTAMPTZ:
            return add_in_session_zone(context, start, given)
        return add_interval(start, given) if kind == oids.TIMESTAMP else _time_plus(start, given)

    def call(context: CallContext, left: Any, left_end: Any, right: Any, right_end: Any) -> object:
        return overlaps(
            left, end(context, left, left_end, lengths[0]), right, end(context, right, right_end, lengths[1])
        )

    return call


def _timetz_overlaps(*values: Any) -> bool | None:
    """OVERLAPS of timetz, whose order is by instant, then by zone."""
    return overlaps(*(None if v is None else (v[0] + v[1] * USECS_PER_SECOND, v[1]) for v in values))


def _periods() -> None:
    implement("overlaps_timestamp", overlaps)
    implement("overlaps_time", overlaps)
    implement("overlaps_timetz", _timetz_overlaps)
    implement("overlaps", python_for_types=_overlaps_with_intervals, needs_context=True)


_dates()
_timestamps()
_times()
_intervals()
_finiteness()
_clock()
_ages()
_sets()
_periods()
