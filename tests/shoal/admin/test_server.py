"""The administration port: who may ask, what it says of the node, and that it is gone with it."""

from __future__ import annotations

import pathlib
from collections.abc import AsyncIterator, Iterable
from types import SimpleNamespace
from typing import Any

import aiohttp
import pytest
from aiohttp import web

from shoal.admin import health
from shoal.admin.server import Admin
from shoal.cli import main
from shoal.config import Config, ConfigError


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


@pytest.fixture
async def http() -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession() as session:
        yield session


async def _get(
    http: aiohttp.ClientSession, admin: Admin, path: str, headers: dict[str, str] | None = None
) -> tuple[int, str]:
    async with http.get(f"http://{admin.shown}{path}", headers=headers) as answer:
        return answer.status, await answer.text()


async def test_a_starting_node_is_alive_and_not_ready(admin: Admin, http: aiohttp.ClientSession) -> None:
    assert (await _get(http, admin, "/healthz"))[0] == 200
    assert await _get(http, admin, "/readyz") == (503, '{"ready":false,"why":"the node is starting"}\n')
    assert await _get(http, admin, "/page") == (503, "the node is starting\n")


async def test_a_node_alone_is_ready_until_it_stops(admin: Admin, http: aiohttp.ClientSession) -> None:
    _serve(admin, None)
    assert await _get(http, admin, "/readyz") == (200, '{"ready":true,"why":""}\n')
    admin.stops()
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
    own = {"Origin": f"http://{admin.shown}"}
    assert (await _get(http, admin, "/healthz", own))[0] == 200


async def test_it_listens_on_loopback_only() -> None:
    with pytest.raises(ConfigError, match=r"--admin 127\.0\.0\.1:PORT"):
        await Admin("0.0.0.0", 0, ()).start()


async def test_an_address_in_use_is_one_clear_line(admin: Admin) -> None:
    with pytest.raises(ConfigError, match="choose another with --admin"):
        await Admin(*admin.address, ()).start()


def test_a_wrong_address_ends_the_start(tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["serve", "--data", str(tmp_path), "--listen", "127.0.0.1:0", "--admin", "8080"]) == 1
    assert capsys.readouterr().err == 'shoal: "8080" is not HOST:PORT, such as 127.0.0.1:5432\n'


def _serve(admin: Admin, view: Any) -> None:
    node: Any = SimpleNamespace(cluster_view=view)
    server: Any = None
    admin.serves(Config(), node, server, None)
