"""The tablespaces of a node of a cluster beside pg_default.

    the catalog, in pg_default, says which there are. What is in ZooKeeper, on disk and in the store follows from it:
    CREATE      the row commits -> every node opens a replica -> the leader of pg_default makes the znodes, leads, and
                CREATE returns
    DROP        the row goes -> every node closes its replica and removes it -> the leader of pg_default removes the
                znodes, then the objects in the store
    start       every tablespace that has znodes is opened, from a checkpoint if need be; other directories are removed

A tablespace never has znodes before its row is durable, so a crash at any step leaves nothing that the leader cannot
tell apart: a row without znodes gets them, znodes without a row go.

Every node holds every tablespace, unless its options say otherwise (holding.py); the node that leads pg_default holds
all of them: placement gives it a replica of what it lacks. Who leads which: leading.py.

Followers show a transaction over several tablespaces whole, and entries never ahead of their schema (arrivals.py).
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
from shoal.cluster.adapter import PRESSURE_PAUSE, FollowerLog, deposed, unknown
from shoal.cluster.arrivals import Arrivals
from shoal.cluster.checkpoints import CheckpointKeeper
from shoal.cluster.holding import Holdings, asked_nodes, with_replicas
from shoal.cluster.joining import hold, join_other
from shoal.cluster.leading import Leaderships
from shoal.cluster.mending import StoreMender

log = logging.getLogger("shoal.cluster")

FOLDER = "tablespaces"
LOOK_PAUSE = 0.5  # seconds between two looks for the znodes of a tablespace
RECONCILE_PAUSE = 5.0
_DURATION = re.compile(r"\s*(\d+)\s*(us|ms|s|min|h|d)?\s*")
_UNITS = {"us": 1e-6, "ms": 1e-3, "s": 1.0, "min": 60.0, "h": 3600.0, "d": 86400.0}


class Claim(Protocol):
    async def __call__(self, url: str, create: bool) -> None:
        """Makes sure that a store is the cluster's; `create`: one that is nobody's becomes it. Raises
        StoreUnavailableError, SqlError 55000 for another cluster's, and 22023 for what is no URL."""


@dataclasses.dataclass(frozen=True, slots=True)
class Place:
    """What the node gives its tablespaces. `make_log` opens the log of one; `again` starts the process anew."""

    node: str
    data: Path
    first: bytes  # the id of pg_default
    make_log: Callable[[bytes, SpaceReplica, BulkFiles, Position], ReplicatedLog]
    coordination: Callable[[], Coordination]
    store_at: StoreOf
    patience: float  # commit_timeout
    checkpoint_interval: float
    clock: Clock
    fatal: Callable[[BaseException], None]
    again: Callable[[], None]
    leads: Callable[[], bool]  # pg_default, now
    specs: Callable[[], Mapping[bytes, Spec] | None]  # of all tablespaces, as far as is known; None: that is old
    catch_up: Callable[[], Awaitable[None]]  # with pg_default's head
    claim: Claim
    leader_of: Callable[[bytes], str]  # the node that leads a tablespace, by id, as far as is known; '': none


class SpaceReplica:
    """replication.log.interface.ReplicaEngine, and Arriving, over a tablespace beside pg_default."""

    def __init__(
        self, spaces: ClusterTablespaces, store: Tablespace, bulk: BulkFiles, follower_log: FollowerLog
    ) -> None:
        self.store = store
        self.bulk = bulk
        self.whole = True  # it has everything that others here show of it: it is seen
        self.goal: int | None = None  # LSN that it has to reach before that, once it is known
        self.leading = False
        self.led = asyncio.Event()
        self.wanted = False  # by another log, which tells of it
        self.look = asyncio.Event()  # whether it has znodes
        self.log: ReplicatedLog
        self.checkpoints: CheckpointKeeper | None = None
        self.mender: StoreMender | None = None
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

    def is_wanted(self) -> None:
        self.wanted = True
        self.look.set()

    def admit(self, entry: LogEntry) -> Awaitable[None] | None:
        return self._spaces.arrivals.admit(self.identity, entry)

    def apply(self, entry: LogEntry) -> None:
        if entry.lsn > self.store.durable_lsn:  # else it was applied with the other parts of its transaction
            self.apply_now(entry)
            self._spaces.arrivals.moved()
        if not self.whole:
            self._spaces.holdings.may_be_seen(self)

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
        self._spaces.leaderships.gate()

    def on_committed(self, lsn: int) -> None:
        self.store.committed(lsn)

    def on_unknown(self, first_lsn: int) -> None:
        self._lose()
        self._spaces.node.give_up_in(self.store, first_lsn - 1, unknown())

    def on_deposed(self, last_committed: int) -> None:
        self._lose()
        self.store.use_changelog(self._follower_log)
        self._spaces.node.step_down_in(self.store, last_committed, deposed())

    def _lose(self) -> None:
        self.leading = False
        self.led.clear()
        self._spaces.leaderships.gate()


class ClusterTablespaces:
    """engine.node.tablespaces.TablespaceStorage of a node of a cluster. `prepare`, then `use`, then `start`."""

    def __init__(self, place: Place) -> None:
        self.place = place
        self.arrivals = Arrivals(place.first)
        self.holdings = Holdings(self)
        self.leaderships = Leaderships(self)
        self.found: dict[bytes, Tablespace] = {}
        self.dropped: Collection[bytes] = ()  # what was dropped is gone from the cluster's store too
        self.node: EngineNode
        self._positions: dict[bytes, Position] = {}
        self._replicas: dict[bytes, SpaceReplica] = {}
        self._started = False
        self._wake = asyncio.Event()
        self._reconciling: asyncio.Task[None] | None = None
        self._tasks: set[asyncio.Future[None]] = set()

    # --- start and end -------------------------------------------------------------------------------------------

    async def prepare(self) -> None:
        """Fills the directories of the tablespaces that this node holds, and removes those of others."""
        place = self.place
        coordination = place.coordination()
        await coordination.sync()
        there = {bytes.fromhex(name) for name in await coordination.children("tablespaces")} - {place.first}
        found = {identity: await coordination.get(paths(identity).spec) for identity in there}
        specs = {identity: decode_spec(spec.data) for identity, spec in found.items() if spec is not None}
        self.holdings.specs = specs
        mine = [identity for identity, spec in specs.items() if self.holdings.is_mine(spec)]
        root = place.data / FOLDER
        for path in root.iterdir() if root.exists() else ():
            if path.name not in {identity.hex() for identity in mine}:
                await asyncio.to_thread(shutil.rmtree, path)
        for identity in mine:
            directory = self.directory(identity)
            directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            if specs[identity].everywhere:
                await hold(coordination, identity, place.node)
            if not (directory / "rows").exists():
                await place.claim(specs[identity].store, False)
            position = await join_other(coordination, place.store_at, identity, directory)
            if position is not None:
                self._positions[identity] = position

    def open(self) -> None:
        """Opens what `prepare` has filled."""
        for identity in list(self._positions):
            self._open(identity)

    def use(self, node: EngineNode) -> None:
        """Before anything is attached."""
        self.node = node

    def start(self) -> None:
        """Follows all of them, and looks after them while this node leads."""
        self._started = True
        for replica in list(self._replicas.values()):
            self._run(replica)
        self._reconciling = asyncio.get_running_loop().create_task(self._reconcile())

    async def caught_up(self) -> None:
        """Returns when everything is applied that was committed in any of them before the call."""
        await asyncio.gather(*(self._catch_up(replica) for replica in self.attached_replicas()))

    async def _catch_up(self, replica: SpaceReplica) -> None:
        try:
            head = await replica.log.read_head()
            await replica.log.wait_for(head.lsn)
        except SqlError as error:
            if error.sqlstate != "42704":  # dropped, or not made yet: there is nothing in it
                raise

    async def stop(self) -> None:
        """Ends the logs; leaderships are handed over."""
        if self._reconciling is not None:
            self._reconciling.cancel()
        await self.holdings.stop()
        await asyncio.gather(*(self.end(replica) for replica in self._replicas.values()))

    def close(self) -> None:
        """Closes the tables. The logs have ended."""
        for replica in self._replicas.values():
            replica.store.close()
        self.holdings.close()

    async def end(self, replica: SpaceReplica) -> None:
        """Ends its log, and what runs beside it."""
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

    # --- a tablespace --------------------------------------------------------------------------------------------

    def directory(self, identity: bytes) -> Path:
        return self.place.data / FOLDER / identity.hex()

    def replica(self, identity: bytes) -> SpaceReplica | None:
        """What this node has of a tablespace."""
        return self._replicas.get(identity)

    def unseen(self) -> list[SpaceReplica]:
        """What is on its way to this node."""
        return [replica for replica in self._replicas.values() if not replica.whole]

    def item(self, identity: bytes) -> CatalogItem | None:
        """The tablespace in the catalog."""
        if not self.node.catalogs:
            return None
        name, catalog = identity.hex(), self.node.shared_catalog
        items = map(catalog.get, catalog.tablespaces.values())
        return next((item for item in items if isinstance(item, CatalogItem) and item.identity == name), None)

    def begin(self, identity: bytes, position: Position) -> SpaceReplica:
        """Follows a tablespace that is to come to this node, whose directory is filled; nobody sees it yet."""
        self._positions[identity] = position
        replica = self._open(identity, whole=False)
        self._run(replica)
        return replica

    def seen(self, replica: SpaceReplica) -> None:
        """It is as far as all others: it answers, and may be led here."""
        self.found[replica.identity] = replica.store
        replica.log.bootstrapping = False
        replica.log.set_electable(True)

    def forget(self, replica: SpaceReplica) -> None:
        """It is not here any more; `end` it."""
        self._replicas.pop(replica.identity, None)
        self.found.pop(replica.identity, None)

    def wake(self) -> None:
        """There may be something to do."""
        self._wake.set()

    def look_around(self) -> None:
        """What is known of the cluster has changed."""
        if self.holdings.look():
            self.wake()

    def _open(self, identity: bytes, whole: bool = True) -> SpaceReplica:
        place = self.place
        directory = self.directory(identity)
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        bulk = BulkFiles(str(directory / "bulk"))
        follower_log = FollowerLog(bulk)
        loop = asyncio.get_running_loop()

        def thread(work: Callable[[], None]) -> None:
            with contextlib.suppress(RuntimeError):  # the loop is closed: the process is ending
                loop.call_soon_threadsafe(work)

        store = Tablespace.open(
            str(directory), lambda *_: follower_log, thread, on_fatal=place.fatal, identity=identity
        )
        replica = SpaceReplica(self, store, bulk, follower_log)
        position = self._positions.pop(identity, None)
        if position is None or position.lsn != store.flushed_lsn:
            position = Position(store.flushed_lsn, None)
        replica.log = place.make_log(identity, replica, bulk, position)
        replica.log.tied = lambda: store.tied
        replica.whole = whole
        self._replicas[identity] = replica
        if whole:
            self.found[identity] = store
            self.arrivals.join(identity, replica)
        else:
            replica.log.set_electable(False)
            replica.log.bootstrapping = True
            self.arrivals.expect(identity, replica)
        return replica

    def _run(self, replica: SpaceReplica) -> None:
        if replica.task is None and self._started:
            replica.task = asyncio.get_running_loop().create_task(self._follow(replica))
            self._wake.set()

    async def _follow(self, replica: SpaceReplica) -> None:
        try:
            if not await self._is_there(replica):
                self.arrivals.leave(replica.identity)
                return
            await self._is_ours(replica)
            replica.checkpoints = self._keeper(replica)
            replica.checkpoints.start()
            replica.mender = StoreMender(
                replica.identity,
                lambda: replica.log.leader,
                self.place.store_at,
                self.place.coordination,
                self.place.clock,
            )
            replica.mender.start()
            await replica.log.run()
        except LogGoneError as error:
            if not replica.whole:
                self.holdings.leave(replica)  # and comes again
                return
            log.critical("%s: restarting from a checkpoint", error)
            await asyncio.to_thread(shutil.rmtree, Path(replica.store.path) / "rows")
            self.place.again()
        except asyncio.CancelledError:
            raise
        except Exception as error:
            if isinstance(error, SqlError) and error.sqlstate == "42704":  # it has been dropped; the row tells soon
                self.arrivals.leave(replica.identity)
                return
            self.place.fatal(error)
            raise

    async def _is_there(self, replica: SpaceReplica) -> bool:
        """Waits until the tablespace has znodes. False if it has had some: another log tells of it, and it is not
        there."""
        while True:
            wanted = replica.wanted
            replica.look.clear()
            with contextlib.suppress(CoordinationUnavailableError):
                coordination = self.place.coordination()
                await coordination.sync()
                found = await coordination.get(paths(replica.identity).spec, replica.look.set)
                if found is not None:
                    if decode_spec(found.data).everywhere:
                        await hold(coordination, replica.identity, self.place.node)
                    return True
                if wanted:
                    return False
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(LOOK_PAUSE):
                    await replica.look.wait()

    async def _is_ours(self, replica: SpaceReplica) -> None:
        """Waits until its store answers, and is the cluster's: an empty directory that is not mounted is not."""
        identity = replica.identity
        while True:
            try:
                found = await self.place.coordination().get(paths(identity).spec)
                if found is not None:
                    await self.place.claim(decode_spec(found.data).store, False)
                return
            except (CoordinationUnavailableError, StoreUnavailableError, SqlError) as error:
                log.error("tablespace %s cannot be followed for now: %s", identity.hex(), error)
                await asyncio.sleep(LOOK_PAUSE)

    def _keeper(self, replica: SpaceReplica) -> CheckpointKeeper:
        place = self.place

        def mark(lsn: int) -> EntryMark:
            leader = replica.log.leader
            if leader is None or leader.committed_lsn != lsn:
                raise SqlError("55000", "this node has just lost its leadership: the checkpoint is not written")
            return EntryMark(leader.head.hash, leader.head.commit_time)

        def described() -> Described | None:
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
            described,
        )

    async def write_checkpoints(self) -> None:
        """Of all of them. Raises as CheckpointKeeper.write."""
        for replica in self.attached_replicas():
            if replica.checkpoints is not None:
                await replica.checkpoints.write()

    # --- what this node has ------------------------------------------------------------------------------------------

    @property
    def replicas(self) -> Mapping[bytes, SpaceReplica]:
        """What this node has, by id."""
        return self._replicas

    def lacking(self) -> int:
        """How many tablespaces this node would have to get before it could lead all of them."""
        return self.node.held.lacking if self.node.catalogs else 0

    @property
    def staleness(self) -> float:
        """Of the one that is furthest behind, in seconds."""
        return max((replica.log.lag.seconds for replica in self.attached_replicas()), default=0.0)

    def attached_replicas(self) -> list[SpaceReplica]:
        """Those that the catalog knows and the cluster has."""
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
            self.wake()
            return None
        self._run(replica)
        return replica.store if replica.whole else None

    def attached(self, space: Tablespace) -> None:
        self.leaderships.gate()

    def keep(self, identity: bytes) -> None:
        self._run(self._replicas[identity])

    def doubt(self, identity: bytes) -> None:
        return

    def remove(self, space: Tablespace) -> None:
        replica = self._replicas.pop(space.tablespace_id, None)
        self.found.pop(space.tablespace_id, None)
        if replica is not None:
            self.arrivals.leave(replica.identity)
            self.background(self._remove(replica))

    async def _remove(self, replica: SpaceReplica) -> None:
        await self.end(replica)
        await asyncio.to_thread(replica.store.close)
        await asyncio.to_thread(shutil.rmtree, replica.store.path, ignore_errors=True)
        self._wake.set()

    def altered(self) -> None:
        self.wake()

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
        for name in (*asked_nodes(options), *filter(None, (options.get("leader"),))):
            if name not in known:
                raise SqlError("42704", f'node "{name}" is not in the cluster')

    async def make_ready(self, options: Mapping[str, str]) -> None:
        url = options.get("store")
        if url:
            try:
                async with asyncio.timeout(self.place.patience):
                    await self.place.claim(url, True)
            except (TimeoutError, StoreUnavailableError) as error:
                reason = str(error) or f"it did not answer within {self.place.patience:g} s"
                raise SqlError("58030", f"changelog store {url} cannot be used: {reason}") from error

    async def stands(self, identity: bytes) -> bool:
        with contextlib.suppress(SqlError):
            await self.leaderships.gather((identity,))
            return True
        return False

    # --- what the leader sees to ---------------------------------------------------------------------------------

    async def _reconcile(self) -> None:
        while True:
            self._wake.clear()
            try:
                await self.holdings.follow()
                if self.leaderships.at_home:
                    await self.reconcile()
            except (CoordinationUnavailableError, StoreUnavailableError, ConflictError) as error:
                log.info("tablespaces are not brought up to date for now: %s", error)
                await asyncio.sleep(LOOK_PAUSE)
                continue
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(RECONCILE_PAUSE):
                    await self._wake.wait()

    async def reconcile(self) -> None:
        """Makes ZooKeeper say what the catalog does. Raises what coordination and store raise."""
        coordination = self.place.coordination()
        await coordination.sync()
        there = {bytes.fromhex(name) for name in await coordination.children("tablespaces")}
        # First what is there, then the catalog: znodes are made for committed rows only, so what the leader's catalog
        # does not know by now has been dropped.
        if not self.place.leads():
            return
        items = [item for item in self.node.shared_catalog.objects.values() if isinstance(item, CatalogItem)]
        known = {bytes.fromhex(item.identity): item for item in items if item.identity}
        for identity, item in known.items():
            if not (identity in there and await _keep_spec(coordination, identity, item)):
                store = dict(item.options).get("store")
                url = self.place.store_at(store).url if store else await self._url(coordination)
                spec = first_spec(item, url, self.place.node)
                await create_tablespace(coordination, identity, spec, leader=self.place.node)
                log.info('tablespace "%s" is %s', item.name, identity.hex())
                if identity in self._replicas:
                    self._replicas[identity].look.set()
        for item in items:
            if item.oid == DEFAULT_TABLESPACE_OID:
                await _keep_spec(coordination, self.place.first, item)
        for identity in there - known.keys() - {self.place.first}:
            await self._drop(coordination, identity)

    async def _drop(self, coordination: Coordination, identity: bytes) -> None:
        log.info("tablespace %s was dropped; its log goes too", identity.hex())
        spec = await coordination.get(paths(identity).spec)
        urls = {decode_spec(spec.data).store} if spec is not None else set()
        with contextlib.suppress(LogGoneError):  # another node drops it
            async for page in LedgerListReader(identity).all_pages(coordination):
                urls |= {ledger.store for ledger in page}
        await drop_tablespace(coordination, identity)
        for store in map(self.place.store_at, urls):
            await store.delete_folder(tablespace_folder(identity))

    async def _url(self, coordination: Coordination) -> str:
        """The store of pg_default, for a new tablespace."""
        found = await coordination.get(paths(self.place.first).spec)
        return decode_spec(found.data).store if found is not None else ""

    def background(self, work: Awaitable[None]) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


def first_spec(item: CatalogItem, url: str, node: str) -> Spec:
    """Of a tablespace that a node has made, whose changelog is to be in the store at a URL."""
    spec = _with_options(Spec(item.name, (), store=url), item)
    return dataclasses.replace(spec, replicas=(node, *(other for other in spec.asked if other != node)))


def _with_options(spec: Spec, item: CatalogItem) -> Spec:
    """The spec with what the catalog says."""
    options = dict(item.options)
    inactivity = options.get("max_leader_inactivity")
    seconds = 0.0 if inactivity is None else _seconds(inactivity)
    preferred = options.get("leader", "")
    changed = dataclasses.replace(spec, name=item.name, max_leader_inactivity=seconds, preferred_leader=preferred)
    return changed if item.oid == DEFAULT_TABLESPACE_OID else with_replicas(changed, item)


def _seconds(duration: str) -> float:
    """Of a duration that engine/ddl/tablespaces.py has accepted; without a unit it is in milliseconds."""
    found = _DURATION.fullmatch(duration)
    assert found is not None
    return int(found[1]) * _UNITS[found[2] or "ms"]


async def _keep_spec(coordination: Coordination, identity: bytes, item: CatalogItem) -> bool:
    """Makes the spec say what the catalog does. False: there is none."""
    path = paths(identity).spec
    found = await coordination.get(path)
    if found is None:
        return False
    spec = decode_spec(found.data)
    wanted = _with_options(spec, item)
    if wanted != spec:
        await coordination.set(path, encode(wanted), found.version)
    return True
