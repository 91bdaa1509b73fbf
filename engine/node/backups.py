"""Backups of a node, as what the composition root hands in, and databases that are being made out of a backup."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol


class Backups(Protocol):
    """What makes backups of this node, one at a time."""

    async def write(self, url: str) -> int:
        """Makes a backup in the store at a URL: pg_default's LSN that it reaches. Raises 22023, 55000, 55006, 58030."""

    def progress(self) -> str | None:
        """How far the one is that runs, as JSON; None while none does."""

    async def fill(
        self, url: str, lsn: int | None, time: int | None, name: str, report: Callable[[str, int, int], None]
    ) -> list[str]:
        """Directories with the tablespaces that the backups at a URL have, pg_default first, as of an LSN, a time, or
        the newest of them; what was broken off under the same name is gone on from. `report` is told what is done, how
        much of it, of how much. Raises 22023, XX001, 58030."""

    def let_go(self, name: str) -> None:
        """Those directories are no longer needed."""

    def get_filled(self) -> list[str]:
        """The names for which there are such directories."""


@dataclass(slots=True)
class Restoring:
    """How far the database is that is being copied out of a backup."""

    step: str = "looking at the backup"
    done: int = 0
    total: int = 0

    def report(self, step: str, done: int, total: int) -> None:
        self.step, self.done, self.total = step, done, total
