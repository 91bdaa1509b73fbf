"""INSERT ... SELECT, UPDATE and DELETE whose rows the columnar path computes (engine/columnar/generate/dml.py).

    up to SMALL_ROWS   one by one through the row path's machinery, with a lock on each row
    more               in whole columns into bulk runs, under a table lock (engine/bulk)
    more, but the row path's business (ON CONFLICT, foreign keys that act on other rows): one by one, however many

The rows were computed on a snapshot. Before UPDATE and DELETE write one, they lock it and see whether it has changed
since: then READ COMMITTED runs the whole statement again on a new snapshot, with the locks that it has, and REPEATABLE
READ gives 40001.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterable, AsyncIterator, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

import pyarrow as pa
import pyarrow.compute as pc

from catalog.errors import SqlError, not_supported
from engine.bulk import references
from engine.bulk.change import BulkChange
from engine.bulk.complete import RowCompleter
from engine.bulk.encode import TableEncoder
from engine.bulk.insert import BulkInsert, Conflict, repeated
from engine.bulk.locks import lock_for_changes
from engine.bulk.partitioned import PartitionedInsert, concerns_itself
from engine.bulk.rows import Row, RowSet
from engine.bulk.spool import RowSpool
from engine.bulk.thread import BulkThread
from engine.changes.bulk import finish_recorded
from engine.columnar.datarow import RowEncoder
from engine.execute.conflicts import affected_twice
from engine.execute.context import metered
from engine.execute.foreign_keys import Outgoing
from engine.execute.planner import plan_row
from engine.execute.writer import Checks
from engine.partitions.writing import PartitionedWriter, prepare_writer
from engine.session import planning
from engine.sql import tree
from engine.sql.tree_walk import has_sublink
from engine.storage.columns import Column, one_array, to_values
from engine.storage.keys import PREFIX_BYTES, row_number_keys, storage_prefix
from engine.storage.moments import Lsn, lsn_in
from engine.txn.interface import NO_KEY_UPDATE, READ_COMMITTED, UPDATE, LockWait

if TYPE_CHECKING:
    from engine.columnar.generate import ColumnarDml
    from engine.columnar.interface import BatchStream, VirtualContent
    from engine.session.prepared import Prepared
    from engine.session.session import Session
    from engine.txn.statement_view import StatementView
    from engine.txn.transaction import Transaction

SMALL_ROWS = 2_000
SLICE = 250  # rows written one by one in one turn of the event loop


@dataclass(slots=True)
class Done:
    """What a statement did. `returned`: the rows of RETURNING, as DataRow messages."""

    count: int
    returned: RowSpool | None


class Again(Exception):  # noqa: N818 - not an error: the statement starts over
    """A row has changed since the statement's snapshot, or a lock had to be waited for."""


async def execute(
    session: Session,
    prepared: Prepared,
    parameters: Sequence[object],
    formats: tuple[int, ...],
    held: Mapping[Hashable, int],
) -> Done:
    """Runs a statement that has its table locks; `held` are those from before it. Raises what constraints raise,
    40001, 40P01, 55P03, 57014."""
    assert prepared.analyzed is not None and prepared.dml is not None
    statement = prepared.analyzed.statement
    assert not isinstance(statement, tree.Query)
    transaction = session.transaction
    assert transaction is not None
    call = Call(session, transaction, prepared, prepared.dml, parameters, formats, held.get(statement.table.oid, 0))
    return await run(call)


async def run(call: Call) -> Done:
    """`execute` for one that may be part of another statement; such a part raises LockWait and Again."""
    assert call.prepared.analyzed is not None
    statement = call.prepared.analyzed.statement
    if isinstance(statement, tree.Insert):
        return await _Insertion(call, statement).run()
    if isinstance(statement, tree.Merge):
        from engine.session.merge import Merging

        return await Merging(call, statement).run()
    assert isinstance(statement, (tree.Update, tree.Delete))
    return await _Change(call, statement).run()


class Returned(Protocol):
    """Takes what RETURNING gives, for another part of the statement."""

    def add_rows(self, rows: Sequence[Sequence[object]]) -> None:
        """Rows in internal form."""

    def add_batch(self, batch: Any) -> None:
        """Rows as an Arrow batch, its columns in the order of RETURNING."""


@dataclass(frozen=True, slots=True)
class PartOf:
    """What a statement that is part of another one shares with the other parts. `alone`: no other part writes its
    table. `returned` takes what RETURNING gives; None gives it to the client, if it is anybody's."""

    view: StatementView
    checks: Checks
    content: VirtualContent
    alone: bool
    returned: Returned | None


@dataclass(frozen=True, slots=True)
class Call:
    """A statement with what it is called with; `held_before`: the modes of locks on its table from before it."""

    session: Session
    transaction: Transaction
    prepared: Prepared
    dml: ColumnarDml
    parameters: Sequence[object]
    formats: tuple[int, ...]
    held_before: int
    part: PartOf | None = None


class DataChange:
    """What the kinds of statement share."""

    def __init__(self, call: Call, target: tree.Insert | tree.Update | tree.Delete | tree.Merge) -> None:
        session = call.session
        self.session = session
        self.transaction = call.transaction
        self.prepared = call.prepared
        self.dml = call.dml
        self.parameters = call.parameters
        self.formats = call.formats
        self.held_before = call.held_before
        self.table = target.table
        self.encoder = TableEncoder(session.catalog, target.table, session.key.format)
        self.writer = self.encoder.writer
        prepare_writer(self.writer, target)
        self.part = call.part
        self.context = session.context()
        if call.part is not None:
            self.context.checks = call.part.checks
        self.mark = self.transaction.mark()
        self.required = RowCompleter(session, self.writer, (), (), ())  # for NOT NULL
        self.spool: RowSpool | None = None
        self._returning: RowEncoder | None = None
        if call.prepared.fields and (call.part is None or call.part.returned is None):
            self.spool = RowSpool()
            types = [field.type.oid for field in call.prepared.fields]
            self._returning = RowEncoder("datarow", types, call.formats, session.key.format)

    async def stream(self) -> BatchStream:
        """Starts the query on the statement's snapshot."""
        query, part = self.dml.query, self.part
        if part is None:
            self.transaction.begin_statement()
        values = planning.columnar_parameters(self.session, query, self.parameters, self.context)
        reader: Transaction | StatementView = self.transaction if part is None else part.view
        content = self.session.views.content() if part is None else part.content
        return await self.session.node.columnar.batches(
            query, values, reader, content, memory=self.session.query_memory
        )

    async def first_batches(self, stream: BatchStream) -> tuple[list[Any], bool, AsyncIterator[Any]]:
        """Batches until they have more than SMALL_ROWS rows, whether that is all, and the iterator over the rest."""
        batches: list[Any] = []
        rows = 0
        rest = stream.__aiter__()
        async for batch in rest:
            batches.append(batch)
            rows += batch.num_rows  # type: ignore[attr-defined]
            if rows > SMALL_ROWS:
                return batches, False, rest
        return batches, True, rest

    def violation(self, batch: Any, rows: RowSet) -> SqlError | None:
        """The error of the first row that NOT NULL or a CHECK forbids."""
        # Of a row that moves, the partition that it comes to asks for what must not be NULL.
        found = None if self.writer.moving is not None else self.required.violation(rows)
        place = rows.count if found is None else found[0]
        error = None if found is None else found[1]
        for name, index in sorted(self.dml.checks, reverse=True):
            holds = one_array(batch.column(index)).fill_null(True)
            if not pc.all(holds).as_py():
                first = pc.index(holds, False).as_py()
                if first < place or (first == place and error is not None and error.sqlstate == "23514"):
                    place, error = first, self.writer.check_violation(name, rows.row(first))
        return error

    def give_back(self, batch: Any) -> None:
        """The batch's rows of RETURNING."""
        if self.part is not None and self.part.returned is not None:
            self.part.returned.add_batch(batch.select(list(self.dml.returning)))
        elif self.spool is not None and self._returning is not None and batch.num_rows:
            for chunk, rows in self._returning.encode(batch.select(list(self.dml.returning))):
                self.spool.add(chunk, rows)

    async def singly(self, stream: BatchStream, batches: AsyncIterable[Any]) -> int:
        """Writes slice by slice, row by row; the number of rows written. Raises what `attempt` does."""
        count = 0
        checks = Checks() if self.part is None else self.part.checks
        try:
            async for batch in batches:
                for start in range(0, batch.num_rows, SLICE):
                    metered(self.context)  # others have run since the slice before
                    count += self.write_slice(batch.slice(start, SLICE), stream.lsn, checks)
                    if batch.num_rows > SLICE:
                        await asyncio.sleep(0)
            if self.part is None:
                checks.finish()
        except LockWait as wait:
            if self.part is not None:
                raise
            self.transaction.rollback_to(self.mark)
            await self.session.wait_for(wait)
            raise Again from None
        return count

    def write_slice(self, batch: Any, lsn: Lsn, checks: Checks) -> int:
        """Writes the rows of one slice, which the query saw at the LSN; how many. Raises LockWait, Again."""
        raise NotImplementedError

    async def finish_checks(self, checks: Checks) -> None:
        """What is left to check at the statement's end, again from its beginning after each wait."""
        mark, todo = self.transaction.mark(), list(checks)
        while True:
            try:
                checks.finish()
                return
            except LockWait as wait:
                self.transaction.rollback_to(mark)
                checks[:] = todo
                await self.session.wait_for(wait)

    def done(self, count: int) -> Done:
        return Done(count, self.spool)

    async def attempt(self, stream: BatchStream) -> Done:
        """Writes what the query gives. Raises Again; as part of another statement LockWait too."""
        raise NotImplementedError

    async def run(self) -> Done:
        """Runs it, again from the beginning where a row has changed since its snapshot or a lock was waited for."""
        store, session = self.session.node.store, self.session
        if self.part is not None:
            stream = await self.stream()
            try:
                return await self.attempt(stream)
            finally:
                await stream.close()
        while True:
            with store.snapshot():  # from here on the store knows exactly what changes
                stream = await self.stream()
                try:
                    return await self.attempt(stream)
                except Again:
                    self.transaction.rollback_to(self.mark)
                finally:
                    await stream.close()
            if self.spool is not None:
                await self.spool.close()
                self.spool = RowSpool()
            await session.durable(session.node.store.sequenced_lsn)

    def lock_as_seen(self, key: bytes, lsn: Lsn, strength: int) -> None:
        """Locks a row, which must be as the query saw it."""
        transaction = self.transaction
        if strength == NO_KEY_UPDATE:
            transaction.get_to_change(key)
        else:
            transaction.get_locked(key, strength)
        if key in transaction.writes or any(run.get(key) is not None for run in transaction.runs):
            return
        newest = self.session.node.store.newest(key)
        if newest is None or newest[0] > lsn:
            if self.repeatable:
                raise SqlError("40001", "could not serialize access due to concurrent update")
            raise Again

    @property
    def repeatable(self) -> bool:
        return self.transaction.isolation != READ_COMMITTED


async def chained(first: list[Any], rest: AsyncIterator[Any]) -> AsyncIterator[Any]:
    for batch in first:
        yield batch
    async for batch in rest:
        yield batch


# ---- UPDATE and DELETE ----------------------------------------------------------------------------------------------


class _Change(DataChange):
    """One UPDATE or DELETE."""

    def __init__(self, call: Call, statement: tree.Update | tree.Delete) -> None:
        super().__init__(call, statement)
        self.changed = frozenset(number for number, _ in self.dml.new) if isinstance(statement, tree.Update) else None
        self.strength = UPDATE if self.changed is None else NO_KEY_UPDATE
        self._conflicts: Column | None = None

    async def attempt(self, stream: BatchStream) -> Done:
        batches, ended, rest = await self.first_batches(stream)
        if ended or not self._in_bulk():
            return self.done(await self.singly(stream, chained(batches, rest)))
        await lock_for_changes(self.session, self.table, self.held_before)
        await self._see_changes(stream)
        return self.done(await self._bulk(chained(batches, rest)))

    def _in_bulk(self) -> bool:
        """Whether no other row is concerned: no foreign key acts on the change, nor refers within the table, and no
        other part of the statement writes here or may yet write what a foreign key refers to."""
        changed = self.changed
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

    def _old(self, batch: Any) -> tuple[Column, RowSet]:
        """The rows' keys, and the rows as they were."""
        old = RowSet(self.table, batch.num_rows, {number: batch.column(place) for number, place in self.dml.old})
        if self.table.key_columns:
            return self.encoder.keys(old), old
        numbers = one_array(batch.column(self.dml.key[0])).to_numpy(zero_copy_only=False)
        return row_number_keys(self.table.storage_id, numbers), old

    def _new(self, batch: Any, old: RowSet) -> RowSet:
        return old.with_columns({number: batch.column(place) for number, place in self.dml.new})

    # ---- in bulk ----------------------------------------------------------------------------------------------------

    async def _see_changes(self, stream: BatchStream) -> None:
        """With the table locked: what has been written since the query's snapshot counts as changed."""
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
        """In the thread: writes a batch; gives the keys that it now refers to."""
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


# ---- INSERT ---------------------------------------------------------------------------------------------------------


class _Insertion(DataChange):
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
        # The conditions of check options that hold sub-queries: only the query can tell of a row whether it meets them.
        self._computed_checks = {
            name: index for name, index in self.dml.checks if has_sublink(dict(statement.checks)[name])
        }

    async def run(self) -> Done:
        stream = await self.stream()
        try:
            batches, ended, rest = await self.first_batches(stream)
            if ended or not self._in_bulk():
                return self.done(await self._singly(chained(batches, rest)))
            if isinstance(self.writer, PartitionedWriter):
                return self.done(await self._bulk_by_partition(self.writer, chained(batches, rest)))
            return self.done(await self._bulk(chained(batches, rest)))
        finally:
            await stream.close()

    def _in_bulk(self) -> bool:
        if self.part is not None and not (self.part.alone and not self.writer.outgoing):
            return False
        return (
            self.statement.on_conflict is None
            and not self._concerns_itself()
            and (self.dml.complete or not self.prepared.fields)
        )

    def _concerns_itself(self) -> bool:
        if isinstance(self.writer, PartitionedWriter):
            return concerns_itself(self.session.catalog, self.table)
        return references.concerns_itself(self.writer)

    # ---- one by one -------------------------------------------------------------------------------------------------

    def _row_plan(self) -> tuple[Any, list[tuple[int, int]]]:
        """A row plan that inserts one row of parameters, and where their values are: (type OID, index in a batch)."""
        statement, given = self.statement, len(self.prepared.parameter_types)
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
        types = (*self.prepared.parameter_types, *(oid for oid, _ in found))
        assert self.prepared.analyzed is not None
        analyzed = replace(self.prepared.analyzed, statement=one_row, parameter_types=types)
        plan = plan_row(analyzed, self.session.catalog, self.session.key.format)
        if plan is None:
            not_supported("INSERT ... SELECT with a sub-query in its defaults, ON CONFLICT or RETURNING")
        if self.part is not None and self.part.returned is not None:
            return plan.rows, found
        return plan.encoded(self.formats), found

    async def _singly(self, batches: AsyncIterator[Any]) -> int:
        run, places = self._row_plan()
        touched: set[bytes] | None = None
        if self.statement.on_conflict is not None and self.statement.on_conflict.action == "update":
            touched = set() if self.part is None else set(self.part.view.touched)
        count = written = 0
        async for batch in batches:
            self._check_computed(batch)
            columns = [to_values(one_array(batch.column(index)), oid) for oid, index in places]
            rows = zip(*columns, strict=True) if columns else iter([()] * batch.num_rows)
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

    def _check_computed(self, batch: Any) -> None:
        for name, index in self._computed_checks.items():
            holds = one_array(batch.column(index)).fill_null(True)
            if not pc.all(holds).as_py():
                rows = RowSet(self.table, batch.num_rows, {column: batch.column(at) for column, at in self.dml.new})
                raise self.writer.check_violation(name, rows.row(pc.index(holds, False).as_py()))

    async def _insert_one(self, run: Any, values: Sequence[object], touched: set[bytes] | None) -> tuple[Any, int]:
        """Runs the plan for one row, again after each lock that it had to wait for. `touched`: the rows that the
        statement has written; 21000 for one that it meets again."""
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
        bulk = await BulkInsert.open(self.transaction, self.encoder)
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
                for foreign, keys in await repeated(session, store):
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
        """In the thread: writes a batch; gives the keys that it refers to."""
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
