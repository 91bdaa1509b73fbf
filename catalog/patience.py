"""Single calls that take long do not hold the thread that serves everybody.

    large_work(function, text, pattern)      in the code of row plans, around what may take long for one row alone

Where the main thread runs statements (`watch`), a timer interrupts such a call if it has a long text among its
arguments: after PATIENCE seconds with the exception that sends its statement to the columnar path, if that can take it,
and at its statement_timeout with 57014 where it cannot. A signal's handler runs in the main thread, between two steps
of Python or of its `re`, and raises only while the call runs: so nothing is left half done but what the call itself
makes. Elsewhere calls run to their end. A timer that is set stays set when its call ends, for the calls that follow:
setting it takes longer than most of them.
"""

from __future__ import annotations

import atexit
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
_set = False  # the timer is set


def watch() -> None:
    """From now on long calls of this thread, which must be the main one, are interrupted. Takes SIGALRM."""
    global _watched
    signal.signal(signal.SIGALRM, _alarm)
    atexit.register(
        signal.setitimer, signal.ITIMER_REAL, 0
    )  # at its end Python gives the signal back, which would kill
    _watched = get_ident() if main_thread().ident == get_ident() else 0


def large_work(function: Callable[..., Result], *arguments: object) -> Result:
    """What the function gives. Raises what its statement is to go on with elsewhere, 57014, and what it raises."""
    for value in arguments:
        if value.__class__ is str and len(value) > SHORT:
            break
    else:
        return function(*arguments)
    if _watched != get_ident():
        return function(*arguments)
    of_statement = meter()
    try:
        of_statement.at_work = perf_counter()
        if not _set:
            _set_timer(PATIENCE)
        return function(*arguments)
    finally:
        of_statement.at_work = 0.0


def _set_timer(seconds: float) -> None:
    global _set
    _set = True
    signal.setitimer(signal.ITIMER_REAL, seconds)


def _alarm(number: int, frame: FrameType | None) -> None:
    global _set
    _set = False
    of_statement = meter()
    if not of_statement.at_work:
        return
    due = of_statement.deadline if of_statement.elsewhere is None else of_statement.at_work + PATIENCE
    if not due:
        return
    if (left := due - perf_counter()) > 0:
        _set_timer(max(left, 0.001))
        return
    of_statement.at_work = 0.0
    if of_statement.elsewhere is not None:
        raise of_statement.elsewhere
    raise SqlError("57014", "canceling statement due to statement timeout")
