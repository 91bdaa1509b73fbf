"""Frames between the engine and the columnar worker: a small JSON header and raw buffers behind it.

    u32 header bytes | u32 reserved, 0 | u64 body bytes | header (JSON object) | body (the buffers, one after the other)

The header's "buffers" holds each buffer's size, so the receiver cuts the body into memoryviews without copying. Both
ends run the same code on the same machine, so the fixed part is little-endian and carries no version. Nothing is ever
unpickled: what crosses is JSON, lengths, and bytes.

A list of (key, value) pairs crosses as five buffers, which are those of two Arrow binary arrays: n + 1 offsets (i32)
and bytes of the keys, the same of the values, and one byte a pair, 1 where the value is None (the key is gone).
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
    """The other end does not speak this protocol: the connection is of no use any more."""


def encode(header: Header, buffers: Sequence[Buffer] = ()) -> list[Buffer]:
    """The frame as pieces to be written in order (the buffers are not copied)."""
    sizes = [memoryview(buffer).nbytes for buffer in buffers]
    text = orjson.dumps({**header, "buffers": sizes} if sizes else header)
    return [FIXED.pack(len(text), 0, sum(sizes)) + text, *buffers]


def sizes_of(fixed: Buffer) -> tuple[int, int]:
    """(header bytes, body bytes) from the fixed part. Raises FrameError."""
    header, reserved, body = FIXED.unpack(fixed)
    if reserved or header > MAX_HEADER or body > MAX_BODY:
        raise FrameError("malformed frame")
    return header, body


def decode(header: Buffer, body: Buffer) -> tuple[Header, list[memoryview]]:
    """The header's object, and the buffers as views of `body`."""
    decoded = orjson.loads(header)
    views: list[memoryview] = []
    view = memoryview(body)
    start = 0
    for size in decoded.pop("buffers", ()):
        views.append(view[start : start + size])
        start += size
    return decoded, views


def ipc_stream(batch: pa.RecordBatch) -> memoryview:
    """A record batch as an Arrow IPC stream of its own."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return memoryview(sink.getvalue())


def encode_pairs(pairs: Iterable[tuple[bytes, bytes | None]]) -> list[Buffer]:
    """(key, value) pairs as five buffers. 54000 for 2 GiB or more: see `portions`."""
    keys: list[bytes] = []
    values: list[bytes] = []
    gone = bytearray()
    for key, value in pairs:
        keys.append(key)
        values.append(b"" if value is None else value)
        gone.append(value is None)
    return [_offsets(keys), b"".join(keys), _offsets(values), b"".join(values), gone]


def encode_columns(keys: Any, values: Any) -> list[Buffer]:
    """The same of two Arrow binary arrays, without looking at single pairs; NULL is a key that is gone."""
    gone = values.is_null().to_numpy(zero_copy_only=False)
    return [*_pieces(keys), *_pieces(values.fill_null(b"") if values.null_count else values), gone.tobytes()]


def _pieces(column: Any) -> tuple[Buffer, Buffer]:
    """Offsets and bytes of a binary array."""
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
    """The pairs in parts of about PORTION_BYTES, for what can be handed over in parts."""
    start = size = 0
    for index, (key, value) in enumerate(pairs):
        size += len(key) + (0 if value is None else len(value))
        if size >= PORTION_BYTES:
            yield pairs[start : index + 1]
            start, size = index + 1, 0
    if start < len(pairs):
        yield pairs[start:]


class Pairs:
    """Pairs as Arrow binary arrays: `keys` are all of them; `row_keys` and `rows` those with a value."""

    __slots__ = ("keys", "row_keys", "rows")

    def __init__(self, keys: Any, row_keys: Any, rows: Any) -> None:
        self.keys: Any = keys
        self.row_keys: Any = row_keys
        self.rows: Any = rows

    @classmethod
    def of(cls, keys: Any, values: Any) -> Pairs:
        """Pairs whose value is NULL where the key is gone."""
        if not values.null_count:
            return cls(keys, keys, values)
        kept = values.is_valid()
        return cls(keys, keys.filter(kept), values.filter(kept))

    def without(self, keys: Any) -> Pairs:
        """The pairs but those of these keys (a binary array)."""
        others = pc.invert(pc.is_in(self.keys, value_set=keys))
        other_rows = pc.invert(pc.is_in(self.row_keys, value_set=keys))
        return Pairs(self.keys.filter(others), self.row_keys.filter(other_rows), self.rows.filter(other_rows))

    @classmethod
    def from_buffers(cls, buffers: Sequence[memoryview]) -> Pairs:
        """The pairs of five buffers."""
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
