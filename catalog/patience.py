"""Interrupts long computations of statements, because they would block the thread of all sessions.

Where the main thread runs statements (`watch`), a timer of the process's processor time (ITIMER_PROF) interrupts it
every TICK. The signal's handler runs in the main thread, between two steps of Python or of its `re`, and looks at the
stack. What computes is told by its place in it:

    plan          the function of a row plan, with its meter (catalog/memory.py) in the local `memory`: after PATIENCE
                  it is left with the exception that sends its statement to the columnar path. Where that cannot take
                  it, it ends at its statement_timeout with 57014, or after STAYS with 54000
    fold(..)      while a statement is planned: after FOLDING it is left, and what was to be known is computed when the
                  statement runs; what is computed for a columnar query is left to the worker
    FIRST         what fails before the first row, if it fails (engine/execute/constants.py): after FOLDING it is left,
                  and fails when it is computed
    anything else that is pure, called by whatever: after LIMIT it ends with 54000

Only pure code is interrupted: between the place and the step are modules that compute and own nothing (`PURE`), so what
is left half done is what the call itself makes. Anything else is looked at again at the next tick. Nobody pays for that
but who computes: a server that does not work has no ticks, and short calls know nothing of it.

A step of C that takes long is not interrupted: what may be one is bounded by the size of what it is given, see
`Meter.heavy`, or asks first (`long_step`).
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

TICK = 0.02  # seconds of processor time, as everything here but deadlines
PATIENCE = 0.08  # from the first tick that meets it: a busy machine makes nothing look long
FOLDING = 0.03  # for all that one statement folds
LIMIT = 0.15  # of one call
STAYS = 1.0  # of a plan that nothing else can run: it may have many rows
PLAN = "<row plan"  # begins the file names of generated code
QUICK = 100  # characters: longer ones are not folded where nobody can interrupt

Result = TypeVar("Result")
_watched = 0  # the thread's identity, when it is watched
_since = 0.0  # when the region that was met last was met first


class TooLong(Exception):  # noqa: N818 - not an error: it is computed later
    """What was to be known while its statement is planned takes too long."""


def watch() -> None:
    """From now on long calls of this thread, which must be the main one, are interrupted. Takes SIGPROF."""
    global _watched
    if main_thread().ident != get_ident():
        return
    signal.signal(signal.SIGPROF, _tick)
    signal.siginterrupt(signal.SIGPROF, False)
    atexit.register(unwatch)  # then Python gives the signal back, which would kill
    signal.setitimer(signal.ITIMER_PROF, TICK, TICK)
    _watched = get_ident()


def unwatch() -> None:
    """The end of `watch`: the main thread runs statements no more."""
    global _watched
    signal.setitimer(signal.ITIMER_PROF, 0)
    _watched = 0


def is_watched() -> bool:
    """Whether the calling thread is."""
    return _watched == get_ident()


def beside_watched() -> bool:
    """Whether the calling thread is another one beside it, which holds it where it keeps the interpreter."""
    return _watched not in (0, get_ident())


# ---- folding -------------------------------------------------------------------------------------------------------


class _Folded(threading.local):
    spent = 0.0


_folded = _Folded()


def begin_folding() -> None:
    """A statement is planned."""
    _folded.spent = 0.0


def fold(function: Callable[..., Result], arguments: Sequence[object]) -> Result:
    """What a call gives that is computed while its statement is planned. Raises TooLong, and what it raises."""
    if _folded.spent > FOLDING:
        raise TooLong
    began = thread_time()
    try:
        return function(*arguments)
    finally:
        _folded.spent += thread_time() - began


def quick(values: Sequence[object]) -> bool:
    """Whether nothing can take long that has such arguments, if no pattern is among them."""
    return all(value is None or value.__class__ in _SMALL or _is_short(value) for value in values)


_SMALL = frozenset((int, float, bool))


def _is_short(value: object) -> bool:
    return isinstance(value, str | bytes) and len(value) <= QUICK


# ---- what must not begin here --------------------------------------------------------------------------------------


def long_step() -> None:
    """A step of C that takes long is about to begin. Raises what sends its statement elsewhere, if it is on the thread
    that serves everybody and can go."""
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
# Folders and files of modules that compute and own nothing, below the folder of the packages.
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
    """That of the function of a plan."""
    code = frame.f_code
    if not (code.co_filename.startswith(PLAN) or code in PLANS):
        return None
    if "memory" not in code.co_varnames and "memory" not in code.co_cellvars:
        return None
    found = frame.f_locals.get("memory")
    return found if isinstance(found, Meter) else None


PLANS: set[CodeType] = set()  # functions that run plans and are not generated
FIRST: set[CodeType] = set()  # those that compute what fails first
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
            return  # of a plan without calls that may take long: it reads and writes rows, as large as they are
        if pure and _is_pure(code):
            root = frame
        elif pure:
            pure = False
            if code.co_filename.startswith(_ROWS):  # the same
                root = None
        frame = frame.f_back
    region = frame or root
    if region is None:
        return
    if region.f_trace_lines:  # nobody traces: the mark that a tick has met it
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
