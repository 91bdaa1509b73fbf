"""`shoal status`: the nodes of a cluster, its leaders, the positions of replicas, and problems.

It reports these problems:

- a node whose port does not answer
- no leader, a leader that is not registered, or one that has not taken over yet
- fewer live replicas than expected, or a missing replica
- a replica that has not reported for SILENT seconds, or has not started
"""

from __future__ import annotations

import argparse
import asyncio
import os
from collections.abc import Mapping
from dataclasses import dataclass, field

import orjson

from engine.cluster_view import ReplicaView, TablespaceView
from shoal.cluster.cluster_state import ObservedCluster
from shoal.commands.cluster_access import ClusterAccess, age, now, open_cluster, plural, size, table, timestamp_or_none
from wire.client_core import SSL_REQUEST

SILENT = 15.0  # seconds; replicas report every few seconds at least
ANSWER = 3.0  # seconds that a node's port has to answer


@dataclass(slots=True)
class ClusterStatus:
    """The status that `shoal status` prints, as plain values for JSON."""

    nodes: list[dict[str, object]] = field(default_factory=list)
    tablespaces: list[dict[str, object]] = field(default_factory=list)
    replicas: dict[str, list[dict[str, object]]] = field(default_factory=dict)  # by tablespace
    problems: list[str] = field(default_factory=list)


async def run(options: argparse.Namespace) -> int:
    async with open_cluster(options.cluster) as cluster:
        picture = read_status(cluster, await probe_ports(cluster))
    if options.json:
        tablespaces = [{**item, "replicas": picture.replicas[str(item["id"])]} for item in picture.tablespaces]
        value = {
            "cluster": cluster.url,
            "ok": not picture.problems,
            "problems": picture.problems,
            "nodes": picture.nodes,
            "tablespaces": tablespaces,
        }
        print(orjson.dumps(value, option=orjson.OPT_INDENT_2).decode())
    else:
        _print(cluster.url, picture)
    return 1 if picture.problems else 0


async def probe_ports(cluster: ClusterAccess) -> dict[str, str]:
    """Tests the port of each registered node, and returns the problem of each, or '': a node may hang, or not listen
    yet."""
    nodes = list(cluster.observer.nodes.values())
    found = await asyncio.gather(*(_probe_port(node.host, node.port) for node in nodes))
    return {node.node: why for node, why in zip(nodes, found, strict=True)}


async def _probe_port(host: str, port: int) -> str:
    try:
        async with asyncio.timeout(ANSWER):
            reader, writer = await asyncio.open_connection(host, port)
            try:
                writer.write(SSL_REQUEST)  # the server answers this before authentication
                return "" if await reader.read(1) else "ends connections"
            finally:
                writer.close()
    except TimeoutError:
        return f"does not answer within {ANSWER:g} s"
    except OSError as error:
        return f"cannot be reached: {os.strerror(error.errno) if error.errno else error}"


def read_status(cluster: ClusterAccess, asked: Mapping[str, str]) -> ClusterStatus:
    """The current status of the cluster. `asked`: the problems of the nodes' ports."""
    view = ObservedCluster(cluster.observer, "")
    picture = ClusterStatus()
    nodes = {node.node: node for node in view.nodes()}
    named = {name for tablespace in view.tablespaces() for name in tablespace.assigned}
    for name in sorted({*nodes, *named}):
        node = nodes.get(name)
        if node is None:
            picture.nodes.append({"node": name, "alive": False})
            picture.problems.append(f"node {name} is not there")
            continue
        if why := asked.get(name, ""):
            picture.problems.append(f"node {name} {why} at {node.host}:{node.port}")
        picture.nodes.append({
            "node": name, "alive": True, "answers": not why, "host": node.host, "port": node.port,
            "admin": node.admin or None, "load": node.load, "connections": node.connections,
            "started": timestamp_or_none(node.started or 0), "version": node.version or None,
        })  # fmt: skip
    for tablespace in view.tablespaces():
        replicas = {item.node: item for item in view.replicas() if item.tablespace == tablespace.tablespace}
        picture.replicas[tablespace.tablespace.hex()] = _replicas(picture, tablespace, replicas)
        picture.tablespaces.append(_tablespace(picture, cluster, tablespace, replicas, set(nodes)))
    if not picture.tablespaces:
        picture.problems.append("there are no tablespaces: no node has been started yet")
    return picture


def _tablespace(
    picture: ClusterStatus,
    cluster: ClusterAccess,
    item: TablespaceView,
    replicas: dict[str, ReplicaView],
    nodes: set[str],
) -> dict[str, object]:
    observed = cluster.observer.tablespaces[item.tablespace]
    live = sum(replica.role != "bootstrapping" for replica in replicas.values())
    if not item.leader:
        picture.problems.append(f"tablespace {item.name} has no leader")
    elif item.leader not in nodes:
        picture.problems.append(f"tablespace {item.name} is led by {item.leader}, which is not there")
    elif observed.ledgers and observed.ledgers[-1].epoch < item.epoch:
        picture.problems.append(f"tablespace {item.name} is being taken over by {item.leader}, which catches up first")
    if live < item.expected_replicas:
        picture.problems.append(f"tablespace {item.name} has {live} of {item.expected_replicas} replicas")
    checkpoint = max(observed.checkpoints, key=lambda found: found.lsn, default=None)
    return {
        "tablespace": item.name, "id": item.tablespace.hex(), "leader": item.leader or None, "epoch": item.epoch,
        "head_lsn": item.head, "head_time": timestamp_or_none(item.head_time), "live_replicas": live,
        "expected_replicas": item.expected_replicas, "under_replicated": live < item.expected_replicas,
        "ledgers": observed.ledger_list.count + len(observed.ledgers),
        "bytes": observed.ledger_list.bytes
        + sum(ledger.bytes for ledger in observed.ledgers if ledger.last is not None) + observed.head.bytes,
        "checkpoint_lsn": checkpoint.lsn if checkpoint else None,
        "checkpoint_created": timestamp_or_none(checkpoint.created) if checkpoint else None,
        "store": item.store or None,
    }  # fmt: skip


def _replicas(
    picture: ClusterStatus, item: TablespaceView, replicas: dict[str, ReplicaView]
) -> list[dict[str, object]]:
    rows: list[dict[str, object]] = []
    for name in sorted({*replicas, *item.assigned}):
        replica = replicas.get(name)
        if replica is None:
            rows.append({"node": name, "role": "missing"})
            picture.problems.append(f"tablespace {item.name} has no replica on {name}, where it should")
            continue
        if replica.role == "bootstrapping":
            picture.problems.append(f"the replica of {item.name} on {name} is still being made")
        elif replica.seen and (now() - replica.seen) / 1e6 > SILENT:
            picture.problems.append(f"the replica of {item.name} on {name} was last heard of {age(replica.seen)} ago")
        rows.append({
            "node": name, "role": replica.role, "applied_lsn": replica.applied, "flushed_lsn": replica.flushed,
            "lag": max(0, item.head - replica.applied), "seen": timestamp_or_none(replica.seen),
        })  # fmt: skip
    return rows


# ---- text -----------------------------------------------------------------------------------------------------------


def _print(url: str, picture: ClusterStatus) -> None:
    print(f"cluster {url}\n")
    print(
        table(("NODE", "STATE", "ADDRESS", "LOAD", "CONNECTIONS", "SINCE", "VERSION"), list(map(_node, picture.nodes)))
    )
    for item in picture.tablespaces:
        replicas = f"replicas {item['live_replicas']} (expected {item['expected_replicas']})"
        marked = " UNDER-REPLICATED" if item["under_replicated"] else ""
        committed = f", committed {item['head_time']}" if item["head_time"] else ""
        checkpoint = "none"
        if item["checkpoint_lsn"] is not None:
            checkpoint = f"LSN {item['checkpoint_lsn']}, made {item['checkpoint_created']}"
        print(f"\ntablespace {item['tablespace']}: leader {item['leader'] or 'NONE'}, {replicas}{marked}")
        print(f"  head        LSN {item['head_lsn']}, epoch {item['epoch']}{committed}")
        used = f"{plural(int(str(item['ledgers'])), 'ledger')}, {size(int(str(item['bytes'])))}"
        print(f"  changelog   {used}, {item['store']}")
        print(f"  checkpoint  {checkpoint}")
        rows = [_replica(row) for row in picture.replicas[str(item["id"])]]
        print(table(("REPLICA", "ROLE", "APPLIED", "LAG", "FLUSHED"), rows, "  "))
    print()
    for problem in picture.problems:
        print(f"WRONG: {problem}")
    if not picture.problems:
        print("no problems found")


def _node(row: dict[str, object]) -> tuple[object, ...]:
    if not row["alive"]:
        return (row["node"], "NOT THERE", "", "", "", "", "")
    load = row["load"]
    busy = f"{load:.0%}" if isinstance(load, float) else ""
    state = "up" if row["answers"] else "SILENT"
    return (
        row["node"],
        state,
        f"{row['host']}:{row['port']}",
        busy,
        row["connections"],
        row["started"],
        row["version"],
    )


def _replica(row: dict[str, object]) -> tuple[object, ...]:
    if row["role"] == "missing":
        return (row["node"], "MISSING", "", "", "")
    return (row["node"], row["role"], row["applied_lsn"], row["lag"], row["flushed_lsn"])
