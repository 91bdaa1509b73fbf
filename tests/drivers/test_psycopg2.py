"""psycopg2, which speaks the simple protocol only and binds parameters itself."""

from __future__ import annotations

import io
from collections.abc import Iterator
from typing import Any

import psycopg2
import psycopg2.errors
import psycopg2.extensions
import psycopg2.extras
import pytest

from tests.drivers.values import ARRAYS, CASES, JSON, Case, alike
from tests.oracle import PostgresServer
from tests.server import ShoalServer

psycopg2.extras.register_uuid()
psycopg2.extras.register_default_json()

# What psycopg2 cannot write (an array's elements need a cast that it does not add), or reads in another form.
LEFT_OUT = {"bytea[]", "uuid[]", "char(5)[]", "float8[]", "float4[]"}


@pytest.fixture
def connection(server: ShoalServer | PostgresServer, schema: str) -> Iterator[Any]:
    opened = psycopg2.connect(server.dsn, options=f"-c search_path={schema} -c TimeZone=UTC")
    yield opened
    opened.close()


def returned(value: object) -> object:
    """bytea comes as a memoryview."""
    return bytes(value) if isinstance(value, memoryview) else value


@pytest.mark.parametrize(
    "case", [case for case in (*CASES, *ARRAYS) if case.type not in LEFT_OUT], ids=lambda case: case.name
)
def test_values_come_back_as_they_went_in(connection: Any, case: Case) -> None:
    with connection.cursor() as cursor:
        cursor.execute(f"CREATE TABLE t (id int PRIMARY KEY, v {case.type})")
        for number, value in enumerate([*case.values, None]):
            cursor.execute(f"INSERT INTO t VALUES (%s, (%s)::{case.type})", (number, value))
        cursor.execute("SELECT v FROM t ORDER BY id")
        rows = cursor.fetchall()
        expected = [*case.expected, None]
        assert all(alike(returned(row[0]), value) for row, value in zip(rows, expected, strict=True)), rows
        connection.commit()
        cursor.execute("DELETE FROM t WHERE v IS NULL")
        assert cursor.rowcount == 1
    connection.rollback()


def test_json_comes_back(connection: Any) -> None:
    with connection.cursor() as cursor:
        cursor.execute("CREATE TABLE t (id int PRIMARY KEY, a json, b jsonb)")
        for number, value in enumerate(JSON):
            wrapped = psycopg2.extras.Json(value)
            cursor.execute("INSERT INTO t VALUES (%s, %s, %s)", (number, wrapped, wrapped))
        cursor.execute("SELECT a, b FROM t ORDER BY id")
        assert cursor.fetchall() == [(value, value) for value in JSON]


def test_transactions_savepoints_and_errors(connection: Any) -> None:
    with connection, connection.cursor() as cursor:
        cursor.execute("CREATE TABLE t (a int PRIMARY KEY)")
        cursor.execute("INSERT INTO t VALUES (1)")
    with pytest.raises(psycopg2.errors.UniqueViolation) as caught, connection, connection.cursor() as cursor:
        cursor.execute("INSERT INTO t VALUES (2)")
        cursor.execute("INSERT INTO t VALUES (1)")
    assert caught.value.pgcode == "23505"
    with connection, connection.cursor() as cursor:
        cursor.execute("SAVEPOINT s")
        with pytest.raises(psycopg2.errors.DivisionByZero):
            cursor.execute("SELECT 1/0")
        with pytest.raises(psycopg2.errors.InFailedSqlTransaction):
            cursor.execute("SELECT 1")
        cursor.execute("ROLLBACK TO s")
        cursor.execute("INSERT INTO t VALUES (3)")
    with connection, connection.cursor() as cursor:
        cursor.execute("SELECT a FROM t ORDER BY a")
        assert cursor.fetchall() == [(1,), (3,)]


def test_a_syntax_error_has_its_position(connection: Any) -> None:
    with pytest.raises(psycopg2.errors.SyntaxError) as caught, connection.cursor() as cursor:
        cursor.execute("SELECT 1 FORM t")
    assert caught.value.diag.statement_position == "15"


def test_executemany_and_execute_values(connection: Any) -> None:
    with connection.cursor() as cursor:
        cursor.execute("CREATE TABLE t (a int PRIMARY KEY, b text)")
        cursor.executemany("INSERT INTO t VALUES (%s, %s)", [(number, str(number)) for number in range(50)])
        psycopg2.extras.execute_values(
            cursor, "INSERT INTO t VALUES %s", [(number, None) for number in range(50, 1000)], page_size=200
        )
        psycopg2.extras.execute_batch(cursor, "UPDATE t SET b = %s WHERE a = %s", [("x", 1), ("y", 2)])
        made = psycopg2.extras.execute_values(
            cursor, "INSERT INTO t VALUES %s RETURNING a", [(2000, None), (2001, None)], fetch=True
        )
        assert made == [(2000,), (2001,)]
        cursor.execute("SELECT count(*), count(b), max(b) FROM t")
        assert cursor.fetchone() == (1002, 50, "y")


def test_named_cursors(connection: Any) -> None:
    with connection.cursor("c") as cursor:
        cursor.itersize = 100
        cursor.execute("SELECT g FROM generate_series(1, 1000) g")
        assert sum(row[0] for row in cursor) == 500_500
    with connection.cursor("d", scrollable=True) as cursor:
        cursor.execute("SELECT g FROM generate_series(1, 10) g")
        assert cursor.fetchmany(3) == [(1,), (2,), (3,)]
        cursor.scroll(-3)
        assert cursor.fetchone() == (1,)


def test_copy_in_and_out(connection: Any) -> None:
    with connection.cursor() as cursor:
        cursor.execute("CREATE TABLE t (a int PRIMARY KEY, b text)")
        cursor.copy_expert("COPY t FROM STDIN", io.StringIO("1\tone\n2\t\\N\n"))
        assert cursor.rowcount == 2
        cursor.copy_from(io.StringIO("3\tthree\n"), "t", columns=("a", "b"))
        out = io.StringIO()
        cursor.copy_expert("COPY (SELECT * FROM t ORDER BY a) TO STDOUT WITH (FORMAT csv, HEADER)", out)
        assert out.getvalue() == "a,b\n1,one\n2,\n3,three\n"


def test_autocommit_and_session_settings(connection: Any) -> None:
    connection.set_session(isolation_level="REPEATABLE READ", readonly=True)
    with connection.cursor() as cursor:
        cursor.execute("SHOW transaction_isolation")
        assert cursor.fetchone() == ("repeatable read",)
        with pytest.raises(psycopg2.errors.ReadOnlySqlTransaction):
            cursor.execute("CREATE TABLE t (a int)")
    connection.rollback()
    connection.set_session(isolation_level="DEFAULT", readonly=False, autocommit=True)
    with connection.cursor() as cursor:
        cursor.execute("CREATE TABLE t (a int)")
        assert connection.info.transaction_status == psycopg2.extensions.TRANSACTION_STATUS_IDLE
    assert connection.notices == []
    assert connection.info.server_version // 10000 == 15
