"""Backups of a database with branches: all of it comes back at every LSN, as it was recorded then."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import psycopg
import pytest

from catalog.schema import Schema, Table
from engine.storage.keys import prefix_range, storage_prefix
from engine.storage.rows import RowCodec
from replication.stores import open_store
from shoal.archive.contents import read_contents
from shoal.archive.restore import RestoreTarget, plan_restore, restore_directory
from tests.end_to_end.consistency import opened, problems
from tests.samples import some
from tests.server import ShoalServer
from tests.shoal.archive.history import KeepingServer, lsn_of

BEGINNING = ("CREATE TABLESPACE apart", "CREATE TABLE ticks (n int)", "CREATE DATABASE a")
HISTORY = (
    ("a", "CREATE TABLE t (id int PRIMARY KEY, x text) TABLESPACE {place}"),
    ("a", "CREATE INDEX t_x ON t (x)"),
    ("a", "INSERT INTO t SELECT n, 'row ' || n FROM generate_series(1, 4000) n"),
    ("postgres", "CREATE DATABASE b FROM a"),
    ("a", "UPDATE t SET x = 'of a' WHERE id = 5"),
    ("b", "DELETE FROM t WHERE id = 6"),
    ("b", "INSERT INTO t VALUES (9001, 'of b')"),
    ("postgres", "BACKUP"),
    ("a", "INSERT INTO t VALUES (9001, 'of a')"),
    ("a", "UPDATE t SET x = x || '!' WHERE id > 100"),
    ("postgres", "CREATE DATABASE c FROM b"),
    ("b", "DELETE FROM t WHERE id < 3000"),
    ("c", "UPDATE t SET x = 'of c' WHERE id = 9001"),
    ("postgres", "CHECKPOINT"),
    ("a", "DELETE FROM t WHERE id = 7"),
    ("postgres", "DROP DATABASE a"),
    ("b", "UPDATE t SET x = 'late' WHERE id = 3500"),
    ("postgres", "BACKUP"),
)

Content = dict[str, list[tuple[Any, ...]]]


def stored(data: Path) -> Content:
    """The table of every database in a data directory."""
    with opened(data) as node:
        found: Content = {}
        for catalog in node.catalogs.values():
            for table in catalog.tables():
                schema = catalog.get(table.schema)
                if (
                    isinstance(schema, Schema)
                    and isinstance(table, Table)
                    and (schema.name, table.name) == ("public", "t")
                ):
                    codec = RowCodec(table)
                    rows = node.store.current.scan(*prefix_range(storage_prefix(table.storage_id)))
                    name = next(name for name, oid in catalog.databases.items() if oid == catalog.database)
                    found[name] = sorted(codec.decode(value) for _, value in rows)
        return found


def shown(server: ShoalServer) -> Content:
    found = {}
    with psycopg.connect(server.dsn) as connection:
        names = [name for (name,) in connection.execute("SELECT datname FROM pg_database WHERE datname <> 'postgres'")]
    for name in names:
        with psycopg.connect(server.dsn.replace("dbname=postgres", f"dbname={name}")) as connection:
            if connection.execute("SELECT to_regclass('t')").fetchone() != (None,):
                found[name] = connection.execute("SELECT * FROM t ORDER BY id").fetchall()
    return found


@pytest.mark.parametrize("place", some(["apart", "pg_default"], 2))
async def test_every_lsn_comes_back_with_its_branches(tmp_path: Path, place: str) -> None:
    """Also where the tables lie beside pg_default, of which LSNs are."""
    backups = tmp_path / "backups"
    recorded: dict[int, Content] = {}
    reached: list[int] = []
    with KeepingServer(tmp_path / "data") as server, psycopg.connect(server.dsn, autocommit=True) as first:
        for statement in BEGINNING:
            first.execute(statement)
        for database, statement in HISTORY:
            if statement == "BACKUP":
                row = first.execute("SELECT shoal_backup(%s)", (f"file://{backups}",)).fetchone()
                assert row is not None
                reached.append(row[0])
                continue
            if database == "postgres":
                first.execute(statement)
            else:
                dsn = server.dsn.replace("dbname=postgres", f"dbname={database}")
                with psycopg.connect(dsn, autocommit=True) as connection:
                    connection.execute(statement.replace("{place}", place))
            first.execute("INSERT INTO ticks VALUES (1)")  # an LSN of pg_default behind it
            recorded[lsn_of(first)] = shown(server)
    assert await problems(tmp_path / "data") == []
    wanted = {lsn: content for lsn, content in recorded.items() if lsn >= reached[0]}
    assert len(wanted) > 7
    store = open_store(f"file://{backups}")
    try:
        found = await read_contents(store)
        for lsn, content in wanted.items():
            data = tmp_path / str(lsn)
            await restore_directory(await plan_restore(found, RestoreTarget(lsn)), str(data), lambda *_: None)
            assert await asyncio.to_thread(stored, data) == content, lsn
            assert await problems(data) == []
    finally:
        await store.close()
    with ShoalServer(tmp_path / str(max(wanted))) as server:  # goes on, and can be a parent again
        with psycopg.connect(server.dsn, autocommit=True) as connection:
            connection.execute("CREATE DATABASE d FROM c")
            before = shown(server)
        with psycopg.connect(server.dsn.replace("dbname=postgres", "dbname=c"), autocommit=True) as connection:
            connection.execute("DELETE FROM t WHERE id > 3990")
        after = shown(server)
        assert after["d"] == before["c"] != after["c"]
