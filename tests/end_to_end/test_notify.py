"""LISTEN and NOTIFY as clients meet them, on Shoal and on PostgreSQL: the same script, the same outcome."""

from __future__ import annotations

import time
from collections.abc import Iterator

import psycopg
import pytest
from psycopg import errors

from tests.oracle import PostgresServer
from tests.server import ShoalServer
from tests.two_nodes import TwoNodes

Connection = psycopg.Connection[tuple[object, ...]]
PATIENCE = 20.0  # seconds for what must come
SILENCE = 0.2  # seconds in which nothing must come


@pytest.fixture
def pair(server: ShoalServer | PostgresServer) -> Iterator[tuple[Connection, Connection]]:
    """Two connections to one server."""
    with psycopg.connect(server.dsn, autocommit=True) as one, psycopg.connect(server.dsn, autocommit=True) as two:
        yield one, two


def heard(connection: Connection, count: int, patience: float = PATIENCE) -> list[tuple[str, str]]:
    """The next notifications: channel and payload."""
    found = connection.notifies(timeout=patience, stop_after=count) if count else connection.notifies(timeout=SILENCE)
    return [(item.channel, item.payload) for item in found]


def test_listeners_are_notified_at_commit_in_order(pair: tuple[Connection, Connection]) -> None:
    one, two = pair
    two.execute('LISTEN a; LISTEN "B"')
    one.execute("BEGIN; NOTIFY a, 'first'; NOTIFY other; NOTIFY \"B\"; SELECT pg_notify('a', 'second')")
    assert heard(two, 0) == []
    one.execute("COMMIT")
    notifications = list(two.notifies(timeout=PATIENCE, stop_after=3))
    assert [(item.channel, item.payload) for item in notifications] == [("a", "first"), ("B", ""), ("a", "second")]
    assert {item.pid for item in notifications} == {one.info.backend_pid}


def test_equal_notifications_of_a_transaction_are_sent_once(pair: tuple[Connection, Connection]) -> None:
    one, two = pair
    two.execute("LISTEN a")
    one.execute("BEGIN; NOTIFY a, 'x'; NOTIFY a, 'y'; NOTIFY a, 'x'; COMMIT; NOTIFY a, 'x'")
    assert heard(two, 3) == [("a", "x"), ("a", "y"), ("a", "x")]
    assert heard(two, 0) == []


def test_what_is_rolled_back_is_not_told(pair: tuple[Connection, Connection]) -> None:
    one, two = pair
    two.execute("LISTEN a")
    one.execute("BEGIN; NOTIFY a, '1'; ROLLBACK")
    one.execute("BEGIN; NOTIFY a, '2'; SAVEPOINT s; NOTIFY a, '3'; ROLLBACK TO s; NOTIFY a, '4'; COMMIT")
    assert heard(two, 2) == [("a", "2"), ("a", "4")]
    assert heard(two, 0) == []


def test_a_client_in_a_transaction_is_notified_when_it_ends(pair: tuple[Connection, Connection]) -> None:
    one, two = pair
    two.execute("LISTEN a")
    two.execute("BEGIN")
    one.execute("NOTIFY a, 'x'")
    assert heard(two, 0) == []
    two.execute("SELECT 1")
    assert heard(two, 0) == []
    two.execute("COMMIT")
    assert heard(two, 1) == [("a", "x")]


def test_listening_begins_and_ends_at_commit(pair: tuple[Connection, Connection]) -> None:
    one, _ = pair
    channels = "SELECT * FROM pg_listening_channels() ORDER BY 1"
    one.execute("BEGIN; LISTEN b; LISTEN a; LISTEN a")
    assert one.execute(channels).fetchall() == []
    one.execute("COMMIT")
    assert one.execute(channels).fetchall() == [("a",), ("b",)]
    one.execute("BEGIN; UNLISTEN a; ROLLBACK")
    one.execute("UNLISTEN b; UNLISTEN unknown")
    assert one.execute(channels).fetchall() == [("a",)]
    one.execute("NOTIFY a; NOTIFY b")
    assert heard(one, 1) == [("a", "")]
    one.execute("LISTEN c; UNLISTEN *")
    assert one.execute(channels).fetchall() == []
    one.execute("LISTEN c")
    one.execute("DISCARD ALL")
    assert one.execute(channels).fetchall() == []


def test_channels_belong_to_their_database(server: ShoalServer | PostgresServer) -> None:
    with psycopg.connect(server.dsn, autocommit=True) as one:
        one.execute("CREATE DATABASE beside")
        with psycopg.connect(server.dsn.replace("dbname=postgres", "dbname=beside"), autocommit=True) as two:
            two.execute("LISTEN a")
            one.execute("NOTIFY a")
            assert heard(two, 0) == []
        deadline = time.monotonic() + PATIENCE
        while one.execute("SELECT FROM pg_stat_activity WHERE datname = 'beside'").fetchone() is not None:
            assert time.monotonic() < deadline
        one.execute("DROP DATABASE beside")


@pytest.mark.parametrize(
    ("sql", "message"),
    [
        ("SELECT pg_notify('', 'x')", "channel name cannot be empty"),
        ("SELECT pg_notify(NULL, 'x')", "channel name cannot be empty"),
        ("SELECT pg_notify(repeat('a', 64), 'x')", "channel name too long"),
        ("SELECT pg_notify('a', repeat('x', 8000))", "payload string too long"),
    ],
)
def test_limits(pair: tuple[Connection, Connection], sql: str, message: str) -> None:
    with pytest.raises(errors.InvalidParameterValue, match=message):
        pair[0].execute(sql.encode())


def test_a_read_only_transaction_may_notify(pair: tuple[Connection, Connection]) -> None:
    one, two = pair
    two.execute("LISTEN a")
    one.execute("BEGIN READ ONLY; SELECT pg_notify(repeat('a', 1), repeat('x', 7999)); COMMIT")
    assert heard(two, 1) == [("a", "x" * 7999)]


def test_a_session_hears_itself_before_the_answer_ends(pair: tuple[Connection, Connection]) -> None:
    one, _ = pair
    told: list[str] = []
    one.add_notify_handler(lambda notify: told.append(notify.payload))
    one.execute("LISTEN a")
    one.execute("NOTIFY a, 'own'")
    assert told == ["own"]


@pytest.fixture(scope="module")
def nodes() -> Iterator[TwoNodes]:
    with TwoNodes() as found:
        yield found


def test_notifications_reach_every_node_of_a_cluster(nodes: TwoNodes) -> None:
    with (
        psycopg.connect(nodes.leader.dsn, autocommit=True) as leader,
        psycopg.connect(nodes.follower.dsn, autocommit=True) as follower,
        psycopg.connect(nodes.follower.dsn, autocommit=True) as other,
    ):
        leader.execute("CREATE TABLE IF NOT EXISTS t (a int)")
        leader.execute("LISTEN a")
        follower.execute("LISTEN a")
        leader.execute("NOTIFY a, 'of the leader'")
        other.execute("NOTIFY a, 'carried'")
        for connection in (leader, follower):
            assert heard(connection, 2) == [("a", "of the leader"), ("a", "carried")]


def test_listening_in_a_carried_block_is_of_the_clients_own_node(nodes: TwoNodes) -> None:
    with (
        psycopg.connect(nodes.leader.dsn, autocommit=True) as leader,
        psycopg.connect(nodes.follower.dsn, autocommit=True) as follower,
    ):
        leader.execute("CREATE TABLE IF NOT EXISTS t (a int)")
        follower.execute("BEGIN")
        follower.execute("LISTEN before")
        follower.execute("SAVEPOINT s")
        follower.execute("LISTEN undone")
        follower.execute("INSERT INTO t VALUES (1)")
        follower.execute("ROLLBACK TO s")
        follower.execute("LISTEN after")
        follower.execute("INSERT INTO t VALUES (2)")
        follower.execute("COMMIT")
        channels = follower.execute("SELECT * FROM pg_listening_channels() ORDER BY 1").fetchall()
        assert channels == [("after",), ("before",)]
        leader.execute("NOTIFY undone; NOTIFY after; NOTIFY before")
        assert heard(follower, 2) == [("after", ""), ("before", "")]
