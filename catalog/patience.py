"""Single calls that take long do not hold the thread that serves everybody.

    large_work(function, text, pattern)      in the code of row plans, around what may take long for one row alone

Where the main thread runs statements (`watch`), a timer interrupts such a call: after PATIENCE seconds with the
exception that sends its statement to the columnar path, if that can take it, and at its statement_timeout with 57014
where it cannot. A signal's handler runs in the main thread, between two steps of Python or of its `re`, and raises only
while the call runs: so nothing is left half done but what the call itself makes. Elsewhere calls run to their end.
"""

from __future__ import annotations

import signal
from collections.abc import Callable
from threading import get_ident, main_thread
from time import perf_counter
from types import FrameType
from typing import TypeVar

from catalog.errors import SqlError
from catalog.memory import meter

PATIENCE = 0.1  # seconds
SHORT = 50  # characters: with so few the timer would cost more than it is worth

Result = TypeVar("Result")
_watched = 0  # the thread's identity, when it is watched


def watch() -> None:
    """From now on long calls of this thread, which must be the main one, are interrupted. Takes SIGALRM."""
    global _watched
    signal.signal(signal.SIGALRM, _alarm)
    _watched = get_ident() if main_thread().ident == get_ident() else 0


def large_work(function: Callable[..., Result], *arguments: object) -> Result:
    """What the function gives. Raises what its statement is to go on with elsewhere, 57014, and what it raises."""
    of_statement = meter()
    if len(arguments[0]) < SHORT or _watched != get_ident():  # type: ignore[arg-type]
        return function(*arguments)
    wait = PATIENCE
    if of_statement.elsewhere is None:
        if not of_statement.deadline:
            return function(*arguments)
        wait = max(of_statement.deadline - perf_counter(), 0.001)
    try:
        of_statement.at_work = True
        signal.setitimer(signal.ITIMER_REAL, wait)
        return function(*arguments)
    finally:
        of_statement.at_work = False
        signal.setitimer(signal.ITIMER_REAL, 0)


def _alarm(number: int, frame: FrameType | None) -> None:
    of_statement = meter()
    if of_statement.at_work:
        of_statement.at_work = False
        if of_statement.elsewhere is not None:
            raise of_statement.elsewhere
        raise SqlError("57014", "canceling statement due to statement timeout")
