"""The storage parameter `columnar`, and what shoal_columns shows, over starts and ends of the server."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

import psycopg

from tests.server import ShoalServer

SHOWN = "SELECT setting, state, loaded_from FROM shoal_columns WHERE table_name = %s"
SUM = "SELECT count(*), sum(n) FROM {}"


def connect(server: ShoalServer) -> psycopg.Connection[tuple[object, ...]]:
    return psycopg.connect(server.dsn, autocommit=True)


def shown(connection: psycopg.Connection[tuple[object, ...]], table: str) -> tuple[object, ...] | None:
    return connection.execute(SHOWN, (table,)).fetchone()


def until(connection: psycopg.Connection[tuple[object, ...]], table: str, wanted: tuple[object, ...] | None) -> None:
    deadline = time.monotonic() + 30
    while (found := shown(connection, table)) != wanted:
        assert time.monotonic() < deadline, found
        time.sleep(0.05)


def test_tables_are_built_and_kept_as_their_setting_says(private_shoal: ShoalServer) -> None:
    server = private_shoal
    with connect(server) as connection:
        for table in ("asked", "built", "dropped", "unkept"):
            connection.execute(f"CREATE TABLE {table} (id int PRIMARY KEY, n int)".encode())
            connection.execute(f"INSERT INTO {table} SELECT i, i % 7 FROM generate_series(1, 5000) i".encode())
        connection.execute("ALTER TABLE built SET (columnar = on)")
        until(connection, "built", ("on", "ready", "rows"))
        connection.execute("ALTER TABLE unkept SET (columnar = off)")
        for table in ("asked", "unkept", "dropped"):
            assert connection.execute(SUM.format(table).encode()).fetchone() == (5000, 14997)
        assert shown(connection, "asked") == ("auto", "ready", "rows")
        assert shown(connection, "unkept") == ("off", "ready", "rows")
    server.restart()
    with connect(server) as connection:
        for table in ("asked", "dropped"):
            until(connection, table, ("auto", "ready", "file"))
        until(connection, "built", ("on", "ready", "file"))
        assert shown(connection, "unkept") == ("off", "none", None)
        connection.execute("DROP TABLE dropped")
        connection.execute("UPDATE asked SET n = n + 1 WHERE id <= 1000")
        connection.execute("ALTER TABLE built SET (columnar = off)")
        assert shown(connection, "built") == ("off", "none", None)
        assert connection.execute(SUM.format("asked").encode()).fetchone() == (5000, 15997)
    server.kill()
    server.start()
    with connect(server) as connection:
        until(connection, "asked", ("auto", "ready", "file"))
        assert connection.execute(SUM.format("asked").encode()).fetchone() == (5000, 15997)
        assert connection.execute(SUM.format("built").encode()).fetchone() == (5000, 14997)
        assert shown(connection, "dropped") is None
        rows = "SELECT lag, rows > 4000, bytes > 0, saved_lsn > 0 FROM shoal_columns WHERE table_name = 'asked'"
        deadline = time.monotonic() + 30
        while connection.execute(rows).fetchone() != (0, True, True, True):
            assert time.monotonic() < deadline
            time.sleep(0.1)


def test_lost_columns_of_a_table_that_is_on_are_built_at_a_start(private_shoal: ShoalServer) -> None:
    server = private_shoal
    with connect(server) as connection:
        connection.execute("CREATE TABLE built (id int PRIMARY KEY, n int) WITH (columnar = on)")
        connection.execute("INSERT INTO built SELECT i, i FROM generate_series(1, 5000) i")
        until(connection, "built", ("on", "ready", "rows"))
    server.stop()
    (server.data / "columnar" / "columns.duckdb").unlink()
    server.start()
    with connect(server) as connection:
        until(connection, "built", ("on", "ready", "rows"))
        assert connection.execute(SUM.format("built").encode()).fetchone() == (5000, 12502500)


PROGRESS = """SELECT datname, relid::regclass::text, phase, tuples_total, tuples_done, bytes_processed, pid
    FROM shoal_stat_progress_columns WHERE relid <> 0"""


def test_the_progress_of_builds_and_saves_is_seen(private_shoal: ShoalServer) -> None:
    """A build and what is brought up again: rows are counted, never backwards, up to those that there are."""
    rows = 1_500_000
    with connect(private_shoal) as connection, connect(private_shoal) as watcher:
        connection.execute("CREATE TABLE large (id int PRIMARY KEY, n int) WITH (columnar = off)")  # not built yet
        connection.execute("INSERT INTO large SELECT i, i %% 7 FROM generate_series(1, %s::int) i", [rows])
        connection.execute("CHECKPOINT")
        connection.execute("ALTER TABLE large RESET (columnar)")
        watcher.execute("CREATE ROLE owner LOGIN")
        watcher.execute("CREATE ROLE stranger LOGIN")
        watcher.execute("ALTER TABLE large OWNER TO owner")
        seen, theirs = watched(private_shoal, watcher, lambda: connection.execute(SUM.format("large").encode()))
        (worker,) = private_shoal.workers()
        assert {row[:3] for row in seen} - {("postgres", "large", "waiting")} == {("postgres", "large", "building")}
        seen = [row for row in seen if row[2] == "building"]
        assert {row[6] for row in seen} == {worker}
        done = [int(str(row[4])) for row in seen]
        assert done == sorted(done) and 0 < done[-1] <= rows
        assert all(abs(int(str(row[3])) - rows) < rows // 3 and int(str(row[5])) >= int(str(row[4])) for row in seen)
        assert theirs["owner"] - {("postgres", "waiting")} == {("postgres", "building")}
        assert theirs["stranger"] == {("postgres", None)}
        assert watcher.execute(PROGRESS.encode()).fetchall() == []
        for role in ("owner", "stranger"):
            watcher.execute(f"{'REASSIGN OWNED BY owner TO postgres; ' if role == 'owner' else ''}DROP ROLE {role}")


def watched(
    server: ShoalServer, watcher: psycopg.Connection[tuple[object, ...]], run: Callable[[], object]
) -> tuple[list[tuple[object, ...]], dict[str, set[tuple[object, ...]]]]:
    """What the view shows while something runs: to a superuser, and to two roles."""
    thread = threading.Thread(target=run)
    seen: list[tuple[object, ...]] = []
    theirs: dict[str, set[tuple[object, ...]]] = {"owner": set(), "stranger": set()}
    others = {
        role: psycopg.connect(server.dsn.replace("user=postgres", f"user={role}"), autocommit=True) for role in theirs
    }
    thread.start()
    while thread.is_alive():
        seen += watcher.execute(PROGRESS.encode()).fetchall()
        for role, connection in others.items():
            theirs[role].update(connection.execute("SELECT datname, phase FROM shoal_stat_progress_columns").fetchall())
        time.sleep(0.01)
    thread.join()
    for connection in others.values():
        connection.close()
    return seen, theirs
