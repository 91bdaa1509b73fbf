"""The composition root: connects store, changelog, columnar worker, node and server, and runs them until a signal.

start              locks and recovers the directory, reads the catalog, listens, prints its address
SIGTERM, SIGINT    stops: no new connections, running statements finish, sequences and the memtable are written
SIGHUP             reloads the configuration (shoal/reload.py)
SIGKILL            loses no acknowledged commit at any moment: the next start replays the changelog
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import os
import signal
import socket
import sys
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import orjson
import uvloop

from catalog import patience
from catalog.types import beside
from engine.cluster_view import THIS_NODE
from engine.columnar.client import WorkerClient
from engine.foreground import Place, foreground
from engine.node.node import Node, resolve
from engine.pandas_import import refuse_pandas
from engine.past.far import FarPast
from engine.past.manager import Past
from engine.priority import stand_first
from engine.storage.directories import LocalTablespaces
from replication.background import stop_on_failure
from replication.local import LocalChangelog
from shoal.access import admin_tls, client_tls, host_rules, mock_key
from shoal.archive.backup import NodeBackups
from shoal.archive.log_source import SegmentLog
from shoal.config import Config, ConfigError, ConfigSources
from shoal.data_directory import open_spaces
from shoal.descriptors import raise_limit
from shoal.directory_watch import DirectoryWatch
from shoal.failure import end_process
from shoal.history import LocalHistory
from shoal.logs import configure
from shoal.reload import Reload, default_settings, ignore_hangup, on_hangup
from shoal.stacks import raise_stack_limits
from wire.remote_client import open_remote
from wire.server import Server

if TYPE_CHECKING:
    from shoal.admin.server import Admin
    from shoal.cluster.member import ClusterMember

log = logging.getLogger("shoal")

CLUSTER_MARKER = "cluster.json"  # of a cluster's node (membership.py), which must not start alone


def serve(config: Config, as_json: bool = False, sources: ConfigSources | None = None) -> int:
    """Runs the server, and returns the exit status. `as_json`: prints its addresses as a JSON object. `sources`:
    the sources of the configuration, which a reload reads again."""
    ignore_hangup()
    refuse_pandas()
    os.umask(0o077)  # the server's files are for its user only
    # Threads that load, flush and write files alternate with the engine's thread all the time, and each switch would
    # wait up to Python's default of 5 ms for the interpreter lock.
    sys.setswitchinterval(0.0001)
    raise_stack_limits()
    patience.watch()
    beside.use()
    configure(config.log_format, _node_name(config))
    status: int = uvloop.run(_run(config, as_json, sources or ConfigSources.of_config(config)))
    return status


def _node_name(config: Config) -> str:
    """The node's name in the log."""
    return config.node or (socket.gethostname() if config.cluster else THIS_NODE)


async def _run(config: Config, as_json: bool, sources: ConfigSources) -> int:
    loop = asyncio.get_running_loop()
    stop: asyncio.Future[None] = loop.create_future()
    foreground().place = Place()
    stand_first()

    stop_on_failure(loop, end_process)
    async with _admin_port(config) as admin:
        return await _run_node(config, stop, end_process, admin, as_json, sources)


async def _run_node(
    config: Config,
    stop: asyncio.Future[None],
    fatal: Callable[[BaseException], None],
    admin: Admin | None,
    as_json: bool,
    sources: ConfigSources,
) -> int:
    if config.cluster:
        from shoal.cluster.member import ClusterMember  # a single node needs neither ZooKeeper's client nor stores

        member = ClusterMember(config, fatal, "" if admin is None else admin.url_address)
        await member.start()
        try:
            await _serve_clients(config, member.node, stop, member, admin, as_json, sources)
        finally:
            await member.stop()
        return 0
    async with open_single_node(config, fatal) as node:
        await _serve_clients(config, node, stop, None, admin, as_json, sources)
    return 0


@contextlib.asynccontextmanager
async def open_single_node(config: Config, fatal: Callable[[BaseException], None]) -> AsyncIterator[Node]:
    """The node of a directory that belongs to no cluster, from recovery to the last flush. `fatal` is called, on any
    thread, when commits cannot be made durable or memory may be corrupt. Raises ConfigError, and SqlError for a
    directory that is in use or damaged."""
    data = config.data_path
    if (data / CLUSTER_MARKER).exists():
        raise ConfigError(f"{data} belongs to a node of a cluster: start it with --cluster")
    loop = asyncio.get_running_loop()
    logs: dict[bytes, LocalChangelog] = {}
    spaces = open_spaces(data, loop.call_soon_threadsafe, fatal, loop, logs, keep=config.history_retention > 0)
    store = spaces.open()
    async with contextlib.AsyncExitStack() as undo:  # after any failure from here on, everything is closed
        undo.callback(spaces.close)
        worker = WorkerClient(
            store,
            directory=str(data / "columnar"),
            memory_limit=config.columnar_memory,
            threads=config.columnar_threads,
            spill=config.columnar_spill,
        )
        undo.push_async_callback(_close_worker, worker)
        node = Node(store, worker, tablespaces=spaces)
        node.backups = NodeBackups(
            node, lambda tablespace: SegmentLog(logs[tablespace]), str(data / "scratch"), str(data / "restores")
        )
        node.bootstrap()
        watch = DirectoryWatch(data, fatal)
        undo.callback(watch.stop)
        watch.start()
        async with _history(config, node, logs.__getitem__, spaces), worker.started_if_wanted():
            yield node
        node.settle()


async def _close_worker(worker: WorkerClient) -> None:
    """Closes the worker and ignores its errors, because it holds copies only."""
    with contextlib.suppress(Exception):
        await worker.close()


@contextlib.asynccontextmanager
async def _admin_port(config: Config) -> AsyncIterator[Admin | None]:
    """The administration port, or None if it is not configured. Raises ConfigError."""
    address = config.admin_address
    if address is None:
        yield None
        return
    from shoal.admin.groups import (
        GROUPS,
    )  # imported here because the HTTP library takes long to load
    from shoal.admin.server import Admin

    admin = Admin(*address, GROUPS, host_rules(config), admin_tls(config))
    await admin.start()
    try:
        yield admin
    finally:
        await admin.close()


@contextlib.asynccontextmanager
async def _history(
    config: Config, node: Node, log_of: Callable[[bytes], LocalChangelog], spaces: LocalTablespaces
) -> AsyncIterator[None]:
    """Lets sessions read the past of a single node, and manages its history, within the context."""
    data = config.data_path
    history = None
    if config.history_retention > 0:
        history = LocalHistory(node, log_of, data, config.history_retention, config.history_bytes, spaces)
        node.past = Past(
            node, config.past_window, FarPast(node, history.past, str(data / "past"), history.dropped_tablespaces)
        )
    else:
        node.past = Past(node, config.past_window)
    try:
        if history is not None:
            history.start()
        node.past.start()
        yield
    finally:
        await node.past.close()
        if history is not None:
            await history.close()


def memory_of_machine() -> int:
    """Bytes of memory that this process may use: those of the machine, or of its control group if that is less (cgroup
    v2, then v1)."""
    found = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    for path in ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"):
        with contextlib.suppress(OSError, ValueError):
            return min(found, int(Path(path).read_text()))
    return found


async def _serve_clients(
    config: Config,
    node: Node,
    stop: asyncio.Future[None],
    member: ClusterMember | None,
    admin: Admin | None,
    as_json: bool,
    sources: ConfigSources,
) -> None:
    """Accepts clients until `stop`, and then ends their sessions. Raises ConfigError."""
    host, port = config.address
    node.default_settings = default_settings(config)
    node.open_remote = open_remote
    memory = memory_of_machine() // 2
    node.memory.limit = config.memory or memory
    raise_limit(config.max_connections)
    cluster = member.forwarding_services() if member is not None else None
    rules, tls = host_rules(config), client_tls(config)
    key = mock_key(config.data_path, member.secret if member is not None else b"")
    reserved = config.superuser_reserved_connections
    server = Server(node, host, port, config.max_connections, cluster, rules, tls, key, reserved)
    try:
        bound = await server.start()
    except OSError as error:
        raise ConfigError(
            f"cannot listen on {host}:{port}: {os.strerror(error.errno or 0)}; choose another with --listen"
        ) from error
    except ValueError as error:
        raise ConfigError(str(error)) from error
    if member is not None:
        await member.set_address(host, bound)
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, partial(resolve, stop))
    node.configuration = reload = Reload(sources, config, node, server, admin, _node_name(config), memory)
    on_hangup(reload.reload)
    # The objects of the start-up stay for good, so the cyclic collector need not walk them again. It walks young
    # objects a few at a time, because most of those that stay are versions of rows: 50,000 of them took 9 to 25 ms.
    gc.collect()
    gc.freeze()
    gc.set_threshold(2_000, 500, 50)
    if admin is not None:
        admin.set_serving(config, node, server, member)
    ready = ReadyMessage(f"postgresql://postgres@{host}:{bound}/postgres", None if admin is None else admin.url)
    print(ready.as_json() if as_json else ready.as_text(host, bound), flush=True)
    await stop
    if admin is not None:
        admin.set_stopping()
    await end_clients(server)


@dataclass(frozen=True, slots=True)
class ReadyMessage:
    """The message of a server that is ready: its address, and its administration port."""

    url: str
    administration: str | None

    def as_text(self, host: str, port: int) -> str:
        lines = [f"shoal ready: {self.url}", f'connect with: psql "host={host} port={port} user=postgres"']
        if self.administration is not None:
            lines.append(f"administration: {self.administration}")
        return "\n".join(lines)

    def as_json(self) -> str:
        return orjson.dumps({"ready": self.url, "administration": self.administration}).decode()


async def end_clients(server: Server) -> None:
    """Ends the sessions, and the remaining tasks of ended sessions."""
    await server.stop()
    server.node.exported.close()
    server.node.stages.close()
