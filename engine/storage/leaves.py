"""A range of keys of LMDB as columns, hundreds of leaf pages at a time: for readers of whole tables.

A cursor returns rows one by one, and holds the interpreter meanwhile: half a second for a million rows. The leaf pages
(engine/storage/pages.py has their form) are read directly from the file. NumPy finds all keys and values in them at
once, and Arrow copies them, without the interpreter.

Only a read transaction's own pages may be read, from its own root. The file has this root for two commits, so it is
looked up when the transaction begins (`Leaves.of`). If that is too late, and for values in separate pages, a cursor is
used.
"""

from __future__ import annotations

import os
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa

from engine.storage.columns import Column, Numbers
from engine.storage.pages import BIG, HEAD, Page, root_as_of

LEAVES = 1024  # pages that are read at once
NODE = 8  # bytes of a node before its key


class Leaves:
    """The tree of a read transaction, which must stay open while it is read. `close` closes the file."""

    def __init__(self, file: int, page_bytes: int, root: int) -> None:
        self._file = file
        self._page_bytes = page_bytes
        self._root = root

    @classmethod
    def of(cls, environment: Any, name: bytes, transaction: Any) -> Leaves | None:
        """The tree of a database as of a read transaction that has just begun; None if its root is unknown, or it is
        empty."""
        page_bytes = int(environment.stat()["psize"])
        file = os.open(os.path.join(environment.path(), "data.mdb"), os.O_RDONLY | os.O_CLOEXEC)
        root = root_as_of(file, page_bytes, name, transaction.id())
        if root is None:
            os.close(file)
            return None
        return cls(file, page_bytes, root)

    def close(self) -> None:
        os.close(self._file)

    def batches(self, low: bytes, high: bytes) -> Iterator[tuple[Column, Column] | tuple[bytes, bytes]]:
        """Keys in [low, high) with their values, as binary arrays, in key order; or the bounds of a part of the range
        that a cursor must read, because of values in separate pages."""
        numbers: list[int] = []
        bound = low
        for some, first in self._leaves(self._root, low, high):
            if len(numbers) + len(some) > LEAVES and numbers:
                yield from self._read(numbers, bound, first)
                numbers, bound = [], first
            numbers += some
        if numbers:
            yield from self._read(numbers, bound, high)

    def _leaves(self, number: int, low: bytes, high: bytes) -> Iterator[tuple[list[int], bytes]]:
        """The leaves that may have keys of the range, in order: those below one page at a time, with an upper bound of
        their keys in the range."""
        page = self._page(number)
        if page.leaf:
            yield [number], low
            return
        places = range(bisect_right(page, low) - 1, bisect_left(page, high))
        if not places:
            return
        if self._page(page.child(places[0])).leaf:
            yield list(map(page.child, places)), max(page[places[0]], low)
            return
        for place in places:
            yield from self._leaves(page.child(place), max(page[place], low), high)

    def _page(self, number: int) -> Page:
        return Page(os.pread(self._file, self._page_bytes, number * self._page_bytes))

    def _read(
        self, numbers: list[int], low: bytes, high: bytes
    ) -> Iterator[tuple[Column, Column] | tuple[bytes, bytes]]:
        data = np.frombuffer(self._bytes(numbers), np.uint8)
        halves = data.view("<u2").reshape(len(numbers), -1)
        counts = (halves[:, 6].astype(np.int64) - HEAD) // 2
        pages = np.repeat(np.arange(len(numbers)), counts)
        within = np.arange(len(pages)) - np.repeat(np.cumsum(counts) - counts, counts)
        nodes = halves[pages, HEAD // 2 + within].astype(np.int64) + pages * self._page_bytes
        if not len(nodes):
            return
        flat = halves.reshape(-1)
        at = nodes // 2
        if (flat[at + 2] & BIG).any():
            yield low, high
            return
        keys_from = nodes + NODE
        keys_to = keys_from + flat[at + 3]
        values_to = keys_to + flat[at] + (flat[at + 1].astype(np.int64) << 16)
        order = np.argsort(nodes)  # the nodes of a page are in any order
        keys = _pack(data, keys_from, keys_to, order)
        start, stop = bisect_left(_Keys(keys), low), bisect_left(_Keys(keys), high)
        if start < stop:
            yield keys.slice(start, stop - start), _pack(data, keys_to, values_to, order).slice(start, stop - start)

    def _bytes(self, numbers: list[int]) -> bytearray:
        """The pages one after the other; neighbours in the file are read together."""
        size = self._page_bytes
        found = bytearray(size * len(numbers))
        view = memoryview(found)
        cuts = [place for place in range(1, len(numbers)) if numbers[place] != numbers[place - 1] + 1]
        for start, stop in pairwise([0, *cuts, len(numbers)]):
            part = view[start * size : stop * size]
            if os.preadv(self._file, [part], numbers[start] * size) != len(part):
                raise OSError(f"page {numbers[start]} of the tables' file cannot be read")
        return found


class _Keys:
    """A binary array as a sequence of bytes, for bisect."""

    def __init__(self, column: Column) -> None:
        self._column = column

    def __len__(self) -> int:
        return len(self._column)

    def __getitem__(self, index: int) -> bytes:
        found: bytes = self._column[index].as_py()
        return found


def _pack(data: Numbers, first: Numbers, last: Numbers, order: Numbers) -> Column:
    """data[first[i]:last[i]] as a binary array; `order` sorts the slices, which do not overlap.

    As engine.storage.columns.pack_slices, which needs sorted slices.
    """
    count = len(first)
    offsets = np.empty(2 * count, np.int32)
    offsets[0::2] = first[order]
    offsets[1::2] = last[order]
    slots = pa.Array.from_buffers(pa.binary(), 2 * count - 1, [None, pa.py_buffer(offsets), pa.py_buffer(data)])
    places = np.empty(count, np.int32)
    places[order] = np.arange(0, 2 * count, 2, dtype=np.int32)
    return slots.take(pa.array(places))
