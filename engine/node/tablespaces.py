"""The open tablespaces of a node, and CREATE and DROP TABLESPACE.

A node begins with pg_default alone, whose Tablespace is `Node.store` itself. The first other tablespace replaces it by
`Stores`, and the commit queue by `JointCommits`. Open transactions move over. Plans stay valid, because they do not
know their store. The change lasts until the next start.

    CREATE    makes the storage, then the catalog's row commits; when that is durable the tablespace is attached
    DROP      deletes the row; when that is durable the tablespace is detached, and its storage removed
    follow    a CREATE or DROP of another node attaches or detaches when its commit is applied here
    arrived   a tablespace of some nodes is complete on this node from now on; `departs`: it is removed
    a table   its storage id, and those of its indexes, are routed to their tablespace before anything is written
              under them (`Node.new_storage_id`), at a start, and when another node's commit brings them
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import TYPE_CHECKING, Protocol

from catalog.errors import SqlError, not_supported
from catalog.schema import DEFAULT_TABLESPACE_OID, Index, SchemaObject, Table, Tablespace
from engine.node.affected_tablespaces import places_of_changes
from engine.replica import HOME
from engine.storage.stores import ObservedStores, Stores, not_here
from engine.storage.tablespace import Tablespace as Store
from engine.txn.joint import JointCommits
from engine.txn.locks import LockSpace
from engine.txn.row_locks import RowLocks
from engine.txn.transaction import Transaction

if TYPE_CHECKING:
    from engine.node.node import Node


class TablespaceStorage(Protocol):
    """The storage of the tablespaces other than pg_default. The composition root passes it to the node."""

    @property
    def found(self) -> Mapping[bytes, Store]:
        """The tablespaces that existed at the start, by id."""

    @property
    def dropped(self) -> Collection[bytes]:
        """The tablespaces, by id, that were dropped before the start and whose past can still be read."""

    def settle(self, known: Mapping[bytes, Tablespace]) -> None:
        """The tablespaces of the catalog, by id, after it has been read; `found` are those of them on this node. Raises
        XX001 if one is missing."""

    def create(self, identity: bytes) -> Store:
        """The storage of a new tablespace whose CREATE has not committed. Raises 58030."""

    def obtain(self, item: Tablespace) -> Store | None:
        """The storage of a tablespace that another node's commit has created; None if this node does not have it now
        (see `on_arrived`)."""

    def on_altered(self) -> None:
        """A tablespace has changed in the catalog, or is new."""

    def check_options(self, options: Mapping[str, str], item: Tablespace | None) -> None:
        """Checks the options of CREATE TABLESPACE, or those that ALTER sets or resets (`item`). Raises 0A000 for
        unsupported ones, 42704 for an unknown node."""

    async def make_ready(self, options: Mapping[str, str]) -> None:
        """Prepares the commit of CREATE: claims the store for the cluster. Raises 22023, 55000, 58030."""

    async def stands(self, identity: bytes) -> bool:
        """Waits until a created tablespace can be written to; False after a timeout."""

    def on_attached(self, space: Store) -> None:
        """The tablespace is in use from now on."""

    def keep(self, identity: bytes) -> None:
        """Its CREATE has committed, or its DROP has not."""

    def doubt(self, identity: bytes) -> None:
        """Its DROP is about to commit."""

    def remove(self, space: Store) -> None:
        """Its DROP has committed, or its CREATE has not."""


class NodeTablespaces:
    """The node's part; on the engine's thread."""

    def __init__(self, node: Node, storage: TablespaceStorage | None) -> None:
        self._node = node
        self._storage = storage
        self._stores: Stores | None = None
        self._spaces: dict[int, Store] = {}  # by OID of the catalog's object; pg_default is not among them
        self._made: dict[int, Store] = {}  # their CREATE has not committed
        self._settled = False
        self.holdings = 0
        """Changes whenever this node gets or gives up a tablespace that lives on elsewhere."""

    # ---- start and catalog changes ------------------------------------------------------------------------------

    def open(self, objects: Iterable[SchemaObject]) -> None:
        """Attaches the tablespaces of the catalog, which has been read. Raises XX001."""
        items = list(objects)
        known = {bytes.fromhex(item.identity): item for item in items if isinstance(item, Tablespace) and item.identity}
        if self._storage is None:
            if known:
                raise SqlError("XX001", "this node cannot have tablespaces, and its catalog knows some")
            return
        if not self._settled:
            self._settled = True
            self._storage.settle(known)
            for identity, item in known.items():
                if identity in self._storage.found:
                    self._attach(item.oid, self._storage.found[identity])
            for identity in self._storage.dropped:
                (self._stores or self._become_several()).add_gone(identity)
        self._bring(known.values())
        self.route(items)

    def _bring(self, items: Iterable[Tablespace]) -> None:
        """Attaches the tablespaces of this node that are not attached."""
        for item in items:
            if self._storage is not None and item.oid not in self._spaces:
                space = self._storage.obtain(item)
                if space is not None:
                    self._attach(item.oid, space)
                elif self._stores is None:
                    self._become_several()  # its tables are in another tablespace than pg_default

    def on_published(self, changes: Mapping[int, SchemaObject | None]) -> None:
        """Committed schema changes, which are durable."""
        for oid, item in changes.items():
            if isinstance(item, Tablespace):
                made = self._made.pop(oid, None)
                if made is not None and self._storage is not None:
                    self._attach(oid, made)
                    self._storage.keep(made.tablespace_id)
                elif item.identity:
                    self._bring((item,))
                if self._storage is not None:
                    self._storage.on_altered()
            elif item is None and oid in self._spaces:
                self._detach(oid)
        if self._stores is not None:
            self.route(item for item in changes.values() if item is not None)

    def route(self, items: Iterable[SchemaObject]) -> None:
        """Tables and indexes: their keys belong to their tablespaces."""
        if self._stores is None:
            return
        for item in items:
            if isinstance(item, Table | Index):
                self.place(item.storage_id, item.tablespace)

    def place(self, storage_id: int, tablespace: int) -> None:
        """Routes the keys under a storage id to a tablespace (OID)."""
        if tablespace != DEFAULT_TABLESPACE_OID and self._stores is not None:
            self._stores.route(storage_id, self._spaces.get(tablespace))

    def on_arrived(self, item: Tablespace, space: Store) -> None:
        """This node has received all of a tablespace that others had before."""
        self._attach(item.oid, space, came=True)
        self.holdings += 1
        for catalog in self._node.catalogs.values():
            self.route(found for found in catalog.objects.values() if _lies_in(found, item.oid))

    def departs(self, space: Store) -> None:
        """This node gives up a tablespace that other nodes keep: only existing snapshots still read it here."""
        for oid in [oid for oid, held in self._spaces.items() if held is space]:
            del self._spaces[oid]
            self.holdings += 1
            assert self._stores is not None
            self._stores.leave(space)
            self._node.changes.forget()
            self._node.columnar.remove_tablespace(space)

    def lacks(self, oid: int) -> bool:
        """Whether tables in a tablespace (OID) cannot be read on this node."""
        return self._stores is not None and oid != DEFAULT_TABLESPACE_OID and oid not in self._spaces

    @property
    def lacking(self) -> int:
        """The number of tablespaces of the catalog that this node lacks."""
        return 0 if self._stores is None else sum(map(self._lacks, self._node.shared_catalog.tablespaces.values()))

    def _attach(self, oid: int, space: Store, came: bool = False) -> None:
        stores = self._stores or self._become_several()
        stores.add(space, came)
        self._spaces[oid] = space
        commits = self._node.commits
        assert isinstance(commits, JointCommits)
        commits.add(space)
        stores.on_durable(self._node.changes.on_moved, space.slot)
        self._node.changes.forget()
        self._node.columnar.add_tablespace(space)
        if self._node.past is not None:
            self._node.past.look_at_spaces()
        if self._storage is not None:
            self._storage.on_attached(space)

    def _become_several(self) -> Stores:
        node = self._node
        assert isinstance(node.store, Store)
        stores = self._stores = Stores(node.store)
        node.store = stores
        if node.past is not None:
            node.past.several(stores)
        assert not isinstance(node.commits, JointCommits)
        sequences = node.sequences
        node.commits = JointCommits(
            stores, node.commits, node.clock, lambda: sequences.last_logged_lsn, self._find_concerned
        )
        node.new_transaction = _observing
        node.columnar.use(stores)
        for session in node.sessions.values():
            if session.transaction is not None:
                session.transaction.move_to(ObservedStores(stores))
        return stores

    def _find_concerned(self, changes: Mapping[int, SchemaObject | None]) -> Collection[int]:
        """Slots of the tablespaces in which a schema change has a part; a single node needs none. Raises 57P03."""
        if self._node.replica is None:
            return ()
        places = places_of_changes(self._node.catalogs, changes)
        if places is None:
            places = frozenset(self._node.shared_catalog.tablespaces.values())
        if any(map(self._lacks, places)):
            raise not_here()
        return [self._spaces[oid].slot for oid in places if oid in self._spaces]

    def _lacks(self, oid: int) -> bool:
        """Whether such a tablespace exists and this node lacks it."""
        item = self._node.shared_catalog.get(oid)
        return isinstance(item, Tablespace) and bool(item.identity) and oid not in self._spaces

    def stood_on(self, transaction: Transaction) -> frozenset[bytes]:
        """The tablespaces, by id, in which a transaction has locks or has read state that is not durable; pg_default is
        HOME."""
        if self._stores is None:
            return frozenset((HOME,))
        spaces = self._stores.spaces
        slots = self.slots_of(transaction)
        return frozenset(space.tablespace_id if slot else HOME for slot in slots if (space := spaces[slot]))

    def slots_of(self, transaction: Transaction) -> set[int]:
        """The slots of the same tablespaces."""
        store = transaction.store
        slots = set(store.observed) if isinstance(store, ObservedStores) else {0}
        catalog = transaction.catalog or self._node.shared_catalog
        for oid in transaction.table_locks:
            space = self._spaces.get(_place_of(catalog.get(oid) if isinstance(oid, int) else None))
            slots.add(0 if space is None else space.slot)
        return slots

    def _detach(self, oid: int) -> None:
        assert self._stores is not None and self._storage is not None
        space = self._spaces.pop(oid)
        self._stores.remove(space)
        self._node.columnar.remove_tablespace(space)
        self._storage.remove(space)

    # ---- CREATE and DROP ----------------------------------------------------------------------------------------

    def create(self, item: Tablespace) -> None:
        """Makes the storage of a tablespace whose CREATE is about to commit. Raises 0A000, 58030."""
        if self._storage is None:
            not_supported("CREATE TABLESPACE")
        self._made[item.oid] = self._storage.create(bytes.fromhex(item.identity))

    def check_options(self, options: Mapping[str, str], item: Tablespace | None) -> None:
        """See TablespaceStorage.check_options."""
        if self._storage is not None:
            self._storage.check_options(options, item)

    async def make_ready(self, options: Mapping[str, str]) -> None:
        """See TablespaceStorage.make_ready."""
        if self._storage is not None:
            await self._storage.make_ready(options)

    async def stands(self, identity: str) -> bool:
        """See TablespaceStorage.stands."""
        return self._storage is None or await self._storage.stands(bytes.fromhex(identity))

    @property
    def attached(self) -> Collection[Store]:
        """The tablespaces in the catalog, except pg_default."""
        return self._spaces.values()

    def doubt(self, oid: int) -> None:
        """A DROP is about to commit."""
        if self._storage is not None and oid in self._spaces:
            self._storage.doubt(self._spaces[oid].tablespace_id)

    def on_abandoned(self, changes: Mapping[int, SchemaObject | None]) -> None:
        """Schema changes were not committed."""
        self._node.changes.on_abandoned(changes)
        for oid in changes:
            made = self._made.pop(oid, None)
            if self._storage is None:
                continue
            if made is not None:
                self._storage.remove(made)
            elif oid in self._spaces:
                self._storage.keep(self._spaces[oid].tablespace_id)

    def by_name(self) -> dict[str, Store]:
        """Every open tablespace, pg_default first."""
        store = self._node.store
        if isinstance(store, Store):
            return {"pg_default": store}
        catalog = self._node.shared_catalog
        items = ((catalog.get(oid), space) for oid, space in self._spaces.items())
        return {
            "pg_default": store.of(0),
            **{item.name: space for item, space in items if isinstance(item, Tablespace)},
        }


def _lies_in(item: SchemaObject, tablespace: int) -> bool:
    return isinstance(item, Table | Index) and item.tablespace == tablespace


def _place_of(item: SchemaObject | None) -> int:
    """The tablespace (OID) of a lock's object."""
    return item.oid if isinstance(item, Tablespace) else getattr(item, "tablespace", DEFAULT_TABLESPACE_OID)


def _observing(
    store: Store | Stores,
    row_space: RowLocks,
    table_space: LockSpace,
    process_id: int,
    start_time: int,
    isolation: str,
    read_only: bool,
) -> Transaction:
    """A transaction of a node with several tablespaces."""
    assert isinstance(store, Stores)
    return Transaction(ObservedStores(store), row_space, table_space, process_id, start_time, isolation, read_only)
