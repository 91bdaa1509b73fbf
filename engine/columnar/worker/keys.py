"""How the worker finds the row that an encoded storage key means.

A changed row is deleted and inserted anew, so every change needs the old row's place. Where all key columns have keys
of one fixed width (integers, OIDs, booleans, dates, times, timestamps, uuid), or the key is the hidden row number,
the key bytes are decoded back into those columns, and rows are found by joining on them. Any other key (text,
numeric, floats, several of them) cannot be turned back in general: equal values may differ in form, and the tail of a
long key is a hash. Such a table carries the encoded key itself in one more column, `k`, which costs its memory.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from catalog.schema import Table
from catalog.types import oids
from engine.storage.columns import column_form
from engine.storage.keys import MAX_KEY_BYTES, PREFIX_BYTES, numbers_of_offsets

ROW_NUMBER = "r"
ENCODED = "k"

Decoder = Callable[[npt.NDArray[np.uint8]], pa.Array]


def _signed(width: int, kind: pa.DataType) -> Decoder:
    bias = 1 << (width * 8 - 1)

    def decode(raw: npt.NDArray[np.uint8]) -> pa.Array:
        unsigned = np.ascontiguousarray(raw).view(f">u{width}").reshape(-1).astype(f"<u{width}")
        return pa.array((unsigned ^ np.array(bias, dtype=f"<u{width}")).view(f"<i{width}")).view(kind)

    return decode


def _unsigned(raw: npt.NDArray[np.uint8]) -> pa.Array:
    return pa.array(np.ascontiguousarray(raw).view(">u4").reshape(-1).astype(np.int64))


def _bool(raw: npt.NDArray[np.uint8]) -> pa.Array:
    return pa.array(raw.reshape(-1) != 0)


def _bytes16(raw: npt.NDArray[np.uint8]) -> pa.Array:
    return pa.array([row.tobytes() for row in raw], type=pa.binary())


def _stored(oid: int, width: int) -> Decoder:
    """Dates and timestamps: their number as it is stored, signed."""
    signed = _signed(width, pa.int32() if width == 4 else pa.int64())

    def decode(raw: npt.NDArray[np.uint8]) -> pa.Array:
        numbers_out = column_form(oid).numbers_out
        assert numbers_out is not None
        return numbers_out(signed(raw).to_numpy())

    return decode


_FIXED: dict[int, tuple[int, Decoder]] = {
    oids.BOOL: (1, _bool),
    oids.INT2: (2, _signed(2, pa.int16())),
    oids.INT4: (4, _signed(4, pa.int32())),
    oids.INT8: (8, _signed(8, pa.int64())),
    oids.OID: (4, _unsigned),
    oids.UUID: (16, _bytes16),
    oids.DATE: (4, _stored(oids.DATE, 4)),
    oids.TIMESTAMP: (8, _stored(oids.TIMESTAMP, 8)),
    oids.TIMESTAMPTZ: (8, _stored(oids.TIMESTAMP, 8)),
}


def _without_prefix(keys: Any) -> Any:
    """Keys (a binary array) without the storage id. Not by `pyarrow.compute.binary_slice`, which without a stop writes
    outside of its buffer (seen in Arrow 26)."""
    count = len(keys)
    if count == 0:
        return keys
    offsets = numbers_of_offsets(keys)
    # The bytes between two keys' rests are slots too; every other slot is a rest.
    bounds = np.empty(2 * count, dtype=np.int32)
    bounds[0::2] = offsets[:-1] + PREFIX_BYTES
    bounds[1::2] = offsets[1:]
    slots = pa.Array.from_buffers(pa.binary(), 2 * count - 1, [None, pa.py_buffer(bounds), keys.buffers()[2]])
    return slots.take(pa.array(np.arange(0, 2 * count, 2, dtype=np.int32)))


class KeyPlan:
    """Names the columns of the DuckDB table by which rows are found, and makes them from encoded keys."""

    def __init__(self, table: Table) -> None:
        self._parts: list[tuple[int, Decoder]] = []
        if not table.key_columns:
            self.columns: tuple[str, ...] = (ROW_NUMBER,)
            self._parts = [_FIXED[oids.INT8]]
            return
        key_types = [table.column_by_number(number).type.oid for number in table.key_columns]
        parts = [_FIXED[oid] for oid in key_types if oid in _FIXED]
        if len(parts) == len(key_types) and PREFIX_BYTES + sum(width for width, _ in parts) < MAX_KEY_BYTES:
            self.columns = tuple(f"c{number}" for number in table.key_columns)
            self._parts = parts
        else:
            self.columns = (ENCODED,)

    @property
    def encoded(self) -> bool:
        """Whether rows are found by the encoded key in column `k`."""
        return self.columns == (ENCODED,)

    def decode(self, keys: Any) -> pa.Table:
        """The key columns of encoded keys (a binary array; storage ids included)."""
        if self.encoded:
            return pa.table({ENCODED: _without_prefix(keys)})
        width = PREFIX_BYTES + sum(size for size, _ in self._parts)
        first = int(numbers_of_offsets(keys)[0]) if len(keys) else 0
        data = keys.buffers()[2]
        raw = np.frombuffer(data, np.uint8, len(keys) * width, first) if len(keys) else np.zeros(0, np.uint8)
        raw = raw.reshape(len(keys), width)
        columns: dict[str, Any] = {}
        start = PREFIX_BYTES
        for name, (size, decode) in zip(self.columns, self._parts, strict=True):
            columns[name] = decode(raw[:, start : start + size])
            start += size
        return pa.table(columns)
