"""The controller and the hand-overs over a coordination service in memory; time is the test's own."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, replace

import pytest

from replication.interface import Coordination, Epoch, Head, LedgerList, Node, Replica, Spec
from replication.log.layout import decode_spec, encode, encode_head, encode_ledgers, node_path, paths
from replication.log.presence import TIED
from replication.observer import Observer
from replication.placement import (
    AddReplica,
    DropReplica,
    Move,
    MoveLeader,
    PlacementSettings,
    decode_move,
    encode_move,
    move_path,
)
from shoal.cluster.controller import CONTROLLER, Controller, ControllerSettings, HandOvers
from tests.replication.memory_coordination import MemoryCoordination, MemorySession

T, U, V = (letter * 16 for letter in (b"t", b"u", b"v"))
SETTINGS = ControllerSettings(interval=0.01, placement=PlacementSettings(replace_after=100.0))


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def monotonic(self) -> float:
        return self.now

    def wall(self) -> int:
        return int(self.now * 1_000_000)


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(10):
        while not holds():
            await asyncio.sleep(0.002)


class World:
    """Nodes a, b, c; tablespaces as a test makes them; one observer and as many controllers as a test wants."""

    def __init__(self) -> None:
        self.service = MemoryCoordination()
        self.writer = self.service.session("writer")
        self.clock = Clock()
        self.observer = Observer(self._open, retry_pause=0.01, pause=0.001)
        self.controllers: list[Controller] = []

    async def _open(self) -> Coordination:
        return self.service.session("observer")

    async def start(self) -> None:
        for name in "abc":
            await self.node(name)
        await self.observer.start()

    async def node(self, name: str, load: float = 0.1) -> None:
        await self.writer.create(node_path(name), encode(Node(name, "127.0.0.1", 5000, load=load)), ephemeral=True)

    async def lose(self, name: str) -> None:
        await self.writer.delete(node_path(name))
        await until(lambda: name not in self.observer.nodes)

    async def tablespace(
        self, tablespace: bytes, spec: Spec, leader: str, *, live: str, applied: int = 7, tied: int = 0
    ) -> None:
        where = paths(tablespace)
        await self.writer.create(where.spec, encode(spec))
        await self.writer.create(where.epoch, encode(Epoch(3, leader)))
        await self.writer.create(where.head, encode_head(Head(7, 3, "ab", 1, 100)))
        await self.writer.create(where.ledgers, encode_ledgers(LedgerList()))
        for node in live:
            role = "leader" if node == leader else "follower"
            detail = {TIED: str(tied)} if tied and node == leader else {}
            replica = Replica(node, role, applied, detail=detail)  # type: ignore[arg-type]
            await self.writer.create(where.replica(node), encode(replica), ephemeral=True)
        await until(lambda: self._seen(tablespace, live))

    def _seen(self, tablespace: bytes, live: str) -> bool:
        seen = self.observer.tablespaces.get(tablespace)
        if seen is None or not seen.spec.name or seen.head.lsn != 7 or seen.epoch.epoch != 3:
            return False
        return len(seen.replicas) == len(live)

    async def controller(
        self, node: str, session: MemorySession | None = None, settings: ControllerSettings = SETTINGS
    ) -> Controller:
        own = session or self.service.session(node)
        made = Controller(node, self.observer, lambda: own, self.clock, settings)
        self.controllers.append(made)
        return made

    def spec(self, tablespace: bytes) -> Spec:
        found = self.service.value(paths(tablespace).spec)
        assert found is not None
        return decode_spec(found)

    async def agrees(self, tablespace: bytes) -> None:
        await until(lambda: self.observer.tablespaces[tablespace].spec == self.spec(tablespace))

    def move(self, tablespace: bytes) -> Move | None:
        found = self.service.value(move_path(tablespace))
        return None if found is None else decode_move(found)


@pytest.fixture
async def world() -> AsyncIterator[World]:
    made = World()
    await made.start()
    yield made
    for controller in made.controllers:
        await controller.stop()
    await made.observer.close()


async def test_one_node_is_the_controller_until_it_leaves(world: World) -> None:
    first, second = await world.controller("a"), await world.controller("b")
    assert await first.hold_office() and await first.hold_office()
    assert not await second.hold_office()
    first.start()
    second.start()
    await asyncio.sleep(0.03)
    await first.stop()
    await until(lambda: (world.service.value(CONTROLLER) or b"").startswith(b"b "))


async def test_a_controller_whose_session_ends_is_none_any_more(world: World) -> None:
    session = world.service.session("a")
    first, second = await world.controller("a", session), await world.controller("b")
    assert await first.hold_office()
    session.expire()
    assert await second.hold_office()
    again = world.service.session("a")
    first._coordination = lambda: again
    assert not await first.hold_office()


async def test_one_change_a_look_until_all_is_well(world: World) -> None:
    await world.tablespace(T, Spec("t", ("a",), 3), "a", live="a")
    controller = await world.controller("a")
    assert await controller.run_once() == AddReplica(T, "b")
    assert world.spec(T).replicas == ("a", "b")
    await world.agrees(T)
    assert await controller.run_once() == AddReplica(T, "c")
    await world.agrees(T)
    assert await controller.run_once() is None


async def test_a_running_controller_moves_without_a_call(world: World) -> None:
    await world.tablespace(T, Spec("t", ("a",), 3), "a", live="a")
    (await world.controller("a")).start()
    await until(lambda: set(world.spec(T).replicas) == set("abc"))


async def test_a_node_that_stays_away_is_replaced(world: World) -> None:
    await world.tablespace(T, Spec("t", ("a", "b"), 2), "a", live="a")
    controller = await world.controller("a")
    await world.lose("b")
    assert await controller.run_once() is None
    world.clock.now += 99.0
    assert await controller.run_once() is None
    world.clock.now += 1.0
    assert await controller.run_once() == AddReplica(T, "c")
    await world.agrees(T)
    assert await controller.run_once() is None, "c has nothing yet"
    await world.writer.create(paths(T).replica("c"), encode(Replica("c", "follower", 7)), ephemeral=True)
    await until(lambda: "c" in world.observer.tablespaces[T].replicas)
    assert await controller.run_once() == DropReplica(T, "b")
    assert world.spec(T).replicas == ("a", "c")


async def test_who_comes_back_in_time_is_not_replaced(world: World) -> None:
    await world.tablespace(T, Spec("t", ("a", "b"), 2), "a", live="ab")
    controller = await world.controller("a")
    await world.lose("b")
    assert await controller.run_once() is None
    world.clock.now += 99.0
    await world.node("b")
    await until(lambda: "b" in world.observer.nodes)
    assert await controller.run_once() is None
    await world.lose("b")
    world.clock.now += 50.0
    assert await controller.run_once() is None, "the patience begins anew"


async def test_a_spec_that_was_changed_meanwhile_is_not_overwritten(world: World) -> None:
    await world.tablespace(T, Spec("t", ("a",), 2), "a", live="a")
    controller = await world.controller("a")
    changed = Spec("t", ("a", "c"), 2)
    world.observer._schedule_read = lambda path: None  # type: ignore[method-assign]  # it has not heard of it
    await world.writer.set(paths(T).spec, encode(changed))
    assert await controller.run_once() is None
    assert world.spec(T) == changed


async def test_nothing_is_changed_while_the_picture_is_old(world: World) -> None:
    await world.tablespace(T, Spec("t", ("a",), 2), "a", live="a")
    controller = await world.controller("a")
    world.observer.stale = True
    assert await controller.run_once() is None


async def test_a_leader_gets_one_request_and_pending_moves_count(world: World) -> None:
    for tablespace, name in ((T, "t"), (U, "u"), (V, "v")):
        await world.tablespace(tablespace, Spec(name, ("a", "b"), 2), "a", live="ab")
    controller = await world.controller("c")
    assert await controller.run_once() == MoveLeader(T, "a", "b", "spread")
    assert world.move(T) == Move("a", "b", 3)
    assert await controller.run_once() is None, "two and one are even"
    world.clock.now += 60.0
    assert await controller.run_once() == MoveLeader(T, "a", "b", "spread"), "nobody has carried it out"


async def test_what_was_moved_is_not_moved_back(world: World) -> None:
    for tablespace, name in ((T, "t"), (U, "u"), (V, "v")):
        await world.tablespace(tablespace, Spec(name, ("a", "b"), 2), "a", live="ab")
    controller = await world.controller("c")
    assert await controller.run_once() == MoveLeader(T, "a", "b", "spread")
    for tablespace in (T, U, V):
        await world.writer.set(paths(tablespace).epoch, encode(Epoch(4, "b")))
    await until(lambda: all(item.epoch.leader == "b" for item in world.observer.tablespaces.values()))
    world.clock.now += 61.0
    assert await controller.run_once() == MoveLeader(U, "b", "a", "spread"), "not t, which has just left a"


async def test_a_replica_far_behind_is_not_asked_to_lead(world: World) -> None:
    spec = Spec("t", ("a", "b"), 2, preferred_leader="b")
    await world.tablespace(T, spec, "a", live="ab", applied=0)
    near, far = replace(SETTINGS, max_lag=7), replace(SETTINGS, max_lag=6)
    assert await (await world.controller("a", settings=far)).run_once() is None
    assert await (await world.controller("a", settings=near)).run_once() == MoveLeader(T, "a", "b", "preferred")


async def test_requests_for_ended_epochs_and_strange_ones_are_removed(world: World) -> None:
    await world.tablespace(T, Spec("t", ("a", "b"), 2), "a", live="ab")
    controller = await world.controller("a")
    await world.writer.create(move_path(T), encode_move(Move("a", "b", 2)))
    await world.writer.create("moves/strange", b"?")
    await controller.run_once()
    assert await world.writer.children("moves") == []
    await world.writer.create(move_path(T), encode_move(Move("a", "b", 3)))
    await controller.run_once()
    assert world.move(T) == Move("a", "b", 3), "a user's own request stands"


@dataclass
class Term:
    epoch: Epoch
    leading: bool = True


class Log:
    """What HandOvers needs of a ReplicatedLog."""

    def __init__(self, epoch: int) -> None:
        self.leader: Term | None = Term(Epoch(epoch, "a"))
        self.handed: list[str] = []

    async def step_down(self, to: str = "") -> None:
        self.handed.append(to)
        self.leader = None


async def test_a_leader_hands_over_on_request(world: World) -> None:
    logs = {T: Log(3), U: Log(5)}
    before: list[bytes] = []
    hand_overs = HandOvers("a", lambda: world.writer, logs.get, before.append, retry_pause=0.01)
    hand_overs.start()
    await asyncio.sleep(0.01)
    await world.writer.create("moves/strange", b"?")
    await world.writer.create(move_path(V), encode_move(Move("a", "b", 3)))  # of which this node holds nothing
    await world.writer.create(move_path(U), encode_move(Move("a", "b", 4)))  # of an epoch that has ended
    await world.writer.create(move_path(T), encode_move(Move("a", "b", 3)))
    await until(lambda: bool(logs[T].handed))
    assert logs[T].handed == ["b"] and before == [T] and not logs[U].handed
    assert world.move(T) is None
    hand_overs.stop()


async def test_requests_to_others_are_left_to_them(world: World) -> None:
    held = Log(3)
    hand_overs = HandOvers("a", lambda: world.writer, {T: held}.get, retry_pause=0.01)
    await world.writer.create(move_path(T), encode_move(Move("b", "a", 3)))
    hand_overs.start()
    await asyncio.sleep(0.02)
    assert not held.handed and world.move(T) is not None
    hand_overs.stop()


async def test_hand_overs_outlive_a_broken_connection_and_requests_that_cannot_be_read(world: World) -> None:
    held = Log(3)
    own = world.service.session("a", timeout=0.01)
    hand_overs = HandOvers("a", lambda: own, {T: held}.get, retry_pause=0.01)
    hand_overs.start()
    await world.writer.create(move_path(T), b"?")
    await asyncio.sleep(0.02)
    own.suspend()
    await asyncio.sleep(0.05)
    own.resume()
    await world.writer.delete(move_path(T))
    await world.writer.create(move_path(T), encode_move(Move("a", "c", 3)))
    await until(lambda: held.handed == ["c"])
    hand_overs.stop()


async def test_a_tablespace_that_was_needed_together_with_others_stays_for_a_while(world: World) -> None:
    await world.tablespace(T, Spec("t", ("a", "b"), 2, preferred_leader="b"), "a", live="ab", tied=world.clock.wall())
    controller = await world.controller("a", settings=replace(SETTINGS, rest_after_joint_use=30.0))
    assert await controller.run_once() is None
    world.clock.now += 31.0
    assert await controller.run_once() == MoveLeader(T, "a", "b", "preferred")
