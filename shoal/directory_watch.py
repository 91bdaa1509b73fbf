"""Ends the node when its data directory disappears. Files that are removed stay readable and writable for the process
that has them open. So without this check the node would acknowledge commits in files that are lost when it ends."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from pathlib import Path

from catalog.errors import SqlError
from replication.background import BackgroundTask

INTERVAL = 2.0  # seconds
NEEDED = (Path("lock"), Path("rows") / "data.mdb")  # every node has it from its start to its end


class DirectoryWatch(BackgroundTask):
    """`fatal` is called once."""

    def __init__(self, data: Path, fatal: Callable[[BaseException], None], interval: float = INTERVAL) -> None:
        self._data = data
        self._fatal = fatal
        self._interval = interval
        self._lock = self._identity()

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(self._interval)
            wrong = await asyncio.to_thread(self.find_problem)
            if wrong:
                self._fatal(SqlError("58P01", wrong))
                return

    def find_problem(self) -> str:
        """The problem with the directory, or ''."""
        for name in NEEDED:
            if not (self._data / name).exists():
                return f"{self._data / name} has been removed while this node was using it"
        if self._identity() != self._lock:
            return f"{self._data} has been replaced while this node was using it"
        return ""

    def _identity(self) -> tuple[int, int]:
        try:
            found = os.stat(self._data / NEEDED[0])
        except OSError:
            return 0, 0
        return found.st_dev, found.st_ino
