"""Detects a process that makes no progress while another one waits for it.

Its threads, also those of libraries, may wait for each other, or the process was stopped. The watching process looks
at it repeatedly. If its threads have neither worked nor waited for a processor or a disk for STILL_SECONDS, the process
counts as still. On systems without this information no process counts as still.

Linux adds a thread's wait for a processor to its count when the wait ends (proc(5): schedstat). Until then the thread's
state shows that it is ready to run.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Set

LOOK_SECONDS = 1.0  # between two looks
STILL_SECONDS = 10.0
READY, DISK = "R", "D"  # states of a thread: running or ready; waiting for a disk
NOTHING = 0.005  # share of a processor; a thread that wakes up only to look for work takes less


class Stillness:
    """Watches the threads of a process. `watchers`: the ids of threads that do not count, because they only read
    messages or watch other threads."""

    def __init__(self, pid: int, watchers: Set[int] = frozenset()) -> None:
        self._pid = pid
        self._watchers = watchers
        self._looked = time.monotonic()
        self._still = 0.0
        self._done = 0.0

    def lasts(self, due: bool = True) -> bool:
        """Whether the threads were still for STILL_SECONDS. Called repeatedly. `due`: they have work."""
        now = time.monotonic()
        passed = now - self._looked
        if passed < LOOK_SECONDS / 2:
            return False
        self._looked = now
        done, ready = threads_have_done(self._pid, self._watchers)
        if not due or ready or not done or abs(done - self._done) > NOTHING * passed:  # it falls when threads end
            self._still = 0.0
        else:
            self._still += min(passed, 2 * LOOK_SECONDS)  # the watching process itself may not have run
        self._done = done
        return self._still >= STILL_SECONDS


def threads_have_done(pid: int, others: Set[int] = frozenset()) -> tuple[float, bool]:
    """The sum of the seconds for which the threads of a process, except `others`, have worked or waited for processors;
    and whether one of them runs, is ready, or waits for a disk now."""
    done, ready = 0.0, False
    with contextlib.suppress(OSError):  # the process has ended
        for thread in os.listdir(f"/proc/{pid}/task"):
            if int(thread) not in others:
                worked, waited = thread_has_done(pid, int(thread))
                done += worked + waited
                ready = ready or state_of(pid, int(thread)) in (READY, DISK)
    return done, ready


def thread_has_done(pid: int, thread: int) -> tuple[float, float]:
    """The seconds for which a thread has worked, and for which it has waited for processors; 0 if unknown."""
    with contextlib.suppress(OSError, ValueError):  # the thread has ended, or the system has no such file
        worked, waited, _ = map(int, _read(f"/proc/{pid}/task/{thread}/schedstat").split())
        return worked / 1e9, waited / 1e9
    return 0.0, 0.0


def state_of(pid: int, thread: int) -> str:
    """The state of a thread as in proc(5); "" if unknown."""
    with contextlib.suppress(OSError, IndexError):
        return _read(f"/proc/{pid}/task/{thread}/stat").rpartition(")")[2].split()[0]
    return ""


def _read(path: str) -> str:
    with open(path, encoding="ascii", errors="replace") as file:
        return file.read()
