"""Result rows in wire format: DataRow and CopyData messages from Arrow columns, one record batch at a time.

Each column becomes *cells*: the text or binary form of every value, either of one width (a NumPy byte matrix) or of
any width (an Arrow binary array). A message is a join of pieces:

    'D' length count | length cell | length cell ...        DataRow  (PostgreSQL 16 manual, 55.7)
    'd' length | cell TAB cell ... NEWLINE                   CopyData with one line of COPY's text format

Adjacent pieces of fixed width are first joined to one matrix, so that Arrow's `binary_join_element_wise` copies few and
long pieces. No Python code runs for each row, except for types whose text has no columnar rule (arrays, intervals,
styles other than ISO, time zones with offsets): the encoders of catalog.types convert each of their distinct values.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from catalog.errors import not_supported
from catalog.types.base import FormatSettings
from engine.columnar import cells
from engine.columnar.cells import Bytes, Cells

CHUNK_BYTES = 256 << 10
_JOIN_LIMIT = 1 << 30  # bytes; a larger join needs offsets of 64 bits


class RowEncoder:
    """Encodes the record batches of one result. A query makes one encoder. One format applies to all columns; no format
    means text.

    `kind`, `formats` and `options` are those of RowEncoding; 'copy_binary' makes rows without COPY's header and
    trailer. Supported options of COPY: delimiter, null, quote, escape, force_quote ('*' or names joined by commas);
    others raise 0A000. `records`: for each column that is a STRUCT and is sent as a binary record, the type of each
    field and its declared type, which may be a domain; empty for other columns.
    """

    def __init__(
        self,
        kind: str,
        column_types: Sequence[int],
        formats: Sequence[int],
        settings: FormatSettings,
        *,
        options: Sequence[tuple[str, str]] = (),
        names: Sequence[str] = (),
        records: Sequence[Sequence[tuple[int, int]]] = (),
    ) -> None:
        self.kind = kind
        formats = tuple(formats) or (0,)
        if len(formats) == 1:
            formats *= len(column_types)
        if kind == "copy_binary":
            formats = (1,) * len(column_types)
        elif kind in ("copy_text", "copy_csv"):
            formats = (0,) * len(column_types)
        self._columns: list[Callable[[pa.Array], Cells]] = [
            _encoder(oid, code, settings, fields)
            for oid, code, fields in zip(column_types, formats, records or [()] * len(formats), strict=True)
        ]
        self._copy = _CopyOptions.read(kind, dict(options), names) if kind in ("copy_text", "copy_csv") else None

    def encode(self, batch: pa.RecordBatch) -> Iterator[tuple[memoryview, int]]:
        """Encodes the rows of a batch in chunks of about 256 KiB, each with its number of rows. No row is split."""
        rows = batch.num_rows
        if rows == 0:
            return
        if batch.nbytes > _JOIN_LIMIT // 8 and rows > 1:
            # Text can be several times as long as the column: bytea doubles its length, escapes double it again.
            half = rows // 2
            yield from self.encode(batch.slice(0, half))
            yield from self.encode(batch.slice(half))
            return
        # DuckDB returns at least one column; the rows of a SELECT without columns are empty.
        columns = batch.columns if self._columns else ()
        made = [encoder(column) for encoder, column in zip(self._columns, columns, strict=True)]
        message, ends = self._copy_lines(made, rows) if self._copy is not None else self._data_rows(made, rows)
        start_row = 0
        start = 0
        while start_row < rows:
            stop_row = max(start_row + 1, int(np.searchsorted(ends, start + CHUNK_BYTES, side="right")))
            stop = int(ends[stop_row - 1])
            yield message[start:stop], stop_row - start_row
            start_row, start = stop_row, stop

    def _data_rows(self, columns: list[Cells], rows: int) -> tuple[memoryview, npt.NDArray[np.int64]]:
        copy = self.kind == "copy_binary"
        header = 7
        body = np.full(rows, 6, dtype=np.int64)
        join = _Join(rows)
        head = np.empty((rows, header), dtype=np.uint8)
        join.add_fixed(head)
        for column in columns:
            body += 4 + np.maximum(column.lengths, 0)
            join.add_fixed(_big_endian(column.lengths, ">i4"))
            join.cells(column)
        head[:, 0] = ord("d") if copy else ord("D")
        head[:, 1:5] = _big_endian(body, ">u4")
        head[:, 5:7] = np.frombuffer(len(columns).to_bytes(2, "big"), dtype=np.uint8)
        return join.result(), np.cumsum(body + 1)

    def _copy_lines(self, columns: list[Cells], rows: int) -> tuple[memoryview, npt.NDArray[np.int64]]:
        options = self._copy
        assert options is not None
        body = np.full(rows, 4 + 1 + max(len(columns) - 1, 0), dtype=np.int64)
        join = _Join(rows)
        head = np.empty((rows, 5), dtype=np.uint8)
        join.add_fixed(head)
        delimiter = np.full((rows, 1), ord(options.delimiter), dtype=np.uint8)
        for position, column in enumerate(columns):
            if position:
                join.add_fixed(delimiter)
            field = options.field(column, position, len(columns) == 1)
            body += field.lengths
            join.cells(field)
        join.add_fixed(np.full((rows, 1), ord("\n"), dtype=np.uint8))
        head[:, 0] = ord("d")
        head[:, 1:5] = _big_endian(body, ">u4")
        return join.result(), np.cumsum(body + 1)


def _encoder(oid: int, code: int, settings: FormatSettings, fields: Sequence[tuple[int, int]]) -> cells.Encoder:
    if code == 0:
        return cells.text_cells(oid, settings)
    return _record_cells(fields) if fields else cells.binary_cells(oid)


def _record_cells(fields: Sequence[tuple[int, int]]) -> cells.Encoder:
    """record_send: the number of fields, then each field's type, length (-1 for NULL) and bytes."""
    encoders = [(cells.binary_cells(oid), told) for oid, told in fields]

    def encode(array: pa.Array) -> Cells:
        rows = len(array)
        join = _Join(rows)
        join.add_fixed(_big_endian(np.full(rows, len(encoders)), ">i4"))
        lengths = np.full(rows, 4, dtype=np.int64)
        for (encoder, told), column in zip(encoders, array.flatten(), strict=True):
            field = encoder(column)
            lengths += 8 + np.maximum(field.lengths, 0)
            join.add_fixed(_big_endian(np.full(rows, told), ">u4"))
            join.add_fixed(_big_endian(field.lengths, ">i4"))
            join.cells(field)
        ends = np.zeros(rows + 1, dtype=np.int32)
        np.cumsum(lengths, out=ends[1:])
        values = pa.Array.from_buffers(pa.binary(), rows, [None, pa.py_buffer(ends), pa.py_buffer(join.result())])
        return Cells.of(
            pc.if_else(array.is_valid(), values, pa.scalar(None, pa.binary())) if array.null_count else values
        )

    return encode


def _big_endian(values: npt.NDArray[Any], dtype: str) -> Bytes:
    packed = values.astype(dtype)
    return packed.view(np.uint8).reshape(len(values), packed.dtype.itemsize)


class _Join:
    """Joins the pieces of every row, in order. Adjacent pieces of fixed width are joined first."""

    def __init__(self, rows: int) -> None:
        self._rows = rows
        self._matrices: list[Bytes] = []
        self._pieces: list[list[Bytes] | pa.Array] = []

    def add_fixed(self, matrix: Bytes) -> None:
        self._matrices.append(matrix)

    def cells(self, column: Cells) -> None:
        if column.matrix is not None:
            self._matrices.append(column.matrix)
            return
        if self._matrices:
            self._pieces.append(self._matrices)
            self._matrices = []
        self._pieces.append(column.values)

    def result(self) -> memoryview:
        """The rows, one after the other. Matrices are read only now, so the caller may fill them after `add_fixed`."""
        if self._matrices:
            self._pieces.append(self._matrices)
            self._matrices = []
        if len(self._pieces) == 1 and isinstance(self._pieces[0], list):
            return memoryview(np.concatenate(self._pieces[0], axis=1).tobytes())
        arrays = [
            cells.binary_of_matrix(np.concatenate(piece, axis=1)) if isinstance(piece, list) else piece
            for piece in self._pieces
        ]
        if sum(array.nbytes for array in arrays) > _JOIN_LIMIT:
            arrays = [array.cast(pa.large_binary()) for array in arrays]
        empty = pa.scalar(b"", type=arrays[0].type)
        joined = pc.binary_join_element_wise(*arrays, empty)
        data = memoryview(joined.buffers()[2]).cast("B")
        return data[joined.offset :] if joined.offset else data


@dataclass(frozen=True, slots=True)
class _CopyOptions:
    """The options of COPY TO for one stream (PostgreSQL 16 manual, COPY). The caller writes the header line."""

    csv: bool
    delimiter: str
    null: bytes
    quote: str
    escape: str
    force_quote: frozenset[int]

    @classmethod
    def read(cls, kind: str, options: dict[str, str], names: Sequence[str]) -> _CopyOptions:
        csv = kind == "copy_csv"
        unknown = options.keys() - {
            "delimiter",
            "null",
            "quote",
            "escape",
            "force_quote",
            "header",
            "encoding",
            "format",
        }
        if unknown:
            not_supported(f"COPY option {min(unknown)}")
        quote = options.get("quote", '"')
        forced = options.get("force_quote", "")
        wanted = set(names) if forced == "*" else set(forced.split(",")) - {""}
        return cls(
            csv=csv,
            delimiter=options.get("delimiter", "," if csv else "\t"),
            null=options.get("null", "" if csv else "\\N").encode(),
            quote=quote,
            escape=options.get("escape", quote),
            force_quote=frozenset(i for i, name in enumerate(names) if name in wanted),
        )

    def field(self, column: Cells, position: int, alone: bool) -> Cells:
        """A column's cells in COPY's format: escaped or quoted, with the null string for NULL."""
        values = column.as_values()
        valid = column.valid()
        values = self._quote(values, position, alone) if self.csv else self._escape(values)
        if valid is not None:
            null = pa.scalar(self.null, type=values.type)
            values = pc.if_else(pa.array(valid), values, null)
        return Cells.of(values)

    def _escape(self, values: pa.Array) -> pa.Array:
        special = b"\\\b\f\n\r\t\v" + self.delimiter.encode()
        if not cells.contains_any(values, special):
            return values
        values = pc.replace_substring(values, b"\\", b"\\\\")
        for plain, letter in zip(b"\b\f\n\r\t\v", b"bfnrtv", strict=True):
            values = pc.replace_substring(values, bytes((plain,)), bytes((0x5C, letter)))
        if self.delimiter not in "\\\b\f\n\r\t\v":
            values = pc.replace_substring(values, self.delimiter.encode(), b"\\" + self.delimiter.encode())
        return values

    def _quote(self, values: pa.Array, position: int, alone: bool) -> pa.Array:
        quote, escape = self.quote.encode(), self.escape.encode()
        special = self.delimiter.encode() + quote + b"\r\n"
        needs = pc.equal(values, pa.scalar(self.null, type=values.type))
        if alone:
            needs = pc.or_(needs, pc.equal(values, pa.scalar(b"\\.", type=values.type)))
        inner = values
        if cells.contains_any(values, special + escape):
            for character in special:
                needs = pc.or_(needs, pc.match_substring(values, bytes((character,))))
            if escape != quote:
                inner = pc.replace_substring(inner, escape, escape + escape)
            inner = pc.replace_substring(inner, quote, escape + quote)
        if position in self.force_quote:
            needs = pa.array(np.ones(len(values), dtype=np.bool_))
        elif not pc.any(needs).as_py():
            return values
        around = pa.scalar(quote, type=values.type)
        empty = pa.scalar(b"", type=values.type)
        return pc.if_else(needs, pc.binary_join_element_wise(around, inner, around, empty), values)
