"""The recent past on the nodes of a cluster: the leader's and a follower's memory have the same."""

from __future__ import annotations

import psycopg
import pytest

from tests.cluster import ShoalCluster
from tests.shoal.archive.history import STATEMENTS, lsn_of, record, shown

COUNT = "SELECT count(*), sum(n) FROM t"


def test_what_is_behind_memory_comes_from_the_store() -> None:
    with ShoalCluster(2, settings={"past_window": 0.0}) as cluster:
        leader = cluster.leader()
        follower = next(node for node in cluster.nodes if node != leader)
        with psycopg.connect(cluster.dsn(leader), autocommit=True) as connection:
            recorded = record(connection, STATEMENTS[:6])
            connection.execute("SELECT shoal_checkpoint()")
            recorded |= record(connection, STATEMENTS[6:])
            row = connection.execute("SELECT clock_timestamp()").fetchone()
            connection.execute("DROP TABLE a")
        assert row is not None
        lsns = sorted(recorded)
        for node, chosen in ((leader, lsns[7::5]), (follower, lsns[8::6])):
            with psycopg.connect(cluster.dsn(node), autocommit=True, prepare_threshold=None) as connection:
                for lsn in chosen:
                    connection.execute(f"SET as_of = '{lsn}'")
                    assert shown(connection) == recorded[lsn], (node, lsn)
                connection.execute("RESET as_of")
                assert connection.execute(f"SELECT id FROM a AS OF TIMESTAMP '{row[0]}'").fetchall() == [(7,)]


def test_every_node_reads_the_past_that_it_keeps() -> None:
    with ShoalCluster(2, settings={"past_window": 300.0}) as cluster:
        leader = cluster.leader()
        follower = next(node for node in cluster.nodes if node != leader)
        recorded = {}
        with psycopg.connect(cluster.dsn(leader), autocommit=True) as connection:
            connection.execute("CREATE TABLE t (id int PRIMARY KEY, n int)")
            connection.execute("INSERT INTO t SELECT i, i FROM generate_series(1, 3000) i")
            for step in range(4):
                recorded[lsn_of(connection)] = connection.execute(COUNT).fetchone()
                connection.execute(f"UPDATE t SET n = n + 1 WHERE id % 7 = {step}")
            cluster.wait_for_applied()
        for node in (leader, follower):
            with psycopg.connect(cluster.dsn(node), autocommit=True) as connection:
                for lsn, expected in recorded.items():
                    assert connection.execute(f"{COUNT} AS OF LSN {lsn}").fetchone() == expected
                    connection.execute(f"SET as_of = '{lsn}'")
                    assert connection.execute(COUNT).fetchone() == expected
                    assert connection.execute("SELECT n FROM t WHERE id = %s", (3,)).fetchone() is not None
                    with connection.transaction():
                        assert connection.execute(COUNT).fetchone() == expected
                    with pytest.raises(psycopg.errors.ReadOnlySqlTransaction):
                        connection.execute("DELETE FROM t")
                    connection.execute("RESET as_of")
                connection.execute("UPDATE t SET n = n WHERE id = 1")  # it is a session like any other again
        with psycopg.connect(cluster.dsn(follower), autocommit=True) as connection:
            lsn, expected = next(iter(recorded.items()))
            connection.execute(f"SET as_of = '{lsn}'")
            cluster.kill(leader)
            assert connection.execute(COUNT).fetchone() == expected
            assert connection.execute(COUNT).fetchone() == expected


@pytest.mark.parametrize("window", [300.0, 0.0])
def test_no_node_shows_a_transaction_over_several_tablespaces_in_half(window: float) -> None:
    sums = "SELECT (SELECT sum(n) FROM home{of} WHERE id < 9) + (SELECT sum(n) FROM away{of} WHERE id < 9)"
    with ShoalCluster(2, settings={"past_window": window}) as cluster:
        leader = cluster.leader()
        follower = next(node for node in cluster.nodes if node != leader)
        step_lsns, step_times = (1, 1) if window else (7, 9)  # what is not in memory takes its time
        with psycopg.connect(cluster.dsn(leader), autocommit=True) as connection:
            connection.execute("CREATE TABLESPACE elsewhere")
            connection.execute("CREATE TABLE home (id int PRIMARY KEY, n int)")
            connection.execute("CREATE TABLE away (id int PRIMARY KEY, n int) TABLESPACE elsewhere")
            for table in ("home", "away"):
                connection.execute(f"INSERT INTO {table} SELECT i, 10 FROM generate_series(1, 8) i")
            recorded = {}
            first = lsn_of(connection)
            for step in range(1, 20):
                with connection.transaction():
                    connection.execute("UPDATE home SET n = n - %s WHERE id = %s", (step, step % 8 + 1))
                    connection.execute("UPDATE away SET n = n + %s WHERE id = %s", (step, step % 5 + 1))
                row = connection.execute("SELECT clock_timestamp()").fetchone()
                assert row is not None
                recorded[row[0]] = connection.execute("SELECT id, n FROM away ORDER BY id").fetchall()
            last = lsn_of(connection)
            cluster.wait_for_applied()
        for node in (leader, follower):
            with psycopg.connect(cluster.dsn(node), autocommit=True) as connection:
                for lsn in range(first + 1, last + 1, step_lsns):
                    assert connection.execute(sums.format(of=f" AS OF LSN {lsn}")).fetchone() == (160,), (node, lsn)
                for time, expected in list(recorded.items())[::step_times]:
                    of = f" AS OF TIMESTAMP '{time}'"
                    assert connection.execute(sums.format(of=of)).fetchone() == (160,), (node, time)
                    assert connection.execute(f"SELECT id, n FROM away{of} ORDER BY id").fetchall() == expected
