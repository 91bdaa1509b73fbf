"""Writes new rows of one table into bulk runs: a run of the rows, and one for each index.

Runs are separate for each storage id, because of their order. Rows that come in key order are written once. Their index
entries come in any order, and are sorted when the run is finished. A duplicate key is found in one of four ways:

    in the same batch             by sorting the keys
    among existing keys           by NewestRows.existing, before anything is written
    in an earlier batch           by finishing the run
    of another transaction        by `claim`, when all rows are there (engine/bulk/claims.py)

`add` and `finish` run in the statement's thread. `claim` and `merge_into` run on the engine's, and add the result to
the transaction.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from catalog.errors import SqlError
from catalog.schema import Table
from engine.bulk.claims import Claim, Watch, claim_keys, take
from engine.bulk.encode import TableEncoder
from engine.bulk.rows import RowSet
from engine.execute.writer import IndexWriter
from engine.execute.written import Written
from engine.storage.columns import Column
from engine.storage.keys import storage_prefix
from engine.storage.newest import NewestRows
from engine.storage.runs import BulkRun, BulkRunWriter, DuplicateKey

if TYPE_CHECKING:
    from engine.bulk.session import BulkSession, ColumnMaker
    from engine.bulk.thread import BulkThread
    from engine.storage.tablespace import Tablespace
    from engine.txn.transaction import Transaction

T = TypeVar("T")

MakeError = Callable[[IndexWriter | None, Sequence[object]], SqlError]


class Conflict(Exception):  # noqa: N818 - a finding: the caller knows where in its input the row stood
    """A row of a batch has a key that is taken. `place` is its position in the batch.

    `key` and `target`: the place of a key that existed when the statement started. Nothing of the batch has been
    written.
    """

    def __init__(self, place: int, error: SqlError, key: bytes | None = None, target: Target | None = None) -> None:
        super().__init__(error.message)
        self.place = place
        self.error = error
        self.key = key
        self.target = target

    def at(self, place: int) -> Conflict:
        """The same conflict in a batch that contains this one."""
        return Conflict(place, self.error, self.key, self.target)


async def repeat_work(session: BulkSession, work: Callable[[], Awaitable[T]]) -> T:
    """Runs a function that adds a batch, and repeats it if the key that it found taken has become free. Raises
    Conflict."""
    while True:
        try:
            return await work()
        except Conflict as conflict:
            if conflict.target is None or conflict.key is None:
                raise
            transaction = session.transaction
            assert transaction is not None
            await take(session, transaction, conflict.key)
            if transaction.newest(conflict.key) is not None:
                raise
            conflict.target.freed.add(conflict.key)


class Target:
    """The content under one storage id."""

    def __init__(
        self, store: Tablespace, newest: NewestRows | None, own: Column | None, watch: Watch | None = None
    ) -> None:
        self._store = store
        self._newest = newest  # None: no key can be taken
        self._own = own  # keys that the transaction has written singly
        self.watch = watch  # None: no other transaction can write here
        self.freed: set[bytes] = set()  # keys that existed at first, and that the transaction has locked since
        self.writer: BulkRunWriter | None = None
        self.run: BulkRun | None = None
        self.overrides: dict[bytes, bytes | None] = {}

    def first_taken(self, keys: Column) -> int | None:
        """The position of the first existing key."""
        if self._newest is None:
            return None
        taken = self._newest.existing(keys)
        if self.freed:
            for place in np.flatnonzero(taken).tolist():
                taken[place] = keys[place].as_py() not in self.freed
        return int(np.argmax(taken)) if taken.any() else None

    def add(self, keys: Column, values: Column) -> None:
        """Writes the pairs. Raises DuplicateKey for two equal keys among them."""
        if self._own is not None:
            single = pc.is_in(keys, value_set=self._own)
            if pc.any(single).as_py():
                self.overrides.update(
                    zip(keys.filter(single).to_pylist(), values.filter(single).to_pylist(), strict=True)
                )
                rest = pc.invert(single)
                keys, values = keys.filter(rest), values.filter(rest)
        if self.writer is None:
            self.writer = self._store.new_run()
        self.writer.add(keys, values)

    def finish(self) -> BulkRun | None:
        """Raises DuplicateKey for a key in two of the batches."""
        self.run = self.writer.finish() if self.writer is not None and self.writer.rows else None
        return self.run

    def discard(self) -> None:
        if self.writer is not None:
            self.writer.discard()

    def close(self) -> None:
        """Closes its readers."""
        if self._newest is not None:
            self._newest.end()


class BulkInsert:
    """A bulk insert. `open` runs on the engine's thread, under the locks in the package's text."""

    def __init__(
        self,
        encoder: TableEncoder,
        targets: dict[int, Target],
        duplicate: MakeError | None = None,
        columns: ColumnMaker | None = None,
    ) -> None:
        self.encoder = encoder
        self._columns = columns
        self._duplicate = duplicate or encoder.writer.duplicate
        self._targets = targets
        self._runs: list[BulkRun] = []
        self._closed = False
        self.rows = 0

    @classmethod
    async def open(
        cls,
        transaction: Transaction,
        encoder: TableEncoder,
        duplicate: MakeError | None = None,
        *,
        alone: bool = False,
        columns: ColumnMaker | None = None,
    ) -> BulkInsert:
        """`duplicate` makes the error of a duplicate key, by default that of INSERT. `alone`: no other transaction can
        write to the table, so `claim` does nothing. `columns`: makes columns of the rows while they are written."""
        table = encoder.table
        unique = {table.storage_id: bool(table.key_columns)}
        unique.update({index.index.storage_id: index.unique for index in encoder.indexes})
        bulk = cls(encoder, {}, duplicate, columns)
        try:
            for storage_id, looked_up in unique.items():
                store = transaction.tablespace(storage_id)
                target = Target(store, None, own_keys(transaction, storage_id))
                bulk._targets[storage_id] = target
                if looked_up:
                    target.watch = None if alone else Watch(store, storage_id)
                    target._newest = await NewestRows.of(transaction, storage_id)
        except BaseException:
            bulk.unwatch()
            bulk.discard()
            raise
        return bulk

    @property
    def _table(self) -> Target:
        return self._targets[self.encoder.table.storage_id]

    def look(self) -> None:
        """Collects the writes of others, and passes on the rows written here. Runs on the engine's thread, before each
        batch."""
        for target in self._targets.values():
            if target.watch is not None:
                target.watch.look()
        if self._columns is not None and self._table.writer is not None:
            self._columns.look(self._table.writer)

    def unwatch(self) -> None:
        """Stops collecting. Runs at the end of the statement, on the engine's thread."""
        for target in self._targets.values():
            if target.watch is not None:
                target.watch.close()
        if self._columns is not None:
            self._columns.end()

    def add(self, rows: RowSet, first_number: int, stored: Column | None = None) -> None:
        """Writes the rows with their index entries. Raises Conflict (23505).

        `stored`: the rows in stored form, if it is known. Then only key columns are read.
        """
        if not rows.count:
            return
        encoder = self.encoder
        keys = encoder.keys(rows, first_number)
        parts: list[tuple[IndexWriter | None, Target, Column, Column | None, Any]] = []
        parts.append((None, self._table, keys, stored, None))
        for index in encoder.indexes:
            entries, values, places = encoder.entries(index, rows, keys)
            if len(entries):
                parts.append((index, self._targets[index.index.storage_id], entries, values, places))
        taken = [
            (_in_rows(place, places), order, place)
            for order, (_, target, found, _, places) in enumerate(parts)
            if (place := target.first_taken(found)) is not None
        ]
        if taken:
            row, order, place = min(taken)
            guard, target, found = parts[order][:3]
            if target.watch is None:
                raise self._conflict(rows, row, guard)
            raise self._conflict(rows, row, guard, found[place].as_py(), target)
        for part in parts:
            try:
                part[1].add(part[2], encoder.rows(rows) if part[3] is None else part[3])
            except DuplicateKey as duplicate:
                second = int(np.flatnonzero(pc.equal(part[2], pa.scalar(duplicate.key, pa.binary())))[1])
                raise self._conflict(rows, _in_rows(second, part[4]), part[0]) from None
        self.rows += rows.count

    def _conflict(
        self, rows: RowSet, place: int, index: IndexWriter | None, key: bytes | None = None, at: Target | None = None
    ) -> Conflict:
        return Conflict(place, self._duplicate(index, rows.row(place)), key, at)

    def finish(self) -> None:
        """Sorts and syncs the runs. Raises 23505 for two rows of different batches."""
        run = self._finish_one(self._table, None)
        for index in self.encoder.indexes:
            self._finish_one(self._targets[index.index.storage_id], index, run)

    def _finish_one(self, target: Target, index: IndexWriter | None, rows: BulkRun | None = None) -> BulkRun | None:
        try:
            run = target.finish()
        except DuplicateKey as duplicate:
            assert target.writer is not None
            raise self._error_of(index, target.writer.find(duplicate.key), rows) from None
        if run is not None:
            self._runs.append(run)
        return run

    def _error_of(self, index: IndexWriter | None, value: bytes | None, rows: BulkRun | None) -> SqlError:
        """The error of a duplicate key. `value` is the statement's value under it, `rows` its rows."""
        if index is not None and value is not None:
            found = rows.get(storage_prefix(self.encoder.table.storage_id) + value) if rows is not None else None
            value = found.value if found is not None else self._table.overrides.get(value)
        if value is None:
            return SqlError("XX000", "a duplicate key that is in no batch")
        return self._duplicate(index, self.encoder.codec.decode(value))

    @property
    def claims(self) -> list[Claim]:
        """The keys that others may want too. Called after `finish`."""
        found = []
        for index in (None, *self.encoder.indexes):
            target = self._table if index is None else self._targets[index.index.storage_id]
            if target.watch is not None and target.run is not None:
                found.append(Claim(target.watch, target.run, partial(self._duplicate_key_error, index, target.run)))
        return found

    def _duplicate_key_error(self, index: IndexWriter | None, run: BulkRun, key: bytes) -> SqlError:
        found = run.get(key)
        return self._error_of(index, found.value if found is not None else None, self._table.run)

    async def claim(self, session: BulkSession, transaction: Transaction, thread: BulkThread) -> None:
        """Claims the keys (engine/bulk/claims.py). `merge_into` must follow in the same turn of the event loop. Raises
        23505."""
        await claim_keys(session, transaction, thread, self.claims)

    @property
    def table_runs(self) -> list[tuple[Table, list[BulkRun]]]:
        """The runs of the table itself, after `finish`."""
        prefix = storage_prefix(self.encoder.table.storage_id)
        return [(self.encoder.table, [run for run in self._runs if (run.first_key or b"").startswith(prefix)])]

    def merge_into(self, transaction: Transaction, written: Written | None = None) -> None:
        """Adds the runs to the transaction. Runs on the engine's thread, after `finish`. `written` counts the rows."""
        if written is not None:
            written.inserted[self.encoder.table.oid] += self.rows
        transaction.runs.extend(self._runs)
        self._closed = True
        writer, run = self._table.writer, self._table.run
        if self._columns is not None and writer is not None and run is not None:
            self._columns.keep(writer, run)
        for target in self._targets.values():
            for key, value in target.overrides.items():
                if value is None:
                    transaction.delete(key)
                else:
                    transaction.put(key, value)

    def discard(self) -> None:
        """Removes the written files, unless they belong to the transaction by now, and closes the readers, whose pages
        an error could otherwise hold for long. Called at every end."""
        for target in self._targets.values():
            target.close()
            if not self._closed:
                target.discard()


def _in_rows(place: int, places: Any) -> int:
    """The row of an index entry, because not every row has an entry."""
    return place if places is None else int(places[place].as_py())


def own_keys(transaction: Transaction, storage_id: int) -> Column | None:
    """The keys under a storage id that the transaction has written singly, or None."""
    prefix = storage_prefix(storage_id)
    found = [key for key in transaction.writes if key.startswith(prefix)]
    return pa.array(found, pa.binary()) if found else None
