"""Backups of a node (the composition root provides the functions), and databases that are being restored from a
backup."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol


class Backups(Protocol):
    """Makes backups of this node, one at a time."""

    async def write(self, url: str) -> int:
        """Makes a backup in the store at a URL. Returns the LSN of pg_default that it reaches. Raises 22023, 55000,
        55006, 58030."""

    def progress(self) -> str | None:
        """The progress of the running backup, as JSON; None if none runs."""

    async def fill(
        self, url: str, lsn: int | None, time: int | None, name: str, report: Callable[[str, int, int], None]
    ) -> list[str]:
        """Directories with the tablespaces of the backups at a URL, pg_default first, as of an LSN, a time, or the
        newest backup. Continues an interrupted call of the same name. `report` gets the step, the work done and the
        total. Raises 22023, XX001, 58030."""

    def let_go(self, name: str) -> None:
        """Deletes these directories."""

    def get_filled(self) -> list[str]:
        """The names for which there are such directories."""


@dataclass(slots=True)
class Restoring:
    """The progress of a database that is being restored from a backup."""

    step: str = "looking at the backup"
    done: int = 0
    total: int = 0

    def report(self, step: str, done: int, total: int) -> None:
        self.step, self.done, self.total = step, done, total
