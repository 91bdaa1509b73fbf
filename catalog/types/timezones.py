"""Time zones and their offsets, from the system's TZif files, POSIX strings and PostgreSQL's abbreviations.

A `Zone` has the list of its transitions (from the file) and the rule after the last one (the POSIX string at the file's
end), so a bisection finds an offset. In addition there are PostgreSQL's rules:

    before the first transition     the first type of the file (local mean time)
    a local time in a gap           the offset before the transition
    a local time that occurs twice  the offset after the transition
    names                           any letter case

Seconds here are Unix seconds (1970), east of Greenwich is positive.
"""

from __future__ import annotations

import os
import re
import struct
import zoneinfo
from bisect import bisect_right
from dataclasses import dataclass
from functools import cache
from importlib import resources

from catalog.errors import SqlError
from catalog.text_caches import remembering

_DAY = 86400
_UNIX_TO_CIVIL = 719468  # days from 0000-03-01 to 1970-01-01


@dataclass(frozen=True, slots=True)
class Offset:
    """The offset between two transitions."""

    seconds: int  # east of Greenwich
    daylight: bool
    abbreviation: str


UTC_OFFSET = Offset(0, False, "UTC")


@dataclass(frozen=True, slots=True)
class Change:
    """A day of the year on which a POSIX rule changes the offset: 'M3.2.0/2', 'J60' or '59'."""

    kind: str  # M month.week.weekday, J day 1..365 without leap days, N day 0..365
    month: int
    week: int
    day: int
    seconds: int  # after local midnight

    def local_seconds(self, year: int) -> int:
        """Returns the time of the change in `year`, in Unix seconds of local time."""
        first = _days(year, 1, 1)
        if self.kind == "N":
            day = first + self.day
        elif self.kind == "J":
            day = first + self.day - 1 + (1 if _leap(year) and self.day >= 60 else 0)
        else:
            month_start = _days(year, self.month, 1)
            day = month_start + (self.day - (month_start + 4)) % 7 + 7 * (self.week - 1)
            next_month = _days(year + self.month // 12, self.month % 12 + 1, 1)
            while day >= next_month:
                day -= 7
        return day * _DAY + self.seconds


@dataclass(frozen=True, slots=True)
class Rule:
    """A POSIX TZ string: a fixed offset, or two that alternate every year."""

    standard: Offset
    daylight: Offset | None = None
    start: Change | None = None
    end: Change | None = None

    def transitions(self, year: int) -> list[tuple[int, Offset]]:
        """Returns the changes of one year in order: Unix seconds, and the new offset."""
        if self.daylight is None or self.start is None or self.end is None:
            return []
        return sorted(
            (
                (self.start.local_seconds(year) - self.standard.seconds, self.daylight),
                (self.end.local_seconds(year) - self.daylight.seconds, self.standard),
            ),
            key=lambda change: change[0],
        )


def _leap(year: int) -> bool:
    return year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)


def _days(year: int, month: int, day: int) -> int:
    """Returns days since 1970-01-01 in the proleptic Gregorian calendar."""
    year -= month <= 2
    cycle, of_cycle = divmod(year, 400)
    day_of_year = (153 * (month + (-3 if month > 2 else 9)) + 2) // 5 + day - 1
    return cycle * 146097 + of_cycle * 365 + of_cycle // 4 - of_cycle // 100 + day_of_year - _UNIX_TO_CIVIL


def _year_of(seconds: int) -> int:
    """Returns the year of a Unix second (in UTC), or near the ends of a year a neighbouring one: callers also use the
    neighbours."""
    return 1970 + (seconds * 400) // (146097 * _DAY)


class Zone:
    """One time zone. `name` is the file's name."""

    def __init__(
        self, name: str, times: list[int], offsets: list[Offset], first: Offset, before: Offset, rule: Rule | None
    ) -> None:
        self.name = name
        self._times = times
        self._offsets = offsets  # from times[i] on
        self._first = first  # before the first transition
        self._before = before  # the same in PostgreSQL's search for the next transition, which differs
        self._rule = rule
        self._varying = rule if rule is not None and rule.daylight is not None else None
        self._rule_years: dict[int, list[tuple[int, Offset]]] = {}
        if rule is not None and rule.daylight is None and not times:
            self.fixed: Offset | None = rule.standard
        else:
            self.fixed = first if not times and self._varying is None else None

    def at(self, seconds: int) -> Offset:
        """Returns the offset at a Unix second."""
        times = self._times
        if not times or seconds >= times[-1]:
            if self._varying is not None:
                return self._at_by_rule(seconds)
            return self._offsets[-1] if times else self._first
        index = bisect_right(times, seconds)
        return self._offsets[index - 1] if index else self._first

    def _near(self, seconds: int) -> list[tuple[int, Offset]]:
        """Returns the rule's changes in the years around a Unix second, in order."""
        year = _year_of(seconds)
        found = self._rule_years.get(year)
        if found is None:
            assert self._varying is not None
            found = [change for near in range(year - 1, year + 3) for change in self._varying.transitions(near)]
            self._rule_years[year] = found
        return found

    def _at_by_rule(self, seconds: int) -> Offset:
        held = self._offsets[-1] if self._offsets else self._first
        for time, offset in self._near(seconds):
            if time > seconds:
                break
            held = offset
        return held

    def next_transition(self, seconds: int) -> tuple[Offset, int, Offset] | None:
        """Returns the first transition after a Unix second: old offset, Unix seconds, new offset. None if there is
        none."""
        times = self._times
        index = bisect_right(times, seconds)
        if index < len(times):
            return (self._offsets[index - 1] if index else self._before), times[index], self._offsets[index]
        if self._varying is not None:
            last = times[-1] if times else None
            for time, offset in self._near(seconds):
                if time > seconds and (last is None or time > last):
                    return self.at(time - 1), time, offset
        return None

    def local_offset(self, local_seconds: int) -> int:
        """Returns the offset of a local time (Unix seconds as if it were UTC)."""
        if self.fixed is not None:
            return self.fixed.seconds
        return self._determine(local_seconds)[0].seconds

    def _determine(self, local_seconds: int) -> tuple[Offset, int]:
        day_before = local_seconds - _DAY
        found = self.next_transition(day_before)
        if found is None:
            offset = self.at(day_before)
            return offset, local_seconds - offset.seconds
        before, boundary, after = found
        if_before, if_after = local_seconds - before.seconds, local_seconds - after.seconds
        if if_before < boundary and if_after < boundary:
            return before, if_before
        if if_before >= boundary and if_after >= boundary:
            return after, if_after
        return (before, if_before) if if_before > if_after else (after, if_after)

    def abbreviation_offset(self, abbreviation: str, local_seconds: int) -> int:
        """Returns the offset of an abbreviation in this zone near a local time; for an unknown abbreviation, the zone's
        offset."""
        return self.abbreviation_offset_at(abbreviation, self._determine(local_seconds)[1])

    def abbreviation_offset_at(self, abbreviation: str, utc: int) -> int:
        """Returns the same near an instant (Unix seconds): the last offset of the abbreviation up to then, otherwise
        its first later one."""
        own, name = self.at(utc), abbreviation.upper()
        if own.abbreviation == name:
            return own.seconds
        index = bisect_right(self._times, utc)
        for offset in [*reversed(self._offsets[:index]), self._first, *self._offsets[index:]]:
            if offset.abbreviation == name:
                return offset.seconds
        return own.seconds


_POSIX = re.compile(
    r"(?P<std><[A-Za-z0-9+:-]+>|[^\d,+<>-]{3,})(?P<std_off>[+-]?\d{1,3}(?::\d{1,2}(?::\d{1,2})?)?)"
    r"(?:(?P<dst><[A-Za-z0-9+-]+>|[^\d,+<>-]{3,})(?P<dst_off>[+-]?\d{1,3}(?::\d{1,2}(?::\d{1,2})?)?)?"
    r"(?:[,;](?P<start>[^,;]+)[,;](?P<end>[^,;]+))?)?\Z",
    re.ASCII,
)
_CHANGE = re.compile(r"(?:M(\d+)\.(\d+)\.(\d+)|J(\d+)|(\d+))(?:/([+-]?\d+(?::\d+(?::\d+)?)?))?\Z", re.ASCII)


def _posix_seconds(text: str) -> int:
    sign = -1 if text[0] == "-" else 1
    hours, minutes, seconds = ([*text.lstrip("+-").split(":"), "0", "0"])[:3]
    return sign * (int(hours) * 3600 + int(minutes) * 60 + int(seconds))


def _parse_change(text: str) -> Change | None:
    match = _CHANGE.match(text)
    if match is None:
        return None
    month, week, weekday, julian, day, time = match.groups()
    seconds = _posix_seconds(time) if time else 7200
    if month:
        valid = 1 <= int(month) <= 12 and 1 <= int(week) <= 5 and int(weekday) <= 6
        return Change("M", int(month), int(week), int(weekday), seconds) if valid else None
    if julian:
        return Change("J", 0, 0, int(julian), seconds) if 1 <= int(julian) <= 365 else None
    return Change("N", 0, 0, int(day), seconds) if int(day) <= 365 else None


def parse_posix(text: str) -> Rule | None:
    """Parses a POSIX TZ string ('EST5EDT,M3.2.0,M11.1.0', where positive is west); None for other texts."""
    match = _POSIX.match(text)
    if match is None:
        return None
    standard = Offset(-_posix_seconds(match["std_off"]), False, match["std"].strip("<>"))
    if not match["dst"]:
        return Rule(standard)
    seconds = -_posix_seconds(match["dst_off"]) if match["dst_off"] else standard.seconds + 3600
    start = _parse_change(match["start"] or "M3.2.0")
    end = _parse_change(match["end"] or "M11.1.0")
    if start is None or end is None:
        return None
    return Rule(standard, Offset(seconds, True, match["dst"].strip("<>")), start, end)


def _read_tzif(name: str, data: bytes) -> Zone:
    """Reads the 64-bit part of a TZif file (RFC 8536)."""
    counts = struct.unpack_from(">6l", data, 20)
    utc_count, std_count, leap_count, time_count, type_count, char_count = counts
    first_size = time_count * 5 + type_count * 6 + char_count + leap_count * 8 + std_count + utc_count
    position = 44 + first_size
    utc_count, std_count, leap_count, time_count, type_count, char_count = struct.unpack_from(
        ">6l", data, position + 20
    )
    position += 44
    times = list(struct.unpack_from(f">{time_count}q", data, position))
    position += 8 * time_count
    indexes = data[position : position + time_count]
    position += time_count
    raw = [struct.unpack_from(">lBB", data, position + 6 * index) for index in range(type_count)]
    position += 6 * type_count
    characters = data[position : position + char_count]
    position += char_count + 12 * leap_count + std_count + utc_count
    types = [
        Offset(seconds, bool(daylight), characters[start : characters.index(0, start)].decode("ascii"))
        for seconds, daylight, start in raw
    ]
    footer = data[position:].strip(b"\n").decode("ascii")
    before = next((offset for offset in types if not offset.daylight), types[0])
    return Zone(name, times, [types[index] for index in indexes], types[0], before, parse_posix(footer))


@cache
def _zone_names() -> dict[str, str]:
    """Returns the names of the system's zone files, by the lower-case name."""
    return {name.lower(): name for name in sorted(zoneinfo.available_timezones())}


def _read_file(name: str) -> bytes | None:
    for directory in zoneinfo.TZPATH:
        path = os.path.join(directory, name)
        if os.path.isfile(path):
            with open(path, "rb") as file:
                return file.read()
    package, _, leaf = ("tzdata.zoneinfo/" + name).replace("/", ".").rpartition(".")
    try:
        return resources.files(package).joinpath(leaf).read_bytes()
    except (ModuleNotFoundError, FileNotFoundError):
        return None


def offset_zone_name(seconds: int) -> str:
    """Returns the POSIX string of a zone with a fixed offset in seconds east, as SHOW TimeZone does: <+02>-02."""
    minutes, rest = divmod(abs(seconds), 60)
    text = f"{minutes // 60:02d}"
    if minutes % 60 or rest:
        text += f":{minutes % 60:02d}" + (f":{rest:02d}" if rest else "")
    east, west = ("-", "+") if seconds < 0 else ("+", "-")
    return f"<{east}{text}>{west}{text}"


# POSIX strings with a too short name or no name: '+02:00' is west of Greenwich too.
_SHORT_POSIX = re.compile(r"[A-Za-z]{0,2}([+-]?)(\d{1,3})(?::(\d{1,2}))?(?::(\d{1,2}))?", re.ASCII)
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_+-]*(?:/[A-Za-z0-9_+-]+)*\Z")


@remembering(2048)
def zone_or_none(name: str) -> Zone | None:
    """Returns the zone of an IANA name (in any letter case) or of a POSIX string; None for other names."""
    if name == "UTC":
        return Zone("UTC", [], [], UTC_OFFSET, UTC_OFFSET, None)
    if name.upper() == "GMT":
        offset = Offset(0, False, "GMT")
        return Zone("GMT", [], [], offset, offset, None)
    if _NAME.match(name):
        spelling = _zone_names().get(name.lower())
        data = _read_file(spelling) if spelling else None
        if spelling and data is not None and data[:4] == b"TZif" and data[4:5] >= b"2":
            return _read_tzif(spelling, data)
    if match := _SHORT_POSIX.fullmatch(name):
        sign, hours, minutes, seconds = match.groups()
        west = int(hours) * 3600 + int(minutes or 0) * 60 + int(seconds or 0)
        offset = Offset(west if sign == "-" else -west, False, "")
        return Zone(name.upper(), [], [], offset, offset, None)
    rule = parse_posix(name.upper())
    if rule is None:
        return None
    return Zone(name.upper(), [], [], rule.standard, rule.standard, rule)


def find_zone(name: str) -> Zone:
    """Returns the zone of a name. Raises 22023 for an unknown name."""
    found = zone_or_none(name)
    if found is None:
        raise SqlError("22023", f'time zone "{name}" not recognized')
    return found


@dataclass(frozen=True, slots=True)
class Abbreviation:
    """An abbreviation in a date: a fixed offset, or a zone whose offset depends on the date."""

    seconds: int  # east of Greenwich
    daylight: bool
    zone: str | None = None


# Abbreviations whose offset has changed (timezonesets/Default of PostgreSQL 15).
_DYNAMIC = {
    "America/Argentina/Buenos_Aires": "ART ARST",
    "America/Santiago": "CLT",
    "America/Guyana": "GYT",
    "America/Asuncion": "PYT",
    "America/Caracas": "VET",
    "Antarctica/Davis": "DAVT",
    "Antarctica/Mawson": "MAWT",
    "Asia/Yerevan": "AMST",
    "Asia/Anadyr": "ANAST ANAT",
    "Asia/Baku": "AZST AZT",
    "Asia/Tbilisi": "GEST GET",
    "Asia/Irkutsk": "IRKST IRKT",
    "Asia/Bishkek": "KGT",
    "Asia/Krasnoyarsk": "KRAST KRAT",
    "Asia/Colombo": "LKT",
    "Asia/Magadan": "MAGST MAGT",
    "Asia/Novosibirsk": "NOVST NOVT",
    "Asia/Omsk": "OMSST OMST",
    "Asia/Kamchatka": "PETST PETT",
    "Asia/Singapore": "SGT",
    "Asia/Ashgabat": "TMT",
    "Asia/Ulaanbaatar": "ULAT",
    "Asia/Vladivostok": "VLAST VLAT",
    "Asia/Yakutsk": "YAKST YAKT",
    "Asia/Yekaterinburg": "YEKT",
    "Atlantic/Stanley": "FKST FKT",
    "Australia/Lord_Howe": "LHDT",
    "Europe/Moscow": "MSK",
    "Europe/Volgograd": "VOLT",
    "Indian/Chagos": "IOT",
    "Pacific/Rarotonga": "CKT",
    "Pacific/Easter": "EASST EAST",
    "Pacific/Kosrae": "KOST",
    "Pacific/Kiritimati": "LINT",
    "Pacific/Niue": "NUT",
    "Pacific/Fakaofo": "TKT",
}


@cache
def abbreviations() -> dict[str, Abbreviation]:
    """Returns PostgreSQL's default set of abbreviations, by the lower-case abbreviation."""
    dynamic = {name.lower(): zone for zone, names in _DYNAMIC.items() for name in names.split()}
    text = resources.files("catalog").joinpath("data/pg_timezone_abbrevs.tsv").read_text(encoding="utf-8")
    found = {}
    for line in text.splitlines()[1:]:
        name, seconds, daylight = line.split("\t")
        found[name.lower()] = Abbreviation(int(seconds), daylight == "t", dynamic.get(name.lower()))
    return found
