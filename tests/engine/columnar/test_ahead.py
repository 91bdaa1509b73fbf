"""Tables that a commit fills in bulk reach the worker before a query asks for them."""

from __future__ import annotations

import asyncio

import pyarrow as pa
import pytest

from catalog.catalog import Catalog
from catalog.schema import Schema, Table
from engine.columnar.ahead import announce
from engine.storage.edits import Edits
from engine.storage.runs import BulkRun
from tests.engine.columnar.conftest import Database, make_table, query

INT4 = (23, -1)
TABLE = make_table(20001, [INT4], (1,))
COUNT = query("SELECT count(*) FROM {t20001} AS x", [(20, "BIGINT")], TABLE)
OTHER = query("SELECT 1", [(20, "BIGINT")])


def catalog_of(*tables: Table) -> Catalog:
    return Catalog().with_changes({2200: Schema(2200, 0, "public"), **{table.oid: table for table in tables}})


def run_of(database: Database, count: int) -> BulkRun:
    rows = database.writes(TABLE, *((n,) for n in range(count)))
    writer = database.store.new_run()
    writer.add(pa.array(list(rows), pa.binary()), pa.array(list(rows.values()), pa.binary()))
    return writer.finish()


async def commit(database: Database, run: BulkRun) -> None:
    announce(database.client, database.store, catalog_of(TABLE), [run])
    await database.durable(database.store.sequence(Edits({}, [run.reference]), 0, 1))


async def test_a_filled_table_is_in_the_worker_before_a_query(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("engine.columnar.client.PUSH_SECONDS", 0.01)
    assert await database.fetch(OTHER) == [(1,)]  # the worker runs
    await commit(database, run_of(database, 1000))
    fed = database.client._feed.tables[TABLE.storage_id]
    async with asyncio.timeout(20):
        while not fed.ready or fed.runs or fed.reached < database.store.durable_lsn:
            await asyncio.sleep(0.01)
    monkeypatch.setattr(database.client, "_load", None)  # nothing is to be loaded from here on
    assert await database.fetch(COUNT) == [(1000,)]


async def test_nothing_is_built_without_analytic_queries(database: Database) -> None:
    await commit(database, run_of(database, 1000))
    assert not database.client._feed.tables and not database.client.running
    assert await database.fetch(COUNT) == [(1000,)]


async def test_a_table_that_has_rows_is_not_built(database: Database) -> None:
    assert await database.fetch(OTHER) == [(1,)]
    await database.commit(database.writes(TABLE, (5000,)))
    await commit(database, run_of(database, 1000))
    assert not database.client._feed.tables
    assert await database.fetch(COUNT) == [(1001,)]


async def test_a_bulk_run_that_is_not_flushed_is_all_that_is_read_of_a_new_table(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither is the flush waited for, nor what it has written by then looked at."""
    flushes: list[object] = []
    monkeypatch.setattr(database.store, "flush", flushes.append)
    await database.durable(database.store.sequence(Edits({}, [run_of(database, 1000).reference]), 0, 1))
    await database.commit(database.writes(TABLE, (5000,)))
    assert await database.fetch(COUNT) == [(1001,)]
    assert flushes == []
