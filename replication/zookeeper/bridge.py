"""A kazoo handler that connects kazoo's thread with the event loop.

kazoo runs a thread for the connection, and two more for callbacks. Here the loop has the socket of an established
connection (connection.py), and results, watches and changes of state go through one queue, in the order in which the
server sent them: so ZooKeeper's order is kept (a watch comes before the read that shows the change). kazoo uses its
*handler* for everything that concerns threads and sockets, so this is a handler.

It also protects the session. kazoo opens a new one by itself when the old one has expired, and requests of the old one
would continue in it. So the handler refuses every connection after the end of the session: an expired session has no
socket to write to.
"""

from __future__ import annotations

import contextlib
import logging
import random
import select
import socket
import ssl
import threading
import time
from asyncio import AbstractEventLoop
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Literal

from kazoo.client import KazooClient, KazooState
from kazoo.exceptions import AuthFailedError, SessionClosedRequireSaslError
from kazoo.handlers.threading import SequentialThreadingHandler
from kazoo.retry import KazooRetry
from kazoo.security import make_acl, make_digest_acl

from replication.zookeeper.address import SASL, Address
from replication.zookeeper.connection import Doorbell, LoopConnection

# kazoo logs every attempt to connect; the session logs once what matters of that.
_kazoo_log = logging.getLogger("shoal.zookeeper.kazoo")
_kazoo_log.setLevel(logging.CRITICAL)

RECONNECT_DELAY = 0.05  # seconds after a round of all servers without success; grows to MAX_RECONNECT_DELAY
MAX_RECONNECT_DELAY = 0.5

ConnectedCallback = Callable[[float, float], None]
"""Told of a connection: when it was begun (clock), and the session timeout that was agreed on (seconds)."""


class Result:
    """The future result of a request to kazoo. Its callbacks run in kazoo's thread."""

    __slots__ = ("_callbacks", "_lock", "exception", "value")

    def __init__(self) -> None:
        self.value: Any = None
        self.exception: BaseException | None = None
        self._callbacks: list[Callable[[Result], None]] | None = []  # None: there is a result
        self._lock = threading.Lock()

    def set(self, value: Any = None) -> None:
        self.value = value
        self._finish()

    def set_exception(self, exception: BaseException) -> None:
        self.exception = exception
        self._finish()

    def get(self, block: bool = True, timeout: float | None = None) -> Any:
        """kazoo's own callbacks get the result by this; it exists at that time."""
        if self.exception is not None:
            raise self.exception
        return self.value

    def ready(self) -> bool:
        return self._callbacks is None

    def rawlink(self, callback: Callable[[Result], None]) -> None:
        with self._lock:
            if self._callbacks is not None:
                self._callbacks.append(callback)
                return
        callback(self)

    def _finish(self) -> None:
        with self._lock:
            callbacks, self._callbacks = self._callbacks, None
        for callback in callbacks or ():
            callback(self)


class LoopHandler(SequentialThreadingHandler):  # type: ignore[misc]
    """kazoo's handler for one session of one event loop."""

    def __init__(self, loop: AbstractEventLoop, tls: ssl.SSLContext | None, connect_timeout: float) -> None:
        super().__init__()
        self.loop = loop
        self._tls = tls
        self._connect_timeout = connect_timeout
        self._inbox: deque[tuple[Callable[..., None], tuple[Any, ...]]] = deque()
        self._awake = False
        self._socket: socket.socket | None = None
        self.thread = threading.get_ident()  # the loop's
        self.doorbell = Doorbell()
        self.lend: Callable[[float | None], list[Any]]  # the connection's own, which sets it
        self.connecting = False
        self.over = False  # no further connection is made
        self.tried: dict[tuple[str, int], OSError | None] = {}
        """The error of the last attempt to connect to each host and port; None: it accepts connections."""
        self.refused = ""  # why the servers refuse us

    # --- towards the loop ----------------------------------------------------------------------------------------

    def call_on_loop(self, callback: Callable[..., None], *arguments: Any) -> None:
        """Calls on the loop's thread, after all earlier calls."""
        self._inbox.append((callback, arguments))
        if not self._awake:
            self._awake = True
            with contextlib.suppress(RuntimeError):  # the loop is closed, so no caller is left
                self.loop.call_soon_threadsafe(self._run_calls)

    @contextlib.contextmanager
    def batch_calls(self) -> Iterator[None]:
        """A context on the loop's thread: calls made within it run at its end, without waking the loop again."""
        self._awake = True
        try:
            yield
        finally:
            self._run_calls()

    def _run_calls(self) -> None:
        # Cleared first, so that a call appended from here on is either seen below or wakes the loop again.
        self._awake = False
        inbox = self._inbox
        while inbox:
            callback, arguments = inbox.popleft()
            callback(*arguments)

    # --- kazoo's handler interface -------------------------------------------------------------------------------

    def start(self) -> None:
        """No threads for callbacks."""
        self._running = True

    def stop(self) -> None:
        self._running = False

    def async_result(self) -> Result:
        return Result()

    def create_socket_pair(self) -> tuple[Doorbell, Doorbell]:
        """The pair that wakes the connection when there is a request."""
        return self.doorbell, self.doorbell

    def dispatch_callback(self, callback: Any) -> None:
        """A watch."""
        self.call_on_loop(callback.func, *callback.args)

    def select(
        self, read: Sequence[Any], write: Sequence[Any], other: Sequence[Any], timeout: float | None = None
    ) -> tuple[list[Any], list[Any], list[Any]]:
        """As select.select, by poll: without a file descriptor of its own for every call, unlike kazoo's.

        kazoo waits for the answer to a new connection for up to the session timeout. A server that is just starting may
        never answer (an exception there leaves the connection open), so less time is given here.

        kazoo waits for both, the server and requests, on an established connection.
        """
        if self.doorbell in read:
            return self.lend(timeout), [], []
        if self.connecting and timeout is not None:
            timeout = min(timeout, self._connect_timeout)
        ready: tuple[list[Any], list[Any], list[Any]] = ([], [], [])
        for each in read:
            if isinstance(each, ssl.SSLSocket) and each.pending():  # decrypted already: poll would not tell
                ready[0].append(each)
                timeout = 0.0
        poll = select.poll()
        wanted: dict[int, tuple[Any, list[Any]]] = {}
        for sockets, mask, found in ((read, select.POLLIN, ready[0]), (write, select.POLLOUT, ready[1])):
            for each in sockets:
                number = each.fileno()
                wanted[number] = (each, found)
                poll.register(number, mask)
        for number, _ in poll.poll(None if timeout is None else max(timeout, 0.0) * 1000):
            each, found = wanted[number]
            if each not in found:
                found.append(each)
        return ready

    def create_connection(
        self, address: tuple[str, int], timeout: float | None = None, hostname: str | None = None, **_: Any
    ) -> socket.socket:
        """A connection to one server, with TLS if the address asks for it."""
        if self.over:
            raise ConnectionRefusedError("the session is over")
        host = (hostname or address[0], address[1])
        try:
            connection = socket.create_connection(address, min(timeout or 60.0, self._connect_timeout))
            try:
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                if self._tls is not None:
                    connection = self._tls.wrap_socket(connection, server_hostname=hostname)
            except OSError:
                connection.close()
                raise
        except OSError as error:
            self.tried[host] = error
            raise
        self.tried[host] = None
        self._socket = connection
        return connection

    def drop(self) -> None:
        """Breaks the connection; kazoo tries the next server. From any thread."""
        if self._socket is not None:
            with contextlib.suppress(OSError):
                self._socket.shutdown(socket.SHUT_RDWR)


def make_client(
    address: Address,
    handler: LoopHandler,
    session_timeout: float,
    connected: ConnectedCallback,
    interrupted: Callable[[Literal["suspended", "lost"]], None],
) -> Any:
    """A KazooClient that is not started yet.

    On the loop's thread `connected` is called for every connection that is established and authenticated, and
    `interrupted` with 'suspended' or 'lost'.
    """
    acl = sasl_options = None
    auth_data = []
    if address.auth:
        user, _, password = address.auth.partition(":")
        if address.sasl:
            acl = [make_acl("sasl", user, all=True)]
            sasl_options = {"mechanism": "DIGEST-MD5", "username": user, "password": password}
        else:
            acl = [make_digest_acl(user, password, all=True)]
            auth_data = [("digest", address.auth)]
    # Shuffled once: nodes spread over the servers. kazoo would shuffle before every round, and could try the server
    # that has just been left because it hangs, which costs a third of the session timeout and more.
    hosts = random.sample(address.hosts, len(address.hosts))
    client = KazooClient(
        hosts=",".join(hosts),
        randomize_hosts=False,
        timeout=session_timeout,
        handler=handler,
        default_acl=acl,
        auth_data=auth_data,
        sasl_options=sasl_options,
        connection_retry=KazooRetry(
            max_tries=-1, delay=RECONNECT_DELAY, backoff=2, max_delay=MAX_RECONNECT_DELAY, sleep_func=time.sleep
        ),
        logger=_kazoo_log,
    )

    def listen(state: str) -> None:
        if state == KazooState.LOST:
            handler.over = True
            handler.call_on_loop(interrupted, "lost")
        elif state == KazooState.SUSPENDED:
            handler.call_on_loop(interrupted, "suspended")

    client.add_listener(listen)
    client._connection = LoopConnection(
        client, client._conn_retry.copy(), handler.loop, logger=_kazoo_log, sasl_options=sasl_options
    )
    # kazoo does not expose the negotiated session timeout, and reports the connection before it has authenticated. This
    # internal method returns after the authentication, with 2/3 of the timeout in milliseconds.
    connect = client._connection._connect

    def connect_and_tell(*arguments: Any) -> Any:
        begun = time.monotonic()
        handler.connecting = True
        try:
            read_timeout, connect_timeout = connect(*arguments)
        except (AuthFailedError, SessionClosedRequireSaslError) as error:
            handler.refused = f"the servers refuse the user and password in {SASL}"
            raise AuthFailedError from error
        finally:
            handler.connecting = False
        handler.call_on_loop(connected, begun, read_timeout * 1.5 / 1000)
        return read_timeout, connect_timeout

    client._connection._connect = connect_and_tell
    return client
