"""COPY TO in the format `arrow`: a result as an Arrow IPC stream, with each message of the stream in one CopyData.

    CopyData: schema | CopyData: record batch | ... | CopyData: end of stream

A column is sent in the Arrow type for its SQL type, or as PostgreSQL's text if Arrow has no such type:

    bool, int2, int4, int8, float4, float8, oid     bool, int16, int32, int64, float, double, int64
    numeric(p,s) up to 38 digits, other numeric     decimal128(p, s), utf8
    text, varchar, bpchar, name, json, jsonb        utf8
    bytea; date; time                               binary; date32; time64[us]
    timestamp; timestamptz                          timestamp[us]; timestamp[us, UTC]
    arrays of these                                 list of these
    anything else                                   utf8

Infinite dates and timestamps become the limits of Arrow's range; 24:00:00 is refused. DuckDB's values are sent
unchanged if the form is the same. No code runs for each row.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from catalog.errors import SqlError
from catalog.types import element_of, oids
from catalog.types.base import FormatSettings
from engine.columnar.cells import text_cells
from engine.storage.columns import one_array

END_OF_STREAM = b"\xff\xff\xff\xff\0\0\0\0"
ROWS_PER_BATCH = 1 << 16
_DAY = 86_400_000_000  # microseconds
_LENGTH = struct.Struct(">i")
_SAME = oids.NUMBERS | oids.COLLATABLE | oids.JSON_TYPES | {oids.BOOL, oids.BYTEA, oids.DATE, oids.TIMESTAMP}

Convert = Callable[[Any], Any]


class ArrowEncoder:
    """Encodes one result as CopyData messages: by `start`, then `encode` for every batch, then `end`."""

    def __init__(self, column_types: Sequence[int], names: Sequence[str], settings: FormatSettings) -> None:
        self._names = list(names)
        self._columns = [_converter(oid, settings) for oid in column_types]

    def start(self, schema: Any) -> memoryview:
        """The message with the schema of the stream, from the schema of the batches."""
        columns = [
            convert(pa.array([], field.type)) for convert, field in zip(self._columns, self._used(schema), strict=True)
        ]
        return _copy_data(self._batch(columns).schema.serialize())

    def encode(self, batch: Any) -> Iterator[tuple[memoryview, int]]:
        """The message with a batch, and its number of rows. None for an empty batch."""
        if not batch.num_rows:
            return
        columns = [
            convert(one_array(column)) for convert, column in zip(self._columns, self._used(batch.columns), strict=True)
        ]
        yield _copy_data(self._batch(columns).serialize()), batch.num_rows

    def end(self) -> memoryview:
        """The message with the end of the stream."""
        return _copy_data(END_OF_STREAM)

    def _used(self, columns: Any) -> list[Any]:
        return list(columns)[: len(self._columns)]

    def _batch(self, columns: list[Any]) -> Any:
        return pa.RecordBatch.from_arrays(columns, names=self._names)


def _copy_data(message: Any) -> memoryview:
    data = memoryview(message)
    return memoryview(b"".join((b"d", _LENGTH.pack(data.nbytes + 4), data)))


def _converter(oid: int, settings: FormatSettings) -> Convert:
    if oid in _SAME:
        return _same
    if oid == oids.TIME:
        return _within_a_day
    if oid == oids.TIMESTAMPTZ:
        return lambda column: column.cast(pa.timestamp("us")).cast(pa.timestamp("us", "UTC"))
    text = text_cells(oid, settings)

    def as_text(column: Any) -> Any:
        cells = text(column)
        made = cells.as_values().cast(pa.string())
        return made if not column.null_count else pc.if_else(column.is_valid(), made, pa.scalar(None, pa.string()))

    element = element_of(oid)
    if not element:
        return as_text
    inner = _converter(element, settings)

    def as_list(column: Any) -> Any:
        if not pa.types.is_list(column.type):
            return as_text(column)  # the query runs in its form for arrays of any shape, with arrays as text
        return pa.ListArray.from_arrays(column.offsets, inner(one_array(column.values)), mask=_mask(column))

    return as_list


def _same(column: Any) -> Any:
    return column.cast(pa.string()) if pa.types.is_null(column.type) else column


def _within_a_day(column: Any) -> Any:
    if (pc.max(column.view(pa.int64())).as_py() or 0) >= _DAY:
        message = "time 24:00:00 has no form in Arrow"
        raise SqlError("22008", message, hint="Cast the column to text.")
    return column


def _mask(column: Any) -> Any:
    return column.is_null() if column.null_count else None
