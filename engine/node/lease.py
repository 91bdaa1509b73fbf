"""Something that a node keeps for clients that are no one session: it goes away when nobody has used it for a while."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from catalog.errors import SqlError

LONGEST = 24 * 3600  # seconds


class Lease:
    """Calls `at_end` when nothing has used it for `seconds`; on the engine's thread. Raises 22023."""

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
        """As long as somebody is within, it does not run out."""
        self._users += 1
        self._stop()
        try:
            yield
        finally:
            self._users -= 1
            if not self._users:
                self._begin()

    def end(self) -> None:
        """Nobody waits for its end any more."""
        self._users += 1  # whoever still is within begins nothing anew
        self._stop()
