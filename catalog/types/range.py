"""Ranges: int4range, int8range, numrange, tsrange, tstzrange, daterange. Internal form `Range`, always canonical.

A bound that is None is infinite. As in PostgreSQL, ranges of integers and dates have the form [a,b), so that equal
ranges have equal bounds (PostgreSQL 16 manual, 8.17; rangetypes.c). In columns they are text.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable
from typing import Any, NamedTuple

from catalog.errors import SqlError
from catalog.types import oids
from catalog.types.base import DEFAULT_FORMAT, Columns, FormatSettings, Order, SqlType, Storage
from catalog.types.date import DATE
from catalog.types.integer import INT4, INT8
from catalog.types.numeric import Numeric
from catalog.types.texts import WHITESPACE, read_part
from catalog.types.timestamp import TIMESTAMP, TIMESTAMPTZ

_LENGTH = struct.Struct(">i")
_EMPTY, _LOWER_INCLUSIVE, _UPPER_INCLUSIVE, _LOWER_INFINITE, _UPPER_INFINITE = 1, 2, 4, 8, 16
_QUOTED = re.compile(r'[\s"\\()\[\],]', re.ASCII)
_DATE_LIMITS = (-(2**31), 2**31 - 1)  # -infinity and infinity, which have no neighbours
_LAST_DATE = 2145031948  # 5874897-12-31


class Range(NamedTuple):
    """A range. An `empty` range has no bounds; infinite bounds are not inclusive."""

    lower: Any
    upper: Any
    lower_inclusive: bool
    upper_inclusive: bool
    empty: bool = False


EMPTY = Range(None, None, False, False, True)


def _malformed_error(text: str, detail: str) -> SqlError:
    return SqlError("22P02", f'malformed range literal: "{text}"', detail=detail)


def read_range(text: str) -> tuple[str | None, str | None, str, str] | None:
    """Returns the texts of the bounds, and the brackets; None for 'empty'. Raises 22P02."""
    start = len(text) - len(text.lstrip(WHITESPACE))
    if text[start : start + 5].lower() == "empty":
        if text[start + 5 :].strip(WHITESPACE):
            raise _malformed_error(text, 'Junk after "empty" key word.')
        return None
    opening = text[start : start + 1]
    if opening not in ("[", "("):
        raise _malformed_error(text, "Missing left parenthesis or bracket.")
    lower, at = read_part(text, start + 1, ",)]", _malformed_error)
    if not text.startswith(",", at):
        raise _malformed_error(text, "Missing comma after lower bound.")
    upper, at = read_part(text, at + 1, ",)]", _malformed_error)
    closing = text[at : at + 1]
    if closing not in ("]", ")"):
        raise _malformed_error(text, "Too many commas.")
    if text[at + 1 :].strip(WHITESPACE):
        raise _malformed_error(text, "Junk after right parenthesis or bracket.")
    return lower, upper, opening, closing


def _quote(text: str) -> str:
    if not text or _QUOTED.search(text):
        return '"' + text.replace("\\", "\\\\").replace('"', '""') + '"'
    return text


def _sender(encode_bound: Callable[[Any], bytes]) -> Callable[[Any], bytes]:
    def encode(value: Any) -> bytes:
        if value.empty:
            return bytes((_EMPTY,))
        flags = _LOWER_INCLUSIVE * value.lower_inclusive + _UPPER_INCLUSIVE * value.upper_inclusive
        flags += _LOWER_INFINITE * (value.lower is None) + _UPPER_INFINITE * (value.upper is None)
        parts = [bytes((flags,))]
        for bound in value[:2]:
            if bound is not None:
                data = encode_bound(bound)
                parts.append(_LENGTH.pack(len(data)) + data)
        return b"".join(parts)

    return encode


class RangeType(SqlType):
    """The range type over `element`. `discrete`: its values have neighbours."""

    category = "R"
    preferred = False
    length = -1

    def __init__(
        self,
        oid: int,
        array_oid: int,
        name: str,
        element: SqlType,
        discrete: bool = False,
        stored: SqlType | None = None,
    ) -> None:
        """`stored`: a codec for the bounds in stored values and in columns, if binary form and text of `element` may
        change."""
        self.oid = oid
        self.array_oid = array_oid
        self.name = self.sql_name = name
        self.element = element
        self.discrete = discrete
        self.key: Callable[[Any], Any] = element.sort_key() or (lambda value: value)
        self.stored_as_sent = stored is None
        self._stored = stored
        self.storage = Storage(
            None,
            _sender((stored or element).binary_encoder()),
            self._receiver((stored or element).receive_function()),  # type: ignore[arg-type]
        )
        self.columns = Columns(
            order=Order.BY_KEY,
            output_of_settings=element.columns.output_of_settings,
            input_of_settings=element.columns.input_of_settings,
        )

    def make(self, lower: Any, upper: Any, lower_inclusive: bool, upper_inclusive: bool) -> Range:
        """Returns the canonical range. Raises 22000 for bounds in the wrong order, 22003, 22008."""
        lower_inclusive = lower_inclusive and lower is not None
        upper_inclusive = upper_inclusive and upper is not None
        if lower is not None and upper is not None:
            one, other = self.key(lower), self.key(upper)
            if one > other:
                raise SqlError("22000", "range lower bound must be less than or equal to range upper bound")
            if one == other and not (lower_inclusive and upper_inclusive):
                return EMPTY
        if not self.discrete:
            return Range(lower, upper, lower_inclusive, upper_inclusive)
        if lower is not None and not lower_inclusive and self._has_next(lower):
            lower, lower_inclusive = self._next(lower), True
        if upper_inclusive and self._has_next(upper):
            upper, upper_inclusive = self._next(upper), False
        if lower is not None and lower == upper and not (lower_inclusive and upper_inclusive):
            return EMPTY
        return Range(lower, upper, lower_inclusive, upper_inclusive)

    def _has_next(self, value: int) -> bool:
        return self.element.oid != oids.DATE or value not in _DATE_LIMITS

    def _next(self, value: int) -> int:
        if self.element.oid == oids.DATE:
            if value >= _LAST_DATE:
                raise SqlError("22008", "date out of range")
        elif value == (1 << (8 * self.element.length - 1)) - 1:
            raise SqlError("22003", f"{self.element.sql_name} out of range")
        return value + 1

    def input_function(self, settings: FormatSettings = DEFAULT_FORMAT, typmod: int = -1) -> Callable[[str], object]:
        decode_bound = self.element.input_function(settings)

        def decode(text: str) -> object:
            found = read_range(text)
            if found is None:
                return EMPTY
            lower, upper, opening, closing = found
            return self.make(
                None if lower is None else decode_bound(lower),
                None if upper is None else decode_bound(upper),
                opening == "[",
                closing == "]",
            )

        return decode

    def text_encoder(self, settings: FormatSettings = DEFAULT_FORMAT) -> Callable[[Any], bytes]:
        encode_bound = self.element.text_encoder(settings)

        def encode(value: Any) -> bytes:
            if value.empty:
                return b"empty"
            lower = "" if value.lower is None else _quote(encode_bound(value.lower).decode())
            upper = "" if value.upper is None else _quote(encode_bound(value.upper).decode())
            opening, closing = "[" if value.lower_inclusive else "(", "]" if value.upper_inclusive else ")"
            return f"{opening}{lower},{upper}{closing}".encode()

        return encode

    def receive_function(self, typmod: int = -1) -> Callable[[bytes], object]:
        return self._receiver(self.element.receive_function())

    def _receiver(self, decode_bound: Callable[[bytes], object]) -> Callable[[bytes], object]:
        def decode(data: bytes) -> object:
            flags, at = data[0], 1
            if flags & _EMPTY:
                return EMPTY
            bounds: list[object] = []
            for infinite in (_LOWER_INFINITE, _UPPER_INFINITE):
                if flags & infinite:
                    bounds.append(None)
                    continue
                if at + 4 > len(data):
                    raise SqlError("08P01", "insufficient data left in message")
                (length,) = _LENGTH.unpack_from(data, at)
                at += 4 + length
                if length < 0 or at > len(data):
                    raise SqlError("08P01", "insufficient data left in message")
                bounds.append(decode_bound(data[at - length : at]))
            lower, upper = bounds
            return self.make(lower, upper, bool(flags & _LOWER_INCLUSIVE), bool(flags & _UPPER_INCLUSIVE))

        return decode

    def binary_encoder(self) -> Callable[[Any], bytes]:
        return _sender(self.element.binary_encoder())

    def carrier(self) -> RangeType:
        if self._stored is None:
            return self
        made = RangeType(self.oid, self.array_oid, self.name, self._stored)
        made.long = None  # a separate process would read the type's own text
        return made

    def sort_key(self) -> Callable[[Any], object]:
        """Compares by lower bound, then by upper bound; the empty range is the least."""
        return lambda value: (0,) if value.empty else (1, *self.ends(value))

    def ends(self, value: Range) -> tuple[Any, Any]:
        """Returns comparable keys of both bounds: the key of an exclusive bound is next to its value, on the inner side
        of the range."""
        lower: Any = (0,) if value.lower is None else (1, self.key(value.lower), 0 if value.lower_inclusive else 1)
        upper: Any = (2,) if value.upper is None else (1, self.key(value.upper), 0 if value.upper_inclusive else -1)
        return lower, upper

    def key_encoder(self) -> Callable[[Any], bytes]:
        encode_bound = self.element.key_encoder()
        assert encode_bound is not None

        def encode(value: Any) -> bytes:
            if value.empty:
                return b"\0"
            lower, upper = b"\0", b"\2"
            if value.lower is not None:
                lower = b"\1" + encode_bound(value.lower) + (b"\0" if value.lower_inclusive else b"\1")
            if value.upper is not None:
                upper = b"\1" + encode_bound(value.upper) + (b"\1" if value.upper_inclusive else b"\0")
            return b"\1" + lower + upper

        return encode

    def duckdb_type(self, typmod: int = -1) -> str:
        return "VARCHAR"


RANGES: tuple[RangeType, ...] = (
    RangeType(oids.INT4RANGE, oids.INT4RANGE_ARRAY, "int4range", INT4, True),
    RangeType(oids.INT8RANGE, oids.INT8RANGE_ARRAY, "int8range", INT8, True),
    RangeType(oids.NUMRANGE, oids.NUMRANGE_ARRAY, "numrange", Numeric()),
    RangeType(oids.TSRANGE, oids.TSRANGE_ARRAY, "tsrange", TIMESTAMP),
    RangeType(oids.TSTZRANGE, oids.TSTZRANGE_ARRAY, "tstzrange", TIMESTAMPTZ),
    RangeType(oids.DATERANGE, oids.DATERANGE_ARRAY, "daterange", DATE, True),
)
