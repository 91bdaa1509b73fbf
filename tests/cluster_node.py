"""A node of a cluster without ZooKeeper: the log is a file that all nodes append to and read, the leader a word in
another file, and whether this node leads is what the test says on its standard input.

    python -m tests.cluster_node DIR NAME

    lead        it applies what there is, and leads           suspend    it may not lead, and does not know it yet
    follow      it is deposed: what is not in the log is lost  resume     it leads again as if nothing had been
    hold        what it submits is not written                 write      it is, and so is what was held
    doubt       nobody knows what became of what is held       late S     reads are S seconds behind
    lag         it applies nothing until a read asks for it    deaf       the head cannot be read
    serve       it reads the head again

Every line is answered by `ok`. DIR has `log`, `bulk/`, `leader` (name and port), and a directory for each node.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import struct
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import uvloop

from catalog.errors import SqlError
from engine.columnar.client import WorkerClient
from engine.node.node import Node
from engine.storage.tablespace import Tablespace
from shoal.stacks import raise_stack_limits
from wire.forwarding_services import ForwardingServices
from wire.peer_authentication import introduce
from wire.server import Server
from wire.session_proxy import LeaderAddress

SECRET = b"a secret of the tests' cluster"
IDENTITY = b"tests' cluster 1"
DEADLINE = 3.0  # seconds that a statement waits for a leader
POLL = 0.005
_HEAD = struct.Struct(">QqI")


def deposed() -> SqlError:
    return SqlError("40001", "could not commit: this node is no longer the leader of the tablespace")


def unknown() -> SqlError:
    return SqlError("08007", "the outcome of the commit is unknown", severity="FATAL")


class SharedLog:
    """engine.storage.interface.Changelog over the file."""

    pending_bytes = 0

    def __init__(self, folder: Path, committed: Callable[[int], None]) -> None:
        self._folder = folder
        self._committed = committed
        self._file = os.open(folder / "log", os.O_RDWR | os.O_APPEND | os.O_CREAT)
        self._position = 0  # up to which it has been read
        self.leads = False
        self.held: list[bytes] | None = None

    def submit(
        self,
        lsn: int,
        body: bytes,
        commit_time: int,
        schema_version: int,
        files: Sequence[str] = (),
        joint: object | None = None,
    ) -> None:
        if not self.leads:
            raise deposed()
        entry = _HEAD.pack(lsn, commit_time, len(body)) + body
        if self.held is not None:
            self.held.append(entry)
            return
        os.write(self._file, entry)
        asyncio.get_running_loop().call_soon(self._acknowledge, lsn)

    def _acknowledge(self, lsn: int) -> None:
        if self.leads:
            self._committed(lsn)

    def write_held(self) -> None:
        held, self.held = self.held or [], None
        for entry in held:
            os.write(self._file, entry)
            self._acknowledge(_HEAD.unpack_from(entry)[0])

    def read(self, after: int) -> Iterator[tuple[int, int, bytes]]:
        while True:
            head = os.pread(self._file, _HEAD.size, self._position)
            if len(head) < _HEAD.size:
                return
            lsn, commit_time, size = _HEAD.unpack(head)
            body = os.pread(self._file, size, self._position + _HEAD.size)
            if len(body) < size:
                return
            self._position += _HEAD.size + size
            if lsn > after:
                yield lsn, commit_time, body

    def retire(self, upto: int) -> None:
        return

    def bulk_path(self, name: str) -> str:
        return str(self._folder / "bulk" / name)

    def bulk_names(self) -> list[str]:
        return []

    def drop_bulk(self, name: str, lsn: int) -> None:
        return

    def close(self) -> None:
        os.close(self._file)


class ScriptedReplica:
    """engine.replica.Replica of such a node."""

    def __init__(self, node: Node, store: Tablespace, log: SharedLog) -> None:
        self.node = node
        self.store = store
        self.log = log
        self.suspended = False
        self.lagging = False
        self.deaf = False
        self.staleness = 0.0

    @property
    def leads(self) -> bool:
        return self.log.leads and not self.suspended

    tablespaces = frozenset((b"",))

    def leads_in(self, tablespaces: Iterable[bytes]) -> bool:
        return self.leads

    def led_together(self, tablespaces: Iterable[bytes]) -> bool:
        return True

    async def gather(self, tablespaces: Iterable[bytes]) -> None:
        raise AssertionError("there is one tablespace")

    def begin_to_gather(self, tablespaces: Iterable[bytes]) -> None:
        raise AssertionError("there is one tablespace")

    async def catch_up(self) -> None:
        if self.deaf:
            raise SqlError("57P03", "the newest state of the tablespace cannot be read now")
        self.apply()

    async def reach(self, lsn: int) -> None:
        end = time.monotonic() + DEADLINE
        while self.store.durable_lsn < lsn:
            if not self.lagging:
                self.apply()
            if time.monotonic() > end:
                raise SqlError("55000", f"this replica has not applied LSN {lsn}")
            await asyncio.sleep(POLL)

    def apply(self) -> None:
        if not self.log.leads:
            for lsn, _, body in self.log.read(self.store.durable_lsn):
                self.node.on_applied(self.store.apply(lsn, body))

    async def follow(self) -> None:
        while True:
            if not self.lagging:
                self.apply()
            await asyncio.sleep(POLL)


class ScriptedLocator:
    """wire.session_proxy.Locator: the leader is who the file names."""

    def __init__(self, folder: Path, node: str) -> None:
        self._file = folder / "leader"
        self._node = node

    async def leader(self, tablespace: str, not_this: LeaderAddress | None = None) -> LeaderAddress:
        for attempt in range(10):
            words = self._file.read_text().split()
            if len(words) == 2 and words[0] != self._node:
                target = LeaderAddress(words[0], "127.0.0.1", int(words[1]))
                if target != not_this or attempt == 9:
                    return target
            await asyncio.sleep(0.02)
        raise SqlError("57P03", f'tablespace "{tablespace}" has no leader at the moment')

    def introduce(self, target: LeaderAddress, parameters: Mapping[str, str], client: str) -> dict[str, str]:
        return introduce(parameters, SECRET, node=self._node, target=target.node, client=client)


class Commands:
    """What the test says."""

    def __init__(self, folder: Path, name: str, port: int, replica: ScriptedReplica) -> None:
        self._leader = folder / "leader"
        self._name = name
        self._port = port
        self._replica = replica

    def run(self, line: str) -> None:
        word, *arguments = line.split()
        getattr(self, word)(*arguments)

    def lead(self) -> None:
        replica = self._replica
        replica.apply()
        replica.log.leads = True
        replica.suspended = False
        replica.node.lead()
        self._leader.write_text(f"{self._name} {self._port}\n")

    def follow(self) -> None:
        replica = self._replica
        written = [lsn for lsn, _, _ in replica.log.read(replica.store.durable_lsn)]
        if written:
            replica.store.on_committed(written[-1])
        replica.log.leads = False
        replica.log.held = None
        replica.node.step_down(replica.store.durable_lsn, deposed())

    def doubt(self) -> None:
        self._replica.node.commits.give_up(self._replica.store.durable_lsn, unknown())

    def suspend(self) -> None:
        self._replica.suspended = True

    def resume(self) -> None:
        self._replica.suspended = False

    def hold(self) -> None:
        self._replica.log.held = []

    def write(self) -> None:
        self._replica.log.write_held()

    def late(self, seconds: str) -> None:
        self._replica.staleness = float(seconds)

    def lag(self) -> None:
        self._replica.lagging = not self._replica.lagging

    def deaf(self) -> None:
        self._replica.deaf = True

    def serve(self) -> None:
        self._replica.deaf = False


async def _run(folder: Path, name: str, first: bool) -> None:
    loop = asyncio.get_running_loop()
    logs: list[SharedLog] = []

    def thread(work: Callable[[], None]) -> None:
        with contextlib.suppress(RuntimeError):
            loop.call_soon_threadsafe(work)

    def fatal(error: BaseException) -> None:
        print(f"fatal: {error!r}", file=sys.stderr)
        os._exit(70)

    def open_log(
        tablespace: bytes, committed: Callable[[int], None], failed: Callable[[BaseException], None]
    ) -> SharedLog:
        logs.append(SharedLog(folder, committed))
        return logs[0]

    store = Tablespace.open(str(folder / name), open_log, thread, on_fatal=fatal, identity=IDENTITY)
    node = Node(store, WorkerClient(store, directory=str(folder / name / "columnar")))
    replica = ScriptedReplica(node, store, logs[0])
    node.replica = replica
    if first:
        logs[0].leads = True
        node.bootstrap()
    else:
        node.follow()
    cluster = ForwardingServices(replica, name, SECRET, ScriptedLocator(folder, name), DEADLINE)
    server = Server(node, "127.0.0.1", 0, cluster=cluster)
    port = await server.start()
    commands = Commands(folder, name, port, replica)
    if first:
        commands.lead()
    following = loop.create_task(replica.follow())
    reader = asyncio.StreamReader()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    print(port, flush=True)
    while line := await reader.readline():
        commands.run(line.decode())
        print("ok", flush=True)
    following.cancel()
    await server.stop()
    await node.columnar.close()
    store.close()


if __name__ == "__main__":
    raise_stack_limits()
    uvloop.run(_run(Path(sys.argv[1]), sys.argv[2], sys.argv[3:] == ["first"]))
