"""The progress of the applier's task, sent to the engine a few times a second for shoal_stat_progress_columns."""

from __future__ import annotations

import time
from collections.abc import Callable

from engine.columnar.frames import Header

TELL_SECONDS = 0.25

BUILDING, CATCHING_UP, APPLYING, SAVING = "building", "catching up", "applying", "saving"


class WorkProgress:
    """The progress of the current task. Only the applier uses it, and has one task at a time."""

    def __init__(self, tell: Callable[[Header], None] = lambda _: None) -> None:
        self._tell = tell
        self._header: Header = {}
        self._told = 0.0  # on the monotonic clock

    def begin(self, phase: str, storage_id: int = 0, total: int | None = None) -> None:
        """Starts a task with a table, or with all (`storage_id` 0). `total`: the number of rows, if known."""
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
        """Counts rows that were added to the table, and their bytes."""
        if self._header:
            self._header["done"] += rows
            self._header["bytes"] += size
            if time.monotonic() - self._told >= TELL_SECONDS:
                self._now()

    def end(self) -> None:
        """Ends the task, which is complete or has failed."""
        if self._header:
            self._header = {"op": "progress", "storage_id": self._header["storage_id"], "phase": ""}
            self._now()
            self._header = {}

    def _now(self) -> None:
        self._told = time.monotonic()
        self._tell(self._header)
