"""The results of .datetime() in a jsonpath: a date, time or timestamp, with the zone of the text if it has one.

Without a template, .datetime() accepts PostgreSQL's list of ISO 8601 formats (executeDateTimeMethod in
jsonpath_exec.c).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NoReturn

from catalog.errors import SqlError, not_supported
from catalog.types import oids
from catalog.types.date import DATE
from catalog.types.datetime import to_utc
from catalog.types.time import TIME, TIMETZ
from catalog.types.timestamp import TIMESTAMP, TIMESTAMPTZ
from catalog.types.timezones import find_zone

KINDS = {
    oids.DATE: "date",
    oids.TIME: "time without time zone",
    oids.TIMETZ: "time with time zone",
    oids.TIMESTAMP: "timestamp without time zone",
    oids.TIMESTAMPTZ: "timestamp with time zone",
}
_TYPES = {
    oids.DATE: DATE, oids.TIME: TIME, oids.TIMETZ: TIMETZ, oids.TIMESTAMP: TIMESTAMP, oids.TIMESTAMPTZ: TIMESTAMPTZ,
}  # fmt: skip
_FORM = re.compile(
    r"(?P<date>\d{1,7}-\d{1,2}-\d{1,2})?(?P<gap>[ T])?(?P<time>\d{1,2}:\d{1,2}:\d{1,2})?"
    r"(?P<zone> ?[+-]\d{1,2}(?::\d{1,2})?)?\Z",
    re.ASCII,
)
_DAY = 86_400_000_000


@dataclass(frozen=True, slots=True)
class Moment:
    """A date, time or timestamp. `value` is in the internal form of the type; `zone` is the text's zone in seconds west
    of UTC."""

    oid: int
    value: Any
    zone: int = 0


def read_moment(text: str) -> Moment | None:
    """Reads a text; None if it has none of the formats."""
    found = _FORM.match(text)
    if (
        found is None
        or not (found["date"] or found["time"])
        or bool(found["gap"]) != bool(found["date"] and found["time"])
    ):
        return None
    if found["zone"] and not found["time"]:
        return None
    zoned = bool(found["zone"])
    if not found["time"]:
        oid = oids.DATE
    elif found["date"]:
        oid = oids.TIMESTAMPTZ if zoned else oids.TIMESTAMP
    else:
        oid = oids.TIMETZ if zoned else oids.TIME
    zone = _zone_of(found["zone"]) if zoned else 0
    date, era = found["date"], None
    if date:
        year, _, day = date.partition("-")
        era = None if int(year) else "BC"
        date = f"{int(year) or 1:04}-{day}"
    plain = " ".join(part for part in (date, found["time"], _zone_text(zone) if zoned else None, era) if part)
    try:
        return Moment(oid, _TYPES[oid].input_function()(plain), zone)
    except SqlError:  # a text with a field out of range has none of the formats
        return None


def _zone_of(text: str) -> int:
    sign, rest = text.strip()[0], text.strip()[1:]
    hours, _, minutes = rest.partition(":")
    seconds = int(hours) * 3600 + int(minutes or 0) * 60
    return -seconds if sign == "+" else seconds


def _zone_text(zone: int) -> str:
    """Returns a zone as '+03:00', east of UTC."""
    hours, rest = divmod(abs(zone), 3600)
    return f"{'-' if zone > 0 else '+'}{hours:02}:{rest // 60:02}"


def show_moment(moment: Moment) -> str:
    """Returns the ISO 8601 text of a moment, as in JSON, with its own zone."""
    if moment.oid == oids.TIMESTAMPTZ:
        local = TIMESTAMP.text_encoder()(moment.value - moment.zone * 1_000_000).decode()
        return local.replace(" ", "T", 1) + _zone_text(moment.zone)
    if moment.oid == oids.TIMETZ:
        return TIME.text_encoder()(moment.value[0]).decode() + _zone_text(moment.zone)
    shown = _TYPES[moment.oid].text_encoder()(moment.value).decode()
    return shown if moment.oid == oids.DATE else shown.replace(" ", "T", 1)


def compare_moments(
    left: Moment, right: Moment, zone: str | None, no_zone: Callable[[int, int], NoReturn]
) -> int | None:
    """Returns -1, 0 or 1; None for a time and a date. `zone` is the session's; if it is None and necessary,
    `no_zone(from, to)` is called, which raises an error."""
    if (left.oid in oids.DATED) != (right.oid in oids.DATED):
        return None
    zoned = oids.TIMESTAMPTZ if left.oid in oids.DATED else oids.TIMETZ
    mixed = (left.oid == zoned) != (right.oid == zoned)
    if mixed and zone is None:
        plain = right if left.oid == zoned else left
        no_zone(plain.oid, zoned)
    one, other = _instant(left, zone if mixed else None), _instant(right, zone if mixed else None)
    return int(one > other) - int(one < other)


def _instant(moment: Moment, zone: str | None) -> Any:
    """Returns a number (or pair) with the order of the moments; local times are in `zone`."""
    value: Any = moment.value
    if moment.oid == oids.TIMESTAMPTZ:
        return value
    if moment.oid in (oids.DATE, oids.TIMESTAMP):
        local = value * _DAY if moment.oid == oids.DATE else value
        return local if zone is None else to_utc(local, find_zone(zone))
    if moment.oid == oids.TIMETZ:
        return value[0] + value[1] * 1_000_000, value[1]
    if zone is not None:
        not_supported("comparing times with and without zone in a jsonpath")
    return value
