"""Works whose every operation on files is made to fail, or is the process's last (operations.py).

A work prepares a directory, does something there and tells what is acknowledged, as a growing number; `check` says what
is wrong with what is found afterwards. What a work may end with when an operation fails: SqlError or the store's own
errors (`REFUSALS`): anything else is told as unclear.
"""

from __future__ import annotations

import asyncio
import os
import pathlib
import queue
import shutil
from collections.abc import Callable
from functools import partial
from typing import Any
from unittest import mock

import duckdb
import numpy as np
import pyarrow as pa

import shoal
from catalog.errors import SqlError
from engine.checkpoint import (
    checkpoint_lsns,
    half_restored,
    read_checkpoint,
    read_manifest,
    verify_checkpoint,
    write_checkpoint,
)
from engine.checkpoint.write import Options
from engine.columnar.worker.columns_file import ColumnsFile, Saved
from engine.columnar.worker_process import COLUMNS_FILE
from engine.storage import checkpoint
from engine.storage.edits import Edits
from engine.storage.keys import row_number_keys
from replication import file_sync
from replication.interface import ChangelogStore, ObjectExistsError, StoreFullError, StoreUnavailableError
from replication.stores import open_store
from shoal.archive.contents import read_contents, verify_all
from shoal.embedded.errors import Error
from tests.engine.checkpoint.harness import mark, opened
from tests.engine.storage.harness import Store, key

Tell = Callable[[int], None]
REFUSALS = (SqlError, OSError, StoreFullError, StoreUnavailableError, ObjectExistsError, Error, duckdb.Error)
COMMITS = 14
RUN_AT, DROP_AT = 6, 9  # commits that bring a bulk run, and drop a storage id
RUN_ROWS = 60
FULL_MAP = 60 << 10  # bytes
SMALL = 3000  # bytes of a segment
_PREFIX = b"\0\0\0\2"


class HangsError(Exception):
    """Nothing was refused, and nothing goes on."""


class Work:
    """`name` for the report; `folder` is empty before `prepare`."""

    name = ""

    def prepare(self, folder: pathlib.Path) -> None:
        """In a process of its own, where nothing fails."""

    def run(self, folder: pathlib.Path, tell: Tell) -> None:
        raise NotImplementedError

    def check(self, folder: pathlib.Path, acknowledged: int) -> str:
        """What is wrong, '' if nothing."""
        raise NotImplementedError


def _wait(store: Store, done: Callable[[], bool]) -> None:
    while not done():
        if store.fatal:
            raise OSError(str(store.fatal[0]))
        try:
            store.loop.calls.get(timeout=8)()
        except queue.Empty:
            raise HangsError from None


def _edits(store: Store, number: int) -> Edits:
    text = b"%d" % number
    edits = Edits({key(0): text, key(number): text * 40, key(number, 2): text, key(number, 4): text})
    if number == RUN_AT:
        writer = store.space.new_run()
        for first in (0, 1):  # even and odd: the batches overlap, and are merged
            numbers = np.arange(first, 2 * RUN_ROWS, 2, dtype=np.int64)
            writer.add(row_number_keys(3, numbers), pa.array([text] * RUN_ROWS, pa.binary()))
        edits.runs.append(writer.finish().reference)
    if number == DROP_AT:
        edits.drops.append(4)
    return edits


def commit(store: Store, number: int, tell: Tell) -> None:
    lsn = store.space.sequence(_edits(store, number), 0, 0)
    _wait(store, lambda: store.space.durable_lsn >= lsn)
    tell(number)


def flush(store: Store) -> None:
    """As CHECKPOINT does it: a disk without room refuses it, though the store itself tries again and again."""
    ends: list[SqlError | None] = []
    store.space.flush(partial(ends.append, None), ends.append)
    _wait(store, lambda: bool(ends))
    if ends[0] is not None:
        raise ends[0]


class Tables(Work):
    """Commits with flushes, a bulk run, a dropped table, segments that roll; and the end of the process."""

    name = "commits, flushes, a bulk run, segments"
    flushes = 3  # after how many commits

    def run(self, folder: pathlib.Path, tell: Tell) -> None:
        store = Store(folder / "data", segment_bytes=SMALL)
        for number in range(int(store.space.current.get(key(0)) or b"0") + 1, COMMITS + 1):
            commit(store, number, tell)
            if number % self.flushes == 0:
                flush(store)
        store.close()

    def check(self, folder: pathlib.Path, acknowledged: int) -> str:
        store = Store(folder / "data")
        try:
            last = int(store.space.current.get(key(0)) or b"0")
            if last < acknowledged:
                return f"{acknowledged} was acknowledged, {last} is the last"
            if store.contents(_PREFIX) != {key(n, 2): b"%d" % n for n in range(1, last + 1)}:
                return f"torn: {last} is the last"
            if len(store.contents(b"\0\0\0\3")) != (2 * RUN_ROWS if last >= RUN_AT else 0):
                return f"the bulk run is torn: {last} is the last"
            store.commit({key(0): b"%d" % (last + 1)})  # and it goes on
            return ""
        finally:
            store.close()


def unflushed(folder: pathlib.Path) -> Store:
    """A tablespace with everything in its changelog, and nothing in LMDB."""
    store = Store(folder / "data", segment_bytes=SMALL)
    store.space._hand_over = lambda: None  # type: ignore[method-assign]  # the flush thread has not come to it
    for number in range(1, RUN_AT + 2):
        commit(store, number, lambda _: None)
    return store


class Recovery(Tables):
    """A start after a crash: what was acknowledged lies in the changelog, nothing in LMDB."""

    name = "a start after a crash"

    def prepare(self, folder: pathlib.Path) -> None:
        unflushed(folder)

    def run(self, folder: pathlib.Path, tell: Tell) -> None:
        tell(RUN_AT + 1)
        super().run(folder, tell)


class GivingBack(Tables):
    """The same, and after every few commits the tables are packed and their file gives back what is free: rows that
    were taken away, and a table that was dropped, leave it behind."""

    name = "space that goes back to the file system"

    def run(self, folder: pathlib.Path, tell: Tell) -> None:
        store = Store(folder / "data", segment_bytes=SMALL)
        for number in range(int(store.space.current.get(key(0)) or b"0") + 1, COMMITS + 1):
            commit(store, number, tell)
            if number % self.flushes == 0:
                told: list[SqlError | None] = []
                store.space.pack(range(1, 5), told.append)
                _wait(store, lambda told=told: bool(told))  # type: ignore[misc]
                if told[0] is not None:
                    raise told[0]
        store.close()


class FullMap(Tables):
    """The map of the tables has no more room: the flush ends by an error, and a start with another map has it all."""

    name = "tables whose map is full"

    def run(self, folder: pathlib.Path, tell: Tell) -> None:
        try:
            with mock.patch.object(checkpoint, "map_size", lambda path: FULL_MAP):
                super().run(folder, tell)
        except (SqlError, OSError) as error:
            if "full" not in str(error).lower():
                raise
        else:
            raise HangsError("the map was never full")


class Objects(Work):
    """The store of a cluster's changelog in a directory: objects of their own, in packs, and files."""

    name = "objects of a changelog store"

    def run(self, folder: pathlib.Path, tell: Tell) -> None:
        asyncio.run(self._run(folder, tell))

    async def _run(self, folder: pathlib.Path, tell: Tell) -> None:
        store = open_store(f"file://{folder}/data")
        (folder / "outside").write_bytes(_content(0) * 50)
        try:
            for number in range(1, 13):
                if number % 3 == 0:
                    await store.put(f"a/ledger-1/{number}", _content(number))
                elif number == 7:
                    await store.put_file(f"a/bulk/{number}", str(folder / "outside"))
                else:
                    await store.append(f"a/ledger-1/{number}", _content(number))
                tell(number)
            await store.delete("a/ledger-1/1")
        finally:
            await store.close()

    def check(self, folder: pathlib.Path, acknowledged: int) -> str:
        return asyncio.run(self._check(folder, acknowledged))

    async def _check(self, folder: pathlib.Path, acknowledged: int) -> str:
        store = open_store(f"file://{folder}/data")
        try:
            there = {info.name: await store.get(info.name) async for info in store.list("a/")}
            for number in range(1, 13):
                name = f"a/{'bulk' if number == 7 else 'ledger-1'}/{number}"
                expected = _content(0) * 50 if number == 7 else _content(number)
                if name in there and there[name] != expected:
                    return f"{name} is torn"
                if name not in there and number <= acknowledged and (number > 1 or acknowledged < 12):
                    return f"{name} was acknowledged and is lost"
            await store.put("a/again", b"and it goes on")
            return ""
        finally:
            await store.close()


def _content(number: int) -> bytes:
    return b"%d " % number * 30


ROWS = 3000


def _database(folder: pathlib.Path) -> None:
    with shoal.open(folder / "source") as db:
        db.execute("CREATE TABLE a (id int PRIMARY KEY, x text)")
        db.execute("CREATE INDEX a_x ON a (x)")
        db.execute(f"INSERT INTO a SELECT n, 'row ' || n FROM generate_series(1, {ROWS}) n")


def _checkpoints(folder: pathlib.Path) -> ChangelogStore:
    return open_store(f"file://{folder}/data")


async def _write(folder: pathlib.Path, numbers: range, tell: Tell) -> None:
    files = _checkpoints(folder)
    (folder / "scratch").mkdir(exist_ok=True)
    options = Options(target_rows=1000, rest=0.0)
    previous = None
    try:
        async with opened(folder / "source") as space:
            for number in numbers:
                previous = await write_checkpoint(
                    space, files, "", str(folder / "scratch"), mark, previous=previous, options=options
                )
                tell(number)
                lsn = space.sequence(Edits({key(number, 900): b"more"}), 0, 0)
                while space.durable_lsn < lsn:
                    await asyncio.sleep(0.001)
    finally:
        await files.close()


class Checkpoints(Work):
    """Two checkpoints in a row, the second of which refers to files of the first."""

    name = "checkpoints and their manifests"

    def prepare(self, folder: pathlib.Path) -> None:
        _database(folder)

    def run(self, folder: pathlib.Path, tell: Tell) -> None:
        asyncio.run(_write(folder, range(1, 3), tell))

    def check(self, folder: pathlib.Path, acknowledged: int) -> str:
        return asyncio.run(self._check(folder, acknowledged))

    async def _check(self, folder: pathlib.Path, acknowledged: int) -> str:
        files = _checkpoints(folder)
        try:
            lsns = await checkpoint_lsns(files, "")
            if len(lsns) < acknowledged:
                return f"{acknowledged} checkpoints were told, {len(lsns)} are there"
            for lsn in lsns:
                wrong = await verify_checkpoint(files, "", await read_manifest(files, "", lsn), str(folder / f"v{lsn}"))
                if wrong:
                    return f"checkpoint {lsn}: {wrong[0]}"
            return ""
        finally:
            await files.close()


class Restoring(Work):
    """A new replica's directory is made from a checkpoint."""

    name = "a new replica from a checkpoint"

    def prepare(self, folder: pathlib.Path) -> None:
        _database(folder)
        asyncio.run(_write(folder, range(1, 2), lambda _: None))
        (folder / "data").rename(folder / "checkpoints")

    def run(self, folder: pathlib.Path, tell: Tell) -> None:
        asyncio.run(self._restore(folder))
        tell(1)

    async def _restore(self, folder: pathlib.Path) -> None:
        files = open_store(f"file://{folder}/checkpoints")
        try:
            manifest = await read_manifest(files, "", (await checkpoint_lsns(files, ""))[-1])
            await read_checkpoint(files, "", manifest, str(folder / "data"))
        finally:
            await files.close()

    def check(self, folder: pathlib.Path, acknowledged: int) -> str:
        data = folder / "data"
        if half_restored(str(data)) or not (data / "rows").exists():
            if acknowledged:
                return "it was said to be whole, and is not"
            asyncio.run(self._restore(folder))  # as the next start does
        with shoal.open(data) as db:
            found = db.execute("SELECT count(*), count(DISTINCT x) FROM a").fetchone()
        return "" if found == (ROWS, ROWS) else f"{found} rows"


STATEMENTS = (
    "CREATE TABLE t (id int PRIMARY KEY, x text)",
    "INSERT INTO t VALUES " + ", ".join(f"({n}, 'x{n}')" for n in range(1, 201)),
    "ALTER TABLE t ADD COLUMN y int DEFAULT 7",
    "CREATE INDEX t_x ON t (x)",
    "CREATE TABLESPACE other LOCATION ''",
    "CREATE TABLE u (id int PRIMARY KEY) TABLESPACE other",
    "WITH a AS (INSERT INTO t VALUES (1000, 'both')) INSERT INTO u VALUES (1000)",
    "ALTER TABLE t ALTER COLUMN x TYPE varchar(40)",
    "DROP TABLE u",
    "DROP TABLESPACE other",
    "TRUNCATE t",
)


class Schema(Work):
    """Statements that change tables, indexes and tablespaces, and one that commits in two tablespaces."""

    name = "schema changes, tablespaces, commits over two"

    def run(self, folder: pathlib.Path, tell: Tell) -> None:
        with shoal.open(folder / "data") as db:
            for number, statement in enumerate(STATEMENTS, 1):
                db.execute(statement)
                tell(number)

    def check(self, folder: pathlib.Path, acknowledged: int) -> str:
        with shoal.open(folder / "data") as db:
            found = _state(db)
            states = _states()
            if found not in states:
                return f"none of the states between two statements: {found}"
            if max(number for number, state in enumerate(states) if state == found) < acknowledged:
                return f"{acknowledged} statements were acknowledged: {found}"
            db.execute("CREATE TABLE goes_on (id int)")
        return ""


def _state(db: shoal.Database) -> tuple[Any, ...]:
    """By look-ups alone: the worker of the columnar path takes longer to start than everything else here."""

    def names(query: str) -> str | None:
        return ",".join(sorted(name for (name,) in db.execute(query).fetchall())) or None

    tables = names("SELECT relname::text FROM pg_class WHERE relname IN ('t', 'u', 't_x')")
    columns = None
    if tables and "t" in tables.split(","):
        listed = db.execute(
            "SELECT attname || ' ' || format_type(atttypid, atttypmod), attnum FROM pg_attribute "
            "WHERE attrelid = 't'::regclass AND attnum > 0 AND NOT attisdropped"
        ).fetchall()
        columns = ",".join(text for text, _ in sorted(listed, key=lambda item: item[1]))
    spaces = len(db.execute("SELECT spcname FROM pg_tablespace WHERE spcname = 'other'").fetchall())
    rows = None if columns is None else len(db.execute("SELECT id FROM t").fetchall())
    others = len(db.execute("SELECT id FROM u").fetchall()) if tables and "u" in tables.split(",") else None
    return tables, columns, spaces, rows, others


def _states() -> list[tuple[Any, ...]]:
    """What the statements should leave, one after the other."""
    one, two, three = "id integer,x text", "id integer,x text,y integer", "id integer,x character varying(40),y integer"
    return [
        (None, None, 0, None, None), ("t", one, 0, 0, None), ("t", one, 0, 200, None), ("t", two, 0, 200, None),
        ("t,t_x", two, 0, 200, None), ("t,t_x", two, 1, 200, None), ("t,t_x,u", two, 1, 200, 0),
        ("t,t_x,u", two, 1, 201, 1), ("t,t_x,u", three, 1, 201, 1), ("t,t_x", three, 1, 201, None),
        ("t,t_x", three, 0, 201, None), ("t,t_x", three, 0, 0, None),
    ]  # fmt: skip


BRANCHING = (  # (in the branch or its parent, statement)
    ("postgres", "CREATE DATABASE side FROM postgres"),
    ("side", "UPDATE t SET x = 'changed' WHERE id < 10"),
    ("postgres", "DELETE FROM t WHERE id > 50"),
    ("side", "INSERT INTO t VALUES (1000, 'only here')"),
    ("postgres", "DROP TABLE t"),
    ("postgres", "DROP DATABASE side"),
)


class Branches(Work):
    """A branch is made, it and its parent go different ways, and each loses what the other shares."""

    name = "branches"

    def prepare(self, folder: pathlib.Path) -> None:
        with shoal.open(folder / "data") as db:
            db.execute("CREATE TABLE t (id int PRIMARY KEY, x text)")
            db.execute("INSERT INTO t VALUES " + ", ".join(f"({n}, 'x')" for n in range(1, 61)))

    def run(self, folder: pathlib.Path, tell: Tell) -> None:
        with shoal.open(folder / "data") as db:
            for number, (where, statement) in enumerate(BRANCHING, 1):
                self._execute(db, where, statement)
                tell(number)

    @staticmethod
    def _execute(db: shoal.Database, where: str, statement: str) -> list[Any]:
        connection = db.connect(autocommit=True, database=where)
        try:
            cursor = connection.cursor()
            cursor.execute(statement)
            return cursor.fetchall() if cursor.description else []
        finally:
            connection.close()

    def check(self, folder: pathlib.Path, acknowledged: int) -> str:
        with shoal.open(folder / "data") as db:
            tables = self._execute(db, "postgres", "SELECT relname FROM pg_class WHERE relname = 't'")
            databases = self._execute(db, "postgres", "SELECT datname FROM pg_database WHERE datname = 'side'")
            found = [self._rows(db, "postgres") if tables else None, self._rows(db, "side") if databases else None]
            whole, changed = (60, 0), (60, 9)
            states = [
                [whole, None], [whole, whole], [whole, changed], [(50, 0), changed], [(50, 0), (61, 9)],
                [None, (61, 9)], [None, None],
            ]  # fmt: skip
            if found not in states[acknowledged:]:
                return f"{acknowledged} statements were acknowledged: {found}"
            self._execute(db, "postgres", "CREATE TABLE goes_on (id int)")
        return ""

    def _rows(self, db: shoal.Database, where: str) -> tuple[int, int]:
        rows = self._execute(db, where, "SELECT id, x FROM t")
        return len(rows), sum(x == "changed" for _, x in rows)


class Backups(Work):
    """Two backups of a running database, each with its changelog."""

    name = "backups"

    def prepare(self, folder: pathlib.Path) -> None:
        _database(folder)

    def run(self, folder: pathlib.Path, tell: Tell) -> None:
        with shoal.open(folder / "source", history_retention=3600.0) as db:
            for number in range(1, 3):
                db.execute("SELECT shoal_backup(%s)", (f"file://{folder}/data",)).fetchall()
                tell(number)
                db.execute("INSERT INTO a VALUES (%s, 'later')", (-number,))

    def check(self, folder: pathlib.Path, acknowledged: int) -> str:
        return asyncio.run(self._check(folder, acknowledged))

    async def _check(self, folder: pathlib.Path, acknowledged: int) -> str:
        store = open_store(f"file://{folder}/data")
        try:
            found = await read_contents(store)
            if len(found.records) < acknowledged:
                return f"{acknowledged} backups were told, {len(found.records)} are there"
            verified = await verify_all(found, str(folder / "verify"), lambda *_: None)
            return "; ".join(verified.findings[:2])
        finally:
            await store.close()


def save(file: ColumnsFile, tables: list[Saved], number: int, tell: Tell) -> None:
    file.save(tables)
    tell(number)


class Columns(Work):
    """Saves of the columns' file: each is there as a whole or not at all, and says which."""

    name = "saves of columns"
    saves = 4
    _names = ("t1", "t2")

    def _open(self, folder: pathlib.Path) -> tuple[Any, ColumnsFile]:
        """As a worker opens it: whatever else is there is gone (engine/columnar/worker_process.py)."""
        data = folder / "data"
        data.mkdir(exist_ok=True)
        for path in data.iterdir():
            if path.name != COLUMNS_FILE:
                path.unlink()
        connection = duckdb.connect(":memory:", config={"threads": 1})
        return connection, ColumnsFile(connection, str(data / COLUMNS_FILE))

    def prepare(self, folder: pathlib.Path) -> None:
        connection, file = self._open(folder)
        for name in self._names:
            connection.execute(f"CREATE TABLE columns.{name} AS SELECT range AS id, 0 AS n FROM range(20000)")
        file.save(self._saved(0))

    def run(self, folder: pathlib.Path, tell: Tell) -> None:
        connection, file = self._open(folder)
        for number in range(max((saved.lsn for saved in file.tables.values()), default=0) + 1, self.saves + 1):
            for name in self._names:
                connection.execute(f"DELETE FROM columns.{name} WHERE n < {number} AND id < 15000")
                connection.execute(f"INSERT INTO columns.{name} SELECT range, {number} FROM range(15000)")
            save(file, self._saved(number), number, tell)
        connection.close()

    def _saved(self, lsn: int) -> list[Saved]:
        return [Saved(number, lsn, "token", False, f"table {number}") for number, _ in enumerate(self._names, 1)]

    def check(self, folder: pathlib.Path, acknowledged: int) -> str:
        connection, file = self._open(folder)
        lsns = {saved.lsn for saved in file.tables.values()}
        if len(lsns) != 1 or len(file.tables) != len(self._names):
            return f"{acknowledged} was saved, and there are {file.tables}"
        (last,) = lsns
        if last < acknowledged:
            return f"{acknowledged} was saved, {last} is there"
        for name in self._names:
            found = connection.execute(
                f"SELECT count(*), count(DISTINCT id), count(*) FILTER (n = {last} AND id < 15000) FROM columns.{name}"
            ).fetchall()
            if found != [(20_000, 20_000, 15_000)]:
                return f"{name} is not as of {last}: {found}"
        file.save(self._saved(last + 1))  # and it goes on
        return ""


WORKS: tuple[Work, ...] = (
    Tables(), Recovery(), GivingBack(), FullMap(), Objects(), Checkpoints(), Restoring(), Schema(), Branches(),
    Backups(), Columns(),
)  # fmt: skip


def copied(source: pathlib.Path, folder: pathlib.Path) -> None:
    """The prepared directory, anew."""
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(source, folder)


def use_threads() -> None:
    """The kernel's own syncs pass by the C library: in these processes threads sync."""
    file_sync.kernel_can_sync = lambda: False  # type: ignore[assignment]
    os.environ.pop("LD_PRELOAD", None)  # not for processes that they start
