"""Work that takes long gives way to short statements, where these wait for processors.

Niceness (engine/priority.py) does not help whoever wakes up while all processors are taken: the tail of point reads is
made of waits for the turns of bulk threads and of the client that feeds them. So where that shows (`Foreground`), COPY
rests between small pieces, and takes data no faster than it writes them, which slows its client down as well; and so
does the planning of long statements. One such work goes on at a time: each of them wants the interpreter, and whoever
lets go of it does not choose who gets it next.

For that time this process keeps to one processor, and the analytic worker and processes that write tables to what
nobody else wants of the others.
Where Linux schedules sessions as groups, it gives a group's part of a processor by what the group has used there
lately, which is next to nothing for a thread that answers and sleeps while the group's bulk work was on another
processor: it waited for up to 30 ms. One interpreter has little use for a second processor anyhow.
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
PRESSED_STALE = 0.5  # seconds after which a look tells what was before, not what is
PRESUMED_SECONDS = 0.1  # for so long many short statements are enough, where no look is young enough
PRESSED_SECONDS = 5.0  # for so long work gives way once that was so: while it does, the waits are short
PRESSED_AGAIN = 1.0  # seconds from its end, within which it counts as the same press: it lasts twice as long
LONGEST_PRESSED = 60.0
COLLECT_SECONDS = 60.0  # between two runs of the cyclic collector by `collect`


class Foreground:
    """The short statements that an engine's thread answers: whoever answers counts them in `answered`, bulk work asks
    whether it is to give way to them. On a machine whose processors suffice for both it never is.

    `waited`: nanoseconds that the thread has waited for processors; all is called on that thread. `place`: where the
    process is meanwhile; None for one that is not the engine's alone."""

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
        self._presumed = clock()  # until when many short statements are enough: nothing is known of their waits
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
        """Runs Python's cyclic collector where no short statement was answered since the last call, some seconds ago:
        it holds the thread for as long as a look at all objects takes. Now and then at most."""
        answered, self._answered_then = self._answered_then, self.answered
        now = self._clock()
        if answered == self.answered and now - self._collected >= COLLECT_SECONDS:
            self._collected = now
            gc.collect()

    async def aside(self, work: Callable[[], Awaitable[tuple[T, float]]]) -> T:
        """Awaits work in a thread, which gives its result and the seconds of processor that it took. While `is_pressed`
        one such work runs at a time, and rests are long: together they have a ninth of the time. Who has worked for
        long, as at the end of a large COPY, rests longer than it keeps others from working."""
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
    """On which processors this process runs: on one while it is gathered, and those beside it (engine/priority.py),
    which take what nobody else wants, on the rest."""

    def __init__(self) -> None:
        self._end: asyncio.TimerHandle | None = None

    def gather(self, seconds: float) -> None:
        """For so long, from the last call on."""
        if len(PROCESSORS) < 2:
            return
        if self._end is None:
            here = {_processor()}
            self._move(here, PROCESSORS - here, NICEST)
        else:
            self._end.cancel()
        self._end = asyncio.get_running_loop().call_later(seconds, self.scatter)

    def scatter(self) -> None:
        """Everywhere again."""
        self._end = None
        self._move(PROCESSORS, PROCESSORS, None)

    def _move(self, own: Set[int], rest: Set[int], niceness: int | None) -> None:
        keep_to(os.getpid(), own)
        place_beside(rest, niceness)


def _processor() -> int:
    """The one that the calling thread runs on."""
    with open("/proc/thread-self/stat", encoding="ascii") as file:
        return int(file.read().rpartition(")")[2].split()[36])  # proc(5), counted from the state on


def _waited_for_processors() -> int:
    """Nanoseconds that the calling thread was ready to run and did not (proc(5)); 0 where that is unknown."""
    with contextlib.suppress(OSError, ValueError), open("/proc/thread-self/schedstat", encoding="ascii") as file:
        return int(file.read().split()[1])
    return 0


_of_thread = threading.local()


def foreground() -> Foreground:
    """Of the calling thread, which is an engine's."""
    found: Foreground | None = getattr(_of_thread, "foreground", None)
    if found is None:
        found = _of_thread.foreground = Foreground()
    return found


def time_call(function: Callable[[], T]) -> tuple[T, float]:
    """Its result, and the seconds of processor that it took."""
    began = time.thread_time()
    result = function()
    return result, time.thread_time() - began


_threads = ThreadPoolExecutor(max(len(PROCESSORS), 2), "aside", stand_back)


async def aside(function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Runs a function that takes milliseconds in a thread that stands back, and gives way to short statements
    (Foreground.aside). The processes that it has end when it is cancelled."""
    errand = Errand()
    work = partial(contextvars.copy_context().run, time_call, partial(errand.run, partial(function, *args, **kwargs)))
    try:
        return await foreground().aside(partial(asyncio.get_running_loop().run_in_executor, _threads, work))
    except asyncio.CancelledError:
        errand.end()
        raise
