"""The bulk files of one replica: one directory, one file each, with the names that entries use.

A file that has its name is complete and synced: a fetched file is written under another name, synced, and renamed.
"""

from __future__ import annotations

import asyncio
import os

from replication.files import Files
from replication.interface import ChangelogStore
from replication.log.settings import InThread, in_thread

_PARTIAL = ".part"


class BulkFiles:
    """Creates a missing `directory`, and removes incomplete files of a crash."""

    def __init__(self, directory: str, *, run: InThread = in_thread, files: Files | None = None) -> None:
        self._directory = directory
        self._run = run
        self._files = files or Files()
        self._dropping: set[asyncio.Future[object]] = set()
        os.makedirs(directory, 0o700, exist_ok=True)
        for name in os.listdir(directory):
            if name.endswith(_PARTIAL):
                self._files.unlink(os.path.join(directory, name))

    def path(self, name: str) -> str:
        return os.path.join(self._directory, name)

    def names(self) -> list[str]:
        return [name for name in os.listdir(self._directory) if not name.endswith(_PARTIAL)]

    def drop(self, name: str) -> None:
        """Removes the file, if it is there, without waiting for it."""
        task = asyncio.ensure_future(self._run(self._unlink, self.path(name)))
        self._dropping.add(task)
        task.add_done_callback(self._dropping.discard)

    async def fetch(self, store: ChangelogStore, object_name: str, name: str) -> None:
        """Fetches the file unless it is here. Raises what `ChangelogStore.get_file` raises, and OSError."""
        path = self.path(name)
        if os.path.exists(path):
            return
        await store.get_file(object_name, path + _PARTIAL)
        await self._run(self._publish, path)

    def _publish(self, path: str) -> None:
        fd = self._files.open(path + _PARTIAL)
        try:
            self._files.sync(fd)
        finally:
            os.close(fd)
        self._files.rename(path + _PARTIAL, path)
        self._files.sync_directory(self._directory)

    def _unlink(self, path: str) -> None:
        if os.path.exists(path):
            self._files.unlink(path)
