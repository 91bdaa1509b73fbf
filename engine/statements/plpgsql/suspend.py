"""Lets code that runs at once wait in the middle: it runs in a greenlet, and what it waits for is awaited outside.

    await run(function)          runs it, in a greenlet of its own;  begin, finish  its two halves, where few wait
    wait(awaitable)              within it: leaves the greenlet until the result is there, and returns or raises that

So a function in PL/pgSQL is plain Python, and a statement in it may wait for a lock as any other.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Awaitable, Callable
from contextvars import copy_context
from typing import Any, TypeVar, cast

from greenlet import GreenletExit, getcurrent, greenlet

from catalog.memory import UNLIMITED, Meter, exchange_meter

T = TypeVar("T")

MOST_IDLE = 16
"""Greenlets of a thread that are kept for later calls: the stack of a new one costs several microseconds."""


class _Running(greenlet):  # type: ignore[misc]  # greenlet has no types for its base
    """A greenlet that runs one function after the other."""

    def __init__(self) -> None:
        super().__init__(self._serve)
        self._meter = Meter()
        self._function: Callable[[], object] | None = None
        self._value: object = None
        self._error: BaseException | None = None
        self.found: Any = None  # what it waits for, or its result

    def take(self) -> Any:
        """The result, once: it is free for another function then."""
        found, self.found = self.found, None
        self.release()
        return found

    def release(self) -> None:
        """Keeps it for another function, if its own has ended."""
        if self._function is None and len(_idle.greenlets) < MOST_IDLE:
            _idle.greenlets.append(self)

    def begin(self, function: Callable[[], object]) -> Any:
        """Runs a function until it waits, and returns for what; or to its end, and returns its value."""
        self._function = function
        self._meter.begin(UNLIMITED, None)
        self.parent = getcurrent()
        self.gr_context = copy_context()
        return self.enter(self.switch)

    def enter(self, resume: Callable[..., Any], *arguments: object) -> Any:
        """Runs it until it is left, with a meter of its own: meanwhile other statements use that of the thread. Raises
        what the function has raised."""
        outside = exchange_meter(self._meter)
        try:
            found = resume(*arguments)
        finally:
            self._meter = exchange_meter(outside)
        if self._error is not None:
            error, self._error = self._error, None
            try:
                raise error
            finally:
                del error  # it has this frame
        if self._function is None:
            found, self._value = self._value, None  # an idle one keeps no results
        return found

    @property
    def is_idle(self) -> bool:
        """Whether its function has ended."""
        return self._function is None

    def _serve(self) -> None:
        while True:
            try:
                assert self._function is not None
                self._value = self._function()
            except GreenletExit:  # nobody can resume it
                raise
            except BaseException as error:
                self._error = error
            self._function = None
            self.parent.switch()


Begun = _Running


class _Idle(threading.local):
    """The idle greenlets of a thread."""

    def __init__(self) -> None:
        self.greenlets: list[_Running] = []


_idle = _Idle()


def begin(function: Callable[[], object]) -> Begun:
    """Runs a function that may call `wait`, until it waits or ends. Raises what it raises. If it `is_idle`, the caller
    takes the result; otherwise that of `finish`."""
    kept = _idle.greenlets
    running = kept.pop() if kept else _Running()
    try:
        running.found = running.begin(function)
    except BaseException:
        running.release()
        raise
    return running


async def finish(running: Begun) -> Any:
    """The result of a function that has begun. Raises what it raises; what ends the waiting (a cancellation) is raised
    in it, where it waits."""
    try:
        while not running.is_idle:
            try:
                value = await running.found
            except BaseException:
                running.found = running.enter(running.throw, *sys.exc_info())
            else:
                running.found = running.enter(running.switch, value)
    except BaseException:
        running.release()
        raise
    return running.take()


async def run(function: Callable[[], T]) -> T:
    """Runs a function that may call `wait`: `begin` and `finish`."""
    return cast(T, await finish(begin(function)))


def is_running() -> bool:
    """Whether the caller may `wait`."""
    return isinstance(getcurrent(), _Running)


def wait(awaitable: Awaitable[T]) -> T:
    """The result of an awaitable. Only within `run`."""
    current = getcurrent()
    assert isinstance(current, _Running)
    return cast(T, current.parent.switch(awaitable))
