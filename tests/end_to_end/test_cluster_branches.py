"""Branches in a cluster: followers read them, a new leader goes on keeping what they need, a new replica has them."""

from __future__ import annotations

import psycopg

from tests.cluster import ShoalCluster

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


def _make_parent(cluster: ShoalCluster, leader: str) -> None:
    _run(cluster, leader, "postgres", "CREATE DATABASE a")
    _run(
        cluster, leader, "a", "CREATE TABLE t (id int PRIMARY KEY, x text)",
        "INSERT INTO t SELECT i, 'a' FROM generate_series(1, 4000) i",
    )  # fmt: skip


def test_followers_and_the_next_leader_have_them() -> None:
    with ShoalCluster(2) as cluster:
        leader = cluster.leader()
        follower = next(node for node in cluster.nodes if node != leader)
        _make_parent(cluster, leader)
        _run(cluster, leader, "postgres", "CREATE DATABASE b FROM a")
        _run(cluster, leader, "a", "UPDATE t SET x = 'later' WHERE id = 7", "DELETE FROM t WHERE id > 3000")
        _run(cluster, leader, "b", "INSERT INTO t VALUES (9000, 'b')")
        cluster.wait_for_applied()
        expected = _read(cluster, leader, "b")
        assert expected[0] == (4001, 4000 * 4001 // 2 + 9000, "b", 4000)
        assert _read(cluster, follower, "b") == expected
        assert _read(cluster, follower, "a") == _read(cluster, leader, "a")
        cluster.kill(leader)
        assert cluster.leader(not_this=leader) == follower
        _run(cluster, follower, "a", "UPDATE t SET x = 'much later' WHERE id < 1000", "DELETE FROM t WHERE id = 2000")
        assert _read(cluster, follower, "b") == expected
        _run(cluster, follower, "b", "UPDATE t SET x = 'own' WHERE id = 7")
        changed = _read(cluster, follower, "b")
        cluster.start(leader)
        cluster.wait_for_applied()
        assert _read(cluster, leader, "b") == changed
        _run(cluster, follower, "postgres", "DROP DATABASE a")
        cluster.wait_for_applied()
        assert _read(cluster, leader, "b") == changed


def test_a_branch_of_what_only_the_store_keeps() -> None:
    """Asked for on a follower; every node has it, and the next leader goes on keeping what it needs."""
    with ShoalCluster(2, settings={"past_window": 0.0}) as cluster:
        leader = cluster.leader()
        follower = next(node for node in cluster.nodes if node != leader)
        _make_parent(cluster, leader)
        cluster.wait_for_applied()
        expected = _read(cluster, leader, "a")
        found = _run(cluster, leader, "a", "SELECT pg_current_wal_lsn() - '0/0'")
        assert isinstance(found, tuple)
        _run(cluster, leader, "a", "UPDATE t SET x = 'later' WHERE id < 9", "DELETE FROM t WHERE id > 3000")
        _run(cluster, follower, "postgres", f"CREATE DATABASE b FROM a AS OF LSN {found[0]}")
        cluster.wait_for_applied()
        assert _read(cluster, leader, "b") == _read(cluster, follower, "b") == expected
        cluster.kill(leader)
        assert cluster.leader(not_this=leader) == follower
        _run(cluster, follower, "a", "UPDATE t SET x = 'much later'", "DELETE FROM t WHERE id = 2000")
        assert _read(cluster, follower, "b") == expected
