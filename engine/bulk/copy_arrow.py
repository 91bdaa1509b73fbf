"""COPY FROM in the format `arrow`: an Arrow IPC stream, as engine/columnar/arrow_stream.py and pyarrow write it.

    message   0xFFFFFFFF, length of the metadata (i32), metadata (a flatbuffer), body; a length of 0 ends the stream
    stream    schema, record batches, end; several streams with one schema may follow each other

`ArrowReader` finds the ends of messages, and `ArrowParser` reads them. They correspond to LineReader and CopyParser for
text (engine/bulk/load.py). Columns are matched by position. The schema decides, by the types alone, how a column is
converted:

    the corresponding Arrow type         unchanged, or with the modifier's rounding, padding and limits
    another integer                      if every value fits (22003)
    integers, decimals                   into numeric; float and integers into float8
    utf8                                 by the type's own input function, if no Arrow type corresponds to it

Everything else is refused with the column's name and both types (42804). No input is trusted: batches are validated in
full, and compressed and dictionary-encoded ones are refused.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

import pyarrow as pa
import pyarrow.compute as pc

from catalog.errors import SqlError, not_supported
from catalog.schema import Column, Table
from catalog.types import element_of, format_type, lookup, oids
from catalog.types.base import FormatSettings, TypeRef
from engine.bulk.copy_lines import Line
from engine.bulk.copy_parse import Piece
from engine.bulk.read_columns import Doubt, Source, converter_of
from engine.bulk.rows import RowSet
from engine.storage.columns import column_form, from_values, one_array, to_values

MESSAGE_LIMIT = 1 << 28  # bytes
_TYPICAL_VALUE = 8  # bytes, for a guess at the number of rows
_CONTINUATION = b"\xff\xff\xff\xff"
_U16, _I32, _U32 = struct.Struct("<H"), struct.Struct("<i"), struct.Struct("<I")
_I64 = struct.Struct("<q")
_SCHEMA, _BATCH = 1, 3

Convert = Callable[[Any], Any]


def _bad(message: str) -> NoReturn:
    raise SqlError("22P04", f"invalid Arrow stream: {message}")


class _Metadata:
    """The type and size of a message, from its flatbuffer (Message.fbs of Arrow)."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        message = _U32.unpack_from(data)[0]
        kind, body = self._field(message, 1), self._field(message, 3)
        self.kind = data[kind] if kind else 0
        self.body_length = _I64.unpack_from(data, body)[0] if body else 0
        header = self._field(message, 2)
        self.compressed = False
        if self.kind == _BATCH and header:
            batch = header + _U32.unpack_from(data, header)[0]
            self.compressed = bool(self._field(batch, 3))

    def _field(self, table: int, number: int) -> int:
        """The position of a table's field, or 0 if it is absent."""
        entries = table - _I32.unpack_from(self._data, table)[0]
        size = _U16.unpack_from(self._data, entries)[0]
        place = 4 + 2 * number
        offset = _U16.unpack_from(self._data, entries + place)[0] if place < size else 0
        return table + offset if offset else 0


class ArrowReader:
    """Finds the ends of the messages of one COPY."""

    def __init__(self, columns: int) -> None:
        self._columns = max(columns, 1)

    def count(self, data: bytes) -> int:
        """The approximate number of rows in the data."""
        return len(data) // (_TYPICAL_VALUE * self._columns)

    def cut(self, data: bytes) -> int:
        """The number of bytes of `data` that are complete messages."""
        position = 0
        try:
            while (end := self.end(data, position)) <= len(data):
                position = end
        except (struct.error, IndexError, SqlError):
            pass  # not whole, or not right: the parser says so when there is no more
        return position

    def end(self, data: bytes, position: int) -> int:
        """The position of the message's end. Raises struct.error if more data is needed, 22P04, 54000."""
        found = self.metadata(data, position)
        length = 8 if found is None else 8 + _I32.unpack_from(data, position + 4)[0] + found.body_length
        if not 0 <= length <= MESSAGE_LIMIT:
            raise SqlError("54000", f"a message of an Arrow stream may have {MESSAGE_LIMIT} bytes")
        return position + length

    def metadata(self, data: bytes, position: int) -> _Metadata | None:
        """The message's metadata, or None at the end of a stream."""
        if data[position : position + 4] != _CONTINUATION and len(data) >= position + 4:
            _bad("a message does not begin with 0xFFFFFFFF")
        (length,) = _I32.unpack_from(data, position + 4)
        if length == 0:
            return None
        start = position + 8
        if length < 0 or start + length > len(data):
            raise struct.error("not whole")
        return _Metadata(data[start : start + length])


class ArrowParser:
    """Parses one COPY's pieces, in their order."""

    def __init__(self, table: Table, columns: Sequence[Column], settings: FormatSettings) -> None:
        self.table = table
        self.reader = ArrowReader(len(columns))
        self._columns = columns
        self._settings = settings
        self._schema: Any = None
        self._converters: list[Convert] = []
        self._number = 0  # of the last row

    def parse(self, data: bytes) -> Piece:
        """The rows of a piece of complete messages. The last piece may be cut short, which is an error."""
        first, error = self._number, None
        batches: list[Any] = []
        try:
            self._read(data, batches)
        except (struct.error, IndexError):
            error = SqlError("22P04", "unexpected EOF in COPY data")
        except SqlError as found:
            error = found
        count = sum(batch.num_rows for batch in batches)
        columns: dict[int, Any] = {}
        if count:
            whole = pa.Table.from_batches(batches)
            try:
                for place, column in enumerate(self._columns):
                    columns[column.number] = self._convert(place, one_array(whole.column(place)))
            except SqlError as found:
                count, columns, error = 0, {}, found
        self._number = first + count
        return Piece(RowSet(self.table, count, columns), lambda place: Line(first + place + 1, b""), error)

    def context(self, line: Line) -> str:
        """The position in the data for an error of a whole row."""
        return f"COPY {self.table.name}, line {line.number}"

    def _read(self, data: bytes, batches: list[Any]) -> None:
        whole = pa.py_buffer(data)
        position = 0
        while position < len(data):
            found = self.reader.metadata(data, position)
            end = self.reader.end(data, position)
            if end > len(data):
                raise struct.error("not whole")
            if found is not None:
                self._take(found, whole.slice(position, end - position), batches)
            position = end

    def _take(self, found: _Metadata, message: Any, batches: list[Any]) -> None:
        try:
            if found.kind == _SCHEMA:
                self._begin(pa.ipc.read_schema(message))
            elif found.kind != _BATCH:
                not_supported("dictionary-encoded columns in an Arrow stream")
            elif found.compressed:
                not_supported("compressed batches in an Arrow stream")
            elif self._schema is None:
                _bad("a record batch before the schema")
            else:
                batch = pa.ipc.read_record_batch(message, self._schema)
                batch.validate(full=True)
                batches.append(batch)
        except (pa.ArrowException, OSError) as error:
            _bad(str(error).partition("\n")[0])

    def _begin(self, schema: Any) -> None:
        """Reads a stream's schema. Raises 22P04, 42804."""
        if self._schema is not None:
            if not schema.equals(self._schema):
                _bad("streams of different schemas in one COPY")
            return
        if len(schema) != len(self._columns):
            _bad(f"the schema has {len(schema)} columns, expected {len(self._columns)}")
        self._converters = [
            self._converter(column, field.type) for column, field in zip(self._columns, schema, strict=True)
        ]
        self._schema = schema

    def _converter(self, column: Column, kind: Any) -> Convert:
        convert = converter(column.type, kind, self._settings)
        if convert is None:
            wanted = format_type(column.type.oid, column.type.typmod)
            raise SqlError(
                "42804",
                f'column "{column.name}" is of type {wanted} but the data is of Arrow\'s type {kind}',
                hint=f"Cast the column to {_expected_type(column.type.oid)} before it is written.",
            )
        return convert

    def _convert(self, place: int, column: Any) -> Any:
        definition = self._columns[place]
        try:
            return self._converters[place](column)
        except SqlError as error:
            error.context = f"COPY {self.table.name}, column {definition.name}"
            raise


# ---- which Arrow type goes into which SQL type -----------------------------------------------------------------------

_INTEGERS = {oids.INT2: "smallint", oids.INT4: "integer", oids.INT8: "bigint", oids.OID: "OID"}
_NATIVE = {
    oids.BOOL: pa.types.is_boolean,
    oids.BYTEA: lambda kind: pa.types.is_binary(kind) or pa.types.is_large_binary(kind),
    oids.DATE: pa.types.is_date32,
    oids.TIME: lambda kind: kind == pa.time64("us"),
    oids.TIMESTAMP: lambda kind: pa.types.is_timestamp(kind) and kind.tz is None,
    oids.TIMESTAMPTZ: lambda kind: pa.types.is_timestamp(kind) and kind.tz is not None,
}
_MICROSECONDS = (oids.TIME, oids.TIMESTAMP, oids.TIMESTAMPTZ)


def converter(type_: TypeRef, kind: Any, settings: FormatSettings) -> Convert | None:
    """Makes the function that converts columns of an Arrow type for storage, or None if the types do not fit."""
    oid = type_.oid
    if pa.types.is_null(kind):
        return lambda column: pa.nulls(len(column), column_form(oid).arrow_type)
    if oid in _INTEGERS:
        return _integers(oid) if pa.types.is_integer(kind) else None
    if oid in oids.FLOATS:
        wide = oid == oids.FLOAT8 and (pa.types.is_integer(kind) or pa.types.is_float32(kind))
        wanted = pa.float64() if oid == oids.FLOAT8 else pa.float32()
        return (lambda column: column.cast(wanted)) if wide or kind == wanted else None
    if oid in _NATIVE:
        return _native(type_) if _NATIVE[oid](kind) else None
    if oid == oids.NUMERIC and (pa.types.is_decimal(kind) or pa.types.is_integer(kind)):
        return _numeric(type_)
    if (element := element_of(oid)) and pa.types.is_list(kind):
        return _list(TypeRef(element, type_.typmod), kind, settings)
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return _text(type_, settings)
    return None


def _expected_type(oid: int) -> str:
    """The Arrow type that a user may cast to, for the message."""
    if oid == oids.NUMERIC:
        return "decimal128"
    return str(column_form(oid).arrow_type) if oid in (*_INTEGERS, *_NATIVE, *oids.FLOATS) else "string"


def _integers(oid: int) -> Convert:
    wanted = pa.uint32() if oid == oids.OID else column_form(oid).arrow_type

    def convert(column: Any) -> Any:
        try:
            return column.cast(wanted).cast(column_form(oid).arrow_type)
        except pa.ArrowInvalid:
            raise SqlError("22003", f"{_INTEGERS[oid]} out of range") from None

    return convert


def _native(type_: TypeRef) -> Convert:
    form = column_form(type_.oid).arrow_type
    rounds = type_.oid in _MICROSECONDS and 0 <= type_.typmod < 6
    coerce = lookup(type_.oid).length_coercion(type_.typmod, False) if rounds else None

    def convert(column: Any) -> Any:
        if type_.oid == oids.TIMESTAMPTZ:
            column = column.cast(pa.timestamp(column.type.unit))
        try:
            column = column.cast(form)
        except pa.ArrowInvalid as error:  # nanoseconds that are no microseconds
            raise SqlError("22008", f"timestamp out of range: {error}") from None
        return column if coerce is None else _value_by_value(column, type_.oid, coerce)

    return convert


def _value_by_value(column: Any, oid: int, change: Callable[[Any], Any]) -> Any:
    return from_values([None if value is None else change(value) for value in to_values(column, oid)], oid)


def _numeric(type_: TypeRef) -> Convert:
    coerce = lookup(oids.NUMERIC).length_coercion(type_.typmod, False)
    precision, scale = ((type_.typmod - 4) >> 16) & 0xFFFF, (type_.typmod - 4) & 0x7FF
    plain = type_.typmod >= 0 and precision <= 38 and scale <= precision

    def convert(column: Any) -> Any:
        if pa.types.is_integer(column.type):
            column = column.cast(pa.decimal128(20, 0))
        if plain:
            try:
                return column.cast(pa.decimal128(precision, scale))
            except pa.ArrowInvalid:
                pass  # to be rounded, or too large
        text = from_values([None if value is None else value for value in column.to_pylist()], oids.NUMERIC)
        return text if coerce is None else _value_by_value(text, oids.NUMERIC, coerce)

    return convert


def _list(element: TypeRef, kind: Any, settings: FormatSettings) -> Convert | None:
    inner = converter(element, kind.value_type, settings)
    if inner is None:
        return None

    def convert(column: Any) -> Any:
        mask = column.is_null() if column.null_count else None
        return pa.ListArray.from_arrays(column.offsets, inner(one_array(column.values)), mask=mask)

    return convert


def _text(type_: TypeRef, settings: FormatSettings) -> Convert | None:
    """utf8: for text types, and types without a corresponding Arrow type."""
    oid, fast = type_.oid, converter_of(type_, settings)
    if oid in _NATIVE:
        return None
    decode = lookup(oid).text_decoder(settings, type_.typmod)

    def convert(column: Any) -> Any:
        column = one_array(column.cast(pa.string()))
        data = column.buffers()[2]
        source = Source(b"" if data is None else memoryview(data).tobytes())
        if b"\0" in source.data:
            raise SqlError("22021", 'invalid byte sequence for encoding "UTF8": 0x00')
        if fast is not None and len(source.data):
            try:
                return fast.finish(column, source)
            except (Doubt, pa.ArrowInvalid):
                pass
        if pc.count_distinct(column).as_py() * 2 < len(column):
            encoded = column.dictionary_encode()
            made = from_values([None if text is None else decode(text) for text in encoded.dictionary.to_pylist()], oid)
            return made.take(encoded.indices)
        return from_values([None if text is None else decode(text) for text in column.to_pylist()], oid)

    return convert
