"""Finds the row of an encoded storage key in a table of the worker.

The worker deletes a changed row and inserts the new version, so it has to find the old row. If all key columns have
keys of fixed width (integers, OIDs, booleans, dates, times, timestamps, uuid), or the key is the hidden row number, the
key bytes are decoded into these columns, and a join on them finds the rows. Other keys (text, numeric, floats) cannot
be decoded in general: equal values may differ in form, and the tail of a long key is a hash. Such a table has an
additional column `k` with the encoded key, at the cost of its memory.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from catalog.schema import Table
from catalog.types import Layout, columns_of, oids
from engine.storage.columns import column_form
from engine.storage.keys import MAX_KEY_BYTES, PREFIX_BYTES, numbers_of_offsets

ROW_NUMBER = "r"
ENCODED = "k"

Decoder = Callable[[npt.NDArray[np.uint8]], pa.Array]


def _numbers(oid: int, key: tuple[str, int]) -> tuple[int, Decoder]:
    code, bias = key
    width = struct.calcsize(f"<{code}")
    make = column_form(oid).numbers_out
    assert make is not None

    def decode(raw: npt.NDArray[np.uint8]) -> pa.Array:
        unsigned = np.ascontiguousarray(raw).view(f">u{width}").reshape(-1).astype(f"<u{width}")
        return make((unsigned ^ np.array(bias, dtype=f"<u{width}")).view(f"<{'i' if bias else 'u'}{width}"))

    return width, decode


def _bool(raw: npt.NDArray[np.uint8]) -> pa.Array:
    return pa.array(raw.reshape(-1) != 0)


def _bytes16(raw: npt.NDArray[np.uint8]) -> pa.Array:
    return pa.array([row.tobytes() for row in raw], type=pa.binary())


_OF_LAYOUT: dict[Layout, tuple[int, Decoder]] = {Layout.BOOLEANS: (1, _bool), Layout.FIXED_BYTES: (16, _bytes16)}


def _fixed_decoder(oid: int) -> tuple[int, Decoder] | None:
    """Returns the width of a type's keys in bytes, and their decoder; None if they cannot be decoded."""
    columns = columns_of(oid)
    return _OF_LAYOUT.get(columns.layout) if columns.key is None else _numbers(oid, columns.key)


def _without_prefix(keys: Any) -> Any:
    """Returns the keys (a binary array) without the storage id. `pyarrow.compute.binary_slice` is not used, because
    without `stop` it writes outside of its buffer (seen in Arrow 26)."""
    count = len(keys)
    if count == 0:
        return keys
    offsets = numbers_of_offsets(keys)
    # Slots alternate: a key without its storage id, then the storage id of the next key.
    bounds = np.empty(2 * count, dtype=np.int32)
    bounds[0::2] = offsets[:-1] + PREFIX_BYTES
    bounds[1::2] = offsets[1:]
    slots = pa.Array.from_buffers(pa.binary(), 2 * count - 1, [None, pa.py_buffer(bounds), keys.buffers()[2]])
    return slots.take(pa.array(np.arange(0, 2 * count, 2, dtype=np.int32)))


class KeyPlan:
    """The columns of the DuckDB table that identify a row (`columns`). Decodes keys to these columns."""

    def __init__(self, table: Table) -> None:
        self._parts: list[tuple[int, Decoder]] = []
        if not table.key_columns:
            self.columns: tuple[str, ...] = (ROW_NUMBER,)
            self._parts = list(filter(None, (_fixed_decoder(oids.INT8),)))
            return
        key_types = [table.column_by_number(number).type.oid for number in table.key_columns]
        parts = list(filter(None, map(_fixed_decoder, key_types)))
        if len(parts) == len(key_types) and PREFIX_BYTES + sum(width for width, _ in parts) < MAX_KEY_BYTES:
            self.columns = tuple(f"c{number}" for number in table.key_columns)
            self._parts = parts
        else:
            self.columns = (ENCODED,)

    @property
    def is_encoded(self) -> bool:
        """Whether rows are found by the encoded key in column `k`."""
        return self.columns == (ENCODED,)

    def decode(self, keys: Any) -> pa.Table:
        """Returns the key columns of encoded keys (a binary array; with storage ids)."""
        if self.is_encoded:
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
