"""An object that a node keeps for clients, independent of a session: it ends when it is not used for its lifetime."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from catalog.errors import SqlError

LONGEST = 24 * 3600  # seconds


class Lease:
    """Calls `at_end` when the object was not used for `seconds`; on the engine's thread. Raises 22023."""

    def __init__(self, seconds: int, at_end: Callable[[], None]) -> None:
        if not 1 <= seconds <= LONGEST:
            raise SqlError("22023", f"the time must be from 1 to {LONGEST} seconds")
        self._seconds = seconds
        self._at_end = at_end
        self._users = 0
        self._timer: asyncio.TimerHandle | None = None
        self._begin()

    def _begin(self) -> None:
        self._timer = asyncio.get_running_loop().call_later(self._seconds, self._at_end)

    def _stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    @contextmanager
    def in_use(self) -> Iterator[None]:
        """The lease does not expire within this block."""
        self._users += 1
        self._stop()
        try:
            yield
        finally:
            self._users -= 1
            if not self._users:
                self._begin()

    def end(self) -> None:
        """Ends the lease without a call."""
        self._users += 1  # blocks that still run do not renew it
        self._stop()
