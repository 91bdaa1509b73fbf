"""Reports of the worker about its tables and their file: for views, metrics and the log.

On a full file system every save fails until there is room. The log has one line about that, with advice, and one line
when a save succeeds again.
"""

from __future__ import annotations

import contextlib
import logging
import os
from dataclasses import dataclass
from typing import Any

from catalog.errors import SqlError
from engine.columnar.frames import Header

log = logging.getLogger("shoal.columnar")

SAVE = 0  # in the place of a storage id
WAITING, BUILDING = "waiting", "building"
_NO_ROOM = ("No space left on device", "Disk quota exceeded")
_LEAVES = {
    "full": "the analytic worker has grown to %s MB (at work): another takes its place when one is needed",
    "grown": "the analytic worker has grown to %s MB (idle): another takes its place when one is needed",
    "broken": "the analytic worker's database has failed (%s MB): another takes its place when one is needed",
    "displaced": "the analytic worker has no file for its columns (%s MB): another takes its place when one is needed",
}
REASONS = frozenset(_LEAVES)
"""The reasons for which a worker ends by itself."""


@dataclass(frozen=True, slots=True)
class WorkerStatus:
    """The state of the worker."""

    pid: int  # 0: it does not run
    tables: int
    queries: int  # running
    behind: int  # LSNs of all tablespaces whose changes were not sent to its tables
    late_since: int | None  # commit time of the oldest of these, in microseconds since 2000-01-01 UTC; None: unknown
    unapplied: int  # bytes of changes that were sent and that it has not applied


@dataclass(frozen=True, slots=True)
class CopyStatus:
    """The state of a table in the worker, for `shoal_columns`. None: unknown."""

    state: str  # ready, loading, or saved: in the file, and not yet updated
    lsn: int | None = None
    lag: int | None = None  # LSNs
    saved_lsn: int | None = None
    rows: int | None = None
    bytes: int | None = None  # on the disk
    loaded: int | None = None  # microseconds since 2000-01-01 UTC
    loaded_from: str | None = None  # rows or file


@dataclass(frozen=True, slots=True)
class ColumnsWork:
    """A present task of the worker with the columns of a table, or with the file (SAVE), for
    `shoal_stat_progress_columns`. `total`: the number of rows, None if it is unknown."""

    storage_id: int
    phase: str
    total: int | None = None
    done: int = 0
    bytes: int = 0


class WorkerReport:
    """Counts since the server's start, of all workers together."""

    def __init__(self, columns_path: str, spill_directory: str) -> None:
        self._columns_path = columns_path
        self._spill_directory = spill_directory
        self.work: dict[int, ColumnsWork] = {}
        self.builds = self.catch_ups = self.saves = self.failed_saves = 0
        self.build_seconds = self.catch_up_seconds = self.save_seconds = 0.0
        self.saved_tables = self.memory_bytes = 0  # in the worker's last report
        self._trouble = ""  # why the columns are not saved

    def clear(self) -> None:
        """Called when the worker has ended."""
        self.work.clear()
        self.memory_bytes = 0

    def note_progress(self, header: Header) -> None:
        storage_id = header["storage_id"]
        if header["phase"]:
            self.work[storage_id] = ColumnsWork(
                storage_id, header["phase"], header["total"], header["done"], header["bytes"]
            )
        else:
            self.work.pop(storage_id, None)

    def note_loaded(self, header: Any) -> None:
        if header["built"]:
            self.builds += 1
            self.build_seconds += header["seconds"]
        else:
            self.catch_ups += 1
            self.catch_up_seconds += header["seconds"]
        self.memory_bytes = header["memory"]

    def note_saved(self, header: Header) -> None:
        self.saves += 1
        self.save_seconds += header["seconds"]
        self.memory_bytes = header["memory"]
        self.saved_tables = len(header["tables"])
        if self._trouble:
            self._trouble = ""
            log.warning("the columns are saved again")

    def note_unsaved(self, message: str) -> None:
        self.failed_saves += 1
        if has_no_room(message):
            kind, what = "no room", self._advice()
        else:
            kind = what = message
        if kind != self._trouble:
            log.warning("the columns cannot be saved: %s", what)
            self._trouble = kind

    def note_leave(self, reason: str, header: Header) -> None:
        """Called when the worker ends by itself."""
        log.info(_LEAVES[reason], header["bytes"] // 1_000_000)
        if reason == "broken":
            message = self._advice() if has_no_room(header["message"]) else header["message"]
            log.warning("the analytic worker begins again with what was last saved: %s", message)

    def note_lost(self, table: str, error: SqlError) -> None:
        """Called when the worker has lost a table and no session waits for it."""
        text = 'the columns of "%s" are built again when a query needs them: %s. %s'
        log.warning(text, table, error.message, error.hint or "")

    def _advice(self) -> str:
        place = os.path.dirname(self._columns_path)
        return (
            f'no space is left on the file system of "{place}". Make space there: queries of existing columns '
            "continue, and columns are saved by themselves once there is room."
        )

    @property
    def file_bytes(self) -> int:
        """The size of the file of the columns."""
        with contextlib.suppress(OSError):
            return os.stat(self._columns_path).st_size
        return 0

    @property
    def spill_bytes(self) -> int:
        """Bytes of queries in the spill directory."""
        size = 0
        with contextlib.suppress(OSError), os.scandir(self._spill_directory) as entries:
            for entry in entries:
                with contextlib.suppress(OSError):
                    size += entry.stat(follow_symlinks=False).st_size
        return size


def has_no_room(message: str) -> bool:
    """Whether an error comes from a full disk."""
    return any(part in message for part in _NO_ROOM)
