"""The router of a cluster: one address that connects each client to a live node.

    client -> Router: startup packet read -> a node picked (wire/roster.py) -> startup packet sent on
           <-> bytes in both directions, unchanged, until one side closes

After the startup packet the router changes nothing: client and node authenticate each other. It reads the messages only
to know three things: the cancel key of the node (so that a cancel request finds the node), whether a statement is
running, and whether a message is incomplete. So when a node dies, the client gets an error where a message may begin:

    nothing was running            57P01 (FATAL): the transaction, if there was one, is rolled back
    something was running          08007 (FATAL): it may have been committed or not
    an incomplete message          the connection closes without an error

A client goes to the least loaded node that answers. The startup option `shoal.route` (any | leader | replica;
`options='-c shoal.route=leader'`) chooses the node that leads pg_default, or another one. A node that cannot be
reached, or answers 57P03 or 53300 (starting, stopping, full), is skipped, and all are tried again until DEADLINE; then
57P03.

Bounds: max_connections, 53300 beyond, no answer beyond twice as many; a side is not read while the other one has more
than WRITE_BEHIND unsent bytes; a startup packet must arrive within AUTHENTICATION_TIMEOUT.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
import struct
from typing import Any

from catalog.errors import SqlError
from replication.directory import NodeDirectory
from replication.interface import Node
from wire import client_core, core, messages
from wire.client import ClientConnection, ConnectionLostError, keep_alive, send_cancel
from wire.client_core import FrameStream
from wire.roster import Roster
from wire.server import is_loopback, parse_options

log = logging.getLogger("shoal.router")

WRITE_BEHIND = 1 << 20
AUTHENTICATION_TIMEOUT = 10.0  # seconds
DIAL_TIMEOUT = 2.0  # seconds in which a node must accept the connection and send its first answer
DEADLINE = 10.0  # seconds within which a node must be found
RETRY_PAUSE = 0.2
SHUTDOWN_GRACE = 10.0
ROUTES = ("any", "leader", "replica")
_PASSED_OVER = frozenset(("57P03", "53300"))
_LENGTH = struct.Struct(">i").unpack_from


class Tracker:
    """Reads one direction: counts messages of the kinds in `counted`, and knows the kind of the last message and
    whether the bytes end at the end of a message."""

    __slots__ = ("_counted", "_head", "_rest", "count", "last_kind")

    def __init__(self, counted: bytes) -> None:
        self._counted = frozenset(counted)
        self._head = b""  # of an incomplete header
        self._rest = 0  # remaining bytes of the last message
        self.count = 0
        self.last_kind = 0

    @property
    def at_boundary(self) -> bool:
        return not self._head and self._rest == 0

    def feed(self, data: bytes) -> None:
        """Follows the messages in bytes that may be cut anywhere. Raises 08P01 (FATAL) for invalid messages."""
        if self._head:
            data = self._head + data
        size = len(data)
        position = self._rest
        counted = self._counted
        kind = self.last_kind
        while position + 5 <= size:
            kind = data[position]
            length = _LENGTH(data, position + 1)[0]
            if length < 4:
                raise client_core.protocol_error(f"invalid length {length} of message type 0x{kind:02X}")
            position += 1 + length
            if kind in counted:
                self.count += 1
        self.last_kind = kind
        self._rest = max(position - size, 0)
        self._head = data[position:]


class _Side(asyncio.Protocol):
    """One of two connected sides. It writes its input to the other side; a slow side stops the other."""

    def __init__(self) -> None:
        self.transport: Any = None
        self.other: _Side | None = None
        self.closed = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport
        self.transport.set_write_buffer_limits(high=WRITE_BEHIND, low=WRITE_BEHIND // 4)
        keep_alive(transport)

    def pause_writing(self) -> None:
        if self.other is not None and not self.other.closing:
            self.other.transport.pause_reading()

    def resume_writing(self) -> None:
        if self.other is not None and not self.other.closing:
            self.other.transport.resume_reading()

    @property
    def closing(self) -> bool:
        return self.closed or self.transport.is_closing()

    def write(self, data: bytes) -> None:
        if not self.closing:
            self.transport.write(data)


class NodeSide(_Side):
    """The connection to a node. `first` resolves with the first frame of its answer, None if it closes before."""

    def __init__(self) -> None:
        super().__init__()
        self.first: asyncio.Future[client_core.Frame | None] = asyncio.get_running_loop().create_future()
        self.key: tuple[int, bytes] | None = None
        self.sent = Tracker(b"Z")
        self._starting = FrameStream()
        self._client: ClientSide | None = None
        self._started = False

    def data_received(self, data: bytes) -> None:
        if self._started:
            client = self._client
            assert client is not None
            try:
                self.sent.feed(data)
                client.write(data)
            except SqlError:
                client.transport.abort()
            return
        self._starting.receive_data(data)
        if self._client is not None:
            self._pass_start()
        elif not self.first.done():
            frame = self._starting.next_frame()
            if frame is not None:
                self.transport.pause_reading()
                self.first.set_result(frame)

    def join(self, client: ClientSide, first: client_core.Frame) -> None:
        """Connects the client to this node, with the first frame that it has sent."""
        self._client = self.other = client
        client.other = self
        self.sent.feed(first.data)
        client.write(first.data)
        self._pass_start()
        if self.closed:
            client.node_lost(self)
        else:
            self.transport.resume_reading()

    def _pass_start(self) -> None:
        """Messages up to the first ReadyForQuery, including the cancel key."""
        client = self._client
        assert client is not None
        try:
            while (frame := self._starting.next_frame()) is not None:
                if frame.kind == 0x4B:
                    self.key = int.from_bytes(frame.body[:4], "big"), frame.body[4:]
                    client.router.remember_key(self.key, client)
                self.sent.feed(frame.data)
                client.write(frame.data)
                if frame.kind == 0x5A:
                    self._started = True
                    rest = self._starting.take_rest()
                    self.sent.feed(rest)
                    client.write(rest)
        except SqlError as error:
            client.refuse(error)

    def connection_lost(self, error: Exception | None) -> None:
        self.closed = True
        if not self.first.done():
            self.first.set_result(None)
        if self._client is not None:
            self._client.node_lost(self)


class ClientSide(_Side):
    """A client's connection."""

    def __init__(self, router: Router) -> None:
        super().__init__()
        self.router = router
        self.node: Node | None = None
        self.asked = Tracker(b"QSF")  # answered by a ReadyForQuery
        self._core: core.ProtocolCore | None = core.ProtocolCore()
        self._early = b""  # bytes after the startup packet
        self._dialing: asyncio.Task[None] | None = None
        self._timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self._timer = asyncio.get_running_loop().call_later(AUTHENTICATION_TIMEOUT, self._late)
        self.router.add_client(self)

    def data_received(self, data: bytes) -> None:
        if self.other is not None:
            try:
                self.asked.feed(data)
            except SqlError as error:
                self.refuse(error)
            else:
                self.other.write(data)
        elif self._core is not None:
            self._start_up(self._core, data)
        else:
            self._early += data

    def _start_up(self, reader: core.ProtocolCore, data: bytes) -> None:
        reader.receive_data(data)
        try:
            while not self.closed:
                event = reader.next_event()
                if isinstance(event, core.EncryptionRequest):
                    self.write(messages.SSL_REFUSED)
                elif isinstance(event, core.CancelRequest):
                    self._leave_start()
                    self._dialing = self._task(self._cancel(event))
                    return
                elif isinstance(event, core.Startup):
                    self._early = data[len(data) - reader.buffered_bytes :] if reader.buffered_bytes else b""
                    self._leave_start()
                    self.router.admit()
                    route = route_of(event.parameters)
                    packet = client_core.startup(event.parameters, event.minor)
                    self._dialing = self._task(self._dial(route, packet))
                    return
                else:
                    return
        except SqlError as error:
            self.refuse(error)

    def _leave_start(self) -> None:
        self._core = None
        self.transport.pause_reading()
        if self._timer is not None:
            self._timer.cancel()

    def _task(self, work: Any) -> asyncio.Task[None]:
        return asyncio.get_running_loop().create_task(work)

    def _late(self) -> None:
        if self._core is not None:
            self.transport.close()

    async def _cancel(self, event: core.CancelRequest) -> None:
        await self.router.cancel(event.process_id, event.secret)
        self.transport.close()

    async def _dial(self, route: str, packet: bytes) -> None:
        try:
            node, side, first = await self.router.find_node(route, packet)
        except SqlError as error:
            self.refuse(error)
            return
        self.node = node
        side.join(self, first)
        if self._early:
            early, self._early = self._early, b""
            self.data_received(early)
        if not self.closing:
            self.transport.resume_reading()

    def refuse(self, error: SqlError) -> None:
        """Sends the error and closes."""
        if not self.closing:
            self.write(messages.error_response(error, "FATAL"))
            self.transport.close()

    @property
    def idle(self) -> bool:
        """Whether the node has answered all messages of the client."""
        side = self.other
        if not isinstance(side, NodeSide):
            return True
        return self.asked.at_boundary and self.asked.last_kind not in _HALF_SAID and side.sent.count > self.asked.count

    def node_lost(self, side: NodeSide) -> None:
        """The node has closed, or was abandoned."""
        self._forget(side)
        if self.closing:
            return
        if not side.sent.at_boundary:
            self.transport.abort()
        elif side.sent.last_kind == 0x45:  # it has sent the reason itself
            self.transport.close()
        elif self.idle:
            message = f"terminating connection because node {self._name} is gone"
            self.refuse(SqlError("57P01", message, hint="Connect again."))
        else:
            message = f"node {self._name} is gone, and the outcome of its statement is unknown"
            self.refuse(SqlError("08007", message, hint="Connect again and check whether it was done."))

    @property
    def _name(self) -> str:
        return "" if self.node is None else self.node.node

    def _forget(self, side: NodeSide) -> None:
        if side.key is not None:
            self.router.forget_key(side.key, self)
            side.key = None

    def connection_lost(self, error: Exception | None) -> None:
        self.closed = True
        if self._timer is not None:
            self._timer.cancel()
        if self._dialing is not None:
            self._dialing.cancel()
        if isinstance(self.other, NodeSide):
            self._forget(self.other)
            if not self.other.closed:
                self.other.transport.close()
        if self.node is not None:
            self.router.roster.remove_connection(self.node.node)
        self.router.remove_client(self)


_HALF_SAID = frozenset(b"PBDECHd")  # the kinds after which more will come


def route_of(parameters: dict[str, str]) -> str:
    """The route in a client's options. Raises 22023 (FATAL)."""
    wanted = parse_options(parameters.get("options", "")).get("shoal.route", parameters.get("shoal.route", "any"))
    if wanted not in ROUTES:
        message = f'invalid value for parameter "shoal.route": "{wanted}"'
        raise SqlError("22023", message, hint=f"Available values: {', '.join(ROUTES)}.", severity="FATAL")
    return wanted


class Router:
    """Listens on one address. `start` raises OSError when the port is taken, ValueError for an address off loopback."""

    def __init__(
        self,
        directory: NodeDirectory,
        host: str,
        port: int,
        *,
        max_connections: int = 2000,
        deadline: float = DEADLINE,
        dial_timeout: float = DIAL_TIMEOUT,
        roster: Roster | None = None,
    ) -> None:
        self.address = (host, port)
        self.max_connections = max_connections
        self.roster = roster or Roster(directory, on_silent=self.end_connections)
        self._deadline = deadline
        self._dial_timeout = dial_timeout
        self._clients: set[ClientSide] = set()
        self._keys: dict[int, list[tuple[bytes, ClientSide]]] = {}
        self._server: asyncio.Server | None = None

    async def start(self) -> int:
        """Listens; returns the port (a free one for port 0)."""
        host, port = self.address
        if not is_loopback(host):
            raise ValueError(
                f"refusing to listen on {host}: nodes take connections from their own machine without a password, so a "
                "router takes them from its own machine only; use --listen 127.0.0.1:PORT"
            )
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(lambda: ClientSide(self), host, port, backlog=512)
        bound: int = self._server.sockets[0].getsockname()[1]
        self.address = (host, bound)
        self.roster.start()
        return bound

    async def stop(self) -> None:
        """Accepts no new clients, ends the idle ones, and the others when they are answered or after a while."""
        if self._server is not None:
            self._server.close()
        await self.roster.stop()
        notice = SqlError("57P01", "terminating connection because the router is shutting down")
        end = asyncio.get_running_loop().time() + SHUTDOWN_GRACE
        while self._clients and asyncio.get_running_loop().time() < end:
            for client in list(self._clients):
                if client.idle:
                    client.refuse(notice)
            await asyncio.sleep(0.02)
        for client in list(self._clients):
            client.transport.abort()

    # ---- nodes ------------------------------------------------------------------------------------------------------

    async def find_node(self, route: str, packet: bytes) -> tuple[Node, NodeSide, client_core.Frame]:
        """A node that accepts the startup packet, its connection (counted in the roster until
        `Roster.remove_connection`), and the first frame of its answer. Raises 57P03."""
        loop = asyncio.get_running_loop()
        end = loop.time() + self._deadline
        tried: dict[str, str] = {}
        while True:
            for node in self.roster.candidates(route):
                left = min(self._dial_timeout, end - loop.time())
                if left <= 0:
                    break
                self.roster.add_connection(node.node)  # before anything is awaited: other new clients go elsewhere
                try:
                    answer = await self._try(node, packet, left)
                except asyncio.CancelledError:
                    self.roster.remove_connection(node.node)
                    raise
                if not isinstance(answer, str):
                    return node, *answer
                self.roster.remove_connection(node.node)
                tried[node.node] = answer
            if loop.time() >= end:
                raise self._nobody(route, tried)
            await asyncio.sleep(min(RETRY_PAUSE, max(end - loop.time(), 0)))

    async def open_connection(self, user: str, database: str) -> ClientConnection:
        """A connection of the router itself, as `find_node` finds it. Raises the node's error, 57P03."""
        loop = asyncio.get_running_loop()
        end = loop.time() + self._deadline
        parameters = {"user": user, "database": database, "application_name": "shoal router"}
        tried: dict[str, str] = {}
        while True:
            for node in self.roster.candidates("any"):
                left = max(min(self._dial_timeout, end - loop.time()), 0.05)
                try:
                    return await ClientConnection.open(node.host, node.port, parameters, timeout=left)
                except ConnectionLostError as error:
                    tried[node.node] = str(error)
                    self.roster.mark_unreachable(node.node, str(error))
                except SqlError as error:
                    if error.sqlstate not in _PASSED_OVER:
                        raise
                    tried[node.node] = error.message
            if loop.time() >= end:
                raise self._nobody("any", tried)
            await asyncio.sleep(RETRY_PAUSE)

    async def _try(self, node: Node, packet: bytes, timeout: float) -> tuple[NodeSide, client_core.Frame] | str:
        """The node's connection and first frame, or the reason to skip it."""
        side: NodeSide | None = None
        try:
            async with asyncio.timeout(timeout):
                _, side = await asyncio.get_running_loop().create_connection(NodeSide, node.host, node.port)
                side.write(packet)
                first = await side.first
        except OSError as error:  # TimeoutError too
            if side is not None:
                side.transport.abort()
            why = f"no answer within {timeout:.1f} s" if isinstance(error, TimeoutError) else str(error.strerror)
            self.roster.mark_unreachable(node.node, why)
            return why
        except asyncio.CancelledError:
            if side is not None:
                side.transport.abort()
            raise
        if first is None:
            self.roster.mark_unreachable(node.node, "it closed the connection")
            return "it closed the connection"
        if first.kind == 0x45:
            error_seen = client_core.report_error(first.body)
            if error_seen.sqlstate in _PASSED_OVER:
                side.transport.abort()
                return error_seen.message
        return side, first

    def _nobody(self, route: str, tried: dict[str, str]) -> SqlError:
        directory = self.roster.directory
        for name in directory.nodes:
            tried.setdefault(name, self.roster.health(name).why or "not asked")
        told = "; ".join(f"{name}: {why}" for name, why in tried.items()) or "no node is registered"
        where = {"any": "no node takes connections", "leader": "no leader takes connections"}.get(route)
        return SqlError("57P03", where or "no replica takes connections", detail=told, severity="FATAL")

    def end_connections(self, node: str) -> None:
        """Ends a node's connections: it has not answered for a while."""
        for client in list(self._clients):
            side = client.other
            if client.node is not None and client.node.node == node and isinstance(side, NodeSide):
                side.transport.abort()

    # ---- clients ----------------------------------------------------------------------------------------------------

    def add_client(self, client: ClientSide) -> None:
        self._clients.add(client)
        if len(self._clients) > 2 * self.max_connections:
            client.transport.abort()

    def admit(self) -> None:
        """Raises 53300 (FATAL). Called when a startup packet has arrived: a client that asks for TLS first would not
        understand an earlier answer, and cancel requests are accepted even then."""
        if len(self._clients) > self.max_connections:
            raise SqlError("53300", "sorry, too many clients already", severity="FATAL")

    def remove_client(self, client: ClientSide) -> None:
        self._clients.discard(client)

    def remember_key(self, key: tuple[int, bytes], client: ClientSide) -> None:
        self._keys.setdefault(key[0], []).append((key[1], client))

    def forget_key(self, key: tuple[int, bytes], client: ClientSide) -> None:
        left = [entry for entry in self._keys.get(key[0], []) if entry[1] is not client]
        if left:
            self._keys[key[0]] = left
        else:
            self._keys.pop(key[0], None)

    async def cancel(self, process_id: int, secret: bytes) -> None:
        """Passes a cancel request to the node of the key, without an answer."""
        for known, client in self._keys.get(process_id, []):
            if client.node is not None and secrets.compare_digest(known, secret):
                await send_cancel(client.node.host, client.node.port, process_id, secret)
                return
