"""AT TIME ZONE: timezone(text | interval, ...) and the zones of date_trunc and make_timestamptz.

As in PostgreSQL, a zone's name is an abbreviation ('EST', 'MSK'), or otherwise a zone ('America/New_York', in any
letter case), or otherwise a POSIX string, in which a positive sign is west: '+03' is three hours behind UTC. An
abbreviation whose offset has changed has the offset of the given moment.
"""

from __future__ import annotations

from dataclasses import dataclass

from catalog.errors import SqlError
from catalog.functions.base import CallContext
from catalog.functions.registry import implement
from catalog.text_caches import remembering
from catalog.types.base import DEFAULT_FORMAT, Interval
from catalog.types.datetime import (
    UNIX_EPOCH_SECONDS,
    USECS_PER_DAY,
    USECS_PER_SECOND,
    check_timestamp,
    offset_at,
    timestamp_is_infinite,
    to_local,
    to_utc,
)
from catalog.types.interval_text import interval_formatter
from catalog.types.timezones import Offset, Zone, abbreviations, find_zone

_TOKEN_LENGTH = 10


@dataclass(frozen=True, slots=True)
class NamedZone:
    """A zone that a function's argument names. `abbreviation` is set if the offset depends on it."""

    zone: Zone
    abbreviation: str = ""

    def to_utc(self, local: int) -> int:
        """timestamp -> timestamptz. Raises 22008."""
        if not self.abbreviation or timestamp_is_infinite(local):
            return to_utc(local, self.zone)
        seconds = local // USECS_PER_SECOND + UNIX_EPOCH_SECONDS
        offset = self.zone.abbreviation_offset(self.abbreviation, seconds)
        return check_timestamp(local - offset * USECS_PER_SECOND)

    def to_local(self, utc: int) -> int:
        """timestamptz -> timestamp. Raises 22008."""
        if not self.abbreviation or timestamp_is_infinite(utc):
            return to_local(utc, self.zone)
        return check_timestamp(utc + self.offset(utc) * USECS_PER_SECOND)

    def offset(self, utc: int) -> int:
        """Returns the offset at an instant, in seconds east of UTC."""
        if not self.abbreviation:
            return offset_at(self.zone, utc)
        return self.zone.abbreviation_offset_at(self.abbreviation, utc // USECS_PER_SECOND + UNIX_EPOCH_SECONDS)


def fixed_zone(seconds: int) -> Zone:
    """Returns a zone with a fixed offset, in seconds east of UTC."""
    offset = Offset(seconds, False, "")
    return Zone("", [], [], offset, offset, None)


@remembering(512)
def named_zone(name: str) -> NamedZone:
    """Returns the zone that an argument names. Raises 22023 for an unknown name."""
    known = abbreviations().get(name.lower()[:_TOKEN_LENGTH])
    if known is not None:
        if known.zone is None:
            return NamedZone(fixed_zone(known.seconds))
        return NamedZone(find_zone(known.zone), name[:_TOKEN_LENGTH])
    return NamedZone(find_zone(name))


def interval_offset(interval: Interval) -> int:
    """Returns the offset of an interval that is used as a time zone, in seconds east. Raises 22023 for months or
    days."""
    if interval.months or interval.days:
        text = interval_formatter(DEFAULT_FORMAT)(interval)
        raise SqlError("22023", f'interval time zone "{text}" must not include months or days')
    return int(interval.microseconds / USECS_PER_SECOND)


def _shift(value: int, seconds: int) -> int:
    return value if timestamp_is_infinite(value) else check_timestamp(value + seconds * USECS_PER_SECOND)


def _timetz_at(value: tuple[int, int], offset: int) -> tuple[int, int]:
    """Converts a timetz to another offset (seconds east)."""
    microseconds, west = value
    return (microseconds + (west + offset) * USECS_PER_SECOND) % USECS_PER_DAY, -offset


def _timetz_in_zone(context: CallContext, name: str, value: tuple[int, int]) -> tuple[int, int]:
    return _timetz_at(value, named_zone(name).offset(context.transaction_time))


implement(
    "timestamp_zone", lambda name, value: value if timestamp_is_infinite(value) else named_zone(name).to_utc(value)
)
implement("timestamptz_zone",
          lambda name, value: value if timestamp_is_infinite(value) else named_zone(name).to_local(value))  # fmt: skip
implement("timestamp_izone", lambda interval, value: value if timestamp_is_infinite(value)
          else _shift(value, -interval_offset(interval)))  # fmt: skip
implement("timestamptz_izone", lambda interval, value: value if timestamp_is_infinite(value)
          else _shift(value, interval_offset(interval)))  # fmt: skip
implement("timetz_zone", _timetz_in_zone, needs_context=True)
implement("timetz_izone", lambda interval, value: _timetz_at(value, interval_offset(interval)))
