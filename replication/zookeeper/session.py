"""A ZooKeeper session as `replication.interface.Coordination`.

**Requests.** While connected a request goes to kazoo at once, in the order of the calls; several run at a time. While
suspended it waits here, not in kazoo, so that it certainly was not sent if it is abandoned. When the connection breaks,
sent requests may have been executed: writes end with OutcomeUnknownError and are never repeated (a second NodeExists or
BadVersion would not tell about the first); reads change nothing and are repeated.

**An unknown outcome may still change.** The request may be in a buffer of the server and be executed after this session
has connected again. So a read can prove that a write was executed, but not that it never will be. A caller that must
know writes again with a check of the same version, after which the lost one can only fail.

**Certain lifetime of the session.** A server that is cut off from the others still answers reads, so only answers in
which the leader took part count: to writes, and to `sync`. Between them a `sync` is sent every sixth of the session
timeout. A follower reports its clients to the leader only every half tick (ZooKeeper's tickTime, at most half of a
session timeout by default): a quarter of the timeout is subtracted for that.

**A server that does not answer.** kazoo detects it by a ping that it sends only if there was nothing else to send, so a
busy client of a hanging server would wait without end. Here the connection is dropped when a request has waited for
half of the session timeout, which leaves time to find another server before the session is over.

**Servers that have lost data** refuse a session that has seen newer data: it stays suspended, as if they were
unreachable. Opening another session shows the loss (`cluster.py`).

**Watches.** One-shot, and delivered in the order of replies. All of them fire when the connection breaks, and are not
set again: their paths must be read again anyway. A watch may fire without a change.
"""

from __future__ import annotations

import asyncio
import functools
import logging
import threading
import time
from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NoReturn

from kazoo.exceptions import (
    BadArgumentsError,
    BadVersionError,
    ConnectionLoss,
    InvalidACLError,
    NoAuthError,
    NoChildrenForEphemeralsError,
    NodeExistsError,
    NoNodeError,
    NotEmptyError,
    OperationTimeoutError,
    RequestTimeoutError,
    RolledBackError,
    RuntimeInconsistency,
    SessionClosedRequireSaslError,
    SessionExpiredError,
    SessionMovedError,
    SystemZookeeperError,
    ZookeeperError,
)

from catalog.durations import durations
from catalog.errors import SqlError
from replication.interface import (
    Check,
    ConflictError,
    CoordinationUnavailableError,
    Create,
    Operation,
    OutcomeUnknownError,
    SessionState,
    Set,
    Watch,
    Znode,
)
from replication.zookeeper.address import DIGEST, SASL, Address
from replication.zookeeper.bridge import LoopHandler, Result, make_client

log = logging.getLogger("shoal.zookeeper")

MAX_REQUEST_BYTES = 1_000_000
"""The maximum size of a request. ZooKeeper closes the connection after a request above jute.maxbuffer, 1 MiB."""

KEEPALIVES_PER_TIMEOUT = 6
HANDED_ON_LATE = 0.25  # of the session timeout: see above
MAX_CONNECT = 1.5  # seconds for a server to accept a connection, and to resume the session
COMPLAIN_EVERY = 10.0  # seconds, while there is no connection
FAREWELL = 1.0  # seconds for a server to end a session
PATIENCE = 0.5  # of the session timeout: maximal time of an answer

# Answers that leave the outcome open. All other answers of a server are final.
_UNKNOWN = (
    ConnectionLoss,
    SessionExpiredError,
    SessionMovedError,
    OperationTimeoutError,
    RequestTimeoutError,
    SystemZookeeperError,
)
_CONFLICTS: tuple[tuple[type[ZookeeperError], Literal["version", "exists", "missing", "not empty"]], ...] = (
    (BadVersionError, "version"),
    (NodeExistsError, "exists"),
    (NoNodeError, "missing"),
    (NotEmptyError, "not empty"),
)


ACCEPTS = "accepts connections but opens no session"


def _reason(tried: Mapping[tuple[str, int], OSError | None], host: str) -> str:
    """The results of the attempts to connect to a HOST:PORT."""
    name, _, port = host.rpartition(":")
    key = name.strip("[]"), int(port)
    if key not in tried:
        return "its name has no address that is known here"
    error = tried[key]
    if error is None:
        return ACCEPTS
    if isinstance(error, ConnectionRefusedError):
        return "nothing listens there"
    if isinstance(error, TimeoutError):
        return "does not answer"
    return error.strerror or str(error)


def check_size(operations: Sequence[Operation]) -> None:
    """Raises SqlError 54000 for a request that is too large for ZooKeeper."""
    size = 0
    for operation in operations:
        size += 100 + len(operation.path)  # headers, an ACL
        if isinstance(operation, (Create, Set)):
            size += len(operation.data)
    if size > MAX_REQUEST_BYTES:
        raise SqlError("54000", f"a request to ZooKeeper of {size} bytes is larger than {MAX_REQUEST_BYTES} bytes")


@dataclass(slots=True, eq=False)
class _Request:
    """`kind`: 'probe' is a read that is not repeated."""

    send: Callable[[], Result]
    kind: Literal["read", "write", "probe"]
    by_leader: bool
    answer: asyncio.Future[Any]
    sent: float = 0.0
    timer: asyncio.TimerHandle | None = None  # while it waits for a connection


class _OnLoop:
    """A watch as kazoo keeps it: the same callback on the same node is one watch, as in ZooKeeper."""

    __slots__ = ("_callback", "_session")

    def __init__(self, session: ZooKeeperCoordination, callback: Watch) -> None:
        self._session = session
        self._callback = callback

    def __call__(self, event: object) -> None:
        if not self._session.closed:
            self._callback()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _OnLoop) and self._callback == other._callback

    def __hash__(self) -> int:
        return hash(self._callback)


class ZooKeeperCoordination:
    """Opened by `replication.zookeeper.open_coordination`. All methods and callbacks: on the loop's thread."""

    def __init__(self, address: Address, session_timeout: float, timeout: float) -> None:
        self.address = address
        self.closed = False
        self._loop = asyncio.get_running_loop()
        self._timeout = timeout
        self._session_timeout = session_timeout
        self._state: SessionState = "suspended"
        self._callbacks: list[Callable[[SessionState], None]] = []
        self._in_flight: dict[_Request, None] = {}  # oldest first
        self._waiting: deque[_Request] = deque()
        self._proven = float("-inf")  # time of sending the last request that the leader has answered
        self._made: set[str] = {""}  # nodes that exist unless another client has deleted them
        self._ticking: asyncio.TimerHandle | None = None
        self._giving_up: asyncio.TimerHandle | None = None
        self._complained = float("-inf")
        self._opened: asyncio.Future[None] = self._loop.create_future()
        connect_timeout = max(min(session_timeout / (2 * len(address.hosts)), MAX_CONNECT), 0.1)
        self._handler = LoopHandler(self._loop, address.tls_context(), connect_timeout)
        self._client = make_client(address, self._handler, session_timeout, self._on_connected, self._on_interrupted)
        self._stopping: asyncio.Future[None] | None = None

    async def start(self) -> None:
        """Connects. Raises SqlError 08001 if no server of the ensemble accepts the session within `timeout`."""
        self._client.start_async()
        try:
            async with asyncio.timeout(self._timeout):
                await asyncio.shield(self._opened)
        except TimeoutError:
            self._end_session("ZooKeeper does not answer")
        if self._state == "lost":
            await self.close()
            raise SqlError("08001", f"{self._connection_problem()}. Start it, or correct {self.address.url}")

    # --- Coordination: the session -------------------------------------------------------------------------------

    @property
    def session_timeout(self) -> float:
        return self._session_timeout

    @property
    def alive_until(self) -> float:
        return self._proven + self._session_timeout * (1 - HANDED_ON_LATE)

    @property
    def state(self) -> SessionState:
        return self._state

    def on_state(self, callback: Callable[[SessionState], None]) -> None:
        self._callbacks.append(callback)

    async def close(self) -> None:
        """Ends the session: ephemeral nodes are deleted at once (those of a suspended session when it expires). No
        watch fires and no change of state is reported any more; `state` is 'lost'."""
        self.closed = True
        self._callbacks.clear()
        if self._state != "lost":
            self._end_session("the ZooKeeper session was closed")
        if self._stopping is not None:
            await asyncio.shield(self._stopping)

    # --- Coordination: requests ----------------------------------------------------------------------------------

    async def get(self, path: str, watch: Watch | None = None) -> Znode | None:
        full = self._full_path(path)
        on_loop = None if watch is None else _OnLoop(self, watch)
        while True:
            try:
                data, stat = await self._request(functools.partial(self._client.get_async, full, on_loop))
                return Znode(data, stat.version)
            except NoNodeError:
                if on_loop is None or not await self._exists(full, on_loop):
                    return None
            except ZookeeperError as error:
                self._raise_refusal(error, path)

    async def sync(self) -> None:
        try:
            await self._request(self._send_sync, by_leader=True)
        except ZookeeperError as error:
            self._raise_refusal(error, "")

    async def children(self, path: str, watch: Watch | None = None) -> list[str]:
        full = self._full_path(path)
        on_loop = None if watch is None else _OnLoop(self, watch)
        while True:
            try:
                send = functools.partial(self._client.get_children_async, full, on_loop)
                names: list[str] = await self._request(send)
                return sorted(names)
            except NoNodeError:
                if on_loop is None or not await self._exists(full, on_loop):
                    return []
            except ZookeeperError as error:
                self._raise_refusal(error, path)

    async def create(self, path: str, data: bytes, ephemeral: bool = False) -> None:
        check_size([Create(path, data, ephemeral)])
        try:
            await self._create(path, data, ephemeral)
        except NoNodeError:
            # Another client has deleted a parent that was known to exist.
            for parent in _parents(path):
                self._made.discard(parent)
            try:
                await self._create(path, data, ephemeral)
            except ZookeeperError as error:
                self._raise_refusal(error, path)
        except ZookeeperError as error:
            self._raise_refusal(error, path)

    async def set(self, path: str, data: bytes, version: int = -1) -> int:
        check_size([Set(path, data, version)])
        try:
            stat = await self._request(
                functools.partial(self._client.set_async, self._full_path(path), data, version), "write", by_leader=True
            )
        except ZookeeperError as error:
            self._raise_refusal(error, path)
        new_version: int = stat.version
        return new_version

    async def delete(self, path: str, version: int = -1) -> None:
        self._made.discard(path)
        try:
            await self._request(
                functools.partial(self._client.delete_async, self._full_path(path), version), "write", by_leader=True
            )
        except ZookeeperError as error:
            self._raise_refusal(error, path)

    def multi(self, operations: Sequence[Operation]) -> Awaitable[list[int]]:
        check_size(operations)
        transaction = self._client.transaction()
        for operation in operations:
            path = self._full_path(operation.path)
            if isinstance(operation, Check):
                transaction.check(path, operation.version)
            elif isinstance(operation, Set):
                transaction.set_data(path, operation.data, operation.version)
            elif isinstance(operation, Create):
                transaction.create(path, operation.data, ephemeral=operation.ephemeral)
            else:
                self._made.discard(operation.path)
                transaction.delete(path, operation.version)
        sent = self._request(transaction.commit_async, "write", by_leader=True)
        return self._multi_result(operations, sent)

    async def _multi_result(self, operations: Sequence[Operation], sent: asyncio.Future[list[Any]]) -> list[int]:
        try:
            results = await sent
        except ZookeeperError as error:
            self._raise_refusal(error, operations[0].path)
        return self._versions(operations, results)

    def _versions(self, operations: Sequence[Operation], results: list[Any]) -> list[int]:
        """kazoo raises nothing for a failed multi: every operation has its own result. The failed one has its error,
        those before it 'rolled back', those after it 'runtime inconsistency'."""
        for index, result in enumerate(results):
            if isinstance(result, Exception) and not isinstance(result, (RolledBackError, RuntimeInconsistency)):
                self._raise_refusal(result, operations[index].path, index)
        if len(results) != len(operations) or any(isinstance(result, Exception) for result in results):
            raise OutcomeUnknownError(f"ZooKeeper gave no clear answer to a multi: {results!r}")
        return [
            result.version if isinstance(operation, Set) else 0
            for operation, result in zip(operations, results, strict=True)
        ]

    async def _create(self, path: str, data: bytes, ephemeral: bool) -> None:
        # Parents that may be missing are created ahead in one batch, so that later requests find the node.
        missing = [parent for parent in _parents(path) if parent not in self._made]
        steps = [self._send_create(parent, b"", False) for parent in missing]
        *above, own = await asyncio.gather(*steps, self._send_create(path, data, ephemeral), return_exceptions=True)
        for parent, result in zip(missing, above, strict=True):
            if isinstance(result, str | NodeExistsError):
                self._made.add(parent)
            elif isinstance(result, NoAuthError):
                raise result
        if isinstance(own, BaseException):
            raise own
        if not ephemeral:
            self._made.add(path)

    def _send_create(self, path: str, data: bytes, ephemeral: bool) -> asyncio.Future[Any]:
        send = functools.partial(self._client.create_async, self._full_path(path), data, ephemeral=ephemeral)
        return self._request(send, "write", by_leader=True)

    async def make_chroot(self) -> None:
        """Creates the chroot and the nodes above it, if they are missing."""
        for path in (*_parents(self.address.chroot[1:])[1:], self.address.chroot[1:]):
            try:
                await self._request(functools.partial(self._client.create_async, "/" + path), "write", by_leader=True)
            except NodeExistsError:
                pass
            except ZookeeperError as error:
                self._raise_refusal(error, "")

    async def open_to_the_world(self) -> bool:
        """Whether a client without credentials may change nodes below the chroot."""
        try:
            acls, _ = await self._request(functools.partial(self._client.get_acls_async, self.address.chroot))
        except ZookeeperError as error:
            self._raise_refusal(error, "")
        return any(acl.id.scheme == "world" and acl.perms & ~1 for acl in acls)

    async def _exists(self, full: str, on_loop: _OnLoop) -> bool:
        """Sets a watch for the creation of a node that was missing just now."""
        try:
            return await self._request(functools.partial(self._client.exists_async, full, on_loop)) is not None
        except ZookeeperError as error:
            self._raise_refusal(error, full)

    def _send_sync(self) -> Result:
        result: Result = self._client.sync_async(self.address.chroot)
        return result

    def _full_path(self, path: str) -> str:
        return f"{self.address.chroot}/{path}" if path else self.address.chroot

    def _raise_refusal(self, error: Exception, path: str, index: int = 0) -> NoReturn:
        """A final answer of the server: nothing was done."""
        for kind, reason in _CONFLICTS:
            if isinstance(error, kind):
                raise ConflictError(reason, path, index) from None
        if isinstance(error, (NoAuthError, SessionClosedRequireSaslError)):
            raise SqlError(
                "28000",
                f"ZooKeeper refuses access to {self._full_path(path)}: "
                f"set {DIGEST} or {SASL} to user:password as on the node that made it",
            ) from None
        if isinstance(error, (BadArgumentsError, NoChildrenForEphemeralsError, InvalidACLError)):
            raise ValueError(f"{path}: {type(error).__name__}") from None
        raise CoordinationUnavailableError(f"ZooKeeper refuses a request: {type(error).__name__}") from None

    # --- running requests ----------------------------------------------------------------------------------------

    def _request(
        self,
        send: Callable[[], Result],
        kind: Literal["read", "write", "probe"] = "read",
        by_leader: bool = False,
    ) -> asyncio.Future[Any]:
        """Queues a request. Its place among all requests is that of this call, not of the awaiting of its future."""
        if self._state == "lost":
            raise CoordinationUnavailableError("the ZooKeeper session is over")
        request = _Request(send, kind, by_leader, self._loop.create_future())
        if self._state == "connected":
            self._send_request(request)
        else:
            self._wait(request)
        return request.answer

    def _send_request(self, request: _Request) -> None:
        if request.answer.cancelled():
            return
        self._in_flight[request] = None
        request.sent = time.monotonic()
        request.send().rawlink(functools.partial(self._handler.call_on_loop, self._on_answer, request))

    def _wait(self, request: _Request) -> None:
        self._waiting.append(request)
        request.timer = self._loop.call_later(self._timeout, self._fail_late_request, request)

    def _fail_late_request(self, request: _Request) -> None:
        if request in self._waiting:
            self._waiting.remove(request)
            _fail(request, CoordinationUnavailableError(self._connection_problem()))

    def _on_answer(self, request: _Request, result: Result) -> None:
        if request not in self._in_flight:
            return
        del self._in_flight[request]
        durations("shoal_zookeeper_seconds", request=request.kind).add_seconds(time.monotonic() - request.sent)
        error = result.exception
        if error is None:
            if request.by_leader and request.sent > self._proven:
                self._proven = request.sent
            if not request.answer.done():
                request.answer.set_result(result.value)
        elif isinstance(error, ZookeeperError) and not isinstance(error, _UNKNOWN):
            _fail(request, error)
        elif isinstance(error, ZookeeperError):
            if isinstance(error, ConnectionLoss):
                # kazoo reports the broken connection a moment later, so nothing is sent until then.
                self._on_interrupted("suspended")
            self._on_no_answer(request)
        else:
            # kazoo could not read the answer, so it is unknown whether the request was carried out.
            log.error("kazoo failed on an answer of ZooKeeper: %r", error)
            self._on_no_answer(request)

    def _on_no_answer(self, request: _Request) -> None:
        if request.kind == "write":
            _fail(request, OutcomeUnknownError("the connection to ZooKeeper broke before the answer came"))
        elif self._state == "lost":
            _fail(request, CoordinationUnavailableError("the ZooKeeper session is over"))
        elif request.kind == "probe":
            _fail(request, CoordinationUnavailableError(self._connection_problem()))
        elif not request.answer.done():
            self._wait(request)

    # --- the connection ------------------------------------------------------------------------------------------

    def _on_connected(self, begun: float, session_timeout: float) -> None:
        if self._state == "lost":
            return
        if self._giving_up is not None:
            self._giving_up.cancel()
        self._session_timeout = session_timeout
        # The leader opens and resumes sessions.
        self._proven = max(self._proven, begun)
        for request in self._in_flight:  # sent while the connection was breaking: sent through this one
            request.sent = begun
        if not self._opened.done():
            self._opened.set_result(None)
        self._set_state("connected")
        waiting, self._waiting = self._waiting, deque()
        for request in waiting:
            if request.timer is not None:
                request.timer.cancel()
            self._send_request(request)
        if self._ticking is None:
            self._keep_alive()

    def _on_interrupted(self, state: SessionState) -> None:
        if state == "lost" and self._state != "lost":
            self._end_session("the ZooKeeper session is over")
        elif state == "suspended" and self._state == "connected":
            self._set_state("suspended")
            self._giving_up = self._loop.call_later(self._timeout, self._fail_stranded_requests)

    def _connection_problem(self) -> str:
        """The reason why there is no connection, host by host."""
        tried, hosts = self._handler.tried, self.address.hosts
        reasons = [_reason(tried, host) for host in hosts]
        if self._handler.refused:
            return f"no session with ZooKeeper at {', '.join(hosts)}: {self._handler.refused}"
        shown = ", ".join(f"{host} ({reason})" for host, reason in zip(hosts, reasons, strict=True))
        if ACCEPTS in reasons:
            shown += ": no majority of the servers is running, or they have lost data that this session has seen"
        return f"no session with ZooKeeper at {shown}"

    def _set_state(self, state: Literal["connected", "suspended"]) -> None:
        if state == self._state:
            return
        self._complained = time.monotonic()
        level = logging.INFO if state == "connected" else logging.WARNING
        log.log(level, "ZooKeeper at %s: %s", ", ".join(self.address.hosts), state)
        self._state = state
        for callback in list(self._callbacks):
            callback(state)

    def _end_session(self, reason: str) -> None:
        """Ends kazoo's client for good, because it must not open another session."""
        was_connected = self._state == "connected"
        self._state = "lost"
        for timer in (self._ticking, self._giving_up):
            if timer is not None:
                timer.cancel()
        self._handler.over = True
        if not self._opened.done():
            self._opened.set_result(None)
        elif not self.closed:
            log.warning("%s", reason)
        in_flight, waiting = list(self._in_flight), list(self._waiting)
        self._in_flight.clear()
        self._waiting.clear()
        for request in in_flight:
            self._on_no_answer(request)
        for request in waiting:
            if request.timer is not None:
                request.timer.cancel()
            _fail(request, CoordinationUnavailableError(reason))
        self._stopping = self._loop.run_in_executor(None, self._stop_client, was_connected)
        for callback in list(self._callbacks):
            callback("lost")

    def _stop_client(self, politely: bool) -> None:
        """Stops kazoo's client in a separate thread, because kazoo waits for its thread to end. `politely` asks the
        server to end the session."""
        drop = threading.Timer(FAREWELL if politely else 0.0, self._handler.drop)
        drop.start()
        try:
            self._client.stop()
            self._client.close()
        finally:
            drop.cancel()

    def _keep_alive(self) -> None:
        """Several times a session timeout: renews `alive_until`, and detects a server that does not answer."""
        period = self._session_timeout / KEEPALIVES_PER_TIMEOUT
        self._ticking = self._loop.call_later(period, self._keep_alive)
        now = time.monotonic()
        oldest = next(iter(self._in_flight), None)
        if self._state == "connected":
            if oldest is not None and now - oldest.sent > PATIENCE * self._session_timeout:
                log.warning("ZooKeeper does not answer: trying another server")
                self._handler.drop()
            elif now - self._proven > period / 2:
                self._request(self._send_sync, "probe", by_leader=True).add_done_callback(_ignore_answer)
        elif now - self._complained > COMPLAIN_EVERY:
            self._complained = now
            log.warning("%s", self._connection_problem())

    def _fail_stranded_requests(self) -> None:
        """Fails the requests that were sent while the connection was breaking, because kazoo keeps them for the next
        connection."""
        stranded = list(self._in_flight)
        self._in_flight.clear()
        for request in stranded:
            if request.kind == "read":
                request.kind = "probe"
            self._on_no_answer(request)


def _fail(request: _Request, error: Exception) -> None:
    if not request.answer.done():
        request.answer.set_exception(error)


def _ignore_answer(answer: asyncio.Future[Any]) -> None:
    if not answer.cancelled():
        answer.exception()


def _parents(path: str) -> list[str]:
    """The parents of a path, from the top: 'a/b/c' has '', 'a' and 'a/b'."""
    parts = path.split("/")
    return ["/".join(parts[:count]) for count in range(len(parts))]
