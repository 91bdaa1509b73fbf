"""A node's knowledge of its cluster, for the views shoal_nodes, shoal_tablespaces, ...

The composition root implements `ClusterView` over the observer of replication/ and gives it to the node. A single node
uses `Alone`, which describes the node itself. All answers come from memory.

Replicas report to the coordination service once a second. `here` adds newer positions of this node's own tablespaces.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol

from catalog.schema import Tablespace as TablespaceObject
from engine.storage.tablespace import Tablespace

if TYPE_CHECKING:
    from engine.node_services import NodeServices

DEFAULT = "pg_default"
THIS_NODE = "local"  # the name of a node alone


@dataclass(frozen=True, slots=True)
class NodeView:
    """A node. A node that is not registered has a name only."""

    node: str
    alive: bool
    host: str | None = None
    port: int | None = None
    admin: str | None = None  # host:port, with https:// before it for TLS
    started: int | None = None  # microseconds since 2000-01-01 UTC
    load: float | None = None  # 0..1
    connections: int | None = None
    version: str | None = None


@dataclass(frozen=True, slots=True)
class TablespaceView:
    """A tablespace. `tablespace`: 16 bytes; `assigned`: the nodes that must hold it."""

    tablespace: bytes
    name: str
    leader: str  # '': none
    epoch: int
    head: int  # LSN
    head_time: int  # commit time of the head, microseconds since 2000-01-01 UTC; 0: not known
    expected_replicas: int
    assigned: tuple[str, ...]
    preferred_leader: str = ""
    max_leader_inactivity: float = 0.0  # seconds; 0: the session's end alone decides
    store: str = ""  # URL; '': the cluster's
    tied: int = 0  # when it was last needed together with others, microseconds since 2000-01-01 UTC; 0: it was not
    older_ledgers: int = 0  # older than those in `ledgers`
    older_bytes: int = 0  # in these


@dataclass(frozen=True, slots=True)
class ReplicaView:
    tablespace: bytes
    node: str
    role: str  # leader | follower | bootstrapping
    applied: int  # LSN
    flushed: int  # LSN
    seen: int  # microseconds since 2000-01-01 UTC; 0: never


@dataclass(frozen=True, slots=True)
class LedgerView:
    tablespace: bytes
    ledger: int
    epoch: int
    first: int
    last: int | None  # None: open
    bytes: int
    closed: int  # microseconds since 2000-01-01 UTC; 0: open
    store: str  # URL; '': the cluster's


@dataclass(frozen=True, slots=True)
class CheckpointView:
    tablespace: bytes
    lsn: int
    hash: str
    folder: str
    bytes: int
    created: int  # microseconds since 2000-01-01 UTC


class ClusterView(Protocol):
    """Called on the engine's thread."""

    @property
    def node(self) -> str:
        """This node's name."""

    @property
    def stale(self) -> bool:
        """Whether the coordination service cannot be reached, so the data may be old."""

    def nodes(self) -> Sequence[NodeView]: ...
    def tablespaces(self) -> Sequence[TablespaceView]: ...
    def replicas(self) -> Sequence[ReplicaView]: ...
    def ledgers(self) -> Sequence[LedgerView]: ...
    def checkpoints(self) -> Sequence[CheckpointView]: ...


def spaces_of(node: NodeServices) -> dict[str, Tablespace]:
    """The tablespaces that the node holds, by name."""
    if isinstance(node.store, Tablespace):
        return {DEFAULT: node.store}
    names = {
        item.identity: item.name
        for item in node.shared_catalog.objects.values()
        if isinstance(item, TablespaceObject) and item.identity
    }
    first, *others = node.store.open_spaces()
    named = {names.get(space.tablespace_id.hex(), space.tablespace_id.hex()): space for space in others}
    return {DEFAULT: first, **named}


class Alone:
    """The ClusterView of a single node, which leads all of its tablespaces."""

    node = THIS_NODE
    stale = False

    def __init__(self, node: NodeServices, version: str, address: tuple[str, int] | None) -> None:
        """`address` is the address to which the session is connected."""
        self._node = node
        self._version = version
        self._address = address

    def nodes(self) -> Sequence[NodeView]:
        host, port = self._address or (None, None)
        return [
            NodeView(
                THIS_NODE,
                True,
                host,
                port,
                started=self._node.started,
                connections=len(self._node.sessions),
                version=self._version,
            )
        ]

    def tablespaces(self) -> Sequence[TablespaceView]:
        return [
            TablespaceView(space.tablespace_id, name, THIS_NODE, 0, space.durable_lsn, 0, 1, (THIS_NODE,))
            for name, space in spaces_of(self._node).items()
        ]

    def replicas(self) -> Sequence[ReplicaView]:
        now = self._node.clock()
        return [
            ReplicaView(space.tablespace_id, THIS_NODE, "leader", space.durable_lsn, space.flushed_lsn, now)
            for space in spaces_of(self._node).values()
        ]

    def ledgers(self) -> Sequence[LedgerView]:
        """Empty: the changelog of a single node is segment files, without ledgers."""
        return []

    def checkpoints(self) -> Sequence[CheckpointView]:
        return []


def here(replicas: Sequence[ReplicaView], node: str, spaces: Mapping[bytes, Tablespace], now: int) -> list[ReplicaView]:
    """The replicas, with the present positions of this node's own. `now` in microseconds since 2000-01-01 UTC."""
    found = []
    for replica in replicas:
        space = spaces.get(replica.tablespace) if replica.node == node else None
        if space is not None:
            replica = replace(replica, applied=space.durable_lsn, flushed=space.flushed_lsn, seen=now)  # noqa: PLW2901
        found.append(replica)
    return found
