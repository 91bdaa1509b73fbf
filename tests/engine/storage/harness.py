"""A tablespace without an event loop: the engine's thread is whoever calls `EngineLoop.until`."""

from __future__ import annotations

import queue
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from engine.storage.edits import Edits
from engine.storage.tablespace import Tablespace
from replication.files import Files
from replication.local import LocalChangelog


class EngineLoop:
    """Calls handed to the engine's thread wait here until the test runs them."""

    def __init__(self) -> None:
        self.calls: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()

    def __call__(self, call: Callable[[], None]) -> None:
        self.calls.put(call)

    def until(self, condition: Callable[[], bool], timeout: float = 10.0) -> None:
        """Runs calls until the condition holds."""
        end = time.monotonic() + timeout
        while not condition():
            self.calls.get(timeout=max(end - time.monotonic(), 0.01))()

    def drain(self) -> None:
        """Runs what is waiting."""
        while not self.calls.empty():
            self.calls.get()()


class Store:
    """A tablespace in a directory, with the calls that the tests need."""

    def __init__(self, path: Path, files: Files | None = None, segment_bytes: int = 1 << 20, **options: Any) -> None:
        self.loop = EngineLoop()
        self.fatal: list[BaseException] = []
        self.space = Tablespace.open(
            str(path),
            lambda tablespace, committed, failed: LocalChangelog(
                str(path / "changelog"),
                self.loop,
                committed,
                failed,
                tablespace=tablespace,
                files=files,
                segment_bytes=segment_bytes,
            ),
            self.loop,
            on_fatal=self.fatal.append,
            **options,
        )

    def commit(self, writes: dict[bytes, bytes | None], **parts: Any) -> int:
        """Sequences and waits until it is durable."""
        lsn = self.space.sequence(Edits(dict(writes), **parts), 0, 0)
        self.loop.until(lambda: self.space.durable_lsn >= lsn)
        return lsn

    def flush(self) -> None:
        self.space.flush()
        self.loop.until(lambda: self.space.flushed_lsn >= self.space.sequenced_lsn)

    def contents(self, prefix: bytes = b"\0\0\0\1") -> dict[bytes, bytes]:
        return dict(self.space.current.scan(prefix, prefix[:-1] + bytes((prefix[-1] + 1,))))

    def close(self) -> None:
        self.space.close()


def key(number: int, storage_id: int = 1) -> bytes:
    return storage_id.to_bytes(4, "big") + number.to_bytes(4, "big")
