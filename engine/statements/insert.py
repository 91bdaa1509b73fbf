"""INSERT ... SELECT whose rows the columnar path computes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import pyarrow.compute as pc

from catalog.errors import SqlError, not_supported
from engine.bulk import references
from engine.bulk.complete import RowCompleter
from engine.bulk.insert import BulkInsert, Conflict, repeat_work
from engine.bulk.partitioned import PartitionedInsert, concerns_itself
from engine.bulk.rows import Row, RowSet
from engine.bulk.thread import BulkThread
from engine.changes.bulk import finish_recorded
from engine.execute.conflicts import affected_twice
from engine.execute.context import NotTogether, RowPlan, Together
from engine.execute.foreign_keys import Outgoing
from engine.execute.planner import plan_row
from engine.execute.writer import Checks
from engine.partitions.partition_writer import PartitionedWriter
from engine.sql import tree
from engine.sql.tree_walk import has_sublink
from engine.statements.data_change import SLICE, Call, DataChange, Done, chain_rows
from engine.statements.plpgsql import suspend
from engine.storage.columns import one_array, to_values
from engine.storage.keys import PREFIX_BYTES, storage_prefix
from engine.txn.interface import LockWait


class Insertion(DataChange):
    """One INSERT ... SELECT."""

    def __init__(self, call: Call, statement: tree.Insert) -> None:
        super().__init__(call, statement)
        self.statement = statement
        catalog = call.session.catalog
        if self.table.partitioning is not None:
            self.writer = PartitionedWriter(catalog, self.table, call.session.key.format)
        tables = [self.table, *(catalog.descendants(self.table.oid) if self.table.partitioning is not None else ())]
        self._row_prefixes = {storage_prefix(table.storage_id) for table in tables}
        if self.part is None:
            self.context.checks = Checks()  # rows may refer to each other
        # Conditions of check options with sub-queries: only the query can evaluate them for a row.
        self._computed_checks = {
            name: index for name, index in self.dml.checks if has_sublink(dict(statement.checks)[name])
        }

    async def run(self) -> Done:
        stream = await self.stream()
        try:
            batches, ended, rest = await self.first_batches(stream)
            if ended or not self._in_bulk():
                return self.finish(await self._singly(chain_rows(batches, rest)))
            if isinstance(self.writer, PartitionedWriter):
                return self.finish(await self._bulk_by_partition(self.writer, chain_rows(batches, rest)))
            return self.finish(await self._bulk(chain_rows(batches, rest)))
        finally:
            await stream.close()

    def _in_bulk(self) -> bool:
        if self.fires:
            return False
        if self.part is not None and not (self.part.alone and not self.writer.outgoing):
            return False
        return (
            self.statement.on_conflict is None
            and not self._concerns_itself()
            and (self.dml.complete or self.columns is None)
        )

    def _concerns_itself(self) -> bool:
        if isinstance(self.writer, PartitionedWriter):
            return concerns_itself(self.session.catalog, self.table)
        return references.concerns_itself(self.writer)

    # ---- one by one -------------------------------------------------------------------------------------------------

    def _row_plan(self) -> tuple[RowPlan, list[tuple[int, int]]]:
        """A row path plan that inserts one row of parameters, and the sources of their values: (type OID, index in a
        batch)."""
        statement, given = self.statement, len(self.analyzed.parameter_types)
        places = dict(self.dml.new)
        defaults = {item.column: item.expression for item in statement.defaults}
        values: list[tree.Expr] = []
        found: list[tuple[int, int]] = []
        computed = statement.source_columns if statement.source is not None else places  # VALUES give every column
        for column in self.table.columns:
            if column.number in computed:
                found.append((column.type.oid, places[column.number]))
                values.append(tree.Param(given + len(found), column.type))
            else:
                values.append(defaults.get(column.number) or tree.Const(None, column.type))
        checks = tuple(item for item in statement.checks if item[0] not in self._computed_checks)
        one_row = replace(
            statement, rows=(tuple(values),), source=None, source_columns=(), defaults=(), ctes=(), checks=checks
        )
        types = (*self.analyzed.parameter_types, *(oid for oid, _ in found))
        analyzed = replace(self.analyzed, statement=one_row, parameter_types=types)
        plan = plan_row(analyzed, self.session.catalog, self.session.key.format)
        if plan is None:
            not_supported("INSERT ... SELECT with a sub-query in its defaults, ON CONFLICT or RETURNING")
        return plan, found

    async def _singly(self, batches: AsyncIterator[Any]) -> int:
        plan, places = self._row_plan()
        returned = self.part is not None and self.part.returned is not None
        run: Any = plan.rows if returned else plan.make_encoder(self.formats)
        together = plan.together if self.fires and self._may_write_together() else None
        touched: set[bytes] | None = None
        if self.statement.on_conflict is not None and self.statement.on_conflict.action == "update":
            touched = set() if self.part is None else set(self.part.view.touched)
        count = written = 0
        async for batch in batches:
            self._check_computed(batch)
            columns = [to_values(one_array(batch.column(index)), oid) for oid, index in places]
            rows = zip(*columns, strict=True) if columns else iter([()] * batch.num_rows)
            if self.fires:
                written += await self._insert_fired(run, together, list(rows))
                continue
            for row in rows:
                data, more = await self._insert_one(run, (*self.parameters, *row), touched)
                written += more
                if self.part is not None and self.part.returned is not None:
                    self.part.returned.add_rows(data)
                elif self.spool is not None and more:
                    self.spool.add(data, more)
                count += 1
                if count % SLICE == 0:
                    await asyncio.sleep(0)
        if self.part is None:
            assert self.context.checks is not None
            await self.finish_checks(self.context.checks)
        return written

    def _may_write_together(self) -> bool:
        """Whether the triggers may fire for some rows before the first of them is written."""
        triggers = self.writer.triggers
        return self.part is None and (triggers is None or triggers.inserts_apart(self.context))

    def _insert_together(self, together: Together, rows: list[Row]) -> int | None:
        """Inserts rows together. None: one fails, or has to wait, and nothing has happened."""
        mark, notices = self.transaction.mark(), len(self.session.notices)
        try:
            return together.run(self.context, [(*self.parameters, *row) for row in rows])[1]
        except (SqlError, NotTogether):
            self.transaction.rollback_to(mark)
            del self.session.notices[notices:]
            return None

    async def _insert_fired(self, run: Any, together: Together | None, rows: list[Row]) -> int:
        """Inserts rows of a table with triggers; returns how many were written."""
        context, written = self.context, 0

        def insert(some: list[Row]) -> int:
            done = None if together is None else self._insert_together(together, some)
            if done is not None:
                return done
            count = 0
            for row in some:
                data, more = run(context, (*self.parameters, *row))
                count += more
                if self.part is not None and self.part.returned is not None:
                    self.part.returned.add_rows(data)
                elif self.spool is not None and more:
                    self.spool.add(data, more)
            return count

        for start in range(0, len(rows), SLICE):
            written += await suspend.run(partial(insert, rows[start : start + SLICE]))
            await asyncio.sleep(0)
        return written

    def _check_computed(self, batch: Any) -> None:
        for name, index in self._computed_checks.items():
            holds = one_array(batch.column(index)).fill_null(True)
            if not pc.all(holds).as_py():
                rows = RowSet(self.table, batch.num_rows, {column: batch.column(at) for column, at in self.dml.new})
                raise self.writer.check_violation(name, rows.row(pc.index(holds, False).as_py()))

    async def _insert_one(self, run: Any, values: Sequence[object], touched: set[bytes] | None) -> tuple[Any, int]:
        """Runs the plan for one row, again after each wait for a lock. `touched`: the rows that the statement has
        written; raises 21000 for one that it meets again."""
        transaction, checks = self.transaction, self.context.checks
        assert checks is not None
        mark, known = transaction.mark(), len(checks)
        while True:
            try:
                data, count = run(self.context, values)
                break
            except LockWait as wait:
                transaction.rollback_to(mark)
                del checks[known:]
                await self.session.wait_for(wait)
        if touched is not None:
            written = transaction.written_since(mark)
            keys = {key for key in written if key[:PREFIX_BYTES] in self._row_prefixes}
            if not keys.isdisjoint(touched):
                raise affected_twice()
            touched |= keys
        return data, count

    # ---- in bulk ----------------------------------------------------------------------------------------------------

    async def _bulk(self, batches: AsyncIterator[Any]) -> int:
        session, table, dml = self.session, self.table, self.dml
        columns = session.node.columnar.drafts.of_load(table)
        bulk = await BulkInsert.open(self.transaction, self.encoder, columns=columns)
        statement = self.statement
        rules: tuple[Any, Any] = ((), ()) if dml.complete else (statement.generated, statement.checks)
        completer = RowCompleter(session, self.writer, dml.pending, *rules)
        thread = BulkThread("bulk-insert")
        thread.at_end(bulk.discard)
        try:
            async for batch in batches:
                count = batch.num_rows
                drawn = await completer.draw(count) if completer.draws else {}
                number = 0 if table.key_columns else session.node.next_row_numbers(table, count)
                bulk.look()
                store = partial(thread.run, self._store, bulk, completer, batch, drawn, number)
                for foreign, keys in await repeat_work(session, store):
                    await references.check(session, foreign, keys)
            await finish_recorded(self.session, self.transaction, thread, bulk)
        except Conflict as conflict:
            raise conflict.error from None
        finally:
            bulk.unwatch()
            thread.close()
        return bulk.rows

    async def _bulk_by_partition(self, writer: PartitionedWriter, batches: AsyncIterator[Any]) -> int:
        statement, dml = self.statement, self.dml
        bulk = PartitionedInsert(self.session, writer)
        completer = RowCompleter(self.session, writer, dml.pending, statement.generated, statement.checks)
        thread = BulkThread("bulk-insert")
        thread.at_end(bulk.discard)
        try:
            async for batch in batches:
                drawn = await completer.draw(batch.num_rows) if completer.draws else {}
                given = {column: batch.column(place) for column, place in dml.new}
                made = RowSet(self.table, batch.num_rows, given)
                rows, _ = await thread.run(completer.complete, made, drawn)
                found = await thread.run(completer.violation, rows)
                if found is not None:
                    raise found[1]
                await bulk.write(thread, rows)
            await finish_recorded(self.session, self.transaction, thread, bulk)
        except Conflict as conflict:
            raise conflict.error from None
        finally:
            bulk.unwatch()
            thread.close()
        return bulk.rows

    def _store(
        self, bulk: BulkInsert, completer: RowCompleter, batch: Any, drawn: dict[int, list[object]], number: int
    ) -> list[tuple[Outgoing, list[Row]]]:
        """In the thread: writes a batch; returns the keys that it refers to."""
        given = {column: batch.column(place) for column, place in self.dml.new}
        rows, _ = completer.complete(RowSet(self.table, batch.num_rows, given), drawn)
        if self.dml.complete:
            error = self.violation(batch, rows)
        else:
            found = completer.violation(rows)
            error = None if found is None else found[1]
        if error is not None:
            raise error
        bulk.add(rows, number)
        self.give_back(batch)
        return [(foreign, references.distinct_keys(self.writer, foreign, rows)) for foreign in self.writer.outgoing]
