"""Faults that are planted in a node's process to see that the checkers notice: called by tests/cluster.py, `hooks`.

FAULTS has them by the name of their function.
"""

from __future__ import annotations

import itertools
import random
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Fault:
    """`shown_by`: the part of the names of the nemesis' actions that bring it to light; `seconds`: how long they do at
    the most, until everything is compared."""

    what: str
    shown_by: str
    seconds: float


FAULTS = {
    "no_fence": Fault("commits check neither the epoch nor the head's version", "freeze at before multi", 40.0),
    "early": Fault("clients are told before ZooKeeper has answered", "kill leader", 20.0),
    "forgetful": Fault("every 50th entry that is followed is not applied", "freeze leader briefly", 20.0),
    "unknown_is_failed": Fault("a commit of unknown outcome is called failed", "zookeeper goes with its reply", 10.0),
}
IMPATIENCE = 3.0  # seconds, about, until a node takes the leadership


def impatient() -> None:
    from replication.log.election import Election

    vacancy = Election._vacancy_checks
    patience = [time.monotonic() + IMPATIENCE]
    lies = [0]

    async def imagine(self: Election, *arguments: Any) -> Any:
        if time.monotonic() > patience[0]:
            patience[0] = time.monotonic() + IMPATIENCE * random.uniform(0.5, 1.5)
            lies[0] = 2  # a candidate looks twice
        if lies[0] > 0:
            lies[0] -= 1
            return ()
        return await vacancy(self, *arguments)

    Election._vacancy_checks = imagine  # type: ignore[method-assign, assignment]


def no_fence() -> None:
    impatient()
    from replication.interface import Check, Operation, Set
    from replication.log.groups import Multi

    fenced: Callable[[Multi], list[Operation]] = Multi.operations.fget  # type: ignore[attr-defined]

    def operations(self: Multi) -> list[Operation]:
        found: list[Operation] = []
        for item in fenced(self):
            if isinstance(item, Check):
                found.append(Check(item.path, -1))
            elif isinstance(item, Set):
                found.append(Set(item.path, item.data, -1))
        return found

    Multi.operations = property(operations)  # type: ignore[method-assign, assignment]


def early() -> None:
    from replication.log.leader import LeaderLog

    cut = LeaderLog.cut_objects

    def cut_and_tell(self: LeaderLog, group: Any, *, everything: bool) -> None:
        cut(self, group, everything=everything)
        self._notification.on_committed(self._formed_lsn)

    LeaderLog.cut_objects = cut_and_tell  # type: ignore[method-assign]


def forgetful() -> None:
    from engine.storage.edits import Edits
    from engine.storage.tablespace import Tablespace

    apply, counted = Tablespace.apply, itertools.count(1)

    def forget(self: Tablespace, lsn: int, body: bytes, *rest: int) -> Edits:
        if next(counted) % 50 == 0:
            body = Edits({}, [], []).encode()
        return apply(self, lsn, body, *rest)

    Tablespace.apply = forget  # type: ignore[method-assign]


def unknown_is_failed() -> None:
    from shoal.cluster import adapter

    adapter.unknown_outcome_error = adapter.not_committed_error
