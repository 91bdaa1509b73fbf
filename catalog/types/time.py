"""time and timetz: microseconds since midnight, up to 24:00:00; timetz also has a zone in seconds west of UTC."""

from __future__ import annotations

import re
import struct
from collections.abc import Callable
from typing import Any

from catalog.errors import SqlError
from catalog.types import oids
from catalog.types.base import DEFAULT_FORMAT, Columns, FormatSettings, Layout, Order, SqlType, Storage
from catalog.types.datetime import USECS_PER_DAY, USECS_PER_SECOND, round_to_precision
from catalog.types.datetime_input import (
    BadFormatError,
    FieldOverflowError,
    Moment,
    ZoneOverflowError,
    parse_time,
    sql_error,
)
from catalog.types.datetime_output import format_offset, format_time
from catalog.types.integer import INT8
from catalog.types.texts import wrong_length
from catalog.types.timestamp import MAX_PRECISION, precision_typmod
from catalog.types.timezones import find_zone

_ISO = re.compile(r"([01]\d|2[0-3]):([0-5]\d):([0-5]\d)(?:\.(\d{1,6}))?\Z", re.ASCII)
_TIMETZ = struct.Struct(">qi")
_TIMETZ_STORED = struct.Struct("<qi4x")
_MAX_ZONE_SECONDS = 16 * 3600  # exclusive


def _parse(text: str, type_name: str, settings: FormatSettings) -> Moment:
    try:
        return parse_time(text, settings, find_zone(settings.timezone))
    except (BadFormatError, FieldOverflowError, ZoneOverflowError) as error:
        raise sql_error(error, type_name, text) from None


def parse_time_of_day(text: str, settings: FormatSettings = DEFAULT_FORMAT) -> int:
    """Reads a time as time_in does, ignoring a zone. Raises 22007, 22008, 22009, 22023."""
    match = _ISO.match(text)
    if match is not None:
        hour, minute, second, fraction = match.groups()
        seconds = (int(hour) * 60 + int(minute)) * 60 + int(second)
        return seconds * USECS_PER_SECOND + (int(fraction.ljust(6, "0")) if fraction else 0)
    return _parse(text, "time", settings).time()


def parse_timetz(text: str, settings: FormatSettings = DEFAULT_FORMAT) -> tuple[int, int]:
    """Reads a time with zone as timetz_in does. Raises the errors of `parse_time_of_day`."""
    moment = _parse(text, "time with time zone", settings)
    return moment.time(), -moment.offset


def format_timetz(value: tuple[int, int]) -> str:
    """Returns '20:38:40+01'."""
    return format_time(value[0]) + format_offset(-value[1])


def _check(microseconds: int) -> int:
    if not 0 <= microseconds <= USECS_PER_DAY:
        raise SqlError("22008", "time out of range")
    return microseconds


class _TimeOfDay(SqlType):
    category = "D"
    preferred = False
    with_zone = False

    def typmod_in(self, arguments: tuple[str, ...]) -> int:
        return precision_typmod(arguments, "TIME", " WITH TIME ZONE" if self.with_zone else "")

    def typmod_out(self, typmod: int) -> str:
        return f"({typmod})" if typmod >= 0 else ""


class Time(_TimeOfDay):
    """time, internal form `int`."""

    oid = oids.TIME
    array_oid = oids.TIME_ARRAY
    name = "time"
    sql_name = "time without time zone"
    length = 8
    storage = Storage("q")
    columns = Columns(layout=Layout.NUMBERS, arrow="time64[us]", sent=">i8")

    def input_function(self, settings: FormatSettings = DEFAULT_FORMAT, typmod: int = -1) -> Callable[[str], object]:
        if not 0 <= typmod < MAX_PRECISION:
            return lambda text: parse_time_of_day(text, settings)
        return lambda text: round_to_precision(parse_time_of_day(text, settings), typmod)

    def text_encoder(self, settings: FormatSettings = DEFAULT_FORMAT) -> Callable[[Any], bytes]:
        return lambda value: format_time(value).encode()

    def receive_function(self, typmod: int = -1) -> Callable[[bytes], object]:
        precision = typmod if 0 <= typmod < MAX_PRECISION else MAX_PRECISION

        def decode(data: bytes) -> object:
            if len(data) != 8:
                raise wrong_length(data, 8)
            return round_to_precision(_check(int.from_bytes(data, "big", signed=True)), precision)

        return decode

    def binary_encoder(self) -> Callable[[object], bytes]:
        return struct.Struct(">q").pack

    def length_coercion(self, typmod: int, explicit: bool) -> Callable[[Any], object] | None:
        if not 0 <= typmod < MAX_PRECISION:
            return None
        return lambda value: round_to_precision(value, typmod)

    def key_encoder(self) -> Callable[[object], bytes] | None:
        return INT8.key_encoder()

    def duckdb_type(self, typmod: int = -1) -> str:
        return "TIME"


def _pack(value: Any) -> bytes:
    return _TIMETZ_STORED.pack(*value)


def _unpack(data: Any) -> object:
    return _TIMETZ_STORED.unpack(data)


class TimeTz(_TimeOfDay):
    """timetz, internal form (microseconds, seconds west). The order is by the instant, then by the zone."""

    oid = oids.TIMETZ
    array_oid = oids.TIMETZ_ARRAY
    name = "timetz"
    sql_name = "time with time zone"
    length = 12
    preferred = False
    with_zone = True
    storage = Storage("16s", _pack, _unpack)
    columns = Columns(order=Order.BY_KEY, input_of_settings=True)

    def input_function(self, settings: FormatSettings = DEFAULT_FORMAT, typmod: int = -1) -> Callable[[str], object]:
        coerce = self.length_coercion(typmod, explicit=False)
        if coerce is None:
            return lambda text: parse_timetz(text, settings)
        return lambda text: coerce(parse_timetz(text, settings))

    def text_encoder(self, settings: FormatSettings = DEFAULT_FORMAT) -> Callable[[Any], bytes]:
        return lambda value: format_timetz(value).encode()

    def receive_function(self, typmod: int = -1) -> Callable[[bytes], object]:
        coerce = self.length_coercion(typmod, explicit=False)

        def decode(data: bytes) -> object:
            if len(data) != _TIMETZ.size:
                raise wrong_length(data, _TIMETZ.size)
            microseconds, zone = _TIMETZ.unpack(data)
            _check(microseconds)
            if not -_MAX_ZONE_SECONDS < zone < _MAX_ZONE_SECONDS:
                raise SqlError("22009", "time zone displacement out of range")
            return (microseconds, zone) if coerce is None else coerce((microseconds, zone))

        return decode

    def binary_encoder(self) -> Callable[[Any], bytes]:
        return lambda value: _TIMETZ.pack(*value)

    def length_coercion(self, typmod: int, explicit: bool) -> Callable[[Any], object] | None:
        if not 0 <= typmod < MAX_PRECISION:
            return None
        return lambda value: (round_to_precision(value[0], typmod), value[1])

    def sort_key(self) -> Callable[[Any], object]:
        return lambda value: (value[0] + value[1] * USECS_PER_SECOND, value[1])

    def key_encoder(self) -> Callable[[Any], bytes]:
        pack = struct.Struct(">QI").pack
        return lambda value: pack(value[0] + value[1] * USECS_PER_SECOND + (1 << 63), value[1] + (1 << 31))

    def duckdb_type(self, typmod: int = -1) -> str:
        return "VARCHAR"


TIME = Time()
TIMETZ = TimeTz()
