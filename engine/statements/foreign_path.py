"""The path of statements over foreign tables.

What the statement needs of each foreign table is fetched before it runs (engine/foreign/scans.py), through a cursor of
fetch_size rows, while other sessions run. The rows are the results of parts, as in statements of several parts
(compound.py), so the rest runs on the row path or on the columnar path. Few rows stay rows. More become Arrow batches,
piece by piece, and then the columnar path runs the statement.

A change of a foreign table is a query and a loop: the query has the remote ctid and the new values of each row, and for
each of its rows a statement is sent. RETURNING is a query over the rows that those statements return.

    UPDATE f SET b = b + 1 WHERE a > 1 RETURNING a
    SELECT ctid, b + 1 FROM <SELECT a, b, ctid FROM s.f WHERE ((a > 1)) FOR UPDATE>
    UPDATE s.f SET b = $2 WHERE ctid = $1 RETURNING a            for each row
    SELECT a FROM <the returned rows>
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from catalog.errors import SqlError
from catalog.schema import VirtualTable
from catalog.types import lookup
from engine.columnar.worker.values import to_arrow
from engine.execute.context import Field
from engine.foreground import aside
from engine.foreign import changes
from engine.foreign.connections import ForeignConnections
from engine.foreign.interface import Answer, Row
from engine.foreign.remote_sql import value_text
from engine.foreign.scans import Scan, take_scans
from engine.sql import tree
from engine.sql.parts import Part, Parts
from engine.statements.compound import CompoundPath, Execution, MakePath, Result, describe

if TYPE_CHECKING:
    from engine.session.session import Session
    from engine.statements.rows_plan import RowsPlan

MOST_ROWS = 2_000
"""So many fetched rows stay rows; more become columns."""

_SHORT = 16 << 10  # bytes of rows that are read at once
MakePart = Callable[["Session", "RowsPlan", tree.Statement], "RowsPlan"]


class ForeignPath(CompoundPath):
    """See `ColumnarPath` of rows_plan.py."""

    def __init__(
        self,
        session: Session,
        whole: RowsPlan,
        make_part: MakePart,
        make_path: MakePath,
        change: changes.RemoteChange | None,
    ) -> None:
        """Plans a statement. Raises 55000 for a wrapper without a handler, 0A000, and errors of planning."""
        root = whole.analyzed.statement if change is None else change.source
        statement, self._scans = take_scans(root, whole.catalog)
        before: tuple[Part, ...] = ()
        if change is not None:
            before = (Part("", statement, change.rows),)
            statement = change.returning
        super().__init__(session, whole, Parts(before, Part("", statement), ()), make_part, make_path)
        self._change = change

    async def execute(self, execution: Execution) -> None:
        """One attempt. A second one fetches the same rows, because the remote transaction has one snapshot."""
        session = execution.session
        for scan in self._scans:
            execution.results[scan.result.oid] = result = await _fetch(session, scan, execution.portal.parameters)
            if result.is_in_batches:
                await aside(result.batch, scan.result)
        if any(result.is_in_batches for result in execution.results.values()):
            for planned in self.parts:
                if planned.plan.row is not None and planned.plan.columnar is None:
                    with suppress(SqlError):  # it has no columnar path
                        planned.make_path(session, planned.plan)
        if self._change is None:
            await execution.run()
            return
        await execution.run_before()
        rows = execution.results[self._change.rows.oid].rows()
        count, returned = await changes.run(_connections(session), _user(session), self._change, rows)
        if self._change.returned.columns:
            result = Result(_fields(self._change.returned), session.memory)
            execution.results[self._change.returned.oid] = result
            result.add_rows(returned)
            await execution.run_main()
        execution.portal.count = count

    def explain(self, command: str, verbose: bool) -> list[str]:
        planned = self.parts[0].plan if self._change is not None else self.parts[self.main].plan
        return [*describe(planned, verbose), *self._describe_remote(verbose)]

    def _describe_remote(self, verbose: bool) -> list[str]:
        found = []
        if self._change is not None:
            found.append(f"  {self._change.command.title()} on {self._change.shown}")
            found += [f"    Remote SQL: {self._change.sql}"] if verbose else []
        for scan in self._scans:
            found.append(f"  Foreign Scan on {scan.shown}")
            found += [f"    Remote SQL: {scan.sql}"] if verbose else []
        return found


def _connections(session: Session) -> ForeignConnections:
    if session.foreign is None:
        session.foreign = ForeignConnections(session)
    return session.foreign


def _user(session: Session) -> int:
    """The OID of the current user."""
    return 0 if session.user is None else session.user.oid


def _fields(table: VirtualTable) -> tuple[Field, ...]:
    return tuple(Field(column.name, column.type) for column in table.columns)


# ---- fetching -------------------------------------------------------------------------------------------------------


class _Rows:
    """The rows of a scan while they arrive."""

    def __init__(self, scan: Scan, result: Result) -> None:
        self._scan = scan
        self._result = result
        columns = scan.result.columns
        self._decoders = [lookup(column.type.oid).text_decoder(typmod=column.type.typmod) for column in columns]
        self._kept: list[tuple[object, ...]] = []

    async def take(self, answer: Answer) -> int:
        """Adds the rows of an answer; returns their number. Many are read in a thread."""
        rows = await aside(self._read, answer) if answer.size > _SHORT else self._read(answer)
        self._kept += rows
        if len(self._kept) > MOST_ROWS:
            await self._make_batches()
        return len(rows)

    async def finish(self) -> None:
        if self._result.is_in_batches and self._kept:
            await self._make_batches()
        elif self._kept:
            self._result.add_rows(self._kept)

    async def _make_batches(self) -> None:
        kept, self._kept = self._kept, []
        self._result.add_batch(await aside(self._batch, kept))

    def _batch(self, rows: Sequence[tuple[object, ...]]) -> Any:
        columns, arrays = self._scan.result.columns, []
        for column, values in zip(columns, zip(*rows, strict=True), strict=True):
            form = lookup(column.type.oid).duckdb_type(column.type.typmod)
            arrays.append(to_arrow(values, column.type.oid, form))
        return pa.RecordBatch.from_arrays(arrays, names=[f"c{column.number}" for column in columns])

    def _read(self, answer: Answer) -> list[tuple[object, ...]]:
        return [self._decode(row) for row in answer.rows()]

    def _decode(self, row: Row) -> tuple[object, ...]:
        values = []
        for place, (decode, value) in enumerate(zip(self._decoders, row, strict=True)):
            try:
                values.append(None if value is None else decode(value.decode()))
            except SqlError as error:
                column = self._scan.columns[place].name if place < len(self._scan.columns) else "ctid"
                context = f'column "{column}" of foreign table "{self._scan.table.name}"'
                error.context = "\n".join(filter(None, (error.context, context)))
                raise
        return tuple(values)


async def _fetch(session: Session, scan: Scan, parameters: Sequence[object]) -> Result:
    """Runs a scan. Raises errors of the connection, of the remote server, and of the values."""
    connection = await _connections(session).get(scan.server, scan.role or _user(session))
    texts = [value_text(parameters[item.number - 1], item.type.oid) for item in scan.parameters]
    rows = _Rows(scan, result := Result(_fields(scan.result), session.memory))
    connection.cursors += 1
    name = f"c{connection.cursors}"
    await connection.run(f"DECLARE {name} CURSOR FOR\n{scan.sql}", texts, scan.sql)
    fetch = f"FETCH {scan.fetch_size} FROM {name}"
    while await rows.take(await connection.run(fetch, (), scan.sql)) == scan.fetch_size:
        pass
    await connection.run(f"CLOSE {name}")
    await rows.finish()
    return result
