"""`shoal lead`: another node leads, because somebody wants it so.

The command leaves the request that the controller leaves too (`moves/<ts>`, shoal/cluster/controller.py): the leader
commits what it has, steps down and names its successor. It leads every tablespace, so every one must be on it.
"""

from __future__ import annotations

import argparse
import asyncio
import time

from catalog.errors import SqlError
from replication.interface import ConflictError
from replication.log.layout import decode_epoch, decode_ledgers, paths
from replication.observer import Observed
from replication.placement import DEFAULT_TABLESPACE, Move, decode_move, encode_move, move_path
from shoal.commands.looking import Cluster, looking_at
from shoal.config import ConfigError

CLOSE = 20_000  # LSNs behind the head: what a successor may have to catch up with while nobody leads
LOOK = 0.5  # seconds between two looks that no watch has asked for


async def run(options: argparse.Namespace) -> int:
    to: str = options.node
    async with looking_at(options.cluster) as cluster:
        default = cluster.tablespace(DEFAULT_TABLESPACE)
        leader = default.epoch.leader
        if leader == to:
            print(f"{to} leads already")
            return 0
        cluster.leader(default)  # that there is one
        _check(cluster, to)
        await _ask(cluster, default, Move(leader, to, default.epoch.epoch))
        began = time.monotonic()
        await _wait(cluster, default, to, options.timeout)
        print(f"{to} leads in place of {leader}, after {time.monotonic() - began:.1f} s")
        if default.spec.preferred_leader not in ("", to):
            print(
                f"{default.spec.preferred_leader} is the preferred leader, and will be asked to lead again: "
                f"ALTER TABLESPACE pg_default SET (leader = '{to}') keeps {to}"
            )
    return 0


def _check(cluster: Cluster, to: str) -> None:
    """Raises ConfigError for a node that could not lead, or only after a long time without a leader."""
    cluster.address(to)
    for item in sorted(cluster.observer.tablespaces.values(), key=lambda item: item.name):
        replica = item.replicas.get(to)
        if replica is None or replica.role == "bootstrapping":
            raise ConfigError(f'node {to} has no replica of tablespace "{item.name}" that could lead it')
        if replica.applied < item.head.lsn - CLOSE:
            behind = item.head.lsn - replica.applied
            raise ConfigError(f'node {to} is {behind} entries behind the head of tablespace "{item.name}"')


async def _ask(cluster: Cluster, default: Observed, move: Move) -> None:
    """Leaves the request. Raises ConfigError when another one is under way."""
    path, coordination = move_path(default.tablespace), cluster.coordination
    while True:
        try:
            await coordination.create(path, encode_move(move))
            return
        except ConflictError:
            found = await coordination.get(path)
        if found is None:
            continue
        try:
            other = decode_move(found.data)
        except SqlError:
            other = None
        if other == move:
            return
        if other is not None and other.epoch == move.epoch:
            raise ConfigError(f"{other.leader} is just being asked to hand over to {other.to}; retry in a moment")
        try:
            await coordination.delete(path, found.version)  # of an epoch that is over
        except ConflictError:
            continue


async def _wait(cluster: Cluster, default: Observed, to: str, timeout: float) -> None:
    """Returns when the node leads. Raises ConfigError when another one does, or nobody in time."""
    where, asked = paths(default.tablespace), default.epoch
    deadline = time.monotonic() + timeout
    while True:
        wake = asyncio.Event()
        found = await cluster.coordination.get(where.epoch, wake.set)
        ledgers = await cluster.coordination.get(where.ledgers, wake.set)
        epoch = decode_epoch(found.data) if found is not None else asked
        opened = decode_ledgers(ledgers.data)[-1].epoch if ledgers is not None else 0
        if epoch.leader and epoch.epoch > asked.epoch and opened == epoch.epoch:
            if epoch.leader == to:
                return
            raise ConfigError(f"{epoch.leader} leads now, not {to}: it was quicker, or {to} could not")
        if time.monotonic() >= deadline:
            said = f"{epoch.leader} still leads" if epoch.leader else "nobody leads"
            raise ConfigError(f"{to} does not lead after {timeout:g} s: {said}")
        try:
            async with asyncio.timeout(LOOK):
                await wake.wait()
        except TimeoutError:
            pass
