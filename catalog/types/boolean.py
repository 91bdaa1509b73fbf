"""bool: true and false, and the unique prefixes of their words (PostgreSQL 16 manual, 8.6)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from catalog.errors import SqlError
from catalog.types import oids
from catalog.types.base import DEFAULT_FORMAT, Columns, FormatSettings, Layout, SqlType, Storage
from catalog.types.texts import WHITESPACE, bad_syntax, wrong_length


def _spellings() -> dict[str, bool]:
    words = {"1": True, "0": False, "on": True, "of": False, "off": False}
    for word, value in (("true", True), ("yes", True), ("false", False), ("no", False)):
        for end in range(1, len(word) + 1):
            words[word[:end]] = value
    return words


SPELLINGS = _spellings()


def _decode_text(text: str) -> object:
    value = SPELLINGS.get(text)
    if value is None:
        value = SPELLINGS.get(text.strip(WHITESPACE).lower()) if text.isascii() else None
        if value is None:
            raise bad_syntax("boolean", text)
    return value


def _decode_binary(data: bytes) -> object:
    if len(data) != 1:
        raise wrong_length(data, 1) if data else SqlError("08P01", "no data left in message")
    return data != b"\0"


class Bool(SqlType):
    """bool, internal form `bool`."""

    oid = oids.BOOL
    array_oid = oids.BOOL_ARRAY
    name = "bool"
    sql_name = "boolean"
    category = "B"
    preferred = True
    length = 1
    storage = Storage("?")
    columns = Columns(layout=Layout.BOOLEANS, sent="?")

    def input_function(self, settings: FormatSettings = DEFAULT_FORMAT, typmod: int = -1) -> Callable[[str], object]:
        return _decode_text

    def text_encoder(self, settings: FormatSettings = DEFAULT_FORMAT) -> Callable[[object], bytes]:
        return lambda value: b"t" if value else b"f"

    def receive_function(self, typmod: int = -1) -> Callable[[bytes], object]:
        return _decode_binary

    def binary_encoder(self) -> Callable[[object], bytes]:
        return lambda value: b"\1" if value else b"\0"

    def key_encoder(self) -> Callable[[Any], bytes] | None:
        return lambda value: b"\1" if value else b"\0"

    def duckdb_type(self, typmod: int = -1) -> str:
        return "BOOLEAN"
