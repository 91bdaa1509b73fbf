"""Locks: holders, waiters, and detection of deadlocks.

A `LockSpace` locks names (row and index keys as bytes; tables by OID) in modes that are bits; a table of masks defines
the conflicts between modes. There are three spaces: rows by `ROW_CONFLICTS` (PostgreSQL 16 manual, 13.3.2;
row_locks.py), `TableLocks` by `TABLE_CONFLICTS` (13.3.1), which uses that the modes of reading and writing rows never
conflict with each other, and advisory locks.

    held:  name -> the one transaction that holds it, if nobody waits           (nearly always: one dict entry a lock)
           name -> Contended(holders {transaction: modes}, waiters FIFO)         (shared, or with waiters)

Nothing blocks here. `acquire` returns at once: None when the lock is held, a `Ticket` when the owner must wait. A
ticket is granted when the conflicting holders have ended, in the order of arrival. A newcomer does not overtake a
waiter that it conflicts with, unless the waiter waits for it: an owner that holds a mode which conflicts with a waiter
precedes that waiter (ProcSleep in PostgreSQL's proc.c). For a row, only owners that wait for a holder are in the queue
(heapam.c), and an owner that holds the lock in some mode comes first.

A lock is released when a commit is sequenced, but a snapshot shows only durable commits. So an owner that gets a lock
is informed of commits under it that are not durable yet (`Owner.meet`), and sees them from its next statement on. For a
written row, its version has this information; for other locks `note_commit` keeps the LSN until it is durable. An owner
that locks a table against writers waits until all commits are durable (engine/session/waits.py), so weak modes keep
nothing.

Deadlocks are detected when a wait begins: an edge goes from a waiter to every conflicting holder and to every earlier
conflicting waiter; a path back to the newcomer is a cycle. If another order of the queues has no cycle, they get that
order (deadlocks.py); otherwise the newcomer gets 40P01. So there never is a cycle to find later.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from time import perf_counter_ns
from typing import TYPE_CHECKING, Protocol

from catalog.durations import durations
from catalog.errors import SqlError
from engine.txn.deadlocks import orders_without_cycle, waits_behind
from engine.txn.interface import KEY_SHARE, NO_KEY_UPDATE, SHARE, UPDATE
from engine.txn.serializable import SerializableSpace

if TYPE_CHECKING:
    from engine.storage.moments import Lsn

LOOKS_ON = 0  # the mode of a ticket that grants no lock

ROW_CONFLICTS: Mapping[int, int] = {
    LOOKS_ON: UPDATE | NO_KEY_UPDATE,
    KEY_SHARE: UPDATE,
    SHARE: UPDATE | NO_KEY_UPDATE,
    NO_KEY_UPDATE: UPDATE | NO_KEY_UPDATE | SHARE,
    UPDATE: UPDATE | NO_KEY_UPDATE | SHARE | KEY_SHARE,
}

ACCESS_SHARE, ROW_SHARE, ROW_EXCLUSIVE, SHARE_UPDATE_EXCLUSIVE = 1, 2, 4, 8
TABLE_SHARE, SHARE_ROW_EXCLUSIVE, EXCLUSIVE, ACCESS_EXCLUSIVE = 16, 32, 64, 128

TABLE_CONFLICTS: Mapping[int, int] = {
    LOOKS_ON: 0,
    ACCESS_SHARE: ACCESS_EXCLUSIVE,
    ROW_SHARE: EXCLUSIVE | ACCESS_EXCLUSIVE,
    ROW_EXCLUSIVE: TABLE_SHARE | SHARE_ROW_EXCLUSIVE | EXCLUSIVE | ACCESS_EXCLUSIVE,
    SHARE_UPDATE_EXCLUSIVE: SHARE_UPDATE_EXCLUSIVE | TABLE_SHARE | SHARE_ROW_EXCLUSIVE | EXCLUSIVE | ACCESS_EXCLUSIVE,
    TABLE_SHARE: ROW_EXCLUSIVE | SHARE_UPDATE_EXCLUSIVE | SHARE_ROW_EXCLUSIVE | EXCLUSIVE | ACCESS_EXCLUSIVE,
    SHARE_ROW_EXCLUSIVE: ROW_EXCLUSIVE
    | SHARE_UPDATE_EXCLUSIVE
    | TABLE_SHARE
    | SHARE_ROW_EXCLUSIVE
    | EXCLUSIVE
    | ACCESS_EXCLUSIVE,
    EXCLUSIVE: 0xFF & ~ACCESS_SHARE,
    ACCESS_EXCLUSIVE: 0xFF,
}

TABLE_MODES: Mapping[str, int] = {
    "access share": ACCESS_SHARE,
    "row share": ROW_SHARE,
    "row exclusive": ROW_EXCLUSIVE,
    "share update exclusive": SHARE_UPDATE_EXCLUSIVE,
    "share": TABLE_SHARE,
    "share row exclusive": SHARE_ROW_EXCLUSIVE,
    "exclusive": EXCLUSIVE,
    "access exclusive": ACCESS_EXCLUSIVE,
}


class Owner(Protocol):
    """A transaction as the lock spaces see it."""

    process_id: int
    waiting: Ticket | None
    row_locks: dict[Hashable, int]  # name -> modes, for the space of rows
    table_locks: dict[Hashable, int]

    def meet(self, lsn: Lsn) -> None:
        """Called when it gets or requests a lock under which that LSN was committed: it sees that commit from now
        on."""


class Ticket:
    """A wait for a lock. `add_done_callback` is called on the engine's thread once: granted, or ended with `error`.
    `watched`: it waits for these holders only, whatever their modes are."""

    __slots__ = ("_callbacks", "began", "done", "error", "mode", "name", "owner", "space", "watched")

    def __init__(
        self, space: LockSpace, name: Hashable, owner: Owner, mode: int, watched: frozenset[Owner] | None = None
    ) -> None:
        self.watched = watched
        self.space = space
        self.name = name
        self.owner = owner
        self.mode = mode
        self.done = False
        self.began = perf_counter_ns()
        self.error: Exception | None = None
        self._callbacks: list[Callable[[], None]] = []

    def add_done_callback(self, callback: Callable[[], None]) -> None:
        if self.done:
            callback()
        else:
            self._callbacks.append(callback)

    def cancel(self, error: Exception) -> None:
        """Ends the wait with this error. Nothing happens if it is over already."""
        if not self.done:
            self.error = error
            self.space.forget(self)
            self.finish()

    def finish(self) -> None:
        self.done = True
        self.space.waits.add(perf_counter_ns() - self.began)
        self.owner.waiting = None
        callbacks, self._callbacks = self._callbacks, []
        for callback in callbacks:
            callback()


class Contended:
    """`looked_on`: there was a waiter whose ticket grants no lock."""

    __slots__ = ("holders", "looked_on", "waiters")

    def __init__(self) -> None:
        self.looked_on = False
        self.holders: dict[Owner, int] = {}
        self.waiters: deque[Ticket] = deque()


class LockSpace:
    """`held_modes` dicts belong to their transactions: name -> modes, so that a release walks only its own."""

    may_reorder = True  # the order of its queues may change to avoid a deadlock

    def __init__(self, conflicts: Mapping[int, int]) -> None:
        self.conflicts = conflicts
        self.serializable = SerializableSpace()  # of the transactions whose tables are locked here
        self.waits = durations("shoal_lock_wait_seconds")  # of all spaces, until they end
        self._held: dict[Hashable, Owner | Contended] = {}
        self._committed: dict[Hashable, Lsn] = {}  # by name, the last commit under it, while that may not be durable
        self._commits: deque[tuple[Lsn, list[Hashable]]] = deque()  # the same by LSN, oldest first

    @property
    def held(self) -> int:
        """The number of locks."""
        return len(self._held)

    def acquire(self, owner: Owner, held_modes: dict[Hashable, int], name: Hashable, mode: int) -> Ticket | None:
        """Takes the lock and returns None, or queues and returns the ticket. Raises 40P01.

        An owner waits for one ticket at a time: two tickets of one owner in a queue could wait for each other through
        another owner's.
        """
        assert owner.waiting is None, "a transaction that waits cannot ask for another lock"
        if self._committed:
            self._tell(owner, name)
        place = self._held.get(name)
        if place is None:
            self._held[name] = owner
            held_modes[name] = mode
            return None
        return self._acquire_taken(owner, held_modes, name, mode, place)

    def note_commit(self, names: Iterable[Hashable], lsn: Lsn, durable: Lsn) -> None:
        """Records the LSN of the commit for locks that are about to be released."""
        commits, committed = self._commits, self._committed
        while commits and commits[0][0] <= durable:
            at, gone = commits.popleft()
            for name in gone:
                if committed.get(name) == at:
                    del committed[name]
        if not lsn <= durable:
            noted = list(names)
            commits.append((lsn, noted))
            committed.update(dict.fromkeys(noted, lsn))

    def _tell(self, owner: Owner, name: Hashable) -> None:
        lsn = self._committed.get(name)
        if lsn is not None:
            owner.meet(lsn)

    def _acquire_taken(
        self, owner: Owner, held_modes: dict[Hashable, int], name: Hashable, mode: int, place: Owner | Contended
    ) -> Ticket | None:
        """`acquire` of a lock that is held."""
        if place is owner:
            held_modes[name] |= mode
            return None
        entry = self._make_contended(name, place)
        own = entry.holders.get(owner, 0)
        before = None
        if not own & mode and self._is_blocked(entry, owner, mode):
            before = self._place_in_queue(entry, owner, own, mode)
        if before is None:
            entry.holders[owner] = own | mode
            held_modes[name] = own | mode
            return None
        return self._queue(entry, Ticket(self, name, owner, mode), before)

    def _place_in_queue(self, entry: Contended, owner: Owner, own: int, mode: int) -> int | None:
        """The place of a newcomer in the queue; None: it need not wait. An owner that holds the lock in some mode
        precedes the first waiter for it."""
        ahead = 0
        for number, ticket in enumerate(entry.waiters if own else ()):
            if self.conflicts[ticket.mode] & own:
                if not self.conflicts[mode] & ahead and not self._kept_out(entry, owner, mode):
                    return None
                return number
            ahead |= ticket.mode
        return len(entry.waiters)

    def _queue(self, entry: Contended, ticket: Ticket, place: int) -> Ticket | None:
        """Begins a wait at a place of the queue; None if it ends at once. Raises 40P01."""
        owner = ticket.owner
        entry.waiters.insert(place, ticket)
        owner.waiting = ticket
        cycle = self._cycle(owner)
        if cycle:
            orders = orders_without_cycle(ticket)
            if orders is None:
                self.forget(ticket)
                owner.waiting = None
                raise deadlock(cycle)
            for order in orders:
                order[0].space._reorder(order)
        return None if ticket.done else ticket

    def _reorder(self, order: list[Ticket]) -> None:
        """Changes the order of the waiters for a lock."""
        name = order[0].name
        place = self._held[name]
        assert isinstance(place, Contended)
        place.waiters = deque(order)
        self._grant(name, place)

    def would_block(self, owner: Owner, name: Hashable, mode: int) -> bool:
        """Whether a holder or a waiter blocks the lock now."""
        place = self._held.get(name)
        if place is None or place is owner:
            return False
        entry = self._make_contended(name, place)
        return not entry.holders.get(owner, 0) & mode and self._is_blocked(entry, owner, mode)

    def release(self, owner: Owner, names: Iterator[Hashable] | list[Hashable]) -> None:
        """Releases these locks, and grants waiting tickets."""
        held = self._held
        for name in names:
            place = held.get(name)
            if place is owner:
                del held[name]
            elif isinstance(place, Contended):
                place.holders.pop(owner, None)
                self._grant(name, place)

    def restore(self, owner: Owner, held_modes: dict[Hashable, int], name: Hashable, modes: int) -> None:
        """Restores the owner's former modes, and grants tickets that waited for the others."""
        held_modes[name] = modes
        place = self._held.get(name)
        if isinstance(place, Contended) and owner in place.holders:
            place.holders[owner] = modes
            self._grant(name, place)

    def forget(self, ticket: Ticket) -> None:
        """Removes a ticket from its queue."""
        place = self._held.get(ticket.name)
        if isinstance(place, Contended) and ticket in place.waiters:
            place.waiters.remove(ticket)
            self._grant(ticket.name, place)

    def blockers(self, ticket: Ticket) -> list[int]:
        """The process ids that block the ticket: holders, and earlier waiters."""
        return list(dict.fromkeys(owner.process_id for owner in self._blockers(ticket)))

    def is_held_by(self, owner: Owner, name: Hashable) -> bool:
        """Whether the owner holds the lock in some mode."""
        place = self._held.get(name)
        return place is owner or (isinstance(place, Contended) and owner in place.holders)

    def holders(self, name: Hashable) -> dict[Owner, int]:
        """The holders with their modes; a lone owner's mode is 0 (its own dict has it)."""
        place = self._held.get(name)
        if place is None:
            return {}
        return dict(place.holders) if isinstance(place, Contended) else {place: 0}

    def _make_contended(self, name: Hashable, place: Owner | Contended) -> Contended:
        if isinstance(place, Contended):
            return place
        entry = Contended()
        entry.holders[place] = self._modes_of(place, name)
        self._held[name] = entry
        return entry

    def _modes_of(self, owner: Owner, name: Hashable) -> int:
        return self._held_by(owner)[name]

    def _held_by(self, owner: Owner) -> dict[Hashable, int]:
        return owner.row_locks if self.conflicts is ROW_CONFLICTS else owner.table_locks

    def _is_blocked(self, entry: Contended, owner: Owner, mode: int) -> bool:
        conflicts = self.conflicts[mode]
        return self._kept_out(entry, owner, mode) or any(conflicts & ticket.mode for ticket in entry.waiters)

    def _kept_out(self, entry: Contended, owner: Owner, mode: int) -> bool:
        """Whether another owner holds the lock in a conflicting mode."""
        conflicts = self.conflicts[mode]
        for holder, modes in entry.holders.items():  # noqa: SIM110 - any() takes longer: this is asked of every waiter
            if modes & conflicts and holder is not owner:
                return True
        return False

    def _grant(self, name: Hashable, entry: Contended) -> None:
        granted: list[Ticket] = []
        refused = 0
        # A ticket that grants no lock comes first, because it blocks no other.
        for ticket in sorted(entry.waiters, key=_gives_a_lock) if entry.looked_on else list(entry.waiters):
            mode = ticket.mode
            is_behind = mode != LOOKS_ON and refused & self.conflicts[mode]
            if is_behind or (
                self._kept_out(entry, ticket.owner, mode)
                if ticket.watched is None
                else not ticket.watched.isdisjoint(entry.holders)
            ):
                refused |= mode
                continue
            entry.waiters.remove(ticket)
            granted.append(ticket)
            if self._committed:
                self._tell(ticket.owner, name)
            if mode == LOOKS_ON:
                continue
            modes = entry.holders.get(ticket.owner, 0) | mode
            entry.holders[ticket.owner] = modes
            self._held_by(ticket.owner)[name] = modes
        if not entry.waiters:
            if not entry.holders:
                del self._held[name]
            elif len(entry.holders) == 1:
                self._held[name] = next(iter(entry.holders))
        for ticket in granted:
            ticket.finish()

    def _blockers(self, ticket: Ticket) -> Iterator[Owner]:
        yield from ticket.space.keeping_out(ticket)
        for earlier in ticket.space.queue(ticket):
            if earlier is ticket:
                return
            if waits_behind(ticket, earlier):
                yield earlier.owner

    def keeping_out(self, ticket: Ticket) -> Iterator[Owner]:
        """The holders that block a ticket."""
        place = self._held.get(ticket.name)
        if isinstance(place, Contended):
            if ticket.watched is not None:
                yield from ticket.watched & place.holders.keys()
                return
            conflicts = self.conflicts[ticket.mode]
            for holder, modes in place.holders.items():
                if holder is not ticket.owner and modes & conflicts:
                    yield holder

    def queue(self, ticket: Ticket) -> Sequence[Ticket]:
        """The waiters for the lock of a ticket, in order."""
        place = self._held.get(ticket.name)
        return place.waiters if isinstance(place, Contended) else ()

    def _cycle(self, start: Owner) -> list[tuple[Owner, Owner]]:
        """The edges of a cycle of waits through `start`, [] if there is none. Depth first; graphs here are small."""
        seen: set[int] = set()
        stack: list[tuple[Owner, list[tuple[Owner, Owner]]]] = [(start, [])]
        while stack:
            owner, path = stack.pop()
            if owner.waiting is None or id(owner) in seen:
                continue
            seen.add(id(owner))
            ticket = owner.waiting
            # A waiter that only queues for the same mode does not wait for owners for which an earlier one does not
            # wait.
            queues = not ticket.space.is_held_by(owner, ticket.name)
            for blocker in self._blockers(ticket):
                if blocker is start or blocker.process_id == start.process_id:  # a session may have two names as owner
                    return [*path, (owner, blocker)]
                other = blocker.waiting
                if other is not None and not (queues and _alike(other, ticket)):
                    stack.append((blocker, [*path, (owner, blocker)]))
        return []


def _gives_a_lock(ticket: Ticket) -> bool:
    return ticket.mode != LOOKS_ON


def _alike(one: Ticket, other: Ticket) -> bool:
    return one.name == other.name and one.mode == other.mode and one.space is other.space


class TableLocks(LockSpace):
    """The space of tables. Its weak modes (ACCESS SHARE, ROW SHARE, ROW EXCLUSIVE: nearly all locks) do not conflict
    with each other. So they are recorded only with their transactions, until a transaction requests a stronger mode of
    the table: then they are collected. (PostgreSQL's fast-path locks: src/backend/storage/lmgr/README.)
    """

    def __init__(self) -> None:
        super().__init__(TABLE_CONFLICTS)
        self._weak: set[Owner] = set()  # transactions that may hold a mode that `_held` does not show

    @property
    def held(self) -> int:
        owners = set(self._weak)
        for place in self._held.values():
            owners.update(place.holders if isinstance(place, Contended) else (place,))
        return sum(len(owner.table_locks) for owner in owners)

    def acquire(self, owner: Owner, held_modes: dict[Hashable, int], name: Hashable, mode: int) -> Ticket | None:
        if name not in self._held:
            if mode <= ROW_EXCLUSIVE:
                if self._committed:
                    self._tell(owner, name)
                held_modes[name] = held_modes.get(name, 0) | mode
                self._weak.add(owner)
                return None
            self._gather(name)
        return super().acquire(owner, held_modes, name, mode)

    def would_block(self, owner: Owner, name: Hashable, mode: int) -> bool:
        if name not in self._held:
            if mode <= ROW_EXCLUSIVE:
                return False
            self._gather(name)
        return super().would_block(owner, name, mode)

    def release(self, owner: Owner, names: Iterator[Hashable] | list[Hashable]) -> None:
        if not owner.table_locks:
            self._weak.discard(owner)
        if self._held:
            super().release(owner, names)

    def holders(self, name: Hashable) -> dict[Owner, int]:
        if name not in self._held:
            self._gather(name)
        return super().holders(name)

    def wait_for_lockers(
        self, owner: Owner, name: Hashable, mode: int, concerns: Callable[[Owner], bool] | None = None
    ) -> Ticket | None:
        """The ticket for a wait until those have ended who hold the table now in a mode that conflicts with this one,
        and whom it `concerns`; None if nobody does. It grants no lock and keeps nobody out (WaitForLockers in
        PostgreSQL's lmgr.c). Raises 40P01."""
        conflicts = self.conflicts[mode]
        holders = self.holders(name)
        watched = frozenset(
            holder
            for holder, modes in holders.items()
            if holder is not owner
            and (modes or holder.table_locks[name]) & conflicts
            and (concerns is None or concerns(holder))
        )
        if not watched:
            return None
        entry = self._make_contended(name, self._held[name])
        entry.looked_on = True
        return self._queue(entry, Ticket(self, name, owner, LOOKS_ON, watched), len(entry.waiters))

    def _gather(self, name: Hashable) -> None:
        """Collects the holders of weak modes of a table."""
        holders = {owner: modes for owner in self._weak if (modes := owner.table_locks.get(name, 0))}
        if len(holders) == 1:
            self._held[name] = next(iter(holders))
        elif holders:
            entry = self._held[name] = Contended()
            entry.holders = holders

    def _grant(self, name: Hashable, entry: Contended) -> None:
        super()._grant(name, entry)
        place = self._held.get(name)
        if isinstance(place, Contended):
            holders = {} if place.waiters else place.holders
        else:
            holders = {} if place is None else {place: place.table_locks[name]}
        if holders and max(holders.values()) < SHARE_UPDATE_EXCLUSIVE:  # no request for a strong mode is left
            del self._held[name]
            self._weak.update(holders)


def deadlock(cycle: list[tuple[Owner, Owner]]) -> SqlError:
    """The error 40P01 with a detail like PostgreSQL's."""
    lines = [f"Process {a.process_id} waits for a lock; blocked by process {b.process_id}." for a, b in cycle]
    return SqlError("40P01", "deadlock detected", detail="\n".join(lines), hint="See server log for query details.")
