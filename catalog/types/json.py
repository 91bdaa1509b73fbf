"""json, which keeps its input text, and jsonb, which has a canonical text: unique keys by length, then by bytes."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from json.encoder import encode_basestring
from typing import Any, cast

from catalog.errors import SqlError
from catalog.types import oids
from catalog.types.base import DEFAULT_FORMAT, Columns, FormatSettings, Layout, Order, SqlType
from catalog.types.json_text import Number, Pairs, check_json, decode_by, decode_json, decoder
from catalog.types.long_values import json_reader
from catalog.types.numeric import encode_key, format_numeric, parse_numeric
from catalog.types.text import TEXT
from catalog.types.texts import decode_utf8, null_byte, text_key

_ENCODE = cast(Callable[[object], bytes], str.encode)


def quote_json(text: str) -> str:
    """Returns a string as JSON, with the escapes of PostgreSQL's escape_json."""
    return encode_basestring(text)


def render_jsonb(node: object) -> str:
    """Returns the text of jsonb_out for a decoded value (see `decode_json`). Raises 22003 for too long numbers."""
    if isinstance(node, Number):
        return format_numeric(parse_numeric(node))
    if isinstance(node, str):
        return encode_basestring(node)
    if isinstance(node, Pairs):
        members = sorted(dict(node).items(), key=lambda member: _key_order(member[0]))
        return "{" + ", ".join([f"{encode_basestring(key)}: {render_jsonb(value)}" for key, value in members]) + "}"
    if isinstance(node, list):
        return "[" + ", ".join([render_jsonb(item) for item in node]) + "]"
    return "null" if node is None else "true" if node else "false"


def render_json(node: object) -> str:
    """Returns a decoded value (see `decode_json`) as JSON without white space; members and numbers do not change."""
    if isinstance(node, Number):
        return str(node)
    if isinstance(node, str):
        return encode_basestring(node)
    if isinstance(node, Pairs):
        return "{" + ",".join([f"{encode_basestring(key)}:{render_json(value)}" for key, value in node]) + "}"
    if isinstance(node, list):
        return "[" + ",".join([render_json(item) for item in node]) + "]"
    return "null" if node is None else "true" if node else "false"


def _key_order(key: str) -> tuple[int, bytes]:
    data = key.encode()
    return len(data), data


def parse_jsonb(text: str) -> str:
    """Returns the canonical text. Raises 22P02, 22P05, 22003, 54001."""
    if (reader := json_reader(text)) is not None:
        return reader.json(text, "jsonb")
    try:
        return render_jsonb(decode_json(text))
    except RecursionError:
        raise SqlError("54001", "stack depth limit exceeded") from None


class _Shown(str):
    """JSON in its canonical form, unlike a plain str, which is a string value."""

    __slots__ = ()


@lru_cache(maxsize=1 << 16)
def _shown_number(text: str) -> _Shown:
    return _Shown(format_numeric(parse_numeric(text)))


def _shown_object(pairs: list[tuple[str, object]]) -> _Shown:
    members = sorted(dict(pairs).items(), key=lambda member: _key_order(member[0]))
    return _Shown("{" + ", ".join([f"{encode_basestring(key)}: {_show(value)}" for key, value in members]) + "}")


def _show(node: object) -> str:
    if isinstance(node, list):
        return "[" + ", ".join([_show(item) for item in node]) + "]"
    return node if isinstance(node, _Shown) else render_jsonb(node)


_SHOWER = decoder(_shown_number, _shown_object)


def canonical(text: str) -> str:
    """Does the same as parse_jsonb for long texts. Each object is converted to text as soon as it has been read, which
    saves memory."""
    try:
        return _show(decode_by(_SHOWER, text))
    except RecursionError:
        raise SqlError("54001", "stack depth limit exceeded") from None


def _parse_json(text: str) -> object:
    if "\0" in text:
        raise null_byte()
    if (reader := json_reader(text)) is not None:
        reader.json(text, "check")
    else:
        check_json(text)
    return text


class Json(SqlType):
    """json, internal form `str`: the input text. It has no order."""

    oid = oids.JSON
    array_oid = oids.JSON_ARRAY
    name = "json"
    sql_name = "json"
    category = "U"
    preferred = False
    length = -1
    long = None  # the JSON functions use a separate process themselves
    storage = TEXT.storage
    columns = Columns(layout=Layout.TEXT, sent_as_held=True, printed=True, order=Order.NONE)

    def input_function(self, settings: FormatSettings = DEFAULT_FORMAT, typmod: int = -1) -> Callable[[str], object]:
        return _parse_json

    def text_encoder(self, settings: FormatSettings = DEFAULT_FORMAT) -> Callable[[object], bytes]:
        return _ENCODE

    def receive_function(self, typmod: int = -1) -> Callable[[bytes], object]:
        return lambda data: _parse_json(decode_utf8(data))

    def binary_encoder(self) -> Callable[[object], bytes]:
        return _ENCODE

    def duckdb_type(self, typmod: int = -1) -> str:
        return "VARCHAR"


# The order of jsonb (PostgreSQL 16 manual, 8.14.4) is by the kind of value first.
_NULL, _STRING, _NUMBER, _BOOLEAN, _ARRAY, _OBJECT = range(6)


def _sort_key(node: object, raw: bool = False) -> tuple[Any, ...]:
    """Returns a sort key with the order of compareJsonbContainers. A scalar at the top is like an array of one
    element."""
    if isinstance(node, Pairs):
        flat: list[object] = [len(node)]
        for key, value in node:
            flat += ((_STRING, key), _sort_key(value))
        return (_OBJECT, *flat)
    if isinstance(node, list):
        return (_ARRAY, len(node), 1, *[_sort_key(item) for item in node])
    if raw:
        return (_ARRAY, 1, 0, _sort_key(node))
    if isinstance(node, Number):
        return (_NUMBER, parse_numeric(node))
    if isinstance(node, str):
        return (_STRING, node)
    return (_NULL,) if node is None else (_BOOLEAN, node)


def _key_bytes(node: object, raw: bool = False) -> bytes:
    """Returns bytes with the same order: a byte for the kind, counts in four bytes, then the parts."""
    if isinstance(node, Pairs):
        parts = [bytes((_OBJECT + 1,)), len(node).to_bytes(4, "big")]
        for key, value in node:
            parts += (text_key(key), _key_bytes(value))
        return b"".join(parts)
    if isinstance(node, list):
        return b"".join([bytes((_ARRAY + 1,)), len(node).to_bytes(4, "big"), b"\1", *map(_key_bytes, node)])
    if raw:
        return bytes((_ARRAY + 1,)) + (1).to_bytes(4, "big") + b"\0" + _key_bytes(node)
    if isinstance(node, Number):
        return bytes((_NUMBER + 1,)) + encode_key(parse_numeric(node))
    if isinstance(node, str):
        return bytes((_STRING + 1,)) + text_key(node)
    return bytes((_NULL + 1,)) if node is None else bytes((_BOOLEAN + 1, int(bool(node))))


class Jsonb(Json):
    """jsonb, internal form `str`: PostgreSQL's output text."""

    oid = oids.JSONB
    array_oid = oids.JSONB_ARRAY
    name = "jsonb"
    sql_name = "jsonb"
    columns = Columns(layout=Layout.TEXT, printed=True, order=Order.BY_KEY)

    def input_function(self, settings: FormatSettings = DEFAULT_FORMAT, typmod: int = -1) -> Callable[[str], object]:
        return parse_jsonb

    def receive_function(self, typmod: int = -1) -> Callable[[bytes], object]:
        def decode(data: bytes) -> object:
            if not data:
                raise SqlError("08P01", "insufficient data left in message")
            if data[0] != 1:
                raise SqlError("XX000", f"unsupported jsonb version number {data[0]}")
            return parse_jsonb(decode_utf8(data[1:]))

        return decode

    def binary_encoder(self) -> Callable[[Any], bytes]:
        return lambda value: b"\1" + value.encode()

    def sort_key(self) -> Callable[[Any], object]:
        return lambda value: _sort_key(decode_json(value), raw=True)

    def key_encoder(self) -> Callable[[Any], bytes]:
        return lambda value: _key_bytes(decode_json(value), raw=True)


JSON = Json()
JSONB = Jsonb()
