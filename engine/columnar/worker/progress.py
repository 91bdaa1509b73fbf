"""How far the applier is with what it does: it tells the engine a few times a second, for
shoal_stat_progress_columns."""

from __future__ import annotations

import time
from collections.abc import Callable

from engine.columnar.frames import Header

TELL_SECONDS = 0.25

BUILDING, CATCHING_UP, APPLYING, SAVING = "building", "catching up", "applying", "saving"


class WorkProgress:
    """One thing is done at a time, on the applier's thread."""

    def __init__(self, tell: Callable[[Header], None] = lambda _: None) -> None:
        self._tell = tell
        self._header: Header = {}
        self._told = 0.0  # on the monotonic clock

    def begin(self, phase: str, storage_id: int = 0, total: int | None = None) -> None:
        """Something begins with a table, with so many rows if that is known; 0: it is not about a single table."""
        self._header = {
            "op": "progress",
            "storage_id": storage_id,
            "phase": phase,
            "total": total,
            "done": 0,
            "bytes": 0,
        }
        self._now()

    def add(self, rows: int, size: int) -> None:
        """So many rows, and bytes of them, are in the table."""
        if self._header:
            self._header["done"] += rows
            self._header["bytes"] += size
            if time.monotonic() - self._told >= TELL_SECONDS:
                self._now()

    def end(self) -> None:
        """It is done, or has failed."""
        if self._header:
            self._header = {"op": "progress", "storage_id": self._header["storage_id"], "phase": ""}
            self._now()
            self._header = {}

    def _now(self) -> None:
        self._told = time.monotonic()
        self._tell(self._header)
