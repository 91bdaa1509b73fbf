"""What the worker's process has in memory, and what it does when that is too much.

What counts is what is resident and its own (anonymous pages), not what is mapped: allocators keep address space for
long after they have given its pages back. In one life of a worker the mapped part only grows, and was two to four times
the resident one after a few joins and sorts; as a limit (RLIMIT_DATA) it ended queries while half of the memory was
free, and went on to end them until the process did.

    above `limit`            allocators give back what they can; then the newest query ends with 53200, and the next
    above `limit` + SPARE    the process ends: the engine starts another one, and runs there what was under way
    above `limit_idle`       while nothing is under way, after allocators gave back what they could: the process ends,
                             another one starts with the next query, and nobody notices
"""

from __future__ import annotations

import contextlib
import ctypes
import resource
import threading
import time
from collections.abc import Callable

SLACK_BYTES = 1 << 30
SPARE_BYTES = 512 << 20
STACK_BYTES = 8 << 20  # of a thread
MAPPED_TIMES = 4  # how much more than `limit` may be mapped, against what the thread below is too slow for
LOOK_SECONDS = 0.1
LOOK_IDLE_SECONDS = 1.0
PATIENCE_SECONDS = 3.0  # in which a query that is ended is to give its memory back, before the next one is ended
_PAGE = resource.getpagesize()


def limit(memory_limit: int) -> int:
    """Bytes that may be resident, where DuckDB counts so many of its own: the rest is for Arrow, Python, results."""
    return memory_limit + memory_limit // 2 + SLACK_BYTES


def limit_idle(memory_limit: int) -> int:
    """The same while nothing is under way: the tables, which DuckDB counts, and little else."""
    return memory_limit + SLACK_BYTES // 2


def resident() -> int:
    """Bytes of this process's own memory that are resident (proc(5): resident less shared)."""
    with open("/proc/self/statm", encoding="ascii") as file:
        fields = file.read().split()
    return (int(fields[1]) - int(fields[2])) * _PAGE


def mapped_bytes() -> int:
    """Bytes that RLIMIT_DATA counts, and a little more (proc(5): data and stack)."""
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[5]) * _PAGE


def give_back() -> None:
    """Allocators give pages back that they have kept. Takes tens of milliseconds for some gigabytes."""
    with contextlib.suppress(AttributeError, OSError):
        ctypes.CDLL(None).malloc_trim(0)


class Watch:
    """The thread that looks. `busy` says whether anything is under way, `begun` how much ever was; `end_one` ends the
    newest query and says whether there was one; `leave` ends the process, with the operation that tells the engine
    why."""

    def __init__(
        self,
        memory_limit: int,
        busy: Callable[[], bool],
        begun: Callable[[], int],
        end_one: Callable[[], bool],
        leave: Callable[[str], None],
    ) -> None:
        self._limit = limit(memory_limit)
        self._idle = limit_idle(memory_limit)
        self._busy = busy
        self._begun = begun
        self._end_one = end_one
        self._leave = leave
        self.thread = 0  # its id
        self._ended_at = 0.0
        self._settled = 0  # how much had begun when allocators gave back what they could, with nothing under way

    def start(self) -> None:
        thread = threading.Thread(target=self._run, name="memory", daemon=True)
        thread.start()
        self.thread = thread.native_id or 0

    def _run(self) -> None:
        while True:
            time.sleep(LOOK_IDLE_SECONDS if self._begun() == self._settled else LOOK_SECONDS)
            self.look()

    def look(self) -> None:
        """Does what the module's text says."""
        begun = self._begun()
        if self._busy():
            self._look_busy()
        elif begun != self._settled:
            self._settled = begun
            give_back()
            if resident() > self._idle or mapped_bytes() > MAPPED_TIMES * self._limit // 2:
                self._leave("grown")

    def _look_busy(self) -> None:
        if resident() <= self._limit:
            return
        give_back()
        now = resident()
        if now > self._limit + SPARE_BYTES:
            self._leave("full")
        elif now > self._limit and time.monotonic() - self._ended_at > PATIENCE_SECONDS:
            self._ended_at = time.monotonic()
            if not self._end_one():
                self._leave("full")


def has_room(memory_limit: int, queries: int) -> bool:
    """Whether there is memory to spare for one more query beside so many, each of which may come to use its stack."""
    return resident() + queries * STACK_BYTES + SPARE_BYTES // 4 <= limit(memory_limit)


def limit_mapped(memory_limit: int) -> None:
    """The far limit on what is mapped."""
    data = MAPPED_TIMES * limit(memory_limit)
    _, hard = resource.getrlimit(resource.RLIMIT_DATA)
    if hard != resource.RLIM_INFINITY:
        data = min(data, hard)
    resource.setrlimit(resource.RLIMIT_DATA, (data, data))
