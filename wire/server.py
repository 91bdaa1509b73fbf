"""The TCP server: accepts connections, opens sessions, stops in order.

Host rules decide about connections (wire/host_rules.py). Without rules only this machine may connect, with any role: a
server then refuses to listen elsewhere (checked in `start`), and `trust` is for addresses of this machine only.

Logged in clients count against `max_connections`, of which the last ones are for superusers. Clients before login do
not count: a separate number of them is allowed, and the oldest is closed for a new one.
"""

from __future__ import annotations

import asyncio
import ipaddress
import re
import secrets
import socket
import ssl
from collections.abc import Callable, Sequence

from catalog.catalog import Catalog
from catalog.errors import SqlError
from catalog.privileges import roles_of
from catalog.schema import Role
from engine.connect import open_session
from engine.foreground import foreground
from engine.node.node import Node
from engine.session.session import Session
from wire.client_link import ClientLink
from wire.connection import Connection
from wire.forwarding_services import ForwardingServices
from wire.host_rules import LOCAL, REJECT, SCRAM, Rule, find
from wire.leader_forwarding import ClusterConnection
from wire.password_throttle import PasswordThrottle
from wire.peer_authentication import PREFIX
from wire.scram import Exchange

SHUTDOWN_GRACE = 10.0  # seconds for running statements to finish
CLEANUP_GRACE = 1.0  # seconds for cancelled statements to clean up
RESERVED = 3  # connections for superusers
ENTERING = 4  # a fourth of max_connections, in addition


class Server:
    """Listens on one address. `start` raises OSError when the port is taken, ValueError for an address off loopback."""

    def __init__(
        self,
        node: Node,
        host: str,
        port: int,
        max_connections: int = 500,
        cluster: ForwardingServices | None = None,
        rules: Sequence[Rule] = LOCAL,
        tls: ssl.SSLContext | None = None,
        mock_key: bytes = b"",
        reserved: int = RESERVED,
    ) -> None:
        """`cluster`: the node's part in a cluster; it has a replica then. `tls`: for clients that ask for it.
        `mock_key`: for the salts of roles without a password (wire/scram.py); random by default. `reserved`: number of
        connections for superusers; at least one is for others."""
        self.node = node
        self._cluster = cluster
        self.rules = rules
        self.tls = tls
        self.address = (host, port)
        self.limit(max_connections, reserved)
        self._entering: dict[ClientLink, None] = {}  # without a session, in the order of their arrival
        self.authentication_timeout = 10.0
        self.guesses = PasswordThrottle()
        self._mock_key = mock_key or secrets.token_bytes(32)
        self._connections: set[ClientLink] = set()
        self._server: asyncio.Server | None = None
        self._stopping = False
        self._to_flush: list[Callable[[], None]] = []
        self._call_soon: Callable[[Callable[[], None]], object] | None = None  # the loop's, once there is a connection
        self._foreground = foreground()

    def limit(self, max_connections: int, reserved: int) -> None:
        """Sets the maximum number of connections, and the number of those for superusers."""
        self.max_connections = max_connections
        self.reserved = min(reserved, max_connections - 1)

    async def start(self) -> int:
        """Listens; returns the port (a free one for port 0)."""
        host, port = self.address
        if not is_loopback(host) and all(rule.method != SCRAM for rule in self.rules):
            raise ValueError(
                f"refusing to listen on {host}: without a password rule Shoal accepts local connections only; use "
                "--listen 127.0.0.1:PORT, or --host-rules FILE with a line like: hostssl all all 10.0.0.0/8 "
                "scram-sha-256"
            )
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(self._connection, host, port, backlog=512)
        bound: int = self._server.sockets[0].getsockname()[1]
        self.address = (host, bound)
        return bound

    def _connection(self) -> Connection:
        return Connection(self) if self._cluster is None else ClusterConnection(self, self._cluster)

    def accept(self) -> Connection:
        """The server's side of a connection from within its own process (`ClientConnection.within`)."""
        return self._connection()

    async def stop(self) -> None:
        """Accepts no new connections, lets running statements finish for a while, then ends every connection."""
        self._stopping = True
        if self._server is not None:
            self._server.close()
        notice = SqlError("57P01", "terminating connection due to administrator command", severity="FATAL")
        deadline = asyncio.get_running_loop().time() + SHUTDOWN_GRACE
        while self._connections and asyncio.get_running_loop().time() < deadline:
            for connection in list(self._connections):
                if connection.idle:
                    connection.shut_down(notice)
            await asyncio.sleep(0.02)
        for connection in list(self._connections):
            if connection.session is not None:
                connection.session.cancel(notice)
            connection.shut_down(notice)
        deadline = asyncio.get_running_loop().time() + CLEANUP_GRACE
        while self.node.sessions and asyncio.get_running_loop().time() < deadline:
            await asyncio.sleep(0.02)

    @property
    def connections(self) -> int:
        """The number of connections, including those without a session."""
        return len(self._connections)

    # ---- Host ---------------------------------------------------------------------------------------------------

    def add_connection(self, connection: ClientLink) -> None:
        if self._call_soon is None:  # asking for the loop costs a system call, which would be one per statement
            self._call_soon = asyncio.get_running_loop().call_soon
        self._connections.add(connection)
        transport = connection._transport
        peer = transport.get_extra_info("socket")
        if peer is not None and peer.family in (socket.AF_INET, socket.AF_INET6):
            peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._entering[connection] = None
        if len(self._connections) > self.max_connections + max(self.max_connections // ENTERING, 1):
            waiting = next(iter(self._entering))
            del self._entering[waiting]
            waiting.shut_down(_too_many())

    def remove_connection(self, connection: ClientLink) -> None:
        self._connections.discard(connection)
        self._entering.pop(connection, None)

    def flush_soon(self, flush: Callable[[], None]) -> None:
        if not self._to_flush:
            assert self._call_soon is not None
            self._call_soon(self._flush_all)
        self._to_flush.append(flush)

    def _flush_all(self) -> None:
        waiting, self._to_flush = self._to_flush, []
        self._foreground.answered += len(waiting)
        for flush in waiting:
            flush()

    def cancel(self, process_id: int, secret: bytes) -> None:
        self.node.cancel(process_id, secret)

    def authentication(self, parameters: dict[str, str], address: str, secure: bool) -> Exchange | None:
        """The proof that the client of a startup message must give, None: none. Raises 28000 (FATAL)."""
        user = parameters.get("user", "")
        if not user or not address:
            return None  # `open_session` refuses a startup message without a name
        database = parameters.get("database") or user
        catalog = self.node.shared_catalog
        role = catalog.get(catalog.roles.get(user, 0))
        groups = _groups(catalog, role) if isinstance(role, Role) else {user}
        rule = find(self.rules, secure, address, database, user, groups)
        if rule is None or rule.method == REJECT:
            how = "with TLS" if secure else "without TLS"
            raise SqlError(
                "28000",
                f'no host rule allows user "{user}" to use database "{database}" from {address}, {how}',
                severity="FATAL",
            )
        if rule.method != SCRAM:
            return None
        verifier = role.password if isinstance(role, Role) else None
        if isinstance(role, Role) and role.valid_until is not None and role.valid_until < self.node.clock():
            verifier = None
        return Exchange(verifier, user, self._mock_key)

    def open_session(self, parameters: dict[str, str], connection: ClientLink) -> Session:
        """The session of a startup message. Raises 28000, 3D000, 53300, 55000, 57P03 (FATAL)."""
        user = parameters.get("user", "")
        if not user:
            raise SqlError("28000", "no PostgreSQL user name specified in startup packet", severity="FATAL")
        if self._stopping:
            raise SqlError("57P03", "the database system is shutting down", severity="FATAL")
        database = parameters.get("database") or user
        if parameters.get("replication", "false").lower() not in ("false", "off", "no", "0"):
            raise SqlError("0A000", "the replication protocol is not supported", severity="FATAL")
        settings = {
            name: value
            for name, value in parameters.items()
            if name not in ("user", "database", "options", "replication")
        }
        settings.update(parse_options(parameters.get("options", "")))
        if any(name.lower().startswith(PREFIX) for name in settings):
            raise SqlError("28000", "this node is not in a cluster: it accepts no sessions of nodes", severity="FATAL")
        self._check_room(user)
        session = open_session(self.node, user, database, settings)
        self._entering.pop(connection, None)
        return session

    def _check_room(self, user: str) -> None:
        """Raises 53300 if there is no room for the user."""
        left = self.max_connections - (len(self._connections) - len(self._entering))
        if left > self.reserved:
            return
        catalog = self.node.shared_catalog
        role = catalog.get(catalog.roles.get(user, 0))
        if left <= 0:
            raise _too_many()
        if isinstance(role, Role) and not role.superuser:
            message = "remaining connection slots are reserved for non-replication superuser connections"
            raise SqlError("53300", message, severity="FATAL")


def _too_many() -> SqlError:
    return SqlError("53300", "sorry, too many clients already", severity="FATAL")


def _groups(catalog: Catalog, role: Role) -> set[str]:
    """The names of the role and of all roles of which it is a member."""
    found = (catalog.get(oid) for oid in roles_of(catalog, role, inherited=False))
    return {item.name for item in found if isinstance(item, Role)}


def parse_options(text: str) -> dict[str, str]:
    """The settings in the startup parameter `options`: '-c name=value' and '--name=value' (55.7, 20.1.3)."""
    words = [re.sub(r"\\(.)", r"\1", word) for word in re.findall(r"(?:\\.|\S)+", text)]
    found: dict[str, str] = {}
    index = 0
    while index < len(words):
        word = words[index]
        if word == "-c" and index + 1 < len(words):
            index += 1
            word = words[index]
        elif word.startswith(("-c", "--")):
            word = word[2:]
        else:
            raise SqlError("42601", f'invalid command-line argument for server process: "{word}"', severity="FATAL")
        name, separator, value = word.partition("=")
        if not separator:
            raise SqlError("42601", f"--{name} requires a value", severity="FATAL")
        found[name.replace("-", "_")] = value
        index += 1
    return found


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach the address."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
