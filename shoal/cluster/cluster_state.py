"""The cluster as this node sees it: for the system views, checks, and checkpoints on request.

ObservedCluster       replication.observer as engine.cluster_view.ClusterView
connect_cluster_view  gives a node its view of the cluster, and the two operations on request
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Sequence

from catalog.errors import SqlError
from engine.checkpoint.digest import Digest
from engine.cluster_view import DEFAULT, CheckpointView, LedgerView, NodeView, ReplicaView, TablespaceView
from engine.node.node import Node as EngineNode
from replication.checks import ReplicaReport, write_report
from replication.interface import (
    ConflictError,
    Coordination,
    CoordinationUnavailableError,
    Spec,
    StoreUnavailableError,
)
from replication.log.settings import Clock
from replication.observer import Observer

log = logging.getLogger("shoal.cluster")


class ObservedCluster:
    """`node` is this node's name, '' if it is not a node."""

    def __init__(self, observer: Observer, node: str) -> None:
        self._observer = observer
        self._node = node

    @property
    def node(self) -> str:
        return self._node

    @property
    def stale(self) -> bool:
        return self._observer.stale

    def nodes(self) -> Sequence[NodeView]:
        return [
            NodeView(
                item.node,
                True,
                item.host,
                item.port,
                item.admin,
                item.started,
                item.load,
                item.connections,
                item.version,
            )
            for item in self._observer.nodes.values()
        ]

    def tablespaces(self) -> Sequence[TablespaceView]:
        return [
            TablespaceView(
                tablespace,
                item.name,
                item.epoch.leader,
                item.epoch.epoch,
                item.head.lsn,
                item.head.commit_time,
                _expected_replicas(item.spec),
                tuple(item.spec.replicas),
                item.spec.preferred_leader,
                item.spec.max_leader_inactivity,
                item.spec.store,
                item.last_needed_together,
                item.ledger_list.count,
                item.ledger_list.bytes,
            )
            for tablespace, item in sorted(self._observer.tablespaces.items(), key=lambda pair: pair[1].name)
        ]

    def replicas(self) -> Sequence[ReplicaView]:
        return [
            ReplicaView(tablespace, replica.node, replica.role, replica.applied, replica.flushed, replica.seen)
            for tablespace, item in self._observer.tablespaces.items()
            for replica in item.replicas.values()
        ]

    def ledgers(self) -> Sequence[LedgerView]:
        return [
            LedgerView(
                tablespace,
                ledger.ledger,
                ledger.epoch,
                ledger.first,
                ledger.last,
                item.head.bytes if ledger is item.ledgers[-1] and ledger.last is None else ledger.bytes,
                ledger.closed,
                ledger.store,
            )
            for tablespace, item in self._observer.tablespaces.items()
            for ledger in item.ledgers
        ]

    def checkpoints(self) -> Sequence[CheckpointView]:
        return [
            CheckpointView(
                tablespace, checkpoint.lsn, checkpoint.hash, checkpoint.folder, checkpoint.bytes, checkpoint.created
            )
            for tablespace, item in self._observer.tablespaces.items()
            for checkpoint in item.checkpoints
        ]


def _expected_replicas(spec: Spec) -> int:
    """The expected number of replicas: one on every node for a tablespace that every node holds."""
    everywhere = spec.everywhere or spec.name == DEFAULT
    return len(spec.replicas) if everywhere else spec.expected_replicas


def connect_cluster_view(
    node: EngineNode,
    name: str,
    observer: Observer,
    coordination: Callable[[], Coordination],
    write: Callable[[], Awaitable[int]],
    clock: Clock,
) -> None:
    """`coordination` returns the present session, `write` writes a checkpoint."""

    def report_check(check: bytes, tablespace: bytes, found: Digest | SqlError) -> None:
        node.background(_write_check_report(coordination, tablespace, check, name, found, clock.wall()))

    async def write_checkpoint() -> int:
        try:
            return await write()
        except (StoreUnavailableError, CoordinationUnavailableError, ConflictError) as error:
            raise SqlError("58030", f"the checkpoint could not be written: {error}") from error

    node.cluster_view = ObservedCluster(observer, name)
    node.report_check = report_check
    node.write_checkpoint = write_checkpoint


async def _write_check_report(
    coordination: Callable[[], Coordination],
    tablespace: bytes,
    check: bytes,
    node: str,
    found: Digest | SqlError,
    now: int,
) -> None:
    if isinstance(found, SqlError):
        made = ReplicaReport(error=found.message, reported=now)
    else:
        made = ReplicaReport(
            found.lsn, found.total, found.parts, reported=now, copies=found.copies, wrong_copies=found.wrong_copies
        )
    try:
        await write_report(coordination(), tablespace, check, node, made)
    except (CoordinationUnavailableError, SqlError) as error:
        log.warning("check %s could not be reported: %s", check.hex(), error)
