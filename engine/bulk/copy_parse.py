"""Parses COPY data into rows: pieces of complete lines, by Arrow if its result equals PostgreSQL's, else line by line.

    first   Arrow's CSV reader converts all columns whose rules it shares                   (integers, text, dates ...)
    second  the same, with doubtful columns as text, which the type's input function reads (distinct values once)
    third   line by line, by PostgreSQL's rules, up to its exact error: row, column, text

Data that Arrow reads differently from PostgreSQL is excluded before (`_readable`) or detected after (the converters
raise `Doubt`). A failure leads to the next step, and the last one is authoritative. All of this runs in a thread of the
statement.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

from catalog import processes
from catalog.errors import SqlError
from catalog.schema import Column as TableColumn
from catalog.schema import Table
from catalog.types import lookup
from catalog.types.base import FormatSettings
from engine.bulk.copy_lines import NEWLINE, RETURN, Line, LineReader, count_byte, splitter, unescape
from engine.bulk.copy_options import CopyOptions
from engine.bulk.read_columns import Converter, Doubt, Source, converter_of
from engine.bulk.rows import RowSet
from engine.storage.columns import Column, one_array

_END_OF_DATA = re.compile(rb"(?:\A|\n)(\\\.(?:\r?\n|\Z))")
_BLOCK_BYTES = 1 << 20  # data of at most this size is parsed by one thread
SHOWN_BYTES = 100  # of a line or a value, in an error's context
_MOST_QUOTES = 1 << 22  # in a piece: their places take 100 bytes each while one looks at them


@dataclass(slots=True)
class Piece:
    """Parsed rows of the given columns. `error` is the error in the line after the last row, if there is one.

    `line(place)` returns the line of a row, for errors.
    """

    rows: RowSet
    line: Callable[[int], Line]
    error: SqlError | None = None
    last: bool = False  # the end-of-data mark was met


@dataclass(slots=True)
class _Column:
    definition: TableColumn
    decode: Callable[[str], Any]
    converter: Converter | None = field(default=None)
    force_not_null: bool = False
    force_null: bool = False


class CopyParser:
    """Parses one COPY's pieces, in their order."""

    def __init__(
        self, table: Table, columns: Sequence[TableColumn], options: CopyOptions, settings: FormatSettings
    ) -> None:
        self.table = table
        self.options = options
        self.reader = LineReader(options)
        self._split = splitter(options)
        self._columns = [
            _Column(
                column,
                lookup(column.type.oid).text_decoder(settings, column.type.typmod),
                converter_of(column.type, settings),
                column.name in options.force_not_null,
                column.name in options.force_null,
            )
            for column in columns
        ]
        self._forced = any(column.force_not_null or column.force_null for column in self._columns)
        self._header = bool(options.header)

    def parse(self, data: bytes) -> Piece:
        """The rows of a piece of complete lines."""
        if not self._header and (piece := self._by_arrow(data)) is not None:
            return piece
        return self._by_lines(data)

    # --- Arrow ---------------------------------------------------------------------------------------------------

    def _by_arrow(self, data: bytes) -> Piece | None:
        source = Source(data)
        mark = None
        if b"\\" in data and ord(".") in source.escaped and (mark := _END_OF_DATA.search(data)) is not None:
            data = data[: mark.start(1)]
            source = Source(data)
        if not self._readable(source):
            return None
        typed = [column.converter is not None for column in self._columns]
        attempts = [typed, [False] * len(typed)] if any(typed) else [typed]
        for attempt in attempts:
            try:
                rows = self._read(source, attempt)
            except (pa.ArrowInvalid, Doubt, SqlError):
                processes.check()  # a cancelled statement does not read the data again
                continue
            piece = self._number_lines(rows, data)
            if piece is not None and mark is not None:
                piece.last = self.reader.ended = True
            return piece
        return None

    def _number_lines(self, rows: RowSet, data: bytes) -> Piece | None:
        """Sets the line numbers of the piece."""
        reader = self.reader
        ends = count_byte(data, NEWLINE) + (not data.endswith(NEWLINE))
        if reader.end_of_line is None:
            if ends != rows.count:
                return None  # newlines inside quotes are not counted before the kind of line end is known
            reader.end_of_line = b"\r\n" if b"\r\n" in data else b"\n"
        first = reader.number
        reader.number += ends
        return Piece(rows, lambda place: self._line_of(data, first, place))

    def _line_of(self, data: bytes, first: int, place: int) -> Line:
        again = LineReader(self.options)
        again.number, again.end_of_line = first, self.reader.end_of_line
        for position, line in enumerate(again.lines(data)):
            if position == place:
                return line
        raise AssertionError("a row without a line")

    def _readable(self, source: Source) -> bool:
        """Whether Arrow splits the piece as PostgreSQL would."""
        data = source.data
        if self._forced or not self._columns or len(data) == 0 or count_byte(data, b"\0"):
            return False
        known = self.reader.end_of_line
        returns = count_byte(data, RETURN)
        if returns:
            pairs = source.pairs_of_line_ends
            if pairs != returns or pairs != count_byte(data, NEWLINE) or known not in (None, b"\r\n"):
                return False
        elif known not in (None, b"\n"):
            return False
        options = self.options
        if not options.csv:
            return b"\\" not in data or source.escaped.isdisjoint((0, *b".\n\r", ord(options.delimiter)))
        quote = options.quote.encode()
        return quote not in data or (options.escape == options.quote and _plainly_quoted(data, quote, options))

    def _read(self, source: Source, typed: Sequence[bool]) -> RowSet:
        options, data = self.options, source.data
        names = [str(place) for place in range(len(self._columns))]
        kinds = {
            name: column.converter.reads if use and column.converter is not None else pa.string()
            for name, column, use in zip(names, self._columns, typed, strict=True)
        }
        quoted = options.csv and options.quote.encode() in data
        table = pyarrow.csv.read_csv(
            pa.BufferReader(data),
            read_options=pyarrow.csv.ReadOptions(
                column_names=names,
                block_size=max(len(data) // 2 + 1, _BLOCK_BYTES),
                use_threads=len(data) > _BLOCK_BYTES,
            ),
            parse_options=pyarrow.csv.ParseOptions(
                delimiter=options.delimiter,
                quote_char=options.quote if quoted else False,
                double_quote=True,
                escape_char=False,
                newlines_in_values=quoted,
                ignore_empty_lines=False,
            ),
            convert_options=pyarrow.csv.ConvertOptions(
                column_types=kinds,
                null_values=[options.null],
                true_values=["t", "true", "y", "yes", "on", "1", "T", "TRUE", "True"],
                false_values=["f", "false", "n", "no", "off", "0", "F", "FALSE", "False"],
                strings_can_be_null=True,
                quoted_strings_can_be_null=False,
            ),
        )
        arrays: dict[int, Column] = {}
        values: dict[int, list[Any]] = {}
        escapes = not options.csv and b"\\" in data
        for name, column, use in zip(names, self._columns, typed, strict=True):
            found = one_array(table.column(name))
            if escapes and pa.types.is_string(found.type):
                found = _unescape(found)
            if use and column.converter is not None:
                arrays[column.definition.number] = column.converter.finish(found, source)
            else:
                values[column.definition.number] = _decode(found, column.decode)
        return RowSet(self.table, table.num_rows, arrays).with_columns(values)

    # --- line by line --------------------------------------------------------------------------------------------

    def _by_lines(self, data: bytes) -> Piece:
        lines: list[Line] = []
        rows: list[list[Any]] = []
        error: SqlError | None = None
        try:
            for line in self._lines(data):
                rows.append(self._row(line))
                lines.append(line)
        except SqlError as found:
            error = found
        numbers = [column.definition.number for column in self._columns]
        by_column = zip(*rows, strict=True) if rows else ([] for _ in numbers)
        made = RowSet.of_values(self.table, len(rows), dict(zip(numbers, map(list, by_column), strict=True)))
        return Piece(made, lines.__getitem__, error, self.reader.ended)

    def _lines(self, data: bytes) -> Iterator[Line]:
        try:
            for line in self.reader.lines(data):
                if self._header:
                    self._header = False
                    if self.options.header == "match":
                        self._match_header(line)
                    continue
                yield line
        except SqlError as error:
            if error.context is None:
                error.context = f"COPY {self.table.name}, line {self.reader.number}"
            raise

    def _match_header(self, line: Line) -> None:
        """HEADER MATCH: the names must be the names of the columns. Raises 22P04."""
        fields = self._split(_check_text(line.text))
        message = None
        if len(fields) != len(self._columns):
            message = f"wrong number of fields in header line: got {len(fields)}, expected {len(self._columns)}"
        else:
            for place, (name, column) in enumerate(zip(fields, self._columns, strict=True), 1):
                wanted = column.definition.name
                if name is None:
                    got = f'null value ("{self.options.null}")'
                elif name.decode() != wanted:
                    got = f'"{name.decode()}"'
                else:
                    continue
                message = f'column name mismatch in header line field {place}: got {got}, expected "{wanted}"'
                break
        if message is not None:
            raise SqlError("22P04", message, context=self.context(line))

    def _row(self, line: Line) -> list[Any]:
        """The values of the given columns. Raises errors with PostgreSQL's context."""
        try:
            text = _check_text(line.text)
        except SqlError as error:
            error.context = f"COPY {self.table.name}, line {line.number}"
            raise
        try:
            fields = self._split(text)
            if not self.options.csv and b"\\" in text:
                for item in fields:
                    _check_text(item or b"")
            if len(fields) > len(self._columns):
                raise SqlError("22P04", "extra data after last expected column")
            values = [self._value(line, column, field) for column, field in zip(self._columns, fields, strict=False)]
            if len(fields) < len(self._columns):
                name = self._columns[len(fields)].definition.name
                raise SqlError("22P04", f'missing data for column "{name}"')
        except SqlError as error:
            if error.context is None:
                error.context = self.context(line)
            raise
        return values

    def _value(self, line: Line, column: _Column, field: bytes | None) -> Any:
        if field is None:
            if not column.force_not_null:
                return None
            field = self.options.null.encode()
        elif column.force_null and field == self.options.null.encode():
            return None
        try:
            return column.decode(field.decode())
        except SqlError as error:
            shown = shown_text(field)
            where = f'COPY {self.table.name}, line {line.number}, column {column.definition.name}: "{shown}"'
            error.context = where if error.context is None else f"{error.context}\n{where}"
            raise

    def context(self, line: Line) -> str:
        """The position in the data for an error of a whole row."""
        return f'COPY {self.table.name}, line {line.number}: "{shown_text(line.text)}"'


def shown_text(text: bytes) -> str:
    """Text in an error's context, cut as PostgreSQL cuts it."""
    if len(text) <= SHOWN_BYTES:
        return text.decode(errors="replace")
    return text[:SHOWN_BYTES].decode(errors="ignore") + "..."


def _check_text(text: bytes) -> bytes:
    """Raises 22021 for text that is not UTF-8, or has a zero byte."""
    at = -1
    try:
        text.decode()
    except UnicodeDecodeError as error:
        at = error.start
    zero = text.find(b"\0")
    if zero >= 0 and (at < 0 or zero < at):
        at = zero
    if at < 0:
        return text
    lead = text[at]
    length = 4 if lead >= 0xF0 and lead < 0xF8 else 3 if 0xE0 <= lead < 0xF0 else 2 if 0xC0 <= lead < 0xE0 else 1
    shown = " ".join(f"0x{byte:02x}" for byte in text[at : at + length])
    raise SqlError("22021", f'invalid byte sequence for encoding "UTF8": {shown}')


def _plainly_quoted(data: bytes, quote: bytes, options: CopyOptions) -> bool:
    """Whether every quote opens a field at its start, closes one at its end, or is doubled inside of one. Elsewhere
    Arrow reads a quote as an ordinary character, and PostgreSQL as a quote."""
    view = np.frombuffer(data, np.uint8)
    marks = view == quote[0]
    count = int(np.count_nonzero(marks))
    if count % 2 or count > _MOST_QUOTES:
        return False
    places = np.flatnonzero(marks)
    edges = np.zeros(256, np.bool_)
    edges[[ord(options.delimiter), ord(quote), 10, 13]] = True
    before, after = places[0::2], places[1::2]
    return bool(
        (edges[view[np.maximum(before - 1, 0)]] | (before == 0)).all()
        and (edges[view[np.minimum(after + 1, len(view) - 1)]] | (after == len(view) - 1)).all()
    )


def _unescape(column: Column) -> Column:
    """Text without its backslashes. NULLs were recognized before."""
    has = pc.match_substring(column, "\\").fill_null(False)
    places = np.flatnonzero(has.to_numpy(zero_copy_only=False))
    if not len(places):
        return column
    try:
        made = [unescape(text.encode()).decode() for text in column.take(pa.array(places)).to_pylist()]
    except UnicodeDecodeError:
        raise Doubt from None
    if any("\0" in text for text in made):
        raise Doubt
    return pc.replace_with_mask(column, has, pa.array(made, pa.string()))


def _decode(column: Column, decode: Callable[[str], Any]) -> list[Any]:
    """Values converted by the type's input function. Repeated values are converted once."""
    coded = column.dictionary_encode()
    if len(coded.dictionary) * 2 > len(column):
        return [None if text is None else decode(text) for text in column.to_pylist()]
    known = [decode(text) for text in coded.dictionary.to_pylist()]
    return [None if place is None else known[place] for place in coded.indices.to_pylist()]
