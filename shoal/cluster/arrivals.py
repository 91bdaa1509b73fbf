"""When a follower applies an entry that has to do with more than one tablespace.

    a transaction over several tablespaces    its parts are applied together, in one turn of the loop, when the logs of
                                              all of them have come to it: readers see it whole or not at all
    an entry that was made under a schema     waits until pg_default, which has the catalog, is applied up to the last
                                              change of the schema that its leader had seen (`schema_version`)

Both only wait for what was sequenced before: every leader sequences in one order that all logs agree with, so they
never wait for each other. A tablespace that has been dropped, or is not on this node, is not waited for.

A tablespace that this node gets while it runs begins behind the others (`expect`): they do not wait for it, and note
how far it has to come because of what they have applied without it (`owes`). When it has come so far it may `join`, and
be seen: from then on it shows each transaction when the others do.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import Protocol

from replication.interface import LogEntry


class Arriving(Protocol):
    """The replica of a tablespace."""

    @property
    def applied_lsn(self) -> int: ...

    def apply_now(self, entry: LogEntry) -> None: ...

    def is_wanted(self) -> None:
        """Another tablespace waits for it: is it still there?"""


class Arrivals:
    """Of one node. `first`: the id of pg_default."""

    def __init__(self, first: bytes) -> None:
        self._first = first
        self._replicas: dict[bytes, Arriving] = {}
        self._expected: dict[bytes, Arriving] = {}
        self._owed: dict[bytes, int] = {}  # of the expected ones
        self._waiting: dict[bytes, tuple[LogEntry, asyncio.Future[None]]] = {}

    def join(self, tablespace: bytes, replica: Arriving) -> None:
        """From now on others wait for it."""
        self._expected.pop(tablespace, None)
        self._owed.pop(tablespace, None)
        self._replicas[tablespace] = replica

    def expect(self, tablespace: bytes, replica: Arriving) -> None:
        """It waits for others from now on, and they do not wait for it."""
        self._expected[tablespace] = replica
        self._owed[tablespace] = 0

    def owes(self, tablespace: bytes) -> int:
        """The last LSN of an expected tablespace in a transaction whose other parts have been applied without it."""
        return self._owed.get(tablespace, 0)

    def leave(self, tablespace: bytes) -> None:
        """It has been dropped, or is no longer on this node: nobody waits for it any more."""
        self._replicas.pop(tablespace, None)
        self._expected.pop(tablespace, None)
        self._owed.pop(tablespace, None)
        self._waiting.pop(tablespace, None)
        self.moved()

    def admit(self, tablespace: bytes, entry: LogEntry) -> Awaitable[None] | None:
        """None if the entry may be applied at once, else what to await first; then it may have been applied."""
        if entry.lsn <= self._replica(tablespace).applied_lsn or (
            not entry.parts and (tablespace == self._first or self._has_schema(entry))
        ):
            self._waiting.pop(tablespace, None)
            return None
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting[tablespace] = entry, future
        self.moved()
        if not future.done():
            for other in self._missing(tablespace, entry):
                self._replicas[other].is_wanted()
        return None if future.done() else future

    def moved(self) -> None:
        """Something was applied, or there is less to wait for: applies what has waited for it."""
        while True:
            for tablespace, (entry, _) in self._waiting.items():
                if self._may_go(tablespace, entry):
                    break
            else:
                return
            self._go(tablespace, entry)

    def _has_schema(self, entry: LogEntry) -> bool:
        first = self._replicas.get(self._first)
        return first is None or first.applied_lsn >= entry.schema_version

    def _replica(self, tablespace: bytes) -> Arriving:
        return self._replicas.get(tablespace) or self._expected[tablespace]

    def _open_parts(self, entry: LogEntry) -> list[tuple[bytes, int]]:
        """The parts that are to be applied here together."""
        return [
            (tablespace, lsn)
            for tablespace, lsn in entry.parts
            if tablespace in self._replicas and self._replicas[tablespace].applied_lsn < lsn
        ]

    def _missing(self, tablespace: bytes, entry: LogEntry) -> list[bytes]:
        """The tablespaces whose logs have not come to it yet. One that is expected waits until the others have gone."""
        return [
            other
            for other, lsn in self._open_parts(entry)
            if tablespace in self._expected or other not in self._waiting or self._waiting[other][0].lsn != lsn
        ]

    def _may_go(self, tablespace: bytes, entry: LogEntry) -> bool:
        if self._missing(tablespace, entry):
            return False
        return any(part[0] == self._first for part in self._open_parts(entry)) or (
            tablespace == self._first or self._has_schema(entry)
        )

    def _go(self, tablespace: bytes, entry: LogEntry) -> None:
        going = [part for part, _ in self._open_parts(entry)] or [tablespace]
        going.sort(key=lambda part: part == self._first)  # the catalog tells of rows that are there
        for part, lsn in entry.parts:
            if part in self._expected and part not in going:
                self._owed[part] = max(self._owed[part], lsn)
        taken = [(part, *self._waiting.pop(part)) for part in going]
        for part, item, _ in taken:
            self._replica(part).apply_now(item)
        for _, _, future in taken:
            if not future.done():
                future.set_result(None)
