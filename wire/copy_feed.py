"""COPY data between the connection and the statement that reads them.

An unread COPY holds at most COPY_AHEAD bytes: above that the connection stops reading from its client. While COPY is
slowed down for short statements (engine/foreground.py) the limit is lower, so that its client works in short turns too.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Protocol

from catalog.errors import SqlError
from engine.foreground import foreground

COPY_AHEAD = 8 << 20
PRESSED_AHEAD = 1 << 20
AT_ONCE = 1 << 18  # bytes that one `read` joins; a caller that needs more joins them in a thread


class Pausable(Protocol):
    """A connection whose reading can stop for several reasons at once."""

    def pause(self, reason: str) -> None: ...
    def resume(self, reason: str) -> None: ...


class CopyFeed:
    """COPY data from the connection to the statement that reads them (engine.bulk.progress.CopySource)."""

    def __init__(self, connection: Pausable) -> None:
        self._connection = connection
        self._foreground = foreground()
        self._pieces: deque[bytes] = deque()
        self._size = 0
        self._ended = False
        self._error: SqlError | None = None
        self._reader: asyncio.Future[None] | None = None

    @property
    def _ahead(self) -> int:
        return PRESSED_AHEAD if self._foreground.is_pressed else COPY_AHEAD

    def put(self, data: bytes) -> None:
        self._pieces.append(data)
        self._size += len(data)
        if self._size > self._ahead:
            self._connection.pause("copy")
        self._wake()

    def end(self, error: SqlError | None = None) -> None:
        self._ended = True
        self._error = error
        self._wake()

    def _wake(self) -> None:
        if self._reader is not None and not self._reader.done():
            self._reader.set_result(None)

    async def read(self) -> bytes | None:
        while not self._pieces:
            if self._error is not None:
                raise self._error
            if self._ended:
                return None
            self._reader = asyncio.get_running_loop().create_future()
            await self._reader
        taken = [self._pieces.popleft()]
        size = len(taken[0])
        while self._pieces and size < AT_ONCE:
            taken.append(self._pieces.popleft())
            size += len(taken[-1])
        self._size -= size
        if self._size <= self._ahead // 2:
            self._connection.resume("copy")
        return taken[0] if len(taken) == 1 else b"".join(taken)
