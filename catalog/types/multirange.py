"""Multiranges: int4multirange, nummultirange, ... (PostgreSQL 16 manual, 8.17; multirangetypes.c).

Internal form: a tuple of non-empty `Range`s in order, which neither overlap nor adjoin, so that equal sets are equal
tuples. In columns they are text, as ranges are.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Iterable, Iterator
from typing import Any, cast

from catalog.errors import SqlError
from catalog.types import oids
from catalog.types.base import DEFAULT_FORMAT, FormatSettings, Parts, SqlType, Storage
from catalog.types.long_values import LONG_SORTED
from catalog.types.range import RANGES, Range, RangeType
from catalog.types.texts import WHITESPACE

_PLAIN = re.compile(r'[^"\\\])]*[\])]')  # the rest of a range without quotes
_SPACE = re.compile(rf"[{WHITESPACE}]*")
_COUNT = struct.Struct(">i")
Multirange = tuple[Range, ...]


def _malformed_error(text: str, detail: str) -> SqlError:
    return SqlError("22P02", f'malformed multirange literal: "{text}"', detail=detail)


class _Reader:
    """Splits a literal into the texts of its ranges, without empty ranges."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0

    def ranges(self) -> Iterator[str]:
        if self._next() != "{":
            raise _malformed_error(self.text, "Missing left brace.")
        seen = 0
        while True:
            char = self._next()
            if char == "}" and not seen:
                break
            seen += 1
            if char in ("[", "("):
                yield self._range()
            elif self.text[self.at - 1 : self.at + 4].lower() == "empty":
                self.at += 4
            else:
                raise _malformed_error(self.text, "Expected range start.")
            after = self._next()
            if after == "}":
                break
            if after != ",":
                raise _malformed_error(self.text, "Expected comma or end of multirange.")
        if self.text[self.at :].strip(WHITESPACE):
            raise _malformed_error(self.text, "Junk after closing right brace.")

    def _next(self) -> str:
        """Reads the next character that is not white space."""
        self.at = _SPACE.match(self.text, self.at).end()  # type: ignore[union-attr]
        if self.at >= len(self.text):
            if self.at and "{" in self.text:
                raise _malformed_error(self.text, "Unexpected end of input.")
            return ""
        self.at += 1
        return self.text[self.at - 1]

    def _range(self) -> str:
        """Reads a range from its opening bracket to the closing one, which must not be quoted."""
        start = self.at - 1
        plain = _PLAIN.match(self.text, self.at)
        if plain is not None:
            self.at = plain.end()
            return self.text[start : self.at]
        quoted = False
        while self.at < len(self.text):
            char = self.text[self.at]
            self.at += 1
            if char == "\\":
                self.at += 1
            elif char == '"':
                quoted = not quoted
            elif char in "])" and not quoted:
                return self.text[start : self.at]
        raise _malformed_error(self.text, "Unexpected end of input.")


class MultirangeType(SqlType):
    """The multirange type of a range type."""

    category = "R"
    preferred = False
    length = -1
    long: int | None = LONG_SORTED

    def __init__(self, oid: int, array_oid: int, name: str, range_type: RangeType) -> None:
        self.oid = oid
        self.array_oid = array_oid
        self.name = self.sql_name = name
        self.range = range_type
        to_storage, from_storage = range_type.storage.to_storage, range_type.storage.from_storage
        assert to_storage is not None and from_storage is not None
        self.storage = Storage(None, self._sender(to_storage, True), self._receiver(from_storage))  # type: ignore[arg-type]
        self.columns = range_type.columns

    def make(self, ranges: Iterable[Range]) -> Multirange:
        """Returns the union of the ranges."""
        ends = self.range.ends
        found: list[Range] = []
        for item in sorted((item for item in ranges if not item.empty), key=ends):
            if found and self._touch(found[-1], item):
                last = found[-1]
                upper = item if ends(item)[1] > ends(last)[1] else last
                found[-1] = Range(last.lower, upper.upper, last.lower_inclusive, upper.upper_inclusive)
            else:
                found.append(item)
        return tuple(found)

    def _touch(self, one: Range, other: Range) -> bool:
        """Whether there is no gap between two ranges; the first must not begin later."""
        if other.lower is None or one.upper is None or self.range.ends(other)[0] <= self.range.ends(one)[1]:
            return True
        key = self.range.key
        return bool(key(one.upper) == key(other.lower) and one.upper_inclusive != other.lower_inclusive)

    def input_function(self, settings: FormatSettings = DEFAULT_FORMAT, typmod: int = -1) -> Callable[[str], object]:
        decode = self.range.input_function(settings)
        return lambda text: self.make([decode(part) for part in _Reader(text).ranges()])  # type: ignore[misc]

    def with_stored(self, value: object) -> object:
        made = cast("tuple[Any, ...]", value)
        encode = cast("Callable[[object], bytes]", self.storage.to_storage)
        return Parts(encode(made), self.oid, cast(Any, self.storage.from_storage), made)

    def of_stored(self, stored: bytes) -> object:
        return Parts(stored, self.oid, cast(Any, self.storage.from_storage))

    def text_encoder(self, settings: FormatSettings = DEFAULT_FORMAT) -> Callable[[Any], bytes]:
        encode = self.range.text_encoder(settings)
        return lambda value: b"{" + b",".join(map(encode, value)) + b"}"

    def receive_function(self, typmod: int = -1) -> Callable[[bytes], object]:
        return self._receiver(self.range.receive_function())

    def _receiver(self, decode: Callable[[bytes], object]) -> Callable[[bytes], object]:
        def receive(data: bytes) -> object:
            def count(at: int) -> int:
                if at + 4 > len(data):
                    raise SqlError("08P01", "insufficient data left in message")
                return int(_COUNT.unpack_from(data, at)[0])

            parts: list[Any] = []
            at = 4
            for _ in range(count(0)):
                length = count(at)
                at += 4 + length
                if length < 0 or at > len(data):
                    raise SqlError("08P01", "insufficient data left in message")
                parts.append(decode(data[at - length : at]))
            if at != len(data):
                raise SqlError("22P03", "incorrect binary data format")
            return self.make(parts)

        return receive

    def binary_encoder(self) -> Callable[[Any], bytes]:
        return self._sender(self.range.binary_encoder(), self.range.stored_as_sent)

    def _sender(self, encode: Callable[[Any], bytes], as_stored: bool) -> Callable[[Any], bytes]:
        """The encoder of values. `as_stored`: whether that is their stored form."""

        def send(value: Any) -> bytes:
            if as_stored and value.__class__ is Parts and value.stored_as == self.oid:
                return value.stored
            parts = [_COUNT.pack(len(value))]
            for item in value:
                data = encode(item)
                parts += (_COUNT.pack(len(data)), data)
            return b"".join(parts)

        return send

    def carrier(self) -> SqlType:
        known = self.range.carrier()
        if known is self.range:
            return self
        made = MultirangeType(self.oid, self.array_oid, self.name, known)
        made.long = None
        return made

    def sort_key(self) -> Callable[[Any], object]:
        """Compares range by range; a prefix of another multirange is less."""
        key = self.range.sort_key()
        return lambda value: tuple(map(key, value))

    def key_encoder(self) -> Callable[[Any], bytes]:
        encode = self.range.key_encoder()
        return lambda value: b"".join([b"\1" + encode(item) for item in value]) + b"\0"

    def duckdb_type(self, typmod: int = -1) -> str:
        return "VARCHAR"


_OIDS = {
    "int4": (oids.INT4MULTIRANGE, oids.INT4MULTIRANGE_ARRAY),
    "int8": (oids.INT8MULTIRANGE, oids.INT8MULTIRANGE_ARRAY),
    "num": (oids.NUMMULTIRANGE, oids.NUMMULTIRANGE_ARRAY),
    "ts": (oids.TSMULTIRANGE, oids.TSMULTIRANGE_ARRAY),
    "tstz": (oids.TSTZMULTIRANGE, oids.TSTZMULTIRANGE_ARRAY),
    "date": (oids.DATEMULTIRANGE, oids.DATEMULTIRANGE_ARRAY),
}
MULTIRANGES: tuple[MultirangeType, ...] = tuple(
    MultirangeType(*_OIDS[known.name.removesuffix("range")], known.name.replace("range", "multirange"), known)
    for known in RANGES
)
RANGE_OIDS = frozenset(known.oid for known in (*RANGES, *MULTIRANGES))
