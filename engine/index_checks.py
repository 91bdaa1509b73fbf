"""Compares every index with the rows of its table, and the analytic worker's copies with the rows
(engine/columnar_checks.py): `shoal_check_indexes()`, `shoal check --dsn`.

The state is captured at one LSN (engine/checkpoint/capture.py), and read in a thread while writers continue. The
entries that the rows should have are sorted in a temporary bulk run, and compared with the stored entries batch by
batch. Without damage, whole batches are equal.

    missing    a row has no entry, so look-ups by the index do not find it
    stale      an entry belongs to no row
    wrong      an entry refers to another row than the one that has its key

A primary key has no entries of its own, because the rows are stored in its order. Its check compares the keys of the
rows.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import orjson
import pyarrow.compute as pc

from catalog.catalog import Catalog
from catalog.errors import SqlError
from catalog.schema import Index, Table
from engine.bulk.encode import TableEncoder
from engine.bulk.rows import RowSet
from engine.bulk.thread import BulkThread
from engine.checkpoint.capture import Capture, Pause
from engine.checkpoint.digest import DIGEST_REST
from engine.columnar_checks import MomentReader, difference
from engine.priority import Pace
from engine.storage.runs import BulkRun, BulkRunWriter, DuplicateKey

if TYPE_CHECKING:
    from engine.session.session import Session
    from engine.storage.columns import Column
    from engine.storage.tablespace import Tablespace

Pairs = tuple["Column", "Column"]


@dataclass(slots=True)
class Damage:
    """The damage in one index of a table, in the order of its rows, or in its analytic copy (then without an index).
    `message`: the reason if it could not be checked, or the damage of the copy."""

    schema: str
    table: str
    index: str
    missing: int = 0
    stale: int = 0
    wrong: int = 0
    message: str = ""

    @property
    def has_found(self) -> bool:
        return bool(self.missing or self.stale or self.wrong or self.message)


async def check_indexes(session: Session) -> str:
    """Checks all indexes of the session's database, and the analytic copies. Returns JSON: {"tables", "indexes",
    "copies", "damaged": [...]}. The list of tables is made before the first wait. Temporary tables are left out."""
    catalog, node = session.committed_catalog, session.node
    tables = [item for item in catalog.tables() if item.partitioning is None and item.persistence != "t"]
    spaces: dict[bytes, Tablespace] = {}
    for table in tables:
        space = node.store.of(table.storage_id)
        spaces[space.tablespace_id] = space
    thread, pace = BulkThread("check", gives_way=True), Pace(DIGEST_REST)
    captures = {key: Capture.take(space, space.sequenced_lsn) for key, space in spaces.items()}
    for capture in captures.values():
        thread.at_end(capture.close)
    copied = [item for item in tables if node.columnar.has_copy(item)]
    readers = {key: space.snapshot(captures[key].lsn) for key, space in spaces.items() if copied}
    damaged: list[Damage] = []
    count = copies = 0
    try:
        for capture in captures.values():
            await thread.run(capture.resolve, pace.pause)
            capture.release()
        for table in copied:
            space = node.store.of(table.storage_id)
            capture, snapshot = captures[space.tablespace_id], readers[space.tablespace_id]
            while space.durable_lsn < snapshot.lsn:  # the worker has only durable changes
                await asyncio.sleep(0.01)
            reader = MomentReader.of(snapshot, space.slot)
            wrong = await difference(node.columnar, table, capture, reader, thread, pace.pause)
            copies += wrong is not None
            if wrong:
                damaged.append(Damage(catalog.schema_name(table.schema), table.name, "", message=wrong))
        while readers:
            readers.popitem()[1].close()
        for table in tables:
            space = node.store.of(table.storage_id)
            check = _TableCheck(catalog, table, captures[space.tablespace_id], space, pace.pause)
            count += len(check.indexes)
            damaged += await thread.run(check.run)
    finally:
        for snapshot in readers.values():
            snapshot.close()
        for capture in captures.values():
            capture.release()
        thread.close()
    return orjson.dumps({"tables": len(tables), "indexes": count, "copies": copies, "damaged": damaged}).decode()


class _TableCheck:
    def __init__(self, catalog: Catalog, table: Table, capture: Capture, space: Tablespace, pause: Pause) -> None:
        self._catalog = catalog
        self._table = table
        self._capture = capture
        self._space = space
        self._pause = pause
        found = [catalog.index(oid) for oid in table.indexes]
        self.indexes = [item for item in found if item.is_tree and item.ready]

    def run(self) -> list[Damage]:
        """Returns the damage. Runs in the thread."""
        found = []
        for index in self.indexes:
            damage = Damage(self._catalog.schema_name(self._table.schema), self._table.name, index.name)
            try:
                if index.primary:
                    self._keys(damage)
                else:
                    self._entries(index, damage)
            except SqlError as error:
                damage.message = error.message
            if damage.has_found:
                found.append(damage)
        return found

    def _rows(self, encoder: TableEncoder, numbers: Sequence[int] | None) -> Iterator[tuple[RowSet, Column]]:
        for keys, values in self._capture.batches(self._table.storage_id, pause=self._pause):
            self._pause()
            batch = encoder.codec.batches.decode(values, numbers)
            wanted = [column.number for column in self._table.columns] if numbers is None else numbers
            yield RowSet(self._table, len(keys), dict(zip(wanted, batch.columns, strict=True))), keys

    def _keys(self, damage: Damage) -> None:
        """Finds rows that are not stored under their keys."""
        encoder = TableEncoder(self._catalog, self._table)
        for rows, keys in self._rows(encoder, sorted(self._table.key_columns)):
            made = encoder.keys(rows)
            if not made.equals(keys):
                damage.wrong += pc.sum(pc.not_equal(made, keys)).as_py() or 0

    def _entries(self, index: Index, damage: Damage) -> None:
        encoder = TableEncoder(self._catalog, self._table)
        writer = next(item for item in encoder.indexes if item.index.oid == index.oid)
        columns = None if writer.on_expressions else sorted(writer.columns)
        sorting = self._space.new_run()
        run: BulkRun | None = None
        try:
            for rows, keys in self._rows(encoder, columns):
                entries, values, _ = encoder.entries(writer, rows, keys)
                if len(entries):
                    sorting.add(entries, values)
            run = _sort(sorting)
            made = ((batch.column(0), batch.column(1)) for batch in run.batches()) if run is not None else iter(())
            _compare(made, self._capture.batches(index.storage_id, pause=self._pause), damage)
        except DuplicateKey:
            damage.message = "two rows have the same unique key"
        finally:
            if run is None:
                sorting.discard()
            else:
                run.discard()


def _sort(sorting: BulkRunWriter) -> BulkRun | None:
    return sorting.finish() if sorting.rows else None


def _compare(made: Iterator[Pairs], stored: Iterator[Pairs], damage: Damage) -> None:
    """Compares two sorted sequences of entries. Equal pieces are skipped as a whole."""
    left, right = _Pieces(made), _Pieces(stored)
    while left.fill() and right.fill():
        count = min(len(left.keys), len(right.keys))
        if left.take(count)[0].equals(right.take(count)[0]) and left.take(count)[1].equals(right.take(count)[1]):
            left.skip(count)
            right.skip(count)
            continue
        _compare_singly(left, right, damage)
    while left.fill():
        damage.missing += len(left.keys)
        left.skip(len(left.keys))
    while right.fill():
        damage.stale += len(right.keys)
        right.skip(len(right.keys))


def _compare_singly(left: _Pieces, right: _Pieces, damage: Damage) -> None:
    """Compares entry by entry, to the end of a piece or to the start of a long equal range."""
    ours, theirs = left.pairs(), right.pairs()
    i = j = equal = 0
    while i < len(ours) and j < len(theirs) and equal < _EQUAL_AGAIN:
        (key, value), (other, found) = ours[i], theirs[j]
        if key == other:
            damage.wrong += value != found
            equal = equal + 1 if value == found else 0
            i, j = i + 1, j + 1
        elif key < other:
            damage.missing, i, equal = damage.missing + 1, i + 1, 0
        else:
            damage.stale, j, equal = damage.stale + 1, j + 1, 0
    left.skip(i)
    right.skip(j)


_EQUAL_AGAIN = 1000
_SINGLY = 8192


class _Pieces:
    """Batches of sorted pairs, consumed from the front."""

    def __init__(self, batches: Iterator[Pairs]) -> None:
        self._batches = batches
        self.keys: Column = None
        self.values: Column = None

    def fill(self) -> bool:
        """Loads the next batch if necessary. Returns whether there are more pairs."""
        while self.keys is None or not len(self.keys):
            batch = next(self._batches, None)
            if batch is None:
                return False
            self.keys, self.values = batch
        return True

    def take(self, count: int) -> Pairs:
        return self.keys.slice(0, count), self.values.slice(0, count)

    def skip(self, count: int) -> None:
        self.keys, self.values = self.keys.slice(count), self.values.slice(count)

    def pairs(self) -> list[tuple[bytes, bytes]]:
        """The pairs at the front, as Python objects."""
        keys, values = self.take(_SINGLY)
        return list(zip(keys.to_pylist(), values.to_pylist(), strict=True))
