"""Processes that work for a statement, in addition to its thread, and end with the statement.

Whoever waits for a thread cannot end what it does. A process that the thread waits for can be: `Errand.end` kills those
that it has, and those that it would begin. One that waits for what never comes is killed too (catalog/stillness.py).
What a process may have in memory the thread's meter says.
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

ITSELF = 64 << 20  # bytes that a process takes before it does anything

Result = TypeVar("Result")


class Errand:
    """What a thread does for a statement in one go."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._processes: set[subprocess.Popen[bytes]] = set()
        self._ended = False

    def run(self, function: Callable[[], Result]) -> Result:
        """In the thread: what is called inside may have processes."""
        before, _of_thread.errand = _of_thread.errand, self
        try:
            return function()
        finally:
            _of_thread.errand = before

    def end(self) -> None:
        """Nobody waits for it any more. Does not wait itself: whoever begins a process looks again."""
        self._ended = True
        if self._lock.acquire(blocking=False):
            try:
                for process in self._processes:
                    process.kill()
            finally:
                self._lock.release()

    def check(self) -> None:
        """In the thread, now and then in what takes long. Raises 57014 once the errand is ended."""
        if self._ended:
            raise SqlError("57014", "canceling statement due to user request")

    def output(self, command: Sequence[str], given: bytes, environment: Mapping[str, str]) -> bytes:
        """What a process writes that reads `given`; nothing if it does not end well, be it in the midst of writing.
        Raises 57014 once the errand is ended."""
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
    """Kills a process, of which the calling thread writes the input and reads the output, where it does nothing more
    though it has something to do."""
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
    """Whether who reads a pipe, into which this process writes, has something to read, or its end."""
    return pipe is None or pipe.closed or _bytes_to_read(pipe) > 0


def _bytes_to_read(pipe: IO[bytes] | None) -> int:
    """Bytes in a pipe, at either end of it."""
    found = array.array("i", (0,))
    with contextlib.suppress(OSError, ValueError):  # it has just been closed
        if pipe is not None:
            fcntl.ioctl(pipe.fileno(), termios.FIONREAD, found)
    return found[0]


class _OfThread(threading.local):
    def __init__(self) -> None:
        self.errand = Errand()


_of_thread = _OfThread()


def check() -> None:
    """Errand.check of what this thread does."""
    _of_thread.errand.check()


def output(command: Sequence[str], given: bytes, environment: Mapping[str, str]) -> bytes:
    """Errand.output of what this thread does."""
    return _of_thread.errand.output(command, given, environment)


def memory_allowance() -> int:
    """Bytes that a process may have for what it does: as many as the statement of this thread; 0 for no limit."""
    limit = meter().limit
    return 0 if limit >= UNLIMITED else limit


def limit_memory(size: int) -> None:
    """In the process: it has so many bytes beyond what it takes itself; 0 for no limit."""
    if size:
        _, hard = resource.getrlimit(resource.RLIMIT_DATA)
        wanted = size + ITSELF
        if hard != resource.RLIM_INFINITY:
            wanted = min(wanted, hard)
        resource.setrlimit(resource.RLIMIT_DATA, (wanted, wanted))
