"""Replaces a worker that does not answer messages.

The worker's reading thread answers at once, unless a call of a Python function holds the interpreter lock in one step
of C. A regular expression can do that for hours, and meanwhile the worker answers no other query. So such a worker is
replaced. A worker that only waits for a processor on a busy machine is not replaced.

The engine sends a question in these cases:

    a query is cancelled: repeatedly, until it has ended, because it may take the interpreter after the worker's answer
    a statement ends before its query was sent: it waited for the worker to read, or to load a table
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

from catalog.stillness import READY, state_of, thread_has_done

CANCEL_SECONDS = 0.6  # until the answer after a cancellation, not counting waits for a processor
PATIENCE_SECONDS = 3.0  # until other answers: other queries may hold the interpreter lock for a second
CANCEL_PATIENCE = 10.0  # until any answer, including waits for a processor
LAST_SECONDS = 0.1  # in which the engine's thread reads answers that arrived while it was busy
AGAIN_SECONDS = 0.5  # between an answer and the next question, while a cancelled query still runs


class Hearing:
    """Asks the worker and waits for its answers. `ask` sends the number of a question, which the answer contains.
    `replace` replaces a worker that does not answer."""

    def __init__(self, ask: Callable[[int], None], replace: Callable[[], None]) -> None:
        self._ask = ask
        self._replace = replace
        self._cancelled: set[int] = set()  # queries that have not ended
        self._number = 0  # of the last question
        self._unanswered = False
        self._timer: asyncio.TimerHandle | None = None

    def note_cancel(self, identifier: int, pid: int) -> None:
        """Called when the worker was told to cancel a query."""
        self._cancelled.add(identifier)
        self.ask(pid, CANCEL_SECONDS)

    def note_end(self, identifier: int) -> None:
        """Called when a query has ended, cancelled or not."""
        self._cancelled.discard(identifier)

    def ask(self, pid: int, seconds: float | None = None) -> None:
        """Sends a question, if none is unanswered."""
        if self._unanswered:
            return
        self._stop()
        self._number += 1
        self._unanswered = True
        self._ask(self._number)
        seconds = PATIENCE_SECONDS if seconds is None else seconds
        self._later(seconds, self._look, pid, seconds, time.monotonic(), _get_wait(pid))

    def note_answer(self, number: int, pid: int) -> None:
        """Called when the worker has answered."""
        if number == self._number:
            self._stop()
            self._unanswered = False
            if self._cancelled:
                self._later(AGAIN_SECONDS, self._once_more, pid)

    def clear(self) -> None:
        """Called when the worker has ended."""
        self._stop()
        self._unanswered = False
        self._cancelled.clear()

    def _stop(self) -> None:
        timer, self._timer = self._timer, None
        if timer is not None:
            timer.cancel()

    def _later(self, seconds: float, function: Callable[..., None], *arguments: object) -> None:
        self._timer = asyncio.get_running_loop().call_later(seconds, function, *arguments)

    def _once_more(self, pid: int) -> None:
        if self._cancelled:
            self.ask(pid)

    def _look(self, pid: int, seconds: float, since: float, waited: float) -> None:
        passed = time.monotonic() - since
        left = seconds - (passed - (_get_wait(pid) - waited))
        if left <= 0 and state_of(pid, pid) == READY:
            left = LAST_SECONDS  # it is ready now, and the system counts the wait only when the wait ends
        left = min(left, CANCEL_PATIENCE - passed)
        if left > 0:
            self._later(max(left, LAST_SECONDS), self._look, pid, seconds, since, waited)
        else:
            self._later(LAST_SECONDS, self._replace)


def _get_wait(pid: int) -> float:
    """Seconds for which the main thread of a process, which reads messages, has waited for processors."""
    return thread_has_done(pid, pid)[1]
