"""Decides which past can be read: the recent past in memory, and older moments from history.

Every TICK the LSN of the moment is noted. The tablespace keeps the versions that were visible at the oldest note within
the window (engine/storage/tablespace.py, `keep_from`). So every LSN of the window can be read at once. With several
tablespaces, a moment is one LSN in each.

For older moments, and across schema changes, `history` makes a directory with the requested state (engine/past/far.py).
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Sequence
from typing import TYPE_CHECKING, Protocol, TypeVar, cast

from catalog.errors import SqlError
from catalog.types import lookup, oids
from engine.foreground import foreground
from engine.node.old_snapshots import bound
from engine.past.nodes import PastNode, PastStore, PastStores, recent, store_at
from engine.storage.moments import LSN_MASK, Lsn, Moment, lsn_in
from engine.storage.stores import KeptJoints, Stores
from engine.storage.tablespace import Tablespace

if TYPE_CHECKING:
    from engine.node.node import Node

T = TypeVar("T")
TICK = 0.5  # seconds
WINDOW = 5.0  # seconds
TIMES_FOUND = 100


class History(Protocol):
    """The past that is kept beyond memory."""

    async def node_at(self, at: Lsn) -> PastNode | None:
        """The node at a moment; None if it is too old."""

    async def lsn_at(self, time: int) -> int | None:
        """The last LSN before the first commit later than a time (microseconds since 2000-01-01 UTC); None if it is too
        old."""

    async def time_of(self, lsn: int) -> int | None:
        """The commit time of an LSN; None if it is too old."""

    async def whole(self, lsn: int, time: int) -> Lsn | None:
        """The moment with pg_default at an LSN, and all other tablespaces at the commits up to its time. No transaction
        over several tablespaces is visible in part. None if it is too old."""

    def node_ready(self, at: Lsn) -> PastNode | None:
        """The node at a moment, if it is available without waiting."""

    def had_others(self, lsn: int) -> bool:
        """Whether a tablespace that may have existed at an LSN of pg_default has been dropped since, and is kept."""

    async def oldest(self) -> tuple[int, int] | None:
        """The oldest LSN that can be read, and its commit time (0: not known)."""

    async def close(self) -> None:
        """Closes everything."""


def past_of(node: Node) -> Past | None:
    """The past of a node, or None if it keeps none."""
    return cast("Past | None", node.past)


class Past:
    """The past of a node. `window` in seconds; with 0, memory keeps only the versions that readers need.

    A request is an LSN of pg_default, or a time. It is answered with a moment. Other tablespaces are read at the commit
    time of that LSN, or at the time, adjusted so that no transaction over several tablespaces is visible in part
    (engine/storage/joints.py, `whole`).
    """

    def __init__(self, node: Node, window: float = WINDOW, history: History | None = None) -> None:
        self._node = node
        self._window = window
        self._history = history
        self._since: dict[Tablespace, tuple[int, int]] = {}  # when it was first looked at, and its LSN then
        self._notes: deque[tuple[float, Lsn]] = deque()
        self._found: dict[tuple[int | None, int | None], Lsn] = {}  # the moments that had to be looked for
        self._timer: asyncio.TimerHandle | None = None
        self.look_at_spaces()

    def start(self) -> None:
        """Starts to keep the recent past. Runs in the node's event loop."""
        if isinstance(self._node.store, Stores):
            self.several(self._node.store)
        self._tick()

    def several(self, stores: Stores) -> None:
        """Called when the node gets several tablespaces."""
        if self._window > 0 and stores.noted is None:
            stores.noted = KeptJoints()

    async def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if self._history is not None:
            await self._history.close()

    def _tick(self) -> None:
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(TICK, self._tick)
        now, notes, store = loop.time(), self._notes, self._node.store
        for space in self._spaces():
            bound(self._node, space)
            if space.held:
                space.held = False
                foreground().collect()
        if not self._window:
            return
        self.look_at_spaces()
        notes.append((now, store.durable_lsn))
        while len(notes) > 1 and notes[1][0] <= now - self._window:
            notes.popleft()
        kept = notes[0][1]
        for space in self._spaces():
            space.keep_from(lsn_in(space.slot, kept))
        if isinstance(store, Stores) and store.noted is not None and isinstance(kept, Moment):
            store.noted.forget(kept)

    def _spaces(self) -> Sequence[Tablespace]:
        store = self._node.store
        return store.open_spaces() if isinstance(store, Stores) else [store]

    def look_at_spaces(self) -> None:
        """Called when a tablespace may be new. Its past is kept from now on."""
        for space in self._spaces():
            if space not in self._since:
                self._since[space] = self._node.clock(), space.durable_lsn
                if self._timer is not None and self._window:
                    space.keep_from(space.durable_lsn)

    # ---- LSNs and times -----------------------------------------------------------------------------------------

    async def lsn_at(self, time: int) -> int:
        """The LSN of pg_default at a time, in microseconds since 2000-01-01 UTC. Raises 22023 for the future, 72000 for
        a time that is not kept."""
        found = self.lsn_known(time)
        if found is None and self._history is not None:
            found = await _ask(self._history.lsn_at(time))
        if not found:  # 0: before the database was made
            raise await self._too_old(f"the state of {_show(time)} is no longer kept")
        return found

    def lsn_known(self, time: int) -> int | None:
        """The LSN at a time without waiting; None if it must be read from history."""
        if time > self._node.clock():
            raise SqlError("22023", "the future cannot be read", hint="The time is later than now.")
        return self._lsn_in(self._node.store.of(0), time) or None

    def _lsn_in(self, space: Tablespace, time: int) -> int | None:
        """The last LSN of a tablespace before the first commit later than a time, if memory has it."""
        found = space.lsn_at(time)
        if found is None and space.slot and space.first_timed_lsn == 1:
            return 0  # it is younger
        since = self._since.get(space)
        if found is None and since is not None and time >= since[0] and space.first_timed_lsn <= since[1] + 1:
            found = space.first_timed_lsn - 1  # nothing had been committed since the node had started
        return found

    async def time_of(self, lsn: int) -> int:
        """The commit time of an LSN of pg_default. Raises 22023, 72000."""
        space = self._node.store.of(0)
        self._check_reached(space, lsn)
        found = space.time_of(lsn)
        if found is None and self._history is not None:
            found = await _ask(self._history.time_of(lsn))
        if found is None:
            raise await self._too_old(f"the commit time of LSN {lsn} is no longer kept")
        return found

    def _check_reached(self, space: Tablespace, lsn: int) -> None:
        if not 1 <= lsn <= space.durable_lsn:  # 1 is the commit that makes the catalog
            raise SqlError("22023", f"there is no LSN {lsn}", hint=f"The newest is {space.durable_lsn}.")

    # ---- moments ------------------------------------------------------------------------------------------------

    async def at(self, lsn: int | None, time: int | None) -> Lsn:
        """The moment of an LSN of pg_default, or of a time (one of them is given). Raises 22023, 72000, 0A000."""
        known = self.at_known(lsn, time)
        if known is not None:
            return known
        if lsn is None:
            assert time is not None
            first, then = await self.lsn_at(time), time
        else:
            first, then = lsn, await self.time_of(lsn)
        found: Lsn | None = first
        if isinstance(self._node.store, Stores):
            found = self._known_moment(self._node.store, first, then)
            if found is None and self._history is not None:
                found = await _ask(self._history.whole(first, then))
        if found is None:
            raise await self._too_old(f"the state at LSN {first} is no longer kept")
        if len(self._found) >= TIMES_FOUND:
            self._found.clear()
        self._found[lsn, time] = found
        return found

    def at_known(self, lsn: int | None, time: int | None) -> Lsn | None:
        """The moment without waiting; None if it must be read from history. Raises 22023."""
        store = self._node.store
        first = lsn
        if first is None:
            assert time is not None
            first = self.lsn_known(time)
        found: Lsn | None = first
        if isinstance(store, Stores):
            then = time
            if lsn is not None:
                self._check_reached(store.of(0), lsn)
                then = store.of(0).time_of(lsn)
            found = None if first is None or then is None else self._known_moment(store, first, then)
        return self._found.get((lsn, time)) if found is None else found

    def _known_moment(self, stores: Stores, first: int, time: int) -> Moment | None:
        """The moment with pg_default at an LSN and the others at its time, if memory has it."""
        lsns = [first]
        for space in stores.spaces[1:]:
            found = LSN_MASK if space is None else self._lsn_in(space, time)
            if found is None or (space is not None and 0 < found < space.readable_from):
                return None
            lsns.append(found)
        if stores.noted is None or first < stores.of(0).readable_from:
            return None
        if self._history is not None and self._history.had_others(first):
            return None
        return stores.noted.whole(Moment(tuple(lsns)))

    # ---- nodes --------------------------------------------------------------------------------------------------

    def node_ready(self, at: Lsn) -> PastNode | None:
        """The node at a moment, if it is available without waiting."""
        found = self._recent(at)
        return found if found is not None or self._history is None else self._history.node_ready(at)

    def store_ready(self, at: Lsn) -> PastStore | PastStores | None:
        """The store of a moment in memory, if it has the present schema. The caller closes it."""
        if not self._node.commits.schema_version <= lsn_in(0, at) <= self._node.store.of(0).durable_lsn:
            return None
        try:
            return store_at(self._node.store, at)
        except SqlError:
            return None

    def show(self, node: PastNode, at: Lsn) -> bool:
        """Reuses a closed node of the recent past for another moment, if possible."""
        self._check_reached(self._node.store.of(0), lsn_in(0, at))
        return node.show(self._node, at)

    async def node_at(self, at: Lsn) -> PastNode:
        """The node at a moment, which the caller closes. Raises 22023 for a future moment, 72000 for one that is not
        kept."""
        found = self._recent(at)
        if found is None and self._history is not None:
            found = await _ask(self._history.node_at(at))
        if found is None:
            raise await self._too_old(f"the state at LSN {lsn_in(0, at)} is no longer kept")
        return found

    def _recent(self, at: Lsn) -> PastNode | None:
        """The node at a moment that is completely in memory. Raises 22023."""
        self._check_reached(self._node.store.of(0), lsn_in(0, at))
        try:
            return recent(self._node, at, whole=self._history is not None)
        except SqlError as error:
            if error.sqlstate != "72000":
                raise
            return None

    async def _too_old(self, message: str) -> SqlError:
        """72000, with the oldest moment that can be read."""
        space = self._node.store.of(0)
        lsn = space.readable_from
        oldest = (lsn, space.time_of(lsn) or 0)
        kept = None if self._history is None else await _ask(self._history.oldest())
        if kept is not None and kept[0] < lsn:
            oldest = kept
        when = f", committed at {_show(oldest[1])}" if oldest[1] else ""
        hint = f"The oldest that can be read is LSN {oldest[0]}{when}."
        if self._history is None:
            hint += " With history_retention the server keeps more."
        return SqlError("72000", message, hint=hint)


async def _ask(answer: Awaitable[T]) -> T:
    """Calls history. Raises 58030 for errors such as a store that does not answer."""
    try:
        return await answer
    except SqlError:
        raise
    except Exception as error:
        raise SqlError("58030", f"the past could not be read: {error}") from error


def _show(time: int) -> str:
    return lookup(oids.TIMESTAMPTZ).text_encoder()(time).decode()
