"""An event loop with virtual time, and nodes on it that can be stopped, continued and killed.

    loop = VirtualLoop()
    loop.run(main())                        time jumps to the next timer when there is nothing else to do

Everything that code scheduled in a node's context (`node.run`) schedules in turn (tasks, timers, callbacks of futures)
belongs to the node. While the node is stopped its handles are kept, like a process under SIGSTOP; when it continues
they run, late. Those of a killed node never run. `loop.every_step`, if set, is called before each handle of a node,
with the node: that is every point at which another one could have come between.
"""

from __future__ import annotations

import asyncio
import contextvars
import heapq
import selectors
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

T = TypeVar("T")
_node: contextvars.ContextVar[Node | None] = contextvars.ContextVar("node", default=None)


class Node:
    """One process."""

    def __init__(self, loop: VirtualLoop, name: str) -> None:
        self.name = name
        self.stopped = False
        self.dead = False
        self._loop = loop
        self._held: list[Callable[[], None]] = []
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
        for run in held:
            self._loop.call_soon(run, context=contextvars.Context())

    def kill(self) -> None:
        self.dead = True

    def takes(self, run: Callable[[], None]) -> bool:
        """Whether the handle is not to be run now."""
        if not self.dead and not self.stopped and self._loop.every_step is not None:
            self._loop.every_step(self)
        if self.stopped or self.dead:
            self._held.append(run)
        return self.stopped or self.dead


class _Handle(asyncio.Handle):
    def _run(self) -> None:
        run(self, super()._run)


class _TimerHandle(asyncio.TimerHandle):
    def _run(self) -> None:
        run(self, super()._run)


def run(handle: asyncio.Handle, action: Callable[[], None]) -> None:
    node = handle._context.get(_node)  # type: ignore[attr-defined]
    if handle.cancelled() or (node is not None and node.takes(lambda: run(handle, action))):
        return
    action()


class _Selector(selectors.SelectSelector):
    """Does not wait: time jumps."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0

    def select(self, timeout: float | None = None) -> list[Any]:
        if timeout is None:
            raise RuntimeError("nothing will ever happen any more")
        self.now += max(timeout, 0.0)
        return []


class VirtualLoop(asyncio.SelectorEventLoop):
    """Seconds of its clock begin at 0."""

    def __init__(self) -> None:
        self._virtual = _Selector()
        super().__init__(self._virtual)
        self.every_step: Callable[[Node], None] | None = None
        self.nodes: list[Node] = []
        self._kept: list[asyncio.Task[Any]] = []  # the loop itself refers to tasks weakly, and dead nodes have many
        self.set_task_factory(self._make_task)
        self.failures: list[dict[str, Any]] = []
        self.set_exception_handler(lambda loop, context: self.failures.append(context))

    def time(self) -> float:
        return self._virtual.now

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """To its end; then everything that is left is cancelled, and the loop is closed."""
        asyncio.set_event_loop(self)
        try:
            return self.run_until_complete(work)
        finally:
            asyncio.set_event_loop(None)
            self.every_step = None
            self.set_exception_handler(lambda loop, context: None)
            for node in self.nodes:  # their tasks are to end, and cannot without what was kept from them
                node.dead = False
                node.resume()
            for _ in range(10):  # what a task does at its end may begin another
                left = asyncio.all_tasks(self)
                for task in left:
                    task.cancel()
                self.run_until_complete(asyncio.wait(left, timeout=60) if left else asyncio.sleep(0))
            self.close()

    def _make_task(self, loop: asyncio.AbstractEventLoop, work: Any, context: Any = None) -> asyncio.Task[Any]:
        task: asyncio.Task[Any] = asyncio.Task(work, loop=loop, context=context)
        self._kept.append(task)
        return task

    def _call_soon(self, callback: Any, args: Any, context: Any) -> asyncio.Handle:
        handle = _Handle(callback, args, self, context)
        self._ready.append(handle)  # type: ignore[attr-defined]
        return handle

    def call_at(  # type: ignore[override]
        self, when: float, callback: Any, *args: Any, context: Any = None
    ) -> asyncio.TimerHandle:
        timer = _TimerHandle(when, callback, args, self, context)
        heapq.heappush(self._scheduled, timer)  # type: ignore[attr-defined]
        timer._scheduled = True  # type: ignore[attr-defined]
        return timer
