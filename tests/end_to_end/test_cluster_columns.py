"""Columns in a cluster: each node builds its own, and `shoal check` compares them with its rows."""

from __future__ import annotations

import json
import pathlib
import shutil
import time
from typing import Any

import duckdb
import psycopg

from tests import forks
from tests.cluster import ShoalCluster
from tests.zookeeper_server import ZooKeeper

HOOK = "tests.end_to_end.quick_saves.use"
ROWS = 3000
STATE = b"SELECT state, loaded_from, rows = 3000 AND lag = 0 FROM shoal_columns WHERE table_name = 'kept'"


def until(cluster: ShoalCluster, node: str, wanted: tuple[object, ...]) -> None:
    deadline = time.monotonic() + 40
    while (found := shown(cluster, node)) != wanted:
        assert time.monotonic() < deadline, (node, found)
        time.sleep(0.1)


def shown(cluster: ShoalCluster, node: str) -> tuple[object, ...] | None:
    with psycopg.connect(cluster.dsn(node), autocommit=True) as connection:
        connection.execute("SET read_consistency = 'eventual'")
        return connection.execute(STATE).fetchone()


def check(cluster: ShoalCluster) -> tuple[int, Any]:
    done = forks.run("check", "--cluster", cluster.url, "--json", "--timeout", "60")
    return done.returncode, json.loads(done.stdout)["tablespaces"][0]


def test_every_node_builds_columns_and_wrong_ones_are_noticed(zookeeper_server: ZooKeeper) -> None:
    with ShoalCluster(2, zookeeper=zookeeper_server, hooks=[HOOK]) as cluster:
        with cluster.connect() as connection:
            connection.execute("CREATE TABLE kept (id int PRIMARY KEY, n int) WITH (columnar = on)")
            connection.execute("INSERT INTO kept SELECT i, i FROM generate_series(1, %s::int) i", [ROWS])
        for node in cluster.nodes:
            until(cluster, node, ("ready", "rows", True))
        status, found = check(cluster)
        assert (status, found["equal"]) == (0, True)
        assert "2 copies in columns match them" in forks.run("check", "--cluster", cluster.url).stdout
        follower = cluster.followers()[0]
        lie(cluster, follower)
        status, found = check(cluster)
        assert (status, found["equal"]) == (1, False)
        wrong = {item["node"]: (item["wrong"], item["columns"]) for item in found["replicas"] if not item["equal"]}
        message = "the analytic copy has other values in n"
        assert wrong == {follower: ("columns differ", [{"table": "public.kept", "wrong": message}])}
        told = forks.run("check", "--cluster", cluster.url).stdout
        assert f"{follower}: columns of public.kept: {message}" in told and "WRONG: columns differ from rows" in told
        with cluster.connect() as connection:
            connection.execute("ALTER TABLE kept SET (columnar = off)")
            connection.execute("ALTER TABLE kept SET (columnar = on)")
        for node in cluster.nodes:
            until(cluster, node, ("ready", "rows", True))
        assert check(cluster)[0] == 0
        late = cluster.add()
        until(cluster, late, ("ready", "rows", True))


def lie(cluster: ShoalCluster, node: str) -> None:
    """The columns of a node lack a change, and its file says that they have it."""
    path = pathlib.Path(cluster.nodes[node].data) / "columnar" / "columns.duckdb"
    of_before = path.with_name("of_before")
    shutil.copyfile(path, of_before)
    with cluster.connect() as connection:
        connection.execute("UPDATE kept SET n = n + 1 WHERE id = 17")
    cluster.wait_for_applied()
    with psycopg.connect(cluster.dsn(node), autocommit=True) as connection:
        connection.execute("CHECKPOINT")
        durable = connection.execute("SELECT durable_lsn FROM shoal_log_status").fetchone()
    cluster.kill(node)
    with duckdb.connect(str(of_before)) as file:
        file.execute("UPDATE saved SET lsn = ?", durable)
    of_before.rename(path)
    cluster.start(node)
    cluster.wait_for_applied()
    until(cluster, node, ("ready", "file", True))
