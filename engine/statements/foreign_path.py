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

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from catalog.errors import SqlError
from catalog.schema import VirtualTable
from catalog.types import lookup
from engine.columnar.worker.values import to_arrow
from engine.execute.context import Field
from engine.foreign import changes
from engine.foreign.connections import ForeignConnections
from engine.foreign.interface import Row
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

_SLICE = 1_000  # rows that are converted in one turn of the event loop
Decoder = Callable[[str], object]
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
        """One attempt. What was fetched is not fetched again: the remote transaction would show the same."""
        session = execution.session
        for scan in self._scans:
            execution.results[scan.result.oid] = await _fetch(session, scan, execution.portal.parameters)
        if any(result.is_in_batches for result in execution.results.values()):
            for planned in self.parts:
                if planned.plan.row is not None and planned.plan.columnar is None:
                    with suppress(SqlError):  # it has no columnar path
                        self.make_path(session, planned.plan)
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


@dataclass(slots=True)
class _Rows:
    """The rows of a scan while they arrive."""

    scan: Scan
    result: Result
    decoders: tuple[Decoder, ...]
    kept: list[tuple[object, ...]]

    async def take(self, rows: Sequence[Row]) -> None:
        """Adds rows; lets others run between pieces."""
        for start in range(0, len(rows), _SLICE):
            if start:
                await asyncio.sleep(0)
            self.kept += [self._decode(row) for row in rows[start : start + _SLICE]]
            if self.result.is_in_batches or len(self.kept) > MOST_ROWS:
                self._flush()

    def _flush(self) -> None:
        arrays = []
        for column, values in zip(self.scan.result.columns, zip(*self.kept, strict=True), strict=True):
            form = lookup(column.type.oid).duckdb_type(column.type.typmod)
            arrays.append(to_arrow(values, column.type.oid, form))
        names = [f"c{column.number}" for column in self.scan.result.columns]
        self.result.add_batch(pa.RecordBatch.from_arrays(arrays, names=names))
        self.kept.clear()

    def finish(self) -> None:
        if self.result.is_in_batches and self.kept:
            self._flush()
        elif self.kept:
            self.result.add_rows(self.kept)

    def _decode(self, row: Row) -> tuple[object, ...]:
        values = []
        for place, (decode, value) in enumerate(zip(self.decoders, row, strict=False)):
            try:
                values.append(None if value is None else decode(value.decode()))
            except SqlError as error:
                column = self.scan.columns[place].name if place < len(self.scan.columns) else "ctid"
                context = f'column "{column}" of foreign table "{self.scan.table.name}"'
                error.context = "\n".join(filter(None, (error.context, context)))
                raise
        return tuple(values)


async def _fetch(session: Session, scan: Scan, parameters: Sequence[object]) -> Result:
    """Runs a scan. Raises errors of the connection, of the remote server, and of the values."""
    connection = await _connections(session).get(scan.server, scan.role or _user(session))
    texts = [value_text(parameters[item.number - 1], item.type.oid) for item in scan.parameters]
    decoders = tuple(lookup(column.type.oid).text_decoder(typmod=column.type.typmod) for column in scan.result.columns)
    rows = _Rows(scan, Result(_fields(scan.result), session.memory), decoders, [])
    connection.cursors += 1
    name = f"c{connection.cursors}"
    await connection.run(f"DECLARE {name} CURSOR FOR\n{scan.sql}", texts, scan.sql)
    while True:
        found, _ = await connection.run(f"FETCH {scan.fetch_size} FROM {name}", (), scan.sql)
        await rows.take(found)
        if len(found) < scan.fetch_size:
            break
    await connection.run(f"CLOSE {name}")
    rows.finish()
    return rows.result
