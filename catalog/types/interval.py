"""interval: independent months, days and microseconds; comparisons convert months to 30 days and days to 24 hours."""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

from catalog.errors import SqlError
from catalog.types import oids
from catalog.types.base import DEFAULT_FORMAT, Columns, FormatSettings, Interval, Layout, SqlType, Storage
from catalog.types.datetime import (
    MONTHS_PER_YEAR,
    USECS_PER_HOUR,
    USECS_PER_MINUTE,
    divide_toward_zero,
    interval_span,
    round_to_precision,
)
from catalog.types.integer import INT4
from catalog.types.interval_text import (
    DAY_BIT,
    FULL_PRECISION,
    FULL_RANGE,
    HOUR_BIT,
    MINUTE_BIT,
    MONTH_BIT,
    SECOND_BIT,
    YEAR_BIT,
    interval_formatter,
    parse_interval,
)
from catalog.types.texts import wrong_length

MAX_PRECISION = 6
_WIRE = struct.Struct(">qii")
_STORED = struct.Struct("<qii")
_KEY_BIAS = 1 << 127

_RANGES = {
    YEAR_BIT: "year",
    MONTH_BIT: "month",
    DAY_BIT: "day",
    HOUR_BIT: "hour",
    MINUTE_BIT: "minute",
    SECOND_BIT: "second",
    YEAR_BIT | MONTH_BIT: "year to month",
    DAY_BIT | HOUR_BIT: "day to hour",
    DAY_BIT | HOUR_BIT | MINUTE_BIT: "day to minute",
    DAY_BIT | HOUR_BIT | MINUTE_BIT | SECOND_BIT: "day to second",
    HOUR_BIT | MINUTE_BIT: "hour to minute",
    HOUR_BIT | MINUTE_BIT | SECOND_BIT: "hour to second",
    MINUTE_BIT | SECOND_BIT: "minute to second",
    FULL_RANGE: "",
}


def fields_of(typmod: int) -> int:
    """Returns the bits of the fields in a modifier."""
    return typmod >> 16 & 0x7FFF if typmod >= 0 else FULL_RANGE


def apply_typmod(typmod: int) -> Callable[[Any], object] | None:
    """Returns the function that truncates to the modifier's fields and rounds to its precision, as in
    AdjustIntervalForTypmod; None if that is not necessary."""
    if typmod < 0:
        return None
    fields, precision = fields_of(typmod), typmod & 0xFFFF
    unit = 0  # microseconds of the smallest unit of time that is kept
    if fields & (MONTH_BIT | YEAR_BIT) and fields != FULL_RANGE:
        months = MONTHS_PER_YEAR if fields == YEAR_BIT else 1
        return lambda value: Interval(divide_toward_zero(value.months, months)[0] * months, 0, 0)
    if fields == DAY_BIT:
        return lambda value: Interval(value.months, value.days, 0)
    if fields != FULL_RANGE and not fields & SECOND_BIT:
        unit = USECS_PER_MINUTE if fields & MINUTE_BIT else USECS_PER_HOUR
        return lambda value: value._replace(microseconds=divide_toward_zero(value.microseconds, unit)[0] * unit)
    if precision >= MAX_PRECISION:
        return None
    return lambda value: value._replace(microseconds=round_to_precision(value.microseconds, precision))


def _pack(value: Any) -> bytes:
    months, days, microseconds = value
    return _STORED.pack(microseconds, days, months)


def _unpack(data: Any) -> object:
    microseconds, days, months = _STORED.unpack(data)
    return Interval(months, days, microseconds)


def _encode_binary(value: Any) -> bytes:
    months, days, microseconds = value
    return _WIRE.pack(microseconds, days, months)


class IntervalType(SqlType):
    """interval, internal form `Interval`."""

    oid = oids.INTERVAL
    array_oid = oids.INTERVAL_ARRAY
    name = "interval"
    sql_name = "interval"
    category = "T"
    preferred = True
    length = 16
    storage = Storage("16s", _pack, _unpack)
    columns = Columns(layout=Layout.INTERVALS, output_of_settings=True, input_of_settings=True)

    def input_function(self, settings: FormatSettings = DEFAULT_FORMAT, typmod: int = -1) -> Callable[[str], object]:
        fields, apply = fields_of(typmod), apply_typmod(typmod)
        if apply is None:
            return lambda text: parse_interval(text, settings, fields)
        return lambda text: apply(parse_interval(text, settings, fields))

    def text_encoder(self, settings: FormatSettings = DEFAULT_FORMAT) -> Callable[[Any], bytes]:
        form = interval_formatter(settings)
        return lambda value: form(value).encode()

    def receive_function(self, typmod: int = -1) -> Callable[[bytes], object]:
        apply = apply_typmod(typmod)

        def decode(data: bytes) -> object:
            if len(data) != _WIRE.size:
                raise wrong_length(data, _WIRE.size)
            microseconds, days, months = _WIRE.unpack(data)
            value = Interval(months, days, microseconds)
            return value if apply is None else apply(value)

        return decode

    def binary_encoder(self) -> Callable[[object], bytes]:
        return _encode_binary

    def typmod_in(self, arguments: tuple[str, ...]) -> int:
        """Returns the modifier. The arguments are those of PostgreSQL's grammar: the bits of the fields (32767 for
        all), then the precision. Raises 22023."""
        decode = INT4.input_function()
        numbers: list[Any] = [decode(argument) for argument in arguments]
        if not 1 <= len(numbers) <= 2 or numbers[0] not in _RANGES:
            raise SqlError("22023", "invalid INTERVAL type modifier")
        if len(numbers) == 1:
            return -1 if numbers[0] == FULL_RANGE else numbers[0] << 16 | FULL_PRECISION
        if numbers[1] < 0:
            raise SqlError("22023", f"INTERVAL({numbers[1]}) precision must not be negative")
        return int(numbers[0]) << 16 | min(int(numbers[1]), MAX_PRECISION)

    def typmod_out(self, typmod: int) -> str:
        if typmod < 0:
            return ""
        words = _RANGES.get(fields_of(typmod), "")
        precision = typmod & 0xFFFF
        return (f" {words}" if words else "") + ("" if precision == FULL_PRECISION else f"({precision})")

    def length_coercion(self, typmod: int, explicit: bool) -> Callable[[Any], object] | None:
        return apply_typmod(typmod)

    def sort_key(self) -> Callable[[Any], object]:
        return interval_span

    def key_encoder(self) -> Callable[[Any], bytes]:
        """Encodes the span in microseconds, 16 bytes: '1 day' and '24 hours' are equal and have the same key."""
        return lambda value: (interval_span(value) + _KEY_BIAS).to_bytes(16, "big")

    def duckdb_type(self, typmod: int = -1) -> str:
        return "INTERVAL"


INTERVAL = IntervalType()
