"""Statements of several parts: WITH ... AS (INSERT | UPDATE | DELETE ... RETURNING), and sub-queries that lock rows.

engine/sql/parts.py takes the statement apart; here each part is planned like a statement of its own (row path where it
fits, else the columnar path), and they run one after the other over one `StatementView`, so that each sees what was
there when the statement began. What a part returns is kept as rows or as Arrow batches, whichever it came as, and is
turned into the other when a part of the other path reads it.

Foreign keys are checked when all parts have written. A part that must wait for a lock, or that meets a row which has
changed since, undoes all parts: the statement runs again on a new snapshot with the locks that it has.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from catalog import types
from catalog.memory import Account, Holding
from catalog.patience import TooLong
from catalog.schema import VirtualTable
from engine.columnar.interface import RowEncoding, VirtualContent
from engine.columnar.virtual import batch_of
from engine.columnar.worker.values import to_arrow
from engine.execute.context import ExecContext, Field, RowPathFull
from engine.execute.planner import plan_row
from engine.execute.writer import Checks
from engine.session import dml, planning
from engine.session.prepared import Portal, Prepared
from engine.sql import tree
from engine.sql.parts import Part, Parts, is_result
from engine.storage.columns import one_array, to_values
from engine.txn.interface import LockWait
from engine.txn.statement_view import StatementView

if TYPE_CHECKING:
    from engine.session.session import Session


@dataclass(frozen=True, slots=True)
class PlannedPart:
    """A part with its plan. `alone`: no other part writes its table."""

    part: Part
    prepared: Prepared
    alone: bool


@dataclass(frozen=True, slots=True)
class CompoundPlan:
    """The parts in the order in which they run; `main` is the place of the main statement."""

    parts: tuple[PlannedPart, ...]
    main: int
    counted: range | None = None  # the parts whose rows the statement's tag counts, where it is not the main one alone

    def describe(self, describe: Any) -> Iterator[str]:
        """Lines for EXPLAIN: the main statement's plan, then the others."""
        yield from describe(self.parts[self.main].prepared)
        for number, planned in enumerate(self.parts):
            if number != self.main:
                yield f"  CTE {planned.part.name}"
                yield from (f"    {line}" for line in describe(planned.prepared))


def plan(session: Session, whole: Prepared, parts: Parts) -> CompoundPlan:
    """Plans the parts of a statement. Raises what their planning raises."""
    ordered = (*parts.before, parts.main, *parts.after)
    written = Counter(
        part.statement.table.oid for part in ordered if not isinstance(part.statement, tree.Query)
    )  # fmt: skip
    moves = any(isinstance(part.statement, tree.Update) and part.statement.root is not None for part in ordered)
    found = []
    for part in ordered:
        statement = part.statement
        alone = isinstance(statement, tree.Query) or (written[statement.table.oid] == 1 and not moves)
        found.append(PlannedPart(part, _prepare(session, whole, statement), alone))
    return CompoundPlan(tuple(found), len(parts.before), range(*parts.counted) if parts.counted else None)


def _prepare(session: Session, whole: Prepared, statement: tree.Statement) -> Prepared:
    assert whole.analyzed is not None
    analyzed = replace(whole.analyzed, statement=statement)
    returned = statement.output if isinstance(statement, tree.Query) else statement.returning
    fields = tuple(
        Field(target.name, target.expression.type, target.origin_table, target.origin_column) for target in returned
    )
    prepared = Prepared(
        "row",
        whole.statement,
        whole.parameter_types,
        fields if fields or isinstance(statement, tree.Query) else None,
        whole.catalog,
        whole.key,
        command=planning.COMMANDS[type(statement)],
        writes=True,
        relations=whole.relations,
        written=whole.written,
        analyzed=analyzed,
    )
    prepared.row = plan_row(analyzed, whole.catalog, whole.key.format)
    if prepared.row is None:
        planning.columnar_of(session, prepared)
    elif whole.key.path == "columnar":
        planning.move_to_columnar(session, prepared)
    return prepared


# ---- what parts return ----------------------------------------------------------------------------------------------


class Result:
    """The rows that a part has returned, which count as what the connection holds."""

    def __init__(self, columns: Sequence[Field], account: Account) -> None:
        self._holding = Holding(account)
        self._row_bytes = 64 + 64 * len(columns)
        self._types = [column.type for column in columns]
        self._rows: list[Sequence[object]] = []
        self._batches: list[Any] = []
        self._joined: Any = None

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
            columns = [
                to_values(one_array(column), type_.oid)
                for column, type_ in zip(batch.columns, self._types, strict=True)
            ]
            self._rows.extend(zip(*columns, strict=True) if columns else [()] * batch.num_rows)
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
        """The batches as one, in the forms that the virtual table has; what came in another goes by its values."""
        arrays = []
        for place, column in enumerate(table.columns):
            oid, form = column.type.oid, types.lookup(column.type.oid).duckdb_type(column.type.typmod)
            empty = to_arrow([], oid, form)
            parts = [one_array(batch.column(place)) for batch in self._batches]
            parts = [item if item.type == empty.type else to_arrow(to_values(item, oid), oid, form) for item in parts]
            arrays.append(pa.concat_arrays(parts) if parts else empty)
        return pa.RecordBatch.from_arrays(arrays, names=[f"c{column.number}" for column in table.columns])


# ---- running --------------------------------------------------------------------------------------------------------


async def execute(session: Session, portal: Portal, held: Mapping[Hashable, int]) -> None:
    """Runs a portal's statement, which has its table locks, up to the rows of its main statement. Raises what
    constraints raise, 40001, 40P01, 55P03, 57014."""
    transaction = session.transaction
    assert transaction is not None
    while True:
        view = StatementView(transaction)
        try:
            await _Execution(session, portal, view, held).run()
            return
        except LockWait as wait:
            view.undo()
            await session.wait_for(wait)
        except dml.Again:
            view.undo()
            await session.durable(session.node.store.sequenced_lsn)
        finally:
            view.close()
        if portal.stream is not None:
            await portal.stream.close()
            portal.stream = None
        portal.pending, portal.pending_rows = b"", 0


class _Execution:
    """One attempt."""

    def __init__(self, session: Session, portal: Portal, view: StatementView, held: Mapping[Hashable, int]) -> None:
        assert portal.prepared.compound is not None
        self.session = session
        self.portal = portal
        self.plan = portal.prepared.compound
        self.view = view
        self.held = held
        self.checks = Checks(late=True)
        self.results: dict[int, Result] = {}
        self.counts: list[int] = []
        self.context = self._context()

    def _context(self) -> ExecContext:
        context = self.session.context()
        context.reader = context.transaction = self.view
        context.checks = self.checks
        context.stays = True
        return context

    async def run(self) -> None:
        for number, planned in enumerate(self.plan.parts):
            if number == self.plan.main:
                await self._run_main(planned)
                self.counts.append(self.portal.count)
            else:
                self.counts.append(await self._run_part(planned))
        if self.plan.counted is not None:
            self.portal.count = sum(self.counts[place] for place in self.plan.counted)
        self.view.end_parts()
        self.checks.finish()

    async def _run_part(self, planned: PlannedPart) -> int:
        """Runs a part; the number of rows that it has changed or given."""
        result = Result(planned.prepared.fields or (), self.session.memory)
        if planned.part.result is not None:  # which several parts may give rows to
            result = self.results.setdefault(planned.part.result.oid, result)
        self.view.begin_part(not planned.alone)
        prepared = planned.prepared
        if prepared.row is not None and prepared.columnar is None and prepared.dml is None:
            try:
                self.context.results = _Rows(self.results)
                rows, count = prepared.row.rows(self.context, self.portal.parameters)
                result.add_rows(rows)
                return count
            except RowPathFull:
                planning.columnar_of(self.session, prepared)
        if prepared.dml is not None:
            return (await self._change(planned, result)).count
        query, values = planning.columnar_call(self.session, prepared, self.portal.parameters, self.context)
        stream = await self.session.node.columnar.batches(
            query, values, self.view, self._content(), memory=self.session.query_memory
        )
        try:
            count = 0
            async for batch in stream:
                result.add_batch(batch)
                count += batch.num_rows  # type: ignore[attr-defined]
        finally:
            await stream.close()
        return count

    async def _run_main(self, planned: PlannedPart) -> None:
        portal, prepared = self.portal, planned.prepared
        self.view.begin_part(not planned.alone)
        if prepared.row is not None and prepared.columnar is None and prepared.dml is None:
            try:
                self.context.results = _Rows(self.results)
                data, count = prepared.run_row(portal.formats)(self.context, portal.parameters)
            except RowPathFull:
                planning.columnar_of(self.session, prepared)
            else:
                portal.pending, portal.pending_rows = data, count if prepared.fields is not None else 0
                portal.count = 0 if prepared.command == "SELECT" else count
                return
        if prepared.dml is not None:
            done = await self._change(planned, None)
            portal.count = done.count
            if done.returned is not None:
                portal.stream = done.returned
                portal.chunks = done.returned.__aiter__()
            return
        query, values = planning.columnar_call(self.session, prepared, portal.parameters, self.context, portal.formats)
        encoding = RowEncoding("datarow", portal.formats, self.session.key.format)
        stream = await self.session.node.columnar.rows(
            query, values, self.view, encoding, self._content(), memory=self.session.query_memory
        )
        portal.count = 0
        portal.stream = stream
        portal.chunks = stream.__aiter__()

    async def _change(self, planned: PlannedPart, result: Result | None) -> dml.Done:
        prepared, session = planned.prepared, self.session
        assert prepared.analyzed is not None and prepared.dml is not None and session.transaction is not None
        statement = prepared.analyzed.statement
        assert not isinstance(statement, tree.Query)
        part = dml.PartOf(self.view, self.checks, self._content(), planned.alone, result)
        while True:
            call = dml.Call(
                session,
                session.transaction,
                prepared,
                prepared.dml,
                self.portal.parameters,
                self.portal.formats if result is None else prepared.text_formats,
                self.held.get(statement.table.oid, 0),
                part,
            )
            try:
                return await dml.run(call)
            except TooLong:  # before it has begun to write
                planning.compute_in_worker(session, prepared)

    def _content(self) -> VirtualContent:
        """The content of virtual tables: results of parts, and what the session has."""
        others = self.session.views.content()

        def provide(relation: VirtualTable, reader: object) -> tuple[object, object]:
            if is_result(relation):
                return None, self.results[relation.oid].batch(relation)
            return others(relation, reader)

        return provide


class _Rows(Mapping[int, Sequence[Sequence[object]]]):
    """The results by their OIDs as rows in internal form, made when they are asked for."""

    def __init__(self, results: Mapping[int, Result]) -> None:
        self._results = results

    def __getitem__(self, oid: int) -> Sequence[Sequence[object]]:
        return self._results[oid].rows()

    def __iter__(self) -> Iterator[int]:
        return iter(self._results)

    def __len__(self) -> int:
        return len(self._results)
