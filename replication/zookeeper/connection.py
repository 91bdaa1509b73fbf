"""kazoo's connection, with its socket lent to the event loop.

kazoo's thread connects, authenticates and pings, and does so again when a connection breaks. In between the loop has
the socket: a request is written in the turn that makes it, an answer is read in the turn in which it arrives. With
kazoo's thread between, every request and every answer would wait for a thread to be woken and to win the interpreter.

    kazoo's thread   connect -> `lend` waits, wakes for pings .......................... -> the connection has ended
    the loop                    `_take`: add_reader -> `_readable`, `_drain` ... -> `_return_socket`

A ping is still written by kazoo's thread, so a loop that is busy for long loses no session by that.
"""

from __future__ import annotations

import contextlib
import ssl
import threading
from asyncio import AbstractEventLoop
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from kazoo.exceptions import ConnectionDropped
from kazoo.protocol.connection import CLOSE_RESPONSE, ConnectionHandler
from kazoo.protocol.serialization import ReplyHeader, int_struct

if TYPE_CHECKING:
    from replication.zookeeper.bridge import LoopHandler

_CHUNK = 1 << 16
_NOT_NOW = (BlockingIOError, InterruptedError, ssl.SSLWantReadError, ssl.SSLWantWriteError)


class Doorbell:
    """The replacement for kazoo's pair of sockets, which wakes its thread when a request has been queued."""

    def __init__(self) -> None:
        self.ring: Callable[[], None] | None = None

    def send(self, data: bytes) -> int:
        if self.ring is not None:
            self.ring()
        return len(data)

    def recv(self, size: int) -> bytes:
        return b""

    def close(self) -> None:
        """Does nothing, because it holds no socket."""


class LoopConnection(ConnectionHandler):  # type: ignore[misc]
    """The connection of one kazoo client; it replaces the one that the client has made for itself."""

    def __init__(self, client: Any, retry: Any, loop: AbstractEventLoop, **options: Any) -> None:
        super().__init__(client, retry, **options)
        self._loop = loop
        self._loop_handler: LoopHandler = client.handler
        self._loop_handler.lend = self.lend
        self._loop_handler.doorbell.ring = self._drain
        self._using = threading.Lock()  # the socket: TLS cannot be used by two threads at a time
        self._lent = False  # the loop has the socket; changed on the loop's thread
        self._handed_out = False  # kazoo's thread has lent it and not got it back; changed there
        self._returned = threading.Event()
        self._failure: BaseException | None = None  # the error with which the loop returned it
        self._farewell = False  # the server has answered the end of the session
        self._received = bytearray()
        self._unsent = bytearray()
        self._frame: bytes | None = None  # the answer that is being read

    # --- kazoo's thread ------------------------------------------------------------------------------------------

    def lend(self, timeout: float | None) -> list[Any]:
        """Instead of waiting for the socket: waits for the connection's end, or for the time to ping.

        Like kazoo's select it returns [] after the time, and the socket when the end of the session must be read.
        Raises the error that has ended the connection.
        """
        if not self._handed_out:
            self._handed_out, self._failure, self._farewell = True, None, False
            self._returned.clear()
            self._received.clear()
            self._unsent.clear()
            self._on_loop(self._take)
        if not self._returned.wait(timeout) and not self._has_lost_ping():
            return []
        self._handed_out = False
        if self._failure is not None:
            raise self._failure
        return [self._socket] if self._farewell else []

    def _has_lost_ping(self) -> bool:
        """Whether the connection is returned because no ping was answered; checked when another is due."""
        if not self.ping_outstanding.is_set():
            return False
        if self._loop_handler.select([self._socket], [], [], 0)[0]:
            self.ping_outstanding.clear()  # there is an answer, and a loop that has not come to it yet
            return False
        looked = threading.Event()
        self._on_loop(self._look, looked)
        looked.wait()
        return self._returned.is_set()

    def _on_loop(self, callback: Callable[..., None], *arguments: Any) -> None:
        try:
            self._loop.call_soon_threadsafe(callback, *arguments)
        except RuntimeError:
            raise ConnectionDropped("the event loop is closed") from None

    def _read_socket(self, read_timeout: float) -> Any:
        return CLOSE_RESPONSE if self._farewell else super()._read_socket(read_timeout)

    # --- either thread -------------------------------------------------------------------------------------------

    def _read_header(self, timeout: float) -> tuple[Any, bytes, int]:
        frame, self._frame = self._frame, None
        if frame is None:  # not lent: while it connects
            connecting: tuple[Any, bytes, int] = super()._read_header(timeout)
            return connecting
        header, offset = ReplyHeader.deserialize(frame, 0)
        return header, frame, offset

    def _write(self, msg: bytes, timeout: float) -> None:
        """Writes as much as the socket takes, and the rest later. An error ends the connection."""
        if not self._handed_out:  # while it connects
            super()._write(msg, timeout)
            return
        socket = self._socket
        try:
            with self._using:
                if self._unsent:
                    self._unsent += msg
                    return
                sent = self._send(msg)
                if sent == len(msg):
                    return
                self._unsent += msg[sent:]
            self._on_loop(self._await_room)
        except OSError as error:
            self._on_loop(self._on_broken, socket, error)

    def _send(self, data: bytes | bytearray) -> int:
        try:
            sent: int = self._socket.send(data)
        except _NOT_NOW:
            return 0
        return sent

    def _drain(self) -> None:
        """Sends kazoo's queue; before the loop has the socket it stays in the queue."""
        if threading.get_ident() != self._loop_handler.thread:
            with contextlib.suppress(ConnectionDropped):
                self._on_loop(self._drain)
            return
        try:
            while self._lent and self.client._queue:
                self._send_request(0, 0)
        except Exception as error:
            self._return_socket(error)

    # --- the loop's thread ---------------------------------------------------------------------------------------

    def _take(self) -> None:
        self._lent = True
        self._loop.add_reader(self._socket.fileno(), self._readable)
        self._drain()
        self._readable()

    def _return_socket(self, failure: BaseException | None, farewell: bool = False) -> None:
        if not self._lent:
            return
        self._lent = False
        self._loop.remove_reader(self._socket.fileno())
        self._loop.remove_writer(self._socket.fileno())
        self._failure, self._farewell = failure, farewell
        self._returned.set()

    def _on_broken(self, socket: Any, error: OSError) -> None:
        if self._socket is socket:  # otherwise it was returned before, and another one has come
            self._return_socket(error)

    def _look(self, looked: threading.Event) -> None:
        """A ping should have been answered by now."""
        self._readable()
        if self.ping_outstanding.is_set():
            self._return_socket(None)
        looked.set()

    def _readable(self) -> None:
        if not self._lent:
            return
        try:
            self._receive()
            with self._loop_handler.batch_calls():
                self._dispatch()
        except OSError as error:
            self._return_socket(error)
        except Exception as error:
            # An answer that is out of order, or cannot be read: none that follows could be trusted. (kazoo would let
            # its thread die of it.)
            self._return_socket(error if isinstance(error, ConnectionDropped) else ConnectionDropped(str(error)))

    def _receive(self) -> None:
        """Receives everything that has arrived."""
        socket = self._socket
        with self._using, contextlib.suppress(*_NOT_NOW):
            while True:
                data = socket.recv(_CHUNK)
                if not data:
                    raise ConnectionDropped("socket connection broken")
                self._received += data
                if len(data) < _CHUNK and not (isinstance(socket, ssl.SSLSocket) and socket.pending()):
                    return

    def _dispatch(self) -> None:
        """Every answer and watch that has arrived whole."""
        received, position = self._received, 0
        while len(received) - position >= int_struct.size:
            begin = position + int_struct.size
            end = begin + int_struct.unpack_from(received, position)[0]
            if len(received) < end:
                break
            position = end
            self._frame = bytes(memoryview(received)[begin:end])
            if super()._read_socket(0) == CLOSE_RESPONSE:
                self._return_socket(None, farewell=True)
                return
        del received[:position]

    def _await_room(self) -> None:
        if self._lent:
            self._loop.add_writer(self._socket.fileno(), self._writable)

    def _writable(self) -> None:
        try:
            with self._using:
                del self._unsent[: self._send(self._unsent)]
                done = not self._unsent
        except OSError as error:
            self._return_socket(error)
            return
        if done:
            self._loop.remove_writer(self._socket.fileno())
