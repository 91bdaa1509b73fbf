"""The log of a tablespace on a real ZooKeeper and a directory as store: three nodes in one process, each with a session
of its own."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest_asyncio

from replication.interface import ChangelogStore, LogEntry, Spec
from replication.log import (
    BulkFiles,
    Committer,
    LogSettings,
    Position,
    ReplicatedLog,
    create_tablespace,
    put_ephemeral,
)
from replication.log.interface import Leader
from replication.log.layout import decode_epoch, decode_ledgers, node_path, paths
from replication.stores.open import open_store
from replication.zookeeper import ZooKeeperCoordination, open_coordination
from tests.zookeeper_server import ZooKeeper

TABLESPACE = b"T" * 16
SESSION_TIMEOUT = 6.0  # seconds: longer than a busy machine lets a process wait; crashed nodes close theirs
SETTINGS = LogSettings(commit_timeout=5.0, ledger_bytes=20_000, presence=0.2, rank_pause=0.05)


@dataclass
class Engine:
    bulk: BulkFiles
    applied: list[bytes] = field(default_factory=list)
    waiting: list[tuple[bytes, asyncio.Future[None]]] = field(default_factory=list)
    leader: Leader | None = None
    led: asyncio.Event = field(default_factory=asyncio.Event)
    files: dict[str, bytes] = field(default_factory=dict)
    flushed_lsn: int = 0

    def apply(self, entry: LogEntry) -> None:
        assert entry.lsn == len(self.applied) + 1
        self.applied.append(entry.body)
        for name in entry.files:
            self.files[name] = Path(self.bulk.path(name)).read_bytes()

    def admit(self, entry: LogEntry) -> None:
        return None

    async def ready(self) -> None:
        pass

    async def lead(self, leader: Leader) -> None:
        assert leader.committed_lsn == len(self.applied)
        self.leader = leader
        self.led.set()

    def commit(self, body: bytes, files: tuple[str, ...] = ()) -> asyncio.Future[None]:
        assert self.leader is not None
        self.leader.submit(len(self.applied) + len(self.waiting) + 1, body, 0, 1, files)
        self.waiting.append((body, asyncio.get_running_loop().create_future()))
        return self.waiting[-1][1]

    def on_committed(self, lsn: int) -> None:
        while len(self.applied) < lsn:
            body, told = self.waiting.pop(0)
            self.applied.append(body)
            told.set_result(None)

    def on_unknown(self, first_lsn: int) -> None:
        for _, told in self.waiting:
            told.set_exception(ConnectionError("unknown"))

    def on_deposed(self, last_committed: int) -> None:
        assert last_committed == len(self.applied)
        for _, told in self.waiting:
            if not told.done():
                told.set_exception(RuntimeError("not committed"))
        self.waiting, self.leader = [], None
        self.led.clear()


@dataclass
class Node:
    name: str
    session: ZooKeeperCoordination
    committer: Committer
    engine: Engine
    replica: ReplicatedLog
    task: asyncio.Task[None]


class Cluster:
    def __init__(self, url: str, directory: Path) -> None:
        self.url = url
        self.directory = directory
        self.store: ChangelogStore = open_store(f"file://{directory}/store")
        self.nodes: dict[str, Node] = {}

    async def add(self, name: str) -> Node:
        session = await open_coordination(self.url, session_timeout=SESSION_TIMEOUT, timeout=5.0)
        await put_ephemeral(session, node_path(name), b"{}")
        committer = Committer(session, SETTINGS)
        bulk = BulkFiles(str(self.directory / name))
        engine = Engine(bulk)
        replica = ReplicatedLog(
            name, TABLESPACE, committer, lambda url: self.store, engine, bulk, Position(0, None), settings=SETTINGS
        )
        node = Node(name, session, committer, engine, replica, asyncio.ensure_future(replica.run()))
        self.nodes[name] = node
        return node

    async def leader(self) -> Node:
        waits = {asyncio.ensure_future(node.engine.led.wait()): node for node in self.nodes.values()}
        done, pending = await asyncio.wait(waits, timeout=10, return_when=asyncio.FIRST_COMPLETED)
        for wait in pending:
            wait.cancel()
        assert done, "nobody leads"
        return waits[done.pop()]

    async def crash(self, node: Node) -> None:
        """The process is gone; its session ends, as after its timeout."""
        del self.nodes[node.name]
        node.task.cancel()
        await asyncio.wait((node.task,))
        await node.session.close()


@pytest_asyncio.fixture
async def cluster(zookeeper: str, tmp_path: Path) -> AsyncIterator[Cluster]:
    made = Cluster(zookeeper, tmp_path)
    session = await open_coordination(zookeeper)
    await create_tablespace(session, TABLESPACE, Spec("main", ("a", "b", "c"), 3, preferred_leader="a"))
    await session.close()
    for name in ("a", "b", "c"):
        await made.add(name)
    yield made
    for node in list(made.nodes.values()):
        await made.crash(node)
    await made.store.close()


async def test_commits_reach_every_replica(cluster: Cluster, tmp_path: Path) -> None:
    leader = await cluster.leader()
    Path(leader.engine.bulk.path("run1")).write_bytes(b"bulk" * 1000)
    told = [leader.engine.commit(b"%d" % number * 50) for number in range(300)]
    told.append(leader.engine.commit(b"with a file", ("run1",)))
    await asyncio.wait_for(asyncio.gather(*told), 10)
    for node in cluster.nodes.values():
        head = await node.replica.read_head()
        assert head.lsn == 301
        await asyncio.wait_for(node.replica.wait_for(301), 10)
        assert node.engine.applied == leader.engine.applied
        if node is not leader:
            assert node.engine.files == {"run1": b"bulk" * 1000}


async def test_ledgers_roll(cluster: Cluster) -> None:
    leader = await cluster.leader()
    for number in range(20):
        await asyncio.wait_for(leader.engine.commit(b"%d" % number * 3000), 5)
    znode = await leader.session.get(paths(TABLESPACE).ledgers)
    assert znode is not None
    ledgers = decode_ledgers(znode.data).ledgers
    assert len(ledgers) >= 3
    assert [ledger.last is None for ledger in ledgers[:-2]] == [False] * (len(ledgers) - 2)
    for node in cluster.nodes.values():
        await asyncio.wait_for(node.replica.wait_for(20), 10)


async def test_another_node_leads_when_the_leader_is_gone(cluster: Cluster) -> None:
    first = await cluster.leader()
    await asyncio.gather(*(first.engine.commit(b"x%d" % number) for number in range(50)))
    await cluster.crash(first)
    second = await cluster.leader()
    assert second is not first
    assert second.engine.applied == [b"x%d" % number for number in range(50)]
    await asyncio.wait_for(second.engine.commit(b"after"), 5)
    back = await cluster.add(first.name)  # with an empty directory: it reads the log from its beginning
    await asyncio.wait_for(back.replica.wait_for(51), 10)
    assert back.engine.applied == second.engine.applied


async def test_leadership_is_handed_over_under_load(cluster: Cluster) -> None:
    first = await cluster.leader()
    to = next(name for name in cluster.nodes if name != first.name)
    told = [first.engine.commit(b"x%d" % number) for number in range(200)]
    await asyncio.wait_for(first.replica.step_down(to), 5)
    await asyncio.gather(*told)
    second = await cluster.leader()
    assert second.name == to
    assert second.engine.applied == [b"x%d" % number for number in range(200)]
    await asyncio.wait_for(second.engine.commit(b"after"), 5)


async def test_a_new_session_goes_on_after_the_old_one_is_over(cluster: Cluster) -> None:
    first = await cluster.leader()
    await asyncio.wait_for(first.engine.commit(b"one"), 5)
    await first.session.close()  # without telling anybody, as far as the replica is concerned
    first.session = await open_coordination(cluster.url, session_timeout=SESSION_TIMEOUT)
    await put_ephemeral(first.session, node_path(first.name), b"{}")
    first.committer.use(first.session)
    first.replica.use(first.session)
    for _ in range(100):
        leader = await cluster.leader()
        try:
            await asyncio.wait_for(leader.engine.commit(b"two"), 5)
            break
        except Exception:
            await asyncio.sleep(0.05)
    for node in cluster.nodes.values():
        await asyncio.wait_for(node.replica.wait_for(2), 10)
        assert node.engine.applied == [b"one", b"two"]


async def test_commits_wait_while_zookeeper_is_away(cluster: Cluster, zookeeper_server: ZooKeeper) -> None:
    leader = await cluster.leader()
    await asyncio.wait_for(leader.engine.commit(b"before"), 5)
    server = zookeeper_server.servers[0]
    server.suspend()
    try:
        told = leader.engine.commit(b"during")
        await asyncio.sleep(0.3)
        assert not told.done()
    finally:
        server.resume()
    await asyncio.wait({told}, timeout=10)
    assert told.done()
    lost = told.exception()
    for node in cluster.nodes.values():
        head = await node.replica.read_head()
        await asyncio.wait_for(node.replica.wait_for(head.lsn), 10)
        assert node.engine.applied[0] == b"before"
        assert (b"during" in node.engine.applied) == (lost is None)


async def test_every_term_has_an_epoch_of_its_own(cluster: Cluster) -> None:
    epochs = []
    for _ in range(3):
        leader = await cluster.leader()
        znode = await leader.session.get(paths(TABLESPACE).epoch)
        assert znode is not None
        epochs.append(decode_epoch(znode.data).epoch)
        await leader.replica.step_down()
    assert epochs == sorted(set(epochs))
