"""Watches the worker while it has work (catalog/stillness.py).

A worker that makes no progress while sessions wait is replaced, and its queries run in the new one. worker_answers.py
handles a worker that makes progress but does not read messages.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Set

from catalog import stillness
from catalog.stillness import Stillness


class Watch:
    """Watches a worker while work is `under_way`. `due`: whether a session waits for the worker, and the worker for no
    session. `replace`: replaces the worker."""

    def __init__(self, under_way: Callable[[], bool], due: Callable[[], bool], replace: Callable[[], None]) -> None:
        self._under_way = under_way
        self._due = due
        self._replace = replace
        self._timer: asyncio.TimerHandle | None = None

    def begin(self, pid: int, watchers: Set[int]) -> None:
        """Called when work starts."""
        if self._timer is None:
            self._later(Stillness(pid, watchers))

    def clear(self) -> None:
        """Called when the worker has ended."""
        timer, self._timer = self._timer, None
        if timer is not None:
            timer.cancel()

    def _later(self, of: Stillness) -> None:
        self._timer = asyncio.get_running_loop().call_later(stillness.LOOK_SECONDS, self._look, of)

    def _look(self, of: Stillness) -> None:
        self._timer = None
        if not self._under_way():
            return
        if of.lasts(self._due()):
            self._replace()
        else:
            self._later(of)
