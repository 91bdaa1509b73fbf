"""Locks: who holds what, who waits for whom, and which wait would never end.

A `LockSpace` locks names (row and index keys as bytes; tables by OID) in modes that are bits; a table of masks says
which modes conflict. Two spaces exist: rows by `ROW_CONFLICTS` (PostgreSQL 16 manual, 13.3.2), and `TableLocks` by
`TABLE_CONFLICTS` (13.3.1), which knows that the modes of reading and writing rows never conflict with each other.

    held:  name -> the one transaction that holds it, when nobody waits          (nearly always: one dict entry a lock)
           name -> Contended(holders {transaction: modes}, waiters FIFO)         (shared, or waited for)

Nothing blocks here. `acquire` returns at once: None when the lock is held, a `Ticket` when it must be waited for. The
ticket is granted when the holders in its way have gone, in the order of arrival. A newcomer does not overtake a waiter
that it conflicts with, unless it already holds the lock in some mode (it would wait for itself), or it is a row's, and
no holder is in its way (heapam.c: only who has to wait stands in line).

Whoever finds that a unique key is there *looks on* (`wait_for_writer`): waits until nobody who has written under it
holds it, and then holds nothing.

The keys of a bulk insert are millions, and have no entries of their own: its transaction *claims* the storage ids of
its runs, and a key that a run has is locked as if there were an entry. Somebody who asks for such a key makes the
entry, and queues behind it.

Deadlocks are looked for when a wait begins: an edge goes from a waiter to every conflicting holder and to every earlier
waiter that it conflicts with; a path back to the newcomer is a cycle, and the newcomer gets 40P01. Since every wait
that closes a cycle is refused as it begins, there never is a cycle to find later.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from time import perf_counter_ns
from typing import TYPE_CHECKING, Protocol, cast

from catalog.durations import durations
from catalog.errors import SqlError
from engine.storage.keys import PREFIX_BYTES
from engine.txn.interface import KEY_SHARE, NO_KEY_UPDATE, SHARE, UPDATE
from engine.txn.serializable import SerializableSpace

if TYPE_CHECKING:
    from engine.storage.runs import BulkRun

LOOKS_ON = 0  # the mode of a ticket that gives no lock

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

MOVES_KEPT = 4096  # only the word in an error message depends on them

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


class Claimant(Owner, Protocol):
    """A transaction whose bulk runs lock the keys that they have."""

    runs: list[BulkRun]

    def has_in_runs(self, key: bytes) -> bool: ...

    def has_written(self, key: bytes) -> bool: ...


class Ticket:
    """A wait for a lock. `add_done_callback` is called on the engine's thread once: granted, or ended with `error`."""

    __slots__ = ("_callbacks", "began", "done", "error", "mode", "name", "owner", "space")

    def __init__(self, space: LockSpace, name: Hashable, owner: Owner, mode: int) -> None:
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
    __slots__ = ("holders", "waiters")

    def __init__(self) -> None:
        self.holders: dict[Owner, int] = {}
        self.waiters: deque[Ticket] = deque()


class LockSpace:
    """`held_modes` dicts live with their transactions: name -> modes, so that a release walks only its own."""

    def __init__(self, conflicts: Mapping[int, int]) -> None:
        self.conflicts = conflicts
        self.serializable = SerializableSpace()  # of the transactions whose tables are locked here
        self.moved: dict[Hashable, bytes] = {}  # rows that got another key lately: what becomes of them is told right
        self.waits = durations("shoal_lock_wait_seconds")  # of all spaces, until they end
        self._held: dict[Hashable, Owner | Contended] = {}
        self._claims: dict[bytes, list[Claimant]] = {}  # by storage id, as the prefix of its keys

    @property
    def held(self) -> int:
        """How many locks there are."""
        return len(self._held)

    # ---- keys that bulk runs lock -----------------------------------------------------------------------------------

    def claim(self, owner: Claimant, prefix: bytes) -> None:
        """From now on what the owner's runs have under a storage id is locked by it, in the mode UPDATE. Nobody else
        holds a lock of such a key (engine/bulk/claims.py)."""
        self._claims.setdefault(prefix, []).append(owner)

    def unclaim(self, owner: Claimant, prefixes: Iterable[bytes]) -> None:
        """The end of claims. What had to become locks of its own is released like any other."""
        for prefix in prefixes:
            others = [item for item in self._claims.pop(prefix) if item is not owner]
            if others:
                self._claims[prefix] = others

    def claimants(self, prefix: bytes, owner: Owner) -> list[Claimant]:
        """Who else has claims under a storage id."""
        return [item for item in self._claims.get(prefix, ()) if item is not owner]

    def held_by_others(self, prefix: bytes, owner: Owner) -> list[bytes]:
        """The keys under a storage id that somebody else has a lock of. Looks at every lock that there is."""
        return [
            name
            for name, place in self._held.items()
            if isinstance(name, bytes)
            and name.startswith(prefix)
            and place is not owner
            and not (isinstance(place, Contended) and place.holders.keys() <= {owner})
        ]

    def _enter_claim(self, name: bytes, asker: Owner) -> Owner | None:
        """Makes a lock of its own of a key that is locked by somebody else's claim; None for one that is not."""
        for owner in self._claims.get(name[:PREFIX_BYTES], ()):
            if owner is not asker and owner.has_in_runs(name):
                self._held[name] = owner
                owner.row_locks[name] = UPDATE
                return owner
        return None

    # ---- locks --------------------------------------------------------------------------------------------------

    def acquire(self, owner: Owner, held_modes: dict[Hashable, int], name: Hashable, mode: int) -> Ticket | None:
        """Takes the lock and returns None, or queues and returns the ticket. Raises 40P01.

        An owner waits for one ticket at a time: two of its own in one queue could stand around another's, and wait for
        each other through it.
        """
        assert owner.waiting is None, "a transaction that waits cannot ask for another lock"
        place = self._held.get(name)
        if place is None and not (self._claims and (place := self._enter_claim(name, owner))):  # type: ignore[arg-type]
            self._held[name] = owner
            held_modes[name] = mode
            return None
        if place is owner:
            held_modes[name] |= mode
            return None
        entry = self._contended(name, place)
        own = entry.holders.get(owner, 0)
        conflicts = self.conflicts[mode]
        if own & mode or not self._blocked(entry, owner, conflicts, mode, bool(own)):
            entry.holders[owner] = own | mode
            held_modes[name] = own | mode
            return None
        return self._queue(entry, Ticket(self, name, owner, mode), bool(own))

    def wait_for_writer(self, owner: Owner, name: bytes, is_there: bool = True) -> Ticket | None:
        """The ticket with which the owner looks on; None if nobody else who has written under the name holds it, or,
        where nothing `is_there` yet, nobody else who may bring it. Raises 40P01."""
        place = self._held.get(name)
        if place is None and self._claims:
            place = self._enter_claim(name, owner)
        if place is None or place is owner:
            return None
        holders = cast("Iterable[Claimant]", place.holders if isinstance(place, Contended) else (place,))
        if not any(
            holder is not owner
            and (holder.has_written(name) if is_there else self._modes_of(holder, name) >= NO_KEY_UPDATE)
            for holder in holders
        ):
            return None
        return self._queue(self._contended(name, place), Ticket(self, name, owner, LOOKS_ON), False)

    def _queue(self, entry: Contended, ticket: Ticket, first: bool) -> Ticket:
        """Begins a wait. Raises 40P01."""
        owner = ticket.owner
        if first:
            entry.waiters.appendleft(ticket)
        else:
            entry.waiters.append(ticket)
        owner.waiting = ticket
        cycle = self._cycle(owner)
        if cycle:
            self.forget(ticket)
            owner.waiting = None
            raise deadlock(cycle)
        return ticket

    def all_free(self, names: Sequence[Hashable]) -> bool:
        """Whether nobody holds one of these locks, and no claim can have them."""
        return self._held.keys().isdisjoint(names) and not (
            self._claims and any(name[:PREFIX_BYTES] in self._claims for name in names)  # type: ignore[index]
        )

    def take_free(self, owner: Owner, held_modes: dict[Hashable, int], names: Sequence[Hashable], mode: int) -> None:
        """Takes locks that are all free."""
        self._held.update(dict.fromkeys(names, owner))
        held_modes.update(dict.fromkeys(names, mode))

    def note_move(self, key: Hashable, new_key: bytes) -> None:
        """A row gets another key, if its transaction commits."""
        if len(self.moved) >= MOVES_KEPT:
            del self.moved[next(iter(self.moved))]
        self.moved[key] = new_key

    def would_block(self, owner: Owner, name: Hashable, mode: int) -> bool:
        """Whether acquire would give a ticket now."""
        place = self._held.get(name)
        if place is None and self._claims:
            place = self._enter_claim(name, owner)  # type: ignore[arg-type]
        if place is None or place is owner:
            return False
        entry = self._contended(name, place)
        own = entry.holders.get(owner, 0)
        return not own & mode and self._blocked(entry, owner, self.conflicts[mode], mode, bool(own))

    def release(self, owner: Owner, names: Iterator[Hashable] | list[Hashable]) -> None:
        """Lets go of these locks, and grants what waited for them."""
        held = self._held
        for name in names:
            place = held.get(name)
            if place is owner:
                del held[name]
            elif isinstance(place, Contended):
                place.holders.pop(owner, None)
                self._grant(name, place)

    def restore(self, owner: Owner, held_modes: dict[Hashable, int], name: Hashable, modes: int) -> None:
        """The owner goes back to the modes that it had before, and who waited for the others may be granted."""
        held_modes[name] = modes
        place = self._held.get(name)
        if isinstance(place, Contended) and owner in place.holders:
            place.holders[owner] = modes
            self._grant(name, place)

    def forget(self, ticket: Ticket) -> None:
        """Takes a ticket out of its queue."""
        place = self._held.get(ticket.name)
        if isinstance(place, Contended) and ticket in place.waiters:
            place.waiters.remove(ticket)
            self._grant(ticket.name, place)

    def blockers(self, ticket: Ticket) -> list[int]:
        """The process ids of those for whom the ticket waits: holders, and waiters before it."""
        return list(dict.fromkeys(owner.process_id for owner in self._blockers(ticket)))

    def is_held_by(self, owner: Owner, name: Hashable) -> bool:
        """Whether the owner has the lock in some mode, whatever it waits for."""
        place = self._held.get(name)
        return place is owner or (isinstance(place, Contended) and owner in place.holders)

    def holders(self, name: Hashable) -> dict[Owner, int]:
        """Who holds it, with the modes; a lone owner's mode shows as 0 (its own dict has it)."""
        place = self._held.get(name)
        if place is None:
            return {}
        return dict(place.holders) if isinstance(place, Contended) else {place: 0}

    def _contended(self, name: Hashable, place: Owner | Contended) -> Contended:
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

    def _blocked(self, entry: Contended, owner: Owner, conflicts: int, mode: int, holds_some: bool) -> bool:
        for holder, modes in entry.holders.items():
            if holder is not owner and modes & conflicts:
                return True
        if holds_some or self.conflicts is ROW_CONFLICTS:
            return False
        return any(self.conflicts[ticket.mode] & mode for ticket in entry.waiters)

    def _grant(self, name: Hashable, entry: Contended) -> None:
        granted: list[Ticket] = []
        refused = 0
        # Who looks on comes first: it is in nobody's way.
        for ticket in sorted(entry.waiters, key=_gives_a_lock):
            conflicts = self.conflicts[ticket.mode]
            taken = any(modes & conflicts for holder, modes in entry.holders.items() if holder is not ticket.owner)
            if taken or (refused & conflicts and ticket.mode != LOOKS_ON):
                refused |= ticket.mode
                continue
            entry.waiters.remove(ticket)
            granted.append(ticket)
            if ticket.mode == LOOKS_ON:
                continue
            modes = entry.holders.get(ticket.owner, 0) | ticket.mode
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
        place = ticket.space._held.get(ticket.name)
        if not isinstance(place, Contended):
            return
        conflicts = ticket.space.conflicts[ticket.mode]
        for holder, modes in place.holders.items():
            if holder is not ticket.owner and modes & conflicts:
                yield holder
        for earlier in place.waiters:
            if earlier is ticket:
                return
            if earlier.owner is not ticket.owner and ticket.space.conflicts[earlier.mode] & ticket.mode:
                yield earlier.owner

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
            # Whoever stands before one that only queues, for the same mode, waits for none for whom that one does not.
            queues = not ticket.space.is_held_by(owner, ticket.name)
            for blocker in self._blockers(ticket):
                if blocker is start or blocker.process_id == start.process_id:  # a session may own by two names
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
    """The space of tables. Its weak modes (ACCESS SHARE, ROW SHARE, ROW EXCLUSIVE: nearly all there ever are) conflict
    with none of each other, so they are noted with their transactions only, until somebody asks for a stronger mode of
    the table: then they are gathered. (PostgreSQL's fast-path locks: src/backend/storage/lmgr/README.)
    """

    def __init__(self) -> None:
        super().__init__(TABLE_CONFLICTS)
        self._weak: set[Owner] = set()  # whoever may hold a mode that `_held` does not show

    @property
    def held(self) -> int:
        owners = set(self._weak)
        for place in self._held.values():
            owners.update(place.holders if isinstance(place, Contended) else (place,))
        return sum(len(owner.table_locks) for owner in owners)

    def acquire(self, owner: Owner, held_modes: dict[Hashable, int], name: Hashable, mode: int) -> Ticket | None:
        if name not in self._held:
            if mode <= ROW_EXCLUSIVE:
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

    def _gather(self, name: Hashable) -> None:
        """Shows who holds weak modes of a table that has been of no interest so far."""
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
        if holders and max(holders.values()) < SHARE_UPDATE_EXCLUSIVE:  # of no interest any more
            del self._held[name]
            self._weak.update(holders)


def deadlock(cycle: list[tuple[Owner, Owner]]) -> SqlError:
    """40P01 with PostgreSQL's kind of detail."""
    lines = [f"Process {a.process_id} waits for a lock; blocked by process {b.process_id}." for a, b in cycle]
    return SqlError("40P01", "deadlock detected", detail="\n".join(lines), hint="See server log for query details.")
