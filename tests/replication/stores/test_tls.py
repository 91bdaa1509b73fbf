"""Log stores behind TLS: who is trusted, who gets in."""

from __future__ import annotations

import pathlib
import socket
import ssl
from collections.abc import Iterator

import pytest

from catalog.errors import SqlError
from replication.interface import StoreUnavailableError
from replication.stores import open_store
from tests import forks
from tests.replication.stores.certificates import Certificate, make_certificate
from tests.replication.stores.log_process import LogProcess


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    return tmp_path_factory.mktemp("certificates")


@pytest.fixture(scope="module")
def certificate(folder: pathlib.Path) -> Certificate:
    return make_certificate(folder, "server")


@pytest.fixture(scope="module")
def client(folder: pathlib.Path) -> Certificate:
    return make_certificate(folder, "client")


@pytest.fixture(scope="module")
def server(certificate: Certificate) -> Iterator[LogProcess]:
    options = ["--tls-cert", certificate.cert, "--tls-key", certificate.key]
    with LogProcess({"SHOAL_STORE_SECRET": "hushhush"}, options) as process:
        yield process


@pytest.fixture(autouse=True)
def environment(certificate: Certificate, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHOAL_STORE_SECRET", "hushhush")
    monkeypatch.setenv("SHOAL_STORE_TLS_CA", certificate.cert)


async def refusal(url: str) -> str:
    """What a put is refused with."""
    store = open_store(url, timeout=5.0)
    try:
        with pytest.raises(StoreUnavailableError) as caught:
            await store.put("a", b"x")
        return str(caught.value)
    finally:
        await store.close()


async def test_objects_go_over_tls(server: LogProcess) -> None:
    assert server.url.startswith("logs://127.0.0.1:")
    store = open_store(server.url + "/some")
    assert store.url == server.url + "/some"
    await store.put("a/b", b"content" * 1000)
    assert await store.get("a/b") == b"content" * 1000
    await store.close()


async def test_a_server_of_another_authority_is_not_trusted(
    server: LogProcess, client: Certificate, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SHOAL_STORE_TLS_CA", client.cert)
    assert "its certificate is not accepted: self-signed certificate" in await refusal(server.url)
    monkeypatch.delenv("SHOAL_STORE_TLS_CA")
    assert "its certificate is not accepted" in await refusal(server.url)


async def test_a_certificate_is_for_its_host(folder: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    other = make_certificate(folder, "elsewhere", "10.1.2.3")
    monkeypatch.setenv("SHOAL_STORE_TLS_CA", other.cert)
    with LogProcess(options=["--tls-cert", other.cert, "--tls-key", other.key]) as process:
        assert "IP address mismatch" in await refusal(process.url)


async def test_plain_and_tls_do_not_speak_to_each_other(server: LogProcess) -> None:
    assert await refusal(server.url.replace("logs://", "log://"))
    with LogProcess() as plain:
        assert "no TLS connection" in await refusal(plain.url.replace("log://", "logs://"))


async def test_clients_must_show_a_certificate_where_they_are_asked(
    certificate: Certificate, client: Certificate, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = ["--tls-cert", certificate.cert, "--tls-key", certificate.key, "--tls-client-ca", client.cert]
    with LogProcess({"SHOAL_STORE_SECRET": "hushhush"}, options) as process:
        assert await refusal(process.url)
        monkeypatch.setenv("SHOAL_STORE_TLS_CERT", certificate.cert)  # of another authority
        monkeypatch.setenv("SHOAL_STORE_TLS_KEY", certificate.key)
        assert await refusal(process.url)
        monkeypatch.setenv("SHOAL_STORE_TLS_CERT", client.cert)
        monkeypatch.setenv("SHOAL_STORE_TLS_KEY", client.key)
        store = open_store(process.url)
        await store.put("a", b"x")
        await store.close()


@pytest.mark.filterwarnings("ignore:ssl.TLSVersion:DeprecationWarning")  # that it is old is the matter here
def test_old_versions_are_refused(server: LogProcess, certificate: Certificate) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.load_verify_locations(certificate.cert)
    context.set_ciphers("ALL:@SECLEVEL=0")
    context.minimum_version = ssl.TLSVersion.TLSv1
    context.maximum_version = ssl.TLSVersion.TLSv1_1
    port = int(server.url.rpartition(":")[2])
    with socket.create_connection(("127.0.0.1", port)) as connection, pytest.raises(ssl.SSLError):
        context.wrap_socket(connection, server_hostname="127.0.0.1")


def test_files_that_cannot_be_used_are_one_line(folder: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHOAL_STORE_TLS_CA", str(folder / "none"))
    with pytest.raises(SqlError) as caught:
        open_store("logs://127.0.0.1:1")
    assert caught.value.sqlstate == "58P01"
    for options, told in (
        (["--tls-cert", str(folder / "none")], "cannot use the TLS files"),
        (["--tls-key", "x"], "need --tls-cert"),
    ):
        done = forks.run("logstore", "--data", str(folder / "data"), *options)
        assert done.returncode == 1 and told in done.stderr and len(done.stderr.splitlines()) == 1
