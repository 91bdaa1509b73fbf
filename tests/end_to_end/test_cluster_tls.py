"""Nodes of a cluster that have certificates speak TLS to each other, and to nobody who shows another one."""

from __future__ import annotations

import asyncio
import hashlib
import pathlib
import socket
import ssl
import threading
from collections.abc import Iterator

import pytest
from psycopg import errors

from catalog.errors import SqlError
from replication.log.layout import decode_node
from tests.cluster import ShoalCluster
from tests.end_to_end.test_access import GuardedServer
from tests.replication.stores.certificates import Certificate, make_certificate
from tests.zookeeper_server import ZooKeeper
from wire import client_core
from wire.client import ClientConnection, ConnectionLostError
from wire.leader_forwarding import ClusterConnection


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Certificate:
    return make_certificate(tmp_path_factory.mktemp("tls"), "shoal")


def hash_of(certificate: Certificate) -> str:
    text = pathlib.Path(certificate.cert).read_text()
    return hashlib.sha256(ssl.PEM_cert_to_DER_cert(text)).hexdigest()


def only_tls() -> None:
    """In a node: it takes nothing from another one that comes without TLS."""
    original = ClusterConnection._started_for_peer

    def started(self: ClusterConnection) -> None:
        if self._peer is not None and not self._secure:
            raise SqlError("28000", "without TLS", severity="FATAL")
        original(self)

    ClusterConnection._started_for_peer = started  # type: ignore[method-assign]


@pytest.fixture(scope="module")
def cluster(zookeeper_server: ZooKeeper, certificate: Certificate) -> Iterator[ShoalCluster]:
    settings = {"tls_cert": certificate.cert, "tls_key": certificate.key}
    hooks = ["tests.end_to_end.test_cluster_tls.only_tls"]
    with ShoalCluster(2, zookeeper=zookeeper_server, settings=settings, hooks=hooks) as cluster:
        with cluster.connect() as connection:
            connection.execute("CREATE TABLE t (a int PRIMARY KEY)")
        yield cluster


def test_what_is_carried_goes_through_tls(cluster: ShoalCluster, certificate: Certificate) -> None:
    (follower,), leader = cluster.followers(), cluster.leader()
    assert decode_node(cluster.watcher.get(f"nodes/{leader}") or b"").certificate == hash_of(certificate)
    with cluster.connect(follower) as connection:
        connection.execute("INSERT INTO t VALUES (1)")
        with connection.transaction():
            connection.execute("INSERT INTO t SELECT g FROM generate_series(2, 50000) g")
        assert connection.execute("SELECT count(*) FROM t").fetchone() == (50_000,)
        with cluster.connect(leader) as other, other.transaction():
            other.execute("DELETE FROM t WHERE a = 1")
            threading.Timer(0.5, connection.cancel).start()  # it has a connection of its own between the nodes too
            with pytest.raises(errors.QueryCanceled):
                connection.execute("DELETE FROM t WHERE a = 1")


class Wire:
    """A relay in front of a port that keeps what goes through."""

    def __init__(self, port: int) -> None:
        self.seen = b""
        self._target = port
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.port = self._socket.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            one = self._socket.accept()[0]
            other = socket.create_connection(("127.0.0.1", self._target))
            for ends in ((one, other), (other, one)):
                threading.Thread(target=self._copy, args=ends, daemon=True).start()

    def _copy(self, one: socket.socket, other: socket.socket) -> None:
        try:
            while data := one.recv(65536):
                self.seen += data
                other.sendall(data)
        except OSError:
            pass
        other.close()


async def _ask(port: int, certificate: str) -> None:
    parameters = {"user": "postgres", "database": "postgres"}
    connection = await ClientConnection.open("127.0.0.1", port, parameters, certificate=certificate)
    connection.send(client_core.query(b"SELECT 'a word to be hidden'"))
    while (await connection.receive()).kind != ord("Z"):
        pass
    await connection.cancel()
    connection.close()


@pytest.mark.parametrize("hidden", [True, False])
def test_nothing_can_be_read_on_the_way(certificate: Certificate, tmp_path: pathlib.Path, hidden: bool) -> None:
    """Without TLS the trial sees the word: it can see one."""
    with GuardedServer(tmp_path, certificate) as server:
        wire = Wire(server.port)
        asyncio.run(_ask(wire.port, hash_of(certificate) if hidden else ""))
        assert (b"a word to be hidden" not in wire.seen) is hidden
        with pytest.raises(ConnectionLostError, match="another certificate"):
            asyncio.run(_ask(wire.port, "1" * 64))
