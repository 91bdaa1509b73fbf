"""to_date and to_timestamp with a template (PostgreSQL 16 manual, 9.8; DCH_from_char and do_to_timestamp).

The first step reads template and input in parallel and fills `_Found`; the second step makes a date and a time of these
fields. Without FX, a separator of the template matches one separator or blank of the input, or nothing; blanks before
and after fields are skipped. A field of digits reads as many characters as its key word has, or all digits if the field
has FM or if no digit can follow it.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from catalog.errors import SqlError
from catalog.functions.base import CallContext
from catalog.functions.datetime_fields import iso_week_start
from catalog.functions.datetime_output import DAYS, MONTHS, ROMAN_MONTHS
from catalog.functions.format_templates import ACTION, SEPARATOR, SPACE, Node, date_template, is_separator
from catalog.functions.registry import implement
from catalog.types.datetime import (
    END_DATE,
    JULIAN_EPOCH,
    MIN_DATE,
    USECS_PER_DAY,
    USECS_PER_SECOND,
    check_timestamp,
    civil_from_days,
    days_from_civil,
    days_in_month,
    is_leap,
    round_to_precision,
    to_utc,
)
from catalog.types.timezones import find_zone

_BLANKS = " \t\n\v\f\r"
_BLANK_RUN = re.compile(r"[ \t\n\v\f\r]*")
_STRTOL = re.compile(r"[ \t\n\v\f\r]*([+-]?[0-9]+)", re.ASCII)
_COMMA_YEAR = re.compile(r"[ \t\n\v\f\r]*([+-]?[0-9]+),[ \t\n\v\f\r]*([+-]?[0-9]{1,3})", re.ASCII)
_INT_MIN, _INT_MAX = -(2**31), 2**31 - 1
_MAX_ZONE_HOURS = 15
_NOT_FIXED = 'If your source string is not fixed-width, try using the "FM" modifier.'

_GREGORIAN = frozenset({"DDD", "DD", "D", "MM", "MONTH", "MON", "RM", "WW", "W", "Y,YYY", "YYYY", "YYY", "YY", "Y"})
_ISO = frozenset({"IDDD", "ID", "IW", "IYYY", "IYY", "IY", "I"})
_NO_DIGITS = frozenset({"A.D.", "A.M.", "AD", "AM", "B.C.", "BC", "DAY", "DY", "FX", "MONTH", "MON", "OF", "P.M.", "PM",
                        "RM", "TZH", "TZ"})  # fmt: skip


def _whole(digits: str) -> int:
    """Converts digits as strtol does; a number of 20 digits or more becomes 2^64, which is out of any range."""
    significant = digits.lstrip("+-0")
    value = int(significant or "0") if len(significant) < 20 else 1 << 64
    return -value if digits.startswith("-") else value


@dataclass(slots=True)
class _Found:
    """The fields found (TmFromChar); 0 is 'not found', as there."""

    mode: str = ""
    hh: int = 0
    pm: int = 0
    mi: int = 0
    ss: int = 0
    ssss: int = 0
    d: int = 0  # Sunday is 1
    dd: int = 0
    ddd: int = 0
    mm: int = 0
    ms: int = 0
    year: int = 0
    bc: int = 0
    ww: int = 0
    w: int = 0
    cc: int = 0
    j: int = 0
    us: int = 0
    year_digits: int = 0
    twelve_hours: bool = False
    zone_sign: int = 0
    tzh: int = 0
    tzm: int = 0
    ff: int = 0


def _bad_value(text: str, node: Node, detail: str, hint: str | None = None) -> SqlError:
    return SqlError("22007", f'invalid value "{text}" for "{node.text}"', detail=detail, hint=hint)


class _Scanner:
    def __init__(self, text: str, nodes: tuple[Node, ...]) -> None:
        self.text = text
        self.nodes = nodes
        self.at = 0
        self.fixed = False  # FX
        self.passed = 0  # skipped characters beyond those of the template
        self.found = _Found()

    def scan(self) -> _Found:
        """Reads the input. Raises 22007, 22008, 0A000."""
        text = self.text
        for number, node in enumerate(self.nodes):
            if self.at >= len(text):
                break
            if not self.fixed and node.text.upper() != "FX" and (node.type == ACTION or number == 0):
                self._pass_blanks()
            if node.type in (SPACE, SEPARATOR):
                self._separator()
            elif node.type != ACTION:
                if self.fixed or self.passed <= 0:
                    self.at += 1
                else:
                    self.passed -= 1
            else:
                self._field(number, node)
                if not self.fixed:
                    self.passed = 0
                    self._pass_blanks()
        return self.found

    def _pass_blanks(self) -> None:
        match = _BLANK_RUN.match(self.text, self.at)
        assert match is not None
        self.passed += match.end() - self.at
        self.at = match.end()

    def next_character(self) -> str:
        """Returns the next character of the input; '' at the end."""
        return self.text[self.at : self.at + 1]

    def _separator(self) -> None:
        if self.fixed:
            self.at += 1
            return
        self.passed -= 1
        char = self.next_character()
        if char and (char in _BLANKS or is_separator(char)):
            self.at += 1
            self.passed += 1

    # ---- fields ----

    def _field(self, number: int, node: Node) -> None:
        word = node.text.upper()
        if word in _GREGORIAN or word in _ISO:
            self._set_mode("Gregorian" if word in _GREGORIAN else "ISO")
        handler = _HANDLERS.get(word)
        if handler is not None:
            handler(self, number, node)
        if node.ordinal and word not in _NO_DIGITS:
            self.at += min(2, len(self.text) - self.at)

    def _set_mode(self, mode: str) -> None:
        if self.found.mode not in ("", mode):
            raise SqlError(
                "22007",
                "invalid combination of date conventions",
                hint="Do not mix Gregorian and ISO week date conventions in a formatting template.",
            )
        self.found.mode = mode

    def _set(self, name: str, value: int, node: Node) -> None:
        known = getattr(self.found, name)
        if known not in (0, value):
            raise SqlError(
                "22007",
                f'conflicting values for "{node.text}" field in formatting string',
                detail="This value contradicts a previous setting for the same field type.",
            )
        setattr(self.found, name, value)

    def _open_ended(self, number: int) -> bool:
        """Whether no digit can follow the field, so that it may read all digits (is_next_separator)."""
        if self.nodes[number].ordinal:
            return True
        if number + 1 == len(self.nodes):
            return True
        following = self.nodes[number + 1]
        if following.type == ACTION:
            return following.text.upper() in _NO_DIGITS
        return not ("0" <= following.text <= "9")

    def integer(self, name: str, number: int, node: Node, length: int) -> int:
        """Reads a field of digits, and returns the number of characters."""
        start, text = self.at, self.text
        blanks = _BLANK_RUN.match(text, start)
        assert blanks is not None
        first = blanks.end()
        if node.fill or self._open_ended(number):
            match = _STRTOL.match(text, start)
            if match is None:
                raise _bad_value(text[first : first + length], node, "Value must be an integer.")
            value, self.at = _whole(match[1]), match.end()
        else:
            copy = text[first : first + length]
            if len(copy) < length:
                raise SqlError(
                    "22007",
                    f'source string too short for "{node.text}" formatting field',
                    detail=f"Field requires {length} characters, but only {len(copy)} remain.",
                    hint=_NOT_FIXED,
                )
            match = _STRTOL.match(copy)
            used = match.end() if match is not None else 0
            if 0 < used < length:
                detail = f"Field requires {length} characters, but only {used} could be parsed."
                raise _bad_value(copy, node, detail, _NOT_FIXED)
            self.at = first + used
            if match is None:
                if self.at == start:
                    raise _bad_value(copy, node, "Value must be an integer.")
                value = 0
            else:
                value = _whole(match[1])
        if not _INT_MIN <= value <= _INT_MAX:
            raise SqlError("22008", f'value for "{node.text}" in source string is out of range',
                           detail=f"Value must be in the range {_INT_MIN} to {_INT_MAX}.")  # fmt: skip
        if name:
            self._set(name, value, node)
        return self.at - start

    def word(self, words: tuple[str, ...], node: Node) -> int:
        """Reads one of the words, in any letter case, and returns its number."""
        for number, candidate in enumerate(words):
            if self.text[self.at : self.at + len(candidate)].lower() == candidate.lower():
                self.at += len(candidate)
                return number
        shown = re.split(r"[ \t\n\r\f]", self.text[self.at :], maxsplit=1)[0]
        raise _bad_value(shown, node, "The given value did not match any of the allowed values for this field.")


Handler = Callable[[_Scanner, int, Node], None]


def _integer(name: str, length: int) -> Handler:
    def read(scanner: _Scanner, number: int, node: Node) -> None:
        scanner.integer(name, number, node, length)

    return read


def _half_day(words: tuple[str, ...]) -> Handler:
    def read(scanner: _Scanner, number: int, node: Node) -> None:
        value = scanner.word(words, node)
        scanner._set("pm", value % 2, node)
        scanner.found.twelve_hours = True

    return read


def _era(words: tuple[str, ...]) -> Handler:
    def read(scanner: _Scanner, number: int, node: Node) -> None:
        scanner._set("bc", scanner.word(words, node) % 2, node)

    return read


def _hour12(scanner: _Scanner, number: int, node: Node) -> None:
    scanner.integer("hh", number, node, 2)
    scanner.found.twelve_hours = True


def _milliseconds(scanner: _Scanner, number: int, node: Node) -> None:
    length = scanner.integer("ms", number, node, 3)
    scanner.found.ms *= {1: 100, 2: 10}.get(length, 1)


def _microseconds(scanner: _Scanner, number: int, node: Node) -> None:
    digits = 6
    if node.text.upper() != "US":
        digits = scanner.found.ff = int(node.text[-1])
    length = scanner.integer("us", number, node, digits)
    scanner.found.us *= {1: 100_000, 2: 10_000, 3: 1_000, 4: 100, 5: 10}.get(length, 1)


def _only_output(scanner: _Scanner, number: int, node: Node) -> None:
    raise SqlError("0A000", f'formatting field "{node.text}" is only supported in to_char')


def _zone_hours(scanner: _Scanner, number: int, node: Node) -> None:
    char = scanner.next_character()
    if char and char in "+- ":
        scanner.found.zone_sign = -1 if char == "-" else 1
        scanner.at += 1
    else:
        negative = scanner.passed > 0 and scanner.text[scanner.at - 1] == "-"
        scanner.found.zone_sign = -1 if negative else 1
    scanner.integer("tzh", number, node, 2)


def _zone_minutes(scanner: _Scanner, number: int, node: Node) -> None:
    scanner.found.zone_sign = scanner.found.zone_sign or 1
    scanner.integer("tzm", number, node, 2)


def _month(words: tuple[str, ...]) -> Handler:
    def read(scanner: _Scanner, number: int, node: Node) -> None:
        scanner._set("mm", scanner.word(words, node) + 1, node)

    return read


def _roman_month(scanner: _Scanner, number: int, node: Node) -> None:
    scanner._set("mm", 12 - scanner.word(ROMAN_MONTHS, node), node)


def _weekday(words: tuple[str, ...]) -> Handler:
    def read(scanner: _Scanner, number: int, node: Node) -> None:
        scanner._set("d", scanner.word(words, node), node)
        scanner.found.d += 1

    return read


def _iso_weekday(scanner: _Scanner, number: int, node: Node) -> None:
    scanner.integer("d", number, node, 1)
    scanner.found.d += 1
    if scanner.found.d > 7:
        scanner.found.d = 1


def _comma_year(scanner: _Scanner, number: int, node: Node) -> None:
    match = _COMMA_YEAR.match(scanner.text, scanner.at)
    if match is None:
        raise SqlError("22007", 'invalid input string for "Y,YYY"')
    scanner._set("year", int(match[2]) + int(match[1]) * 1000, node)
    scanner.found.year_digits = 4
    scanner.at = match.end()


def _near_2020(year: int) -> int:
    """Completes a year of one to three digits to the year nearest to 2020."""
    if year < 70:
        return year + 2000
    if year < 100:
        return year + 1900
    if year < 520:
        return year + 2000
    return year + 1000 if year < 1000 else year


def _year(digits: int) -> Handler:
    def read(scanner: _Scanner, number: int, node: Node) -> None:
        length = scanner.integer("year", number, node, digits)
        if digits < 4 and length < 4:
            scanner.found.year = _near_2020(scanner.found.year)
        scanner.found.year_digits = digits

    return read


def _exact(scanner: _Scanner, number: int, node: Node) -> None:
    scanner.fixed = True


_HANDLERS: dict[str, Handler] = {
    "FX": _exact,
    "A.M.": _half_day(("a.m.", "p.m.")), "P.M.": _half_day(("a.m.", "p.m.")),
    "AM": _half_day(("am", "pm")), "PM": _half_day(("am", "pm")),
    "HH": _hour12, "HH12": _hour12, "HH24": _integer("hh", 2), "MI": _integer("mi", 2), "SS": _integer("ss", 2),
    "MS": _milliseconds, "US": _microseconds, **{f"FF{digits}": _microseconds for digits in range(1, 7)},
    "SSSS": _integer("ssss", 4), "SSSSS": _integer("ssss", 5),
    "TZ": _only_output, "OF": _only_output, "TZH": _zone_hours, "TZM": _zone_minutes,
    "A.D.": _era(("a.d.", "b.c.")), "B.C.": _era(("a.d.", "b.c.")), "AD": _era(("ad", "bc")), "BC": _era(("ad", "bc")),
    "MONTH": _month(MONTHS), "MON": _month(tuple(month[:3] for month in MONTHS)), "MM": _integer("mm", 2),
    "RM": _roman_month,
    "DAY": _weekday(DAYS), "DY": _weekday(tuple(day[:3] for day in DAYS)),
    "DDD": _integer("ddd", 3), "IDDD": _integer("ddd", 3), "DD": _integer("dd", 2), "D": _integer("d", 1),
    "ID": _iso_weekday, "WW": _integer("ww", 2), "IW": _integer("ww", 2), "W": _integer("w", 1), "Q": _integer("", 1),
    "CC": _integer("cc", 2), "J": _integer("j", 1), "Y,YYY": _comma_year,
    "YYYY": _year(4), "YYY": _year(3), "YY": _year(2), "Y": _year(1),
    "IYYY": _year(4), "IYY": _year(3), "IY": _year(2), "I": _year(1),
}  # fmt: skip


# ---- the date and time of the fields ----


class _Moment:
    """A date and a time of day, made from the fields of the input (do_to_timestamp)."""

    def __init__(self, text: str, found: _Found) -> None:
        self.text = text
        self.found = found
        self.year, self.month, self.day = 0, 1, 1
        self.checked: set[str] = set()  # parts of the date that were given
        self.microseconds = self._time_of_day()
        self._set_year()
        self._set_date()
        self._check_date()

    def _overflow(self) -> SqlError:
        return SqlError("22008", f'date/time field value out of range: "{self.text}"')

    def _time_of_day(self) -> int:
        found = self.found
        hours, rest = divmod(abs(found.ssss), 3600)
        minutes, seconds = divmod(rest, 60)
        if found.ssss < 0:
            hours, minutes, seconds = -hours, -minutes, -seconds
        hours, minutes, seconds = found.hh or hours, found.mi or minutes, found.ss or seconds
        if found.twelve_hours:
            if not 1 <= hours <= 12:
                raise SqlError("22007", f'hour "{hours}" is invalid for the 12-hour clock',
                               hint="Use the 24-hour clock, or give an hour between 1 and 12.")  # fmt: skip
            hours = hours % 12 + (12 if found.pm else 0)
        fraction = found.ms * 1000 + found.us
        self.time_is_valid = (
            0 <= hours < 24 and 0 <= minutes < 60 and 0 <= seconds < 60 and 0 <= fraction < USECS_PER_SECOND
        )
        return ((hours * 60 + minutes) * 60 + seconds) * USECS_PER_SECOND + fraction

    def _set_year(self) -> None:
        found = self.found
        century = -found.cc if found.bc else found.cc
        if found.year:
            if found.cc and found.year_digits <= 2:
                of_century = abs(found.year) % 100 * (1 if found.year > 0 else -1)
                if of_century:
                    self.year = (
                        of_century + (century - 1) * 100 if century >= 0 else (century + 1) * 100 - of_century + 1
                    )
                else:
                    self.year = century * 100 + (0 if century >= 0 else 1)
            else:
                self.year = -found.year if found.bc else found.year
                if self.year < 0:
                    self.year += 1
            self.checked.add("year")
        elif found.cc:
            self.year = (century - 1) * 100 + 1 if century >= 0 else century * 100 + 1
            self.checked.add("year")

    def _set_day(self, days: int) -> None:
        self.year, self.month, self.day = civil_from_days(days)
        self.checked |= {"year", "month", "day"}

    def _set_date(self) -> None:
        found = self.found
        if found.j:
            self._set_day(found.j - JULIAN_EPOCH)
        if found.ww:
            if found.mode == "ISO":
                monday = iso_week_start(self.year) + 7 * (found.ww - 1)
                weekday = 0 if not found.d else found.d - 2 if found.d > 1 else 6
                self._set_day(monday + weekday)
            else:
                found.ddd = (found.ww - 1) * 7 + 1
        if found.w:
            found.dd = (found.w - 1) * 7 + 1
        if found.dd:
            self.day = found.dd
            self.checked.add("day")
        if found.mm:
            self.month = found.mm
            self.checked.add("month")
        if found.ddd and (self.month <= 1 or self.day <= 1):
            self._set_day_of_year(found.ddd)

    def _set_day_of_year(self, number: int) -> None:
        if not self.year and not self.found.bc:
            raise SqlError("22007", "cannot calculate day of year without year information")
        if self.found.mode == "ISO":
            self._set_day(iso_week_start(self.year) + number - 1)
            return
        months = [31, 29 if is_leap(self.year) else 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31]
        month, before = 1, 0
        for length in months:
            if number <= before + length:
                break
            before += length
            month += 1
        if self.month <= 1:
            self.month = month
        if self.day <= 1:
            self.day = number - before
        self.checked |= {"month", "day"}

    def _check_date(self) -> None:
        if "month" in self.checked and not 1 <= self.month <= 12:
            raise self._overflow()
        if "day" in self.checked and not 1 <= self.day <= 31:
            raise self._overflow()
        if self.checked == {"year", "month", "day"} and self.day > days_in_month(self.year, self.month):
            raise self._overflow()
        if not self.time_is_valid:
            raise self._overflow()

    def offset(self) -> int | None:
        """Returns the offset of the input in seconds east of UTC; None without an offset. Raises 22009."""
        found = self.found
        if not found.zone_sign:
            return None
        if not 0 <= found.tzh <= _MAX_ZONE_HOURS or not 0 <= found.tzm < 60:
            raise SqlError("22009", f'time zone displacement out of range: "{self.text}"')
        return found.zone_sign * (found.tzh * 3600 + found.tzm * 60)

    def days(self) -> int:
        return days_from_civil(self.year, self.month, self.day)


def _moment(text: str, template: str) -> _Moment:
    return _Moment(text, _Scanner(text, date_template(template)).scan())


def to_date(text: str, template: str) -> int:
    """to_date(text, text). Raises 22007, 22008, 0A000."""
    moment = _moment(text, template)
    moment.offset()
    days = moment.days()
    if not MIN_DATE <= days < END_DATE:
        raise SqlError("22008", f'date out of range: "{text}"')
    return days


def to_timestamp(context: CallContext, text: str, template: str) -> int:
    """to_timestamp(text, text), in the session's zone unless the input has an offset. Raises 22007, 22008, 0A000."""
    moment = _moment(text, template)
    offset = moment.offset()
    local = moment.days() * USECS_PER_DAY + moment.microseconds
    if offset is None:
        value = to_utc(check_timestamp(local), find_zone(context.timezone))
    else:
        value = check_timestamp(local - offset * USECS_PER_SECOND)
    return round_to_precision(value, moment.found.ff) if moment.found.ff else value


implement("to_date", to_date)
implement("to_timestamp", to_timestamp, needs_context=True)
