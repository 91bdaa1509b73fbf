"""A worker that fails at any step: whoever waits can be cancelled, and the next query is answered.

Statements that are cancelled are so by their statement_timeout, by their clients or by a server that stops.
"""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import pytest_asyncio

from catalog import stillness
from catalog.errors import SqlError
from catalog.schema import Column, Layout, Table, VirtualTable
from catalog.types import oids
from catalog.types.base import FormatSettings, TypeRef
from engine.columnar import client, drafts, worker_answers
from engine.columnar.client import VERSIONS_KEPT
from engine.columnar.interface import ColumnarQuery, RowEncoding
from engine.columnar.virtual import batch_of
from engine.storage.edits import Edits
from tests.engine.columnar import defective_worker, faulty_worker
from tests.engine.columnar.conftest import Database, make_table, open_store, query
from tests.samples import some

INT4, TEXT = (oids.INT4, -1), (oids.TEXT, -1)
ROW = [(oids.INT4, "INTEGER"), (oids.TEXT, "VARCHAR")]
ONE = query("SELECT 1 AS a", [(oids.INT4, "INTEGER")])
PLENTY = query("SELECT CAST(range AS INTEGER), repeat('x', 100) FROM range(100000)", ROW)
ENDLESS = query(
    "SELECT a.range * b.range AS x FROM range(10000000000) AS a, range(1000) AS b WHERE a.range + b.range < 0",
    [(oids.INT8, "BIGINT")],
)
VIRTUAL = VirtualTable(1259, 11, "pg_class", (Column(1, "relname", TypeRef(oids.NAME)),))
TIMEOUT = 1.0  # seconds, as a statement's
WITHIN = 60.0  # on a busy machine
ENDS = (None, "57P02", "57014")  # how a statement that meets a fault may end
KILLS = [(step, "kill") for step in faulty_worker.STEPS]
STOPS = [(step, "stop") for step in faulty_worker.STEPS]
HERE = [(step, fault) for step in ("load", "query", "running", "chunk", "cancel", "cancelled")
        for fault in ("hold", "wait", "slow")]  # fmt: skip
FAULTS = (*some(KILLS, 8), *some(STOPS, 8), *some(HERE, 8))


class Statements:
    """One of every kind that the worker takes a step for."""

    def __init__(self, database: Database, wanted: Path) -> None:
        self.database = database
        self.wanted = wanted  # as faulty_worker has it
        self._number = 0
        self._version = 0
        database.client.virtual_content = lambda relation, _: (self._version, batch_of(relation, [["a"]]))

    async def ends(self, work: Coroutine[object, object, object]) -> None:
        """Within the timeout, with its result or an error that tells the client what happened. Only one statement meets
        the fault: whatever comes next is to be answered."""
        if not self.wanted.exists():
            work.close()
            return
        began = time.monotonic()
        try:
            async with asyncio.timeout(TIMEOUT):
                await work
        except TimeoutError:
            pass
        except SqlError as error:
            assert error.sqlstate in ENDS, error
        assert time.monotonic() - began < WITHIN

    async def all(self, run: Callable[[Coroutine[object, object, object]], Awaitable[object]]) -> None:
        table = self._table()
        for made in (self._load, self._apply, self._describe, self._run, self._draft, self._drop):
            await run(made(table))
        for _ in range(VERSIONS_KEPT + 1):
            self._version += 1
            await run(self._same(query("SELECT c1 AS a FROM {v1259} AS x", [(oids.NAME, "VARCHAR")],
                                       virtual_tables=(VIRTUAL,)), [("a",)]))  # fmt: skip
        await run(self._read_plenty())
        await run(self._cancel())

    def _table(self) -> Table:
        self._number += 1
        return make_table(20000 + self._number, [INT4, TEXT], (1,))

    async def _same(self, wanted: ColumnarQuery, rows: list[tuple[object, ...]]) -> None:
        stream = await self.database.client.batches(wanted, (), self.database.store.current)
        found: list[tuple[object, ...]] = []
        try:
            async for batch in stream:
                columns: Any = batch
                found += zip(*(column.to_pylist() for column in columns.columns), strict=True)
        finally:
            await stream.close()  # as a statement does, whatever its end
        assert found == rows

    def _of(self, table: Table, sql: str = "SELECT c1, c2 FROM {t} AS x ORDER BY 1") -> ColumnarQuery:
        return query(sql.replace("{t}", f"{{t{table.storage_id}}}"), ROW, table)

    async def _load(self, table: Table) -> None:
        await self.database.commit(self.database.writes(table, (1, "loaded")))
        await self._same(self._of(table), [(1, "loaded")])

    async def _apply(self, table: Table) -> None:
        await self.database.commit(self.database.writes(table, (2, "applied")))
        await self._same(self._of(table), [(1, "loaded"), (2, "applied")])

    async def _describe(self, table: Table) -> None:
        again = replace(table, layouts=(*table.layouts, Layout(2, (1, 2), table.layouts[0].types)))
        await self._same(self._of(again), [(1, "loaded"), (2, "applied")])

    async def _run(self, table: Table) -> None:
        writer = self.database.store.new_run()
        rows = self.database.writes(table, *((n, "run") for n in range(3, 1000)))
        writer.add(pa.array(list(rows), pa.binary()), pa.array(list(rows.values()), pa.binary()))
        await self.database.durable(self.database.store.sequence(Edits({}, [writer.finish().reference]), 0, 1))
        await self._same(self._of(table, "SELECT max(c1), min(c2) FROM {t} AS x"), [(999, "applied")])

    async def _draft(self, table: Table) -> None:
        """Two loads with drafts, of which the second is not committed."""
        for first, committed in ((2000, True), (3000, False)):
            writer = self.database.store.new_run()
            columns = self.database.client.drafts.of_load(table)
            assert columns is not None
            try:
                for start in range(first, first + 200, 50):
                    rows = self.database.writes(table, *((n, "drafted") for n in range(start, start + 50)))
                    writer.add(pa.array(list(rows), pa.binary()), pa.array(list(rows.values()), pa.binary()))
                    columns.look(writer)
                    await asyncio.sleep(0.01)
                run = writer.finish()
                columns.keep(writer, run)
            finally:
                columns.end()
            if committed:
                self.database.client.drafts.expect([run])
                await self.database.durable(self.database.store.sequence(Edits({}, [run.reference]), 0, 1))
            else:
                run.discard()
            await self._same(self._of(table, "SELECT max(c1), min(c2) FROM {t} AS x"), [(2199, "applied")])

    async def _drop(self, table: Table) -> None:
        self.database.client.forget(table.storage_id)
        await self._same(ONE, [(1,)])

    async def _read_plenty(self) -> None:
        encoding = RowEncoding("datarow", (0, 0), FormatSettings())
        stream = await self.database.client.rows(PLENTY, (), self.database.store.current, encoding)
        try:
            assert sum([rows async for _, rows in stream]) == 100_000
        finally:
            await stream.close()

    async def _cancel(self) -> None:
        stream = await self.database.client.batches(ENDLESS, (), self.database.store.current)
        await asyncio.sleep(0.2)
        await stream.close()
        await self._same(ONE, [(1,)])


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def statements(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Statements]:
    path = tmp_path_factory.mktemp("faults")
    wanted = path / "wanted"
    with pytest.MonkeyPatch.context() as patch:
        faulty_worker.use(patch, wanted)
        patch.setattr(worker_answers, "PATIENCE_SECONDS", 0.5)
        patch.setattr(drafts, "FIRST_ROWS", 50)
        patch.setattr(drafts, "PART_ROWS", 60)
        patch.setattr(stillness, "STILL_SECONDS", 2.0)
        store = open_store(path)
        worker = client.WorkerClient(store, str(path / "columnar"), memory_limit=512 << 20, threads=2)
        try:
            yield Statements(Database(store, worker), wanted)
        finally:
            await worker.close()
            store.close()


@pytest.mark.parametrize(("step", "fault"), FAULTS)
@pytest.mark.asyncio(loop_scope="module")
async def test_a_worker_that_fails_is_replaced(statements: Statements, step: str, fault: str) -> None:
    if step != "start":
        await statements.database.fetch(ONE)
    elif (pid := statements.database.client.process_id) is not None:
        await end(statements.database, pid)
    statements.wanted.write_text(f"{step} {fault}")
    while statements.wanted.exists():
        await statements.all(statements.ends)
    async with asyncio.timeout(WITHIN):
        await statements.all(lambda work: work)


async def end(database: Database, pid: int) -> None:
    """The worker is gone, and the client knows."""
    os.kill(pid, signal.SIGKILL)
    while database.client.process_id == pid:
        await asyncio.sleep(0.01)


async def test_a_query_that_duckdb_fails_to_run_is_planned_plainly(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Once: the second defect is the client's to see."""
    defective_worker.use(monkeypatch)
    assert await asyncio.wait_for(database.fetch(ONE), WITHIN) == [(1,)]
    with pytest.raises(SqlError) as caught:
        await asyncio.wait_for(database.fetch(query("SELECT 1 AS always", [(oids.INT4, "INTEGER")])), WITHIN)
    assert caught.value.sqlstate == "XX000"
    assert await asyncio.wait_for(database.fetch(ONE), WITHIN) == [(1,)]
