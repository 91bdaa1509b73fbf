"""Interrupts long computations of statements, because they would block the thread of all sessions.

`watch` starts a timer of the process's processor time (ITIMER_PROF), which sends a signal every TICK seconds. The
signal's handler runs in the main thread, between two steps of Python or of its `re` module, and searches the stack for
the frame that the computation belongs to:

    plan          the function of a row plan, with its meter (catalog/memory.py) in the local `memory`. After PATIENCE
                  the handler raises the exception that moves the statement to the columnar path. If that path cannot
                  run it, the statement ends at its statement_timeout with 57014, or after STAYS with 54000
    fold(..)      a call while a statement is planned. After FOLDING the handler raises TooLong, and the call is made
                  when the statement runs, for a columnar query in the worker
    FIRST         functions that compute constants before the first row, so that errors come first
                  (engine/execute/constants.py). After FOLDING the handler raises TooLong, and an error comes when the
                  value is computed
    anything else that is pure, with any caller: after LIMIT the statement ends with 54000

The handler interrupts only pure code: all frames between the found one and the current step are of modules that compute
and have no state (`PURE`), so an interrupted call leaves nothing incomplete but its own result. Otherwise the handler
waits for the next tick. An idle server has no ticks, and short calls have no cost.

The handler cannot interrupt a long step of C. Such steps are limited by the size of their arguments
(catalog/memory.py: HEAVY), or call `long_step` first.
"""

from __future__ import annotations

import atexit
import os
import signal
import sys
import threading
from collections.abc import Callable, Sequence
from threading import get_ident, main_thread
from time import perf_counter, thread_time
from types import CodeType, FrameType
from typing import TypeVar

from catalog.errors import SqlError
from catalog.memory import Meter

# Seconds of processor time, so that a busy machine does not make a call look long. Only deadlines use the wall clock.
TICK = 0.02
PATIENCE = 0.08  # from the first tick that finds the plan's frame
FOLDING = 0.03  # for all folding of one statement
LIMIT = 0.15  # for one call
STAYS = 1.0  # for a plan that no other path can run: it may have many rows
PLAN = "<row plan"  # begins the file names of generated code
QUICK = 100  # characters; calls with longer arguments are not folded on a thread that is not watched

Result = TypeVar("Result")
_watched = 0  # the identity of the watched thread; 0: none
_since = 0.0  # the thread's processor time at the first tick within the present frame


class TooLong(Exception):  # noqa: N818 - not an error: it is computed later
    """Raised by a computation that takes too long while its statement is planned or before its first row."""


def watch() -> None:
    """Starts the timer, whose handler interrupts long calls of this thread. Uses SIGPROF. Does nothing on a thread
    other than the main thread."""
    global _watched
    if main_thread().ident != get_ident():
        return
    signal.signal(signal.SIGPROF, _tick)
    signal.siginterrupt(signal.SIGPROF, False)
    atexit.register(unwatch)  # at its exit Python restores the default action of the signal, which ends the process
    signal.setitimer(signal.ITIMER_PROF, TICK, TICK)
    _watched = get_ident()


def unwatch() -> None:
    """Stops the timer of `watch`."""
    global _watched
    signal.setitimer(signal.ITIMER_PROF, 0)
    _watched = 0


def is_watched() -> bool:
    """Whether the calling thread is watched."""
    return _watched == get_ident()


def beside_watched() -> bool:
    """Whether a thread is watched, and the calling thread is another one, which blocks it while it holds the
    interpreter lock."""
    return _watched not in (0, get_ident())


def note_pause() -> None:
    """Called when a computation goes on after a pause, in which others have run: its time begins again."""
    global _since
    _since = thread_time()


# ---- folding -------------------------------------------------------------------------------------------------------


class _Folded(threading.local):
    spent = 0.0


_folded = _Folded()


def begin_folding() -> None:
    """Called when the planning of a statement begins."""
    _folded.spent = 0.0


def fold(function: Callable[..., Result], arguments: Sequence[object]) -> Result:
    """Calls a function while its statement is planned, and returns the result. Raises TooLong, and the function's own
    errors."""
    if _folded.spent > FOLDING:
        raise TooLong
    began = thread_time()
    try:
        return function(*arguments)
    finally:
        _folded.spent += thread_time() - began


def quick(values: Sequence[object]) -> bool:
    """Whether a call with these arguments is short, if none of them is a pattern."""
    return all(value is None or value.__class__ in _SMALL or _is_short(value) for value in values)


_SMALL = frozenset((int, float, bool))


def _is_short(value: object) -> bool:
    return isinstance(value, str | bytes) and len(value) <= QUICK


# ---- long steps of C -----------------------------------------------------------------------------------------------


def long_step() -> None:
    """Called before a step of C that takes long. On the watched thread, raises TooLong within `fold` or FIRST, and
    within a plan the exception that moves the statement to the columnar path, or 54000 if that path cannot run it."""
    if _watched != get_ident():
        return
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        code = frame.f_code
        if code is _FOLD or code in FIRST:
            raise TooLong
        if (of_plan := _meter_of(frame)) is not None:
            if of_plan.away is not None:
                raise of_plan.away
            raise too_long()
        frame = frame.f_back


def too_long() -> SqlError:
    return SqlError(
        "54000",
        "statement blocks the server for too long",
        detail="It cannot run in the analytic worker, and no other statement is answered while it runs.",
        hint="Give the function smaller values, or compute them in a query of its own.",
    )


# ---- the timer -----------------------------------------------------------------------------------------------------

_HERE = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
_LIBRARY = os.path.dirname(os.__file__) + os.sep
# Folders and files of modules that compute and have no state, relative to the folder of the packages.
PURE = (
    "catalog/functions/", "catalog/types/", "catalog/text_search/", "catalog/collations.py", "catalog/icu.py",
    "catalog/encodings.py", "catalog/identifiers.py", "catalog/text_caches.py", "engine/execute/aggregates.py",
    "engine/execute/array_expressions.py", "engine/execute/closures.py", "engine/execute/expressions.py",
    "engine/execute/operations.py",
    "engine/execute/row_order.py", "engine/execute/output.py", "engine/execute/python_sides.py",
    "engine/execute/records.py", "engine/execute/small.py", "engine/execute/values.py",
)  # fmt: skip
_PURE_LIBRARY = (
    "re/",
    "json/",
    "_pydecimal",
    "decimal",
    "zoneinfo/",
    "datetime",
    "fractions",
    "bisect",
    "heapq",
    "uuid",
)
_NOT_PURE = ("catalog/functions/registry.py", "catalog/functions/added.py", "catalog/types/user.py")
_ROWS = (f"{_HERE}engine/execute/", f"{_HERE}engine/storage/", f"{_HERE}engine/txn/", f"{_HERE}engine/bulk/")
_kinds: dict[CodeType, bool] = {}


def _is_pure(code: CodeType) -> bool:
    known = _kinds.get(code)
    if known is None:
        if len(_kinds) > 10_000:
            _kinds.clear()
        known = _kinds[code] = code is _FOLD or _looks_pure(code.co_filename)
    return known


def _looks_pure(file: str) -> bool:
    if file.startswith(_HERE):
        inside = file[len(_HERE) :]
        return inside.startswith(PURE) and inside not in _NOT_PURE
    if file.startswith(_LIBRARY):
        return file[len(_LIBRARY) :].startswith(_PURE_LIBRARY)
    return file == "<string>" or file.startswith(PLAN)


def _meter_of(frame: FrameType) -> Meter | None:
    """The meter of a plan, if the frame is that of its function."""
    code = frame.f_code
    if not (code.co_filename.startswith(PLAN) or code in PLANS):
        return None
    if "memory" not in code.co_varnames and "memory" not in code.co_cellvars:
        return None
    found = frame.f_locals.get("memory")
    return found if isinstance(found, Meter) else None


PLANS: set[CodeType] = set()  # functions that run plans and are not generated
FIRST: set[CodeType] = set()  # functions that compute constants before the first row
_FOLD = fold.__code__


def _tick(number: int, interrupted: FrameType | None) -> None:
    global _since
    frame, pure = interrupted, True
    root: FrameType | None = None
    of_plan: Meter | None = None
    while frame is not None:
        code = frame.f_code
        if code is _FOLD or code in FIRST:
            break
        if (of_plan := _meter_of(frame)) is not None:
            break
        if code.co_name == "run" and code.co_filename.startswith(PLAN):
            return  # a plan without long calls: it reads and writes rows, which takes time with their size
        if pure and _is_pure(code):
            root = frame
        elif pure:
            pure = False
            if code.co_filename.startswith(_ROWS):  # reads or writes rows, as above
                root = None
        frame = frame.f_back
    region = frame or root
    if region is None:
        return
    if region.f_trace_lines:  # unused without tracing: False marks a frame that a tick has found before
        region.f_trace_lines = False
        _since = thread_time()
        return
    if not pure and frame is not None:
        return
    took = thread_time() - _since
    if frame is None:
        if took >= LIMIT:
            raise too_long()
    elif of_plan is None:
        if took + (_folded.spent if frame.f_code is _FOLD else 0.0) >= FOLDING:
            raise TooLong
    elif of_plan.away is not None:
        if took >= PATIENCE:
            raise of_plan.away
    elif of_plan.deadline and perf_counter() >= of_plan.deadline:
        raise SqlError("57014", "canceling statement due to statement timeout")
    elif took >= STAYS:
        raise too_long()
