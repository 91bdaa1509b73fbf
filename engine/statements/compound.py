"""Statements of several parts: WITH ... AS (INSERT | UPDATE | DELETE ... RETURNING), and sub-queries that lock rows.

engine/sql/parts.py divides the statement. Each part is planned like a separate statement (on the row path if possible,
otherwise on the columnar path). The parts run one after the other over one `StatementView`, so that each sees the state
at the start of the statement. The result of a part is kept as rows or as Arrow batches, as it came, and converted when
a part on the other path reads it.

Foreign keys are checked when all parts have written. A part that must wait for a lock, or that meets a row which has
changed since, undoes all parts: the statement runs again on a new snapshot with the locks that it has.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Self, TypeVar

import pyarrow as pa

from catalog import types
from catalog.memory import Account, Holding
from catalog.patience import TooLong, too_long
from catalog.schema import VirtualTable
from engine.columnar.interface import RowEncoding, VirtualContent
from engine.columnar.virtual import batch_of
from engine.columnar.worker.values import to_arrow
from engine.execute.context import ExecContext, Field, RowPathFull
from engine.execute.writer import Checks
from engine.sql import tree
from engine.sql.parts import Part, Parts, is_result, reads_a_stage
from engine.statements import dml
from engine.statements.columnar_read import ColumnarRead
from engine.statements.data_change import Again, Call, Done, PartOf
from engine.statements.dml import ColumnarChange
from engine.statements.patient_transaction import patient
from engine.statements.plpgsql import suspend
from engine.statements.row_locks import LockPlan
from engine.statements.rows_plan import ColumnarPath, RowsPlan
from engine.storage.columns import one_array, to_values
from engine.txn.interface import LockWait
from engine.txn.statement_view import StatementView

if TYPE_CHECKING:
    from engine.session.portal import Portal
    from engine.session.session import Session


R = TypeVar("R")
MakePath = Callable[["Session", RowsPlan], ColumnarPath]


@dataclass(frozen=True, slots=True)
class PlannedPart:
    """A part with its plan. `alone`: no other part writes its table."""

    part: Part
    plan: RowsPlan
    alone: bool
    locks: LockPlan | None
    make_path: MakePath


class CompoundPath:
    """See `ColumnarPath` of rows_plan.py. The parts are in the order of their execution; `main` is the index of the
    main statement, `counted` are the parts whose rows the statement's tag counts, if not only the main one. `make_path`
    makes the columnar path of a part."""

    def __init__(
        self,
        session: Session,
        whole: RowsPlan,
        parts: Parts,
        make_part: Callable[[Session, RowsPlan, tree.Statement], RowsPlan],
        make_path: MakePath,
    ) -> None:
        """Plans the parts of a statement. Raises errors of their planning."""
        ordered = (*parts.before, parts.main, *parts.after)
        written = Counter(
            part.statement.table.oid for part in ordered if not isinstance(part.statement, tree.Query)
        )  # fmt: skip
        moves = any(isinstance(part.statement, tree.Update) and part.statement.root is not None for part in ordered)
        found = []
        for part in ordered:
            statement = part.statement
            alone = isinstance(statement, tree.Query) or (written[statement.table.oid] == 1 and not moves)
            plan = make_part(session, whole, statement)
            locks = None
            if part.locks is not None and part.result is not None:
                locks = LockPlan(part.locks, part.result, whole.catalog)
            found.append(PlannedPart(part, plan, alone, locks, make_path))
        self.parts = tuple(found)
        self.main = len(parts.before)
        self.counted = range(*parts.counted) if parts.counted else None
        self.may_last = any(
            isinstance(part.statement, tree.Query) and reads_a_stage(part.statement) for part in ordered
        )

    def with_constants(self, parameters: Sequence[object]) -> Self:
        return self

    def compute_in_worker(self) -> None:
        raise too_long() from None

    async def begin(self, session: Session, portal: Portal, held: Mapping[Hashable, int]) -> None:
        """Runs a portal's statement, which has its table locks, up to the rows of its main statement. Raises errors of
        constraints, 40001, 40P01, 55P03, 57014."""
        transaction = session.transaction
        assert transaction is not None
        notices = len(session.notices)
        changed, dropped = dict(transaction.changed_objects), len(transaction.dropped_storage)
        while True:
            view = StatementView(transaction)
            around, session.statement_view = session.statement_view, view
            try:
                await self.execute(Execution(session, portal, self, view, held))
                return
            except LockWait as wait:
                view.undo()
                await session.wait_for(wait)
            except Again:
                view.undo()
                await session.durable(session.node.store.sequenced_lsn)
            finally:
                session.statement_view = around
                view.close()
            if transaction.changed_objects != changed:  # by functions that it calls
                transaction.changed_objects, transaction.catalog = dict(changed), None
                del transaction.dropped_storage[dropped:]
            del session.notices[notices:]
            if portal.stream is not None:
                await portal.stream.close()
                portal.stream = None
            portal.pending, portal.pending_rows = b"", 0

    async def execute(self, execution: Execution) -> None:
        """One attempt."""
        await execution.run()

    def explain(self, command: str, verbose: bool) -> list[str]:
        """The main statement's plan, then the others."""
        return list(self.describe(lambda plan: describe(plan, verbose)))

    def describe(self, describe_part: Callable[[RowsPlan], list[str]]) -> Iterator[str]:
        yield from describe_part(self.parts[self.main].plan)
        for number, planned in enumerate(self.parts):
            if number != self.main:
                yield "  LockRows" if planned.locks is not None else f"  CTE {planned.part.name}"
                yield from (f"    {line}" for line in describe_part(planned.plan))


def describe(plan: RowsPlan, verbose: bool) -> list[str]:
    """The lines of EXPLAIN of a plan."""
    if plan.at_once:
        assert plan.row is not None
        return plan.row.explain()
    assert plan.columnar is not None
    return plan.columnar.explain(plan.command, verbose)


# ---- results of parts -----------------------------------------------------------------------------------------------


def rows_of(batch: Any, columns: Sequence[Field]) -> Sequence[Sequence[object]]:
    """The rows of an Arrow batch in internal form."""
    values = [
        to_values(one_array(column), field.type.oid) for column, field in zip(batch.columns, columns, strict=True)
    ]
    return list(zip(*values, strict=True)) if values else [()] * batch.num_rows


class Result:
    """The rows of a part's RETURNING, which count as memory of the connection."""

    def __init__(self, columns: Sequence[Field], account: Account) -> None:
        self._holding = Holding(account)
        self._row_bytes = 64 + 64 * len(columns)
        self._columns = columns
        self._rows: list[Sequence[object]] = []
        self._batches: list[Any] = []
        self._joined: Any = None

    @property
    def is_in_batches(self) -> bool:
        return bool(self._batches)

    def add_rows(self, rows: Sequence[Sequence[object]]) -> None:
        """Raises 53200."""
        self._holding.add(len(rows) * self._row_bytes)
        self._rows.extend(rows)

    def add_batch(self, batch: Any) -> None:
        """Raises 53200."""
        self._holding.add(batch.nbytes)
        self._batches.append(batch)

    def rows(self) -> list[Sequence[object]]:
        """All rows in internal form. Raises 53200."""
        for batch in self._batches:
            self._holding.add(batch.num_rows * self._row_bytes)
            self._rows.extend(rows_of(batch, self._columns))
        self._batches = []
        return self._rows

    def batch(self, table: VirtualTable) -> Any:
        """All rows as the content of a virtual table."""
        if self._joined is None:
            if self._rows:
                self._joined = batch_of(table, [list(column) for column in zip(*self.rows(), strict=True)])
            else:
                self._joined = self._of_batches(table)
        return self._joined

    def _of_batches(self, table: VirtualTable) -> Any:
        """The batches as one, in the forms of the virtual table; other forms are converted value by value."""
        arrays = []
        for place, column in enumerate(table.columns):
            oid, form = column.type.oid, types.lookup(column.type.oid).duckdb_type(column.type.typmod)
            empty = to_arrow([], oid, form)
            parts = [one_array(batch.column(place)) for batch in self._batches]
            parts = [item if item.type == empty.type else to_arrow(to_values(item, oid), oid, form) for item in parts]
            arrays.append(pa.concat_arrays(parts) if parts else empty)
        return pa.RecordBatch.from_arrays(arrays, names=[f"c{column.number}" for column in table.columns])


# ---- running --------------------------------------------------------------------------------------------------------


class Execution:
    """One attempt. `results`: the rows of parts by the OID of their virtual table."""

    def __init__(
        self,
        session: Session,
        portal: Portal,
        path: CompoundPath,
        view: StatementView,
        held: Mapping[Hashable, int],
    ) -> None:
        self.session = session
        self.portal = portal
        self.path = path
        self.view = view
        self.held = held
        self.checks = Checks(late=True)
        self.results: dict[int, Result] = {}
        self.counts: list[int] = []
        catalog = session.catalog
        self.fires = bool(catalog.triggering or catalog.routines or path.may_last)  # then a part may have to wait
        self.context = self._context()

    def _context(self) -> ExecContext:
        context = self.session.context()
        context.reader = context.transaction = self.view
        if self.fires:
            context.transaction = patient(self.session, self.view)
        context.checks = self.checks
        context.stays = True
        return context

    async def run_before(self) -> None:
        """Runs the parts that the main statement needs, for a caller who goes on himself."""
        for planned in self.path.parts[: self.path.main]:
            await self._run_part(planned, self._result_of(planned))

    async def run_main(self) -> None:
        """Runs the main statement."""
        await self._run_main(self.path.parts[self.path.main])

    async def run(self) -> None:
        """Runs all parts, and the checks at the end."""
        for number, planned in enumerate(self.path.parts):
            if number == self.path.main:
                await self._run_main(planned)
                self.counts.append(self.portal.count)
            else:
                self.counts.append(await self._run_part(planned, self._result_of(planned)))
        if self.path.counted is not None:
            self.portal.count = sum(self.counts[place] for place in self.path.counted)
        self.view.end_parts()
        await self._run_at_once(self._finish)

    def _finish(self) -> None:
        if self.fires:
            self.session.routines.triggers.running.end_rows(self.context, self.checks)
        self.checks.finish()

    async def _run_at_once(self, function: Callable[[], R]) -> R:
        """Runs a function that waits for nothing, or (where triggers may fire) in a greenlet, so that it may."""
        return await suspend.run(function) if self.fires else function()

    def _result_of(self, planned: PlannedPart) -> Result:
        """Where the rows of a part go; several parts may add rows to one result."""
        columns = planned.plan.columns
        fields = columns.fields if columns is not None else ()
        table = planned.part.result
        if table is None:
            return Result(fields, self.session.memory)
        if table.oid not in self.results:
            self.results[table.oid] = Result(fields[: len(table.columns)], self.session.memory)
        return self.results[table.oid]

    async def _run_part(self, planned: PlannedPart, result: Result) -> int:
        """Runs a part; returns the number of rows that it has changed or returned."""
        self.view.begin_part(not planned.alone)
        plan = planned.plan
        locker = None if planned.locks is None else planned.locks.begin(self.session, self.context, self.view)
        if plan.row is not None and plan.columnar is None:
            try:
                self.context.results = _Rows(self.results)
                run = partial(plan.row.rows, self.context, self.portal.parameters)
                rows, count = await self._run_at_once(run)
                result.add_rows(rows if locker is None else await locker.lock(rows))
                return count
            except RowPathFull:
                planned.make_path(self.session, plan)
        if isinstance(plan.columnar, ColumnarChange):
            return (await self._change(planned, plan.columnar, result)).count
        if isinstance(plan.columnar, CompoundPath):
            return await self._run_within(plan.columnar, result)
        assert isinstance(plan.columnar, ColumnarRead)
        inner = plan.columnar.in_internal_form()
        query, values = plan.columnar.call(self.portal.parameters, self.context, inner)
        stream = await self.session.node.columnar.batches(
            query, values, self.view, self._content(), memory=self.session.query_memory
        )
        try:
            count = 0
            async for batch in stream:
                count += batch.num_rows  # type: ignore[attr-defined]
                if locker is None:
                    result.add_batch(batch)
                    continue
                assert plan.columns is not None
                result.add_rows(await locker.lock(rows_of(batch, plan.columns.fields)))
                if locker.done:
                    break
        finally:
            await stream.close()
        return count

    async def _run_within(self, path: CompoundPath, result: Result | None) -> int:
        """Runs a part that consists of parts; its rows go to the client if there is no `result`."""
        count = 0
        for number, planned in enumerate(path.parts):
            if number != path.main:
                await self._run_part(planned, self._result_of(planned))
            elif result is None:
                await self._run_main(planned)
            else:
                count = await self._run_part(planned, result)
        for planned in path.parts:
            if planned.part.result is not None:
                del self.results[planned.part.result.oid]
        return count

    async def _run_main(self, planned: PlannedPart) -> None:
        portal, plan = self.portal, planned.plan
        self.view.begin_part(not planned.alone)
        if plan.row is not None and plan.columnar is None:
            try:
                self.context.results = _Rows(self.results)
                run = partial(plan.row_function(portal.formats), self.context, portal.parameters)
                data, count = await self._run_at_once(run)
            except RowPathFull:
                planned.make_path(self.session, plan)
            else:
                portal.pending, portal.pending_rows = data, count if plan.columns is not None else 0
                portal.count = 0 if plan.command == "SELECT" else count
                return
        if isinstance(plan.columnar, ColumnarChange):
            done = await self._change(planned, plan.columnar, None)
            portal.count = done.count
            if done.returned is not None:
                portal.stream = done.returned
                portal.chunks = done.returned.__aiter__()
            return
        if isinstance(plan.columnar, CompoundPath):
            await self._run_within(plan.columnar, None)
            return
        assert isinstance(plan.columnar, ColumnarRead)
        query, values = plan.columnar.call(portal.parameters, self.context, portal.formats)
        encoding = RowEncoding("datarow", portal.formats, self.session.key.format)
        stream = await self.session.node.columnar.rows(
            query, values, self.view, encoding, self._content(), memory=self.session.query_memory
        )
        portal.count = 0
        portal.stream = stream
        portal.chunks = stream.__aiter__()

    async def _change(self, planned: PlannedPart, change: ColumnarChange, result: Result | None) -> Done:
        session, columns = self.session, planned.plan.columns
        assert session.transaction is not None
        statement = change.analyzed.statement
        assert not isinstance(statement, tree.Query)
        part = PartOf(self.view, self.checks, self._content(), planned.alone, result)
        formats = self.portal.formats if result is None else () if columns is None else columns.text_formats
        held_before = self.held.get(statement.table.oid, 0)
        while True:
            call = Call(
                session, session.transaction, change, columns, self.portal.parameters, formats, held_before, part
            )
            try:
                return await dml.run(call)
            except TooLong:  # before it has begun to write
                change.compute_in_worker()

    def _content(self) -> VirtualContent:
        """The content of virtual tables: results of parts, and those of the session."""
        others = self.session.views.content()

        def provide(relation: VirtualTable, reader: object) -> tuple[object, object]:
            if is_result(relation):
                return None, self.results[relation.oid].batch(relation)
            return others(relation, reader)

        return provide


class _Rows(Mapping[int, Sequence[Sequence[object]]]):
    """The results by their OIDs as rows in internal form, made at their first use."""

    def __init__(self, results: Mapping[int, Result]) -> None:
        self._results = results

    def __getitem__(self, oid: int) -> Sequence[Sequence[object]]:
        return self._results[oid].rows()

    def __iter__(self) -> Iterator[int]:
        return iter(self._results)

    def __len__(self) -> int:
        return len(self._results)
