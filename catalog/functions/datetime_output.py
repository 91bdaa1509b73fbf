"""to_char of timestamps and intervals (PostgreSQL 16 manual, 9.8; DCH_to_char of formatting.c).

The output of a key word is a function of the fields of the moment (`_Parts`). Names of months and days are English even
with TM, because the locale is C.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from catalog.duckdb.nodes import Sql, constant_text, fill
from catalog.errors import SqlError
from catalog.functions.base import CallContext, Side, udf_name
from catalog.functions.datetime_fields import iso_week_start, iso_year_and_week
from catalog.functions.duckdb_sql import bind_once
from catalog.functions.format_templates import ACTION, Node, date_template
from catalog.functions.number_output import ordinal_suffix
from catalog.functions.registry import implement
from catalog.types.base import Interval, TypeRef
from catalog.types.datetime import (
    JULIAN_EPOCH,
    UNIX_EPOCH_SECONDS,
    USECS_PER_DAY,
    USECS_PER_SECOND,
    civil_from_timestamp,
    day_of_week,
    day_of_year,
    days_from_civil,
    divide_toward_zero,
    timestamp_is_infinite,
)
from catalog.types.timezones import find_zone

MONTHS = ("January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November",
          "December")  # fmt: skip
DAYS = ("Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday")
ROMAN_MONTHS = ("XII", "XI", "X", "IX", "VIII", "VII", "VI", "V", "IV", "III", "II", "I")


@dataclass(slots=True)
class _Parts:
    """The fields of a local time or of an interval (C's broken-down time)."""

    year: int  # astronomical
    month: int
    day: int
    hour: int
    minute: int
    second: int
    microsecond: int
    day_of_year: int = 0
    weekday: int = 0
    offset: int = 0  # seconds east
    zone: str = ""
    interval: bool = False

    def shown_year(self, year: int) -> int:
        return year if self.interval or year > 0 else 1 - year

    def days(self) -> int:
        return days_from_civil(self.year, self.month, self.day)

    def iso_year(self) -> int:
        return iso_year_and_week(self.days())[0]


def _remainder(value: int, divisor: int) -> int:
    return divide_toward_zero(value, divisor)[1]


def _quotient(value: int, divisor: int) -> int:
    return divide_toward_zero(value, divisor)[0]


def _pad_number(value: int, width: int, node: Node) -> str:
    """Formats a number with at least `width` digits, and a sign; FM omits leading zeros."""
    return str(value) if node.fill else f"{value:0{width + (value < 0)}d}"


def _hour12(parts: _Parts) -> int:
    return _remainder(parts.hour, 12) or 12


def _name(text: str, node: Node, width: int = 9) -> str:
    return text if node.fill or node.translated else text.ljust(width)


def _month_name(parts: _Parts, node: Node) -> str:
    if not parts.month:
        return ""
    return _name(_in_case(MONTHS[parts.month - 1], node.text), node)


def _short_month(parts: _Parts, node: Node) -> str:
    return _in_case(MONTHS[parts.month - 1][:3], node.text) if parts.month else ""


def _in_case(text: str, word: str) -> str:
    """Converts a text to the letter case of the key word: MONTH, Month, month."""
    return text.upper() if word.isupper() else text.lower() if word.islower() else text


def _half_day(parts: _Parts, node: Node) -> str:
    afternoon = _remainder(parts.hour, 24) >= 12
    text = ("P.M." if afternoon else "A.M.") if "." in node.text else ("PM" if afternoon else "AM")
    return text if node.text.isupper() else text.lower()


def _era(parts: _Parts, node: Node) -> str:
    before = parts.year <= 0
    text = ("B.C." if before else "A.D.") if "." in node.text else ("BC" if before else "AD")
    return text if node.text.isupper() else text.lower()


def _fraction(parts: _Parts, node: Node) -> str:
    digits = int(node.text[-1])
    return f"{_quotient(parts.microsecond, 10 ** (6 - digits)):0{digits}d}"


def _offset(parts: _Parts, node: Node) -> str:
    hours, rest = divmod(abs(parts.offset), 3600)
    text = f"{'-' if parts.offset < 0 else '+'}{_pad_number(hours, 2, node)}"
    return f"{text}:{rest // 60:02d}" if rest else text


def _century(parts: _Parts, node: Node) -> str:
    year = parts.year
    if parts.interval:
        century = _quotient(year, 100)
    else:
        century = (year - 1) // 100 + 1 if year > 0 else _quotient(year, 100) - 1
    return _pad_number(century, 2, node) if -99 <= century <= 99 else str(century)


def _year_with_comma(parts: _Parts, node: Node) -> str:
    year = parts.shown_year(parts.year)
    thousands, rest = divide_toward_zero(year, 1000)
    return f"{thousands},{rest:03d}"


def _year(digits: int, iso: bool) -> Callable[[_Parts, Node], str]:
    def year(parts: _Parts, node: Node) -> str:
        shown = parts.shown_year(parts.iso_year() if iso else parts.year)
        if digits == 4:
            return _pad_number(shown, 4, node)
        cut = _remainder(shown, 10**digits)
        if digits == 1:
            return str(cut)
        return str(cut) if node.fill else f"{cut:0{digits + (shown < 0)}d}"

    return year


def _roman_month(parts: _Parts, node: Node) -> str:
    if not parts.month and not parts.year:
        return ""
    if parts.month == 0:
        index = 0 if parts.year >= 0 else 11
    else:
        index = -parts.month - 1 if parts.month < 0 else 12 - parts.month
    text = ROMAN_MONTHS[index] if node.text == "RM" else ROMAN_MONTHS[index].lower()
    return text if node.fill else text.ljust(4)


def _iso_day_of_year(parts: _Parts) -> int:
    days = parts.days()
    return days - iso_week_start(iso_year_and_week(days)[0]) + 1


def _quarter(parts: _Parts, node: Node) -> str:
    return str(_quotient(parts.month - 1, 3) + 1) if parts.month else ""


def _number(value: Callable[[_Parts], int], width: int) -> Callable[[_Parts, Node], str]:
    return lambda parts, node: _pad_number(value(parts), width, node)


def _plain(value: Callable[[_Parts], int]) -> Callable[[_Parts, Node], str]:
    return lambda parts, node: str(value(parts))


_SECONDS = _plain(lambda parts: (parts.hour * 60 + parts.minute) * 60 + parts.second)
_WORDS: dict[str, Callable[[_Parts, Node], str]] = {
    "AM": _half_day, "PM": _half_day, "A.M.": _half_day, "P.M.": _half_day,
    "HH": _number(_hour12, 2), "HH12": _number(_hour12, 2), "HH24": _number(lambda parts: parts.hour, 2),
    "MI": _number(lambda parts: parts.minute, 2), "SS": _number(lambda parts: parts.second, 2),
    "MS": lambda parts, node: f"{_quotient(parts.microsecond, 1000):03d}",
    "US": lambda parts, node: f"{parts.microsecond:06d}",
    **{f"FF{digits}": _fraction for digits in range(1, 7)},
    "SSSS": _SECONDS, "SSSSS": _SECONDS,
    "TZ": lambda parts, node: parts.zone.upper() if node.text.isupper() else parts.zone.lower(),
    "TZH": lambda parts, node: f"{'-' if parts.offset < 0 else '+'}{abs(parts.offset) // 3600:02d}",
    "TZM": lambda parts, node: f"{abs(parts.offset) % 3600 // 60:02d}",
    "OF": _offset,
    "AD": _era, "BC": _era, "A.D.": _era, "B.C.": _era,
    "MONTH": _month_name, "MON": _short_month, "MM": _number(lambda parts: parts.month, 2),
    "DAY": lambda parts, node: _name(_in_case(DAYS[parts.weekday], node.text), node),
    "DY": lambda parts, node: _in_case(DAYS[parts.weekday][:3], node.text),
    "DDD": lambda parts, node: str(parts.day_of_year) if node.fill else f"{parts.day_of_year:03d}",
    "IDDD": lambda parts, node: str(_iso_day_of_year(parts)) if node.fill else f"{_iso_day_of_year(parts):03d}",
    "DD": lambda parts, node: str(parts.day) if node.fill else f"{parts.day:02d}",
    "D": _plain(lambda parts: parts.weekday + 1), "ID": _plain(lambda parts: parts.weekday or 7),
    "WW": lambda parts, node: _week(_quotient(parts.day_of_year - 1, 7) + 1, node),
    "IW": lambda parts, node: _week(iso_year_and_week(parts.days())[1], node),
    "Q": _quarter, "CC": _century, "Y,YYY": _year_with_comma,
    "YYYY": _year(4, False), "YYY": _year(3, False), "YY": _year(2, False), "Y": _year(1, False),
    "IYYY": _year(4, True), "IYY": _year(3, True), "IY": _year(2, True), "I": _year(1, True),
    "RM": _roman_month, "W": _plain(lambda parts: _quotient(parts.day - 1, 7) + 1),
    "J": _plain(lambda parts: parts.days() + JULIAN_EPOCH), "FX": lambda parts, node: "",
}  # fmt: skip
_WITHOUT_ORDINAL = frozenset({"AM", "PM", "A.M.", "P.M.", "TZ", "TZH", "TZM", "OF", "AD", "BC", "A.D.", "B.C.", "MONTH",
                              "MON", "DAY", "DY", "RM", "FX"})  # fmt: skip
_NOT_OF_INTERVALS = frozenset({"TZ", "TZH", "TZM", "OF", "AD", "BC", "A.D.", "B.C.", "MONTH", "MON", "DAY", "DY", "D",
                               "ID"})  # fmt: skip


def _week(number: int, node: Node) -> str:
    return str(number) if node.fill else f"{number:02d}"


def _text(template: str, parts: _Parts) -> str:
    result: list[str] = []
    for node in date_template(template):
        if node.type != ACTION:
            result.append(node.text)
            continue
        word = node.text.upper()
        if parts.interval and word in _NOT_OF_INTERVALS:
            raise SqlError(
                "22007",
                "invalid format specification for an interval value",
                hint="Intervals are not tied to specific calendar dates.",
            )
        text = _WORDS[word](parts, node)
        if node.ordinal and text and word not in _WITHOUT_ORDINAL:
            text += ordinal_suffix(text, node.ordinal == "TH")
        result.append(text)
    return "".join(result)


def _moment(local: int) -> _Parts:
    days = local // USECS_PER_DAY
    civil = civil_from_timestamp(local)
    return _Parts(*civil, day_of_year=day_of_year(days), weekday=day_of_week(days))


def timestamp_to_char(value: int, template: str) -> str | None:
    """to_char(timestamp, text). NULL for an infinite timestamp and for an empty template."""
    if not template or timestamp_is_infinite(value):
        return None
    return _text(template, _moment(value))


def timestamptz_to_char(context: CallContext, value: int, template: str) -> str | None:
    """to_char(timestamptz, text) in the session's zone. NULL as for a timestamp."""
    if not template or timestamp_is_infinite(value):
        return None
    offset = find_zone(context.timezone).at(value // USECS_PER_SECOND + UNIX_EPOCH_SECONDS)
    parts = _moment(value + offset.seconds * USECS_PER_SECOND)
    parts.offset, parts.zone = offset.seconds, offset.abbreviation
    return _text(template, parts)


def interval_to_char(value: Interval, template: str) -> str | None:
    """to_char(interval, text). Raises 22007 for key words that only dates have."""
    if not template:
        return None
    years, months = divide_toward_zero(value.months, 12)
    seconds, microseconds = divide_toward_zero(value.microseconds, USECS_PER_SECOND)
    minutes, second = divide_toward_zero(seconds, 60)
    hour, minute = divide_toward_zero(minutes, 60)
    approximate_day = (years * 12 + months) * 30 + value.days
    parts = _Parts(years, months, value.days, hour, minute, second, microseconds, approximate_day, interval=True)
    return _text(template, parts)


# ---- in DuckDB ----

_STRFTIME = {
    "YYYY": "%Y", "MM": "%m", "DD": "%d", "HH24": "%H", "HH12": "%I", "HH": "%I", "MI": "%M", "SS": "%S", "US": "%f",
    "DDD": "%j", "IYYY": "%G", "IW": "%V", "Mon": "%b", "Dy": "%a", "AM": "%p", "PM": "%p",
}  # fmt: skip
_PATTERNS = re.compile(
    r"(YYYY|yyyy|IYYY|MM|mm|DDD|DD|dd|HH24|hh24|HH12|HH|MI|mi|SS(?!S)|ss(?!s)|US|IW|Mon|Dy|AM|PM)|([-/:., ]+)|(.)"
)
_WITH_FOUR_DIGITS = """CASE WHEN {0} BETWEEN TIMESTAMP '1000-01-02 00:00:00' AND TIMESTAMP '9999-12-30 00:00:00'
 THEN strftime({0}, '@') WHEN {0} IS NOT NULL THEN #({0}, {1}) END""".replace("\n", "")


def _strftime(template: str) -> str | None:
    """Returns the template in strftime's language; None if strftime does not have the same output."""
    parts = []
    for pattern, between, other in _PATTERNS.findall(template):
        if other:
            return None
        parts.append(between or _STRFTIME.get(pattern) or _STRFTIME[pattern.upper()])
    return "".join(parts) or None


def _by_strftime(source: str) -> Side:
    def side(arguments: Sequence[Sql], types: Sequence[TypeRef]) -> Sql | None:
        template = constant_text(arguments[1])
        words = None if template is None else _strftime(template)
        if words is None:
            return None
        own = _WITH_FOUR_DIGITS.replace("#", udf_name(source)).replace("@", words)
        return bind_once(arguments[:1], lambda time: fill(own, time, arguments[1]))

    return side


implement("timestamp_to_char", timestamp_to_char, _by_strftime("timestamp_to_char"), duckdb_udfs=("timestamp_to_char",))
implement("timestamptz_to_char", timestamptz_to_char, needs_context=True)
implement("interval_to_char", interval_to_char)
