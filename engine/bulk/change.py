"""UPDATE and DELETE of many rows into bulk runs.

Every storage id (the table's and each index's) gets up to three runs in this order: removed keys, new keys, and new
values under unchanged keys. A key that one row leaves and another one takes is in the first and the second run. So it
remains, with its new value, in whatever batches it occurred.

Rows change in the order of their keys, and uniqueness follows from that. A new key must occur once. If it exists, it
must be among the removed keys, which is known at the end, in `finish`, and the row that has it must come before the row
that takes it.

A key that the transaction has written singly is changed singly (engine/storage/edits.py has the order).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from catalog.errors import SqlError
from catalog.schema import Table
from engine.bulk.encode import TableEncoder
from engine.bulk.insert import own_keys
from engine.bulk.rows import RowSet
from engine.execute.writer import IndexWriter
from engine.execute.written import Written
from engine.storage.columns import Column, Numbers, binary_array
from engine.storage.keys import PREFIX_BYTES, storage_prefix
from engine.storage.newest import NewestRows
from engine.storage.runs import BulkRun, BulkRunWriter, DuplicateKey

if TYPE_CHECKING:
    from engine.bulk.session import BulkSession
    from engine.bulk.thread import BulkThread
    from engine.storage.tablespace import Tablespace
    from engine.txn.transaction import Transaction


class KeyTaken(Exception):  # noqa: N818 - a finding: the caller makes the error
    """Two rows would have the same key. `value` is the value of one of them under it."""

    def __init__(self, value: bytes) -> None:
        super().__init__("key taken")
        self.value = value


class KeySpace:
    """The changes under one storage id."""

    def __init__(self, store: Tablespace, own: Column | None, newest: NewestRows | None) -> None:
        self._store = store
        self._own = own
        self._newest = newest  # None: no new key can conflict
        self._gone: BulkRunWriter | None = None
        self._come: BulkRunWriter | None = None
        self._stay: BulkRunWriter | None = None
        self.deleted: set[bytes] = set()
        self.written: dict[bytes, bytes] = {}  # under keys that come
        self.kept: dict[bytes, bytes] = {}  # under keys that stay
        self.runs: list[BulkRun] = []

    def remove(self, keys: Column) -> None:
        """Adds removed keys."""
        keys, single = self._apart(keys)
        self.deleted.update(single.to_pylist())
        if len(keys):
            if self._gone is None:
                self._gone = self._store.new_run()
            self._gone.add(keys, pa.nulls(len(keys), pa.binary()))

    def bring(self, keys: Column, values: Column) -> None:
        """Adds new keys, or keys that move from one row to another. Raises KeyTaken if two of them are equal."""
        try:
            keys, values = self._put_single(keys, values, self.written)
            if len(keys):
                if self._come is None:
                    self._come = self._store.new_run()
                self._come.add(keys, values)
        except DuplicateKey as duplicate:
            raise KeyTaken(_value_of(keys, values, duplicate.key)) from None

    def refuse_existing(self, keys: Column, values: Column) -> None:
        """Raises KeyTaken if one of the keys exists, even if it will be removed later."""
        if self._newest is None or not len(keys):
            return
        taken = self._newest.existing(keys)
        if taken.any():
            raise KeyTaken(values[int(np.argmax(taken))].as_py())

    def refuse_later(self, entries: Column, own: Column, values: Column) -> None:
        """Raises KeyTaken if one of the entries exists and belongs to a row after the `own` one, which has not changed
        yet."""
        if self._newest is None or not len(entries):
            return
        later = pc.fill_null(pc.greater(self._newest.values(entries), own), False)
        if pc.any(later).as_py():
            raise KeyTaken(values[pc.index(later, True).as_py()].as_py())

    def replace(self, keys: Column, values: Column) -> None:
        """Adds new values under unchanged keys."""
        keys, values = self._put_single(keys, values, self.kept)
        if len(keys):
            if self._stay is None:
                self._stay = self._store.new_run()
            self._stay.add(keys, values)

    def _apart(self, keys: Column) -> tuple[Column, Column]:
        """The keys, and those of them that the transaction has written singly."""
        if self._own is None:
            return keys, keys.slice(0, 0)
        single = pc.is_in(keys, value_set=self._own)
        return keys.filter(pc.invert(single)), keys.filter(single)

    def _put_single(self, keys: Column, values: Column, into: dict[bytes, bytes]) -> tuple[Column, Column]:
        """The pairs without the keys that the transaction has written singly. These go into the dictionary."""
        if self._own is None:
            return keys, values
        single = pc.is_in(keys, value_set=self._own)
        for key, value in zip(keys.filter(single).to_pylist(), values.filter(single).to_pylist(), strict=True):
            if key in into:
                raise KeyTaken(value)
            into[key] = value
        rest = pc.invert(single)
        return keys.filter(rest), values.filter(rest)

    def finish(self) -> None:
        """Sorts and syncs the runs. Raises KeyTaken."""
        gone = self._gone.finish() if self._gone is not None and self._gone.rows else None
        come = self._finish_coming()
        stay = self._stay.finish() if self._stay is not None and self._stay.rows else None
        if come is not None and self._newest is not None:
            self._check(come, gone)
        if self.written and self._newest is not None:
            keys = pa.array(self.written, pa.binary())
            for place in np.flatnonzero(self._newest.existing(keys)).tolist():
                if keys[place].as_py() not in self.deleted:
                    raise KeyTaken(self.written[keys[place].as_py()])
        self.runs = [run for run in (gone, come, stay) if run is not None]

    def _finish_coming(self) -> BulkRun | None:
        if self._come is None or not self._come.rows:
            return None
        try:
            return self._come.finish()
        except DuplicateKey as duplicate:
            raise KeyTaken(self._come.find(duplicate.key) or b"") from None

    def _check(self, come: BulkRun, gone: BulkRun | None) -> None:
        """Checks that every new key that exists is among the removed keys."""
        assert self._newest is not None
        for batch in come.batches():
            keys = batch.column(0)
            taken = self._newest.existing(keys)
            if not taken.any():
                continue
            if gone is not None:
                for part in gone.between(keys[0].as_py(), keys[len(keys) - 1].as_py() + b"\0"):
                    taken &= ~pc.is_in(keys, value_set=part.column(0)).to_numpy(zero_copy_only=False)
            if taken.any():
                raise KeyTaken(batch.column(1)[int(np.argmax(taken))].as_py())

    def merge_into(self, transaction: Transaction) -> None:
        """Adds all changes to the transaction."""
        transaction.runs.extend(self.runs)
        for key in self.deleted:
            transaction.delete(key)
        for key, value in self.written.items():
            transaction.put(key, value)
        for key, value in self.kept.items():
            transaction.put(key, value)

    def discard(self) -> None:
        for writer in (self._gone, self._come, self._stay):
            if writer is not None:
                writer.discard()

    def close(self) -> None:
        """Closes its readers."""
        if self._newest is not None:
            self._newest.end()


def _value_of(keys: Column, values: Column, key: bytes) -> bytes:
    place = pc.index(keys, pa.scalar(key, pa.binary())).as_py()
    found: bytes = values[place].as_py()
    return found


class BulkChange:
    """One statement's changes of a table. `changed`: the columns that UPDATE assigns, or None for DELETE."""

    def __init__(
        self, encoder: TableEncoder, changed: frozenset[int] | None, table: KeySpace, indexes: dict[int, KeySpace]
    ) -> None:
        self.encoder = encoder
        self._table = table
        self._indexes = indexes
        self._deletes = changed is None
        self._moves = changed is not None and not changed.isdisjoint(encoder.table.key_columns)
        self._touched = [
            index for index in encoder.indexes if changed is None or self._moves or index.touched_by(changed)
        ]
        self._closed = False
        self.rows = 0

    @classmethod
    async def open(cls, transaction: Transaction, encoder: TableEncoder, changed: frozenset[int] | None) -> BulkChange:
        """Runs on the engine's thread, with the table locked (engine/bulk/locks.py)."""
        table = encoder.table
        moves = changed is not None and not changed.isdisjoint(table.key_columns)

        async def space(storage_id: int, unique: bool) -> KeySpace:
            newest = await NewestRows.of(transaction, storage_id) if unique else None
            return KeySpace(transaction.tablespace(storage_id), own_keys(transaction, storage_id), newest)

        indexes: dict[int, KeySpace] = {}
        try:
            for index in encoder.indexes:
                storage_id = index.index.storage_id
                indexes[storage_id] = await space(storage_id, index.unique and changed is not None)
            return cls(encoder, changed, await space(table.storage_id, moves), indexes)
        except BaseException:
            for found in indexes.values():
                found.close()
            raise

    def delete(self, keys: Column, old: RowSet) -> None:
        """Deletes rows."""
        self._table.remove(keys)
        for index in self._touched:
            entries, _, _ = self.encoder.entries(index, old, keys)
            self._indexes[index.index.storage_id].remove(entries)
        self.rows += old.count

    def update(self, keys: Column, old: RowSet, new: RowSet) -> None:
        """Replaces rows. Raises 23505."""
        encoder = self.encoder
        values = encoder.rows(new)
        new_keys = encoder.keys(new) if self._moves else keys
        try:
            if self._moves:
                moved = pc.not_equal(keys, new_keys)
                stays = pc.invert(moved)
                # Rows change in the order of their keys: a key further on is still there when a row moves to it.
                onward = pc.greater(new_keys, keys)
                self._table.refuse_existing(new_keys.filter(onward), values.filter(onward))
                self._table.remove(keys.filter(moved))
                self._table.bring(new_keys.filter(moved), values.filter(moved))
                self._table.replace(keys.filter(stays), values.filter(stays))
            else:
                self._table.replace(keys, values)
        except KeyTaken as taken:
            raise self._duplicate(None, taken.value) from None
        for index in self._touched:
            self._update_entries(index, keys, new_keys, old, new)
        self.rows += old.count

    def _update_entries(self, index: IndexWriter, keys: Column, new_keys: Column, old: RowSet, new: RowSet) -> None:
        space = self._indexes[index.index.storage_id]
        before, old_values, old_places = self.encoder.entries(index, old, keys)
        after, new_values, new_places = self.encoder.entries(index, new, new_keys)
        if old_places is None and new_places is None:
            changed = pc.or_(pc.not_equal(before, after), pc.not_equal(old_values, new_values))
            before, after, new_values = before.filter(changed), after.filter(changed), new_values.filter(changed)
            own = old_values.filter(changed)
        else:
            own = binary_array([key[PREFIX_BYTES:] for key in _take(keys, new_places).to_pylist()])
        space.remove(before)
        try:
            space.refuse_later(after, own, new_values)
            space.bring(after, new_values)
        except KeyTaken as taken:
            row = new.row(_position(new_keys, taken.value))
            raise self.encoder.writer.duplicate(index, row) from None

    def finish(self) -> None:
        """Sorts and syncs the runs. Raises 23505."""
        try:
            self._table.finish()
        except KeyTaken as taken:
            raise self._duplicate(None, taken.value) from None
        for index in self._touched:
            space = self._indexes[index.index.storage_id]
            try:
                space.finish()
            except KeyTaken as taken:
                raise self._duplicate(index, self._row_at(taken.value)) from None

    def _row_at(self, place: bytes) -> bytes:
        """The new row under a row key without storage id."""
        key = storage_prefix(self.encoder.table.storage_id) + place
        single = self._table.written.get(key) or self._table.kept.get(key)
        if single is not None:
            return single
        for run in reversed(self._table.runs):
            found = run.get(key)
            if found is not None and found.value is not None:
                return found.value
        raise SqlError("XX000", "an index entry without its row")

    def _duplicate(self, index: IndexWriter | None, row: bytes) -> SqlError:
        return self.encoder.writer.duplicate(index, self.encoder.codec.decode(row))

    async def claim(self, session: BulkSession, transaction: Transaction, thread: BulkThread) -> None:
        """Does nothing, because the table is locked."""

    @property
    def table_runs(self) -> list[tuple[Table, list[BulkRun]]]:
        """The runs of the table itself, after `finish`."""
        return [(self.encoder.table, self._table.runs)]

    def merge_into(self, transaction: Transaction, written: Written) -> None:
        """Adds the changes to the transaction. Runs on the engine's thread, after `finish`. `written` counts the
        rows."""
        (written.deleted if self._deletes else written.updated)[self.encoder.table.oid] += self.rows
        self._closed = True
        for space in (self._table, *self._indexes.values()):
            space.merge_into(transaction)

    def discard(self) -> None:
        """Removes the written files, unless they belong to the transaction by now, and closes the readers, whose pages
        an error could otherwise hold for long. Called at every end."""
        for space in (self._table, *self._indexes.values()):
            space.close()
            if not self._closed:
                space.discard()


def _take(keys: Column, places: Column | None) -> Column:
    return keys if places is None else keys.take(places)


def _position(keys: Column, place: bytes) -> int:
    """The position of the key that ends with a row key without storage id."""
    prefix: Any = keys[0].as_py()[:4]
    found: Numbers = np.flatnonzero(
        pc.equal(keys, pa.scalar(prefix + place, pa.binary())).to_numpy(zero_copy_only=False)
    )
    return int(found[0])
