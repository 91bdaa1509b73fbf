"""Reads dates and times in every form that PostgreSQL accepts (PostgreSQL 16 manual, appendix B.1).

There are two steps, as in the manual. `split_fields` splits the text into fields by their characters:

    '2001-02-16 20:38:40.5 America/New_York PM'  ->  DATE NUMBER? TIME STRING/DATE STRING
    DATE     digits with - / . in them, or a word with punctuation        2001-02-16  jan-1-99  america/new_york
    TIME     digits with :                                                20:38:40.5
    NUMBER   digits, perhaps with one point                               20010216  2001.360
    ZONE     a sign and digits                                            -8  +05:30
    STRING   letters                                                      january  pm  t  est
    SPECIAL  a sign and letters                                           -infinity

`_Decoder` then interprets each field, from left to right: `known` is the set of units that have a value, and a field
that sets one of them again is an error. The meaning of a bare number depends on the known units and on the date order
of the session. A full zone name is applied at the end, when date and time are known.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field

from catalog.errors import SqlError
from catalog.types.base import FormatSettings
from catalog.types.datetime import (
    JULIAN_EPOCH,
    SECONDS_PER_DAY,
    UNIX_EPOCH_DAYS,
    USECS_PER_DAY,
    USECS_PER_SECOND,
    civil_from_days,
    days_from_civil,
    days_in_month,
    split_time,
    to_local,
    transaction_time,
)
from catalog.types.timezones import Zone, abbreviations, find_zone, zone_or_none

DATE, TIME, NUMBER, ZONE, STRING, SPECIAL = "date", "time", "number", "zone", "string", "special"

# Units of `known`, as bits: a field must not set a unit twice.
YEAR, MONTH, DAY, DOY, HOUR, MINUTE, SECOND, MILLISECOND, MICROSECOND, TZ, DTZ, ISO_T, AMPM, ADBC, DOW, OTHER = (
    1 << bit for bit in range(16)
)
FULL_DATE = YEAR | MONTH | DAY
FULL_TIME = HOUR | MINUTE | SECOND | MILLISECOND | MICROSECOND
SECONDS = SECOND | MILLISECOND | MICROSECOND
_MAX_FIELDS = 25
_TIME_ROOM, _DATE_ROOM, INTERVAL_ROOM = 129, 153, 256  # PostgreSQL's buffers: the fields, with a byte after each
_MAX_ZONE_HOURS = 15
_INT_MAX = 2**31 - 1


class BadFormatError(Exception):
    """The text is not a date or time: 22007."""


class FieldOverflowError(Exception):
    """A field is out of range: 22008. `order`: day and month may have been exchanged."""

    def __init__(self, order: bool = False) -> None:
        super().__init__()
        self.order = order


class ZoneOverflowError(Exception):
    """A zone's displacement is out of range: 22009."""


def sql_error(error: Exception, type_name: str, text: str) -> SqlError:
    """Returns the client's error for one of the exceptions above."""
    if isinstance(error, FieldOverflowError):
        hint = 'Perhaps you need a different "datestyle" setting.' if error.order else None
        return SqlError("22008", f'date/time field value out of range: "{text}"', hint=hint)
    if isinstance(error, ZoneOverflowError):
        return SqlError("22009", f'time zone displacement out of range: "{text}"')
    return SqlError("22007", f'invalid input syntax for type {type_name}: "{text}"')


# --- words -----------------------------------------------------------------------------------------------------------
_MONTHS = [
    "january",
    "february",
    "march",
    "april",
    "may",
    "june",
    "july",
    "august",
    "september",
    "october",
    "november",
    "december",
]
_DAYS = ["sunday", "monday", "tuesday", "wednesday", "thursday", "friday", "saturday"]


def _words() -> dict[str, tuple[str, int | str]]:
    words: dict[str, tuple[str, int | str]] = {}
    for number, name in enumerate(_MONTHS, 1):
        words[name] = words[name[:3]] = ("month", number)
    words["sept"] = ("month", 9)
    for number, name in enumerate(_DAYS):
        words[name] = words[name[:3]] = ("dow", number)
    words |= {"tues": ("dow", 2), "weds": ("dow", 3), "thur": ("dow", 4), "thurs": ("dow", 4)}
    words |= {word: ("reserved", word) for word in ("now", "today", "tomorrow", "yesterday", "allballs", "epoch")}
    words |= {"infinity": ("reserved", "infinity"), "-infinity": ("reserved", "-infinity")}
    words |= {"ad": ("era", "ad"), "bc": ("era", "bc"), "am": ("ampm", "am"), "pm": ("ampm", "pm")}
    words |= {"at": ("ignore", 0), "on": ("ignore", 0), "dst": ("dst", 3600), "t": ("t", "time")}
    units = {"d": "day", "h": "hour", "j": "julian", "jd": "julian", "julian": "julian", "m": "month", "mm": "minute"}
    units |= {"s": "second", "y": "year", "dow": "dow", "doy": "doy", "isodow": "isodow", "isoyear": "isoyear"}
    return words | {word: ("unit", unit) for word, unit in units.items()}


WORDS = _words()
_TOKEN_LENGTH = 10  # significant letters of a word


# --- step one --------------------------------------------------------------------------------------------------------
_FIELD = re.compile(
    r"(?P<time>\d+:[\d:.]*)"
    r"|(?P<date>\d+(?:(?P<mark>[-/.])(?:\d+(?:(?P=mark)[\d\-/.]*)?|(?=\D|\Z)[A-Za-z0-9\-/.]*)))"
    r"|(?P<number>\d+|\.\d*)"
    r"|(?P<word>[A-Za-z]+)"
    r"|(?P<sign>[+-])\s*(?:(?P<zone>\d[\d:.\-]*)|(?P<special>[A-Za-z]+)|(?P<bad>))"
    r"|(?P<skip>[!-/:-@\[-`{-~])",
    re.ASCII,
)
_DOTTED = re.compile(r"\d+\.\d*\Z", re.ASCII)
_THREE_PART = {
    mark: re.compile(rf"\d+\{mark}(?:\d+(?:\{mark}[\d\{mark}]*)?|[A-Za-z0-9\{mark}]*)", re.ASCII) for mark in "-/."
}
_NAME_TAIL = re.compile(r"[A-Za-z0-9+\-/_.:]+", re.ASCII)
_SPACE = re.compile(r"[ \t\n\v\f\r]+")


def split_fields(text: str, room: int) -> list[tuple[str, str]]:
    """Returns pairs of kind and text, with letters in lower case. Raises BadFormatError."""
    fields: list[tuple[str, str]] = []
    position, end = 0, len(text)
    while position < end:
        space = _SPACE.match(text, position)
        if space:
            position = space.end()
            continue
        match = _FIELD.match(text, position)
        if match is None:
            raise BadFormatError
        kind = match.lastgroup
        if match["time"] is not None:
            found = (TIME, match[0])
            position = match.end()
        elif match["date"] is not None:
            whole = _THREE_PART[match["mark"]].match(text, position)
            assert whole is not None
            found = (NUMBER if _DOTTED.match(whole[0]) else DATE, whole[0].lower())
            position = whole.end()
        elif match["word"] is not None:
            found, position = _word_field(text, match[0].lower(), position, match.end())
        elif match["sign"] is not None:
            if match["bad"] is not None:
                raise BadFormatError
            found = (SPECIAL if match["special"] else ZONE, match["sign"] + (match["zone"] or match["special"].lower()))
            position = match.end()
        elif kind == "number":
            found = (NUMBER, match[0])
            position = match.end()
        else:
            position = match.end()
            continue
        fields.append(found)
        room -= len(found[1]) + 1
        if len(fields) > _MAX_FIELDS or room <= 0:
            raise BadFormatError
    return fields


def _word_field(text: str, word: str, start: int, end: int) -> tuple[tuple[str, str], int]:
    """Reads a field that begins with letters. With punctuation or digits after them ('america/new_york', 'jan-01',
    'est5edt') it is a DATE field."""
    following = text[end : end + 1]
    joined = following in ("-", "/", ".")
    if not joined and following and (following == "+" or (following.isdigit() and following.isascii())):
        joined = word[:_TOKEN_LENGTH] not in WORDS
    if not joined:
        return (STRING, word), end
    tail = _NAME_TAIL.match(text, start)
    assert tail is not None
    return (DATE, tail[0].lower()), tail.end()


# --- step two --------------------------------------------------------------------------------------------------------
@dataclass(slots=True)
class Moment:
    """The content of a text: a local time with its offset, or a special value."""

    special: str = ""  # 'epoch', 'infinity', '-infinity', or '' for the fields below
    year: int = 0
    month: int = 0
    day: int = 0
    hour: int = 0
    minute: int = 0
    second: int = 0
    microsecond: int = 0
    offset: int = 0  # seconds east

    def days(self) -> int:
        return days_from_civil(self.year, self.month, self.day)

    def time(self) -> int:
        """Returns the microseconds since midnight; up to 24:00:00."""
        return ((self.hour * 60 + self.minute) * 60 + self.second) * USECS_PER_SECOND + self.microsecond

    def local_seconds(self) -> int:
        """Returns Unix seconds of the local time as if it were UTC."""
        seconds = (self.hour * 60 + self.minute) * 60 + self.second
        return (self.days() + UNIX_EPOCH_DAYS) * SECONDS_PER_DAY + seconds


_INTEGER = re.compile(r"[+-]?\d+", re.ASCII)


def _integer(text: str) -> tuple[int, str]:
    """Returns the leading integer and the rest. Raises FieldOverflowError above 32 bits, BadFormatError for no
    integer."""
    match = _INTEGER.match(text)
    if match is None:
        raise BadFormatError
    if len(match[0]) > 40 or not -_INT_MAX - 1 <= int(match[0]) <= _INT_MAX:
        raise FieldOverflowError
    return int(match[0]), text[match.end() :]


def fraction_seconds(text: str) -> float:
    """Reads '.5' as seconds; '.' is 0. Raises BadFormatError."""
    if text == ".":
        return 0.0
    if not text[1:].isdecimal() or not text.isascii():
        raise BadFormatError
    return float(text)


def fraction_microseconds(text: str) -> int:
    """Reads '.123' as 123000 microseconds, rounded half to even, as rint does."""
    return round(fraction_seconds(text) * USECS_PER_SECOND)


def parse_zone(text: str) -> int:
    """Reads '+05:30', '-8' or '+0530' as seconds east. Raises ZoneOverflowError, BadFormatError."""
    if text[:1] not in ("+", "-"):
        raise BadFormatError
    try:
        hours, rest = _integer(text[1:]) if text[1:2].isdigit() else (0, text[1:])
        minutes = seconds = 0
        if rest.startswith(":"):
            minutes, rest = _integer(rest[1:]) if rest[1:2].isdigit() else (0, rest[1:])
            if rest.startswith(":"):
                seconds, rest = _integer(rest[1:]) if rest[1:2].isdigit() else (0, rest[1:])
        elif not rest and len(text) > 3:
            hours, minutes = divmod(hours, 100)
    except FieldOverflowError:
        raise ZoneOverflowError from None
    if hours > _MAX_ZONE_HOURS or minutes > 59 or seconds > 59:
        raise ZoneOverflowError
    if rest:
        raise BadFormatError
    offset = (hours * 60 + minutes) * 60 + seconds
    return -offset if text[0] == "-" else offset


def parse_clock(text: str) -> tuple[int, int, int, int]:
    """Reads '20:38:40.5' as hour, minute, second, microsecond. Raises BadFormatError, FieldOverflowError."""
    hour, rest = _integer(text)
    if not rest.startswith(":"):
        raise BadFormatError
    minute, rest = _integer(rest[1:]) if rest[1:2].isdigit() else (0, rest[1:])
    second = microsecond = 0
    if rest.startswith("."):  # minutes and seconds
        microsecond = fraction_microseconds(rest)
        hour, minute, second = 0, hour, minute
    elif rest.startswith(":"):
        second, rest = _integer(rest[1:]) if rest[1:2].isdigit() else (0, rest[1:])
        if rest.startswith("."):
            microsecond = fraction_microseconds(rest)
        elif rest:
            raise BadFormatError
    elif rest:
        raise BadFormatError
    if minute > 59 or second > 60:
        raise FieldOverflowError
    return hour, minute, second, microsecond


@dataclass(slots=True)
class _Decoder:
    """Step two for one text. `date_wanted` is false for time and timetz, whose texts mostly have no date."""

    settings: FormatSettings
    fields: list[tuple[str, str]]
    date_wanted: bool
    zone: Zone
    moment: Moment = field(default_factory=Moment)
    known: int = 0
    label: str = ""  # the unit that the previous field announced: 'j', 'y', 't' ...
    is_julian: bool = False
    two_digits: bool = False
    text_month: bool = False
    bc: bool = False
    ampm: str = ""
    day_of_year: int = 0
    named_zone: Zone | None = None
    dynamic: tuple[str, Zone] | None = None
    finished: bool = False  # a special value such as 'infinity' needs no date

    def run(self) -> Moment:
        for index in range(len(self.fields)):
            new = self._field(index)
            if new & self.known:
                raise BadFormatError
            self.known |= new
        self._validate_date()
        self._apply_ampm()
        if self.date_wanted:
            self._finish_datetime()
        else:
            self._finish_time()
        return self.moment

    @property
    def _date_known(self) -> int:
        """Returns the known units for the reading of numbers: for time and timetz, with the date."""
        return self.known if self.date_wanted else self.known | FULL_DATE

    # --- fields ------------------------------------------------------------------------------------------------
    def _field(self, index: int) -> int:
        kind, text = self.fields[index]
        if kind == DATE:
            return self._date_field(index, text)
        if kind == TIME:
            if self.label:
                if self.label != "time":
                    raise BadFormatError
                self.label = ""
            self._clock(text)
            return FULL_TIME
        if kind == ZONE:
            self.moment.offset = parse_zone(text)
            return TZ
        if kind == NUMBER:
            return self._label(text) if self.label else self._number_field(index, text)
        return self._word(index, text)

    def _clock(self, text: str) -> None:
        moment = self.moment
        moment.hour, moment.minute, moment.second, moment.microsecond = parse_clock(text)
        self._check_day_end()

    def _check_day_end(self) -> None:
        moment = self.moment
        if not 0 <= moment.hour <= 24 or not 0 <= moment.minute < 60 or not 0 <= moment.second <= 60:
            raise FieldOverflowError
        if moment.time() > USECS_PER_DAY:
            raise FieldOverflowError

    def _date_field(self, index: int, text: str) -> int:
        if self.date_wanted:
            if self.label == "julian":
                self.label = ""
                value, rest = _integer(text)
                self._set_julian(value)
                self.moment.offset = parse_zone(rest)
                return FULL_DATE | FULL_TIME | TZ
            if not self.label and (self.known & (MONTH | DAY)) != MONTH | DAY:
                return self._decode_date(text)
            if self.label:
                if self.label != "time":
                    raise BadFormatError
                self.label = ""
                return self._time_with_zone(text)
            return self._time_with_zone(text) if text[0].isdigit() else self._full_zone(text)
        kinds = [kind for kind, _ in self.fields]
        if index == 0 and len(kinds) >= 2 and (kinds[-1] == DATE or kinds[1] == TIME):
            return self._decode_date(text)
        if self.label == "time":
            self.label = ""
        return self._time_with_zone(text) if text[0].isdigit() else self._full_zone(text)

    def _time_with_zone(self, text: str) -> int:
        """Reads '040506-08', a time without separators and its zone."""
        if self.known & FULL_TIME == FULL_TIME:
            raise BadFormatError
        clock, sign, zone = text.partition("-")
        if not sign:
            raise BadFormatError
        self.moment.offset = parse_zone(sign + zone)
        return self._run_together(clock, self._date_known) | TZ

    def _full_zone(self, text: str) -> int:
        self.named_zone = find_zone(text)
        return TZ

    def _label(self, text: str) -> int:
        """Reads a number after a label such as 'y', 'm', 'd', 'j' or 't'."""
        label, self.label = self.label, ""
        value, rest = _integer(text) if text[0] != "." else (0, text)
        if rest and (rest[0] != "." or label not in ("julian", "time", "second")):
            raise BadFormatError
        moment = self.moment
        if label == "julian":
            if value < 0:
                raise FieldOverflowError
            self._set_julian(value)
            if not rest:
                return FULL_DATE
            of_day = math.floor(fraction_seconds(rest) * USECS_PER_DAY)
            moment.hour, moment.minute, moment.second, moment.microsecond = split_time(of_day)
            return FULL_DATE | FULL_TIME
        if label == "time":
            new = self._run_together(text, self.known | FULL_DATE)
            if new != FULL_TIME:
                raise BadFormatError
            return new
        if label == "month" and self.known & MONTH and self.known & HOUR:
            label = "minute"
        if label not in ("year", "month", "day", "hour", "minute", "second"):
            raise BadFormatError
        setattr(moment, label, value)
        if label == "second":
            if rest:
                moment.microsecond = fraction_microseconds(rest)
                return SECONDS
            return SECOND
        return {"year": YEAR, "month": MONTH, "day": DAY, "hour": HOUR, "minute": MINUTE}[label]

    def _set_julian(self, value: int) -> None:
        self.moment.year, self.moment.month, self.moment.day = civil_from_days(value - JULIAN_EPOCH)
        self.is_julian = True

    def _number_field(self, index: int, text: str) -> int:
        whole, point, _ = text.partition(".")
        if self.date_wanted:
            if point and not self.known & FULL_DATE:
                return self._decode_date(text)
            if point and len(whole) > 2:
                return self._run_together(text, self.known)
            if len(text) >= 6 and not (self.known & FULL_DATE and self.known & FULL_TIME):
                return self._run_together(text, self.known)
            return self._number(text, self.known, self.text_month)[0]
        if point:
            if index == 0 and len(self.fields) >= 2 and self.fields[-1][0] == DATE:
                return self._decode_date(text)
            if len(whole) > 2:
                return self._run_together(text, self.known | FULL_DATE)
            raise BadFormatError
        if len(text) > 4:
            return self._run_together(text, self.known | FULL_DATE)
        return self._number(text, self.known | FULL_DATE, False)[0]

    # --- numbers -----------------------------------------------------------------------------------------------
    def _decode_date(self, text: str) -> int:
        """Reads a date in one field: words first, because they are always months."""
        parts = re.findall(r"[0-9]+|[a-z]+|[^0-9a-z]+", text)
        if not parts[-1][0].isalnum() and len(parts[-1]) > 1:  # one separator at the end is allowed
            raise BadFormatError
        known, new, month_by_name = self.known, 0, False
        numbers = []
        for part in (part for part in parts if part[0].isalnum()):
            if part[0].isdigit():
                numbers.append(part)
                continue
            kind, value = WORDS.get(part[:_TOKEN_LENGTH], ("unknown", 0))
            if kind == "ignore":
                continue
            if kind != "month" or known & MONTH:
                raise BadFormatError
            self.moment.month = int(value)
            month_by_name = True
            known |= MONTH
            new |= MONTH
        for part in numbers:
            unit, month_by_name = self._number(part, known, month_by_name)
            if unit & known:
                raise BadFormatError
            known |= unit
            new |= unit
        if known & ~(DOY | TZ) != FULL_DATE:
            raise BadFormatError
        return new

    def _number(self, text: str, known: int, month_by_name: bool) -> tuple[int, bool]:
        """Reads one bare number, whose unit follows from the known units. Returns the units set, and
        `month_by_name`."""
        value, rest = _integer(text) if text[0] != "." else (0, text)
        if rest:
            if rest[0] != ".":
                raise BadFormatError
            if len(text) - len(rest) > 2:
                return self._run_together(text, known | FULL_DATE), month_by_name
            self.moment.microsecond = fraction_microseconds(rest)
        dated = known & FULL_DATE
        if len(text) == 3 and dated == YEAR and 1 <= value <= 366:
            self.day_of_year = value
            return DOY | MONTH | DAY, month_by_name
        if dated == FULL_DATE:
            return self._run_together(text, known), month_by_name
        unit = self._unit_of(len(text), dated, month_by_name)
        if unit == "day for year":  # 'DD-MON-YYYY' whose day was read as a year
            self.moment.day, self.moment.year = self.moment.year, value
            self.two_digits = False
            return DAY, month_by_name
        setattr(self.moment, unit, value)
        if unit == "year":
            self.two_digits = len(text) <= 2
        return {"year": YEAR, "month": MONTH, "day": DAY}[unit], month_by_name

    def _unit_of(self, length: int, dated: int, month_by_name: bool) -> str:
        order = self.settings.date_order
        if dated == 0:
            return "year" if length >= 3 or order == "YMD" else "day" if order == "DMY" else "month"
        if dated == MONTH and month_by_name:
            return "year" if length >= 3 or order == "YMD" else "day"
        if dated == YEAR | MONTH and month_by_name and length >= 3 and self.two_digits:
            return "day for year"
        units = {YEAR: "month", MONTH: "day", YEAR | MONTH: "day", DAY: "month", MONTH | DAY: "year"}
        if dated not in units:
            raise BadFormatError
        return units[dated]

    def _run_together(self, text: str, known: int) -> int:
        """Reads '20010216', '040506' or '0405': a date if none is known yet, otherwise a time."""
        moment = self.moment
        digits, point, fraction = text.partition(".")
        if point:
            moment.microsecond = fraction_microseconds(point + fraction)
        elif known & FULL_DATE != FULL_DATE and len(digits) >= 6:
            moment.day, moment.month = int(digits[-2:]), int(digits[-4:-2])
            moment.year = _integer(digits[:-4])[0]
            if len(digits) == 6:
                self.two_digits = True
            return FULL_DATE
        if known & FULL_TIME != FULL_TIME and len(digits) in (4, 6) and digits.isdecimal():
            moment.hour, moment.minute = int(digits[:2]), int(digits[2:4])
            moment.second = int(digits[4:] or 0)
            return FULL_TIME
        raise BadFormatError

    # --- words -------------------------------------------------------------------------------------------------
    def _word(self, index: int, text: str) -> int:
        abbreviation = abbreviations().get(text)
        if abbreviation is not None:
            if abbreviation.zone is not None:
                self.dynamic = (text, find_zone(abbreviation.zone))
            else:
                self.moment.offset = abbreviation.seconds
            return TZ
        kind, value = WORDS.get(text[:_TOKEN_LENGTH], ("unknown", 0))
        if kind == "ignore":
            return 0
        if kind == "reserved":
            return self._parse_reserved(str(value))
        if kind == "month":
            return self._month_name(int(value))
        if kind == "dst":
            self.moment.offset += int(value)
            return DTZ
        if kind == "ampm":
            self.ampm = str(value)
            return AMPM
        if kind == "era":
            self.bc = value == "bc"
            return ADBC
        if kind == "dow":
            return DOW if self.date_wanted else self._refuse()
        if kind == "unit":
            self.label = str(value)
            return 0
        if kind == "t":
            return self._iso_t(index)
        self.named_zone = zone_or_none(text)
        if self.named_zone is None:
            raise BadFormatError
        return TZ

    @staticmethod
    def _refuse() -> int:
        raise BadFormatError

    def _iso_t(self, index: int) -> int:
        if self.date_wanted and self.known & FULL_DATE != FULL_DATE:
            raise BadFormatError
        if index + 1 >= len(self.fields) or self.fields[index + 1][0] not in (NUMBER, TIME, DATE):
            raise BadFormatError
        self.label = "time"
        return 0

    def _month_name(self, number: int) -> int:
        if not self.date_wanted:
            raise BadFormatError
        moment = self.moment
        if self.known & MONTH and not self.text_month and not self.known & DAY and 1 <= moment.month <= 31:
            moment.day, moment.month = moment.month, number  # the number before it was the day
            self.text_month = True
            return DAY
        self.text_month = True
        moment.month = number
        return MONTH

    def _parse_reserved(self, word: str) -> int:
        moment = self.moment
        if word == "allballs":
            moment.hour = moment.minute = moment.second = moment.microsecond = moment.offset = 0
            return FULL_TIME | TZ
        if word == "now":
            self._set_now()
            return FULL_DATE | FULL_TIME | TZ if self.date_wanted else FULL_TIME
        if not self.date_wanted:
            raise BadFormatError
        if word in ("epoch", "infinity", "-infinity"):
            moment.special = word
            self.finished = True
            return OTHER
        today = to_local(transaction_time(self.settings), self.zone) // USECS_PER_DAY
        day = today + {"yesterday": -1, "today": 0, "tomorrow": 1}[word]
        moment.year, moment.month, moment.day = civil_from_days(day)
        self._forget_special()
        return FULL_DATE

    def _forget_special(self) -> None:
        """Resets a special value: the last of several such words is used."""
        self.finished = False
        self.moment.special = ""

    def _set_now(self) -> None:
        self._forget_special()
        now = transaction_time(self.settings)
        local = to_local(now, self.zone)
        days, of_day = divmod(local, USECS_PER_DAY)
        moment = self.moment
        moment.year, moment.month, moment.day = civil_from_days(days)
        moment.hour, moment.minute, moment.second, moment.microsecond = split_time(of_day)
        moment.offset = (local - now) // USECS_PER_SECOND

    # --- the end -----------------------------------------------------------------------------------------------
    def _validate_date(self) -> None:
        moment = self.moment
        if self.known & YEAR and not self.is_julian:
            if self.bc:
                if moment.year <= 0:
                    raise FieldOverflowError
                moment.year = 1 - moment.year
            elif self.two_digits:
                if moment.year < 0:
                    raise FieldOverflowError
                moment.year += 2000 if moment.year < 70 else 1900 if moment.year < 100 else 0
            elif moment.year <= 0:
                raise FieldOverflowError
        if self.known & DOY:
            first = days_from_civil(moment.year, 1, 1)
            moment.year, moment.month, moment.day = civil_from_days(first + self.day_of_year - 1)
        if self.known & MONTH and not 1 <= moment.month <= 12:
            raise FieldOverflowError(order=True)
        if self.known & DAY and not 1 <= moment.day <= 31:
            raise FieldOverflowError(order=True)
        if self.known & FULL_DATE == FULL_DATE and moment.day > days_in_month(moment.year, moment.month):
            raise FieldOverflowError

    def _apply_ampm(self) -> None:
        if not self.ampm:
            return
        if self.moment.hour > 12:
            raise FieldOverflowError
        if self.ampm == "am" and self.moment.hour == 12:
            self.moment.hour = 0
        elif self.ampm == "pm" and self.moment.hour != 12:
            self.moment.hour += 12

    def _finish_datetime(self) -> None:
        if self.finished:
            return
        if self.known & FULL_DATE != FULL_DATE:
            raise BadFormatError
        if self.known & DTZ and (self.named_zone or self.dynamic or not self.known & TZ):
            raise BadFormatError
        self._resolve_zone(self.moment.local_seconds())

    def _resolve_zone(self, local_seconds: int) -> None:
        if self.named_zone is not None:
            self.moment.offset = self.named_zone.local_offset(local_seconds)
        elif self.dynamic is not None:
            abbreviation, zone = self.dynamic
            self.moment.offset = zone.abbreviation_offset(abbreviation, local_seconds)
        elif not self.known & TZ:
            self.moment.offset = self.zone.local_offset(local_seconds)

    def _finish_time(self) -> None:
        self._check_day_end()
        if self.known & FULL_TIME != FULL_TIME:
            raise BadFormatError
        moment = self.moment
        if self.known & DTZ and (self.named_zone or self.dynamic or not self.known & TZ):
            raise BadFormatError
        dated = self.known & FULL_DATE
        if self.named_zone is not None and self.named_zone.fixed is None and dated != FULL_DATE:
            raise BadFormatError
        if dated not in (0, FULL_DATE) and not self.known & TZ:  # the session's zone may depend on the date
            raise BadFormatError
        if not dated:
            today = to_local(transaction_time(self.settings), self.zone) // USECS_PER_DAY
            moment.year, moment.month, moment.day = civil_from_days(today)
        self._resolve_zone(moment.local_seconds())


def parse_datetime(text: str, settings: FormatSettings, zone: Zone) -> Moment:
    """Reads a date with or without time and zone, for date, timestamp and timestamptz. Raises the exceptions above."""
    return _Decoder(settings, split_fields(text, _DATE_ROOM), True, zone).run()


def parse_time(text: str, settings: FormatSettings, zone: Zone) -> Moment:
    """Reads a time with or without zone, for time and timetz. Raises the exceptions above."""
    return _Decoder(settings, split_fields(text, _TIME_ROOM), False, zone).run()
