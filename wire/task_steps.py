"""A coroutine whose first step runs without a task: most end in it, and a task costs a turn of the event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Generator
from typing import Any


def begin_task(work: Coroutine[Any, Any, None]) -> asyncio.Task[None] | None:
    """Runs the first step of a coroutine. Returns the task that runs the others; None if there are none."""
    try:
        awaited = work.send(None)
    except StopIteration:
        return None
    return asyncio.get_running_loop().create_task(_Rest(work, awaited))


class _Rest(Coroutine[Any, Any, None]):
    """A coroutine after its first step, which waits for `awaited`. A task that is cancelled before it has run throws
    that into it. Another coroutine around it would then end without it."""

    def __init__(self, work: Coroutine[Any, Any, None], awaited: object) -> None:
        self._work = work
        self._awaited: object = awaited
        self._is_begun = False

    def send(self, value: Any) -> Any:
        if self._is_begun:
            return self._work.send(value)
        self._is_begun = True
        awaited, self._awaited = self._awaited, None
        return awaited

    def throw(self, *error: Any) -> Any:
        self._is_begun = True
        return self._work.throw(*error)

    def close(self) -> None:
        self._work.close()

    def __await__(self) -> Generator[Any, Any, None]:
        raise TypeError("it is for a task")
