"""Long work gives way to short statements when these wait for processors.

Niceness (engine/priority.py) does not help a thread that wakes up while all processors are busy: the slowest point
reads wait for time slices of bulk threads, and of the client that sends the bulk data. When such waits are seen
(`Foreground`), COPY sleeps between small pieces and reads data no faster than it writes them, which slows its client
down too. The planning of long statements does the same. One such work runs at a time, because each needs the
interpreter lock, and a thread that releases the lock cannot choose the next one.

During that time this process stays on one processor. The analytic worker, and processes that write tables, get idle
time of the others. The reason is that Linux schedules sessions as groups. It gives a group time on a processor by the
group's recent use of that processor. A thread that answers and sleeps, while the group's bulk work ran on another
processor, had almost no recent use, and waited up to 30 ms. A second processor is of little use to one interpreter.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import gc
import os
import threading
import time
from collections.abc import Awaitable, Callable, Set
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import ParamSpec, TypeVar

from catalog.processes import Errand
from engine.priority import NICEST, PROCESSORS, keep_to, place_beside, stand_back

P = ParamSpec("P")
T = TypeVar("T")
REST_ASIDE = 8.0  # seconds for each second of work that gives way
SHORTEST_REST = 0.001  # seconds
LONGEST_TURN = 0.1  # seconds of a rest in which no other work begins
PRESSED_ANSWERS = 50  # a second, from which on there are short statements to give way to
PRESSED_WAITS = 0.05  # share of the time that the engine's thread waits for a processor; alone it is 0.02
PRESSED_LOOK = 0.02  # seconds between two looks
PRESSED_STALE = 0.5  # seconds after which a look is too old to be used
PRESUMED_SECONDS = 0.1  # for which work gives way to many short statements without a recent look at their waits
PRESSED_SECONDS = 5.0  # for which work then gives way, because the waits are short while it does
PRESSED_AGAIN = 1.0  # seconds after a period of giving way in which the next period lasts twice as long
LONGEST_PRESSED = 60.0
COLLECT_SECONDS = 60.0  # between two runs of the cyclic collector by `collect`


class Foreground:
    """The short statements of an engine's thread. The code that answers them counts them in `answered`, and bulk work
    asks whether to give way. On a machine with enough processors for both it never gives way.

    `waited`: nanoseconds for which the thread has waited for processors. All methods are called on that thread.
    `place`: the processors of the process, or None for a process that is not the engine's alone."""

    def __init__(
        self,
        waited: Callable[[], int] | None = None,
        clock: Callable[[], float] = time.monotonic,
        place: Place | None = None,
    ) -> None:
        self.answered = 0
        self.place = place
        self._waited = waited or _waited_for_processors
        self._clock = clock
        self._looked = (clock(), self._waited(), 0)
        self._until = clock() - PRESSED_AGAIN
        self._lasts = PRESSED_SECONDS
        self._presumed = clock()  # until when many short statements are enough, because their waits are unknown
        self._turn = asyncio.Lock()
        self._answered_then = 0
        self._collected = clock() - COLLECT_SECONDS

    @property
    def is_pressed(self) -> bool:
        """Whether bulk work is to give way now."""
        now = self._clock()
        before, waited, answered = self._looked
        passed = now - before
        if passed >= PRESSED_LOOK:
            self._looked = now, self._waited(), self.answered
            many = self.answered - answered >= PRESSED_ANSWERS * passed
            if passed >= PRESSED_STALE:
                self._presumed = now + PRESUMED_SECONDS if many else now
            elif many and self._looked[1] - waited > PRESSED_WAITS * passed * 1e9:
                if now >= self._until:
                    again = now < self._until + PRESSED_AGAIN
                    self._lasts = min(2 * self._lasts, LONGEST_PRESSED) if again else PRESSED_SECONDS
                self._until = now + self._lasts
                if self.place is not None:
                    self.place.gather(self._lasts)
        return now < self._until or now < self._presumed

    def collect(self) -> None:
        """Runs Python's cyclic collector if no short statement was answered in the seconds since the last call. It runs
        rarely, because it stops the thread while it visits all objects."""
        answered, self._answered_then = self._answered_then, self.answered
        now = self._clock()
        if answered == self.answered and now - self._collected >= COLLECT_SECONDS:
            self._collected = now
            gc.collect()

    async def aside(self, work: Callable[[], Awaitable[tuple[T, float]]]) -> T:
        """Awaits work in a thread, which returns its result and its processor seconds. While `is_pressed`, one such
        work runs at a time and sleeps long, so that all of it together gets a ninth of the time. After long work, such
        as the end of a large COPY, the sleep is longer than the delay that the work has caused."""
        if not self.is_pressed:
            return (await work())[0]
        async with self._turn:
            result, worked = await work()
            if (rest := worked * REST_ASIDE) >= SHORTEST_REST:
                await asyncio.sleep(min(rest, LONGEST_TURN))
        if rest > LONGEST_TURN:
            await asyncio.sleep(rest - LONGEST_TURN)
        return result


class Place:
    """The processors of this process. While it is gathered it runs on one, and the processes that it has started
    (engine/priority.py) get idle time of the others."""

    def __init__(self) -> None:
        self._end: asyncio.TimerHandle | None = None

    def gather(self, seconds: float) -> None:
        """Keeps the process on one processor for a time, counted from the last call."""
        if len(PROCESSORS) < 2:
            return
        if self._end is None:
            here = {_processor()}
            self._move(here, PROCESSORS - here, NICEST)
        else:
            self._end.cancel()
        self._end = asyncio.get_running_loop().call_later(seconds, self.scatter)

    def scatter(self) -> None:
        """Lets the process run on all processors again."""
        self._end = None
        self._move(PROCESSORS, PROCESSORS, None)

    def _move(self, own: Set[int], rest: Set[int], niceness: int | None) -> None:
        keep_to(os.getpid(), own)
        place_beside(rest, niceness)


def _processor() -> int:
    """The processor on which the calling thread runs."""
    with open("/proc/thread-self/stat", encoding="ascii") as file:
        return int(file.read().rpartition(")")[2].split()[36])  # proc(5), counted from the state on


def _waited_for_processors() -> int:
    """Nanoseconds for which the calling thread was ready but did not run (proc(5)), or 0 if that is unknown."""
    with contextlib.suppress(OSError, ValueError), open("/proc/thread-self/schedstat", encoding="ascii") as file:
        return int(file.read().split()[1])
    return 0


_of_thread = threading.local()


def foreground() -> Foreground:
    """The Foreground of the calling thread, which is an engine's thread."""
    found: Foreground | None = getattr(_of_thread, "foreground", None)
    if found is None:
        found = _of_thread.foreground = Foreground()
    return found


def time_call(function: Callable[[], T]) -> tuple[T, float]:
    """Runs a function, and returns its result and the processor seconds that it took."""
    began = time.thread_time()
    result = function()
    return result, time.thread_time() - began


_threads = ThreadPoolExecutor(max(len(PROCESSORS), 2), "aside", stand_back)


async def aside(function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Runs a function that takes milliseconds in a thread of low priority, which gives way to short statements
    (Foreground.aside). When it is cancelled, its processes end."""
    errand = Errand()
    work = partial(contextvars.copy_context().run, time_call, partial(errand.run, partial(function, *args, **kwargs)))
    try:
        return await foreground().aside(partial(asyncio.get_running_loop().run_in_executor, _threads, work))
    except asyncio.CancelledError:
        errand.end()
        raise
