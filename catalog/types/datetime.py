"""Calendar arithmetic on the internal forms: days and microseconds since 2000-01-01, and intervals.

The calendar is the proleptic Gregorian one. Years are astronomical in this package: 0 is 1 BC, -1 is 2 BC; text has AD
and BC. Dates reach from 4714-11-24 BC to 5874897 AD, timestamps to 294276 AD. Python's datetime is only a fast path for
the years 1 to 9999.

Functions raise 22008 if a result is out of its type's range ("timestamp out of range"). They return infinities
unchanged, as PostgreSQL does. Zones are in `catalog.types.timezones`; offsets are seconds east of Greenwich.
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
"""294247-01-10 04:00:54.775806, the end of a column's timestamps, which count from 1970. No column has this or a later
timestamp; in comparisons it stands for all of these."""

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
    """The fields of a local time."""

    year: int  # astronomical: 0 is 1 BC
    month: int
    day: int
    hour: int
    minute: int
    second: int
    microsecond: int


def is_leap(year: int) -> bool:
    """Whether an astronomical year is a leap year."""
    return year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)


def days_in_month(year: int, month: int) -> int:
    """Returns the number of days in a month: 28 to 31."""
    return 29 if month == 2 and is_leap(year) else _MONTH_DAYS[month - 1]


def days_from_civil(year: int, month: int, day: int) -> int:
    """Returns days since 2000-01-01. Months and days out of range carry over, as in PostgreSQL's date2j."""
    if 0 < year < 10_000 and 0 < month < 13 and 0 < day < 29:
        return datetime.date(year, month, day).toordinal() - ORDINAL_EPOCH
    carry, month = divmod(month - 3, 12)  # years from March have the leap day at their end
    cycle, of_cycle = divmod(year + carry, 400)
    return cycle * 146_097 + of_cycle * 365 + of_cycle // 4 - of_cycle // 100 + (153 * month + 2) // 5 + day - 730_426


def civil_from_days(days: int) -> tuple[int, int, int]:
    """Returns year, month and day of days since 2000-01-01."""
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
    """Returns the day of the week, 0 for Sunday, of days since 2000-01-01, a Saturday."""
    return (days + 6) % 7


def day_of_year(days: int) -> int:
    """Returns the day of the year: 1 to 366."""
    year, _, _ = civil_from_days(days)
    return days - days_from_civil(year, 1, 1) + 1


def join_timestamp(days: int, microseconds: int) -> int:
    """Returns the timestamp of days since 2000-01-01 and microseconds of the day. Raises 22008."""
    return check_timestamp(days * USECS_PER_DAY + microseconds)


def split_time(microseconds: int) -> tuple[int, int, int, int]:
    """Returns hours, minutes, seconds and microseconds."""
    seconds, fraction = divmod(microseconds, USECS_PER_SECOND)
    minutes, second = divmod(seconds, 60)
    hour, minute = divmod(minutes, 60)
    return hour, minute, second, fraction


def civil_from_timestamp(value: int) -> Civil:
    """Returns the fields of a local timestamp."""
    days, rest = divmod(value, USECS_PER_DAY)
    return Civil(*civil_from_days(days), *split_time(rest))


def timestamp_out_of_range() -> SqlError:
    """Returns error 22008 for a timestamp."""
    return SqlError("22008", "timestamp out of range")


def interval_out_of_range() -> SqlError:
    """Returns error 22008 for an interval."""
    return SqlError("22008", "interval out of range")


def check_timestamp(value: int) -> int:
    """Returns the value if it is a finite timestamp. Raises 22008 otherwise."""
    if not MIN_TIMESTAMP <= value < END_TIMESTAMP:
        raise timestamp_out_of_range()
    return value


def check_date(days: int) -> int:
    """Returns the value if it is a finite date. Raises 22008 otherwise."""
    if not MIN_DATE <= days < END_DATE:
        raise SqlError("22008", "date out of range")
    return days


def timestamp_is_infinite(value: int) -> bool:
    """Whether the timestamp or timestamptz is infinite."""
    return value in (TIMESTAMP_INFINITY, TIMESTAMP_MINUS_INFINITY)


def date_is_infinite(value: int) -> bool:
    """Whether the date is infinite."""
    return value in (DATE_INFINITY, DATE_MINUS_INFINITY)


def current_time() -> int:
    """Returns the clock in microseconds since 2000-01-01 UTC."""
    return time.time_ns() // 1000 - UNIX_EPOCH_SECONDS * USECS_PER_SECOND


@dataclass(slots=True)
class Reading:
    """The reading of a plan's constants: the start of the transaction (None: not started yet), and whether a constant
    such as 'now' or 'today' depends on the current time (`timely`)."""

    transaction_time: int | None
    timely: bool = False


_READING: ContextVar[Reading | None] = ContextVar("reading", default=None)


@contextmanager
def reading_constants(transaction_time: int | None) -> Iterator[Reading]:
    """Sets the start of the transaction for constants of a statement that is planned inside. Yields a `Reading`, which
    has afterwards whether the plan depends on the current time."""
    reading = Reading(transaction_time)
    token = _READING.set(reading)
    try:
        yield reading
    finally:
        _READING.reset(token)


def now_reading() -> Reading | None:
    """Returns the current `Reading`, or None outside of `reading_constants`."""
    return _READING.get()


def transaction_time(settings: FormatSettings) -> int:
    """Returns the value of 'now' in the text of a date or time: the start of the transaction, if it is known."""
    reading = _READING.get()
    if reading is not None:
        reading.timely = True
        if reading.transaction_time is not None:
            return reading.transaction_time
    return current_time() if settings.transaction_time is None else settings.transaction_time


_WORDS = ("now", "today", "tomorrow", "yesterday")
_PIECE = 1 << 20  # characters searched in one step


def _may_mean_a_time(text: str) -> bool:
    """Whether a text contains one of the words for the current time, in any letter case."""
    if len(text) <= _PIECE and text.upper() == text.lower():  # no letters: a faster test
        return False
    for start in range(0, len(text), _PIECE):
        lower = text[start : start + _PIECE + len("yesterday")].lower()
        if any(word in lower for word in _WORDS):
            return True
    return False


class OfThisMoment(SqlError):  # noqa: N818 - named for its meaning
    """Raised if a text such as 'now' depends on the start of the transaction, which is unknown."""

    def __init__(self) -> None:
        super().__init__("55000", "the time of the transaction is not known here")


def outside_of_plans(decode: Callable[[str], object]) -> Callable[[str], object]:
    """Returns the input function of a type for parameters, which many sessions share. It raises OfThisMoment for 'now'
    and similar texts, so that the caller reads these again inside `reading_constants`."""

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
    """Returns the zone's offset at an instant, in seconds east of Greenwich. Raises 22023 for an unknown zone."""
    return offset_at(find_zone(zone_name), utc_microseconds)


def offset_at(zone: Zone, utc_microseconds: int) -> int:
    """Returns the same as `zone_offset` for a `Zone`."""
    if zone.fixed is not None:
        return zone.fixed.seconds
    return zone.at(utc_microseconds // USECS_PER_SECOND + UNIX_EPOCH_SECONDS).seconds


def local_offset(zone: Zone, local_microseconds: int) -> int:
    """Returns the offset of a local time in seconds east; in gaps and overlaps, the same as PostgreSQL."""
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
    """Returns the same day of another month, or the last day of that month."""
    year, month, day = civil_from_days(days)
    carry, month = divmod(month - 1 + months, 12)
    year, month = year + carry, month + 1
    return days_from_civil(year, month, min(day, days_in_month(year, month)))


def add_interval(value: int, interval: Interval) -> int:
    """timestamp + interval: adds months (limited to the month's end), then days, then time. Raises 22008."""
    if timestamp_is_infinite(value):
        return value
    if interval.months:
        days, rest = divmod(value, USECS_PER_DAY)
        value = join_timestamp(add_months(days, interval.months), rest)
    if interval.days:
        value = check_timestamp(value + interval.days * USECS_PER_DAY)
    return check_timestamp(value + interval.microseconds)


def add_interval_in_zone(value: int, interval: Interval, zone: Zone) -> int:
    """timestamptz + interval: adds months and days by the zone's calendar, then the time. Raises 22008."""
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
    """Returns an interval. Raises 22008 if a part is out of range."""
    if not -(2**31) <= months < 2**31 or not -(2**31) <= days < 2**31 or not -(2**63) <= microseconds < 2**63:
        raise interval_out_of_range()
    return Interval(months, days, microseconds)


def negate_interval(value: Interval) -> Interval:
    """-interval. Raises 22008."""
    return make_interval(-value.months, -value.days, -value.microseconds)


def add_intervals(left: Interval, right: Interval) -> Interval:
    """Adds part by part. Raises 22008."""
    return make_interval(left.months + right.months, left.days + right.days, left.microseconds + right.microseconds)


def subtract_intervals(left: Interval, right: Interval) -> Interval:
    """Subtracts part by part. Raises 22008."""
    return make_interval(left.months - right.months, left.days - right.days, left.microseconds - right.microseconds)


def interval_span(value: Interval) -> int:
    """Returns the value by which intervals are compared: microseconds, with months of 30 days and days of 24 hours."""
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
    """Multiplies. Fractions of months carry to days (30 for a month), fractions of days to time. Raises 22008."""
    return _scale_interval(value, value.months * factor, value.days * factor, value.microseconds * factor)


def divide_interval(value: Interval, divisor: float) -> Interval:
    """Divides, with the same carries as multiplication. Raises 22012, 22008."""
    if divisor == 0.0:
        raise SqlError("22012", "division by zero")
    return _scale_interval(value, value.months / divisor, value.days / divisor, value.microseconds / divisor)


def divide_toward_zero(value: int, divisor: int) -> tuple[int, int]:
    """Returns quotient and remainder as in C: the remainder has the sign of `value`. `divisor` is positive."""
    quotient, remainder = divmod(abs(value), divisor)
    return (quotient, remainder) if value >= 0 else (-quotient, -remainder)


def justify_hours(value: Interval) -> Interval:
    """justify_hours: 24 hours become a day; days and time get the same sign. Raises 22008."""
    whole, microseconds = divide_toward_zero(value.microseconds, USECS_PER_DAY)
    days = value.days + whole
    if days > 0 > microseconds:
        microseconds, days = microseconds + USECS_PER_DAY, days - 1
    elif days < 0 < microseconds:
        microseconds, days = microseconds - USECS_PER_DAY, days + 1
    return make_interval(value.months, days, microseconds)


def justify_days(value: Interval) -> Interval:
    """justify_days: 30 days become a month; months and days get the same sign. Raises 22008."""
    whole, days = divide_toward_zero(value.days, DAYS_PER_MONTH)
    months = value.months + whole
    if months > 0 > days:
        days, months = days + DAYS_PER_MONTH, months - 1
    elif months < 0 < days:
        days, months = days - DAYS_PER_MONTH, months + 1
    return make_interval(months, days, value.microseconds)


def justify_interval(value: Interval) -> Interval:
    """justify_interval: both, and all three parts get the same sign. Raises 22008."""
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
    """Rounds to 0 to 6 digits of a second, half away from zero."""
    scale: int = 10 ** (6 - precision)
    rounded = (abs(microseconds) + scale // 2) // scale * scale
    return rounded if microseconds >= 0 else -rounded
