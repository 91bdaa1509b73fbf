"""The engine of one directory on a thread of its own, and connections to it from other threads.

    the caller's thread                                     the engine's thread: an event loop
      Link.send(messages)  -- call_soon_threadsafe --------->  Connection.data_received
      Link.receive() <-- a queue of written bytes -----------  Link.write, as the connection's transport

A connection is the server's own (wire/connection.py) over a transport that is a queue. There is no socket, and
everything that a driver may rely on applies here too.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
import weakref
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from queue import SimpleQueue
from typing import Any

import uvloop

from catalog.errors import SqlError
from replication.background import stop_on_failure
from shoal.config import Config, ConfigError
from shoal.embedded.errors import OperationalError, exception_of
from shoal.serve import end_clients, memory_of_machine, open_single_node
from shoal.stacks import DeepExecutor, deep_thread
from wire import client_core
from wire.channel import WRITE_BEHIND
from wire.client_core import Frame, FrameStream
from wire.server import Server

ERROR, READY = ord("E"), ord("Z")
LEAVING = 2.0  # seconds that sessions have to end after a failure


class EngineThread:
    """The engine of a directory, which `start` opens and `stop` closes. Every method may be called from any other
    thread."""

    def __init__(self, config: Config) -> None:
        self.config = config
        self.failure: BaseException | None = None  # after a failure, no commit is acknowledged
        self.server: Server
        self.loop = uvloop.new_event_loop()
        self.loop.set_default_executor(DeepExecutor(thread_name_prefix="shoal"))
        self.links: weakref.WeakSet[Link] = weakref.WeakSet()
        self._stop: asyncio.Future[None] = self.loop.create_future()
        self._started: Future[None] = Future()
        self._thread = threading.Thread(target=self._run, name="shoal", daemon=True)

    def start(self) -> None:
        """Returns when the directory is recovered. Raises OperationalError if it is in use, damaged, or belongs to a
        cluster."""
        with deep_thread():
            self._thread.start()
        try:
            self._started.result()
        except SqlError as error:
            raise exception_of(error) from None
        except (ConfigError, OSError) as error:
            raise OperationalError(str(error)) from None

    def stop(self) -> None:
        """Ends running statements, and writes the memtable. A second call does nothing."""
        if self._thread.is_alive():
            with contextlib.suppress(RuntimeError):
                self.loop.call_soon_threadsafe(self._end)
            self._thread.join()

    def abandon(self) -> None:
        """Marks the engine as closed in a forked process, because its thread exists in the parent only."""
        for link in self.links:
            link.abandon()

    def call(self, work: Callable[..., Any], *arguments: Any) -> Any:
        """Calls `work` on the engine's thread and returns its result. An awaitable result is awaited."""

        async def run() -> Any:
            found = work(*arguments)
            return await found if asyncio.iscoroutine(found) else found

        try:
            return asyncio.run_coroutine_threadsafe(running := run(), self.loop).result()
        except RuntimeError:
            running.close()
            raise self.closed_error() from None

    def closed_error(self) -> OperationalError:
        """The error of a call to an engine that has ended."""
        if self.failure is not None:
            return OperationalError(f"the database has stopped: {self.failure}")
        return OperationalError("the database is closed")

    def _run(self) -> None:
        asyncio.set_event_loop(self.loop)
        try:
            self.loop.run_until_complete(self._serve())
        except BaseException as error:
            if not self._started.done():
                self._started.set_exception(error)
            elif self.failure is None:
                self.failure = error
        finally:
            self._end_tasks()
            self.loop.close()
            for link in list(self.links):
                link.end_receiving()

    def _end_tasks(self) -> None:
        """Cancels the tasks that remain after an early end, because a task on a closed loop never releases its
        objects."""
        left = asyncio.all_tasks(self.loop)
        for task in left:
            task.cancel()
        if left:
            self.loop.run_until_complete(asyncio.gather(*left, return_exceptions=True))

    async def _serve(self) -> None:
        stop_on_failure(self.loop, self._fatal)
        async with open_single_node(self.config, self._fatal) as node:
            node.default_settings = self.config.default_settings
            node.memory.limit = self.config.memory or memory_of_machine() // 2
            self.server = Server(node, *self.config.address, self.config.max_connections)
            self._started.set_result(None)
            await self._stop
            if self.failure is not None:
                await self._end_clients()
                raise self.failure
            await end_clients(self.server)

    async def _end_clients(self) -> None:
        """Ends all clients after a failure, because no statement gets an answer any more."""
        for link in list(self.links):
            link.close()
        until = self.loop.time() + LEAVING
        while self.server.node.sessions and self.loop.time() < until:
            await asyncio.sleep(0.005)

    def _end(self) -> None:
        if not self._stop.done():
            self._stop.set_result(None)

    def _fatal(self, error: BaseException) -> None:
        """Called when commits cannot be made durable, or memory may be corrupt. A server's process would end here, but
        this process belongs to the program."""
        self.failure = error
        with contextlib.suppress(RuntimeError):
            self.loop.call_soon_threadsafe(self._end)


class Link(asyncio.Transport):
    """One connection: the transport of the server's side, and the messages of the caller's side.

    One thread at a time may use the caller's side. Bytes that the server has written wait here. At WRITE_BEHIND bytes
    the server is told to pause, and the caller pauses before it has sent more than that. While the caller pauses it
    reads what has arrived, because otherwise each side could wait for the other.

    Each side first counts its own bytes and then reads the count of the other. So when both run at the same time, at
    least one of them sees the other's change.
    """

    def __init__(self, engine: EngineThread, parameters: Mapping[str, str]) -> None:
        """Opens a session. Raises OperationalError and what the session's start raises."""
        super().__init__()
        self._engine = engine
        self._stream = FrameStream()
        self._arrived: SimpleQueue[bytes | None] = SimpleQueue()
        self._written = self._read = 0  # bytes; the engine's thread counts the first, the caller's thread the second
        self._told_to_wait = False
        self._sent = self._taken = 0  # bytes; the caller's thread counts the first, the engine's thread the second
        self._sender_waits = False
        self._reads = True  # whether the server reads
        self._closing = False
        self._lost = False
        self._protocol: Any = None
        engine.links.add(self)
        engine.call(self._open)
        self.send(client_core.startup(parameters))
        while (frame := self.receive()).kind != READY:
            if frame.kind == ERROR:
                raise exception_of(client_core.report_error(frame.body))

    # --- the caller's side ---------------------------------------------------------------------------------------

    @property
    def is_closed(self) -> bool:
        """Whether the connection has ended."""
        return self._lost

    def send(self, data: bytes) -> None:
        """Sends messages, and waits while the server does not read. Raises OperationalError when the server has
        ended."""
        self._sender_waits = True
        while not (self._lost or self._may_send()):
            self._take(self._arrived.get())
        self._sender_waits = False
        if self._lost:
            raise self._engine.closed_error()
        self._sent += len(data)
        self._on_engine(self._receive, data)

    def _may_send(self) -> bool:
        return self._reads and self._sent - self._taken < WRITE_BEHIND

    def receive(self) -> Frame:
        """The next frame. Raises OperationalError when the connection has ended."""
        while (frame := self._stream.next_frame()) is None:
            self._take(None if self._lost else self._arrived.get())
        return frame

    def _take(self, data: bytes | None) -> None:
        """Takes bytes that the server has written. Empty bytes only wake the sender, and None is the end of the
        connection."""
        if data is None or self._engine.failure is not None:
            self._lost = True
            raise self._engine.closed_error()
        if data:
            self._stream.receive_data(data)
            self._read += len(data)
            if self._told_to_wait and self._written - self._read < WRITE_BEHIND // 4:
                self._on_engine(self._resume_writing)

    def cancel(self) -> None:
        """Cancels the running statement, if there is one."""
        self._on_engine(self._cancel)

    def end(self) -> None:
        """Ends the session. Its transaction is rolled back."""
        with contextlib.suppress(OperationalError):
            self._on_engine(self._receive, client_core.TERMINATE)
        self._lost = True

    def abandon(self) -> None:
        """Closes the link in a forked process, because the server's side exists in the parent only."""
        self._lost = True

    def _on_engine(self, callback: Callable[..., None], *arguments: Any) -> None:
        try:
            self._engine.loop.call_soon_threadsafe(callback, *arguments)
        except RuntimeError:
            self._lost = True
            raise self._engine.closed_error() from None

    # --- the engine's thread -------------------------------------------------------------------------------------

    def _open(self) -> None:
        self._protocol = self._engine.server.accept()
        self._protocol.connection_made(self)

    def _receive(self, data: bytes) -> None:
        self._taken += len(data)
        self._wake_sender()
        if not self._closing:
            self._protocol.data_received(data)

    def _wake_sender(self) -> None:
        if self._sender_waits and self._may_send():
            self._arrived.put(b"")

    def _resume_writing(self) -> None:
        if self._told_to_wait and not self._closing:
            self._told_to_wait = False
            self._protocol.resume_writing()

    def _cancel(self) -> None:
        if self._protocol.session is not None:
            self._protocol.session.cancel()

    def _end(self) -> None:
        self._protocol.connection_lost(None)
        self.end_receiving()

    def end_receiving(self) -> None:
        """Wakes the receiver, because the server sends nothing more."""
        self._arrived.put(None)

    # --- asyncio.Transport, as far as wire uses it ---------------------------------------------------------------

    def write(self, data: Any) -> None:
        if self._engine.failure is not None:
            return
        self._written += len(data)
        self._arrived.put(bytes(data))
        if self.get_write_buffer_size() > WRITE_BEHIND and not self._told_to_wait:
            self._told_to_wait = True
            self._protocol.pause_writing()
            if (
                self.get_write_buffer_size() < WRITE_BEHIND // 4
            ):  # the reader has read it meanwhile, without knowing that the server waits
                self._engine.loop.call_soon(self._resume_writing)

    def can_write_eof(self) -> bool:
        return True

    def write_eof(self) -> None:
        self._arrived.put(None)

    def get_write_buffer_size(self) -> int:
        return self._written - self._read

    def get_write_buffer_limits(self) -> tuple[int, int]:
        return WRITE_BEHIND // 4, WRITE_BEHIND

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """Does nothing: the limit is WRITE_BEHIND."""

    def get_protocol(self) -> Any:
        return self._protocol

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        self._protocol = protocol

    def close(self) -> None:
        if not self._closing:
            self._closing = True
            self._engine.loop.call_soon(self._end)

    abort = close

    def is_closing(self) -> bool:
        return self._closing

    def is_reading(self) -> bool:
        return self._reads

    def pause_reading(self) -> None:
        self._reads = False

    def resume_reading(self) -> None:
        self._reads = True
        self._wake_sender()
