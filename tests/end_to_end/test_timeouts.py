"""statement_timeout, lock_timeout and the timeouts of sessions, on Shoal and on PostgreSQL: how each ends what, and the
session afterwards. transaction_timeout is PostgreSQL 17's, and tried on Shoal alone."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from itertools import product

import psycopg
import pytest

from tests.oracle import PostgresServer
from tests.samples import some
from tests.server import ShoalServer

Server = ShoalServer | PostgresServer
Connection = psycopg.Connection
SHORT = "150ms"
LONG = """SELECT count(*) FROM generate_series(1, 20000) a, generate_series(1, 20000) b, generate_series(1, 300) c
          WHERE a.a * b.b % 7 = c.c"""


@pytest.fixture
def connection(server: Server) -> Iterator[Connection]:
    with psycopg.connect(server.dsn, autocommit=True) as made:
        made.execute("DROP TABLE IF EXISTS timed")
        made.execute("CREATE TABLE timed (id int PRIMARY KEY, v int)")
        made.execute("INSERT INTO timed VALUES (1, 1), (2, 2)")
        yield made


@contextmanager
def held(server: Server, sql: str) -> Iterator[None]:
    """Another session holds what the statement has taken."""
    with psycopg.connect(server.dsn) as other:
        other.execute(sql.encode())
        yield
        other.rollback()


def copied(connection: Connection, rows: str, pause: float = 0.0) -> None:
    with connection.cursor().copy("COPY timed FROM STDIN") as copy:
        time.sleep(pause)  # the client is what is slow here
        copy.write(rows)


def copied_out(connection: Connection, sql: str) -> bytes:
    with connection.cursor().copy(sql.encode()) as copy:
        return b"".join(copy)


def runs(sql: str) -> Callable[[Connection], object]:
    return lambda connection: connection.execute(sql.encode())


def pipelined(connection: Connection) -> None:
    with connection.pipeline():
        connection.execute("SELECT 1")
        connection.execute("SELECT pg_sleep(20)")
        connection.execute("SELECT 2")


WORK = {
    "row path": runs("UPDATE timed SET v = 3 WHERE id = 1"),
    "prepared": lambda connection: connection.execute("UPDATE timed SET v = %s WHERE id = 1", (3,), prepare=True),
    "FOR UPDATE": runs("SELECT * FROM timed WHERE id = 1 FOR UPDATE"),
    "columnar path": runs("UPDATE timed SET v = (SELECT count(*) FROM generate_series(1, 10000))"),
    "COPY": lambda connection: copied(connection, "1\t5\n"),
    "DDL": runs("ALTER TABLE timed ADD COLUMN z int"),
}
ALONE = {
    "columnar path": runs(LONG),
    "INSERT": runs(f"INSERT INTO timed SELECT 9, ({LONG})::int"),
    "CREATE TABLE AS": runs(f"CREATE TABLE made AS {LONG}"),
    "a function that waits": runs("SELECT pg_sleep(20)"),
    "COPY FROM a slow client": lambda connection: copied(connection, "5\t5\n", 0.6),
    "COPY TO": lambda connection: copied_out(connection, f"COPY ({LONG}) TO STDOUT"),
    "a pipeline": pipelined,
}


def ends(connection: Connection, work: Callable[[Connection], object], sqlstate: str, in_block: bool) -> None:
    """The work ends with the SQLSTATE, and the session is in a failed block, or as before."""
    if in_block:
        connection.execute("BEGIN")
    with pytest.raises(psycopg.Error) as caught:
        work(connection)
    assert (caught.value.sqlstate, caught.value.diag.severity) == (sqlstate, "ERROR")
    if in_block:
        with pytest.raises(psycopg.errors.InFailedSqlTransaction):
            connection.execute("SELECT 1")
        connection.execute("ROLLBACK")
    assert connection.execute("SELECT count(*) FROM timed").fetchall() == [(2,)]


@pytest.mark.parametrize(("name", "in_block"), some(product(WORK, (False, True)), 3))
def test_waits_for_locks_end(server: Server, connection: Connection, name: str, in_block: bool) -> None:
    with held(server, "UPDATE timed SET v = 2 WHERE id = 1"):
        connection.execute(f"SET statement_timeout = '{SHORT}'".encode())
        ends(connection, WORK[name], "57014", in_block)
        connection.execute(f"SET statement_timeout = '20s'; SET lock_timeout = '{SHORT}'".encode())
        ends(connection, WORK[name], "55P03", in_block)
    connection.execute("RESET lock_timeout")


@pytest.mark.parametrize(("name", "in_block"), some(product(ALONE, (False, True)), 3))
def test_long_statements_end(connection: Connection, name: str, in_block: bool) -> None:
    connection.execute(f"SET statement_timeout = '{SHORT}'".encode())
    ends(connection, ALONE[name], "57014", in_block)


def test_each_statement_of_a_string_has_its_own_timeout(connection: Connection) -> None:
    connection.execute("SELECT pg_sleep(0)")
    connection.execute("SET statement_timeout = '3s'")
    connection.execute("SELECT pg_sleep(1.2); SELECT pg_sleep(1.2); SELECT pg_sleep(1.2)")
    connection.execute(f"SET statement_timeout = '{SHORT}'".encode())
    connection.execute("SET statement_timeout = 0; SELECT pg_sleep(0.5)")
    with pytest.raises(psycopg.errors.QueryCanceled):
        connection.execute(f"SET statement_timeout = '{SHORT}'; SELECT pg_sleep(20)".encode())


@pytest.mark.parametrize("before", ["SELECT 1", "SELECT 1 / 0"])
def test_idle_transactions_end_their_session(connection: Connection, before: str) -> None:
    connection.execute("BEGIN")
    connection.execute(f"SET LOCAL idle_in_transaction_session_timeout = '{SHORT}'".encode())
    with pytest.raises(psycopg.Error) as caught:
        try:
            connection.execute(before.encode())
        except psycopg.errors.DivisionByZero:
            connection.execute("ROLLBACK")
            connection.execute(f"BEGIN; SET idle_in_transaction_session_timeout = '{SHORT}'".encode())
        time.sleep(0.6)
        connection.execute("SELECT 1")
    assert (caught.value.sqlstate, caught.value.diag.severity) == ("25P03", "FATAL")
    assert connection.closed


def test_idle_sessions_end(connection: Connection) -> None:
    connection.execute(f"SET idle_session_timeout = '{SHORT}'".encode())
    connection.execute("BEGIN")
    time.sleep(0.6)  # in a block it does not count
    connection.execute("SELECT pg_sleep(0.6)")
    connection.execute("COMMIT")
    time.sleep(0.6)
    with pytest.raises(psycopg.errors.IdleSessionTimeout):
        connection.execute("SELECT 1")


# ---- transaction_timeout --------------------------------------------------------------------------------------------


@pytest.fixture
def lasting(shoal: ShoalServer) -> Iterator[Connection]:
    with psycopg.connect(shoal.dsn, autocommit=True) as made:
        made.execute("CREATE TABLE IF NOT EXISTS lasting (id int PRIMARY KEY)")
        yield made


def lasts_too_long(connection: Connection, *statements: str) -> bool:
    try:
        for sql in statements:
            with suppress(psycopg.errors.DivisionByZero):
                connection.execute(sql.encode())
        time.sleep(0.6)
        connection.execute("SELECT 1")
    except psycopg.errors.TransactionTimeout as error:
        assert (error.sqlstate, error.diag.severity) == ("25P04", "FATAL")
        assert connection.closed
        return True
    return False


SET = f"SET transaction_timeout = '{SHORT}'"


@pytest.mark.parametrize(
    "statements",
    [
        (SET, "BEGIN", "SELECT 1"),
        (SET, "BEGIN", "SELECT 1 / 0"),
        (SET, "BEGIN", "INSERT INTO lasting VALUES (1)", "SELECT pg_sleep(20)"),
        (SET, "SELECT pg_sleep(20)"),
        ("BEGIN", SET),
        ("BEGIN", f"SET LOCAL transaction_timeout = '{SHORT}'"),
    ],
)
def test_long_transactions_end_their_session(
    lasting: Connection, shoal: ShoalServer, statements: tuple[str, ...]
) -> None:
    assert lasts_too_long(lasting, *statements)
    with psycopg.connect(shoal.dsn, autocommit=True) as other:
        assert other.execute("SELECT * FROM lasting").fetchall() == []


@pytest.mark.parametrize(
    "statements",
    [
        (SET, "BEGIN", "COMMIT"),
        (SET, "BEGIN", "SET transaction_timeout = 0"),
        ("BEGIN", f"SET LOCAL transaction_timeout = '{SHORT}'", "COMMIT", "BEGIN"),
    ],
)
def test_transactions_that_end_in_time_do_not(lasting: Connection, statements: tuple[str, ...]) -> None:
    assert not lasts_too_long(lasting, *statements)
