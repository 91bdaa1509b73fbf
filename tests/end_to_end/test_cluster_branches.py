"""Branches in a cluster: followers read them, a new leader goes on keeping what they need, a new replica has them."""

from __future__ import annotations

import psycopg
import pytest

from tests.cluster import ShoalCluster
from tests.end_to_end.test_cluster_leaders import lead, leader_of
from tests.samples import some

COUNT = "SELECT count(*), sum(id), max(x), sum((x = 'a')::int) FROM t"


def _at(cluster: ShoalCluster, node: str, database: str) -> psycopg.Connection:
    return psycopg.connect(cluster.dsn(node).replace("dbname=postgres", f"dbname={database}"), autocommit=True)


def _run(cluster: ShoalCluster, node: str, database: str, *statements: str) -> object:
    with _at(cluster, node, database) as connection:
        for statement in statements:
            cursor = connection.execute(statement)
        return cursor.fetchone() if cursor.description is not None else None


def _read(cluster: ShoalCluster, node: str, database: str) -> list[object]:
    """What a node itself has, on both paths."""
    with _at(cluster, node, database) as connection:
        connection.execute("SET read_consistency = 'eventual'")
        found = []
        for path in ("auto", "columnar"):
            connection.execute(f"SET shoal.path = {path}")
            found.append(connection.execute(COUNT).fetchone())
            found.append(connection.execute("SELECT x FROM t WHERE id = 7").fetchone())
        return found


def _settled(cluster: ShoalCluster, node: str, database: str, expected: list[object]) -> None:
    """Every tablespace is applied on the node, and it has what is expected."""
    with _at(cluster, node, database) as connection:
        connection.execute("SELECT count(*) FROM t")  # a strong read, which catches up
    assert _read(cluster, node, database) == expected


def _make_parent(cluster: ShoalCluster, leader: str, place: str) -> None:
    if place != "pg_default":
        _run(cluster, leader, "postgres", f"CREATE TABLESPACE {place}")
    _run(cluster, leader, "postgres", "CREATE DATABASE a")
    _run(
        cluster, leader, "a", f"CREATE TABLE t (id int PRIMARY KEY, x text) TABLESPACE {place}",
        "INSERT INTO t SELECT i, 'a' FROM generate_series(1, 4000) i",
    )  # fmt: skip


@pytest.mark.parametrize("place", some(["pg_default", "apart"], 2))
def test_followers_and_the_next_leader_have_them(place: str) -> None:
    with ShoalCluster(2) as cluster:
        leader = cluster.leader()
        follower = next(node for node in cluster.nodes if node != leader)
        _make_parent(cluster, leader, place)
        _run(cluster, leader, "postgres", "CREATE DATABASE b FROM a")
        _run(cluster, leader, "a", "UPDATE t SET x = 'later' WHERE id = 7", "DELETE FROM t WHERE id > 3000")
        _run(cluster, leader, "b", "INSERT INTO t VALUES (9000, 'b')")
        cluster.wait_for_applied()
        expected = _read(cluster, leader, "b")
        assert expected[0] == (4001, 4000 * 4001 // 2 + 9000, "b", 4000)
        _settled(cluster, follower, "b", expected)
        _settled(cluster, follower, "a", _read(cluster, leader, "a"))
        cluster.kill(leader)
        assert cluster.leader(not_this=leader) == follower
        _run(cluster, follower, "a", "UPDATE t SET x = 'much later' WHERE id < 1000", "DELETE FROM t WHERE id = 2000")
        assert _read(cluster, follower, "b") == expected
        _run(cluster, follower, "b", "UPDATE t SET x = 'own' WHERE id = 7")
        changed = _read(cluster, follower, "b")
        cluster.start(leader)
        cluster.wait_for_applied()
        _settled(cluster, leader, "b", changed)
        _run(cluster, follower, "postgres", "DROP DATABASE a")
        cluster.wait_for_applied()
        _settled(cluster, leader, "b", changed)


@pytest.mark.parametrize("place", some(["apart", "pg_default"], 2))
def test_a_branch_of_what_only_the_store_keeps(place: str) -> None:
    """Asked for on a follower; every node has it, and the next leader goes on keeping what it needs."""
    with ShoalCluster(2, settings={"past_window": 0.0}) as cluster:
        leader = cluster.leader()
        follower = next(node for node in cluster.nodes if node != leader)
        _make_parent(cluster, leader, place)
        cluster.wait_for_applied()
        expected = _read(cluster, leader, "a")
        found = _run(cluster, leader, "a", "SELECT clock_timestamp()")
        assert isinstance(found, tuple)
        _run(cluster, leader, "a", "UPDATE t SET x = 'later' WHERE id < 9", "DELETE FROM t WHERE id > 3000")
        _run(cluster, follower, "postgres", f"CREATE DATABASE b FROM a AS OF TIMESTAMP '{found[0]}'")
        cluster.wait_for_applied()
        assert _read(cluster, leader, "b") == expected
        _settled(cluster, follower, "b", expected)
        cluster.kill(leader)
        assert cluster.leader(not_this=leader) == follower
        _run(cluster, follower, "a", "UPDATE t SET x = 'much later'", "DELETE FROM t WHERE id = 2000")
        assert _read(cluster, follower, "b") == expected


def test_whoever_leads_the_parents_tablespace_keeps_what_a_branch_needs() -> None:
    """Made where pg_default is led, which gathers the tablespace; then another node leads it, and writes there."""
    with ShoalCluster(2) as cluster:
        leader = cluster.leader()
        follower = next(node for node in cluster.nodes if node != leader)
        _make_parent(cluster, leader, "own")
        lead(cluster, "own", follower)
        _run(cluster, follower, "a", "UPDATE t SET x = 'before' WHERE id = 7")
        _run(cluster, leader, "postgres", "CREATE DATABASE b FROM a")
        expected = _read(cluster, leader, "b")
        assert expected[1] == ("before",)
        lead(cluster, "own", follower)
        _run(cluster, follower, "a", "UPDATE t SET x = 'later' WHERE id < 9", "DELETE FROM t WHERE id > 3000")
        _run(cluster, follower, "a", "INSERT INTO t SELECT i, 'new' FROM generate_series(5000, 9000) i")
        _settled(cluster, leader, "b", expected)
        _settled(cluster, follower, "b", expected)
        assert (leader_of(cluster, "own"), cluster.leader()) == (follower, leader)
