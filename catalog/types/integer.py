"""int2, int4, int8. Only decimal digits of ASCII: hexadecimal and underscores are new in PostgreSQL 16."""

from __future__ import annotations

import re
import struct
from collections.abc import Callable
from typing import Any, Final

from catalog.errors import SqlError
from catalog.types import oids
from catalog.types.base import DEFAULT_FORMAT, Columns, FormatSettings, Layout, SqlType, Storage
from catalog.types.texts import bad_syntax, out_of_range, wrong_length

_INTEGER = re.compile(r"[ \t\n\v\f\r]*([+-]?)0*([0-9]+)[ \t\n\v\f\r]*\Z")
BITS: Final = {oids.INT2: 15, oids.INT4: 31, oids.INT8: 63}
"""Bits of the magnitude, by OID: an integer of n bits is from -(1 << n) to (1 << n) - 1."""
_PLAIN_DIGITS = 18  # always within int8, and far below the limit of int()


def fits(oid: int, value: object) -> bool:
    """Whether a value is within the range of an integer type; True for other types. A value out of range is not equal
    to any value of the type."""
    bits = BITS.get(oid)
    return bits is None or not isinstance(value, int) or -(1 << bits) <= value < 1 << bits


def parse_integer(text: str, low: int, high: int, type_name: str) -> int:
    """Reads an integer as PostgreSQL does. Raises 22P02, 22003."""
    match = _INTEGER.match(text)
    if match is None:
        raise _error_of_prefix(text, high, type_name)
    digits = match[2]
    if len(digits) > 19:
        raise out_of_range(type_name, text)
    value = -int(digits) if match[1] == "-" else int(digits)
    if not low <= value <= high:
        raise out_of_range(type_name, text)
    return value


_LEADING = re.compile(r"[ \t\n\v\f\r]*[+-]?0*([0-9]+)")


def _error_of_prefix(text: str, high: int, type_name: str) -> SqlError:
    """Returns the error for a malformed integer. PostgreSQL reads the digits first, so '99999999999x' is out of
    range."""
    match = _LEADING.match(text)
    if match is not None and (len(match[1]) > 19 or int(match[1]) > high + 1):
        return out_of_range(type_name, text)
    return bad_syntax(type_name, text)


class Integer(SqlType):
    """A signed integer of 2, 4 or 8 bytes, internal form `int`."""

    def __init__(self, oid: int, array_oid: int, name: str, sql_name: str, length: int, digits: bool = True) -> None:
        self.oid = oid
        self.array_oid = array_oid
        self.name = name
        self.sql_name = sql_name
        self.category = "N"
        self.preferred = False
        self.length = length
        self._code = {2: "h", 4: "i", 8: "q"}[length]
        self.storage = Storage(self._code)
        self.columns = Columns(
            layout=Layout.NUMBERS,
            arrow=f"int{8 * length}",
            key=(self._code.upper(), 1 << (8 * length - 1)),
            sent=f">i{length}",
            digits=digits,
        )
        self.high = (1 << (8 * length - 1)) - 1
        self.low = -self.high - 1

    def input_function(self, settings: FormatSettings = DEFAULT_FORMAT, typmod: int = -1) -> Callable[[str], object]:
        low, high, type_name = self.low, self.high, self.sql_name

        def decode(text: str) -> object:
            if text.isdecimal() and text.isascii() and len(text) <= _PLAIN_DIGITS:
                value = int(text)
                if value <= high:
                    return value
            return parse_integer(text, low, high, type_name)

        return decode

    def text_encoder(self, settings: FormatSettings = DEFAULT_FORMAT) -> Callable[[object], bytes]:
        return b"%d".__mod__

    def receive_function(self, typmod: int = -1) -> Callable[[bytes], object]:
        length, from_bytes = self.length, int.from_bytes

        def decode(data: bytes) -> object:
            if len(data) != length:
                raise wrong_length(data, length)
            return from_bytes(data, "big", signed=True)

        return decode

    def binary_encoder(self) -> Callable[[object], bytes]:
        return struct.Struct(">" + self._code).pack

    def key_encoder(self) -> Callable[[object], bytes] | None:
        """Big-endian with the sign flipped, so that bytes compare as the integers do."""
        pack = struct.Struct(">" + self._code.upper()).pack
        bias = -self.low

        def encode(value: Any) -> bytes:
            return pack(value + bias)

        return encode

    def duckdb_type(self, typmod: int = -1) -> str:
        return {2: "SMALLINT", 4: "INTEGER", 8: "BIGINT"}[self.length]


INT2 = Integer(oids.INT2, oids.INT2_ARRAY, "int2", "smallint", 2)
INT4 = Integer(oids.INT4, oids.INT4_ARRAY, "int4", "integer", 4)
INT8 = Integer(oids.INT8, oids.INT8_ARRAY, "int8", "bigint", 8)
