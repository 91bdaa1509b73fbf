"""What `make torture` is made of: trials, each of a promise of docs/guarantees.md, with a share of the time.

A trial runs for so many seconds and gives figures (what was tried) and problems (what is wrong; nothing is good). Its
planted faults are tried beside it: each must be caught.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

FULL = 1200.0  # seconds of a run that the figures of `Trial.enough` belong to
PLANTING = 0.4  # of a trial's time, after which no further fault is planted


@dataclass(slots=True)
class Result:
    """`figures`: short statements for the table. `caught`: planted faults by name, and whether they were noticed.
    `tried`: how much was tried, in the unit of `Trial.enough`; None where this machine cannot run the trial."""

    figures: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    caught: dict[str, bool] = field(default_factory=dict)
    tried: int | None = None

    @property
    def good(self) -> bool:
        return not self.problems and all(self.caught.values())


@dataclass(frozen=True, slots=True)
class Trial:
    """`run(seconds, seed, tell)`, servers, planted faults and comparisons included; `weight`: its part of the time,
    relative to the others. `least`: seconds that it takes whatever it is given, on a machine with nothing else to do.
    `exact`: it keeps its time to a few seconds, whatever that is, so it comes after those that cannot, with what they
    have left. `enough`: how much must be tried in a budget of `FULL`: a trial that did next to nothing proves
    nothing."""

    name: str
    promise: str
    how: str
    weight: float
    run: Callable[[float, int, Callable[[str], None]], Result]
    exact: bool = False
    least: float = 2.0
    enough: int = 1

    def lack(self, result: Result, budget: float) -> str:
        """What a result lacks to prove anything, for a run of so many seconds; '' where it has enough."""
        wanted = max(int(self.enough * min(budget / FULL, 1.0)), 1)
        if result.tried is None or result.tried >= wanted:
            return ""
        return f"only {result.tried:,} tried, fewer than {wanted:,}: the machine was too busy, or the time too short"


def to_plant(faults: Iterable[str], seed: int, everything: bool) -> list[str]:
    """All of the faults, or the one that a seed chooses where the time is too short for `everything`."""
    known = list(faults)
    return known if everything else [known[seed % len(known)]]


def planted_until(end: float, faults: Iterable[str], seed: int, everything: bool, at_least: int = 1) -> Iterator[str]:
    """`to_plant`, while there is time: the first ones in any case, the others until `end`, on the monotonic clock."""
    for number, fault in enumerate(to_plant(faults, seed, everything)):
        if number >= at_least and time.monotonic() > end:
            return
        yield fault


def share(trial: Trial, remaining: Sequence[Trial], left: float) -> float:
    """The seconds of a trial that is one of the remaining ones: each has its least, and its part of what is left."""
    spare = max(left - sum(other.least for other in remaining), 0.0)
    return trial.least + spare * trial.weight / sum(other.weight for other in remaining)
