"""A transaction: a private write set over a snapshot, and the locks that protect it.

    reads     own writes, then the snapshot: the durable LSN at the statement's start (READ COMMITTED), or at the first
              statement's start (REPEATABLE READ)
    writes    into `writes`, key -> new value (None: deleted); `_undo` remembers what each write replaced, so that a
              statement or a savepoint can be rolled back to its mark
    locks     taken at once, kept to the end; PostgreSQL's conflict table (engine/txn/locks.py)
    commit    engine/txn/commit.py gives the write set an LSN

READ COMMITTED, two writers of one row: the second waits for the first one's lock and runs its statement again, if
necessary on its old snapshot (`run_again`). `get_locked` returns the newest *sequenced* version. So the statement finds
the same rows again, and evaluates its condition on their newest versions, as in PostgreSQL. These versions may not be
durable yet. The second commit has a higher LSN, and LSNs become durable in order, so no acknowledged commit depends on
a lost one. From then on (`met`) its statements read sequenced state, so that rows which it has seen do not disappear. A
transaction that has seen such a version and writes nothing waits for it at its end.

REPEATABLE READ: if `get_locked` finds a version newer than the snapshot, it raises 40001: the first updater has won.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sortedcontainers import SortedList

from catalog.catalog import Catalog
from catalog.errors import SqlError
from catalog.memory import Account
from catalog.schema import SchemaObject
from engine.storage.keys import PREFIX_BYTES
from engine.storage.views import Snapshot
from engine.txn.deferred import Deferred
from engine.txn.held_locks import NOTHING_CLAIMED, LockHolder
from engine.txn.interface import (
    KEY_SHARE,
    NO_KEY_UPDATE,
    READ_COMMITTED,
    SERIALIZABLE,
    UPDATE,
    LockWait,
    SettingsState,
    WaitTicket,
)
from engine.txn.locks import LockSpace, Ticket
from engine.txn.overlay import MISSING, Missing, overlay
from engine.txn.row_locks import MOVES_KEPT, KeyChange, RowLocks
from engine.txn.serializable import Serial, Tracked

if TYPE_CHECKING:
    from engine.storage.moments import Lsn
    from engine.storage.runs import BulkRun
    from engine.storage.stores import CurrentStores, ObservedStores, SequencedStores, StoresSnapshot
    from engine.storage.tablespace import Tablespace
    from engine.storage.views import CurrentView
    from engine.txn.statement_view import StatementView


WRITE_BYTES = 400  # of a write beside its value: the key, places in dictionaries and lists, its lock
BLOCK = 1 << 20  # bytes that are taken from the connection's account at once
UNCOUNTED = 1 << 16  # bytes of writes that are not counted

UndoRecord = bytes | tuple[bytes, bytes | None]
"""The key of a write, and what it has replaced if the transaction had written under that key before."""


@dataclass(slots=True)
class Savepoint:
    name: str
    mark: int
    changed_objects: dict[int, SchemaObject | None]
    runs: int
    row_locks: int  # the number of locks held: dicts keep their order, so the later ones are known
    table_locks: int
    upgrades: int
    settings: SettingsState | None  # the session's settings, to be restored
    dropped_storage: int  # number of storage ids to be dropped
    deferred: tuple[int, dict[int, bool], int] | None  # Deferred.position()


class Transaction(LockHolder):
    """engine/txn/interface.py has the Protocol for executors. Used on the engine's thread only."""

    __slots__ = (
        "_again",
        "_arrived",
        "_base",
        "_kept",
        "_key_changes",
        "_loose",
        "_ordered",
        "_runs_anew",
        "_snapshot",
        "_undo",
        "_wait_to_change",
        "_waited_for",
        "account",
        "before_snapshot",
        "catalog",
        "catalog_base",
        "changed_objects",
        "deferred",
        "defers",
        "dropped_storage",
        "exclusive",
        "held",
        "held_up_to",
        "is_replica",
        "isolation",
        "kept_storage",
        "queried",
        "read_only",
        "serial",
        "start_time",
        "views",
    )

    def __init__(
        self,
        store: Tablespace | ObservedStores,
        row_space: RowLocks,
        table_space: LockSpace,
        process_id: int,
        start_time: int,
        isolation: str = READ_COMMITTED,
        read_only: bool = False,
    ) -> None:
        self._store = store
        self._row_space = row_space
        self._table_space = table_space
        self.process_id = process_id
        self.start_time = start_time
        self.isolation = isolation
        self.read_only = read_only
        self.is_replica = False
        self.writes: dict[bytes, bytes | None] = {}
        self.runs: list[BulkRun] = []  # bulk writes of this transaction, oldest first
        self._undo: list[UndoRecord] = []
        self.views: tuple[StatementView, ...] = ()  # of the statements that run, outer ones first
        self.account: Account | None = None  # of its connection, which counts its writes
        self.held = 0  # their approximate size in bytes
        self.held_up_to = UNCOUNTED  # bytes taken from the account, including the first ones, which are free
        self._ordered: SortedList | None = None
        # Locks that became stronger after the first savepoint, and their former modes; rarely used.
        self._upgrades: list[tuple[LockSpace, Hashable, int]] | None = None
        self.row_locks: dict[Hashable, int] = {}
        self.table_locks: dict[Hashable, int] = {}
        self.claimed = NOTHING_CLAIMED  # prefixes of storage ids under which its runs lock their keys
        self.waiting: Ticket | None = None
        self._snapshot: Snapshot | StoresSnapshot | None = None
        self._kept: Snapshot | StoresSnapshot | None = None  # of a READ COMMITTED statement that waited for a row
        self._again: WaitTicket | None = None  # what it waits for
        self._waited_for: set[Hashable] = set()  # rows for whose locks it has waited
        self._arrived: set[bytes] = set()  # keys to which the statement has followed moved rows
        self._awaited: Ticket | None = None  # of a row that it had found
        self._first_lsn = None  # its first snapshot, if it runs again
        self._runs_anew = False
        self._key_changes: list[KeyChange] = []  # the latest ones that it has made
        self._undone: frozenset[bytes] = NOTHING_CLAIMED  # by its last wait: what the statement will write again
        self._changing: bytes | None = None  # the row of the present or last change
        self._loose: tuple[bytes, int] | None = None  # the row that is to change, and its modes before the change
        self._wait_to_change: WaitTicket | None = None  # of the change that waits for that row, and will run again
        self._base: CurrentView | Snapshot | CurrentStores | SequencedStores | StoresSnapshot | Tracked = store.current
        self.snapshot_lsn = store.durable_lsn
        self.savepoints: list[Savepoint] = []
        self.catalog: Catalog | None = None  # the catalog with this transaction's DDL; None without DDL
        self.catalog_base: Catalog | None = None  # the committed catalog on which `catalog` is based
        self.changed_objects: dict[int, SchemaObject | None] = {}
        self.dropped_storage: list[int] = []
        self.kept_storage: set[int] = set()  # those of them that branches still share
        self.defers = False  # whether it may have several statements: constraints may be deferred
        self.deferred: Deferred | None = None
        self.before_snapshot: Callable[[], None] | None = None  # may raise LockWait
        self.serial: Serial | None = None  # once a SERIALIZABLE one has its snapshot
        self.queried = False  # a statement has had a snapshot: its modes cannot change
        self.exclusive = False  # holds, or waits for, a lock that excludes readers or users of a sequence
        self.guards = False  # it may have locks whose commits no row version shows
        self.met: Lsn = 0  # the sequenced LSN when it last read a version that was not durable

    # ---- where it reads and writes ----------------------------------------------------------------------------------

    @property
    def store(self) -> Tablespace | ObservedStores:
        return self._store

    @property
    def base(self) -> CurrentView | Snapshot | CurrentStores | SequencedStores | StoresSnapshot | Tracked:
        """The data below its own writes, as of the statement."""
        return self._base

    def tablespace(self, storage_id: int) -> Tablespace:
        """The tablespace of a storage id, for work on whole tables."""
        return self._store.of(storage_id)

    def move_to(self, store: ObservedStores) -> None:
        """The node has a second tablespace now; the transaction read pg_default's Tablespace itself before."""
        self._store = store
        self._forget_kept()
        if self._snapshot is None:
            self._base = store.current
            self.snapshot_lsn = store.durable_lsn
        else:
            assert isinstance(self._snapshot, Snapshot)
            self._snapshot = self._base = store.adopt(self._snapshot)
            if self.serial is not None:
                self._base = Tracked(self._snapshot, self.serial)
            self.snapshot_lsn = self._snapshot.lsn

    # ---- reading ------------------------------------------------------------------------------------------------

    def begin_statement(self) -> int:
        """Takes the statement's snapshot; under REPEATABLE READ the first one stays. Returns the statement's `mark`."""
        self.queried = True
        if self.isolation == READ_COMMITTED:
            if self._awaited is not None:
                self._refuse_awaited()
            if self._arrived:
                self._arrived = set()
            if self._kept is not None and self._begins_again():
                return len(self._undo)
            if self._first_lsn is not None:
                self._first_lsn = self._first_lsn if self._runs_anew else None
                self._runs_anew = False
            store = self._store
            durable = store.durable_lsn
            met = self.met
            if not met or met <= durable:
                self._base = store.current
                self.snapshot_lsn = durable
            else:
                self._base = store.view(met)  # type: ignore[arg-type]
                self.snapshot_lsn = met
        elif self._snapshot is None:
            if self.before_snapshot is not None:
                self.before_snapshot()
            self._snapshot = self._store.snapshot()
            self._base = self._snapshot
            if self.isolation == SERIALIZABLE:
                self.serial = Serial(self._table_space.serializable, self)
                self._base = self.serial.track(self._snapshot)
            self.snapshot_lsn = self._snapshot.lsn
        return len(self._undo)

    def run_again(self, wait: LockWait) -> None:
        """A READ COMMITTED statement waits. If it waits for a row, for an advisory lock while it reads rows, or for the
        durability of commits that it has met, it will run again on its present snapshot, unless that includes commits
        that are not durable."""
        ticket = wait.ticket
        if self.isolation != READ_COMMITTED or (isinstance(ticket, Ticket) and ticket.space is self._table_space):
            return
        if self._kept is None:
            if self._base is not self._store.current:
                return
            self._kept = self._store.snapshot()
        if isinstance(ticket, Ticket):
            self._waited_for.add(ticket.name)
        self._again = ticket

    def run_anew(self) -> None:
        """A statement that knows the keys of its rows waits. It will run again on a new snapshot, in which a new row
        under one of these keys is not one of its rows."""
        if self._first_lsn is None:
            self._first_lsn = self.snapshot_lsn
        self._runs_anew = True

    def _begins_again(self) -> bool:
        """Whether the statement that begins is the one for which the snapshot was kept; otherwise releases it."""
        ticket, self._again = self._again, None
        if ticket is None or ticket.error is not None or self._kept is None:
            self._forget_kept()
            return False
        self._base = self._kept
        self.snapshot_lsn = self._kept.lsn
        return True

    def _forget_kept(self) -> None:
        self._again = None
        if self._kept is not None:
            self._kept.close()
            self._kept = None
            self._waited_for.clear()

    def hold_snapshot(self) -> None:
        """Holds the moment that it sees now for others (engine/node/exported_snapshots.py), until it ends."""
        if self._snapshot is None:
            self._snapshot = self._store.snapshot()

    @property
    def snapshot(self) -> Snapshot | StoresSnapshot | None:
        """The snapshot that it holds after its first statement, if it has one for all statements."""
        return self._snapshot

    def share_snapshot(self, snapshot: Snapshot | StoresSnapshot) -> None:
        """It sees this moment from now on; another transaction holds it too."""
        self._snapshot = self._base = self._store.share(snapshot)
        self.snapshot_lsn = self._snapshot.lsn

    def get(self, key: bytes) -> bytes | None:
        if self.writes:
            own = self.writes.get(key, MISSING)
            if own is not MISSING:
                return own  # type: ignore[return-value]
        if self.runs:
            for run in reversed(self.runs):
                found = run.get(key)
                if found is not None:
                    return found.value
        return self._base.get(key)

    def scan(self, low: bytes, high: bytes, reverse: bool = False) -> Iterator[tuple[bytes, bytes]]:
        return self._over(self._base.scan(low, high, reverse), low, high, reverse)

    def scan_newest(self, low: bytes, high: bytes, reverse: bool = False) -> Iterator[tuple[bytes, bytes]]:
        """As scan, over the newest sequenced versions instead of the snapshot: for uniqueness and references."""
        self.met = self._store.sequenced_lsn
        return self._over(self._store.scan_newest(low, high, reverse), low, high, reverse)

    def _over(
        self, base: Iterator[tuple[bytes, bytes]], low: bytes, high: bytes, reverse: bool
    ) -> Iterator[tuple[bytes, bytes]]:
        for run in self.runs:
            base = overlay(base, run.scan(low, high, reverse), reverse)
        if not self.writes:
            return base
        return overlay(base, self._own(low, high, reverse), reverse)

    def keys_written(self, low: bytes, high: bytes, reverse: bool = False) -> list[bytes]:
        """The keys in a range that it has written, in order."""
        if self._ordered is None:
            self._ordered = SortedList(self.writes)
        return list(self._ordered.irange(low, high, inclusive=(True, False), reverse=reverse))

    def _own(self, low: bytes, high: bytes, reverse: bool) -> Iterator[tuple[bytes, bytes | None]]:
        for key in self.keys_written(low, high, reverse):
            value = self.writes.get(key, MISSING)
            if value is not MISSING:
                yield key, value  # type: ignore[misc]

    # ---- locking ------------------------------------------------------------------------------------------------

    def take_key(self, key: bytes, to_have: bool = True) -> bytes | None:
        """The value under a unique key. None: there is none, and the key is locked, so that no other can insert it. An
        existing row is not locked, and no running transaction that might delete it has written it (_bt_check_unique).
        Raises LockWait. Without `to_have` a free key is not locked either."""
        found = self.newest(key)
        if found is None:
            ticket = self._row_space.wait_for_writer(self, key, False)
            if ticket is not None:
                raise LockWait(ticket)  # other waiters for the key hold nothing meanwhile
            if to_have:
                self.lock(key, UPDATE)
        else:
            self.wait_for_writer(key)
        return found

    def get_locked(
        self,
        key: bytes,
        strength: int,
        wait: str = "block",
        same_key: Callable[[bytes, bytes], bool] | None = None,
        current: bool = False,
    ) -> bytes | None:
        held = self.row_locks.get(key)
        space = self._row_space
        if current:
            self._changing = key
        if self.isolation != READ_COMMITTED and space.would_block(self, key, strength):
            self._refuse_changed(key, strength)
        if held is None and wait == "block":
            ticket = space.acquire(self, self.row_locks, key, strength)
            if ticket is not None:
                self._awaited = None if current else ticket
                raise LockWait(ticket)
        elif (held is None or held < strength) and not self.lock(key, strength, wait):
            return None
        if self.writes or self.runs:
            own = self._get_written(key)
            if own is not MISSING:
                if key in self._arrived and not current:
                    return None
                if self.isolation != READ_COMMITTED and not current:
                    self._refuse_changed(key, strength)
                return own  # type: ignore[return-value]
        store = self._store
        newest = store.newest(key)
        value = None if newest is None else newest[1]
        if value is None and self.serial is not None:
            self.serial.read_key(key)  # to know that it is missing; an existing row is locked
        if newest is None:
            self._leave(key)
            return None
        if self.isolation != READ_COMMITTED and newest[0] > self.snapshot_lsn:
            same = strength == KEY_SHARE and space.renewed.get(key, 0) <= self.snapshot_lsn
            seen = self._base.get(key) if same and not self._has_moved(key, newest[0]) else None
            if seen is not None and value is not None and (same_key is None or same_key(seen, value)):
                return seen  # the key is unchanged: this lock does not protect other columns
            raise self._changed_error(key, newest)
        if newest[0] > store.durable_lsn:
            self.met = store.sequenced_lsn
        if not current and key in space.renewed and self._is_another(key):
            self._leave(key)
            return None
        if value is None:
            self._leave(key)
            if not current and newest[0] > self.snapshot_lsn:
                self._refuse_in_other_partition(key)
        elif (
            not current
            and strength == KEY_SHARE
            and self._kept is not None
            and self._base is self._kept
            and key not in self._waited_for
        ):
            # A change that leaves the key is not in this lock's way, so that it is not looked at; but who has waited
            # for the row takes it as it is now.
            seen = self._kept.get(key)
            if seen is not None and (same_key is None or same_key(seen, value)):
                return seen
        return value

    def _leave(self, key: bytes) -> None:
        """Releases the lock of a row: of a deleted one, because others may insert one under its key; or of one that
        this transaction has not changed."""
        if self.row_locks.pop(key, None) is not None:
            self._row_space.release(self, [key])

    def _refuse_changed(self, key: bytes, strength: int) -> None:
        """Raises 40001 for a row of the snapshot that another transaction has changed since then (REPEATABLE READ),
        whatever is under its key now. The lock of a new row is not waited for, and the transaction's own new row is not
        the old one."""
        newest = self._store.newest(key)
        if newest is None or newest[0] <= self.snapshot_lsn or self._base.get(key) is None:
            return
        if newest[1] is None or strength != KEY_SHARE:
            what = "update" if newest[1] is not None or self._has_moved(key, newest[0]) else "delete"
            raise SqlError("40001", f"could not serialize access due to concurrent {what}")

    def get_to_change(self, key: bytes, current: bool = False) -> bytes | None:
        self._changing = key
        ticket, self._wait_to_change = self._wait_to_change, None
        if ticket is None or ticket.error is not None or self._loose is None or self._loose[0] != key:
            self._loose = key, self.row_locks.get(key, 0)
        try:
            return self.get_locked(key, NO_KEY_UPDATE, current=current)
        except LockWait as wait:
            self._wait_to_change = wait.ticket
            raise

    def strengthen(self, key: bytes) -> None:
        """PostgreSQL computes the new values first, and then locks once (heap_update)."""
        row, before = self._loose or (b"", 0)
        is_new = row == key and not before & (NO_KEY_UPDATE | UPDATE) and not self.row_locks[key] & UPDATE
        if is_new and self._row_space.would_block(self, key, UPDATE):
            if before:
                self._row_space.restore(self, self.row_locks, key, before)
            else:
                self._leave(key)
        self.lock(key, UPDATE)

    def _is_another(self, key: bytes) -> bool:
        """Whether the present row under the key is not the one that the statement has found there (READ COMMITTED):
        that one was deleted or has moved (`get_moved`), and another was inserted since."""
        lsn = self._row_space.renewed[key]
        return lsn > (self.snapshot_lsn if self._first_lsn is None else self._first_lsn)

    def get_moved(self, key: bytes, strength: int, wait: str = "block") -> tuple[bytes, bytes | None]:
        """See the interface."""
        value = None
        while value is None and (new_key := self.moved_to(key)) is not None:
            self._refuse_in_other_partition(key)
            key = new_key
            if strength == NO_KEY_UPDATE and wait == "block":
                value = self.get_to_change(key, current=True)
            else:
                value = self.get_locked(key, strength, wait, current=True)
        if value is not None:
            self._arrived.add(key)
        return key, value

    def moved_to(self, key: bytes) -> bytes | None:
        """The new key of the row that has moved from this one; None if it was deleted."""
        newest = self._store.newest(key)
        if newest is None or not newest[0] > self.snapshot_lsn or not self._has_moved(key, newest[0]):
            return None
        new_key = self._row_space.moved[key][0]
        return None if new_key == key else new_key

    def _refuse_awaited(self) -> None:
        """The statement that begins may have waited for a row."""
        ticket, self._awaited = self._awaited, None
        if ticket is not None and ticket.error is None and isinstance(ticket.name, bytes):
            self._refuse_in_other_partition(ticket.name)

    def _refuse_in_other_partition(self, key: bytes) -> None:
        """Raises 40001 for a row that has moved to another partition since the snapshot (heapam_tuple_lock)."""
        new_key, lsn = self._row_space.moved.get(key, (key, 0))
        if new_key[:PREFIX_BYTES] != key[:PREFIX_BYTES] and lsn > self.snapshot_lsn:
            raise SqlError(
                "40001", "tuple to be locked was already moved to another partition due to concurrent update"
            )

    def _has_moved(self, key: bytes, lsn: Lsn) -> bool:
        """Whether the commit of that LSN gave another key to the row that was under this key."""
        found = self._row_space.moved.get(key)
        return found is not None and found[1] == lsn

    def _get_written(self, key: bytes) -> bytes | Missing | None:
        """The transaction's own value under the key: single writes over its bulk runs, newer runs over older ones."""
        own = self.writes.get(key, MISSING)
        if own is MISSING:
            for run in reversed(self.runs):
                found = run.get(key)
                if found is not None:
                    return found.value
        return own

    def refuse_lost(self) -> None:
        """Called under REPEATABLE READ if a statement that runs again does not find the row that it waited for. Raises
        40001 if another transaction has deleted or moved the row since the snapshot: this transaction has got the lock
        on it, and has not changed it."""
        key = self._changing
        if key is None or key not in self.row_locks or self.has_written(key):
            return
        newest = self._store.newest(key)
        if newest is not None and newest[0] > self.snapshot_lsn:
            raise self._changed_error(key, newest)

    def _changed_error(self, key: bytes, newest: tuple[Lsn, bytes | None]) -> SqlError:
        """40001 for a row that another transaction has changed since the snapshot."""
        what = "update" if newest[1] is not None or self._has_moved(key, newest[0]) else "delete"
        return SqlError("40001", f"could not serialize access due to concurrent {what}")

    def newest(self, key: bytes) -> bytes | None:
        own = self._get_written(key)
        if not isinstance(own, Missing):
            return own
        newest = self._store.newest(key)
        if newest is None:
            return None
        if newest[0] > self._store.durable_lsn:
            self.met = self._store.sequenced_lsn
        return newest[1]

    def deferral(self) -> Deferred | None:
        """The deferred checks, None for a single statement."""
        if self.deferred is None and self.defers:
            self.deferred = Deferred()
        return self.deferred

    # ---- writing ------------------------------------------------------------------------------------------------

    def put(self, key: bytes, value: bytes | None) -> None:
        """Writes a value; None deletes."""
        writes = self.writes
        old = writes.get(key, MISSING)
        if old is MISSING:
            self._undo.append(key)
        else:
            self._undo.append((key, old))  # type: ignore[arg-type]
            if old is None and value is not None:
                self.note_key_change(None, key)
        writes[key] = value
        self.held = held = self.held + (WRITE_BYTES if value is None else WRITE_BYTES + len(value))
        if held > self.held_up_to:
            self._hold(held)
        if self._ordered is not None and old is MISSING:
            self._ordered.add(key)

    def take_new(self, keys: Sequence[bytes]) -> bool:
        """Locks keys without duplicates that are new: nobody holds a lock of them, and no version of them exists, not
        even a deletion. False: one is not new, and nothing has happened."""
        if self.runs or not self.writes.keys().isdisjoint(keys) or not self._row_space.all_free(keys):
            return False
        if not self._store.all_new(keys):
            return False
        self._row_space.take_free(self, self.row_locks, keys, UPDATE)
        return True

    def put_many(self, keys: Sequence[bytes], values: Sequence[bytes]) -> None:
        """`put` of pairs with distinct keys."""
        writes = self.writes
        if not writes.keys().isdisjoint(keys):
            for key, value in zip(keys, values, strict=True):
                self.put(key, value)
            return
        self._undo.extend(keys)
        writes.update(zip(keys, values, strict=True))
        self.held = held = self.held + WRITE_BYTES * len(keys) + sum(map(len, values))
        if held > self.held_up_to:
            self._hold(held)
        if self._ordered is not None:
            self._ordered.update(keys)

    def _hold(self, held: int) -> None:
        """Takes another block of the connection's account. Raises 53200."""
        if self.account is not None:
            block = max(held - self.held_up_to, BLOCK)
            self.account.take(block)
            self.held_up_to += block

    def _let_go(self) -> None:
        if self.account is not None:
            self.account.give(self.held_up_to - UNCOUNTED)
        self.held, self.held_up_to = 0, UNCOUNTED
        self.writes, self._undo, self._ordered = {}, [], None

    def delete(self, key: bytes) -> None:
        self.put(key, None)

    def move(self, key: bytes, new_key: bytes, value: bytes) -> None:
        """Writes a new version of a row under a new key."""
        self.put(key, None)
        self.put(new_key, value)
        self.note_key_change(key, new_key)

    def note_key_change(self, old_key: bytes | None, key: bytes) -> None:
        changes = self._key_changes
        if len(changes) >= 2 * MOVES_KEPT:
            del changes[:MOVES_KEPT]
        changes.append(KeyChange(len(self._undo), old_key, key))

    def refuse_if_read_only(self, command: str) -> None:
        """Raises 25006 for a command that writes in a read-only transaction."""
        if self.read_only:
            raise SqlError("25006", f"cannot execute {command} in a read-only transaction")

    def mark(self) -> int:
        return len(self._undo)

    def written_since(self, mark: int) -> list[bytes]:
        """The keys written singly after the mark, in order; one may occur several times."""
        return [item if isinstance(item, bytes) else item[0] for item in self._undo[mark:]]

    def own_value(self, key: bytes) -> object:
        """What it has written under a key; MISSING for nothing."""
        return self.writes.get(key, MISSING)

    def written_items(self) -> Iterable[tuple[bytes, bytes | None]]:
        """The keys and values that it has written."""
        return self.writes.items()

    def replaced_since(self, mark: int) -> Iterator[tuple[bytes, object]]:
        """The keys written singly after the mark, in order, with the values before; MISSING: it had not written one."""
        return ((item, MISSING) if isinstance(item, bytes) else item for item in self._undo[mark:])

    def rollback_to(self, mark: int) -> None:
        for view in self.views:
            view.note_rollback(mark)
        undo = self._undo
        writes = self.writes
        if self.waiting is not None:
            self._undone = frozenset(self.written_since(mark))
        while len(undo) > mark:
            item = undo.pop()
            key = item if isinstance(item, bytes) else item[0]
            value = writes[key]
            self.held -= WRITE_BYTES if value is None else WRITE_BYTES + len(value)
            if isinstance(item, bytes):
                del writes[key]
                if self._ordered is not None:
                    self._ordered.discard(key)
            else:
                writes[key] = item[1]
        changes = self._key_changes
        while changes and changes[-1].mark > mark:
            changes.pop()
        spare = (self.held_up_to - max(self.held, UNCOUNTED)) // BLOCK * BLOCK
        if spare > 0 and self.account is not None:
            self.account.give(spare)
            self.held_up_to -= spare

    # ---- savepoints ---------------------------------------------------------------------------------------------

    def savepoint(self, name: str, settings: SettingsState | None = None) -> None:
        self.savepoints.append(
            Savepoint(
                name,
                self.mark(),
                dict(self.changed_objects),
                len(self.runs),
                len(self.row_locks),
                len(self.table_locks),
                len(self._upgrades or ()),
                settings,
                len(self.dropped_storage),
                None if self.deferred is None else self.deferred.position(),
            )
        )

    def release_savepoint(self, name: str) -> None:
        """Forgets it and those set after it. Raises 3B001."""
        del self.savepoints[self._find(name) :]

    def rollback_to_savepoint(self, name: str) -> None:
        """Undoes the work after it, releases later locks, and keeps the savepoint. Raises 3B001."""
        index = self._find(name)
        point = self.savepoints[index]
        self._wait_to_change = None
        del self.savepoints[index + 1 :]
        self.rollback_to(point.mark)
        self.catalog = None  # made again, because the committed catalog may have changed
        self.changed_objects = dict(point.changed_objects)
        del self.dropped_storage[point.dropped_storage :]
        if self.deferred is not None:
            self.deferred.rollback_to(point.deferred or (0, {}, 0))
        for run in self.runs[point.runs :]:
            run.discard()
        del self.runs[point.runs :]
        self._release_after(self._row_space, self.row_locks, point.row_locks)
        self._release_after(self._table_space, self.table_locks, point.table_locks)
        self._restore_after(point.upgrades)

    def _find(self, name: str) -> int:
        for index in range(len(self.savepoints) - 1, -1, -1):
            if self.savepoints[index].name == name:
                return index
        raise SqlError("3B001", f'savepoint "{name}" does not exist')

    # ---- the end ------------------------------------------------------------------------------------------------

    @property
    def has_writes(self) -> bool:
        return bool(self.writes or self.runs or self.changed_objects)

    @property
    def drops(self) -> list[int]:
        """The storage ids whose keys its commit deletes."""
        kept = self.kept_storage
        return [item for item in self.dropped_storage if item not in kept] if kept else self.dropped_storage

    @property
    def has_snapshot(self) -> bool:
        return self._snapshot is not None

    def leave_session(self, writes: dict[bytes, bytes | None]) -> None:
        """It is prepared (engine/txn/two_phase.py): these are its writes, and it now only holds locks."""
        self.process_id = 0  # as PostgreSQL shows waiters for it
        if self.claimed:  # its runs become writes
            for key in writes:
                if key[:PREFIX_BYTES] in self.claimed:
                    self.lock(key, UPDATE)
            self._unclaim()
        self.writes, self.runs, self._undo, self._ordered = writes, [], [], None
        self.savepoints.clear()
        self._forget_kept()
        if self._snapshot is not None:
            self._snapshot.close()
            self._snapshot = None

    def stand_on(self, other: Transaction) -> None:
        """Takes over the dependencies of the other transaction: its commit must not survive what that one does not
        survive."""
        self._store = other._store

    def release(self) -> None:
        """Releases every lock, the snapshot and memory: after sequencing, or at rollback. A large transaction has no
        writes any more."""
        if self._key_changes:
            self._row_space.note_key_changes(self._key_changes, self._store)
            self._key_changes = []
        if self.held_up_to != UNCOUNTED:
            self._let_go()
        if self.claimed:
            self._unclaim()
        if self.row_locks:
            names = list(self.row_locks)
            self.row_locks = {}
            self._row_space.release(self, names)
        if self.table_locks:
            names = list(self.table_locks)
            self.table_locks = {}
            self._table_space.release(self, names)
        if self._kept is not None:
            self._forget_kept()
        if self._snapshot is not None:
            self._snapshot.close()
            self._snapshot = None
        # A session keeps its last transaction for a while: its files and pages must be released now.
        self._base = self._store.current
        if self.runs:
            self.runs = []

    def abort(self) -> None:
        """Discards the write set and releases everything."""
        if self.waiting is not None:
            self.waiting.cancel(SqlError("57014", "canceling statement due to user request"))
        for run in self.runs:
            run.discard()
        if self.serial is not None:
            self.serial.abort()
        self.runs = []
        self.writes = {}
        self._undo = []
        self._ordered = None
        self._key_changes = []
        self.release()
