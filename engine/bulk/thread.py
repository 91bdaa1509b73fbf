"""A thread for one statement's heavy work, so that the event loop goes on. It stands back (engine/priority.py)."""

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
    """Runs functions one after the other. What it was given runs to its end even if whoever waited was cancelled, so
    clean-up that is handed to `at_end` comes after it and needs no waiting for.

    `gives_way`: it rests four times as long as it works while short statements wait for processors (Foreground.aside).
    Not for what others wait for: schema changes, and what holds locks of many rows that are there already."""

    def __init__(self, name: str, gives_way: bool = False) -> None:
        self._executor = ThreadPoolExecutor(1, name, stand_back)
        self._gives_way = gives_way
        self._last: list[Callable[[], object]] = []

    async def run(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Runs the function in the thread and waits for its result; its processes end when that is cancelled."""
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
        """Runs the function when everything else is done."""
        self._last.append(function)

    def close(self) -> None:
        """Ends the thread once everything is done."""
        last, self._last = self._last, []
        for function in last:
            self._executor.submit(function)
        self._executor.shutdown(wait=False)
