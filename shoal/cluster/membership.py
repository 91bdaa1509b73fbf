"""The identity of this node (its cluster and its name), on disk and in ZooKeeper.

The data directory's `cluster.json` names the cluster and the node. It is written before the cluster's data. The
ephemeral znode `nodes/<node>` holds the node's address, and exists while the node's session lives. So a second node of
the same name waits until the first one's session must have ended, and then fails with one line.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import logging
import os
import re
import secrets
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path

import orjson

from catalog.errors import SqlError
from replication.background import run_in_background
from replication.interface import ConflictError, Coordination, CoordinationUnavailableError, Node
from replication.log.layout import decode_node, encode, node_path
from shoal.config import ConfigError

log = logging.getLogger("shoal.cluster")

MARKER = "cluster.json"
NODE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")
SECRET = "secret"
LOAD_INTERVAL = 2.0  # seconds
MAX_NEWER_SESSIONS = 3  # number of sessions that ZooKeeper opens while it does not accept the older one


@dataclass(frozen=True, slots=True)
class Identity:
    """The content of `cluster.json`. `cluster`: 32 hexadecimal digits."""

    cluster: str
    node: str


def read_identity(data: Path) -> Identity | None:
    """None for a directory that has never been part of a cluster. Raises ConfigError for a broken file."""
    path = data / MARKER
    if not path.exists():
        return None
    try:
        value = orjson.loads(path.read_bytes())
        return Identity(str(value["cluster"]), str(value["node"]))
    except (orjson.JSONDecodeError, KeyError, TypeError) as error:
        raise ConfigError(f"{path} is damaged: restore it, or remove the directory to copy the data again") from error


def write_identity(data: Path, identity: Identity) -> None:
    """The file is durable when this returns."""
    path, fresh = data / MARKER, data / (MARKER + ".new")
    with open(fresh, "wb") as file:
        file.write(orjson.dumps(identity))
        file.flush()
        os.fsync(file.fileno())
    fresh.rename(path)
    directory = os.open(data, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)


def check_node_name(node: str) -> None:
    """Raises ConfigError."""
    if not NODE_NAME.fullmatch(node):
        raise ConfigError(f'"{node}" is not a name of a node: at most 63 letters, digits, ".", "_" and "-"')


async def cluster_secret(coordination: Coordination) -> bytes:
    """The secret with which the nodes of the cluster authenticate each other. The first node creates it, in ZooKeeper
    under the ACL of the chroot."""
    found = await coordination.get(SECRET)
    if found is None:
        with contextlib.suppress(ConflictError):
            await coordination.create(SECRET, secrets.token_hex(32).encode())
        found = await coordination.get(SECRET)
        assert found is not None
    return found.data


class Registration:
    """The znode `nodes/<node>`: the node's address, load and number of connections."""

    def __init__(self, node: Node, measure: Callable[[], tuple[float, int]]) -> None:
        """`measure` gives the load (0..1) and the number of connections."""
        self.node = node
        self._measure = measure
        self._task: asyncio.Task[None] | None = None
        self._coordination: Coordination | None = None

    async def register(self, coordination: Coordination) -> None:
        """Creates the znode in this session. Raises ConfigError when another node of that name is alive."""
        deadline = asyncio.get_running_loop().time() + 2 * coordination.session_timeout + 1
        path = node_path(self.node.node)
        while True:
            try:
                await coordination.create(path, encode(self.node), ephemeral=True)
                break
            except ConflictError:
                gone = asyncio.Event()
                found = await coordination.get(path, gone.set)
                if found is None:
                    continue
                if self._is_own(decode_node(found.data)):
                    with contextlib.suppress(ConflictError):
                        await coordination.delete(path, found.version)
                    continue
                left = deadline - asyncio.get_running_loop().time()
                if left <= 0:
                    raise ConfigError(
                        f'node "{self.node.node}" is already running in this cluster: choose another name with --node'
                    ) from None
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(left):
                        await gone.wait()
        self._coordination = coordination
        if self._task is None:
            self._task = run_in_background(self._report())

    def _is_own(self, found: Node) -> bool:
        """Whether an ended session of this process left the znode. ZooKeeper may end a session late when the whole
        machine stood still."""
        ours = self.node
        return (found.started, found.host, found.port) == (ours.started, ours.host, ours.port) and ours.started > 0

    async def set_address(self, host: str, port: int) -> None:
        """Called when the address becomes known or changes."""
        self.node = dataclasses.replace(self.node, host=host, port=port)
        await self._write()

    async def _report(self) -> None:
        while True:
            await asyncio.sleep(LOAD_INTERVAL)
            load, connections = self._measure()
            changed = abs(load - self.node.load) >= 0.05 or connections != self.node.connections
            if changed:
                self.node = dataclasses.replace(self.node, load=round(load, 2), connections=connections)
                with contextlib.suppress(ConflictError, CoordinationUnavailableError):
                    await self._write()

    async def _write(self) -> None:
        assert self._coordination is not None
        await self._coordination.set(node_path(self.node.node), encode(self.node))

    def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()


SessionCallback = Callable[[Coordination], Awaitable[None]]


class CoordinationSessions:
    """Keeps a session with ZooKeeper open: when one ends, it opens another, without limit, and calls `opened`. Raises
    nothing after the first session is open.

    A ZooKeeper that has lost data never accepts a session that has seen them, so the session stays suspended
    (replication/zookeeper/session.py). Therefore another session is opened now and then while the session is suspended,
    to learn whether the cluster still exists. If the new one opens and the old one is still not accepted, ZooKeeper has
    lost data.
    """

    def __init__(self, open_session: Callable[[], Awaitable[Coordination]], retry_pause: float = 0.5) -> None:
        self._open = open_session
        self._retry_pause = retry_pause
        self._opened: list[SessionCallback] = []
        self._tasks: list[asyncio.Task[None]] = []
        self._lost = asyncio.Event()
        self.current: Coordination
        self.fatal: Callable[[BaseException], None] = _ignore

    async def start(self) -> Coordination:
        """Raises SqlError as `open_coordination` does."""
        self._use(await self._open())
        self._tasks = [run_in_background(work) for work in (self._reopen(), self._check_data_loss())]
        return self.current

    def on_opened(self, opened: SessionCallback) -> None:
        """Registers a coroutine function that is called with every new session after the first."""
        self._opened.append(opened)

    def _use(self, session: Coordination) -> None:
        self.current = session
        self._lost.clear()
        session.on_state(lambda state: self._lost.set() if state == "lost" else None)
        if session.state == "lost":
            self._lost.set()

    async def _reopen(self) -> None:
        while True:
            await self._lost.wait()
            log.warning("the session with ZooKeeper is over; opening a new one")
            try:
                self._use(await self._open())
                for opened in self._opened:
                    await opened(self.current)
                log.info("a new session with ZooKeeper is open")
            except SqlError as error:
                if error.sqlstate == "55000":  # ZooKeeper no longer holds this cluster, so this node must not continue
                    self.fatal(error)
                    return
                log.warning("%s", error.message)
                self._lost.set()
                await asyncio.sleep(self._retry_pause)
            except CoordinationUnavailableError as error:
                log.warning("%s", error)
                self._lost.set()
                await asyncio.sleep(self._retry_pause)
            except ConfigError as error:
                self.fatal(error)
                return

    async def _check_data_loss(self) -> None:
        """Ends the node when ZooKeeper has lost data that its session has seen."""
        doubted, stood = self.current, 0
        while True:
            await asyncio.sleep(2 * self.current.session_timeout)
            if self.current.state != "suspended" or self.current is not doubted:
                doubted, stood = self.current, 0
                continue
            try:
                await (await self._open()).close()
                stood += 1
            except SqlError as error:
                if error.sqlstate == "55000":
                    self.fatal(error)
                    return
            except CoordinationUnavailableError:
                continue
            if stood >= MAX_NEWER_SESSIONS and doubted.state == "suspended":
                self.fatal(SqlError("55000", "ZooKeeper does not know its earlier sessions: it has lost data"))
                return

    async def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        with contextlib.suppress(CoordinationUnavailableError):
            await self.current.close()


def _ignore(_: BaseException) -> None:
    return
