"""One INSERT executed many times before a Sync, and INSERTs of many rows (wire/batches.py, engine/execute/together.py):
what is there afterwards, and the error of the row that fails, are PostgreSQL's."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator, Sequence

import psycopg
import pytest

from tests.oracle import PostgresServer
from tests.samples import some
from tests.server import ShoalServer

SCHEMA = "together"
TABLES = """
CREATE TABLE parents (p int PRIMARY KEY);
INSERT INTO parents SELECT generate_series(0, 49);
CREATE TABLE plain (a int PRIMARY KEY, b text NOT NULL DEFAULT 'none', c numeric(8, 2), d smallint, e varchar(5),
    twice int GENERATED ALWAYS AS (a * 2) STORED, CHECK (c IS NULL OR c < 1000));
CREATE UNIQUE INDEX plain_e ON plain (e);
CREATE INDEX plain_b ON plain (lower(b)) WHERE d > 3;
CREATE TABLE keyless (a int, b text);
CREATE TABLE pairs (a int, b text, c int REFERENCES parents DEFERRABLE, PRIMARY KEY (b, a),
    UNIQUE NULLS NOT DISTINCT (c, a));
CREATE TABLE tree (id int PRIMARY KEY, up int REFERENCES tree);
CREATE TABLE drawn (id serial PRIMARY KEY, a int UNIQUE);
CREATE TABLE parted (a int PRIMARY KEY, b text) PARTITION BY RANGE (a);
CREATE TABLE low PARTITION OF parted FOR VALUES FROM (0) TO (100);
CREATE TABLE high PARTITION OF parted FOR VALUES FROM (100) TO (1000);
"""
NAMES = ("plain", "keyless", "pairs", "tree", "drawn", "parted")
PLAIN = "INSERT INTO plain (a, c, d, e) VALUES (%s, %s, %s, %s)"
CASES: list[tuple[str, str, list[tuple[object, ...]]]] = [
    ("all", PLAIN, [(n, f"{n}.455", n % 9, str(n)) for n in range(300)]),
    ("nulls", PLAIN, [(n, None if n % 2 else "1e2", None, None) for n in range(300)]),
    ("twice", PLAIN, [(n % 150, "1", 1, None) for n in range(300)]),
    ("twice in an index", PLAIN, [(n, "1", 1, str(n % 200)) for n in range(300)]),
    ("too large", PLAIN, [(n, str(n * 10), 1, None) for n in range(300)]),
    ("too long", PLAIN, [(n, "1", 1, "12345" + "6" * (n == 200)) for n in range(200, 250)]),
    ("out of range", PLAIN, [(n, "1", 32_700 + n, None) for n in range(300)]),
    ("no key", PLAIN, [(None if n == 77 else n, "1", 1, None) for n in range(300)]),
    ("no value", "INSERT INTO plain (a, b) VALUES (%s, %s)", [(n, None if n == 20 else "x") for n in range(100)]),
    ("large", "INSERT INTO plain (a, b) VALUES (%s, repeat('x', %s))", [(n, n * 9) for n in range(100)]),
    ("without key", "INSERT INTO keyless VALUES (%s, %s)", [(n % 7, "ü" * (n % 5)) for n in range(300)]),
    ("parents", "INSERT INTO pairs VALUES (%s, %s, %s)", [(n, "x", n % 50) for n in range(300)]),
    ("no parent", "INSERT INTO pairs VALUES (%s, %s, %s)", [(n, "x", n) for n in range(300)]),
    ("a NULL once", "INSERT INTO pairs VALUES (%s, %s, %s)", [(n % 250, str(n), None) for n in range(300)]),
    ("parents before", "INSERT INTO tree VALUES (%s, %s)", [(n, n // 2) for n in range(100)]),
    ("parents behind", "INSERT INTO tree VALUES (%s, %s)", [(n, min(n + 1, 99)) for n in range(100)]),
    ("parents at the end", "INSERT INTO tree VALUES (%s, %s)", [(n, 19 - n) for n in range(20)]),
    ("drawn", "INSERT INTO drawn (a) VALUES (%s)", [(n % 290,) for n in range(300)]),
    ("partitions", "INSERT INTO parted VALUES (%s, %s)", [(n, str(n)) for n in range(50, 350)]),
    ("no partition", "INSERT INTO parted VALUES (%s, %s)", [(n, str(n)) for n in range(850, 1100)]),
    ("again", "INSERT INTO plain (a) VALUES (%s) ON CONFLICT DO NOTHING", [(n % 150,) for n in range(300)]),
]  # fmt: skip
Outcome = tuple[object, list[object]]


@contextlib.contextmanager
def tables(dsn: str) -> Iterator[psycopg.Connection]:
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute(f"CREATE SCHEMA {SCHEMA}")
        connection.execute(f"SET search_path = {SCHEMA}")
        connection.execute(TABLES)
        try:
            yield connection
        finally:
            connection.execute("SET client_min_messages = warning")
            connection.execute(f"DROP SCHEMA {SCHEMA} CASCADE")


def contents(connection: psycopg.Connection) -> list[object]:
    return [connection.execute(f"SELECT * FROM {name} ORDER BY {name}::text".encode()).fetchall() for name in NAMES]


def attempt(connection: psycopg.Connection, sql: str, rows: Sequence[tuple[object, ...]]) -> object:
    try:
        cursor = connection.cursor()
        cursor.executemany(sql.encode(), rows)
    except psycopg.Error as error:
        shown = error.diag
        return error.sqlstate, shown.message_primary, shown.message_detail, shown.constraint_name, shown.context
    return cursor.rowcount


def outcomes(dsn: str, sql: str, rows: Sequence[tuple[object, ...]], in_block: bool) -> Outcome:
    """What becomes of the rows as executions in one pipeline, before and behind other work in one block."""
    with tables(dsn) as connection:
        if not in_block:
            found = [attempt(connection, sql, rows), connection.execute("SELECT 1").fetchall()]
            return found, contents(connection)
        connection.execute("BEGIN")
        connection.execute("INSERT INTO plain (a) VALUES (-1)")
        connection.execute("DELETE FROM plain WHERE a = -1")
        connection.execute("SAVEPOINT before")
        found = [attempt(connection, sql, rows)]
        connection.execute("ROLLBACK TO before")
        found.append(contents(connection))
        found += [attempt(connection, sql, rows[: len(rows) // 4]), attempt(connection, sql, rows[-20:])]
        connection.execute("COMMIT")
        return found, contents(connection)


@pytest.mark.parametrize("in_block", some([False, True], 2))
@pytest.mark.parametrize(("sql", "rows"), [case[1:] for case in CASES], ids=[case[0] for case in CASES])
def test_executions_in_a_pipeline(
    shoal: ShoalServer, postgres_server: PostgresServer, sql: str, rows: list[tuple[object, ...]], in_block: bool
) -> None:
    expected = outcomes(postgres_server.dsn, sql, rows, in_block)
    assert outcomes(shoal.dsn, sql, rows, in_block) == expected


@pytest.mark.parametrize(("sql", "rows"), [case[1:] for case in CASES], ids=[case[0] for case in CASES])
def test_statements_of_many_rows(
    shoal: ShoalServer, postgres_server: PostgresServer, sql: str, rows: list[tuple[object, ...]]
) -> None:
    """As drivers write batches as one statement: some of twenty rows, in a pipeline and alone."""
    head, values, tail = sql.partition("VALUES ")[0], *_values(sql)
    many = f"{head}VALUES {', '.join([values] * 20)}{tail}"
    joined = [tuple(item for row in rows[n : n + 20] for item in row) for n in range(0, len(rows) - 19, 20)]
    expected = outcomes(postgres_server.dsn, many, joined, False)
    assert outcomes(shoal.dsn, many, joined, False) == expected
    assert outcomes(shoal.dsn, many, joined[:1], False) == outcomes(postgres_server.dsn, many, joined[:1], False)


def _values(sql: str) -> tuple[str, str]:
    """The list in parentheses behind VALUES, and what follows it."""
    rest = sql.partition("VALUES ")[2]
    list_, found, tail = rest.partition(" ON CONFLICT")
    return list_, found + tail


def test_rows_of_one_statement_that_differ(shoal: ShoalServer, postgres_server: PostgresServer) -> None:
    """Not every list of rows is one row over further parameters."""
    statements = [
        "INSERT INTO keyless VALUES " + ", ".join(f"(%s + {n}, 'x')" for n in range(20)),
        "INSERT INTO keyless VALUES " + ", ".join("(%s, 'x')" if n % 2 else "(%s, DEFAULT)" for n in range(20)),
        "INSERT INTO keyless VALUES " + ", ".join("(%s, 'x')" if n % 2 else "(7, %s)" for n in range(20)),
        "INSERT INTO keyless VALUES " + ", ".join("(%s, CURRENT_USER)" for n in range(20)),
    ]
    for sql in statements:
        rows = [tuple(range(20))] * 3
        assert outcomes(shoal.dsn, sql, rows, False) == outcomes(postgres_server.dsn, sql, rows, False), sql
    swapped = "INSERT INTO keyless VALUES " + ", ".join(f"(${20 - n}::int, 'x')" for n in range(20))
    found = []
    for dsn in (shoal.dsn, postgres_server.dsn):
        with tables(dsn) as connection:
            psycopg.RawCursor(connection).execute(swapped.encode(), list(range(20)))
            found.append(contents(connection))
    assert found[0] == found[1]


def test_nothing_is_locked_for_rows_behind_one_that_waits(shoal: ShoalServer) -> None:
    """Else the other transaction would wait in turn, for a row that nobody has written yet."""
    outcome: list[object] = []
    with tables(shoal.dsn) as first, psycopg.connect(shoal.dsn, autocommit=True) as second:
        second.execute(f"SET search_path = {SCHEMA}")
        first.execute("BEGIN")
        first.execute("DELETE FROM parents WHERE p = 25")

        def write() -> None:
            rows = [(n, "x", n) for n in range(50)]
            outcome.append(attempt(second, "INSERT INTO pairs VALUES (%s, %s, %s)", rows))

        thread = threading.Thread(target=write)
        thread.start()
        waits = f"SELECT wait_event_type FROM pg_stat_activity WHERE pid = {second.info.backend_pid}"
        until = time.monotonic() + 60
        with psycopg.connect(shoal.dsn, autocommit=True) as watcher:
            while thread.is_alive() and watcher.execute(waits.encode()).fetchone() != ("Lock",):
                assert time.monotonic() < until
                time.sleep(0.02)
        first.execute("INSERT INTO pairs VALUES (40, 'x', 0)")
        first.execute("ROLLBACK")
        thread.join(30)
        assert outcome == [50]
