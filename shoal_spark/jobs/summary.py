"""The summary of a job."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Protocol


class JobError(Exception):
    """A job that cannot run, or was interrupted: one line for a user, without secrets."""


class Progress(Protocol):
    """Shows the progress of work."""

    def show(self, what: str, done: int, total: int) -> None: ...


@dataclass(slots=True)
class Summary:
    """`bytes`: of the files that were read or written. `seconds`: of the work, without Spark's start. `more`:
    additional fields of this job, by name."""

    job: str
    rows: int = 0
    bytes: int = 0
    rejected: int = 0
    seconds: float = 0.0
    more: dict[str, object] = field(default_factory=dict)
    _began: float = field(default_factory=time.monotonic)

    def begin(self) -> None:
        """Called at the start of the work."""
        self._began = time.monotonic()

    def end(self) -> Summary:
        """Called at the end of the work."""
        self.seconds = time.monotonic() - self._began
        return self

    def fields(self) -> dict[str, object]:
        """The summary as fields for JSON."""
        rate = round(self.rows / self.seconds, 1) if self.seconds else 0.0
        found: dict[str, object] = {
            "job": self.job, "rows": self.rows, "bytes": self.bytes, "seconds": round(self.seconds, 3),
            "rows_per_second": rate, "rejected": self.rejected,
        }  # fmt: skip
        return {**found, **self.more}

    def text(self) -> str:
        """The summary as text."""
        rate = self.rows / self.seconds if self.seconds else 0.0
        lines = [
            f"{self.job}: {plural(self.rows, 'row')}, {size(self.bytes)} in {self.seconds:.1f} s "
            f"({rate:{',.0f' if rate >= 100 else '.3g'}} rows/s), {self.rejected:,} rejected"
        ]
        lines += [f"{name.replace('_', ' ')}: {value}" for name, value in self.more.items() if value not in (None, "")]
        return "\n".join(lines)


def plural(count: int, what: str) -> str:
    """'1 row', '2,000 rows'."""
    return f"{count:,} {what}" if count == 1 else f"{count:,} {what}s"


def size(value: int) -> str:
    """'512 B', '1.5 MiB'."""
    amount = float(value)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if amount < 1024:
            return f"{value} B" if unit == "B" else f"{amount:.1f} {unit}"
        amount /= 1024
    return f"{amount:.1f} TiB"
