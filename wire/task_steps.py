"""A coroutine whose first step runs without a task: most end in it, and a task costs a turn of the event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Generator
from typing import Any


def begin_task(task: Coroutine[Any, Any, None]) -> asyncio.Task[None] | None:
    """Runs the first step of a coroutine. Returns the task that runs the others; None if there are none."""
    try:
        awaited = task.send(None)
    except StopIteration:
        return None
    return asyncio.get_running_loop().create_task(_continue(task, awaited))


async def _continue(task: Coroutine[Any, Any, None], awaited: object) -> None:
    """The rest of a coroutine whose first step has run, and which waits for `awaited`."""
    await _Steps(task, awaited)


class _Steps:
    """Passes on what a coroutine waits for."""

    def __init__(self, task: Coroutine[Any, Any, None], awaited: object) -> None:
        self._task, self._awaited = task, awaited

    def __await__(self) -> Generator[object, Any, None]:
        task, awaited = self._task, self._awaited
        try:
            while True:
                try:
                    value = yield awaited
                except BaseException as error:
                    awaited = task.throw(error)
                else:
                    awaited = task.send(value)
        except StopIteration:
            return
