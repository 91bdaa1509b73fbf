"""Leader election: decides when a node should try to lead a tablespace.

A tablespace is vacant when its leader's session is over (nodes/<node> is ephemeral), when the leader has resigned (the
epoch names no leader), or, with max_leader_inactivity, when its lease has expired: its replica's znode has not changed
for the promised time, by the clock of the node that watches it. A candidate then bumps the epoch on condition that the
znode has still not changed. A leader renews its lease on condition that the epoch has not changed. So only one of the
two succeeds.

Candidates are the live replicas of the spec that are no longer bootstrapping. The best one tries at once; every other
waits `rank_pause` for each better one, and looks again. The order: the wish of the last leader, the replica that lacks
least of the data that a leader needs in addition to the log (`detail["lacks"]`), the preferred leader, the highest
applied LSN, the name. The order only saves work: the first compare-and-set wins, and the winner catches up with the
head before it leads.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from dataclasses import dataclass

from replication.interface import Check, Coordination, CoordinationUnavailableError, Epoch, Head, Replica, Spec, Znode
from replication.log.layout import decode_epoch, decode_replica, decode_spec, node_path, paths
from replication.log.presence import LACKS, LEASE
from replication.log.settings import Clock, LogSettings


@dataclass(frozen=True, slots=True)
class Candidacy:
    """The epoch that a candidate will increment, and the checks that must hold then."""

    epoch: Znode
    checks: tuple[Check, ...]


def candidate_rank(node: str, spec: Spec, epoch: Epoch, replicas: dict[str, Replica], resigned: bool) -> int | None:
    """The number of better candidates; None if the node is no candidate. `replicas`: the live ones, by node.

    `resigned`: this node has just given up the leadership, so all others go first.
    """
    able = [name for name in spec.replicas if name in replicas and replicas[name].role != "bootstrapping"]
    if node not in able:
        return None
    if resigned:
        return len(able)

    def key(name: str) -> tuple[bool, int, bool, int, str]:
        replica = replicas[name]
        lacks = int(replica.detail.get(LACKS, "0"))
        return name != epoch.wish, lacks, name != spec.preferred_leader, -replica.applied, name

    return sorted(able, key=key).index(node)


class Election:
    """The election of one tablespace's leader, as one node sees it."""

    def __init__(
        self, tablespace: bytes, node: str, report: Callable[[], Replica], *, settings: LogSettings, clock: Clock
    ) -> None:
        self._tablespace = tablespace
        self._node = node
        self._report = report
        self._settings = settings
        self._clock = clock
        self._wake = asyncio.Event()
        self._seen: tuple[bytes, float] | None = None  # the leader's replica node, and since when it has been like that
        self.resigned = -1  # the epoch that this node gave up

    async def wait_for_turn(self, current: Callable[[], Coordination]) -> Candidacy:
        """Returns when this node should increment the epoch. `current` returns the session to use."""
        while True:
            self._wake.clear()
            try:
                found = await self._check_turn(current())
            except CoordinationUnavailableError:
                found = None
                self._seen = None  # because the znode was not watched meanwhile
            if found is not None:
                return found
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._settings.poll):
                    await self._wake.wait()

    async def _check_turn(self, coordination: Coordination) -> Candidacy | None:
        where = paths(self._tablespace)
        if coordination.state == "lost":
            return None
        znode = await coordination.get(where.epoch, self._wake.set)
        spec_node = await coordination.get(where.spec)
        if znode is None or spec_node is None:
            return None
        spec, epoch = decode_spec(spec_node.data), decode_epoch(znode.data)
        if await self._vacancy_checks(coordination, epoch) is None:
            return None
        replicas = await self._replicas(coordination)
        place = candidate_rank(self._node, spec, epoch, replicas, self.resigned == epoch.epoch)
        if place is None:
            return None
        if epoch.leader != self._node:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(place * self._settings.rank_pause):
                    await self._wake.wait()
                    return None  # something has changed, maybe the order of the candidates too
        again = await coordination.get(where.epoch)
        checks = await self._vacancy_checks(coordination, epoch)
        if checks is None or again is None or again.version != znode.version:
            return None
        return Candidacy(again, checks)

    async def _vacancy_checks(self, coordination: Coordination, epoch: Epoch) -> tuple[Check, ...] | None:
        """The checks that prove that there is no leader; None if there is one. Only a node that does not lead calls
        it."""
        if epoch.leader in ("", self._node):
            return ()
        if await coordination.get(node_path(epoch.leader), self._wake.set) is None:
            return ()
        return await self._lease_expiry_checks(coordination, epoch.leader)

    async def _lease_expiry_checks(self, coordination: Coordination, leader: str) -> tuple[Check, ...] | None:
        """The check that proves that a live leader's lease has expired; None if it has not."""
        path = paths(self._tablespace).replica(leader)
        found = await coordination.get(path)
        now = self._clock.monotonic()
        if found is None:
            self._seen = None
            return None
        if self._seen is None or self._seen[0] != found.data:
            self._seen = (found.data, now)
            return None
        lease = float(decode_replica(found.data).detail.get(LEASE, "0"))
        return (Check(path, found.version),) if lease > 0 and now - self._seen[1] > lease else None

    async def has_other_candidate_at(self, head: Head, coordination: Coordination) -> bool:
        """Whether another replica could lead at once. Raises CoordinationUnavailableError."""
        replicas = await self._replicas(coordination)
        return any(
            replica.applied >= head.lsn and replica.role != "bootstrapping"
            for name, replica in replicas.items()
            if name != self._node
        )

    async def _replicas(self, coordination: Coordination) -> dict[str, Replica]:
        where = paths(self._tablespace)
        names = await coordination.children(where.replicas)
        found = await asyncio.gather(*(coordination.get(where.replica(name)) for name in names))
        replicas = {
            name: decode_replica(item.data) for name, item in zip(names, found, strict=True) if item is not None
        }
        replicas[self._node] = self._report()
        return replicas
