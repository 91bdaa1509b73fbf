"""Making what was written to a file durable, without holding up the engine's thread: one sync at a time.

    sync.begin(fd)      returns at once; `done(error or None)` is called on the engine's thread
    sync.finish()       waits for the sync that was begun, and calls `done`: for shutdown

**KernelSync** asks the kernel (Linux's io_submit with IOCB_CMD_FDSYNC, man 2 io_submit) and is told by an eventfd that
the event loop watches. There is no thread, hence no fight for the interpreter: 15 us of processor time a sync, where a
thread that must win the interpreter twice costs the engine's thread about as much again, and on a busy machine makes a
commit wait for its turns. **ThreadSync** is for every other system: a thread that calls fdatasync.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import platform
import struct
import sys
import tempfile
import threading
from collections.abc import Callable
from functools import cache, partial
from queue import SimpleQueue
from typing import Any, Protocol

from replication.files import Files

Done = Callable[[BaseException | None], None]


class Loop(Protocol):
    """The part of asyncio's event loop that is needed here."""

    def call_soon(self, callback: Callable[[], object]) -> object: ...

    def add_reader(self, fd: int, callback: Callable[[], object]) -> object: ...

    def remove_reader(self, fd: int) -> object: ...


class Sync(Protocol):
    """See the module's text. After an error the file must be given up: pages may have been dropped as if written."""

    def begin(self, fd: int) -> None: ...

    def finish(self) -> None: ...

    def close(self) -> None: ...


# (io_setup, io_destroy, io_getevents, io_submit): man 2 syscalls
_CALLS = {"x86_64": (206, 207, 208, 209), "aarch64": (0, 1, 4, 2)}
_IOCB = struct.Struct(
    "<QIiHhIQQqQII"
)  # data, key, rw_flags, opcode, priority, fd, buf, nbytes, offset, -, flags, eventfd
_FDSYNC = 3
_NOTIFY = 1
_EVENT = struct.Struct("<QQqq")  # data, iocb, result, result 2


class KernelSync:
    """Raises OSError where the kernel has no such thing, or does not permit it."""

    def __init__(self, loop: Loop, done: Done) -> None:
        calls = _CALLS.get(platform.machine())
        if sys.platform != "linux" or calls is None:
            raise OSError(38, "no asynchronous fdatasync on this system")
        setup, self._destroy, self._events, self._submit = calls
        # These calls return at once, so they keep the interpreter (PyDLL): letting it go costs more.
        self._call: Any = ctypes.PyDLL(None, use_errno=True).syscall
        self._loop, self._done = loop, done
        self._context = ctypes.c_ulong(0)
        if self._call(setup, ctypes.c_uint(1), ctypes.byref(self._context)):
            raise OSError(ctypes.get_errno(), "io_setup")
        self._eventfd = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        self._event = ctypes.create_string_buffer(_EVENT.size)
        self._request = ctypes.create_string_buffer(_IOCB.size)
        self._requests = (ctypes.c_void_p * 1)(ctypes.addressof(self._request))
        self._fd = -1
        self._running = False
        loop.add_reader(self._eventfd, self._ready)

    def begin(self, fd: int) -> None:
        if fd != self._fd:
            self._fd = fd
            _IOCB.pack_into(self._request, 0, 0, 0, 0, _FDSYNC, 0, fd, 0, 0, 0, 0, _NOTIFY, self._eventfd)
        if self._call(self._submit, self._context, 1, self._requests) != 1:
            error = ctypes.get_errno()
            raise OSError(error, os.strerror(error))
        self._running = True

    def _ready(self) -> None:
        with contextlib.suppress(BlockingIOError):
            os.read(self._eventfd, 8)
        self._take(0)

    def _take(self, least: int) -> None:
        if not self._running or self._call(self._events, self._context, least, 1, self._event, None) != 1:
            return
        self._running = False
        result = _EVENT.unpack(self._event)[2]
        self._done(None if result == 0 else OSError(-result, os.strerror(-result)))

    def finish(self) -> None:
        while self._running:
            self._take(1)

    def close(self) -> None:
        if self._eventfd >= 0:
            self._loop.remove_reader(self._eventfd)
            self._call(self._destroy, self._context)
            os.close(self._eventfd)
            self._eventfd = -1


class ThreadSync:
    """A thread that syncs; `engine_thread` brings the answer to the engine's thread."""

    def __init__(self, engine_thread: Callable[[Callable[[], None]], None], done: Done, files: Files) -> None:
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
            self._engine_thread(partial(self._take, False))

    def _take(self, wait: bool) -> None:
        if self._running and (wait or not self._answers.empty()):
            self._running = False
            self._done(self._answers.get())

    def finish(self) -> None:
        while self._running:
            self._take(True)

    def close(self) -> None:
        self._work.put(None)
        self._thread.join()


def open_sync(loop: Loop | None, engine_thread: Callable[[Callable[[], None]], None], done: Done, files: Files) -> Sync:
    """The kernel's where there is a loop to tell, and the kernel can; else a thread's."""
    if loop is not None and kernel_can_sync():
        with contextlib.suppress(OSError):
            return KernelSync(loop, done)
    return ThreadSync(engine_thread, done, files)


@cache
def kernel_can_sync() -> bool:
    """Whether the kernel syncs a file asynchronously: tried, because a sandbox may refuse any part of it."""

    class Nobody:
        def call_soon(self, callback: Callable[[], object]) -> object: ...

        def add_reader(self, fd: int, callback: Callable[[], object]) -> object: ...

        def remove_reader(self, fd: int) -> object: ...

    results: list[BaseException | None] = []
    try:
        sync = KernelSync(Nobody(), results.append)
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
