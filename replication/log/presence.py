"""The znode replicas/<node>: a replica reports its applied LSN in it, and that it is live.

The replica writes the znode when something has changed, at most once in `presence` seconds, and in any case every ten
times that. A leader whose tablespace has max_leader_inactivity writes it four times in that time. Other replicas may
take over when the znode has not changed for that time, by their own clocks. So such a leader has a lease: it counts
from the *sending* of the last answered write, under its epoch.

The znode itself contains the time on which others rely (`detail["lease"]`), so the leader knows which one applies: a
longer lease, or none, applies when it has been written, a shorter one as soon as it may have been. Before the first
write of a session the leader does not know the content of the znode, and has no lease.

By the same writes a leader without commits learns that its term is over (`on_term_over`): it wrote too late, although
its session continues.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
from collections.abc import Callable

from replication.interface import (
    Check,
    ConflictError,
    Coordination,
    CoordinationUnavailableError,
    Create,
    Delete,
    Replica,
    Set,
)
from replication.log.layout import encode, paths
from replication.log.settings import Clock, LogSettings

LEASE = "lease"
LACKS = "lacks"
TIED = "tied"
TIED_UNIT = 5_000_000  # microseconds: the precision of the time in TIED
WRITES_PER_LEASE = 4
IDLE_PERIODS = 10


async def put_ephemeral(coordination: Coordination, path: str, data: bytes) -> None:
    """Creates an ephemeral node of this session, in place of one that an earlier session of this node has left."""
    while True:
        try:
            await coordination.create(path, data, ephemeral=True)
            return
        except ConflictError:
            with contextlib.suppress(ConflictError):  # it was deleted meanwhile
                await coordination.multi([Delete(path), Create(path, data, ephemeral=True)])
                return


class Presence:
    """Writes the znode of one replica. `report` returns its content; `seen` and the lease are filled in here."""

    def __init__(
        self,
        coordination: Coordination,
        tablespace: bytes,
        node: str,
        report: Callable[[], Replica],
        *,
        settings: LogSettings,
        clock: Clock,
    ) -> None:
        self.lease = 0.0  # seconds, as wanted, of a leader; 0: none
        self.term: Check | None = None  # of a leader: checks its epoch, without which there is no lease
        self.on_term_over: Callable[[Check], None] | None = None
        self._visible: float | None = None  # the lease on which others may rely; None: unknown
        self._renewed = float("-inf")  # clock time of the sending of the last write that was answered
        self._coordination = coordination
        self._path = paths(tablespace).replica(node)
        self._report = report
        self._settings = settings
        self._clock = clock
        self._created_in: Coordination | None = None
        self._written: Replica | None = None
        self._written_at = float("-inf")
        self._wake = asyncio.Event()

    def use(self, coordination: Coordination) -> None:
        self._coordination = coordination
        self._visible = None
        self._wake.set()

    @property
    def lease_until(self) -> float:
        """Clock time up to which no other node can have taken over because this replica was silent."""
        if self._visible is None:
            return float("-inf")
        return self._renewed + self._visible if self._visible else float("inf")

    def write_soon(self) -> None:
        """Writes soon, because something important for others has changed (the role)."""
        self._wake.set()

    async def run(self) -> None:
        """Writes until it is cancelled."""
        while True:
            self._wake.clear()
            with contextlib.suppress(CoordinationUnavailableError, ConflictError):
                await self._write()
            period = self._settings.presence
            if self.lease:
                period = min(period, self.lease / WRITES_PER_LEASE)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(period):
                    await self._wake.wait()

    async def _write(self) -> None:
        coordination, lease, term = self._coordination, self.lease, self.term
        now = self._clock.monotonic()
        report = self._report()
        if lease:
            report = dataclasses.replace(report, detail={**report.detail, LEASE: f"{lease:g}"})
        idle = now - self._written_at < IDLE_PERIODS * self._settings.presence
        if self._created_in is coordination and report == self._written and idle and not lease:
            return
        data = encode(dataclasses.replace(report, seen=self._clock.wall()))
        if self._visible and lease:
            self._visible = min(self._visible, lease)
        if self._created_in is not coordination:
            await put_ephemeral(coordination, self._path, data)
            self._created_in = coordination
            now = float("-inf")  # written whether its term is over or not
        elif term is not None:
            if self._visible == 0 and lease:
                self._visible, self._renewed = lease, float("-inf")
            await self._write_under(term, coordination, data)
        else:
            await coordination.set(self._path, data)
        if coordination is self._coordination:
            self._visible, self._renewed = lease, now
        self._written, self._written_at = report, self._clock.monotonic()

    async def _write_under(self, term: Check, coordination: Coordination, data: bytes) -> None:
        try:
            await coordination.multi((term, Set(self._path, data, -1)))
        except ConflictError as error:
            if error.path == term.path and self.on_term_over is not None:
                self.on_term_over(term)
            raise
