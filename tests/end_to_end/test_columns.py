"""The storage parameter `columnar`, and what shoal_columns shows, over starts and ends of the server."""

from __future__ import annotations

import time

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
