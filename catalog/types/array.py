"""Arrays of every type, int2vector and oidvector: PostgreSQL's text with quoting, nesting and bounds, and its binary.

As array_in, the reader first reads the structure, so that structural errors are reported first, and then the elements.
The stored form is the binary form.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Iterator
from typing import Any, cast

from catalog.errors import SqlError
from catalog.long_numbers import int_of
from catalog.types import oids
from catalog.types.base import DEFAULT_FORMAT, EMPTY_ARRAY, Array, FormatSettings, Parts, SqlType, Storage, StoredArray
from catalog.types.incomparable import Incomparable, has_equality, has_order, no_comparison
from catalog.types.registry import format_type
from catalog.types.texts import WHITESPACE

MAX_DIMENSIONS = 6
MAX_ELEMENTS = 134217727  # PostgreSQL's MaxArraySize
_QUOTED = re.compile(r'[\s"\\{},]', re.ASCII)
_PLAIN = re.compile(r'[ \t\n\v\f\r]*\{([^"\\{}]*)\}[ \t\n\v\f\r]*\Z')
_TOKENS = {  # by delimiter: a comma for all types except for box
    delimiter: re.compile(
        rf'\s*(?:([{{}}{delimiter}])|("(?:[^"\\]|\\.)*")|((?:[^"\\{{}}{delimiter}]|\\.)+))', re.ASCII | re.DOTALL
    )
    for delimiter in ",;"
}
_BOUNDS = re.compile(r"\s*\[([+-]?[0-9]+)(?::([+-]?[0-9]+))?\]", re.ASCII)
_ESCAPED = re.compile(r"\\(.)", re.DOTALL)
_HEADER = struct.Struct(">iiI")
_PAIR = struct.Struct(">ii")
_LENGTH = struct.Struct(">i")
# Types whose text never needs quotes within an array.
_NEVER_QUOTED = oids.NUMBERS | {oids.BOOL, oids.UUID, oids.XID}


def _malformed_error(text: str, detail: str) -> SqlError:
    return SqlError("22P02", f'malformed array literal: "{text}"', detail=detail)


class _Reader:
    """Reads one array literal: its dimensions and the texts of its elements (None for NULL)."""

    def __init__(self, text: str, delimiter: str) -> None:
        self.text = text
        self.delimiter = delimiter
        self.elements: list[str | None] = []
        self.counts: list[int] = [0] * (MAX_DIMENSIONS + 1)  # of the open level at each depth
        self.lengths: list[int | None] = [None] * (MAX_DIMENSIONS + 1)  # of the first closed level at each depth
        self.deepest = 0

    def _tokens(self, position: int) -> Iterator[tuple[str, str]]:
        """Yields pairs of kind ('{', '}', ',', 'quoted', 'plain') and text, up to the closing brace."""
        text, depth, token = self.text, 0, _TOKENS[self.delimiter]
        while True:
            match = token.match(text, position)
            if match is None:
                raise _malformed_error(text, "Unexpected end of input.")
            position = match.end()
            mark, quoted, plain = match.groups()
            if mark:
                depth += (mark == "{") - (mark == "}")
                yield ("," if mark == self.delimiter else mark), mark
                if depth == 0:
                    break
            elif quoted is not None:
                yield "quoted", _ESCAPED.sub(r"\1", quoted[1:-1])
            elif plain.strip(WHITESPACE):
                yield "plain", plain
        if text[position:].strip(WHITESPACE):
            raise _malformed_error(text, "Junk after closing right brace.")

    def read(self, position: int) -> tuple[int, ...]:
        """Reads the elements into `elements`, and returns the dimensions; () for an empty array."""
        depth, before = 0, ""
        for kind, token in self._tokens(position):
            if kind == "{":
                if before not in ("", "{") and not (before == "," and self.closed):
                    raise _malformed_error(self.text, 'Unexpected "{" character.')
                depth += 1
                if depth > MAX_DIMENSIONS:
                    raise too_many_dimensions(depth)
                self.deepest = max(self.deepest, depth)
                self.counts[depth] = 0
                self.closed = False
            elif kind == "}":
                if before == "," or (before == "{" and depth > 1):
                    raise _malformed_error(self.text, 'Unexpected "}" character.')
                self._close(depth)
                depth -= 1
            elif kind == ",":
                if before in ("{", ","):
                    raise _malformed_error(self.text, f'Unexpected "{self.delimiter}" character.')
            else:
                if before not in ("{", ",") or self.closed:
                    raise _malformed_error(self.text, "Unexpected array element.")
                self.counts[depth] += 1
                self._add(kind, token)
            before = kind
        if not self.elements:
            return ()
        return tuple(cast(int, length) for length in self.lengths[1 : self.deepest + 1])

    closed = False  # an inner level of the current level has just ended

    def _close(self, depth: int) -> None:
        if self.lengths[depth] not in (None, self.counts[depth]):
            raise _malformed_error(self.text, "Multidimensional arrays must have sub-arrays with matching dimensions.")
        self.lengths[depth] = self.counts[depth]
        if depth > 1:
            self.counts[depth - 1] += 1
        self.closed = True

    def _add(self, kind: str, token: str) -> None:
        if kind == "quoted":
            self.elements.append(token)
            return
        stripped = token.lstrip(WHITESPACE)
        while stripped and stripped[-1] in WHITESPACE and not _ends_escaped(stripped):
            stripped = stripped[:-1]
        if "\\" in stripped:
            self.elements.append(_ESCAPED.sub(r"\1", stripped))
        else:
            self.elements.append(None if stripped.upper() == "NULL" else stripped)


def _ends_escaped(text: str) -> bool:
    body = text[:-1]
    return (len(body) - len(body.rstrip("\\"))) % 2 == 1


def too_many_dimensions(count: int) -> SqlError:
    """Returns error 54000: PostgreSQL's arrays have at most six dimensions."""
    message = f"number of array dimensions ({count}) exceeds the maximum allowed ({MAX_DIMENSIONS})"
    return SqlError("54000", message)


def _read_bounds(text: str) -> tuple[int, list[tuple[int, int]]]:
    """Reads the '[2:4][1:2]=' before the elements. Returns the position of the elements, and the pairs of bounds."""
    position, bounds = 0, cast(list[tuple[int, int]], [])
    while match := _BOUNDS.match(text, position):
        if len(bounds) == MAX_DIMENSIONS:
            raise too_many_dimensions(MAX_DIMENSIONS + 1)
        lower = int_of(match[1]) if match[2] else 1
        upper = int_of(match[2] or match[1])
        if not -(1 << 31) <= lower < 1 << 31 or not -(1 << 31) <= upper < 1 << 31:
            raise SqlError("22003", "array bound is out of integer range")
        if upper < lower:
            raise SqlError("2202E", "upper bound cannot be less than lower bound")
        bounds.append((lower, upper))
        position = match.end()
    rest = text[position:].lstrip(WHITESPACE)
    if rest.startswith("["):
        raise _malformed_error(text, _bound_fault(rest))
    if not bounds:
        if not rest.startswith("{"):
            raise _malformed_error(text, 'Array value must start with "{" or dimension information.')
        return len(text) - len(rest), bounds
    if not rest.startswith("="):
        raise _malformed_error(text, 'Missing "=" after array dimensions.')
    rest = rest[1:].lstrip(WHITESPACE)
    if not rest.startswith("{"):
        raise _malformed_error(text, 'Array contents must start with "{".')
    return len(text) - len(rest), bounds


def _bound_fault(rest: str) -> str:
    match = re.match(r"\[([+-]?[0-9]*)(?::([+-]?[0-9]*))?", rest, re.ASCII)
    if match is None or not match[1].lstrip("+-"):
        return '"[" must introduce explicitly-specified array dimensions.'
    if match[2] is not None and not match[2].lstrip("+-"):
        return "Missing array dimension value."
    return 'Missing "]" after array dimensions.'


def read_array(text: str, delimiter: str = ",") -> tuple[list[str | None], tuple[int, ...], tuple[int, ...]]:
    """Returns element texts, dimensions and lower bounds of an array literal. Raises 22P02, 54000, 2202E."""
    plain = _PLAIN.match(text) if delimiter == "," else None
    if plain is not None:
        body = plain[1].strip(WHITESPACE)
        if not body:
            return [], (), ()
        elements: list[str | None] = [
            None if part.upper() == "NULL" else part
            for part in ([word.strip(WHITESPACE) for word in body.split(",")] if " " in body else body.split(","))
        ]
        if "" not in elements and not any(mark in body for mark in "\t\n\v\f\r"):
            return elements, (len(elements),), (1,)
    start, bounds = _read_bounds(text)
    reader = _Reader(text, delimiter)
    dimensions = reader.read(start)
    if not bounds:
        return reader.elements, dimensions, (1,) * len(dimensions)
    if dimensions != tuple(upper - lower + 1 for lower, upper in bounds):
        raise _malformed_error(text, "Specified array dimensions do not match array contents.")
    return reader.elements, dimensions, tuple(lower for lower, _ in bounds)


def _quote(text: str) -> str:
    if not text or _QUOTED.search(text) or text.upper() == "NULL":
        return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
    return text


def nest(parts: list[str], dimensions: tuple[int, ...], delimiter: str = ",") -> str:
    """Joins flat element texts with braces, beginning with the innermost dimension."""
    for length in reversed(dimensions):
        parts = ["{" + delimiter.join(parts[start : start + length]) + "}" for start in range(0, len(parts), length)]
    return parts[0]


class ArrayType(SqlType):
    """The array type over `element`. Internal form `Array`."""

    preferred = False
    category = "A"
    length = -1

    def __init__(self, oid: int, name: str, element: SqlType) -> None:
        self.oid = oid
        self.array_oid = 0
        self.name = name
        self.sql_name = element.sql_name + "[]"
        self.element = element
        self.stored_as = element.oid  # the element type in stored values
        self.storage = Storage(None, self.binary_encoder(), cast(Callable[[object], object], self.receive_function()))

    def input_function(self, settings: FormatSettings = DEFAULT_FORMAT, typmod: int = -1) -> Callable[[str], object]:
        decode_element = self.element.input_function(settings, typmod)
        delimiter = self.element.delimiter

        def decode(text: str) -> object:
            elements, dimensions, lower_bounds = read_array(text, delimiter)
            if not elements:
                return EMPTY_ARRAY
            values = tuple([None if element is None else decode_element(element) for element in elements])
            return Array(values, dimensions, lower_bounds)

        return decode

    def with_stored(self, value: object) -> object:
        if not isinstance(value, Array) or not value.elements:
            return value
        made = StoredArray(*value)
        made.stored, made.stored_as = cast(bytes, cast(Any, self.storage.to_storage)(value)), self.stored_as
        return made

    def of_stored(self, stored: bytes) -> object:
        (count,) = _LENGTH.unpack_from(stored)
        pairs = [_PAIR.unpack_from(stored, _HEADER.size + 8 * index) for index in range(count)]
        if not pairs:
            return EMPTY_ARRAY
        load = cast(Callable[[bytes], Array], self.storage.from_storage)
        parts = Parts(stored, self.stored_as, lambda data: load(data).elements)
        made = StoredArray(cast(Any, parts), tuple([pair[0] for pair in pairs]), tuple([pair[1] for pair in pairs]))
        made.stored, made.stored_as = stored, self.stored_as
        return made

    def text_encoder(self, settings: FormatSettings = DEFAULT_FORMAT) -> Callable[[Any], bytes]:
        encode_element = self.element.text_encoder(settings)
        delimiter = self.element.delimiter
        quote = str if self.element.oid in _NEVER_QUOTED or delimiter != "," else _quote  # a box needs no quotes

        def encode(value: Any) -> bytes:
            elements, dimensions, lower_bounds = value
            if not elements:
                return b"{}"
            parts = ["NULL" if item is None else quote(encode_element(item).decode()) for item in elements]
            text = nest(parts, dimensions, delimiter)
            if any(lower != 1 for lower in lower_bounds):
                bounds = zip(lower_bounds, dimensions, strict=True)
                text = "".join(f"[{lower}:{lower + length - 1}]" for lower, length in bounds) + "=" + text
            return text.encode()

        return encode

    def receive_function(self, typmod: int = -1) -> Callable[[bytes], object]:
        decode_element = self.element.receive_function(typmod)
        element = self.element

        def decode(data: bytes) -> object:
            try:
                dimensions, lower_bounds, position = _read_header(data, element)
                values: list[object] = []
                for _ in range(_count(dimensions)):
                    (length,) = _LENGTH.unpack_from(data, position)
                    position += 4
                    if length == -1:
                        values.append(None)
                        continue
                    if length < -1 or position + length > len(data):
                        raise SqlError("22P03", "insufficient data left in message")
                    values.append(decode_element(data[position : position + length]))
                    position += length
            except struct.error:
                raise SqlError("08P01", "insufficient data left in message") from None
            if position != len(data):
                raise SqlError("22P03", "incorrect binary data format")
            return Array(tuple(values), dimensions, lower_bounds) if values else EMPTY_ARRAY

        return decode

    def binary_encoder(self) -> Callable[[Any], bytes]:
        encode_element = self.element.binary_encoder()
        element_oid, pack_length = self.element.oid, _LENGTH.pack

        def encode(value: Any) -> bytes:
            if value.__class__ is StoredArray and value.stored and value.stored_as == element_oid:
                return value.stored
            elements, dimensions, lower_bounds = value
            parts = [_HEADER.pack(len(dimensions), None in elements, element_oid)]
            parts += [_PAIR.pack(*pair) for pair in zip(dimensions, lower_bounds, strict=True)]
            for item in elements:
                if item is None:
                    parts.append(b"\xff\xff\xff\xff")
                else:
                    data = encode_element(item)
                    parts.append(pack_length(len(data)))
                    parts.append(data)
            return b"".join(parts)

        return encode

    def typmod_in(self, arguments: tuple[str, ...]) -> int:
        return self.element.typmod_in(arguments)

    def typmod_out(self, typmod: int) -> str:
        return self.element.typmod_out(typmod)

    def length_coercion(self, typmod: int, explicit: bool) -> Callable[[Any], object] | None:
        coerce = self.element.length_coercion(typmod, explicit)
        if coerce is None:
            return None
        return lambda value: value._replace(
            elements=tuple([None if item is None else coerce(item) for item in value.elements])
        )

    def sort_key(self) -> Callable[[Any], object]:
        """Compares as array_cmp: elements (NULL is the greatest), their number, then dimensions and lower bounds."""
        return self._key(self.element.sort_key()) if has_order(self.element) else self.equality_key()

    def equality_key(self) -> Callable[[Any], object]:
        """Compares as array_eq: arrays with different dimensions are not equal."""
        if not has_equality(self.element):
            message = no_comparison(self.element, equality=True).message
            return lambda value: (value.dimensions, value.lower_bounds, Incomparable(message))
        return self._key(self.element.equality_key())

    def _key(self, element_key: Callable[[Any], object] | None) -> Callable[[Any], object]:
        def key(value: Any) -> object:
            if element_key is None:
                items: Any = tuple([(1,) if item is None else (0, item) for item in value.elements])
            else:
                items = tuple([(1,) if item is None else (0, element_key(item)) for item in value.elements])
            return (items, len(value.dimensions), value.dimensions, value.lower_bounds)

        return key

    def key_encoder(self) -> Callable[[Any], bytes] | None:
        """Encodes each element as 0x01 and its key, or 0x02 for NULL; then 0x00, dimensions and lower bounds."""
        encode_element = self.element.key_encoder()
        if encode_element is None:
            return None
        encode_item = encode_element

        def encode(value: Any) -> bytes:
            parts = [b"\2" if item is None else b"\1" + encode_item(item) for item in value.elements]
            parts.append(bytes((0, len(value.dimensions))))
            parts += [length.to_bytes(4, "big") for length in value.dimensions]
            parts += [(lower + (1 << 31)).to_bytes(4, "big") for lower in value.lower_bounds]
            return b"".join(parts)

        return encode

    def duckdb_type(self, typmod: int = -1) -> str:
        return self.element.duckdb_type(typmod) + "[]"


def _count(dimensions: tuple[int, ...]) -> int:
    if not dimensions:
        return 0
    count = 1
    for length in dimensions:
        count *= length
    check_size(count)
    return count


def check_size(count: int) -> None:
    """Raises 54000 for more elements than an array may have."""
    if count > MAX_ELEMENTS:
        raise SqlError("54000", f"array size exceeds the maximum allowed ({MAX_ELEMENTS})")


def _read_header(data: bytes, element: SqlType) -> tuple[tuple[int, ...], tuple[int, ...], int]:
    count, flags, element_oid = _HEADER.unpack_from(data)
    if count < 0:
        raise SqlError("22P03", f"invalid number of dimensions: {count}")
    if count > MAX_DIMENSIONS:
        raise too_many_dimensions(count)
    if flags not in (0, 1):
        raise SqlError("22P03", "invalid array flags")
    if element_oid != element.oid:
        found = f"binary data has array element type {element_oid} ({format_type(element_oid)})"
        raise SqlError("42804", f"{found} instead of expected {element.oid} ({element.sql_name})")
    pairs = [_PAIR.unpack_from(data, _HEADER.size + 8 * index) for index in range(count)]
    if any(length < 0 for length, _ in pairs):
        raise SqlError("22P03", "invalid array dimensions")
    dimensions, lower_bounds = tuple(pair[0] for pair in pairs), tuple(pair[1] for pair in pairs)
    return dimensions, lower_bounds, _HEADER.size + 8 * count


_WORDS = re.compile(rf"[^{WHITESPACE}]+")
_WORDS_OR_SIGNS = re.compile(rf"[+-]?[^{WHITESPACE}+-]+|[+-]")  # oidvectorin needs no white space before a sign


class VectorType(ArrayType):
    """int2vector or oidvector: one dimension from index 0, no NULLs, text '1 2 3'."""

    def __init__(self, oid: int, array_oid: int, name: str, element: SqlType) -> None:
        super().__init__(oid, name, element)
        self.array_oid = array_oid
        self.sql_name = name

    def input_function(self, settings: FormatSettings = DEFAULT_FORMAT, typmod: int = -1) -> Callable[[str], object]:
        decode_element = self.element.input_function()
        words = _WORDS_OR_SIGNS if self.oid == oids.OIDVECTOR else _WORDS

        def decode(text: str) -> object:
            return vector_of(tuple([decode_element(word) for word in words.findall(text)]))

        return decode

    def text_encoder(self, settings: FormatSettings = DEFAULT_FORMAT) -> Callable[[Any], bytes]:
        return lambda value: b" ".join([b"%d" % item for item in value.elements])

    def receive_function(self, typmod: int = -1) -> Callable[[bytes], object]:
        decode_array = super().receive_function(typmod)

        def decode(data: bytes) -> object:
            value = cast(Array, decode_array(data))
            if len(value.dimensions) > 1 or None in value.elements or value.lower_bounds not in ((), (0,)):
                raise SqlError("22P03", f"invalid {self.name} data")
            return vector_of(value.elements)

        return decode

    def typmod_in(self, arguments: tuple[str, ...]) -> int:
        return SqlType.typmod_in(self, arguments)

    def sort_key(self) -> Callable[[Any], object]:
        """Compares an oidvector by the number of elements first; int2vector has the order of arrays."""
        if self.oid != oids.OIDVECTOR:
            return super().sort_key()
        return lambda value: (len(value.elements), value.elements)

    def key_encoder(self) -> Callable[[Any], bytes] | None:
        if self.oid != oids.OIDVECTOR:
            return super().key_encoder()
        return lambda value: struct.pack(f">I{len(value.elements)}I", len(value.elements), *value.elements)


def vector_of(elements: tuple[object, ...]) -> Array:
    """Returns an int2vector or oidvector; unlike other arrays, an empty one has one dimension."""
    return Array(elements, (len(elements),), (0,))
