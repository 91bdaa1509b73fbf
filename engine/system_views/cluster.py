"""The rows of shoal_nodes, shoal_tablespaces, ..., from the node's knowledge of its cluster (engine/cluster_view.py).

docs/cluster.md explains the columns. Rows are computed for each query, from memory.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from catalog.functions.system import RELEASE
from catalog.types.base import Interval
from engine.cluster_view import DEFAULT, Alone, ClusterView, NodeView, here, spaces_of
from engine.replica import HOME
from engine.system_views.columns import column_rows, progress_rows

if TYPE_CHECKING:
    from engine.session.session import Session
    from engine.storage.tablespace import Tablespace

Row = dict[str, object]


def cluster_rows(session: Session, view: str) -> list[Row]:
    """The rows of the view with that name."""
    cluster = session.node.cluster_view
    if cluster is None:
        cluster = Alone(session.node, RELEASE, session.client.server_address)
    return _ROWS[view](session, cluster)


def _interval(seconds: float) -> Interval:
    return Interval(0, 0, round(seconds * 1_000_000))


def _nodes(session: Session, cluster: ClusterView) -> list[Row]:
    nodes = {node.node: node for node in cluster.nodes()}
    for tablespace in cluster.tablespaces():
        for name in tablespace.assigned:
            nodes.setdefault(name, NodeView(name, False))
    return [
        {
            "node": node.node, "alive": node.alive, "this_node": node.node == cluster.node, "host": node.host,
            "port": node.port, "admin": node.admin or None, "started": node.started or None, "load": node.load,
            "connections": len(session.node.sessions) if node.node == cluster.node else node.connections,
            "version": node.version or None,
        }
        for _, node in sorted(nodes.items())
    ]  # fmt: skip


def _tablespaces(session: Session, cluster: ClusterView) -> list[Row]:
    live: dict[bytes, int] = {}
    for replica in cluster.replicas():
        if replica.role != "bootstrapping":
            live[replica.tablespace] = live.get(replica.tablespace, 0) + 1
    return [
        {
            "tablespace": item.name, "id": item.tablespace.hex(), "leader": item.leader or None, "epoch": item.epoch,
            "head_lsn": _head(session, item.tablespace, item.head), "head_time": item.head_time or None,
            "live_replicas": live.get(item.tablespace, 0), "expected_replicas": item.expected_replicas,
            "under_replicated": live.get(item.tablespace, 0) < item.expected_replicas,
            "preferred_leader": item.preferred_leader or None,
            "max_leader_inactivity": _interval(item.max_leader_inactivity) if item.max_leader_inactivity else None,
            "store": item.store or None, "needed_together": item.tied or None,
        }
        for item in cluster.tablespaces()
    ]  # fmt: skip


def _spaces(session: Session) -> dict[bytes, Tablespace]:
    """The tablespaces that this node holds, by id."""
    return {space.tablespace_id: space for space in spaces_of(session.node).values()}


def _head(session: Session, tablespace: bytes, told: int) -> int:
    """The reported head, or this node's applied LSN if that is later, because only committed entries are applied."""
    space = _spaces(session).get(tablespace)
    return told if space is None else max(told, space.durable_lsn)


def _replicas(session: Session, cluster: ClusterView) -> list[Row]:
    rows: list[Row] = []
    replicas = here(cluster.replicas(), cluster.node, _spaces(session), session.node.clock())
    for item in cluster.tablespaces():
        own = {replica.node: replica for replica in replicas if replica.tablespace == item.tablespace}
        head = max([_head(session, item.tablespace, item.head), *(replica.applied for replica in own.values())])
        for node in sorted({*own, *item.assigned}):
            row: Row = {"tablespace": item.name, "node": node, "this_node": node == cluster.node, "role": "missing"}
            replica = own.get(node)
            if replica is not None:
                row |= {
                    "role": replica.role, "applied_lsn": replica.applied, "flushed_lsn": replica.flushed,
                    "lag": head - replica.applied, "seen": replica.seen or None,
                }  # fmt: skip
            rows.append(row)
    return rows


def _names(cluster: ClusterView) -> dict[bytes, str]:
    return {item.tablespace: item.name for item in cluster.tablespaces()}


def _ledgers(session: Session, cluster: ClusterView) -> list[Row]:
    names = _names(cluster)
    return [
        {
            "tablespace": names.get(item.tablespace), "ledger": item.ledger, "epoch": item.epoch,
            "state": "open" if item.last is None else "closed", "first_lsn": item.first, "last_lsn": item.last,
            "bytes": item.bytes, "closed": item.closed or None, "store": item.store or None,
        }
        for item in cluster.ledgers()
    ]  # fmt: skip


def _checkpoints(session: Session, cluster: ClusterView) -> list[Row]:
    tablespaces = {item.tablespace: item for item in cluster.tablespaces()}
    rows: list[Row] = []
    for item in cluster.checkpoints():
        tablespace = tablespaces.get(item.tablespace)
        if tablespace is not None:
            rows.append({
                "tablespace": tablespace.name, "lsn": item.lsn, "bytes": item.bytes, "hash": item.hash,
                "lag": _head(session, item.tablespace, tablespace.head) - item.lsn, "folder": item.folder,
                "created": item.created,
            })  # fmt: skip
    return rows


def _log_status(session: Session, cluster: ClusterView) -> list[Row]:
    node, replica = session.node, session.node.replica
    told = {item.tablespace: item for item in cluster.tablespaces()}
    roles = {item.tablespace: item.role for item in cluster.replicas() if item.node == cluster.node}
    rows: list[Row] = []
    for name, space in spaces_of(node).items():
        item = told.get(space.tablespace_id)
        place = HOME if name == DEFAULT else space.tablespace_id
        leads = replica is None or replica.leads_in((place,))
        role = "leader" if leads else roles.get(space.tablespace_id, "follower")
        if role == "leader" and not leads:
            role = "follower"  # the reported role is older than this node's own information
        rows.append({
            "tablespace": name, "node": cluster.node, "role": role, "epoch": 0 if item is None else item.epoch,
            "head_lsn": _head(session, space.tablespace_id, 0 if item is None else item.head),
            "sequenced_lsn": space.sequenced_lsn, "durable_lsn": space.durable_lsn, "flushed_lsn": space.flushed_lsn,
            "pending_bytes": space.pending_bytes, "cluster_stale": cluster.stale,
            "staleness": _interval(0.0 if replica is None else replica.staleness),
        })  # fmt: skip
    return rows


def _change_streams(session: Session, cluster: ClusterView) -> list[Row]:
    with session.node.store.snapshot() as reader:
        return session.node.changes.show_streams(session.catalog, reader)


_ROWS: dict[str, Callable[[Session, ClusterView], list[Row]]] = {
    "shoal_nodes": _nodes,
    "shoal_tablespaces": _tablespaces,
    "shoal_replicas": _replicas,
    "shoal_ledgers": _ledgers,
    "shoal_checkpoints": _checkpoints,
    "shoal_log_status": _log_status,
    "shoal_change_streams": _change_streams,
    "shoal_columns": lambda session, _: column_rows(session),
    "shoal_stat_progress_columns": lambda session, _: progress_rows(session),
}
