"""Each way in which rows go gives the disk back what they took, as in PostgreSQL, while the server runs."""

from __future__ import annotations

import subprocess
import threading
import time
from collections.abc import Iterator
from itertools import product

import psycopg
import pytest

from engine.storage import checkpoint
from tests.oracle import PostgresServer
from tests.samples import some
from tests.server import ShoalServer

ROWS = 70_000
MANY = "INSERT INTO {} SELECT n, repeat(md5(n::text), 15) FROM generate_series(1, %s) n"
PATIENCE = 100.0  # seconds, on a busy machine
QUIET = 6.0  # seconds after which nothing changes any more: the past is kept for PAST_WINDOW, and looked at every 3
PAST_WINDOW = 1.0
SLACK = 10 << 20  # bytes that may stay when nobody has asked for the rest
TIGHT = 3 << 20

TABLE = ("CREATE TABLE s.t (id int PRIMARY KEY, v text)", MANY.format("s.t"))
INDEX = ("CREATE TABLE s.t (id int PRIMARY KEY, v text)", MANY.format("s.t"), "CREATE INDEX s_t_v ON s.t (v)")
MADE = ("CREATE TABLE s.p (id int, v text) PARTITION BY RANGE (id)",
        "CREATE TABLE s.t PARTITION OF s.p FOR VALUES FROM (1) TO (1000000)", MANY.format("s.p"))  # fmt: skip
VIEW = ("CREATE TABLE s.k (n int)", "INSERT INTO s.k VALUES (%s)",
        "CREATE MATERIALIZED VIEW s.t AS SELECT g.n, repeat(md5(g.n::text), 15) v "
        "FROM s.k, generate_series(1, k.n) g(n)")  # fmt: skip
WHOLE = {
    "TRUNCATE": (TABLE, "TRUNCATE s.t", 0),
    "TRUNCATE of partitions": (MADE, "TRUNCATE s.p", 0),
    "DROP TABLE": (TABLE, "DROP TABLE s.t", 0),
    "DROP SCHEMA": (TABLE, "DROP SCHEMA s CASCADE", 0),
    "DROP INDEX": (INDEX, "DROP INDEX s.s_t_v", 0.6),
    "a materialized view": (VIEW, "DROP MATERIALIZED VIEW s.t", 0),
    "REFRESH": (VIEW, "DELETE FROM s.k; REFRESH MATERIALIZED VIEW s.t", 0),
    "rewritten": (TABLE, "ALTER TABLE s.t ALTER v TYPE int USING 1", 0.1),
}
"""What whole tables leave goes by itself: how the rows are made, how they go, which part of their space may stay."""
PARTS = {
    "DELETE": ("DELETE FROM s.t", 0),
    "DELETE of nine in ten": ("DELETE FROM s.t WHERE id % 10 <> 0", 0.2),
    "DELETE of every other": ("DELETE FROM s.t WHERE id % 2 = 0", 0.65),
    "UPDATE": ("UPDATE s.t SET v = 'short'", 0.2),
    "DROP COLUMN": ("ALTER TABLE s.t DROP COLUMN v", 1.0),
}
"""The same for parts of tables, which go when somebody asks."""


class ForgetfulServer(ShoalServer):
    """One that keeps the past for a second, so that each test waits that much less for space to come back."""

    def command(self) -> list[str]:
        config = self.data.parent / "forgetful.toml"
        config.write_text(f"past_window = {PAST_WINDOW}\n")
        return [*super().command(), "--config", str(config)]


@pytest.fixture(scope="module")
def shoal() -> Iterator[ShoalServer]:
    """One that only this file uses: elsewhere a read by Spark keeps its moment for ten minutes."""
    with ForgetfulServer() as server:
        yield server


def size(server: ShoalServer | PostgresServer) -> int:
    """Bytes on the disk of what tables lie in."""
    place = server.data / "rows" if isinstance(server, ShoalServer) else server.directory / "data" / "base"
    told = subprocess.run(["du", "-s", "-B1", str(place)], check=False, capture_output=True, text=True).stdout
    return int(told.split()[0])


def make(
    server: ShoalServer | PostgresServer, statements: tuple[str, ...]
) -> tuple[psycopg.Connection[tuple[object, ...]], int, int]:
    """A connection, the size before the rows, and after."""
    connection = psycopg.connect(server.dsn, autocommit=True, prepare_threshold=None)
    connection.execute("DROP SCHEMA IF EXISTS s CASCADE")
    connection.execute("CREATE SCHEMA s")
    connection.execute("VACUUM FULL")
    before = settled(server)
    for statement in statements:
        connection.execute(statement, [ROWS] if "%s" in statement else None)
    connection.execute("CHECKPOINT")
    full = size(server)
    assert full > before + 3 * SLACK
    return connection, before, full


_least: dict[str, int] = {}
"""The size of each Shoal, by its DSN, without the tables of this file."""


def settled(server: ShoalServer | PostgresServer) -> int:
    """The size once that has gone which went before: another file's tables, or those of the last test here."""
    if isinstance(server, PostgresServer):
        return size(server)
    if server.dsn not in _least:
        until, last = 0.0, 0
        while (found := size(server)) != last or time.monotonic() < until:
            until, last = (until, last) if found == last else (time.monotonic() + QUIET, found)
            time.sleep(0.2)
        _least[server.dsn] = last
    assert falls(server, _least[server.dsn] + TIGHT), (_least[server.dsn], size(server), activity(server))
    return size(server)


def falls(server: ShoalServer | PostgresServer, most: float) -> bool:
    """Whether the size comes down to so many bytes."""
    end = time.monotonic() + PATIENCE
    while size(server) > most:
        if time.monotonic() > end:
            return False
        time.sleep(0.2)
    return True


def activity(server: ShoalServer | PostgresServer) -> object:
    """Who may still need what is gone, and what the server says of that."""
    with psycopg.connect(server.dsn, autocommit=True) as connection:
        sessions = connection.execute(
            "SELECT backend_type, state, backend_xmin, query FROM pg_stat_activity"
        ).fetchall()
    return sessions, server.log.read_text()[-1000:] if isinstance(server, ShoalServer) else ""


@pytest.mark.parametrize(("way", "server"), some(product(WHOLE, ("shoal", "postgres")), 8), indirect=["server"])
def test_what_whole_tables_leave_goes_by_itself(server: ShoalServer | PostgresServer, way: str) -> None:
    made, gone, part = WHOLE[way]
    connection, before, full = make(server, made)
    with connection:
        connection.execute(gone)
        assert falls(server, before + part * (full - before) + SLACK), (before, full, size(server), activity(server))


@pytest.mark.parametrize(("way", "server"), some(product(PARTS, ("shoal", "postgres")), 8), indirect=["server"])
def test_what_parts_of_tables_leave_goes_with_vacuum_full(server: ShoalServer | PostgresServer, way: str) -> None:
    gone, part = PARTS[way]
    connection, before, full = make(server, TABLE)
    with connection:
        connection.execute(gone)
        rows = connection.execute("SELECT count(*), sum(id) FROM s.t").fetchone()
        connection.execute("VACUUM FULL s.t")
        assert falls(server, before + part * (full - before) + TIGHT), (before, full, size(server))
        assert connection.execute("SELECT count(*), sum(id) FROM s.t").fetchone() == rows


def test_what_is_free_goes_with_vacuum(server: ShoalServer | PostgresServer) -> None:
    connection, before, full = make(server, TABLE)
    with connection:
        connection.execute("DELETE FROM s.t")
        connection.execute("VACUUM s.t")
        assert falls(server, before + SLACK), (before, full, size(server), activity(server))


@pytest.mark.parametrize("server", some(("shoal", "postgres"), 2), indirect=True)
def test_a_database_gives_back_what_it_had(server: ShoalServer | PostgresServer) -> None:
    connection, before, _ = make(server, TABLE)
    with connection:
        connection.execute("DROP DATABASE IF EXISTS side")
        connection.execute("CREATE DATABASE side")
        with psycopg.connect(server.dsn.replace("dbname=postgres", "dbname=side"), autocommit=True) as other:
            for statement in ("CREATE SCHEMA s", *TABLE):
                other.execute(statement, [ROWS] if "%s" in statement else None)
        connection.execute("CHECKPOINT")
        full = size(server)
        connection.execute("DROP DATABASE side")
        connection.execute("DROP TABLE s.t")
        assert full > before + 6 * SLACK
        assert falls(server, before + SLACK), (before, full, size(server), activity(server))


def test_readers_of_before_see_it_all_and_others_go_on(shoal: ShoalServer) -> None:
    """While rows are read that have gone, their space is kept; point reads and writes go on meanwhile."""
    connection, before, full = make(shoal, TABLE)
    with connection, psycopg.connect(shoal.dsn) as reader, psycopg.connect(shoal.dsn, autocommit=True) as other:
        reader.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        other.execute("CREATE TABLE s.others (id int PRIMARY KEY, n int)")
        other.execute("INSERT INTO s.others VALUES (1, 0)")
        assert reader.execute("SELECT n FROM s.others WHERE id = 1").fetchone() == (0,)  # and no lock on the other
        connection.execute("DELETE FROM s.t")
        vacuuming = threading.Thread(target=connection.execute, args=("VACUUM FULL s.t",))
        vacuuming.start()
        written = 0
        while vacuuming.is_alive() or written < 10:
            other.execute("UPDATE s.others SET n = n + 1 WHERE id = 1")
            written += 1
        vacuuming.join()
        assert other.execute("SELECT n FROM s.others").fetchone() == (written,)
        assert size(shoal) > full - SLACK
        for number in range(1, ROWS, 997):
            found = reader.execute("SELECT v = repeat(md5(%s::text), 15) FROM s.t WHERE id = %s", [number, number])
            assert found.fetchone() == (True,)
        reader.commit()
        assert falls(shoal, before + SLACK), (before, full, size(shoal))


@pytest.mark.parametrize("gone", some(["DELETE FROM s.t WHERE id % 10 <> 0", "TRUNCATE s.t"], 2))
@pytest.mark.long
def test_what_a_kill_has_left_goes_after_the_next_start(private_shoal: ShoalServer, gone: str) -> None:
    """At several moments of it; the rows that stay are there."""
    server = private_shoal
    connection, before, full = make(server, TABLE)
    connection.execute(gone)
    kept = connection.execute("SELECT count(*), sum(id) FROM s.t").fetchone()
    for pause in (0.0, 0.1, 0.3, 0.6):
        asking = threading.Thread(target=_vacuum, args=(server.dsn,))
        asking.start()
        time.sleep(pause)
        server.kill()
        asking.join()
        connection.close()
        server.start()
        connection = psycopg.connect(server.dsn, autocommit=True)
        assert connection.execute("SELECT count(*), sum(id) FROM s.t").fetchone() == kept
    with connection:
        connection.execute("VACUUM FULL s.t")
        assert falls(server, before + 0.2 * (full - before) + TIGHT), (before, full, size(server))
        assert connection.execute("SELECT count(*), sum(id) FROM s.t").fetchone() == kept


def _vacuum(dsn: str) -> None:
    try:
        with psycopg.connect(dsn, autocommit=True) as connection:
            connection.execute("VACUUM FULL s.t")
    except psycopg.OperationalError:
        pass  # the server was killed


def test_without_room_for_a_copy_everything_stays(private_shoal: ShoalServer) -> None:
    server = private_shoal
    with psycopg.connect(server.dsn, autocommit=True) as connection:
        connection.execute("CREATE TABLE kept (id int PRIMARY KEY, v text)")
        connection.execute(MANY.format("kept"), [100])
        connection.execute("CHECKPOINT")
    server.stop()
    rows = next(server.data.rglob("data.mdb")).parent
    opened = checkpoint.Checkpoint(str(rows))
    try:
        opened.environment.close()
        opened._open(str(rows), None)
        environment, opened.environment = opened.environment, _Full(opened.environment)
        opened._shrink()
        opened.environment = environment
        assert not (rows / "making").exists()
    finally:
        opened.close()
    server.start()
    with psycopg.connect(server.dsn, autocommit=True) as connection:
        assert connection.execute("SELECT count(*) FROM kept").fetchone() == (100,)


class _Full:
    """An environment that finds no room for its copy."""

    def __init__(self, environment: object) -> None:
        self._environment = environment

    def copy(self, path: str, compact: bool) -> None:
        raise OSError(28, "No space left on device")
