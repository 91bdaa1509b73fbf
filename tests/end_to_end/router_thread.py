"""A router in a thread of the test, over a directory that the test writes."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Any, Self

import uvloop

from replication.interface import Node
from tests.server import ShoalServer
from wire.roster import PROBE_TIMEOUT, Roster
from wire.router import Router


class FixedDirectory:
    """Nodes and leaders as a test says. To be changed on the router's thread (`RouterThread.call`)."""

    def __init__(self) -> None:
        self.nodes: Mapping[str, Node] = {}
        self.leaders: dict[str, str] = {}
        self.stale = False
        self._callbacks: list[Callable[[], None]] = []

    def leader(self, tablespace: str) -> str:
        return self.leaders.get(tablespace, "")

    def on_change(self, callback: Callable[[], None]) -> None:
        self._callbacks.append(callback)

    def put(self, *nodes: Node) -> None:
        self.nodes = {node.node: node for node in nodes}
        for callback in self._callbacks:
            callback()


def registered(name: str, server: ShoalServer, load: float = 0.0) -> Node:
    return Node(name, "127.0.0.1", server.port, load=load)


class RouterThread:
    """Starts on entry, stops on exit. `dsn` is a libpq connection string. `probe_timeout` in seconds: as short as that
    only where a node falls silent, for on a busy machine one that answers may need longer."""

    def __init__(self, *nodes: Node, leader: str = "", probe_timeout: float = PROBE_TIMEOUT, **options: Any) -> None:
        self.directory = FixedDirectory()
        self.directory.put(*nodes)
        self.directory.leaders["pg_default"] = leader
        self.port = 0
        self._options = options
        self._probe_timeout = probe_timeout
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stop: asyncio.Event | None = None
        self._ready = threading.Event()
        self._thread = threading.Thread(target=lambda: uvloop.run(self._run()))
        self.router: Router | None = None

    @property
    def dsn(self) -> str:
        return f"host=127.0.0.1 port={self.port} user=postgres dbname=postgres"

    async def _run(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._stop = asyncio.Event()
        router = Router(self.directory, "127.0.0.1", 0, **self._options)
        router.roster = Roster(
            self.directory,
            on_silent=router.end_connections,
            probe_interval=0.1,
            probe_timeout=self._probe_timeout,
        )
        self.router = router
        self.port = await router.start()
        await self.started(router)
        self._ready.set()
        await self._stop.wait()
        await self.stopping()
        await router.stop()

    async def started(self, router: Router) -> None:
        """For what else a test runs beside it."""

    async def stopping(self) -> None: ...

    def call(self, work: Callable[[], object]) -> None:
        """Runs something on the router's thread."""
        done = threading.Event()

        def run() -> None:
            work()
            done.set()

        assert self._loop is not None
        self._loop.call_soon_threadsafe(run)
        assert done.wait(10)

    def __enter__(self) -> Self:
        self._thread.start()
        assert self._ready.wait(20)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._stop is not None
        self.call(self._stop.set)
        self._thread.join(20)
