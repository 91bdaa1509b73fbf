"""synchronous_commit in a cluster: what fail-overs may take and who is told, and commits that wait for the replicas."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from tests.cluster import ShoalCluster
from tests.end_to_end.full_store import flag
from tests.end_to_end.test_cluster import insert_until_taken
from tests.zookeeper_server import ZooKeeper

Client = psycopg.Connection[Any]


@pytest.fixture(scope="module")
def cluster(zookeeper_server: ZooKeeper) -> Iterator[ShoalCluster]:
    """Three nodes, whose store is full while `flag` is there: then nothing becomes durable."""
    hooks = ["tests.end_to_end.full_store.install"]
    with ShoalCluster(3, zookeeper=zookeeper_server, hooks=hooks) as cluster:
        yield cluster


@pytest.fixture
def table(cluster: ShoalCluster) -> Iterator[str]:
    """An empty table t on every node."""
    for name, node in cluster.nodes.items():
        if not node.running:
            cluster.start(name)
    insert_until_taken(cluster, "DROP TABLE IF EXISTS t")
    insert_until_taken(cluster, "CREATE TABLE t (id int PRIMARY KEY, v text)")
    cluster.wait_for_applied()
    yield "t"
    flag(cluster.directory).unlink(missing_ok=True)


def connect(cluster: ShoalCluster, name: str, **settings: str) -> Client:
    connection = cluster.connect(name)
    for setting, value in settings.items():
        connection.execute(f"SET {setting} = {value}".encode())
    return connection


def ids(cluster: ShoalCluster) -> list[int]:
    with cluster.connect() as connection:
        return [row[0] for row in connection.execute("SELECT id FROM t ORDER BY id")]


def why_it_ended(connection: Client) -> str | None:
    """The SQLSTATE with which the server ends the session, at the latest when it says something."""
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        try:
            connection.execute("SELECT 1")
            time.sleep(0.05)
        except psycopg.Error as error:
            assert connection.closed
            return error.sqlstate
    raise AssertionError("the session goes on")


# --- off -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("where", ["leader", "follower"])
@pytest.mark.parametrize("level", ["strong", "session"])
def test_a_session_reads_what_it_did_not_wait_for(cluster: ShoalCluster, table: str, where: str, level: str) -> None:
    name = cluster.leader() if where == "leader" else cluster.followers()[0]
    with connect(cluster, name, synchronous_commit="off", read_consistency=level) as connection:
        for number in range(20):
            connection.execute("INSERT INTO t VALUES (%s, '')", (number,))
            assert connection.execute("SELECT id FROM t WHERE id = %s", (number,)).fetchone() == (number,)
            assert connection.execute("SELECT max(id) FROM t").fetchone() == (number,)
    cluster.wait_for_applied()
    assert ids(cluster) == list(range(20))


def test_a_leader_that_stops_in_good_order_loses_nothing(cluster: ShoalCluster, table: str) -> None:
    leader = cluster.leader()
    with (
        connect(cluster, leader, synchronous_commit="off") as near,
        connect(cluster, cluster.followers()[0], synchronous_commit="off") as far,
    ):
        for number in range(50):
            near.execute("INSERT INTO t VALUES (%s, '')", (number,))
            far.execute("INSERT INTO t VALUES (%s, '')", (number + 100,))
        assert cluster.stop_politely(leader) == 0
        cluster.leader(not_this=leader)
        far.execute("SET synchronous_commit = on")
        far.execute("INSERT INTO t VALUES (1000, '')")
    assert ids(cluster) == [*range(50), *range(100, 150), 1000]


def test_who_was_told_early_is_told_of_a_killed_leader(cluster: ShoalCluster, table: str) -> None:
    leader = cluster.leader()
    follower = cluster.followers()[0]
    with (
        connect(cluster, follower, synchronous_commit="off") as far,
        connect(cluster, follower) as waited,
    ):
        waited.execute("INSERT INTO t VALUES (1, 'durable')")
        flag(cluster.directory).touch()
        for number in range(2, 6):
            far.execute("INSERT INTO t VALUES (%s, '')", (number,))
        cluster.kill(leader)
        flag(cluster.directory).unlink()
        assert why_it_ended(far) == "08006"
        cluster.leader(not_this=leader)
        waited.execute("INSERT INTO t VALUES (100, 'goes on')")
    assert ids(cluster) == [1, 100]


def test_who_was_told_early_is_told_when_its_node_leads_no_more(cluster: ShoalCluster, table: str) -> None:
    leader = cluster.leader()
    with (
        connect(cluster, leader, synchronous_commit="off") as early,
        connect(cluster, leader, synchronous_commit="off") as reader,
        connect(cluster, leader, synchronous_commit="off") as other,
    ):
        other.execute("BEGIN; SET LOCAL synchronous_commit = on; INSERT INTO t VALUES (1, 'durable'); COMMIT")
        early.execute("SELECT id FROM t WHERE id = 1")
        flag(cluster.directory).touch()
        early.execute("INSERT INTO t VALUES (2, 'lost')")
        assert reader.execute("SELECT v FROM t WHERE id = 2").fetchone() == ("lost",)
        cluster.stop(leader)
        cluster.leader(not_this=leader)
        flag(cluster.directory).unlink()
        cluster.cont(leader)
        assert why_it_ended(early) == "08006"
        assert why_it_ended(reader) == "08006"
        other.execute("SET synchronous_commit = on")
        other.execute("INSERT INTO t VALUES (3, 'goes on')")
    assert ids(cluster) == [1, 3]


# --- remote_apply ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("where", ["leader", "follower"])
def test_remote_apply_is_seen_on_every_node(cluster: ShoalCluster, table: str, where: str) -> None:
    name = cluster.leader() if where == "leader" else cluster.followers()[0]
    readers = [connect(cluster, node, read_consistency="eventual") for node in cluster.nodes]
    missed = {"on": 0, "remote_apply": 0}
    for level in missed:
        with connect(cluster, name, synchronous_commit=level) as connection:
            for number in range(20):
                if number % 2:
                    connection.execute("INSERT INTO t VALUES (%s, %s)", (number, level))
                else:
                    with connection.transaction():
                        connection.execute("INSERT INTO t VALUES (%s, %s)", (number, level))
                for reader in readers:
                    found = reader.execute("SELECT v FROM t WHERE id = %s", (number,)).fetchone()
                    missed[level] += found != (level,)
            connection.execute("DELETE FROM t")
    for reader in readers:
        reader.close()
    assert missed["remote_apply"] == 0
    assert missed["on"] > 0


def test_remote_apply_waits_for_replicas_that_live(cluster: ShoalCluster, table: str) -> None:
    follower = cluster.followers()[0]
    with connect(cluster, cluster.leader(), synchronous_commit="remote_apply") as connection:
        told: list[str | None] = []
        connection.add_notice_handler(lambda notice: told.append(notice.sqlstate))
        cluster.stop(follower)
        began = time.monotonic()
        connection.execute("INSERT INTO t VALUES (1, '')")
        assert time.monotonic() - began > 0.3  # its session lasts a second
        connection.execute("INSERT INTO t VALUES (2, '')")
        assert told == []
        cluster.cont(follower)
        with connection.transaction(), connection.cursor() as cursor:
            cursor.execute("INSERT INTO t VALUES (3, '')")
        assert told == []
    assert ids(cluster) == [1, 2, 3]


def test_a_wait_for_the_replicas_can_be_cancelled(cluster: ShoalCluster, table: str) -> None:
    follower = cluster.followers()[0]
    with connect(cluster, cluster.leader(), synchronous_commit="remote_apply") as connection:
        told: list[str | None] = []
        connection.add_notice_handler(lambda notice: told.append(notice.sqlstate))
        cluster.stop(follower)
        connection.pgconn.send_query(b"INSERT INTO t VALUES (1, '')")
        connection.pgconn.flush()
        time.sleep(0.2)
        connection.cancel()
        result = connection.pgconn.get_result()
        assert result is not None and result.command_status == b"INSERT 0 1"
        assert connection.pgconn.get_result() is None
        assert told == ["01000"]
        cluster.cont(follower)
    assert ids(cluster) == [1]
