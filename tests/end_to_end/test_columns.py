"""The storage parameter `columnar`, and what shoal_columns shows, over starts and ends of the server."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable

import psycopg
import pytest

from tests.oracle import PostgresServer
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


LOAD = "COPY {} FROM STDIN"


def load(connection: psycopg.Connection[tuple[object, ...]], table: str, first: int, last: int) -> None:
    with connection.cursor().copy(LOAD.format(table).encode()) as copy:
        for start in range(first, last, 50_000):
            copy.write("".join(f"{n}\t{n % 7}\n" for n in range(start, min(start + 50_000, last))))


def test_a_large_load_starts_the_worker_and_is_in_columns_after_its_commit(private_shoal: ShoalServer) -> None:
    server, count = private_shoal, 1_200_000
    with connect(server) as connection:
        connection.execute("CREATE TABLE filled (id int PRIMARY KEY, n int)")
        connection.execute("CREATE TABLE undone (id int PRIMARY KEY, n int)")
        with connection.transaction(force_rollback=True):
            load(connection, "undone", 0, count)
            deadline = time.monotonic() + 30
            while not server.workers():
                assert time.monotonic() < deadline
                time.sleep(0.05)
        assert shown(connection, "undone") is None
        load(connection, "filled", 0, count)
        until(connection, "filled", ("auto", "ready", "rows"))
        expected = (count, sum(n % 7 for n in range(count)))
        assert connection.execute(SUM.format("filled").encode()).fetchone() == expected
        assert connection.execute(SUM.format("undone").encode()).fetchone() == (0, None)
        load(connection, "filled", count, count + 150_000)
        expected = (count + 150_000, sum(n % 7 for n in range(count + 150_000)))
        assert connection.execute(SUM.format("filled").encode()).fetchone() == expected
    server.kill()
    server.start()
    with connect(server) as connection:
        assert connection.execute(SUM.format("filled").encode()).fetchone() == expected
        assert connection.execute(SUM.format("undone").encode()).fetchone() == (0, None)


def loaded(connection: psycopg.Connection[tuple[object, ...]], table: str) -> tuple[object, ...] | None:
    """When the table was loaded, and of what: the same as long as it is not built again."""
    sql = "SELECT loaded, loaded_from FROM shoal_columns WHERE table_name = %s"
    return connection.execute(sql, (table,)).fetchone()


ADDITIONS = {
    "a": "int", "b": "int DEFAULT 7", "c": "text DEFAULT 'it''s ü'", "d": "char(5) DEFAULT 'ab'",
    "e": "numeric(10,2) DEFAULT 1.5", "f": "numeric DEFAULT 'NaN'", "g": "date DEFAULT 'infinity'",
    "h": "timestamptz DEFAULT '2024-05-06 07:08:09.123456+02'", "i": "interval DEFAULT '1 mon 2 days 3.5 s'",
    "j": "uuid DEFAULT 'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11'", "k": "bytea DEFAULT '\\x00ff'",
    "l": "boolean DEFAULT false", "m": "double precision DEFAULT '-Infinity'", "n2": "real DEFAULT 0.1",
    "o": "jsonb DEFAULT '{\"a\": [1, null]}'", "p": "inet DEFAULT '10.0.0.1/8'", "q": "time DEFAULT '12:00:01.5'",
    "r": "timetz DEFAULT '12:00+02'", "s": "bit(4) DEFAULT B'1010'", "t": "int[]", "u": "colour DEFAULT 'green'",
    "v": "money DEFAULT 12.34", "w": "int4range DEFAULT '[1,5)'", "x": "bigint DEFAULT 5000000000",
    "y": "smallint NOT NULL DEFAULT -3", "z": "colour[]",
}  # fmt: skip
REBUILT = {"arrays": "int[] DEFAULT '{1,2}'"}
EVERYTHING = "SELECT count(*), md5(string_agg(changed::text, ',' ORDER BY id)) FROM changed"
COLOURS = "CREATE TYPE colour AS ENUM ('red', 'green')"


def test_columns_that_come_and_go_do_not_build_a_table_again(
    private_shoal: ShoalServer, postgres_server: PostgresServer
) -> None:
    server = private_shoal
    with connect(server) as ours, psycopg.connect(postgres_server.dsn, autocommit=True) as theirs:
        theirs.execute("DROP TABLE IF EXISTS changed; DROP TYPE IF EXISTS colour")

        def both(sql: str) -> None:
            for connection in (ours, theirs):
                connection.execute(sql.encode())

        def compare() -> None:
            assert ours.execute(EVERYTHING).fetchone() == theirs.execute(EVERYTHING).fetchone()

        for sql in (COLOURS, "CREATE TABLE changed (id int PRIMARY KEY, n int)"):
            both(sql)
        both("INSERT INTO changed SELECT i, i % 7 FROM generate_series(1, 3000) i")
        compare()
        first = loaded(ours, "changed")
        for place, (name, definition) in enumerate(ADDITIONS.items()):
            both(f"ALTER TABLE changed ADD COLUMN {name} {definition}")
            both(f"INSERT INTO changed (id, n) VALUES ({10_000 + place}, 1)")
            compare()
            assert loaded(ours, "changed") == first, definition
        both("ALTER TYPE colour ADD VALUE 'blue' BEFORE 'green'")
        both("UPDATE changed SET u = 'blue', z = '{red,blue}' WHERE id % 10 = 0")
        compare()
        both("ALTER TABLE changed DROP COLUMN n, DROP COLUMN c, ADD COLUMN c text DEFAULT 'again'")
        compare()
        assert loaded(ours, "changed") == first
        for name, definition in REBUILT.items():
            both(f"ALTER TABLE changed ADD COLUMN {name} {definition}")
            compare()
        ours.execute("CHECKPOINT")
    server.restart()
    with connect(server) as ours, psycopg.connect(postgres_server.dsn, autocommit=True) as theirs:
        assert ours.execute(EVERYTHING).fetchone() == theirs.execute(EVERYTHING).fetchone()
        until(ours, "changed", ("auto", "ready", "file"))
        theirs.execute("DROP TABLE changed; DROP TYPE colour")


def test_what_was_altered_while_no_worker_ran_is_altered_in_the_file(private_shoal: ShoalServer) -> None:
    """And a new label of an enum, which changes the description of a type, does not count at all."""
    server = private_shoal
    with connect(server) as connection:
        connection.execute(COLOURS)
        connection.execute("CREATE TABLE kept (id int PRIMARY KEY, n int, u colour DEFAULT 'red')")
        connection.execute("INSERT INTO kept SELECT i, i % 7 FROM generate_series(1, 5000) i")
        assert connection.execute(SUM.format("kept").encode()).fetchone() == (5000, 14997)
    server.restart()
    with connect(server) as connection:
        until(connection, "kept", ("auto", "ready", "file"))
        for pid in server.workers():
            os.kill(pid, signal.SIGKILL)
        connection.execute("ALTER TYPE colour ADD VALUE 'blue'")
        connection.execute("ALTER TABLE kept ADD COLUMN m int DEFAULT 5, DROP COLUMN n")
        connection.execute("INSERT INTO kept SELECT i, 'blue' FROM generate_series(6001, 6100) i")
        connection.execute("UPDATE kept SET m = 6 WHERE id < 11")
        rows = "SELECT count(*), sum(m), count(*) FILTER (WHERE u = 'blue') FROM kept"
        assert connection.execute(rows).fetchone() == (5100, 25510, 100)
        assert shown(connection, "kept") == ("auto", "ready", "file")


FILLS = {
    "INSERT ... SELECT": "INSERT INTO {t} SELECT i, i % 7 FROM generate_series(0, 149999) i",
    "CREATE TABLE AS": "DROP TABLE {t};"
    " CREATE TABLE {t} AS SELECT i AS id, i % 7 AS n FROM generate_series(0, 149999) i",
    "COPY, with changes of some of the rows": None,
}


@pytest.mark.parametrize("partitioned", [False, True])
def test_rows_that_come_in_bulk_in_a_transaction_with_others(private_shoal: ShoalServer, partitioned: bool) -> None:
    """While the worker runs: seen in the transaction, by nobody else before its commit, and by everybody after it."""
    expected = (150_001, sum(n % 7 for n in range(150_000)) + 1006)
    with connect(private_shoal) as connection, connect(private_shoal) as other:
        assert connection.execute("SELECT count(*) FROM generate_series(1, 100000) i GROUP BY i % 2").fetchall()
        for number, (name, fill) in enumerate(FILLS.items()):
            table = f"filled{number}"
            if partitioned and "CREATE" not in name:
                connection.execute(f"CREATE TABLE {table} (id int PRIMARY KEY, n int) PARTITION BY RANGE (id)".encode())
                connection.execute(f"CREATE TABLE {table}_a PARTITION OF {table} DEFAULT".encode())
            else:
                connection.execute(f"CREATE TABLE {table} (id int PRIMARY KEY, n int)".encode())
            with connection.transaction():
                if fill is not None:
                    connection.execute(fill.format(t=table).encode())
                else:
                    load(connection, table, 0, 150_000)
                connection.execute(f"UPDATE {table} SET n = n + 1 WHERE id IN (5, 100000)".encode())
                connection.execute(f"INSERT INTO {table} VALUES (1000000, 1004)".encode())
                assert connection.execute(SUM.format(table).encode()).fetchone() == expected
                if "CREATE" not in name:
                    assert other.execute(SUM.format(table).encode()).fetchone() == (0, None)
            for each in (connection, other):
                assert each.execute(SUM.format(table).encode()).fetchone() == expected, name
