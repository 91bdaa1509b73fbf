"""The directory follows what the coordination service holds, and stands while it is away."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import AsyncIterator, Callable

import orjson
import pytest

from replication.directory import CoordinatedDirectory
from replication.interface import Coordination, Epoch, Node, Spec
from tests.replication.memory_coordination import MemoryCoordination, MemorySession

TABLESPACE = "0" * 32


def bytes_of(value: Node | Spec | Epoch) -> bytes:
    return orjson.dumps({**dataclasses.asdict(value), "of a later version": 1})


class Cluster:
    """A writer in a service of its own, and a directory that reads it."""

    def __init__(self) -> None:
        self.service = MemoryCoordination()
        self.writer = self.service.session("writer")
        self.sessions: list[MemorySession] = []
        self.directory = CoordinatedDirectory(self._open, retry_pause=0.01)
        self.changes = 0
        self.directory.on_change(self._changed)

    async def _open(self) -> Coordination:
        self.sessions.append(self.service.session("directory", timeout=0.05))
        return self.sessions[-1]

    def _changed(self) -> None:
        self.changes += 1

    async def register(self, name: str, load: float = 0.0) -> None:
        await self.writer.create(f"nodes/{name}", bytes_of(Node(name, "127.0.0.1", 1, load=load)), ephemeral=True)

    async def until(self, holds: Callable[[], bool]) -> None:
        async with asyncio.timeout(10):
            while not holds():
                await asyncio.sleep(0.005)


@pytest.fixture
async def cluster() -> AsyncIterator[Cluster]:
    found = Cluster()
    await found.register("a")
    await found.writer.create(f"tablespaces/{TABLESPACE}/spec", bytes_of(Spec("pg_default", ("a",))))
    await found.writer.create(f"tablespaces/{TABLESPACE}/epoch", bytes_of(Epoch(1, "a")))
    await found.directory.start()
    yield found
    await found.directory.close()


async def test_it_knows_nodes_and_leaders_once_it_is_started(cluster: Cluster) -> None:
    assert cluster.directory.nodes == {"a": Node("a", "127.0.0.1", 1)}
    assert cluster.directory.leader("pg_default") == "a"
    assert cluster.directory.leader("other") == ""
    assert not cluster.directory.stale


async def test_an_empty_service_is_an_empty_directory() -> None:
    cluster = Cluster()
    await cluster.directory.start()
    assert cluster.directory.nodes == {} and cluster.directory.leader("pg_default") == ""
    await cluster.register("a")
    await cluster.until(lambda: list(cluster.directory.nodes) == ["a"])
    await cluster.directory.close()


async def test_it_follows_nodes_that_come_change_and_go(cluster: Cluster) -> None:
    directory = cluster.directory
    await cluster.register("b", 0.5)
    await cluster.until(lambda: set(directory.nodes) == {"a", "b"})
    for load in (0.1, 0.2, 0.3):
        await cluster.writer.set("nodes/b", bytes_of(Node("b", "127.0.0.1", 1, load=load)))
        await cluster.until(lambda load=load: directory.nodes["b"].load == load)  # type: ignore[misc]
    await cluster.writer.delete("nodes/b")
    await cluster.until(lambda: set(directory.nodes) == {"a"})
    await cluster.register("b", 0.9)
    await cluster.until(lambda: "b" in directory.nodes and directory.nodes["b"].load == 0.9)


async def test_it_follows_leaders(cluster: Cluster) -> None:
    for number, leader in enumerate(("b", "", "c"), 2):
        await cluster.writer.set(f"tablespaces/{TABLESPACE}/epoch", bytes_of(Epoch(number, leader)))
        await cluster.until(lambda leader=leader: cluster.directory.leader("pg_default") == leader)  # type: ignore[misc]
    other = "1" * 32
    await cluster.writer.create(f"tablespaces/{other}/epoch", bytes_of(Epoch(1, "b")))
    await cluster.writer.create(f"tablespaces/{other}/spec", bytes_of(Spec("fast", ("b",))))
    await cluster.until(lambda: cluster.directory.leader("fast") == "b")


async def test_the_last_state_stands_while_the_service_is_away(cluster: Cluster) -> None:
    directory = cluster.directory
    cluster.service.stop()
    await cluster.until(lambda: directory.stale)
    assert list(directory.nodes) == ["a"]
    cluster.service.start()
    await cluster.register("b")
    await cluster.until(lambda: not directory.stale and set(directory.nodes) == {"a", "b"})


async def test_a_session_that_is_over_is_replaced(cluster: Cluster) -> None:
    directory = cluster.directory
    cluster.sessions[0].expire()
    await cluster.register("b")
    await cluster.writer.set("nodes/a", bytes_of(Node("a", "127.0.0.1", 1, load=0.7)))
    await cluster.until(lambda: set(directory.nodes) == {"a", "b"} and directory.nodes["a"].load == 0.7)
    await cluster.writer.set("nodes/a", bytes_of(Node("a", "127.0.0.1", 1, load=0.8)))
    await cluster.until(lambda: directory.nodes["a"].load == 0.8)
    assert len(cluster.sessions) == 2
