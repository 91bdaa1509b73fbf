"""`shoal lead`: moves a leadership to another node.

The command writes the same request as the controller (`moves/<ts>`, shoal/cluster/controller.py). The leader commits
its pending entries, steps down and names its successor. A node that leads pg_default must hold every tablespace.
"""

from __future__ import annotations

import argparse
import asyncio
import time

import orjson

from catalog.errors import SqlError
from catalog.identifiers import quote_identifier
from replication.interface import ConflictError
from replication.log.layout import decode_epoch, decode_ledgers, paths
from replication.observer import ObservedTablespace
from replication.placement import DEFAULT_TABLESPACE, Move, decode_move, encode_move, move_path
from shoal.commands.cluster_access import ClusterAccess, open_cluster
from shoal.config import ConfigError

CLOSE = 20_000  # LSNs that a successor may be behind the head, because no node leads while it catches up
LOOK = 0.5  # seconds between two reads, if no watch fires earlier


async def run(options: argparse.Namespace) -> int:
    to: str = options.node
    name: str = options.tablespace
    async with open_cluster(options.cluster) as cluster:
        asked = cluster.tablespace(name)
        leader = asked.epoch.leader
        if leader == to:
            _print_result(options, to, leader, 0.0, f"{to} leads already")
            return 0
        cluster.leader(asked)  # that there is one
        _check(cluster, asked, to)
        await _request_move(cluster, asked, Move(leader, to, asked.epoch.epoch))
        began = time.monotonic()
        await _wait(cluster, asked, to, options.timeout)
        seconds = time.monotonic() - began
        _print_result(options, to, leader, seconds, f"{to} leads in place of {leader}, after {seconds:.1f} s")
        if not options.json and asked.spec.preferred_leader not in ("", to):
            print(
                f"{asked.spec.preferred_leader} is the preferred leader, and will be asked to lead again: "
                f"ALTER TABLESPACE {quote_identifier(name)} SET (leader = '{to}') keeps {to}"
            )
    return 0


def _print_result(options: argparse.Namespace, leader: str, before: str, seconds: float, text: str) -> None:
    if options.json:
        found = {"tablespace": options.tablespace, "leader": leader, "before": before, "seconds": round(seconds, 3)}
        print(orjson.dumps(found).decode())
    else:
        print(text)


def _check(cluster: ClusterAccess, asked: ObservedTablespace, to: str) -> None:
    """Raises ConfigError for a node that could not lead, or that could do so only after a long time without a
    leader."""
    cluster.address(to)
    everything = sorted(cluster.observer.tablespaces.values(), key=lambda item: item.name)
    for item in everything if asked.name == DEFAULT_TABLESPACE else (asked,):
        replica = item.replicas.get(to)
        if replica is None or replica.role == "bootstrapping":
            raise ConfigError(f'node {to} has no replica of tablespace "{item.name}" that could lead it')
        if replica.applied < item.head.lsn - CLOSE:
            behind = item.head.lsn - replica.applied
            raise ConfigError(f'node {to} is {behind} entries behind the head of tablespace "{item.name}"')


async def _request_move(cluster: ClusterAccess, asked: ObservedTablespace, move: Move) -> None:
    """Writes the request. Raises ConfigError if another one is pending."""
    path, coordination = move_path(asked.tablespace), cluster.coordination
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
            raise ConfigError(f"{other.leader} is already being asked to hand over to {other.to}; retry in a moment")
        try:
            await coordination.delete(path, found.version)  # of an epoch that has ended
        except ConflictError:
            continue


async def _wait(cluster: ClusterAccess, asked: ObservedTablespace, to: str, timeout: float) -> None:
    """Returns when the node leads. Raises ConfigError when another node leads, or no node in time."""
    where, before = paths(asked.tablespace), asked.epoch
    deadline = time.monotonic() + timeout
    while True:
        wake = asyncio.Event()
        found = await cluster.coordination.get(where.epoch, wake.set)
        ledgers = await cluster.coordination.get(where.ledgers, wake.set)
        epoch = decode_epoch(found.data) if found is not None else before
        listed = decode_ledgers(ledgers.data).ledgers if ledgers is not None else ()
        opened = listed[-1].epoch if listed else 0
        if epoch.leader and epoch.epoch > before.epoch and opened == epoch.epoch:
            if epoch.leader == to:
                return
            raise ConfigError(f"{epoch.leader} leads now, not {to}: it was faster, or {to} failed")
        if time.monotonic() >= deadline:
            said = f"{epoch.leader} still leads" if epoch.leader else "nobody leads"
            raise ConfigError(f"{to} does not lead after {timeout:g} s: {said}")
        try:
            async with asyncio.timeout(LOOK):
                await wake.wait()
        except TimeoutError:
            pass
