"""extract, date_part, date_trunc and date_bin (PostgreSQL 16 manual, 9.9.1 to 9.9.3; timestamp.c and date.c).

extract returns numeric and date_part double precision; both are computed from one exact number with its scale. For an
infinite timestamp, fields that increase without limit (year, epoch, ...) are infinite, and periodic fields (month,
hour, ...) are NULL. The name of a field is one of the words of interval input, or of date input.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any, NamedTuple

from catalog.duckdb.nodes import CastTo, Sql, constant_text
from catalog.duckdb.types import TIMESTAMP
from catalog.errors import SqlError
from catalog.functions.base import CallContext, Side
from catalog.functions.datetime_casts import date_to_timestamp
from catalog.functions.datetime_zones import named_zone
from catalog.functions.duckdb_errors import sql_error_call
from catalog.functions.duckdb_sql import evaluate_once
from catalog.functions.numeric import add, decimal_type, divide
from catalog.functions.registry import implement
from catalog.types import format_type, oids
from catalog.types.base import Interval, TypeRef
from catalog.types.datetime import (
    JULIAN_EPOCH,
    SECONDS_PER_DAY,
    UNIX_EPOCH_DAYS,
    UNIX_EPOCH_SECONDS,
    USECS_PER_DAY,
    USECS_PER_HOUR,
    USECS_PER_MINUTE,
    USECS_PER_SECOND,
    check_timestamp,
    civil_from_days,
    date_is_infinite,
    day_of_week,
    day_of_year,
    days_from_civil,
    divide_toward_zero,
    interval_out_of_range,
    offset_at,
    timestamp_is_infinite,
    timestamp_out_of_range,
    to_utc,
)
from catalog.types.interval_text import UNIT_WORDS
from catalog.types.timezones import Zone, find_zone

# ---- names of fields ----

# The words of intervals, with separate fields for the parts of a time zone.
_UNIT_WORDS = {
    **UNIT_WORDS,
    "timezone": "timezone",
    "timezone_hour": "timezone_h",
    "timezone_minute": "timezone_m",
}
_UNITS = {word: unit for unit, words in _UNIT_WORDS.items() for word in words.split()}
_RESERVED = "reserved"  # words of date input that name no field
_SPECIAL = {
    "epoch": "epoch", "dow": "dow", "doy": "doy", "isodow": "isodow", "isoyear": "isoyear", "j": "julian",
    "jd": "julian", "julian": "julian", "mm": "minute",
    **dict.fromkeys(("infinity", "-infinity", "now", "today", "tomorrow", "yesterday", "allballs"), _RESERVED),
}  # fmt: skip
_TOKEN_LENGTH = 10


def _lower(text: str) -> str:
    return "".join([char.lower() if "A" <= char <= "Z" else char for char in text])


def unit_of(text: str, oid: int, special: bool = False) -> str:
    """Returns the field that a word names; with `special` also fields that only extract has. Raises 22023."""
    lowered = _lower(text)
    found = _UNITS.get(lowered[:_TOKEN_LENGTH])
    if found is None and special:
        found = _SPECIAL.get(lowered[:_TOKEN_LENGTH])
    if found is None or (found == _RESERVED and oid not in oids.DATED):
        raise SqlError("22023", f'unit "{lowered}" not recognized for type {format_type(oid)}')
    return found


def _unit_error(text: str, oid: int) -> SqlError:
    return SqlError("0A000", f'unit "{_lower(text)}" not supported for type {format_type(oid)}')


# ---- calendar ----


def iso_week_start(year: int) -> int:
    """Returns the Monday of week 1 of an ISO year (astronomical), in days since 2000-01-01."""
    fourth = days_from_civil(year, 1, 4)
    return fourth - (day_of_week(fourth) + 6) % 7


def iso_year_and_week(days: int) -> tuple[int, int]:
    """Returns the ISO year (astronomical) and the ISO week of a day."""
    year = civil_from_days(days)[0] + 1
    while days < iso_week_start(year):
        year -= 1
    return year, (days - iso_week_start(year)) // 7 + 1


def _group_of_years(year: int, size: int) -> int:
    """Returns the century or millennium of an astronomical year; there is no century 0."""
    return (year + size - 1) // size if year > 0 else -((size - 1 - (year - 1)) // size)


def _decade(year: int) -> int:
    return year // 10 if year >= 0 else -((8 - (year - 1)) // 10)


# ---- one exact number per field ----


class Part(NamedTuple):
    """An exact field: `units` / 10**scale. `fraction` of a day is added for the Julian day."""

    units: int
    scale: int = 0
    fraction: int | None = None


_OF_YEARS: dict[str, Callable[[int], int]] = {
    "year": lambda year: year if year > 0 else year - 1,
    "decade": _decade,
    "century": lambda year: _group_of_years(year, 100),
    "millennium": lambda year: _group_of_years(year, 1000),
}


def _date_part(unit: str, days: int) -> Part | None:
    """Returns a field of a date; None for a field of the time."""
    year, month, day = civil_from_days(days)
    if unit in _OF_YEARS:
        return Part(_OF_YEARS[unit](year))
    if unit == "month":
        return Part(month)
    if unit == "day":
        return Part(day)
    if unit == "quarter":
        return Part((month - 1) // 3 + 1)
    if unit == "week":
        return Part(iso_year_and_week(days)[1])
    if unit == "isoyear":
        iso_year = iso_year_and_week(days)[0]
        return Part(iso_year if iso_year > 0 else iso_year - 1)
    if unit == "dow":
        return Part(day_of_week(days))
    if unit == "isodow":
        return Part(day_of_week(days) or 7)
    if unit == "doy":
        return Part(day_of_year(days))
    return None


def _time_part(unit: str, microseconds: int) -> Part | None:
    """Returns a field of a time of day; None for other fields."""
    of_minute = microseconds % USECS_PER_MINUTE
    if unit == "second":
        return Part(of_minute, 6)
    if unit == "millisecond":
        return Part(of_minute, 3)
    if unit == "microsecond":
        return Part(of_minute)
    if unit == "minute":
        return Part(microseconds // USECS_PER_MINUTE % 60)
    return Part(microseconds // USECS_PER_HOUR) if unit == "hour" else None


def _timestamp_part(unit: str, value: int) -> Part | None:
    days, microseconds = divmod(value, USECS_PER_DAY)
    if unit == "epoch":
        return Part(value + UNIX_EPOCH_SECONDS * USECS_PER_SECOND, 6)
    if unit == "julian":
        return Part(days + JULIAN_EPOCH, 0, microseconds)
    return _date_part(unit, days) or _time_part(unit, microseconds)


def _timestamptz_part(zone: Zone, unit: str, value: int) -> Part | None:
    offset = offset_at(zone, value)
    zone_part = _zone_part(unit, offset)
    if zone_part is not None or unit == "epoch":
        return zone_part or _timestamp_part(unit, value)
    return _timestamp_part(unit, value + offset * USECS_PER_SECOND)


def _zone_part(unit: str, offset: int) -> Part | None:
    """Returns a field of an offset in seconds east; None for other fields."""
    if unit == "timezone":
        return Part(offset)
    minutes = divide_toward_zero(offset, 60)[0]
    if unit == "timezone_hour":
        return Part(divide_toward_zero(offset, 3600)[0])
    return Part(divide_toward_zero(minutes, 60)[1]) if unit == "timezone_minute" else None


def _only_date_part(unit: str, days: int) -> Part | None:
    if unit == "epoch":
        return Part((days + UNIX_EPOCH_DAYS) * SECONDS_PER_DAY)
    return Part(days + JULIAN_EPOCH) if unit == "julian" else _date_part(unit, days)


def _only_time_part(unit: str, microseconds: int) -> Part | None:
    return Part(microseconds, 6) if unit == "epoch" else _time_part(unit, microseconds)


def _timetz_part(unit: str, time: tuple[int, int]) -> Part | None:
    microseconds, west = time
    if unit == "epoch":
        return Part(microseconds + west * USECS_PER_SECOND, 6)
    return _zone_part(unit, -west) or _time_part(unit, microseconds)


def _interval_part(unit: str, value: Interval) -> Part | None:
    years, months = divide_toward_zero(value.months, 12)
    if unit == "epoch":
        quarters = 1461 * years + 120 * months + 4 * value.days
        return Part(quarters * (SECONDS_PER_DAY // 4) * USECS_PER_SECOND + value.microseconds, 6)
    if unit in ("year", "decade", "century", "millennium"):
        return Part(divide_toward_zero(years, {"year": 1, "decade": 10, "century": 100, "millennium": 1000}[unit])[0])
    if unit == "quarter":
        return Part(divide_toward_zero(months, 3)[0] + 1)
    if unit in ("month", "day"):
        return Part(months if unit == "month" else value.days)
    sign = -1 if value.microseconds < 0 else 1
    part = _time_part(unit, abs(value.microseconds))
    return None if part is None else part._replace(units=sign * part.units)


# ---- the two forms of the result ----


def _numeric(part: Part) -> Decimal:
    if part.fraction is not None:
        return add(Decimal(part.units), divide(Decimal(part.fraction), Decimal(USECS_PER_DAY)))
    return Decimal(part.units).scaleb(-part.scale) if part.scale else Decimal(part.units)


def _float(part: Part) -> float:
    if part.fraction is not None:
        seconds, microseconds = divmod(part.fraction, USECS_PER_SECOND)
        return part.units + (seconds + microseconds / 1e6) / SECONDS_PER_DAY
    return float(part.units) / 10**part.scale if part.scale else float(part.units)


def _float_of_seconds(unit: str, part: Part) -> float:
    """Adds whole seconds and a fraction, as PostgreSQL does; the quotient may differ in the last bit."""
    seconds, microseconds = divide_toward_zero(part.units, USECS_PER_SECOND)
    return seconds * 1000.0 + microseconds / 1000.0 if unit == "millisecond" else seconds + microseconds / 1000000.0


def _date_part_result(unit: str, part: Part) -> float:
    if unit in ("second", "millisecond"):
        return _float_of_seconds(unit, part)
    return _float(part)


def _interval_epoch(value: Interval) -> float:
    years, months = divide_toward_zero(value.months, 12)
    result = value.microseconds / 1000000.0
    result += 365.25 * SECONDS_PER_DAY * years
    result += 30.0 * SECONDS_PER_DAY * months
    return result + float(SECONDS_PER_DAY) * value.days


_GROWING = frozenset({"year", "decade", "century", "millennium", "julian", "isoyear", "epoch"})
_RETURNING = {
    oids.DATE: frozenset({"day", "month", "quarter", "week", "dow", "isodow", "doy"}),
    oids.TIMESTAMP: frozenset({"microsecond", "millisecond", "second", "minute", "hour", "day", "month", "quarter",
                               "week", "dow", "isodow", "doy", "timezone", "timezone_hour", "timezone_minute"}),
}  # fmt: skip
_RETURNING[oids.TIMESTAMPTZ] = _RETURNING[oids.TIMESTAMP]


def _of_infinity(word: str, unit: str, oid: int, positive: bool) -> float | None:
    if unit in _GROWING:
        return float("inf") if positive else float("-inf")
    if unit in _RETURNING[oid]:
        return None
    raise _unit_error(word, oid)


Compute = Callable[[str, Any], Part | None]


def _field(oid: int, compute: Compute, numeric: bool) -> Callable[[str, Any], object]:
    """Returns extract or date_part for one type. The function raises 22023, 0A000."""
    infinite: Callable[[int], bool] | None = None
    if oid in _RETURNING:
        infinite = date_is_infinite if oid == oids.DATE else timestamp_is_infinite

    def extract(word: str, value: Any) -> object:
        unit = unit_of(word, oid, special=True)
        if infinite is not None and infinite(value):
            endless = _of_infinity(word, unit, oid, value > 0)
            return Decimal(endless) if numeric and endless is not None else endless
        part = compute(unit, value)
        if part is None:
            raise _unit_error(word, oid)
        if numeric:
            return _numeric(part)
        if oid == oids.INTERVAL and unit == "epoch":
            return _interval_epoch(value)
        return _date_part_result(unit, part)

    return extract


def _field_in_zone(numeric: bool) -> Callable[[CallContext, str, int], object]:
    made: dict[str, Callable[[str, Any], object]] = {}

    def extract(context: CallContext, word: str, value: int) -> object:
        compute = made.get(context.timezone)
        if compute is None:
            zone = find_zone(context.timezone)
            compute = made[context.timezone] = _field(
                oids.TIMESTAMPTZ, lambda unit, instant: _timestamptz_part(zone, unit, instant), numeric
            )
        return compute(word, value)

    return extract


# ---- truncation ----


def _truncated_years(unit: str, year: int) -> int:
    if unit == "millennium":
        return ((year + 999) // 1000) * 1000 - 999 if year > 0 else -((999 - (year - 1)) // 1000) * 1000 + 1
    if unit == "century":
        return ((year + 99) // 100) * 100 - 99 if year > 0 else -((99 - (year - 1)) // 100) * 100 + 1
    return (year // 10) * 10 if year > 0 else -((8 - (year - 1)) // 10) * 10


def _truncated_days(unit: str, days: int) -> int | None:
    """Returns the first day of the period that contains a day; None if the unit is shorter than a day."""
    if unit == "day":
        return days
    if unit == "week":
        return days - (day_of_week(days) + 6) % 7
    year, month, _ = civil_from_days(days)
    if unit == "month":
        return days_from_civil(year, month, 1)
    if unit == "quarter":
        return days_from_civil(year, 3 * ((month - 1) // 3) + 1, 1)
    if unit == "year":
        return days_from_civil(year, 1, 1)
    if unit in ("millennium", "century", "decade"):
        return days_from_civil(_truncated_years(unit, year), 1, 1)
    return None


_TIME_UNITS = {
    "hour": USECS_PER_HOUR,
    "minute": USECS_PER_MINUTE,
    "second": USECS_PER_SECOND,
    "millisecond": 1000,
    "microsecond": 1,
}


def _truncate_local(word: str, value: int, oid: int) -> tuple[int, bool]:
    """Returns the truncated local time, and whether the unit is a day or longer (then the zone's offset is determined
    again)."""
    unit = unit_of(word, oid)
    days = _truncated_days(unit, value // USECS_PER_DAY)
    if days is not None:
        return days * USECS_PER_DAY, True
    if unit not in _TIME_UNITS:
        raise _unit_error(word, oid)
    return value - value % _TIME_UNITS[unit], False


def truncate_timestamp(word: str, value: int) -> int:
    """date_trunc(text, timestamp). Raises 22023, 0A000, 22008."""
    if timestamp_is_infinite(value):
        return value
    return check_timestamp(_truncate_local(word, value, oids.TIMESTAMP)[0])


def truncate_in_zone(word: str, value: int, zone: Zone) -> int:
    """date_trunc(text, timestamptz, zone). Raises 22023, 0A000, 22008."""
    if timestamp_is_infinite(value):
        return value
    offset = offset_at(zone, value) * USECS_PER_SECOND
    local, midnight = _truncate_local(word, value + offset, oids.TIMESTAMPTZ)
    return to_utc(check_timestamp(local), zone) if midnight else check_timestamp(local - offset)


def _truncate_interval(word: str, value: Interval) -> Interval:
    unit = unit_of(word, oids.INTERVAL)
    years, months = divide_toward_zero(value.months, 12)
    sizes = {"millennium": 1000, "century": 100, "decade": 10, "year": 1}
    if unit in sizes:
        return Interval(divide_toward_zero(years, sizes[unit])[0] * sizes[unit] * 12, 0, 0)
    if unit == "quarter":
        return Interval(years * 12 + 3 * divide_toward_zero(months, 3)[0], 0, 0)
    if unit == "month":
        return Interval(value.months, 0, 0)
    if unit == "day":
        return Interval(value.months, value.days, 0)
    if unit in _TIME_UNITS:
        size = _TIME_UNITS[unit]
        return value._replace(microseconds=divide_toward_zero(value.microseconds, size)[0] * size)
    error = _unit_error(word, oids.INTERVAL)
    if unit == "week":
        error.detail = "Months usually have fractional weeks."
    raise error


def bin_timestamp(stride: Interval, value: int, origin: int) -> int:
    """date_bin. Raises 22008, 0A000."""
    if timestamp_is_infinite(value):
        return value
    if timestamp_is_infinite(origin):
        raise SqlError("22008", "origin out of range")
    if stride.months:
        raise SqlError("0A000", "timestamps cannot be binned into intervals containing months or years")
    width = stride.days * USECS_PER_DAY + stride.microseconds
    difference = value - origin
    if not -(2**63) <= width < 2**63:
        raise interval_out_of_range()
    if width <= 0:
        raise SqlError("22008", "stride must be greater than zero")
    if not -(2**63) <= difference < 2**63:
        raise interval_out_of_range()
    result = origin + difference // width * width
    if not -(2**63) <= result < 2**63:
        raise timestamp_out_of_range()
    return check_timestamp(result)


# ---- in DuckDB, where the field is a constant ----

# Fields that DuckDB computes as PostgreSQL does for finite values after 1 BC, with the precision of the result.
_NATIVE_FIELDS = {"year": 10, "month": 10, "day": 10, "quarter": 10, "dow": 10, "isodow": 10, "doy": 10, "week": 10,
                  "isoyear": 10, "hour": 10, "minute": 10}  # fmt: skip
_FIRST = {"DATE": "DATE '0001-01-01'", "TIMESTAMP": "TIMESTAMP '0001-01-01 00:00:00'"}
_BEFORE = sql_error_call("0A000", "date and time fields of a column before 1 AD, or infinite, are not supported")


def _constant_unit(argument: Sql, oid: int, special: bool = True) -> str | None:
    word = constant_text(argument)
    if word is None:
        return None
    try:
        return unit_of(word, oid, special)
    except SqlError:
        return None


_TIME_FIELDS = frozenset({"hour", "minute", "second", "microsecond"})
_OF_MINUTE = "date_part('microseconds', {0})"
# unit -> SQL of the field as numeric, its form, SQL of the field as double precision
_WITH_FRACTION = {
    "epoch": ("CAST(epoch_us({0}) AS DECIMAL(19, 0)) * 0.000001::DECIMAL(7, 6)", decimal_type(26, 6),
              "CAST(epoch_us({0}) AS DOUBLE) / 1000000.0::DOUBLE"),
    "second": (f"CAST({_OF_MINUTE} AS DECIMAL(10, 0)) * 0.000001::DECIMAL(7, 6)", decimal_type(17, 6),
               f"CAST({_OF_MINUTE} // 1000000 AS DOUBLE) + CAST({_OF_MINUTE} % 1000000 AS DOUBLE) / 1000000.0::DOUBLE"),
    "microsecond": (f"CAST({_OF_MINUTE} AS DECIMAL(10, 0))", decimal_type(10, 0), f"CAST({_OF_MINUTE} AS DOUBLE)"),
}  # fmt: skip


def _field_sql(unit: str, kind: str) -> tuple[str, TypeRef, str] | None:
    """Returns SQL of a field of {0} as numeric, its form, and SQL of the field as double precision; None for fields
    without SQL."""
    if (kind == "TIME" and unit not in _TIME_FIELDS) or (kind == "DATE" and unit in (*_TIME_FIELDS, "epoch")):
        return None
    if unit in _NATIVE_FIELDS:
        field = f"date_part('{unit}', {{0}})"
        return f"CAST({field} AS DECIMAL(10, 0))", decimal_type(10, 0), f"CAST({field} AS DOUBLE)"
    return _WITH_FRACTION.get(unit)


def _extract_side(kind: str, oid: int, numeric: bool) -> Side:
    def side(arguments: Sequence[Sql], types: Sequence[TypeRef]) -> Sql | None:
        unit = _constant_unit(arguments[0], oid)
        found = _field_sql(unit, kind) if unit else None
        if found is None:
            return None
        sql = found[0] if numeric else found[2]
        if kind != "TIME":
            first = _FIRST[kind]
            sql = f"CASE WHEN {{0}} < {first} OR NOT isfinite({{0}}) THEN {_BEFORE} ELSE {sql} END"
        return evaluate_once([arguments[1]], f"({sql})")

    return side


def _of_midnight(arguments: Sequence[Sql], types: Sequence[TypeRef]) -> Sql | None:
    """date_part of a date: that of its midnight."""
    return _extract_side("TIMESTAMP", oids.TIMESTAMP, False)((arguments[0], CastTo(arguments[1], TIMESTAMP)), types)


def _extract_form(kind: str, oid: int) -> Callable[[Sequence[Sql], Sequence[TypeRef]], TypeRef]:
    def form(arguments: Sequence[Sql], types: Sequence[TypeRef]) -> TypeRef:
        unit = _constant_unit(arguments[0], oid)
        found = _field_sql(unit, kind) if unit else None
        assert found is not None  # called only if the side returned SQL
        return found[1]

    return form


_TRUNCATED_NATIVELY = frozenset(
    {"year", "quarter", "month", "week", "day", "hour", "minute", "second", "millisecond", "microsecond"}
)
_DUCKDB_UNITS = {"millisecond": "milliseconds", "microsecond": "microseconds"}


def _truncate_side(oid: int) -> Side:
    def side(arguments: Sequence[Sql], types: Sequence[TypeRef]) -> Sql | None:
        unit = _constant_unit(arguments[0], oid, special=False)
        if unit not in _TRUNCATED_NATIVELY:
            return None
        call = f"date_trunc('{_DUCKDB_UNITS.get(unit, unit)}', {{0}})"
        first = "TIMESTAMP '4714-11-24 (BC) 00:00:00'"
        error = sql_error_call("22008", "timestamp out of range")
        return evaluate_once(
            [arguments[1]], f"(CASE WHEN {call} < {first} AND isfinite({{0}}) THEN {error} ELSE {call} END)"
        )

    return side


# ---- registration ----


def _fields() -> None:
    computes: tuple[tuple[str, str, str, int, Compute], ...] = (
        ("date", "", "DATE", oids.DATE, _only_date_part),
        ("timestamp", "timestamp_part", "TIMESTAMP", oids.TIMESTAMP, _timestamp_part),
        ("time", "time_part", "TIME", oids.TIME, _only_time_part),
        ("timetz", "timetz_part", "", oids.TIMETZ, _timetz_part),
        ("interval", "interval_part", "", oids.INTERVAL, _interval_part),
    )
    for name, part, kind, oid, compute in computes:
        exact, inexact = (_extract_side(kind, oid, True), _extract_side(kind, oid, False)) if kind else (None, None)
        implement(f"extract_{name}", _field(oid, compute, numeric=True), exact,
                  duckdb_result_of=_extract_form(kind, oid) if kind else None)  # fmt: skip
        if part:
            implement(part, _field(oid, compute, numeric=False), inexact)
    of_timestamp = _field(oids.TIMESTAMP, _timestamp_part, numeric=False)
    implement("date_part", lambda word, date: of_timestamp(word, date_to_timestamp(date)), _of_midnight)
    implement("extract_timestamptz", _field_in_zone(numeric=True), needs_context=True,
              duckdb_in_utc=_extract_side("TIMESTAMP", oids.TIMESTAMPTZ, True),
              duckdb_result_of=_extract_form("TIMESTAMP", oids.TIMESTAMPTZ))  # fmt: skip
    implement("timestamptz_part", _field_in_zone(numeric=False), needs_context=True,
              duckdb_in_utc=_extract_side("TIMESTAMP", oids.TIMESTAMPTZ, False))  # fmt: skip


def _truncations() -> None:
    implement("timestamp_trunc", truncate_timestamp, _truncate_side(oids.TIMESTAMP))
    implement("timestamptz_trunc",
              lambda context, word, value: truncate_in_zone(word, value, find_zone(context.timezone)),
              needs_context=True, duckdb_in_utc=_truncate_side(oids.TIMESTAMPTZ))  # fmt: skip
    implement("timestamptz_trunc_zone", lambda word, value, zone: value if timestamp_is_infinite(value)
              else truncate_in_zone(word, value, named_zone(zone).zone))  # fmt: skip
    implement("interval_trunc", _truncate_interval)
    implement("timestamp_bin", bin_timestamp)
    implement("timestamptz_bin", bin_timestamp)


_fields()
_truncations()
