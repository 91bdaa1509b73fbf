"""hstore: pairs of a key and a value that may be NULL (the extension hstore; PostgreSQL 16 manual, F.18).

Internal form `str`: the text that hstore_out prints, `"a"=>"1", "b"=>NULL`, with its pairs in PostgreSQL's order:
shorter keys first (in bytes), keys of equal length by their bytes. So equal values have equal texts. `pairs_of` and
`text_of` convert between this text and a dictionary.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Iterable, Mapping
from typing import Any, cast

from catalog.errors import SqlError
from catalog.types import oids
from catalog.types.base import DEFAULT_FORMAT, Columns, FormatSettings, Layout, Order, SqlType
from catalog.types.long_values import LONG_SORTED
from catalog.types.text import TEXT
from catalog.types.texts import WHITESPACE, decode_utf8, null_byte

_ENCODE = cast(Callable[[object], bytes], str.encode)
_COUNT = struct.Struct(">i")
_MAX_BYTES = 0x3FFFFFFF  # of a key or a value
_PAIR = re.compile(r'"((?:[^"\\]|\\.)*)"=>(?:"((?:[^"\\]|\\.)*)"|NULL)(?:, )?', re.DOTALL)
_ESCAPED = re.compile(r"\\(.)", re.DOTALL)
Pairs = Mapping[str, str | None]


def order_of(key: str) -> tuple[int, bytes]:
    """Returns the sort key of a key."""
    data = key.encode()
    return len(data), data


def _quote(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def text_of(pairs: Pairs) -> str:
    """Returns the internal form of pairs. Raises 22001 for a key or value of a gigabyte."""
    parts = []
    for key in sorted(pairs, key=order_of):
        value = pairs[key]
        if len(key) > _MAX_BYTES:
            raise SqlError("22001", "string too long for hstore key")
        if value is not None and len(value) > _MAX_BYTES:
            raise SqlError("22001", "string too long for hstore value")
        parts.append(f"{_quote(key)}=>{'NULL' if value is None else _quote(value)}")
    return ", ".join(parts)


def pairs_of(value: str) -> dict[str, str | None]:
    """Returns the pairs of an internal form, in order."""
    if "\\" not in value:
        return {found[1]: found[2] for found in _PAIR.finditer(value)}
    return {
        _ESCAPED.sub(r"\1", found[1]): None if found[2] is None else _ESCAPED.sub(r"\1", found[2])
        for found in _PAIR.finditer(value)
    }


def first_wins(pairs: Iterable[tuple[str, str | None]]) -> dict[str, str | None]:
    """Returns a dictionary with the first value of each key."""
    found: dict[str, str | None] = {}
    for key, value in pairs:
        found.setdefault(key, value)
    return found


class _Reader:
    """hstore_in: reads key => value, .... A word ends at '=', ',' or white space; NULL without quotes is a NULL."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0

    def pairs(self) -> list[tuple[str, str | None]]:
        found: list[tuple[str, str | None]] = []
        while True:
            self._skip()
            if self.at >= len(self.text):
                return found
            key, _ = self._word("=")
            self._skip()
            if not self.text.startswith("=", self.at):
                raise self._unexpected_error()
            self.at += 1
            if not self.text.startswith(">", self.at):
                raise self._unexpected_error()
            self.at += 1
            self._skip()
            value, quoted = self._word(",")
            found.append((key, None if not quoted and value.lower() == "null" else value))
            self._skip()
            if self.at >= len(self.text):
                return found
            if self.text[self.at] != ",":
                raise self._unexpected_error()
            self.at += 1

    def _skip(self) -> None:
        while self.at < len(self.text) and self.text[self.at] in WHITESPACE:
            self.at += 1

    def _unexpected_error(self) -> SqlError:
        if self.at >= len(self.text):
            return SqlError("XX000", "Unexpected end of string")
        position = len(self.text[: self.at].encode())
        return SqlError("XX000", f'Syntax error near "{self.text[self.at]}" at position {position}')

    def _word(self, stop: str) -> tuple[str, bool]:
        """Reads a word. Returns it, and whether it was in quotes. A key ends at '=', a value at ','; both also at white
        space."""
        text = self.text
        if self.at >= len(text) or (text[self.at] == "=" and stop == "="):
            raise self._unexpected_error()
        if text[self.at] == '"':
            self.at += 1
            return self._read_quoted(), True
        parts: list[str] = []
        first = True
        while self.at < len(text) and (first or (text[self.at] not in WHITESPACE and text[self.at] != stop)):
            if text[self.at] == "\\":
                self.at += 1
                if self.at >= len(text):
                    raise self._unexpected_error()
            parts.append(text[self.at])
            self.at += 1
            first = False
        return "".join(parts), False

    def _read_quoted(self) -> str:
        parts: list[str] = []
        while True:
            if self.at >= len(self.text):
                raise self._unexpected_error()
            char = self.text[self.at]
            self.at += 1
            if char == '"':
                return "".join(parts)
            if char == "\\":
                if self.at >= len(self.text):
                    raise self._unexpected_error()
                char = self.text[self.at]
                self.at += 1
            parts.append(char)


def parse_hstore(text: str) -> str:
    """Returns the internal form of an input text. Raises XX000 (as the extension does), 22021."""
    if "\0" in text:
        raise null_byte()
    return text_of(first_wins(_Reader(text).pairs()))


class Hstore(SqlType):
    """hstore."""

    oid = oids.HSTORE
    array_oid = oids.HSTORE_ARRAY
    name = sql_name = "hstore"
    category = "U"
    preferred = False
    length = -1
    long = LONG_SORTED
    storage = TEXT.storage
    columns = Columns(layout=Layout.TEXT, printed=True, order=Order.BY_KEY)

    def input_function(self, settings: FormatSettings = DEFAULT_FORMAT, typmod: int = -1) -> Callable[[str], object]:
        return parse_hstore

    def text_encoder(self, settings: FormatSettings = DEFAULT_FORMAT) -> Callable[[object], bytes]:
        return _ENCODE

    def receive_function(self, typmod: int = -1) -> Callable[[bytes], object]:
        return _receive

    def binary_encoder(self) -> Callable[[Any], bytes]:
        return _send

    def sort_key(self) -> Callable[[Any], object]:
        """hstore_cmp: compares the concatenated keys and values as bytes, then their number, then their ends."""
        return _sort_key

    def key_encoder(self) -> Callable[[Any], bytes]:
        def encode(value: str) -> bytes:
            data, count, ends = _sort_key(value)
            parts = [data.replace(b"\0", b"\0\xff"), b"\0", count.to_bytes(4, "big")]
            parts += [end.to_bytes(4, "big") + bytes((missing,)) for end, missing in ends]
            return b"".join(parts)

        return encode

    def duckdb_type(self, typmod: int = -1) -> str:
        return "VARCHAR"


def _sort_key(value: str) -> tuple[bytes, int, tuple[tuple[int, bool], ...]]:
    parts: list[bytes] = []
    ends: list[tuple[int, bool]] = []
    total = 0
    pairs = pairs_of(value)
    for item in pairs.items():
        for part in item:
            data = b"" if part is None else part.encode()
            total += len(data)
            parts.append(data)
            ends.append((total, part is None))
    return b"".join(parts), len(pairs), tuple(ends)


def _receive(data: bytes) -> object:
    """hstore_recv: reads the number of pairs, then each key and value with its length, -1 for NULL."""
    at = 4

    def part(what: str) -> str | None:
        nonlocal at
        if at + 4 > len(data):
            raise SqlError("08P01", "insufficient data left in message")
        (length,) = _COUNT.unpack_from(data, at)
        at += 4
        if length < 0:
            if what == "key":
                raise SqlError("22004", "null value not allowed for hstore key")
            return None
        if at + length > len(data):
            raise SqlError("08P01", "insufficient data left in message")
        at += length
        return decode_utf8(data[at - length : at])

    if len(data) < 4:
        raise SqlError("08P01", "insufficient data left in message")
    (count,) = _COUNT.unpack_from(data)
    if count < 0:
        raise SqlError("22003", f"number of pairs ({count}) exceeds the maximum allowed (134217727)")
    found = [(cast(str, part("key")), part("value")) for _ in range(count)]
    if at != len(data):
        raise SqlError("22P03", "incorrect binary data format")
    return text_of(first_wins(found))


def _send(value: str) -> bytes:
    pairs = pairs_of(value)
    parts = [_COUNT.pack(len(pairs))]
    for item in pairs.items():
        for part in item:
            if part is None:
                parts.append(_COUNT.pack(-1))
            else:
                data = part.encode()
                parts += (_COUNT.pack(len(data)), data)
    return b"".join(parts)


def stored_form(value: str) -> bytes:
    """The bytes of PostgreSQL's stored form, whose hash hstore_hash() returns: a count, for each key and value where it
    ends (with a mark of the first one, and of a NULL), and the texts."""
    data, count, ends = _sort_key(value)
    marks = [
        end | (0x40000000 if missing else 0) | (0 if place else 0x80000000) for place, (end, missing) in enumerate(ends)
    ]
    return struct.pack(f"<{1 + len(marks)}I", count | 0x80000000, *marks) + data


HSTORE = Hstore()
