"""All nodes and stores of a cluster are killed at once, and started again: few entries are to be applied anew."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from shoal.cluster import timed_flush
from shoal.cluster.timed_flush import INTERVAL
from tests import forks
from tests.cluster import ShoalCluster

FEW = 300
SERVES = 60.0  # seconds in which the cluster is to serve again, beside whatever else the machine does


def few() -> None:
    """In a node: what is written here is much."""
    timed_flush.ENTRIES = FEW


@pytest.fixture(scope="module")
def cluster() -> Iterator[ShoalCluster]:
    with ShoalCluster(3, store="quorum", hooks=["tests.end_to_end.test_cluster_crash.few"]) as found:
        with found.connect() as connection:
            connection.execute("CREATE TABLE t (id int PRIMARY KEY, v int)")
        yield found


def flushed(cluster: ShoalCluster, name: str) -> int:
    found = cluster.replica(name)
    return 0 if found is None else found.flushed


@pytest.mark.long
def test_small_commits_are_flushed_by_time(cluster: ShoalCluster) -> None:
    with cluster.connect() as connection:
        for number in range(FEW):
            connection.execute("INSERT INTO t VALUES (%s, 0)", (number,))
    end = cluster.head().lsn
    for name in cluster.nodes:
        cluster.wait_until(lambda name=name: flushed(cluster, name) >= end - FEW, f"{name} flushes", 3 * INTERVAL + 10)


def test_a_checkpoint_flushes(cluster: ShoalCluster) -> None:
    leader = cluster.leader()
    with cluster.connect() as connection:
        connection.execute("INSERT INTO t VALUES (1000, 0)")
    end = cluster.head().lsn
    began = time.monotonic()
    done = forks.run("checkpoint", "--cluster", cluster.url)
    assert done.returncode == 0, done.stderr
    with cluster.connect(leader) as connection:
        told = "SELECT flushed_lsn FROM shoal_replicas WHERE node = %s AND tablespace = 'pg_default'"
        cluster.wait_until(lambda: (connection.execute(told, (leader,)).fetchone() or (0,))[0] >= end, "it is flushed")
    print(f"after {time.monotonic() - began:.1f} s")


def test_a_cluster_that_was_killed_as_a_whole_serves_soon(cluster: ShoalCluster) -> None:
    told: list[int] = []
    with cluster.connect() as connection:
        until = time.monotonic() + 2 * INTERVAL
        while time.monotonic() < until:
            connection.execute("INSERT INTO t VALUES (%s, 1)", (10_000 + len(told),))
            told.append(10_000 + len(told))
    left = cluster.head().lsn - min(flushed(cluster, name) for name in cluster.nodes)
    print(f"{len(told)} commits, of which {left} are not flushed everywhere")
    assert left < 0.9 * len(told)
    for name in cluster.nodes:
        cluster.kill(name)
    for store in cluster.log_stores:
        store.kill()
    began = time.monotonic()
    for store in cluster.log_stores:
        store.start()
    for name in cluster.nodes:
        cluster.launch(name)
    for name in cluster.nodes:
        cluster.ready(name)
    cluster.leader()
    with cluster.connect() as connection:
        connection.execute("INSERT INTO t VALUES (9999, 2)")
        assert connection.execute("SELECT count(*) FROM t WHERE v = 1").fetchone() == (len(told),)
    seconds = time.monotonic() - began
    print(f"served after {seconds:.1f} s")
    assert seconds < SERVES
