"""timestamp and timestamptz: microseconds since 2000-01-01, in local time and in UTC."""

from __future__ import annotations

import datetime
import re
import struct
from collections.abc import Callable
from typing import Any

from catalog.errors import SqlError
from catalog.types import oids
from catalog.types.base import DEFAULT_FORMAT, EPOCH_MICROSECONDS, Columns, FormatSettings, Layout, SqlType, Storage
from catalog.types.datetime import (
    END_TIMESTAMP,
    MIN_TIMESTAMP,
    TIMESTAMP_INFINITY,
    TIMESTAMP_MINUS_INFINITY,
    UNIX_EPOCH_SECONDS,
    USECS_PER_DAY,
    USECS_PER_SECOND,
    check_timestamp,
    local_offset,
    round_to_precision,
    timestamp_is_infinite,
)
from catalog.types.datetime_input import (
    BadFormatError,
    FieldOverflowError,
    Moment,
    ZoneOverflowError,
    parse_datetime,
    sql_error,
)
from catalog.types.datetime_output import timestamp_formatter, timestamptz_formatter
from catalog.types.integer import INT4, INT8
from catalog.types.texts import wrong_length
from catalog.types.timezones import Zone, find_zone

MAX_PRECISION = 6
_ISO = re.compile(
    r"\d{4}-\d\d-\d\d[ T](?:[01]\d|2[0-3]):[0-5]\d:[0-5]\d(?:\.\d{1,6})?([+-](?:0\d|1[0-5])(?::?[0-5]\d)?|Z)?\Z",
    re.ASCII,
)
_EPOCH = datetime.datetime(2000, 1, 1)
_EPOCH_UTC = datetime.datetime(2000, 1, 1, tzinfo=datetime.UTC)
_MICROSECOND = datetime.timedelta(microseconds=1)
_SPECIAL = {
    "epoch": -UNIX_EPOCH_SECONDS * USECS_PER_SECOND,
    "infinity": TIMESTAMP_INFINITY,
    "-infinity": TIMESTAMP_MINUS_INFINITY,
}


def read_iso(text: str) -> tuple[int, bool] | None:
    """Reads the common form 'YYYY-MM-DD HH:MM:SS[.ffffff][+HH[:MM]]'; None for other forms.

    Returns the microseconds, and whether the text has an offset: then they are in UTC, otherwise in local time.
    """
    match = _ISO.match(text)
    if match is None:
        return None
    try:
        moment = datetime.datetime.fromisoformat(text)
    except ValueError:
        return None
    if match[1] is None:
        return (moment - _EPOCH) // _MICROSECOND, False
    return (moment - _EPOCH_UTC) // _MICROSECOND, True


def zoned_form(text: str) -> tuple[int, int] | None:
    """Reads the common form with an offset. Returns the number of characters of the local time, and the microseconds
    in UTC; None for other forms."""
    match, found = _ISO.match(text), read_iso(text)
    return (match.start(1), found[0]) if match is not None and found is not None and found[1] else None


def local_form(text: str) -> tuple[int, int] | None:
    """Reads the common form without an offset. Returns its length, and the microseconds; None for other forms."""
    found = read_iso(text)
    return None if found is None or found[1] else (len(text), found[0])


def _parse(text: str, type_name: str, settings: FormatSettings, zone: Zone) -> Moment:
    try:
        return parse_datetime(text, settings, zone)
    except (BadFormatError, FieldOverflowError, ZoneOverflowError) as error:
        raise sql_error(error, type_name, text) from None


def _finish(value: int, text: str) -> int:
    if not MIN_TIMESTAMP <= value < END_TIMESTAMP:
        raise SqlError("22008", f'timestamp out of range: "{text}"')
    return value


def parse_timestamp(text: str, settings: FormatSettings = DEFAULT_FORMAT) -> int:
    """Reads a timestamp as timestamp_in does, ignoring a zone. Raises 22007, 22008, 22009, 22023."""
    moment = _parse(text, "timestamp", settings, find_zone(settings.timezone))
    if moment.special:
        return _SPECIAL[moment.special]
    return _finish(moment.days() * USECS_PER_DAY + moment.time(), text)


def parse_timestamptz(text: str, settings: FormatSettings = DEFAULT_FORMAT) -> int:
    """Reads a timestamptz as timestamptz_in does, in the session's zone if the text has none. Raises the errors of
    `parse_timestamp`."""
    moment = _parse(text, "timestamp with time zone", settings, find_zone(settings.timezone))
    if moment.special:
        return _SPECIAL[moment.special]
    return _finish(moment.days() * USECS_PER_DAY + moment.time() - moment.offset * USECS_PER_SECOND, text)


def precision_typmod(arguments: tuple[str, ...], name: str, suffix: str) -> int:
    """Returns the modifier of timestamp(p) and time(p). Raises 22023."""
    decode = INT4.input_function()
    numbers: list[Any] = [decode(argument) for argument in arguments]
    if len(numbers) != 1:
        raise SqlError("22023", "invalid type modifier")
    if numbers[0] < 0:
        raise SqlError("22023", f"{name}({numbers[0]}){suffix} precision must not be negative")
    return min(int(numbers[0]), MAX_PRECISION)


class Timestamp(SqlType):
    """timestamp or timestamptz, internal form `int`."""

    columns = Columns(
        layout=Layout.NUMBERS, arrow="timestamp[us]", epoch=EPOCH_MICROSECONDS, key=("Q", 1 << 63), sent=">i8",
        output_of_settings=True, input_of_settings=True,
    )  # fmt: skip

    def __init__(self, oid: int, array_oid: int, name: str, sql_name: str, *, preferred: bool) -> None:
        self.oid = oid
        self.array_oid = array_oid
        self.name = name
        self.sql_name = sql_name
        self.category = "D"
        self.preferred = preferred
        self.length = 8
        self.storage = Storage("q")
        self.with_zone = oid == oids.TIMESTAMPTZ

    def input_function(self, settings: FormatSettings = DEFAULT_FORMAT, typmod: int = -1) -> Callable[[str], object]:
        decode = self._zoned_decoder(settings) if self.with_zone else self._local_decoder(settings)
        round_value = self.length_coercion(typmod, explicit=False)
        if round_value is None:
            return decode
        return lambda text: round_value(decode(text))

    @staticmethod
    def _local_decoder(settings: FormatSettings) -> Callable[[str], object]:
        match_iso, from_iso = _ISO.match, datetime.datetime.fromisoformat

        def decode(text: str) -> object:
            match = match_iso(text)
            if match is not None and match[1] is None:
                try:
                    return (from_iso(text) - _EPOCH) // _MICROSECOND
                except ValueError:
                    pass  # the general reader raises the error
            return parse_timestamp(text, settings)

        return decode

    @staticmethod
    def _zoned_decoder(settings: FormatSettings) -> Callable[[str], object]:
        zone = find_zone(settings.timezone)

        def decode(text: str) -> object:
            found = read_iso(text)
            if found is None:
                return parse_timestamptz(text, settings)
            value, utc = found
            return value if utc else value - local_offset(zone, value) * USECS_PER_SECOND

        return decode

    def text_encoder(self, settings: FormatSettings = DEFAULT_FORMAT) -> Callable[[Any], bytes]:
        if self.with_zone:
            form = timestamptz_formatter(settings, find_zone(settings.timezone))
        else:
            form = timestamp_formatter(settings)
        return lambda value: form(value).encode()

    def receive_function(self, typmod: int = -1) -> Callable[[bytes], object]:
        round_value = self.length_coercion(typmod, explicit=False)

        def decode(data: bytes) -> object:
            if len(data) != 8:
                raise wrong_length(data, 8)
            value = int.from_bytes(data, "big", signed=True)
            if not timestamp_is_infinite(value):
                check_timestamp(value)
            return value if round_value is None else round_value(value)

        return decode

    def binary_encoder(self) -> Callable[[object], bytes]:
        return struct.Struct(">q").pack

    def typmod_in(self, arguments: tuple[str, ...]) -> int:
        return precision_typmod(arguments, "TIMESTAMP", " WITH TIME ZONE" if self.with_zone else "")

    def typmod_out(self, typmod: int) -> str:
        return f"({typmod})" if typmod >= 0 else ""

    def length_coercion(self, typmod: int, explicit: bool) -> Callable[[Any], object] | None:
        if not 0 <= typmod < MAX_PRECISION:
            return None
        return lambda value: value if timestamp_is_infinite(value) else round_to_precision(value, typmod)

    def key_encoder(self) -> Callable[[object], bytes] | None:
        return INT8.key_encoder()

    def duckdb_type(self, typmod: int = -1) -> str:
        return "TIMESTAMP"


TIMESTAMP = Timestamp(oids.TIMESTAMP, oids.TIMESTAMP_ARRAY, "timestamp", "timestamp without time zone", preferred=False)
TIMESTAMPTZ = Timestamp(
    oids.TIMESTAMPTZ, oids.TIMESTAMPTZ_ARRAY, "timestamptz", "timestamp with time zone", preferred=True
)
