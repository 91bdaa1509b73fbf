"""`shoal restore --as`, CREATE DATABASE ... IN BACKUP: a database of a backup beside what is there, equal to what it
was, and never in its place."""

from __future__ import annotations

import contextlib
import io
import shutil
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson
import psycopg
import pytest

from shoal.cli import main
from tests.end_to_end.consistency import problems
from tests.server import ShoalServer
from tests.shoal.archive.history import KeepingServer, lsn_of

SCHEMA = (
    "CREATE ROLE keeper",
    "CREATE TYPE mood AS ENUM ('sad', 'ok')",
    "CREATE TABLE t (id int PRIMARY KEY, x text, mood mood DEFAULT 'ok')",
    "CREATE INDEX t_x ON t (x)",
    "CREATE TABLE heap (n int, at timestamptz DEFAULT now()) TABLESPACE apart",
    "CREATE INDEX heap_n ON heap (n)",
    "CREATE VIEW seen AS SELECT id FROM t WHERE mood = 'ok'",
    "CREATE SEQUENCE counted",
    "ALTER TABLE heap OWNER TO keeper",
    "GRANT SELECT ON t TO keeper",
    "INSERT INTO t SELECT n, 'row ' || n FROM generate_series(1, 30000) n",
    "INSERT INTO heap SELECT n FROM generate_series(1, 9) n",
    "SELECT nextval('counted')",
)
CHANGES = ("DELETE FROM t WHERE id % 3 = 0", "INSERT INTO heap VALUES (10)", "ALTER TABLE t ADD COLUMN y int DEFAULT 7")
QUERIES = (
    "SELECT * FROM t ORDER BY id",
    "SELECT id FROM t WHERE x = 'row 3001'",
    "SELECT * FROM heap ORDER BY n",
    "SELECT * FROM heap WHERE n = 7",
    "SELECT count(*) FROM seen",
    "SELECT tablename, tableowner FROM pg_tables WHERE schemaname = 'public' ORDER BY 1",
    "SELECT has_table_privilege('keeper', 't', 'SELECT'), has_table_privilege('keeper', 't', 'INSERT')",
)
PLACES = """SELECT relname, spcname FROM pg_class c LEFT JOIN pg_tablespace s ON s.oid = reltablespace
            WHERE relname IN ('t', 'heap', 'heap_n') ORDER BY 1"""
Answers = list[list[tuple[Any, ...]]]


@dataclass
class Made:
    """A server whose database `shop` is in backups, and what that was at two LSNs and times."""

    server: ShoalServer
    backups: Path
    recorded: dict[int, Answers]
    times: dict[int, str]


def at(server: ShoalServer, database: str) -> psycopg.Connection:
    return psycopg.connect(server.dsn.replace("dbname=postgres", f"dbname={database}"), autocommit=True)


def answers(server: ShoalServer, database: str) -> Answers:
    with at(server, database) as connection:
        return [connection.execute(query).fetchall() for query in QUERIES]


def run(*arguments: str) -> tuple[int, str, str]:
    """`shoal ...`, in this process."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        status = main(arguments)
    return status, out.getvalue(), err.getvalue()


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Made]:
    folder = tmp_path_factory.mktemp("beside")
    with KeepingServer(folder / "data") as server:
        found = Made(server, folder / "backups", {}, {})
        with at(server, "postgres") as connection:
            connection.execute("CREATE DATABASE shop")
            connection.execute("CREATE TABLESPACE apart")
            with at(server, "shop") as shop:
                for part in (SCHEMA, CHANGES):
                    for statement in part:
                        shop.execute(statement)
                    lsn = lsn_of(shop)
                    found.recorded[lsn] = answers(server, "shop")
                    row = shop.execute("SELECT clock_timestamp()").fetchone()
                    assert row is not None
                    found.times[lsn] = row[0].isoformat()
                    connection.execute("SELECT shoal_backup(%s)", (f"file://{found.backups}",))
                shop.execute("DROP TABLE heap")  # what is there now has nothing to do with it
        yield found


def test_it_stands_beside_the_original(made: Made) -> None:
    server = made.server
    first, last = made.recorded
    with at(server, "shop") as shop:
        now = shop.execute("SELECT count(*), sum(id) FROM t").fetchall()
    where = ("--database", "shop", "--dsn", f"host=127.0.0.1 port={server.port}")
    for name, moment, lsn in (
        ("newest", (), last),
        ("by_lsn", ("--to-lsn", str(first)), first),
        ("by_time", ("--to-time", made.times[first]), first),
    ):
        status, out, err = run("restore", str(made.backups), "--as", name, *where, *moment)
        assert status == 0, err
        assert out == f'database "{name}" is "shop" as of LSN {lsn}\n' or name == "newest"
        assert answers(server, name) == made.recorded[lsn], name
    assert list((server.data / "restores").iterdir()) == []
    with at(server, "by_lsn") as copy:
        assert copy.execute(PLACES).fetchall() == [("heap", "apart"), ("heap_n", "apart"), ("t", None)]
    with at(server, "by_lsn") as copy, at(server, "shop") as shop:
        copy.execute("DELETE FROM t WHERE id > 1000")
        copy.execute("INSERT INTO t VALUES (5000, 'new', 'sad')")
        assert copy.execute("SELECT nextval('counted') > 1").fetchall() == [(True,)]
        assert shop.execute("SELECT count(*), sum(id) FROM t").fetchall() == now
    server.kill()
    server.start()
    assert answers(server, "by_time") == made.recorded[first]
    with at(server, "by_lsn") as copy:
        assert copy.execute("SELECT count(*), max(x) FROM t").fetchone() == (1001, "row 999")
    with at(server, "postgres") as connection:
        for name in ("newest", "by_lsn", "by_time"):
            connection.execute(f"DROP DATABASE {name}")


@pytest.mark.parametrize(
    ("statement", "sqlstate", "message"),
    [
        ("CREATE DATABASE shop FROM shop IN BACKUP 'URL'", "42P04", 'database "shop" already exists'),
        ("CREATE DATABASE x FROM nothing IN BACKUP 'URL'", "3D000", 'the backup has no database "nothing"'),
        ("CREATE DATABASE x FROM shop IN BACKUP 'URL/no'", "22023", "holds no complete backup"),
        ("CREATE DATABASE x FROM shop IN BACKUP 'no://'", "22023", "is not the URL of"),
        ("CREATE DATABASE x FROM shop IN BACKUP 'URL' AS OF LSN 1", "22023", "LSN 1 cannot be restored"),
        ("CREATE DATABASE x FROM shop IN BACKUP 'URL' AS OF TIMESTAMP '2001-01-01'", "22023", "no backup is as old"),
        ("SET ROLE keeper; CREATE DATABASE x FROM shop IN BACKUP 'URL'", "42501", "permission denied"),
        ("BEGIN; CREATE DATABASE x FROM shop IN BACKUP 'URL'", "25001", "cannot run inside a transaction block"),
        ("CREATE DATABASE x FROM shop IN ARCHIVE 'URL'", "42601", "syntax error"),
    ],
)
def test_refusals(made: Made, statement: str, sqlstate: str, message: str) -> None:
    with at(made.server, "postgres") as connection:
        with pytest.raises(psycopg.Error, match=message) as caught:
            for part in statement.replace("URL", f"file://{made.backups}").split("; "):
                connection.execute(part)
        assert caught.value.sqlstate == sqlstate
    with at(made.server, "postgres") as connection:
        assert connection.execute("SELECT FROM pg_database WHERE datname = 'x'").fetchall() == []


def test_the_command_refuses_in_a_line(made: Made, tmp_path: Path) -> None:
    server = made.server
    status, _, err = run("restore", str(made.backups), "--as", "shop", "--data", str(server.data))
    assert (status, "in use by another process" in err, len(err.splitlines())) == (1, True, 1)
    status, _, err = run("restore", str(made.backups), "--as", "shop", "--data", str(tmp_path / "none"))
    assert (status, "there is no database in" in err, len(err.splitlines())) == (1, True, 1)
    where = ("--dsn", f"host=127.0.0.1 port={server.port}")
    status, _, err = run("restore", str(made.backups), "--as", "shop", *where)
    assert (status, 'database "shop" already exists' in err, len(err.splitlines())) == (1, True, 1)


def test_a_damaged_backup_makes_no_database(made: Made, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(made.backups, copy)
    for victim in copy.glob("*/checkpoint-*/shop.public.t-*/*.parquet"):
        data = bytearray(victim.read_bytes())
        data[len(data) // 2] ^= 1
        victim.write_bytes(data)
    with at(made.server, "postgres") as connection:
        with pytest.raises(psycopg.Error, match="damaged") as caught:
            connection.execute(f"CREATE DATABASE harmed FROM shop IN BACKUP 'file://{copy}'")
        assert caught.value.sqlstate == "XX001"
        assert connection.execute("SELECT FROM pg_database WHERE datname = 'harmed'").fetchall() == []


async def test_into_another_directory(made: Made, tmp_path: Path) -> None:
    """Nobody serves it, and its roles are others: those of the backup have to be there, by name."""
    data = tmp_path / "data"
    assert run("init", "--data", str(data))[0] == 0
    command = ("restore", str(made.backups), "--as", "Shop again", "--database", "shop", "--data", str(data), "--json")
    status, _, err = run(*command)
    assert (status, 'role "keeper" does not exist' in err, len(err.splitlines())) == (1, True, 1)
    for statement in ("CREATE ROLE another", "CREATE ROLE keeper"):
        assert run("sql", "--data", str(data), statement)[0] == 0
    status, out, err = run(*command)
    assert status == 0, err
    assert 'there is no tablespace "apart" here: what lay in it comes to pg_default' in err
    told = orjson.loads(out)
    assert (told["database"], told["of"], told["lsn"] >= max(made.recorded)) == ("Shop again", "shop", True)
    assert await problems(data) == []
    with ShoalServer(data) as server:
        found = psycopg.connect(server.dsn.replace("dbname=postgres", ""), dbname="Shop again")
        with found as connection:
            rows = [connection.execute(query).fetchall() for query in QUERIES]
            assert connection.execute(PLACES).fetchall() == [("heap", None), ("heap_n", None), ("t", None)]
    assert rows == made.recorded[max(made.recorded)]


def test_an_interrupted_restore_continues(made: Made, tmp_path: Path) -> None:
    """The server is killed when everything is verified and filled. The next statement needs no file of the checkpoint
    any more; one for another moment begins anew, and misses them."""
    server, copy = made.server, tmp_path / "copy"
    shutil.copytree(made.backups, copy)
    statement = f"CREATE DATABASE again FROM shop IN BACKUP 'file://{copy}'"

    def restore() -> None:
        with contextlib.suppress(psycopg.Error), at(server, "postgres") as other:
            other.execute(statement)

    thread = threading.Thread(target=restore)
    with contextlib.suppress(psycopg.Error), at(server, "postgres") as holder:
        holder.execute("BEGIN")
        holder.execute("CREATE ROLE again")  # which holds the name
        thread.start()
        waits = "SELECT FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE 'CREATE DATABASE again%'"
        with at(server, "postgres") as other:
            while not other.execute(waits).fetchall():
                assert thread.is_alive()
                time.sleep(0.01)
        server.kill()
    thread.join()
    server.start()
    for file in copy.glob("*/checkpoint-*/*/*.parquet"):
        file.unlink()
    with at(server, "postgres") as connection:
        assert connection.execute("SELECT FROM pg_database WHERE datname = 'again'").fetchall() == []
        connection.execute(statement)
        assert answers(server, "again") == made.recorded[max(made.recorded)]
        assert not (server.data / "restores" / "again").exists()
        with pytest.raises(psycopg.Error, match="missing"):
            connection.execute(f"CREATE DATABASE other FROM shop IN BACKUP 'file://{copy}'")
