"""UPDATE and DELETE whose rows the columnar path computes."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from catalog.errors import SqlError, not_supported
from engine.bulk import references
from engine.bulk.change import BulkChange
from engine.bulk.locks import lock_for_changes
from engine.bulk.rows import Row, RowSet
from engine.bulk.thread import BulkThread
from engine.changes.bulk import finish_recorded
from engine.execute.foreign_keys import Outgoing
from engine.execute.writer import Checks
from engine.sql import tree
from engine.statements.data_change import Again, Call, DataChange, Done, chain_rows
from engine.storage.columns import Column, one_array
from engine.storage.keys import row_number_keys
from engine.storage.moments import Lsn, lsn_in
from engine.txn.interface import NO_KEY_UPDATE, UPDATE

if TYPE_CHECKING:
    from engine.columnar.interface import BatchStream
    from engine.execute.triggers import RowTriggers


class RowChange(DataChange):
    """One UPDATE or DELETE."""

    def __init__(self, call: Call, statement: tree.Update | tree.Delete) -> None:
        super().__init__(call, statement)
        self.changed = frozenset(number for number, _ in self.dml.new) if isinstance(statement, tree.Update) else None
        self.strength = UPDATE if self.changed is None else NO_KEY_UPDATE
        self._conflicts: Column | None = None

    async def attempt(self, stream: BatchStream) -> Done:
        batches, ended, rest = await self.first_batches(stream)
        if ended or not self._in_bulk():
            return self.finish(await self.singly(stream, chain_rows(batches, rest)))
        await lock_for_changes(self.session, self.table, self.held_before)
        await self._see_changes(stream)
        return self.finish(await self._bulk(chain_rows(batches, rest)))

    def _in_bulk(self) -> bool:
        """Whether no other row is affected: no foreign key acts on the change, nor refers within the table, and no
        other part of the statement writes here or may yet write rows that a foreign key refers to."""
        changed = self.changed
        if self.fires:
            return False
        if self.writer.moving is not None or (changed is not None and self.writer.exclusions):
            return False
        if self.part is not None and not (self.part.alone and not self.writer.outgoing):
            return False
        if changed is None:
            return not self.writer.incoming
        return not any(not foreign.referenced.isdisjoint(changed) for foreign in self.writer.incoming) and not any(
            foreign.parent is self.writer and not foreign.columns.isdisjoint(changed)
            for foreign in self.writer.outgoing
        )

    # ---- one by one -------------------------------------------------------------------------------------------------

    def write_slice(self, batch: Any, lsn: Lsn, checks: Checks) -> int:
        keys, old = self._old(batch)
        places = keys.to_pylist()
        if self.part is not None and not self.part.view.touched.isdisjoint(places):
            batch = batch.filter(pa.array([key not in self.part.view.touched for key in places]))
            keys, old = self._old(batch)
            places = keys.to_pylist()
        if self.writer.triggers is not None:
            return self._write_fired(self.writer.triggers, batch, (places, old), lsn, checks)
        for key in places:
            self.lock_as_seen(key, lsn, self.strength)
        transaction, context, writer = self.transaction, self.context, self.writer
        if self.changed is None:
            for key, before in zip(places, old.tuples(), strict=True):
                writer.delete(transaction, context, key, before, checks)
        else:
            new = self._new(batch, old)
            error = self.violation(batch, new)
            if error is not None:
                raise error
            update = writer.updater(self.changed)
            for key, before, after in zip(places, old.tuples(), new.tuples(), strict=True):
                update(transaction, context, key, before, after, checks)
        self.give_back(batch)
        return len(places)

    def _write_fired(
        self, triggers: RowTriggers, batch: Any, found: tuple[list[bytes], RowSet], lsn: Lsn, checks: Checks
    ) -> int:
        """`write_slice` of a table with row triggers."""
        transaction, context, writer = self.transaction, self.context, self.writer
        places, old = found
        written = []
        if self.changed is None:
            for place, (key, before) in enumerate(zip(places, old.tuples(), strict=True)):
                self.lock_as_seen(key, lsn, self.strength)
                if triggers.may_delete(transaction, context, key, before):
                    writer.delete(transaction, context, key, before, checks)
                    written.append(place)
        else:
            returns = self.spool is not None or (self.part is not None and self.part.returned is not None)
            late = any(name.startswith((tree.VIEW_CHECK, tree.POLICY_CHECK)) for name, _ in self.dml.checks)
            if returns or late:
                what = "RETURNING, a view's check option or row security"
                not_supported(f"{what} for an UPDATE with row triggers on the columnar path")
            update = writer.updater(self.changed)
            rows = zip(places, old.tuples(), self._new(batch, old).tuples(), strict=True)
            for place, (key, before, after) in enumerate(rows):
                self.lock_as_seen(key, lsn, self.strength)
                row = triggers.changed_row(transaction, context, key, before, after, self.changed)
                if row is not None and update(transaction, context, key, before, row, checks) is not None:
                    written.append(place)
        self.give_back(batch.take(pa.array(written, pa.int64())))
        return len(written)

    def _old(self, batch: Any) -> tuple[Column, RowSet]:
        """The rows' keys, and their former values."""
        old = RowSet(self.table, batch.num_rows, {number: batch.column(place) for number, place in self.dml.old})
        if self.table.key_columns:
            return self.encoder.keys(old), old
        numbers = one_array(batch.column(self.dml.key[0])).to_numpy(zero_copy_only=False)
        return row_number_keys(self.table.storage_id, numbers), old

    def _new(self, batch: Any, old: RowSet) -> RowSet:
        return old.with_columns({number: batch.column(place) for number, place in self.dml.new})

    # ---- in bulk ----------------------------------------------------------------------------------------------------

    async def _see_changes(self, stream: BatchStream) -> None:
        """With the table locked: rows that were written since the query's snapshot count as changed."""
        await self.session.durable(self.session.node.store.sequenced_lsn)
        storage_id = self.table.storage_id
        store = self.transaction.tablespace(storage_id)
        lsn = lsn_in(store.slot, stream.lsn)
        if store.sequenced_lsn <= lsn:
            return
        keys = {key for _, key in store.changed_since(storage_id, lsn, store.sequenced_lsn)}
        if not keys:
            return
        if not self.repeatable:
            raise Again
        self._conflicts = pa.array(keys, pa.binary())

    async def _bulk(self, batches: AsyncIterator[Any]) -> int:
        bulk = await BulkChange.open(self.transaction, self.encoder, self.changed)
        thread = BulkThread("bulk-change")
        thread.at_end(bulk.discard)
        try:
            async for batch in batches:
                for foreign, keys in await thread.run(self._store, bulk, batch):
                    await references.check(self.session, foreign, keys)
            await finish_recorded(self.session, self.transaction, thread, bulk)
        finally:
            thread.close()
        return bulk.rows

    def _store(self, bulk: BulkChange, batch: Any) -> list[tuple[Outgoing, list[Row]]]:
        """In the thread: writes a batch; returns the keys that it now refers to."""
        keys, old = self._old(batch)
        if self._conflicts is not None and pc.any(pc.is_in(keys, value_set=self._conflicts)).as_py():
            raise SqlError("40001", "could not serialize access due to concurrent update")
        changed = self.changed
        if changed is None:
            bulk.delete(keys, old)
            self.give_back(batch)
            return []
        new = self._new(batch, old)
        error = self.violation(batch, new)
        if error is not None:
            raise error
        bulk.update(keys, old, new)
        self.give_back(batch)
        outgoing = [foreign for foreign in self.writer.outgoing if not foreign.columns.isdisjoint(changed)]
        return [(foreign, references.distinct_keys(self.writer, foreign, new)) for foreign in outgoing]
