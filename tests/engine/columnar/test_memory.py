"""What the worker does when it has too much in memory, and what an error of memory is told as."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest

from catalog.errors import SqlError
from engine.columnar.descriptions import describe_table
from engine.columnar.frames import Pairs
from engine.columnar.worker import memory
from engine.columnar.worker import tables as worker_tables
from engine.columnar.worker.database import open_database
from engine.columnar.worker.query import as_sql_error
from engine.columnar.worker.tables import Tables
from engine.storage.keys import row_key_encoder
from engine.storage.rows import RowCodec
from tests.engine.columnar import small_worker
from tests.engine.columnar.conftest import Database, make_table, query

LIMIT = 1 << 30


class Trial:
    """A watch over memory that a test says the size of."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.resident = self.mapped = 100 << 20
        self.freed = 0  # bytes that allocators give back
        self.busy = False
        self.begun = 1
        self.queries = 0
        self.done: list[str] = []
        monkeypatch.setattr(memory, "resident", lambda: self.resident)
        monkeypatch.setattr(memory, "mapped_bytes", lambda: self.mapped)
        monkeypatch.setattr(memory, "give_back", self._give_back)
        self.watch = memory.Watch(LIMIT, lambda: self.busy, lambda: self.begun, self._end_one, self.done.append)

    def _give_back(self) -> None:
        self.resident -= self.freed
        self.freed = 0

    def _end_one(self) -> bool:
        self.done.append("query")
        self.queries -= 1
        return self.queries >= 0


@pytest.fixture
def trial(monkeypatch: pytest.MonkeyPatch) -> Trial:
    return Trial(monkeypatch)


def test_what_is_mapped_and_not_resident_ends_nothing(trial: Trial) -> None:
    trial.busy = True
    trial.mapped = 3 * memory.limit(LIMIT) // 2
    trial.watch.look()
    trial.busy = False
    trial.watch.look()
    assert trial.done == []


def test_what_allocators_can_give_back_ends_nothing(trial: Trial) -> None:
    for busy in (True, False):
        trial.busy, trial.resident, trial.freed = busy, memory.limit(LIMIT) + (600 << 20), 2 << 30
        trial.watch.look()
    assert trial.done == []


def test_above_the_limit_one_query_ends_and_others_get_time(trial: Trial) -> None:
    trial.busy, trial.queries, trial.resident = True, 2, memory.limit(LIMIT) + 1
    for _ in range(3):
        trial.watch.look()
    assert trial.done == ["query"]


@pytest.mark.parametrize("more", [1, memory.SPARE_BYTES + 1])
def test_without_a_query_to_end_or_far_above_the_limit_the_process_ends(trial: Trial, more: int) -> None:
    trial.busy, trial.queries, trial.resident = True, 0 if more == 1 else 3, memory.limit(LIMIT) + more
    trial.watch.look()
    assert trial.done[-1] == "full"


@pytest.mark.parametrize("what", ["resident", "mapped"])
def test_a_process_that_has_grown_ends_when_it_has_nothing_to_do(trial: Trial, what: str) -> None:
    trial.busy = True
    setattr(trial, what, memory.limit_idle(LIMIT) + 1 if what == "resident" else 3 * memory.limit(LIMIT))
    trial.watch.look()
    assert trial.done == []
    trial.busy = False
    trial.watch.look()
    trial.watch.look()  # once
    assert trial.done == ["grown"]


def test_resident_memory_is_reported(tmp_path: Path) -> None:
    before = memory.resident()
    held = bytearray(b"x") * (64 << 20)
    assert 60 << 20 < memory.resident() - before < 80 << 20
    assert memory.mapped_bytes() > len(held)


# ---- a worker that has too much --------------------------------------------------------------------------------------

LARGE_RESULT = "SELECT count(*) AS a FROM (SELECT DISTINCT range, md5(range::VARCHAR) AS m FROM range(6000000))"


async def test_an_idle_worker_that_has_grown_is_replaced_without_errors(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    small_worker.use(monkeypatch, limit=4096, idle=1)
    seen = set()
    for number in range(4):
        wanted = query(f"SELECT {number} AS a", [(23, "INTEGER")])
        assert await database.fetch(wanted) == [(number,)]
        seen.add(database.client.process_id)
        async with asyncio.timeout(20):
            while database.client.process_id is not None:
                await asyncio.sleep(0.02)
    assert len(seen) == 4


@pytest.mark.long
async def test_a_query_that_comes_while_a_grown_worker_ends_is_answered(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    small_worker.use(monkeypatch, limit=4096, idle=1)
    for number in range(16):
        wanted = query(f"SELECT {number} AS a", [(23, "INTEGER")])
        assert await asyncio.wait_for(database.fetch(wanted), 30) == [(number,)]
        await asyncio.sleep(number % 8 * 0.01)


@pytest.mark.parametrize("spare", [4096, 1], ids=["the query", "the process"])
async def test_a_query_that_takes_too_much_ends_with_53200(
    database: Database, monkeypatch: pytest.MonkeyPatch, spare: int
) -> None:
    small_worker.use(monkeypatch, limit=150, idle=4096, spare=spare)
    one = query("SELECT 1 AS a", [(23, "INTEGER")])
    assert await database.fetch(one) == [(1,)]
    with pytest.raises(SqlError) as caught:
        await asyncio.wait_for(database.fetch(query(LARGE_RESULT, [(20, "BIGINT")])), 60)
    assert (caught.value.sqlstate, caught.value.message) == ("53200", "out of memory")
    assert caught.value.detail is not None
    assert caught.value.hint is not None
    assert await database.fetch(one) == [(1,)]


TOO_LARGE = "SELECT length(string_agg(md5(range::VARCHAR), ',')) AS a FROM range(40000000)"


async def test_a_query_that_finds_no_memory_without_neighbours_runs_once(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent: list[object] = []
    write = database.client._write
    monkeypatch.setattr(database.client._process, "_memory_limit", 64 << 20)

    def note(header: dict[str, object], buffers: Sequence[Any] = ()) -> None:
        if header["op"] == "query":
            sent.append(header["id"])
        write(header, buffers)

    monkeypatch.setattr(database.client, "_write", note)
    with pytest.raises(SqlError) as caught:
        await asyncio.wait_for(database.fetch(query(TOO_LARGE, [(20, "BIGINT")])), 60)
    assert caught.value.sqlstate == "53200"
    assert len(sent) == 1


# ---- a table that finds no memory ----------------------------------------------------------------------------------


@pytest.fixture
def loaded(tmp_path: Path) -> Iterator[tuple[Tables, Callable[[int, int], Pairs]]]:
    """Tables with one of long texts, in a DuckDB that has little memory and nowhere to spill, and what makes rows."""
    connection = open_database(24 << 20, 1, "")
    kept = Tables(connection, lambda _: None)
    table = make_table(5000, [(23, -1), (25, -1)], (1,))
    held = worker_tables.hold_table(describe_table(table), "")
    connection.execute(f"CREATE TABLE columns.t5000 ({worker_tables.definition(held)})")
    kept._held[5000] = held
    encode, codec = row_key_encoder(5000, [table.columns[0].type]), RowCodec(table)

    def rows(first: int, count: int) -> Pairs:
        numbers = range(first, first + count)
        keys = pa.array([encode([n]) for n in numbers], pa.binary())
        values = pa.array([codec.encode((n, f"{n * 7919 % 1000003}" * 300)) for n in numbers], pa.binary())
        return Pairs.of(keys, values)

    yield kept, rows
    connection.close()


@pytest.mark.parametrize("way", ["apply", "apply_all"])
def test_a_table_without_memory_raises_an_error_and_others_work(
    loaded: tuple[Tables, Callable[[int, int], Pairs]], way: str
) -> None:
    kept, rows = loaded
    large = rows(1, 30_000)
    with pytest.raises(duckdb.Error) as caught:
        if way == "apply":
            kept.apply(5000, large)
        else:
            kept.apply_all(5000, iter([large]))
    told = as_sql_error(caught.value)
    assert (told.sqlstate, told.message) == ("53200", "out of memory")
    assert told.detail is not None
    assert told.hint is not None
    kept.apply(5000, rows(1, 10))  # the transaction is over
    found = kept._connection.execute("SELECT count(*) FROM columns.t5000").fetchone()
    assert found == (10,)
