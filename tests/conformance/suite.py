"""What a suite is: records by test, from one server, and how Shoal's compare with PostgreSQL's."""

from __future__ import annotations

import os
import pathlib
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

from tests.server import ROOT

Record = Any  # a JSON value: what one test gave
Records = dict[str, Record]


@dataclass(frozen=True, slots=True)
class Target:
    """A server that a suite has for itself. `name` is shoal or postgres."""

    name: str
    port: int

    def dsn(self, database: str = "postgres") -> str:
        """A libpq connection string."""
        return f"host=127.0.0.1 port={self.port} user=postgres dbname={database}"


class Progress:
    """A line on the terminal that tells how far a suite is, and the suite's time limit in seconds."""

    def __init__(self, title: str, limit: float, out: Callable[[str], Any] = sys.stderr.write) -> None:
        self._title = title
        self._out = out
        self._told = 0.0
        self._every = 5.0 if sys.stderr.isatty() else 30.0  # seconds
        self.deadline = time.monotonic() + limit

    def step(self, done: int, total: int, what: str = "") -> None:
        """Says it, at most every few seconds; and the end of it."""
        now = time.monotonic()
        if now - self._told > self._every or done == total:
            self._told = now
            self._out(f"  {self._title}: {done} of {total} {what}\n")

    @property
    def left(self) -> float:
        """Seconds until the suite has to end."""
        return self.deadline - time.monotonic()


class Suite(Protocol):
    """`floor`: the share of what PostgreSQL passes that Shoal has to pass. `seconds`: how long it may take."""

    name: str
    title: str
    unit: str
    floor: float
    seconds: float

    def missing(self) -> str:
        """Why it cannot run here; '' if it can."""

    def fetch(self) -> None:
        """Gets what it needs from PyPI, if that is not there yet. Raises what pip's failure is told by."""

    def fingerprint(self) -> str:
        """Changes when the suite does: PostgreSQL's records are kept under it."""

    def run(self, target: Target, progress: Progress) -> Records:
        """The records by test, in the suite's order."""

    def outcome(self, wanted: Records, got: Records, seconds: float) -> Outcome:
        """How the second server's records compare with the first's."""


@dataclass(slots=True)
class Outcome:
    """What came of a suite. `failures`: test -> cause. `broken`: why there is nothing to tell of it."""

    name: str
    title: str
    unit: str
    size: int
    postgres: int
    shoal: int
    floor: float
    seconds: float
    failures: dict[str, str] = field(default_factory=dict)
    broken: str = ""

    @property
    def share(self) -> float:
        return self.shoal / self.postgres if self.postgres else 0.0


class OneByOne:
    """The outcome of a suite whose records are compared one by one."""

    name = title = unit = ""
    floor = 0.0
    cut = False  # by its time limit, on the server that it ran on last

    def fetch(self) -> None:
        """Nothing."""

    def counts(self, record: Record) -> bool:
        """Whether PostgreSQL passes the test that gave this record."""
        raise NotImplementedError

    def compare(self, test: str, wanted: Record, got: Record | None) -> str:
        """'' if Shoal's record is as good as PostgreSQL's, else what is wrong, in one line. None: it gave none."""
        raise NotImplementedError

    def outcome(self, wanted: Records, got: Records, seconds: float) -> Outcome:
        failures: dict[str, str] = {}
        reached = {test: record for test, record in wanted.items() if not self.cut or test in got}
        unit = f"{self.unit}, {len(reached):,} of them in the time" if self.cut else self.unit
        ceiling = {test: record for test, record in reached.items() if self.counts(record)}
        for test, record in ceiling.items():
            reason = self.compare(test, record, got.get(test))
            if reason:
                failures[test] = reason
        passed = len(ceiling) - len(failures)
        return Outcome(self.name, self.title, unit, len(wanted), len(ceiling), passed, self.floor, seconds, failures)


def corpora() -> pathlib.Path | None:
    """The directory of the corpora, if there is one."""
    given = os.environ.get("SHOAL_CORPORA")
    place = pathlib.Path(given) if given else ROOT.parent / "shared" / "data"
    return place if place.is_dir() else None


def cache() -> pathlib.Path:
    """The folder of what is fetched and kept: $SHOAL_CACHE, else build/conformance."""
    given = os.environ.get("SHOAL_CACHE")
    place = pathlib.Path(given) if given else ROOT / "build" / "conformance"
    place.mkdir(parents=True, exist_ok=True)
    return place
