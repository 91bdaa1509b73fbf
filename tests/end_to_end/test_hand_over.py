"""The leader is moved between real processes while clients work: they see nothing but errors that they can retry."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator

import pytest

from tests.cluster import ShoalCluster
from tests.end_to_end.test_cluster import rows
from tests.end_to_end.test_cluster_commands import shoal
from tests.zookeeper_server import ZooKeeper

ROUNDS = 4


@pytest.fixture(scope="module")
def cluster(zookeeper_server: ZooKeeper) -> Iterator[ShoalCluster]:
    with ShoalCluster(3, zookeeper=zookeeper_server) as cluster:
        yield cluster


def pgbench(cluster: ShoalCluster, node: str, *options: str) -> subprocess.Popen[str]:
    where = ("-h", "127.0.0.1", "-p", str(cluster.nodes[node].port), "-U", "postgres", "postgres")
    return subprocess.Popen(
        ["pgbench", *options, *where], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=cluster.directory
    )


def clients(cluster: ShoalCluster, node: str) -> int:
    """How many of pgbench's sessions a node has."""
    with cluster.connect(node) as connection:
        [(count,)] = rows(connection, "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'pgbench'")
    return int(str(count))


def test_leaders_are_moved_by_command_under_pgbench(cluster: ShoalCluster) -> None:
    pgbench(cluster, cluster.leader(), "-i", "-q").communicate(timeout=60)
    cluster.wait_for_applied()
    options = ("-n", "-c", "3", "-T", "600", "--max-tries", "100", "-M", "prepared")
    loads = [pgbench(cluster, node, *options) for node in cluster.nodes]
    led = [cluster.leader()]
    try:
        cluster.wait_until(lambda: all(clients(cluster, node) >= 3 for node in cluster.nodes), "all clients are there")
        begun = cluster.head().lsn  # pgbench takes no error of the first use of a statement, when it is prepared
        cluster.wait_until(lambda: cluster.head().lsn > begun + 300, "every client has committed")
        for _ in range(ROUNDS):
            before = cluster.head().lsn
            to = cluster.followers()[0]
            status, shown, error = shoal("lead", "--cluster", cluster.url, to)
            assert status == 0, error
            assert f"{to} leads in place of {led[-1]}" in shown
            assert cluster.leader() == to
            led.append(to)
            cluster.wait_until(lambda before=before: cluster.head().lsn > before + 20, "commits go on")  # type: ignore[misc]
        assert all(load.poll() is None for load in loads), [load.communicate() for load in loads]
        status, shown, error = shoal("check", "--cluster", cluster.url, "--timeout", "60")
        assert status == 0, shown + error
    finally:
        for load in loads:
            load.terminate()
    for load in loads:
        _, err = load.communicate(timeout=60)
        assert "ERROR" not in err and "aborted" not in err and "FATAL" not in err, err
    cluster.wait_for_applied()
    sums = """SELECT (SELECT sum(abalance) FROM pgbench_accounts), (SELECT sum(tbalance) FROM pgbench_tellers),
              (SELECT sum(bbalance) FROM pgbench_branches), (SELECT sum(delta) FROM pgbench_history)"""
    found = set()
    for name in cluster.nodes:
        with cluster.connect(name) as connection:
            found.add(rows(connection, sums)[0])
    assert len(found) == 1 and len(set(found.pop())) == 1


def test_placement_moves_the_leader_to_the_preferred_one_under_pgbench(cluster: ShoalCluster) -> None:
    pgbench(cluster, cluster.leader(), "-i", "-q").communicate(timeout=60)
    cluster.wait_for_applied()
    load = pgbench(cluster, cluster.followers()[1], "-n", "-c", "3", "-T", "600", "--max-tries", "100")
    old, to = cluster.leader(), cluster.followers()[0]
    try:
        with cluster.connect() as connection:
            connection.execute(f"ALTER TABLESPACE pg_default SET (leader = '{to}')".encode())
        assert cluster.leader(not_this=old) == to
        before = cluster.head().lsn
        cluster.wait_until(lambda: cluster.head().lsn > before + 20, "commits go on")
        assert load.poll() is None, load.communicate()
        status, shown, error = shoal("lead", "--cluster", cluster.url, old)
        assert status == 0 and f"{to} is the preferred leader" in shown, shown + error
    finally:
        load.terminate()
        _, err = load.communicate(timeout=60)
    assert "ERROR" not in err and "aborted" not in err and "FATAL" not in err, err
    with cluster.connect() as connection:
        connection.execute("ALTER TABLESPACE pg_default RESET (leader)")


@pytest.mark.parametrize(("node", "told"), [("n9", "node n9 is not there"), ("", "leads already")])
def test_what_need_not_or_cannot_be_is_one_line(cluster: ShoalCluster, node: str, told: str) -> None:
    status, shown, error = shoal("lead", "--cluster", cluster.url, node or cluster.leader())
    assert told in shown + error and len((shown + error).splitlines()) == 1
    assert status == (1 if node else 0)


def test_a_request_of_an_epoch_that_is_over_is_replaced(cluster: ShoalCluster) -> None:
    path = f"moves/{cluster.tablespace}"
    cluster.watcher.client.create(path, b'{"leader": "n1", "to": "n2", "epoch": 0}', makepath=True)
    to = cluster.followers()[0]
    status, _, error = shoal("lead", "--cluster", cluster.url, to)
    assert status == 0, error
    assert cluster.leader() == to
