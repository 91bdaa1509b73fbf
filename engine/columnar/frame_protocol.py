"""The engine's end of the socket to the columnar worker."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import cast

from engine.columnar import frames
from engine.columnar.frames import Header


class FrameProtocol(asyncio.BufferedProtocol):
    """Splits the socket's bytes into frames, and receives each frame into a buffer of its size."""

    def __init__(self, received: Callable[[Header, list[memoryview]], None], lost: Callable[[], None]) -> None:
        self._received = received
        self._lost = lost
        self._buffer = bytearray(frames.FIXED.size)
        self._filled = 0
        self._header_size = -1
        self.transport: asyncio.Transport | None = None
        self.writable = asyncio.Event()
        self.writable.set()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)

    def connection_lost(self, error: Exception | None) -> None:
        self.writable.set()
        self._lost()

    def pause_writing(self) -> None:
        self.writable.clear()

    def resume_writing(self) -> None:
        self.writable.set()

    def get_buffer(self, sizehint: int) -> memoryview:
        return memoryview(self._buffer)[self._filled :]

    def buffer_updated(self, count: int) -> None:
        self._filled += count
        if self._filled < len(self._buffer):
            return
        if self._header_size < 0:
            self._header_size, body = frames.sizes_of(self._buffer)
            self._buffer = bytearray(self._header_size + body)
            self._filled = 0
            return
        view = memoryview(self._buffer)
        header, buffers = frames.decode(view[: self._header_size], view[self._header_size :])
        self._buffer = bytearray(frames.FIXED.size)
        self._filled = 0
        self._header_size = -1
        self._received(header, buffers)
