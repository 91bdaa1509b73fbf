"""Whether the worker waits for what never comes: its threads, of libraries too, for each other, or somebody stopped it.

While somebody waits for the worker, a look a second asks what its threads have done since the last one. Once they have
neither worked, nor waited for a processor or a disk, for STILL_SECONDS, another worker takes its place, and what was
under way runs there. A worker that works, and hears nobody, is another matter: hearing.py.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
from collections.abc import Callable, Set

LOOK_SECONDS = 1.0
STILL_SECONDS = 10.0
NOTHING = 0.005  # of a processor: what wakes up only to look whether there is something to do takes less


class Stillness:
    """Of the threads of a process but some that only read or look after others, by their ids."""

    def __init__(self, pid: int, watchers: Set[int] = frozenset()) -> None:
        self._pid = pid
        self._watchers = watchers
        self._looked = time.monotonic()
        self._still = 0.0
        self._done = -1.0

    def lasts(self, due: bool = True) -> bool:
        """Whether they are for too long; to be asked again and again. `due`: they have something to do."""
        now = time.monotonic()
        passed = now - self._looked
        if passed < LOOK_SECONDS / 2:
            return False
        self._looked = now
        done, reads = threads_have_done(self._pid, self._watchers)
        if not due or reads or abs(done - self._done) > NOTHING * passed:  # it falls when threads end
            self._still = 0.0
        else:
            self._still += min(passed, 2 * LOOK_SECONDS)  # whoever looks may have rested
        self._done = done
        return self._still >= STILL_SECONDS


class Watch:
    """Over a worker, while anything is `under_way` there. `due`: whether somebody waits for it, and it for nobody.
    `replace`: puts another worker in its place."""

    def __init__(self, under_way: Callable[[], bool], due: Callable[[], bool], replace: Callable[[], None]) -> None:
        self._under_way = under_way
        self._due = due
        self._replace = replace
        self._timer: asyncio.TimerHandle | None = None

    def begin(self, pid: int, watchers: Set[int]) -> None:
        """Something is under way."""
        if self._timer is None:
            self._later(Stillness(pid, watchers))

    def clear(self) -> None:
        """The worker is gone."""
        timer, self._timer = self._timer, None
        if timer is not None:
            timer.cancel()

    def _later(self, of: Stillness) -> None:
        self._timer = asyncio.get_running_loop().call_later(LOOK_SECONDS, self._look, of)

    def _look(self, of: Stillness) -> None:
        self._timer = None
        if not self._under_way():
            return
        if of.lasts(self._due()):
            self._replace()
        else:
            self._later(of)


def threads_have_done(pid: int, others: Set[int] = frozenset()) -> tuple[float, bool]:
    """Seconds for which the threads of a process but the others have worked, or waited for processors, together; and
    whether one of them waits for a disk (proc(5))."""
    done, reads = 0, False
    with contextlib.suppress(OSError):  # it has ended
        for thread in os.listdir(f"/proc/{pid}/task"):
            if int(thread) in others:
                continue
            with contextlib.suppress(OSError, ValueError):  # the thread has
                done += sum(map(int, _read(f"/proc/{pid}/task/{thread}/schedstat").split()[:2]))
                reads = reads or _read(f"/proc/{pid}/task/{thread}/stat").rpartition(")")[2].split()[0] == "D"
    return done / 1e9, reads


def _read(path: str) -> str:
    with open(path, encoding="ascii", errors="replace") as file:
        return file.read()
