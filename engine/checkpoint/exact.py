"""Converts stored keys and rows of one table to open columns, and back to the same bytes.

The writer converts its columns back at once. Rows that differ from the original are *exceptions*, and get a line in the
file's companion (`.exact`, an Arrow IPC file, zstd):

    place    u32     the row's position in the Parquet file
    layout   u16     re-encoding its columns in this older layout gives the row; NULL: see `row`
    row      binary  the row as it is stored; NULL: its columns give it
    key      binary  its key as it is stored; NULL: its columns give it

So a restore is exact in every bit, even if a column has NULL for a value that Parquet cannot hold, an older row layout
has columns that were dropped, or a conversion has a bug. Nearly all files have no companion.

A table without a primary key has hidden row numbers, which are a column of their own in the Parquet file.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b
from typing import Any

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from catalog.schema import Column as TableColumn
from catalog.schema import Table
from catalog.types import format_type
from engine.checkpoint.manifest import FORMAT, ColumnEntry, damage_error
from engine.checkpoint.open_types import OpenForm, open_form
from engine.storage.columns import Column, Numbers, numbers_of, one_array
from engine.storage.keys import encode_keys, numbers_of_offsets, row_number_keys, row_numbers_of
from engine.storage.row_batches import column_name
from engine.storage.rows import RowCodec

ROW_NUMBER = "_shoal_row_number"
EXACT_SCHEMA: Any = pa.schema(
    [("place", pa.uint32()), ("layout", pa.uint16()), ("row", pa.binary()), ("key", pa.binary())]
)
READ_ROWS = 65_536


@dataclass(frozen=True, slots=True)
class Opened:
    """A batch of rows in the form of a checkpoint. `exact`: its exceptions, with positions from the batch's first row.
    `nulled`: by column name, the number of values that are NULL in the column only."""

    batch: Any
    exact: Any | None
    nulled: dict[str, int]


class OpenTable:
    """The conversion of one table definition. Only for tables whose rows are written in `table.layouts`."""

    def __init__(self, table: Table) -> None:
        self.table = table
        self.codec = RowCodec(table)
        self.layout = self.codec.newest.version
        self._older: dict[int, RowCodec] = {}
        self._forms: list[tuple[TableColumn, OpenForm]] = [(column, open_form(column.type)) for column in table.columns]
        names = {column.name for column in table.columns}
        self.row_number = ""
        if not table.key_columns:
            self.row_number = ROW_NUMBER
            while self.row_number in names:
                self.row_number += "_"
        self._key_types = [table.column_by_number(number).type for number in table.key_columns]
        self.schema: Any = pa.schema(list(self._fields()))

    def _fields(self) -> Iterator[Any]:
        for column, form in self._forms:
            metadata = {
                "shoal.type": format_type(column.type.oid, column.type.typmod),
                "PARQUET:field_id": str(column.number),
            }
            yield pa.field(column.name, form.arrow_type, metadata=metadata)
        if self.row_number:
            yield pa.field(self.row_number, pa.int64(), metadata={"shoal.type": "hidden row number"})

    @property
    def columns(self) -> tuple[ColumnEntry, ...]:
        """The columns, for the manifest."""
        return tuple(
            ColumnEntry(
                column.number,
                column.name,
                format_type(column.type.oid, column.type.typmod),
                column.not_null or column.number in self.table.key_columns,
            )
            for column in self.table.columns
        )

    @property
    def shape(self) -> str:
        """The shape, for manifest.TableEntry."""
        table = self.table
        columns = [(c.number, c.name, c.type.oid, c.type.typmod, c.missing) for c in table.columns]
        parts = [FORMAT, table.storage_id, table.key_columns, self.layout, columns]
        return blake2b(orjson.dumps(parts), digest_size=16).hexdigest()

    # --- stored -> open ------------------------------------------------------------------------------------------

    def to_open(self, keys: Column, rows: Column) -> Opened:
        """Converts keys and stored rows (binary arrays) to columns, with the exceptions."""
        plain = [column.number for column, form in self._forms if form.out is not None]
        decoded = dict(zip(plain, self.codec.batches.decode(rows, plain).columns, strict=True))
        values = rows.to_pylist() if len(plain) < len(self._forms) else []
        arrays, nulled = [], {}
        for column, form in self._forms:
            if form.out is not None:
                source = decoded[column.number]
                made = form.out(source)
                missing = made.null_count - source.null_count
            else:
                assert form.values_out is not None
                internal = list(map(self.codec.decode_column(column.number), values))
                made = form.values_out(internal)
                missing = made.null_count - internal.count(None)
            arrays.append(made)
            if missing:
                nulled[column.name] = missing
        if self.row_number:
            arrays.append(pa.array(row_numbers_of(keys)))
        batch = pa.RecordBatch.from_arrays(arrays, schema=self.schema)
        return Opened(batch, self._exceptions(batch, keys, rows), nulled)

    def _exceptions(self, batch: Any, keys: Column, rows: Column) -> Any | None:
        columns = self._stored_columns(batch)
        again = self.codec.batches.encode(columns)
        again_keys = self._keys(batch, columns)
        wrong = np.zeros(len(rows), np.bool_) if rows.equals(again) else _differ(rows, again)
        wrong_keys = np.zeros(len(rows), np.bool_) if keys.equals(again_keys) else _differ(keys, again_keys)
        if not wrong.any() and not wrong_keys.any():
            return None
        layouts = np.zeros(len(rows), np.uint16)
        raw, older = wrong.copy(), np.zeros(len(rows), np.bool_)
        versions = _layout_versions(rows)
        for version in np.unique(versions[wrong]).tolist():
            if version != self.layout and version in self.codec.shapes:
                places = np.flatnonzero(wrong & (versions == version))
                made = self._encode_older(columns, places, version)
                same = places[~_differ(rows.take(pa.array(places)), made)]
                layouts[same] = version
                older[same] = True
                raw[same] = False
        places = np.flatnonzero(wrong | wrong_keys)
        return pa.RecordBatch.from_arrays(
            [
                pa.array(places.astype(np.uint32)),
                pa.array(layouts[places], mask=~older[places]),
                _only(rows, places, raw),
                _only(keys, places, wrong_keys),
            ],
            schema=EXACT_SCHEMA,
        )

    # --- open -> stored ------------------------------------------------------------------------------------------

    def to_stored(self, batch: Any, exact: Any | None) -> tuple[Column, Column]:
        """Converts a batch of columns and its exceptions (see `Opened`) to keys and stored rows (binary arrays)."""
        columns = self._stored_columns(batch)
        rows = self.codec.batches.encode(columns)
        keys = self._keys(batch, columns)
        if exact is None or not exact.num_rows:
            return keys, rows
        places = exact.column("place").to_numpy().astype(np.int64)
        older, raw, own_keys = (one_array(exact.column(name)) for name in ("layout", "row", "key"))
        for version in pc.unique(older.drop_null()).to_pylist():
            here = places[pc.equal(older, version).fill_null(False).to_numpy(zero_copy_only=False)]
            rows = _replace(rows, here, self._encode_older(columns, here, version))
        rows = _replace(rows, places[raw.is_valid().to_numpy(zero_copy_only=False)], raw.drop_null())
        keys = _replace(keys, places[own_keys.is_valid().to_numpy(zero_copy_only=False)], own_keys.drop_null())
        return keys, rows

    def _stored_columns(self, batch: Any) -> Any:
        """The columns in the form that storage takes, named c<number>."""
        arrays = [form.back(one_array(batch.column(place))) for place, (_, form) in enumerate(self._forms)]
        names = [column_name(column.number) for column, _ in self._forms]
        if not arrays:  # a table without columns has rows all the same
            return pa.RecordBatch.from_arrays([pa.nulls(batch.num_rows)], names=["none"])
        return pa.RecordBatch.from_arrays(arrays, names=names)

    def _encode_older(self, columns: Any, places: Numbers, version: int) -> Column:
        codec = self._older.get(version)
        if codec is None:
            layouts = self.table.layouts
            last = next(place for place, layout in enumerate(layouts) if layout.version == version)
            codec = self._older[version] = RowCodec(replace(self.table, layouts=layouts[: last + 1]))
        return codec.batches.encode(columns.take(pa.array(places)))

    def _keys(self, batch: Any, columns: Any) -> Column:
        """The rows' keys, empty where a key column is NULL, because such rows are exceptions."""
        table = self.table
        if self.row_number:
            return row_number_keys(table.storage_id, numbers_of(one_array(batch.column(len(self._forms))), "<i8"))
        parts = [one_array(columns.column(column_name(number))) for number in table.key_columns]
        if not any(part.null_count for part in parts):
            return encode_keys(table.storage_id, self._key_types, parts)
        valid = parts[0].is_valid()
        for part in parts[1:]:
            valid = pc.and_(valid, part.is_valid())
        places = np.flatnonzero(valid.to_numpy(zero_copy_only=False))
        keys = pa.array([b""] * len(valid), pa.binary())
        if not len(places):
            return keys
        known = [part.take(pa.array(places)) for part in parts]
        return _replace(keys, places, encode_keys(table.storage_id, self._key_types, known))

    # --- files ---------------------------------------------------------------------------------------------------

    def read_range(self, path: str, exact_path: str | None, content: str) -> Iterator[tuple[Column, Column]]:
        """Keys and stored rows of a range's file, batch by batch in key order. Raises XX001 at the end if their hash is
        not `content`, or earlier for a file of another table."""
        exact = None
        if exact_path is not None:
            with pa.OSFile(exact_path) as source:
                exact = pa.ipc.open_file(source).read_all().combine_chunks()
        found = ContentHash()
        first = 0
        with pq.ParquetFile(path) as file:
            if not file.schema_arrow.equals(self.schema):
                raise damage_error(f'a file of table "{self.table.name}" has other columns')
            for batch in file.iter_batches(READ_ROWS):
                keys, rows = self.to_stored(batch, _exact_part(exact, first, batch.num_rows))
                first += batch.num_rows
                found.add(keys, rows)
                yield keys, rows
        if found.hexdigest() != content:
            raise damage_error(f'rows of table "{self.table.name}" are not what was written')


class ContentHash:
    """BLAKE2b over stored keys and rows in key order, independent of the batches."""

    def __init__(self) -> None:
        self.rows = 0
        self._parts = [blake2b(digest_size=16) for _ in range(4)]

    def add(self, keys: Column, rows: Column) -> None:
        self.rows += len(keys)
        for place, column in enumerate((keys, rows)):
            offsets = numbers_of_offsets(column)
            data = column.buffers()[2]
            if data is not None:
                self._parts[2 * place].update(memoryview(data)[int(offsets[0]) : int(offsets[-1])])
            self._parts[2 * place + 1].update(np.diff(offsets).astype("<u4").data)

    def hexdigest(self) -> str:
        """32 digits."""
        return blake2b(b"".join(part.digest() for part in self._parts), digest_size=16).hexdigest()


def with_places_from(exact: Any, first: int) -> Any:
    """Exceptions with positions from the file's first row, for a batch that begins at `first`."""
    places = pa.array(exact.column(0).to_numpy() + np.uint32(first))
    return exact.set_column(0, EXACT_SCHEMA.field(0), places)


def _exact_part(exact: Any | None, first: int, count: int) -> Any | None:
    """The exceptions of the batch of rows [first, first + count), with positions from its first row."""
    if exact is None or not exact.num_rows:
        return None
    places = exact.column("place").to_numpy()
    start, stop = np.searchsorted(places, (first, first + count)).tolist()
    part = exact.slice(start, stop - start)
    moved = pa.array((places[start:stop] - np.uint32(first)).astype(np.uint32))
    return part.set_column(0, EXACT_SCHEMA.field(0), moved)


def _differ(left: Column, right: Column) -> Numbers:
    return pc.not_equal(left, right).to_numpy(zero_copy_only=False)


def _layout_versions(rows: Column) -> Numbers:
    starts = numbers_of_offsets(rows)[:-1]
    data = np.frombuffer(rows.buffers()[2], np.uint8)
    return data[starts].astype(np.uint16) | data[starts + 1].astype(np.uint16) << 8


def _only(column: Column, places: Numbers, wanted: Numbers) -> Column:
    """The values at these positions, NULL for all others."""
    return column.take(pa.array(places, mask=~wanted[places]))


def _replace(column: Column, places: Numbers, values: Sequence[bytes] | Column) -> Column:
    """The array with other values at these positions."""
    if not len(places):
        return column
    if len(places) == len(column):
        return one_array(values)
    order = np.arange(len(column))
    order[places] = len(column) + np.arange(len(places))
    return pa.concat_arrays([column, values]).take(pa.array(order))
