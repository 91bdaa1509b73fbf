"""bytea: octets, as text in hexadecimal or in the older escaped form (PostgreSQL 16 manual, 8.4)."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, cast

from catalog.errors import SqlError
from catalog.types import oids
from catalog.types.base import DEFAULT_FORMAT, Columns, FormatSettings, Layout, SqlType, Storage
from catalog.types.texts import null_byte

_ESCAPE = re.compile(rb"\\(\\|[0-3][0-7][0-7]|)")
_UNPRINTABLE = re.compile(rb"[^ -\[\]-~]")
_HEX_SPACE = b" \n\t\r"


def parse_bytea(text: str) -> bytes:
    """Reads both input forms. Raises 22023 for bad hexadecimal, 22P02 for bad escapes."""
    if text.startswith("\\x"):
        try:
            return bytes.fromhex(text[2:]) if text.isascii() else _parse_hex(text)
        except ValueError:
            return _parse_hex(text)
    if "\0" in text:
        raise null_byte()
    data = text.encode()
    return _ESCAPE.sub(_unescape, data) if "\\" in text else data


def _unescape(match: re.Match[bytes]) -> bytes:
    escape = match[1]
    if not escape:
        raise SqlError("22P02", "invalid input syntax for type bytea")
    return escape if escape == b"\\" else bytes((int(escape, 8),))


def _parse_hex(text: str) -> bytes:
    """Reads hexadecimal slowly, to raise PostgreSQL's error. White space is allowed only between pairs of digits."""
    data = text.encode()[2:]
    result = bytearray()
    position = 0
    while position < len(data):
        if data[position] in _HEX_SPACE:
            position += 1
            continue
        high = _hex_digit(data, position)
        if position + 1 >= len(data):
            raise SqlError("22023", "invalid hexadecimal data: odd number of digits")
        result.append(high << 4 | _hex_digit(data, position + 1))
        position += 2
    return bytes(result)


def _hex_digit(data: bytes, position: int) -> int:
    digit = chr(data[position])
    if digit not in "0123456789abcdefABCDEF":
        shown = data[position : position + 4].decode(errors="ignore")[:1]
        raise SqlError("22023", f'invalid hexadecimal digit: "{shown}"')
    return int(digit, 16)


def escape_bytea(data: bytes) -> bytes:
    """Returns the output of bytea_output = escape."""
    return _UNPRINTABLE.sub(lambda match: b"\\\\" if match[0] == b"\\" else b"\\%03o" % match[0][0], data)


class Bytea(SqlType):
    """bytea, internal form `bytes`."""

    oid = oids.BYTEA
    array_oid = oids.BYTEA_ARRAY
    name = "bytea"
    sql_name = "bytea"
    category = "U"
    preferred = False
    length = -1
    storage = Storage(None)
    columns = Columns(layout=Layout.BYTES, sent_as_held=True, output_of_settings=True)

    def text_decoder(self, settings: FormatSettings = DEFAULT_FORMAT, typmod: int = -1) -> Callable[[str], object]:
        """Returns the input function. It reads plain hexadecimal digits, which drivers send, without a separate
        process, because that is faster than sending them to a process."""
        read, from_hex = super().text_decoder(settings, typmod), bytes.fromhex

        def decode(text: str) -> object:
            if text.startswith("\\x") and text.isascii():
                try:
                    return from_hex(text[2:])
                except ValueError:
                    pass
            return read(text)

        return decode

    def input_function(self, settings: FormatSettings = DEFAULT_FORMAT, typmod: int = -1) -> Callable[[str], object]:
        return parse_bytea

    def text_encoder(self, settings: FormatSettings = DEFAULT_FORMAT) -> Callable[[Any], bytes]:
        if settings.bytea_output == "escape":
            return escape_bytea
        return lambda value: b"\\x" + value.hex().encode()

    def receive_function(self, typmod: int = -1) -> Callable[[bytes], object]:
        return bytes

    def binary_encoder(self) -> Callable[[object], bytes]:
        return cast(Callable[[object], bytes], bytes)

    def key_encoder(self) -> Callable[[Any], bytes]:
        """Encodes 0x00 as 0x00 0xFF, and ends the value by 0x00 0x00."""
        return lambda value: value.replace(b"\0", b"\0\xff") + b"\0\0"

    def duckdb_type(self, typmod: int = -1) -> str:
        return "BLOB"
