"""The engine looks after the worker while something is under way there: catalog/stillness.py.

One that does nothing for those who wait for it is replaced, and what was under way runs in another one. A worker that
works, and hears nobody, is another matter: worker_answers.py.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Set

from catalog import stillness
from catalog.stillness import Stillness


class Watch:
    """Over a worker, while anything is `under_way` there. `due`: whether somebody waits for it, and it for nobody.
    `replace`: puts another worker in its place."""

    def __init__(self, under_way: Callable[[], bool], due: Callable[[], bool], replace: Callable[[], None]) -> None:
        self._under_way = under_way
        self._due = due
        self._replace = replace
        self._timer: asyncio.TimerHandle | None = None

    def begin(self, pid: int, watchers: Set[int]) -> None:
        """Something is under way."""
        if self._timer is None:
            self._later(Stillness(pid, watchers))

    def clear(self) -> None:
        """The worker is gone."""
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
