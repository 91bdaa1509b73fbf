"""A cluster whose log stores are behind TLS."""

from __future__ import annotations

import contextlib
import pathlib

import pytest

from tests.cluster import NotStartedError, ShoalCluster
from tests.end_to_end.test_cluster import insert_until_taken, rows
from tests.replication.stores.certificates import make_certificate
from tests.replication.stores.log_process import LogProcess
from tests.zookeeper_server import ZooKeeper


def test_a_quorum_behind_tls(zookeeper_server: ZooKeeper, tmp_path: pathlib.Path) -> None:
    made = make_certificate(tmp_path, "store")
    trusted = {"SHOAL_STORE_TLS_CA": made.cert, "SHOAL_STORE_SECRET": "hushhush"}
    options = ["--tls-cert", made.cert, "--tls-key", made.key]
    with contextlib.ExitStack() as stack:
        stores = [stack.enter_context(LogProcess(trusted, options)) for _ in range(3)]
        url = "quorum(3,2,2):" + ",".join(store.url for store in stores)
        cluster = stack.enter_context(ShoalCluster(2, zookeeper=zookeeper_server, store=url, environment=trusted))
        insert_until_taken(cluster, "CREATE TABLE t (id int PRIMARY KEY)")
        insert_until_taken(cluster, "INSERT INTO t SELECT generate_series(1, 2000)")
        stores[0].kill()
        old = cluster.leader()
        cluster.kill(old)
        insert_until_taken(cluster, "INSERT INTO t VALUES (0)")
        cluster.start(old)
        cluster.wait_for_applied()
        for name in cluster.nodes:
            with cluster.connect(name) as connection:
                assert rows(connection, "SELECT count(*) FROM t") == [(2001,)]
        cluster._environment["SHOAL_STORE_TLS_CA"] = make_certificate(tmp_path, "other").cert
        cluster.launch("n3")
        with pytest.raises(NotStartedError) as caught:
            cluster.ready("n3")
        assert "its certificate is not accepted" in caught.value.line
