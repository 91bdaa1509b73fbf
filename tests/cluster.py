"""A real cluster for tests: ZooKeeper, a changelog store, and `shoal serve --cluster` processes, all on this machine.

    with ShoalCluster(nodes=3) as cluster:
        with psycopg.connect(cluster.dsn(cluster.leader())) as connection: ...
        cluster.kill(cluster.leader())
        cluster.wait_for_leader()

Everything is waited for by what happens: a line that a process writes, a watch in ZooKeeper (a client of the test's
own), a process that ends. Clocks are fast: a session ends after a second, so a fail-over takes about that long.

`limits` are given to the nodes' internals (`LogSettings`, `Tablespace.open`) by a prelude in their process: what no
user sets, such as ledgers of a few kilobytes.
"""

from __future__ import annotations

import contextlib
import json
import os
import pathlib
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import Any, TypeVar

import boto3  # type: ignore[import-untyped]
import kazoo.client
import kazoo.exceptions
import psycopg

from replication.interface import Epoch, Head, Ledger, Replica
from replication.log.layout import (
    decode_epoch,
    decode_head,
    decode_ledgers,
    decode_replica,
    decode_segment,
    decode_spec,
)
from tests import forks
from tests.oracle import free_port
from tests.replication.stores.log_process import LogProcess
from tests.s3_service import s3_service
from tests.zookeeper_server import ZooKeeper

ROOT = pathlib.Path(__file__).resolve().parent.parent
READY = "shoal ready: "
PATIENCE = 30.0  # seconds; a loaded machine
BUCKET = "changelogs"
T = TypeVar("T")

_PRELUDE = """
import functools, json, sys
limits = json.loads(sys.argv.pop(1))
from engine.storage.tablespace import Tablespace
Tablespace.open.__func__.__kwdefaults__.update(limits["storage"])
from shoal.cluster import member
member.LogSettings = functools.partial(member.LogSettings, **limits["log"])
for hook in limits["hooks"]:
    module, _, function = hook.rpartition(".")
    __import__(module)
    getattr(sys.modules[module], function)()
from shoal.cli import main
sys.exit(main(sys.argv[1:]))
"""


class NotStartedError(Exception):
    """A node ended instead of getting ready. `status` is its exit status, `text` what it wrote to stderr."""

    def __init__(self, node: str, status: int | None, text: str) -> None:
        super().__init__(f"node {node} did not start ({status}): {text[-3000:]}")
        self.status = status
        self.text = text

    @property
    def line(self) -> str:
        """The one line that tells the user what is wrong."""
        lines = [line for line in self.text.splitlines() if line.startswith("shoal: ")]
        return lines[-1] if lines else ""


class ClusterNode:
    """One `shoal serve` process. Port, directory and log stay the same over restarts."""

    def __init__(self, name: str, data: pathlib.Path, log: pathlib.Path) -> None:
        self.name = name
        self.data = data
        self.log = log
        self.port = free_port()
        self.process: forks.Process | None = None
        self.started_at = 0  # where the log of the running process begins

    @property
    def pid(self) -> int:
        assert self.process is not None, f"{self.name} has never been started"
        return self.process.pid

    @property
    def running(self) -> bool:
        return self.process is not None and self.process.poll() is None

    def text(self, since: int | None = None) -> str:
        """What it has written to stderr, since it was started last."""
        with self.log.open("rb") as file:
            file.seek(self.started_at if since is None else since)
            return file.read().decode(errors="replace")

    def signal(self, number: signal.Signals) -> None:
        os.kill(self.pid, number)

    def stopped(self) -> bool:
        """Whether no thread of it runs because of SIGSTOP."""
        try:
            tasks = list(pathlib.Path(f"/proc/{self.pid}/task").iterdir())
            return all((task / "stat").read_text().rpartition(")")[2].split()[0] in "TZX" for task in tasks)
        except OSError:
            return False


class ShoalCluster:
    """Started on entry, removed on exit.

    `store`: 'file', 's3' (moto's server), 'log' (one `shoal logstore`), 'quorum' (three of them, E,W,A = 3,2,2), or a
    URL. `zookeeper`: servers that are there already, else `zookeepers` are started. `settings` go into the nodes' TOML
    file. `limits`: {'log': {...}, 'storage': {...}}; see the module's text. `hooks`: functions without arguments
    ('package.module.function') that are called in every node before it starts.
    """

    def __init__(
        self,
        nodes: int | Sequence[str] = 3,
        *,
        zookeeper: ZooKeeper | None = None,
        zookeepers: int = 1,
        store: str = "file",
        settings: Mapping[str, object] | None = None,
        limits: Mapping[str, Mapping[str, float]] | None = None,
        hooks: Sequence[str] = (),
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self.directory = pathlib.Path(tempfile.mkdtemp(prefix="shoal-cluster-"))
        names = [f"n{number + 1}" for number in range(nodes)] if isinstance(nodes, int) else list(nodes)
        self.nodes: dict[str, ClusterNode] = {}
        self.log_stores: list[LogProcess] = []
        self.settings: dict[str, object] = {"session_timeout": 2.0, "commit_timeout": 4.0, **(settings or {})}
        self.limits: dict[str, object] = {"log": {}, "storage": {}, **(limits or {}), "hooks": list(hooks)}
        self._own_zookeeper = zookeeper is None
        self.zookeeper = zookeeper or ZooKeeper(zookeepers)
        self.url = self.zookeeper.url(self.directory.name)
        self._store_kind = store
        self.store_url = store
        self._environment = dict(environment or {})
        self._first = names
        self._undo = contextlib.ExitStack()
        self._watcher: Watcher | None = None
        self._tablespace = ""
        self.keep = False
        """Whether the directory stays, for somebody to look at."""

    # --- start and end -------------------------------------------------------------------------------------------

    def __enter__(self) -> ShoalCluster:
        try:
            self._undo.callback(self._clean)
            if self._own_zookeeper:
                self._undo.enter_context(self.zookeeper)
            self._start_store()
            for name in self._first:
                self.node(name)
            self._undo.callback(self._end_nodes)
            self.start(*self._first)
        except BaseException:
            self._undo.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._undo.close()

    def _clean(self) -> None:
        if not self.keep:
            shutil.rmtree(self.directory, ignore_errors=True)

    def _end_nodes(self) -> None:
        if self._watcher is not None:
            self._watcher.close()
        for node in self.nodes.values():
            if node.running:
                node.signal(signal.SIGKILL)
        for node in self.nodes.values():
            if node.process is not None:
                node.process.wait()
                assert node.process.stdout is not None
                node.process.stdout.close()

    def _start_store(self) -> None:
        kind = self._store_kind
        if kind == "file":
            self.store_url = f"file://{self.directory}/store"
        elif kind == "s3":
            self.store_url = self._start_s3()
        elif kind in ("log", "quorum"):
            for _ in range(1 if kind == "log" else 3):
                self.log_stores.append(self._undo.enter_context(LogProcess()))
            urls = [store.url for store in self.log_stores]
            self.store_url = urls[0] if kind == "log" else "quorum(3,2,2):" + ",".join(urls)

    def _start_s3(self) -> str:
        server = s3_service()
        server.start()
        self._undo.callback(server.stop)
        endpoint = "http://{}:{}".format(*server.get_host_and_port())
        key, secret, region = "AKIAOFTHETEST", "hushhush", "us-east-1"
        boto3.client(
            "s3", endpoint_url=endpoint, aws_access_key_id=key, aws_secret_access_key=secret, region_name=region
        ).create_bucket(Bucket=BUCKET)
        self._environment |= {
            "AWS_ENDPOINT_URL": endpoint,
            "AWS_ACCESS_KEY_ID": key,
            "AWS_SECRET_ACCESS_KEY": secret,
            "AWS_REGION": region,
        }
        return f"s3://{BUCKET}/{self.directory.name}"

    # --- nodes ---------------------------------------------------------------------------------------------------

    def node(self, name: str) -> ClusterNode:
        """The node of that name; made, and not started, where it is new."""
        if name not in self.nodes:
            self.nodes[name] = ClusterNode(name, self.directory / name, self.directory / f"{name}.log")
            self.nodes[name].log.touch()
        return self.nodes[name]

    def command(self, name: str, **changes: str) -> list[str]:
        """The command line that `start` runs. `changes` replace options: cluster, store, data, node."""
        node = self.node(name)
        configuration = self.directory / "shoal.toml"
        written = self.directory / "shoal.toml.new"
        written.write_text("".join(f"{key} = {json.dumps(value)}\n" for key, value in self.settings.items()))
        written.replace(configuration)  # nodes that were started a moment ago may be reading it
        options = {
            "config": str(configuration),
            "data": str(node.data),
            "listen": f"127.0.0.1:{node.port}",
            "cluster": self.url,
            "store": self.store_url,
            "node": name,
        } | changes
        arguments = [text for key, value in options.items() if value for text in (f"--{key}", value)]
        return [sys.executable, "-c", _PRELUDE, json.dumps(self.limits), "serve", *arguments]

    def launch(self, name: str, **changes: str) -> None:
        """Starts the process; `ready` waits for it."""
        node = self.node(name)
        if node.process is not None and node.process.stdout is not None:
            node.process.stdout.close()
        node.started_at = node.log.stat().st_size
        environment = {**os.environ, **self._environment, "SHOAL_TEST_NODE": str(self.directory / name)}
        with node.log.open("a") as log:
            node.process = forks.start(self.command(name, **changes), stderr=log, environment=environment)

    def ready(self, name: str, timeout: float = 2 * PATIENCE) -> None:
        """Returns when clients are let in. Raises NotStartedError."""
        node = self.nodes[name]
        process = node.process
        assert process is not None and process.stdout is not None
        told, _, _ = select.select([process.stdout], [], [], timeout)
        line = process.stdout.readline() if told else ""
        if not line.startswith(READY):
            status = process.wait(PATIENCE) if told else None
            raise NotStartedError(name, status, node.text())

    def start(self, *names: str) -> None:
        """All of them at the same time; returns when clients are let in by each."""
        for name in names:
            self.launch(name)
        for name in names:
            self.ready(name)

    def add(self, name: str = "") -> str:
        """A new node, with an empty directory; its name."""
        name = name or f"n{len(self.nodes) + 1}"
        self.start(name)
        return name

    def remove(self, name: str) -> int:
        """Stops a node for good, and forgets it; its exit status."""
        status = self.stop_politely(name)
        node = self.nodes.pop(name)
        assert node.process is not None and node.process.stdout is not None
        node.process.stdout.close()
        shutil.rmtree(node.data)
        return status

    def kill(self, name: str) -> None:
        """SIGKILL. Returns when the process is gone."""
        self.nodes[name].signal(signal.SIGKILL)
        process = self.nodes[name].process
        assert process is not None
        process.wait()

    def stop_politely(self, name: str) -> int:
        """SIGTERM; the exit status."""
        self.nodes[name].signal(signal.SIGTERM)
        return self.wait_for_exit(name)

    def wait_for_exit(self, name: str, timeout: float = PATIENCE) -> int:
        """The exit status of a node that ends. Raises AssertionError with its log when it does not."""
        process = self.nodes[name].process
        assert process is not None
        try:
            return process.wait(timeout)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"{name} does not end: {self.nodes[name].text()[-3000:]}") from None

    def stop(self, name: str) -> None:
        """SIGSTOP: connections stay open, nothing is answered. Returns when no thread of it runs."""
        self.nodes[name].signal(signal.SIGSTOP)
        self.wait_until(self.nodes[name].stopped, f"{name} is stopped")

    def cont(self, name: str) -> None:
        """SIGCONT."""
        self.nodes[name].signal(signal.SIGCONT)

    # --- clients -------------------------------------------------------------------------------------------------

    def dsn(self, name: str) -> str:
        """A libpq connection string."""
        return f"host=127.0.0.1 port={self.node(name).port} user=postgres dbname=postgres connect_timeout=5"

    def multi_host_dsn(self) -> str:
        """All nodes: libpq takes the first that answers."""
        hosts = ",".join("127.0.0.1" for _ in self.nodes)
        ports = ",".join(str(node.port) for node in self.nodes.values())
        return f"host={hosts} port={ports} user=postgres dbname=postgres connect_timeout=5"

    def connect(self, name: str = "") -> psycopg.Connection[Any]:
        """An open autocommit connection; without a name to the leader."""
        name = name or self.leader()
        try:
            return psycopg.connect(self.dsn(name), autocommit=True)
        except psycopg.OperationalError as error:
            node = self.nodes[name]
            error.add_note(f"{name} {'runs' if node.running else 'has ended'}; it wrote last:\n{node.text()[-3000:]}")
            raise

    # --- waiting -------------------------------------------------------------------------------------------------

    @property
    def watcher(self) -> Watcher:
        """A ZooKeeper client of the test's own, below the cluster's chroot."""
        if self._watcher is None:
            self._watcher = Watcher(self.zookeeper.hosts, self.directory.name)
        return self._watcher

    @property
    def tablespace(self) -> str:
        """The id of pg_default, 32 hexadecimal digits."""
        if not self._tablespace:

            def look(wake: Callable[[], None]) -> str | None:
                for identifier in self.watcher.children("tablespaces", wake):
                    found = self.watcher.get(f"tablespaces/{identifier}/spec", wake)
                    if found is not None and decode_spec(found).name == "pg_default":
                        return identifier
                return None

            self._tablespace = self.watcher.until(look, "the tablespace is there")
        return self._tablespace

    def _znode(self, name: str, wake: Callable[[], None] | None = None) -> bytes | None:
        return self.watcher.get(f"tablespaces/{self.tablespace}/{name}", wake)

    def epoch(self) -> Epoch:
        return decode_epoch(self._znode("epoch") or b"")

    def head(self) -> Head:
        """The end of the log."""
        return decode_head(self._znode("head") or b"")

    def ledgers(self, tablespace: str = "") -> tuple[Ledger, ...]:
        """Of a tablespace (by its id; default: pg_default), oldest first."""
        path = f"tablespaces/{tablespace or self.tablespace}/ledgers"
        listed = decode_ledgers(self.watcher.get(path) or b"[]")
        segments = (self.watcher.get(f"{path}/{n}") for n in range(listed.first_segment, listed.next_segment))
        older = [ledger for found in segments if found is not None for ledger in decode_segment(found)]
        return (*(ledger for ledger in older if ledger.ledger >= listed.oldest), *listed.ledgers)

    def replica(self, name: str) -> Replica | None:
        """What a node says of its replica; None while it has none."""
        found = self._znode(f"replicas/{name}")
        return None if found is None else decode_replica(found)

    def leader(self, not_this: str = "", timeout: float = PATIENCE) -> str:
        """The node that has taken over. Waits while nobody has, and while it is `not_this`."""

        def look(wake: Callable[[], None]) -> str | None:
            epoch = decode_epoch(self._znode("epoch", wake) or b"")
            if epoch.leader in ("", not_this) or self.watcher.get(f"nodes/{epoch.leader}", wake) is None:
                return None
            if not (epoch.leader in self.nodes and self.nodes[epoch.leader].running):
                return None
            ledgers = decode_ledgers(self._znode("ledgers", wake) or b"[]").ledgers
            return epoch.leader if ledgers and ledgers[-1].epoch == epoch.epoch else None

        return self.watcher.until(look, f"a leader that is not {not_this!r}", timeout)

    def followers(self) -> list[str]:
        """The nodes that run and do not lead."""
        leader = self.leader()
        return [name for name, node in self.nodes.items() if node.running and name != leader]

    def wait_for_applied(self, lsn: int = 0, names: Sequence[str] = (), timeout: float = PATIENCE) -> int:
        """Returns when the nodes (all that run) have said that they have applied the LSN (the head of now)."""
        lsn = lsn or self.head().lsn
        for name in names or [name for name, node in self.nodes.items() if node.running]:

            def look(wake: Callable[[], None], name: str = name) -> bool | None:
                found = self._znode(f"replicas/{name}", wake)
                return (found is not None and decode_replica(found).applied >= lsn) or None

            self.watcher.until(look, f"{name} has applied LSN {lsn}", timeout)
        return lsn

    def wait_for_line(self, name: str, text: str, timeout: float = PATIENCE, since: int | None = None) -> None:
        """Until the node has written a line to its log, since it was started last."""
        self.wait_until(lambda: text in self.nodes[name].text(since), f"{name} has logged {text!r}", timeout)

    def wait_until(self, condition: Callable[[], object], what: str, timeout: float = PATIENCE) -> None:
        """For what tells nobody: looks every few milliseconds. Raises AssertionError."""
        deadline = time.monotonic() + timeout
        while not condition():
            assert time.monotonic() < deadline, f"not within {timeout:g} s: {what}\n{self.logs()}"
            time.sleep(0.01)

    def logs(self, size: int = 1500) -> str:
        """The end of every node's log, for a failure's message."""
        return "\n".join(f"--- {name}\n{node.text(0)[-size:]}" for name, node in self.nodes.items())


class Watcher:
    """A plain ZooKeeper client of the test: reads, and waits for changes."""

    def __init__(self, hosts: str, chroot: str) -> None:
        self._client = kazoo.client.KazooClient(f"{hosts}/{chroot}", timeout=10.0)
        self._client.start(PATIENCE)

    @property
    def client(self) -> Any:
        """kazoo's client, for tests that change what is there."""
        return self._client

    def close(self) -> None:
        self._client.stop()
        self._client.close()

    def get(self, path: str, wake: Callable[[], None] | None = None) -> bytes | None:
        watch = None if wake is None else lambda _: wake()
        try:
            data: bytes = self._client.retry(self._client.get, path, watch)[0]
            return data
        except kazoo.exceptions.NoNodeError:
            if watch is not None:
                self._client.retry(self._client.exists, path, watch)
            return None

    def children(self, path: str, wake: Callable[[], None] | None = None) -> list[str]:
        try:
            watch = None if wake is None else lambda _: wake()
            return sorted(self._client.retry(self._client.get_children, path, watch))
        except kazoo.exceptions.NoNodeError:
            return []

    def until(self, look: Callable[[Callable[[], None]], T | None], what: str, timeout: float = PATIENCE) -> T:
        """What `look` gives when it is not None; it is called again when a watch that it has set fires."""
        deadline = time.monotonic() + timeout
        changed = threading.Event()
        while True:
            changed.clear()
            found = look(changed.set)
            if found is not None:
                return found
            left = deadline - time.monotonic()
            if left <= 0:
                raise AssertionError(f"not within {timeout:g} s: {what}")
            changed.wait(min(left, 0.2))  # processes end without a watch
