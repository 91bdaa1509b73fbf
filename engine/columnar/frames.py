"""Frames between the engine and the columnar worker: a small JSON header and raw buffers behind it.

    u32 header bytes | u32 reserved, 0 | u64 body bytes | header (JSON object) | body (the buffers, one after the other)

The header's "buffers" is a list of the buffers' sizes, by which the receiver splits the body into memoryviews without a
copy. Both ends run the same code on the same machine, so the fixed part is little-endian without a version. A frame
consists of JSON, lengths and bytes only; it contains no pickled objects.

A list of (key, value) pairs is sent as five buffers, those of two Arrow binary arrays: n + 1 offsets (i32) and the
bytes of the keys, the same for the values, and one byte per pair, 1 if the value is None (a deleted key).
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, TypeAlias

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc

from catalog.errors import SqlError

Header: TypeAlias = dict[str, Any]
Buffer: TypeAlias = bytes | bytearray | memoryview

FIXED = struct.Struct("<IIQ")
MAX_HEADER = 64 << 20
MAX_BODY = 1 << 40
MAX_OFFSET = (1 << 31) - 1
PORTION_BYTES = 256 << 20


class FrameError(Exception):
    """Raised for bytes that are not a frame. The connection cannot be used any more."""


def encode(header: Header, buffers: Sequence[Buffer] = ()) -> list[Buffer]:
    """The pieces of a frame, to be written in this order. The buffers are not copied."""
    sizes = [memoryview(buffer).nbytes for buffer in buffers]
    text = orjson.dumps({**header, "buffers": sizes} if sizes else header)
    return [FIXED.pack(len(text), 0, sum(sizes)) + text, *buffers]


def sizes_of(fixed: Buffer) -> tuple[int, int]:
    """The sizes of header and body in bytes, from the fixed part. Raises FrameError."""
    header, reserved, body = FIXED.unpack(fixed)
    if reserved or header > MAX_HEADER or body > MAX_BODY:
        raise FrameError("malformed frame")
    return header, body


def decode(header: Buffer, body: Buffer) -> tuple[Header, list[memoryview]]:
    """Decodes the header, and returns the buffers as views of `body`."""
    decoded = orjson.loads(header)
    views: list[memoryview] = []
    view = memoryview(body)
    start = 0
    for size in decoded.pop("buffers", ()):
        views.append(view[start : start + size])
        start += size
    return decoded, views


def ipc_stream(batch: pa.RecordBatch) -> memoryview:
    """A record batch as a separate Arrow IPC stream."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return memoryview(sink.getvalue())


def encode_pairs(pairs: Iterable[tuple[bytes, bytes | None]]) -> list[Buffer]:
    """Encodes (key, value) pairs as five buffers. Raises 54000 for 2 GiB or more (see `portions`)."""
    keys: list[bytes] = []
    values: list[bytes] = []
    gone = bytearray()
    for key, value in pairs:
        keys.append(key)
        values.append(b"" if value is None else value)
        gone.append(value is None)
    return [_offsets(keys), b"".join(keys), _offsets(values), b"".join(values), gone]


def encode_columns(keys: Any, values: Any) -> list[Buffer]:
    """Encodes pairs given as two Arrow binary arrays. A NULL value is a deleted key."""
    gone = values.is_null().to_numpy(zero_copy_only=False)
    return [*_pieces(keys), *_pieces(values.fill_null(b"") if values.null_count else values), gone.tobytes()]


def _pieces(column: Any) -> tuple[Buffer, Buffer]:
    """The offsets and bytes of a binary array."""
    column = column.cast(pa.binary())
    _, offsets, heap = column.buffers()
    ends = np.frombuffer(offsets, np.int32, len(column) + 1, 4 * column.offset)
    return (ends - ends[0]).tobytes(), memoryview(heap or b"")[ends[0] : ends[-1]]


def _offsets(items: list[bytes]) -> bytes:
    ends = np.zeros(len(items) + 1, dtype=np.int64)
    np.cumsum(np.fromiter(map(len, items), dtype=np.int64, count=len(items)), out=ends[1:])
    if ends[-1] > MAX_OFFSET:
        raise SqlError("54000", "more than 2 GiB of changed rows of one table in one analytic query")
    return ends.astype(np.int32).tobytes()


def portions(pairs: Sequence[tuple[bytes, bytes | None]]) -> Iterator[Sequence[tuple[bytes, bytes | None]]]:
    """Splits the pairs into parts of about PORTION_BYTES, for receivers that accept parts."""
    start = size = 0
    for index, (key, value) in enumerate(pairs):
        size += len(key) + (0 if value is None else len(value))
        if size >= PORTION_BYTES:
            yield pairs[start : index + 1]
            start, size = index + 1, 0
    if start < len(pairs):
        yield pairs[start:]


class Pairs:
    """Pairs as Arrow binary arrays. `keys`: the keys of all pairs; `row_keys`, `rows`: the pairs with a value."""

    __slots__ = ("keys", "row_keys", "rows")

    def __init__(self, keys: Any, row_keys: Any, rows: Any) -> None:
        self.keys: Any = keys
        self.row_keys: Any = row_keys
        self.rows: Any = rows

    @classmethod
    def of(cls, keys: Any, values: Any) -> Pairs:
        """Makes Pairs from arrays of keys and values. A NULL value is a deleted key."""
        if not values.null_count:
            return cls(keys, keys, values)
        kept = values.is_valid()
        return cls(keys, keys.filter(kept), values.filter(kept))

    def without(self, keys: Any) -> Pairs:
        """The pairs without those of `keys` (a binary array)."""
        others = pc.invert(pc.is_in(self.keys, value_set=keys))
        other_rows = pc.invert(pc.is_in(self.row_keys, value_set=keys))
        return Pairs(self.keys.filter(others), self.row_keys.filter(other_rows), self.rows.filter(other_rows))

    @classmethod
    def from_buffers(cls, buffers: Sequence[memoryview]) -> Pairs:
        """Decodes the five buffers."""
        key_offsets, keys, value_offsets, values, gone = buffers
        dropped = np.frombuffer(gone, dtype=np.bool_)
        all_keys, rows = _binary(key_offsets, keys), _binary(value_offsets, values)
        if not dropped.any():
            return cls(all_keys, all_keys, rows)
        kept = pa.array(~dropped)
        return cls(all_keys, all_keys.filter(kept), rows.filter(kept))


def _binary(offsets: memoryview, heap: memoryview) -> Any:
    return pa.Array.from_buffers(
        pa.binary(), offsets.nbytes // 4 - 1, [None, pa.py_buffer(offsets), pa.py_buffer(heap)]
    )
