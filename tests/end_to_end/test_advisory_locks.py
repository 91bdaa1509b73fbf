"""Advisory locks as clients meet them, on Shoal and on PostgreSQL: the same script, the same outcome."""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pytest
from psycopg import errors

from tests.end_to_end.test_isolation import Client
from tests.oracle import PostgresServer
from tests.server import ShoalServer


@pytest.fixture
def pair(server: ShoalServer | PostgresServer) -> Iterator[tuple[Client, Client]]:
    """Two clients of one server."""
    clients = Client(server.dsn, "public"), Client(server.dsn, "public")
    yield clients
    for client in clients:
        client.close()


def held(client: Client) -> list[tuple[object, ...]]:
    rows: list[tuple[object, ...]] = client.run(
        "SELECT classid, objid, objsubid, mode, granted FROM pg_locks WHERE locktype = 'advisory' ORDER BY 1, 2, 3, 4"
    )
    return rows


def test_session_locks_are_counted_and_outlive_transactions(pair: tuple[Client, Client]) -> None:
    one, two = pair
    one.run("BEGIN", "SELECT pg_advisory_lock(5), pg_advisory_lock(5)", "ROLLBACK")
    assert held(two) == [(0, 5, 1, "ExclusiveLock", True)]
    assert two.run("SELECT pg_try_advisory_lock(5), pg_try_advisory_lock_shared(5)") == [(False, False)]
    assert one.run("SELECT pg_advisory_unlock(5)") == [(True,)]
    assert two.run("SELECT pg_try_advisory_lock(5)") == [(False,)]
    assert one.run("SELECT pg_advisory_unlock(5), pg_advisory_unlock(5)") == [(True, False)]
    assert two.run("SELECT pg_try_advisory_lock(5)") == [(True,)]
    two.run("SELECT pg_advisory_unlock_all()")
    assert held(two) == []


def test_who_waits_gets_the_lock_once(pair: tuple[Client, Client]) -> None:
    one, two = pair
    one.run("SELECT pg_advisory_lock(7, -1)")
    waiting = two.waits("SELECT pg_advisory_lock(8), pg_advisory_lock(7, -1)")
    one.run("SELECT pg_advisory_unlock(7, -1)")
    waiting.result(20)
    assert held(one) == [(0, 8, 1, "ExclusiveLock", True), (7, 4294967295, 2, "ExclusiveLock", True)]
    assert two.run("SELECT pg_advisory_unlock(8), pg_advisory_unlock(8)") == [(True, False)]
    assert two.run("SELECT pg_advisory_unlock(7, -1), pg_advisory_unlock(7, -1)") == [(True, False)]


def test_shared_locks_stand_beside_each_other(pair: tuple[Client, Client]) -> None:
    one, two = pair
    one.run("SELECT pg_advisory_lock_shared(-3)")
    assert two.run("SELECT pg_try_advisory_lock_shared(-3), pg_try_advisory_lock(-3)") == [(True, False)]
    assert one.run("SELECT pg_advisory_unlock(-3), pg_advisory_unlock_shared(-3)") == [(False, True)]
    assert two.run("SELECT pg_try_advisory_lock(-3)") == [(True,)]
    assert held(one) == [(4294967295, 4294967293, 1, mode, True) for mode in ("ExclusiveLock", "ShareLock")]


def test_transaction_locks_end_with_it_and_with_savepoints(pair: tuple[Client, Client]) -> None:
    one, two = pair
    one.run("BEGIN", "SELECT pg_advisory_xact_lock(1)", "SAVEPOINT s", "SELECT pg_advisory_xact_lock(2)")
    one.run("SAVEPOINT t", "SELECT pg_advisory_xact_lock(3)", "ROLLBACK TO s")
    assert [row[1] for row in held(two)] == [1]
    assert one.run("SELECT pg_advisory_unlock(1)") == [(False,)]
    one.run("COMMIT")
    assert held(two) == []
    one.run("SELECT pg_advisory_xact_lock(4)")
    assert held(two) == []
    one.run("BEGIN", "SELECT pg_advisory_xact_lock(9)")
    with pytest.raises(errors.DivisionByZero):
        one.run("SELECT 1 / 0")
    assert held(two) == []
    one.run("ROLLBACK")


def test_a_deadlock_through_a_row_is_found(pair: tuple[Client, Client]) -> None:
    one, two = pair
    one.run(
        "DROP TABLE IF EXISTS advised", "CREATE TABLE advised (a int PRIMARY KEY)", "INSERT INTO advised VALUES (1)"
    )
    two.run("BEGIN", "DELETE FROM advised")
    one.run("BEGIN", "SELECT pg_advisory_xact_lock(11)")
    waiting = one.waits("DELETE FROM advised")
    failed = 0
    try:
        two.start("SELECT pg_advisory_xact_lock(11)").result(20)
    except errors.DeadlockDetected:
        failed += 1
    two.run("ROLLBACK")
    try:
        waiting.result(20)
    except errors.DeadlockDetected:
        failed += 1
    assert failed == 1
    one.run("ROLLBACK", "DROP TABLE advised")


def test_a_wait_ends_by_lock_timeout_and_leaves_nothing(pair: tuple[Client, Client]) -> None:
    one, two = pair
    one.run("SELECT pg_advisory_lock(21)")
    two.run("SET lock_timeout = '50ms'")
    with pytest.raises(errors.LockNotAvailable):
        two.run("SELECT pg_advisory_lock(21)")
    assert held(one) == [(0, 21, 1, "ExclusiveLock", True)]


def test_the_end_of_a_connection_lets_go(server: ShoalServer | PostgresServer) -> None:
    with psycopg.connect(server.dsn, autocommit=True) as other:
        with psycopg.connect(server.dsn, autocommit=True) as connection:
            connection.execute("SELECT pg_advisory_lock(31)")
        other.execute("SET lock_timeout = '20s'")
        other.execute("SELECT pg_advisory_lock(31)")
        assert other.execute("SELECT pg_advisory_unlock(31)").fetchall() == [(True,)]


def test_blocking_processes_are_named(pair: tuple[Client, Client]) -> None:
    one, two = pair
    first, second = (client.connection.info.backend_pid for client in pair)
    one.run("SELECT pg_advisory_lock(41)")
    waiting = two.waits("SELECT pg_advisory_lock(41)")
    assert one.run(f"SELECT pg_blocking_pids({second}), pg_blocking_pids({first})") == [([first], [])]
    blocked = "SELECT pg_isolation_test_session_is_blocked({}, '{{{}}}')"
    assert one.run(blocked.format(second, first)) == [(True,)]
    assert one.run(blocked.format(second, 1)) == [(False,)]
    one.run("SELECT pg_advisory_unlock(41)")
    waiting.result(20)
    assert one.run(blocked.format(second, first)) == [(False,)]
