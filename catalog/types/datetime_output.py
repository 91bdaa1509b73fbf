"""Writes dates and times in the four date styles (PostgreSQL 16 manual, 8.5.2)."""

from __future__ import annotations

import datetime
from collections.abc import Callable

from catalog.types.base import FormatSettings
from catalog.types.datetime import (
    DATE_INFINITY,
    DATE_MINUS_INFINITY,
    ORDINAL_EPOCH,
    TIMESTAMP_INFINITY,
    TIMESTAMP_MINUS_INFINITY,
    UNIX_EPOCH_SECONDS,
    USECS_PER_DAY,
    USECS_PER_SECOND,
    civil_from_days,
    day_of_week,
    split_time,
)
from catalog.types.timezones import Offset, Zone

_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_DAYS = ("Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat")
_EPOCH = datetime.datetime(2000, 1, 1)
_FIRST_DAY = 1 - ORDINAL_EPOCH
_END_DAY = datetime.date.max.toordinal() + 1 - ORDINAL_EPOCH
_FIRST_TIMESTAMP = _FIRST_DAY * USECS_PER_DAY
_END_TIMESTAMP = _END_DAY * USECS_PER_DAY
_MICROSECONDS = datetime.timedelta(microseconds=1)
_ZONE_NAME_LENGTH = 10  # longer abbreviations are truncated


def format_time(microseconds: int) -> str:
    """Returns '20:38:40.5', without trailing zeros."""
    hour, minute, second, fraction = split_time(microseconds)
    text = f"{hour:02d}:{minute:02d}:{second:02d}"
    return f"{text}.{fraction:06d}".rstrip("0") if fraction else text


def format_offset(seconds: int) -> str:
    """Returns '+01', '-03:30' or '+00:19:32' for seconds east."""
    sign = "-" if seconds < 0 else "+"
    minutes, second = divmod(abs(seconds), 60)
    hour, minute = divmod(minutes, 60)
    text = f"{sign}{hour:02d}"
    if second:
        return f"{text}:{minute:02d}:{second:02d}"
    return f"{text}:{minute:02d}" if minute else text


def _date_parts(days: int) -> tuple[int, int, int, str]:
    year, month, day = civil_from_days(days)
    return (year, month, day, "") if year > 0 else (1 - year, month, day, " BC")


def _numeric_date(days: int, settings: FormatSettings) -> tuple[str, str]:
    """Returns the date in the session's style, and ' BC' or ''. Not for timestamps in style Postgres, which contain
    words."""
    year, month, day, era = _date_parts(days)
    style, day_first = settings.date_style.upper(), settings.date_order == "DMY"
    if style == "ISO":
        return f"{year:04d}-{month:02d}-{day:02d}", era
    if style == "GERMAN":
        return f"{day:02d}.{month:02d}.{year:04d}", era
    mark = "/" if style == "SQL" else "-"
    first, second = (day, month) if day_first else (month, day)
    return f"{first:02d}{mark}{second:02d}{mark}{year:04d}", era


def date_formatter(settings: FormatSettings) -> Callable[[int], str]:
    """Returns the output function of date."""
    iso = settings.date_style.upper() == "ISO"
    from_ordinal = datetime.date.fromordinal

    def form(days: int) -> str:
        if iso and _FIRST_DAY <= days < _END_DAY:
            return from_ordinal(days + ORDINAL_EPOCH).isoformat()
        if days in (DATE_INFINITY, DATE_MINUS_INFINITY):
            return "infinity" if days > 0 else "-infinity"
        return "".join(_numeric_date(days, settings))

    return form


def _iso_fast(value: int) -> str:
    text = (_EPOCH + _MICROSECONDS * value).isoformat(" ")
    return text.rstrip("0") if len(text) > 19 else text


def _format_local(value: int, offset: Offset | None, settings: FormatSettings) -> str:
    """Returns a timestamp in any style. `value` is local time; `offset` is printed after it."""
    style = settings.date_style.upper()
    if style == "ISO":
        suffix = "" if offset is None else format_offset(offset.seconds)
    else:
        suffix = "" if offset is None else " " + offset.abbreviation[:_ZONE_NAME_LENGTH]
    days, of_day = divmod(value, USECS_PER_DAY)
    clock = format_time(of_day)
    if style == "POSTGRES":
        year, month, day, era = _date_parts(days)
        name = _MONTHS[month - 1]
        date = f"{day:02d} {name}" if settings.date_order == "DMY" else f"{name} {day:02d}"
        return f"{_DAYS[day_of_week(days)]} {date} {clock} {year:04d}{suffix}{era}"
    shown, era = _numeric_date(days, settings)
    return f"{shown} {clock}{suffix}{era}"


def timestamp_formatter(settings: FormatSettings) -> Callable[[int], str]:
    """Returns the output function of timestamp."""
    iso = settings.date_style.upper() == "ISO"

    def form(value: int) -> str:
        if iso and _FIRST_TIMESTAMP <= value < _END_TIMESTAMP:
            return _iso_fast(value)
        if value in (TIMESTAMP_INFINITY, TIMESTAMP_MINUS_INFINITY):
            return "infinity" if value > 0 else "-infinity"
        return _format_local(value, None, settings)

    return form


def timestamptz_formatter(settings: FormatSettings, zone: Zone) -> Callable[[int], str]:
    """Returns the output function of timestamptz in the session's zone."""
    fixed, at = zone.fixed, zone.at
    iso = settings.date_style.upper() == "ISO"
    suffixes: dict[int, str] = {}

    def form(value: int) -> str:
        if value in (TIMESTAMP_INFINITY, TIMESTAMP_MINUS_INFINITY):
            return "infinity" if value > 0 else "-infinity"
        offset = fixed or at(value // USECS_PER_SECOND + UNIX_EPOCH_SECONDS)
        seconds = offset.seconds
        local = value + seconds * USECS_PER_SECOND
        if iso and _FIRST_TIMESTAMP <= local < _END_TIMESTAMP:
            suffix = suffixes.get(seconds)
            if suffix is None:
                suffix = suffixes[seconds] = format_offset(seconds)
            return _iso_fast(local) + suffix
        return _format_local(local, offset, settings)

    return form
