"""The bytes of one client connection: output collects and is sent in one write; reading can be paused.

Bounds: `_drained` is a future while the transport holds more than WRITE_BEHIND bytes that the client has not read, and
producers of much output wait for it. Reading is paused as long as there is a reason.
"""

from __future__ import annotations

import asyncio
from typing import Any

WRITE_BEHIND = 1 << 20


class Channel(asyncio.Protocol):
    def __init__(self) -> None:
        self.closing = False
        self._transport: Any = None
        self._out: list[bytes] = []
        self._out_size = 0
        self._flushing = False  # a call of `flush` is scheduled
        self._pauses: set[str] = set()
        self._drained: asyncio.Future[None] | None = None

    def _limit_writes(self) -> None:
        self._transport.set_write_buffer_limits(high=WRITE_BEHIND, low=WRITE_BEHIND // 4)

    def _write(self, data: bytes) -> None:
        self._out.append(data)
        self._out_size += len(data)

    def flush(self) -> None:
        self._flushing = False
        out = self._out
        if out:
            transport = self._transport
            if not transport.is_closing():
                transport.write(b"".join(out))  # a single piece is passed on unchanged
            out.clear()  # it may be a list of another kind: wire/encoded.py
            self._out_size = 0

    def pause_writing(self) -> None:
        if self._drained is None:
            self._drained = asyncio.get_running_loop().create_future()

    def pause(self, reason: str) -> None:
        if not self._pauses and not self.closing:
            self._transport.pause_reading()
        self._pauses.add(reason)

    def resume(self, reason: str) -> None:
        if reason in self._pauses:
            self._pauses.discard(reason)
            if not self._pauses and not self.closing:
                self._transport.resume_reading()
