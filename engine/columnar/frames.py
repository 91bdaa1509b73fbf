"""Frames between the engine and the columnar worker: a small JSON header and raw buffers behind it.

    u32 header bytes | u32 reserved, 0 | u64 body bytes | header (JSON object) | body (the buffers, one after the other)

The header's "buffers" holds each buffer's size, so the receiver cuts the body into memoryviews without copying. Both
ends run the same code on the same machine, so the fixed part is little-endian and carries no version. Nothing is ever
unpickled: what crosses is JSON, lengths, and bytes.

A list of (key, value) pairs crosses as four buffers: key ends (u64), the keys, value ends (u64), the values; and a fifth
with one byte a pair, 1 where the value is None (the key is gone).
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import orjson

Header: TypeAlias = dict[str, object]
Buffer: TypeAlias = bytes | bytearray | memoryview

FIXED = struct.Struct("<IIQ")
MAX_HEADER = 64 << 20
MAX_BODY = 1 << 40


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


def encode_pairs(pairs: Iterable[tuple[bytes, bytes | None]]) -> list[Buffer]:
    """(key, value) pairs as five buffers."""
    keys: list[bytes] = []
    values: list[bytes] = []
    gone = bytearray()
    for key, value in pairs:
        keys.append(key)
        values.append(b"" if value is None else value)
        gone.append(value is None)
    return [_ends(keys), b"".join(keys), _ends(values), b"".join(values), gone]


def _ends(items: list[bytes]) -> bytes:
    lengths = np.fromiter(map(len, items), dtype=np.uint64, count=len(items))
    return np.cumsum(lengths, dtype=np.uint64).tobytes()


class Pairs:
    """Received pairs: `keys` and `values` as lists of bytes; `gone[i]` says that key i has no value any more."""

    __slots__ = ("gone", "keys", "values")

    def __init__(self, buffers: Sequence[memoryview]) -> None:
        key_ends, keys, value_ends, values, gone = buffers
        self.keys = _cut(key_ends, keys)
        self.values = _cut(value_ends, values)
        self.gone: npt.NDArray[np.bool_] = np.frombuffer(gone, dtype=np.bool_)


def _cut(ends: memoryview, heap: memoryview) -> list[bytes]:
    data = bytes(heap)
    items: list[bytes] = []
    start = 0
    for end in np.frombuffer(ends, dtype=np.uint64).tolist():
        items.append(data[start:end])
        start = end
    return items
