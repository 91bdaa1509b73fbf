"""Nodes that follow by way of a regional copy of the store."""

from __future__ import annotations

import pathlib

import pytest

from tests.cluster import NotStartedError, ShoalCluster
from tests.end_to_end.test_cluster import insert_until_taken, rows
from tests.end_to_end.test_cluster_commands import shoal
from tests.zookeeper_server import ZooKeeper


def copies(folder: pathlib.Path) -> list[pathlib.Path]:
    return [path for path in (folder / "regional").rglob("*") if path.is_file()]


def test_nodes_of_a_region_share_what_they_read(zookeeper_server: ZooKeeper) -> None:
    with ShoalCluster(1, zookeeper=zookeeper_server, store="log") as cluster:
        near = cluster.directory / "near"
        region = {"read-from": f"file://{near}"}
        insert_until_taken(cluster, "CREATE TABLE t (id int PRIMARY KEY, v text)")
        cluster.wait_for_line("n1", "checkpoint at LSN")  # the first one: who comes later takes all below from the log
        for name in ("n2", "n3"):
            cluster.launch(name, **region)
        for name in ("n2", "n3"):
            cluster.ready(name)
        insert_until_taken(
            cluster, "INSERT INTO t SELECT g, repeat('x', 20) FROM generate_series(1, 20000) g"
        )  # a bulk file
        with cluster.connect("n1") as connection:
            for number in range(30):
                connection.execute("INSERT INTO t VALUES (%s, 'single')", (-number,))
        cluster.wait_for_applied()
        cluster.wait_until(lambda: len(copies(near)) > 5, "the region has copies")
        assert any("bulk" in path.parts for path in copies(near))
        for path in copies(near):
            path.write_bytes(path.read_bytes()[:-9] + b"damage..!")
        cluster.launch("n4", **region)
        cluster.ready("n4")
        cluster.wait_for_line("n4", "is damaged")
        cluster.kill("n1")  # one of the region leads now, and the others follow it
        insert_until_taken(cluster, "INSERT INTO t VALUES (100000, 'by one of the region')")
        (near / "regional").rename(near / "gone")
        insert_until_taken(cluster, "INSERT INTO t VALUES (100001, 'without the copies')")
        cluster.start("n1")
        cluster.wait_for_applied()
        for name in cluster.nodes:
            with cluster.connect(name) as connection:
                assert rows(connection, "SELECT count(*), max(id) FROM t") == [(20032, 100001)]
        status, shown, error = shoal("check", "--cluster", cluster.url, "--timeout", "60")
        assert status == 0, shown + error


def test_a_store_is_no_region_of_itself(zookeeper_server: ZooKeeper) -> None:
    with ShoalCluster(1, zookeeper=zookeeper_server) as cluster, ShoalCluster(1, zookeeper=zookeeper_server) as other:
        cluster.launch("n2", **{"read-from": cluster.store_url})
        with pytest.raises(NotStartedError) as caught:
            cluster.ready("n2")
        assert "is the changelog store itself" in caught.value.line
        cluster.launch("n2", **{"read-from": other.store_url})
        with pytest.raises(NotStartedError) as caught:
            cluster.ready("n2")
        assert "holds the data of cluster" in caught.value.line
