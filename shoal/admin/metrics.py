"""/metrics, in Prometheus' text format: the node's counters, collected at each request.

Nothing is stored here: numbers come from the objects that have them (engine/statistics, catalog/durations.py, the
tablespaces, the cluster's view), so a scrape is the only cost beside the counting itself. docs/monitoring.md describes
the metrics. Times are in seconds, sizes in bytes.

Histograms are counted in powers of two of a nanosecond; every fourth bucket is shown, from 4 us to 69 s.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence

from aiohttp import web
from prometheus_client import CollectorRegistry, GCCollector, ProcessCollector
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest
from prometheus_client.registry import Collector

from catalog.durations import all_durations
from catalog.functions.system import RELEASE
from catalog.schema import Database
from engine.cluster_view import THIS_NODE, Alone, ClusterView, TablespaceView, here, spaces_of
from engine.node.node import Node
from engine.session.activity import state_of
from engine.session.open_sessions import open_sessions
from shoal.admin.health import find_problem
from shoal.admin.server import Admin, AdminParts

FIRST, LAST, STEP = 12, 36, 2  # exponents of the upper bounds that are shown, in nanoseconds
_MICROSECONDS = 1_000_000
_PAGE = os.sysconf("SC_PAGE_SIZE")

DURATIONS = {
    "shoal_commit_seconds": "Time from the end of a transaction until it is durable; one commit of every group",
    "shoal_lock_wait_seconds": "Waits for row, table and advisory locks, with any outcome",
    "shoal_flush_seconds": "Time to write a full memtable into the tables' file",
    "shoal_changelog_sync_seconds": "Time to sync a group of commits to the changelog of a single node",
    "shoal_changelog_put_seconds": "Time to store an object of the cluster's changelog",
    "shoal_changelog_multi_seconds": "Time to commit a group in ZooKeeper",
    "shoal_zookeeper_seconds": "Requests to ZooKeeper, by kind",
    "shoal_store_seconds": "Calls of changelog stores, by store and outcome",
}


def routes(admin: Admin) -> Iterable[web.RouteDef]:
    registry = CollectorRegistry()
    collector = NodeCollector()
    registry.register(collector)
    ProcessCollector(registry=registry)
    GCCollector(registry=registry)

    async def metrics(_: web.Request) -> web.StreamResponse:
        collector.parts = admin.parts  # 503 until there is a node
        return web.Response(body=generate_latest(registry), headers={"Content-Type": CONTENT_TYPE_LATEST})

    return [web.get("/metrics", metrics)]


class NodeCollector(Collector):
    """The metrics of a node."""

    parts: AdminParts | None = None  # None: there is no node yet

    def describe(self) -> Iterable[Metric]:
        """Describes no metrics, so that the registry does not collect at registration."""
        return ()

    def collect(self) -> Iterator[Metric]:
        parts = self.parts
        if parts is None:
            return
        node = parts.node
        view = node.cluster_view or Alone(node, RELEASE, parts.server.address)
        yield from _node(parts, view)
        yield from _statements(node)
        yield from _durations()
        yield from _sessions(parts)
        yield from _databases(node)
        yield from _tablespaces(node, view)
        yield from _columns(node)
        yield from _cluster(node, view)


def _gauge(name: str, text: str, labels: Sequence[str], rows: Iterable[tuple[Sequence[str], float]]) -> Metric:
    family = GaugeMetricFamily(name, text, labels=labels)
    for values, number in rows:
        family.add_metric(values, number)
    return family


def _counter(name: str, text: str, labels: Sequence[str], rows: Iterable[tuple[Sequence[str], float]]) -> Metric:
    family = CounterMetricFamily(name, text, labels=labels)
    for values, number in rows:
        family.add_metric(values, number)
    return family


def _histogram(
    name: str, text: str, labels: Sequence[str], rows: Iterable[tuple[Sequence[str], Sequence[int]]]
) -> Metric:
    family = HistogramMetricFamily(name, text, labels=labels)
    for values, buckets in rows:
        family.add_metric(values, *cumulative(buckets))
    return family


def cumulative(buckets: Sequence[int]) -> tuple[list[tuple[str, float]], float]:
    """Counts by powers of two of a nanosecond (catalog/durations.py) as Prometheus has them, and their sum in
    seconds."""
    found: list[tuple[str, float]] = []
    count, done = 0, 1
    for exponent in range(FIRST, LAST + 1, STEP):
        count += sum(buckets[done : exponent + 1])
        done = exponent + 1
        found.append((repr(2**exponent / 1e9), count))
    found.append(("+Inf", count + sum(buckets[done:])))
    return found, buckets[0] / 1e9


# ---- the node -------------------------------------------------------------------------------------------------------


def _node(parts: AdminParts, view: ClusterView) -> Iterator[Metric]:
    node = parts.node
    yield _gauge(
        "shoal_info", "The node and its version", ("node", "version"), [((view.node or THIS_NODE, RELEASE), 1)]
    )
    yield _gauge("shoal_ready", "Whether the node answers clients, as /readyz says", (), [((), not find_problem(node))])
    yield _gauge("shoal_plan_cache_plans", "Cached plans", (), [((), node.cached_plans)])
    held = (("row", node.row_locks), ("table", node.table_locks), ("advisory", node.advisory_locks))
    yield _gauge("shoal_locks", "Held locks", ("kind",), [((kind,), space.held) for kind, space in held])
    yield _gauge("shoal_listeners", "Sessions that listen for notifications", (), [((), node.listeners.listeners)])
    yield _counter("shoal_notifications", "Notifications received", (), [((), node.listeners.told)])


def _statements(node: Node) -> Iterator[Metric]:
    node.statements.fold()
    rows = [(key, buckets) for key, buckets in sorted(node.statements.histograms.items()) if any(buckets)]
    yield _histogram("shoal_statement_seconds", "Statements, by kind and path", ("command", "path"), rows)
    planned = node.activity.planned
    yield _counter("shoal_statements_planned", "Statements that were not in a plan cache", (), [((), planned)])
    classes: dict[str, int] = {}
    for sqlstate, count in node.activity.errors.items():
        classes[sqlstate[:2]] = classes.get(sqlstate[:2], 0) + count
    yield _counter(
        "shoal_statement_errors",
        "Errors sent to clients, by the class of their SQLSTATE",
        ("class",),
        [((kind,), count) for kind, count in sorted(classes.items())],
    )


def _durations() -> Iterator[Metric]:
    for name, text in DURATIONS.items():
        found = [(labels, item) for key, labels, item in all_durations() if key == name]
        names = tuple(sorted(found[0][0])) if found else ()
        rows = [([labels[key] for key in names], item.buckets) for labels, item in found]
        if rows:
            yield _histogram(name, text, names, rows)


def _sessions(parts: AdminParts) -> Iterator[Metric]:
    states = dict.fromkeys(("active", "idle", "idle in transaction", "idle in transaction (aborted)"), 0)
    waiting = 0
    for session in open_sessions(parts.node).values():
        states[state_of(session)] += 1
        transaction = session.transaction
        waiting += transaction is not None and transaction.waiting is not None
    rows = [((state,), count) for state, count in states.items()]
    yield _gauge("shoal_sessions", "Sessions, by state", ("state",), rows)
    yield _gauge("shoal_sessions_waiting", "Sessions that wait for a lock", (), [((), waiting)])
    yield _gauge("shoal_connections", "Connections of clients and other nodes", (), [((), parts.server.connections)])
    most = parts.server.max_connections
    yield _gauge("shoal_connections_limit", "Maximum number of connections", (), [((), most)])


def _databases(node: Node) -> Iterator[Metric]:
    transactions, rows, opened, deadlocks = [], [], [], []
    for name, oid in _databases_of(node):
        activity = node.activity.now(oid, node.sessions.values())
        commits = activity.commits + node.statements.single_reads(oid)
        transactions += [((name, "commit"), commits), ((name, "rollback"), activity.rollbacks)]
        counts = node.written.of_database(node.catalogs[oid])
        kinds = ("insert", "update", "delete", "fetch")
        counts.append(node.statements.rows_fetched(oid))
        rows += [((name, kind), count) for kind, count in zip(kinds, counts, strict=True)]
        opened.append(((name,), activity.sessions))
        deadlocks.append(((name,), activity.deadlocks))
    yield _counter("shoal_transactions", "Transactions that ended", ("database", "outcome"), transactions)
    yield _counter("shoal_rows", "Rows that statements wrote or returned", ("database", "operation"), rows)
    yield _counter("shoal_sessions_opened", "Opened sessions", ("database",), opened)
    yield _counter("shoal_deadlocks", "Deadlocks", ("database",), deadlocks)


def _databases_of(node: Node) -> list[tuple[str, int]]:
    if not node.catalogs:
        return []
    objects = node.shared_catalog.objects.values()
    return sorted((item.name, item.oid) for item in objects if isinstance(item, Database) and item.oid in node.catalogs)


# ---- storage --------------------------------------------------------------------------------------------------------


def _tablespaces(node: Node, view: ClusterView) -> Iterator[Metric]:
    if not node.catalogs:
        return
    spaces = spaces_of(node)
    label = ("tablespace",)
    yield _gauge(
        "shoal_tablespace_lsn",
        "LSN that a tablespace has reached on this node; each commit is one LSN",
        ("tablespace", "stage"),
        [
            ((name, stage), getattr(space, f"{stage}_lsn"))
            for name, space in spaces.items()
            for stage in ("sequenced", "durable", "flushed")
        ],
    )
    led = {space.tablespace: space.leader == view.node for space in view.tablespaces()}
    leads = [((name,), led.get(space.tablespace_id, False)) for name, space in spaces.items()]
    yield _gauge("shoal_tablespace_leads", "Whether this node leads the tablespace", label, leads)
    for metric, text, attribute in (
        ("shoal_memtable_bytes", "Bytes in memtables that are not flushed", "memory_bytes"),
        ("shoal_memtables_frozen", "Full memtables and bulk runs that wait for the flush", "frozen"),
        ("shoal_changelog_pending_bytes", "Bytes that are sequenced but not durable", "pending_bytes"),
        ("shoal_tables_kept_bytes", "Free pages of the tables' file whose old content is still read", "reader_bytes"),
    ):
        yield _gauge(metric, text, label, [((name,), getattr(space, attribute)) for name, space in spaces.items()])
    sizes = {name: space.file_bytes for name, space in spaces.items()}
    yield _gauge(
        "shoal_tables_file_bytes",
        "The tables' file (LMDB)",
        label,
        [((name,), size[0]) for name, size in sizes.items()],
    )
    yield _gauge(
        "shoal_tables_used_bytes",
        "Pages of the tables' file that were ever used",
        label,
        [((name,), size[1]) for name, size in sizes.items()],
    )
    kept = [((name,), size) for name, space in spaces.items() if (size := space.changelog_bytes) is not None]
    yield _gauge("shoal_changelog_bytes", "Files of the changelog on a single node", label, kept)


def _columns(node: Node) -> Iterator[Metric]:
    status, report = node.columnar.status, node.columnar.report
    late = 0.0 if status.late_since is None else max(node.clock() - status.late_since, 0) / _MICROSECONDS
    for name, text, value in (
        (
            "shoal_columns_lag_lsn",
            "Commits that the analytic worker has not received; queries wait for them",
            status.behind,
        ),
        ("shoal_columns_lag_seconds", "Age of the oldest of these commits", late),
        ("shoal_columns_tables", "Tables in the analytic worker", status.tables),
        ("shoal_columns_queries", "Queries that the analytic worker runs", status.queries),
        ("shoal_columns_unapplied_bytes", "Changes sent to the analytic worker and not applied", status.unapplied),
        ("shoal_columns_worker_memory_bytes", "Resident memory of the analytic worker; 0: none", _memory(status.pid)),
        (
            "shoal_columns_memory_bytes",
            "Memory of the columns in the analytic worker at the last load or save",
            report.memory_bytes,
        ),
        ("shoal_columns_file_bytes", "Size of the file of the columns", report.file_bytes),
        ("shoal_columns_saved_tables", "Tables in the file of the columns at the last save", report.saved_tables),
        ("shoal_columns_spill_bytes", "Bytes of queries in the spill directory", report.spill_bytes),
    ):
        yield _gauge(name, text, (), [((), value)])
    kinds = (("build", report.builds, report.build_seconds), ("catch_up", report.catch_ups, report.catch_up_seconds))
    loads = [((kind,), count) for kind, count, _ in kinds]
    yield _counter(
        "shoal_columns_loads", "Tables that were built, or taken from the file and brought up to date", ("kind",), loads
    )
    spent = [((kind,), seconds) for kind, _, seconds in kinds]
    yield _counter("shoal_columns_load_seconds", "Time of these loads", ("kind",), spent)
    for name, text, value in (
        ("shoal_columns_saves", "Saves of the columns' file", report.saves),
        ("shoal_columns_save_seconds", "Time of these saves", report.save_seconds),
        ("shoal_columns_save_failures", "Failed saves, usually because of a full disk", report.failed_saves),
    ):
        yield _counter(name, text, (), [((), value)])


def _memory(pid: int) -> int:
    try:
        with open(f"/proc/{pid}/statm", "rb") as file:
            return int(file.read().split()[1]) * _PAGE if pid else 0
    except OSError:  # it has just ended, or there is no /proc
        return 0


# ---- the cluster ----------------------------------------------------------------------------------------------------


def _cluster(node: Node, view: ClusterView) -> Iterator[Metric]:
    yield _gauge("shoal_nodes", "Live nodes, by this node's knowledge", (), [((), sum(n.alive for n in view.nodes()))])
    known = {space.tablespace: space for space in view.tablespaces()}
    own = {space.tablespace_id: space for space in spaces_of(node).values()} if node.catalogs else {}
    replicas = [
        replica for replica in here(view.replicas(), view.node, own, node.clock()) if replica.tablespace in known
    ]
    heads = {tablespace: space.head for tablespace, space in known.items()}
    for replica in replicas:  # because this node's own LSN may be newer than the head that it has read
        heads[replica.tablespace] = max(heads[replica.tablespace], replica.applied)
    yield _gauge(
        "shoal_replica_lag_lsn",
        "Commits that a replica has not applied, by its last report",
        ("tablespace", "replica", "role"),
        [
            ((known[item.tablespace].name, item.node, item.role), heads[item.tablespace] - item.applied)
            for item in replicas
        ],
    )
    label = ("tablespace",)
    live: dict[bytes, int] = {}
    for replica in replicas:
        live[replica.tablespace] = live.get(replica.tablespace, 0) + 1
    for name, text, value in (
        ("shoal_tablespace_epoch", "Number of terms of leaders", lambda s: s.epoch),
        ("shoal_tablespace_led", "Whether a node leads the tablespace", lambda s: bool(s.leader)),
        ("shoal_tablespace_replicas", "Replicas that live", lambda s: live.get(s.tablespace, 0)),
        ("shoal_tablespace_replicas_expected", "Expected replicas", lambda s: s.expected_replicas),
    ):
        yield _gauge(name, text, label, [((space.name,), value(space)) for space in known.values()])
    yield from _retention_metrics(view, known, node.clock())
    if node.replica is not None:
        connected, staleness = not view.stale, node.replica.staleness
        yield _gauge("shoal_zookeeper_connected", "Whether ZooKeeper can be reached", (), [((), connected)])
        leads = node.replica.leads
        lag = 0.0 if leads else staleness
        yield _gauge("shoal_replica_lag_seconds", "Maximum age of this node's replicas", (), [((), lag)])


def _retention_metrics(view: ClusterView, known: dict[bytes, TablespaceView], now: int) -> Iterator[Metric]:
    """Ledgers and checkpoints."""
    names = {tablespace: space.name for tablespace, space in known.items()}
    ledgers = {space.name: (space.older_ledgers, space.older_bytes) for space in known.values() if space.older_ledgers}
    for ledger in view.ledgers():
        if ledger.tablespace in names:
            count, size = ledgers.get(names[ledger.tablespace], (0, 0))
            ledgers[names[ledger.tablespace]] = count + 1, size + ledger.bytes
    newest: dict[str, tuple[int, int]] = {}
    for checkpoint in view.checkpoints():
        if checkpoint.tablespace in names:
            name = names[checkpoint.tablespace]
            newest[name] = max(newest.get(name, (0, 0)), (checkpoint.created, checkpoint.lsn))
    label = ("tablespace",)
    counts = [((name,), count) for name, (count, _) in ledgers.items()]
    yield _gauge("shoal_ledgers", "Ledgers of the changelog", label, counts)
    sizes = [((name,), size) for name, (_, size) in ledgers.items()]
    yield _gauge("shoal_ledger_bytes", "Bytes in these", label, sizes)
    ages = [((name,), (now - created) / _MICROSECONDS) for name, (created, _) in newest.items()]
    yield _gauge("shoal_checkpoint_age_seconds", "Time since the newest checkpoint was written", label, ages)
    lsns = [((name,), lsn) for name, (_, lsn) in newest.items()]
    yield _gauge("shoal_checkpoint_lsn", "The LSN of the newest checkpoint", label, lsns)
