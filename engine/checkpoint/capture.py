"""The whole content of a tablespace as of one LSN, for a read in a thread of its own while writers continue.

The content is in memtables and committed runs up to the LSN, newest first, and below them in LMDB, which is read by a
read transaction of its own.

`Capture.take` costs the engine's thread one copy of the active memtable's dictionary (pointers only). Frozen memtables
and runs never change. `resolve`, in the thread, finds the version of each key that is visible at the LSN, and sorts the
keys. Until then a snapshot keeps those versions. Then `release` closes the snapshot, so that the tablespace does not
keep the history of a whole checkpoint. The captured layers remain, and an open LMDB transaction, which keeps changed
pages from being reused.

LMDB may be newer than its flushed LSN, by parts of a large bulk run that is being flushed, and may already contain the
content of captured layers. Both are harmless: only durable layers are flushed, so LMDB is never ahead of the LSN, and
layers are read first.

`batches` merges the levels in key order (engine/storage/merging.py). A storage id with a base has its own levels, and
below them those of its base. Values that are saved for it are not visible on their own.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from catalog.errors import SqlError
from catalog.rows import BASES
from engine.storage.branch_storage import bound_in, keeps, known_values, leans, moved_keys
from engine.storage.columns import Column, Numbers, binary_array
from engine.storage.keys import PREFIX_BYTES, prefix_range, storage_prefix, successor
from engine.storage.leaves import Leaves
from engine.storage.memtable import Version
from engine.storage.merging import Pair, join_pairs, merge_batches, place_of
from engine.storage.runs import BulkLayer, BulkRun

if TYPE_CHECKING:
    from engine.storage.memtable import Memtable
    from engine.storage.tablespace import Tablespace
    from engine.storage.views import Generation, Layer, Snapshot

BATCH_ROWS = 65_536
BATCH_BYTES = 16 << 20
SLICE_VERSIONS = 2048  # of a memtable
SLICE_ROWS = 256  # read from LMDB in one loop of C, which does not release the interpreter lock
SLICE_BYTES = 1 << 20

Pause = Callable[[], None]
"""Called between slices of work, to rest (engine.priority.Pace)."""


def _go_on() -> None:
    return


class _Edits:
    """One storage id's keys in a memtable, sorted, with the LSNs of their versions."""

    __slots__ = ("keys", "lsns", "values")

    def __init__(self, keys: Column, values: Column, lsns: Numbers) -> None:
        self.keys = keys
        self.values = values
        self.lsns = lsns

    def batches(self, low: bytes, high: bytes) -> Iterator[Pair]:
        start, stop = place_of(self.keys, low), place_of(self.keys, high)
        for first in range(start, stop, BATCH_ROWS):
            count = min(BATCH_ROWS, stop - first)
            yield self.keys.slice(first, count), self.values.slice(first, count)

    def has_changed(self, low: bytes, high: bytes, after: int) -> bool:
        return bool((self.lsns[place_of(self.keys, low) : place_of(self.keys, high)] > after).any())


class _Run:
    """A bulk run of the commit at an LSN."""

    __slots__ = ("lsn", "run")

    def __init__(self, run: BulkRun, lsn: int) -> None:
        self.run = run
        self.lsn = lsn

    def batches(self, low: bytes, high: bytes) -> Iterator[Pair]:
        for part in self.run.between(low, high):
            yield part.column(0), part.column(1)

    def has_changed(self, low: bytes, high: bytes, after: int) -> bool:
        return self.lsn > after and next(self.run.between(low, high), None) is not None

    def storage_ids(self) -> Iterator[int]:
        low = self.run.first_key
        while low is not None:
            part = next(self.run.between(low, b"\xff" * 5), None)
            if part is None:
                return
            prefix = part.column(0)[0].as_py()[:PREFIX_BYTES]
            yield int.from_bytes(prefix, "big")
            low = successor(prefix)


_Level = _Edits | _Run


class Capture:
    """A captured state. `take` and `release` run on the engine's thread, everything else in one other thread."""

    def __init__(
        self,
        snapshot: Snapshot,
        tablespace: bytes,
        layers: Sequence[tuple[Layer, dict[bytes, Version]]],
        generation: Generation,
        leaves: Leaves | None,
        dropped: frozenset[int],
    ) -> None:
        self.lsn = snapshot.lsn
        self.tablespace = tablespace
        self.known_since = min([generation.flushed_lsn, *(layer.first_lsn - 1 for layer, _ in layers)])
        """Every change after this LSN is in the captured layers."""
        self.dropped = dropped
        self._snapshot = snapshot
        self._layers = layers
        self._generation: Generation | None = generation
        self._leaves = leaves
        self._levels: dict[int, list[_Level]] = {}
        self._bases = dict(generation.bases)

    @classmethod
    def take(cls, store: Tablespace, lsn: int | None = None) -> Capture:
        """Captures the present durable state, or the state at an LSN that is still kept (72000 if it is not)."""
        if lsn is not None and lsn < store.flushing_lsn:
            raise SqlError("72000", f"snapshot too old: LMDB may hold changes after LSN {lsn} already")
        snapshot = store.snapshot(lsn)
        layers, generation = store.newest_layers()
        leaves = store.leaves_of(generation)
        active, *frozen = layers
        versions = [_versions(layer) for layer in frozen]
        dropped = {storage_id for layer in layers for storage_id in layer.dropped_upto(snapshot.lsn)}
        dropped.update(store.drops_in(generation))
        return cls(
            snapshot,
            store.tablespace_id,
            list(zip(layers, (dict(_versions(active)), *versions), strict=True)),
            generation,
            leaves,
            frozenset(dropped),
        )

    def resolve(self, pause: Pause = _go_on) -> None:
        """Finds the content of the layers at the LSN. Afterwards `release` may be called."""
        for layer, versions in self._layers:
            if layer.first_lsn > self.lsn:
                continue
            for storage_id, edits in _edits_of(versions, self.lsn, pause):
                self._levels.setdefault(storage_id, []).append(edits)
            if isinstance(layer, BulkLayer):
                for run in reversed(layer.runs):
                    level = _Run(run, layer.last_lsn)
                    for storage_id in level.storage_ids():
                        self._levels.setdefault(storage_id, []).append(level)
        self._layers = ()

    def release(self) -> None:
        """Lets the tablespace drop old versions again. A second call does nothing."""
        self._snapshot.close()

    def close(self) -> None:
        """Closes LMDB's transaction and the layers."""
        self.release()
        leaves, self._leaves = self._leaves, None
        if leaves is not None:
            leaves.close()
        generation, self._generation = self._generation, None
        if generation is not None:
            generation.end()
        self._levels = {}
        self._layers = ()

    # --- reading -------------------------------------------------------------------------------------------------

    def storage_ids(self) -> list[int]:
        """All storage ids that may have keys, in order, without those of dropped tables."""
        found = set(self._levels)
        cursor: Any = self._transaction.cursor()
        more = cursor.first()
        while more:
            prefix = cursor.key()[:PREFIX_BYTES]
            found.add(int.from_bytes(prefix, "big"))
            more = cursor.set_range(successor(prefix))
        found.update(int.from_bytes(key[PREFIX_BYTES:], "big") for key, _ in self.pairs(BASES))
        return sorted(storage_id for storage_id in found - self.dropped if not keeps(storage_id))

    def has_changed(self, storage_id: int, low: bytes, high: bytes, after: int) -> bool:
        """Whether a key in [low, high) was written after an LSN, which is at least `known_since`."""
        return any(level.has_changed(low, high, after) for level in self._levels.get(storage_id, ()))

    def batches(self, storage_id: int, low: bytes = b"", high: bytes = b"", pause: Pause = _go_on) -> Iterator[Pair]:
        """(keys, values) as binary arrays without NULLs, in key order. `low` and `high` (exclusive; b'' for no bound)
        are whole keys. Batches have up to BATCH_ROWS rows and about BATCH_BYTES bytes of one level, and more when
        merged.
        """
        prefix = storage_prefix(storage_id)
        first, end = prefix_range(prefix)
        first, end = low or first, high or end
        levels = self._levels.get(storage_id, ())
        sources: list[Iterator[Pair]] = [level.batches(first, end) for level in levels]
        stored = self._read_stored(first, end, pause)
        if leans(storage_id):
            stored = ((keys, known_values(values)) for keys, values in stored)
        sources.append(stored)
        base = self._bases.get(prefix)
        if base is not None:
            below = self.batches(
                int.from_bytes(base, "big"), base + first[PREFIX_BYTES:], bound_in(base, prefix, end), pause
            )
            sources.append((moved_keys(keys, prefix), values) for keys, values in below)
        return merge_batches(sources)

    def pairs(self, storage_id: int) -> Iterator[tuple[bytes, bytes]]:
        """Keys and values one by one, for small amounts."""
        for keys, values in self.batches(storage_id):
            yield from zip(keys.to_pylist(), values.to_pylist(), strict=True)

    @property
    def _transaction(self) -> Any:
        assert self._generation is not None, "the capture is closed"
        return self._generation.transaction

    def _read_stored(self, low: bytes, high: bytes, pause: Pause) -> Iterator[Pair]:
        """The content of LMDB in a range: page by page, and by a cursor where that is not possible."""
        if self._leaves is None:
            yield from self._by_cursor(low, high, pause)
            return
        for part in self._leaves.batches(low, high):
            if isinstance(part[0], bytes):
                yield from self._by_cursor(part[0], part[1], pause)
            else:
                yield part
            pause()

    def _by_cursor(self, low: bytes, high: bytes, pause: Pause) -> Iterator[Pair]:
        cursor: Any = self._transaction.cursor()
        if not cursor.set_range(low):
            return
        items = cursor.iternext()
        parts: list[Pair] = []
        rows = size = 0
        count = 16
        while part := list(islice(items, count)):
            last = part[-1][0] >= high
            if last:
                part = part[: bisect_left(part, high, key=_key)]
                if not part:
                    break
            keys, values = zip(*part, strict=True)
            pair = binary_array(keys), binary_array(values)
            parts.append(pair)
            rows += len(part)
            more = pair[1].nbytes
            size += more
            count = max(1, min(SLICE_ROWS, 2 * count, SLICE_BYTES * len(part) // (more + 1)))
            if rows >= BATCH_ROWS - count or size >= BATCH_BYTES:
                yield join_pairs(parts)
                parts, rows, size = [], 0, 0
            pause()
            if last:
                break
        if parts:
            yield join_pairs(parts)


def _edits_of(versions: dict[bytes, Version], lsn: int, pause: Pause) -> Iterator[tuple[int, _Edits]]:
    """The versions in a memtable that are visible at an LSN, by storage id. They are collected in slices, so that none
    holds the interpreter lock for long or leaves many objects to the garbage collector."""
    parts: list[tuple[Column, Column, Column]] = []
    items = iter(versions.items())
    while some := list(islice(items, SLICE_VERSIONS)):
        found: list[tuple[bytes, bytes | None, int]] = []
        for key, newest in some:
            version: Version | None = newest
            while version is not None and version[0] > lsn:
                version = version[2]
            if version is not None:
                found.append((key, version[1], version[0]))
        if found:
            names, values, lsns = zip(*found, strict=True)
            parts.append((binary_array(names), pa.array(values, pa.binary()), pa.array(lsns, pa.int64())))
        pause()
    if not parts:
        return
    keys, kept, written = map(pa.concat_arrays, zip(*parts, strict=True))
    order = pc.array_sort_indices(keys)
    keys, kept, written = keys.take(order), kept.take(order), written.take(order).to_numpy()
    start = 0
    while start < len(keys):
        pause()
        prefix = keys[start].as_py()[:PREFIX_BYTES]
        stop = place_of(keys, successor(prefix))
        yield int.from_bytes(prefix, "big"), _Edits(*(column[start:stop] for column in (keys, kept, written)))
        start = stop


def _versions(layer: Layer) -> dict[bytes, Version]:
    found: Memtable | BulkLayer = layer  # type: ignore[assignment]
    return found.versions


def _key(item: tuple[bytes, bytes]) -> bytes:
    return item[0]
