"""Committed versions in memory, each tagged with its LSN.

    versions:  key -> [lsn, value | None, older version | None, left] -> [lsn, value, None, left]

The newest version of a key is at the head of its chain; None as value is a deletion. A reader at LSN L takes the first
version of the chain with lsn <= L, and looks in older layers when there is none. Versions that no reader can want any
more (older than the newest one at or below the horizon) are cut off when their key is written again, so that a row
which is updated all the time does not fill the memory. A chain of which much is still wanted is not walked at every
write: `left` counts down the writes until it is worth the walk.

Written keys are first kept in unsorted lists. The first scan that needs the keys of a storage id sorts its list into
its SortedList, so that point reads and writes have no cost for the order.

Only the engine's thread touches a memtable, until it is frozen; then it never changes.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from sortedcontainers import SortedList

from engine.storage.columns import Column, one_array

Version = list[Any]
"""[lsn: int, value: bytes | None, older: Version | None, left: int]; those of bulk runs lack the last."""

VERSION_BYTES = 160  # of CPython for a version, in addition to key and value: list, dict slot, two bytes objects
ENTRY_BYTES = 120
SCAN_CHUNK = 256
SLICE = 4096
_BINARY = pa.large_binary()  # keys and values of a layer may exceed 2 GB
SIZE_SAMPLE = 64
COUNT_SAMPLE = 4096
KEYS_SAMPLED = 1024


class Memtable:
    """The versions of a range of LSNs. `first_lsn` is the first that may be in it; `size` estimates its bytes."""

    __slots__ = (
        "_dropped",
        "_entries",
        "_fresh",
        "_ordered",
        "_range",
        "_unordered",
        "find",
        "first_lsn",
        "last_lsn",
        "size",
        "versions",
    )

    def __init__(self, first_lsn: int) -> None:
        self.first_lsn = first_lsn
        self.last_lsn = first_lsn - 1
        self.size = 0
        self.versions: dict[bytes, Version] = {}
        self.find: Callable[[bytes], Version | None] = self.versions.get
        """The newest version of a key."""
        self._range: tuple[bytes, bytes] | None = None  # the lowest and the highest key, after `newest` has found them
        self._dropped: list[tuple[int, int]] = []  # (LSN, storage id)
        self._entries: list[tuple[int, tuple[bytes, ...]]] = []
        self._fresh: list[bytes] = []
        self._unordered: dict[bytes, list[bytes]] = {}
        self._ordered: dict[bytes, Any] = {}

    def apply(self, lsn: int, writes: dict[bytes, bytes | None], horizon: int) -> None:
        """Adds one commit's versions. No reader is or will be at an LSN below `horizon`."""
        versions, find, fresh = self.versions, self.find, self._fresh
        size = ENTRY_BYTES
        for key, value in writes.items():
            old = find(key)
            left = 0
            if old is None:
                fresh.append(key)
                size += len(key) + VERSION_BYTES
            else:
                size += VERSION_BYTES
                if old[2] is not None:
                    if old[3]:
                        left = old[3] - 1
                    else:
                        left, cut = _cut(old, horizon)
                        size -= cut
            if value is not None:
                size += len(value)
            versions[key] = [lsn, value, old, left]
        self.size += size
        self._entries.append((lsn, tuple(writes)))
        self.last_lsn = lsn

    @property
    def drops(self) -> list[int]:
        """Storage ids whose ranges are deleted after the flush of this memtable."""
        return [storage_id for _, storage_id in self._dropped]

    def dropped_upto(self, lsn: int) -> list[int]:
        """The storage ids of `drops` up to this LSN."""
        return [storage_id for at, storage_id in self._dropped if at <= lsn]

    def drop(self, lsn: int, storage_ids: list[int]) -> None:
        """Adds storage ids that the commit at this LSN drops."""
        self._dropped.extend((lsn, storage_id) for storage_id in storage_ids)

    def up_to(self, lsn: int) -> Memtable:
        """A memtable with the commits up to this LSN, which is not below the horizon of any `apply`."""
        kept = Memtable(self.first_lsn)
        kept._entries = self._entries[: bisect_right(self._entries, lsn, key=_entry_lsn)]
        kept._dropped = [drop for drop in self._dropped if drop[0] <= lsn]
        kept.size = ENTRY_BYTES * len(kept._entries)
        if kept._entries:
            kept.last_lsn = kept._entries[-1][0]
        for key, newest in self.versions.items():
            version: Version | None = newest
            while version is not None and version[0] > lsn:
                version = version[2]
            if version is not None:
                kept.versions[key] = version
                kept._fresh.append(key)
                kept.size += len(key) + VERSION_BYTES + len(version[1] or b"")
        return kept

    def get(self, key: bytes, lsn: int) -> Version | None:
        """The version that a reader at this LSN sees, None if the memtable has none."""
        version = self.find(key)
        while version is not None and version[0] > lsn:
            version = version[2]
        return version

    def scan(self, low: bytes, high: bytes, lsn: int, reverse: bool = False) -> Iterator[tuple[bytes, bytes | None]]:
        """Keys in [low, high), within one storage id, as a reader at this LSN sees them; deletions as None.

        Valid while others write: it continues from the last key in chunks.
        """
        find = self.find
        while True:
            ordered = self._in_order(low[:4])
            if not ordered:
                return
            keys = list(islice(ordered.irange(low, high, inclusive=(True, False), reverse=reverse), SCAN_CHUNK))
            for key in keys:
                version = find(key)
                while version is not None and version[0] > lsn:
                    version = version[2]
                if version is not None:
                    yield key, version[1]
            if len(keys) < SCAN_CHUNK:
                return
            if reverse:
                high = keys[-1]
            else:
                low = keys[-1] + b"\0"

    def commits(self, after: int, upto: int) -> Iterator[tuple[int, Sequence[bytes]]]:
        """(lsn, keys) of every commit with after < lsn <= upto, in LSN order."""
        entries = self._entries
        start = bisect_right(entries, after, key=_entry_lsn)
        stop = bisect_right(entries, upto, key=_entry_lsn)
        return iter(entries[start:stop])

    def changes(self, prefix: bytes, after: int, upto: int) -> Iterator[tuple[int, bytes]]:
        """(lsn, key) of every write to a storage id with after < lsn <= upto, in LSN order."""
        for lsn, keys in self.commits(after, upto):
            for key in keys:
                if key.startswith(prefix):
                    yield lsn, key

    def knows_any(self, keys: Sequence[bytes], first: bytes, last: bytes) -> bool:
        known = self._range
        if known is not None and (last < known[0] or known[1] < first):
            return False
        return any(map(self.find, keys))

    @property
    def keys(self) -> int:
        return len(self.versions)

    def newest(self) -> Iterator[tuple[Column, Column]]:
        """The newest version of every key in key order (engine.storage.views.Layer). For a frozen memtable.

        Arrow sorts, and releases the interpreter meanwhile: the flush must not make clients wait.
        """
        keys = _column(list(self.versions))
        values = _column([version[1] for version in self.versions.values()])
        order = pc.array_sort_indices(keys)
        if len(order):
            self._range = keys[order[0].as_py()].as_py(), keys[order[-1].as_py()].as_py()
        for start in range(0, len(keys), SLICE):
            places = order.slice(start, SLICE)
            yield keys.take(places), values.take(places)

    def has(self, prefix: bytes) -> bool:
        """Whether a storage id has versions here: a scan of one without versions reads only LMDB."""
        self._sort_out()
        return prefix in self._unordered or prefix in self._ordered

    def size_of(self, prefix: bytes) -> int:
        """An estimate of the bytes of a storage id's keys and newest values, from a sample."""
        self._sort_out()
        size = 0
        for keys in (self._unordered.get(prefix), self._ordered.get(prefix)):
            if keys:
                some = keys[:: -(-len(keys) // SIZE_SAMPLE)]
                values = [(key, self.versions[key][1]) for key in some]
                taken = sum(len(key) + len(value) for key, value in values if value is not None)
                size += taken * len(keys) // len(some)
        return size

    def rows_added(self, prefix: bytes, below: Callable[[bytes], bytes | None]) -> int:
        """An estimate of the number of keys that this memtable adds to a storage id, from COUNT_SAMPLE keys or all;
        `below` reads the layers under it."""
        self._sort_out()
        added = 0
        for keys in (self._unordered.get(prefix), self._ordered.get(prefix)):
            if keys:
                some = keys[:: -(-len(keys) // COUNT_SAMPLE)]
                more = sum((self.versions[key][1] is not None) - (below(key) is not None) for key in some)
                added += more * len(keys) // len(some)
        return added

    def sample(self, prefix: bytes) -> list[tuple[bytes, float]]:
        """An even sample of the keys of a storage id, with the number of keys that each represents."""
        self._sort_out()
        found: list[tuple[bytes, float]] = []
        for keys in (self._unordered.get(prefix), self._ordered.get(prefix)):
            if keys:
                step = -(-len(keys) // KEYS_SAMPLED)
                found.extend((key, step) for key in keys[::step])
        return found

    def _sort_out(self) -> None:
        if self._fresh:
            unordered = self._unordered
            for key in self._fresh:
                prefix = key[:4]
                if (keys := unordered.get(prefix)) is None:
                    unordered[prefix] = [key]
                else:
                    keys.append(key)
            self._fresh.clear()

    def _in_order(self, prefix: bytes) -> Any:
        self._sort_out()
        ordered = self._ordered.get(prefix)
        if keys := self._unordered.pop(prefix, None):
            if ordered is None:
                ordered = self._ordered[prefix] = SortedList(keys)
            else:
                ordered.update(keys)
        return ordered


def _column(values: Sequence[bytes | None]) -> Column:
    """One Arrow array, made in slices, so that other threads get the interpreter in between."""
    starts = range(0, len(values), SLICE)
    return one_array(pa.chunked_array([pa.array(values[at : at + SLICE], _BINARY) for at in starts], _BINARY))


def _entry_lsn(entry: tuple[int, tuple[bytes, ...]]) -> int:
    return entry[0]


def _cut(newest: Version, horizon: int) -> tuple[int, int]:
    """Removes versions that no reader from the horizon on sees. Returns the number of writes until the next check, and
    the bytes removed."""
    version, kept = newest, 0
    while version[0] > horizon and version[2] is not None:
        version = version[2]
        kept += 1
    cut, version[2] = version[2], None
    size = 0
    while cut is not None:
        size += VERSION_BYTES + len(cut[1] or b"")
        cut = cut[2]
    return kept, size
