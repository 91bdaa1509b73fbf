"""The observer's picture of a cluster: what is there, what changes, what goes, and how often it asks."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable

import pytest

from replication.interface import Checkpoint, Coordination, Epoch, Head, Ledger, LedgerList, Node, Replica, Spec
from replication.log.layout import encode, encode_checkpoints, encode_head, encode_ledgers
from replication.observer import Observer
from replication.zookeeper.cluster import open_coordination
from tests.replication.memory_coordination import MemoryCoordination, MemorySession

TABLESPACE = bytes(range(16))
ROOT = f"tablespaces/{TABLESPACE.hex()}"
PAUSE = 0.03


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(10):
        while not holds():
            await asyncio.sleep(0.002)


async def fill(writer: Coordination) -> None:
    """One tablespace with a leader and a follower, and the two nodes."""
    for number, node in enumerate(("a", "b")):
        await writer.create(f"nodes/{node}", encode(Node(node, "127.0.0.1", 5001 + number)), ephemeral=True)
    await writer.create(f"{ROOT}/spec", encode(Spec("pg_default", ("a", "b"), 2)))
    await writer.create(f"{ROOT}/epoch", encode(Epoch(3, "a")))
    await writer.create(f"{ROOT}/head", encode_head(Head(7, 3, "ab", 1, 100)))
    await writer.create(f"{ROOT}/ledgers", encode_ledgers(LedgerList((Ledger(1, 3, 1),))))
    await writer.create(f"{ROOT}/checkpoints", encode_checkpoints((Checkpoint(5, "cd", "f", 10, 1),)))
    await writer.create(f"{ROOT}/replicas/a", encode(Replica("a", "leader", 7)), ephemeral=True)
    await writer.create(f"{ROOT}/replicas/b", encode(Replica("b", "follower", 6, 4)), ephemeral=True)


class Cluster:
    def __init__(self) -> None:
        self.service = MemoryCoordination()
        self.writer = self.service.session("writer")
        self.sessions: list[MemorySession] = []
        self.reads: list[str] = []
        self.observer = Observer(self._open, retry_pause=0.01, pause=PAUSE)

    async def _open(self) -> Coordination:
        session = self.service.session("observer", timeout=0.05)
        self.sessions.append(session)
        get = session.get

        async def counted(path: str, watch: Callable[[], None] | None = None) -> object:
            self.reads.append(path)
            return await get(path, watch)

        session.get = counted  # type: ignore[assignment, method-assign]
        return session


@pytest.fixture
async def cluster() -> AsyncIterator[Cluster]:
    found = Cluster()
    await fill(found.writer)
    await found.observer.start()
    yield found
    await found.observer.close()


async def test_it_knows_everything_once_it_is_started(cluster: Cluster) -> None:
    observer = cluster.observer
    seen = observer.tablespaces[TABLESPACE]
    assert not observer.stale
    assert set(observer.nodes) == {"a", "b"} and observer.nodes["b"].port == 5002
    assert (seen.name, seen.spec.expected_replicas, seen.epoch, seen.head.lsn) == ("pg_default", 2, Epoch(3, "a"), 7)
    assert (seen.ledgers, seen.checkpoints) == ((Ledger(1, 3, 1),), (Checkpoint(5, "cd", "f", 10, 1),))
    assert seen.replicas == {"a": Replica("a", "leader", 7), "b": Replica("b", "follower", 6, 4)}
    assert observer.tablespace_by_name("pg_default") == seen and observer.tablespace_by_name("other") is None


async def test_it_follows_what_changes_and_goes(cluster: Cluster) -> None:
    observer, writer = cluster.observer, cluster.writer
    await writer.set(f"{ROOT}/epoch", encode(Epoch(4, "b")))
    await until(lambda: observer.tablespaces[TABLESPACE].epoch.leader == "b")
    await writer.delete(f"{ROOT}/replicas/a")
    await until(lambda: set(observer.tablespaces[TABLESPACE].replicas) == {"b"})
    await writer.set(f"{ROOT}/replicas/b", encode(Replica("b", "leader", 9)))
    await until(lambda: observer.tablespaces[TABLESPACE].replicas["b"].applied == 9)
    await writer.create(f"{ROOT}/replicas/a", encode(Replica("a", "bootstrapping", 0)), ephemeral=True)
    await until(lambda: observer.tablespaces[TABLESPACE].replicas.get("a") == Replica("a", "bootstrapping", 0))
    await writer.set(f"{ROOT}/ledgers", encode_ledgers(LedgerList((Ledger(1, 3, 1, 9, 5, 1), Ledger(2, 4, 10)))))
    await until(lambda: len(observer.tablespaces[TABLESPACE].ledgers) == 2)
    await writer.delete("nodes/a")
    await until(lambda: set(observer.nodes) == {"b"})


async def test_a_tablespace_is_followed_from_its_making_to_its_end(cluster: Cluster) -> None:
    observer, writer, other = cluster.observer, cluster.writer, bytes(16)
    root = f"tablespaces/{other.hex()}"
    await writer.create(f"{root}/spec", encode(Spec("fast", ("a",))))
    await until(lambda: observer.tablespace_by_name("fast") is not None)
    await writer.create(f"{root}/head", encode_head(Head(1, 1, "", 1, 1)))
    await until(lambda: observer.tablespaces[other].head.lsn == 1)
    for part in ("head", "spec"):
        await writer.delete(f"{root}/{part}")
    await writer.delete(root)
    await until(lambda: other not in observer.tablespaces)
    assert observer.tablespace_by_name("pg_default") is not None
    await writer.create("tablespaces/no-id-of-a-tablespace", b"{}")
    await writer.create(f"{root}/spec", encode(Spec("again", ("a",))))
    await until(lambda: observer.tablespace_by_name("again") is not None)
    assert set(observer.tablespaces) == {TABLESPACE, other}


async def test_a_head_that_changes_all_the_time_is_read_now_and_then(cluster: Cluster) -> None:
    observer, writer = cluster.observer, cluster.writer
    loop = asyncio.get_running_loop()
    cluster.reads.clear()
    started, lsn = loop.time(), 7
    while loop.time() < started + 10 * PAUSE or lsn <= 100:  # a machine that is busy takes longer
        lsn += 1
        await writer.set(f"{ROOT}/head", encode_head(Head(lsn, 3, "ab", 1, 100)))
        await asyncio.sleep(0)
    elapsed = loop.time() - started
    assert lsn > 100
    assert 2 <= cluster.reads.count(f"{ROOT}/head") <= elapsed / PAUSE + 2
    await until(lambda: observer.tablespaces[TABLESPACE].head.lsn == lsn)  # the last change is not missed


async def test_the_last_state_stands_while_the_service_is_away(cluster: Cluster) -> None:
    observer = cluster.observer
    changes: list[bool] = []
    observer.on_change(lambda: changes.append(observer.stale))
    cluster.service.stop()
    await until(lambda: observer.stale)
    assert observer.tablespaces[TABLESPACE].head.lsn == 7
    cluster.service.start()
    await cluster.writer.set(f"{ROOT}/head", encode_head(Head(8, 3, "ab", 1, 100)))
    await until(lambda: not observer.stale and observer.tablespaces[TABLESPACE].head.lsn == 8)
    assert changes[0] and not changes[-1]


async def test_a_session_that_is_over_is_replaced(cluster: Cluster) -> None:
    cluster.sessions[0].expire()
    await cluster.writer.set(f"{ROOT}/epoch", encode(Epoch(4, "b")))
    await until(lambda: cluster.observer.tablespaces[TABLESPACE].epoch.leader == "b")
    assert len(cluster.sessions) == 2


async def test_a_znode_that_cannot_be_read_hides_no_other(cluster: Cluster) -> None:
    observer, writer = cluster.observer, cluster.writer
    await writer.set("nodes/a", b"no JSON")
    await writer.set("nodes/b", b"[]")
    await writer.set(f"{ROOT}/epoch", encode(Epoch(4, "b")))
    await until(lambda: observer.tablespaces[TABLESPACE].epoch.leader == "b")
    assert observer.nodes["a"].port == 5001 and not observer.stale


async def test_a_shared_session_is_left_open() -> None:
    service = MemoryCoordination()
    session = service.session("node")

    async def shared() -> Coordination:
        return session

    observer = Observer(shared, shared_session=True)
    await observer.start()
    await observer.close()
    await session.create("still", b"")
    assert service.value("still") == b""


async def test_it_reads_a_real_zookeeper(zookeeper: str) -> None:
    writer = await open_coordination(zookeeper)
    observer = Observer(lambda: open_coordination(zookeeper))
    try:
        await fill(writer)
        await observer.start()
        assert observer.tablespaces[TABLESPACE].replicas["b"].applied == 6
        await writer.set(f"{ROOT}/head", encode_head(Head(8, 3, "ab", 1, 100)))
        await until(lambda: observer.tablespaces[TABLESPACE].head.lsn == 8)
        await writer.close()  # the nodes and replicas go with it
        await until(lambda: not observer.nodes and not observer.tablespaces[TABLESPACE].replicas)
    finally:
        await observer.close()
