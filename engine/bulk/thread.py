"""A thread for one statement's heavy work, so that the event loop continues. It has a low priority
(engine/priority.py)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import ParamSpec, TypeVar

from catalog.processes import Errand
from engine.foreground import foreground, time_call
from engine.priority import stand_back

P = ParamSpec("P")
T = TypeVar("T")


class BulkThread:
    """Runs functions one after the other. A function runs to its end even if the waiting caller was cancelled.
    Functions for `at_end` run after it, and need no waiting.

    `gives_way`: the thread sleeps four times as long as it works while short statements wait for processors
    (Foreground.aside). It is not used for work that others wait for: schema changes, and statements that hold locks on
    many existing rows."""

    def __init__(self, name: str, gives_way: bool = False) -> None:
        self._executor = ThreadPoolExecutor(1, name, stand_back)
        self._gives_way = gives_way
        self._last: list[Callable[[], object]] = []

    async def run(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Runs the function in the thread and waits for its result. When that is cancelled, the function's processes
        end."""
        errand = Errand()
        work = partial(self._run, partial(errand.run, partial(function, *args, **kwargs)))
        try:
            return await foreground().aside(work) if self._gives_way else (await work())[0]
        except asyncio.CancelledError:
            errand.end()
            raise

    async def _run(self, function: Callable[[], T]) -> tuple[T, float]:
        return await asyncio.wrap_future(self._executor.submit(time_call, function))

    def at_end(self, function: Callable[[], object]) -> None:
        """Runs the function after all others."""
        self._last.append(function)

    def close(self) -> None:
        """Ends the thread after all functions."""
        last, self._last = self._last, []
        for function in last:
            self._executor.submit(function)
        self._executor.shutdown(wait=False)
