"""Isolation as two clients meet it, on Shoal and on PostgreSQL: the same script, the same outcome."""

from __future__ import annotations

import concurrent.futures
import time
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from psycopg import errors

from tests.oracle import PostgresServer
from tests.server import ShoalServer

PATIENCE = 20.0  # seconds for what must end
BLOCKED = 0.3  # seconds after which a statement counts as waiting


class Client:
    """A connection whose statements run in a thread, so that a waiting one can be watched."""

    def __init__(self, dsn: str, schema: str) -> None:
        self.connection = psycopg.connect(dsn, autocommit=True, options=f"-c search_path={schema}")
        self._thread = concurrent.futures.ThreadPoolExecutor(1)

    def start(self, sql: str) -> concurrent.futures.Future[Any]:
        def run() -> Any:
            cursor = self.connection.execute(sql.encode())
            return cursor.fetchall() if cursor.description else cursor.rowcount

        return self._thread.submit(run)

    def run(self, *statements: str) -> Any:
        """The last statement's rows, or the number of rows that it changed."""
        result = None
        for sql in statements:
            result = self.start(sql).result(PATIENCE)
        return result

    def waits(self, sql: str) -> concurrent.futures.Future[Any]:
        """Starts a statement and sees that it waits."""
        future = self.start(sql)
        with pytest.raises(concurrent.futures.TimeoutError):
            future.result(BLOCKED)
        return future

    def close(self) -> None:
        self.connection.cancel()
        self._thread.shutdown()
        self.connection.close()


SCHEMA = "isolation"


@pytest.fixture
def table(server: ShoalServer | PostgresServer) -> Iterator[str]:
    """Table t: (1, 10), (2, 20), (3, 30); gives the server's DSN."""
    with psycopg.connect(server.dsn, autocommit=True) as connection:
        connection.execute(f"DROP SCHEMA IF EXISTS {SCHEMA} CASCADE".encode())
        connection.execute(f"CREATE SCHEMA {SCHEMA}".encode())
        connection.execute(f"CREATE TABLE {SCHEMA}.t (id int PRIMARY KEY, v int)".encode())
        connection.execute(f"INSERT INTO {SCHEMA}.t VALUES (1, 10), (2, 20), (3, 30)".encode())
        yield server.dsn
        connection.execute(f"DROP SCHEMA {SCHEMA} CASCADE".encode())


def opened(dsn: str) -> Iterator[Client]:
    client = Client(dsn, SCHEMA)
    yield client
    client.close()


@pytest.fixture
def a(table: str) -> Iterator[Client]:
    yield from opened(table)


@pytest.fixture
def b(table: str) -> Iterator[Client]:
    yield from opened(table)


@pytest.fixture
def c(table: str) -> Iterator[Client]:
    yield from opened(table)


def after_waiting(holder: Client, held: str, waiter: Client, waiting: str, end: str = "COMMIT") -> Any:
    """What a statement gives that has to wait for the transaction of another client, which then ends."""
    holder.run("BEGIN", held)
    future = waiter.waits(waiting)
    holder.run(end)
    return future.result(PATIENCE)


def test_uncommitted_changes_are_invisible(a: Client, b: Client) -> None:
    a.run("BEGIN", "UPDATE t SET v = 11 WHERE id = 1", "INSERT INTO t VALUES (4, 40)", "DELETE FROM t WHERE id = 3")
    assert b.run("SELECT * FROM t ORDER BY id") == [(1, 10), (2, 20), (3, 30)]
    assert b.run("SELECT sum(v), count(*) FROM t") == [(60, 3)]
    assert a.run("SELECT * FROM t ORDER BY id") == [(1, 11), (2, 20), (4, 40)]
    assert a.run("SELECT sum(v), count(*) FROM t") == [(71, 3)]
    a.run("COMMIT")
    assert b.run("SELECT * FROM t ORDER BY id") == [(1, 11), (2, 20), (4, 40)]


def test_read_committed_waits_and_looks_again(a: Client, b: Client) -> None:
    held, waiting = "UPDATE t SET v = v + 1 WHERE id = 1", "UPDATE t SET v = v * 2 WHERE id = 1 RETURNING v"
    assert after_waiting(a, held, b, waiting) == [(22,)]


def test_a_row_that_no_longer_matches_is_left_alone(a: Client, b: Client) -> None:
    assert after_waiting(a, "UPDATE t SET v = 99 WHERE id = 1", b, "UPDATE t SET v = 0 WHERE id = 1 AND v = 10") == 0
    assert b.run("SELECT v FROM t WHERE id = 1") == [(99,)]


SHIFTED = "UPDATE t SET v = CASE id WHEN 1 THEN 25 ELSE 5 END WHERE id < 3"


@pytest.mark.parametrize(
    ("held", "waiting", "rows", "left"),
    [
        # Row 1 matches only now, row 2 no longer, row 3 as ever.
        (SHIFTED, "UPDATE t SET v = v + 100 WHERE v >= 20", 1, [(1, 25), (2, 5), (3, 130)]),
        (SHIFTED, "DELETE FROM t WHERE v >= 20", 1, [(1, 25), (2, 5)]),
        (SHIFTED, "SELECT id FROM t WHERE v >= 20 FOR UPDATE", [(3,)], [(1, 25), (2, 5), (3, 30)]),
        (
            "WITH more AS (INSERT INTO t VALUES (4, 40)) UPDATE t SET v = 11 WHERE id = 1",
            "DELETE FROM t WHERE v > 0",
            3,
            [(4, 40)],
        ),
        (
            "WITH more AS (INSERT INTO t VALUES (4, 40)) UPDATE t SET v = 31 WHERE id = 3",
            "UPDATE t SET v = 0 WHERE v = (SELECT max(v) FROM t)",
            0,
            [(1, 10), (2, 20), (3, 31), (4, 40)],
        ),
        (
            "WITH more AS (INSERT INTO t VALUES (4, 10)) UPDATE t SET v = 11 WHERE id = 1",
            "UPDATE t SET v = v + (SELECT count(*) FROM t) WHERE id = 1",
            1,
            [(1, 14), (2, 20), (3, 30), (4, 10)],
        ),
        # A row that has got another key is the same row.
        ("UPDATE t SET id = 7 WHERE id = 1", "UPDATE t SET v = v + 1 WHERE v <= 10", 1, [(2, 20), (3, 30), (7, 11)]),
        ("UPDATE t SET id = 7 WHERE id = 1", "DELETE FROM t WHERE v <= 10", 1, [(2, 20), (3, 30)]),
    ],
)
def test_read_committed_judges_the_rows_that_it_had_found(
    a: Client, b: Client, held: str, waiting: str, rows: object, left: object
) -> None:
    assert after_waiting(a, held, b, waiting) == rows
    assert b.run("SELECT * FROM t ORDER BY id") == left


def test_the_next_statement_sees_what_was_waited_for(a: Client, b: Client) -> None:
    b.run("BEGIN")
    assert after_waiting(a, SHIFTED, b, "UPDATE t SET v = v + 100 WHERE v >= 20") == 1
    assert b.run("SELECT * FROM t ORDER BY id") == [(1, 25), (2, 5), (3, 130)]
    assert b.run("UPDATE t SET v = v + 100 WHERE v = 25") == 1


def test_a_wait_that_was_given_up_leaves_no_snapshot_behind(a: Client, b: Client) -> None:
    b.run("BEGIN", "SET LOCAL lock_timeout = '100ms'", "SAVEPOINT before")
    a.run("BEGIN", SHIFTED)
    with pytest.raises(errors.LockNotAvailable):
        b.run("UPDATE t SET v = v + 100 WHERE v >= 20")
    a.run("COMMIT")
    b.run("ROLLBACK TO before")
    assert b.run("SELECT id FROM t WHERE v >= 20 ORDER BY id") == [(1,), (3,)]
    assert b.run("UPDATE t SET v = v + 100 WHERE v >= 20") == 2


def test_a_statement_waits_for_several_rows_one_after_the_other(a: Client, b: Client, c: Client) -> None:
    a.run("BEGIN", "UPDATE t SET v = 21 WHERE id = 1")
    b.run("BEGIN", "UPDATE t SET v = 19 WHERE id = 2")
    future = c.waits("UPDATE t SET v = v + 100 WHERE v >= 10")
    a.run("INSERT INTO t VALUES (4, 40)", "COMMIT")
    with pytest.raises(concurrent.futures.TimeoutError):
        future.result(BLOCKED)
    b.run("UPDATE t SET v = 9 WHERE id = 2", "COMMIT")
    assert future.result(PATIENCE) == 2
    assert c.run("SELECT * FROM t ORDER BY id") == [(1, 121), (2, 9), (3, 130), (4, 40)]


def test_a_row_that_was_deleted_is_gone(a: Client, b: Client) -> None:
    assert after_waiting(a, "DELETE FROM t WHERE id = 1", b, "UPDATE t SET v = 0 WHERE id = 1") == 0


def test_a_rollback_lets_the_waiter_go_on_with_the_old_row(a: Client, b: Client) -> None:
    held, waiting = "UPDATE t SET v = 99 WHERE id = 1", "UPDATE t SET v = v + 1 WHERE id = 1 RETURNING v"
    assert after_waiting(a, held, b, waiting, "ROLLBACK") == [(11,)]


def test_read_committed_takes_a_snapshot_per_statement(a: Client, b: Client) -> None:
    a.run("BEGIN")
    assert a.run("SELECT v FROM t WHERE id = 1") == [(10,)]
    b.run("UPDATE t SET v = 11 WHERE id = 1")
    assert a.run("SELECT v FROM t WHERE id = 1") == [(11,)]
    assert a.run("SELECT sum(v) FROM t") == [(61,)]


def test_repeatable_read_keeps_its_snapshot(a: Client, b: Client) -> None:
    a.run("BEGIN ISOLATION LEVEL REPEATABLE READ")
    assert a.run("SELECT v FROM t WHERE id = 1") == [(10,)]
    b.run("UPDATE t SET v = 11 WHERE id = 1", "INSERT INTO t VALUES (4, 40)", "DELETE FROM t WHERE id = 2")
    assert a.run("SELECT * FROM t ORDER BY id") == [(1, 10), (2, 20), (3, 30)]
    assert a.run("SELECT sum(v), count(*) FROM t") == [(60, 3)]
    a.run("COMMIT")
    assert a.run("SELECT sum(v), count(*) FROM t") == [(81, 3)]


@pytest.mark.parametrize("change", ["UPDATE t SET v = 11 WHERE id = 1", "DELETE FROM t WHERE id = 1"])
@pytest.mark.parametrize(
    "statement",
    ["UPDATE t SET v = 12 WHERE id = 1", "DELETE FROM t WHERE id = 1", "SELECT * FROM t WHERE id = 1 FOR UPDATE"],
)
def test_repeatable_read_refuses_to_change_what_changed(a: Client, b: Client, change: str, statement: str) -> None:
    a.run("BEGIN ISOLATION LEVEL REPEATABLE READ", "SELECT 1 FROM t")
    b.run(change)
    with pytest.raises(errors.SerializationFailure) as caught:
        a.run(statement)
    if not statement.startswith("SELECT"):  # which is told of a deleted row as of a changed one
        word = "delete" if change.startswith("DELETE") else "update"
        assert caught.value.diag.message_primary == f"could not serialize access due to concurrent {word}"
    with pytest.raises(errors.InFailedSqlTransaction):
        a.run("SELECT 1")
    a.run("ROLLBACK")


def test_repeatable_read_fails_after_waiting_for_a_commit(a: Client, b: Client) -> None:
    b.run("BEGIN ISOLATION LEVEL REPEATABLE READ", "SELECT 1 FROM t")
    with pytest.raises(errors.SerializationFailure):
        after_waiting(a, "UPDATE t SET v = 11 WHERE id = 1", b, "UPDATE t SET v = 12 WHERE id = 1")
    b.run("ROLLBACK")


def test_repeatable_read_continues_after_waiting_for_a_rollback(a: Client, b: Client) -> None:
    b.run("BEGIN ISOLATION LEVEL REPEATABLE READ", "SELECT 1 FROM t")
    held, waiting = "UPDATE t SET v = 11 WHERE id = 1", "UPDATE t SET v = 12 WHERE id = 1"
    assert after_waiting(a, held, b, waiting, "ROLLBACK") == 1
    b.run("COMMIT")


def test_repeatable_read_allows_write_skew(a: Client, b: Client) -> None:
    for client in (a, b):
        client.run("BEGIN ISOLATION LEVEL REPEATABLE READ", "SELECT sum(v) FROM t")
    a.run("UPDATE t SET v = 0 WHERE id = 1")
    b.run("UPDATE t SET v = 0 WHERE id = 2")
    a.run("COMMIT")
    b.run("COMMIT")
    assert a.run("SELECT sum(v) FROM t") == [(30,)]


def test_a_deadlock_ends_one_of_two(a: Client, b: Client) -> None:
    a.run("BEGIN", "UPDATE t SET v = 11 WHERE id = 1")
    b.run("BEGIN", "UPDATE t SET v = 21 WHERE id = 2")
    first = a.waits("UPDATE t SET v = 22 WHERE id = 2")
    second = b.start("UPDATE t SET v = 12 WHERE id = 1")
    outcomes = []
    for client, future in ((b, second), (a, first)):
        error = future.exception(PATIENCE)
        outcomes.append(error)
        if error is not None:
            assert isinstance(error, errors.DeadlockDetected)
            assert error.diag.message_primary == "deadlock detected"
            client.run("ROLLBACK")
    assert sum(error is not None for error in outcomes) == 1
    (a if outcomes[0] is not None else b).run("COMMIT")


def test_inserting_the_same_key_waits_for_the_first(a: Client, b: Client, c: Client) -> None:
    a.run("BEGIN", "INSERT INTO t VALUES (9, 90)")
    waiting = b.waits("INSERT INTO t VALUES (9, 91)")
    ignoring = c.waits("INSERT INTO t VALUES (9, 92) ON CONFLICT DO NOTHING")
    a.run("COMMIT")
    with pytest.raises(errors.UniqueViolation):
        waiting.result(PATIENCE)
    assert ignoring.result(PATIENCE) == 0
    assert a.run("SELECT v FROM t WHERE id = 9") == [(90,)]


def test_inserting_the_same_key_after_a_rollback(a: Client, b: Client) -> None:
    assert after_waiting(a, "INSERT INTO t VALUES (9, 90)", b, "INSERT INTO t VALUES (9, 91)", "ROLLBACK") == 1


def test_on_conflict_do_update_sees_the_committed_row(a: Client, b: Client) -> None:
    waiting = "INSERT INTO t VALUES (9, 1) ON CONFLICT (id) DO UPDATE SET v = t.v + excluded.v RETURNING v"
    assert after_waiting(a, "INSERT INTO t VALUES (9, 90)", b, waiting) == [(91,)]


def test_for_update_waits_nowait_and_skip_locked(a: Client, b: Client) -> None:
    assert a.run("BEGIN", "SELECT v FROM t WHERE id = 1 FOR UPDATE") == [(10,)]
    assert b.run("SELECT v FROM t WHERE id = 1") == [(10,)]
    with pytest.raises(errors.LockNotAvailable) as caught:
        b.run("SELECT v FROM t WHERE id = 1 FOR UPDATE NOWAIT")
    assert caught.value.diag.message_primary == 'could not obtain lock on row in relation "t"'
    assert b.run("SELECT id FROM t ORDER BY id FOR UPDATE SKIP LOCKED") == [(2,), (3,)]
    assert b.run("SELECT id FROM t ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED") == [(2,)]
    waiting = b.waits("SELECT v FROM t WHERE id = 1 FOR UPDATE")
    a.run("UPDATE t SET v = 11 WHERE id = 1", "COMMIT")
    assert waiting.result(PATIENCE) == [(11,)]


def test_shared_row_locks(a: Client, b: Client, c: Client) -> None:
    a.run("BEGIN", "SELECT v FROM t WHERE id = 1 FOR SHARE")
    b.run("BEGIN", "SELECT v FROM t WHERE id = 1 FOR SHARE", "SELECT v FROM t WHERE id = 1 FOR KEY SHARE")
    waiting = c.waits("UPDATE t SET v = 0 WHERE id = 1")
    a.run("COMMIT")
    with pytest.raises(concurrent.futures.TimeoutError):
        waiting.result(BLOCKED)
    b.run("COMMIT")
    assert waiting.result(PATIENCE) == 1


def test_key_share_does_not_hinder_an_update_of_other_columns(a: Client, b: Client, c: Client) -> None:
    a.run("BEGIN", "SELECT v FROM t WHERE id = 1 FOR KEY SHARE")
    assert b.run("UPDATE t SET v = 0 WHERE id = 1") == 1
    waiting = c.waits("DELETE FROM t WHERE id = 1")
    a.run("COMMIT")
    assert waiting.result(PATIENCE) == 1


def test_a_lock_timeout(a: Client, b: Client) -> None:
    a.run("BEGIN", "UPDATE t SET v = 0 WHERE id = 1")
    b.run("SET lock_timeout = '200ms'")
    began = time.monotonic()
    with pytest.raises(errors.LockNotAvailable) as caught:
        b.run("UPDATE t SET v = 1 WHERE id = 1")
    assert 0.15 < time.monotonic() - began < 5
    assert caught.value.diag.message_primary == "canceling statement due to lock timeout"
    a.run("ROLLBACK")


def test_rolling_back_to_a_savepoint_undoes_and_frees(a: Client, b: Client) -> None:
    a.run("BEGIN", "UPDATE t SET v = 11 WHERE id = 1", "SAVEPOINT s", "UPDATE t SET v = 21 WHERE id = 2")
    waiting = b.waits("UPDATE t SET v = v + 1 WHERE id = 2 RETURNING v")
    a.run("ROLLBACK TO s")
    assert waiting.result(PATIENCE) == [(21,)]
    kept = b.waits("UPDATE t SET v = v + 1 WHERE id = 1 RETURNING v")
    a.run("COMMIT")
    assert kept.result(PATIENCE) == [(12,)]


def test_savepoints_nest_and_repeat(a: Client) -> None:
    a.run("BEGIN", "SAVEPOINT s", "UPDATE t SET v = 1", "SAVEPOINT s", "UPDATE t SET v = 2", "ROLLBACK TO s")
    assert a.run("SELECT DISTINCT v FROM t") == [(1,)]
    a.run("RELEASE s", "ROLLBACK TO s")
    assert a.run("SELECT v FROM t ORDER BY v") == [(10,), (20,), (30,)]
    a.run("UPDATE t SET v = 5 WHERE id = 1", "COMMIT")
    assert a.run("SELECT v FROM t ORDER BY v") == [(5,), (20,), (30,)]


def test_foreign_keys_hold_between_clients(a: Client, b: Client) -> None:
    a.run("CREATE TABLE child (id int PRIMARY KEY, t int REFERENCES t)")
    a.run("BEGIN", "INSERT INTO child VALUES (1, 1)")
    assert b.run("UPDATE t SET v = 0 WHERE id = 1") == 1
    waiting = b.waits("DELETE FROM t WHERE id = 1")
    a.run("COMMIT")
    with pytest.raises(errors.ForeignKeyViolation):
        waiting.result(PATIENCE)
    with pytest.raises(errors.ForeignKeyViolation):
        after_waiting(a, "DELETE FROM t WHERE id = 2", b, "INSERT INTO child VALUES (2, 2)")


def test_ddl_is_transactional_and_locks(a: Client, b: Client, c: Client) -> None:
    a.run("BEGIN", "ALTER TABLE t ADD COLUMN w int DEFAULT 7", "CREATE TABLE u (a int)")
    waiting = b.waits("SELECT * FROM t WHERE id = 1")
    with pytest.raises(errors.UndefinedTable):
        c.run("SELECT * FROM u")
    assert a.run("SELECT w FROM t WHERE id = 1") == [(7,)]
    a.run("ROLLBACK")
    assert waiting.result(PATIENCE) == [(1, 10)]
    with pytest.raises(errors.UndefinedTable):
        a.run("SELECT * FROM u")


def test_lock_table(a: Client, b: Client) -> None:
    a.run("BEGIN", "LOCK TABLE t IN SHARE MODE")
    assert b.run("SELECT count(*) FROM t") == [(3,)]
    waiting = b.waits("INSERT INTO t VALUES (8, 80)")
    a.run("COMMIT")
    assert waiting.result(PATIENCE) == 1
    a.run("BEGIN", "LOCK TABLE t")
    blocked = b.waits("SELECT count(*) FROM t")
    a.run("COMMIT")
    assert blocked.result(PATIENCE) == [(4,)]


def test_sequences_do_not_roll_back(a: Client, b: Client) -> None:
    a.run("CREATE SEQUENCE q", "BEGIN")
    assert a.run("SELECT nextval('q')") == [(1,)]
    assert b.run("SELECT nextval('q')") == [(2,)]
    a.run("ROLLBACK")
    assert a.run("SELECT nextval('q')") == [(3,)]
    assert b.run("SELECT currval('q')") == [(2,)]
