"""The newest state of a storage id, for work on whole tables in a separate thread.

Bulk loads look for existing keys, and schema changes read every row. Both need the newest sequenced state with the
transaction's own writes on top, while a table lock prevents other changes. So LSNs do not matter, and the layers become
plain *levels*, the upper hiding the lower:

    own writes -> own runs -> memtables and committed runs, newest first -> LMDB, by a read transaction of its own

`NewestRows.open` copies the dictionaries of the engine's thread (memtables hold a limited number of versions). From
then on any thread may use the object. Levels are compared batch by batch: a batch of a lower level loses the keys that
an upper one has in the same range. For tables that were loaded once, or are in LMDB, this is no work at all. For a
leaning storage id (engine/storage/branch_storage.py) its bases are levels below it, under their prefixes.
"""

from __future__ import annotations

import asyncio
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from engine.storage.branch_storage import known_values, leans, moved_keys
from engine.storage.columns import Column, Numbers, binary_array, one_array
from engine.storage.keys import prefix_range, storage_prefix
from engine.storage.runs import BulkLayer, BulkRun

if TYPE_CHECKING:
    from engine.storage.tablespace import Tablespace
    from engine.storage.views import Generation, Layer

BATCH_ROWS = 32_768
BATCH_BYTES = 16 << 20
_ROWS_AT_ONCE = 512
_COPY_SLICE = 4096  # keys of a memtable that are copied in one turn of the event loop


class Writing(Protocol):
    """The writes of a transaction."""

    @property
    def writes(self) -> dict[bytes, bytes | None]: ...
    @property
    def runs(self) -> list[BulkRun]: ...
    def tablespace(self, storage_id: int) -> Tablespace: ...


class _Edited:
    """Keys with values (None: deleted), from a memtable or a write set, in key order."""

    def __init__(self, found: dict[bytes, bytes | None]) -> None:
        self._keys = sorted(found)
        self._found = found

    def keys_between(self, first: bytes, last: bytes) -> Column | None:
        """Its keys from `first` to `last`, both included; None if there are none."""
        start, stop = bisect_left(self._keys, first), bisect_right(self._keys, last)
        return binary_array(self._keys[start:stop]) if start < stop else None

    def batches(self) -> Iterator[tuple[Column, Column]]:
        for start in range(0, len(self._keys), BATCH_ROWS):
            keys = self._keys[start : start + BATCH_ROWS]
            yield binary_array(keys), pa.array(map(self._found.__getitem__, keys), pa.binary())

    def look_up(self, keys: Column, first: bytes, last: bytes) -> tuple[Numbers, Numbers] | None:
        """Masks of the keys that it has, and of those with a value; None if it has none of them."""
        own = self.keys_between(first, last)
        if own is None:
            return None
        known = _is_in(keys, own)
        if not known.any():
            return None
        present = known.copy()
        for place in np.flatnonzero(known).tolist():
            present[place] = self._found[keys[place].as_py()] is not None
        return known, present

    def values(self, keys: Column, first: bytes, last: bytes) -> tuple[Numbers, Column] | None:
        """A mask of the keys that it has, and their values (None: deleted); None if it has none of them."""
        answer = self.look_up(keys, first, last)
        if answer is None:
            return None
        known = answer[0]
        pairs = zip(keys.to_pylist(), known.tolist(), strict=True)
        return known, pa.array([self._found[key] if here else None for key, here in pairs], pa.binary())


class _Run:
    """A bulk run's keys of the storage id."""

    def __init__(self, run: BulkRun, low: bytes, high: bytes) -> None:
        self._run = run
        self._low, self._high = low, high

    def keys_between(self, first: bytes, last: bytes) -> Column | None:
        parts = [part.column(0) for part in self._run.between(first, last + b"\0")]
        return pa.concat_arrays(parts) if parts else None

    def batches(self) -> Iterator[tuple[Column, Column]]:
        for part in self._run.between(self._low, self._high):
            for start in range(0, part.num_rows, BATCH_ROWS):
                piece = part.slice(start, BATCH_ROWS)
                yield one_array(piece.column(0)), one_array(piece.column(1))

    def look_up(self, keys: Column, first: bytes, last: bytes) -> tuple[Numbers, Numbers] | None:
        known = np.zeros(len(keys), np.bool_)
        present = known.copy()
        for part in self._run.between(first, last + b"\0"):
            places = pc.index_in(keys, value_set=part.column(0))
            here = places.is_valid().to_numpy(zero_copy_only=False)
            if not here.any():
                continue
            known |= here
            values = part.column(1)
            if values.null_count:
                valid = values.is_valid().to_numpy(zero_copy_only=False)
                here = here.copy()
                here[here] = valid[places.drop_null().to_numpy()]
            present |= here
        return (known, present) if known.any() else None

    def values(self, keys: Column, first: bytes, last: bytes) -> tuple[Numbers, Column] | None:
        """As _Edited.values."""
        known = np.zeros(len(keys), np.bool_)
        found = pa.nulls(len(keys), pa.binary())
        for part in self._run.between(first, last + b"\0"):
            places = pc.index_in(keys, value_set=part.column(0))
            here = places.is_valid()
            found = pc.if_else(here, part.column(1).take(places), found)
            known |= here.to_numpy(zero_copy_only=False)
        return (known, found) if known.any() else None


class _Stored:
    """The rows of LMDB under a storage id that leans, or on which others lean; an empty value is a deletion."""

    def __init__(self, generation: Generation, storage_id: int) -> None:
        self._generation = generation
        self._low, self._high = prefix_range(storage_prefix(storage_id))

    def keys_between(self, first: bytes, last: bytes) -> Column | None:
        keys = [key for key, _ in self._generation.scan(first, last + b"\0", False)]
        return binary_array(keys) if keys else None

    def batches(self) -> Iterator[tuple[Column, Column]]:
        for keys, values in _stored_batches(self._generation, self._low, self._high):
            yield keys, known_values(values)

    def look_up(self, keys: Column, first: bytes, last: bytes) -> tuple[Numbers, Numbers] | None:
        answer = self.values(keys, first, last)
        return None if answer is None else (answer[0], answer[1].is_valid().to_numpy(zero_copy_only=False))

    def values(self, keys: Column, first: bytes, last: bytes) -> tuple[Numbers, Column] | None:
        """As _Edited.values."""
        cursor: Any = self._generation.transaction.cursor()
        if not cursor.set_range(first) or cursor.key() > last:
            return None
        wanted = keys.to_pylist()
        stored = dict(cursor.getmulti(wanted))
        here = np.fromiter((key in stored for key in wanted), np.bool_, len(wanted))
        return (here, pa.array([stored.get(key) or None for key in wanted], pa.binary())) if stored else None


class _Below:
    """A level of a base, under its own prefix."""

    def __init__(self, level: _Edited | _Run | _Stored, base: bytes, prefix: bytes) -> None:
        self._level = level
        self._base, self._prefix = base, prefix

    def keys_between(self, first: bytes, last: bytes) -> Column | None:
        found = self._level.keys_between(self._base + first[4:], self._base + last[4:])
        return None if found is None else moved_keys(found, self._prefix)

    def batches(self) -> Iterator[tuple[Column, Column]]:
        for keys, values in self._level.batches():
            yield moved_keys(keys, self._prefix), values

    def look_up(self, keys: Column, first: bytes, last: bytes) -> tuple[Numbers, Numbers] | None:
        return self._level.look_up(moved_keys(keys, self._base), self._base + first[4:], self._base + last[4:])

    def values(self, keys: Column, first: bytes, last: bytes) -> tuple[Numbers, Column] | None:
        return self._level.values(moved_keys(keys, self._base), self._base + first[4:], self._base + last[4:])


_Level = _Edited | _Run | _Stored | _Below


class NewestRows:
    """The newest state of a storage id; see the module's docstring. `close` releases LMDB's pages. `end` releases them
    at once, when nothing reads any more, even if an error or its traceback still refers to the object."""

    def __init__(self, storage_id: int, levels: Sequence[_Level], generation: Generation) -> None:
        self.storage_id = storage_id
        self._levels = levels
        self._generation: Generation | None = generation
        self._low, self._high = prefix_range(storage_prefix(storage_id))

    @classmethod
    async def open(
        cls,
        store: Tablespace,
        storage_id: int,
        transaction: Writing | None = None,
        alone: bool = False,
    ) -> NewestRows:
        """The present state of the storage id, with the transaction's own writes; `alone`: without its bases. Call on
        the engine's thread; until the end of the reads no other transaction may write under this storage id (a table
        lock prevents it)."""
        layers, generation = store.newest_layers()
        prefix = storage_prefix(storage_id)
        low, high = prefix_range(prefix)
        levels: list[_Level] = []
        if transaction is not None:
            own = {key: value for key, value in transaction.writes.items() if low <= key < high}
            if own:
                levels.append(_Edited(own))
            levels += [_Run(run, low, high) for run in reversed(transaction.runs) if run.has(low)]
        lsn = store.sequenced_lsn
        levels += await _levels(layers, storage_id, lsn)
        if leans(storage_id):
            levels.append(_Stored(generation, storage_id))
            for base in () if alone else store.leaning.chain(storage_id):
                below: list[_Level] = [*await _levels(layers, base, lsn), _Stored(generation, base)]
                levels += [_Below(level, storage_prefix(base), prefix) for level in below]  # type: ignore[arg-type]
        return cls(storage_id, levels, generation)

    @classmethod
    async def of(cls, transaction: Writing, storage_id: int) -> NewestRows:
        """The rows under a storage id, read in its tablespace."""
        return await cls.open(transaction.tablespace(storage_id), storage_id, transaction)

    def close(self) -> None:
        self._generation = None
        self._levels = ()  # with the maps of bulk runs

    def end(self) -> None:
        generation = self._generation
        self.close()
        if generation is not None:
            generation.end()

    # --- reading everything --------------------------------------------------------------------------------------

    def batches(self) -> Iterator[tuple[Column, Column]]:
        """(keys, values) as binary arrays of up to BATCH_ROWS rows; every key once, in no order between batches."""
        for place in range(len(self._levels), -1, -1):
            above = self._levels[:place]
            source = self._get_stored() if place == len(self._levels) else self._levels[place].batches()
            for keys, values in source:
                kept = self._visible(keys, values, above)
                if kept is None:
                    yield keys, values
                elif kept.any():
                    mask = pa.array(kept)
                    yield keys.filter(mask), values.filter(mask)

    def _visible(self, keys: Column, values: Column, above: Sequence[_Level]) -> Numbers | None:
        """A mask of the visible rows of a batch; None for all."""
        kept = values.is_valid().to_numpy(zero_copy_only=False) if values.null_count else None
        if above:
            first, last = keys[0].as_py(), keys[len(keys) - 1].as_py()
            for level in above:
                hidden = level.keys_between(first, last)
                if hidden is not None:
                    mask = ~_is_in(keys, hidden)
                    kept = mask if kept is None else kept & mask
        return None if kept is None or kept.all() else kept

    def _get_stored(self) -> Iterator[tuple[Column, Column]]:
        generation = self._generation
        assert generation is not None
        return iter(()) if leans(self.storage_id) else _stored_batches(generation, self._low, self._high)

    # --- looking for keys ----------------------------------------------------------------------------------------

    def existing(self, keys: Column) -> Numbers:
        """Booleans: which of the keys (a binary array) have a value."""
        found = np.zeros(len(keys), np.bool_)
        if not len(keys):
            return found
        bounds = pc.min_max(keys)
        first, last = bounds["min"].as_py(), bounds["max"].as_py()
        undecided = np.ones(len(keys), np.bool_)
        for level in self._levels:
            answer = level.look_up(keys, first, last)
            if answer is not None:
                known, present = answer
                found |= present & undecided
                undecided &= ~known
        self._look_in_store(keys, first, last, found, undecided)
        return found

    def find_known(self, keys: Column) -> Numbers:
        """Booleans: which of the keys (a binary array) of a leaning storage id were ever written."""
        found = np.zeros(len(keys), np.bool_)
        if len(keys):
            bounds = pc.min_max(keys)
            first, last = bounds["min"].as_py(), bounds["max"].as_py()
            for level in self._levels:
                answer = level.look_up(keys, first, last)
                if answer is not None:
                    found |= answer[0]
        return found

    def values(self, keys: Column) -> Column:
        """The values of the keys (a binary array), NULL for none."""
        found = pa.nulls(len(keys), pa.binary())
        if not len(keys):
            return found
        bounds = pc.min_max(keys)
        first, last = bounds["min"].as_py(), bounds["max"].as_py()
        undecided = np.ones(len(keys), np.bool_)
        for level in self._levels:
            answer = level.values(keys, first, last)
            if answer is not None:
                known, values = answer
                found = pc.if_else(pa.array(known & undecided), values, found)
                undecided &= ~known
        generation = self._generation
        assert generation is not None
        cursor: Any = generation.transaction.cursor()
        if not leans(self.storage_id) and undecided.any() and cursor.set_range(first) and cursor.key() <= last:
            wanted = keys.filter(pa.array(undecided)).to_pylist()
            stored = dict(cursor.getmulti(wanted))
            if stored:
                there = pa.array([stored.get(key) for key in wanted], pa.binary())
                found = pc.replace_with_mask(found, pa.array(undecided), there)
        return one_array(found)

    def _look_in_store(self, keys: Column, first: bytes, last: bytes, found: Numbers, undecided: Numbers) -> None:
        """Marks the undecided keys that LMDB has; a range without keys in LMDB costs one look-up."""
        generation = self._generation
        assert generation is not None
        cursor: Any = generation.transaction.cursor()
        if leans(self.storage_id) or not cursor.set_range(first) or cursor.key() > last:
            return
        places = np.flatnonzero(undecided)
        wanted = (keys if len(places) == len(keys) else keys.take(pa.array(places))).to_pylist()
        stored = {key for key, _ in cursor.getmulti(wanted)}
        if stored:
            found[places] |= np.fromiter((key in stored for key in wanted), np.bool_, len(wanted))


async def _levels(layers: Sequence[Layer], storage_id: int, lsn: int) -> list[_Edited | _Run]:
    """The levels of the layers over LMDB for a storage id up to an LSN, newest first."""
    low, high = prefix_range(storage_prefix(storage_id))
    levels: list[_Edited | _Run] = []
    for layer in layers:
        if isinstance(layer, BulkLayer):
            edits = await _copy_pairs(layer.scan_edits(low, high))
            runs = [run for run in reversed(layer.runs) if run.has(low)]
        else:
            edits = await _copy_pairs(layer.scan(low, high, lsn)) if layer.has(low) else {}
            runs = []
        if edits:
            levels.append(_Edited(edits))
        levels += [_Run(run, low, high) for run in runs]
    return levels


def _stored_batches(generation: Generation, low: bytes, high: bytes) -> Iterator[tuple[Column, Column]]:
    """The rows of LMDB in a range."""
    items = generation.scan(low, high, False)
    batch: list[tuple[bytes, bytes]] = []
    size = 0
    while part := list(islice(items, _ROWS_AT_ONCE)):
        batch += part
        size += sum(len(value) for _, value in part)
        if len(batch) >= BATCH_ROWS or size >= BATCH_BYTES:
            yield _arrays(batch)
            batch, size = [], 0
    if batch:
        yield _arrays(batch)


def _arrays(pairs: list[tuple[bytes, bytes]]) -> tuple[Column, Column]:
    keys, values = zip(*pairs, strict=True)
    return binary_array(keys), binary_array(values)


async def _copy_pairs(pairs: Iterator[tuple[bytes, bytes | None]]) -> dict[bytes, bytes | None]:
    """The items of an iterator, collected in slices, one a turn."""
    found: dict[bytes, bytes | None] = {}
    while part := list(islice(pairs, _COPY_SLICE)):
        found.update(part)
        if len(part) == _COPY_SLICE:
            await asyncio.sleep(0)
    return found


def _is_in(keys: Column, others: Column) -> Numbers:
    return pc.is_in(keys, value_set=others).to_numpy(zero_copy_only=False)
