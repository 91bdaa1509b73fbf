"""Work that a node does all the time beside what it is asked for, as a task of the event loop."""

from __future__ import annotations

import asyncio


class BackgroundTask:
    """`_run` is the work: it goes on from `start` until `stop` cancels it."""

    _task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._task = asyncio.get_running_loop().create_task(self._run())

    def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()

    async def _run(self) -> None:
        raise NotImplementedError
