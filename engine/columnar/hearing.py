"""Whether the worker hears that queries are cancelled.

Its reading thread says so at once, unless a call of a Python function keeps the interpreter in one step of C: a search
by a regular expression can for hours. Nobody else's queries are answered there meanwhile, so such a worker is replaced.
One that only waits for a processor, as on a machine that is full, is not.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable

CANCEL_SECONDS = 0.6  # in which a worker that has a processor hears
CANCEL_PATIENCE = 10.0  # the same, whether it has a processor or not
LAST_SECONDS = 0.1  # in which this thread reads what has come while it was at something else


class Hearing:
    """`replace`: puts another worker in the place of the one that does not hear."""

    def __init__(self, replace: Callable[[], None]) -> None:
        self._replace = replace
        self._timers: dict[int, asyncio.TimerHandle] = {}

    def expect(self, identifier: int, pid: int) -> None:
        """A worker is told that a query is cancelled."""
        self._wait(identifier, pid, time.monotonic(), _waited(pid), CANCEL_SECONDS)

    def heard(self, identifier: int) -> None:
        """It has said that it knows."""
        if (timer := self._timers.pop(identifier, None)) is not None:
            timer.cancel()

    def clear(self) -> None:
        """The worker is gone."""
        for identifier in list(self._timers):
            self.heard(identifier)

    def _wait(self, identifier: int, pid: int, since: float, waited: float, seconds: float) -> None:
        later = asyncio.get_running_loop().call_later
        self._timers[identifier] = later(seconds, self._look, identifier, pid, since, waited)

    def _look(self, identifier: int, pid: int, since: float, waited: float) -> None:
        passed = time.monotonic() - since
        left = min(CANCEL_SECONDS - (passed - (_waited(pid) - waited)), CANCEL_PATIENCE - passed)
        if left > 0:
            self._wait(identifier, pid, since, waited, max(left, LAST_SECONDS))
        else:
            later = asyncio.get_running_loop().call_later
            self._timers[identifier] = later(LAST_SECONDS, self._over, identifier)

    def _over(self, identifier: int) -> None:
        self._timers.pop(identifier, None)
        self._replace()


def _waited(pid: int) -> float:
    """Seconds for which the main thread of a process, which reads, has waited for processors (proc(5))."""
    with contextlib.suppress(OSError, ValueError), open(f"/proc/{pid}/schedstat", encoding="ascii") as file:
        return int(file.read().split()[1]) / 1e9
    return 0.0
