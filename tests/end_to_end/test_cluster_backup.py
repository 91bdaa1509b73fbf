"""A backup of a running cluster, from the ledgers in its store: every LSN between two backups comes back."""

from __future__ import annotations

import os
from pathlib import Path

import psycopg

from replication.stores import open_store
from shoal.archive.contents import read_contents, verify_all
from shoal.archive.restore import RestoreTarget, plan_restore, restore_directory
from tests.cluster import ShoalCluster
from tests.end_to_end.test_cluster_commands import shoal
from tests.shoal.archive.history import STATEMENTS, record, shown, stored


async def test_a_cluster_is_backed_up_and_restored(tmp_path: Path) -> None:
    backups = tmp_path / "backups"
    with ShoalCluster(nodes=2) as cluster:
        leader = cluster.leader()
        with psycopg.connect(cluster.dsn(leader), autocommit=True) as connection:
            record(connection, STATEMENTS[:3])
            status, told, error = shoal("backup", str(backups), "--cluster", cluster.url)
            assert (status, error) == (0, ""), told
            recorded = record(connection, STATEMENTS[3:])
        follower = next(node for node in cluster.nodes if node != leader)
        with psycopg.connect(cluster.dsn(follower), autocommit=True) as connection:  # carried to the leader
            row = connection.execute("SELECT shoal_backup(%s)", (f"file://{backups}",)).fetchone()
            assert row is not None and row[0] >= max(recorded)
            connection.execute(f"CREATE DATABASE beside FROM postgres IN BACKUP 'file://{backups}'")
        cluster.wait_for_applied()
        for node in cluster.nodes:
            dsn = cluster.dsn(node).replace("dbname=postgres", "dbname=beside")
            with psycopg.connect(dsn, autocommit=True) as connection:
                assert shown(connection) == recorded[max(recorded)]
    store = open_store(f"file://{backups}")
    found = await read_contents(store)
    assert len(found.records) == 2
    verified = await verify_all(found, str(tmp_path / "scratch"), lambda *_: None)
    assert (verified.findings, verified.checkpoints) == ([], 2)
    assert verified.entries >= len(recorded)
    for lsn in sorted(recorded)[::3]:
        data = tmp_path / str(lsn)
        await restore_directory(await plan_restore(found, RestoreTarget(lsn)), str(data), lambda *_: None)
        assert stored(data) == recorded[lsn], lsn
    await store.close()
    with ShoalCluster(0) as second:  # what was restored founds a cluster of its own
        os.rename(data, second.node("n1").data)
        second.start("n1")
        second.add("n2")
        second.wait_for_applied()
        with second.connect("n2") as connection:
            assert shown(connection) == recorded[lsn]
            connection.execute("CREATE TABLE new (a int)")
