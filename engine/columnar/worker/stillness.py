"""Whether the worker waits for what never comes: threads, of libraries too, that wait for each other.

Such a worker reads and answers, so nobody but itself can tell; one that does not is the engine's to replace
(engine/columnar/hearing.py). While something is to be done, a look a second asks what threads have done since the last
one. Once they have neither worked, nor waited for a processor or a disk, for STILL_SECONDS, the process ends: another
worker takes its place, and what was under way runs there.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Callable, Set

LOOK_SECONDS = 1.0
STILL_SECONDS = 10.0
NOTHING = 0.001  # seconds, which threads that only look whether there is work stay below


class Stillness:
    """`due`: whether something is to be done that waits for nobody else. `leave`: ends the process. Threads that look
    after others do not count: the main thread, which reads, that which calls `look`, and `others`, by their ids."""

    def __init__(self, due: Callable[[], bool], leave: Callable[[], None], others: Set[int] = frozenset()) -> None:
        self._due = due
        self._leave = leave
        self._others = others
        self._looked = time.monotonic()
        self._still = self._done = 0.0

    def look(self) -> None:
        """Does what the module's text says; as often as one likes."""
        now = time.monotonic()
        passed = now - self._looked
        if passed < LOOK_SECONDS:
            return
        self._looked = now
        if not self._due():
            self._still = 0.0
            return
        done, reads = threads_have_done(self._others | {os.getpid(), threading.get_native_id()})
        if reads or abs(done - self._done) > NOTHING:  # it falls when threads end
            self._still = 0.0
        else:
            self._still += min(passed, 2 * LOOK_SECONDS)  # the whole process may have rested
        self._done = done
        if self._still >= STILL_SECONDS:
            self._leave()


def threads_have_done(others: Set[int]) -> tuple[float, bool]:
    """Seconds for which this process's threads but the others have worked, or waited for processors, together; and
    whether one of them waits for a disk (proc(5))."""
    done, reads = 0, False
    for thread in os.listdir("/proc/self/task"):
        if int(thread) in others:
            continue
        with contextlib.suppress(OSError, ValueError):  # it has just ended
            done += sum(map(int, _read(f"/proc/self/task/{thread}/schedstat").split()[:2]))
            reads = reads or _read(f"/proc/self/task/{thread}/stat").rpartition(")")[2].split()[0] == "D"
    return done / 1e9, reads


def _read(path: str) -> str:
    with open(path, encoding="ascii", errors="replace") as file:
        return file.read()
