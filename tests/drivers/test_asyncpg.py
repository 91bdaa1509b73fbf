"""asyncpg, which speaks the extended protocol with binary values only."""

from __future__ import annotations

import asyncio
import datetime as dt
import io
import json
from collections.abc import AsyncIterator
from decimal import Decimal
from typing import Any

import asyncpg
import pytest

from tests.drivers.values import ARRAYS, CASES, JSON, Case, alike
from tests.oracle import PostgresServer
from tests.server import ShoalServer


@pytest.fixture
async def connection(server: ShoalServer | PostgresServer, schema: str) -> AsyncIterator[Any]:
    settings = {"search_path": schema, "timezone": "UTC"}
    opened = await asyncpg.connect(f"postgresql://postgres@127.0.0.1:{server.port}/postgres", server_settings=settings)
    try:
        yield opened
    finally:
        await opened.close()


@pytest.mark.parametrize("case", [*CASES, *ARRAYS], ids=lambda case: case.name)
async def test_values_come_back_as_they_went_in(connection: Any, case: Case) -> None:
    await connection.execute(f"CREATE TABLE t (id int PRIMARY KEY, v {case.type})")
    values, expected = [*case.values, None], [*case.expected, None]
    for number, value in enumerate(values):
        assert await connection.execute(f"INSERT INTO t VALUES ($1, $2::{case.type})", number, value) == "INSERT 0 1"
    rows = await connection.fetch("SELECT v FROM t ORDER BY id")
    assert all(alike(row[0], value) for row, value in zip(rows, expected, strict=True)), rows
    for value, wanted in zip(values, expected, strict=True):
        assert alike(await connection.fetchval(f"SELECT $1::{case.type}", value), wanted)


async def test_uuids_compare_equal(connection: Any) -> None:
    case = next(case for case in CASES if case.type == "uuid")
    for value in case.values:
        assert await connection.fetchval("SELECT $1::uuid = $2::text::uuid", value, str(value)) is True


@pytest.mark.parametrize("name", ["json", "jsonb"])
async def test_json_comes_back(connection: Any, name: str) -> None:
    await connection.set_type_codec(name, encoder=json.dumps, decoder=json.loads, schema="pg_catalog")
    await connection.execute(f"CREATE TABLE t (id int PRIMARY KEY, v {name})")
    await connection.executemany("INSERT INTO t VALUES ($1, $2)", list(enumerate(JSON[:-1])))
    rows = await connection.fetch("SELECT v FROM t ORDER BY id")
    assert [row["v"] for row in rows] == list(JSON[:-1])


async def test_statements_are_described(connection: Any) -> None:
    await connection.execute("CREATE TABLE t (a int PRIMARY KEY, b varchar(10), c numeric(8,2))")
    statement = await connection.prepare("SELECT a, b, c FROM t WHERE a = $1 AND b = $2")
    assert [item.type.name for item in statement.get_attributes()] == ["int4", "varchar", "numeric"]
    assert [item.name for item in statement.get_parameters()] == ["int4", "text"]
    await connection.execute("INSERT INTO t VALUES (1, 'x', 1.50)")
    assert tuple(await statement.fetchrow(1, "x")) == (1, "x", Decimal("1.50"))
    assert await statement.fetchrow(2, "x") is None
    assert statement.get_statusmsg() == "SELECT 0"


async def test_transactions_and_savepoints(connection: Any) -> None:
    await connection.execute("CREATE TABLE t (a int PRIMARY KEY)")
    async with connection.transaction():
        await connection.execute("INSERT INTO t VALUES (1)")
        with pytest.raises(asyncpg.UniqueViolationError):
            async with connection.transaction():
                await connection.execute("INSERT INTO t VALUES (2)")
                await connection.execute("INSERT INTO t VALUES (1)")
        async with connection.transaction():
            await connection.execute("INSERT INTO t VALUES (3)")
    async with connection.transaction(isolation="repeatable_read", readonly=True):
        assert await connection.fetchval("SHOW transaction_isolation") == "repeatable read"
        assert [row[0] for row in await connection.fetch("SELECT a FROM t ORDER BY a")] == [1, 3]


async def test_executemany_is_one_transaction(connection: Any) -> None:
    await connection.execute("CREATE TABLE t (a int PRIMARY KEY, b text)")
    await connection.executemany("INSERT INTO t VALUES ($1, $2)", [(number, str(number)) for number in range(1000)])
    assert await connection.fetchval("SELECT count(*) FROM t") == 1000
    with pytest.raises(asyncpg.UniqueViolationError):
        await connection.executemany("INSERT INTO t VALUES ($1, $2)", [(2000, "x"), (1, "y")])
    assert await connection.fetchval("SELECT count(*) FROM t") == 1000


async def test_cursors_fetch_in_portions(connection: Any) -> None:
    async with connection.transaction():
        total = 0
        async for row in connection.cursor("SELECT g FROM generate_series(1, $1::int) g", 1000, prefetch=64):
            total += row[0]
        assert total == 500_500
        cursor = await connection.cursor("SELECT g FROM generate_series(1, 10) g")
        assert [row[0] for row in await cursor.fetch(3)] == [1, 2, 3]
        assert await cursor.forward(2) == 2
        assert (await cursor.fetchrow())[0] == 6


async def test_copy_in_and_out(connection: Any) -> None:
    await connection.execute("CREATE TABLE t (a int PRIMARY KEY, b text)")
    source = io.BytesIO(b"1,one\n2,two\n")
    assert await connection.copy_to_table("t", source=source, format="csv") == "COPY 2"
    out = io.BytesIO()
    assert await connection.copy_from_query("SELECT b FROM t WHERE a > $1 ORDER BY a", 0, output=out) == "COPY 2"
    assert out.getvalue() == b"one\ntwo\n"


async def test_errors_have_their_classes(connection: Any) -> None:
    for statement, error in (
        ("SELECT 1 FORM t", asyncpg.PostgresSyntaxError),
        ("SELECT missing", asyncpg.UndefinedColumnError),
        ("SELECT * FROM missing", asyncpg.UndefinedTableError),
        ("SELECT 1/0", asyncpg.DivisionByZeroError),
        ("SELECT 32768::int2", asyncpg.NumericValueOutOfRangeError),
    ):
        with pytest.raises(error):
            await connection.fetch(statement)
    with pytest.raises(asyncpg.DataError):
        await connection.fetchval("SELECT $1::int", "not a number")
    assert await connection.fetchval("SELECT 1") == 1


async def test_a_cached_statement_follows_a_change_of_its_table(connection: Any) -> None:
    await connection.execute("CREATE TABLE t (a int)")
    assert await connection.fetch("SELECT * FROM t") == []
    await connection.execute("ALTER TABLE t ADD COLUMN b int DEFAULT 7")
    await connection.execute("INSERT INTO t VALUES (1)")
    assert tuple(await connection.fetchrow("SELECT * FROM t")) == (1, 7)


async def test_a_running_statement_can_be_cancelled(connection: Any) -> None:
    # a cancel request that comes while the server has nothing to do is lost, in PostgreSQL too: it has to run by then
    with pytest.raises(asyncio.TimeoutError):
        await connection.fetch(
            "SELECT count(*) FROM generate_series(1, 3000000) a, generate_series(1, 3000000) b", timeout=1.5
        )
    assert await connection.fetchval("SELECT 1") == 1


async def test_a_pool(server: ShoalServer | PostgresServer, schema: str) -> None:
    url = f"postgresql://postgres@127.0.0.1:{server.port}/postgres"
    async with asyncpg.create_pool(url, min_size=2, max_size=4, server_settings={"search_path": schema}) as pool:
        await pool.execute("CREATE TABLE t (a int PRIMARY KEY, at timestamptz)")
        moment = dt.datetime(2024, 1, 1, tzinfo=dt.UTC)
        await asyncio.gather(*(pool.execute("INSERT INTO t VALUES ($1, $2)", number, moment) for number in range(40)))
        assert await pool.fetchval("SELECT count(*) FROM t WHERE at = $1", moment) == 40
