"""The worker process end to end: real store, real socket, real DuckDB."""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import signal
import time
from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import psutil  # type: ignore[import-untyped]
import pyarrow as pa
import pytest

from catalog.errors import SqlError
from catalog.schema import Column, Layout, VirtualTable
from catalog.types import oids
from catalog.types.base import FormatSettings, TypeRef
from engine.columnar import result_streams, worker_answers
from engine.columnar.client import WorkerClient
from engine.columnar.drafts import KeptRun
from engine.columnar.feed import FedTable
from engine.columnar.frames import Buffer, Header
from engine.columnar.interface import ColumnarQuery, RowEncoding, UdfSignature
from engine.columnar.result_streams import ALONE_PATIENCE
from engine.columnar.virtual import batch_of
from engine.columnar.worker.query import error_header
from engine.storage.edits import Edits
from engine.storage.stores import not_here
from engine.txn.interface import READ_COMMITTED, REPEATABLE_READ
from engine.txn.locks import TableLocks
from engine.txn.row_locks import RowLocks
from engine.txn.transaction import Transaction
from tests.engine.columnar.conftest import Database, make_table, open_store, query

INT4, INT8, TEXT, NUMERIC = (oids.INT4, -1), (oids.INT8, -1), (oids.TEXT, -1), (oids.NUMERIC, -1)
ROW = [(oids.INT4, "INTEGER"), (oids.TEXT, "VARCHAR")]
ENDLESS = "SELECT a.range * b.range AS x FROM range(10000000000) AS a, range(1000) AS b WHERE a.range + b.range < 0"
PLENTY = "SELECT range AS a, repeat('x', 100) AS b FROM range(3000000)"
DATAROWS = RowEncoding("datarow", (0, 0), FormatSettings())


def transaction(database: Database, isolation: str) -> Transaction:
    made = Transaction(database.store, RowLocks(), TableLocks(), 1, 0, isolation)
    made.begin_statement()
    return made


def put_all(own: Transaction, writes: dict[bytes, bytes | None]) -> None:
    for key, value in writes.items():
        if value is None:
            own.delete(key)
        else:
            own.put(key, value)


async def test_a_query_sees_what_is_durable(database: Database) -> None:
    table = make_table(20001, [INT4, TEXT], (1,))
    await database.commit(database.writes(table, (1, "one"), (2, None)))
    wanted = query("SELECT x.c1, x.c2 FROM {t20001} AS x ORDER BY 1", ROW, table)
    assert await database.fetch(wanted) == [(1, "one"), (2, None)]
    await database.flush()
    await database.commit({**database.writes(table, (2, "two"), (3, "three")), database.key(table, (1, "")): None})
    assert await database.fetch(wanted) == [(2, "two"), (3, "three")]


def _fail(*_: object) -> Any:
    raise not_here()


@pytest.mark.parametrize("step", ["engine.storage.tablespace.Tablespace.of", "engine.columnar.client.describe_table"])
async def test_a_load_that_cannot_begin_leaves_nothing_to_wait_for(
    database: Database, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    table = make_table(20001, [INT4, TEXT], (1,))
    await database.commit(database.writes(table, (1, "one")))
    wanted = query("SELECT x.c1, x.c2 FROM {t20001} AS x ORDER BY 1", ROW, table)
    await database.client.start()
    with monkeypatch.context() as broken:
        broken.setattr(step, _fail)
        for _ in range(2):  # who comes next does not wait for a load that nobody has begun
            with pytest.raises(SqlError) as raised:
                await asyncio.wait_for(database.fetch(wanted), 5)
            assert raised.value.sqlstate == "57P03"
    assert await asyncio.wait_for(database.fetch(wanted), 10) == [(1, "one")]


async def test_a_table_that_goes_while_it_is_loaded_is_let_go(database: Database) -> None:
    """Its tablespace leaves the node: what keeps that would keep it here, and what the worker has is not renewed."""
    table = make_table(20001, [INT4, TEXT], (1,))
    await database.commit(database.writes(table, (1, "one")))
    wanted = query("SELECT x.c1, x.c2 FROM {t20001} AS x ORDER BY 1", ROW, table)
    await database.client.start()
    asked = asyncio.ensure_future(database.fetch(wanted))
    while table.storage_id not in database.client._loads:
        await asyncio.sleep(0)
    database.client.forget(table.storage_id)
    with pytest.raises(SqlError) as raised:
        await asyncio.wait_for(asked, 10)
    assert raised.value.sqlstate == "57P03"
    assert not database.store.in_use
    assert not database.client.has_copy(table)
    assert await asyncio.wait_for(database.fetch(wanted), 10) == [(1, "one")]


async def test_what_is_sequenced_but_not_durable_is_not_seen(database: Database) -> None:
    table = make_table(20001, [INT4, TEXT], (1,))
    await database.commit(database.writes(table, (1, "old")))
    wanted = query("SELECT x.c1, x.c2 FROM {t20001} AS x ORDER BY 1", ROW, table)
    assert await database.fetch(wanted) == [(1, "old")]
    durable = database.store.durable_lsn
    lsn = database.submit(database.writes(table, (1, "new")))
    stream = await database.client.batches(wanted, (), database.store.current)
    assert stream.lsn == durable
    assert [batch.to_pydict() async for batch in stream] == [{"c1": [1], "c2": ["old"]}]  # type: ignore[attr-defined]
    await database.durable(lsn)
    assert await database.fetch(wanted) == [(1, "new")]


@pytest.mark.parametrize("flushed", [False, True])
async def test_rows_are_found_by_every_kind_of_key(database: Database, flushed: bool) -> None:
    by_text = make_table(20001, [INT4, TEXT], (2,))
    by_numeric = make_table(20002, [NUMERIC, TEXT], (1, 2))
    by_integers = make_table(20003, [INT4, INT8, (oids.INT2, -1), (oids.BOOL, -1), (oids.OID, -1)], (5, 3, 2, 1, 4))
    by_number = make_table(20004, [INT4, TEXT], ())
    long = "k" * 2000
    await database.commit(
        {
            **database.writes(by_text, (1, "a"), (2, long), (3, long + "x"), (4, "")),
            **database.writes(by_numeric, (Decimal("1.10"), "a"), (Decimal("-2"), "b")),
            **database.writes(by_integers, (-1, -(2**62), -5, True, 4_000_000_000), (1, 2, 3, False, 0)),
            **database.numbered(by_number, {1: (1, "x"), 2: (2, "y"), 3: (2, "y")}),
        }
    )
    if flushed:
        await database.flush()
    text = query("SELECT c1 FROM {t20001} AS x ORDER BY 1", [(23, "INTEGER")], by_text)
    numeric = query("SELECT c1 FROM {t20002} AS x ORDER BY c2", [(1700, "VARCHAR")], by_numeric)
    integers = query("SELECT c1, c2, c3, c4, c5 FROM {t20003} AS x ORDER BY 1", [(23, "INTEGER")], by_integers)
    number = query("SELECT c1, c2, r FROM {t20004} AS x ORDER BY r", ROW, by_number)
    assert await database.fetch(text) == [(1,), (2,), (3,), (4,)]
    assert await database.fetch(numeric) == [("1.10",), ("-2",)]
    assert len(await database.fetch(integers)) == 2
    assert await database.fetch(number) == [(1, "x", 1), (2, "y", 2), (2, "y", 3)]
    await database.commit(
        {
            database.key(by_text, (0, long)): None,
            **database.writes(by_text, (40, "")),
            database.key(by_numeric, (Decimal("1.1"), "a")): None,
            **database.writes(by_numeric, (Decimal("-2.0"), "b")),
            **database.writes(by_integers, (1, 2, 3, False, 0)),
            database.key(by_integers, (-1, -(2**62), -5, True, 4_000_000_000)): None,
            **database.numbered(by_number, {2: None, 3: (3, "z"), 4: (4, "w")}),
        }
    )
    assert await database.fetch(text) == [(1,), (3,), (40,)]
    assert await database.fetch(numeric) == [("-2.0",)]
    assert await database.fetch(integers) == [(1, 2, 3, False, 0)]
    assert await database.fetch(number) == [(1, "x", 1), (3, "z", 3), (4, "w", 4)]


async def test_a_transaction_sees_its_own_writes_and_others_do_not(database: Database) -> None:
    table = make_table(20001, [INT4, TEXT], (1,))
    await database.commit(database.writes(table, (1, "one"), (2, "two"), (3, "three")))
    wanted = query("SELECT c1, c2 FROM {t20001} AS x ORDER BY 1", ROW, table)
    own = transaction(database, READ_COMMITTED)
    put_all(own, {**database.writes(table, (2, "TWO"), (4, "FOUR")), database.key(table, (3, "")): None})
    assert await database.fetch(wanted, own) == [(1, "one"), (2, "TWO"), (4, "FOUR")]
    assert await database.fetch(wanted) == [(1, "one"), (2, "two"), (3, "three")]
    own.abort()


async def test_random_histories_agree_with_a_model(database: Database) -> None:
    """Commits, flushes, own writes and old snapshots in any order: each reader sees exactly its own moment."""
    seed = random.randrange(1 << 30)
    chance = random.Random(seed)
    tables = [make_table(20001, [INT4, TEXT], (1,)), make_table(20002, [INT4, TEXT], (2,))]
    wanted = [query(f"SELECT c1, c2 FROM {{t{t.storage_id}}} AS x ORDER BY 1, 2", ROW, t) for t in tables]
    state: list[dict[bytes, tuple[object, ...]]] = [{}, {}]
    readers: list[tuple[Transaction, list[dict[bytes, tuple[object, ...]]]]] = []

    def change(into: list[dict[bytes, tuple[object, ...]]]) -> dict[bytes, bytes | None]:
        writes: dict[bytes, bytes | None] = {}
        for _ in range(chance.randrange(1, 8)):
            which = chance.randrange(2)
            row = (chance.randrange(30), f"row {chance.randrange(30)}")
            key = database.key(tables[which], row)
            if chance.random() < 0.3:
                into[which].pop(key, None)
                writes[key] = None
            else:
                into[which][key] = row
                writes.update(database.writes(tables[which], row))
        return writes

    for step in range(150):
        action = chance.random()
        where = f"seed {seed}, step {step}"
        if action < 0.45:
            writes = change(state)
            await database.commit(writes)
        elif action < 0.5:
            await database.flush()
        elif action < 0.6 and len(readers) < 3:
            readers.append((transaction(database, REPEATABLE_READ), [dict(part) for part in state]))
        elif action < 0.7 and readers:
            own, model = chance.choice(readers)
            put_all(own, change(model))
        elif action < 0.75 and readers:
            readers.pop(chance.randrange(len(readers)))[0].abort()
        elif action < 0.9 and readers:
            own, model = chance.choice(readers)
            which = chance.randrange(2)
            assert await database.fetch(wanted[which], own) == sorted(model[which].values()), where
        else:
            which = chance.randrange(2)
            assert await database.fetch(wanted[which]) == sorted(state[which].values()), where
    for own, _ in readers:
        own.abort()


async def test_a_query_reads_all_tables_at_one_lsn_while_deltas_go_on(database: Database) -> None:
    """Every commit moves one unit between two tables; each query must find the sum unchanged."""
    left, right = make_table(20001, [INT4, INT8], (1,)), make_table(20002, [INT4, INT8], (1,))
    balance = [1000, 1000]
    await database.commit({**database.writes(left, (1, 1000)), **database.writes(right, (1, 1000))})
    wanted = query(
        "SELECT (SELECT sum(c2) FROM {t20001} AS x) + (SELECT sum(c2) FROM {t20002} AS x), count(*) FROM range(200000)",
        [(20, "HUGEINT"), (20, "BIGINT")],
        left,
        right,
    )
    done = False

    async def write() -> None:
        while not done:
            balance[0] -= 1
            balance[1] += 1
            await database.commit({**database.writes(left, (1, balance[0])), **database.writes(right, (1, balance[1]))})

    async def read() -> None:
        for _ in range(10):
            assert (await database.fetch(wanted))[0][0] == 2000

    writer = asyncio.create_task(write())
    await asyncio.gather(read(), read(), read())
    done = True
    await writer
    assert balance[1] > 1000


async def test_commits_made_while_a_table_loads_are_in_it(database: Database) -> None:
    table = make_table(20001, [INT4, TEXT], (1,))
    await database.commit(database.writes(table, *((n, "old") for n in range(20_000))))
    await database.flush()
    wanted = query("SELECT c2, count(*) FROM {t20001} AS x GROUP BY 1 ORDER BY 1", ROW, table)
    task = asyncio.create_task(database.fetch(wanted))
    for n in range(50):
        await database.commit(database.writes(table, (n, "new")))
        if n == 25:
            await database.flush()
    await task
    assert await database.fetch(wanted) == [("new", 50), ("old", 19_950)]


async def test_an_added_column_and_a_rewritten_layout(database: Database) -> None:
    table = make_table(20001, [INT4, TEXT], (1,))
    await database.commit(database.writes(table, (1, "one")))
    assert await database.fetch(query("SELECT c1, c2 FROM {t20001} AS x", ROW, table)) == [(1, "one")]
    integer = TypeRef(oids.INT4)
    wider = make_table(20001, [INT4, TEXT], (1,))
    wider = type(wider)(
        **{
            **{name: getattr(wider, name) for name in wider.__slots__},
            "columns": (*wider.columns, Column(3, "added", integer, missing="7")),
            "layouts": (*wider.layouts, Layout(2, (1, 2, 3), (*wider.layouts[0].types, integer))),
        }
    )
    await database.commit(database.writes(wider, (2, "two", 8)))
    three = [*ROW, (oids.INT4, "INTEGER")]
    wanted = query("SELECT c1, c2, c3 FROM {t20001} AS x ORDER BY 1", three, wider)
    assert await database.fetch(wanted) == [(1, "one", 7), (2, "two", 8)]
    assert await database.fetch(query("SELECT c1, c2 FROM {t20001} AS x ORDER BY 1", ROW, table)) == [
        (1, "one"),
        (2, "two"),
    ]


async def test_cancelling_ends_the_query_in_the_worker(database: Database) -> None:
    stream = await database.client.batches(query(ENDLESS, [(20, "BIGINT")]), (), database.store.current)
    waiting = asyncio.create_task(anext(stream))
    await asyncio.sleep(0.1)
    waiting.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await waiting
    await stream.close()
    again = query("SELECT 1 AS a", [(23, "INTEGER")])
    assert await asyncio.wait_for(database.fetch(again), 20) == [(1,)]
    process = psutil.Process(database.client.process_id)
    busy = sum(process.cpu_times()[:2])
    await asyncio.sleep(0.3)
    assert sum(process.cpu_times()[:2]) - busy < 0.2


async def test_more_endless_queries_than_threads_can_all_be_cancelled(database: Database) -> None:
    streams = [
        await database.client.batches(query(ENDLESS, [(20, "BIGINT")]), (), database.store.current) for _ in range(8)
    ]
    for stream in streams:
        await stream.close()
    assert await asyncio.wait_for(database.fetch(query("SELECT 1 AS a", [(23, "INTEGER")])), 20) == [(1,)]


async def test_a_killed_worker_comes_back_with_everything(database: Database) -> None:
    table = make_table(20001, [INT4, TEXT], (1,))
    await database.commit(database.writes(table, (1, "one")))
    wanted = query("SELECT c1, c2 FROM {t20001} AS x ORDER BY 1", ROW, table)
    assert await database.fetch(wanted) == [(1, "one")]
    first = database.client.process_id
    assert first is not None
    os.kill(first, signal.SIGKILL)
    await database.commit(database.writes(table, (2, "two")))
    assert await database.fetch(wanted) == [(1, "one"), (2, "two")]
    assert database.client.process_id != first


async def test_a_worker_that_does_not_hear_that_a_query_is_cancelled_is_replaced(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker_answers, "CANCEL_SECONDS", 0.2)
    wanted = query("SELECT 1 AS a", [(23, "INTEGER")])
    for stopped in (False, True):
        stream = await database.client.batches(query(ENDLESS, [(20, "BIGINT")]), (), database.store.current)
        first = database.client.process_id
        assert first is not None
        if stopped:
            os.kill(first, signal.SIGSTOP)
        await stream.close()
        if not stopped:
            await asyncio.sleep(0.4)  # that it has heard means that nothing happens when the time is over
        assert await asyncio.wait_for(database.fetch(wanted), 20) == [(1,)]
        assert (database.client.process_id != first) == stopped


async def as_soon_as_it_fits(database: Database, wanted: ColumnarQuery) -> list[Any]:
    """Queries that were cancelled take their memory until they have ended, and nothing tells when."""
    async with asyncio.timeout(30):
        while True:
            try:
                return await database.fetch(wanted)
            except SqlError as error:
                if error.sqlstate != "53200":
                    raise


async def test_where_no_more_queries_fit_they_are_refused_and_the_others_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(result_streams, "OPENING_PATIENCE", 2.0)
    store = open_store(tmp_path)
    small = WorkerClient(store, directory=str(tmp_path / "columnar"), memory_limit=32 << 20, threads=1)
    database = Database(store, small)
    one = query("SELECT 1 AS a", [(23, "INTEGER")])
    try:
        assert await database.fetch(one) == [(1,)]
        first = small.process_id
        streams = [await small.batches(query(ENDLESS, [(20, "BIGINT")]), (), store.current) for _ in range(200)]
        with pytest.raises(SqlError) as caught:
            await anext(streams[-1])
        assert caught.value.sqlstate == "53200"
        for stream in streams:
            await stream.close()
        assert await as_soon_as_it_fits(database, one) == [(1,)]
        assert small.process_id == first
    finally:
        await small.close()
        store.close()


async def test_a_query_that_has_given_nothing_is_run_again_after_a_kill(database: Database) -> None:
    slow = query("SELECT count(*) AS a FROM range(3000000000) AS x WHERE x.range % 7 = 3", [(20, "BIGINT")])
    stream = await database.client.batches(slow, (), database.store.current)
    first = database.client.process_id
    assert first is not None
    os.kill(first, signal.SIGKILL)
    taking = asyncio.create_task(anext(stream))
    async with asyncio.timeout(20):
        while database.client.process_id == first or not database.client.status.queries:
            await asyncio.sleep(0.01)
    os.kill(database.client.process_id or 0, signal.SIGKILL)
    with pytest.raises(SqlError) as caught:
        await taking
    assert caught.value.sqlstate == "57P02"


async def test_a_query_that_has_given_rows_fails_after_a_kill(database: Database) -> None:
    stream = await database.client.rows(query(PLENTY, ROW), (), database.store.current, DATAROWS)
    await anext(stream)
    assert database.client.process_id is not None
    os.kill(database.client.process_id, signal.SIGKILL)
    with pytest.raises(SqlError) as caught:
        async for _ in stream:
            pass
    assert caught.value.sqlstate == "57P02"


async def test_a_slow_reader_holds_the_worker_back(database: Database) -> None:
    stream = await database.client.rows(query(PLENTY, ROW), (), database.store.current, DATAROWS)
    await anext(stream)
    process = psutil.Process(database.client.process_id)
    await asyncio.sleep(0.3)
    before = process.memory_info().rss
    await asyncio.sleep(0.3)
    assert process.memory_info().rss - before < 32 << 20
    waiting = sum(chunk.nbytes for chunk, _ in stream._stream._chunks)
    assert waiting <= 2 << 20
    other = query("SELECT 1 AS a", [(23, "INTEGER")])
    assert await database.fetch(other) == [(1,)]
    rows = 0
    async for _, count in stream:
        rows += count
    assert rows > 2_900_000
    assert process.memory_info().rss - before < 200 << 20


async def test_errors_come_with_their_sqlstate(database: Database) -> None:
    cases = {
        "SELECT error('SHOAL:22012:division by zero') AS a": "22012",
        "SELECT CAST(range AS INTEGER) + 2147483647 AS a FROM range(2)": "22003",
        "SELECT nonsense(1)": "XX000",
        "SELECT * FROM read_csv('/etc/passwd')": "XX000",
    }
    for sql, sqlstate in cases.items():
        with pytest.raises(SqlError) as caught:
            await database.fetch(query(sql, [(23, "INTEGER")]))
        assert caught.value.sqlstate == sqlstate, sql


async def test_a_query_past_the_memory_limit_ends_alone(database: Database) -> None:
    greedy = "SELECT list(repeat('x', 1000) || range) AS a FROM range(3000000)"
    with pytest.raises(SqlError) as caught:
        await database.fetch(query(greedy, [(1009, "VARCHAR[]")]))
    assert caught.value.sqlstate == "53200"
    assert await database.fetch(query("SELECT 1 AS a", [(23, "INTEGER")])) == [(1,)]


async def test_parameters_and_braces(database: Database) -> None:
    wanted = query(
        "SELECT $1 AS a, '$1 {{t1}}' AS b, $2 || $1 AS c",
        [(25, "VARCHAR")] * 3,
        parameters=((1, "VARCHAR"), (2, "VARCHAR")),
    )
    assert await database.fetch(wanted, None, "it's {t1} $2", "x") == [("it's {t1} $2", "$1 {t1}", "xit's {t1} $2")]


async def test_virtual_tables_are_sent_once_a_version(database: Database) -> None:
    relation = VirtualTable(1259, 11, "pg_class", (Column(1, "relname", TypeRef(oids.NAME)),))
    wanted = query("SELECT c1 FROM {v1259} AS x ORDER BY 1", [(19, "VARCHAR")], virtual_tables=(relation,))
    content: dict[str, Any] = {"version": 1, "names": ["a", "b"]}
    asked = 0

    def provide(table: VirtualTable, reader: object) -> tuple[object, pa.RecordBatch]:
        nonlocal asked
        asked += 1
        return content["version"], batch_of(table, [content["names"]])

    database.client.virtual_content = provide
    assert await database.fetch(wanted) == [("a",), ("b",)]
    content["names"] = ["not looked at: same version"]
    assert await database.fetch(wanted) == [("a",), ("b",)]
    content["version"] = 2
    assert await database.fetch(wanted) == [("not looked at: same version",)]
    content.update(version=None, names=["mine alone"])
    assert await database.fetch(wanted) == [("mine alone",)]
    for version in range(3, 12):
        content.update(version=version, names=[f"version {version}"])
        assert await database.fetch(wanted) == [(f"version {version}",)]
    assert asked == 13


async def test_python_functions_run_in_the_worker(database: Database) -> None:
    integer = TypeRef(oids.INT4)
    signature = UdfSignature(
        "f_int4pl", "function", "int4pl", (integer, integer), ("INTEGER", "INTEGER"), integer, "INTEGER"
    )
    wanted = query(
        "SELECT f_int4pl(CAST(range AS INTEGER), CASE WHEN range = 1 THEN NULL ELSE 5 END) AS a FROM range(3)",
        [(23, "INTEGER")],
        functions=(signature,),
    )
    assert await database.fetch(wanted) == [(5,), (None,), (7,)]
    assert await database.fetch(wanted) == [(5,), (None,), (7,)]
    overflow = query(
        "SELECT f_int4pl(CAST(range AS INTEGER), 2147483647) AS a FROM range(3)",
        [(23, "INTEGER")],
        functions=(signature,),
    )
    with pytest.raises(SqlError) as caught:
        await database.fetch(overflow)
    assert (caught.value.sqlstate, caught.value.message) == ("22003", "integer out of range")


async def test_text_and_type_conversions_as_functions(database: Database) -> None:
    text, numeric = TypeRef(oids.TEXT), TypeRef(oids.NUMERIC)
    reads = UdfSignature("in_1700", "input", "", (text,), ("VARCHAR",), numeric, "VARCHAR")
    orders = UdfSignature("key_1700", "key", "", (numeric,), ("VARCHAR",), TypeRef(oids.BYTEA), "BLOB")
    wanted = query(
        "SELECT in_1700(x) AS a FROM (VALUES ('10'), ('9.50'), ('-1e3'), (NULL)) AS t (x)"
        " ORDER BY key_1700(in_1700(x))",
        [(1700, "VARCHAR")],
        functions=(reads, orders),
    )
    assert await database.fetch(wanted) == [("-1000",), ("9.50",), ("10",), (None,)]


async def test_a_small_delta_is_quick_on_a_large_table(database: Database) -> None:
    """A change of one key must not cost what building the table costs."""
    table = make_table(20001, [INT4, INT4], (1,))
    await database.commit(database.writes(table, *((n, 0) for n in range(100_000))))
    wanted = query("SELECT sum(c2) AS a FROM {t20001} AS x", [(20, "HUGEINT")], table)
    started = time.perf_counter()
    assert await database.fetch(wanted) == [(0,)]
    built = fastest = time.perf_counter() - started
    for n in range(1, 6):
        await database.commit(database.writes(table, (n, 1)))
        started = time.perf_counter()
        assert await database.fetch(wanted) == [(n,)]
        fastest = min(fastest, time.perf_counter() - started)
    assert fastest < built / 3


async def test_the_worker_ends_with_its_engine(database: Database) -> None:
    await database.fetch(query("SELECT 1 AS a", [(23, "INTEGER")]))
    assert database.client.process_id is not None
    process = psutil.Process(database.client.process_id)
    await database.client.close()
    assert not process.is_running()
    with pytest.raises(SqlError):
        await database.fetch(query("SELECT 1 AS a", [(23, "INTEGER")]))


async def test_an_interval_that_arrow_cannot_carry_is_refused(database: Database) -> None:
    """DuckDB's conversion to Arrow's nanoseconds would overflow without a word."""
    interval = [(oids.INT8, "BIGINT"), (oids.INTERVAL, "INTERVAL")]
    wanted = query("SELECT range, to_hours(range) FROM range(2500000, 2499998, -1) ORDER BY range", interval)
    rows = await database.fetch(wanted)
    assert [row[1].nanoseconds // (3600 * 10**9) for row in rows] == [2499999, 2500000]  # type: ignore[attr-defined]
    for hours in (3_000_000, -3_000_000):
        with pytest.raises(SqlError) as caught:
            await database.fetch(query(f"SELECT 1, to_hours({hours})", interval))
        assert caught.value.sqlstate == "0A000"


@pytest.mark.parametrize("loaded", [False, True])
async def test_bulk_runs_come_as_files(database: Database, loaded: bool) -> None:
    """A run between ordinary commits, over a table that the worker has, or loads afterwards."""
    table = make_table(20001, [INT4, TEXT], (1,))
    wanted = query("SELECT c2, count(*) FROM {t20001} AS x GROUP BY 1 ORDER BY 1", ROW, table)
    await database.commit(database.writes(table, (1, "before"), (2, "before"), (500, "before")))
    if loaded:
        assert await database.fetch(wanted) == [("before", 3)]
    await database.commit(database.writes(table, (501, "before")))
    writer = database.store.new_run()
    rows = database.writes(table, *((n, "run") for n in range(100, 1100)))
    index = {b"\0\0\x4e\x22" + n.to_bytes(2, "big"): b"index" for n in range(10)}
    keys, values = [*rows, *index], [*rows.values(), *index.values()]
    keys.append(database.key(table, (2, "")))
    writer.add(pa.array(keys, pa.binary()), pa.array([*values, None], pa.binary()))
    run = writer.finish()
    lsn = database.store.sequence(Edits(database.writes(table, (100, "with")), [run.reference]), 0, 1)
    await database.durable(lsn)
    await database.commit(database.writes(table, (101, "after"), (1101, "after")))
    expected = [("after", 2), ("before", 1), ("run", 998), ("with", 1)]
    assert await database.fetch(wanted) == expected
    await database.flush()
    assert await database.fetch(wanted) == expected
    assert [name for name in os.listdir(database.client.spill_directory) if name.startswith("run-")] == []


async def test_a_transaction_sees_its_own_bulk_runs(database: Database) -> None:
    table = make_table(20001, [INT4, TEXT], (1,))
    wanted = query("SELECT c1, c2 FROM {t20001} AS x ORDER BY 1", ROW, table)
    await database.commit(database.writes(table, *((n, "old") for n in range(6))))
    own = transaction(database, READ_COMMITTED)
    put_all(own, database.writes(table, (9, "early")))
    for text, numbers, gone in (("first", range(1, 5), None), ("second", range(3, 4), 4)):
        writer = database.store.new_run()
        rows = database.writes(table, *((n, text) for n in numbers))
        keys, values = list(rows), [*rows.values()]
        if gone is not None:
            keys.append(database.key(table, (gone, "")))
            values.append(None)
        writer.add(pa.array(keys, pa.binary()), pa.array(values, pa.binary()))
        own.runs.append(writer.finish())
    put_all(own, {**database.writes(table, (1, "late")), database.key(table, (0, "")): None})
    seen = [(1, "late"), (2, "first"), (3, "second"), (5, "old"), (9, "early")]
    assert await database.fetch(wanted, own) == seen
    assert await database.fetch(wanted) == [(n, "old") for n in range(6)]
    own.abort()


async def test_changes_are_noted_and_sent_without_being_asked(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The feed must not make the store keep history for longer than it takes to note what has changed."""
    monkeypatch.setattr("engine.columnar.client.PUSH_LSNS", 5)
    monkeypatch.setattr("engine.columnar.feed.PUSH_KEYS", 8)
    tables = [make_table(20001, [INT4, TEXT], (1,)), make_table(20002, [INT4, TEXT], (1,))]
    wanted = [query(f"SELECT c1, c2 FROM {{t{t.storage_id}}} AS x ORDER BY 1", ROW, t) for t in tables]
    assert await database.fetch(wanted[0]) == await database.fetch(wanted[1]) == []
    old = transaction(database, REPEATABLE_READ)
    feed = database.client._feed
    for n in range(60):
        await database.commit(database.writes(tables[n % 2], (n, "x")))
        assert feed.behind < 5
        if n % 20 == 10:
            await database.flush()
    assert all(len(fed.pending) < 8 for fed in feed.tables.values())
    assert await database.fetch(wanted[0]) == [(n, "x") for n in range(0, 60, 2)]
    assert await database.fetch(wanted[0], old) == []
    old.abort()
    assert await database.fetch(wanted[1]) == [(n, "x") for n in range(1, 60, 2)]
    database.client.forget(20001)
    database.client.forget(20002)
    assert feed.behind == 0
    assert await database.fetch(wanted[0]) == [(n, "x") for n in range(0, 60, 2)]


async def test_history_is_let_go_a_moment_after_the_last_commit(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("engine.columnar.client.PUSH_SECONDS", 0.01)
    table = make_table(20001, [INT4, TEXT], (1,))
    wanted = query("SELECT c1, c2 FROM {t20001} AS x ORDER BY 1", ROW, table)
    assert await database.fetch(wanted) == []
    await database.commit(database.writes(table, (1, "x")))
    async with asyncio.timeout(20):
        while database.client._feed.behind:
            await asyncio.sleep(0.01)
    assert await database.fetch(wanted) == [(1, "x")]


async def test_open_portals_do_not_block_other_queries(database: Database) -> None:
    portals = [await database.client.rows(query(PLENTY, ROW), (), database.store.current, DATAROWS) for _ in range(10)]
    for portal in portals:
        await anext(portal)
    assert await asyncio.wait_for(database.fetch(query("SELECT 1 AS a", [(23, "INTEGER")])), 20) == [(1,)]
    total = 0
    async for _, count in portals[3]:
        total += count
    assert total > 2_900_000
    for portal in portals:
        await portal.close()


async def test_a_run_that_is_being_flushed_is_not_applied_to_its_own_rows(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What LMDB turns out to have is neither applied again nor kept."""
    table = make_table(20001, [INT4, TEXT], (1,))
    wanted = query("SELECT count(*), min(c2) FROM {t20001} AS x", [(INT8[0], "BIGINT"), (TEXT[0], "VARCHAR")], table)
    pushed: list[str] = []
    push = database.client._feed.delta

    def delta(fed: FedTable, whole: bool) -> tuple[list[KeptRun], list[tuple[bytes, bytes | None]]]:
        runs, changes = push(fed, whole)
        pushed.extend([*(kept.path for kept in runs), *(str(key) for key, _ in changes)])
        return runs, changes

    monkeypatch.setattr(database.client._feed, "delta", delta)
    rows = database.writes(table, *((n, "run") for n in range(1000)))
    writer = database.store.new_run()
    writer.add(pa.array(list(rows), pa.binary()), pa.array(list(rows.values()), pa.binary()))
    await database.durable(database.store.sequence(Edits({}, [writer.finish().reference]), 0, 1))
    assert database.store.has_unflushed_runs(table.storage_id)
    loading = asyncio.ensure_future(database.fetch(wanted))
    await database.commit(database.writes(table, (1000, "after")))
    await loading
    assert await database.fetch(wanted) == [(1001, "after")]
    assert not database.store.has_unflushed_runs(table.storage_id)
    assert len(pushed) <= 1  # the row that came last
    assert [name for name in os.listdir(database.client.spill_directory) if name.startswith("run-")] == []


@pytest.mark.parametrize("crowded", [True, False])
async def test_a_query_that_had_no_memory_beside_others_is_sent_again(
    database: Database, monkeypatch: pytest.MonkeyPatch, crowded: bool
) -> None:
    """Twice where it had neighbours each time, with more patience; never again after it was alone."""
    asked: list[object] = []
    write = database.client._write

    def full(header: Header, buffers: Sequence[Buffer] = ()) -> None:
        if header["op"] != "query":
            return write(header, buffers)
        asked.append(header.get("patience"))
        answer = {**error_header(int(str(header["id"])), MemoryError()), "crowded": crowded or len(asked) == 1}
        return database.client._receive(answer, [])

    monkeypatch.setattr(database.client, "_write", full)
    with pytest.raises(SqlError) as caught:
        await database.fetch(query("SELECT 1 AS a", [(23, "INTEGER")]))
    assert caught.value.sqlstate == "53200"
    assert asked == ([None, *ALONE_PATIENCE] if crowded else [None, ALONE_PATIENCE[0]])


@pytest.mark.parametrize("ends", [True, False])
async def test_a_query_that_neighbours_leave_no_memory_to_be_opened_is_sent_until_there_is_some(
    database: Database, monkeypatch: pytest.MonkeyPatch, ends: bool
) -> None:
    """It has not had its turn: that it is to run alone keeps nobody from being in its way yet."""
    asked: list[object] = []
    write = database.client._write
    if not ends:
        monkeypatch.setattr(result_streams, "OPENING_PATIENCE", 0.2)

    def full(header: Header, buffers: Sequence[Buffer] = ()) -> None:
        if header["op"] != "query" or (ends and len(asked) == 4):
            return write(header, buffers)
        asked.append(header.get("patience"))
        answer = {**error_header(int(str(header["id"])), MemoryError()), "crowded": True, "opened": False}
        return database.client._receive(answer, [])

    monkeypatch.setattr(database.client, "_write", full)
    if ends:
        assert await database.fetch(query("SELECT 1 AS a", [(23, "INTEGER")])) == [(1,)]
        assert asked == [None, *[ALONE_PATIENCE[0]] * 3]
    else:
        with pytest.raises(SqlError) as caught:
            await database.fetch(query("SELECT 1 AS a", [(23, "INTEGER")]))
        assert caught.value.sqlstate == "53200" and len(asked) > 1


async def test_a_large_commit_is_sent_a_part_in_a_turn(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("engine.columnar.client.PUSH_SECONDS", 0.01)
    table = make_table(20001, [INT4, TEXT], (1,))
    wanted = query("SELECT count(*), sum(c1) FROM {t20001} AS x", [(20, "BIGINT"), (20, "HUGEINT")], table)
    assert await database.fetch(wanted) == [(0, None)]
    sent: list[int] = []
    write = database.client._write

    def note(header: Header, buffers: Sequence[Buffer] = ()) -> None:
        if header["op"] == "apply":
            sent.append(len(buffers[4]))
        write(header, buffers)

    monkeypatch.setattr(database.client, "_write", note)
    await database.commit(database.writes(table, *((n, "x") for n in range(20_000))))
    async with asyncio.timeout(20):
        while sum(sent) < 20_000:
            await asyncio.sleep(0.01)
    assert max(sent) <= 2_500
    assert await database.fetch(wanted) == [(20_000, sum(range(20_000)))]
    assert sum(sent) == 20_000
