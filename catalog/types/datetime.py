"""Calendar arithmetic on the internal forms: days and microseconds since 2000-01-01, and intervals.

The calendar is the proleptic Gregorian one. Years are astronomical within this package: 0 is 1 BC, -1 is 2 BC; text
shows them as AD and BC. Dates reach from 4714-11-24 BC to 5874897 AD, timestamps to 294276 AD, far past Python's own
datetime, which serves only as a fast path for the years 1 to 9999.

Functions here raise 22008 where a result leaves its type's range ("timestamp out of range"). They pass the infinities
through where PostgreSQL does. Zones: `catalog.types.timezones`; seconds of offset are positive east of Greenwich.
"""

from __future__ import annotations

import datetime
import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import NamedTuple

from catalog.errors import SqlError
from catalog.types.base import FormatSettings, Interval
from catalog.types.timezones import Zone, find_zone, zone_or_none

USECS_PER_SECOND = 1_000_000
USECS_PER_MINUTE = 60_000_000
USECS_PER_HOUR = 3_600_000_000
USECS_PER_DAY = 86_400_000_000
SECONDS_PER_DAY = 86_400
MONTHS_PER_YEAR = 12
DAYS_PER_MONTH = 30  # of an interval

UNIX_EPOCH_SECONDS = 946_684_800  # 2000-01-01 in Unix seconds
UNIX_EPOCH_DAYS = 10_957  # 2000-01-01 in days since 1970-01-01
JULIAN_EPOCH = 2_451_545  # the Julian day number of 2000-01-01
ORDINAL_EPOCH = 730_120  # datetime.date's ordinal of 2000-01-01

MIN_DATE = -JULIAN_EPOCH
END_DATE = 2_147_483_494 - JULIAN_EPOCH  # exclusive: 5874898-01-01
MIN_TIMESTAMP = -211_813_488_000_000_000  # 4714-11-24 BC
END_TIMESTAMP = 9_223_371_331_200_000_000  # exclusive: 294277-01-01

LATE_TIMESTAMP = 2**63 - 2 - UNIX_EPOCH_SECONDS * USECS_PER_SECOND
"""294247-01-10 04:00:54.775806, the last moment of a column, which counts from 1970. No column holds it, nor what is
later: it stands for all of that in comparisons."""

DATE_MINUS_INFINITY, DATE_INFINITY = -(2**31), 2**31 - 1
TIMESTAMP_MINUS_INFINITY, TIMESTAMP_INFINITY = -(2**63), 2**63 - 1
_MIN_FAST_DATE, _END_FAST_DATE = 1 - ORDINAL_EPOCH, datetime.date.max.toordinal() + 1 - ORDINAL_EPOCH
_MONTH_DAYS = (31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)

__all__ = [
    "Civil",
    "Zone",
    "find_zone",
    "zone_or_none",
]


class Civil(NamedTuple):
    """A point of local time, taken apart."""

    year: int  # astronomical: 0 is 1 BC
    month: int
    day: int
    hour: int
    minute: int
    second: int
    microsecond: int


def is_leap(year: int) -> bool:
    """Of an astronomical year."""
    return year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)


def days_in_month(year: int, month: int) -> int:
    """28 to 31."""
    return 29 if month == 2 and is_leap(year) else _MONTH_DAYS[month - 1]


def days_from_civil(year: int, month: int, day: int) -> int:
    """Days since 2000-01-01. Months and days past their range carry over, as in PostgreSQL's date2j."""
    if 0 < year < 10_000 and 0 < month < 13 and 0 < day < 29:
        return datetime.date(year, month, day).toordinal() - ORDINAL_EPOCH
    carry, month = divmod(month - 3, 12)  # years that begin in March end with the leap day
    cycle, of_cycle = divmod(year + carry, 400)
    return cycle * 146_097 + of_cycle * 365 + of_cycle // 4 - of_cycle // 100 + (153 * month + 2) // 5 + day - 730_426


def civil_from_days(days: int) -> tuple[int, int, int]:
    """Year, month and day of a number of days since 2000-01-01."""
    if _MIN_FAST_DATE <= days < _END_FAST_DATE:
        date = datetime.date.fromordinal(days + ORDINAL_EPOCH)
        return date.year, date.month, date.day
    cycle, of_cycle = divmod(days + 730_425, 146_097)
    year = (of_cycle - of_cycle // 1_460 + of_cycle // 36_524 - of_cycle // 146_096) // 365
    day_of_year = of_cycle - (365 * year + year // 4 - year // 100)
    month = (5 * day_of_year + 2) // 153
    day = day_of_year - (153 * month + 2) // 5 + 1
    return cycle * 400 + year + (month >= 10), month + 3 - (12 if month >= 10 else 0), day


def day_of_week(days: int) -> int:
    """0 is Sunday. `days` since 2000-01-01, a Saturday."""
    return (days + 6) % 7


def day_of_year(days: int) -> int:
    """1 to 366."""
    year, _, _ = civil_from_days(days)
    return days - days_from_civil(year, 1, 1) + 1


def join_timestamp(days: int, microseconds: int) -> int:
    """The timestamp of days since 2000-01-01, and microseconds of that day. Raises 22008."""
    return check_timestamp(days * USECS_PER_DAY + microseconds)


def split_time(microseconds: int) -> tuple[int, int, int, int]:
    """Hours, minutes, seconds and microseconds."""
    seconds, fraction = divmod(microseconds, USECS_PER_SECOND)
    minutes, second = divmod(seconds, 60)
    hour, minute = divmod(minutes, 60)
    return hour, minute, second, fraction


def civil_from_timestamp(value: int) -> Civil:
    """A (local) timestamp taken apart."""
    days, rest = divmod(value, USECS_PER_DAY)
    return Civil(*civil_from_days(days), *split_time(rest))


def timestamp_out_of_range() -> SqlError:
    """22008."""
    return SqlError("22008", "timestamp out of range")


def interval_out_of_range() -> SqlError:
    """22008."""
    return SqlError("22008", "interval out of range")


def check_timestamp(value: int) -> int:
    """The value itself, if it is a finite timestamp. Raises 22008."""
    if not MIN_TIMESTAMP <= value < END_TIMESTAMP:
        raise timestamp_out_of_range()
    return value


def check_date(days: int) -> int:
    """The value itself, if it is a finite date. Raises 22008."""
    if not MIN_DATE <= days < END_DATE:
        raise SqlError("22008", "date out of range")
    return days


def timestamp_is_infinite(value: int) -> bool:
    """Either of the two infinities of timestamp and timestamptz."""
    return value in (TIMESTAMP_INFINITY, TIMESTAMP_MINUS_INFINITY)


def date_is_infinite(value: int) -> bool:
    """Either of the two infinities of date."""
    return value in (DATE_INFINITY, DATE_MINUS_INFINITY)


def current_time() -> int:
    """The clock, in microseconds since 2000-01-01 UTC."""
    return time.time_ns() // 1000 - UNIX_EPOCH_SECONDS * USECS_PER_SECOND


@dataclass(slots=True)
class Reading:
    """Constants being read: when the transaction began (None: it is to begin), and whether one of them, 'now' or
    'today', meant the time at which it was read."""

    transaction_time: int | None
    timely: bool = False


_READING: ContextVar[Reading | None] = ContextVar("reading", default=None)


@contextmanager
def reading_constants(transaction_time: int | None) -> Iterator[Reading]:
    """While a statement is planned: what its constants mean, and whether the plan holds for this time only."""
    reading = Reading(transaction_time)
    token = _READING.set(reading)
    try:
        yield reading
    finally:
        _READING.reset(token)


def now_reading() -> Reading | None:
    """The constants being read now, if any are."""
    return _READING.get()


def transaction_time(settings: FormatSettings) -> int:
    """What 'now' means in the text of a date or time: when the transaction began, if that is known."""
    reading = _READING.get()
    if reading is not None:
        reading.timely = True
        if reading.transaction_time is not None:
            return reading.transaction_time
    return current_time() if settings.transaction_time is None else settings.transaction_time


_WORDS = ("now", "today", "tomorrow", "yesterday")
_PIECE = 1 << 20  # characters that are searched in one step


def _may_mean_a_time(text: str) -> bool:
    """Whether one of the words is in a text, in any case."""
    if len(text) <= _PIECE and text.upper() == text.lower():  # no letters: seen sooner than the words are searched
        return False
    for start in range(0, len(text), _PIECE):
        lower = text[start : start + _PIECE + len("yesterday")].lower()
        if any(word in lower for word in _WORDS):
            return True
    return False


class OfThisMoment(SqlError):  # noqa: N818 - named for what it tells
    """A text that means the time at which its transaction began, read where nobody has said when that was."""

    def __init__(self) -> None:
        super().__init__("55000", "the time of the transaction is not known here")


def outside_of_plans(decode: Callable[[str], object]) -> Callable[[str], object]:
    """The input function of a type for parameters, which are read by functions that many sessions share: it raises
    OfThisMoment for 'now' and its kin, so that they are read again under `reading_constants`."""

    def read(text: str) -> object:
        if not _may_mean_a_time(text) or _READING.get() is not None:
            return decode(text)
        with reading_constants(None) as reading:
            value = decode(text)
        if reading.timely:
            raise OfThisMoment
        return value

    return read


# --- zones -----------------------------------------------------------------------------------------------------------
def zone_offset(zone_name: str, utc_microseconds: int) -> int:
    """Seconds east of Greenwich that the zone's clocks are ahead at an instant. Raises 22023 for an unknown zone."""
    return offset_at(find_zone(zone_name), utc_microseconds)


def offset_at(zone: Zone, utc_microseconds: int) -> int:
    """`zone_offset` with the zone at hand."""
    if zone.fixed is not None:
        return zone.fixed.seconds
    return zone.at(utc_microseconds // USECS_PER_SECOND + UNIX_EPOCH_SECONDS).seconds


def local_offset(zone: Zone, local_microseconds: int) -> int:
    """Seconds east with which to read a local time, in gaps and overlaps as PostgreSQL does."""
    if zone.fixed is not None:
        return zone.fixed.seconds
    return zone.local_offset(local_microseconds // USECS_PER_SECOND + UNIX_EPOCH_SECONDS)


def to_local(utc_microseconds: int, zone: Zone) -> int:
    """timestamptz -> timestamp in the zone (AT TIME ZONE). Infinities stay. Raises 22008."""
    if timestamp_is_infinite(utc_microseconds):
        return utc_microseconds
    return check_timestamp(utc_microseconds + offset_at(zone, utc_microseconds) * USECS_PER_SECOND)


def to_utc(local_microseconds: int, zone: Zone) -> int:
    """timestamp in the zone -> timestamptz. Infinities stay. Raises 22008."""
    if timestamp_is_infinite(local_microseconds):
        return local_microseconds
    return check_timestamp(local_microseconds - local_offset(zone, local_microseconds) * USECS_PER_SECOND)


# --- timestamps and intervals ----------------------------------------------------------------------------------------
def add_months(days: int, months: int) -> int:
    """The same day of another month, or that month's last day."""
    year, month, day = civil_from_days(days)
    carry, month = divmod(month - 1 + months, 12)
    year, month = year + carry, month + 1
    return days_from_civil(year, month, min(day, days_in_month(year, month)))


def add_interval(value: int, interval: Interval) -> int:
    """timestamp + interval: months first (clipped to the month's end), then days, then time. Raises 22008."""
    if timestamp_is_infinite(value):
        return value
    if interval.months:
        days, rest = divmod(value, USECS_PER_DAY)
        value = join_timestamp(add_months(days, interval.months), rest)
    if interval.days:
        value = check_timestamp(value + interval.days * USECS_PER_DAY)
    return check_timestamp(value + interval.microseconds)


def add_interval_in_zone(value: int, interval: Interval, zone: Zone) -> int:
    """timestamptz + interval: months and days by the zone's calendar, time by the clock. Raises 22008."""
    if timestamp_is_infinite(value):
        return value
    if interval.months:
        days, rest = divmod(to_local(value, zone), USECS_PER_DAY)
        value = to_utc(join_timestamp(add_months(days, interval.months), rest), zone)
    if interval.days:
        value = to_utc(check_timestamp(to_local(value, zone) + interval.days * USECS_PER_DAY), zone)
    return check_timestamp(value + interval.microseconds)


def subtract_timestamps(left: int, right: int) -> Interval:
    """timestamp - timestamp: days and time. Raises 22008."""
    if timestamp_is_infinite(left) or timestamp_is_infinite(right):
        raise SqlError("22008", "cannot subtract infinite timestamps")
    difference = left - right
    if not -(2**63) <= difference < 2**63:
        raise interval_out_of_range()
    return justify_hours(Interval(0, 0, difference))


def make_interval(months: int, days: int, microseconds: int) -> Interval:
    """An interval whose parts are within their ranges. Raises 22008."""
    if not -(2**31) <= months < 2**31 or not -(2**31) <= days < 2**31 or not -(2**63) <= microseconds < 2**63:
        raise interval_out_of_range()
    return Interval(months, days, microseconds)


def negate_interval(value: Interval) -> Interval:
    """Raises 22008."""
    return make_interval(-value.months, -value.days, -value.microseconds)


def add_intervals(left: Interval, right: Interval) -> Interval:
    """Part by part. Raises 22008."""
    return make_interval(left.months + right.months, left.days + right.days, left.microseconds + right.microseconds)


def subtract_intervals(left: Interval, right: Interval) -> Interval:
    """Part by part. Raises 22008."""
    return make_interval(left.months - right.months, left.days - right.days, left.microseconds - right.microseconds)


def interval_span(value: Interval) -> int:
    """By what intervals are compared: microseconds, with months of 30 days and days of 24 hours."""
    return value.microseconds + (value.months * DAYS_PER_MONTH + value.days) * USECS_PER_DAY


def _round_microseconds(seconds: float) -> float:
    return round(seconds * 1e6) / 1e6


def _scale_interval(value: Interval, months: float, days: float, microseconds: float) -> Interval:
    if not (math.isfinite(months) and math.isfinite(days) and math.isfinite(microseconds)):
        raise interval_out_of_range()
    whole_months, whole_days = int(months), int(days)
    spilled_days = _round_microseconds((months - whole_months) * DAYS_PER_MONTH)
    seconds = _round_microseconds((days - whole_days + spilled_days - int(spilled_days)) * SECONDS_PER_DAY)
    if abs(seconds) >= SECONDS_PER_DAY:
        spilled = int(seconds / SECONDS_PER_DAY)
        whole_days += spilled
        seconds -= spilled * SECONDS_PER_DAY
    whole_days += int(spilled_days)
    return make_interval(whole_months, whole_days, round(microseconds + seconds * USECS_PER_SECOND))


def multiply_interval(value: Interval, factor: float) -> Interval:
    """Fractions of months go to days (of 30), fractions of days to time. Raises 22008."""
    return _scale_interval(value, value.months * factor, value.days * factor, value.microseconds * factor)


def divide_interval(value: Interval, divisor: float) -> Interval:
    """As multiplication. Raises 22012, 22008."""
    if divisor == 0.0:
        raise SqlError("22012", "division by zero")
    return _scale_interval(value, value.months / divisor, value.days / divisor, value.microseconds / divisor)


def divide_toward_zero(value: int, divisor: int) -> tuple[int, int]:
    """Quotient and remainder as in C: the remainder has the sign of `value`. `divisor` is positive."""
    quotient, remainder = divmod(abs(value), divisor)
    return (quotient, remainder) if value >= 0 else (-quotient, -remainder)


def justify_hours(value: Interval) -> Interval:
    """24 hours become a day; days and time get the same sign. Raises 22008."""
    whole, microseconds = divide_toward_zero(value.microseconds, USECS_PER_DAY)
    days = value.days + whole
    if days > 0 > microseconds:
        microseconds, days = microseconds + USECS_PER_DAY, days - 1
    elif days < 0 < microseconds:
        microseconds, days = microseconds - USECS_PER_DAY, days + 1
    return make_interval(value.months, days, microseconds)


def justify_days(value: Interval) -> Interval:
    """30 days become a month; months and days get the same sign. Raises 22008."""
    whole, days = divide_toward_zero(value.days, DAYS_PER_MONTH)
    months = value.months + whole
    if months > 0 > days:
        days, months = days + DAYS_PER_MONTH, months - 1
    elif months < 0 < days:
        days, months = days - DAYS_PER_MONTH, months + 1
    return make_interval(months, days, value.microseconds)


def justify_interval(value: Interval) -> Interval:
    """Both, and all three parts get the same sign. Raises 22008."""
    whole_days, microseconds = divide_toward_zero(value.microseconds, USECS_PER_DAY)
    whole_months, days = divide_toward_zero(value.days + whole_days, DAYS_PER_MONTH)
    months = value.months + whole_months
    if months > 0 and (days < 0 or (days == 0 and microseconds < 0)):
        days, months = days + DAYS_PER_MONTH, months - 1
    elif months < 0 and (days > 0 or (days == 0 and microseconds > 0)):
        days, months = days - DAYS_PER_MONTH, months + 1
    if days > 0 > microseconds:
        microseconds, days = microseconds + USECS_PER_DAY, days - 1
    elif days < 0 < microseconds:
        microseconds, days = microseconds - USECS_PER_DAY, days + 1
    return make_interval(months, days, microseconds)


def round_to_precision(microseconds: int, precision: int) -> int:
    """To 0 .. 6 digits of a second, half away from zero."""
    scale: int = 10 ** (6 - precision)
    rounded = (abs(microseconds) + scale // 2) // scale * scale
    return rounded if microseconds >= 0 else -rounded
