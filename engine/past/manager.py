"""Which past can be read: the recent one in memory, and what history keeps behind it.

Every TICK the LSN of the moment is noted, and the tablespace keeps what readers saw at the oldest note that is not
older than the window (engine/storage/tablespace.py, `keep_from`). So of the window every LSN can be read at once.
Behind it, and across changes of the schema, `history` makes a directory of what is asked for (engine/past/far.py).
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable
from typing import TYPE_CHECKING, Protocol, TypeVar

from catalog.errors import SqlError, not_supported
from catalog.types import lookup, oids
from engine.past.nodes import PastNode, recent
from engine.storage.tablespace import Tablespace

if TYPE_CHECKING:
    from engine.node import Node

T = TypeVar("T")
TICK = 0.5  # seconds
WINDOW = 5.0  # seconds
TIMES_FOUND = 100


class History(Protocol):
    """What is kept of the past beyond memory."""

    async def node_at(self, lsn: int) -> PastNode | None:
        """The node at an LSN; None for one that is too old. Raises XX001, 58030."""

    async def lsn_at(self, time: int) -> int | None:
        """The last LSN before the first commit that was later than a time (microseconds since 2000-01-01 UTC); None
        for one that is too old."""

    async def time_of(self, lsn: int) -> int | None:
        """The commit time of an LSN; None for one that is too old."""

    def node_ready(self, lsn: int) -> PastNode | None:
        """The node at an LSN, if it needs no waiting."""

    async def oldest(self) -> tuple[int, int] | None:
        """The oldest LSN that can be read, and its commit time (0: not known)."""

    async def close(self) -> None:
        """Lets go of everything."""


class Past:
    """Of a node. `window` in seconds; 0 keeps nothing in memory beyond what readers hold."""

    def __init__(self, node: Node, window: float = WINDOW, history: History | None = None) -> None:
        self._node = node
        self._window = window
        self._history = history
        self._since = (node.clock(), node.store.of(0).durable_lsn)
        self._notes: deque[tuple[float, int]] = deque()
        self._found: dict[int, int] = {}  # the LSNs of times that had to be looked for
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        """From now on the recent past is kept. In the node's event loop."""
        if self._window > 0:
            self._tick()

    async def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if self._history is not None:
            await self._history.close()

    def _tick(self) -> None:
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(TICK, self._tick)
        now, notes = loop.time(), self._notes
        space = self._node.store.of(0)
        notes.append((now, space.durable_lsn))
        while len(notes) > 1 and notes[1][0] <= now - self._window:
            notes.popleft()
        space.keep_from(notes[0][1])

    def _space(self) -> Tablespace:
        """Raises 0A000 where one moment is more than one LSN."""
        if not isinstance(self._node.store, Tablespace):
            not_supported("reading the past with several tablespaces")
        return self._node.store

    # ---- LSNs and times -----------------------------------------------------------------------------------------

    async def lsn_at(self, time: int) -> int:
        """The LSN of a time, in microseconds since 2000-01-01 UTC. Raises 22023 for the future, 72000 for what is not
        kept."""
        found = self.lsn_known(time)
        if found is None and self._history is not None:
            found = await _asked(self._history.lsn_at(time))
        if found is None:
            raise await self._too_old(f"the state of {_shown(time)} is no longer kept")
        if len(self._found) >= TIMES_FOUND:
            self._found.clear()
        self._found[time] = found
        return found

    def lsn_known(self, time: int) -> int | None:
        """The same, without waiting; None where that needs a look at history."""
        space = self._space()
        if time > self._node.clock():
            raise SqlError("22023", "the future cannot be read", hint="The time is later than now.")
        found = space.lsn_at(time)
        if found is None and time >= self._since[0] and space.first_timed_lsn <= self._since[1] + 1:
            found = space.first_timed_lsn - 1  # nothing had been committed since the node had started
        return self._found.get(time) if found is None else found

    async def time_of(self, lsn: int) -> int:
        """The commit time of an LSN. Raises 22023, 72000."""
        space = self._space()
        self._check_reached(space, lsn)
        found = space.time_of(lsn)
        if found is None and self._history is not None:
            found = await _asked(self._history.time_of(lsn))
        if found is None:
            raise await self._too_old(f"the commit time of LSN {lsn} is no longer kept")
        return found

    def _check_reached(self, space: Tablespace, lsn: int) -> None:
        if not 0 <= lsn <= space.durable_lsn:
            raise SqlError("22023", f"there is no LSN {lsn}", hint=f"The newest is {space.durable_lsn}.")

    # ---- nodes --------------------------------------------------------------------------------------------------

    def node_ready(self, lsn: int) -> PastNode | None:
        """As `node_at`, if that needs no waiting."""
        found = self._recent(lsn)
        return found if found is not None or self._history is None else self._history.node_ready(lsn)

    def show(self, node: PastNode, lsn: int) -> bool:
        """Makes a closed node of the recent past one at another LSN, if it can be."""
        space = self._space()
        self._check_reached(space, lsn)
        return node.show(space, self._node, lsn)

    async def node_at(self, lsn: int) -> PastNode:
        """The node at an LSN, to be closed. Raises 22023 for one that there is not yet, 72000 for one that is not kept,
        0A000."""
        found = self._recent(lsn)
        if found is None and self._history is not None:
            found = await _asked(self._history.node_at(lsn))
        if found is None:
            raise await self._too_old(f"the state at LSN {lsn} is no longer kept")
        return found

    def _recent(self, lsn: int) -> PastNode | None:
        """The node at an LSN of which memory still has everything. Raises 22023, 0A000."""
        space = self._space()
        self._check_reached(space, lsn)
        try:
            return recent(self._node, space, lsn, whole=self._history is not None)
        except SqlError as error:
            if error.sqlstate != "72000":
                raise
            return None

    async def _too_old(self, message: str) -> SqlError:
        """72000, with the oldest that can be read."""
        space = self._space()
        lsn = space.readable_from
        oldest = (lsn, space.time_of(lsn) or 0)
        kept = None if self._history is None else await _asked(self._history.oldest())
        if kept is not None and kept[0] < lsn:
            oldest = kept
        when = f", committed at {_shown(oldest[1])}" if oldest[1] else ""
        hint = f"The oldest that can be read is LSN {oldest[0]}{when}."
        if self._history is None:
            hint += " With history_retention the server keeps more."
        return SqlError("72000", message, hint=hint)


async def _asked(answer: Awaitable[T]) -> T:
    """What history says. Raises 58030 for what keeps it from that: a store that does not answer."""
    try:
        return await answer
    except SqlError:
        raise
    except Exception as error:
        raise SqlError("58030", f"the past could not be read: {error}") from error


def _shown(time: int) -> str:
    return lookup(oids.TIMESTAMPTZ).text_encoder()(time).decode()
