"""The order in which a follower applies entries that depend on other tablespaces.

    a transaction over several tablespaces    its parts are applied together, in one turn of the loop, when the logs of
                                              all its tablespaces have reached it: readers see all of it or nothing
    an entry that was made under a schema     waits until pg_default, which has the catalog, is applied up to the last
                                              change of the schema that its leader had seen (`schema_version`)

Both wait only for entries that were sequenced before, and every leader sequences in one order that all logs agree with;
so they never wait for each other. Nothing waits for a tablespace that has been dropped, or that is not on this node.

A tablespace that this node gets while it runs begins behind the others (`expect`). The others do not wait for it, and
note the LSN that it has to reach because of the transactions that they have applied without it (`awaited_lsn`). When it
has reached that LSN it may `join` and become visible: from then on it shows each transaction when the others do.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import Protocol

from replication.interface import LogEntry


class OrderedReplica(Protocol):
    """The replica of a tablespace whose entries ApplyOrder lets through."""

    @property
    def applied_lsn(self) -> int: ...

    def apply_now(self, entry: LogEntry) -> None: ...

    def check_existence(self) -> None:
        """Checks whether the tablespace still exists, because another one waits for it."""


class ApplyOrder:
    """The order of one node. `first`: the id of pg_default."""

    def __init__(self, first: bytes) -> None:
        self._first = first
        self._replicas: dict[bytes, OrderedReplica] = {}
        self._expected: dict[bytes, OrderedReplica] = {}
        self._awaited_lsns: dict[bytes, int] = {}  # of the expected ones
        self._waiting: dict[bytes, tuple[LogEntry, asyncio.Future[None]]] = {}

    def join(self, tablespace: bytes, replica: OrderedReplica) -> None:
        """From now on the others wait for this tablespace."""
        self._expected.pop(tablespace, None)
        self._awaited_lsns.pop(tablespace, None)
        self._replicas[tablespace] = replica

    def expect(self, tablespace: bytes, replica: OrderedReplica) -> None:
        """From now on this tablespace waits for the others, and they do not wait for it."""
        self._expected[tablespace] = replica
        self._awaited_lsns[tablespace] = 0

    def awaited_lsn(self, tablespace: bytes) -> int:
        """The last LSN of an expected tablespace in a transaction whose other parts have been applied without it."""
        return self._awaited_lsns.get(tablespace, 0)

    def leave(self, tablespace: bytes) -> None:
        """The tablespace was dropped, or is no longer on this node: the others do not wait for it any more."""
        self._replicas.pop(tablespace, None)
        self._expected.pop(tablespace, None)
        self._awaited_lsns.pop(tablespace, None)
        self._waiting.pop(tablespace, None)
        self.apply_waiting()

    def admit(self, tablespace: bytes, entry: LogEntry) -> Awaitable[None] | None:
        """None if the entry may be applied now, otherwise a future to await first. The entry may have been applied
        then."""
        if entry.lsn <= self._replica(tablespace).applied_lsn or (
            not entry.parts and (tablespace == self._first or self._has_schema(entry))
        ):
            self._waiting.pop(tablespace, None)
            return None
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting[tablespace] = entry, future
        self.apply_waiting()
        if not future.done():
            for other in self._missing_tablespaces(tablespace, entry):
                self._replicas[other].check_existence()
        return None if future.done() else future

    def apply_waiting(self) -> None:
        """Applies the waiting entries whose conditions are met."""
        while True:
            for tablespace, (entry, _) in self._waiting.items():
                if self._can_apply(tablespace, entry):
                    break
            else:
                return
            self._apply_together(tablespace, entry)

    def _has_schema(self, entry: LogEntry) -> bool:
        first = self._replicas.get(self._first)
        return first is None or first.applied_lsn >= entry.schema_version

    def _replica(self, tablespace: bytes) -> OrderedReplica:
        return self._replicas.get(tablespace) or self._expected[tablespace]

    def _open_parts(self, entry: LogEntry) -> list[tuple[bytes, int]]:
        """The parts of the entry's transaction that are not yet applied on this node."""
        return [
            (tablespace, lsn)
            for tablespace, lsn in entry.parts
            if tablespace in self._replicas and self._replicas[tablespace].applied_lsn < lsn
        ]

    def _missing_tablespaces(self, tablespace: bytes, entry: LogEntry) -> list[bytes]:
        """The tablespaces whose logs have not reached the transaction yet. An expected tablespace waits until the
        others have applied it."""
        return [
            other
            for other, lsn in self._open_parts(entry)
            if tablespace in self._expected or other not in self._waiting or self._waiting[other][0].lsn != lsn
        ]

    def _can_apply(self, tablespace: bytes, entry: LogEntry) -> bool:
        if self._missing_tablespaces(tablespace, entry):
            return False
        return any(part[0] == self._first for part in self._open_parts(entry)) or (
            tablespace == self._first or self._has_schema(entry)
        )

    def _apply_together(self, tablespace: bytes, entry: LogEntry) -> None:
        going = [part for part, _ in self._open_parts(entry)] or [tablespace]
        going.sort(
            key=lambda part: part == self._first
        )  # the catalog last, so that it never describes rows that are still missing
        for part, lsn in entry.parts:
            if part in self._expected and part not in going:
                self._awaited_lsns[part] = max(self._awaited_lsns[part], lsn)
        taken = [(part, *self._waiting.pop(part)) for part in going]
        for part, item, _ in taken:
            self._replica(part).apply_now(item)
        for _, _, future in taken:
            if not future.done():
                future.set_result(None)
