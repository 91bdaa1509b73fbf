"""An event loop with virtual time, and nodes on it that can be stopped, continued and killed.

    loop = VirtualLoop()
    loop.run(main())                        time jumps to the next timer when there is nothing else to do

Everything that code scheduled in a node's context (`node.run`) schedules in turn (tasks, timers, callbacks of futures)
belongs to the node. While the node is stopped its handles are kept, like a process under SIGSTOP; when it continues
they run, late. Those of a killed node never run. `loop.every_step`, if set, is called before each handle of a node,
with the node: that is every point at which another one could have come between. What is scheduled in `NOWHERE` belongs
to no node: what a network, a server or a disk does.

It is no subclass of asyncio's loop: that one asks a selector before every turn, reads its clock, and makes two objects
where one does, which cost more than the code that is simulated. It has what futures, tasks, locks and timeouts ask of a
loop, and no files, sockets nor threads.
"""

from __future__ import annotations

import asyncio
import contextvars
import heapq
from asyncio.events import _set_running_loop
from collections import deque
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

T = TypeVar("T")
_node: contextvars.ContextVar[Node | None] = contextvars.ContextVar("node", default=None)
NOWHERE = contextvars.Context()
PRUNE_AT = 500  # tasks that are remembered before those that are done are forgotten


class Node:
    """One process."""

    def __init__(self, loop: VirtualLoop, name: str) -> None:
        self.name = name
        self.stopped = False
        self.dead = False
        self._loop = loop
        self._held: list[_Handle] = []
        loop.nodes.append(self)
        self.context = contextvars.copy_context()
        self.context.run(_node.set, self)

    def start(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        return self._loop.create_task(work, context=self.context.copy())

    def stop(self) -> None:
        self.stopped = True

    def resume(self) -> None:
        self.stopped = False
        held, self._held = self._held, []
        self._loop.ready.extend(held)

    def kill(self) -> None:
        self.dead = True

    def takes(self, handle: _Handle) -> bool:
        """Whether the handle is not to be run now."""
        if not self.dead and not self.stopped and self._loop.every_step is not None:
            self._loop.every_step(self)
        if self.stopped or self.dead:
            self._held.append(handle)
            return True
        return False


class _Handle(asyncio.TimerHandle):
    """What is to be called. `node`: whose it is."""

    __slots__ = ("node",)

    def __init__(self, when: float, callback: Any, args: Any, context: contextvars.Context) -> None:
        self._when = when
        self._callback = callback
        self._args = args
        self._context = context
        self._cancelled = False
        self.node = context.get(_node)

    def cancel(self) -> None:
        self._cancelled = True
        self._callback = self._args = None


class VirtualLoop(asyncio.AbstractEventLoop):
    """Seconds of its clock begin at 0. `failures`: errors that nobody asked for."""

    def __init__(self) -> None:
        self.every_step: Callable[[Node], None] | None = None
        self.nodes: list[Node] = []
        self.failures: list[dict[str, Any]] = []
        self.ready: deque[_Handle] = deque()
        self.turns = 0
        self._timers: list[tuple[float, int, _Handle]] = []
        self._now = 0.0
        self._serial = 0
        self._kept: list[asyncio.Task[Any]] = []  # asyncio refers to tasks weakly, and dead nodes have many
        self._prune_at = PRUNE_AT
        self._closing = False

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """To its end; then everything that is left is cancelled, and the loop is closed."""
        try:
            return self.run_until_complete(work)
        finally:
            self.every_step = None
            self._closing = True
            for node in self.nodes:  # their tasks are to end, and cannot without what was kept from them
                node.dead = False
                node.resume()
            for _ in range(10):  # what a task does at its end may begin another
                left = [task for task in self._kept if not task.done()]
                if not left:
                    break
                for task in left:
                    task.cancel()
                self.run_until_complete(asyncio.wait(left, timeout=60))

    def run_until_complete(self, future: Any) -> Any:
        _set_running_loop(self)
        try:
            task = asyncio.ensure_future(future, loop=self)
            self._turn(task)
            return task.result()
        finally:
            _set_running_loop(None)

    def _turn(self, until: asyncio.Future[Any]) -> None:
        ready, timers, done = self.ready, self._timers, until.done
        while not done():
            if not ready:
                if not timers:
                    raise RuntimeError("nothing will ever happen any more")
                now = self._now = max(timers[0][0], self._now)
                while timers and timers[0][0] <= now:
                    ready.append(heapq.heappop(timers)[2])
            handle = ready.popleft()
            callback = handle._callback  # type: ignore[attr-defined]
            if callback is None or (handle.node is not None and handle.node.takes(handle)):
                continue
            self.turns += 1
            try:
                handle._context.run(callback, *handle._args)  # type: ignore[attr-defined]
            except Exception as error:
                self.call_exception_handler({"message": "a callback", "exception": error})

    # --- what asyncio asks of a loop -----------------------------------------------------------------------------

    def time(self) -> float:
        return self._now

    def call_soon(self, callback: Any, *args: Any, context: Any = None) -> asyncio.Handle:
        handle = _Handle(self._now, callback, args, contextvars.copy_context() if context is None else context)
        self.ready.append(handle)
        return handle

    def call_at(self, when: float, callback: Any, *args: Any, context: Any = None) -> asyncio.TimerHandle:
        handle = _Handle(when, callback, args, contextvars.copy_context() if context is None else context)
        self._serial += 1
        heapq.heappush(self._timers, (when, self._serial, handle))
        return handle

    def call_later(self, delay: float, callback: Any, *args: Any, context: Any = None) -> asyncio.TimerHandle:
        return self.call_at(self._now + delay, callback, *args, context=context)

    def create_future(self) -> asyncio.Future[Any]:
        return asyncio.Future(loop=self)

    def create_task(self, work: Any, *, name: str | None = None, context: Any = None) -> asyncio.Task[Any]:
        task: asyncio.Task[Any] = asyncio.Task(work, loop=self, name=name or "", context=context)
        if len(self._kept) >= self._prune_at:
            self._kept = [known for known in self._kept if not known.done()]
            self._prune_at = 2 * len(self._kept) + PRUNE_AT
        self._kept.append(task)
        return task

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        if not self._closing:
            self.failures.append(context)

    def get_debug(self) -> bool:
        return False

    def is_running(self) -> bool:
        return True

    def is_closed(self) -> bool:
        return False

    async def shutdown_asyncgens(self) -> None:
        pass
