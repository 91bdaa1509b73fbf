"""tsvector and tsquery. Internal form `str`: the text that PostgreSQL prints (`catalog.text_search` parses it)."""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any, cast

from catalog.errors import SqlError
from catalog.text_search import queries, vectors
from catalog.text_search.queries import AND, NOT, OR, PHRASE, Operand, Operation, Query
from catalog.types import oids
from catalog.types.base import DEFAULT_FORMAT, Columns, FormatSettings, Layout, Order, SqlType
from catalog.types.long_values import LONG_SORTED
from catalog.types.text import TEXT
from catalog.types.texts import decode_utf8

_ENCODE = cast(Callable[[object], bytes], str.encode)
_COUNT, _SHORT = struct.Struct(">i"), struct.Struct(">H")
_OPERATORS = {NOT: 1, AND: 2, OR: 3, PHRASE: 4}
_OPERATOR_OF = {number: operator for operator, number in _OPERATORS.items()}


class _Bytes:
    """Reads a binary value. Raises 08P01 if it ends too early."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def take(self, count: int) -> bytes:
        found = self._data[self._at : self._at + count]
        if len(found) < count:
            raise SqlError("08P01", "insufficient data left in message")
        self._at += count
        return found

    def number(self, count: int) -> int:
        return int.from_bytes(self.take(count), "big")

    def text(self) -> str:
        end = self._data.find(b"\0", self._at)
        if end < 0:
            raise SqlError("08P01", "invalid string in message")
        found = decode_utf8(self.take(end - self._at))
        self._at += 1
        return found


def _receive_vector(data: bytes) -> object:
    message = _Bytes(data)
    count = message.number(4)
    if count >= 1 << 28:
        raise SqlError("22P03", "invalid size of tsvector")
    found = []
    for _ in range(count):
        lexeme = message.text()
        places = [message.number(2) for _ in range(message.number(2))]
        found.append((lexeme, [(place & 0x3FFF, place >> 14) for place in places]))
    return vectors.print_vector(vectors.make_vector(found))


def _send_vector(value: object) -> bytes:
    vector = vectors.vector_of(cast(str, value))
    parts = [_COUNT.pack(len(vector))]
    for lexeme, positions in vector.items():
        parts += (lexeme.encode(), b"\0", _SHORT.pack(len(positions)))
        parts += [_SHORT.pack(number | weight << 14) for number, weight in positions]
    return b"".join(parts)


def _receive_query(data: bytes) -> object:
    message = _Bytes(data)
    if not message.number(4):
        return ""
    return queries.print_query(_receive_node(message))


def _receive_node(message: _Bytes) -> Query:
    kind = message.number(1)
    if kind == 1:
        weights, prefix = message.number(1), message.number(1)
        return Operand(message.text(), weights, bool(prefix))
    operator = _OPERATOR_OF.get(message.number(1)) if kind == 2 else None
    if operator is None:
        raise SqlError("22P03", f"unrecognized tsquery node type: {kind}")
    distance = message.number(2) if operator == PHRASE else 0
    right = _receive_node(message)
    return Operation(operator, None if operator == NOT else _receive_node(message), right, distance)


def _send_query(value: object) -> bytes:
    found = list(queries.nodes(queries.query_of(cast(str, value))))
    parts = [_COUNT.pack(len(found))]
    for node in found:
        if isinstance(node, Operand):
            parts += (bytes((1, node.weights, node.prefix)), node.lexeme.encode(), b"\0")
        elif isinstance(node, Operation):
            parts.append(bytes((2, _OPERATORS[node.operator])))
            if node.operator == PHRASE:
                parts.append(_SHORT.pack(node.distance))
    return b"".join(parts)


class _TextSearchType(SqlType):
    category = "U"
    preferred = False
    length = -1
    long = LONG_SORTED
    storage = TEXT.storage
    columns = Columns(layout=Layout.TEXT, printed=True)

    def text_encoder(self, settings: FormatSettings = DEFAULT_FORMAT) -> Callable[[object], bytes]:
        return _ENCODE

    def duckdb_type(self, typmod: int = -1) -> str:
        return "VARCHAR"


class TsVector(_TextSearchType):
    oid = oids.TSVECTOR
    array_oid = oids.TSVECTOR_ARRAY
    name = sql_name = "tsvector"
    columns = Columns(layout=Layout.TEXT, printed=True, order=Order.BY_KEY)

    def input_function(self, settings: FormatSettings = DEFAULT_FORMAT, typmod: int = -1) -> Callable[[str], object]:
        return vectors.parse_vector

    def receive_function(self, typmod: int = -1) -> Callable[[bytes], object]:
        return _receive_vector

    def binary_encoder(self) -> Callable[[object], bytes]:
        return _send_vector

    def sort_key(self) -> Callable[[Any], object]:
        return vectors.sort_key

    def key_encoder(self) -> Callable[[Any], bytes]:
        return vectors.key_bytes


class TsQuery(_TextSearchType):
    """tsquery. PostgreSQL's order depends on its memory layout; here only equality is supported."""

    oid = oids.TSQUERY
    array_oid = oids.TSQUERY_ARRAY
    name = sql_name = "tsquery"

    def input_function(self, settings: FormatSettings = DEFAULT_FORMAT, typmod: int = -1) -> Callable[[str], object]:
        return queries.parse_query

    def receive_function(self, typmod: int = -1) -> Callable[[bytes], object]:
        return _receive_query

    def binary_encoder(self) -> Callable[[object], bytes]:
        return _send_query
