"""A ZooKeeper in memory for tests of what stands above `replication.interface.Coordination`.

    service = MemoryCoordination()
    a, b = service.session("a"), service.session("b")

One tree of znodes, and sessions with ZooKeeper's semantics: requests of a session arrive and are answered in order,
watches are one-shot and in the same stream as replies, ephemerals go with their session, a multi is all or nothing.
Nothing here waits for real time and nothing is random: what happens when is decided by the event loop (a loop with
virtual time will do), by `latency` and `intercept`, and by the test:

    session.suspend() / resume()         the connection breaks (requests in flight are lost), and is back
    session.partition()                  it breaks and nobody notices: the session runs out, the client finds out late
    session.expire()                     the server ends the session; a client that is cut off learns it on `resume`
    session.lose_reply("before")         the next write is lost on its way there, "after": on its way back,
                                         "later": it waits in the network until `carry_out_late_requests`
    session.hold_replies() / release_replies()
    session.lag() / catch_up()           its server lags: reads are old and watches wait until `sync` or its own write
    service.stop() / start()             no server at all; sessions do not run out meanwhile

A connection that is cut runs into expiry `session_timeout` after the last request that reached the server. While a
session is connected its keep-alive is a matter of arithmetic (`alive_until`), not of timers: an idle loop stays idle.
"""

from __future__ import annotations

import asyncio
import contextvars
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Literal

from replication.interface import (
    Check,
    ConflictError,
    CoordinationUnavailableError,
    Create,
    Delete,
    Operation,
    OutcomeUnknownError,
    SessionState,
    Set,
    Watch,
    Znode,
)
from replication.zookeeper import check_size

KEEPALIVES_PER_TIMEOUT = 6
NETWORK = contextvars.Context()

Loss = Literal["before", "after", "later"]
"""Where a write is lost: before it is carried out, after it, or before it, to be carried out some time later."""

Intercept = Callable[["MemorySession", tuple[Operation, ...]], Loss | None]
Event = tuple[Literal["data", "gone", "children"], str]


@dataclass(frozen=True, slots=True)
class _Node:
    data: bytes
    version: int = 0
    owner: MemorySession | None = None  # of an ephemeral node


class _Tree:
    """Znodes by path. A change is tried on a copy: nodes are immutable, and a tree of a test is small."""

    def __init__(self, nodes: dict[str, _Node] | None = None) -> None:
        self.nodes: dict[str, _Node] = nodes if nodes is not None else {"": _Node(b"")}

    def copy(self) -> _Tree:
        return _Tree(dict(self.nodes))

    def children(self, path: str) -> list[str]:
        prefix = path + "/" if path else ""
        names = (name[len(prefix) :] for name in self.nodes if name.startswith(prefix) and name != "")
        return sorted(name for name in names if "/" not in name)

    def apply(self, operation: Operation, owner: MemorySession, index: int) -> tuple[int, list[Event]]:
        """Returns the new version (0 where there is none) and what watches are to be told. Raises ConflictError."""
        path, node = operation.path, self.nodes.get(operation.path)
        if isinstance(operation, Create):
            if node is not None:
                raise ConflictError("exists", path, index)
            parent = self.nodes.get(_parent(path))
            if parent is None:
                raise ConflictError("missing", path, index)
            if parent.owner is not None:
                raise ValueError(f"{path}: an ephemeral node has no children")
            self.nodes[path] = _Node(operation.data, 0, owner if operation.ephemeral else None)
            return 0, [("data", path), ("children", _parent(path))]
        if node is None:
            raise ConflictError("missing", path, index)
        if operation.version not in (-1, node.version):
            raise ConflictError("version", path, index)
        if isinstance(operation, Check):
            return 0, []
        if isinstance(operation, Set):
            self.nodes[path] = replace(node, data=operation.data, version=node.version + 1)
            return node.version + 1, [("data", path)]
        if self.children(path):
            raise ConflictError("not empty", path, index)
        del self.nodes[path]
        return 0, [("gone", path), ("children", _parent(path))]


def _parent(path: str) -> str:
    return path.rpartition("/")[0]


def _later(delay: float, callback: Callable[[], None]) -> asyncio.Handle:
    """By the network or a server, whoever asked: in no caller's context."""
    loop = asyncio.get_running_loop()
    if delay <= 0:
        return loop.call_soon(callback, context=NETWORK)
    return loop.call_later(delay, callback, context=NETWORK)


class _Channel:
    """One direction of one connection: what is put in comes out in order, each after its latency."""

    def __init__(self, clock: Callable[[], float], latency: Callable[[], float]) -> None:
        self._clock = clock
        self._latency = latency
        self._items: deque[Callable[[], None]] = deque()
        self._due = 0  # items whose time has come while the channel was held
        self._last = float("-inf")
        self._held = False
        self._open = True

    def put(self, item: Callable[[], None]) -> None:
        if not self._open:
            return
        now = self._clock()
        self._last = max(self._last, now + self._latency())
        self._items.append(item)
        _later(self._last - now, self._next)

    def _next(self) -> None:
        if self._held:
            self._due += 1
        elif self._items:
            self._items.popleft()()

    def hold(self) -> None:
        self._held = True

    def release(self) -> None:
        self._held = False
        due, self._due = self._due, 0
        for _ in range(due):
            self._next()

    def close(self) -> None:
        """What is on its way is lost."""
        self._open = False
        self._items.clear()


class MemoryCoordination:
    """The service. `clock` in seconds (default: the running loop's time), `latency` seconds of a message's way.

    `intercept` is asked for every write as it reaches the server: None carries it out, otherwise it is lost there.
    `log` has every change that was carried out, as (session's name, operations), oldest first.
    """

    def __init__(
        self,
        clock: Callable[[], float] | None = None,
        latency: Callable[[MemorySession], float] | None = None,
        intercept: Intercept | None = None,
    ) -> None:
        self.clock = clock or (lambda: asyncio.get_running_loop().time())
        self.latency = latency or (lambda session: 0.0)
        self.intercept = intercept
        self.tree = _Tree()
        self.sessions: list[MemorySession] = []  # those that are not over for the server
        self.log: list[tuple[str, tuple[Operation, ...]]] = []
        self.running = True

    def session(self, name: str = "", *, session_timeout: float = 10.0, timeout: float = 10.0) -> MemorySession:
        """Opens a session (it is connected at once). `timeout`: how long requests wait for a connection, seconds."""
        session = MemorySession(self, name or f"session-{len(self.sessions)}", session_timeout, timeout)
        self.sessions.append(session)
        session.resume()
        return session

    def stop(self) -> None:
        """Every connection breaks, and comes back by `start` only. Sessions do not run out meanwhile."""
        self.running = False
        for session in list(self.sessions):
            session.suspend()

    def start(self) -> None:
        """The servers are back, every session that lives is given its full timeout, and connected."""
        self.running = True
        for session in list(self.sessions):
            session.resume()

    def value(self, path: str) -> bytes | None:
        """What the newest state holds, for assertions."""
        node = self.tree.nodes.get(path)
        return None if node is None else node.data

    def carry_out(self, session: MemorySession, operations: tuple[Operation, ...]) -> list[int]:
        """All or nothing, at once. Raises ConflictError."""
        tree = self.tree.copy()
        versions, events = [], []
        for index, operation in enumerate(operations):
            version, told = tree.apply(operation, session, index)
            versions.append(version)
            events += told
        self.tree = tree
        self.log.append((session.name, operations))
        for event in events:
            for listener in list(self.sessions):
                listener.happened(event)
        return versions

    def end(self, session: MemorySession) -> None:
        """The session is over for the server: its ephemeral nodes go."""
        if session in self.sessions:
            self.sessions.remove(session)
            owned = [path for path, node in self.tree.nodes.items() if node.owner is session]
            if owned:
                self.carry_out(session, tuple(Delete(path) for path in owned))


@dataclass(slots=True, eq=False)
class _Registration:
    """A watch at the server. The client knows of it when the read that set it has been answered."""

    callback: Watch
    answered: bool = False


@dataclass(slots=True, eq=False)
class _Request:
    carry_out: Callable[[], Any]
    operations: tuple[Operation, ...]  # of a write; empty for reads, which are sent again after a broken connection
    answer: asyncio.Future[Any]
    watch: _Registration | None = None
    sent: float = 0.0
    timer: asyncio.Handle | None = None


@dataclass(slots=True)
class _Watches:
    data: dict[str, dict[Watch, _Registration]] = field(default_factory=dict)
    children: dict[str, dict[Watch, _Registration]] = field(default_factory=dict)

    def add(self, kind: Literal["data", "children"], path: str, watch: _Registration) -> None:
        watches = self.data if kind == "data" else self.children
        watches.setdefault(path, {})[watch.callback] = watch

    def take(self, event: Event) -> list[_Registration]:
        kind, path = event
        taken: dict[Watch, _Registration] = {}
        if kind != "children":
            taken |= self.data.pop(path, {})
        if kind != "data":
            taken |= self.children.pop(path, {})
        return list(taken.values())

    def take_all(self) -> list[_Registration]:
        taken = [w for watches in (*self.data.values(), *self.children.values()) for w in watches.values()]
        self.data, self.children = {}, {}
        return taken


class MemorySession:
    """One session: `replication.interface.Coordination`, and the switches of its faults."""

    def __init__(self, service: MemoryCoordination, name: str, session_timeout: float, timeout: float) -> None:
        self.service = service
        self.name = name
        self._session_timeout = session_timeout
        self._timeout = timeout
        self._state: SessionState = "suspended"
        self._callbacks: list[Callable[[SessionState], None]] = []
        self._up = self._down = self._new_channel()
        self._in_flight: list[_Request] = []
        self._waiting: deque[_Request] = deque()
        self._watches = _Watches()
        self._firing: dict[_Registration, None] = {}  # events on their way to the client
        self._cut = False  # by `partition`: the client believes itself connected
        self._connected_at = self._answered_at = self._heard_at = service.clock()
        self._expiry: asyncio.TimerHandle | None = None
        self._losses: deque[tuple[Loss, Callable[[tuple[Operation, ...]], bool], float | None]] = deque()
        self._late: list[tuple[Operation, ...]] = []
        self._stale: _Tree | None = None  # what a lagging server shows
        self._missed: list[Event] = []

    # --- faults --------------------------------------------------------------------------------------------------

    def suspend(self) -> None:
        """The connection breaks. Writes in flight end with OutcomeUnknownError, reads wait for the next connection."""
        if self._state == "lost":
            return
        if self._state == "connected":
            self._disconnect()
            self._change("suspended")
            self._lose_in_flight()
            self._fire_all()
        self._run_out()

    def resume(self) -> None:
        """The connection is back, unless the session is over: then the client learns that it is lost."""
        if self._cut:
            self.suspend()
        if self._state != "suspended" or not self.service.running:
            return
        if self not in self.service.sessions:
            self._lose()
            return
        if self._expiry is not None:
            self._expiry.cancel()
            self._expiry = None
        self._up, self._down = self._new_channel(), self._new_channel()
        self._connected_at = self._answered_at = self._heard_at = self.service.clock()
        self._change("connected")
        waiting, self._waiting = self._waiting, deque()
        for request in waiting:
            if request.timer is not None:
                request.timer.cancel()
            if not request.answer.done():
                self._send(request)

    def partition(self, notice_after: float | None = None) -> None:
        """Nothing gets through any more, in either direction; the client notices it (and is suspended) after some
        seconds (default: half of the session timeout), the server's time for the session runs."""
        if self._state != "connected" or self._cut:
            return
        self._answered_at = self._renewed()
        self._disconnect()
        self._cut = True
        self._run_out()
        delay = self._session_timeout / 2 if notice_after is None else notice_after
        asyncio.get_running_loop().call_later(delay, self._notice, self._up, context=NETWORK)

    def _notice(self, broken: _Channel) -> None:
        if self._cut and self._up is broken:
            self.suspend()

    def expire(self) -> None:
        """The server ends the session. A client that is connected learns it at once, another on `resume`."""
        self.service.end(self)
        if self._state == "connected" and not self._cut:
            self._disconnect()
            self._change("suspended")
            self._lose_in_flight()
            self._lose()

    def lose_reply(
        self,
        loss: Loss = "after",
        match: Callable[[tuple[Operation, ...]], bool] = lambda operations: True,
        reconnect: float | None = 0.0,
    ) -> None:
        """The next write that matches is lost with its connection, which is back after `reconnect` seconds (None:
        when `resume` is called). Several of these are used up in the order in which they were asked for."""
        self._losses.append((loss, match, reconnect))

    def carry_out_late_requests(self) -> int:
        """Writes lost "later" arrive at the server now; how many of them were carried out."""
        late, self._late = self._late, []
        if self not in self.service.sessions:
            return 0
        done = 0
        for operations in late:
            try:
                self.service.carry_out(self, operations)
                done += 1
            except ConflictError:
                pass
        return done

    def hold_replies(self) -> None:
        """Requests arrive; replies and watches wait for `release_replies`, in order."""
        self._down.hold()

    def release_replies(self) -> None:
        self._down.release()

    def lag(self) -> None:
        """From now on the server of this session hears of no change, until `sync`, a write of this session, or
        `catch_up`."""
        self._stale = self.service.tree

    def catch_up(self) -> None:
        self._stale = None
        missed, self._missed = self._missed, []
        for event in missed:
            self.happened(event)

    # --- Coordination --------------------------------------------------------------------------------------------

    @property
    def session_timeout(self) -> float:
        return self._session_timeout

    @property
    def alive_until(self) -> float:
        return self._renewed() + self._session_timeout

    @property
    def state(self) -> SessionState:
        return self._state

    def on_state(self, callback: Callable[[SessionState], None]) -> None:
        self._callbacks.append(callback)

    async def get(self, path: str, watch: Watch | None = None) -> Znode | None:
        registration = None if watch is None else _Registration(watch)

        def read() -> Znode | None:
            node = self._view().nodes.get(path)
            if registration is not None:
                self._watches.add("data", path, registration)
            return None if node is None else Znode(node.data, node.version)

        found: Znode | None = await self._request(read, watch=registration)
        return found

    async def sync(self) -> None:
        await self._request(self.catch_up)

    async def children(self, path: str, watch: Watch | None = None) -> list[str]:
        registration = None if watch is None else _Registration(watch)

        def read() -> list[str]:
            view = self._view()
            if registration is not None:
                self._watches.add("children" if path in view.nodes else "data", path, registration)
            return view.children(path) if path in view.nodes else []

        names: list[str] = await self._request(read, watch=registration)
        return names

    async def create(self, path: str, data: bytes, ephemeral: bool = False) -> None:
        operation = Create(path, data, ephemeral)

        def write() -> None:
            missing = []
            parent = _parent(path)
            while parent not in self.service.tree.nodes:
                missing.append(Create(parent, b""))
                parent = _parent(parent)
            for step in reversed(missing):
                self._carry_out((step,))
            self._carry_out((operation,))

        await self._request(write, (operation,))

    async def set(self, path: str, data: bytes, version: int = -1) -> int:
        return (await self.multi([Set(path, data, version)]))[0]

    async def delete(self, path: str, version: int = -1) -> None:
        await self.multi([Delete(path, version)])

    def multi(self, operations: Sequence[Operation]) -> Awaitable[list[int]]:
        """It is on its way when this returns."""
        all_of_them = tuple(operations)
        return self._request(partial(self._carry_out, all_of_them), all_of_them)

    async def close(self) -> None:
        """Ends the session: ephemeral nodes go at once (those of a session that is cut off when it runs out). The
        state is 'lost' then; nobody is called back."""
        self._callbacks.clear()
        if self._state == "connected" and not self._cut:
            self.service.end(self)
        self._disconnect()
        self._watches.take_all()
        self._firing.clear()
        if self._state != "lost":
            self._run_out()
            self._lose()

    # --- requests ------------------------------------------------------------------------------------------------

    def _request(
        self, carry_out: Callable[[], Any], operations: tuple[Operation, ...] = (), watch: _Registration | None = None
    ) -> asyncio.Future[Any]:
        check_size(operations)
        if self._state == "lost":
            raise CoordinationUnavailableError("the ZooKeeper session is over")
        request = _Request(carry_out, operations, asyncio.get_running_loop().create_future(), watch)
        if self._state == "connected":
            self._send(request)
        else:
            self._wait(request)
        return request.answer

    def _wait(self, request: _Request) -> None:
        self._waiting.append(request)
        request.timer = asyncio.get_running_loop().call_later(self._timeout, self._give_up, request, context=NETWORK)

    def _give_up(self, request: _Request) -> None:
        if request in self._waiting:
            self._waiting.remove(request)
            if not request.answer.done():
                request.answer.set_exception(CoordinationUnavailableError("no connection to ZooKeeper"))

    def _send(self, request: _Request) -> None:
        request.sent = self.service.clock()
        self._in_flight.append(request)
        self._up.put(partial(self._arrive, request))

    def _arrive(self, request: _Request) -> None:
        self._heard_at = self.service.clock()
        loss, reconnect = self._loss_of(request)
        if loss == "later":
            self._late.append(request.operations)
        if loss in ("before", "later"):
            self._break(reconnect)
            return
        answer: Any
        try:
            answer = request.carry_out()
        except (ConflictError, ValueError) as error:
            answer = error
        if loss == "after":
            self._break(reconnect)
            return
        self._down.put(partial(self._answer, request, answer))

    def _loss_of(self, request: _Request) -> tuple[Loss | None, float | None]:
        if not request.operations:
            return None, 0.0
        if self._losses and self._losses[0][1](request.operations):
            loss, _, reconnect = self._losses.popleft()
            return loss, reconnect
        return (self.service.intercept(self, request.operations) if self.service.intercept else None), 0.0

    def _break(self, reconnect: float | None) -> None:
        self.suspend()
        if reconnect is not None:
            _later(reconnect, self.resume)

    def _answer(self, request: _Request, answer: Any) -> None:
        self._in_flight.remove(request)
        self._answered_at = max(self._answered_at, request.sent)
        if request.watch is not None:
            request.watch.answered = True
        if request.answer.done():
            return
        if isinstance(answer, Exception):
            request.answer.set_exception(answer)
        else:
            request.answer.set_result(answer)

    def _carry_out(self, operations: tuple[Operation, ...]) -> list[int]:
        self.catch_up()
        return self.service.carry_out(self, operations)

    def _view(self) -> _Tree:
        return self.service.tree if self._stale is None else self._stale

    # --- the connection and the session --------------------------------------------------------------------------

    def _new_channel(self) -> _Channel:
        return _Channel(self.service.clock, lambda: self.service.latency(self))

    def _renewed(self) -> float:
        """When the last request that was answered was sent, keep-alives included."""
        if self._state != "connected" or self._cut:
            return self._answered_at
        now, period = self.service.clock(), self._session_timeout / KEEPALIVES_PER_TIMEOUT
        return max(self._answered_at, self._connected_at + (now - self._connected_at) // period * period)

    def _disconnect(self) -> None:
        if self._state == "connected" and not self._cut:
            self._answered_at = self._renewed()
            self._heard_at = max(self._heard_at, self._answered_at)
        self._up.close()
        self._down.close()
        self._cut = False

    def _run_out(self) -> None:
        """The server ends the session when it has not been heard of for the session timeout."""
        if self._expiry is not None:
            self._expiry.cancel()
            self._expiry = None
        if self.service.running and self in self.service.sessions:
            left = self._heard_at + self._session_timeout - self.service.clock()
            self._expiry = asyncio.get_running_loop().call_later(
                max(left, 0.0), self.service.end, self, context=NETWORK
            )

    def _change(self, state: SessionState) -> None:
        self._state = state
        loop = asyncio.get_running_loop()
        for callback in self._callbacks:
            loop.call_soon(callback, state, context=NETWORK)

    def _lose(self) -> None:
        self._change("lost")
        self._lose_in_flight()
        for request in self._waiting:
            if request.timer is not None:
                request.timer.cancel()
            if not request.answer.done():
                request.answer.set_exception(CoordinationUnavailableError("the ZooKeeper session is over"))
        self._waiting.clear()
        self._fire_all()

    def _lose_in_flight(self) -> None:
        in_flight, self._in_flight = self._in_flight, []
        for request in in_flight:
            if request.answer.done():
                continue
            if not request.operations and self._state != "lost":
                self._wait(request)
            elif not request.operations:
                request.answer.set_exception(CoordinationUnavailableError("the ZooKeeper session is over"))
            else:
                request.answer.set_exception(OutcomeUnknownError("the connection to ZooKeeper broke"))

    # --- watches -------------------------------------------------------------------------------------------------

    def happened(self, event: Event) -> None:
        """The server tells of a change, in the stream of replies."""
        if self._stale is not None:
            self._missed.append(event)
            return
        for watch in self._watches.take(event):
            self._firing[watch] = None
            self._down.put(partial(self._fire, watch))

    def _fire(self, watch: _Registration) -> None:
        if watch in self._firing:
            del self._firing[watch]
            watch.callback()

    def _fire_all(self) -> None:
        """A change may have been missed: everything that the client waits for fires, once."""
        waiting = dict.fromkeys([*self._firing, *self._watches.take_all()])
        self._firing.clear()
        self._missed.clear()
        self._stale = None
        loop = asyncio.get_running_loop()
        for watch in waiting:
            if watch.answered:
                loop.call_soon(watch.callback, context=NETWORK)
