"""Which calls of Python functions are under way in the worker, of which queries, and how they are ended.

DuckDB asks for nothing while a function runs, and calls one for 2,048 rows at once; while it plans a query it goes on
where a call has failed. So a query that is stopped while its functions are called is ended here: its call is left by an
exception between two of its steps (PyThreadState_SetAsyncExc), as often as it takes, and no other one begins. A single
step of C, one search by a regular expression above all,
keeps the interpreter and cannot be left: then the worker does not hear that it is to cancel something, and the engine
puts another one in its place (engine/columnar/client.py). Nothing is left where Python's own code takes a lock or
gives it back (`_holds_locks`): an exception between a lock that was just taken and the block that gives it back would
leave it taken for good, and with the import lock every query would wait.

DuckDB does not say for which query it calls. On the thread that runs a query it is that one; on its other threads it is
one of those that ran when the call began. So these calls are left only where nothing else has ended the query for
PATIENCE, and where no table is being loaded. A query that loses a call of its own by that fails with `lost`, and the
engine runs it again.
"""

from __future__ import annotations

import contextlib
import ctypes
import importlib.machinery
import itertools
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from threading import get_ident
from time import monotonic
from types import FrameType
from typing import TypeVar

from catalog.errors import SqlError
from catalog.memory import UNLIMITED, meter

PATIENCE = 0.3  # seconds for which a call that may be another query's is left alone
LOST = "57P02"  # of a query whose call was ended with another query

Result = TypeVar("Result")
_running: dict[int, _Query] = {}
_threads: dict[int, int] = {}  # threads that run queries
_under_way: dict[int, _Call] = {}  # by thread
_left: dict[int, _Call] = {}  # by thread: the call that it is to leave, or has left, last
_interrupt = ctypes.pythonapi.PyThreadState_SetAsyncExc
_interrupt.argtypes = (ctypes.c_ulong, ctypes.py_object)
_numbers = itertools.count()
_LOCKS = frozenset(  # files whose code takes a lock in one step and is ready to give it back in another
    function.__code__.co_filename
    for function in (
        importlib.machinery.ModuleSpec.__init__,
        importlib.machinery.FileFinder.__init__,
        threading.Condition.__init__,
        contextlib.contextmanager,
    )
)
# Each step tells the frame in which each thread is. A `for` makes one without a chance for other threads to go on, as
# they have after a call.
_frames = itertools.starmap(sys._current_frames, itertools.repeat(()))
loading = False  # a table is made or changed: what is called may be for that


class Interrupted(BaseException):
    """A call is left."""


@dataclass(frozen=True, slots=True)
class _Query:
    memory: int  # bytes that values of it may take
    stopped: Callable[[], bool]


@dataclass(slots=True)
class _Call:
    number: int
    queries: frozenset[int]
    began: float  # on the monotonic clock
    loads: bool


@contextmanager
def of_query(identifier: int, memory: int, stopped: Callable[[], bool]) -> Iterator[None]:
    """The calling thread runs a query, values of which may take so many bytes."""
    thread = get_ident()
    _running[identifier], _threads[thread] = _Query(memory, stopped), identifier
    try:
        yield
    finally:
        _running.pop(identifier, None)
        _threads.pop(thread, None)


def call(function: Callable[[], Result]) -> Result:
    """Its result. It has a meter of memory, and may be left, or not begin: then this raises SqlError."""
    thread = get_ident()
    own = _threads.get(thread)
    known = _running.copy() if own is None else {own: _running[own]}
    this = _Call(next(_numbers), frozenset(known), monotonic(), own is None and loading)
    if known and not this.loads and all(query.stopped() for query in known.values()):
        raise SqlError("57014", "canceling statement due to user request")
    limit = max([query.memory for query in known.values()], default=UNLIMITED)
    while True:
        try:
            _under_way[thread] = this
            try:
                meter().begin(limit, None)
                return function()
            finally:
                # What interrupts a thread reaches it before its next step, so nothing does once this is done.
                _under_way.pop(thread, None)
        except Interrupted:
            if _left.get(thread) is this:
                raise SqlError(LOST, "the analytic worker has ended a call of this query with another query") from None
            # It was for the call before this one, which had just ended: once more.


def leave(query: int, since: float) -> None:
    """Interrupts the calls of a query that is stopped since then, on the monotonic clock. On one thread only."""
    late = monotonic() - PATIENCE
    for thread, this in list(_under_way.items()):
        if query not in this.queries or (len(this.queries) > 1 and max(this.began, since) > late) or this.loads:
            continue
        frame = sys._current_frames().get(thread)
        if frame is None or _holds_locks(frame):
            continue
        step = frame.f_lasti
        _left[thread] = this
        for frames in _frames:  # from here to the interrupt no other thread takes a step
            if thread in _under_way and frames[thread] is frame and frame.f_lasti == step:
                _interrupt(thread, Interrupted)
            break


def _holds_locks(frame: FrameType | None) -> bool:
    """Whether a call that is in this frame may be about to take a lock, or to give it back."""
    while frame is not None and frame.f_code is not call.__code__:
        if frame.f_code.co_filename in _LOCKS:
            return True
        frame = frame.f_back
    return False
