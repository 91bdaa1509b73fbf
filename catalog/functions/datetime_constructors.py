"""make_date, make_time, make_timestamp, make_timestamptz, make_interval and to_timestamp(double precision)."""

from __future__ import annotations

import math
import re

from catalog.errors import SqlError
from catalog.functions.base import CallContext
from catalog.functions.datetime_casts import utc_time
from catalog.functions.datetime_zones import fixed_zone, named_zone
from catalog.functions.registry import implement
from catalog.types.base import Interval
from catalog.types.datetime import (
    END_DATE,
    END_TIMESTAMP,
    MIN_DATE,
    MIN_TIMESTAMP,
    TIMESTAMP_INFINITY,
    TIMESTAMP_MINUS_INFINITY,
    UNIX_EPOCH_SECONDS,
    USECS_PER_DAY,
    USECS_PER_HOUR,
    USECS_PER_MINUTE,
    USECS_PER_SECOND,
    days_from_civil,
    days_in_month,
    interval_out_of_range,
    to_utc,
)
from catalog.types.datetime_input import BadFormatError, ZoneOverflowError, parse_zone

_END_OF_JULIAN_DAYS = (5874898, 6)  # year and month of the last Julian day in PostgreSQL
_INT_MAX = 2147483647


def _field_error(year: int, month: int, day: int) -> SqlError:
    return SqlError("22008", f"date field value out of range: {year}-{month:02d}-{day:02d}")


def make_date(year: int, month: int, day: int) -> int:
    """make_date. Negative years are BC (errors show the astronomical year). Raises 22008."""
    days = _days(year, month, day, year if year >= 0 else year + 1)
    if days >= END_DATE:
        raise _date_out_of_range(year, month, day)
    return days


def _date_out_of_range(year: int, month: int, day: int) -> SqlError:
    return SqlError("22008", f"date out of range: {year}-{month:02d}-{day:02d}")


def _days(year: int, month: int, day: int, shown_year: int) -> int:
    if year == 0:
        raise _field_error(year, month, day)
    astronomical = year if year > 0 else year + 1
    if not 1 <= month <= 12 or not 1 <= day <= days_in_month(astronomical, month):
        raise _field_error(shown_year, month, day)
    days = days_from_civil(astronomical, month, day)
    if days < MIN_DATE or (year, month) >= _END_OF_JULIAN_DAYS:
        raise _date_out_of_range(year, month, day)
    return days


def _clock(hour: int, minute: int, second: float) -> int:
    """Returns the microseconds of a time of day. Raises 22008."""
    fraction = -1.0 if math.isnan(second) or math.isinf(second) else round(second * 1e6)
    valid = 0 <= hour <= 24 and 0 <= minute <= 59 and 0 <= fraction <= USECS_PER_MINUTE
    total = int((hour * 60 + minute) * USECS_PER_MINUTE + fraction)
    if not valid or total > USECS_PER_DAY:
        raise SqlError("22008", f"time field value out of range: {hour}:{minute:02d}:{_seconds(second)}")
    return total


def _seconds(second: float) -> str:
    """Formats seconds as C's %02g does, and NaN and infinities as PostgreSQL does."""
    if math.isnan(second):
        return "NaN"
    if math.isinf(second):
        return "Infinity" if second > 0 else "-Infinity"
    return f"{second:02g}"


def make_timestamp(year: int, month: int, day: int, hour: int, minute: int, second: float) -> int:
    """make_timestamp. Raises 22008."""
    days = _days(year, month, day, year)
    value = days * USECS_PER_DAY + _clock(hour, minute, second)
    if not MIN_TIMESTAMP <= value < END_TIMESTAMP:
        shown = f"{year}-{month:02d}-{day:02d} {hour}:{minute:02d}:{_seconds(second)}"
        raise SqlError("22008", f"timestamp out of range: {shown}")
    return value


def _make_timestamptz(context: CallContext, *fields: int) -> int:
    return utc_time(context, make_timestamp(*fields))


_NUMERIC_ZONE = re.compile(r"[+-]\d")


def _make_timestamptz_at(
    year: int, month: int, day: int, hour: int, minute: int, second: float, zone: str
) -> int:  # fmt: skip
    """make_timestamptz with a zone, in which '+03' is east of UTC, and numbers need a sign. Raises 22008, 22023."""
    local = make_timestamp(year, month, day, hour, minute, second)
    if zone[:1].isascii() and zone[:1].isdigit():
        raise SqlError("22023", f'invalid input syntax for type numeric time zone: "{zone}"',
                       hint='Numeric time zones must have "-" or "+" as first character.')  # fmt: skip
    if _NUMERIC_ZONE.match(zone):
        try:
            return to_utc(local, fixed_zone(parse_zone(zone)))
        except ZoneOverflowError:
            raise SqlError("22023", f'numeric time zone "{zone}" out of range') from None
        except BadFormatError:
            pass  # the text may be the name of a zone
    return named_zone(zone).to_utc(local)


def make_interval(
    years: int = 0,
    months: int = 0,
    weeks: int = 0,
    days: int = 0,
    hours: int = 0,
    minutes: int = 0,
    seconds: float = 0.0,
) -> Interval:
    """make_interval. Raises 22008, also for sums out of range, which wrap around in PostgreSQL before release 17."""
    if math.isinf(seconds) or math.isnan(seconds):
        raise interval_out_of_range()
    total_months, total_days = years * 12 + months, weeks * 7 + days
    microseconds = hours * USECS_PER_HOUR + minutes * USECS_PER_MINUTE + round(seconds * USECS_PER_SECOND)
    if not (abs(total_months) <= _INT_MAX and abs(total_days) <= _INT_MAX and -(2**63) <= microseconds < 2**63):
        raise interval_out_of_range()
    return Interval(total_months, total_days, microseconds)


def timestamp_from_unix(seconds: float) -> int:
    """to_timestamp(double precision). Raises 22008."""
    if math.isnan(seconds):
        raise SqlError("22008", "timestamp cannot be NaN")
    if math.isinf(seconds):
        return TIMESTAMP_INFINITY if seconds > 0 else TIMESTAMP_MINUS_INFINITY
    low, high = MIN_TIMESTAMP / USECS_PER_SECOND, END_TIMESTAMP / USECS_PER_SECOND
    if seconds < low + UNIX_EPOCH_SECONDS or seconds >= high + UNIX_EPOCH_SECONDS:
        raise _unix_out_of_range(seconds)
    value = round((seconds - UNIX_EPOCH_SECONDS) * USECS_PER_SECOND)
    if not MIN_TIMESTAMP <= value < END_TIMESTAMP:
        raise _unix_out_of_range(seconds)
    return value


def _unix_out_of_range(seconds: float) -> SqlError:
    return SqlError("22008", f'timestamp out of range: "{seconds:g}"')


implement("make_date", make_date)
implement("make_time", _clock)
implement("make_timestamp", make_timestamp)
implement("make_timestamptz", _make_timestamptz, needs_context=True)
implement("make_timestamptz_at_timezone", _make_timestamptz_at)
implement("make_interval", make_interval)
implement("float8_timestamptz", timestamp_from_unix)
