"""INSERT ... SELECT, UPDATE, DELETE and MERGE whose rows the columnar path computes (engine/columnar/generate/dml.py):
the common part. update.py, insert.py and merge.py have the kinds, dml.py runs them.

    up to SMALL_ROWS   one by one like on the row path, with a lock on each row
    more               in whole columns into bulk runs, under a table lock (engine/bulk)
    more, with ON CONFLICT or foreign keys that act on other rows: one by one, for any number

The rows were computed on a snapshot. Before UPDATE and DELETE write one, they lock it and check whether it has changed
since: then READ COMMITTED runs the whole statement again on a new snapshot, with the locks that it has, and REPEATABLE
READ raises 40001.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterable, AsyncIterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import pyarrow.compute as pc

from catalog.errors import SqlError
from engine.bulk.complete import RowCompleter
from engine.bulk.encode import TableEncoder
from engine.bulk.rows import RowSet
from engine.bulk.spool import RowSpool
from engine.columnar.datarow import RowEncoder
from engine.execute.context import begin_meter
from engine.execute.writer import Checks
from engine.partitions.partition_writer import prepare_writer
from engine.sql import tree
from engine.statements.columnar_path import parameter_values
from engine.storage.columns import one_array
from engine.storage.moments import Lsn
from engine.txn.interface import NO_KEY_UPDATE, READ_COMMITTED, LockWait

if TYPE_CHECKING:
    from engine.columnar.generate import ColumnarDml
    from engine.columnar.interface import BatchStream, VirtualContent
    from engine.session.plan import ResultColumns
    from engine.session.session import Session
    from engine.txn.statement_view import StatementView
    from engine.txn.transaction import Transaction

SMALL_ROWS = 2_000
SLICE = 250  # rows written one by one in one turn of the event loop


@dataclass(slots=True)
class Done:
    """The result of a statement. `returned`: the rows of RETURNING, as DataRow messages."""

    count: int
    returned: RowSpool | None


class Again(Exception):  # noqa: N818 - not an error: the statement starts over
    """A row has changed since the statement's snapshot, or the statement has waited for a lock."""


class Returned(Protocol):
    """Receives the rows of RETURNING, for another part of the statement."""

    def add_rows(self, rows: Sequence[Sequence[object]]) -> None:
        """Rows in internal form."""

    def add_batch(self, batch: Any) -> None:
        """Rows as an Arrow batch, its columns in the order of RETURNING."""


@dataclass(frozen=True, slots=True)
class PartOf:
    """The shared state of the parts of a statement. `alone`: no other part writes its table. `returned` receives the
    rows of RETURNING; None sends them to the client, if it wants them."""

    view: StatementView
    checks: Checks
    content: VirtualContent
    alone: bool
    returned: Returned | None


class PlannedChange(Protocol):
    """The planned change (dml.py)."""

    @property
    def analyzed(self) -> tree.Analyzed: ...
    @property
    def dml(self) -> ColumnarDml: ...


@dataclass(frozen=True, slots=True)
class Call:
    """A call of a statement; `held_before`: the modes of locks on its table from before it."""

    session: Session
    transaction: Transaction
    change: PlannedChange
    columns: ResultColumns | None
    parameters: Sequence[object]
    formats: tuple[int, ...]
    held_before: int
    part: PartOf | None = None


class DataChange:
    """The common part of the kinds of statement."""

    def __init__(self, call: Call, target: tree.Insert | tree.Update | tree.Delete | tree.Merge) -> None:
        session = call.session
        self.session = session
        self.transaction = call.transaction
        self.analyzed = call.change.analyzed
        self.dml = call.change.dml
        self.columns = call.columns
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
        if call.columns is not None and (call.part is None or call.part.returned is None):
            self.spool = RowSpool()
            types = [field.type.oid for field in call.columns.fields]
            self._returning = RowEncoder("datarow", types, call.formats, session.key.format)

    async def stream(self) -> BatchStream:
        """Starts the query on the statement's snapshot."""
        query, part = self.dml.query, self.part
        if part is None:
            self.transaction.begin_statement()
        values = parameter_values(query, self.parameters, self.context)
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
        # The new partition of a moved row checks its own NOT NULL columns.
        found = None if self.writer.moving is not None else self.required.violation(rows)
        place = rows.count if found is None else found[0]
        error = None if found is None else found[1]
        for name, index in sorted(self.dml.checks, reverse=True):
            holds = one_array(batch.column(index)).fill_null(True)
            if not pc.all(holds).as_py():
                first = pc.index(holds, False).as_py()
                before_null = name.startswith(tree.POLICY_CHECK) or (error is not None and error.sqlstate == "23514")
                if first < place or (first == place and before_null):
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
        """Writes slice by slice, row by row; returns the number of rows. Raises the errors of `attempt`."""
        count = 0
        checks = Checks() if self.part is None else self.part.checks
        try:
            async for batch in batches:
                for start in range(0, batch.num_rows, SLICE):
                    begin_meter(self.context)  # others have run since the previous slice
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
        """Writes the rows of one slice, which the query saw at the LSN; returns their number. Raises LockWait,
        Again."""
        raise NotImplementedError

    async def finish_checks(self, checks: Checks) -> None:
        """Runs the remaining checks at the statement's end, again from the beginning after each wait."""
        mark, todo = self.transaction.mark(), list(checks)
        while True:
            try:
                checks.finish()
                return
            except LockWait as wait:
                self.transaction.rollback_to(mark)
                checks[:] = todo
                await self.session.wait_for(wait)

    def finish(self, count: int) -> Done:
        return Done(count, self.spool)

    async def attempt(self, stream: BatchStream) -> Done:
        """Writes the rows of the query. Raises Again; as part of another statement LockWait too."""
        raise NotImplementedError

    async def run(self) -> Done:
        """Runs it, again from the beginning if a row has changed since its snapshot or a lock was waited for."""
        store, session = self.session.node.store, self.session
        if self.part is not None:
            stream = await self.stream()
            try:
                return await self.attempt(stream)
            finally:
                await stream.close()
        while True:
            with store.snapshot():  # from here on the store records all changes
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
        """Locks a row, which must be unchanged since the query."""
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


async def chain_rows(first: list[Any], rest: AsyncIterator[Any]) -> AsyncIterator[Any]:
    for batch in first:
        yield batch
    async for batch in rest:
        yield batch
