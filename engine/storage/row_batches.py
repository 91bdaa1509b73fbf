"""Many stored rows at a time, to and from Arrow columns in DuckDB's types (engine/storage/columns.py).

Decoding views the parts before the heaps as one NumPy structured array, which is a view of the given bytes where all
rows have one length, and a gather of them otherwise. A variable column of n rows becomes a binary array of 2n - 1 slots
over the same bytes, by interleaving starts and ends; taking every other slot packs it. Rows of different layouts are
decoded layout by layout and put back into order.

Encoding fills such a structured array and lets Arrow join it with the variable columns.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from engine.storage import columns as forms
from engine.storage.columns import Column, ColumnForm, Numbers, column_form
from engine.storage.keys import binary_from_matrix

if TYPE_CHECKING:
    from catalog import schema
    from engine.storage.rows import RowCodec, RowShape, StoredColumn

BATCH_BYTES = 2**31 - 1  # a binary array has 32-bit offsets


def column_name(number: int) -> str:
    """The name of a table's column in Arrow and in DuckDB."""
    return f"c{number}"


class RowBatches:
    """The whole-column side of a RowCodec (`codec.batches`). Columns are decoded into the forms of `form`."""

    def __init__(self, codec: RowCodec, form: Callable[[int], ColumnForm] = column_form) -> None:
        self._codec = codec
        self._form = form
        self._dtypes: dict[int, Any] = {}

    def arrow_schema(self, columns: Sequence[int] | None = None) -> Any:
        """The pyarrow schema of `decode`."""
        return pa.schema(
            [(column_name(column.number), self._form(column.type.oid).arrow_type) for column in self._columns(columns)]
        )

    def _columns(self, numbers: Sequence[int] | None) -> list[schema.Column]:
        table = self._codec.table
        return list(table.columns) if numbers is None else [table.column_by_number(number) for number in numbers]

    # --- decoding ----------------------------------------------------------------------------------------------

    def decode(self, rows: Sequence[bytes] | Column, columns: Sequence[int] | None = None) -> Any:
        """A pyarrow RecordBatch with columns c<number> (default: all, in the table's order) of stored rows.

        `rows`: a list of bytes, or a pyarrow binary array without NULLs, of at most 2 GiB.
        """
        array = forms.one_array(rows) if isinstance(rows, pa.Array) else forms.binary_array(rows)
        wanted = self._columns(columns)
        if len(array) == 0:
            return pa.RecordBatch.from_pylist([], self.arrow_schema(columns))
        offsets = np.frombuffer(array.buffers()[1], "<i4", len(array) + 1)
        data = np.frombuffer(array.buffers()[2], np.uint8)
        starts = offsets[:-1]
        versions = _view_at(data, starts, np.dtype("<u2"))
        if (versions == versions[0]).all():
            arrays = self._decode_layout(data, starts, int(versions[0]), wanted)
        else:
            arrays = self._decode_layouts(data, starts, versions, wanted)
        return pa.RecordBatch.from_arrays(arrays, schema=self.arrow_schema(columns))

    def _decode_layouts(
        self, data: Numbers, starts: Numbers, versions: Numbers, wanted: Sequence[schema.Column]
    ) -> list[Column]:
        places, parts = [], []
        for version in np.unique(versions).tolist():
            place = np.flatnonzero(versions == version)
            places.append(place)
            parts.append(self._decode_layout(data, starts[place], version, wanted))
        back = pa.array(np.argsort(np.concatenate(places), kind="stable"))
        return [pa.concat_arrays([part[i] for part in parts]).take(back) for i in range(len(wanted))]

    def _decode_layout(
        self, data: Numbers, starts: Numbers, version: int, wanted: Sequence[schema.Column]
    ) -> list[Column]:
        shape = self._codec.shape_of(version)
        heads = _view_at(data, starts, self._dtype(shape))
        arrays = []
        for column in wanted:
            stored = shape.by_number.get(column.number)
            if stored is None:
                one = forms.values_in_form(self._form(column.type.oid), [self._codec.missing(column)], column.type.oid)
                arrays.append(one.take(pa.array(np.zeros(len(starts), np.int32))))
            else:
                arrays.append(_decode_column(data, starts, heads, shape, stored, self._form(stored.oid)))
        return arrays

    def _dtype(self, shape: RowShape) -> Any:
        found = self._dtypes.get(shape.version)
        if found is None:
            fields: list[tuple[str, Any, int]] = [("version", "<u2", 0), ("bits", ("u1", (shape.bitmap_bytes,)), 2)]
            for column in shape.fixed:
                code = column.storage.struct_code
                assert code is not None
                fields.append((column_name(column.number), forms.stored_dtype(code), column.place))
            for ordinal in range(len(shape.variable)):
                fields.append((f"end{ordinal}", "<u4", shape.ends_at + 4 * ordinal))
            names, formats, offsets = zip(*fields, strict=True)
            found = self._dtypes[shape.version] = np.dtype(
                {"names": names, "formats": formats, "offsets": offsets, "itemsize": shape.heap_at}
            )
        return found

    # --- encoding ----------------------------------------------------------------------------------------------

    def encode(self, batch: Any) -> Column:
        """The stored rows (a pyarrow binary array) of a RecordBatch or Table with columns c<number>.

        Columns in DuckDB's types for their SQL types (numeric as text or decimal); one that is absent is NULL. At most
        2 GiB of rows.
        """
        shape = self._codec.newest
        count = batch.num_rows
        heads = np.zeros(count, self._dtype(shape))
        heads["version"] = shape.version
        present = set(batch.schema.names)
        heaps: list[Column] = []
        ends = np.zeros(count, np.uint32)
        for stored in shape.columns:
            name, bit = column_name(stored.number), np.uint8(1 << stored.index % 8)
            bits = heads["bits"][:, stored.index // 8]
            if name not in present:
                bits |= bit
                if not stored.storage.is_fixed:
                    heads[f"end{stored.place}"] = ends
                continue
            column = forms.one_array(batch.column(name))
            valid = forms.valid_mask(column)
            if valid is not None:
                bits[~valid] |= bit
            if stored.storage.is_fixed:
                heads[name] = _fixed_numbers(column, stored, valid)
            else:
                heap = _heap_bytes(column, stored)
                if valid is not None:
                    heap = heap.fill_null(b"")
                ends = ends + pc.binary_length(heap).to_numpy().astype(np.uint32)
                heads[f"end{stored.place}"] = ends
                heaps.append(heap)
        matrix = heads.view(np.uint8).reshape(count, shape.heap_at)
        rows = binary_from_matrix(matrix)
        return pc.binary_join_element_wise(rows, *heaps, b"") if heaps else rows


def _view_at(data: Numbers, starts: Numbers, dtype: Any) -> Numbers:
    """The bytes at `starts` as an array of `dtype`: a view if the starts are evenly spaced, otherwise a copy."""
    count = len(starts)
    step = int(starts[1] - starts[0]) if count > 1 else dtype.itemsize
    if step >= dtype.itemsize and (np.diff(starts) == step).all():
        return np.ndarray((count,), dtype, data, int(starts[0]), (step,))
    every = np.ndarray((len(data) - dtype.itemsize + 1,), np.dtype(("V", dtype.itemsize)), data, 0, (1,))
    return every[starts].view(dtype)


def _decode_column(
    data: Numbers, starts: Numbers, heads: Numbers, shape: RowShape, stored: StoredColumn, form: ColumnForm
) -> Column:
    valid = heads["bits"][:, stored.index // 8] & np.uint8(1 << stored.index % 8) == 0
    mask = None if valid.all() else valid
    if stored.storage.is_fixed:
        numbers = heads[column_name(stored.number)]
        if form.numbers_out is not None:
            return forms.with_validity(form.numbers_out(numbers), mask)
        items = [number.tobytes() for number in numbers] if numbers.dtype.kind == "V" else numbers.tolist()
    else:
        first = starts.astype(np.int64) + shape.heap_at
        last = first + heads[f"end{stored.place}"]
        if stored.place:
            first += heads[f"end{stored.place - 1}"]
        packed = forms.pack_slices(data, first, last)
        if form.bytes_out is not None:
            return forms.with_validity(form.bytes_out(packed), mask)
        if form.stored_out is not None and (made := form.stored_out(packed, mask)) is not None:
            return made
        items = packed.to_pylist()
    assert form.values_out is not None
    convert = stored.storage.from_storage or (lambda item: item)
    return form.values_out(
        [convert(item) if known else None for item, known in zip(items, valid.tolist(), strict=True)]
    )


def _fixed_numbers(column: Column, stored: StoredColumn, valid: Numbers | None) -> Numbers:
    form = column_form(stored.oid)
    if form.numbers_in is not None:
        numbers = form.numbers_in(column)
        if valid is None:
            return numbers
        cleared = np.zeros(len(numbers), numbers.dtype)
        cleared[valid] = numbers[valid]
        return cleared
    code = stored.storage.struct_code
    assert form.values_in is not None and code is not None
    convert = stored.storage.to_storage or (lambda value: value)
    empty: object = bytes(16) if code == "16s" else 0
    items: list[Any] = [empty if value is None else convert(value) for value in form.values_in(column)]
    dtype = forms.stored_dtype(code)
    return np.frombuffer(b"".join(items), dtype) if code == "16s" else np.array(items, dtype)


def _heap_bytes(column: Column, stored: StoredColumn) -> Column:
    form = column_form(stored.oid)
    if form.bytes_in is not None:
        return form.bytes_in(column)
    assert form.values_in is not None
    convert = stored.storage.to_storage or (lambda value: value)
    values = form.values_in(column)
    return pa.array([None if value is None else convert(value) for value in values], pa.binary())
