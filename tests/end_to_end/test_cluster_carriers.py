"""A node of a cluster is stopped while its clients have transactions open: they end at the leader with its session."""

from __future__ import annotations

import contextlib
import itertools
import time
from collections.abc import Iterator

import psycopg
import pytest
from psycopg import errors

from shoal.cluster import forwarding_watch
from tests.cluster import ShoalCluster
from tests.zookeeper_server import ZooKeeper
from wire.forwarded_sessions import ForwardedSessions

SESSION = 4.0  # seconds
ENDED = SESSION * 2 + forwarding_watch.MARGIN + 10.0
"""Within which the leader has to let go: the session's timeout, a watch, the margin, and a busy machine."""


@pytest.fixture(scope="module")
def cluster(zookeeper_server: ZooKeeper) -> Iterator[ShoalCluster]:
    with ShoalCluster(2, zookeeper=zookeeper_server, settings={"session_timeout": SESSION}) as cluster:
        with cluster.connect() as connection:
            connection.execute("CREATE TABLE a (id int PRIMARY KEY, v int)")
            connection.execute("INSERT INTO a SELECT g, 0 FROM generate_series(1, 10) g")
        yield cluster


@contextlib.contextmanager
def stopped(cluster: ShoalCluster, name: str) -> Iterator[None]:
    cluster.stop(name)
    try:
        yield
    finally:
        cluster.cont(name)


def changed_by_another(cluster: ShoalCluster, statement: str) -> float:
    """Seconds until a client of the leader could do it."""
    began = time.monotonic()
    with cluster.connect() as connection:
        connection.execute(f"SET statement_timeout = {int(ENDED * 1000)}")
        connection.execute(statement.encode())
    return time.monotonic() - began


def ended(connection: psycopg.Connection[object], statement: str) -> str:
    with pytest.raises(psycopg.Error) as caught:
        connection.execute(statement.encode())
    return caught.value.sqlstate or ""


LEVELS = ("read committed", "serializable")
LAST = ("COMMIT", "UPDATE a SET v = 9 WHERE id = 10", "ROLLBACK")


def test_locks_are_let_go_with_the_session_of_the_node(cluster: ShoalCluster) -> None:
    """Of clients at every level, whatever each of them says next; one stop of their node is for all of them."""
    (follower,) = cluster.followers()
    leader = cluster.leader()
    with contextlib.ExitStack() as connections:
        clients = []
        for number, (level, last) in enumerate(itertools.product(LEVELS, LAST), 1):
            client = connections.enter_context(cluster.connect(follower))
            client.execute(f"BEGIN ISOLATION LEVEL {level}".encode())
            client.execute("UPDATE a SET v = 1 WHERE id = %s", [number])
            clients.append((number, level, last, client))
        with stopped(cluster, follower):
            for number, *_ in clients:
                assert changed_by_another(cluster, f"UPDATE a SET v = 2 WHERE id = {number}") < ENDED
        for number, level, last, client in clients:
            if last == "ROLLBACK":
                client.execute(last)
            else:
                assert ended(client, last) == "40001", (level, last)
            client.execute("ROLLBACK")
            cluster.wait_until(lambda: cluster.replica(follower) is not None, "the node is back")
            client.execute("UPDATE a SET v = v + 1 WHERE id = %s", [number])  # the session goes on
            assert client.execute("SELECT v FROM a WHERE id = %s", [number]).fetchone() == (3,), (level, last)
    assert cluster.leader() == leader


def test_what_the_session_holds_beyond_a_transaction_is_let_go(cluster: ShoalCluster) -> None:
    (follower,) = cluster.followers()
    with cluster.connect(follower) as client:
        client.execute("SELECT pg_advisory_lock(7)")
        with stopped(cluster, follower):
            changed_by_another(cluster, "SELECT pg_advisory_lock(7)")
        with pytest.raises(psycopg.Error) as caught:
            client.execute("SELECT pg_advisory_unlock(7)")
            client.execute("SELECT 1/0")
        assert not isinstance(caught.value, errors.DivisionByZero)


def test_a_short_stop_ends_nothing(cluster: ShoalCluster) -> None:
    (follower,) = cluster.followers()
    with cluster.connect(follower) as client:
        client.execute("BEGIN")
        client.execute("UPDATE a SET v = 5 WHERE id = 5")
        with stopped(cluster, follower):
            time.sleep(SESSION / 4)
        client.execute("COMMIT")
    with cluster.connect() as connection:
        assert connection.execute("SELECT v FROM a WHERE id = 5").fetchone() == (5,)


# --- when a node counts as gone --------------------------------------------------------------------------------------


class One:
    def __init__(self) -> None:
        self.ended = 0

    def end_forwarded(self, error: Exception) -> None:
        self.ended += 1


def test_a_node_is_gone_when_it_is_not_registered_for_a_moment() -> None:
    known, one, registered = ForwardedSessions(), One(), {"a", "b"}
    known.add("b", one)
    stale = False
    watch = forwarding_watch.ForwardingWatch(known, lambda: None if stale else registered)
    watch.check(0.0)
    registered.discard("b")
    watch.check(1.0)
    registered.add("b")  # again, in a new session
    watch.check(1.0 + forwarding_watch.MARGIN)
    registered.discard("b")
    watch.check(10.0)
    stale = True  # ZooKeeper is out of reach from here: nobody knows
    watch.check(20.0)
    stale = False
    watch.check(21.0)
    assert one.ended == 0
    watch.check(21.0 + forwarding_watch.MARGIN)
    assert one.ended == 1 and known.nodes == []
