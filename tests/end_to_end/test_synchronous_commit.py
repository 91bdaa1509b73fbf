"""synchronous_commit: who is told when, what is seen meanwhile, and what a crash may take."""

from __future__ import annotations

import select
import threading
import time
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from tests.end_to_end.held_changelog import HoldingServer
from tests.oracle import PostgresServer
from tests.server import ShoalServer

WAITS = 0.15  # seconds in which something that waits is not answered
Client = psycopg.Connection[Any]


@pytest.fixture(scope="module")
def holding() -> Iterator[HoldingServer]:
    with HoldingServer() as server:
        yield server


@pytest.fixture
def server_held(holding: HoldingServer) -> Iterator[HoldingServer]:
    """Its changelog is held when the test says so; released afterwards. Table t (id, v) is empty."""
    with connect(holding) as connection:
        connection.execute("DROP TABLE IF EXISTS t")
        connection.execute("CREATE TABLE t (id int PRIMARY KEY, v text)")
    yield holding
    holding.release()


def connect(server: ShoalServer, level: str = "on") -> Client:
    connection = psycopg.connect(server.dsn, autocommit=True)
    if level != "on":
        connection.execute(f"SET synchronous_commit = {level}".encode())
    return connection


class Asked:
    """A statement that is on its way."""

    def __init__(self, connection: Client, sql: str) -> None:
        self._pgconn = connection.pgconn
        self._pgconn.send_query(sql.encode())
        self._pgconn.flush()

    def waits(self) -> bool:
        return not select.select([self._pgconn.socket], [], [], WAITS)[0]

    def answer(self) -> list[tuple[Any, ...]]:
        """The rows of its last result, as text. Raises what it ended with."""
        rows: list[tuple[Any, ...]] = []
        error = b""
        while (result := self._pgconn.get_result()) is not None:
            if result.status == psycopg.pq.ExecStatus.FATAL_ERROR:
                error = result.error_message
            rows = [
                tuple(result.get_value(row, column) for column in range(result.nfields))
                for row in range(result.ntuples)
            ]
        if error:
            raise psycopg.OperationalError(error.decode())
        return rows


def ids(connection: Client) -> list[int]:
    return [row[0] for row in connection.execute("SELECT id FROM t WHERE id BETWEEN 0 AND 1000 ORDER BY id")]


# --- the setting -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "value",
    ["on", "off", "local", "remote_write", "remote_apply", "true", "yes", "1", "NO", "0", "false", "t", "maybe"],
)
def test_the_values_are_those_of_postgresql(shoal: ShoalServer, postgres_server: PostgresServer, value: str) -> None:
    told = []
    for dsn in (shoal.dsn, postgres_server.dsn):
        with psycopg.connect(dsn, autocommit=True) as connection:
            try:
                connection.execute(f"SET synchronous_commit = '{value}'".encode())
                told.append(connection.execute("SHOW synchronous_commit").fetchone())
            except psycopg.Error as error:
                told.append((error.sqlstate, error.diag.message_primary, error.diag.message_hint))
    assert told[0] == told[1]


def test_every_level_commits_on_a_node_alone(shoal: ShoalServer) -> None:
    with connect(shoal) as connection:
        connection.execute("CREATE TABLE levels (id int PRIMARY KEY)")
        for number, level in enumerate(("on", "off", "local", "remote_write", "remote_apply")):
            connection.execute(f"SET synchronous_commit = {level}".encode())
            with connection.transaction():
                connection.execute("INSERT INTO levels VALUES (%s)", (number,))
            connection.execute(f"INSERT INTO levels VALUES ({number + 10})".encode())
        assert connection.execute("SELECT count(*) FROM levels").fetchone() == (10,)
        connection.execute("DROP TABLE levels")


# --- who is told when ------------------------------------------------------------------------------------------------


def test_off_is_told_before_it_is_durable_and_on_is_not(server_held: HoldingServer) -> None:
    with connect(server_held, "off") as off, connect(server_held) as on, connect(server_held, "local") as local:
        server_held.hold()
        off.execute("INSERT INTO t VALUES (1, 'simple')")
        with off.transaction():
            off.execute("INSERT INTO t VALUES (%s, %s)", (2, "extended"))
            off.execute("UPDATE t SET v = 'updated' WHERE id = 1")
        waiting = [Asked(on, "INSERT INTO t VALUES (3, '')"), Asked(local, "INSERT INTO t VALUES (4, '')")]
        assert all(asked.waits() for asked in waiting)
        server_held.release()
        for asked in waiting:
            asked.answer()
        assert ids(on) == [1, 2, 3, 4]


def test_set_local_is_for_one_transaction(server_held: HoldingServer) -> None:
    with connect(server_held) as connection:
        server_held.hold()
        with connection.transaction():
            connection.execute("SET LOCAL synchronous_commit = off")
            connection.execute("INSERT INTO t VALUES (1, '')")
        assert connection.execute("SHOW synchronous_commit").fetchone() == ("on",)
        later = Asked(connection, "INSERT INTO t VALUES (2, '')")
        assert later.waits()
        server_held.release()
        later.answer()
    with connect(server_held, "off") as connection:
        server_held.hold()
        connection.execute("BEGIN; SET LOCAL synchronous_commit TO on; INSERT INTO t VALUES (3, '')")
        commit = Asked(connection, "COMMIT")
        assert commit.waits()
        server_held.release()
        commit.answer()


@pytest.mark.parametrize("sql", ["CREATE TABLE made (id int)", "SELECT nextval('drawn')", "DROP TABLE made"])
def test_schema_changes_and_drawn_values_wait(server_held: HoldingServer, sql: str) -> None:
    with connect(server_held, "off") as connection:
        connection.execute("DROP TABLE IF EXISTS made")
        connection.execute("DROP SEQUENCE IF EXISTS drawn")
        connection.execute("CREATE SEQUENCE drawn")
        if sql.startswith("DROP"):
            connection.execute("CREATE TABLE made (id int)")
        server_held.hold()
        asked = Asked(connection, sql)
        assert asked.waits()
        server_held.release()
        asked.answer()


def test_commits_wait_again_when_the_changelog_is_behind() -> None:
    with HoldingServer(limit=0.6) as server, connect(server, "off") as connection:
        connection.execute("CREATE TABLE t (id int PRIMARY KEY, v text)")
        server.hold()
        began, number = time.monotonic(), 0
        while time.monotonic() < began + 10:
            asked = Asked(connection, f"INSERT INTO t VALUES ({number}, '')")
            number += 1
            if asked.waits():
                break
            asked.answer()
            time.sleep(0.02)
        assert 0.5 < time.monotonic() - began < 5
        server.release()
        asked.answer()
        assert ids(connection) == list(range(number))


# --- what is seen meanwhile ------------------------------------------------------------------------------------------


def test_sessions_that_do_not_wait_see_what_they_were_told(server_held: HoldingServer) -> None:
    with (
        connect(server_held, "off") as off,
        connect(server_held, "off") as other,
        connect(server_held) as on,
    ):
        server_held.hold()
        off.execute("INSERT INTO t VALUES (1, 'one'), (2, 'two')")
        off.execute("DELETE FROM t WHERE id = 2")
        for connection, seen in ((off, "one"), (other, "one!")):
            assert connection.execute("SELECT v FROM t WHERE id = %s", (1,)).fetchall() == [(seen,)]
            assert ids(connection) == [1]
            with connection.transaction():
                assert ids(connection) == [1]
                connection.execute("UPDATE t SET v = v || '!' WHERE id < 5")
                assert connection.execute("SELECT count(*) FROM t WHERE v LIKE 'one!%'").fetchone() == (1,)
        with pytest.raises(psycopg.errors.UniqueViolation):  # a statement that is undone
            other.execute("INSERT INTO t VALUES (7, ''), (1, '')")
        assert ids(other) == [1]
        assert ids(on) == []
        server_held.release()
        on.execute("INSERT INTO t VALUES (99, 'a later commit')")
        assert on.execute("SELECT v FROM t WHERE id = 1").fetchone() == ("one!!",)


@pytest.mark.parametrize(
    "sql",
    [
        "SET shoal.path = columnar; SELECT count(*) FROM t",
        "SET shoal.path = columnar; SELECT sum(id) FROM t a JOIN generate_series(1, 3) g ON g = a.id",
        "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT id FROM t WHERE id = 1",
        "SET shoal.path = columnar; INSERT INTO t SELECT id + 100, v FROM t RETURNING 1",
        "COPY (SELECT id FROM t) TO STDOUT",
    ],
)
def test_what_reads_elsewhere_waits_and_sees_it_too(server_held: HoldingServer, sql: str) -> None:
    with connect(server_held, "off") as connection:
        server_held.hold()
        connection.execute("INSERT INTO t VALUES (1, 'one')")
        *before, last = sql.split("; ")
        for statement in before:
            connection.execute(statement.encode())
        if last.startswith("COPY"):
            threading.Timer(WAITS, server_held.release).start()
            with connection.cursor() as cursor, cursor.copy(last.encode()) as copy:
                assert b"".join(copy) == b"1\n"
            return
        asked = Asked(connection, last)
        assert asked.waits()
        server_held.release()
        assert asked.answer() == [(b"1",)]


def test_a_cached_repeatable_read_waits_without_a_task(server_held: HoldingServer) -> None:
    with connect(server_held, "off") as connection:
        connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        for number in range(1, 4):
            server_held.hold()
            connection.execute(f"INSERT INTO t VALUES ({number}, '')".encode())
            threading.Timer(WAITS, server_held.release).start()
            connection.autocommit = False
            assert connection.execute("SELECT id FROM t WHERE id = %s", (number,), prepare=True).fetchall() == [
                (number,)
            ]
            connection.rollback()
            connection.autocommit = True


# --- the end ---------------------------------------------------------------------------------------------------------


def test_a_clean_stop_keeps_what_nobody_waited_for(private_shoal: ShoalServer) -> None:
    with connect(private_shoal, "off") as connection:
        connection.execute("CREATE TABLE t (id int PRIMARY KEY, v text)")
        for number in range(100):
            connection.execute("INSERT INTO t VALUES (%s, '')", (number,))
        private_shoal.stop()
    private_shoal.start()
    with connect(private_shoal) as connection:
        assert ids(connection) == list(range(100))


def test_a_crash_takes_the_last_commits_and_nothing_before_them() -> None:
    with HoldingServer() as server:
        with connect(server, "off") as connection:
            connection.execute("CREATE TABLE t (id int PRIMARY KEY, v text)")
            connection.execute("CREATE TABLE twin (id int PRIMARY KEY)")
            acknowledged = 0
            for number in range(1, 61):
                if number == 41:
                    server.hold()
                with connection.transaction():
                    if number == 40:  # it waits, and so for all before it
                        connection.execute("SET LOCAL synchronous_commit = on")
                    connection.execute("INSERT INTO t VALUES (%s, '')", (number,))
                    connection.execute("INSERT INTO twin VALUES (%s)", (number,))
                acknowledged = number
            server.kill()
        server.release()
        server.start()
        with connect(server) as connection:
            kept = ids(connection)
            twins = [row[0] for row in connection.execute("SELECT id FROM twin ORDER BY id")]
        assert kept == twins == list(range(1, len(kept) + 1))
        assert 40 <= len(kept) < acknowledged
