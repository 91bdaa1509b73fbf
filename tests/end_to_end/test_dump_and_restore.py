"""pg_dump and pg_restore: of Shoal into Shoal and into PostgreSQL, of PostgreSQL into Shoal, in every format.

What comes back is compared table by table, and by dumping it again: the text must be that of the original but for the
order of what has none.
"""

from __future__ import annotations

import pathlib
import subprocess
from collections.abc import Iterator
from itertools import product

import psycopg
import pytest

from tests.oracle import PostgresServer
from tests.samples import some
from tests.server import ShoalServer

SCRIPT = pathlib.Path(__file__).with_name("dumped.sql")
SOURCE, TARGET = "dumped", "restored"
Server = ShoalServer | PostgresServer


def _in(server: Server, database: str) -> str:
    return server.dsn.replace("dbname=postgres", f"dbname={database}")


def _run(*command: str) -> str:
    """The standard output of a command that must succeed, without a word but on a table that refers to itself."""
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0 and (not done.stderr or "circular foreign-key" in done.stderr), done.stderr
    return done.stdout


def _psql(dsn: str, file: pathlib.Path) -> None:
    _run("psql", "-X", "-q", "-o", "/dev/null", "-v", "ON_ERROR_STOP=1", "-d", dsn, "-f", str(file))


def _lines(text: str) -> list[str]:
    """A dump as a set of lines: rows, and objects that do not depend on each other, have no order."""
    return sorted(line for line in text.splitlines() if line and "restrict " not in line and "-- Dumped " not in line)


def _tables(dsn: str) -> dict[str, list[str]]:
    """The rows of every table and view, as text, in one order; where each sequence stands."""
    query = """SELECT format('%I.%I', nspname, relname), relkind::text FROM pg_class c
        JOIN pg_namespace n ON n.oid = c.relnamespace WHERE nspname = 'shop' AND relkind IN ('r', 'v', 'S')"""
    with psycopg.connect(dsn, autocommit=True) as connection:
        found = {}
        for name, kind in connection.execute(query).fetchall():
            columns = "last_value, is_called" if kind == "S" else "*"
            with connection.cursor().copy(f"COPY (SELECT {columns} FROM {name}) TO STDOUT") as copy:
                found[name] = sorted(bytes(b"".join(copy)).decode().splitlines())
        return found


@pytest.fixture(scope="module")
def sources(shoal: ShoalServer, postgres_server: PostgresServer) -> Iterator[dict[str, Server]]:
    """The same database on both servers."""
    servers: dict[str, Server] = {"shoal": shoal, "postgres": postgres_server}
    for server in servers.values():
        with psycopg.connect(server.dsn, autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {SOURCE}")
        _psql(_in(server, SOURCE), SCRIPT)
    yield servers
    for server in servers.values():
        with psycopg.connect(server.dsn, autocommit=True) as connection:
            connection.execute(f"DROP DATABASE {SOURCE} WITH (FORCE)")


def _new(server: Server, database: str) -> str:
    with psycopg.connect(server.dsn, autocommit=True) as connection:
        connection.execute(f"DROP DATABASE IF EXISTS {database} WITH (FORCE)")
        connection.execute(f"CREATE DATABASE {database}")
    return _in(server, database)


def test_a_dump_of_shoal_is_that_of_postgresql(sources: dict[str, Server]) -> None:
    ours, theirs = (_run("pg_dump", "-d", _in(server, SOURCE)) for server in sources.values())
    assert _lines(ours) == _lines(theirs)
    assert _tables(_in(sources["shoal"], SOURCE)) == _tables(_in(sources["postgres"], SOURCE))


@pytest.mark.parametrize(
    ("form", "way"),
    some(
        product(
            ("plain", "inserts", "custom", "directory", "clean"),
            (("shoal", "shoal"), ("shoal", "postgres"), ("postgres", "shoal")),
        ),
        4,
    ),
)
def test_a_dump_is_restored(
    sources: dict[str, Server], tmp_path: pathlib.Path, form: str, way: tuple[str, str]
) -> None:
    from_, to = way
    source, target = _in(sources[from_], SOURCE), _new(sources[to], TARGET)
    file = tmp_path / "dump"
    if form in ("plain", "inserts"):
        options = ["--rows-per-insert=500"] if form == "inserts" else []
        _run("pg_dump", *options, "-d", source, "-f", str(file))
        _psql(target, file)
    else:
        _run("pg_dump", "-F", "d" if form == "directory" else "c", "-d", source, "-f", str(file))
        _run("pg_restore", "-d", target, *(["-j", "2"] if form == "directory" else []), str(file))
        if form == "clean":
            _run("pg_restore", "--clean", "--if-exists", "--single-transaction", "-d", target, str(file))
    assert _tables(target) == _tables(source)
    assert _lines(_run("pg_dump", "-d", target)) == _lines(_run("pg_dump", "-d", source))


def test_parts_of_a_database_are_dumped(sources: dict[str, Server]) -> None:
    for options in (
        ["-s"],
        ["-a"],
        ["-t", "shop.people", "-t", "shop.numbers"],
        ["-n", "shop", "-T", "shop.kinds"],
        ["-O", "-x"],
    ):
        ours, theirs = (_run("pg_dump", *options, "-d", _in(server, SOURCE)) for server in sources.values())
        assert _lines(ours) == _lines(theirs), options
