"""A quorum store is mended, and its members are replaced, while its tablespace takes writes."""

from __future__ import annotations

import asyncio
import dataclasses
import shutil
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from replication.interface import ChangelogStore, Coordination, Ledger, Spec
from replication.log import BulkFiles, Committer, LogSettings, Position, ReplicatedLog, create_tablespace
from replication.log.layout import decode_ledgers, decode_spec, encode, node_path, paths, tablespace_folder
from replication.log.settings import SystemClock
from replication.stores import open_store
from replication.stores.files import FileStore
from replication.stores.members import QuorumUrl, parse_quorum
from shoal.cluster.store_repair import StoreRepairer, StoreRepairSettings
from tests.replication.log.test_zookeeper import Engine
from tests.replication.memory_coordination import MemoryCoordination

TABLESPACE = b"T" * 16
SETTINGS = LogSettings(ledger_bytes=1000, presence=0.05, rank_pause=0.01, housekeeping=0.02, time_to_live=3600.0)
QUICK = StoreRepairSettings(interval=3600.0, watch=0.02)


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(20):
        while not holds():
            await asyncio.sleep(0.005)


class World:
    """One leader over quorum(3,3,2) of directories a, b, c; d is another one."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.service = MemoryCoordination()
        self.session = self.service.session("a")
        self.stores: dict[str, ChangelogStore] = {}
        self.url = QuorumUrl(3, 3, 2, tuple(map(self.member, "abc")))
        bulk = BulkFiles(str(directory / "bulk"))
        self.engine = Engine(bulk)
        self.replica = ReplicatedLog(
            "a",
            TABLESPACE,
            Committer(self.session, SETTINGS),
            self.store,
            self.engine,
            bulk,
            Position(0, None),
            settings=SETTINGS,
        )
        self.mender = self.make_mender()
        self.task: asyncio.Task[None]

    def make_mender(self, settings: StoreRepairSettings = QUICK) -> StoreRepairer:
        return StoreRepairer(
            TABLESPACE, lambda: self.replica.leader, self.store, self.coordination, SystemClock(), settings
        )

    def coordination(self) -> Coordination:
        return self.session

    def member(self, name: str) -> str:
        return f"file://{self.directory}/{name}"

    def store(self, url: str) -> ChangelogStore:
        if url not in self.stores:
            self.stores[url] = open_store(url, timeout=2.0)
        return self.stores[url]

    async def start(self) -> None:
        await self.session.create(node_path("a"), b"{}", ephemeral=True)
        await create_tablespace(self.session, TABLESPACE, Spec("main", ("a",), store=str(self.url)))
        await self.store(str(self.url)).put("cluster", b"id")
        self.task = asyncio.ensure_future(self.replica.run())
        async with asyncio.timeout(10):
            await self.engine.led.wait()

    async def stop(self) -> None:
        self.mender.stop()
        await self.replica.close()
        await asyncio.wait((self.task,))
        for store in self.stores.values():
            await store.close()

    async def write(self, number: int) -> None:
        for _ in range(number):
            await self.engine.commit(b"x" * 100)

    def listed(self) -> tuple[Ledger, ...]:
        found = self.service.value(paths(TABLESPACE).ledgers)
        assert found is not None
        return decode_ledgers(found).ledgers

    def spec(self) -> Spec:
        found = self.service.value(paths(TABLESPACE).spec)
        assert found is not None
        return decode_spec(found)

    async def move(self, url: QuorumUrl) -> None:
        """What `shoal store replace` and `shoal store drain` do."""
        spec = dataclasses.replace(self.spec(), store=str(url))
        await self.session.set(paths(TABLESPACE).spec, encode(spec))

    def objects(self, name: str) -> set[str]:
        """The objects of a member, by their names."""
        root = self.directory / name
        return {info.name for info in FileStore(str(root)).walk("", "")} if root.is_dir() else set()

    def whole(self) -> bool:
        """Whether all of the three members in the spec hold the same."""
        quorum = parse_quorum(self.spec().store)
        assert quorum is not None
        first, second, third = (self.objects(url.rpartition("/")[2]) for url in quorum.active)
        return first == second == third


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    made = World(tmp_path)
    await made.start()
    yield made
    await made.stop()


async def settled(world: World) -> None:
    await until(lambda: not (parse_quorum(world.spec().store) or world.url).leaving)


async def test_a_member_is_replaced_while_writes_go_on(world: World) -> None:
    await world.write(30)
    before = world.objects("c")
    writing = asyncio.ensure_future(world.write(300))
    world.mender.start()
    await world.move(world.url.with_member_replaced(world.member("c"), world.member("d")))
    await settled(world)
    assert not [ledger for ledger in world.listed() if "-file:" in ledger.store]
    await writing
    assert not [ledger for ledger in world.listed() if "-file:" in ledger.store]
    assert parse_quorum(world.spec().store) == QuorumUrl(3, 3, 2, tuple(map(world.member, "abd")))
    assert before <= world.objects("d")
    shutil.rmtree(world.directory / "c")  # it is not needed any more
    await world.write(10)
    leader = world.replica.leader
    assert leader is not None
    await until(lambda: all(ledger.last is not None for ledger in leader.ledgers[:-1]))
    await world.mender.run_once(leader)
    assert {ledger.store for ledger in leader.ledgers} == {world.spec().store}
    await until(world.whole)
    assert len(world.engine.applied) == 340


async def test_a_dead_member_is_replaced(world: World) -> None:
    await world.write(30)
    shutil.rmtree(world.directory / "c")
    (world.directory / "c").write_text("a disk that is gone")
    await world.write(5)
    world.mender.start()
    await world.move(world.url.with_member_replaced(world.member("c"), world.member("d")))
    await settled(world)
    await until(world.whole)


async def test_an_idle_tablespace_lets_a_member_go_too(world: World) -> None:
    await world.write(3)
    world.mender.start()
    await world.move(world.url.with_member_replaced(world.member("a"), world.member("d")))
    await settled(world)
    assert world.objects("a") <= world.objects("d")
    assert {ledger.store for ledger in world.listed()} == {world.spec().store}


async def test_a_ledger_with_a_member_that_has_left_is_listed_again(world: World) -> None:
    """Of a leader that ended between the two steps, or of a release that left the open one as it was."""
    await world.write(30)
    leader = world.replica.leader
    assert leader is not None
    left = str(dataclasses.replace(world.url, leaving=(world.member("d"),)))
    await leader.edit_ledgers(lambda ledgers: tuple(dataclasses.replace(item, store=left) for item in ledgers))
    world.mender.start()
    await until(lambda: {ledger.store for ledger in world.listed()} == {world.spec().store})
    await world.write(3)


async def test_a_member_is_drained(world: World) -> None:
    four = dataclasses.replace(world.url, active=tuple(map(world.member, "abcd")))
    await world.move(four)
    await world.write(60)
    world.mender.start()
    await world.move(four.with_member_leaving(world.member("b")))
    await settled(world)
    assert parse_quorum(world.spec().store) == QuorumUrl(3, 3, 2, tuple(map(world.member, "acd")))
    shutil.rmtree(world.directory / "b")
    await world.write(5)
    await until(world.whole)


async def test_a_member_stays_as_long_as_something_cannot_be_copied(world: World) -> None:
    await world.write(30)
    (world.directory / "d").write_text("no directory")
    leaving = world.url.with_member_replaced(world.member("c"), world.member("d"))
    await world.move(leaving)
    leader = world.replica.leader
    assert leader is not None
    await until(lambda: leader.ledgers[-1].store == str(leaving))
    await until(lambda: all(ledger.last is not None for ledger in leader.ledgers[:-1]))
    summary = await world.mender.run_once(leader)
    assert summary is not None and summary.failed and world.spec().store == str(leaving)
    (world.directory / "d").unlink()
    world.mender.start()
    await settled(world)
    await until(world.whole)


async def test_what_a_member_lost_is_copied_now_and_then(world: World) -> None:
    await world.write(30)
    await until(lambda: len(world.objects("c")) == len(world.objects("a")))
    shutil.rmtree(world.directory / "c" / tablespace_folder(TABLESPACE))
    (world.directory / "c" / "cluster").unlink()
    world.mender = world.make_mender(StoreRepairSettings(interval=0.05, watch=0.02))
    world.mender.start()
    await until(lambda: world.objects("c") == world.objects("a"))


@pytest.mark.parametrize("packed", [False, True])
async def test_a_damaged_copy_is_not_passed_on(world: World, packed: bool) -> None:
    await world.write(1)
    await until(lambda: all(any("ledger-" in name for name in world.objects(member)) for member in "abc"))
    (name,) = (name for name in world.objects("a") if "ledger-" in name)
    first, second, third = (FileStore(str(world.directory / member)) for member in "abc")
    good = await second.get(name)
    damaged = good[:-1] + bytes([good[-1] ^ 1])
    if packed:
        (pack,) = (world.directory / "a").rglob("*.pack")
        pack.write_bytes(pack.read_bytes().replace(good, damaged))
    else:
        await first.delete(name)
        await first.put(name, damaged)
    await third.delete(name)
    leader = world.replica.leader
    assert leader is not None
    await world.mender.run_once(leader)
    assert await third.get(name) == good
    for store in (first, second, third):
        await store.close()
