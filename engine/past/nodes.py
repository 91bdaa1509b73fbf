"""The node as it was at an LSN: what a session stands on that reads the past.

    session.node    Node        PastNode over the tablespace's own versions: the recent past, kept in memory
                                PastNode over a directory of its own (engine/past/far.py): as far back as history goes

Nothing else in a session knows of it: the row path reads `node.store.current`, its transactions take snapshots of it,
the worker gets them as overlays as it gets those of old REPEATABLE READ transactions. What is written there is refused
by every part that could.

The recent past has the schema of its LSN. The worker, whose tables are those of now, reads those of them that have not
lost anything since.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, cast

from catalog.errors import SqlError
from catalog.schema import Table
from engine.node import Node
from engine.storage.views import Snapshot
from engine.txn.commit import CommitQueue
from engine.txn.interface import READ_COMMITTED, REPEATABLE_READ
from engine.txn.transaction import Transaction

if TYPE_CHECKING:
    from engine.columnar.client import WorkerClient
    from engine.columnar.interface import ColumnarQuery
    from engine.storage.runs import BulkRunWriter
    from engine.storage.tablespace import Tablespace


def read_only() -> SqlError:
    return SqlError("25006", "the past cannot be changed", hint="RESET as_of, then change what is there now.")


class PastStore:
    """The part of a Tablespace that reading needs, at one LSN. `close` lets go of it."""

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
        """As they are now."""
        return self._space.sizes_of(storage_ids)

    def rows_of(self, storage_ids: Iterable[int]) -> dict[int, int]:
        """As they are now."""
        return self._space.rows_of(storage_ids)

    def on_durable(self, callback: Callable[[int], None]) -> None:
        """Nothing becomes durable in the past."""

    def sequence(self, *_: object) -> int:
        """Raises 25006."""
        raise read_only()

    def new_run(self) -> BulkRunWriter:
        """Raises 25006."""
        raise read_only()

    def close(self) -> None:
        self.current.close()


class _PastColumns:
    """The worker for a node of the recent past: for tables that are still what they were then."""

    def __init__(self, columnar: WorkerClient, present: Node, lsn: int) -> None:
        self._columnar = columnar
        self._present = present
        self.lsn = lsn

    async def rows(self, query: ColumnarQuery, parameters: Any, reader: Any, *arguments: Any) -> Any:
        self._check(query, reader)
        return await self._columnar.rows(query, parameters, reader, *arguments)

    async def batches(self, query: ColumnarQuery, parameters: Any, reader: Any, *arguments: Any) -> Any:
        self._check(query, reader)
        return await self._columnar.batches(query, parameters, reader, *arguments)

    def _check(self, query: ColumnarQuery, reader: Any) -> None:
        """Raises 72000 for a table whose columns the worker no longer has, XX000 for a reader of now."""
        if isinstance(reader, Transaction) and reader.isolation == READ_COMMITTED:
            raise SqlError("XX000", "a transaction that reads the past has no snapshot of it")
        if self._present.commits.schema_version <= self.lsn:
            return
        for table in query.tables:
            self._check_table(table)

    def check_all(self, node: PastNode) -> None:
        """The same, for every table that the node has."""
        for item in node.shared_catalog.objects.values():
            if isinstance(item, Table):
                self._check_table(item)

    def _check_table(self, table: Table) -> None:
        now = self._present.shared_catalog.get(table.oid)
        if not isinstance(now, Table) or not _has_columns(now, table):
            raise SqlError(
                "72000",
                f'table "{table.name}" is another one since LSN {self.lsn}, and this query needs its columns',
                hint="A node alone with history_retention keeps what it takes to read it all the same.",
            )

    def __getattr__(self, name: str) -> Any:
        return getattr(self._columnar, name)


def _has_columns(now: Table, then: Table) -> bool:
    """Whether a table has still everything that it had, under the same keys."""
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
    """Every transaction of the past reads one moment, and writes nothing."""
    return Transaction(store, row_space, table_space, process_id, start_time, REPEATABLE_READ, True)


class PastNode(Node):
    """`release` is called by `close`, once."""

    def __init__(self, store: Any, columnar: Any, present: Node, lsn: int, release: Callable[[], None]) -> None:
        super().__init__(store, columnar, present.clock)
        self.lsn = lsn
        self._release: Callable[[], None] | None = release
        self.new_transaction = _begin_read_only
        self.sessions, self.secrets = present.sessions, present.secrets
        self.listeners, self.advisory_locks = present.listeners, present.advisory_locks
        self.statements = present.statements
        self.started = present.started

    def show(self, space: Tablespace, present: Node, lsn: int) -> bool:
        """Becomes the node at another LSN, after `close`; False if that is not kept, or has another schema than now.
        Only for one that `recent` has made, and that had the schema of its now."""
        if self.catalogs is not present.catalogs or not space.readable_from <= lsn >= present.commits.schema_version:
            return False
        store = PastStore(space, lsn)
        self.store = cast(Any, store)
        self.commits = CommitQueue(cast(Any, store), present.clock)
        cast(_PastColumns, self.columnar).lsn = self.lsn = lsn
        self._release = store.close
        return True

    def read_catalogs(self) -> None:
        """The catalog is the one of the LSN."""
        self._load({item.oid: item for item in self._stored_objects()})

    def close(self) -> None:
        """The session reads it no more; closing twice is the same as once."""
        release, self._release = self._release, None
        if release is not None:
            release()


def recent(present: Node, space: Tablespace, lsn: int, whole: bool = False) -> PastNode:
    """The node at an LSN that is kept in memory. Raises 72000 for one that is not; `whole`: or has tables whose columns
    the worker no longer has."""
    store = PastStore(space, lsn)
    try:
        columns = _PastColumns(present.columnar, present, lsn)
        node = PastNode(store, columns, present, lsn, store.close)
        if present.commits.schema_version <= lsn:
            node.catalogs = present.catalogs
            node.share_plans(present)
            node.system = present.system
        else:
            node.read_catalogs()
            if whole:
                columns.check_all(node)
    except BaseException:
        store.close()
        raise
    return node
