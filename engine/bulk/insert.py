"""New rows of one table into bulk runs: the rows' own run, and one for each index.

Runs are kept apart by storage id because that is how they are ordered: rows that come in key order are written once,
while their index entries, which come in any order, are sorted when the run is finished.

    within a batch                sorting the keys shows it
    against what exists           NewestRows.existing, before anything is written
    against an earlier batch      finishing the run shows it

`add` and `finish` run in the statement's thread; `merge_into` hands the result to the transaction on the engine's.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from catalog.errors import SqlError
from catalog.schema import Table
from engine.bulk.encode import TableEncoder
from engine.bulk.rows import RowSet
from engine.execute.writer import IndexWriter
from engine.execute.written import Written
from engine.storage.columns import Column
from engine.storage.keys import storage_prefix
from engine.storage.newest import NewestRows
from engine.storage.runs import BulkRun, BulkRunWriter, DuplicateKey

if TYPE_CHECKING:
    from engine.storage.tablespace import Tablespace
    from engine.txn.transaction import Transaction


MakeError = Callable[[IndexWriter | None, Sequence[object]], SqlError]


class Conflict(Exception):  # noqa: N818 - a finding: the caller knows where in its input the row stood
    """A row of a batch has a key that is taken. `place` is its position in the batch."""

    def __init__(self, place: int, error: SqlError) -> None:
        super().__init__(error.message)
        self.place = place
        self.error = error


class Target:
    """What goes under one storage id."""

    def __init__(self, store: Tablespace, newest: NewestRows | None, own: Column | None) -> None:
        self._store = store
        self._newest = newest  # None: no key can be taken
        self._own = own  # keys that the transaction has written singly
        self.writer: BulkRunWriter | None = None
        self.overrides: dict[bytes, bytes | None] = {}

    def first_taken(self, keys: Column) -> int | None:
        """The position of the first key that exists already."""
        if self._newest is None:
            return None
        taken = self._newest.existing(keys)
        return int(np.argmax(taken)) if taken.any() else None

    def add(self, keys: Column, values: Column) -> None:
        """Writes the pairs. Raises DuplicateKey for a key that occurs twice among them."""
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
        return self.writer.finish() if self.writer is not None and self.writer.rows else None

    def discard(self) -> None:
        if self.writer is not None:
            self.writer.discard()


class BulkInsert:
    """See the module's text. `open` on the engine's thread, under the locks that the package's text names."""

    def __init__(
        self, encoder: TableEncoder, targets: Mapping[int, Target], duplicate: MakeError | None = None
    ) -> None:
        self.encoder = encoder
        self._duplicate = duplicate or encoder.writer.duplicate
        self._targets = targets
        self._table = targets[encoder.table.storage_id]
        self._runs: list[BulkRun] = []
        self._closed = False
        self.rows = 0

    @classmethod
    async def open(
        cls,
        transaction: Transaction,
        encoder: TableEncoder,
        duplicate: MakeError | None = None,
    ) -> BulkInsert:
        """`duplicate` makes the error of a key that is there twice; by default it is that of INSERT."""
        table = encoder.table
        unique = {table.storage_id: bool(table.key_columns)}
        unique.update({index.index.storage_id: index.unique for index in encoder.indexes})
        targets = {}
        for storage_id, looked_up in unique.items():
            newest = await NewestRows.of(transaction, storage_id) if looked_up else None
            targets[storage_id] = Target(transaction.tablespace(storage_id), newest, own_keys(transaction, storage_id))
        return cls(encoder, targets, duplicate)

    def add(self, rows: RowSet, first_number: int, stored: Column | None = None) -> None:
        """Writes the rows with their index entries. Raises Conflict (23505).

        `stored`: the rows as they are stored, where that is known; only key columns are looked at then.
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
            (_in_rows(place, places), order, index)
            for order, (index, target, found, _, places) in enumerate(parts)
            if (place := target.first_taken(found)) is not None
        ]
        if taken:
            raise self._conflict(rows, *min(taken, key=lambda item: item[:2])[::2])
        for part in parts:
            try:
                part[1].add(part[2], encoder.rows(rows) if part[3] is None else part[3])
            except DuplicateKey as duplicate:
                second = int(np.flatnonzero(pc.equal(part[2], pa.scalar(duplicate.key, pa.binary())))[1])
                raise self._conflict(rows, _in_rows(second, part[4]), part[0]) from None
        self.rows += rows.count

    def _conflict(self, rows: RowSet, place: int, index: IndexWriter | None) -> Conflict:
        return Conflict(place, self._duplicate(index, rows.row(place)))

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
            value = target.writer.find(duplicate.key)
            if index is not None and value is not None:
                found = rows.get(storage_prefix(self.encoder.table.storage_id) + value) if rows is not None else None
                value = found.value if found is not None else None
            if value is None:
                raise SqlError("XX000", "a duplicate key that is in no batch") from duplicate
            raise self._duplicate(index, self.encoder.codec.decode(value)) from None
        if run is not None:
            self._runs.append(run)
        return run

    @property
    def table_runs(self) -> list[tuple[Table, list[BulkRun]]]:
        """The runs of the table itself, after `finish`."""
        prefix = storage_prefix(self.encoder.table.storage_id)
        return [(self.encoder.table, [run for run in self._runs if (run.first_key or b"").startswith(prefix)])]

    def merge_into(self, transaction: Transaction, written: Written | None = None) -> None:
        """Makes the runs the transaction's. On the engine's thread, after `finish`. `written` counts the rows."""
        if written is not None:
            written.inserted[self.encoder.table.oid] += self.rows
        transaction.runs.extend(self._runs)
        self._closed = True
        for target in self._targets.values():
            for key, value in target.overrides.items():
                if value is None:
                    transaction.delete(key)
                else:
                    transaction.put(key, value)

    def discard(self) -> None:
        """Removes what was written, unless it is the transaction's by now."""
        if not self._closed:
            for target in self._targets.values():
                target.discard()


def _in_rows(place: int, places: Any) -> int:
    """The row of an index entry: not every row need have one."""
    return place if places is None else int(places[place].as_py())


def own_keys(transaction: Transaction, storage_id: int) -> Column | None:
    """The keys under a storage id that the transaction has written singly, None for none."""
    prefix = storage_prefix(storage_id)
    found = [key for key in transaction.writes if key.startswith(prefix)]
    return pa.array(found, pa.binary()) if found else None
