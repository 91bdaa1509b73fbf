"""Addresses, credentials, TLS, and whether a chroot holds the cluster that a node belongs to."""

from __future__ import annotations

import asyncio
import logging
import pathlib
import socket
import subprocess
import time
from collections.abc import Callable, Iterator

import orjson
import pytest
from kazoo.client import KazooClient
from kazoo.exceptions import NoAuthError

from catalog.errors import SqlError
from replication.interface import CoordinationUnavailableError, Znode
from replication.zookeeper import join_cluster, open_coordination, parse_address
from tests.oracle import free_port
from tests.zookeeper_server import ZooKeeper

AUTH = {"SHOAL_ZK_AUTH": "shoal:secret"}


@pytest.mark.parametrize(
    ("url", "hosts", "chroot"),
    [
        ("zk://127.0.0.1:2181/shoal", ("127.0.0.1:2181",), "/shoal"),
        ("zk://localhost,[::1]:2182/a/b/", ("localhost:2181", "[::1]:2182"), "/a/b"),
    ],
)
def test_addresses_are_parsed(url: str, hosts: tuple[str, ...], chroot: str) -> None:
    address = parse_address(url, {})
    assert (address.hosts, address.chroot, address.auth) == (hosts, chroot, "")


async def test_what_came_of_each_host_is_told() -> None:
    with socket.socket() as deaf:  # takes connections, and answers nothing
        deaf.bind(("127.0.0.1", 0))
        deaf.listen()
        mute = f"127.0.0.1:{deaf.getsockname()[1]}"
        url = f"zk://127.0.0.1:1,{mute},no.such.host.invalid:7/x"
        with pytest.raises(SqlError) as error:
            await open_coordination(url, session_timeout=1.0, timeout=3.0, environment=AUTH)
    told = error.value.message
    assert f"127.0.0.1:1 (nothing listens there), {mute} (accepts connections but opens no session), " in told
    assert "no.such.host.invalid:7 (its name has no address that is known here)" in told
    assert f"Start it, or correct {url}" in told
    assert "Errno" not in told


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("http://localhost/x", "does not start with zk://"),
        ("localhost:2181/x", "does not start with zk://"),
        ("zk://localhost:2181", "name of the cluster is missing"),
        ("zk://localhost:2181/", "name of the cluster is missing"),
        ("zk:///x", '"" is not HOST:PORT'),
        ("zk://a:b:c/x", "is not HOST:PORT"),
        ("zk://localhost:99999/x", "99999 is not a port"),
        ("zk://localhost,/x", '"" is not HOST:PORT'),
        ("zk://localhost/a//b", '"" is not a name'),
        ("zk://localhost/..", '".." is not a name'),
        ("zk://localhost/zookeeper", "ZooKeeper's own"),
        ("zk://u:secret@localhost:2181", "name of the cluster is missing"),
        ("zk://u:secret@localhost:2181/x", "can see its password"),
        ("zk://only-a-user@localhost:2181/x", "can see its password"),
        ("zk://example.com/x", "SHOAL_ZK_AUTH"),
    ],
)
def test_wrong_addresses_are_refused_in_one_line_without_the_password(url: str, reason: str) -> None:
    with pytest.raises(SqlError) as error:
        parse_address(url, {})
    assert error.value.sqlstate == "08001"
    assert reason in error.value.message
    assert "\n" not in error.value.message and "secret" not in error.value.message


def test_credentials_come_from_the_environment_or_a_file(tmp_path: pathlib.Path) -> None:
    (tmp_path / "auth").write_text("me:word:with:colons\n")
    assert parse_address("zk://example.com/x", {"SHOAL_ZK_AUTH_FILE": str(tmp_path / "auth")}).auth == (
        "me:word:with:colons"
    )
    assert parse_address("zk://example.com/x", AUTH).auth == "shoal:secret"
    with pytest.raises(SqlError, match="of the form user:password"):
        parse_address("zk://example.com/x", {"SHOAL_ZK_AUTH": "only-a-user"})
    with pytest.raises(SqlError, match="SHOAL_ZK_AUTH_FILE"):
        parse_address("zk://example.com/x", {"SHOAL_ZK_AUTH_FILE": str(tmp_path / "none")})
    by_sasl = parse_address("zk://example.com/x", {"SHOAL_ZK_SASL_FILE": str(tmp_path / "auth")})
    assert (by_sasl.auth, by_sasl.sasl) == ("me:word:with:colons", True)
    with pytest.raises(SqlError, match="two users"):
        parse_address("zk://example.com/x", AUTH | {"SHOAL_ZK_SASL": "a:b"})


async def test_an_ensemble_that_is_away_is_one_clear_line() -> None:
    url = f"zk://127.0.0.1:{free_port()}/shoal"
    began = time.monotonic()
    with pytest.raises(SqlError) as error:
        await open_coordination(url, timeout=0.3, environment={})
    assert error.value.sqlstate == "08001"
    assert (
        url in error.value.message
        and "nothing listens there" in error.value.message
        and "\n" not in error.value.message
    )
    assert time.monotonic() - began < 2.0


async def test_a_chroot_is_made_with_its_format(zookeeper: str) -> None:
    session = await open_coordination(zookeeper + "/below", environment={})
    assert await session.get("format") == Znode(b'{"format":1}', 0)
    again = await open_coordination(zookeeper + "/below", environment={})
    assert await again.children("") == ["format"]
    await again.close()
    await session.close()


async def test_a_newer_format_is_refused(zookeeper: str) -> None:
    session = await open_coordination(zookeeper, environment={})
    await session.set("format", orjson.dumps({"format": 99, "more": True}))
    with pytest.raises(SqlError, match="newer version") as error:
        await open_coordination(zookeeper, environment={})
    assert error.value.sqlstate == "55000"
    await session.close()


async def test_the_first_node_names_the_cluster(zookeeper: str) -> None:
    session = await open_coordination(zookeeper, environment={})
    cluster = await join_cluster(session, zookeeper)
    assert len(cluster) == 32
    assert await join_cluster(session, zookeeper, new="0" * 32) == cluster
    assert await join_cluster(session, zookeeper, known=cluster) == cluster
    with pytest.raises(SqlError, match=f"holds the cluster {cluster}") as error:
        await join_cluster(session, zookeeper, known="0" * 32)
    assert error.value.sqlstate == "55000"
    with pytest.raises(SqlError, match=f"holds the cluster {cluster}"):
        await open_coordination(zookeeper, known_cluster="0" * 32, environment={})
    await session.close()


async def test_a_chroot_without_the_known_cluster_stays_as_it_is(zookeeper: str) -> None:
    with pytest.raises(SqlError, match="does not hold the cluster") as error:
        await open_coordination(zookeeper, known_cluster="0" * 32, environment={})
    assert error.value.sqlstate == "55000"
    hosts, _, name = zookeeper.removeprefix("zk://").partition("/")
    client = KazooClient(hosts)
    client.start()
    assert client.exists(f"/{name}") is None
    client.stop()
    client.close()


async def test_a_zookeeper_that_lost_its_data_is_noticed() -> None:
    with ZooKeeper() as zookeeper:
        url = zookeeper.url("shoal")
        session = await open_coordination(url, timeout=0.5, environment={})
        cluster = await join_cluster(session, url)
        zookeeper.stop()
        zookeeper.forget()
        zookeeper.start()
        # ZooKeeper takes up no session that has seen more than it knows.
        with pytest.raises(CoordinationUnavailableError, match="lost data"):
            await session.sync()
        assert session.state == "suspended"
        with pytest.raises(SqlError, match="lost its data") as error:
            await open_coordination(url, known_cluster=cluster, environment={})
        assert error.value.sqlstate == "55000"
        assert await asyncio.to_thread(_anonymous, zookeeper, "/") == ["zookeeper"]
        await session.close()


def _anonymous(zookeeper: ZooKeeper, path: str) -> list[str]:
    client = KazooClient(zookeeper.hosts)
    client.start()
    try:
        return list(client.get_children(path))
    finally:
        client.stop()
        client.close()


async def test_with_credentials_everything_belongs_to_their_user(zookeeper_server: ZooKeeper, zookeeper: str) -> None:
    session = await open_coordination(zookeeper, environment=AUTH)
    await session.create("nodes/a", b"", ephemeral=True)
    _, _, chroot = zookeeper.removeprefix("zk://").partition("/")
    client = KazooClient(zookeeper_server.hosts)
    client.start()
    try:
        attempts: tuple[Callable[[], object], ...] = (
            lambda: client.get(f"/{chroot}/format"),
            lambda: client.get_children(f"/{chroot}"),
            lambda: client.create(f"/{chroot}/x", b""),
            lambda: client.delete(f"/{chroot}/format"),
            lambda: client.delete(f"/{chroot}/nodes/a"),
            lambda: client.set(f"/{chroot}/nodes", b""),
        )
        for attempt in attempts:
            with pytest.raises(NoAuthError):
                attempt()
    finally:
        client.stop()
        client.close()
    for environment in ({}, {"SHOAL_ZK_AUTH": "shoal:wrong"}):
        with pytest.raises(SqlError, match="SHOAL_ZK_AUTH") as error:
            await open_coordination(zookeeper, environment=environment)
        assert error.value.sqlstate == "28000"
    again = await open_coordination(zookeeper, environment=AUTH)
    await again.set("format", b'{"format":1}')
    await again.close()
    await session.close()


@pytest.fixture(scope="module", params=["false", "true"], ids=["anybody", "users only"])
def sasl_server(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Iterator[ZooKeeper]:
    """A ZooKeeper that knows two users, by SASL; it lets others in too, or nobody else."""
    login = tmp_path_factory.mktemp("sasl") / "jaas.conf"
    login.write_text(
        "Server { org.apache.zookeeper.server.auth.DigestLoginModule required\n"
        '  user_shoal="secret" user_stranger="guess"; };\n'
    )
    provider = "authProvider.1=org.apache.zookeeper.server.auth.SASLAuthenticationProvider"
    settings = (provider, f"sessionRequireClientSASLAuth={request.param}")
    with ZooKeeper(settings=settings, java=(f"-Djava.security.auth.login.config={login}",)) as server:
        yield server


async def test_users_that_the_servers_know_own_what_they_make(
    sasl_server: ZooKeeper, caplog: pytest.LogCaptureFixture
) -> None:
    url = sasl_server.url("shoal")
    with caplog.at_level(logging.WARNING, "shoal.zookeeper"):
        session = await open_coordination(url, environment={"SHOAL_ZK_SASL": "shoal:secret"})
    assert "everybody" not in caplog.text
    await session.create("nodes/a", b"", ephemeral=True)
    for environment in ({}, {"SHOAL_ZK_SASL": "stranger:guess"}, {"SHOAL_ZK_AUTH": "shoal:secret"}):
        with pytest.raises(SqlError, match="refuses access") as error:
            await open_coordination(url, environment=environment)
        assert error.value.sqlstate == "28000"
    again = await open_coordination(url, environment={"SHOAL_ZK_SASL": "shoal:secret"})
    assert await again.get("nodes/a") == Znode(b"", 0)
    await asyncio.to_thread(sasl_server.stop)
    await asyncio.to_thread(sasl_server.start)
    await again.set("format", b'{"format":1}')  # the next connection tells who it is, too
    await again.close()
    await session.close()


async def test_a_password_that_the_servers_refuse_is_one_clear_line_at_once(sasl_server: ZooKeeper) -> None:
    began = time.monotonic()
    with pytest.raises(SqlError, match="refuse the user and password in SHOAL_ZK_SASL") as error:
        await open_coordination(sasl_server.url("shoal"), timeout=20.0, environment={"SHOAL_ZK_SASL": "shoal:wrong"})
    assert error.value.sqlstate == "08001"
    assert "wrong" not in error.value.message and "\n" not in error.value.message
    assert time.monotonic() - began < 10.0


async def test_access_that_is_open_to_everybody_is_noticed(zookeeper: str, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "shoal.zookeeper"):
        await (await open_coordination(zookeeper, environment={})).close()
        assert "can be changed by everybody" in caplog.text and "SHOAL_ZK_AUTH" in caplog.text
        caplog.clear()
        await (await open_coordination(zookeeper, environment=AUTH)).close()
        assert "was made without credentials" in caplog.text
        caplog.clear()
        await (await open_coordination(zookeeper + "-own", environment=AUTH)).close()
        assert not caplog.text


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """A CA (ca.pem), and what it has signed: server.pem and node.pem with their keys."""
    folder = tmp_path_factory.mktemp("tls")

    def openssl(*arguments: str) -> None:
        subprocess.run(["openssl", *arguments], cwd=folder, check=True, capture_output=True)

    curve = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2")
    openssl("req", "-x509", *curve, "-keyout", "ca.key", "-out", "ca.pem", "-subj", "/CN=test CA")
    for name in ("server", "node"):
        openssl("req", *curve[:-2], "-keyout", f"{name}.key", "-out", f"{name}.csr", "-subj", f"/CN={name}")
        (folder / "names").write_text("subjectAltName=IP:127.0.0.1\n")
        openssl(
            *("x509", "-req", "-in", f"{name}.csr", "-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial"),
            *("-days", "2", "-extfile", "names", "-out", f"{name}.pem"),
        )
    (folder / "store.pem").write_text((folder / "server.key").read_text() + (folder / "server.pem").read_text())
    return folder


@pytest.fixture(scope="module")
def tls_server(certificates: pathlib.Path) -> Iterator[str]:
    """HOST:PORT of a ZooKeeper that speaks TLS there, and asks for the client's certificate."""
    port = free_port()
    settings = (
        f"secureClientPort={port}",
        "secureClientPortAddress=127.0.0.1",
        "serverCnxnFactory=org.apache.zookeeper.server.NettyServerCnxnFactory",
        f"ssl.keyStore.location={certificates / 'store.pem'}",
        "ssl.keyStore.type=PEM",
        f"ssl.trustStore.location={certificates / 'ca.pem'}",
        "ssl.trustStore.type=PEM",
    )
    with ZooKeeper(settings=settings):
        yield f"127.0.0.1:{port}"


async def test_tls_identifies_both_sides(tls_server: str, certificates: pathlib.Path) -> None:
    url = f"zk://{tls_server}/shoal"
    files = {"SHOAL_ZK_TLS_CA": "ca.pem", "SHOAL_ZK_TLS_CERT": "node.pem", "SHOAL_ZK_TLS_KEY": "node.key"}
    environment = {name: str(certificates / file) for name, file in files.items()}
    session = await open_coordination(url, environment=environment | AUTH)
    big = b"x" * 900_000
    await session.create("big", big)
    assert await session.get("big") == Znode(big, 0)
    await session.close()
    for wrong in ({"SHOAL_ZK_TLS_CA": environment["SHOAL_ZK_TLS_CA"]}, {}):
        with pytest.raises(SqlError) as error:
            await open_coordination(url, environment=wrong, timeout=1.0)
        assert error.value.sqlstate == "08001"
    with pytest.raises(SqlError, match="SHOAL_ZK_TLS_CA"):
        await open_coordination(url, environment={"SHOAL_ZK_TLS_CA": str(certificates / "none")})
