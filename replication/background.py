"""Permanent background work of a node, as tasks of the event loop.

No code awaits these tasks, so a failure would stay unnoticed: a node would continue without its history, for example,
until it is restarted. So an unexpected error is passed to the loop's exception handler at once, and the handler of a
node (`stop_on_failure`) stops the node.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

KEY = "background"  # in the handler's context: marks work of this module


def run_in_background(work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
    """Runs it; the caller keeps the task, because asyncio does not."""
    task = asyncio.get_running_loop().create_task(work)
    task.add_done_callback(_tell_of_failure)
    return task


def _tell_of_failure(task: asyncio.Task[None]) -> None:
    if not task.cancelled() and (error := task.exception()) is not None:
        told = {"message": "work in the background has failed", "exception": error, "task": task, KEY: True}
        task.get_loop().call_exception_handler(told)


async def end_task(task: asyncio.Task[None] | None) -> None:
    """Cancels the task, if there is one, and waits until it has ended."""
    if task is not None:
        task.cancel()
        await asyncio.wait((task,))


def stop_on_failure(loop: asyncio.AbstractEventLoop, fatal: Callable[[BaseException], None]) -> None:
    """From now on `fatal` gets the error that ends a task of `run_in_background`."""

    def handle(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        if KEY in context:
            fatal(context["exception"])
        else:
            loop.default_exception_handler(context)

    loop.set_exception_handler(handle)


class BackgroundTask:
    """`_run` is the work: it runs from `start` until `stop` cancels it."""

    _task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._task = run_in_background(self._run())

    def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()

    async def _run(self) -> None:
        raise NotImplementedError
