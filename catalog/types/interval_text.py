"""Reads and writes intervals (PostgreSQL 16 manual, 8.5.4): verbose, SQL standard and ISO 8601.

Fields are read from right to left, because the unit of a number is the word after it ('3 days'), or follows from the
next field ('1 04:05': a day before a time). Fractions carry to smaller parts: of years to months (rounded), of months
and weeks to days and then time, of other units to time.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from catalog.errors import SqlError
from catalog.types.base import DEFAULT_FORMAT, FormatSettings, Interval
from catalog.types.datetime import (
    DAYS_PER_MONTH,
    MONTHS_PER_YEAR,
    USECS_PER_DAY,
    USECS_PER_HOUR,
    USECS_PER_MINUTE,
    USECS_PER_SECOND,
    divide_toward_zero,
)
from catalog.types.datetime_input import (
    DATE,
    INTERVAL_ROOM,
    NUMBER,
    TIME,
    ZONE,
    BadFormatError,
    FieldOverflowError,
    fraction_microseconds,
    fraction_seconds,
    split_fields,
)

FULL_RANGE = 0x7FFF
FULL_PRECISION = 0xFFFF
# Bits of an interval's modifier, one for each field of 'interval day to second'.
YEAR_BIT, MONTH_BIT, DAY_BIT, HOUR_BIT, MINUTE_BIT, SECOND_BIT = 1 << 2, 1 << 1, 1 << 3, 1 << 10, 1 << 11, 1 << 12

UNIT_WORDS = {
    "microsecond": "us usec usecond useconds usecs microsecon",
    "millisecond": "ms msec msecond mseconds msecs millisecon",
    "second": "s sec second seconds secs",
    "minute": "m min mins minute minutes",
    "hour": "h hour hours hr hrs",
    "day": "d day days",
    "week": "w week weeks",
    "month": "mon mons month months",
    "quarter": "qtr quarter",
    "year": "y year years yr yrs",
    "decade": "dec decade decades decs",
    "century": "c cent century centuries",
    "millennium": "mil mils millennia millennium",
    "timezone": "timezone timezone_h timezone_m",
}
_UNITS = {word: unit for unit, words in UNIT_WORDS.items() for word in words.split()}
_TOKEN_LENGTH = 10
_MICROSECONDS = {
    "microsecond": 1,
    "millisecond": 1_000,
    "second": USECS_PER_SECOND,
    "minute": USECS_PER_MINUTE,
    "hour": USECS_PER_HOUR,
}
_YEARS = {"year": 1, "decade": 10, "century": 100, "millennium": 1000}
_DEFAULT_UNIT = {
    YEAR_BIT: "year",
    MONTH_BIT: "month",
    YEAR_BIT | MONTH_BIT: "month",
    DAY_BIT: "day",
    HOUR_BIT: "hour",
    DAY_BIT | HOUR_BIT: "hour",
    MINUTE_BIT: "minute",
    HOUR_BIT | MINUTE_BIT: "minute",
    DAY_BIT | HOUR_BIT | MINUTE_BIT: "minute",
}
_INTEGER = re.compile(r"([+-]?)0*(\d+)", re.ASCII)


@dataclass(slots=True)
class _Parts:
    """The sum of the fields. Adding raises FieldOverflowError if a part is out of range."""

    years: int = 0
    months: int = 0
    days: int = 0
    microseconds: int = 0

    def check(self) -> None:
        for value in (self.years, self.months, self.days):
            if not -(2**31) <= value < 2**31:
                raise FieldOverflowError
        if not -(2**63) <= self.microseconds < 2**63:
            raise FieldOverflowError

    def add(self, unit: str, value: int, fraction: float) -> None:
        if unit in _MICROSECONDS:
            self.microseconds += value * _MICROSECONDS[unit]
            self.add_fraction_of_time(fraction, _MICROSECONDS[unit])
        elif unit == "day":
            self.days += value
            self.add_fraction_of_time(fraction, USECS_PER_DAY)
        elif unit == "week":
            self.days += 7 * value
            self.add_fraction_of_days(fraction, 7)
        elif unit == "month":
            self.months += value
            self.add_fraction_of_days(fraction, DAYS_PER_MONTH)
        elif unit in _YEARS:
            self.years += value * _YEARS[unit]
            self.months += round(fraction * _YEARS[unit] * MONTHS_PER_YEAR)
        else:
            raise BadFormatError
        self.check()

    def add_fraction_of_days(self, fraction: float, scale: int) -> None:
        days = fraction * scale
        self.days += int(days)
        self.add_fraction_of_time(days - int(days), USECS_PER_DAY)

    def add_fraction_of_time(self, fraction: float, scale: int) -> None:
        if fraction:
            exact = fraction * scale
            whole = int(exact)
            rest = exact - whole
            self.microseconds += whole + (1 if rest > 0.5 else -1 if rest < -0.5 else 0)

    def negate(self) -> None:
        self.years, self.months, self.days = -self.years, -self.months, -self.days
        self.microseconds = -self.microseconds
        self.check()

    def interval(self) -> Interval | None:
        """Returns the interval; None if its months are out of range."""
        months = self.years * MONTHS_PER_YEAR + self.months
        return Interval(months, self.days, self.microseconds) if -(2**31) <= months < 2**31 else None


def _integer(text: str) -> tuple[int, str]:
    match = _INTEGER.match(text)
    if match is None:
        return 0, text
    sign, digits = match.groups()
    if len(digits) > 19 or not -(2**63) <= (number := int(sign + digits)) < 2**63:
        raise FieldOverflowError
    return number, text[match.end() :]


def _clock(text: str, fields: int) -> int:
    """Reads '04:05:06.7' as microseconds; '04:05' is minutes and seconds in an interval minute to second."""
    hour, rest = _integer(text)
    if not rest.startswith(":"):
        raise BadFormatError
    minute, rest = _integer(rest[1:])
    second, fraction = 0, 0
    if rest.startswith("."):
        fraction = fraction_microseconds(rest)
        hour, minute, second = 0, hour, minute
    elif rest.startswith(":"):
        second, rest = _integer(rest[1:])
        if rest.startswith("."):
            fraction = fraction_microseconds(rest)
        elif rest:
            raise BadFormatError
    elif rest:
        raise BadFormatError
    elif fields == MINUTE_BIT | SECOND_BIT:
        hour, minute, second = 0, hour, minute
    if hour < 0 or not 0 <= minute < 60 or not 0 <= second <= 60:
        raise FieldOverflowError
    total = ((hour * 60 + minute) * 60 + second) * USECS_PER_SECOND + fraction
    if total >= 2**63:
        raise FieldOverflowError
    return total


class _Reader:
    """Reads the fields of one interval; `seen` has the units that have a value, because none may have two."""

    def __init__(self, fields: list[tuple[str, str]], typmod_fields: int, settings: FormatSettings) -> None:
        self.fields = fields
        self.range = typmod_fields
        self.parts = _Parts()
        self.unit = ""  # of the next number to the left
        self.seen: set[str] = set()
        self.ago = False
        signs = [text for _, text in fields[1:] if text[0] in "+-"]
        self.force_negative = (
            settings.interval_style.lower() == "sql_standard" and fields[0][1].startswith("-") and not signs
        )

    def read(self) -> Interval | None:
        for kind, text in reversed(self.fields):
            new: set[str]
            if kind == TIME or (kind == ZONE and self._is_signed_clock(text)):
                new = self._time(text)
            elif kind in (ZONE, DATE, NUMBER):
                new = self._number(text)
            else:
                self._word(text)
                continue
            if new & self.seen:
                raise BadFormatError
            self.seen |= new
        if not self.seen:
            raise BadFormatError
        if self.ago:
            self.parts.negate()
        return self.parts.interval()

    def _is_signed_clock(self, text: str) -> bool:
        if ":" not in text[1:]:
            return False
        try:
            _clock(text[1:], self.range)
        except (BadFormatError, FieldOverflowError):
            return False
        return True

    def _time(self, text: str) -> set[str]:
        value = _clock(text.lstrip("+-"), self.range)
        if text[0] == "-" or self.force_negative:
            value = -value
        self.parts.microseconds += value
        self.parts.check()
        self.unit = "day"
        return {"hour", "minute", "second", "millisecond", "microsecond"}

    def _number(self, text: str) -> set[str]:
        if not self.unit:
            self.unit = _DEFAULT_UNIT.get(self.range, "second")
        value, rest = _integer(text)
        negative = text[0] == "-"
        fraction = 0.0
        if rest.startswith("-"):  # years and months of SQL
            months, rest = _integer(rest[1:])
            if not 0 <= months < MONTHS_PER_YEAR:
                raise FieldOverflowError
            if rest:
                raise BadFormatError
            self.unit = "month"
            value = value * MONTHS_PER_YEAR + (-months if negative else months)
        elif rest.startswith("."):
            fraction = -fraction_seconds(rest) if negative else fraction_seconds(rest)
        elif rest:
            raise BadFormatError
        if self.force_negative:
            value, fraction = -abs(value), -abs(fraction)
        unit = self.unit
        self.parts.add(unit, value, fraction)
        if unit == "hour":
            self.unit = "day"
        if unit == "second" and fraction:
            return {"second", "millisecond", "microsecond"}
        return {unit}

    def _word(self, text: str) -> None:
        word = text[:_TOKEN_LENGTH]
        if word in _UNITS:
            self.unit = _UNITS[word]
        elif word == "ago":
            self.ago = True
            self.unit = "ago"
        else:
            raise BadFormatError


# --- ISO 8601 --------------------------------------------------------------------------------------------------------
_ISO_NUMBER = re.compile(r"([+-]?)(\d*)((?:\.\d*)?)", re.ASCII)
_MOST_DIGITS = 309
_ISO_DATE_UNITS = {"Y": "year", "M": "month", "W": "week", "D": "day"}
_ISO_TIME_UNITS = {"H": "hour", "M": "minute", "S": "second"}


def _iso_number(text: str) -> tuple[int, float, int, str]:
    """Reads a number. Returns the integer part, the signed fraction, the number of digits, and the rest."""
    match = _ISO_NUMBER.match(text)
    if match is None or not (match[2] or match[3]):
        raise BadFormatError
    digits = match[2].lstrip("0")
    if len(digits) > _MOST_DIGITS:  # out of range of strtod()
        raise BadFormatError
    whole = int(digits or "0")
    if whole >= 2**63 if not match[1] else whole > 2**63:
        raise FieldOverflowError
    fraction = fraction_seconds(match[3]) if match[3] else 0.0
    if match[1] == "-":
        whole, fraction = -whole, -fraction
    return whole, fraction, len(match[2]), text[match.end() :]


def _read_iso(text: str) -> Interval | None:
    """Reads 'P1Y2M3DT4H5M6S', 'P0001-02-03T04:05:06' or 'P00010203T040506'."""
    if len(text) < 2 or text[0] != "P":
        raise BadFormatError
    parts, rest, in_date, found = _Parts(), text[1:], True, False
    while rest:
        if rest[0] == "T":
            in_date, found, rest = False, False, rest[1:]
            continue
        value, fraction, digits, after = _iso_number(rest)
        designator, rest = after[:1], after[1:]
        units = _ISO_DATE_UNITS if in_date else _ISO_TIME_UNITS
        if designator in units:
            parts.add(units[designator], value, fraction)
            found = True
        elif in_date and designator in ("", "T", "-"):
            rest = _iso_alternative_date(parts, value, fraction, digits, designator, rest, found)
            in_date = False
        elif not in_date and designator in ("", ":"):
            _iso_alternative_time(parts, value, fraction, digits, designator, rest, found)
            break
        else:
            raise BadFormatError
    return parts.interval()


def _iso_alternative_date(
    parts: _Parts, value: int, fraction: float, digits: int, mark: str, rest: str, found: bool
) -> str:
    """Reads '0001-02-03' or '00010203', and returns the text after the T."""
    if mark in ("", "T") and digits == 8 and not found:
        year, monthday = divide_toward_zero(value, 10_000)
        month, day = divide_toward_zero(monthday, 100)
        parts.add("year", year, 0.0)
        parts.add("month", month, 0.0)
        parts.add("day", day, fraction)
        return rest
    if found:
        raise BadFormatError
    parts.add("year", value, fraction)
    if mark == "-":
        value, fraction, _, rest = _iso_number(rest)
        parts.add("month", value, fraction)
        mark, rest = rest[:1], rest[1:]
        if mark == "-":
            value, fraction, _, rest = _iso_number(rest)
            parts.add("day", value, fraction)
            mark, rest = rest[:1], rest[1:]
    if mark not in ("", "T"):
        raise BadFormatError
    return rest


def _iso_alternative_time(
    parts: _Parts, value: int, fraction: float, digits: int, mark: str, rest: str, found: bool
) -> None:
    """Reads '04:05:06' or '040506'."""
    if not mark and digits == 6 and not found:
        hour, rest_of = divide_toward_zero(value, 10_000)
        minute, second = divide_toward_zero(rest_of, 100)
        parts.add("hour", hour, 0.0)
        parts.add("minute", minute, 0.0)
        parts.add("second", second, 0.0)
        parts.add("microsecond", 0, fraction)
        return
    if found:
        raise BadFormatError
    parts.add("hour", value, fraction)
    for unit in ("minute", "second"):
        if not mark:
            return
        if mark != ":":
            raise BadFormatError
        value, fraction, _, rest = _iso_number(rest)
        parts.add(unit, value, fraction)
        mark, rest = rest[:1], rest[1:]
    if mark:
        raise BadFormatError


def parse_interval(text: str, settings: FormatSettings = DEFAULT_FORMAT, fields: int = FULL_RANGE) -> Interval:
    """Reads an interval as interval_in does; `fields` are those of its modifier. Raises 22007, 22008, 22015."""
    try:
        try:
            found = split_fields(text, INTERVAL_ROOM)
            if not found:
                raise BadFormatError
            value = _Reader(found, fields, settings).read()
        except BadFormatError:
            value = _read_iso(text)
    except BadFormatError:
        raise SqlError("22007", f'invalid input syntax for type interval: "{text}"') from None
    except FieldOverflowError:
        raise SqlError("22015", f'interval field value out of range: "{text}"') from None
    if value is None:
        raise SqlError("22008", "interval out of range")
    return value


# --- output ----------------------------------------------------------------------------------------------------------
@dataclass(slots=True)
class _Fields:
    """An interval for output: every part has its own sign, because division truncates toward zero."""

    year: int
    month: int
    day: int
    hour: int
    minute: int
    second: int
    microsecond: int

    @classmethod
    def of(cls, value: Interval) -> _Fields:
        year, month = divide_toward_zero(value.months, MONTHS_PER_YEAR)
        hour, rest = divide_toward_zero(value.microseconds, USECS_PER_HOUR)
        minute, rest = divide_toward_zero(rest, USECS_PER_MINUTE)
        second, microsecond = divide_toward_zero(rest, USECS_PER_SECOND)
        return cls(year, month, value.days, hour, minute, second, microsecond)


def _seconds(second: int, microsecond: int, fill: bool = True) -> str:
    """Returns seconds without sign and trailing zeros."""
    text = f"{abs(second):02d}" if fill else str(abs(second))
    return f"{text}.{abs(microsecond):06d}".rstrip("0") if microsecond else text


def _format_postgres(value: Interval) -> str:
    """Returns '1 year 2 mons -3 days +04:05:06'."""
    parts = _Fields.of(value)
    words: list[str] = []
    after_negative = False
    for number, unit in ((parts.year, "year"), (parts.month, "mon"), (parts.day, "day")):
        if number:
            sign = "+" if after_negative and number > 0 else ""
            words.append(f"{sign}{number} {unit}{'' if number == 1 else 's'}")
            after_negative = number < 0
    if not words or value.microseconds:
        sign = "-" if value.microseconds < 0 else "+" if after_negative else ""
        clock = f"{abs(parts.hour):02d}:{abs(parts.minute):02d}:{_seconds(parts.second, parts.microsecond)}"
        words.append(sign + clock)
    return " ".join(words)


def _format_verbose(value: Interval) -> str:
    """Returns '@ 1 year 2 mons 4 hours 5.6 secs ago'; the sign of the first part applies to all."""
    parts = _Fields.of(value)
    text, negative, empty = "@", False, True
    units = (
        (parts.year, "year"),
        (parts.month, "mon"),
        (parts.day, "day"),
        (parts.hour, "hour"),
        (parts.minute, "min"),
    )
    for signed, unit in units:
        if not signed:
            continue
        if empty:
            negative = signed < 0
        number = -signed if negative else signed
        text += f" {number} {unit}{'' if number == 1 else 's'}"
        empty = False
    if parts.second or parts.microsecond:
        below = parts.second < 0 or (parts.second == 0 and parts.microsecond < 0)
        if below and empty:
            negative = True
        sign = "-" if below != negative else ""
        plural = "" if abs(parts.second) == 1 and not parts.microsecond else "s"
        text += f" {sign}{_seconds(parts.second, parts.microsecond, fill=False)} sec{plural}"
        empty = False
    return text + (" 0" if empty else "") + (" ago" if negative else "")


def _format_sql(value: Interval) -> str:
    """Returns '1-2' or '3 4:05:06', or a form with all signs if the parts do not fit one interval of the standard."""
    parts = _Fields.of(value)
    numbers = (value.months, value.days, value.microseconds)
    negative, positive = any(number < 0 for number in numbers), any(number > 0 for number in numbers)
    if not negative and not positive:
        return "0"
    clock = f"{abs(parts.hour)}:{abs(parts.minute):02d}:{_seconds(parts.second, parts.microsecond)}"
    year_month = f"{abs(parts.year)}-{abs(parts.month)}"
    if (negative and positive) or (value.months and (value.days or value.microseconds)):
        signs = ["-" if number < 0 else "+" for number in numbers]
        return f"{signs[0]}{year_month} {signs[1]}{abs(parts.day)} {signs[2]}{clock}"
    sign = "-" if negative else ""
    if value.months:
        return sign + year_month
    return f"{sign}{abs(parts.day)} {clock}" if value.days else sign + clock


def _format_iso(value: Interval) -> str:
    """Returns 'P1Y2M3DT4H5M6S'."""
    if not any(value):
        return "PT0S"
    parts = _Fields.of(value)
    date = "".join(f"{n}{unit}" for n, unit in ((parts.year, "Y"), (parts.month, "M"), (parts.day, "D")) if n)
    time = "".join(f"{n}{unit}" for n, unit in ((parts.hour, "H"), (parts.minute, "M")) if n)
    if parts.second or parts.microsecond:
        sign = "-" if parts.second < 0 or parts.microsecond < 0 else ""
        time += f"{sign}{_seconds(parts.second, parts.microsecond, fill=False)}S"
    return f"P{date}T{time}" if time else f"P{date}"


_STYLES: dict[str, Callable[[Interval], str]] = {
    "postgres": _format_postgres,
    "postgres_verbose": _format_verbose,
    "sql_standard": _format_sql,
    "iso_8601": _format_iso,
}


def interval_formatter(settings: FormatSettings) -> Callable[[Interval], str]:
    """Returns the output function of the session's style."""
    return _STYLES[settings.interval_style.lower()]
