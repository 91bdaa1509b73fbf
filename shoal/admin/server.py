"""The administration port's server: an aiohttp application whose routes come from groups (groups.py).

It listens before the node is there, so that /healthz and /readyz answer while the node starts; what asks for `parts`
until then gets 503 with one line. TLS and passwords are the SQL port's matter: like it, this port is for this machine
alone (loopback), and pages of other origins that a browser on it shows may not ask.
"""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import orjson
from aiohttp import web

from engine.node import Node
from shoal.config import Config, ConfigError
from wire.http import asks_this_machine
from wire.server import Server, is_loopback

if TYPE_CHECKING:
    from shoal.cluster.member import Member

REQUEST_LIMIT = 16 << 20  # bytes
CLOSE_GRACE = 1.0  # seconds that answers under way get when the node stops

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
RouteGroup = Callable[["Admin"], Iterable[web.RouteDef]]


@dataclass(frozen=True, slots=True)
class Parts:
    """What routes look at. `member` is None on a node alone."""

    config: Config
    node: Node
    server: Server
    member: Member | None


class Admin:
    """Made before the node; `serves` and `stops` tell it how far the node is."""

    def __init__(self, host: str, port: int, groups: Iterable[RouteGroup]) -> None:
        self.address = (host, port)
        self.why = "the node is starting"  # it does not serve; '': it does
        self._parts: Parts | None = None
        application = web.Application(client_max_size=REQUEST_LIMIT, middlewares=[_guard])
        for group in groups:
            application.add_routes(group(self))
        self._runner = web.AppRunner(
            application, handler_cancellation=True, access_log=None, shutdown_timeout=CLOSE_GRACE
        )

    @property
    def parts(self) -> Parts:
        """Raises web.HTTPServiceUnavailable until the node is there."""
        if self._parts is None:
            raise web.HTTPServiceUnavailable(text=self.why + "\n")
        return self._parts

    @property
    def shown(self) -> str:
        """HOST:PORT as in a URL."""
        host, port = self.address
        return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"

    async def start(self) -> None:
        """Listens, on a new port when asked for port 0. Raises ConfigError."""
        host, port = self.address
        if not is_loopback(host):
            raise ConfigError(f"refusing to serve administration on {host}: use --admin 127.0.0.1:PORT")
        await self._runner.setup()
        try:
            await web.TCPSite(self._runner, host, port).start()
        except OSError as error:
            await self._runner.cleanup()
            reason = os.strerror(error.errno or 0)
            raise ConfigError(f"cannot listen on {host}:{port}: {reason}; choose another with --admin") from error
        self.address = (host, self._runner.addresses[0][1])

    def serves(self, config: Config, node: Node, server: Server, member: Member | None) -> None:
        """Clients are let in."""
        self._parts = Parts(config, node, server, member)
        self.why = ""

    def stops(self) -> None:
        """No new clients are let in."""
        self.why = "the node is shutting down"

    async def close(self) -> None:
        await self._runner.cleanup()


def as_json(value: object, status: int = 200) -> web.Response:
    """An answer in JSON."""
    return web.Response(body=orjson.dumps(value) + b"\n", status=status, content_type="application/json")


@web.middleware
async def _guard(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Only this machine, by its own names; and of web pages, only those that this port itself has shown."""
    origin = request.headers.get("Origin")
    if not asks_this_machine(request) or (origin is not None and origin != f"http://{request.host}"):
        raise web.HTTPForbidden(text="requests from other pages, or for another host, are refused\n")
    return await handler(request)
