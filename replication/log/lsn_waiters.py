"""Two kinds of waits: until this replica has applied an LSN, and for the result of a read that begins now."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from heapq import heappop, heappush
from itertools import count
from typing import Generic, TypeVar

T = TypeVar("T")


class LsnWaiters:
    """The tasks that wait until this replica has applied an LSN."""

    def __init__(self, lsn: int = 0) -> None:
        self.lsn = lsn
        self._heap: list[tuple[int, int, asyncio.Future[None]]] = []
        self._order = count()
        self._asked = asyncio.Event()

    async def wait_for_waiter(self) -> None:
        """Returns when at least one task waits for an LSN."""
        while True:
            while self._heap and self._heap[0][2].done():  # it has stopped waiting
                heappop(self._heap)
            if self._heap:
                return
            self._asked.clear()
            await self._asked.wait()

    async def wait_for(self, lsn: int) -> None:
        if lsn <= self.lsn:
            return
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        heappush(self._heap, (lsn, next(self._order), future))
        self._asked.set()
        await future

    def advance(self, lsn: int) -> None:
        """Sets the applied LSN and wakes the tasks that wait for it. The LSN may decrease, because a deposed leader
        undoes the entries that are not in the log."""
        self.lsn = lsn
        while self._heap and self._heap[0][0] <= lsn:
            future = heappop(self._heap)[2]
            if not future.done():
                future.set_result(None)

    def fail(self, error: BaseException) -> None:
        """Ends all current waits with the error."""
        waiting, self._heap = self._heap, []
        for _, _, future in waiting:
            if not future.done():
                future.set_exception(error)


class FreshReads(Generic[T]):
    """Shares one read among all callers that come while the read before it is running.

    A caller gets the result of a read that began after its call.
    """

    def __init__(self, read: Callable[[], Awaitable[T]]) -> None:
        self._read = read
        self._running: asyncio.Task[T] | None = None
        self._next: asyncio.Task[T] | None = None

    async def __call__(self) -> T:
        if self._running is None or self._running.done():
            task = self._running = self._begin(None)
        else:
            if self._next is None:
                self._next = self._begin(self._running)
            task = self._next
        return await asyncio.shield(task)

    def _begin(self, before: asyncio.Task[T] | None) -> asyncio.Task[T]:
        task = asyncio.ensure_future(self._read_after(before))
        task.add_done_callback(_retrieve_exception)
        return task

    async def _read_after(self, before: asyncio.Task[T] | None) -> T:
        if before is not None:
            await asyncio.wait((before,))
            self._running, self._next = self._next, None
        return await self._read()


def _retrieve_exception(task: asyncio.Task[T]) -> None:
    """Retrieves the error of a finished task, because asyncio logs errors that nobody retrieves, and its callers may
    have been cancelled."""
    if not task.cancelled():
        task.exception()
