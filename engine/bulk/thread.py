"""A thread for one statement's heavy work, so that the event loop goes on. It stands back (engine/priority.py)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import ParamSpec, TypeVar

from engine.priority import stand_back

P = ParamSpec("P")
T = TypeVar("T")


class BulkThread:
    """Runs functions one after the other. What it was given runs to its end even if whoever waited was cancelled, so
    clean-up that is handed to `at_end` comes after it and needs no waiting for."""

    def __init__(self, name: str) -> None:
        self._executor = ThreadPoolExecutor(1, name, stand_back)
        self._last: list[Callable[[], object]] = []

    async def run(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Runs the function in the thread and waits for its result."""
        future = self._executor.submit(function, *args, **kwargs)
        return await asyncio.wrap_future(future)

    def at_end(self, function: Callable[[], object]) -> None:
        """Runs the function when everything else is done."""
        self._last.append(function)

    def close(self) -> None:
        """Ends the thread once everything is done."""
        for function in self._last:
            self._executor.submit(function)
        self._executor.shutdown(wait=False)
