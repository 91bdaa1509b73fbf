"""Processes that work for a statement, in addition to its thread, and end with the statement.

A thread cannot be ended from outside, but a process that it waits for can: `Errand.end` kills the running processes of
the thread, and prevents new ones. A process without progress is killed too (catalog/stillness.py). The thread's meter
limits the memory of a process.
"""

from __future__ import annotations

import array
import contextlib
import fcntl
import resource
import subprocess
import termios
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import IO, TypeVar

from catalog import stillness
from catalog.errors import SqlError
from catalog.memory import UNLIMITED, meter
from catalog.stillness import Stillness

ITSELF = 64 << 20  # bytes that a process takes before it does any work

Result = TypeVar("Result")


class Errand:
    """The work of a thread for a statement, with its processes."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._processes: set[subprocess.Popen[bytes]] = set()
        self._ended = False

    def run(self, function: Callable[[], Result]) -> Result:
        """Calls a function in the thread. Processes that it starts belong to this errand."""
        before, _of_thread.errand = _of_thread.errand, self
        try:
            return function()
        finally:
            _of_thread.errand = before

    def end(self) -> None:
        """Ends the processes, because the statement has ended. Does not wait for the lock: `output` checks again after
        it has started a process."""
        self._ended = True
        if self._lock.acquire(blocking=False):
            try:
                for process in self._processes:
                    process.kill()
            finally:
                self._lock.release()

    def check(self) -> None:
        """Called in the thread, repeatedly during long work. Raises 57014 after `end`."""
        if self._ended:
            raise SqlError("57014", "canceling statement due to user request")

    def output(self, command: Sequence[str], given: bytes, environment: Mapping[str, str]) -> bytes:
        """Runs a process with the input `given`, and returns its output; b'' if its exit status is not 0. Raises 57014
        after `end`."""
        with self._lock:
            self.check()
            process = subprocess.Popen(
                [*command],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                env=environment,
            )
            self._processes.add(process)
        if self._ended:
            process.kill()
        try:
            with kill_when_still(process):
                told, _ = process.communicate(given)
            return b"" if process.returncode else told
        finally:
            with self._lock:
                self._processes.discard(process)
            if process.returncode is None:
                process.kill()
                process.wait()


@contextlib.contextmanager
def kill_when_still(process: subprocess.Popen[bytes]) -> Iterator[None]:
    """Kills a process that makes no progress although it has work, within the context. The calling thread writes the
    process's input and reads its output."""
    over = threading.Event()
    thread = threading.Thread(target=_watch, args=(process, over), name="process-watch", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def _watch(process: subprocess.Popen[bytes], over: threading.Event) -> None:
    watch = Stillness(process.pid)
    while not over.wait(stillness.LOOK_SECONDS):
        if watch.lasts(_has_to_read(process.stdin) and not _bytes_to_read(process.stdout)):
            process.kill()


def _has_to_read(pipe: IO[bytes] | None) -> bool:
    """Whether the reader of a pipe, into which this process writes, has bytes to read, or the end of the input."""
    return pipe is None or pipe.closed or _bytes_to_read(pipe) > 0


def _bytes_to_read(pipe: IO[bytes] | None) -> int:
    """The number of unread bytes in a pipe, given either of its ends."""
    found = array.array("i", (0,))
    with contextlib.suppress(OSError, ValueError):  # the pipe was just closed
        if pipe is not None:
            fcntl.ioctl(pipe.fileno(), termios.FIONREAD, found)
    return found[0]


class _OfThread(threading.local):
    def __init__(self) -> None:
        self.errand = Errand()


_of_thread = _OfThread()


def check() -> None:
    """Errand.check for the errand of this thread."""
    _of_thread.errand.check()


def output(command: Sequence[str], given: bytes, environment: Mapping[str, str]) -> bytes:
    """Errand.output for the errand of this thread."""
    return _of_thread.errand.output(command, given, environment)


def memory_allowance() -> int:
    """The bytes that a process may take for its work: the limit of this thread's statement, 0 for no limit."""
    limit = meter().limit
    return 0 if limit >= UNLIMITED else limit


def limit_memory(size: int) -> None:
    """Called in the process: limits its memory to ITSELF and `size` bytes; 0 for no limit."""
    if size:
        _, hard = resource.getrlimit(resource.RLIMIT_DATA)
        wanted = size + ITSELF
        if hard != resource.RLIM_INFINITY:
            wanted = min(wanted, hard)
        resource.setrlimit(resource.RLIMIT_DATA, (wanted, wanted))
