"""Reads of a tablespace: through the active memtable, the frozen layers, the history of flushed layers, and LMDB."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from functools import partial

from catalog.errors import SqlError
from engine.storage.branch_storage import Leaning
from engine.storage.checkpoint import Checkpoint
from engine.storage.keys import prefix_range, storage_prefix
from engine.storage.leaves import Leaves
from engine.storage.lmdb_writer import LEANS
from engine.storage.memtable import Memtable
from engine.storage.runs import BulkLayer, BulkRun
from engine.storage.views import CurrentView, Generation, Get, Layer, below_or, newest_in


class LayeredReads:
    """The part of a Tablespace that reads. `Tablespace` sets the attributes."""

    _active: Memtable
    _checkpoint: Checkpoint
    _frozen: list[Layer]
    _generation: Generation
    _history: list[Layer]
    current: CurrentView
    durable_lsn: int
    flushed_lsn: int
    leaning: Leaning
    sequenced_lsn: int

    def newest(self, key: bytes) -> tuple[int, bytes | None] | None:
        """The newest sequenced version: (LSN, value, None for a deletion); None if there is none.

        The LSN is exact if it is above the oldest open snapshot's; otherwise it may be another one that is not above
        it.
        """
        for find in self.current.finders:
            version = find(key)
            if version is not None:
                return version[0], version[1]
        for layer in self._history:
            version = layer.find(key)
            if version is not None:
                return version[0], version[1]
        value = self._generation.get(key)
        if not value:
            return self._newest_below(key) if key[0] >= LEANS and value is None else None
        return (self._history[-1].first_lsn - 1 if self._history else self.flushed_lsn), value

    def all_new(self, keys: Sequence[bytes]) -> bool:
        """Whether `newest` is None for each; False also if the answer would take longer."""
        if not keys:
            return True
        first, last = min(keys), max(keys)
        if last[0] >= LEANS or any(
            layer.knows_any(keys, first, last) for layer in (self._active, *self._frozen, *self._history)
        ):
            return False
        generation = self._generation
        return not generation.has_between(first, last) or not any(map(generation.get, keys))

    def unchanged_since(self, keys: Sequence[bytes], lsn: int) -> bool:
        """Whether no key has a sequenced version above an LSN of an open snapshot, or of this turn of the loop."""
        if self.sequenced_lsn <= lsn:
            return True
        for layer in (self._active, *self._frozen, *self._history):
            if layer.last_lsn > lsn:
                versions = map(layer.find, keys)
                if any(version is not None and version[0] > lsn for version in versions):
                    return False
        return True

    def _newest_below(self, key: bytes) -> tuple[int, bytes | None] | None:
        """For a leaning key without a version of its own: the version of its base is as old as the branch."""
        base = self.leaning.bases.get(key[:4])
        found = None if base is None else self.newest(base + key[4:])
        return None if found is None or found[1] is None else (0, found[1])

    def scan_newest(self, low: bytes, high: bytes, reverse: bool = False) -> Iterator[tuple[bytes, bytes]]:
        """As `scan`, of the sequenced state."""
        return self.view(self.sequenced_lsn).scan(low, high, reverse)

    def get(self, key: bytes, lsn: int) -> bytes | None:
        """The value at an LSN from the horizon on."""
        return self.view(lsn).get(key)

    def scan(self, low: bytes, high: bytes, lsn: int, reverse: bool = False) -> Iterator[tuple[bytes, bytes]]:
        """Keys in [low, high) at an LSN from the horizon on; use a snapshot for reads over several turns of the
        loop."""
        return self.view(lsn).scan(low, high, reverse)

    def view(self, lsn: int) -> CurrentView:
        """A reader at an LSN from the horizon on, sequenced or durable; valid within one turn of the loop."""
        return CurrentView(lsn, (self._active, *self._frozen), self._generation)

    def _newer_generation(self, exact_from: int = 0) -> Generation:
        """The present state of LMDB, which has at least the flushed LSN."""
        checkpoint = self._checkpoint
        return Generation(checkpoint.environment, checkpoint.rows, self.flushed_lsn, self.leaning.bases, exact_from)

    def newest_layers(self) -> tuple[tuple[Layer, ...], Generation]:
        """The sequenced state for engine/storage/newest.py: the layers over LMDB, newest first, and a separate read
        transaction of LMDB. LMDB may already contain the oldest layers; that changes nothing."""
        return (self._active, *self._frozen), self._newer_generation()

    def leaves_of(self, generation: Generation) -> Leaves | None:
        """The pages of a read transaction that has just begun, to be closed; None if unknown."""
        return Leaves.of(self._checkpoint.environment, b"rows", generation.transaction)

    def sizes_of(self, storage_ids: Iterable[int]) -> dict[int, int]:
        """An estimate of the bytes of each storage id: its pages in LMDB, and changes that wait for the flush."""
        layers = (self._active, *self._frozen)
        with closing(self._checkpoint.pages()) as pages:
            return {
                storage_id: pages.bytes_of(*prefix_range(prefix)) + sum(layer.size_of(prefix) for layer in layers)
                for storage_id in storage_ids
                for prefix in (storage_prefix(storage_id),)
            }

    def sample_keys(self, storage_id: int) -> list[tuple[bytes, float]]:
        """Some keys of a storage id at even distances, with the number of keys that each represents; in no order. Keys
        that are deleted and not yet flushed may be among them."""
        prefix = storage_prefix(storage_id)
        with closing(self._checkpoint.pages()) as pages:
            found = pages.sample(*prefix_range(prefix))
        for layer in (self._active, *self._frozen):
            found += layer.sample(prefix)
        base = self.leaning.bases.get(prefix)
        if base is not None:
            below = self.sample_keys(int.from_bytes(base, "big"))
            found += [(prefix + key[len(prefix) :], weight) for key, weight in below]
        return found

    def rows_of(self, storage_ids: Iterable[int]) -> dict[int, int]:
        """An estimate of the number of keys of each storage id: exact for few (engine/storage/pages.py)."""
        layers = (self._active, *self._frozen)
        found: dict[int, int] = {}
        with closing(self._checkpoint.pages()) as pages:
            for storage_id in storage_ids:
                prefix = storage_prefix(storage_id)
                base = self.leaning.bases.get(prefix)
                below: Get = pages.get
                if base is None:
                    rows = pages.entries_in(*prefix_range(prefix))
                else:
                    leant = int.from_bytes(base, "big")
                    rows, own = self.rows_of([leant])[leant], pages.sample(*prefix_range(prefix))
                    get = partial(self._moved_get, base)
                    rows += round(sum(weight * (bool(pages.get(k)) - (get(k) is not None)) for k, weight in own))
                    below = partial(below_or, pages.get, get)
                for place, layer in enumerate(layers):
                    rows += layer.rows_added(prefix, partial(newest_in, layers[place + 1 :], below))
                found[storage_id] = max(rows, 0)
        return found

    def _moved_get(self, base: bytes, key: bytes) -> bytes | None:
        """The sequenced value of the same key under another prefix."""
        return self.view(self.sequenced_lsn).get(base + key[len(base) :])

    def drops_in(self, generation: Generation) -> list[int]:
        """Dropped storage ids whose keys a read transaction of LMDB may still see."""
        return self._checkpoint.drops_in(generation.transaction)

    def changed_since(self, storage_id: int, lsn: int, upto: int | None = None) -> list[tuple[int, bytes]]:
        """(LSN, key) of every write to a storage id after `lsn` up to `upto` (default: durable), in LSN order.

        Raises 72000 when changes after `lsn` have been flushed and are no longer kept in memory.
        """
        last = self.durable_lsn if upto is None else upto
        prefix = storage_id.to_bytes(4, "big")
        found: list[tuple[int, bytes]] = []
        for layer in self._layers_after(lsn):
            found.extend(layer.changes(prefix, lsn, last))
        return found

    def changes_since(
        self, storage_id: int, lsn: int, upto: int | None = None
    ) -> tuple[list[tuple[int, bytes]], list[tuple[int, BulkRun]]]:
        """As `changed_since`, but bulk runs with keys of the storage id are returned as runs with their LSNs, oldest
        first.

        To apply all changes, apply the runs in order, and then the newest value of every key in the list.
        """
        last = self.durable_lsn if upto is None else upto
        prefix = storage_id.to_bytes(4, "big")
        found: list[tuple[int, bytes]] = []
        runs: list[tuple[int, BulkRun]] = []
        for layer in self._layers_after(lsn):
            if layer.first_lsn > last:
                continue
            if isinstance(layer, BulkLayer):
                found.extend(layer.get_edits(prefix))
                runs.extend((layer.last_lsn, run) for run in layer.runs if run.has(prefix))
            else:
                found.extend(layer.changes(prefix, lsn, last))
        return found, runs

    def has_flushed_rows(self, storage_id: int) -> bool:
        """Whether LMDB has any key of the storage id, as of the flushed LSN, including layers that are being written.
        One look-up."""
        low, high = prefix_range(storage_prefix(storage_id))
        return self._generation.has_between(low, high)

    def has_unflushed_runs(self, storage_id: int) -> bool:
        """Whether LMDB lacks bulk runs with keys of the storage id, or has only parts of them."""
        prefix = storage_id.to_bytes(4, "big")
        return any(run.has(prefix) for layer in self._frozen if isinstance(layer, BulkLayer) for run in layer.runs)

    def _layers_after(self, lsn: int) -> list[Layer]:
        """The layers with changes after an LSN, oldest first. Raises 72000 when some are no longer in memory."""
        layers: list[Layer] = [self._active, *self._frozen, *self._history]
        if lsn + 1 < layers[-1].first_lsn:
            raise SqlError("72000", f"changes after LSN {lsn} are no longer kept")
        return [layer for layer in reversed(layers) if layer.last_lsn > lsn]
