"""uuid: 16 octets."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, cast

from catalog.types import oids
from catalog.types.base import DEFAULT_FORMAT, Columns, FormatSettings, Layout, SqlType, Storage
from catalog.types.texts import bad_syntax, wrong_length

_FORM = re.compile(r"(\{?)[0-9a-fA-F]{4}(?:-?[0-9a-fA-F]{4}){7}(\}?)\Z")


def parse_uuid(text: str) -> bytes:
    """Reads a uuid with or without braces, and with a hyphen after any group of four digits. Raises 22P02."""
    match = _FORM.match(text)
    if match is None or bool(match[1]) != bool(match[2]):
        raise bad_syntax("uuid", text)
    return bytes.fromhex(text.strip("{}").replace("-", ""))


def format_uuid(value: bytes) -> str:
    """Returns lower-case digits in groups of 8-4-4-4-12."""
    digits = value.hex()
    return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"


def _decode_binary(data: bytes) -> object:
    if len(data) != 16:
        raise wrong_length(data, 16)
    return bytes(data)


class Uuid(SqlType):
    """uuid, internal form `bytes`, 16 of them; the order is that of the bytes."""

    oid = oids.UUID
    array_oid = oids.UUID_ARRAY
    name = "uuid"
    sql_name = "uuid"
    category = "U"
    preferred = False
    length = 16
    storage = Storage("16s")
    columns = Columns(layout=Layout.FIXED_BYTES, sent_as_held=True)

    def input_function(self, settings: FormatSettings = DEFAULT_FORMAT, typmod: int = -1) -> Callable[[str], object]:
        return parse_uuid

    def text_encoder(self, settings: FormatSettings = DEFAULT_FORMAT) -> Callable[[Any], bytes]:
        return lambda value: format_uuid(value).encode()

    def receive_function(self, typmod: int = -1) -> Callable[[bytes], object]:
        return _decode_binary

    def binary_encoder(self) -> Callable[[object], bytes]:
        return cast(Callable[[object], bytes], bytes)

    def key_encoder(self) -> Callable[[object], bytes]:
        return cast(Callable[[object], bytes], bytes)

    def duckdb_type(self, typmod: int = -1) -> str:
        return "BLOB"
