"""A part of the coordination service's tree, kept in memory by watches: the common part of the directory and the
observer.

    to read -> read with a watch -> `_on_children` or `_on_data`       again whenever a watch fires

A subclass defines the first paths, which of them are folders, and the use of the data. Folders name further paths to
follow; paths that are no longer named are no longer read.

While the service cannot be reached the last state stays, and `stale` is true. When the session is over another one is
opened, and everything is read again. A path may have a *pause*, a minimal time between two reads of it (a head changes
with every commit); the watch of that read reports the next change.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Iterable
from functools import partial

from catalog.errors import SqlError
from replication.background import run_in_background
from replication.interface import Coordination, CoordinationUnavailableError, SessionState

log = logging.getLogger("shoal.picture")

RETRY_PAUSE = 0.5  # seconds


class ZnodeCache(ABC):
    """`open_session` gives a new session each time it is called; `close` ends it, unless it is shared with others."""

    def __init__(
        self,
        roots: Iterable[str],
        open_session: Callable[[], Awaitable[Coordination]],
        *,
        retry_pause: float = RETRY_PAUSE,
        shared_session: bool = False,
    ) -> None:
        self._roots = tuple(roots)
        self._open_session = open_session
        self._retry_pause = retry_pause
        self._shared = shared_session
        self._session: Coordination | None = None
        self._children_paths: set[str] = set()  # paths that a folder has named
        self._callbacks: list[Callable[[], None]] = []
        self._to_read: dict[str, None] = {}  # paths, in the order of their changes
        self._read_at: dict[str, float] = {}  # loop time, of paths with a pause
        self._delayed: dict[str, asyncio.TimerHandle] = {}  # paths that have changed again since
        self._wake = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self.stale = True

    # ---- interface for subclasses -----------------------------------------------------------------------------------

    @abstractmethod
    def _is_folder(self, path: str) -> bool:
        """Whether the children of a path are read, instead of its data."""

    @abstractmethod
    def _on_children(self, path: str, names: list[str]) -> list[str]:
        """Handles the children of a folder, and forgets deleted ones. Returns the paths to follow below it."""

    @abstractmethod
    def _on_data(self, path: str, data: bytes | None) -> None:
        """Handles the data of a path; None: there is no such znode. Raises SqlError XX001 for damaged data."""

    def _pause(self, path: str) -> float:
        """Seconds between two reads of the path."""
        return 0.0

    # ---- for readers ------------------------------------------------------------------------------------------------

    def on_change(self, callback: Callable[[], None]) -> None:
        """Calls back after every change of the data, and of `stale`."""
        self._callbacks.append(callback)

    async def start(self) -> None:
        """Opens the first session and reads everything. Raises errors of opening it."""
        self._use_session(await self._open_session())
        with contextlib.suppress(CoordinationUnavailableError):
            await self._read_all()
        self._task = run_in_background(self._follow())

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait((self._task,))
        self._cancel_timers()
        session, self._session = self._session, None
        if session is not None and not self._shared:
            await session.close()

    # ---- following --------------------------------------------------------------------------------------------------

    def _use_session(self, session: Coordination) -> None:
        self._session = session
        self._children_paths.clear()
        self._cancel_timers()
        session.on_state(partial(self._state_changed, session))
        for path in self._roots:
            self._schedule_read(path)

    def _state_changed(self, session: Coordination, state: SessionState) -> None:
        if session is self._session and state != "connected":
            self._notify(stale=True)
            self._wake.set()

    def _schedule_read(self, path: str) -> None:
        self._to_read[path] = None
        self._wake.set()

    async def _follow(self) -> None:
        while True:
            try:
                await self._wake.wait()
                self._wake.clear()
                if self._session is None or self._session.state == "lost":
                    self._use_session(await self._open_session())
                await self._read_all()
            except (CoordinationUnavailableError, SqlError) as error:
                log.warning("the state of the cluster cannot be read: %s", error)
                self._notify(stale=True)
                await asyncio.sleep(self._retry_pause)
                self._wake.set()

    async def _read_all(self) -> None:
        """Reads every path that has changed; unreadable ones stay on the list."""
        session = self._session
        assert session is not None
        while self._to_read:
            await self._read(session, next(iter(self._to_read)))
        self._notify(stale=session.state != "connected")

    async def _read(self, session: Coordination, path: str) -> None:
        # A change during the read must put the path back on the list: it is taken off first.
        self._to_read.pop(path)
        if path not in self._roots and path not in self._children_paths:
            return
        try:
            watch = partial(self._on_watch, session, path)
            if self._is_folder(path):
                self._follow_below(path, self._on_children(path, await session.children(path, watch)))
            else:
                if self._pause(path):
                    self._read_at[path] = asyncio.get_running_loop().time()
                found = await session.get(path, watch)
                if path in self._children_paths:
                    self._on_data(path, None if found is None else found.data)
        except CoordinationUnavailableError:
            self._to_read[path] = None
            raise
        except SqlError as error:  # the rest of the tree is as good as it was
            log.warning("ignored %s: %s", path, error.message)

    def _follow_below(self, folder: str, paths: list[str]) -> None:
        prefix, named = folder + "/", set(paths)
        below = {path for path in self._children_paths if path.startswith(prefix)}
        gone = {path for path in below if path not in named and path.rpartition("/")[0] not in named}
        self._children_paths -= gone
        for path in gone:
            self._read_at.pop(path, None)
        self._to_read.update(dict.fromkeys(path for path in paths if path not in self._children_paths))
        self._children_paths |= named

    def _on_watch(self, session: Coordination, path: str) -> None:
        if session is not self._session or path in self._delayed:
            return
        loop = asyncio.get_running_loop()
        due = self._read_at.get(path, 0.0) + self._pause(path)
        if due <= loop.time():
            self._schedule_read(path)
        else:
            self._delayed[path] = loop.call_at(due, self._on_pause_end, path)

    def _on_pause_end(self, path: str) -> None:
        del self._delayed[path]
        self._schedule_read(path)

    def _cancel_timers(self) -> None:
        for timer in self._delayed.values():
            timer.cancel()
        self._delayed.clear()

    def _notify(self, *, stale: bool) -> None:
        self.stale = stale
        for callback in self._callbacks:
            callback()
