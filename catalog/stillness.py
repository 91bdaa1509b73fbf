"""Detects a process that makes no progress while another one waits for it.

Its threads, of libraries too, may wait for each other, or somebody has stopped it. It is looked at again and again:
what have its threads done since the last look? Once they have neither worked, nor waited for a processor or a disk, for
STILL_SECONDS, nothing will come of it. Where the system does not tell, no process is still.

Linux counts how long a thread has waited for a processor when it gets one (proc(5): schedstat). Until then its state
tells: it could run.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Set

LOOK_SECONDS = 1.0  # between two looks
STILL_SECONDS = 10.0
READY, DISK = "R", "D"  # states of a thread: it works or could, it waits for a disk
NOTHING = 0.005  # of a processor: what wakes up only to look whether there is something to do takes less


class Stillness:
    """Of the threads of a process but some that only read or look after others, by their ids."""

    def __init__(self, pid: int, watchers: Set[int] = frozenset()) -> None:
        self._pid = pid
        self._watchers = watchers
        self._looked = time.monotonic()
        self._still = 0.0
        self._done = 0.0

    def lasts(self, due: bool = True) -> bool:
        """Whether they are for too long; to be asked again and again. `due`: they have something to do."""
        now = time.monotonic()
        passed = now - self._looked
        if passed < LOOK_SECONDS / 2:
            return False
        self._looked = now
        done, ready = threads_have_done(self._pid, self._watchers)
        if not due or ready or not done or abs(done - self._done) > NOTHING * passed:  # it falls when threads end
            self._still = 0.0
        else:
            self._still += min(passed, 2 * LOOK_SECONDS)  # whoever looks may have rested
        self._done = done
        return self._still >= STILL_SECONDS


def threads_have_done(pid: int, others: Set[int] = frozenset()) -> tuple[float, bool]:
    """Seconds for which the threads of a process but the others have worked, or waited for processors, together; and
    whether one of them does so now, or waits for a disk."""
    done, ready = 0.0, False
    with contextlib.suppress(OSError):  # it has ended
        for thread in os.listdir(f"/proc/{pid}/task"):
            if int(thread) not in others:
                worked, waited = thread_has_done(pid, int(thread))
                done += worked + waited
                ready = ready or state_of(pid, int(thread)) in (READY, DISK)
    return done, ready


def thread_has_done(pid: int, thread: int) -> tuple[float, float]:
    """Seconds for which a thread of a process has worked, and for which it has waited for processors."""
    with contextlib.suppress(OSError, ValueError):  # it has ended, or the system does not tell
        worked, waited, _ = map(int, _read(f"/proc/{pid}/task/{thread}/schedstat").split())
        return worked / 1e9, waited / 1e9
    return 0.0, 0.0


def state_of(pid: int, thread: int) -> str:
    """The state of a thread of a process, as proc(5) has it; "" where it is unknown."""
    with contextlib.suppress(OSError, IndexError):
        return _read(f"/proc/{pid}/task/{thread}/stat").rpartition(")")[2].split()[0]
    return ""


def _read(path: str) -> str:
    with open(path, encoding="ascii", errors="replace") as file:
        return file.read()
