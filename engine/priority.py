"""What may take long stands back from processors that others want.

The engine's thread answers point reads and commits; beside it threads of bulk statements keep processors busy for as
long as the client sends. Where there are fewer processors than threads, Linux shares them out evenly, and whoever waits
for a row waits for other threads' turns of some milliseconds, one after the other. So they get less where a processor
is wanted, and everything where it is not. Not much less: a thread that has the interpreter when it loses its processor
keeps the engine's thread waiting until it gets one again. For the same reason all of them are equally nice: none is to
take the processor from another one that has the interpreter.

Niceness does not help whoever wakes up while all processors are taken: the tail of point reads is made of waits for
the turns of bulk threads and of the client that feeds them. So COPY gives way altogether where that shows
(`Foreground`): it rests between small pieces, and takes data no faster than it writes them, which slows its client down
as well.

Of Linux alone, where niceness is a thread's: elsewhere nothing is done.
"""

from __future__ import annotations

import contextlib
import os
import sys
import threading
import time
from collections.abc import Callable

NICENESS = 5  # a third of what a thread of niceness 0 gets where both want the same processor
REST = 10.0
IDLE = 0.01  # share of a processor that counts as used by the engine's thread when it uses less
LOOK_SECONDS = 0.1
LONGEST_REST = 0.1  # seconds
PRESSED_ANSWERS = 50  # a second, from which on there are short statements to give way to
PRESSED_WAITS = 0.05  # share of the time that the engine's thread waits for a processor; alone it is 0.02
PRESSED_LOOK = 0.05  # seconds between two looks
PRESSED_SECONDS = 2.0  # for so long bulk work gives way once that was so: while it does, the waits are short


def stand_back() -> None:
    """The calling thread, and those that it starts, yield to others from now on. There is no way back: to become less
    nice takes a privilege."""
    if sys.platform != "linux":
        return
    thread = threading.get_native_id()
    with contextlib.suppress(OSError):
        os.sched_setscheduler(thread, os.SCHED_BATCH, os.sched_param(0))
        os.setpriority(os.PRIO_PROCESS, thread, min(os.getpriority(os.PRIO_PROCESS, thread) + NICENESS, 19))


def stand_apart() -> None:
    """The calling process, if it began a session of its own, gets what its niceness says. Where Linux schedules
    sessions as groups (sched_autogroup), niceness counts within a session only."""
    if sys.platform == "linux" and os.getsid(0) == os.getpid():  # never the group of whoever else is in the session
        with contextlib.suppress(OSError), open("/proc/self/autogroup", "w", encoding="ascii") as file:
            file.write(str(os.getpriority(os.PRIO_PROCESS, 0)))


class Foreground:
    """The short statements that an engine's thread answers: whoever answers counts them in `answered`, bulk work asks
    whether it is to give way to them. On a machine whose processors suffice for both it never is.

    `waited`: nanoseconds that the thread has waited for processors; all is called on that thread."""

    def __init__(self, waited: Callable[[], int] | None = None, clock: Callable[[], float] = time.monotonic) -> None:
        self.answered = 0
        self._waited = waited or _waited_for_processors
        self._clock = clock
        self._looked = (clock(), self._waited(), 0)
        self._until = clock()

    @property
    def pressed(self) -> bool:
        """Whether bulk work is to give way now."""
        now = self._clock()
        before, waited, answered = self._looked
        passed = now - before
        if passed >= PRESSED_LOOK:
            self._looked = now, self._waited(), self.answered
            if (
                self._looked[1] - waited > PRESSED_WAITS * passed * 1e9
                and self.answered - answered >= PRESSED_ANSWERS * passed
            ):
                self._until = now + PRESSED_SECONDS
        return now < self._until


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


class Pace:
    """Rests for heavy work in a thread of its own. Made on the engine's thread.

    `rest`: seconds to sleep for each second of work while the engine's thread is busy all the time, so that it has
    interpreter and processors; less as it is less busy. `check` is called now and then in the working thread, and may
    raise.
    """

    def __init__(self, rest: float = REST, check: Callable[[], None] = lambda: None) -> None:
        self._whole = self._rest = rest  # until it is known how busy that thread is
        self._check = check
        self._engine_clock = time.pthread_getcpuclockid(threading.get_ident())
        self._looked = (time.monotonic(), time.thread_time())
        self._worked = 0.0  # the working thread's clock at the end of the last pause

    def pause(self) -> None:
        """Rests for what the calling thread, which is always the same, has worked since the last call, or since it
        began. To be called every few milliseconds of work."""
        self._check()
        self._look()
        left = (time.thread_time() - self._worked) * self._rest
        while left > 0:
            time.sleep(min(left, LONGEST_REST))
            left -= LONGEST_REST
            self._check()
        self._worked = time.thread_time()

    def _look(self) -> None:
        """Now and then, how busy the engine's thread is."""
        wall, used = self._looked
        now = time.monotonic()
        if now - wall >= LOOK_SECONDS:
            self._looked = now, time.clock_gettime(self._engine_clock)
            share = (self._looked[1] - used) / (now - wall)
            self._rest = self._whole * min(max(share, IDLE), 1.0)
