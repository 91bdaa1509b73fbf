"""The client side of protocol 3 over asyncio, for forwarding a session to another node.

    connection = await ClientConnection.open("10.0.0.2", 5432, {"user": "postgres", "database": "postgres"})
    connection.send(client_core.query(b"SELECT 1"))
    frame = await connection.receive()          ... until its kind is Z

It sends messages and returns the answers, frame by frame (wire/client_core.py), without knowledge of statements. One
reader at a time.

Bounds: reading stops while READ_AHEAD bytes wait for `receive`; `drain` waits while the transport holds more than
WRITE_BEHIND bytes. Only `receive` waits without a limit; its callers know how long a statement may take
(`asyncio.timeout`). If the other machine vanishes, TCP's keep-alive ends the connection within about 30 s.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, Self

from catalog.errors import SqlError
from wire import client_core, tls
from wire.client_core import Frame, FrameStream

READ_AHEAD = 1 << 20
WRITE_BEHIND = 1 << 20
OPEN_TIMEOUT = 10.0  # seconds for connecting and starting up
CANCEL_TIMEOUT = 5.0
KEEP_ALIVE = ((socket.TCP_KEEPIDLE, 10), (socket.TCP_KEEPINTVL, 5), (socket.TCP_KEEPCNT, 4))


class ConnectionLostError(Exception):
    """The other side cannot be reached or has ended: messages may have been processed or not."""


class ClientConnection(asyncio.Protocol):
    """One connection to a server. Make it with `open`.

    `parameters` are the ParameterStatus values of the start-up, `process_id` and `secret` its cancel key.
    """

    def __init__(self) -> None:
        self.host = ""
        self.port = 0
        self._certificate = ""
        self.process_id = 0
        self.secret = b""
        self.parameters: dict[str, str] = {}
        self.lost = False
        self.on_lost: Callable[[], None] | None = None
        self._stream = FrameStream()
        self._transport: Any = None
        self._paused = False
        self._arrival: asyncio.Future[None] | None = None
        self._drained: asyncio.Future[None] | None = None

    @classmethod
    async def open(
        cls,
        host: str,
        port: int,
        parameters: Mapping[str, str],
        *,
        timeout: float = OPEN_TIMEOUT,
        minor: int = 0,
        certificate: str = "",
    ) -> Self:
        """Connects and starts a session up to its first ReadyForQuery. `certificate`: the hash (wire/tls.py) of the
        certificate that the other side must have; '': no TLS.

        Raises ConnectionLostError (also after `timeout` seconds), or the SqlError with which the server refuses: 28000
        too when it asks for a password.
        """
        connection = cls()
        connection.host, connection.port, connection._certificate = host, port, certificate
        await connection._open(connection._dial(), client_core.startup(parameters, minor), timeout)
        return connection

    @classmethod
    async def within(
        cls, accept: Callable[[], asyncio.Protocol], address: tuple[str, int], parameters: Mapping[str, str]
    ) -> Self:
        """`open` to a server of this process, without the network, for a user whom the caller has authenticated.

        `accept` makes the server's side of the connection; cancel requests go to `address`, where it listens.
        """
        connection = cls()
        connection.host, connection.port = address
        await connection._open(connection._join(accept), client_core.startup(parameters), OPEN_TIMEOUT)
        return connection

    async def _open(self, connecting: Coroutine[Any, Any, None], startup: bytes, timeout: float) -> None:
        try:
            async with asyncio.timeout(timeout):
                await connecting
                self.send(startup)
                await self._start_up()
        except TimeoutError:
            self.abort()
            raise ConnectionLostError(f"{self.host}:{self.port} did not answer within {timeout:g} s") from None
        except BaseException:
            self.abort()
            raise

    async def _dial(self) -> None:
        host, port = self.host, self.port
        try:
            context = tls.for_nodes() if self._certificate else None
            await asyncio.get_running_loop().create_connection(lambda: self, host, port, ssl=context)
            if self._certificate:
                tls.check_certificate(self._transport, self._certificate)
        except (OSError, tls.NotTlsError) as error:
            why = (isinstance(error, OSError) and error.strerror) or error
            raise ConnectionLostError(f"cannot connect to {host}:{port}: {why}") from error

    async def _join(self, accept: Callable[[], asyncio.Protocol]) -> None:
        loop = asyncio.get_running_loop()
        theirs, ours = socket.socketpair()
        await loop.create_unix_connection(accept, sock=theirs)
        await loop.create_unix_connection(lambda: self, sock=ours)

    async def _start_up(self) -> None:
        while True:
            frame = await self.receive()
            if frame.kind == 0x5A:  # ReadyForQuery
                return
            if frame.kind == 0x45:
                raise client_core.report_error(frame.body)
            if frame.kind == 0x52 and frame.body[:4] != b"\0\0\0\0":
                raise SqlError("28000", f"{self.host}:{self.port} asks for a password", severity="FATAL")
            if frame.kind == 0x53:
                name, value = client_core.strings(frame.body)
                self.parameters[name] = value
            elif frame.kind == 0x4B:
                self.process_id = int.from_bytes(frame.body[:4], "big")
                self.secret = frame.body[4:]

    # ---- traffic --------------------------------------------------------------------------------------------------

    def send(self, data: bytes) -> None:
        """Sends messages. On a lost connection they are dropped, and `receive` raises the error."""
        if not self.lost:
            self._transport.write(data)

    async def drain(self) -> None:
        """Waits while the other side does not read."""
        if self._drained is not None:
            await asyncio.shield(self._drained)

    async def receive(self) -> Frame:
        """The next frame. Raises ConnectionLostError, and SqlError (08P01) for an invalid message."""
        while True:
            frame = self._stream.next_frame()
            if frame is not None:
                return frame
            if self.lost:
                raise ConnectionLostError(f"the connection to {self.host}:{self.port} broke")
            if self._paused:
                self._paused = False
                self._transport.resume_reading()
            self._arrival = asyncio.get_running_loop().create_future()
            await self._arrival

    def take(self) -> Frame | None:
        """The next frame that has arrived; None: there is none."""
        return self._stream.next_frame()

    @property
    def at_boundary(self) -> bool:
        """Whether the frames received so far end where a message ends."""
        return self._stream.at_boundary

    async def cancel(self) -> bool:
        """Asks the server to cancel the running statement (`send_cancel`)."""
        return await send_cancel(self.host, self.port, self.process_id, self.secret, certificate=self._certificate)

    async def takes(self) -> bool:
        """Whether the server accepts requests: sends a cancel request for no session."""
        return await send_cancel(self.host, self.port, 0, bytes(4), certificate=self._certificate)

    def close(self) -> None:
        """Sends Terminate and closes when everything is sent."""
        if self._transport is not None and not self._transport.is_closing():
            self._transport.write(client_core.TERMINATE)
            self._transport.close()

    def abort(self) -> None:
        """Closes at once; unsent messages are dropped."""
        self.lost = True
        if self._transport is not None:
            self._transport.abort()

    # ---- asyncio.Protocol -----------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport
        self._transport.set_write_buffer_limits(high=WRITE_BEHIND, low=WRITE_BEHIND // 4)
        keep_alive(transport)

    def data_received(self, data: bytes) -> None:
        self._stream.receive_data(data)
        if self._stream.buffered_bytes > READ_AHEAD and not self._paused:
            self._paused = True
            self._transport.pause_reading()
        self._wake(self._arrival)

    def connection_lost(self, error: Exception | None) -> None:
        self.lost = True
        self._wake(self._arrival)
        self.resume_writing()
        if self.on_lost is not None:
            self.on_lost()

    def pause_writing(self) -> None:
        if self._drained is None:
            self._drained = asyncio.get_running_loop().create_future()

    def resume_writing(self) -> None:
        drained, self._drained = self._drained, None
        self._wake(drained)

    @staticmethod
    def _wake(waiter: asyncio.Future[None] | None) -> None:
        if waiter is not None and not waiter.done():
            waiter.set_result(None)


async def send_cancel(
    host: str, port: int, process_id: int, secret: bytes, timeout: float | None = None, certificate: str = ""
) -> bool:
    """Asks a server to cancel a session's statement, over a separate connection (55.2.8). Returns when it has received
    the request, or cannot be reached; the result is unknown. False: it could be reached, but has not received it in
    time."""
    try:
        async with asyncio.timeout(CANCEL_TIMEOUT if timeout is None else timeout):
            with contextlib.suppress(OSError, tls.NotTlsError):
                context = tls.for_nodes() if certificate else None
                reader, writer = await asyncio.open_connection(host, port, ssl=context)
                try:
                    if certificate:
                        tls.check_certificate(writer.transport, certificate)
                    writer.write(client_core.cancel_request(process_id, secret))
                    await reader.read(1)  # the server closes when it has received the request
                finally:
                    writer.close()
    except TimeoutError:
        return False
    return True


def keep_alive(transport: asyncio.BaseTransport) -> None:
    """No delay for small messages, and an end to connections whose other side has vanished."""
    peer = transport.get_extra_info("socket")
    if peer is not None and peer.family in (socket.AF_INET, socket.AF_INET6):
        peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        peer.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for option, value in KEEP_ALIVE:
            peer.setsockopt(socket.IPPROTO_TCP, option, value)
