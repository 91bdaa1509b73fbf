"""replicas/<node>: how far each replica is, and that it lives.

Written when something has changed, at most once in `presence` seconds, and every ten times that in any case. A leader
whose tablespace has max_leader_inactivity writes four times in that time: others may take over when they have not seen
it change for so long, by their own clocks. So such a leader has a lease: from the *sending* of its last write that was
answered. What it promises to keep stands in the node (`detail["lease"]`): nobody counts on a lease that the leader does
not know of.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
from collections.abc import Callable

from replication.interface import ConflictError, Coordination, CoordinationUnavailableError, Create, Delete, Replica
from replication.log.layout import encode, paths
from replication.log.settings import Clock, LogSettings

LEASE = "lease"
WRITES_PER_LEASE = 4
IDLE_PERIODS = 10


async def put_ephemeral(coordination: Coordination, path: str, data: bytes) -> None:
    """Creates an ephemeral node of this session, in place of one that an earlier session of this node has left."""
    try:
        await coordination.create(path, data, ephemeral=True)
    except ConflictError:
        await coordination.multi([Delete(path), Create(path, data, ephemeral=True)])


class Presence:
    """Of one replica. `report` gives what is to be written; its `seen` and `detail` are filled in here."""

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
        self.lease = 0.0  # seconds, of a leader; 0: none
        self.lease_from = float("-inf")  # clock time of the sending of the last write that was answered with this lease
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
        self._wake.set()

    def changed(self) -> None:
        """Something has changed that others should know now (the role)."""
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
        coordination, lease = self._coordination, self.lease
        now = self._clock.monotonic()
        detail = {LEASE: f"{lease:g}"} if lease else {}
        report = dataclasses.replace(self._report(), detail=detail)
        idle = now - self._written_at < IDLE_PERIODS * self._settings.presence
        if self._created_in is coordination and report == self._written and idle and not lease:
            return
        data = encode(dataclasses.replace(report, seen=self._clock.wall()))
        if self._created_in is coordination:
            await coordination.set(self._path, data)
        else:
            await put_ephemeral(coordination, self._path, data)
            self._created_in = coordination
        self._written, self._written_at = report, now
        if lease and lease == self.lease:
            self.lease_from = now
