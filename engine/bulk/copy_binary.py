"""COPY's binary format (PostgreSQL 16 manual, COPY, Binary Format): a header, tuples, a trailer.

    header    PGCOPY\n 0xFF \r \n 0x00, flags (i32), length of an extension (i32) and the extension
    tuple     number of fields (i16), then each: length (i32; -1 is NULL) and the type's binary form
    trailer   i16 -1

A tuple has the form of a DataRow message, so COPY TO changes only the message's type. `TupleReader` and `BinaryParser`
correspond to LineReader and CopyParser for text (engine/bulk/load.py), with row numbers in place of line numbers.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

from catalog.binary_texts import Turn, binary_turn
from catalog.encodings import Encoding
from catalog.errors import SqlError
from catalog.schema import Column, Table
from catalog.types import lookup
from engine.bulk.copy_lines import Line
from engine.bulk.copy_output import copy_data
from engine.bulk.copy_parse import Piece
from engine.bulk.rows import RowSet

SIGNATURE = b"PGCOPY\n\xff\r\n\0"
HEADER = SIGNATURE + bytes(8)
TRAILER = b"\xff\xff"
_CRITICAL = 0xFFFF0000
_WITH_OIDS = 1 << 16
_TYPICAL_FIELD = 8  # bytes with its length, for a guess at the number of rows

_I16 = struct.Struct(">h").unpack_from
_I32 = struct.Struct(">i").unpack_from
_PACK_I32 = struct.Struct(">i").pack


def _bad(message: str) -> NoReturn:
    raise SqlError("22P04", message)


class TupleReader:
    """Finds the tuples of one COPY. `number` counts rows from 1; `ended`: the trailer was read."""

    def __init__(self, columns: int) -> None:
        self._columns = columns
        self._headed = False
        self.number = 0
        self.ended = False

    def count(self, data: bytes) -> int:
        """The approximate number of rows in the data."""
        return len(data) // (2 + _TYPICAL_FIELD * self._columns)

    def cut(self, data: bytes) -> int:
        """The number of bytes of `data` that are complete tuples, with the header before the first one."""
        position = 0
        try:
            if not self._headed:
                position = self._header_end(data)
            while True:
                end = self._tuple_end(data, position)
                if end > len(data):
                    return position
                position = end
        except (struct.error, SqlError):
            return position  # not whole, or not right: the parser says so when there is no more

    def header(self, data: bytes) -> int:
        """The end of the header, if it was not read yet. Raises 22P04."""
        if self._headed:
            return 0
        self._headed = True
        if not data.startswith(SIGNATURE):
            _bad("COPY file signature not recognized")
        try:
            end = self._header_end(data)
        except struct.error:
            _bad(f"invalid COPY file header (missing {'flags' if len(data) < len(SIGNATURE) + 4 else 'length'})")
        if end > len(data):
            _bad("invalid COPY file header (wrong length)")
        return end

    def _header_end(self, data: bytes) -> int:
        flags, extension = _I32(data, len(SIGNATURE))[0] & 0xFFFFFFFF, _I32(data, len(SIGNATURE) + 4)[0]
        if flags & _WITH_OIDS:
            _bad("invalid COPY file header (WITH OIDS)")
        if flags & _CRITICAL:
            _bad("unrecognized critical flags in COPY file header")
        if extension < 0:
            _bad("invalid COPY file header (missing length)")
        return len(HEADER) + int(extension)

    def _tuple_end(self, data: bytes, position: int) -> int:
        (count,) = _I16(data, position)
        position += 2
        for _ in range(count):
            (length,) = _I32(data, position)
            position += 4 + max(length, 0)
        return position


class BinaryParser:
    """Parses one COPY's pieces, in their order."""

    def __init__(self, table: Table, columns: Sequence[Column], encoding: Encoding) -> None:
        self.table = table
        self.reader = TupleReader(len(columns))
        self._columns = columns
        self._decoders = [_decoder(column, encoding) for column in columns]

    def parse(self, data: bytes) -> Piece:
        """The rows of a piece of complete tuples. The last piece may contain the trailer, or be cut short."""
        reader = self.reader
        first = reader.number
        rows: list[list[Any]] = []
        error: SqlError | None = None
        try:
            position = reader.header(data)
            while position < len(data):
                row, position = self._row(data, position)
                if row is None:
                    break
                rows.append(row)
        except SqlError as found:
            error = found
        numbers = [column.number for column in self._columns]
        by_column = zip(*rows, strict=True) if rows else ([] for _ in numbers)
        made = RowSet.of_values(self.table, len(rows), dict(zip(numbers, map(list, by_column), strict=True)))
        return Piece(made, lambda place: Line(first + place + 1, b""), error)

    def context(self, line: Line) -> str:
        """The position in the data for an error of a whole row."""
        return f"COPY {self.table.name}, line {line.number}"

    def _row(self, data: bytes, position: int) -> tuple[list[Any] | None, int]:
        """A tuple's values and its end. None for the trailer, and for an impossible number of fields."""
        self.reader.number += 1
        try:
            return self._values(data, position)
        except SqlError as error:
            where = self.context(Line(self.reader.number, b""))
            error.context = error.context or where
            raise

    def _values(self, data: bytes, position: int) -> tuple[list[Any] | None, int]:
        if self.reader.ended:
            _bad("received copy data after EOF marker")
        if position + 2 > len(data):
            return None, len(data)
        (count,) = _I16(data, position)
        position += 2
        if count == -1:
            self.reader.ended = True
            if position < len(data):
                _bad("received copy data after EOF marker")
            return None, position
        if count != len(self._columns):
            _bad(f"row field count is {count}, expected {len(self._columns)}")
        values: list[Any] = []
        for column, decode in zip(self._columns, self._decoders, strict=True):
            try:
                field, position = _field(data, position)
                values.append(None if field is None else decode(field))
            except SqlError as error:
                error.context = f"COPY {self.table.name}, line {self.reader.number}, column {column.name}"
                raise
        return values, position


def _decoder(column: Column, encoding: Encoding) -> Callable[[bytes], Any]:
    """The function that reads the binary form of a column's values. Texts are in the client's encoding."""
    decode = lookup(column.type.oid).binary_decoder(column.type.typmod)
    if encoding.is_utf8:
        return decode
    turn = binary_turn(column.type.oid, lambda value: encoding.decode(value).encode())
    return decode if turn is None else lambda value: decode(turn(value))


def _field(data: bytes, position: int) -> tuple[bytes | None, int]:
    """A field's bytes, and the position of the next field. Raises 22P04."""
    if position + 4 > len(data):
        _bad("unexpected EOF in COPY data")
    (length,) = _I32(data, position)
    position += 4
    if length == -1:
        return None, position
    if length < 0:
        _bad("invalid field size")
    if position + length > len(data):
        _bad("unexpected EOF in COPY data")
    return data[position : position + length], position + length


class Framing:
    """COPY TO: the header precedes the first row, and the trailer is a message of its own (with the header if there is
    no row)."""

    def __init__(self) -> None:
        self._headed = False

    def rows(self, data: bytes) -> bytes:
        """CopyData messages of one tuple each, as they are sent."""
        if self._headed or not data:
            return data
        self._headed = True
        end = 1 + _I32(data, 1)[0]
        return copy_data(HEADER + data[5:end]) + data[end:]

    def end(self) -> bytes:
        """The last message."""
        return copy_data(TRAILER if self._headed else HEADER + TRAILER)


def data_rows_to_tuples(data: bytes) -> bytes:
    """DataRow messages of binary values as CopyData messages."""
    made = bytearray(data)
    place = 0
    while place < len(made):
        made[place] = 0x64
        place += 1 + _I32(data, place + 1)[0]
    return bytes(made)


def turns_of(oids: Sequence[int], encoding: Encoding) -> list[Turn | None]:
    """The functions that convert columns of these types to a client's encoding, or [] if no column needs one."""
    if encoding.is_utf8:
        return []
    turns = [binary_turn(oid, lambda value: encoding.encode(value.decode())) for oid in oids]
    return turns if any(turn is not None for turn in turns) else []


def turned_tuples(data: bytes, turns: Sequence[Turn | None]) -> bytes:
    """CopyData messages of one tuple each, with texts in another encoding. Raises 22P05 for a character that the
    encoding does not have."""
    made: list[bytes] = []
    place = 0
    while place < len(data):
        parts = [data[place + 5 : place + 7]]
        place += 7
        for turn in turns:
            (length,) = _I32(data, place)
            place += 4
            if length < 0:
                parts.append(b"\xff\xff\xff\xff")
                continue
            value = data[place : place + length]
            place += length
            if turn is not None:
                value = turn(value)
            parts += (_PACK_I32(len(value)), value)
        made.append(copy_data(b"".join(parts)))
    return b"".join(made)
