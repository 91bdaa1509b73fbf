"""Tables outlive the worker in a file: whatever ends, and whatever was changed since it was saved, a query reads the
rows of its moment."""

from __future__ import annotations

import asyncio
import os
import random
import signal
from collections.abc import AsyncIterator, Awaitable, Callable
from itertools import product
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest
import pytest_asyncio

from catalog.types import oids
from engine.columnar import drafts
from engine.columnar.ahead import announce
from engine.columnar.client import WorkerClient
from engine.columnar.interface import ColumnarQuery
from engine.storage import key_notes
from engine.storage.edits import Edits
from engine.storage.keys import row_number_key
from engine.storage.rows import RowCodec
from engine.storage.tablespace import Tablespace
from tests.engine.columnar import faulty_worker
from tests.engine.columnar.conftest import Database, make_table, open_store, query
from tests.engine.columnar.test_ahead import catalog_of
from tests.samples import some

KEYED = make_table(601, [(oids.INT4, -1), (oids.TEXT, -1)], (1,))
TEXT_KEY = make_table(602, [(oids.TEXT, -1), (oids.INT4, -1)], (1,))
NUMBERED = make_table(603, [(oids.INT4, -1), (oids.TEXT, -1)], ())
ARRAYS = make_table(604, [(oids.INT4, -1), (1007, -1)], (1,))
TABLES = (KEYED, TEXT_KEY, NUMBERED, ARRAYS)
COLUMN_TYPES = {601: "INTEGER VARCHAR", 602: "VARCHAR INTEGER", 603: "INTEGER VARCHAR", 604: "INTEGER VARCHAR"}


def everything(table: int) -> ColumnarQuery:
    """All rows of a table; arrays as text."""
    found = next(item for item in TABLES if item.storage_id == table)
    kinds = [(column.type.oid, kind) for column, kind in zip(found.columns, COLUMN_TYPES[table].split(), strict=True)]
    second = "regexp_replace(CAST(c2 AS VARCHAR), '[^0-9,]', '', 'g') AS c2" if found is ARRAYS else "c2"
    return query(f"SELECT c1, {second} FROM {{t{table}}}", kinds, found)


def digits(array: Any) -> str:
    """Those of an array's text, and its commas."""
    elements, dimensions, lower_bounds = array
    bounds = "".join(f"{low}{low + size - 1}" for low, size in zip(lower_bounds, dimensions, strict=True) if low != 1)
    return bounds + ",".join(map(str, elements))


class Place:
    """A store and a worker that end and begin again, and what has to be in the tables."""

    def __init__(self, path: Path, seed: int) -> None:
        self.path = path
        self.random = random.Random(seed)
        self.rows: dict[int, dict[int, tuple[object, ...]]] = {table.storage_id: {} for table in TABLES}
        self.database: Database
        self.open()

    def open(self) -> None:
        store = open_store(self.path)
        client = WorkerClient(store, str(self.path / "columnar"), memory_limit=512 << 20, threads=2)
        client.stored_tables = lambda: TABLES
        self.database = Database(store, client)

    @property
    def store(self) -> Tablespace:
        return self.database.store

    async def close(self) -> None:
        await self.database.client.close()
        self.store.close()

    def row(self, storage_id: int, number: int) -> tuple[object, ...]:
        value = self.random.randrange(1000)
        if storage_id == 602:
            return (f"key {number}", value)
        if storage_id == 604:  # one of a hundred is none for a LIST
            count, lower = value % 4, 1 + (value % 4 > 0 and self.random.random() < 0.01)
            return number, ([value] * count, (count,) if count else (), (lower,) if count else ())
        return number, f"text {value}"

    def key(self, storage_id: int, number: int) -> bytes:
        if storage_id == 603:
            return row_number_key(storage_id, number)
        table = next(table for table in TABLES if table.storage_id == storage_id)
        return self.database.key(table, self.row(storage_id, number))

    # ---- what is done ---------------------------------------------------------------------------------------------

    async def change(self) -> None:
        """Rows of one table are inserted, updated and deleted."""
        table = self.random.choice(TABLES)
        codec, rows = RowCodec(table), self.rows[table.storage_id]
        writes: dict[bytes, bytes | None] = {}
        for number in self.random.sample(range(400), self.random.choice((1, 5, 60))):
            if number in rows and self.random.random() < 0.4:
                del rows[number]
                writes[self.key(table.storage_id, number)] = None
            else:
                rows[number] = self.row(table.storage_id, number)
                writes[self.key(table.storage_id, number)] = codec.encode(rows[number])
        await self.database.commit(writes)

    async def change_many(self) -> None:
        """The same as a bulk run."""
        table = self.random.choice(TABLES)
        codec, rows = RowCodec(table), self.rows[table.storage_id]
        keys: list[bytes] = []
        values: list[bytes | None] = []
        for number in self.random.sample(range(400), 100):
            keys.append(self.key(table.storage_id, number))
            if number in rows and self.random.random() < 0.3:
                del rows[number]
                values.append(None)
            else:
                rows[number] = self.row(table.storage_id, number)
                values.append(codec.encode(rows[number]))
        writer = self.store.new_run()
        writer.add(pa.array(keys, pa.binary()), pa.array(values, pa.binary()))
        run = writer.finish()
        await self.database.durable(self.store.sequence(Edits({}, [run.reference]), 0, 1))

    async def load_many(self) -> None:
        """New rows, of which the worker makes columns meanwhile; it may end, and so may the load."""
        table = self.random.choice((KEYED, NUMBERED, ARRAYS))
        codec, rows = RowCodec(table), self.rows[table.storage_id]
        client = self.database.client
        if self.random.random() < 0.5:
            await client.start()
        writer, columns = self.store.new_run(), client.drafts.of_load(table)
        assert columns is not None
        new: dict[int, tuple[object, ...]] = {}
        for number in sorted(set(self.random.sample(range(400), 100)) - rows.keys()):
            new[number] = self.row(table.storage_id, number)
            key, value = self.key(table.storage_id, number), codec.encode(new[number])
            writer.add(pa.array([key], pa.binary()), pa.array([value], pa.binary()))
            columns.look(writer)
            await asyncio.sleep(self.random.choice((0, 0, 0, 0.002)))
            if self.random.random() < 0.005:
                await self.random.choice((self.kill, self.save, self.change_others))()
        run = writer.finish() if new else None
        if run is None or self.random.random() < 0.3:
            columns.end()
            writer.discard()
            return
        columns.keep(writer, run)
        columns.end()
        if self.random.random() < 0.2:
            run.discard()
            return
        announce(client, self.store, catalog_of(table), [run])
        await self.database.durable(self.store.sequence(Edits({}, [run.reference]), 0, 1))
        rows.update(new)

    async def change_others(self) -> None:
        """A row that no load has."""
        await self.database.commit({self.key(602, 1): RowCodec(TEXT_KEY).encode(row := self.row(602, 1))})
        self.rows[602][1] = row

    async def flush(self) -> None:
        await self.database.flush()

    async def save(self) -> None:
        if self.database.client.running:
            await self.database.client._save()

    async def push(self) -> None:
        """What a second does."""
        if self.database.client.running:
            self.database.client._push_all()

    async def kill(self) -> None:
        client = self.database.client
        pid = client.process_id
        if pid is not None:
            os.kill(pid, signal.SIGKILL)
            while client.process_id == pid:
                await asyncio.sleep(0.01)

    async def lose_file(self) -> None:
        await self.kill()
        Path(self.database.client.columns_path).unlink(missing_ok=True)

    async def restart(self) -> None:
        await self.close()
        self.open()

    async def restart_after_kill(self) -> None:
        await self.kill()
        await self.restart()

    async def check(self) -> None:
        for storage_id, rows in self.rows.items():
            found = await asyncio.wait_for(self.database.fetch(everything(storage_id)), 60)
            wanted = [(row[0], digits(row[1])) if storage_id == 604 else row for row in rows.values()]
            assert sorted(found, key=str) == sorted(wanted, key=str), storage_id


STEPS: list[Callable[[Place], Awaitable[None]]] = [
    *[Place.change] * 6, *[Place.change_many] * 2, *[Place.load_many] * 2,
    Place.flush, Place.flush, Place.save, Place.save, Place.push,
    Place.kill, Place.lose_file, Place.restart, Place.restart_after_kill, Place.check, Place.check,
]  # fmt: skip


@pytest_asyncio.fixture
async def place(tmp_path: Path, request: pytest.FixtureRequest) -> AsyncIterator[Place]:
    made = Place(tmp_path, getattr(request, "param", 0))
    try:
        yield made
    finally:
        await made.close()


@pytest.mark.parametrize("place", some(range(24), 24), indirect=True)
async def test_columns_equal_rows_whatever_ends(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(drafts, "FIRST_ROWS", 10)
    monkeypatch.setattr(drafts, "PART_ROWS", 7)
    for _ in range(60):
        await place.random.choice(STEPS)(place)
    await place.check()


async def filled(place: Place) -> None:
    """Every table has rows, the worker has them all, and they are saved."""
    for _ in range(12):
        await place.change()
    await place.flush()
    await place.check()
    await place.save()


def built(place: Place) -> set[int]:
    """The tables that the worker has read as a whole since it started."""
    return {storage_id for storage_id, fed in place.database.client._feed.tables.items() if fed.built}


EVERY = {table.storage_id for table in TABLES}
ENDS: list[Callable[[Place], Awaitable[None]]] = [Place.kill, Place.restart, Place.restart_after_kill]


LATER = [[], [Place.change] * 5, [Place.flush], [Place.change, Place.flush, Place.change]]


@pytest.mark.parametrize(("later", "end"), some(product(LATER, ENDS), 2))
async def test_what_was_saved_is_brought_up_by_what_has_changed(
    place: Place, end: Callable[[Place], Awaitable[None]], later: list[Callable[[Place], Awaitable[None]]]
) -> None:
    await filled(place)
    for step in later:
        await step(place)
    await end(place)
    await place.check()
    assert built(place) == set()


async def test_a_worker_that_starts_brings_up_what_is_saved_unasked(place: Place) -> None:
    await filled(place)
    await place.change()
    await place.restart()
    client = place.database.client
    await client.start_if_wanted()
    async with asyncio.timeout(20):
        while client.in_file:
            await asyncio.sleep(0.01)
    assert {number for number, fed in client._feed.tables.items() if fed.ready} == EVERY
    assert built(place) == set()
    await place.check()


@pytest.mark.parametrize("step", faulty_worker.SAVE_STEPS)
async def test_a_worker_that_is_killed_while_it_saves(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    wanted = tmp_path / "wanted"
    faulty_worker.use(monkeypatch, wanted)
    place = Place(tmp_path, 5)
    try:
        await filled(place)
        for _ in range(4):
            await place.change()
            await place.flush()
        await place.check()
        wanted.write_text(f"{step} kill")
        await place.save()
        assert not wanted.exists()
        await place.change()
        await place.check()
        assert built(place) == set()
        await place.restart_after_kill()
        await place.check()
        assert built(place) == set()
    finally:
        await place.close()


@pytest.mark.parametrize("end", ENDS)
async def test_too_many_changes_to_be_noted(
    place: Place, end: Callable[[Place], Awaitable[None]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A table is built anew that lacks more than is noted, and one that has been saved since is not."""
    monkeypatch.setattr(key_notes, "MOST_BYTES", 700)
    await filled(place)
    for _ in range(8):
        await place.change_many()
        await place.flush()
    await end(place)
    await place.check()
    changed = built(place) | ({601, 602, 603, 604} if end is Place.restart else set())
    assert changed
    await place.save()
    await place.kill()
    await place.check()
    assert built(place) == set()


def damage_everywhere(path: Path) -> None:
    data = bytearray(path.read_bytes())
    for start in range(0, len(data), 4096):
        data[start + 2048] ^= 0xFF
    path.write_bytes(data)


def damage_tables(path: Path) -> None:
    """Behind the three blocks of the header."""
    data = bytearray(path.read_bytes())
    for start in range(3 * 4096, len(data), 4096):
        data[start + 100] ^= 0xFF
    path.write_bytes(data)


def make_by_another(path: Path) -> None:
    with duckdb.connect(str(path)) as connection:
        connection.execute("UPDATE about SET made_by = 'DuckDB 0.1, layout 7'")


FAULTS: dict[str, Callable[[Path], object]] = {
    "removed": Path.unlink,
    "empty": lambda path: path.write_bytes(b""),
    "short": lambda path: path.write_bytes(path.read_bytes()[: path.stat().st_size // 2]),
    "something else": lambda path: path.write_bytes(b"no database" * 10_000),
    "damaged": damage_everywhere,
    "damaged tables": damage_tables,
    "of another version": make_by_another,
}


@pytest.mark.parametrize("fault", some(FAULTS, 2))
async def test_an_unusable_file_is_written_again(place: Place, fault: str) -> None:
    await filled(place)
    path = Path(place.database.client.columns_path)
    await place.change()
    await place.close()
    FAULTS[fault](path)
    place.open()
    await place.check()
    assert built(place) == EVERY
    await place.save()
    await place.kill()
    await place.check()
    assert built(place) == set()


async def test_a_copy_that_is_built_again_keeps_what_has_been_noted_since(place: Place) -> None:
    """What the file of before had is of no use to it, whatever flushes come before it is saved."""
    await filled(place)
    for _ in range(6):
        await place.change()  # not flushed
    await place.save()
    await place.lose_file()
    await place.check()
    assert built(place) == EVERY
    for _ in range(3):
        await place.change()
        await place.flush()
    await place.save()
    for _ in range(3):
        await place.change()
        await place.flush()
    await place.kill()
    await place.check()
    assert built(place) == set()


async def test_a_file_that_ends_workers_is_not_used_for_ever(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    await filled(place)
    await place.kill()
    client = place.database.client
    client._process.useless = 2
    await place.check()
    assert built(place) == EVERY


async def test_a_table_that_is_gone_goes_from_the_file(place: Place) -> None:
    await filled(place)
    place.database.client.forget(601)
    await place.restart()
    assert saved_lsns(place).keys() == EVERY - {601}
    await place.check()
    assert built(place) == {601}
    await place.close()
    place.open()
    place.database.client.stored_tables = lambda: TABLES[1:]
    await place.database.client.start()
    place.rows.pop(601)
    await place.check()
    await place.close()
    assert saved_lsns(place).keys() == EVERY - {601}
    place.open()


async def test_a_table_of_another_description_is_built_again(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    await filled(place)
    await place.close()
    monkeypatch.setattr(
        "tests.engine.columnar.test_columns_file.KEYED", make_table(601, [(oids.INT4, -1), (oids.VARCHAR, 54)], (1,))
    )
    place.open()
    place.database.client.stored_tables = lambda: (KEYED, *TABLES[1:])
    place.rows.pop(601)
    await place.check()
    found = await place.database.fetch(query("SELECT count(*) AS n FROM {t601}", [(oids.INT8, "BIGINT")], KEYED))
    assert found and built(place) == {601}


async def test_a_copy_of_before_that_is_put_back_is_not_used(place: Place) -> None:
    """Which keys have changed between it and a later copy nobody knows any more."""
    await filled(place)
    path = Path(place.database.client.columns_path)
    of_before = path.read_bytes()
    for _ in range(2):
        for _ in range(12):
            await place.change()
        await place.flush()
        await place.check()
        await place.save()
    await place.flush()
    await place.close()
    path.write_bytes(of_before)
    place.open()
    await place.check()
    assert built(place) == EVERY


async def test_a_copy_of_another_directory_is_not_used(place: Place, tmp_path_factory: pytest.TempPathFactory) -> None:
    """The same tables at the same LSNs, with other rows."""
    await filled(place)
    other = Place(tmp_path_factory.mktemp("other"), seed=1)
    await filled(other)
    mine = Path(place.database.client.columns_path)
    theirs = Path(other.database.client.columns_path)
    await other.close()
    await place.close()
    mine.write_bytes(theirs.read_bytes())
    place.open()
    await place.check()
    assert built(place) == EVERY


def saved_lsns(place: Place) -> dict[int, int]:
    with duckdb.connect(place.database.client.columns_path, read_only=True) as connection:
        return dict(connection.execute("SELECT storage_id, lsn FROM saved").fetchall())
