"""jsonpath. Internal form `str`: the text that PostgreSQL prints for the path, which `parse_jsonpath` can read."""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

from catalog.errors import SqlError
from catalog.types import oids
from catalog.types.base import DEFAULT_FORMAT, Columns, FormatSettings, Layout, Order, SqlType
from catalog.types.jsonpath_syntax import parse_jsonpath, print_jsonpath
from catalog.types.text import TEXT
from catalog.types.texts import decode_utf8

_VERSION = 1
_ENCODE = cast(Callable[[object], bytes], str.encode)


def _read(text: str) -> object:
    return print_jsonpath(parse_jsonpath(text))


def _receive(data: bytes) -> object:
    if not data or data[0] != _VERSION:
        raise SqlError("XX000", f"unsupported jsonpath version number: {data[0] if data else 0}")
    return _read(decode_utf8(data[1:]))


class JsonPathType(SqlType):
    """jsonpath, a type without order and equality."""

    oid = oids.JSONPATH
    array_oid = oids.JSONPATH_ARRAY
    name = "jsonpath"
    sql_name = "jsonpath"
    category = "U"
    preferred = False
    length = -1
    storage = TEXT.storage
    columns = Columns(layout=Layout.TEXT, printed=True, order=Order.NONE)

    def input_function(self, settings: FormatSettings = DEFAULT_FORMAT, typmod: int = -1) -> Callable[[str], object]:
        return _read

    def text_encoder(self, settings: FormatSettings = DEFAULT_FORMAT) -> Callable[[object], bytes]:
        return _ENCODE

    def receive_function(self, typmod: int = -1) -> Callable[[bytes], object]:
        return _receive

    def binary_encoder(self) -> Callable[[object], bytes]:
        return lambda value: bytes((_VERSION,)) + cast(str, value).encode()

    def duckdb_type(self, typmod: int = -1) -> str:
        return "VARCHAR"
