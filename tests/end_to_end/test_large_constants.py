"""A constant that passes through a large value is computed away from the engine's thread, in every statement.

Each form is run with a number and with a call that gives the number after it has made a text of so many characters:
both do the same.
"""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pytest

from tests.server import ShoalServer

SIZE = 5_000_000
LARGE = f"length(repeat('x', {SIZE}))"

FORMS = {
    "SELECT": ("SELECT {e}",),
    "of rows": ("SELECT a, {e} FROM t ORDER BY a",),
    "WHERE": ("SELECT a FROM t WHERE a < {e} ORDER BY a",),
    "of a key": ("SELECT * FROM t WHERE a = {e} - {e} + 1",),
    "HAVING": ("SELECT count(*) FROM t HAVING count(*) < {e}",),
    "LIMIT": ("SELECT a FROM t ORDER BY a LIMIT {e}",),
    "a condition": ("SELECT CASE WHEN a > 1 THEN {e} ELSE 0 END FROM t ORDER BY a",),
    "a sub-query": ("SELECT (SELECT {e} + a) FROM t ORDER BY a",),
    "VALUES": ("VALUES ({e}), (1)",),
    "a sequence": ("SELECT {e} + nextval('s')",),
    "UNION": ("SELECT {e} UNION ALL SELECT a FROM t ORDER BY 1",),
    "WITH": ("WITH w AS MATERIALIZED (SELECT {e} AS n) SELECT n FROM w",),
    "a lock": ("SELECT {e} FROM t WHERE a = 1 FOR UPDATE",),
    "a system catalog": ("SELECT {e} FROM pg_class WHERE oid = 1259",),
    "CREATE TABLE AS": ("CREATE TABLE made AS SELECT {e} AS n", "SELECT n FROM made"),
    "a view": ("CREATE VIEW made AS SELECT {e} AS n", "SELECT n FROM made"),
    "a materialized view": (
        "CREATE MATERIALIZED VIEW made AS SELECT {e} AS n",
        "REFRESH MATERIALIZED VIEW made",
        "SELECT n FROM made",
    ),
    "a function": ("CREATE FUNCTION made() RETURNS int LANGUAGE sql AS $$SELECT {e}$$", "SELECT made() FROM t"),
    "a default": ("CREATE TABLE made (n int DEFAULT {e}, m int)", "INSERT INTO made (m) VALUES (1) RETURNING n"),
    "a CHECK": (
        "CREATE TABLE made (n int CHECK (n < {e}))",
        "INSERT INTO made VALUES (1)",
        "INSERT INTO made SELECT a FROM t",
        "SELECT count(*) FROM made",
    ),
    "PREPARE": ("PREPARE p AS SELECT {e} + $1", "EXECUTE p ({e})"),
    "a cursor": ("DECLARE c CURSOR FOR SELECT {e}", "FETCH ALL FROM c"),
    "a holdable cursor": ("DECLARE c CURSOR WITH HOLD FOR SELECT {e}", "COMMIT", "FETCH ALL FROM c"),
    "INSERT VALUES": ("INSERT INTO t VALUES (7, {e}) RETURNING b", "SELECT b FROM t WHERE a = 7"),
    "INSERT SELECT": ("INSERT INTO t SELECT 7, {e}", "SELECT b FROM t WHERE a = 7"),
    "ON CONFLICT": ("INSERT INTO t VALUES (1, 1) ON CONFLICT (a) DO UPDATE SET b = {e} RETURNING b",),
    "UPDATE": ("UPDATE t SET b = {e} WHERE a <= {e}", "SELECT b FROM t"),
    "UPDATE FROM": ("UPDATE t SET b = {e} FROM (SELECT {e} AS n) AS q WHERE q.n > a", "SELECT b FROM t"),
    "DELETE": ("DELETE FROM t WHERE a < {e} RETURNING {e}",),
    "MERGE": (
        "MERGE INTO t USING (SELECT {e} AS n) AS q ON t.a = q.n WHEN NOT MATCHED THEN INSERT VALUES (q.n, {e})",
        "MERGE INTO t USING (SELECT 1 AS n) AS q ON t.a = q.n WHEN MATCHED THEN UPDATE SET b = {e}",
        "SELECT * FROM t ORDER BY a",
    ),
    "WITH that writes": ("WITH w AS (UPDATE t SET b = {e} WHERE a = 2 RETURNING b) SELECT b, {e} FROM w",),
    "WITH that inserts": (
        "WITH w AS (INSERT INTO t SELECT a + 10, {e} FROM t RETURNING b) SELECT b, {e} FROM w",
        "SELECT * FROM t ORDER BY a",
    ),
    "a set": ("SELECT count(*) FROM generate_series(1, 3) AS g WHERE g < {e}",),
}  # fmt: skip


@pytest.fixture(scope="module")
def server() -> Iterator[ShoalServer]:
    with ShoalServer() as own, psycopg.connect(own.dsn, autocommit=True) as connection:
        connection.execute("CREATE TABLE t (a int PRIMARY KEY, b int)")
        connection.execute("INSERT INTO t VALUES (1, 1), (2, 2), (3, 3)")
        connection.execute("CREATE SEQUENCE s")
        yield own


def answers(server: ShoalServer, statements: tuple[str, ...], number: str) -> list[object]:
    """What the statements give one after the other in one transaction, of which nothing stays."""
    found: list[object] = []
    with psycopg.connect(server.dsn) as connection:
        connection.execute("SELECT setval('s', 1)")
        for statement in statements:
            cursor = connection.execute(statement.format(e=number).encode())
            found.append(cursor.fetchall() if cursor.description else cursor.statusmessage)
        connection.rollback()
    return found


@pytest.mark.parametrize("name", FORMS)
def test_a_large_value_on_the_way_changes_nothing(server: ShoalServer, name: str) -> None:
    assert answers(server, FORMS[name], LARGE) == answers(server, FORMS[name], str(SIZE))


@pytest.mark.parametrize("name", ["SELECT", "of rows", "UPDATE", "MERGE", "DELETE", "WITH that writes"])
def test_it_is_explained(server: ShoalServer, name: str) -> None:
    with psycopg.connect(server.dsn) as connection:
        explained = connection.execute(f"EXPLAIN ANALYZE {FORMS[name][0].format(e=LARGE)}".encode()).fetchall()
        connection.rollback()
    assert any("Actual Rows" in line for (line,) in explained)


@pytest.mark.parametrize("form", ["text", "csv", "binary"])
def test_it_is_copied_out(server: ShoalServer, form: str) -> None:
    def copied(number: str) -> bytes:
        sql = f"COPY (SELECT a, {number} FROM t) TO STDOUT (FORMAT {form})"
        with psycopg.connect(server.dsn) as connection, connection.cursor().copy(sql.encode()) as copy:
            return b"".join(bytes(piece) for piece in copy)

    assert copied(LARGE) == copied(str(SIZE))


def test_the_limit_of_the_next_statement_is_its_own(server: ShoalServer) -> None:
    """What bounds constants bounds nothing behind them."""
    merge = "MERGE INTO t USING (SELECT 1 AS n) AS q ON t.a = q.n WHEN MATCHED THEN UPDATE SET b = {}"
    with psycopg.connect(server.dsn) as connection:
        connection.execute(f"SELECT {LARGE}".encode())
        connection.execute(merge.format(f"length(repeat('x', a * {2 * SIZE}))").encode())
        assert connection.execute("SELECT b FROM t WHERE a = 1").fetchone() == (2 * SIZE,)
        connection.rollback()
