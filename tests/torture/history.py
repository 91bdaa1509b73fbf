"""What the clients of a torture run asked for, and what they were told.

Everything that a client does has a number of its own, (client, n), that it also writes into the database. What becomes
of it is one of three: acknowledged (it must be there, once), refused (it must not be there), unknown (it is there whole
or not at all).
"""

from __future__ import annotations

import enum
import threading
from dataclasses import dataclass, field

Number = tuple[int, int]  # (client, n)


class Outcome(enum.Enum):
    ACKNOWLEDGED = "acknowledged"
    REFUSED = "refused"
    UNKNOWN = "unknown"


REFUSALS = frozenset(
    (
        "40001",  # certainly not committed
        "40P01",
        "55P03",
        "57P03",  # nobody leads, or the node does not serve yet
        "25006",  # writes are not taken here
        "25P02",
        "55000",
        "53100",
    )
)


def judge(sqlstate: str | None, committing: bool) -> Outcome | None:
    """What an error says of the work. `committing`: a commit may have been on its way. None: it should never come."""
    if sqlstate in REFUSALS:
        return Outcome.REFUSED
    if sqlstate is None or sqlstate.startswith(("08", "57P")):  # the connection, or the server, has gone
        return Outcome.UNKNOWN if committing else Outcome.REFUSED
    return None


@dataclass(slots=True)
class Event:
    """One attempt. Times are monotonic seconds. `value`: what was asked for (rows, an amount), or returned."""

    number: Number
    outcome: Outcome
    begun: float
    ended: float
    node: str
    sqlstate: str | None = None
    value: tuple[int, ...] = ()


@dataclass
class History:
    """Filled by all clients."""

    inserts: list[Event] = field(default_factory=list)  # value: (rows in marks,)
    transfers: list[Event] = field(default_factory=list)  # value: (source, target, amount)
    increments: list[Event] = field(default_factory=list)  # value: (counter, the value after it or -1)
    reads: int = 0
    problems: list[str] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def events(self) -> list[Event]:
        return [*self.inserts, *self.transfers, *self.increments]

    def problem(self, text: str) -> None:
        with self.lock:
            self.problems.append(text)

    def counts(self) -> dict[str, int]:
        """How many of each outcome."""
        found = {outcome.value: 0 for outcome in Outcome}
        for event in self.events():
            found[event.outcome.value] += 1
        return found
