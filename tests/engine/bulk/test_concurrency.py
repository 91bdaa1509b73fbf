"""Bulk work beside other clients: the same outcome on Shoal and on PostgreSQL, whoever waits for whom."""

from __future__ import annotations

import concurrent.futures
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from engine.bulk.load import SMALL_ROWS
from engine.statements.data_change import SMALL_ROWS as SMALL_CHANGE
from tests.oracle import PostgresServer
from tests.server import ShoalServer

PATIENCE = 30.0
BLOCKED = 0.3
MANY = SMALL_ROWS + 1000


class Client:
    """A connection whose statements run in a thread, so that a waiting one can be watched."""

    def __init__(self, dsn: str) -> None:
        self.connection = psycopg.connect(dsn, autocommit=True, options="-c search_path=bulk")
        self._thread = concurrent.futures.ThreadPoolExecutor(1)

    def start(self, sql: str, data: bytes | None = None) -> concurrent.futures.Future[Any]:
        def run() -> Any:
            if data is None:
                cursor = self.connection.execute(sql.encode())
                return cursor.fetchall() if cursor.description else cursor.rowcount
            copying = self.connection.cursor()
            with copying.copy(sql.encode()) as copy:
                copy.write(data)
            return copying.rowcount

        return self._thread.submit(run)

    def run(self, *statements: str) -> Any:
        result = None
        for sql in statements:
            result = self.start(sql).result(PATIENCE)
        return result

    def copy(self, data: bytes) -> Any:
        return self.start("COPY t FROM STDIN", data).result(PATIENCE)

    def close(self) -> None:
        self.connection.cancel()
        self._thread.shutdown()
        self.connection.close()


def lines(start: int, count: int = MANY) -> bytes:
    return b"".join(b"%d\t0\n" % i for i in range(start, start + count))


@pytest.fixture
def clients(server: ShoalServer | PostgresServer) -> Iterator[tuple[Client, Client]]:
    """Two clients over table t: rows 1 to MANY."""
    with psycopg.connect(server.dsn, autocommit=True) as connection:
        connection.execute("DROP SCHEMA IF EXISTS bulk CASCADE")
        connection.execute("CREATE SCHEMA bulk")
        connection.execute("CREATE TABLE bulk.t (id int PRIMARY KEY, v int)")
        connection.execute(f"INSERT INTO bulk.t SELECT i, 0 FROM generate_series(1, {MANY}) i".encode())
        pair = Client(server.dsn), Client(server.dsn)
        yield pair
        for client in pair:
            client.close()
        connection.execute("DROP SCHEMA bulk CASCADE")


Two = tuple[Client, Client]


def blocked(future: concurrent.futures.Future[Any]) -> None:
    with pytest.raises(concurrent.futures.TimeoutError):
        future.result(BLOCKED)


def test_loads_of_other_rows_both_succeed(clients: Two) -> None:
    a, b = clients
    a.run("BEGIN")
    a.copy(lines(100_000))
    waiting = b.start("COPY t FROM STDIN", lines(200_000))
    a.run("COMMIT")
    assert waiting.result(PATIENCE) == MANY
    assert a.run("SELECT count(*) FROM t") == [(3 * MANY,)]


def test_a_key_that_a_load_brings_is_waited_for(clients: Two) -> None:
    a, b = clients
    a.run("BEGIN")
    a.copy(lines(100_000))
    waiting = b.start("INSERT INTO t VALUES (100005, 1)")
    blocked(waiting)
    a.run("COMMIT")
    with pytest.raises(psycopg.errors.UniqueViolation):
        waiting.result(PATIENCE)
    a.run("BEGIN")
    a.copy(lines(200_000))
    waiting = b.start("COPY t FROM STDIN", lines(200_000))
    blocked(waiting)
    a.run("ROLLBACK")
    assert waiting.result(PATIENCE) == MANY


def test_an_insert_waits_for_a_concurrent_insert_of_the_key(clients: Two) -> None:
    a, b = clients
    a.run("BEGIN", "INSERT INTO t VALUES (100005, 1)")
    waiting = b.start("COPY t FROM STDIN", lines(100_000))
    blocked(waiting)
    a.run("COMMIT")
    with pytest.raises(psycopg.errors.UniqueViolation):
        waiting.result(PATIENCE)
    assert b.run("SELECT count(*) FROM t") == [(MANY + 1,)]


def test_two_updates_of_every_row(clients: Two) -> None:
    a, b = clients
    a.run("BEGIN")
    assert a.run("UPDATE t SET v = v + 1") == MANY
    waiting = b.start("UPDATE t SET v = v + 10")
    blocked(waiting)
    a.run("COMMIT")
    assert waiting.result(PATIENCE) == MANY
    assert a.run("SELECT min(v), max(v) FROM t") == [(11, 11)]


def test_updates_that_start_together_do_not_deadlock(clients: Two) -> None:
    a, b = clients
    running = [client.start("UPDATE t SET v = v + 1") for client in (a, b)]
    assert [future.result(PATIENCE) for future in running] == [MANY, MANY]
    assert a.run("SELECT min(v), max(v) FROM t") == [(2, 2)]


def test_who_has_locked_a_row_is_waited_for(clients: Two) -> None:
    a, b = clients
    a.run("BEGIN")
    assert a.run("SELECT v FROM t WHERE id = 5 FOR UPDATE") == [(0,)]
    waiting = b.start("UPDATE t SET v = v + 1")
    blocked(waiting)
    a.run("UPDATE t SET v = 7 WHERE id = 5", "COMMIT")
    assert waiting.result(PATIENCE) == MANY
    assert a.run("SELECT v FROM t WHERE id = 5") == [(8,)]


def test_who_wants_to_lock_a_row_waits(clients: Two) -> None:
    a, b = clients
    a.run("BEGIN", "UPDATE t SET v = v + 1")
    assert b.run("SELECT v FROM t WHERE id = 5") == [(0,)]
    waiting = b.start("SELECT v FROM t WHERE id = 5 FOR UPDATE")
    blocked(waiting)
    a.run("COMMIT")
    assert waiting.result(PATIENCE) == [(1,)]


SOME = SMALL_CHANGE // 2
COMPUTED = f"UPDATE t SET v = t.v + 1 FROM (SELECT id % {SOME} AS k, count(*) FROM t GROUP BY 1) AS x WHERE t.id = x.k"


def test_a_row_that_changes_after_it_was_computed(clients: Two) -> None:
    a, b = clients
    a.run("BEGIN", "UPDATE t SET v = 100 WHERE id = 5")
    waiting = b.start(COMPUTED)
    blocked(waiting)
    a.run("COMMIT")
    assert waiting.result(PATIENCE) == SOME - 1
    assert a.run("SELECT v FROM t WHERE id = 5") == [(101,)]


@pytest.mark.parametrize("statement", ["UPDATE t SET v = v + 1", COMPUTED, "DELETE FROM t"])
def test_repeatable_read_refuses_what_has_changed(clients: Two, statement: str) -> None:
    a, b = clients
    b.run("BEGIN ISOLATION LEVEL REPEATABLE READ", "SELECT 1 FROM t WHERE id = 1")
    a.run("UPDATE t SET v = 100 WHERE id = 5")
    with pytest.raises(psycopg.errors.SerializationFailure):
        b.run(statement)
    b.run("ROLLBACK")
    assert b.run("SELECT count(*), sum(v) FROM t") == [(MANY, 100)]


def test_a_child_row_and_the_deletion_of_its_parent(clients: Two) -> None:
    a, b = clients
    a.run("CREATE TABLE c (id int, t int REFERENCES t)")
    a.run("BEGIN", "INSERT INTO c VALUES (1, 5)")
    waiting = b.start("DELETE FROM t")
    blocked(waiting)
    a.run("COMMIT")
    with pytest.raises(psycopg.errors.ForeignKeyViolation):
        waiting.result(PATIENCE)


def test_a_load_that_is_cancelled_leaves_nothing(clients: Two) -> None:
    a, b = clients
    a.run("BEGIN", "INSERT INTO t VALUES (100005, 1)")
    waiting = b.start("COPY t FROM STDIN", lines(100_000))
    blocked(waiting)
    b.connection.cancel()
    with pytest.raises(psycopg.errors.QueryCanceled):
        waiting.result(PATIENCE)
    a.run("ROLLBACK")
    assert b.run("SELECT count(*) FROM t") == [(MANY,)]


@pytest.mark.parametrize("change", ["DELETE FROM t", "UPDATE t SET v = 1"])
def test_a_long_list_of_keys_locks_the_rows_that_it_finds(clients: Two, change: str) -> None:
    one, other = clients
    listed = ", ".join(map(str, [*range(1, 101), *range(100_000, 100_000 + 2 * MANY)]))
    one.run("BEGIN")
    assert one.run(f"{change} WHERE id IN ({listed})") == 100
    assert other.run("UPDATE t SET v = 2 WHERE id = 101") == 1
    assert other.run("SELECT id FROM t WHERE id = 102 FOR UPDATE") == [(102,)]
    waiting = other.start("UPDATE t SET v = 3 WHERE id = 100")
    blocked(waiting)
    one.run("COMMIT")
    assert waiting.result(PATIENCE) == (0 if "DELETE" in change else 1)
