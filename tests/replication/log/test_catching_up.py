"""A node that has won an election and still has much of the log to apply."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from replication.interface import Replica, Spec
from replication.log import BulkFiles, Committer, LogSettings, Position, ReplicatedLog, create_tablespace
from replication.log.layout import decode_epoch, encode, node_path, paths
from tests.replication.log.test_zookeeper import Engine
from tests.replication.memory_coordination import MemoryCoordination
from tests.replication.memory_store import MemoryStore

TABLESPACE = b"T" * 16
ENTRIES = 40
PATIENCE = 0.8  # seconds of the takeover; longer than a busy machine keeps a process from running
SETTINGS = LogSettings(presence=0.02, rank_pause=0.0, poll=0.02, takeover_timeout=PATIENCE)


class SlowEngine(Engine):
    """Takes a while for every object; gets stuck before the entry `stuck`."""

    def __init__(self, bulk: BulkFiles, seconds: float, stuck: int = 0) -> None:
        super().__init__(bulk)
        self.seconds = seconds
        self.stuck = stuck

    async def ready(self) -> None:
        if self.stuck and len(self.applied) + 1 >= self.stuck:
            await asyncio.Event().wait()
        await asyncio.sleep(self.seconds)


class World:
    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.service = MemoryCoordination()
        self.store = MemoryStore()
        self.tasks: list[tuple[ReplicatedLog, asyncio.Task[None]]] = []

    async def begin(self, name: str, engine: Engine) -> ReplicatedLog:
        session = self.service.session(name)
        await session.create(node_path(name), b"{}", ephemeral=True)
        replica = ReplicatedLog(
            name,
            TABLESPACE,
            Committer(session, SETTINGS),
            lambda url: self.store,
            engine,
            engine.bulk,
            Position(0, None),
            settings=SETTINGS,
        )
        self.tasks.append((replica, asyncio.ensure_future(replica.run())))
        return replica

    async def filled(self) -> None:
        """A log of some objects, which nobody leads any more."""
        session = self.service.session("admin")
        await create_tablespace(session, TABLESPACE, Spec("main", ("a", "b", "c"), 3))
        engine = Engine(BulkFiles(str(self.directory / "a")))
        first = await self.begin("a", engine)
        async with asyncio.timeout(10):
            await engine.led.wait()
        for _ in range(ENTRIES):
            await engine.commit(b"x")
        await first.close()
        await session.delete(node_path("a"))

    def epoch(self) -> tuple[int, str]:
        found = decode_epoch(self.service.value(paths(TABLESPACE).epoch) or b"")
        return found.epoch, found.leader

    async def end(self) -> None:
        for replica, _ in self.tasks:
            await replica.close()
        await asyncio.wait([task for _, task in self.tasks])


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


async def test_who_makes_progress_leads_in_the_end(world: World) -> None:
    await world.filled()
    engine = SlowEngine(BulkFiles(str(world.directory / "b")), 3 * PATIENCE / ENTRIES)
    await world.begin("b", engine)
    async with asyncio.timeout(20):
        await engine.led.wait()
    assert world.epoch() == (2, "b")  # at the first attempt
    await world.end()


async def test_who_makes_none_gives_up(world: World) -> None:
    await world.filled()
    engine = SlowEngine(BulkFiles(str(world.directory / "b")), 0.0, stuck=7)
    await world.begin("b", engine)
    async with asyncio.timeout(20):
        while world.epoch() != (2, "b"):
            await asyncio.sleep(0.01)
        while world.epoch() == (2, "b"):
            await asyncio.sleep(0.01)
    assert not engine.led.is_set()
    await world.end()


async def test_who_is_slow_lets_another_go_ahead_that_has_everything(world: World) -> None:
    await world.filled()
    engine = SlowEngine(BulkFiles(str(world.directory / "b")), 5 * PATIENCE / ENTRIES)
    await world.begin("b", engine)
    session = world.service.session("c")
    async with asyncio.timeout(20):
        while world.epoch() != (2, "b"):
            await asyncio.sleep(0.01)
        await session.create(paths(TABLESPACE).replica("c"), encode(Replica("c", "follower", ENTRIES)), ephemeral=True)
        while world.epoch() == (2, "b"):
            await asyncio.sleep(0.01)
    assert not engine.led.is_set() and len(engine.applied) < ENTRIES
    await world.end()
