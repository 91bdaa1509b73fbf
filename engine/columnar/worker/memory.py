"""Limits the memory of the worker's process.

The limit applies to resident anonymous pages, not to mapped memory, because allocators keep address space long after
they have returned its pages. Mapped memory only grows: after a few joins and sorts it was two to four times the
resident memory. With a limit on mapped memory (RLIMIT_DATA), queries failed while half of the memory was free, until
the process ended.

    above `limit`            allocators return free pages; then the newest query ends with 53200, then the next newest
    above `limit` + SPARE    the process ends: the engine starts another one, and repeats the running queries there
    above `limit_idle`       if no work is in progress, and after allocators have returned free pages: the process ends,
                             and another one starts with the next query
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
MAPPED_TIMES = 4  # so many times `limit` may be mapped: stops memory that grows faster than the thread below looks
LOOK_SECONDS = 0.1
LOOK_IDLE_SECONDS = 1.0
PATIENCE_SECONDS = 3.0  # after the end of a query, until the next one is ended: it needs time to free its memory
_PAGE = resource.getpagesize()


def limit(memory_limit: int) -> int:
    """Returns the bytes that may be resident if DuckDB's limit is `memory_limit`: the rest is for Arrow, Python,
    results."""
    return memory_limit + memory_limit // 2 + SLACK_BYTES


def limit_idle(memory_limit: int) -> int:
    """Returns the same limit for an idle worker, which has tables, which DuckDB counts, and little else."""
    return memory_limit + SLACK_BYTES // 2


def resident() -> int:
    """Returns the resident bytes of this process that are not shared (proc(5): resident less shared)."""
    with open("/proc/self/statm", encoding="ascii") as file:
        fields = file.read().split()
    return (int(fields[1]) - int(fields[2])) * _PAGE


def mapped_bytes() -> int:
    """Returns the bytes that RLIMIT_DATA counts, and a little more (proc(5): data and stack)."""
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[5]) * _PAGE


def give_back() -> None:
    """Returns free pages of the allocator to the kernel. Takes tens of milliseconds for some gigabytes."""
    with contextlib.suppress(AttributeError, OSError):
        ctypes.CDLL(None).malloc_trim(0)


class Watch:
    """The thread that looks at the memory. `busy` returns whether work is in progress, `begun` how many pieces of work
    have begun since the start; `end_one` ends the newest query, and returns False if there is none; `leave` sends the
    engine the reason and ends the process."""

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
        self._settled = 0  # the value of `begun` when an idle process last returned free pages

    def start(self) -> None:
        thread = threading.Thread(target=self._run, name="memory", daemon=True)
        thread.start()
        self.thread = thread.native_id or 0

    def _run(self) -> None:
        while True:
            time.sleep(LOOK_IDLE_SECONDS if self._begun() == self._settled else LOOK_SECONDS)
            self.look()

    def look(self) -> None:
        """Looks once, and acts as the module's docstring describes."""
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
    """Whether there is memory for one more query beside so many, each of which may use its whole stack."""
    return resident() + queries * STACK_BYTES + SPARE_BYTES // 4 <= limit(memory_limit)


def limit_mapped(memory_limit: int) -> None:
    """Sets the high limit on mapped memory."""
    data = MAPPED_TIMES * limit(memory_limit)
    _, hard = resource.getrlimit(resource.RLIMIT_DATA)
    if hard != resource.RLIM_INFINITY:
        data = min(data, hard)
    resource.setrlimit(resource.RLIMIT_DATA, (data, data))
