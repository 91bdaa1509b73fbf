"""Lets code that runs at once wait in the middle: it runs in a greenlet, and what it waits for is awaited outside.

    await run(function)          runs it, in a greenlet of its own
    wait(awaitable)              within it: leaves the greenlet until the result is there, and returns or raises that

So a function in PL/pgSQL is plain Python, and a statement in it may wait for a lock as any other.
"""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable
from contextvars import copy_context
from typing import Any, TypeVar, cast

from greenlet import getcurrent, greenlet

from catalog.memory import Meter, exchange_meter

T = TypeVar("T")


class _Running(greenlet):  # type: ignore[misc]  # greenlet has no types for its base
    """The greenlet of a function."""

    def __init__(self, function: Callable[[], object]) -> None:
        super().__init__(function, getcurrent())
        self.gr_context = copy_context()
        self._meter = Meter()

    def enter(self, resume: Callable[..., Any], *arguments: object) -> Any:
        """Runs it until it is left, with a meter of its own: meanwhile other statements use that of the thread."""
        outside = exchange_meter(self._meter)
        try:
            return resume(*arguments)
        finally:
            self._meter = exchange_meter(outside)


async def run(function: Callable[[], T]) -> T:
    """Runs a function that may call `wait`. Raises what it raises; what ends the waiting (a cancellation) is raised in
    it, where it waits."""
    running = _Running(function)
    found = running.enter(running.switch)
    while not running.dead:
        try:
            value = await found
        except BaseException:
            found = running.enter(running.throw, *sys.exc_info())
        else:
            found = running.enter(running.switch, value)
    return cast(T, found)


def is_running() -> bool:
    """Whether the caller may `wait`."""
    return isinstance(getcurrent(), _Running)


def wait(awaitable: Awaitable[T]) -> T:
    """The result of an awaitable. Only within `run`."""
    current = getcurrent()
    assert isinstance(current, _Running)
    return cast(T, current.parent.switch(awaitable))
