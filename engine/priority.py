"""Priorities of threads and processes: long work gets processors after short work.

The engine's thread answers point reads and commits. Threads of bulk statements use processors for as long as their
clients send. If there are fewer processors than threads, Linux divides the time evenly, and a point read waits for time
slices of other threads, some milliseconds each. So bulk threads are niced: they get less of a processor that others
need, and all of an idle one. The niceness is small and the same for all of them, because a thread that holds the
interpreter lock when it loses its processor keeps the engine's thread waiting until it runs again.

If niceness is not enough, work gives way completely: engine/foreground.py.

All of this needs Linux, where niceness belongs to a thread. Elsewhere these functions do nothing.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator, Set
from typing import ClassVar

PROCESSORS = frozenset(os.sched_getaffinity(0) if sys.platform == "linux" else ())  # that this process may use
NICEST = 19
NICENESS = 5  # a third of the time of a thread of niceness 0 that needs the same processor
REST = 10.0
IDLE = 0.01  # share of a processor; the engine's thread counts as using at least this
LOOK_SECONDS = 0.1
LONGEST_REST = 0.1  # seconds
TURN_NANOSECONDS = 100_000  # the shortest time slice that Linux allows; its default is some milliseconds
_SCHED_SETATTR = {"x86_64": 314, "aarch64": 274}  # the number of the system call; the C library has no function for it
_RESET_ON_FORK = 1


def stand_first() -> None:
    """Gives the calling thread a processor as soon as it wakes up. Linux (6.12 and later) lets a thread with short
    slices interrupt one with longer slices, if it has used no more than its share (sched(7), sched_setattr(2)). Threads
    that it starts have slices of the usual length. Elsewhere this does nothing."""
    call = _SCHED_SETATTR.get(os.uname().machine) if sys.platform == "linux" else None
    if call is None:
        return
    niceness = os.getpriority(os.PRIO_PROCESS, threading.get_native_id())
    wanted = _Attributes(ctypes.sizeof(_Attributes), os.SCHED_OTHER, _RESET_ON_FORK, niceness, 0, TURN_NANOSECONDS)
    ctypes.CDLL(None).syscall(call, 0, ctypes.byref(wanted), 0)


class _Attributes(ctypes.Structure):
    """struct sched_attr."""

    _fields_: ClassVar = [
        ("size", ctypes.c_uint32),
        ("policy", ctypes.c_uint32),
        ("flags", ctypes.c_uint64),
        ("nice", ctypes.c_int32),
        ("priority", ctypes.c_uint32),
        ("runtime", ctypes.c_uint64),
        ("deadline", ctypes.c_uint64),
        ("period", ctypes.c_uint64),
    ]


def stand_back() -> None:
    """Lowers the priority of the calling thread, and of threads that it starts. This cannot be undone: less niceness
    needs a privilege."""
    if sys.platform != "linux":
        return
    thread = threading.get_native_id()
    with contextlib.suppress(OSError):
        os.sched_setscheduler(thread, os.SCHED_BATCH, os.sched_param(0))
        os.setpriority(os.PRIO_PROCESS, thread, min(os.getpriority(os.PRIO_PROCESS, thread) + NICENESS, NICEST))


def stand_apart(process: int = 0, niceness: int | None = None) -> None:
    """Applies the niceness of a process (0: the calling one) that has started a session of its own, or another niceness
    for some time. Where Linux schedules sessions as groups (sched_autogroup), niceness counts within a session only."""
    process = process or os.getpid()
    with contextlib.suppress(OSError):
        if sys.platform != "linux" or os.getsid(process) != process:  # other processes share its session's group
            return
        found = os.getpriority(os.PRIO_PROCESS, process) if niceness is None else niceness
        with open(f"/proc/{process}/autogroup", "w", encoding="ascii") as file:
            file.write(str(found))


def keep_to(process: int, processors: Set[int]) -> None:
    """Moves all threads of a process to these processors."""
    with contextlib.suppress(OSError):  # it has ended
        for thread in os.listdir(f"/proc/{process}/task"):
            with contextlib.suppress(OSError, ValueError):
                os.sched_setaffinity(int(thread), processors)


_beside: set[int] = set()  # ids of processes
_given: tuple[Set[int], int | None] = PROCESSORS, None


@contextlib.contextmanager
def beside(process: int) -> Iterator[None]:
    """Registers a process that this one has started, until the block ends. It runs where `place_beside` says, and not
    on the processors of this process or of the thread that has started it."""
    _beside.add(process)
    try:
        _place(process)
        yield
    finally:
        _beside.discard(process)


def place_beside(processors: Set[int], niceness: int | None) -> None:
    """Moves the registered processes to these processors, with their own niceness or another one."""
    global _given
    _given = processors, niceness
    for process in tuple(_beside):
        _place(process)


def _place(process: int) -> None:
    processors, niceness = _given
    if processors:
        keep_to(process, processors)
    stand_apart(process, niceness)


class Pace:
    """Sleeps for heavy work in a thread of its own. Created on the engine's thread.

    `rest`: seconds of sleep for each second of work if the engine's thread is busy all the time, so that it gets the
    interpreter and processors. If it is less busy, the sleep is shorter. `check` is called now and then in the working
    thread, and may raise.
    """

    def __init__(self, rest: float = REST, check: Callable[[], None] = lambda: None) -> None:
        self._whole = self._rest = rest  # the initial value, until the engine's thread was measured
        self._check = check
        self._engine_clock = time.pthread_getcpuclockid(threading.get_ident())
        self._looked = (time.monotonic(), time.thread_time())
        self._worked = 0.0  # the working thread's clock at the end of the last pause

    def pause(self) -> None:
        """Sleeps for the work that the calling thread (always the same one) has done since the last call. Called every
        few milliseconds of work."""
        self._check()
        self._look()
        left = (time.thread_time() - self._worked) * self._rest
        while left > 0:
            time.sleep(min(left, LONGEST_REST))
            left -= LONGEST_REST
            self._check()
        self._worked = time.thread_time()

    def _look(self) -> None:
        """Measures now and then how busy the engine's thread is."""
        wall, used = self._looked
        now = time.monotonic()
        if now - wall >= LOOK_SECONDS:
            self._looked = now, time.clock_gettime(self._engine_clock)
            share = (self._looked[1] - used) / (now - wall)
            self._rest = self._whole * min(max(share, IDLE), 1.0)
