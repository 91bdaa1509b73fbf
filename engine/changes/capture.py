"""At COMMIT: adds a transaction's changes of tables in streams to its writes.

While there is a stream, the commit queue calls `Capture.__call__` for every transaction that writes. It checks the
first four bytes of each written key. For a row of a captured table it reads the present version, which nobody else can
have changed, because the transaction holds the row's lock. So the stream gets the net effect on each row, in the order
of the first writes. TRUNCATE comes first, then COPY and large DML in their order (engine/changes/bulk.py), then all
other rows.

**Start.** The captured tables follow from the committed catalog and its sequenced changes that are not yet published
(`_pending`). So CREATE CHANGE STREAM takes effect at its own LSN, for all writers, without waiting for any.

**Rewritten tables.** An ALTER TABLE that rewrites a table copies all rows under a new storage id, which does not change
them. A transaction that also changes rows of that table is refused (0A000), because copies and changes cannot be
distinguished.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from catalog import rows as system_rows
from catalog.catalog import Catalog
from catalog.errors import not_supported
from catalog.schema import ChangeStream, Index, Schema, SchemaObject, Sequence, Table, View
from engine.changes import record
from engine.changes.bulk import Recorded
from engine.changes.log import Log
from engine.changes.shapes import Shape, shape_id, shape_of
from engine.changes.tables import find_streamed, log_of
from engine.storage.keys import PREFIX_BYTES, storage_prefix
from engine.storage.runs import BulkRun
from engine.txn.interface import EmptiedStorage

if TYPE_CHECKING:
    from engine.node_services import NodeServices
    from engine.txn.transaction import Transaction

_POSITIONS = storage_prefix(system_rows.CHANGE_POSITIONS)


@dataclass(slots=True)
class Captured:
    """A captured table. `newest`: returns the newest sequenced version of a key."""

    table: Table
    log: Log
    shape: int  # its id
    encoded: bytes  # the shape
    streams: tuple[int, ...]
    newest: Callable[[bytes], tuple[int, bytes | None] | None]


class _Found:
    """The changes of one transaction for one log."""

    __slots__ = ("changes", "log", "referred", "shapes")

    def __init__(self, log: Log) -> None:
        self.log = log
        self.changes: list[bytes] = []
        self.shapes: dict[int, Captured | Recorded] = {}
        self.referred = 0  # bytes of the changes that the commit refers to

    def add(self, item: Captured, key: bytes, before: bytes | None, after: bytes | None) -> None:
        """Adds the change of one row; `key` with its storage id."""
        if before is None:
            if after is None:
                return  # it came and went within the transaction
            operation = record.CREATE
        else:
            operation = record.DELETE if after is None else record.UPDATE
        shape = item.shape
        self.changes.append(record.encode_change(operation, shape, key[PREFIX_BYTES:], before, after))
        self.shapes[shape] = item


class Capture:
    """The captured tables of a node, and the capture itself. Used on the engine's thread."""

    def __init__(self, node: NodeServices) -> None:
        self._node = node
        self._tables: dict[bytes, Captured] | None = None  # by the prefix of their keys; None: not known
        self._logs: dict[tuple[int, int], Log] = {}  # all that were met, by OIDs of database and tablespace
        self._prefixes: set[bytes] = set()  # of the keys of all logs that were met
        self._found: dict[tuple[int, int], Log] | None = None  # those of streams; None: not known
        self._pending: dict[int, SchemaObject | None] = {}

    # ---- what is captured -------------------------------------------------------------------------------------------

    def forget(self, everything: bool = False) -> None:
        """Called when the committed catalog is replaced, or (`everything`) when this node starts or stops leading."""
        self._tables = self._found = None
        if everything:
            self._pending.clear()
            self._logs.clear()

    def on_published(self, changes: Mapping[int, SchemaObject | None]) -> None:
        """Called when schema changes are committed."""
        for oid in changes:
            self._pending.pop(oid, None)
        if any(map(_may_concern, changes.values())):
            self.forget()

    def on_abandoned(self, changes: Mapping[int, SchemaObject | None]) -> None:
        """Called when schema changes are rolled back after they may have taken effect here."""
        if not self._pending.keys().isdisjoint(changes):
            for oid, item in changes.items():
                if self._pending.get(oid, item) is item:
                    self._pending.pop(oid, None)
            self.forget()

    def tables(self) -> Mapping[bytes, Captured]:
        """The captured tables, by the prefix of their keys."""
        if self._tables is None:
            self._tables = self._find()
        return self._tables

    def _objects(self) -> Mapping[int, SchemaObject]:
        objects = self._node.shared_catalog.objects
        if not self._pending:
            return objects
        known = {**objects, **self._pending}
        return {oid: item for oid, item in known.items() if item is not None}

    def _find(self) -> dict[bytes, Captured]:
        objects = self._objects()
        found: dict[bytes, Captured] = {}
        for oid, streams in find_streamed(objects).items():
            table = objects[oid]
            assert isinstance(table, Table)
            schema = objects[table.schema]
            assert isinstance(schema, Schema)
            log = self._log(objects, schema.database, table.tablespace)
            if log is None:
                continue  # its tablespace is not on this node, so nothing is committed here
            encoded = self._shape(objects, table, streams).encode()
            newest = self._node.store.of(table.storage_id).newest
            item = Captured(table, log, shape_id(encoded), encoded, tuple(stream.oid for stream in streams), newest)
            found[storage_prefix(table.storage_id)] = item
        return found

    def _shape(self, objects: Mapping[int, SchemaObject], table: Table, streams: tuple[ChangeStream, ...]) -> Shape:
        database = streams[0].database
        catalog = self._node.catalogs[database]
        if any(not isinstance(item, Table | ChangeStream) for item in self._pending.values()):
            catalog = Catalog(database=database).with_changes(objects)
        return shape_of(objects, catalog.user_types, table, streams)

    def _log(self, objects: Mapping[int, SchemaObject], database: int, tablespace: int) -> Log | None:
        table = log_of(objects, database, tablespace)
        if table is None or self._node.held.lacks(tablespace):
            return None
        log = self._logs.get((database, tablespace))
        if log is None or log.table.storage_id != table.storage_id:
            log = self._logs[database, tablespace] = Log(table, self._node.store.of(table.storage_id))
            self._prefixes.add(log.prefix)
        return log

    def logs(self) -> Mapping[tuple[int, int], Log]:
        """The logs of all streams on this node, by the OIDs of database and tablespace."""
        if self._found is None:
            objects = self._objects()
            places = {(item.database, item.tablespace) for item in objects.values() if isinstance(item, ChangeStream)}
            found = {place: self._log(objects, *place) for place in sorted(places)}
            self._found = {place: log for place, log in found.items() if log is not None}
        return self._found

    # ---- the capture ------------------------------------------------------------------------------------------------

    def __call__(self, transaction: Transaction, now: int) -> None:
        """Adds the changes of the transaction that is sequenced next, at `now`, to the writes."""
        emptied: list[Captured] = []
        skipped: frozenset[bytes] = frozenset()
        if transaction.changed_objects:
            emptied, skipped = self._schema_changes(transaction)
        tables = self.tables()
        found: dict[Log, _Found] = {}
        for item in emptied:
            self._note_truncate(found, item)
        runs = bool(transaction.runs)
        if runs:
            self._runs(transaction, tables, skipped, found)
        others: list[bytes] = []
        for key, after in transaction.writes.items():
            captured = tables.get(key[:PREFIX_BYTES])
            if captured is None:
                others.append(key)
                continue
            if skipped and key[:PREFIX_BYTES] in skipped:
                _refuse(captured.table)
            version = captured.newest(key)
            before = None if version is None else version[1]
            if runs:
                before = _in_runs(transaction, key, before)
            changes = found.get(captured.log)
            if changes is None:
                changes = found[captured.log] = _Found(captured.log)
            changes.add(captured, key, before, after)
        if others:
            self._others(transaction, others)
        for log, changes in found.items():
            if changes.changes:
                size = log.write(transaction.writes, changes, now, self._node.commits.schema_version)
                self._node.changes.note_captured(size)

    def _note_truncate(self, found: dict[Log, _Found], item: Captured) -> None:
        changes = _of(found, item)
        changes.shapes[item.shape] = item
        changes.changes.append(record.encode_change(record.TRUNCATE, item.shape, b"", None, None))

    def _others(self, transaction: Transaction, keys: list[bytes]) -> None:
        """Checks writes other than rows of captured tables, which usually need no work."""
        for key in keys:
            prefix = key[:PREFIX_BYTES]
            if prefix == _POSITIONS:
                self._node.changes.look()
            elif prefix in self._prefixes:
                del transaction.writes[key]  # of bulk changes that PREPARE TRANSACTION has made single ones

    def _runs(
        self,
        transaction: Transaction,
        tables: Mapping[bytes, Captured],
        skipped: frozenset[bytes],
        found: dict[Log, _Found],
    ) -> None:
        """Adds bulk runs: those that were recorded (engine/changes/bulk.py), and those without a record, which are read
        now because their stream is younger than the statement."""
        rest: dict[bytes, list[BulkRun]] = {}
        for run in transaction.runs:
            prefix = (run.first_key or b"")[:PREFIX_BYTES]
            if prefix in self._prefixes:
                self._refer(run, tables, skipped, found)
            elif prefix in tables and prefix not in skipped and not run.recorded:
                rest.setdefault(prefix, []).append(run)
        for prefix, runs in rest.items():
            merged: dict[bytes, bytes | None] = {}
            for run in runs:
                for part in run.slices():
                    merged.update(part)
            for key, after in merged.items():
                if key not in transaction.writes:
                    newest = tables[prefix].newest(key)
                    _of(found, tables[prefix]).add(tables[prefix], key, None if newest is None else newest[1], after)

    def _refer(
        self,
        run: BulkRun,
        tables: Mapping[bytes, Captured],
        skipped: frozenset[bytes],
        found: dict[Log, _Found],
    ) -> None:
        recorded = run.recorded
        assert isinstance(recorded, Recorded)
        item = tables.get(recorded.prefix)
        if item is None:
            return  # the table was emptied or dropped by the same transaction, or is in no stream any more
        if recorded.prefix in skipped:
            _refuse(item.table)
        known = _of(found, item)
        known.shapes[recorded.shape] = recorded
        known.referred += recorded.size
        key = record.REFERRED.pack(recorded.number, run.rows, recorded.size)
        known.changes.append(record.encode_change(record.REFERENCE, recorded.shape, key, None, None))

    # ---- schema changes ---------------------------------------------------------------------------------------------

    def _schema_changes(self, transaction: Transaction) -> tuple[list[Captured], frozenset[bytes]]:
        """Applies the transaction's own schema changes. Returns the truncated tables as they were, and the prefixes of
        the rewritten ones."""
        before = self.tables()
        for item in list(transaction.changed_objects.values()):
            if isinstance(item, ChangeStream) and item.start < 0:
                self._start(transaction, item)
        self._pending.update(transaction.changed_objects)
        self.forget()
        after = {item.table.oid: item.table for item in self.tables().values()}
        dropped = {storage_prefix(storage_id): storage_id for storage_id in transaction.dropped_storage}
        emptied: list[Captured] = []
        rewritten: set[bytes] = set()
        for prefix, old in before.items():
            new = after.get(old.table.oid)
            if new is None or new.storage_id == old.table.storage_id:
                continue
            if isinstance(dropped.get(prefix), EmptiedStorage):
                emptied.append(old)
                continue
            if any(key.startswith(prefix) for key in transaction.writes):
                _refuse(old.table)
            rewritten.add(storage_prefix(new.storage_id))
        return emptied, frozenset(rewritten)

    def _start(self, transaction: Transaction, stream: ChangeStream) -> None:
        """Sets the first LSN of a new stream, because its own commit may have no part in its tablespace."""
        changed = {oid: item for oid, item in transaction.changed_objects.items() if item is not None}
        objects = {**self._node.shared_catalog.objects, **changed}
        log = log_of(objects, stream.database, stream.tablespace)
        assert log is not None
        started = replace(stream, start=self._node.store.of(log.storage_id).sequenced_lsn)
        transaction.writes[system_rows.object_key(started)] = system_rows.encode(started)
        transaction.changed_objects[stream.oid] = started


def _may_concern(item: SchemaObject | None) -> bool:
    """Whether a schema change can affect the capture. Temporary tables, which sessions create often, cannot."""
    return not isinstance(item, Index | Sequence | View) and not (isinstance(item, Table) and item.persistence == "t")


def _of(found: dict[Log, _Found], item: Captured) -> _Found:
    known = found.get(item.log)
    if known is None:
        known = found[item.log] = _Found(item.log)
    return known


def _in_runs(transaction: Transaction, key: bytes, before: bytes | None) -> bytes | None:
    """The row under a key in the transaction's last bulk statement, or `before`."""
    for run in reversed(transaction.runs):
        found = run.get(key)
        if found is not None:
            return found.value
    return before


def _refuse(table: Table) -> None:
    not_supported(
        f'changing rows of table "{table.name}", which is in a change stream, in the transaction that rewrites it',
        hint="Commit the ALTER TABLE first.",
    )
