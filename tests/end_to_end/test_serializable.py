"""SERIALIZABLE as clients meet it, on Shoal and on PostgreSQL: the same interleaving, the same outcome."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest

from tests.oracle import PostgresServer
from tests.server import ShoalServer

Connection = psycopg.Connection[tuple[object, ...]]
TABLES = """
    DROP TABLE IF EXISTS on_call, accounts, numbered;
    CREATE TABLE on_call (doctor text PRIMARY KEY, duty bool);
    INSERT INTO on_call VALUES ('alice', true), ('bob', true), ('carol', false);
    CREATE TABLE accounts (id int PRIMARY KEY, balance int);
    INSERT INTO accounts SELECT n, 100 FROM generate_series(1, 2000) n;
    CREATE TABLE numbered (n int PRIMARY KEY, by text)
"""


@pytest.fixture
def dsn(server: ShoalServer | PostgresServer) -> str:
    with psycopg.connect(server.dsn, autocommit=True) as connection:
        connection.execute(TABLES)
    return server.dsn


def play(dsn: str, *steps: tuple[int, str], level: str = "SERIALIZABLE") -> list[str]:
    """Runs steps (session, SQL) one after another; what each gave: 'ok', or its SQLSTATE."""
    connections: dict[int, Connection] = {}
    found = []
    try:
        for number, sql in steps:
            if number not in connections:
                connections[number] = psycopg.connect(dsn, autocommit=True)
                connections[number].execute(f"BEGIN ISOLATION LEVEL {level}".encode())
            try:
                connections[number].execute(sql.encode())
                found.append("ok")
            except psycopg.Error as error:
                found.append(str(error.sqlstate))
    finally:
        for connection in connections.values():
            connection.close()
    return found


def until(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + 10
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.01)


FAILED, OK = "40001", "ok"
COUNT = "SELECT count(*) FROM on_call WHERE duty"


def leave(doctor: str) -> str:
    return f"UPDATE on_call SET duty = false WHERE doctor = '{doctor}'"


def test_write_skew(dsn: str) -> None:
    steps = ((1, COUNT), (2, COUNT), (1, leave("alice")), (2, leave("bob")), (1, "COMMIT"), (2, "COMMIT"))
    assert play(dsn, *steps) == [OK, OK, OK, OK, OK, FAILED]
    with psycopg.connect(dsn) as connection:
        assert connection.execute(COUNT).fetchall() == [(1,)]


def test_write_skew_is_let_through_below(dsn: str) -> None:
    steps = ((1, COUNT), (2, COUNT), (1, leave("alice")), (2, leave("bob")), (1, "COMMIT"), (2, "COMMIT"))
    assert play(dsn, *steps, level="REPEATABLE READ") == [OK] * 6


def test_the_one_that_goes_on_after_the_other_has_committed_fails_as_it_writes(dsn: str) -> None:
    steps = ((1, COUNT), (2, COUNT), (1, leave("alice")), (1, "COMMIT"), (2, leave("bob")), (2, "ROLLBACK"))
    assert play(dsn, *steps) == [OK, OK, OK, OK, FAILED, OK]


def test_transactions_that_do_not_meet_both_commit(dsn: str) -> None:
    steps = (
        (1, "UPDATE accounts SET balance = balance - 1 WHERE id = 1"),
        (2, "UPDATE accounts SET balance = balance - 1 WHERE id = 1999"),
        (1, "SELECT balance FROM accounts WHERE id = 2"),
        (2, "SELECT balance FROM accounts WHERE id = 1998"),
        (1, "COMMIT"),
        (2, "COMMIT"),
    )
    assert play(dsn, *steps) == [OK] * 6


def test_a_phantom_is_noticed(dsn: str) -> None:
    newest = "SELECT max(n) FROM numbered"
    steps = (
        (1, newest),
        (2, newest),
        (1, "INSERT INTO numbered VALUES (1, 'one')"),
        (2, "INSERT INTO numbered VALUES (2, 'two')"),
        (2, "COMMIT"),
        (1, "COMMIT"),
    )
    assert play(dsn, *steps) == [OK, OK, OK, OK, OK, FAILED]


def test_a_duplicate_that_a_dependency_has_made_says_so(dsn: str) -> None:
    look = "SELECT * FROM numbered WHERE n = 7"
    steps = (
        (1, look),
        (2, look),
        (1, "INSERT INTO numbered VALUES (7, 'one')"),
        (1, "COMMIT"),
        (2, "INSERT INTO numbered VALUES (7, 'two')"),
    )
    assert play(dsn, *steps) == [OK, OK, OK, OK, FAILED]
    assert play(dsn, (1, "SELECT 1"), (1, "INSERT INTO numbered VALUES (7, 'three')")) == [OK, "23505"]


def test_the_anomaly_that_a_reader_makes(dsn: str) -> None:
    """Fekete, O'Neil, O'Neil: only the transaction that reads makes the execution not serializable."""
    both = "SELECT sum(balance) FROM accounts WHERE id IN (1, 2)"
    steps = (
        (2, both),
        (1, "SELECT balance FROM accounts WHERE id = 2"),
        (1, "UPDATE accounts SET balance = balance + 20 WHERE id = 2"),
        (1, "COMMIT"),
        (3, both),
        (3, "COMMIT"),
        (2, "UPDATE accounts SET balance = balance - 11 WHERE id = 1"),
        (2, "ROLLBACK"),
    )
    assert play(dsn, *steps) == [OK, OK, OK, OK, OK, OK, FAILED, OK]
    without = [*[step for step in steps if step[0] != 3][:-1], (2, "COMMIT")]
    assert play(dsn, *without) == [OK] * 6


def test_whole_tables_that_the_columnar_path_reads(dsn: str) -> None:
    total = "SELECT sum(balance), count(DISTINCT balance) FROM accounts"
    steps = (
        (1, total),
        (2, total),
        (1, "UPDATE accounts SET balance = 1 WHERE id = 5"),
        (2, "UPDATE accounts SET balance = balance + 1 WHERE id > 1000"),
        (1, "COMMIT"),
        (2, "COMMIT"),
    )
    assert play(dsn, *steps) == [OK, OK, OK, OK, OK, FAILED]


def test_a_rollback_is_of_no_concern(dsn: str) -> None:
    steps = (
        (1, COUNT),
        (2, COUNT),
        (1, leave("alice")),
        (1, "ROLLBACK"),
        (2, leave("bob")),
        (2, "COMMIT"),
    )
    assert play(dsn, *steps) == [OK] * 6


def test_every_order_of_three_transactions_ends_as_some_serial_order(dsn: str) -> None:
    """Each moves on the number that the one before it left: what comes out is what some serial order gives."""
    chains = [
        ("SELECT balance FROM accounts WHERE id = 1", "UPDATE accounts SET balance = 0 WHERE id = 2"),
        ("SELECT balance FROM accounts WHERE id = 2", "UPDATE accounts SET balance = 0 WHERE id = 3"),
        ("SELECT balance FROM accounts WHERE id = 3", "UPDATE accounts SET balance = 0 WHERE id = 1"),
    ]
    for order in itertools.permutations(range(3)):
        reads = [(number, chains[number][0]) for number in order]
        writes = [(number, chains[number][1]) for number in order]
        commits = [(number, "COMMIT") for number in order]
        assert play(dsn, *reads, *writes, *commits).count(FAILED) >= 1


def test_the_level_may_be_the_sessions_own(dsn: str) -> None:
    with psycopg.connect(dsn, autocommit=True) as one, psycopg.connect(dsn, autocommit=True) as two:
        for connection in (one, two):
            connection.execute("SET default_transaction_isolation TO serializable")
            assert connection.execute("SHOW transaction_isolation").fetchone() == ("serializable",)
        one.execute("BEGIN")
        one.execute(COUNT)
        two.execute(COUNT)
        one.execute(leave("alice"))
        two.execute(leave("carol"))
        one.execute("COMMIT")
        assert one.execute("SHOW default_transaction_isolation").fetchone() == ("serializable",)


def test_whoever_writes_over_another_version_does_not_come_after_its_readers(dsn: str) -> None:
    """Session 3 changes what 2 has changed, not what 1 has read (PostgreSQL's multiple-row-versions.spec)."""
    steps = (
        (1, "SELECT * FROM accounts WHERE id = 1000"),
        (2, "UPDATE accounts SET balance = 2 WHERE id = 1000"), (2, "COMMIT"),
        (3, "UPDATE accounts SET balance = 3 WHERE id = 1000"), (3, "SELECT * FROM accounts WHERE id = 500"),
        (4, "UPDATE accounts SET balance = 4 WHERE id = 500"), (4, "SELECT * FROM accounts WHERE id = 1"),
        (4, "COMMIT"), (3, "COMMIT"),
        (1, "UPDATE accounts SET balance = 1 WHERE id = 1"), (1, "COMMIT"),
    )  # fmt: skip
    assert play(dsn, *steps)[:10] == [OK] * 9 + [FAILED]


@pytest.mark.parametrize(
    "look", ["UPDATE numbered SET by = 'x' WHERE n = {}", "SELECT 1 FROM numbered WHERE n = {} FOR UPDATE"]
)
def test_what_is_not_there_to_be_changed_or_locked_was_read(dsn: str, look: str) -> None:
    """Each finds that the other's row is not there, and writes its own."""
    steps = (
        (1, look.format(11)),
        (2, look.format(12)),
        (1, "INSERT INTO numbered VALUES (12, 'a')"),
        (2, "INSERT INTO numbered VALUES (11, 'b')"),
        (1, "COMMIT"),
        (2, "COMMIT"),
    )
    assert sorted(play(dsn, *steps)[-2:]) == [FAILED, OK]


def test_a_commit_that_fails_leaves_nothing_of_its_transaction_behind(dsn: str) -> None:
    """As ROLLBACK does: what SET LOCAL has set, advisory locks, cursors, LISTEN."""
    with psycopg.connect(dsn, autocommit=True) as one, psycopg.connect(dsn, autocommit=True) as other:
        for connection in (one, other):
            connection.execute("BEGIN ISOLATION LEVEL SERIALIZABLE")
            connection.execute("SELECT sum(balance) FROM accounts").fetchall()
        one.execute("SET LOCAL statement_timeout = '77s'")
        one.execute("SELECT pg_advisory_xact_lock(5)")
        one.execute("DECLARE c CURSOR FOR SELECT 1")
        one.execute("LISTEN never")
        one.execute("LOCK TABLE on_call")
        one.execute("UPDATE accounts SET balance = 0 WHERE id = 1")
        other.execute("UPDATE accounts SET balance = 0 WHERE id = 2")
        other.execute("COMMIT")
        with pytest.raises(psycopg.errors.SerializationFailure):
            one.execute("COMMIT")
        assert one.info.transaction_status == psycopg.pq.TransactionStatus.IDLE
        assert one.execute("SHOW statement_timeout").fetchone() == ("0",)
        assert one.execute("SELECT count(*) FROM pg_cursors").fetchone() == (0,)
        assert one.execute("SELECT count(*) FROM pg_listening_channels()").fetchone() == (0,)
        other.execute("SET lock_timeout = '5s'")
        assert other.execute("SELECT pg_try_advisory_lock(5)").fetchone() == (True,)
        other.execute("UPDATE on_call SET duty = true")
        assert other.execute("SELECT balance FROM accounts WHERE id = 1").fetchone() == (100,)


@pytest.mark.parametrize("read", ["doctor = 'bob'", "doctor = 'bob' FOR UPDATE", "doctor BETWEEN 'b' AND 'c'", "true"])
@pytest.mark.parametrize(
    "write",
    [
        leave("bob"),
        "DELETE FROM on_call WHERE doctor = 'bob'",
        "INSERT INTO on_call VALUES ('bob', false) ON CONFLICT (doctor) DO UPDATE SET duty = false",
        "UPDATE on_call SET duty = NOT duty WHERE doctor < 'c' AND doctor > 'b'",
    ],
)
def test_what_has_failed_fails_again_after_a_savepoint(dsn: str, read: str, write: str) -> None:
    steps = (
        *((1, f"SELECT * FROM on_call WHERE {read}"), (2, "SELECT * FROM on_call WHERE doctor = 'alice'")),
        *((1, leave("alice")), (1, "COMMIT"), (2, "SAVEPOINT s")),
        *((2, write), (2, "ROLLBACK TO s"), (2, write), (2, "ROLLBACK TO s"), (2, write), (2, "COMMIT")),
    )
    assert play(dsn, *steps) == [*[OK] * 5, FAILED, OK, FAILED, OK, FAILED, OK]


@pytest.mark.parametrize(
    ("lock", "write"),
    [
        ("SELECT * FROM on_call WHERE doctor = 'bob' FOR UPDATE", leave("bob")),
        ("SELECT * FROM on_call WHERE doctor = 'bob' FOR SHARE", leave("bob")),
        ("LOCK TABLE on_call IN SHARE ROW EXCLUSIVE MODE", leave("bob")),
        ("LOCK TABLE on_call IN EXCLUSIVE MODE", "DELETE FROM on_call WHERE doctor = 'bob'"),
        (
            "SELECT pg_advisory_xact_lock(1)",
            "UPDATE on_call SET duty = false FROM (SELECT pg_advisory_xact_lock(1)) l WHERE doctor = 'bob'",
        ),
    ],
)
@pytest.mark.parametrize("reads", ["doctor = 'bob'", "duty"])
def test_whoever_waits_for_a_lock_fails_as_whoever_does_not(dsn: str, lock: str, write: str, reads: str) -> None:
    """What had the lock is not durable yet when the other one goes on, and runs once more."""
    with (
        ThreadPoolExecutor(1) as pool,
        psycopg.connect(dsn, autocommit=True) as first,
        psycopg.connect(dsn, autocommit=True) as second,
        psycopg.connect(dsn, autocommit=True) as third,
    ):
        for connection in (first, second):
            connection.execute("BEGIN ISOLATION LEVEL SERIALIZABLE")
        first.execute(lock.encode())
        first.execute(f"SELECT * FROM on_call WHERE {reads}".encode())
        second.execute("SELECT * FROM on_call WHERE doctor = 'alice'")
        first.execute(leave("alice").encode())
        waits = pool.submit(second.execute, write.encode())
        query = f"SELECT 1 FROM pg_stat_activity WHERE pid = {second.info.backend_pid} AND wait_event_type = 'Lock'"
        until(lambda: third.execute(query.encode()).fetchone() is not None)
        first.execute("COMMIT")
        with pytest.raises(psycopg.errors.SerializationFailure):
            waits.result(30)
            second.execute("COMMIT")
