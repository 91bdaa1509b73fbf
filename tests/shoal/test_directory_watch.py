"""A node whose data directory is removed, or replaced, ends: what it would acknowledge could not be found again."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Callable
from pathlib import Path

import psycopg
import pytest

import shoal
from shoal.directory_watch import INTERVAL
from tests.cluster import ShoalCluster
from tests.server import ShoalServer
from tests.zookeeper_server import ZooKeeper


def remove(data: Path) -> None:
    shutil.rmtree(data)


def move(data: Path) -> None:
    data.rename(data.with_name("elsewhere"))


def replace(data: Path) -> None:
    shutil.copytree(data, data.with_name("copy"))
    shutil.rmtree(data)
    data.with_name("copy").rename(data)


def remove_tables(data: Path) -> None:
    shutil.rmtree(data / "rows")


@pytest.mark.parametrize("damage", [remove, move, replace, remove_tables])
def test_a_node_alone_ends(damage: Callable[[Path], None], tmp_path: Path) -> None:
    with ShoalServer(tmp_path / "data") as server, psycopg.connect(server.dsn, autocommit=True) as connection:
        connection.execute("CREATE TABLE t (a int)")
        damage(tmp_path / "data")
        assert server.process is not None and server.process.wait(20 * INTERVAL) == 70
        with pytest.raises(psycopg.OperationalError):
            connection.execute("INSERT INTO t VALUES (1)")


def test_a_replica_ends_and_another_leads(zookeeper_server: ZooKeeper) -> None:
    with ShoalCluster(2, zookeeper=zookeeper_server, settings={"session_timeout": 4.0}) as cluster:
        leader, (follower,) = cluster.leader(), cluster.followers()
        with cluster.connect() as connection:
            connection.execute("CREATE TABLE t (a int)")
        shutil.rmtree(cluster.node(leader).data)
        assert cluster.wait_for_exit(leader) == 70
        told = cluster.node(leader).text()  # by the watch, or by who needs a file of it first
        assert "has been removed while this node was using it" in told or "No such file or directory" in told
        assert cluster.leader(not_this=leader) == follower
        with cluster.connect(follower) as connection:
            connection.execute("INSERT INTO t VALUES (1)")


def test_an_embedded_database_fails(tmp_path: Path) -> None:
    db = shoal.open(tmp_path / "db")
    db.execute("CREATE TABLE t (a int)")
    shutil.rmtree(tmp_path / "db")
    with pytest.raises(shoal.OperationalError, match="has been removed"):
        db.execute("SELECT pg_sleep(60)")
    with pytest.raises(shoal.Error):
        db.execute("INSERT INTO t VALUES (1)")
    db.close()
    left = [task for task in asyncio.all_tasks(db._engine.loop) if "Connection" in repr(task.get_coro())]
    assert not left  # the statement that waited has ended
