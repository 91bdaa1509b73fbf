"""Values between Python and the database, as psycopg has them.

bool int float str bytes         unchanged
Decimal                          numeric, exact
date time datetime               infinities, 24:00:00 and years past 9999 raise DataError; timestamptz comes in the
                                 session's time zone
timedelta                        interval; its months come as 30 days and its years as 365, as in psycopg
uuid.UUID                        uuid
list                             arrays, nested as they have dimensions
dict, list, str, ... of json     json and jsonb come parsed; to send one: `shoal.Json(value)`, or a dict
str                              PostgreSQL's text, for all other types, in both directions
"""

from __future__ import annotations

import datetime
import json
import uuid
import zoneinfo
from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any

from catalog.types import element_of, lookup, oids
from catalog.types.base import Array, FormatSettings, Interval
from catalog.types.datetime import ORDINAL_EPOCH
from shoal.embedded.errors import DataError, ProgrammingError

Decode = Callable[[bytes], Any]

_ORIGIN = datetime.datetime(2000, 1, 1)
_UTC_ORIGIN = datetime.datetime(2000, 1, 1, tzinfo=datetime.UTC)
_DAY = 86_400_000_000
_PLAIN = oids.NUMBERS | oids.COLLATABLE | {oids.BOOL, oids.BYTEA}


class Json:
    """A value that is sent as JSON, whatever its type."""

    def __init__(self, value: Any) -> None:
        self.value = value


# --- results ---------------------------------------------------------------------------------------------------------


class Decoders:
    """Decodes columns into Python values for one session, whose time zone timestamptz values get."""

    def __init__(self) -> None:
        self._zone: datetime.tzinfo = datetime.UTC

    def use_zone(self, name: str) -> None:
        """Called when the session's TimeZone changes. UTC is used for a zone that Python does not know."""
        try:
            self._zone = zoneinfo.ZoneInfo(name)
        except (zoneinfo.ZoneInfoNotFoundError, ValueError):
            self._zone = datetime.UTC

    def format_of(self, oid: int) -> int:
        """The protocol's format in which a type is requested: 1 (binary), or 0 if its text is the value."""
        return int(oid != oids.FLOAT4 and self._is_known(oid))

    def decoder(self, oid: int, code: int, settings: FormatSettings) -> Decode:
        """The function that decodes a column of a type in a format."""
        if not self._is_known(oid):
            return lambda data: data.decode()
        if oid == oids.FLOAT4:
            return float  # from its text: 1.1, where single precision is 1.10000002
        kind = lookup(oid)
        read: Callable[[Any], Any]
        if code:
            read = kind.binary_decoder()
        else:
            text = kind.text_decoder(settings)
            read = lambda data: text(data.decode())  # noqa: E731
        shaped = self._shape(oid)
        return read if shaped is None else lambda data: shaped(read(data))

    def _is_known(self, oid: int) -> bool:
        element = element_of(oid)
        return oid in _PLAIN or oid in _SHAPES or oid == oids.TIMESTAMPTZ or (element != 0 and self._is_known(element))

    def _shape(self, oid: int) -> Callable[[Any], Any] | None:
        """The function that converts the engine's internal form (catalog/types/base.py) to Python's, or None if both
        are the same."""
        element = element_of(oid)
        if element:
            shape = self._shape(element)
            return lambda array: _nest_lists(array, shape)
        if oid == oids.TIMESTAMPTZ:
            return self._in_zone
        return _SHAPES.get(oid)

    def _in_zone(self, value: int) -> datetime.datetime:
        return _timestamp(value, _UTC_ORIGIN).astimezone(self._zone)


def _nest_lists(array: Array, shape: Callable[[Any], Any] | None) -> list[Any]:
    values: list[Any] = [value if value is None or shape is None else shape(value) for value in array.elements]
    for length in reversed(array.dimensions[1:]):
        values = [values[start : start + length] for start in range(0, len(values), length)]
    return values


def _date(days: int) -> datetime.date:
    try:
        return datetime.date.fromordinal(ORDINAL_EPOCH + days)
    except (ValueError, OverflowError):
        raise DataError("a date is outside of the years 1 to 9999, which are Python's: cast it to text") from None


def _time(value: int) -> datetime.time:
    if value >= _DAY:
        raise DataError("Python has no time 24:00:00: cast it to text")
    seconds, microseconds = divmod(value, 1_000_000)
    return datetime.time(seconds // 3600, seconds // 60 % 60, seconds % 60, microseconds)


def _timetz(value: tuple[int, int]) -> datetime.time:
    return _time(value[0]).replace(tzinfo=datetime.timezone(datetime.timedelta(seconds=-value[1])))


def _timestamp(value: int, origin: datetime.datetime) -> datetime.datetime:
    try:
        return origin + datetime.timedelta(microseconds=value)
    except OverflowError:
        raise DataError("a timestamp is outside of the years 1 to 9999, which are Python's: cast it to text") from None


def _interval(value: Interval) -> datetime.timedelta:
    years, months = divmod(abs(value.months), 12)
    days = years * 365 + months * 30
    return datetime.timedelta(days=value.days + (days if value.months >= 0 else -days), microseconds=value.microseconds)


_SHAPES: dict[int, Callable[[Any], Any]] = {
    oids.DATE: _date,
    oids.TIME: _time,
    oids.TIMETZ: _timetz,
    oids.TIMESTAMP: lambda value: _timestamp(value, _ORIGIN),
    oids.INTERVAL: _interval,
    oids.UUID: lambda value: uuid.UUID(bytes=value),
    oids.JSON: json.loads,
    oids.JSONB: json.loads,
}


# --- parameters ------------------------------------------------------------------------------------------------------


def natural_type(value: object) -> int:
    """The type of a parameter whose type the statement leaves open. It is 0 (unknown) for strings and NULL."""
    match value:
        case bool():
            return oids.BOOL
        case int():
            return oids.INT4 if -(2**31) <= value < 2**31 else oids.INT8 if -(2**63) <= value < 2**63 else oids.NUMERIC
        case float():
            return oids.FLOAT8
        case Decimal():
            return oids.NUMERIC
        case bytes() | bytearray() | memoryview():
            return oids.BYTEA
        case datetime.datetime():
            return oids.TIMESTAMP if value.tzinfo is None else oids.TIMESTAMPTZ
        case datetime.date():
            return oids.DATE
        case datetime.time():
            return oids.TIME if value.tzinfo is None else oids.TIMETZ
        case datetime.timedelta():
            return oids.INTERVAL
        case uuid.UUID():
            return oids.UUID
        case dict() | Json():
            return oids.JSONB
    return 0


def parameter(value: object) -> bytes | None:
    """A parameter in the text form that its type reads. Raises ProgrammingError, DataError."""
    if value is None:
        return None
    text = _text(value)
    if "\0" in text:
        raise DataError("PostgreSQL text fields cannot contain NUL (0x00) bytes")
    return text.encode()


def _text(value: object) -> str:
    match value:
        case str():
            return value
        case bool():
            return "t" if value else "f"
        case int() | Decimal() | uuid.UUID():
            return str(value)
        case float():
            return repr(value)
        case bytes() | bytearray() | memoryview():
            return "\\x" + bytes(value).hex()
        case datetime.datetime() | datetime.date() | datetime.time():
            return value.isoformat()
        case datetime.timedelta():
            return f"{value.days} days {value.seconds} seconds {value.microseconds} microseconds"
        case dict():
            return json.dumps(value)
        case Json():
            return json.dumps(value.value)
        case list() | tuple():
            return _array(value)
    raise ProgrammingError(f"a parameter is a {type(value).__name__}, which has no SQL type: send it as text")


def _array(values: Sequence[object]) -> str:
    return "{" + ",".join(_element(value) for value in values) + "}"


def _element(value: object) -> str:
    if value is None:
        return "NULL"
    if isinstance(value, list | tuple):
        return _array(value)
    return '"' + _text(value).replace("\\", "\\\\").replace('"', '\\"') + '"'
