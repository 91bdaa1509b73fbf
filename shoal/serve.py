"""The composition root: joins store, changelog, columnar worker, node and server, and runs them until a signal.

Start: lock and recover the directory, read the catalog, listen, say so. Stop (SIGTERM, SIGINT): no new connections,
running statements finish, sequences settle, the memtable is flushed. SIGKILL at any moment loses nothing acknowledged:
start-up replays the changelog.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import os
import signal
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import uvloop

from engine.columnar.client import WorkerClient
from engine.node import Node, resolve
from engine.storage.directories import LocalTablespaces
from engine.storage.tablespace import Tablespace
from replication.local import LocalChangelog
from shoal.config import Config, ConfigError
from wire.server import Server

if TYPE_CHECKING:
    from shoal.cluster.member import Member

log = logging.getLogger("shoal")

CLUSTER_MARKER = "cluster.json"  # shoal/cluster/membership.py: alone, the node would make another history


def serve(config: Config) -> int:
    """Runs the server; returns the exit status."""
    # Threads that load, flush and write files hand over to the engine's thread and take over from it all the time:
    # each would wait for Python's default of 5 ms to get the interpreter.
    sys.setswitchinterval(0.0001)
    sys.setrecursionlimit(20_000)  # deeply nested SQL is refused by the parser's own limits (54001)
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(name)s %(levelname)s %(message)s")
    status: int = uvloop.run(_run(config))
    return status


async def _run(config: Config) -> int:
    loop = asyncio.get_running_loop()
    data = config.data_path
    stop: asyncio.Future[None] = loop.create_future()

    def fatal(error: BaseException) -> None:
        log.critical("cannot make commits durable, stopping: %s", error)
        os._exit(70)  # nothing may be acknowledged any more, and what was is on disk

    if config.cluster:
        from shoal.cluster.member import Member  # a node alone needs neither ZooKeeper's client nor stores

        member = Member(config, fatal)
        await member.start()
        try:
            await _serve_clients(config, member.node, stop, member)
        finally:
            await member.stop()
        return 0
    if (data / CLUSTER_MARKER).exists():
        raise ConfigError(f"{data} belongs to a node of a cluster: start it with --cluster")
    spaces = open_spaces(data, loop.call_soon_threadsafe, fatal, loop)
    store = spaces.open()
    try:
        worker = WorkerClient(
            store,
            spill_directory=str(data / "columnar"),
            memory_limit=config.columnar_memory,
            threads=config.columnar_threads,
        )
        node = Node(store, worker, tablespaces=spaces)
        node.bootstrap()
        await _serve_clients(config, node, stop, None)
        node.settle()
        with contextlib.suppress(Exception):
            await worker.close()
        return 0
    finally:
        spaces.close()


async def _serve_clients(config: Config, node: Node, stop: asyncio.Future[None], member: Member | None) -> None:
    """Lets clients in until `stop`, and then ends their sessions. Raises ConfigError."""
    host, port = config.address
    cluster = member.for_clients() if member is not None else None
    server = Server(node, host, port, config.max_connections, cluster)
    try:
        bound = await server.start()
    except OSError as error:
        raise ConfigError(
            f"cannot listen on {host}:{port}: {os.strerror(error.errno or 0)}; choose another with --listen"
        ) from error
    except ValueError as error:
        raise ConfigError(str(error)) from error
    if member is not None:
        await member.listening(host, bound)
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, partial(resolve, stop))
    # What start-up made stays for good: keep the cyclic collector from walking it again and again.
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 50)
    print(f"shoal ready: postgresql://postgres@{host}:{bound}/postgres", flush=True)
    print(f'connect with: psql "host={host} port={bound} user=postgres"', flush=True)
    await stop
    await server.stop()


def open_spaces(
    data: Path,
    engine_thread: Callable[[Callable[[], None]], object],
    fatal: Callable[[BaseException], None],
    loop: asyncio.AbstractEventLoop | None = None,
) -> LocalTablespaces:
    """The tablespaces of a data directory over local changelogs, to be opened. `loop`: the engine's thread runs it."""

    def thread(work: Callable[[], None]) -> None:
        with contextlib.suppress(RuntimeError):  # the loop is closed: the process is ending
            engine_thread(work)

    def open_log(
        directory: str, tablespace: bytes, committed: Callable[[int], None], failed: Callable[[BaseException], None]
    ) -> LocalChangelog:
        path = os.path.join(directory, "changelog")
        return LocalChangelog(path, thread, committed, failed, loop=loop, tablespace=tablespace)

    return LocalTablespaces(str(data), open_log, thread, fatal)


def open_store(
    data: Path,
    engine_thread: Callable[[Callable[[], None]], object],
    fatal: Callable[[BaseException], None],
    loop: asyncio.AbstractEventLoop | None = None,
) -> Tablespace:
    """pg_default of a data directory that has no other tablespace, over its local changelog."""
    return open_spaces(data, engine_thread, fatal, loop).open()
