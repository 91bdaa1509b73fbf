"""How often functions of users were called on this node since it started, and how long they took, for
pg_stat_user_functions (the setting track_functions; PostgreSQL 16 manual, 28.2).

A session counts its calls (engine/session/function_calls.py) and hands them over after its transaction, at the latest
when somebody reads them. In memory only, as the other statistics.
"""

from __future__ import annotations

from collections.abc import Container, Mapping
from dataclasses import dataclass, replace
from typing import Protocol


@dataclass(slots=True)
class CallCounts:
    """Calls that have ended without an error. Times are in seconds: `total` with the functions that were called from
    it, `own` without them."""

    calls: int = 0
    total: float = 0.0
    own: float = 0.0

    def add(self, other: CallCounts) -> None:
        self.calls += other.calls
        self.total += other.total
        self.own += other.own


class CallingSession(Protocol):
    """A session that has counted calls."""

    def hand_over(self) -> None:
        """Adds its calls, unless its transaction has not ended."""


class FunctionStatistics:
    """The counts of a node, by the OIDs of the functions. `waiting`: the sessions whose calls are not in them."""

    def __init__(self) -> None:
        self.waiting: set[CallingSession] = set()
        self._counts: dict[int, CallCounts] = {}

    def collect(self) -> None:
        for session in list(self.waiting):
            session.hand_over()

    def add(self, more: Mapping[int, CallCounts], existing: Container[int]) -> None:
        """Adds the calls of functions that exist."""
        for oid, counts in more.items():
            if oid in existing:
                self._counts.setdefault(oid, CallCounts()).add(counts)

    def get(self, oid: int) -> CallCounts | None:
        """The counts at this moment; None if the function was not called."""
        found = self._counts.get(oid)
        return None if found is None else replace(found)

    def by_function(self) -> dict[int, CallCounts]:
        return {oid: replace(counts) for oid, counts in self._counts.items()}

    def reset(self, oid: int) -> None:
        if oid in self._counts:
            self._counts[oid] = CallCounts()

    def forget(self, oid: int) -> None:
        """The function is dropped."""
        self._counts.pop(oid, None)
