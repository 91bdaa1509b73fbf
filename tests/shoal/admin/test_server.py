"""The administration port: who may ask, what it says of the node, and that it is gone with it."""

from __future__ import annotations

import pathlib
import socket
import ssl
from collections.abc import AsyncIterator, Iterable
from types import SimpleNamespace
from typing import Any

import aiohttp
import pytest
from aiohttp import web

from shoal.access import admin_tls
from shoal.admin import health
from shoal.admin.server import Admin
from shoal.cli import main
from shoal.config import Config, ConfigError
from tests.replication.stores.certificates import Certificate, make_certificate
from wire.host_rules import parse


def _page(admin: Admin) -> Iterable[web.RouteDef]:
    async def answer(_: web.Request) -> web.StreamResponse:
        return web.Response(text=str(admin.parts.node))

    return [web.get("/page", answer)]


@pytest.fixture
async def admin() -> AsyncIterator[Admin]:
    made = Admin("127.0.0.1", 0, (health.routes, _page))
    await made.start()
    yield made
    await made.close()


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Certificate:
    return make_certificate(tmp_path_factory.mktemp("tls"), "admin")


@pytest.fixture
async def http() -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession() as session:
        yield session


async def _get(
    http: aiohttp.ClientSession, admin: Admin, path: str, headers: dict[str, str] | None = None
) -> tuple[int, str]:
    async with http.get(f"http://{admin.url_address}{path}", headers=headers) as answer:
        return answer.status, await answer.text()


async def test_a_starting_node_is_alive_and_not_ready(admin: Admin, http: aiohttp.ClientSession) -> None:
    assert (await _get(http, admin, "/healthz"))[0] == 200
    assert await _get(http, admin, "/readyz") == (503, '{"ready":false,"why":"the node is starting"}\n')
    assert await _get(http, admin, "/page") == (503, "the node is starting\n")


async def test_a_node_alone_is_ready_until_it_stops(admin: Admin, http: aiohttp.ClientSession) -> None:
    _serve(admin, None)
    assert await _get(http, admin, "/readyz") == (200, '{"ready":true,"why":""}\n')
    admin.set_stopping()
    status, body = await _get(http, admin, "/readyz")
    assert status == 503 and "shutting down" in body
    assert (await _get(http, admin, "/healthz"))[0] == 200


@pytest.mark.parametrize(
    ("leader", "stale", "why"),
    [("a", False, ""), ("", False, "tablespace pg_default has no leader"), ("a", True, "ZooKeeper cannot be reached")],
)
async def test_a_node_of_a_cluster_says_why_it_is_not_ready(
    admin: Admin, http: aiohttp.ClientSession, leader: str, stale: bool, why: str
) -> None:
    spaces = [SimpleNamespace(name="pg_default", leader=leader), SimpleNamespace(name="other", leader="")]
    _serve(admin, SimpleNamespace(stale=stale, tablespaces=lambda: spaces))
    status, body = await _get(http, admin, "/readyz")
    assert (status, f'"why":"{why}"' in body) == (503 if why else 200, True)


@pytest.mark.parametrize("headers", [{"Origin": "http://evil.example"}, {"Host": "evil.example"}, {"Origin": "null"}])
async def test_pages_of_others_may_not_ask(admin: Admin, http: aiohttp.ClientSession, headers: dict[str, str]) -> None:
    assert (await _get(http, admin, "/healthz", headers))[0] == 403
    own = {"Origin": f"http://{admin.url_address}"}
    assert (await _get(http, admin, "/healthz", own))[0] == 200


async def test_in_the_clear_it_listens_on_loopback_only() -> None:
    with pytest.raises(ConfigError, match=r"without TLS: use --admin 127\.0\.0\.1:PORT"):
        await Admin("0.0.0.0", 0, ()).start()
    with pytest.raises(ConfigError, match="without TLS: give --tls-cert"):
        admin_tls(Config(admin="0.0.0.0:8080"))
    with pytest.raises(ConfigError, match="without TLS: give --tls-cert"):
        admin_tls(Config(admin="https://127.0.0.1:8080"))


async def test_with_tls_it_wants_a_password_rule_beyond_this_machine(certificate: Certificate) -> None:
    tls = admin_tls(Config(admin="0.0.0.0:0", tls_cert=certificate.cert, tls_key=certificate.key))
    with pytest.raises(ConfigError, match="without a password rule"):
        await Admin("0.0.0.0", 0, (), tls=tls).start()


@pytest.mark.parametrize(("network", "status"), [("203.0.113.0/24", 403), ("all", 200)])
async def test_with_tls_it_answers_whom_host_rules_let_in(
    http: aiohttp.ClientSession, certificate: Certificate, network: str, status: int
) -> None:
    outside = _own_address()
    tls = admin_tls(Config(admin="0.0.0.0:0", tls_cert=certificate.cert, tls_key=certificate.key))
    admin = Admin("0.0.0.0", 0, (health.routes,), parse(f"hostssl all all {network} scram-sha-256"), tls)
    await admin.start()
    try:
        port = admin.address[1]
        assert admin.url == f"https://0.0.0.0:{port}"
        trusting = ssl.create_default_context(cafile=certificate.cert)
        async with http.get(f"https://127.0.0.1:{port}/healthz", ssl=trusting) as answer:
            assert answer.status == 200
        trusting.check_hostname = False
        async with http.get(f"https://{outside}:{port}/healthz", ssl=trusting) as answer:
            assert answer.status == status
        with pytest.raises(aiohttp.ClientError):
            await http.get(f"http://127.0.0.1:{port}/healthz")
    finally:
        await admin.close()


def _own_address() -> str:
    """Of this machine, and not of loopback."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))  # sends nothing
        except OSError:
            pytest.skip("this machine has no address but loopback's")
        address: str = probe.getsockname()[0]
    return address


async def test_an_address_in_use_is_one_clear_line(admin: Admin) -> None:
    with pytest.raises(ConfigError, match="choose another with --admin"):
        await Admin(*admin.address, ()).start()


@pytest.mark.usefixtures("restored_process")
def test_a_wrong_address_ends_the_start(tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["serve", "--data", str(tmp_path), "--listen", "127.0.0.1:0", "--admin", "8080"]) == 1
    assert capsys.readouterr().err == 'shoal: "8080" is not HOST:PORT, such as 127.0.0.1:5432\n'


def _serve(admin: Admin, view: Any) -> None:
    node: Any = SimpleNamespace(cluster_view=view)
    server: Any = None
    admin.set_serving(Config(), node, server, None)
