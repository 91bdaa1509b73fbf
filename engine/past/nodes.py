"""The node object of a session that reads the past.

    session.node    Node        the present
                    PastNode    over the tablespace's own versions: the recent past, kept in memory
                    PastNode    over a directory of its own (engine/past/far.py): as far back as history goes

The other parts of a session work unchanged. The row path reads `node.store.current`, and its transactions take
snapshots of it. The worker gets the differences as overlays, as for old REPEATABLE READ transactions. All parts refuse
writes.

The recent past has the schema of its LSN. The worker has the present tables, and reads those that have lost no rows or
columns since.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, cast

from catalog.errors import SqlError
from catalog.schema import DEFAULT_TABLESPACE_OID, Table
from engine.node.node import Node
from engine.storage.keys import storage_prefix
from engine.storage.moments import Lsn, Moment, lsn_in
from engine.storage.stores import AnyStore, ObservedStores, PastSnapshot, Stores, StoresSnapshot, not_here
from engine.storage.views import Snapshot
from engine.txn.commit import Acknowledge, CommitQueue, Lost
from engine.txn.interface import READ_COMMITTED, REPEATABLE_READ
from engine.txn.transaction import Transaction

if TYPE_CHECKING:
    from engine.columnar.client import WorkerClient
    from engine.columnar.interface import ColumnarQuery
    from engine.storage.runs import BulkRunWriter
    from engine.storage.tablespace import Tablespace


def read_only() -> SqlError:
    return SqlError("25006", "the past cannot be changed", hint="RESET as_of before you change data.")


class PastStore:
    """The part of a Tablespace that reading needs, at one LSN. The caller calls `close`."""

    slot = 0

    def __init__(self, space: Tablespace, lsn: int) -> None:
        """Raises 72000."""
        self._space = space
        self.current = space.snapshot(lsn)
        self.durable_lsn = self.sequenced_lsn = self.flushed_lsn = lsn

    def snapshot(self) -> Snapshot:
        return self._space.share(self.current)

    def share(self, snapshot: Snapshot) -> Snapshot:
        return self._space.share(snapshot)

    def of(self, storage_id: int) -> PastStore:
        return self

    def newest(self, key: bytes) -> tuple[int, bytes | None] | None:
        value = self.current.get(key)
        return None if value is None else (self.durable_lsn, value)

    def scan_newest(self, low: bytes, high: bytes, reverse: bool = False) -> Iterator[tuple[bytes, bytes]]:
        return self.current.scan(low, high, reverse)

    def sizes_of(self, storage_ids: Iterable[int]) -> dict[int, int]:
        """The present sizes."""
        return self._space.sizes_of(storage_ids)

    def rows_of(self, storage_ids: Iterable[int]) -> dict[int, int]:
        """The present numbers of rows."""
        return self._space.rows_of(storage_ids)

    def on_durable(self, callback: Callable[[int], None]) -> None:
        """Does nothing, because nothing becomes durable in the past."""

    def sequence(self, *_: object) -> int:
        """Raises 25006."""
        raise read_only()

    def new_run(self) -> BulkRunWriter:
        """Raises 25006."""
        raise read_only()

    def close(self) -> None:
        self.current.close()


class PastStores:
    """A PastStore of several tablespaces, at one moment."""

    def __init__(self, stores: Stores, at: Moment) -> None:
        """Raises 72000."""
        self._stores = stores
        self._parts: list[PastStore | None] = []
        try:
            for slot, space in enumerate(stores.spaces):
                lsn = at.of(slot)
                self._parts.append(None if space is None or not lsn else PastStore(space, lsn))
        except BaseException:
            self.close()
            raise
        self.current = PastSnapshot(stores, [None if part is None else part.current for part in self._parts])
        self.durable_lsn = self.sequenced_lsn = self.flushed_lsn = self.current.lsn

    def snapshot(self) -> StoresSnapshot:
        return self.current.again()

    def share(self, snapshot: StoresSnapshot) -> StoresSnapshot:
        return snapshot.again()

    def of(self, storage_id: int) -> PastStore:
        """Raises 57P03."""
        slot = self._stores.slots.get(storage_prefix(storage_id), 0)
        self._stores.check_open(slot)
        part = self._parts[slot] if slot < len(self._parts) else None
        if part is None:
            raise not_here()
        return part

    def newest(self, key: bytes) -> tuple[int, bytes | None] | None:
        value = self.current.get(key)
        return None if value is None else (0, value)

    def scan_newest(self, low: bytes, high: bytes, reverse: bool = False) -> Iterator[tuple[bytes, bytes]]:
        return self.current.scan(low, high, reverse)

    def on_durable(self, callback: Callable[[int], None]) -> None:
        """Does nothing, because nothing becomes durable in the past."""

    def sequence(self, *_: object) -> int:
        """Raises 25006."""
        raise read_only()

    def close(self) -> None:
        for part in self._parts:
            if part is not None:
                part.close()


def store_at(store: AnyStore, at: Lsn) -> PastStore | PastStores:
    """The store in memory at an LSN or, with several tablespaces, at a moment. Raises 72000."""
    if isinstance(store, Stores):
        assert isinstance(at, Moment)
        return PastStores(store, at)
    assert isinstance(at, int)
    return PastStore(store, at)


class _PastCommits(CommitQueue):
    """The commits of a node without writes: no caller waits."""

    def late(self, met: Lsn) -> int:
        return 0

    def wait(self, lsn: Lsn, acknowledge: Acknowledge, lost: Lost) -> None:
        acknowledge()


class _PastColumns:
    """The worker for a node of the recent past. It serves tables that have not been changed incompatibly since."""

    def __init__(self, columnar: WorkerClient, present: Node, lsn: int) -> None:
        self._columnar = columnar
        self._present = present
        self.lsn = lsn

    async def rows(self, query: ColumnarQuery, parameters: Any, reader: Any, *arguments: Any, **named: Any) -> Any:
        self._check(query, reader)
        return await self._columnar.rows(query, parameters, reader, *arguments, **named)

    async def batches(self, query: ColumnarQuery, parameters: Any, reader: Any, *arguments: Any, **named: Any) -> Any:
        self._check(query, reader)
        return await self._columnar.batches(query, parameters, reader, *arguments, **named)

    def _check(self, query: ColumnarQuery, reader: Any) -> None:
        """Raises 72000 for a table whose columns the worker no longer has, XX000 for a reader of the present."""
        if isinstance(reader, Transaction) and reader.isolation == READ_COMMITTED:
            raise SqlError("XX000", "a transaction that reads the past has no snapshot of it")
        if self._present.commits.schema_version <= self.lsn:
            return
        for table in query.tables:
            self._check_table(table)

    def check_all(self, node: PastNode) -> None:
        """Checks every table of the node."""
        for item in node.shared_catalog.objects.values():
            if isinstance(item, Table):
                self._check_table(item)

    def _check_table(self, table: Table) -> None:
        now = self._present.shared_catalog.get(table.oid)
        if not isinstance(now, Table) or not _has_columns(now, table):
            raise SqlError(
                "72000",
                f'table "{table.name}" is another one since LSN {self.lsn}, and this query needs its columns',
                hint="A single node with history_retention can read it.",
            )

    def __getattr__(self, name: str) -> Any:
        return getattr(self._columnar, name)


def _has_columns(now: Table, then: Table) -> bool:
    """Whether a table still has all of its former columns, under the same keys."""
    held = {column.number: column.type for column in now.columns}
    return (
        now.storage_id == then.storage_id
        and now.key_columns == then.key_columns
        and all(held.get(column.number) == column.type for column in then.columns)
    )


def _begin_read_only(
    store: Any,
    row_space: Any,
    table_space: Any,
    process_id: int,
    start_time: int,
    isolation: str,
    read_only_: bool,
) -> Transaction:
    """A transaction of the past reads one moment and writes nothing."""
    if isinstance(store, Stores):
        store = ObservedStores(store)
    return Transaction(store, row_space, table_space, process_id, start_time, REPEATABLE_READ, True)


class PastNode(Node):
    """The node of a past moment. `close` calls `release` once."""

    def __init__(
        self, store: Any, columnar: Any, present: Node, at: Lsn, release: Callable[[], None] | None = None
    ) -> None:
        super().__init__(store, columnar, present.clock)
        self._stand_at(store, at, present)
        self._release = release
        self.new_transaction = _begin_read_only
        self.sessions, self.secrets = present.sessions, present.secrets
        self.listeners, self.advisory_locks = present.listeners, present.advisory_locks
        self.statements = present.statements
        self.started = present.started

    def _stand_at(self, store: Any, at: Lsn, present: Node) -> None:
        self.store = store
        self.commits = _PastCommits(store, present.clock)
        self.at = at
        self.lsn = lsn_in(0, at)
        """The LSN of pg_default."""

    def show(self, present: Node, at: Lsn) -> bool:
        """Moves the closed node to another moment. False if that is not kept, or has another schema than the present.
        Only for a node that `recent` has made with the present schema."""
        if self.catalogs is not present.catalogs or lsn_in(0, at) < present.commits.schema_version:
            return False
        try:
            store = store_at(present.store, at)
        except SqlError:
            return False
        self._stand_at(store, at, present)
        cast(_PastColumns, self.columnar).lsn = self.lsn
        self._release = store.close
        return True

    def read_catalogs(self) -> None:
        """Loads the catalog of the LSN."""
        self._load({item.oid: item for item in self._stored_objects()})

    def close(self) -> None:
        """Called when the session no longer reads the node. A second call does nothing."""
        release, self._release = self._release, None
        if release is not None:
            release()


def recent(present: Node, at: Lsn, whole: bool = False) -> PastNode:
    """The node at a moment in memory. Raises 72000 if it is not kept, and with `whole` also if it has tables whose
    columns the worker no longer has."""
    store = store_at(present.store, at)
    lsn = lsn_in(0, at)
    try:
        columns = _PastColumns(present.columnar, present, lsn)
        node = PastNode(store, columns, present, at, store.close)
        if present.commits.schema_version <= lsn:
            node.catalogs = present.catalogs
            node.share_plans(present)
            node.system = present.system
        else:
            node.read_catalogs()
            _check_places(present.store, node)
            if whole:
                columns.check_all(node)
    except BaseException:
        store.close()
        raise
    return node


def _check_places(store: AnyStore, node: PastNode) -> None:
    """Raises 72000 for tables in a tablespace that no longer exists."""
    if not isinstance(store, Stores):
        return
    for item in node.shared_catalog.objects.values():
        if isinstance(item, Table) and item.tablespace != DEFAULT_TABLESPACE_OID:
            slot = store.slots.get(storage_prefix(item.storage_id), 0)
            if not slot or slot >= len(store.spaces) or store.spaces[slot] is None:
                message = f'table "{item.name}" was in a tablespace that has been dropped since LSN {node.lsn}'
                raise SqlError("72000", message)
