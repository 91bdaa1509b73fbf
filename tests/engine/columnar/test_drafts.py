"""Columns of a bulk load are made while it runs: nobody sees them before its commit, and nothing is left of them where
there is none."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest

from catalog.errors import SqlError
from catalog.schema import Table
from catalog.types.datetime import LATE_TIMESTAMP
from engine.columnar import drafts as engine_drafts
from engine.columnar.ahead import announce
from engine.columnar.descriptions import describe_table
from engine.columnar.worker.columns_file import ColumnsFile
from engine.columnar.worker.database import open_database, open_with_columns
from engine.columnar.worker.drafts import DraftTables
from engine.columnar.worker.room import Room
from engine.columnar.worker.tables import Tables
from engine.storage.columns import ShapedArray
from engine.storage.edits import Edits
from engine.storage.rows import RowCodec
from engine.storage.runs import BulkRun, BulkRunWriter
from tests.engine.columnar.conftest import Database, make_table, query
from tests.engine.columnar.test_ahead import catalog_of
from tests.engine.storage.harness import key

INT4, TEXT, INT4_ARRAY, CHAR9, TIMESTAMP = (23, -1), (25, -1), (1007, -1), (1042, 13), (1114, -1)
TABLE = make_table(20001, [INT4, TEXT], (1,))
ARRAYS = make_table(20003, [INT4, INT4_ARRAY], (1,))
COUNT = query("SELECT count(*), sum(c1) FROM {t20001}", [(20, "BIGINT"), (20, "HUGEINT")], TABLE)
LEFT = query("SELECT count(*) FROM duckdb_tables() WHERE regexp_full_match(table_name, 'd[0-9]+')", [(20, "BIGINT")])
PART = 40


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine_drafts, "FIRST_ROWS", 100)
    monkeypatch.setattr(engine_drafts, "PART_ROWS", PART)
    monkeypatch.setattr("engine.columnar.client.PUSH_SECONDS", 0.01)


class Load:
    """A bulk load, as BulkInsert does it."""

    def __init__(self, database: Database, table: Table = TABLE) -> None:
        self.database = database
        self.table = table
        self.writer = database.store.new_run()
        columns = database.client.drafts.of_load(table)
        assert columns is not None
        self.columns = columns

    async def add(self, numbers: Iterable[int], rows: Iterable[tuple[object, ...]] | None = None) -> None:
        made = list(rows) if rows is not None else [(n, f"row {n}") for n in numbers]
        writes = self.database.writes(self.table, *made)
        self.columns.look(self.writer)
        self.writer.add(pa.array(list(writes), pa.binary()), pa.array(list(writes.values()), pa.binary()))
        await asyncio.sleep(0)

    def finish(self) -> BulkRun:
        run = self.writer.finish()
        self.columns.keep(self.writer, run)
        self.columns.end()
        return run

    async def fail(self) -> None:
        self.columns.end()
        self.writer.discard()

    async def commit(self, table: Table | None = None) -> None:
        await commit(self.database, self.finish(), table or self.table)

    @property
    def has_draft(self) -> bool:
        return self.columns._draft is not None and not self.columns._draft.lost

    async def until_drafted(self, rows: int) -> None:
        """Until the worker has put so many rows into the draft."""
        draft = self.columns._draft
        assert draft is not None
        async with asyncio.timeout(20):
            while draft.rows < rows:
                assert not draft.lost
                await asyncio.sleep(0.01)


async def commit(database: Database, run: BulkRun, table: Table) -> None:
    announce(database.client, database.store, catalog_of(table), [run])
    await database.durable(database.store.sequence(Edits({}, [run.reference]), 0, 1))


async def nothing_is_left(database: Database) -> bool:
    """No draft in the worker, and no file that was kept for it."""
    async with asyncio.timeout(20):
        while [name for name in os.listdir(database.client.spill_directory) if name.startswith("run-")]:
            await asyncio.sleep(0.01)
    client = database.client
    return await database.fetch(LEFT) == [(0,)] and not client.drafts._drafts and not client.drafts._of_runs


def total(numbers: Iterable[int]) -> list[tuple[object, ...]]:
    known = list(numbers)
    return [(len(known), sum(known))]


async def kill(database: Database) -> None:
    client = database.client
    pid = client.process_id
    assert pid is not None
    os.kill(pid, signal.SIGKILL)
    while client.process_id == pid:
        await asyncio.sleep(0.01)


async def test_columns_grow_with_the_load_and_are_seen_after_its_commit(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    await database.client.start()
    sent: list[dict[str, Any]] = []
    write = database.client._write
    monkeypatch.setattr(database.client, "_write", lambda header, *rest: (sent.append(header), write(header, *rest)))
    load = Load(database)
    for start in range(0, 1000, 50):
        await load.add(range(start, start + 50))
    await load.until_drafted(950 - PART)
    assert await database.fetch(LEFT) == [(1,)]
    run = load.finish()
    assert await database.fetch(COUNT) == [(0, None)]
    await commit(database, run, TABLE)
    assert await database.fetch(COUNT) == total(range(1000))
    (applied,) = [header for header in sent if header["op"] == "run"]
    assert applied["draft"]
    assert await nothing_is_left(database)
    await database.commit(database.writes(TABLE, (1000, "late"), (5, "changed")))
    assert await database.fetch(COUNT) == total(range(1001))


@pytest.mark.parametrize("when", ["while it runs", "when it is finished"])
async def test_nothing_is_left_of_a_load_that_is_not_committed(database: Database, when: str) -> None:
    await database.client.start()
    load = Load(database)
    for start in range(0, 300, 50):
        await load.add(range(start, start + 50))
    await load.until_drafted(PART)
    if when == "while it runs":
        await load.fail()
    else:
        load.finish().discard()
    assert await nothing_is_left(database)
    assert await database.fetch(COUNT) == [(0, None)]


async def test_rows_that_come_in_no_order_are_read_when_the_run_is_sorted(database: Database) -> None:
    await database.client.start()
    load = Load(database)
    for start in (0, 50, 100, 150, 1025):
        await load.add(range(start, start + 25))
    assert load.has_draft
    await load.add(range(200, 225))
    load.columns.look(load.writer)
    assert not load.writer.in_order and not load.has_draft
    await load.commit()
    expected = [n for start in (0, 50, 100, 150, 1025, 200) for n in range(start, start + 25)]
    assert await database.fetch(COUNT) == total(expected)
    assert await nothing_is_left(database)


@pytest.mark.parametrize("when", ["drafted", "finished", "committed", "applied"])
@pytest.mark.parametrize("again", [False, True])
async def test_a_worker_that_ends_at_any_step_costs_time_alone(database: Database, when: str, again: bool) -> None:
    """`again`: another worker is there at once."""
    await database.client.start()

    async def end() -> None:
        await kill(database)
        if again:
            await database.client.start()

    load = Load(database)
    for start in range(0, 300, 50):
        await load.add(range(start, start + 50))
    await load.until_drafted(PART)
    if when == "drafted":
        await end()
    for start in range(300, 500, 50):
        await load.add(range(start, start + 50))
    assert load.has_draft == (again or when != "drafted")
    run = load.finish()
    if when == "finished":
        await end()
    await commit(database, run, TABLE)
    if when == "committed":
        await end()
    if when == "applied":
        assert await database.fetch(COUNT) == total(range(500))
        await database.client._save()
        await end()
    assert await database.fetch(COUNT) == total(range(500))
    assert await nothing_is_left(database)


async def test_a_load_into_a_table_that_the_worker_has(database: Database) -> None:
    """Among what it adds is a key of a row that has gone, which the worker has not been told."""
    await database.commit(database.writes(TABLE, *((n, "old") for n in range(1000, 1100))))
    assert await database.fetch(COUNT) == total(range(1000, 1100))
    await database.commit({database.key(TABLE, (1050, "")): None})
    load = Load(database)
    for start in range(0, 200, 50):
        await load.add(range(start, start + 50))
    await load.until_drafted(PART)
    await load.add([1050])
    await load.commit()
    assert await database.fetch(COUNT) == total([*range(200), *range(1000, 1100)])
    rows = query("SELECT c2 FROM {t20001} WHERE c1 = 1050", [(25, "VARCHAR")], TABLE)
    assert await database.fetch(rows) == [("row 1050",)]
    assert await nothing_is_left(database)


async def test_a_table_that_has_rows_and_no_columns_gets_no_draft(database: Database) -> None:
    await database.client.start()
    await database.commit(database.writes(TABLE, (5000, "old")))
    load = Load(database)
    for start in range(0, 300, 50):
        await load.add(range(start, start + 50))
    assert not load.has_draft
    await load.commit()
    assert await database.fetch(COUNT) == total([*range(300), 5000])


async def test_a_large_load_starts_the_worker(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine_drafts, "START_ROWS", 300)
    load = Load(database)
    for start in range(0, 300, 50):
        await load.add(range(start, start + 50))
    assert not database.client.running and database.client.drafts._starting is None
    await load.add(range(300, 350))
    async with asyncio.timeout(20):
        while not database.client.running:
            await asyncio.sleep(0.01)
    await load.add(range(350, 400))
    assert load.has_draft
    await load.commit()
    assert await database.fetch(COUNT) == total(range(400))
    assert await nothing_is_left(database)


async def test_a_load_that_commits_while_the_worker_starts_is_built_by_itself(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine_drafts, "START_ROWS", 200)
    process = database.client._process
    spawn, committed = process._start_once, asyncio.Event()

    async def start_late() -> None:
        await committed.wait()
        await spawn()

    monkeypatch.setattr(process, "_start_once", start_late)
    load = Load(database)
    for first in range(0, 400, 50):
        await load.add(range(first, first + 50))
    assert not database.client.running
    await load.commit()
    committed.set()
    async with asyncio.timeout(20):
        while not database.client.has_copy(TABLE):
            await asyncio.sleep(0.01)
    assert await database.fetch(COUNT) == total(range(400))


async def test_a_table_that_is_changed_in_the_transaction_of_the_load(database: Database) -> None:
    """The draft is of no use; the run is read."""
    await database.client.start()
    load = Load(database)
    for start in range(0, 300, 50):
        await load.add(range(start, start + 50))
    await load.until_drafted(PART)
    other = make_table(20001, [INT4, (1043, 54)], (1,))
    await load.commit(other)
    wanted = query("SELECT count(*), sum(c1) FROM {t20001}", [(20, "BIGINT"), (20, "HUGEINT")], other)
    assert await database.fetch(wanted) == total(range(300))
    assert await nothing_is_left(database)


async def test_arrays_that_are_no_lists_end_a_draft(database: Database) -> None:
    await database.client.start()
    load = Load(database, ARRAYS)
    await load.add((), ((n, ([n], (1,), (1,))) for n in range(150)))
    await load.add((), ((n, ([n], (1,), (1,))) for n in range(150, 200)))
    await load.until_drafted(PART)
    await load.add((), ((n, ([n], (1,), (7,))) for n in range(200, 300)))
    load.columns.look(load.writer)
    await load.commit()
    wanted = query("SELECT count(*), sum(c1) FROM {t20003}", [(20, "BIGINT"), (20, "HUGEINT")], ARRAYS)
    assert await database.fetch(wanted) == total(range(300))
    assert await nothing_is_left(database)


async def test_a_draft_that_is_saved_in_between_goes_with_the_next_start(database: Database) -> None:
    await database.client.start()
    load = Load(database)
    for start in range(0, 300, 50):
        await load.add(range(start, start + 50))
    await load.until_drafted(PART)
    await database.client._save()
    await kill(database)
    await load.fail()
    with duckdb.connect(database.client.columns_path) as connection:
        assert connection.execute("SELECT count(*) FROM duckdb_tables() WHERE table_name ~ 'd[0-9]+'").fetchone() == (
            1,
        )
    assert await database.fetch(COUNT) == [(0, None)]
    assert await nothing_is_left(database)


async def test_a_draft_whose_run_is_never_committed_goes(database: Database) -> None:
    """As when the leader was deposed in between."""
    await database.client.start()
    load = Load(database)
    for start in range(0, 300, 50):
        await load.add(range(start, start + 50))
    announce(database.client, database.store, catalog_of(TABLE), [load.finish()])
    assert database.client.drafts._of_runs
    await database.commit(database.writes(TABLE, (5, "x")))
    async with asyncio.timeout(20):
        while database.client.drafts._of_runs:
            await asyncio.sleep(0.01)
    assert await nothing_is_left(database)
    assert await database.fetch(COUNT) == total([5])


async def test_a_draft_of_a_table_that_is_dropped_goes(database: Database) -> None:
    await database.client.start()
    load = Load(database)
    for start in range(0, 300, 50):
        await load.add(range(start, start + 50))
    await load.commit()
    database.client._feed.collect(*database.client._feed.tables.values())
    database.client.forget(TABLE.storage_id)
    assert await nothing_is_left(database)


# ---- in the worker ---------------------------------------------------------------------------------------------------


Worker = tuple[Any, Tables, DraftTables]


@pytest.fixture
def worker(tmp_path: Path) -> Iterator[Worker]:
    connection = open_database(256 << 20, 2, str(tmp_path))
    yield connection, Tables(connection, lambda _: None), DraftTables(connection)
    connection.close()


def add(writer: BulkRunWriter, table: Table, rows: Iterable[tuple[object, ...]]) -> None:
    codec = RowCodec(table)
    made = [(key(int(str(row[0])) ^ 1 << 31, table.storage_id), codec.encode(row)) for row in rows]
    writer.add(pa.array([k for k, _ in made], pa.binary()), pa.array([v for _, v in made], pa.binary()))


@pytest.mark.parametrize("rows_before", [0, 1])
@pytest.mark.parametrize("grown", [0, 1, 3])
def test_a_draft_is_adopted_whatever_it_lacks(
    worker: Worker,
    tmp_path: Path,
    rows_before: int,
    grown: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("engine.columnar.worker.drafts.GROUP_ROWS", 100)
    connection, tables, drafts = worker
    table = make_table(20, [INT4, CHAR9], (1,))
    description = {**describe_table(table), "bases": []}
    tables.load(description, "", "", 0, 5)
    if rows_before:
        connection.execute("INSERT INTO columns.t20 VALUES (0, 'old')")
    writer = BulkRunWriter(str(tmp_path / "run"))
    drafts.begin(1, description, writer.path)
    for part in range(4):
        add(writer, table, ((n, f"r{n}".ljust(9)) for n in range(part * 70, part * 70 + 70)))
        if part < grown:
            assert drafts.grow(1, writer.written[1], 1000) == writer.rows
    writer.finish()
    assert connection.execute("SELECT count(*) FROM columns.t20").fetchone() == (rows_before,)
    draft = drafts.take(1)
    assert draft is not None
    drafts.finish(draft)
    assert tables.adopt(20, draft)
    found = connection.execute("SELECT count(*), sum(c1), max(c2), count(DISTINCT c1) FROM columns.t20").fetchone()
    assert found == (280, sum(range(280)), "r99", 280)


def test_a_part_takes_no_more_rows_than_it_is_told(worker: Worker, tmp_path: Path) -> None:
    _, _, drafts = worker
    writer = BulkRunWriter(str(tmp_path / "run"))
    drafts.begin(1, describe_table(TABLE), writer.path)
    for part in range(10):
        add(writer, TABLE, ((n, "x") for n in range(part * 10, part * 10 + 10)))
    written = writer.written
    add(writer, TABLE, ((n, "x") for n in range(100, 200)))
    grown = [drafts.grow(1, written[1], 25) for _ in range(5)]
    assert grown == [30, 60, 90, 100, 100]  # whole batches; not those that came after
    assert drafts.grow(2, written[1], 25) is None


@pytest.mark.parametrize("step", ["grow", "finish", "adopt"])
def test_a_disk_with_little_room_takes_no_draft(tmp_path: Path, step: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """As it takes no table. A draft that becomes the table needs no room, one whose rows are copied does."""
    for module in ("drafts", "columns_file"):
        monkeypatch.setattr(f"engine.columnar.worker.{module}.GROUP_ROWS", 100)
    connection, file = open_with_columns(Room(256 << 20, str(tmp_path), columns_path=str(tmp_path / "file")), 1)
    tables = Tables(connection, lambda _: None, check_room=file.check_room)
    drafts = DraftTables(connection, file.check_room)
    description = {**describe_table(TABLE), "bases": []}
    tables.load(description, "", "", 0, 5)
    writer = BulkRunWriter(str(tmp_path / "run"))
    drafts.begin(1, description, writer.path)
    add(writer, TABLE, ((n, "x") for n in range(250)))
    _, upto = writer.written
    writer.finish()

    def fill() -> None:
        monkeypatch.setattr("engine.columnar.worker.columns_file.LEAST_FREE_TO_BUILD", 1 << 60)

    if step == "grow":
        fill()
        with pytest.raises(SqlError) as caught:
            drafts.grow(1, upto, 250)
    else:
        draft = drafts.take(1)
        assert draft is not None
        if step == "finish":
            fill()
            with pytest.raises(SqlError) as caught:
                drafts.finish(draft)
        else:
            drafts.finish(draft)
            connection.execute("INSERT INTO columns.t20001 VALUES (1000, 'other')")
            fill()
            with pytest.raises(SqlError) as caught:
                tables.adopt(20001, draft)
            connection.execute("DELETE FROM columns.t20001")
            assert tables.adopt(20001, draft)
    assert caught.value.sqlstate == "53100"
    connection.close()


def test_a_late_timestamp_is_refused_in_a_draft_as_in_a_build(worker: Worker, tmp_path: Path) -> None:
    _, _, drafts = worker
    table = make_table(20004, [INT4, TIMESTAMP], (1,))
    for number, value in enumerate((LATE_TIMESTAMP - 1, LATE_TIMESTAMP)):
        writer = BulkRunWriter(str(tmp_path / f"run{number}"))
        drafts.begin(number, describe_table(table), writer.path)
        add(writer, table, [(1, value)])
        if value < LATE_TIMESTAMP:
            assert drafts.grow(number, writer.written[1], 25) == 1
        else:
            with pytest.raises(SqlError, match="timestamp") as caught:
                drafts.grow(number, writer.written[1], 25)
            assert caught.value.sqlstate == "0A000"


def test_an_array_that_is_no_list_is_noticed(worker: Worker, tmp_path: Path) -> None:
    _, _, drafts = worker
    writer = BulkRunWriter(str(tmp_path / "run"))
    drafts.begin(1, describe_table(ARRAYS), writer.path)
    add(writer, ARRAYS, [(1, ([1], (1,), (7,)))])
    with pytest.raises(ShapedArray):
        drafts.grow(1, writer.written[1], 25)


def test_a_file_with_drafts_begins_without_them(tmp_path: Path) -> None:
    room = Room(256 << 20, str(tmp_path), columns_path=str(tmp_path / "columns.duckdb"))
    connection, file = open_with_columns(room, 1)
    DraftTables(connection).begin(7, describe_table(TABLE), "")
    file.save([])
    connection.close()
    connection, file = open_with_columns(room, 1)
    assert isinstance(file, ColumnsFile) and file.tables == {}
    names = connection.execute("SELECT table_name FROM duckdb_tables() WHERE database_name = 'columns'").fetchall()
    assert sorted(names) == [("about",), ("pin",), ("saved",)]
    connection.close()
