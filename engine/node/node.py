"""A node: the state that all sessions share.

The store (changelog, memtable, LMDB), the committed catalog, locks, sequences, the commit queue, the plan caches, the
columnar worker's client, and the register of sessions. The composition root (shoal/) makes it and passes the changelog.
Everything here runs on the engine's thread.

Start: open the store (which replays the changelog), read the system tables into a catalog, make the first objects if
there are none. Stop: end the sessions, log the sequences, flush the store.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import secrets
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Iterator, Mapping
from copy import copy
from functools import partial
from typing import TYPE_CHECKING, Any

from catalog import rows as system_rows
from catalog.catalog import Catalog
from catalog.clock import now
from catalog.errors import SqlError
from catalog.memory import Pool
from catalog.schema import (
    BOOTSTRAP_ROLE_OID,
    DEFAULT_TABLESPACE_OID,
    FIRST_USER_OID,
    INFORMATION_SCHEMA_OID,
    PG_CATALOG_OID,
    POSTGRES_DATABASE_OID,
    PUBLIC_OID,
    Database,
    Index,
    Role,
    Schema,
    SchemaObject,
    Sequence,
    Table,
    Tablespace,
)
from engine.changes.streams import ChangeStreams
from engine.checkpoint.digest import Digest
from engine.checks import Checks
from engine.cluster_view import ClusterView
from engine.columnar.client import WorkerClient
from engine.execute.written import Written
from engine.foreign.interface import OpenRemote
from engine.node.advisory_space import AdvisorySpace
from engine.node.backups import Backups, Restoring
from engine.node.exported_snapshots import ExportedSnapshots
from engine.node.function_statistics import FunctionStatistics
from engine.node.listeners import Listeners
from engine.node.plan_cache import PLAN_KEYS, PlanCache, PlanKey
from engine.node.schema_of_snapshots import note_changes
from engine.node.sizes import by_space
from engine.node.stages import Stages
from engine.node.system_cache import SystemCache
from engine.node.tablespaces import NodeTablespaces, TablespaceStorage
from engine.node.transaction_numbers import TransactionNumbers
from engine.replica import Replica
from engine.space_requests import SpaceRequests
from engine.statistics.activity import Activity
from engine.statistics.statements import StatementStatistics
from engine.storage.branch_storage import leaning_id, tells_bases
from engine.storage.edits import Edits
from engine.storage.keys import prefix_range, storage_prefix
from engine.storage.space import Packed
from engine.storage.stores import AnyStore, Stores
from engine.storage.tablespace import Tablespace as Store
from engine.txn.commit import CommitQueue
from engine.txn.joint import JointCommits
from engine.txn.locks import TableLocks
from engine.txn.row_locks import RowLocks
from engine.txn.sequences import Sequences
from engine.txn.transaction import Transaction
from engine.txn.two_phase import PreparedTransactions

if TYPE_CHECKING:
    from engine.configuration import Configuration
    from engine.node.interface import NodePast, NodeSession
    from engine.statistics.statements import CountedPlan

LONG_SECRET = 32  # bytes of a cancel key since protocol 3.2

_OIDS = Sequence(0, 0, "oid", system_rows.COUNTERS, start=FIRST_USER_OID, maximum=2**32 - 1)
_STORAGE_IDS = Sequence(
    0, 0, "storage_id", system_rows.COUNTERS + 1, start=system_rows.FIRST_USER_STORAGE, maximum=2**32 - 1
)


def resolve(future: asyncio.Future[None]) -> None:
    """Ends a wait, unless it was cancelled."""
    if not future.done():
        future.set_result(None)


def _conclude(future: asyncio.Future[None], error: SqlError | None) -> None:
    """Ends a wait with an error, unless it was cancelled."""
    if error is None:
        resolve(future)
    elif not future.done():
        future.set_exception(error)


class Node:
    """`store` is open; `columnar` may be started lazily. Call `bootstrap` once after construction."""

    def __init__(
        self,
        store: Store,
        columnar: WorkerClient,
        clock: Callable[[], int] = now,
        tablespaces: TablespaceStorage | None = None,
    ) -> None:
        self.store: AnyStore = store
        self.columnar = columnar
        columnar.stored_tables = self._tables
        self.clock = clock
        self.row_locks = RowLocks()
        self.table_locks = TableLocks()
        self.advisory_locks = AdvisorySpace()
        self.listeners = Listeners()
        self.exclusive_tables = 0  # transactions that hold or wait for a table lock that excludes readers
        self.commits: CommitQueue | JointCommits = CommitQueue(store, clock)
        self.new_transaction: Callable[..., Transaction] = Transaction
        self.sequences = Sequences(self._newest, self.commits.sequence)
        self.deferred: dict[int, int] = {}  # by slot, the last commit that was acknowledged before it was durable
        self.prepared = PreparedTransactions(self)
        self.exported = ExportedSnapshots()
        self.stages = Stages(lambda: os.path.dirname(columnar.directory))
        self.held = NodeTablespaces(self, tablespaces)
        self.changes = ChangeStreams(self)
        self.catalogs: dict[int, Catalog] = {}  # by database OID; shared objects are in each
        self.sessions: dict[int, NodeSession] = {}
        self.secrets: dict[int, bytes] = {}
        self.replica: Replica | None = None  # None on a single node
        self.cluster_view: ClusterView | None = None  # None on a single node
        self.write_checkpoint: Callable[[], Awaitable[int]] | None = None  # returns its LSN; None on a single node
        self.past: NodePast | None = None  # the readable past, from the composition root
        self.backups: Backups | None = None  # from the composition root
        self.restores: dict[str, Restoring] = {}  # by the name of the new database
        self.applied_elsewhere: Callable[[int], Awaitable[bool]] | None = None
        """Waits until every replica that lives has applied a position; False: not in time. A node alone has none."""
        self.report_check: Callable[[bytes, bytes, Digest | SqlError], None] | None = None  # ids: check, tablespace
        self.checks = Checks(self)
        self.space_requests = SpaceRequests(self)
        self.started = clock()
        self.system = SystemCache()
        self.numbers = TransactionNumbers()
        self.written = Written()
        self.function_statistics = FunctionStatistics()
        self.open_remote: OpenRemote | None = None  # of foreign tables; None in an embedded database
        self.configuration: Configuration | None = None  # None in an embedded database
        self.default_settings: dict[str, str] = {}  # of every session, in place of PostgreSQL's
        self.activity = Activity()
        self.memory = Pool()
        self.statements = StatementStatistics(self._known_plans, clock)
        self._background: set[asyncio.Task[None]] = set()
        self._plans: OrderedDict[PlanKey, PlanCache[Any]] = OrderedDict()
        self._row_numbers: dict[int, itertools.count[int]] = {}
        self._process_ids = itertools.count(1000 + secrets.randbelow(20000))
        store.on_durable(self.commits.on_durable)
        store.on_durable(self.changes.on_moved)

    def _tables(self) -> list[Table]:
        """The tables of all databases."""
        return [table for catalog in self.catalogs.values() for table in catalog.tables()]

    def _newest(self, key: bytes) -> bytes | None:
        found = self.store.newest(key)
        return None if found is None else found[1]

    # ---- catalog ------------------------------------------------------------------------------------------------

    def bootstrap(self) -> None:
        """Reads the catalog from the system tables; makes the first objects in an empty store."""
        stored = self._stored_objects()
        self.held.open(stored)
        objects = self._without_temporary(stored)
        if not objects:
            objects = first_objects()
            self.commits.sequence({system_rows.object_key(item): system_rows.encode(item) for item in objects})
        self._load({item.oid: item for item in objects})
        self.prepared.load()

    def _stored_objects(self) -> list[SchemaObject]:
        found: list[tuple[bytes, bytes]] = []
        with self.store.snapshot() as snapshot:
            for number in system_rows.KINDS:
                low, high = prefix_range(number.to_bytes(4, "big"))
                found.extend(snapshot.scan(low, high))
        return [system_rows.decode(key, value) for key, value in found]

    def _without_temporary(self, objects: list[SchemaObject]) -> list[SchemaObject]:
        """Drops temporary schemas that crashed sessions left behind, with their contents."""
        schemas = {item.oid for item in objects if isinstance(item, Schema) and item.name.startswith("pg_temp_")}
        if not schemas:
            return objects
        stale = [item for item in objects if item.oid in schemas or getattr(item, "schema", 0) in schemas]
        writes: dict[bytes, bytes | None] = {system_rows.object_key(item): None for item in stale}
        self.commits.sequence(writes, [item.storage_id for item in stale if isinstance(item, Table | Index | Sequence)])
        gone = {item.oid for item in stale}
        return [item for item in objects if item.oid not in gone]

    def _load(self, objects: Mapping[int, SchemaObject | None]) -> None:
        first: Catalog | None = None
        for item in objects.values():
            if isinstance(item, Database):
                new = Catalog(database=item.oid)
                made = new.with_changes(objects) if first is None else new.alongside(first, objects)
                self.catalogs[item.oid] = first = made
        self.commits.schema_version = self.store.of(0).durable_lsn  # the replaced table may have had another schema
        self.changes.forget()

    # ---- following and leading ----------------------------------------------------------------------------------

    def follow(self) -> None:
        """Reads the catalog of the store, which may have none yet. Only the leader changes it."""
        objects = self._stored_objects()
        self.held.open(objects)
        self._load({item.oid: item for item in objects})

    def on_applied(self, edits: Edits) -> None:
        """The store has applied a commit of the leader: its schema changes become the catalog now."""
        changes = system_rows.changes(edits.writes.items())
        if changes:
            if self.catalogs:
                self.publish(changes)
            else:
                self._load(changes)
        for storage_id in edits.drops:
            self.columnar.forget(storage_id)
        self.checks.on_applied(edits)
        self.space_requests.on_applied(edits)
        self.listeners.on_applied(edits)
        self.sequences.forget()

    def applied_together(self, parts: Iterable[tuple[bytes, int]]) -> None:
        """The applied entry of the leader has these parts in several tablespaces, or none."""
        if parts and isinstance(self.store, Stores):
            self.store.applied_together(parts)

    def lead(self) -> None:
        """This node has become the leader, and has applied everything that was committed. Reads again what former
        leaders kept in memory."""
        self.sequences.forget()
        self._forget_row_numbers(0)
        self.catalogs = {}
        self.bootstrap()
        self.deferred.clear()
        for session in list(self.sessions.values()):
            session.node_leads()

    def step_down(self, committed: int, error: SqlError) -> None:
        """This node is no longer the leader; nothing above the LSN is committed. Ends every transaction with the error,
        and removes the entries that it has sequenced above the LSN."""
        for session in list(self.sessions.values()):
            session.lose_transaction(error)
        self.deferred.clear()
        self.commits.give_up(committed, error)
        self.store.undo_above(committed)
        if isinstance(self.store, Stores):
            self.prepared.load()  # it may lead other tablespaces
        else:
            self.prepared.forget()
        self.sequences.forget()
        self._forget_row_numbers(0)
        self.changes.forget()

    def lead_in(self, space: Store) -> None:
        """This node has become the leader of another tablespace than pg_default, and has applied the schema of its last
        leader."""
        self._forget_row_numbers(space.slot)
        self.commits.schema_version = self.store.of(0).durable_lsn
        self.prepared.load()
        self.changes.forget()

    def step_down_in(self, space: Store, committed: int, error: SqlError) -> None:
        """As `step_down`, for another tablespace than pg_default: transactions that use it end."""
        for session in list(self.sessions.values()):
            if space.tablespace_id in session.stands_on:
                session.lose_transaction(error)
        self.give_up_in(space, committed, error)
        if isinstance(self.store, Stores) and space in self.store.spaces:
            self.store.undo_above(committed, space.slot)
        self.prepared.load()
        self._forget_row_numbers(space.slot)
        self.changes.forget()

    def _forget_row_numbers(self, slot: int) -> None:
        """Forgets the row numbers of the tables in a tablespace; running transactions may have drawn some in others."""
        slots = self.store.slots if isinstance(self.store, Stores) else {}
        self._row_numbers = {
            storage_id: counter
            for storage_id, counter in self._row_numbers.items()
            if slots.get(storage_prefix(storage_id), 0) != slot
        }

    def give_up_in(self, space: Store, lsn: int, error: SqlError) -> None:
        """Fails all waits for an LSN above this one, in another tablespace than pg_default."""
        if isinstance(self.commits, JointCommits) and isinstance(self.store, Stores) and space in self.store.spaces:
            self.deferred.pop(space.slot, None)
            self.commits.queue(space.slot).give_up(lsn, error)

    def publish(self, changes: dict[int, SchemaObject | None]) -> None:
        """Committed schema changes become the catalog for the next statements of all sessions."""
        one = next(iter(self.catalogs.values()))
        everything, changed = one.objects, one.with_changes(changes)
        note_changes([session.transaction for session in self.sessions.values()], everything, changes)
        self.catalogs = {
            oid: changed
            if catalog is one
            else catalog.alongside(changed, changes)
            if catalog.objects is everything
            else catalog.with_changes(changes)
            for oid, catalog in self.catalogs.items()
        }
        for oid, item in changes.items():
            if isinstance(item, Database) and oid not in self.catalogs:
                self.catalogs[oid] = Catalog(database=oid).alongside(changed, changed.objects)
            elif item is None:
                self.catalogs.pop(oid, None)
                schema = everything.get(getattr(everything.get(oid), "schema", 0))
                self.written.forget(oid, schema.database if isinstance(schema, Schema) else 0)
                self.function_statistics.forget(oid)
                self.activity.forget(oid)
        self.commits.schema_version = self.store.of(0).durable_lsn
        self._plan_the_past_anew()
        self.held.on_published(changes)
        self.columnar.background.on_published(changes)
        self.changes.on_published(changes)

    def publish_when_durable(self, lsn: int, transaction: Transaction) -> None:
        """Publishes a sequenced transaction's schema changes when their rows can be read. Until then it keeps its
        locks, and `exclusive_tables` counts it."""
        if tells_bases(transaction.writes):
            self.store.learn_bases()
        self.commits.wait(lsn, partial(self._publish, transaction), partial(self._discard, transaction))

    def _publish(self, transaction: Transaction) -> None:
        self.publish(transaction.changed_objects)
        for storage_id in transaction.dropped_storage:
            self.columnar.forget(storage_id)
        if transaction.exclusive:
            self.exclusive_tables -= 1
        transaction.release()

    def end_exclusive(self, lsn: int) -> None:
        """A lock that excludes readers is released after a commit (0: none). Until that commit is durable,
        `exclusive_tables` counts the lock: readers then ask for a lock and so learn of the commit."""
        if not lsn:
            self.exclusive_tables -= 1
            return
        self.commits.wait(lsn, self._end_exclusive, lambda _: self._end_exclusive())

    def _end_exclusive(self) -> None:
        self.exclusive_tables -= 1

    def _discard(self, transaction: Transaction, _: SqlError) -> None:
        if transaction.exclusive:
            self.exclusive_tables -= 1
        transaction.release()

    @property
    def shared_catalog(self) -> Catalog:
        """Any database's catalog, for shared objects: roles, databases, tablespaces."""
        return (
            self.catalogs[POSTGRES_DATABASE_OID]
            if POSTGRES_DATABASE_OID in self.catalogs
            else next(iter(self.catalogs.values()))
        )

    def new_oid(self) -> int:
        return self.sequences.next_value(_OIDS)

    def new_storage_id(self, tablespace: int = DEFAULT_TABLESPACE_OID) -> int:
        """A storage id for a new object in a tablespace (OID)."""
        storage_id = self.sequences.next_value(_STORAGE_IDS)
        self.held.place(storage_id, tablespace)
        return storage_id

    def new_leaning_id(self, tablespace: int = DEFAULT_TABLESPACE_OID) -> int:
        """A storage id for a branch's object, which shares another's storage (engine/storage/branch_storage.py)."""
        storage_id = leaning_id(self.sequences.next_value(_STORAGE_IDS))
        self.held.place(storage_id, tablespace)
        return storage_id

    def next_row_number(self, table: Table) -> int:
        """The next hidden row number of a table without a primary key: above every stored one."""
        return next(self._row_counter(table.storage_id))

    def next_row_numbers(self, table: Table, count: int) -> int:
        """The first of `count` consecutive hidden row numbers."""
        counter = self._row_counter(table.storage_id)
        first = next(counter)
        self._row_numbers[table.storage_id] = itertools.count(first + count)
        return first

    def _row_counter(self, storage_id: int) -> itertools.count[int]:
        counter = self._row_numbers.get(storage_id)
        if counter is None:
            low, high = prefix_range(storage_id.to_bytes(4, "big"))
            last = 0
            found = [key for key, _ in itertools.islice(self.store.scan_newest(low, high, reverse=True), 1)]
            if (prepared := self.prepared.last_key(low)) is not None:
                found.append(prepared)
            if found:
                last = int.from_bytes(max(found)[4:12], "big") - 2**63
            counter = self._row_numbers[storage_id] = itertools.count(last + 1)
        return counter

    # ---- plans and sessions -------------------------------------------------------------------------------------

    def share_plans(self, other: Node) -> None:
        """Plans of nodes with the same catalogs are shared with this node."""
        self._plans = other._plans

    def _plan_the_past_anew(self) -> None:
        """Sessions that read the past must notice revoked privileges: their plans were checked with the old ones
        (`Identity.check_privileges`)."""
        standing = [session for session in self.sessions.values() if session.node is not self]
        for node in {session.node for session in standing}:
            node.catalogs = {oid: copy(catalog) for oid, catalog in node.catalogs.items()}
            node._plans = OrderedDict()
        for session in standing:
            session.plan_anew()

    def plans(self, key: PlanKey) -> PlanCache[Any]:
        """The plan cache for one combination of the settings that plans depend on."""
        cache = self._plans.get(key)
        if cache is None:
            cache = self._plans[key] = PlanCache(key)
            if len(self._plans) > PLAN_KEYS:
                self._plans.popitem(last=False)
        else:
            self._plans.move_to_end(key)
        return cache

    @property
    def cached_plans(self) -> int:
        """The number of cached plans."""
        return sum(len(cache.plans) for cache in self._plans.values())

    def _known_plans(self) -> Iterator[CountedPlan]:
        """The plans of all caches and sessions."""
        for cache in self._plans.values():
            yield from (plan for plan in cache.plans.values() if plan is not None)
        for session in self.sessions.values():
            yield from session.prepared.values()

    def background(self, work: Coroutine[Any, Any, None]) -> None:
        """Runs work without a waiter, and keeps a reference to it until it is done."""
        task = asyncio.get_running_loop().create_task(work)
        self._background.add(task)
        task.add_done_callback(self._background.discard)

    def register(self, session: NodeSession) -> tuple[int, bytes]:
        """Gives a new session its process id and cancel key."""
        process_id = next(self._process_ids)
        self.sessions[process_id] = session
        self.secrets[process_id] = secrets.token_bytes(4)
        return process_id, self.secrets[process_id]

    def lengthen_secret(self, process_id: int) -> bytes:
        """Replaces the session's short cancel key by a longer one, which clients of protocol 3.2 support."""
        self.secrets[process_id] = secrets.token_bytes(LONG_SECRET)
        return self.secrets[process_id]

    def unregister(self, process_id: int) -> None:
        self.sessions.pop(process_id, None)
        self.secrets.pop(process_id, None)

    def cancel(self, process_id: int, secret: bytes) -> None:
        """Cancels the session's statement, if the key is right. The caller gets no answer."""
        known = self.secrets.get(process_id)
        if known is not None and secrets.compare_digest(known, secret):
            self.sessions[process_id].cancel()

    async def flush(self) -> None:
        """CHECKPOINT: waits until everything sequenced so far is in LMDB. Raises 53100."""
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.store.flush(partial(resolve, done), partial(_conclude, done))
        await done

    async def pack(self, storage_ids: Iterable[int], everywhere: bool = False) -> None:
        """VACUUM FULL: waits until the storage ids take as little space as possible, and their tablespaces have
        returned their free space; `everywhere`: all tablespaces. Raises 53100."""
        for space, held in by_space(self, storage_ids, everywhere).items():
            done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            space.pack(held, partial(_conclude, done))
            await done

    def pack_later(self, storage_ids: Iterable[int], done: Packed, everywhere: bool = False) -> None:
        """Does the same in the background."""
        for space, held in by_space(self, storage_ids, everywhere).items():
            space.pack(held, done)

    def give_back(self, storage_ids: Iterable[int], everywhere: bool = False) -> None:
        """VACUUM: the tablespaces of these storage ids, or all, return their free space in the background."""
        for space in by_space(self, storage_ids, everywhere):
            space.give_back()

    def settle(self) -> None:
        """Logs the exact positions of the sequences, so that a clean stop skips no values."""
        writes = self.sequences.settle()
        if writes:
            self.commits.sequence(writes)


def first_objects() -> list[SchemaObject]:
    """The objects of a new store, which clients of PostgreSQL expect."""
    database = POSTGRES_DATABASE_OID
    return [
        Role(BOOTSTRAP_ROLE_OID, "postgres", True, True, True, True, True, True, True),
        Tablespace(DEFAULT_TABLESPACE_OID, "pg_default"),
        Tablespace(1664, "pg_global"),
        Database(database, "postgres", comment="default administrative connection database"),
        Schema(PG_CATALOG_OID, database, "pg_catalog", comment="system catalog schema"),
        Schema(PUBLIC_OID, database, "public", comment="standard public schema"),
        Schema(INFORMATION_SCHEMA_OID, database, "information_schema"),
    ]
