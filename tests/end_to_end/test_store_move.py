"""A cluster's store becomes another one, of another kind, while clients write: `shoal store move`."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from tests.cluster import ShoalCluster
from tests.end_to_end.test_cluster import insert_until_taken, rows
from tests.end_to_end.test_cluster_commands import shoal
from tests.end_to_end.unreachable_store import NAME
from tests.replication.stores.log_process import LogProcess
from tests.zookeeper_server import ZooKeeper


@pytest.fixture(scope="module")
def cluster(zookeeper_server: ZooKeeper) -> Iterator[ShoalCluster]:
    hooks = ["tests.end_to_end.unreachable_store.install"]
    settings = {"checkpoint_interval": 0.5}
    with ShoalCluster(2, zookeeper=zookeeper_server, hooks=hooks, settings=settings) as cluster:
        insert_until_taken(cluster, "CREATE TABLE t (id int PRIMARY KEY, v text)")
        insert_until_taken(cluster, "CREATE TABLESPACE other")
        insert_until_taken(cluster, "CREATE TABLE o (id int PRIMARY KEY) TABLESPACE other")
        yield cluster


class Writer:
    """Commits rows one after the other into both tables, until the end of the block. `written`: the last one. What a
    leadership that moves meanwhile undoes is written once more, as by any application."""

    def __init__(self, cluster: ShoalCluster, first: int) -> None:
        self._cluster = cluster
        self._connection: psycopg.Connection[Any] = cluster.connect()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._write)
        self.written = first
        self.error: BaseException | None = None

    def go_on(self) -> None:
        """Returns when it has written further rows. Raises what it has ended with."""
        then = self.written
        self._cluster.wait_until(lambda: self.error or self.written > then + 10, "further rows are written")
        if self.error is not None:
            raise self.error

    def _write(self) -> None:
        try:
            while not self._stop.is_set():
                number = self.written + 1
                try:
                    with self._connection.transaction():
                        self._connection.execute("INSERT INTO t VALUES (%s, repeat('x', 200))", (number,))
                        self._connection.execute("INSERT INTO o VALUES (%s)", (number,))
                except psycopg.errors.SerializationFailure:
                    continue
                self.written = number
        except BaseException as error:
            self.error = error

    def __enter__(self) -> Writer:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()
        self._connection.close()


def both(cluster: ShoalCluster, name: str) -> list[tuple[int, int]]:
    """(rows, highest) of t and of o on a node."""
    with cluster.connect(name) as connection:
        return rows(connection, "SELECT count(*), max(id) FROM t UNION ALL SELECT count(*), max(id) FROM o")


def test_a_leader_that_cannot_use_it_stays_with_the_old_one(cluster: ShoalCluster) -> None:
    kept = cluster.ledgers()[-1].store
    new = f"file://{cluster.directory}/{NAME}"
    status, _, error = shoal("store", "move", "--cluster", cluster.url, new, "--timeout", "3")
    assert status == 1 and f"nothing has been written to {new}" in error
    insert_until_taken(cluster, "INSERT INTO t VALUES (-2, 'as before')")
    old = cluster.leader()
    cluster.kill(old)
    insert_until_taken(cluster, "INSERT INTO t VALUES (-1, 'by the next leader')")
    assert {ledger.store for ledger in cluster.ledgers() if ledger.last is None} == {kept}
    status, shown, error = shoal("store", "move", "--cluster", cluster.url, "--json", kept)
    assert status == 0, error
    assert json.loads(shown)["stores"]["pg_default"] == kept
    cluster.start(old)
    insert_until_taken(cluster, "DELETE FROM t")


@pytest.mark.parametrize(
    ("url", "told"), [("nowhere", "is not the URL of a changelog store"), ("log://127.0.0.1:9", "log://127.0.0.1:9")]
)
def test_what_is_no_store_is_one_line(cluster: ShoalCluster, url: str, told: str) -> None:
    status, shown, error = shoal("store", "move", "--cluster", cluster.url, url)
    assert (status, shown) == (1, "")
    assert told in error and len(error.splitlines()) == 1


def test_the_store_of_another_cluster(cluster: ShoalCluster, zookeeper_server: ZooKeeper) -> None:
    with ShoalCluster(1, zookeeper=zookeeper_server) as other:
        status, _, error = shoal("store", "move", "--cluster", cluster.url, other.store_url)
        assert status == 1 and "holds the data of cluster" in error


def test_the_store_becomes_another_kind_under_load(cluster: ShoalCluster) -> None:
    last = 0
    old = cluster.store_url
    with LogProcess() as first, LogProcess() as second, LogProcess() as third:
        quorum = f"quorum(3,2,2):{first.url},{second.url},{third.url}"
        for new in (first.url, quorum):
            with Writer(cluster, last) as writer:
                writer.go_on()
                status, shown, error = shoal("store", "move", "--cluster", cluster.url, new)
                assert status == 0, error
                assert f"pg_default: {new}" in shown and f"other: {new}" in shown
                assert f"{old} is needed until" in shown
                writer.go_on()
            assert writer.error is None
            last = writer.written
            ledgers = cluster.ledgers()
            assert ledgers[-1].store == new and ledgers[0].store != new
            added = cluster.add()  # from a checkpoint in the old store, or in the new one
            cluster.wait_for_applied()
            assert both(cluster, added) == [(last, last), (last, last)]
            gone = cluster.leader()
            cluster.kill(gone)
            cluster.leader(not_this=gone)
            insert_until_taken(cluster, f"INSERT INTO t VALUES ({last + 1}, ''); INSERT INTO o VALUES ({last + 1})")
            last += 1
            cluster.start(gone)  # its --store is the one that the cluster was founded with
            cluster.wait_for_applied()
            for name in cluster.nodes:
                assert both(cluster, name) == [(last, last), (last, last)]
        assert shoal("ledger", "read", "--cluster", cluster.url)[0] == 0
        assert shoal("store", "move", "--cluster", cluster.url, cluster.store_url)[0] == 0
        insert_until_taken(cluster, f"INSERT INTO t VALUES ({last + 1}, ''); INSERT INTO o VALUES ({last + 1})")
        status, shown, error = shoal("check", "--cluster", cluster.url, "--timeout", "60")
        assert status == 0, shown + error
