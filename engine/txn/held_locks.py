"""The locks that a transaction holds: it takes, claims and releases them, and restores them to a savepoint's state.

engine/txn/locks.py and engine/txn/row_locks.py have the lock spaces, which know the holders and waiters of all locks.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from typing import TYPE_CHECKING, NoReturn

from catalog.errors import SqlError
from engine.storage.keys import PREFIX_BYTES
from engine.txn.interface import KEY_SHARE, LockWait
from engine.txn.locks import ACCESS_SHARE, ROW_EXCLUSIVE, LockSpace, Ticket
from engine.txn.row_locks import RowLocks

if TYPE_CHECKING:
    from engine.storage.moments import Lsn
    from engine.storage.runs import BulkRun
    from engine.storage.stores import ObservedStores
    from engine.storage.tablespace import Tablespace
    from engine.txn.transaction import Savepoint

NOTHING_CLAIMED: frozenset[bytes] = frozenset()
GUARDS = ~(ACCESS_SHARE | ROW_EXCLUSIVE)
"""Modes of a table that lock more than the written rows."""


class LockHolder:
    """The part of a transaction that holds locks. `Transaction` sets the attributes."""

    __slots__ = (
        "_awaited",
        "_changing",
        "_first_lsn",
        "_row_space",
        "_store",
        "_table_space",
        "_undone",
        "_upgrades",
        "claimed",
        "guards",
        "met",
        "process_id",
        "row_locks",
        "runs",
        "savepoints",
        "snapshot_lsn",
        "table_locks",
        "waiting",
        "writes",
    )

    _awaited: Ticket | None
    _changing: bytes | None
    _first_lsn: Lsn | None
    _row_space: RowLocks
    _store: Tablespace | ObservedStores
    _table_space: LockSpace
    _undone: frozenset[bytes]
    _upgrades: list[tuple[LockSpace, Hashable, int]] | None
    claimed: frozenset[bytes]
    guards: bool
    met: Lsn
    process_id: int
    row_locks: dict[Hashable, int]
    runs: list[BulkRun]
    savepoints: list[Savepoint]
    snapshot_lsn: Lsn
    table_locks: dict[Hashable, int]
    waiting: Ticket | None
    writes: dict[bytes, bytes | None]

    def lock(self, key: bytes, strength: int, wait: str = "block") -> bool:
        held = self.row_locks.get(key)
        if held is not None and held >= strength:
            return True
        if wait != "block" and self._row_space.would_block(self, key, strength):
            if wait == "nowait":
                raise SqlError("55P03", "could not obtain lock on row in relation")
            return False
        if held is not None and self.savepoints:
            self._note_upgrade(self._row_space, key, held)
        ticket = self._row_space.acquire(self, self.row_locks, key, strength)
        if ticket is not None:
            self._awaited = ticket if strength == KEY_SHARE else None  # a foreign key has found the row
            raise LockWait(ticket)
        return True

    def lock_unchanged(self, keys: Sequence[bytes], strength: int, since: Lsn | None = None) -> bool:
        """See the interface. `since`: the LSN of the snapshot, if it is not that of the transaction."""
        if self.runs or self._first_lsn is not None or (self.writes and not self.writes.keys().isdisjoint(keys)):
            return False
        if not self._store.unchanged_since(keys, self.snapshot_lsn if since is None else since):  # type: ignore[arg-type]
            return False
        return self._row_space.take_all(self, self.row_locks, keys, strength)

    def wait_for_writer(self, key: bytes) -> None:
        """Raises LockWait if another running transaction has written the key."""
        ticket = self._row_space.wait_for_writer(self, key)
        if ticket is not None:
            raise LockWait(ticket)

    def has_written(self, key: bytes) -> bool:
        """Whether the transaction has written the key, singly or in bulk."""
        if self.waiting is not None and (key == self._changing or key in self._undone):
            return True  # it writes the key again when its wait is over
        return key in self.writes or self.has_in_runs(key)

    def lock_table(self, oid: Hashable, mode: int, wait: str = "block") -> None:
        """Locks a table (by OID), or a name that is about to be used, in one of the modes of engine/txn/locks.py.
        Raises LockWait, 40P01, 55P03."""
        space = self._table_space
        held = self.table_locks.get(oid)
        if held is not None and held & mode:
            return
        if wait == "nowait" and space.would_block(self, oid, mode):
            raise SqlError("55P03", "could not obtain lock on relation")
        if held is not None and self.savepoints:
            self._note_upgrade(space, oid, held)
        if mode & GUARDS:
            self.guards = True
        met = self.met
        ticket = space.acquire(self, self.table_locks, oid, mode)
        if ticket is not None:
            raise LockWait(ticket)
        if self.met != met:
            self._begin_anew(space, oid)  # its snapshot is older than its lock

    def meet(self, lsn: Lsn) -> None:
        """See engine/txn/locks.py. A transaction with one snapshot for all its statements keeps it."""
        if not lsn <= self._store.durable_lsn:
            self.met = self._store.sequenced_lsn

    def note_commit(self, lsn: Lsn) -> None:
        """Called before it releases its locks: the next holder of one of them must see its commit, or, without writes,
        the commits that it has seen. Rows that it has written have this information in their versions."""
        if not self.guards:
            return
        lsn = lsn or self.met
        durable = self._store.durable_lsn
        rows = self.row_locks.keys() - self.writes.keys()
        if rows:
            self._row_space.note_commit(rows, lsn, durable)
        tables = [name for name, modes in self.table_locks.items() if modes > ROW_EXCLUSIVE]
        if tables:
            self._table_space.note_commit(tables, lsn, durable)

    def unlock_table(self, oid: Hashable) -> None:
        """Releases a table lock that nothing has used yet."""
        if self.table_locks.pop(oid, 0):
            self._table_space.release(self, [oid])

    def claim(self, prefixes: Iterable[bytes]) -> None:
        """The keys of its runs under these storage ids are locked from now on, like single writes."""
        new = frozenset(prefixes) - self.claimed
        self.claimed |= new
        for prefix in new:
            self._row_space.claim(self, prefix)

    def has_in_runs(self, key: bytes) -> bool:
        return any(run.get(key) is not None for run in self.runs)

    @property
    def row_space(self) -> RowLocks:
        return self._row_space

    def _unclaim(self) -> None:
        self._row_space.unclaim(self, self.claimed)
        self.claimed = NOTHING_CLAIMED

    def let_go_after(self, count: int) -> None:
        """Releases the row locks except the first ones: their statement was undone."""
        self._release_after(self._row_space, self.row_locks, count)

    def _note_upgrade(self, space: LockSpace, name: Hashable, modes: int) -> None:
        if self._upgrades is None:
            self._upgrades = []
        self._upgrades.append((space, name, modes))

    def _restore_after(self, count: int) -> None:
        """Locks that became stronger after a savepoint get their former modes."""
        upgrades = self._upgrades
        while upgrades and len(upgrades) > count:
            space, name, modes = upgrades.pop()
            held = self.row_locks if space is self._row_space else self.table_locks
            if name in held:
                space.restore(self, held, name, modes)

    def _release_after(self, space: LockSpace, held: dict[Hashable, int], count: int) -> None:
        later = list(held)[count:]
        if self.claimed and space is self._row_space:  # what others have made locks of stays as long as its run
            later = [
                name
                for name in later
                if name[:PREFIX_BYTES] not in self.claimed or not self.has_in_runs(name)  # type: ignore[index, arg-type]
            ]
        for name in later:
            del held[name]
        space.release(self, later)

    def _begin_anew(self, space: LockSpace, name: Hashable) -> NoReturn:
        """Lets the statement run again, without a wait."""
        ticket = Ticket(space, name, self, 0)
        ticket.done = True  # there is nothing to wait for
        raise LockWait(ticket)
