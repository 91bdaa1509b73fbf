"""A follower lets commits gather for a moment, unless somebody waits for them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from replication.interface import Spec
from replication.log import BulkFiles, Committer, LogSettings, Position, ReplicatedLog, create_tablespace
from replication.log.layout import node_path
from replication.log.lsn_waiters import LsnWaiters
from replication.stores import open_store
from tests.replication.log.test_zookeeper import Engine
from tests.replication.memory_coordination import MemoryCoordination

TABLESPACE = b"T" * 16
LONG = LogSettings(gather=60.0, poll=60.0, rank_pause=0.01)  # nothing happens by itself within a test


class Pair:
    """A leader, and a follower that gathers."""

    def __init__(self, directory: Path) -> None:
        self.service = MemoryCoordination()
        self.store = open_store(f"file://{directory}/store")
        self.engines: list[Engine] = []
        self.logs: list[ReplicatedLog] = []
        self.tasks: list[asyncio.Task[None]] = []
        self._directory = directory

    async def start(self) -> None:
        session = self.service.session("maker")
        await create_tablespace(session, TABLESPACE, Spec("main", ("a", "b"), preferred_leader="a"))
        for name in "ab":
            own = self.service.session(name)
            await own.create(node_path(name), b"{}", ephemeral=True)
            bulk = BulkFiles(str(self._directory / name))
            engine = Engine(bulk)
            log = ReplicatedLog(
                name,
                TABLESPACE,
                Committer(own, LONG),
                lambda url: self.store,
                engine,
                bulk,
                Position(0, None),
                settings=LONG,
                electable=name == "a",
            )
            self.engines.append(engine)
            self.logs.append(log)
            self.tasks.append(asyncio.ensure_future(log.run()))
        async with asyncio.timeout(10):
            await self.engines[0].led.wait()

    async def stop(self) -> None:
        for task in self.tasks:
            task.cancel()
        await asyncio.wait(self.tasks)
        await self.store.close()


@pytest.fixture
async def pair(tmp_path: Path) -> AsyncIterator[Pair]:
    made = Pair(tmp_path)
    await made.start()
    yield made
    await made.stop()


async def test_commits_gather_until_somebody_waits(pair: Pair) -> None:
    leader, follower = pair.engines
    for number in range(5):
        await leader.commit(b"%d" % number)
    await asyncio.sleep(0.05)
    assert len(follower.applied) < 5
    async with asyncio.timeout(10):
        await pair.logs[1].wait_for(5)
    assert follower.applied == leader.applied


async def test_what_is_committed_during_a_look_gathers_too(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    leader, follower = pair.engines
    await leader.commit(b"1")
    get, looked = pair.store.get, asyncio.Event()

    async def get_beside_a_commit(name: str) -> bytes:
        if not looked.is_set():
            looked.set()
            await leader.commit(b"2")
        return await get(name)

    monkeypatch.setattr(pair.store, "get", get_beside_a_commit)
    async with asyncio.timeout(10):
        await pair.logs[1].wait_for(1)
    await asyncio.sleep(0.05)
    assert looked.is_set()
    assert follower.applied == [b"1"]
    async with asyncio.timeout(10):
        await pair.logs[1].wait_for(2)
    assert follower.applied == [b"1", b"2"]


async def test_a_strong_read_does_not_wait_for_the_moment(pair: Pair) -> None:
    leader, follower = pair.engines
    await leader.commit(b"x")
    async with asyncio.timeout(10):
        head = await pair.logs[1].read_head()
        await pair.logs[1].wait_for(head.lsn)
    assert follower.applied == [b"x"]


async def test_who_has_given_up_waits_no_more() -> None:
    waiters = LsnWaiters()
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.01):
            await waiters.wait_for(7)
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.01):
            await waiters.wait_for_waiter()
    waiting = asyncio.ensure_future(waiters.wait_for(3))
    async with asyncio.timeout(1):
        await waiters.wait_for_waiter()
    waiters.advance(3)
    await waiting
