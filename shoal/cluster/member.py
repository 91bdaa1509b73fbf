"""A node of a cluster, from start to stop.

    start   1. reads the identity, and opens a session with ZooKeeper
            2. checks that the store is the cluster's, and registers as nodes/<node>
            3. makes the directory a replica and follows the log; clients may connect once a catalog is applied
    runs    The log handles elections and terms, and informs the engine (adapter.py). When the ZooKeeper session ends,
            another one is opened. The leader writes checkpoints.
    stop    The leadership is handed over, running work ends, and the memtable is flushed.

An internal error that must never happen ends the process (status 70), which then restarts as a replica from its durable
state. A replica whose part of the log has been dropped restarts from a checkpoint.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import shutil
import socket
import sys
import time
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import TypeVar

from catalog.errors import SqlError
from catalog.functions.system import RELEASE
from engine.checkpoint import EntryMark
from engine.columnar.client import WorkerClient
from engine.node.node import Node as EngineNode
from engine.past.far import FarPast
from engine.past.manager import Past
from engine.storage.tablespace import Tablespace
from replication.background import run_in_background
from replication.interface import (
    ChangelogStore,
    ConflictError,
    Coordination,
    CoordinationUnavailableError,
    Node,
    Spec,
    StoreUnavailableError,
)
from replication.log.bulk import BulkFiles
from replication.log.committer import Committer
from replication.log.layout import decode_ledgers, paths
from replication.log.ledger_object import Position
from replication.log.replica import ReplicatedLog
from replication.log.settings import LogGoneError, LogSettings, SystemClock
from replication.observer import Observer
from replication.stores import claim, open_store
from replication.stores.members import parse_quorum
from replication.zookeeper import join_cluster, open_coordination
from shoal.access import certificate_hash
from shoal.archive.backup import NodeBackups
from shoal.archive.ledger_log import LedgerLog
from shoal.cluster.adapter import EngineReplica, FollowerLog, LeaderLocator, NodeReplica, RemoteApplyWait
from shoal.cluster.checkpoints import CheckpointKeeper
from shoal.cluster.cluster_creation import create_cluster, flush_local_changelogs
from shoal.cluster.cluster_state import connect_cluster_view
from shoal.cluster.controller import Controller, ControllerSettings, HandOvers
from shoal.cluster.forwarding_watch import ForwardingWatch
from shoal.cluster.membership import (
    CoordinationSessions,
    Identity,
    Registration,
    check_node_name,
    cluster_secret,
    read_identity,
    write_identity,
)
from shoal.cluster.past import ClusterPast
from shoal.cluster.region import Region
from shoal.cluster.replica_bootstrap import (
    DEFAULT_TABLESPACE,
    JoinedTablespace,
    find_tablespace,
    join_default_tablespace,
    own_position,
    restore,
)
from shoal.cluster.store_repair import StoreRepairer
from shoal.cluster.tablespaces import ClusterTablespaces, MemberContext, TablespaceReplica
from shoal.cluster.timed_flush import TimedFlush
from shoal.config import Config, ConfigError
from shoal.directory_watch import DirectoryWatch
from wire.forwarding_services import ForwardingServices

log = logging.getLogger("shoal.cluster")
T = TypeVar("T")

SESSION_PAUSE = 0.5  # seconds
START_ATTEMPTS = 3  # a session may end while a node starts, as in a short interruption
LEASE_MARGINS = 12  # in session timeouts: a leader that is cut off stops strong reads this long before


class ClusterMember:
    """Created by `start`. When `start` returns, `node` is ready for a Server."""

    def __init__(self, config: Config, fatal: Callable[[BaseException], None], admin: str = "") -> None:
        """`admin`: HOST:PORT of the node's administration port, published for other nodes."""
        self.config = config
        self._admin = admin
        self.fatal = fatal
        self.name = ""
        self._cluster = ""  # the tablespace's id, once it is known
        self.node: EngineNode
        self.locator: LeaderLocator
        self.secret = b""
        self.clock = SystemClock()
        self._data = config.data_path
        self._stores: dict[str, ChangelogStore] = {}
        self._region: Region | None = None
        self._sessions: CoordinationSessions
        self._registration: Registration
        self._directory: Observer
        self._committer: Committer
        self._log: ReplicatedLog
        self._engine: EngineReplica
        self._checkpoints: CheckpointKeeper
        self._spaces: ClusterTablespaces
        self._store: Tablespace
        self._settings: LogSettings
        self._worker: WorkerClient
        self._running: asyncio.Task[None]
        self._undo = contextlib.AsyncExitStack()
        self._usage = (time.monotonic(), time.thread_time())
        self._pasts: dict[bytes, tuple[object, ClusterPast]] = {}  # tablespace -> log and its past

    # --- starting ------------------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Raises ConfigError and SqlError, with one clear line, for everything that keeps this node from joining."""
        for left in reversed(range(START_ATTEMPTS)):
            try:
                await self._start()
                return
            except CoordinationUnavailableError as error:
                await self._undo.aclose()
                if not left:
                    raise ConfigError(f"this node cannot join the cluster now: {error}") from error
                log.warning("this node could not join the cluster, and tries again: %s", error)
                self._stores.clear()
            except StoreUnavailableError as error:
                await self._undo.aclose()
                raise ConfigError(f"this node cannot join the cluster now: {error}") from error
            except BaseException:
                await self._undo.aclose()
                raise

    async def _start(self) -> None:
        config = self.config
        self._data.mkdir(mode=0o700, parents=True, exist_ok=True)
        identity = read_identity(self._data)
        self.name = config.node or (identity.node if identity else socket.gethostname())
        check_node_name(self.name)
        if identity is not None and identity.node != self.name:
            raise ConfigError(f'{self._data} belongs to node "{identity.node}", not to "{self.name}"')
        self._cluster = identity.cluster if identity is not None else ""
        self._sessions = CoordinationSessions(self._open_session)
        self._sessions.fatal = self.fatal
        coordination = await self._sessions.start()
        self._undo.push_async_callback(self._sessions.close)
        self._cluster = await join_cluster(coordination, config.cluster, self._cluster)
        await self._open_store()
        host, port = config.address
        self._registration = Registration(
            Node(
                self.name,
                host,
                port,
                admin=self._admin,
                started=self.clock.wall(),
                version=RELEASE,
                certificate=certificate_hash(config),
            ),
            self._measure,
        )
        await self._registration.register(coordination)
        self._undo.callback(self._registration.stop)
        self._sessions.on_opened(self._registration.register)
        if identity is None:
            await self._check_foreign_data()
            write_identity(self._data, Identity(self._cluster, self.name))
        await flush_local_changelogs(self._data, self.fatal)
        self.secret = await cluster_secret(coordination)
        joined = await self._rejoin_if_log_dropped(await self._join())
        self._spaces = self._make_spaces(joined.tablespace)
        await self._spaces.prepare()
        self._open_tables(joined)
        await self._follow(joined)

    async def _open_session(self) -> Coordination:
        return await open_coordination(
            self.config.cluster,
            session_timeout=self.config.session_timeout,
            timeout=self.config.commit_timeout,
            known_cluster=self._cluster,
        )

    async def _open_store(self) -> None:
        """Opens the cluster's changelog store: the recorded one, or for a new cluster the given one."""
        found = await find_tablespace(self._sessions.current, DEFAULT_TABLESPACE)
        if found is not None and self.config.store:
            await self._check_store(found[1])
        url = found[1].store if found else self.config.store
        if not url:
            raise ConfigError(
                "a new cluster needs a changelog store: --store file:///DIR, s3://BUCKET/PREFIX, log://HOST:PORT or "
                "quorum(E,W,A):URL,URL,..."
            )
        store = self._stores[""] = open_store(url, timeout=self.config.commit_timeout)
        self._undo.push_async_callback(store.close)
        await claim(store, self._cluster, create=found is None)
        if self.config.read_from:
            self._region = await self._open_region(url)

    async def _check_store(self, spec: Spec) -> None:
        """Raises ConfigError when --store is not a store of the cluster. A store that the cluster has left is accepted,
        and so is a quorum store whose members have been replaced since the command line was written."""
        kept = spec.store
        store = open_store(self.config.store)
        given = store.url
        await store.close()
        if given == kept:
            return
        if given in spec.former_stores:
            log.warning("--store names a former store of the cluster; its store is %s", kept)
            return
        ours, theirs = parse_quorum(given), parse_quorum(kept)
        if ours is None or theirs is None or not set(ours.active) & {*theirs.active, *theirs.leaving}:
            raise ConfigError(f"the cluster keeps its changelog in {kept}, not in {given}")
        log.warning("--store names other members than the cluster; using the cluster's: %s", kept)

    def _store_at(self, url: str) -> ChangelogStore:
        """A replication.log.settings.StoreOf."""
        if not url or url == self._stores[""].url:
            return self._stores[""]
        store = self._stores.get(url)
        if store is None:
            store = self._stores[url] = open_store(url, timeout=self.config.commit_timeout)
            self._undo.push_async_callback(store.close)
        return store

    async def _open_region(self, kept: str) -> Region:
        """Opens the regional store through which this node reads. It belongs to the cluster, and is not the changelog's
        store."""
        store = open_store(self.config.read_from, timeout=self.config.commit_timeout)
        self._undo.push_async_callback(store.close)
        quorum = parse_quorum(kept)
        if store.url == kept or (quorum is not None and store.url in (*quorum.active, *quorum.leaving)):
            raise ConfigError(f"--read-from {store.url} is the changelog store itself")
        await claim(store, self._cluster)
        log.info("following the log through %s", store.url)
        return Region(store)

    def _read_store_at(self, url: str) -> ChangelogStore:
        """Opens a store as `_store_at` does, for followers of the log."""
        store = self._store_at(url)
        return store if self._region is None else self._region.wrap_store(store)

    async def _claim(self, url: str, create: bool) -> None:
        """A shoal.cluster.tablespaces.StoreClaim."""
        store = self._store_at(url)
        if store is not self._stores[""]:
            await claim(store, self._cluster, create=create)

    async def _check_usable(self, url: str) -> None:
        """Raises for a store that this node cannot reach, or that is not the cluster's (ReplicatedLog.check_store)."""
        await claim(self._store_at(url), self._cluster, create=False)

    def _current_store(self) -> ChangelogStore:
        """The store to which the tablespace's changelog is written now. Its members may have been replaced since the
        start."""
        return self._store_at(self._log.spec.store if self._log.spec is not None else "")

    async def _join(self) -> JoinedTablespace:
        """Makes the directory a replica of pg_default. In a new cluster it creates the tablespaces."""
        coordination = self._sessions.current
        while True:
            joined = await join_default_tablespace(coordination, self._store_at, self._data, self.name)
            if joined is not None:
                return joined
            with contextlib.suppress(ConflictError):  # another node was first
                return await create_cluster(
                    coordination, self._data, self.name, self._stores[""].url, self._claimed_url
                )

    async def _check_foreign_data(self) -> None:
        """Raises ConfigError for a directory with another cluster's data, before anything in it is changed."""
        known = await find_tablespace(self._sessions.current, DEFAULT_TABLESPACE)
        if known is not None and (self._data / "rows").exists():
            own_position(self._data, known[0])

    async def _claimed_url(self, url: str) -> str:
        """A shoal.cluster.cluster_creation.StoreUrl."""
        await self._claim(url, create=True)
        return self._store_at(url).url

    async def _rejoin_if_log_dropped(self, joined: JoinedTablespace) -> JoinedTablespace:
        """Starts again from a checkpoint if the replica's part of the log has been dropped."""
        if joined.is_new_cluster:
            return joined
        coordination = self._sessions.current
        found = await coordination.get(paths(joined.tablespace).ledgers)
        begin = decode_ledgers(found.data).first_lsn if found is not None else None
        if begin is None or begin <= joined.position.lsn + 1:
            return joined
        log.warning("the log after LSN %d has been dropped; starting from a checkpoint", joined.position.lsn)
        await asyncio.to_thread(shutil.rmtree, self._data / "rows", ignore_errors=True)
        return replace(joined, position=await restore(coordination, self._store_at, joined.tablespace, self._data))

    def _open_tables(self, joined: JoinedTablespace) -> None:
        bulk = BulkFiles(str(self._data / "bulk"))
        follower_log = FollowerLog(bulk)
        loop = asyncio.get_running_loop()

        def thread(work: Callable[[], None]) -> None:
            with contextlib.suppress(RuntimeError):  # the event loop is closed, because the process is ending
                loop.call_soon_threadsafe(work)

        store = self._store = Tablespace.open(
            str(self._data),
            lambda tablespace, committed, failed: follower_log,
            thread,
            on_fatal=self.fatal,
            identity=joined.tablespace,
        )
        self._undo.callback(store.close)
        self._undo.callback(self._spaces.close)
        worker = self._worker = WorkerClient(
            store,
            directory=str(self._data / "columnar"),
            memory_limit=self.config.columnar_memory,
            threads=self.config.columnar_threads,
            spill=self.config.columnar_spill,
        )
        self._undo.push_async_callback(worker.close)
        margin = min(LogSettings().lease_margin, self.config.session_timeout / LEASE_MARGINS)
        settings = self._settings = LogSettings(commit_timeout=self.config.commit_timeout, lease_margin=margin)
        self._committer = Committer(self._sessions.current, settings)
        node = self.node = EngineNode(store, worker, tablespaces=self._spaces)
        self._spaces.use(node)
        self._engine = EngineReplica(node, store, follower_log, self._spaces)
        self._spaces.open()
        node.follow()
        position = joined.position
        if position.lsn != store.flushed_lsn:
            position = Position(store.flushed_lsn, None)
        self._log = ReplicatedLog(
            self.name,
            joined.tablespace,
            self._committer,
            self._store_at,
            self._engine,
            bulk,
            position,
            settings=settings,
            clock=self.clock,
            read_stores=self._read_store_at,
        )
        self._log.check_store = self._check_usable
        node.replica = NodeReplica(self._engine, self._log, self._spaces, self.config.commit_timeout)
        node.applied_elsewhere = RemoteApplyWait(
            node, self.name, lambda: self._sessions.current, self.config.commit_timeout
        )

    def _make_spaces(self, first: bytes) -> ClusterTablespaces:
        config = self.config
        return ClusterTablespaces(
            MemberContext(
                self.name,
                self._data,
                first,
                self._make_log,
                lambda: self._sessions.current,
                self._store_at,
                config.commit_timeout,
                config.checkpoint_interval,
                self.clock,
                self.fatal,
                self._restart_process,
                lambda: self._engine.leading and self.clock.monotonic() < self._log.may_serve_until,
                self._specs,
                self._catch_up_first,
                self._claim,
                self._leader_of,
            )
        )

    def _specs(self) -> dict[bytes, Spec] | None:
        if self._directory.stale:
            return None
        return {item.tablespace: item.spec for item in self._directory.tablespaces.values() if item.spec.name}

    def _leader_of(self, tablespace: bytes) -> str:
        found = self._directory.tablespaces.get(tablespace or self._log.tablespace)
        return "" if found is None else found.epoch.leader

    async def _catch_up_first(self) -> None:
        head = await self._log.read_head()
        await self._log.wait_for(head.lsn)

    def _make_log(
        self, tablespace: bytes, engine: TablespaceReplica, bulk: BulkFiles, position: Position
    ) -> ReplicatedLog:
        made = ReplicatedLog(
            self.name,
            tablespace,
            self._committer,
            self._store_at,
            engine,
            bulk,
            position,
            settings=self._settings,
            clock=self.clock,
            read_stores=self._read_store_at,
        )
        made.check_store = self._check_usable
        return made

    async def _follow(self, joined: JoinedTablespace) -> None:
        """Follows the log and takes part in elections. Returns when there is a catalog."""
        self._directory = Observer(self._open_session)
        await self._directory.start()
        self._undo.push_async_callback(self._directory.close)
        self._directory.on_change(self._spaces.on_cluster_change)
        if self._region is not None:
            self._region.start(self._directory)
            self._undo.push_async_callback(self._region.stop)
        self._log.lacks = self._spaces.missing_count
        self.locator = LeaderLocator(self._directory, self.secret, self.name)
        self._running = run_in_background(self._run_log())
        self._spaces.start()
        self._undo.push_async_callback(self._spaces.stop)
        self._undo.callback(self._running.cancel)
        self._sessions.on_opened(self._use_session)
        self._checkpoints = CheckpointKeeper(
            self._store,
            self._current_store,
            lambda: self._sessions.current,
            self._mark,
            lambda: self._engine.leading,
            self._data / "checkpoint",
            self.config.checkpoint_interval,
            self.clock,
        )
        self._checkpoints.start()
        self._undo.callback(self._checkpoints.stop)
        self._start_cluster_tasks(joined.tablespace)
        connect_cluster_view(
            self.node,
            self.name,
            self._directory,
            lambda: self._sessions.current,
            self._write_checkpoints,
            self.clock,
        )
        self.node.past = Past(self.node, self.config.past_window, self._far_past())
        self._undo.push_async_callback(self.node.past.close)
        self.node.backups = NodeBackups(
            self.node, self._log_source, str(self._data / "scratch"), str(self._data / "restores")
        )
        await self._catch_up()
        self.node.past.start()
        await self._undo.enter_async_context(self._worker.started_if_wanted())

    def _start_cluster_tasks(self, tablespace: bytes) -> None:
        """Starts the tasks of the cluster: the controller if no other node runs it, hand-overs on request, and repairs
        of the store while this node leads."""
        controller = Controller(
            self.name,
            self._directory,
            lambda: self._sessions.current,
            self.clock,
            ControllerSettings(home_holds_all=True),
        )
        controller.start()
        self._undo.push_async_callback(controller.stop)
        hand_overs = HandOvers(
            self.name,
            lambda: self._sessions.current,
            self._log_of,
            lambda asked: self.node.settle() if asked == tablespace else None,
        )
        hand_overs.start()
        self._undo.callback(hand_overs.stop)
        mender = StoreRepairer(
            tablespace, lambda: self._log.leader, self._store_at, lambda: self._sessions.current, self.clock
        )
        mender.start()
        self._undo.callback(mender.stop)
        flushing = TimedFlush(lambda: (self._store, *self._spaces.found.values()))
        flushing.start()
        self._undo.callback(flushing.stop)
        watch = DirectoryWatch(self._data, self.fatal)
        watch.start()
        self._undo.callback(watch.stop)

    def _log_of(self, tablespace: bytes) -> ReplicatedLog | None:
        if tablespace == self._log.tablespace:
            return self._log
        replica = self._spaces.replica(tablespace)
        return None if replica is None else replica.log

    async def _catch_up(self) -> None:
        """Returns when this node has applied all entries that were committed before the call, and has a catalog. Raises
        the error with which the log ends."""
        head = await _retry_in_new_session(self._log.read_head)
        ready = asyncio.ensure_future(self._wait_until_applied(head.lsn))
        await asyncio.wait((ready, self._running), return_when=asyncio.FIRST_COMPLETED)
        if not ready.done():
            ready.cancel()
            await self._running
        try:
            await ready
        except LogGoneError:
            await self._running  # which restarts the node
            raise

    async def _wait_until_applied(self, lsn: int) -> None:
        await self._log.wait_for(lsn)
        while not self.node.catalogs:
            await self._log.wait_for(self._log.applied_lsn + 1)
        await _retry_in_new_session(self._spaces.catch_up_all)

    async def _use_session(self, coordination: Coordination) -> None:
        self._committer.use(coordination)
        self._log.use(coordination)
        self._spaces.use_session(coordination)

    async def _run_log(self) -> None:
        """Runs the log, which ends on its own only with errors that need a restart."""
        try:
            await self._log.run()
        except LogGoneError as error:
            log.critical("%s: restarting from a checkpoint", error)
            await asyncio.to_thread(shutil.rmtree, self._data / "rows")
            self._restart_process()
        except Exception as error:
            self.fatal(error)
            raise

    async def _write_checkpoints(self) -> int:
        """Writes a checkpoint of every tablespace, and returns the LSN of pg_default's."""
        lsn = await self._checkpoints.write()
        await self._spaces.write_checkpoints()
        return lsn

    def _restart_process(self) -> None:
        """Executes this program again in this process. Sockets and files are closed on exec."""
        logging.shutdown()
        os.execv(sys.executable, [sys.executable, "-m", "shoal", *sys.argv[1:]])

    def _far_past(self) -> FarPast:
        """The past that the store keeps."""
        return FarPast(self.node, self._cluster_past, str(self._data / "past"))

    def _cluster_past(self, tablespace: bytes) -> ClusterPast:
        """The past of a tablespace on this node."""
        replica = self._spaces.replicas.get(tablespace)
        log, space = (self._log, self._store) if replica is None else (replica.log, replica.store)
        known = self._pasts.get(tablespace)
        if known is None or known[0] is not log:  # the node was absent meanwhile
            made = ClusterPast(
                tablespace,
                self._log_source(tablespace),
                lambda: self._store_at(log.spec.store if log.spec is not None else ""),
                lambda: self._sessions.current,
                lambda: space.durable_lsn,
            )
            known = self._pasts[tablespace] = log, made
        return known[1]

    def _log_source(self, tablespace: bytes) -> LedgerLog:
        """The changelog of a tablespace, for backups."""
        replica = self._spaces.replicas.get(tablespace)
        log = self._log if replica is None else replica.log
        return LedgerLog(
            tablespace,
            lambda: log.leader,
            self._store_at,
            lambda: self._sessions.current,
            str(self._data / "scratch"),
        )

    def _mark(self, lsn: int) -> EntryMark:
        """Hash and commit time of the entry at the durable LSN."""
        leader = self._log.leader
        if leader is None or leader.committed_lsn != lsn:
            raise SqlError("55000", "this node has just lost its leadership: the checkpoint is not written")
        return EntryMark(leader.head.hash, leader.head.commit_time)

    def _measure(self) -> tuple[float, int]:
        """(busy share of the engine's thread since the last call, connections)."""
        wall, busy = time.monotonic(), time.thread_time()
        before_wall, before_busy = self._usage
        self._usage = (wall, busy)
        share = (busy - before_busy) / max(wall - before_wall, 0.001)
        return min(share, 1.0), len(self.node.sessions)

    # --- running and stopping ------------------------------------------------------------------------------------

    def forwarding_services(self) -> ForwardingServices:
        """The services with which a server forwards sessions to the leader."""
        replica = self.node.replica
        assert replica is not None
        cluster = ForwardingServices(replica, self.name, self.secret, self.locator, deadline=self.config.commit_timeout)
        watch = ForwardingWatch(
            cluster.carriers, lambda: None if self._directory.stale else self._directory.nodes.keys()
        )
        watch.start()
        self._undo.callback(watch.stop)
        return cluster

    async def set_address(self, host: str, port: int) -> None:
        """Called when clients can connect at this address."""
        await self._registration.set_address(host, port)

    async def stop(self) -> None:
        """Hands the leadership over, flushes, and leaves the cluster. The server has already ended its sessions."""
        if self._engine.leading:
            self.node.settle()
        await self._spaces.stop()
        await self._log.close()
        await self._undo.aclose()


async def _retry_in_new_session(ask: Callable[[], Awaitable[T]]) -> T:
    """Sends a request to ZooKeeper, and repeats it in a new session if the session ends meanwhile."""
    while True:
        try:
            return await ask()
        except CoordinationUnavailableError as error:
            log.warning("this node waits for ZooKeeper: %s", error)
            await asyncio.sleep(SESSION_PAUSE)
