"""The administration port's server: an aiohttp application whose routes come from groups (groups.py).

It listens before the node exists, so that /healthz and /readyz answer while the node starts; handlers that need `parts`
return 503 with one line until then.

Without TLS it is for this machine alone (loopback, and its own names in the requests). Beyond this machine it uses TLS,
with the SQL port's certificate, and accepts addresses from which the SQL port's host rules allow a connection. /metrics
and the health checks need no password; the console asks for one. Web pages of other origins are refused.
"""

from __future__ import annotations

import os
import ssl
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import orjson
from aiohttp import web

from engine.node.node import Node
from shoal.config import HTTPS, Config, ConfigError
from wire.host_rules import LOCAL, SCRAM, Rule, may_come
from wire.http import asks_this_machine
from wire.server import Server, is_loopback

if TYPE_CHECKING:
    from shoal.cluster.member import ClusterMember

REQUEST_LIMIT = 16 << 20  # bytes
CLOSE_GRACE = 1.0  # seconds that answers under way get when the node stops

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
RouteGroup = Callable[["Admin"], Iterable[web.RouteDef]]


@dataclass(frozen=True, slots=True)
class AdminParts:
    """The parts of the server that routes use. `member` is None on a single node."""

    config: Config
    node: Node
    server: Server
    member: ClusterMember | None


class Admin:
    """Made before the node; `set_serving` and `set_stopping` report the state of the node."""

    def __init__(
        self,
        host: str,
        port: int,
        groups: Iterable[RouteGroup],
        rules: Sequence[Rule] = LOCAL,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        """`rules` are the SQL port's; without `tls` the address must be loopback."""
        self.address = (host, port)
        self.rules = rules
        self.tls = tls
        self.why = "the node is starting"  # it does not serve; '': it does
        self._parts: AdminParts | None = None
        application = web.Application(client_max_size=REQUEST_LIMIT, middlewares=[self._guard])
        for group in groups:
            application.add_routes(group(self))
        self._runner = web.AppRunner(
            application, handler_cancellation=True, access_log=None, shutdown_timeout=CLOSE_GRACE
        )

    @property
    def parts(self) -> AdminParts:
        """Raises web.HTTPServiceUnavailable until the node exists."""
        if self._parts is None:
            raise web.HTTPServiceUnavailable(text=self.why + "\n")
        return self._parts

    @property
    def url_address(self) -> str:
        """HOST:PORT as in a URL; with https:// before it for TLS."""
        host, port = self.address
        scheme = "" if self.tls is None else HTTPS
        return f"{scheme}[{host}]:{port}" if ":" in host else f"{scheme}{host}:{port}"

    @property
    def url(self) -> str:
        return self.url_address if self.tls is not None else f"http://{self.url_address}"

    async def start(self) -> None:
        """Listens, on a free port for port 0. Raises ConfigError."""
        host, port = self.address
        if not is_loopback(host):
            if self.tls is None:
                raise ConfigError(f"refusing to serve administration on {host} without TLS: use --admin 127.0.0.1:PORT")
            if all(rule.method != SCRAM for rule in self.rules):
                raise ConfigError(
                    f"refusing to serve administration on {host}: without a password rule it accepts only this "
                    "machine; use --admin 127.0.0.1:PORT, or --host-rules FILE"
                )
        await self._runner.setup()
        try:
            await web.TCPSite(self._runner, host, port, ssl_context=self.tls).start()
        except OSError as error:
            await self._runner.cleanup()
            reason = os.strerror(error.errno or 0)
            raise ConfigError(f"cannot listen on {host}:{port}: {reason}; choose another with --admin") from error
        self.address = (host, self._runner.addresses[0][1])

    def set_serving(self, config: Config, node: Node, server: Server, member: ClusterMember | None) -> None:
        """Clients are accepted."""
        self._parts = AdminParts(config, node, server, member)
        self.why = ""

    def set_stopping(self) -> None:
        """No new clients are accepted."""
        self.why = "the node is shutting down"

    async def close(self) -> None:
        await self._runner.cleanup()

    @web.middleware
    async def _guard(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Accepts only web pages of this port itself. Without TLS, only this machine by its own names: with TLS no
        other name leads here, because the certificate is not for it."""
        origin = request.headers.get("Origin")
        if origin is not None and origin != f"{request.scheme}://{request.host}":
            raise web.HTTPForbidden(text="requests from other pages are refused\n")
        if self.tls is None:
            if not asks_this_machine(request):
                raise web.HTTPForbidden(text="requests for another host are refused\n")
        elif not is_loopback(request.remote or "") and not may_come(self.rules, True, request.remote or ""):
            raise web.HTTPForbidden(text=f"no host rule allows connections from {request.remote}\n")
        return await handler(request)


def as_json(value: object, status: int = 200) -> web.Response:
    """An answer in JSON."""
    return web.Response(body=orjson.dumps(value) + b"\n", status=status, content_type="application/json")
