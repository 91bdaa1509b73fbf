"""Merges sorted batches of keys and values of several levels, in whole columns.

The current batch of each level is cut at the smallest of their last keys, and the rows below it are sorted together.
Ranges that only one level has, which is nearly all of them, are passed on unchanged.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from engine.storage.columns import Column, Numbers, one_array

Pair = tuple[Column, Column]
_NOTHING: Pair = (pa.nulls(0, pa.binary()), pa.nulls(0, pa.binary()))  # pa.array would import pandas, if it is there


class Keys:
    """A binary array as a sequence of bytes, for bisect."""

    def __init__(self, column: Column) -> None:
        self._column = column

    def __len__(self) -> int:
        return len(self._column)

    def __getitem__(self, index: int) -> bytes:
        found: bytes = self._column[index].as_py()
        return found


def place_of(keys: Column, key: bytes, after: bool = False) -> int:
    """How many of the sorted keys are below `key` (`after`: or equal to it)."""
    return (bisect_right if after else bisect_left)(Keys(keys), key)


def join_pairs(parts: list[Pair]) -> Pair:
    keys, values = zip(*parts, strict=True)
    return pa.concat_arrays(keys), pa.concat_arrays(values)


class _Source:
    """An iterator of sorted batches, with the current batch."""

    def __init__(self, batches: Iterator[Pair]) -> None:
        self._batches = batches
        self._keys: Column = None
        self._values: Column = None
        self.last = b""

    def ready(self) -> bool:
        """Whether there is a current batch; fetches the next one if necessary."""
        while self._keys is None or not len(self._keys):
            batch = next(self._batches, None)
            if batch is None:
                return False
            self._keys, self._values = batch
            if len(self._keys):
                self.last = self._keys[len(self._keys) - 1].as_py()
        return True

    def take(self, bound: bytes) -> Pair:
        """Takes its rows up to and including a key."""
        keys, values = self._keys, self._values
        if bound >= self.last:
            self._keys = None
            return keys, values
        count = place_of(keys, bound, after=True)
        self._keys, self._values = keys.slice(count), values.slice(count)
        return keys.slice(0, count), values.slice(0, count)


def side_by_side(first: Iterator[Pair], second: Iterator[Pair]) -> Iterator[tuple[Pair, Pair]]:
    """The rows of two levels in the same ranges of keys, range by range; one of the two may be empty."""
    both = _Source(first), _Source(second)
    while ready := [source for source in both if source.ready()]:
        bound = min(source.last for source in ready)
        one, other = (source.take(bound) if source in ready else _NOTHING for source in both)
        yield one, other


def merge_batches(batches: Iterable[Iterator[Pair]]) -> Iterator[Pair]:
    """Merges sorted batches; for a key in several sources the first one's value wins, and NULL removes it."""
    sources = [source for source in map(_Source, batches) if source.ready()]
    while sources:
        bound = min(source.last for source in sources)
        parts = [part for part in (source.take(bound) for source in sources) if len(part[0])]
        keys, values = parts[0] if len(parts) == 1 else _newest(parts)
        if values.null_count:
            valid = values.is_valid()
            keys, values = keys.filter(valid), values.filter(valid)
        if len(keys):
            yield one_array(keys), one_array(values)
        sources = [source for source in sources if source.ready()]


def _newest(parts: list[Pair]) -> Pair:
    """All keys in order, without duplicates, with the value of the first part that has it."""
    keys, values = join_pairs(parts)
    order = pc.array_sort_indices(keys)  # a stable sort: of equal keys the first part's comes first
    ordered = keys.take(order)
    first: Numbers = np.ones(len(ordered), np.bool_)
    first[1:] = pc.not_equal(ordered.slice(1), ordered.slice(0, len(ordered) - 1)).to_numpy(zero_copy_only=False)
    mask = pa.array(first)
    return ordered.filter(mask), values.take(order.filter(mask))
