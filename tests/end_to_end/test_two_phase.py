"""A prepared transaction outlives its leader: the next one holds its locks, and commits it."""

from __future__ import annotations

import psycopg
import pytest

from tests.cluster import ShoalCluster


def test_a_prepared_transaction_survives_the_leader() -> None:
    with ShoalCluster(nodes=2) as cluster:
        leader = cluster.leader()
        follower = next(name for name in cluster.nodes if name != leader)
        with psycopg.connect(cluster.dsn(follower), autocommit=True) as connection:  # carried to the leader
            connection.execute("CREATE TABLE t (id int PRIMARY KEY, v int)")
            connection.execute("INSERT INTO t VALUES (1, 1)")
            connection.execute("BEGIN")
            connection.execute("UPDATE t SET v = 2")
            assert connection.execute("PREPARE TRANSACTION 'moved'").statusmessage == "PREPARE TRANSACTION"
            assert connection.info.transaction_status == psycopg.pq.TransactionStatus.IDLE
        cluster.kill(leader)
        assert cluster.leader(not_this=leader) == follower
        with psycopg.connect(cluster.dsn(follower), autocommit=True) as connection:
            assert connection.execute("SELECT gid FROM pg_prepared_xacts").fetchall() == [("moved",)]
            connection.execute("SET lock_timeout = '50ms'")
            with pytest.raises(psycopg.errors.LockNotAvailable):
                connection.execute("UPDATE t SET v = 3")
            connection.execute("COMMIT PREPARED 'moved'")
            assert connection.execute("SELECT v FROM t").fetchall() == [(2,)]
