"""A tablespace: one changelog, one LMDB environment, and the memtables between them.

    sequence(edits)  ->  LSN, active memtable, changelog        (sequenced: visible to `newest`, for conflicts)
    changelog        ->  durable_lsn moves, `on_durable`        (durable: visible to readers)
    memtable full    ->  frozen, a new one is active
    flush            ->  frozen layer in LMDB, its LSN recorded (flushed: the changelog may delete it)

A start opens LMDB at its flushed LSN and applies the changelog after it, by the same `_apply` as a commit.

**Old versions.** No reader is below the *horizon*: the smallest of the durable LSN, the oldest open snapshot, and the
LSN of `keep_from`, which keeps the recent past readable. Memtables remove versions below it. A flushed layer is kept
(as *history*) while an older snapshot is open, or an older past is kept. So `newest` knows exactly which keys have
changed since a snapshot. And a snapshot of the kept past can be taken: history over the read transactions of LMDB from
before those flushes (`_bases`).

Everything here runs on the engine's thread.
"""

from __future__ import annotations

import logging
import os
import uuid
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from functools import partial
from typing import TYPE_CHECKING

from catalog.errors import SqlError
from engine.storage.branch_storage import BASE_RANGE, Leaning, tells_bases
from engine.storage.checkpoint import Checkpoint
from engine.storage.directory_lock import lock_directory
from engine.storage.edits import Edits
from engine.storage.flush import Flusher
from engine.storage.holes import RUN_PAGES
from engine.storage.interface import Changelog, EngineThread, Joint
from engine.storage.keys import prefix_range, storage_prefix
from engine.storage.layered_reads import LayeredReads
from engine.storage.memtable import Memtable
from engine.storage.runs import BulkLayer, BulkRun, BulkRunWriter
from engine.storage.space import Packed, Packing
from engine.storage.views import UNREADABLE, CurrentView, Generation, Layer, Snapshot, up_to

if TYPE_CHECKING:
    from engine.storage.stores import StoresSnapshot

FLUSH_BYTES = 32 << 20
FLUSH_VERSIONS = 200_000
HISTORY_KEPT = 4  # number of kept flushed layers from which on nothing is flushed early
log = logging.getLogger("shoal.storage")

FROZEN_LIMIT = 2  # number of full memtables waiting for the flush from which on writers wait
NO_LSN = 1 << 62
TIMES_SPARE = 10_000  # number of commit times that are known beyond the kept history
FROZEN_LAYERS = 32  # the same for layers of any size, because every read searches them

OpenChangelog = Callable[[bytes, Callable[[int], None], Callable[[BaseException], None]], Changelog]
"""(tablespace id, on_committed, on_failure) -> the changelog; called once, when the directory is locked."""


Failed = Callable[[SqlError], None]


class Tablespace(LayeredReads):
    """See the module's docstring. Made by `open`; LSNs count from 1, 0 is before the first commit."""

    def __init__(
        self,
        path: str,
        lock: int,
        engine_thread: EngineThread,
        flush_bytes: int,
        flush_versions: int,
        identity: bytes | None,
    ) -> None:
        self.path = path
        self.slot = 0
        """Its number among the tablespaces of this node (engine/storage/stores.py)."""
        self.led_from = 0
        """In a cluster, the LSN at which this node began to lead it, after others."""
        self.tied = 0
        """When it was last needed here together with other tablespaces; microseconds since 2000-01-01."""
        self._lock = lock
        self._engine_thread = engine_thread
        self._flush_bytes = flush_bytes
        self._flush_versions = flush_versions
        self._checkpoint = Checkpoint(os.path.join(path, "rows"), identity, lock)
        self._changelog: Changelog
        self._flusher: Flusher | None = None  # None while recovering
        self._closed = False
        self._failure: BaseException | None = None
        self._durable_callbacks: list[Callable[[int], None]] = []
        self._on_fatal: Callable[[BaseException], None] = _ignore
        flushed = self._checkpoint.flushed_lsn
        self.sequenced_lsn = self.durable_lsn = self.flushed_lsn = self._handed_over = flushed
        self._snapshots: dict[int, int] = {}  # LSN -> open snapshots at it
        self._holds = 0  # number of snapshots that cannot be read
        self.held = False
        """Whether an object that may be unused keeps pages of LMDB from being reused. The reader of this attribute
        resets it."""
        self._horizon = flushed
        self._active = Memtable(flushed + 1)
        self._frozen: list[Layer] = []  # newest first
        self._history: list[Layer] = []  # newest first: flushed, with older snapshots
        self._kept_from = NO_LSN
        self._bases: list[Generation] = []  # newest first: older ones for the kept past
        self._times: list[int] = []  # commit times of the newest LSNs, in order
        self._flush_waiters: list[tuple[int, Callable[[], None], Failed | None]] = []
        self._flush_wanted = self._vacuum_wanted = False  # see `_dropped_much`, `give_back`
        self._disk_full: SqlError | None = None  # the error of the flush, which tries again
        self.leaning = Leaning(self._checkpoint.whole)
        self._generation = self._newer_generation()
        self.current = CurrentView(flushed, (self._active,), self._generation)
        """The newest durable state, for statements that run to their end at once (engine/storage/views.py)."""

    @classmethod
    def open(
        cls,
        path: str,
        open_changelog: OpenChangelog,
        engine_thread: EngineThread,
        *,
        on_fatal: Callable[[BaseException], None] | None = None,
        flush_bytes: int = FLUSH_BYTES,
        flush_versions: int = FLUSH_VERSIONS,
        identity: bytes | None = None,
    ) -> Tablespace:
        """Opens or creates the directory and recovers it to the last entry of its changelog. `identity` (16 bytes) is
        the id of a new tablespace; default: a random one.

        Raises DirectoryInUse (55006), FormatTooNew (XX001), XX001 for damage. `on_fatal` is called once on the engine's
        thread when a write or sync has failed: nothing is committed after it, and the process should end.
        """
        tablespace = cls.prepare(
            path,
            open_changelog,
            engine_thread,
            on_fatal=on_fatal,
            flush_bytes=flush_bytes,
            flush_versions=flush_versions,
            identity=identity,
        )
        with ExitStack() as undo:
            undo.callback(tablespace.undo_prepare)
            tablespace.recover()
            undo.pop_all()
        return tablespace

    @classmethod
    def prepare(
        cls,
        path: str,
        open_changelog: OpenChangelog,
        engine_thread: EngineThread,
        *,
        on_fatal: Callable[[BaseException], None] | None = None,
        flush_bytes: int = FLUSH_BYTES,
        flush_versions: int = FLUSH_VERSIONS,
        identity: bytes | None = None,
    ) -> Tablespace:
        """The first half of `open`: everything but `recover`, which several tablespaces do together
        (engine/storage/joints.py)."""
        with ExitStack() as undo:
            lock = lock_directory(path)
            undo.callback(os.close, lock)
            tablespace = cls(path, lock, engine_thread, flush_bytes, flush_versions, identity)
            undo.callback(tablespace._checkpoint.close)
            tablespace._on_fatal = on_fatal or _ignore
            tablespace._changelog = open_changelog(
                tablespace._checkpoint.tablespace, tablespace._note_commit, tablespace.fail
            )
            undo.pop_all()
        return tablespace

    def undo_prepare(self) -> None:
        """Undoes `prepare`."""
        self._changelog.close()
        self._checkpoint.close()
        os.close(self._lock)

    def recover(self) -> None:
        """Applies the entries of the changelog after the checkpoint. Raises XX001."""
        referred: set[str] = set()
        for lsn, commit_time, body in self._changelog.read(self.flushed_lsn):
            self._note_time(commit_time)
            self.sequenced_lsn = self.durable_lsn = self._horizon = lsn
            edits = Edits.decode(body)
            self._apply(lsn, edits, self._bulk_layer(lsn, edits, verify=True))
            referred.update(run.name for run in edits.runs)
        self.current.lsn = self.durable_lsn
        self.learn_bases()
        told = self._flush, self._rewritten, self._note_hold, self._found_full, self.fail
        self._flusher = Flusher(self._checkpoint, self._engine_thread, lambda: self._generation.seen, *told)
        self._hand_over()
        for name in self._changelog.bulk_names():
            if name not in referred:
                self._changelog.drop_bulk(name, self.flushed_lsn)

    # --- writing -----------------------------------------------------------------------------------------------

    def sequence(self, edits: Edits, commit_time: int, schema_version: int, joint: Joint | None = None) -> int:
        """Gives the commit its LSN: from now on `newest` shows it, and it becomes durable or the node stops.

        `commit_time` in microseconds since 2000-01-01 UTC; `joint` if the commit has parts in other tablespaces too.
        Raises 58030 after a failure, and errors of encoding the entry or adding it to the changelog: then nothing has
        happened. A later failure stops the node.
        """
        if self._failure is not None:
            raise SqlError("58030", f"storage has failed: {self._failure}")
        if self._disk_full is not None:
            self._check_room()
        if self.leaning.heirs:
            edits = self._with_kept(edits)
        lsn = self.sequenced_lsn + 1
        bulk: BulkLayer | None = None
        files: tuple[str, ...] = ()
        if edits.runs:
            bulk = self._bulk_layer(lsn, edits)
            files = tuple(run.name for run in edits.runs)
        self._changelog.submit(lsn, edits.encode(), commit_time, schema_version, files, joint)
        try:
            self.sequenced_lsn = lsn
            self._note_time(commit_time)
            self._apply(lsn, edits, bulk)
        except BaseException as error:
            self.fail(error)  # the changelog has it and memory has half of it: no answer may come from that
            raise
        return lsn

    def _with_kept(self, edits: Edits) -> Edits:
        """Adds the former rows that branches keep (engine/storage/branch_storage.py)."""
        heirs = self.leaning.heirs
        kept: dict[bytes, bytes | None] = {}
        for key in edits.writes:
            for prefix in heirs.get(key[:4], ()):
                place = prefix + key[4:]
                if not self._has_version(place):
                    newest = self.newest(key)
                    kept[place] = None if newest is None else newest[1]
        return Edits({**edits.writes, **kept}, edits.runs, edits.drops) if kept else edits

    def _has_version(self, key: bytes) -> bool:
        """Whether the key itself, not one of its bases, was ever written."""
        return any(find(key) is not None for find in self.current.finders) or self._generation.get(key) is not None

    def learn_bases(self) -> None:
        """Reads the leaning storage ids again. Called in the turn of the loop in which a commit with a change of them
        was sequenced."""
        self.leaning.learn(self.scan_newest(*BASE_RANGE))

    # --- following, and changes of the leader ------------------------------------------------------------------

    def apply(self, lsn: int, body: bytes, commit_time: int = 0) -> Edits:
        """Applies the next entry that the leader has committed, in LSN order; its bulk segments are at the changelog's
        `bulk_path`. `commit_time` in microseconds since 2000-01-01 UTC. Raises XX001 for damage."""
        if lsn != self.sequenced_lsn + 1 or self.sequenced_lsn != self.durable_lsn:
            raise SqlError("XX000", f"entry {lsn} does not follow {self.sequenced_lsn}, of which {self.durable_lsn}")
        edits = Edits.decode(body)
        bulk = self._bulk_layer(lsn, edits, verify=True)
        self.sequenced_lsn = lsn
        self._note_time(commit_time)
        self._apply(lsn, edits, bulk)
        if tells_bases(edits.writes):
            self.learn_bases()
        self._note_commit(lsn)
        return edits

    def undo_above(self, lsn: int) -> None:
        """Undoes sequenced commits above an LSN, which never will be committed: the leader was deposed. Transactions
        that depend on them must have ended."""
        if lsn < self.durable_lsn:
            raise SqlError("XX000", f"LSN {self.durable_lsn} is durable, {lsn} cannot be gone back to")
        if lsn == self.sequenced_lsn:
            return
        self._frozen = [kept for layer in self._frozen if (kept := up_to(layer, lsn)) is not None]
        self._active = self._active.up_to(lsn)
        self._active.first_lsn = min(self._active.first_lsn, lsn + 1)
        del self._times[max(0, len(self._times) - (self.sequenced_lsn - lsn)) :]
        self.sequenced_lsn = lsn
        self._renew()
        self.learn_bases()
        self._note_commit(lsn)

    def on_committed(self, lsn: int) -> None:
        """Everything sequenced up to the LSN is committed. For changelogs of `use_changelog`; the one of `open` got
        this at its construction."""
        self._note_commit(lsn)

    def use_changelog(self, changelog: Changelog) -> None:
        """Commits go into another changelog from now on: this node has become a tablespace's leader, or follows."""
        self._changelog = changelog

    def check_sees_all(self, lsn: int) -> None:
        """Raises 40001 for a snapshot at this LSN that may lack earlier commits of another leader: this node has become
        the leader since."""
        if lsn < self.led_from:
            message = "the leader of the tablespace has changed since the snapshot was taken"
            raise SqlError("40001", message, hint="Nothing was committed. Retry.")

    def check_takes_entries(self) -> None:
        """Raises 40001 if `sequence` would, because this node does not lead the tablespace: for commits with several
        parts, all or none."""
        if not getattr(self._changelog, "leading", True):
            raise SqlError(
                "40001", "this node does not lead the tablespace any more", hint="Nothing was committed. Retry."
            )
        self._check_room()

    def new_run(self) -> BulkRunWriter:
        """A writer of a bulk run; a finished run goes into `Edits.runs` by its `reference`."""
        return BulkRunWriter(self._changelog.bulk_path(uuid.uuid4().hex))

    def _apply(self, lsn: int, edits: Edits, bulk: BulkLayer | None) -> None:
        if bulk is not None:
            self._add_bulk(bulk)
            return
        active = self._active
        active.apply(lsn, edits.writes, self._horizon)
        if edits.drops:
            active.drop(lsn, edits.drops)
            if self._flusher is not None:
                ranges = [prefix_range(storage_prefix(storage_id)) for storage_id in edits.drops]
                self._flusher.weigh(ranges, self._dropped_much)
        if active.size > self._flush_bytes or len(active.versions) > self._flush_versions:
            self._freeze()

    def _bulk_layer(self, lsn: int, edits: Edits, verify: bool = False) -> BulkLayer | None:
        """The layer of a commit with runs; None for one without."""
        if not edits.runs:
            return None
        path = self._changelog.bulk_path
        runs = [BulkRun(path(reference.name), reference, verify) for reference in edits.runs]
        return BulkLayer(lsn, runs, edits.writes, list(edits.drops))

    def _add_bulk(self, bulk: BulkLayer) -> None:
        if self._active.last_lsn >= self._active.first_lsn:
            self._frozen.insert(0, self._active)
        self._frozen.insert(0, bulk)
        self._active = Memtable(bulk.last_lsn + 1)
        self._renew()
        self._hand_over()

    def on_durable(self, callback: Callable[[int], None]) -> None:
        """`callback(durable_lsn)` is called whenever durable_lsn has moved."""
        self._durable_callbacks.append(callback)

    def divert_durable(self, callback: Callable[[int], None]) -> list[Callable[[int], None]]:
        """Only this callback is called from now on; returns the former ones (engine/storage/stores.py calls them)."""
        diverted, self._durable_callbacks = self._durable_callbacks, [callback]
        return diverted

    def _note_commit(self, lsn: int) -> None:
        self.durable_lsn = self.current.lsn = lsn
        if self._closed:
            return
        self._horizon = min(min(self._snapshots, default=lsn), lsn, self._kept_from)
        if self._frozen:
            self._hand_over()
        for callback in self._durable_callbacks:
            callback(lsn)

    @property
    def pending_bytes(self) -> int:
        """Bytes that are sequenced and not yet durable."""
        return self._changelog.pending_bytes

    @property
    def pressure(self) -> bool:
        """Whether writers should wait a moment: the flush or the changelog is overloaded."""
        return self._behind or self._changelog.pending_bytes > self._flush_bytes

    @property
    def flushes_freely(self) -> bool:
        """Whether an additional flush does no harm: none runs, and no snapshot keeps many layers, which every reader
        must search."""
        return not self._frozen and len(self._history) < HISTORY_KEPT

    @property
    def _behind(self) -> bool:
        frozen = self._frozen
        return len(frozen) >= FROZEN_LIMIT and (
            sum(layer.size for layer in frozen) > FROZEN_LIMIT * self._flush_bytes or len(frozen) > FROZEN_LAYERS
        )

    @property
    def checkpoint_path(self) -> str:
        """The LMDB directory, for engine/storage/readonly.py in another process."""
        return self._checkpoint.path

    @property
    def tablespace_id(self) -> bytes:
        """16 bytes, the same in every copy of this tablespace."""
        return self._checkpoint.tablespace

    @property
    def failure(self) -> BaseException | None:
        return self._failure

    def fail(self, error: BaseException) -> None:
        """Nothing is committed from now on; `on_fatal` is called once."""
        if self._failure is None:
            self._failure = error
            self._on_fatal(error)

    # --- reading -----------------------------------------------------------------------------------------------

    def of(self, storage_id: int) -> Tablespace:
        """The tablespace of a storage id: here always this one. engine/storage/stores.py has several."""
        return self

    @property
    def flushing_lsn(self) -> int:
        """Layers up to this LSN may be in LMDB, wholly or in part, even if `flushed_lsn` is lower."""
        return self._handed_over

    def snapshot(self, lsn: int | None = None) -> Snapshot:
        """A view that does not change: at the durable LSN, or at a given one that is not older than any open snapshot,
        or than the kept past.

        Raises 72000 (snapshot too old) for an LSN below the horizon.
        """
        layers: tuple[Layer, ...] = (self._active, *self._frozen)
        generation = self._generation
        at = self.durable_lsn
        if lsn is not None:
            at = lsn
            if at < generation.exact_from:
                generation = next((base for base in self._bases if base.exact_from <= at), generation)
                layers += tuple(layer for layer in self._history if layer.last_lsn > generation.flushed_lsn)
            if at < self._horizon or at < generation.exact_from:
                raise SqlError("72000", f"snapshot too old: LSN {at} is no longer kept")
        self._snapshots[at] = self._snapshots.get(at, 0) + 1
        self._horizon = min(self._horizon, at)
        return Snapshot(at, layers, generation, self._release)

    def hold(self) -> Snapshot:
        """Until it is closed, changes after the present durable LSN stay in memory, for `changes_since`. It cannot be
        read, and keeps no page of LMDB."""
        at = self.durable_lsn
        self._snapshots[at] = self._snapshots.get(at, 0) + 1
        self._horizon = min(self._horizon, at)
        self._holds += 1
        return Snapshot(at, (), UNREADABLE, self._let_go)

    def keep_from(self, lsn: int) -> None:
        """From now on readers at this LSN, which only grows, and at later ones find the state of that time: `snapshot`.
        Removed versions stay removed: then the oldest LSN that is left is kept."""
        self._kept_from = max(lsn, self._horizon)
        self._horizon = min(min(self._snapshots, default=self.durable_lsn), self.durable_lsn, self._kept_from)
        self._forget_history()

    @property
    def readable_from(self) -> int:
        """The oldest LSN that `snapshot` accepts."""
        return self._horizon

    @property
    def memory_bytes(self) -> int:
        """Bytes of the memtables that are not flushed yet."""
        return self._active.size + sum(layer.size for layer in self._frozen)

    @property
    def kept_bytes(self) -> int:
        """Bytes of flushed layers that memory keeps only for older snapshots, not for the kept past."""
        kept = min(self.durable_lsn, self._kept_from)
        return sum(layer.size for layer in self._history if layer.last_lsn <= kept)

    @property
    def changelog_bytes(self) -> int | None:
        """Bytes of the changelog's segments, on a single node."""
        segments = getattr(self._changelog, "segments", None)
        return None if segments is None else sum(size for _, size in segments())

    @property
    def frozen(self) -> int:
        """Memtables and bulk runs that wait for the flush."""
        return len(self._frozen)

    def forget_dead_readers(self) -> None:
        """A process that reads LMDB has ended, perhaps while it was reading."""
        if not self._closed:
            self._checkpoint.forget_dead_readers()

    @property
    def file_bytes(self) -> tuple[int, int]:
        """Bytes of the tables' file, and of its pages that were ever used."""
        return self._checkpoint.file_bytes

    def _note_time(self, commit_time: int) -> None:
        """Records the time of an LSN. If the clock was set back, the later of two times counts, so that times are
        ordered."""
        times = self._times
        times.append(commit_time if not times or commit_time > times[-1] else times[-1])

    def time_of(self, lsn: int) -> int | None:
        """The commit time of an LSN, in microseconds since 2000-01-01 UTC; None if it is no longer known."""
        place = lsn - self.first_timed_lsn
        return self._times[place] if 0 <= place < len(self._times) else None

    @property
    def first_timed_lsn(self) -> int:
        """The first LSN whose commit time is known; the next one if none is."""
        return self.sequenced_lsn - len(self._times) + 1

    def lsn_at(self, time: int) -> int | None:
        """The last durable LSN before the first commit that was later than a time; None if the time is older than the
        known ones, or none is known."""
        place = bisect_right(self._times, time)
        return min(self.first_timed_lsn + place - 1, self.durable_lsn) if place else None

    def share(self, snapshot: Snapshot | StoresSnapshot) -> Snapshot:
        """Another snapshot of the same moment, which is closed separately."""
        assert isinstance(snapshot, Snapshot)
        self._snapshots[snapshot.lsn] += 1
        return snapshot.again(self._release)

    @property
    def in_use(self) -> bool:
        """Whether a snapshot is open."""
        return bool(self._snapshots)

    def _let_go(self, lsn: int) -> None:
        self._holds -= 1
        self._release(lsn)

    def _release(self, lsn: int) -> None:
        left = self._snapshots[lsn] - 1
        if left:
            self._snapshots[lsn] = left
            return
        del self._snapshots[lsn]
        if lsn == self._horizon:
            self._horizon = min(min(self._snapshots, default=self.durable_lsn), self.durable_lsn, self._kept_from)
        elif self._snapshots and not (self._flush_wanted or self._vacuum_wanted):
            return  # older layers are kept for other snapshots
        self._forget_history()

    def commits_between(self, after: int, upto: int) -> Iterator[tuple[int, Sequence[bytes] | BulkRun]]:
        """Yields (LSN, keys) for every commit with after < LSN <= upto, oldest first, and (LSN, run) for its bulk runs.

        The iteration may continue in later turns of the loop while a `hold` keeps the commits after `after`. Raises
        72000 as `changed_since` does.
        """
        return _commits_in(self._layers_after(after), after, upto)

    # --- copies of tables that outlive this process (engine/storage/key_notes.py) ---------------------------------

    def note_keys(self, storage_id: int) -> str:
        """From the next flush on, LMDB records the changed keys of this table. Returns the token of the list, which a
        copy of the table needs later."""
        token = self._checkpoint.key_notes.add(storage_id)
        self._write_notes()
        return token

    def note_saved(self, storage_id: int, lsn: int) -> None:
        """A copy of the table has been saved as of this LSN: records up to it are not needed any more."""
        self._checkpoint.key_notes.note_saved(storage_id, lsn)
        self._write_notes()

    def forget_keys(self, storage_id: int) -> None:
        """The copy no longer exists."""
        self._checkpoint.key_notes.remove(storage_id)
        self._write_notes()

    def _write_notes(self) -> None:
        if self._flusher is not None and self._checkpoint.key_notes.is_behind:
            self._flusher.write_notes()

    # --- flushing ----------------------------------------------------------------------------------------------

    def flush(self, done: Callable[[], None] | None = None, failed: Failed | None = None) -> None:
        """Starts moving everything sequenced so far into LMDB; calls `done` when it is there. `failed` is called
        instead, with 53100, when the disk is full; without `failed`, `done` waits until there is space."""
        if self._active.last_lsn >= self._active.first_lsn:
            self._freeze()
        if done is not None:
            if self.flushed_lsn >= self.sequenced_lsn:
                done()
            else:
                self._flush_waiters.append((self.sequenced_lsn, done, failed))

    def _freeze(self) -> None:
        self._frozen.insert(0, self._active)
        self._active = Memtable(self.sequenced_lsn + 1)
        self._renew()
        self._hand_over()

    def _renew(self) -> None:
        self.current.renew((self._active, *self._frozen), self._generation)

    def _hand_over(self) -> None:
        """Gives the flusher every frozen layer that has become durable."""
        if self._flusher is None:
            return
        for layer in reversed(self._frozen):
            if self._handed_over < layer.last_lsn <= self.durable_lsn:
                self._handed_over = layer.last_lsn
                self._flusher.add(layer)
        self._flusher.hurry = self._behind

    def _flush(self, layer: Layer) -> None:
        if self._closed:
            return
        assert self._flusher is not None
        if self._flusher.failed:
            return  # the environment is useless now: `on_failure` will be called
        self._frozen.remove(layer)
        self._history.insert(0, layer)
        self.flushed_lsn = layer.last_lsn
        self._disk_full = None
        self._read_anew()
        self._flusher.hurry = self._behind
        self._changelog.retire(self.flushed_lsn)
        waiting, self._flush_waiters = self._flush_waiters, []
        for lsn, done, failed in waiting:
            if lsn <= self.flushed_lsn:
                done()
            else:
                self._flush_waiters.append((lsn, done, failed))

    def _read_anew(self) -> None:
        """Begins a new read transaction of LMDB; the former one stays as long as the past needs it."""
        self._bases.insert(0, self._generation)
        self._generation = self._newer_generation(self._handed_over)
        self._renew()
        self._forget_history()

    def _rewritten(self) -> None:
        """LMDB holds the same rows in other pages: the former pages are returned when no reader uses them."""
        if not self._closed and self._flusher is not None and not self._flusher.failed:
            try:
                self._read_anew()
            finally:
                self._flusher.on_renewed()  # it finds by itself what can be returned

    def _note_hold(self) -> None:
        """An older read transaction of this process keeps pages. If neither a snapshot nor the past has it, a running
        statement does, or an error that refers to itself."""
        self.held = not self._bases and sum(self._snapshots.values()) == self._holds

    @property
    def reader_bytes(self) -> int:
        """Bytes of free pages that readers keep from being returned to the file system."""
        return 0 if self._flusher is None else self._flusher.kept_bytes

    def pack(self, storage_ids: Iterable[int], done: Packed) -> None:
        """Flushes the sequenced state, packs the storage ids, and returns all free pages of the tables' file. `done` is
        called at the end, with the error if there is one."""
        ranges = [prefix_range(storage_prefix(storage_id)) for storage_id in storage_ids]
        self.flush(partial(self._pack, Packing(ranges, 1, done)), done)

    def give_back(self, error: SqlError | None = None) -> None:
        """Returns the larger free pieces of the tables' file after the present sequenced state, as soon as a flush does
        no harm. `error`: receives an earlier error."""
        self._vacuum_wanted = error is not None or not self.flushes_freely
        if not self._vacuum_wanted and not self._closed:
            self.flush(partial(self._pack, Packing([], RUN_PAGES, _ignore)), self.give_back)

    def _dropped_much(self) -> None:
        """A commit in memory has dropped much space, which is deleted after its flush. If readers of the past keep many
        layers, that waits until there are fewer."""
        self._flush_wanted = len(self._history) >= HISTORY_KEPT
        if not self._closed and not self._flush_wanted:
            self.flush()

    def _pack(self, packing: Packing) -> None:
        if self._flusher is not None:
            self._flusher.pack(packing)

    def _found_full(self, error: SqlError) -> None:
        """The disk is too full for a flush, which is repeated."""
        if self._disk_full is None:
            log.error("%s; it is tried again", error.message)
        self._disk_full = error
        waiting, self._flush_waiters = self._flush_waiters, []
        for lsn, done, failed in waiting:
            if failed is not None:
                failed(error)
            else:
                self._flush_waiters.append((lsn, done, None))

    def _check_room(self) -> None:
        """Raises 53100 if memory holds the maximum that may wait for a full disk."""
        error = self._disk_full
        if error is not None and self._behind:
            raise SqlError(error.sqlstate, error.message, hint=error.hint)

    def _forget_history(self) -> None:
        kept = min(self.durable_lsn, self._kept_from)
        spare = kept - TIMES_SPARE - self.first_timed_lsn
        if spare > TIMES_SPARE:
            del self._times[:spare]
        bases = self._bases
        while bases and (bases[-2] if len(bases) > 1 else self._generation).exact_from <= kept:
            bases.pop()
        oldest = min(min(self._snapshots, default=kept), bases[-1].flushed_lsn if bases else kept)
        while self._history and self._history[-1].last_lsn <= oldest:
            self._drop_files(self._history.pop())
        if self._flush_wanted:
            self._dropped_much()
        if self._vacuum_wanted:
            self.give_back()

    def _drop_files(self, layer: Layer) -> None:
        """Removes the files of a flushed layer's runs. Not earlier: while it is history the worker may need them
        (engine/columnar/feed.py), and would have to get every key instead."""
        if isinstance(layer, BulkLayer):
            for run in layer.runs:
                self._changelog.drop_bulk(run.reference.name, layer.last_lsn)

    def close_changelog(self) -> None:
        """The first step of `close`: makes everything sequenced durable. With several tablespaces all do it before any
        continues, because a commit may have parts in each. Raises 58030."""
        if not self._closed:
            self._closed = True
            for layer in self._history:
                self._drop_files(layer)
        self._changelog.close()

    def give_up(self) -> None:
        """Closes the changelog of a tablespace whose directory will be removed: failures do not matter any more, and
        `close` flushes nothing."""
        if self._flusher is not None:
            self._flusher.wanted = False
        self.close_changelog()

    def close(self) -> None:
        """Makes everything durable, flushes it, and releases files and threads. Views are invalid afterwards.

        Raises 58030, after closing everything, if something sequenced could not be made durable.
        """
        flusher, self._flusher = self._flusher, None
        if flusher is None:
            return
        try:
            self.close_changelog()
            flusher.stop()
            if self._failure is None and flusher.wanted and not flusher.failed:
                for layer in (*reversed(self._frozen), self._active):
                    if self._checkpoint.flushed_lsn < layer.last_lsn <= self.durable_lsn:
                        self._checkpoint.write(layer, _no_pause)
        finally:
            flusher.stop()
            self._checkpoint.close()
            os.close(self._lock)


def _commits_in(layers: list[Layer], after: int, upto: int) -> Iterator[tuple[int, Sequence[bytes] | BulkRun]]:
    for layer in layers:
        if isinstance(layer, BulkLayer) and after < layer.last_lsn <= upto:
            for run in layer.runs:
                yield layer.last_lsn, run
        yield from layer.commits(after, upto)


def _ignore(_: BaseException | None) -> None:
    return


def _no_pause(_: float) -> None:
    return
