"""Tracks the running calls of Python functions in the worker, with their queries, and interrupts them.

DuckDB does not look for interrupts while a function runs, and calls a function for 2,048 rows at once; while it plans a
query it continues after a failed call. So this module ends the calls of a cancelled query: it raises an exception
between two bytecode instructions of the call (PyThreadState_SetAsyncExc), repeatedly until the query has ended, and
refuses further calls of the query. It cannot interrupt a single step of C (mostly a search by a regular expression),
which holds the interpreter lock: then the worker does not read the cancellation, and the engine replaces it
(engine/columnar/worker_answers.py). It does not interrupt Python's own code that takes or releases a lock
(`_holds_locks`): an exception between the taking of a lock and the block that releases it would leave the lock taken
for ever, and with the import lock taken every query would wait. Nor does it interrupt a thread that runs Python's
cyclic garbage collector: a call may collect at any step, also between the end of a block and the release of its lock,
and the finalizers that it then runs belong to other threads.

DuckDB does not say for which query it calls. On the thread that runs a query it calls for this query; on DuckDB's other
threads, for one of the queries that ran when the call began. So calls on the other threads are interrupted only if the
query has not ended for PATIENCE seconds, and if no table is being loaded. If that interrupts a call of another query,
the other query fails with `LOST`, and the engine runs it again.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
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

PATIENCE = 0.3  # seconds until a call that may belong to another query is interrupted
LOST = "57P02"  # the SQLSTATE of a query whose call was interrupted because of another query

Result = TypeVar("Result")
_running: dict[int, _Query] = {}
_threads: dict[int, int] = {}  # threads that run queries
_under_way: dict[int, _Call] = {}  # running calls, by thread
_left: dict[int, _Call] = {}  # the last call that was interrupted, by thread
_interrupt = ctypes.pythonapi.PyThreadState_SetAsyncExc
_interrupt.argtypes = (ctypes.c_ulong, ctypes.py_object)
_numbers = itertools.count()
_LOCKS = frozenset(  # files whose code takes a lock in one step, and protects it by a block in another
    function.__code__.co_filename
    for function in (
        importlib.machinery.ModuleSpec.__init__,
        importlib.machinery.FileFinder.__init__,
        threading.Condition.__init__,
        contextlib.contextmanager,
    )
)
# Each item maps threads to their current frames. A `for` gets an item without releasing the interpreter lock, which
# Python may release after a call.
_frames = itertools.starmap(sys._current_frames, itertools.repeat(()))
_collector = 0  # the thread that runs the garbage collector; Python runs it on one thread at a time
loading = False  # the applier makes or changes a table: a call may be for this task


class Interrupted(BaseException):
    """Raised in a thread to interrupt its call."""


@dataclass(frozen=True, slots=True)
class _Query:
    memory: int  # bytes that its values may take
    stopped: Callable[[], bool]


@dataclass(slots=True)
class _Call:
    number: int
    queries: frozenset[int]
    began: float  # on the monotonic clock
    loads: bool


@contextmanager
def of_query(identifier: int, memory: int, stopped: Callable[[], bool]) -> Iterator[None]:
    """Registers the query that the calling thread runs. Its values may take `memory` bytes."""
    thread = get_ident()
    _running[identifier], _threads[thread] = _Query(memory, stopped), identifier
    try:
        yield
    finally:
        _running.pop(identifier, None)
        _threads.pop(thread, None)


def call(function: Callable[[], Result]) -> Result:
    """Calls a function and returns its result. The call has a memory meter. Raises 57014 if the query is cancelled
    before the call, and `LOST` if the call is interrupted."""
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
                # An interrupt arrives before the thread's next step, so none can arrive after this one.
                _under_way.pop(thread, None)
        except Interrupted:
            if _left.get(thread) is this:
                raise SqlError(LOST, "the analytic worker has ended a call of this query with another query") from None
            # The interrupt was meant for the previous call, which had just ended: call again.


def leave(query: int, since: float) -> None:
    """Interrupts the calls of a query that was stopped at `since` (monotonic clock). Only one thread may call this."""
    late = monotonic() - PATIENCE
    for thread, this in list(_under_way.items()):
        if query not in this.queries or (len(this.queries) > 1 and max(this.began, since) > late) or this.loads:
            continue
        frame = sys._current_frames().get(thread)
        if frame is None or _holds_locks(frame):
            continue
        step = frame.f_lasti
        _left[thread] = this
        gc.disable()  # a finalizer on this thread would let the other one take steps between the look and the interrupt
        for frames in _frames:  # from here to the interrupt no other thread takes a step
            at_step = frames[thread] is frame and frame.f_lasti == step
            if at_step and thread in _under_way and thread != _collector:
                _interrupt(thread, Interrupted)
            break
        gc.enable()


def _holds_locks(frame: FrameType | None) -> bool:
    """Whether a call that is in this frame may be taking or releasing a lock, or begins or ends a collection."""
    while frame is not None and frame.f_code is not call.__code__:
        if frame.f_code.co_filename in _LOCKS or frame.f_code is _note_collection.__code__:
            return True
        frame = frame.f_back
    return False


def _note_collection(phase: str, counts: dict[str, int]) -> None:
    """Python calls this on the thread that collects, when a collection begins ("start") and ends ("stop")."""
    global _collector
    _collector = get_ident() if phase == "start" else 0


gc.callbacks.append(_note_collection)
