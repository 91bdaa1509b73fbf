"""Syncs a file without blocking the engine's thread: one sync at a time.

    sync.begin(fd)      returns at once; `done(error or None)` is called on the engine's thread
    sync.finish()       waits for the sync that was begun, and calls `done`: for shutdown

**RingSync** asks the kernel (Linux's io_uring, man 7 io_uring), and an eventfd that the event loop watches reports the
end. It needs no thread, because a thread would have to acquire the interpreter lock twice for each sync; so it costs
10 us of the engine's thread. The kernel's worker runs on any free processor. The worker of the older io_submit is bound
to the processor of the caller, and takes it from the engine's thread: 26 us, and a twentieth fewer transactions
(pgbench, 8 clients). **ThreadSync** is for all other systems, and for containers that may not use io_uring: a thread
that calls fdatasync.
"""

from __future__ import annotations

import contextlib
import ctypes
import mmap
import os
import struct
import sys
import tempfile
import threading
from collections.abc import Callable
from functools import cache, partial
from queue import SimpleQueue
from typing import Any, Protocol

from replication.files import Files

SyncCallback = Callable[[BaseException | None], None]


class Loop(Protocol):
    """The part of asyncio's event loop that is needed here."""

    def call_soon(self, callback: Callable[[], object]) -> object: ...

    def add_reader(self, fd: int, callback: Callable[[], object]) -> object: ...

    def remove_reader(self, fd: int) -> object: ...


class Sync(Protocol):
    """Syncs one file. After an error the file must be abandoned: the system may have dropped pages as if they were
    written."""

    def begin(self, fd: int) -> None: ...

    def finish(self) -> None: ...

    def close(self) -> None: ...


_SETUP, _ENTER, _REGISTER = 425, 426, 427  # the same on every architecture: man 2 syscalls
_PARAMETERS = struct.Struct("<7I12x10I10I")  # struct io_uring_params: sizes and features, offsets of both rings
_SINGLE_MMAP = 1
_REGISTER_EVENTFD = 4
_GETEVENTS = 1
_REQUEST = struct.Struct(
    "<BBHiQQII32x"
)  # struct io_uring_sqe: opcode, flags, priority, fd, offset, address, length, op
_FSYNC = 3
_DATA_ONLY = 1
_POPULATE = 0x8000
_REQUESTS_AT = 0x10000000


class RingSync:
    """Raises OSError if the kernel does not have or allow io_uring."""

    def __init__(self, loop: Loop, done: SyncCallback) -> None:
        if sys.platform != "linux" or sys.byteorder != "little":
            raise OSError(38, "no io_uring on this system")
        # PyDLL keeps the interpreter lock, because these calls return at once and releasing it costs more.
        self._call: Any = ctypes.PyDLL(None, use_errno=True).syscall
        self._loop, self._done = loop, done
        self._running = False
        with contextlib.ExitStack() as undo:
            self._map_rings(undo)
            self._eventfd = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
            undo.callback(os.close, self._eventfd)
            told = ctypes.c_int(self._eventfd)
            self._call_or_raise("io_uring_register", _REGISTER, self._ring, _REGISTER_EVENTFD, ctypes.byref(told), 1)
            loop.add_reader(self._eventfd, self._on_event)
            self._close = undo.pop_all().close

    def _map_rings(self, undo: contextlib.ExitStack) -> None:
        """Makes a ring for one request at a time, and maps it."""
        buffer = ctypes.create_string_buffer(_PARAMETERS.size)
        self._ring = self._call_or_raise("io_uring_setup", _SETUP, 1, ctypes.byref(buffer))
        undo.callback(os.close, self._ring)
        fields = _PARAMETERS.unpack(buffer)
        entries, completions, features = fields[0], fields[1], fields[5]
        requests, answers = fields[7:17], fields[17:27]
        if not features & _SINGLE_MMAP:
            raise OSError(38, "io_uring of an old kernel")
        size = max(requests[6] + 4 * entries, answers[5] + 16 * completions)
        rings = mmap.mmap(self._ring, size, mmap.MAP_SHARED | _POPULATE)
        undo.callback(rings.close)
        self._requests = mmap.mmap(self._ring, 64 * entries, mmap.MAP_SHARED | _POPULATE, offset=_REQUESTS_AT)
        undo.callback(self._requests.close)
        self._words = memoryview(rings).cast("I")
        undo.callback(self._words.release)
        self._words[requests[6] // 4] = 0  # the only slot always has the only request
        self._submission_tail = requests[1] // 4  # where the tail of the requests is
        self._completion_head, self._completion_tail = answers[0] // 4, answers[1] // 4  # head and tail of the answers
        self._answers, self._mask = answers[5] // 4, completions - 1

    def _call_or_raise(self, name: str, *arguments: object) -> int:
        result: int = self._call(*arguments)
        if result < 0:
            raise OSError(ctypes.get_errno(), name)
        return result

    def begin(self, fd: int) -> None:
        _REQUEST.pack_into(self._requests, 0, _FSYNC, 0, 0, fd, 0, 0, 0, _DATA_ONLY)
        self._words[self._submission_tail] = (self._words[self._submission_tail] + 1) & 0xFFFFFFFF
        self._call_or_raise("io_uring_enter", _ENTER, self._ring, 1, 0, 0, None, 0)
        self._running = True

    def _on_event(self) -> None:
        with contextlib.suppress(BlockingIOError):
            os.read(self._eventfd, 8)
        self._take_completion()

    def _take_completion(self) -> None:
        words, taken = self._words, self._words[self._completion_head]
        if not self._running or taken == words[self._completion_tail]:
            return
        result = words[self._answers + 4 * (taken & self._mask) + 2]  # struct io_uring_cqe: user data, result, flags
        words[self._completion_head] = (taken + 1) & 0xFFFFFFFF
        self._running = False
        error = (1 << 32) - result
        self._done(None if result == 0 else OSError(error, os.strerror(error)))

    def finish(self) -> None:
        while self._running:
            with contextlib.suppress(InterruptedError):
                self._call_or_raise("io_uring_enter", _ENTER, self._ring, 0, 1, _GETEVENTS, None, 0)
            self._take_completion()

    def close(self) -> None:
        if self._eventfd >= 0:
            self._loop.remove_reader(self._eventfd)
            self._close()
            self._eventfd = -1


class ThreadSync:
    """A thread that syncs; `engine_thread` brings the answer to the engine's thread."""

    def __init__(self, engine_thread: Callable[[Callable[[], None]], None], done: SyncCallback, files: Files) -> None:
        self._engine_thread, self._done, self._files = engine_thread, done, files
        self._work: SimpleQueue[int | None] = SimpleQueue()
        self._answers: SimpleQueue[BaseException | None] = SimpleQueue()
        self._running = False
        self._thread = threading.Thread(target=self._run, name="changelog-sync", daemon=True)
        self._thread.start()

    def begin(self, fd: int) -> None:
        self._running = True
        self._work.put(fd)

    def _run(self) -> None:
        while (fd := self._work.get()) is not None:
            error: BaseException | None = None
            try:
                self._files.sync_data(fd)
            except OSError as failure:
                error = failure
            self._answers.put(error)
            self._engine_thread(partial(self._take_result, False))

    def _take_result(self, wait: bool) -> None:
        if self._running and (wait or not self._answers.empty()):
            self._running = False
            self._done(self._answers.get())

    def finish(self) -> None:
        while self._running:
            self._take_result(True)

    def close(self) -> None:
        self._work.put(None)
        self._thread.join()


def open_sync(
    loop: Loop | None, engine_thread: Callable[[Callable[[], None]], None], done: SyncCallback, files: Files
) -> Sync:
    """A RingSync if there is a loop and the kernel permits it, else a ThreadSync."""
    if loop is not None and kernel_can_sync():
        with contextlib.suppress(OSError):
            return RingSync(loop, done)
    return ThreadSync(engine_thread, done, files)


@cache
def kernel_can_sync() -> bool:
    """Whether the kernel syncs a file asynchronously. It is tried, because a sandbox may refuse any part of it."""

    class Nobody:
        def call_soon(self, callback: Callable[[], object]) -> object: ...

        def add_reader(self, fd: int, callback: Callable[[], object]) -> object: ...

        def remove_reader(self, fd: int) -> object: ...

    results: list[BaseException | None] = []
    try:
        sync = RingSync(Nobody(), results.append)
    except (OSError, AttributeError):
        return False
    try:
        with tempfile.TemporaryFile() as file:
            sync.begin(file.fileno())
            sync.finish()
    except OSError:
        return False
    finally:
        sync.close()
    return results == [None]
