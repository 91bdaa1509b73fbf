"""The tablespaces of a cluster's node, except pg_default.

The catalog, which is in pg_default, lists the tablespaces. The znodes, the directories and the objects in the store
follow it:

   CREATE      1. the row commits   2. every node opens a replica
               3. the leader of pg_default creates the znodes and leads the tablespace   4. CREATE returns
   DROP        1. the row is deleted   2. every node closes and removes its replica
               3. the leader of pg_default removes the znodes, then the objects in the store
   start       every tablespace that has znodes is opened, from a checkpoint if necessary; other directories are removed

A tablespace has no znodes before its row is durable. So after a crash at any step the leader knows what to do: it
creates znodes for a row without them, and removes znodes without a row.

Every node holds every tablespace, unless the options of a tablespace limit this (replica_placement.py). The node that
leads pg_default holds all of them: placement gives it the replicas that it lacks. leadership.py explains which node
leads a tablespace.

A follower shows a transaction over several tablespaces at once, and no entry before its schema (apply_order.py).
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import logging
import re
import shutil
from collections.abc import Awaitable, Callable, Collection, Mapping
from pathlib import Path
from typing import Protocol

from catalog.errors import SqlError, not_supported
from catalog.schema import DEFAULT_TABLESPACE_OID
from catalog.schema import Tablespace as CatalogItem
from engine.checkpoint import Described, EntryMark
from engine.node.node import Node as EngineNode
from engine.storage.tablespace import Tablespace
from replication.background import run_in_background
from replication.interface import (
    ConflictError,
    Coordination,
    CoordinationUnavailableError,
    LogEntry,
    Spec,
    StoreUnavailableError,
)
from replication.log.bulk import BulkFiles
from replication.log.interface import Leader
from replication.log.layout import decode_spec, encode, paths, tablespace_folder
from replication.log.ledger_list import LedgerListReader
from replication.log.ledger_object import Position
from replication.log.replica import ReplicatedLog
from replication.log.settings import Clock, LogGoneError, StoreOf
from replication.log.takeover import create_tablespace, drop_tablespace
from shoal.cluster.adapter import PRESSURE_PAUSE, FollowerLog, not_committed_error, unknown_outcome_error
from shoal.cluster.apply_order import ApplyOrder
from shoal.cluster.checkpoints import CheckpointKeeper
from shoal.cluster.leadership import Leaderships
from shoal.cluster.replica_bootstrap import add_holder, join_tablespace
from shoal.cluster.replica_placement import ReplicaHoldings, requested_nodes, with_replicas
from shoal.cluster.store_repair import StoreRepairer

log = logging.getLogger("shoal.cluster")

FOLDER = "tablespaces"
LOOK_PAUSE = 0.5  # seconds between two checks for the znodes of a tablespace
RECONCILE_PAUSE = 5.0
_DURATION = re.compile(r"\s*(\d+)\s*(us|ms|s|min|h|d)?\s*")
_UNITS = {"us": 1e-6, "ms": 1e-3, "s": 1.0, "min": 60.0, "h": 3600.0, "d": 86400.0}


class StoreClaim(Protocol):
    async def __call__(self, url: str, create: bool) -> None:
        """Verifies that a store belongs to the cluster. With `create`, a store without an owner is claimed. Raises
        StoreUnavailableError, SqlError 55000 for a store of another cluster, and 22023 for an invalid URL."""


@dataclasses.dataclass(frozen=True, slots=True)
class MemberContext:
    """The services that the node provides to its tablespaces. `make_log` opens the log of a tablespace, and `restart`
    restarts the process."""

    node: str
    data: Path
    default_tablespace: bytes  # the id of pg_default
    make_log: Callable[[bytes, TablespaceReplica, BulkFiles, Position], ReplicatedLog]
    coordination: Callable[[], Coordination]
    store_at: StoreOf
    commit_timeout: float  # commit_timeout
    checkpoint_interval: float
    clock: Clock
    fatal: Callable[[BaseException], None]
    restart: Callable[[], None]
    leads: Callable[[], bool]  # whether this node leads pg_default now
    specs: Callable[[], Mapping[bytes, Spec] | None]  # all known tablespaces; None: the data are too old
    catch_up: Callable[[], Awaitable[None]]  # up to pg_default's head
    claim_store: StoreClaim
    leader_of: Callable[[bytes], str]  # the known leader of a tablespace, or ''


class TablespaceReplica:
    """A replication.log.interface.ReplicaEngine, and an OrderedReplica, for a tablespace other than pg_default."""

    def __init__(
        self, spaces: ClusterTablespaces, store: Tablespace, bulk: BulkFiles, follower_log: FollowerLog
    ) -> None:
        self.store = store
        self.bulk = bulk
        self.is_visible = True  # it has caught up with the other replicas on this node
        self.goal: int | None = None  # the LSN that makes it visible, once it is known
        self.leading = False
        self.led = asyncio.Event()
        self.has_waiters = False  # another log has parts of its transactions
        self.existence_check = asyncio.Event()  # set when its znodes must be checked
        self.log: ReplicatedLog
        self.checkpoints: CheckpointKeeper | None = None
        self.mender: StoreRepairer | None = None
        self.task: asyncio.Task[None] | None = None
        self._spaces = spaces
        self._follower_log = follower_log

    @property
    def identity(self) -> bytes:
        return self.store.tablespace_id

    @property
    def applied_lsn(self) -> int:
        return self.store.durable_lsn

    @property
    def flushed_lsn(self) -> int:
        return self.store.flushed_lsn

    def check_existence(self) -> None:
        self.has_waiters = True
        self.existence_check.set()

    def admit(self, entry: LogEntry) -> Awaitable[None] | None:
        return self._spaces.apply_order.admit(self.identity, entry)

    def apply(self, entry: LogEntry) -> None:
        if entry.lsn > self.store.durable_lsn:  # else it was applied with the other parts of its transaction
            self.apply_now(entry)
            self._spaces.apply_order.apply_waiting()
        if not self.is_visible:
            self._spaces.holdings.show_if_caught_up(self)

    def apply_now(self, entry: LogEntry) -> None:
        for storage_id in self.store.apply(entry.lsn, entry.body, entry.commit_time).drops:
            self._spaces.node.columnar.forget(storage_id)
        self._spaces.node.applied_together(entry.parts)

    async def ready(self) -> None:
        while self.store.pressure:
            await asyncio.sleep(PRESSURE_PAUSE)

    async def lead(self, leader: Leader) -> None:
        if not await self._spaces.leaderships.has_schema(leader):
            return
        self.store.use_changelog(leader)
        self.store.led_from = self.store.durable_lsn
        self._spaces.node.lead_in(self.store)
        self.leading = True
        self.led.set()
        self._spaces.leaderships.guard_storage()

    def on_committed(self, lsn: int) -> None:
        self.store.on_committed(lsn)

    def on_unknown(self, first_lsn: int) -> None:
        self._on_leadership_lost()
        self._spaces.node.give_up_in(self.store, first_lsn - 1, unknown_outcome_error())

    def on_deposed(self, last_committed: int) -> None:
        self._on_leadership_lost()
        self.store.use_changelog(self._follower_log)
        self._spaces.node.step_down_in(self.store, last_committed, not_committed_error())

    def _on_leadership_lost(self) -> None:
        self.leading = False
        self.led.clear()
        self._spaces.leaderships.guard_storage()


class ClusterTablespaces:
    """An engine.node.tablespaces.TablespaceStorage for a cluster's node. The order of calls is `prepare`, `use`,
    `start`."""

    def __init__(self, place: MemberContext) -> None:
        self.context = place
        self.apply_order = ApplyOrder(place.default_tablespace)
        self.holdings = ReplicaHoldings(self)
        self.leaderships = Leaderships(self)
        self.found: dict[bytes, Tablespace] = {}
        self.dropped: Collection[bytes] = ()  # empty, because a drop also removes a tablespace from the cluster's store
        self.node: EngineNode
        self._positions: dict[bytes, Position] = {}
        self._replicas: dict[bytes, TablespaceReplica] = {}
        self._started = False
        self._wake = asyncio.Event()
        self._reconciling: asyncio.Task[None] | None = None
        self._tasks: set[asyncio.Future[None]] = set()

    # --- start and stop ------------------------------------------------------------------------------------------

    async def prepare(self) -> None:
        """Fills the directories of the tablespaces that this node holds, and removes the directories of others."""
        place = self.context
        coordination = place.coordination()
        await coordination.sync()
        there = {bytes.fromhex(name) for name in await coordination.children("tablespaces")} - {
            place.default_tablespace
        }
        found = {identity: await coordination.get(paths(identity).spec) for identity in there}
        specs = {identity: decode_spec(spec.data) for identity, spec in found.items() if spec is not None}
        self.holdings.specs = specs
        mine = [identity for identity, spec in specs.items() if self.holdings.is_held_here(spec)]
        root = place.data / FOLDER
        for path in root.iterdir() if root.exists() else ():
            if path.name not in {identity.hex() for identity in mine}:
                await asyncio.to_thread(shutil.rmtree, path)
        for identity in mine:
            directory = self.directory(identity)
            directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            if specs[identity].everywhere:
                await add_holder(coordination, identity, place.node)
            if not (directory / "rows").exists():
                await place.claim_store(specs[identity].store, False)
            position = await join_tablespace(coordination, place.store_at, identity, directory)
            if position is not None:
                self._positions[identity] = position

    def open(self) -> None:
        """Opens the directories that `prepare` has filled."""
        for identity in list(self._positions):
            self._open(identity)

    def use(self, node: EngineNode) -> None:
        """Sets the node. Called before a tablespace is attached."""
        self.node = node

    def start(self) -> None:
        """Follows all tablespaces, and reconciles them with the catalog while this node leads."""
        self._started = True
        for replica in list(self._replicas.values()):
            self._run(replica)
        self._reconciling = run_in_background(self._reconcile())

    async def catch_up_all(self) -> None:
        """Returns when this node has applied all entries that were committed in any tablespace before the call."""
        await asyncio.gather(*(self._catch_up(replica) for replica in self.attached_replicas()))

    async def _catch_up(self, replica: TablespaceReplica) -> None:
        try:
            head = await replica.log.read_head()
            await replica.log.wait_for(head.lsn)
        except SqlError as error:
            if error.sqlstate != "42704":  # dropped or not created yet, so it has no entries
                raise

    async def stop(self) -> None:
        """Ends the logs and hands the leaderships over."""
        if self._reconciling is not None:
            self._reconciling.cancel()
        await self.holdings.stop()
        await asyncio.gather(*(self.end_replica(replica) for replica in self._replicas.values()))

    def close(self) -> None:
        """Closes the tables. The logs have already ended."""
        for replica in self._replicas.values():
            replica.store.close()
        self.holdings.close()

    async def end_replica(self, replica: TablespaceReplica) -> None:
        """Ends the log of a replica, and its tasks."""
        for keeper in (replica.checkpoints, replica.mender):
            if keeper is not None:
                keeper.stop()
        await replica.log.close()
        if replica.task is not None:
            replica.task.cancel()
            await asyncio.gather(replica.task, return_exceptions=True)

    def use_session(self, coordination: Coordination) -> None:
        for replica in self._replicas.values():
            replica.log.use(coordination)

    # --- one tablespace ------------------------------------------------------------------------------------------

    def directory(self, identity: bytes) -> Path:
        return self.context.data / FOLDER / identity.hex()

    def replica(self, identity: bytes) -> TablespaceReplica | None:
        """This node's replica of a tablespace."""
        return self._replicas.get(identity)

    def bootstrapping_replicas(self) -> list[TablespaceReplica]:
        """The replicas that are being bootstrapped on this node."""
        return [replica for replica in self._replicas.values() if not replica.is_visible]

    def item(self, identity: bytes) -> CatalogItem | None:
        """The catalog item of the tablespace."""
        if not self.node.catalogs:
            return None
        name, catalog = identity.hex(), self.node.shared_catalog
        items = map(catalog.get, catalog.tablespaces.values())
        return next((item for item in items if isinstance(item, CatalogItem) and item.identity == name), None)

    def add_replica(self, identity: bytes, position: Position) -> TablespaceReplica:
        """Follows a tablespace whose directory has just been filled. The replica is not visible yet."""
        self._positions[identity] = position
        replica = self._open(identity, whole=False)
        self._run(replica)
        return replica

    def attach_replica(self, replica: TablespaceReplica) -> None:
        """Makes a replica that has caught up visible, and lets this node lead it."""
        self.found[replica.identity] = replica.store
        replica.log.bootstrapping = False
        replica.log.set_electable(True)

    def forget(self, replica: TablespaceReplica) -> None:
        """Removes a replica from this node's list. The caller ends the replica (`end_replica`)."""
        self._replicas.pop(replica.identity, None)
        self.found.pop(replica.identity, None)

    def wake_reconciler(self) -> None:
        """Wakes the reconciler."""
        self._wake.set()

    def on_cluster_change(self) -> None:
        """Handles a change of the observed cluster."""
        if self.holdings.refresh_specs():
            self.wake_reconciler()

    def _open(self, identity: bytes, whole: bool = True) -> TablespaceReplica:
        place = self.context
        directory = self.directory(identity)
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        bulk = BulkFiles(str(directory / "bulk"))
        follower_log = FollowerLog(bulk)
        loop = asyncio.get_running_loop()

        def thread(work: Callable[[], None]) -> None:
            with contextlib.suppress(RuntimeError):  # the event loop is closed, because the process is ending
                loop.call_soon_threadsafe(work)

        store = Tablespace.open(
            str(directory), lambda *_: follower_log, thread, on_fatal=place.fatal, identity=identity
        )
        replica = TablespaceReplica(self, store, bulk, follower_log)
        position = self._positions.pop(identity, None)
        if position is None or position.lsn != store.flushed_lsn:
            position = Position(store.flushed_lsn, None)
        replica.log = place.make_log(identity, replica, bulk, position)
        replica.log.tied = lambda: store.tied
        replica.is_visible = whole
        self._replicas[identity] = replica
        if whole:
            self.found[identity] = store
            self.apply_order.join(identity, replica)
        else:
            replica.log.set_electable(False)
            replica.log.bootstrapping = True
            self.apply_order.expect(identity, replica)
        return replica

    def _run(self, replica: TablespaceReplica) -> None:
        if replica.task is None and self._started:
            replica.task = run_in_background(self._follow(replica))
            self._wake.set()

    async def _follow(self, replica: TablespaceReplica) -> None:
        try:
            if not await self._wait_for_znodes(replica):
                self.apply_order.leave(replica.identity)
                return
            await self._claim_store(replica)
            replica.checkpoints = self._make_checkpoint_keeper(replica)
            replica.checkpoints.start()
            replica.mender = StoreRepairer(
                replica.identity,
                lambda: replica.log.leader,
                self.context.store_at,
                self.context.coordination,
                self.context.clock,
            )
            replica.mender.start()
            await replica.log.run()
        except LogGoneError as error:
            if not replica.is_visible:
                self.holdings.start_removal(replica)  # and then bootstraps it again
                return
            log.critical("%s: restarting from a checkpoint", error)
            await asyncio.to_thread(shutil.rmtree, Path(replica.store.path) / "rows")
            self.context.restart()
        except asyncio.CancelledError:
            raise
        except Exception as error:
            if (
                isinstance(error, SqlError) and error.sqlstate == "42704"
            ):  # it has been dropped; the row in the catalog will be deleted soon
                self.apply_order.leave(replica.identity)
                return
            self.context.fatal(error)
            raise

    async def _wait_for_znodes(self, replica: TablespaceReplica) -> bool:
        """Waits until the tablespace has znodes. False if it has been dropped: another log has entries of it, but its
        znodes are gone."""
        while True:
            wanted = replica.has_waiters
            replica.existence_check.clear()
            with contextlib.suppress(CoordinationUnavailableError):
                coordination = self.context.coordination()
                await coordination.sync()
                found = await coordination.get(paths(replica.identity).spec, replica.existence_check.set)
                if found is not None:
                    if decode_spec(found.data).everywhere:
                        await add_holder(coordination, replica.identity, self.context.node)
                    return True
                if wanted:
                    return False
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(LOOK_PAUSE):
                    await replica.existence_check.wait()

    async def _claim_store(self, replica: TablespaceReplica) -> None:
        """Waits until the store answers, and claims it. An empty directory is refused, because its file system may not
        be mounted."""
        identity = replica.identity
        while True:
            try:
                found = await self.context.coordination().get(paths(identity).spec)
                if found is not None:
                    await self.context.claim_store(decode_spec(found.data).store, False)
                return
            except (CoordinationUnavailableError, StoreUnavailableError, SqlError) as error:
                log.error("tablespace %s cannot be followed now: %s", identity.hex(), error)
                await asyncio.sleep(LOOK_PAUSE)

    def _make_checkpoint_keeper(self, replica: TablespaceReplica) -> CheckpointKeeper:
        place = self.context

        def mark(lsn: int) -> EntryMark:
            leader = replica.log.leader
            if leader is None or leader.committed_lsn != lsn:
                raise SqlError("55000", "this node has just lost its leadership: the checkpoint is not written")
            return EntryMark(leader.head.hash, leader.head.commit_time)

        def describe() -> Described | None:
            item = self.item(replica.identity)
            return None if item is None else Described(item.oid, self.node.shared_catalog.objects.values())

        return CheckpointKeeper(
            replica.store,
            lambda: place.store_at(replica.log.spec.store if replica.log.spec is not None else ""),
            place.coordination,
            mark,
            lambda: replica.leading,
            Path(replica.store.path) / "checkpoint",
            place.checkpoint_interval,
            place.clock,
            describe,
        )

    async def write_checkpoints(self) -> None:
        """Writes a checkpoint of each tablespace. Raises as CheckpointKeeper.write."""
        for replica in self.attached_replicas():
            if replica.checkpoints is not None:
                await replica.checkpoints.write()

    # --- the replicas on this node -------------------------------------------------------------------------------

    @property
    def replicas(self) -> Mapping[bytes, TablespaceReplica]:
        """The replicas on this node, by id."""
        return self._replicas

    def missing_count(self) -> int:
        """The number of tablespaces that this node lacks to lead all of them."""
        return self.node.held.lacking if self.node.catalogs else 0

    @property
    def staleness(self) -> float:
        """The staleness of the replica that is furthest behind, in seconds."""
        return max((replica.log.lag.seconds for replica in self.attached_replicas()), default=0.0)

    def attached_replicas(self) -> list[TablespaceReplica]:
        """The replicas of tablespaces that are in the catalog and in the cluster."""
        return [
            self._replicas[store.tablespace_id]
            for store in self.node.held.attached
            if store.tablespace_id in self._replicas
        ]

    # --- TablespaceStorage ---------------------------------------------------------------------------------------

    def settle(self, known: Mapping[bytes, CatalogItem]) -> None:
        for identity, item in known.items():
            if self.holdings.is_new(item) and identity not in self._replicas:
                self._open(identity)

    def create(self, identity: bytes) -> Tablespace:
        return self._open(identity).store

    def obtain(self, item: CatalogItem) -> Tablespace | None:
        replica = self._replicas.get(bytes.fromhex(item.identity))
        if self.holdings.is_new(item) and replica is None:
            replica = self._open(bytes.fromhex(item.identity))
        if replica is None:
            self.wake_reconciler()
            return None
        self._run(replica)
        return replica.store if replica.is_visible else None

    def on_attached(self, space: Tablespace) -> None:
        self.leaderships.guard_storage()

    def keep(self, identity: bytes) -> None:
        self._run(self._replicas[identity])

    def doubt(self, identity: bytes) -> None:
        return

    def remove(self, space: Tablespace) -> None:
        replica = self._replicas.pop(space.tablespace_id, None)
        self.found.pop(space.tablespace_id, None)
        if replica is not None:
            self.apply_order.leave(replica.identity)
            self.run_in_background(self._remove(replica))

    async def _remove(self, replica: TablespaceReplica) -> None:
        await self.end_replica(replica)
        await asyncio.to_thread(replica.store.close)
        await asyncio.to_thread(shutil.rmtree, replica.store.path, ignore_errors=True)
        self._wake.set()

    def on_altered(self) -> None:
        self.wake_reconciler()

    def check_options(self, options: Mapping[str, str], item: CatalogItem | None) -> None:
        default = item is not None and item.oid == DEFAULT_TABLESPACE_OID
        if default and not options.keys().isdisjoint(("replicas", "expected_replicas")):
            not_supported("replicas of pg_default on some nodes only", hint="It has the catalog: every node holds it.")
        if "store" in options and item is not None:
            not_supported(
                'changing the "store" of a tablespace',
                hint="CREATE one with another store and move the tables. Members of a quorum: shoal store replace.",
            )
        view = self.node.cluster_view
        known = {node.node for node in view.nodes()} if view is not None else set()
        known.update(node for seen in (view.tablespaces() if view is not None else ()) for node in seen.assigned)
        for name in (*requested_nodes(options), *filter(None, (options.get("leader"),))):
            if name not in known:
                raise SqlError("42704", f'node "{name}" is not in the cluster')

    async def make_ready(self, options: Mapping[str, str]) -> None:
        url = options.get("store")
        if url:
            try:
                async with asyncio.timeout(self.context.commit_timeout):
                    await self.context.claim_store(url, True)
            except (TimeoutError, StoreUnavailableError) as error:
                reason = str(error) or f"it did not answer within {self.context.commit_timeout:g} s"
                raise SqlError("58030", f"changelog store {url} cannot be used: {reason}") from error

    async def stands(self, identity: bytes) -> bool:
        with contextlib.suppress(SqlError):
            await self.leaderships.gather((identity,))
            return True
        return False

    # --- tasks of the leader -------------------------------------------------------------------------------------

    async def _reconcile(self) -> None:
        while True:
            self._wake.clear()
            try:
                await self.holdings.follow()
                if self.leaderships.at_home:
                    await self.reconcile()
            except (CoordinationUnavailableError, StoreUnavailableError, ConflictError) as error:
                log.info("cannot update the tablespaces now: %s", error)
                await asyncio.sleep(LOOK_PAUSE)
                continue
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(RECONCILE_PAUSE):
                    await self._wake.wait()

    async def reconcile(self) -> None:
        """Makes the znodes agree with the catalog. Raises errors of the coordination and the store."""
        coordination = self.context.coordination()
        await coordination.sync()
        there = {bytes.fromhex(name) for name in await coordination.children("tablespaces")}
        # The znodes are read before the catalog. Znodes are created for committed rows only, so znodes without a row in
        # the leader's catalog belong to dropped tablespaces.
        if not self.context.leads():
            return
        items = [item for item in self.node.shared_catalog.objects.values() if isinstance(item, CatalogItem)]
        known = {bytes.fromhex(item.identity): item for item in items if item.identity}
        for identity, item in known.items():
            if not (identity in there and await _update_spec(coordination, identity, item)):
                store = dict(item.options).get("store")
                url = self.context.store_at(store).url if store else await self._default_store_url(coordination)
                spec = make_spec(item, url, self.context.node)
                await create_tablespace(coordination, identity, spec, leader=self.context.node)
                log.info('tablespace "%s" is %s', item.name, identity.hex())
                if identity in self._replicas:
                    self._replicas[identity].existence_check.set()
        for item in items:
            if item.oid == DEFAULT_TABLESPACE_OID:
                await _update_spec(coordination, self.context.default_tablespace, item)
        for identity in there - known.keys() - {self.context.default_tablespace}:
            await self._drop_from_cluster(coordination, identity)

    async def _drop_from_cluster(self, coordination: Coordination, identity: bytes) -> None:
        log.info("tablespace %s was dropped; its log is removed", identity.hex())
        spec = await coordination.get(paths(identity).spec)
        urls = {decode_spec(spec.data).store} if spec is not None else set()
        with contextlib.suppress(LogGoneError):  # another node drops it at the same time
            async for page in LedgerListReader(identity).all_pages(coordination):
                urls |= {ledger.store for ledger in page}
        await drop_tablespace(coordination, identity)
        for store in map(self.context.store_at, urls):
            await store.delete_folder(tablespace_folder(identity))

    async def _default_store_url(self, coordination: Coordination) -> str:
        """The URL of pg_default's store, for a new tablespace."""
        found = await coordination.get(paths(self.context.default_tablespace).spec)
        return decode_spec(found.data).store if found is not None else ""

    def run_in_background(self, work: Awaitable[None]) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


def make_spec(item: CatalogItem, url: str, node: str) -> Spec:
    """The spec of a tablespace that a node has created, with its changelog in the store at `url`."""
    spec = _with_options(Spec(item.name, (), store=url), item)
    return dataclasses.replace(spec, replicas=(node, *(other for other in spec.asked if other != node)))


def _with_options(spec: Spec, item: CatalogItem) -> Spec:
    """The spec with the catalog's options."""
    options = dict(item.options)
    inactivity = options.get("max_leader_inactivity")
    seconds = 0.0 if inactivity is None else _seconds(inactivity)
    preferred = options.get("leader", "")
    changed = dataclasses.replace(spec, name=item.name, max_leader_inactivity=seconds, preferred_leader=preferred)
    return changed if item.oid == DEFAULT_TABLESPACE_OID else with_replicas(changed, item)


def _seconds(duration: str) -> float:
    """The seconds of a duration that engine/ddl/tablespaces.py has accepted. Without a unit it is in milliseconds."""
    found = _DURATION.fullmatch(duration)
    assert found is not None
    return int(found[1]) * _UNITS[found[2] or "ms"]


async def _update_spec(coordination: Coordination, identity: bytes, item: CatalogItem) -> bool:
    """Makes the spec agree with the catalog. False if there is no spec."""
    path = paths(identity).spec
    found = await coordination.get(path)
    if found is None:
        return False
    spec = decode_spec(found.data)
    wanted = _with_options(spec, item)
    if wanted != spec:
        await coordination.set(path, encode(wanted), found.version)
    return True
