"""When entries of several tablespaces are applied on a follower."""

from __future__ import annotations

import asyncio
import random

import pytest

from replication.interface import LogEntry
from shoal.cluster.apply_order import ApplyOrder

FIRST, ONE, TWO = b"f" * 16, b"1" * 16, b"2" * 16


class Replica:
    def __init__(self, name: bytes, order: list[tuple[bytes, int]]) -> None:
        self.name = name
        self.applied_lsn = 0
        self.wanted = 0
        self._order = order

    def apply_now(self, entry: LogEntry) -> None:
        assert entry.lsn == self.applied_lsn + 1
        self.applied_lsn = entry.lsn
        self._order.append((self.name, entry.lsn))

    def check_existence(self) -> None:
        self.wanted += 1


class World:
    """Three tablespaces; `order` is what was applied."""

    def __init__(self) -> None:
        self.order: list[tuple[bytes, int]] = []
        self.arrivals = ApplyOrder(FIRST)
        self.replicas = {name: Replica(name, self.order) for name in (FIRST, ONE, TWO)}
        for name, replica in self.replicas.items():
            self.arrivals.join(name, replica)

    async def follow(self, tablespace: bytes, *entries: LogEntry) -> None:
        """As replication.log.follower does."""
        replica = self.replicas[tablespace]
        for entry in entries:
            waiting = self.arrivals.admit(tablespace, entry)
            if waiting is not None:
                await waiting
            if entry.lsn > replica.applied_lsn:
                replica.apply_now(entry)
                self.arrivals.apply_waiting()


def entry(lsn: int, *parts: tuple[bytes, int], schema: int = 0) -> LogEntry:
    return LogEntry(lsn, 1, 0, schema, (), b"", parts)


@pytest.fixture
def world() -> World:
    return World()


async def turns() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


async def test_parts_of_a_transaction_are_applied_in_one_turn_and_pg_default_last(world: World) -> None:
    parts = ((FIRST, 1), (ONE, 2))
    first = asyncio.ensure_future(world.follow(FIRST, entry(1, *parts)))
    await turns()
    assert world.order == []
    assert world.replicas[ONE].wanted == 1
    one = asyncio.ensure_future(world.follow(ONE, entry(1), entry(2, *parts), entry(3)))
    await asyncio.gather(first, one)
    assert world.order == [(ONE, 1), (ONE, 2), (FIRST, 1), (ONE, 3)]


async def test_a_part_whose_others_are_applied_already_is_applied_at_once(world: World) -> None:
    world.replicas[FIRST].applied_lsn = 9  # from a checkpoint
    await world.follow(ONE, entry(1, (FIRST, 5), (ONE, 1)))
    assert world.order == [(ONE, 1)]


async def test_an_entry_waits_for_the_schema_that_it_was_made_under(world: World) -> None:
    one = asyncio.ensure_future(world.follow(ONE, entry(1, schema=2)))
    await turns()
    assert world.order == []
    await world.follow(FIRST, entry(1), entry(2))
    await one
    assert world.order == [(FIRST, 1), (FIRST, 2), (ONE, 1)]


async def test_a_transaction_without_pg_default_waits_for_the_schema_too(world: World) -> None:
    parts = ((ONE, 1), (TWO, 1))
    following = [
        asyncio.ensure_future(world.follow(ONE, entry(1, *parts, schema=1))),
        asyncio.ensure_future(world.follow(TWO, entry(1, *parts, schema=1))),
    ]
    await turns()
    assert world.order == []
    await world.follow(FIRST, entry(1))
    await asyncio.gather(*following)
    assert sorted(world.order[1:]) == [(ONE, 1), (TWO, 1)]


async def test_no_tablespace_waits_for_a_dropped_one(world: World) -> None:
    first = asyncio.ensure_future(world.follow(FIRST, entry(1, (FIRST, 1), (ONE, 4)), entry(2)))
    await turns()
    assert world.order == []
    world.arrivals.leave(ONE)
    await first
    assert world.order == [(FIRST, 1), (FIRST, 2)]


async def test_transactions_in_chains_are_applied_in_their_order(world: World) -> None:
    a, b, c = ((FIRST, 1), (ONE, 1)), ((ONE, 2), (TWO, 1)), ((FIRST, 2), (TWO, 2))
    await asyncio.gather(
        world.follow(TWO, entry(1, *b), entry(2, *c)),
        world.follow(ONE, entry(1, *a), entry(2, *b)),
        world.follow(FIRST, entry(1, *a), entry(2, *c)),
    )
    assert world.order == [(ONE, 1), (FIRST, 1), (ONE, 2), (TWO, 1), (TWO, 2), (FIRST, 2)]


async def test_a_follower_continues_after_an_entry_that_was_already_applied(world: World) -> None:
    parts = ((FIRST, 1), (ONE, 1))
    given_up = asyncio.ensure_future(world.follow(ONE, entry(1, *parts)))
    await turns()
    given_up.cancel()
    await turns()
    await world.follow(FIRST, entry(1, *parts))
    assert world.order == [(ONE, 1), (FIRST, 1)]
    await world.follow(ONE, entry(1, *parts), entry(2))
    assert world.order[2:] == [(ONE, 2)]


async def test_a_bootstrapping_tablespace_waits_for_others_and_they_do_not_wait_for_it(world: World) -> None:
    world.arrivals.leave(ONE)
    world.arrivals.expect(ONE, world.replicas[ONE])
    parts = ((FIRST, 2), (ONE, 2))
    coming = asyncio.ensure_future(world.follow(ONE, entry(1), entry(2, *parts), entry(3)))
    await turns()
    assert world.order == [(ONE, 1)]
    await world.follow(FIRST, entry(1), entry(2, *parts), entry(3, (FIRST, 3), (ONE, 5)))
    await coming
    assert world.order == [(ONE, 1), (FIRST, 1), (FIRST, 2), (ONE, 2), (FIRST, 3), (ONE, 3)]
    assert world.arrivals.awaited_lsn(ONE) == 5, "of what the others have applied without it"


async def test_what_has_come_goes_with_the_others_from_then_on(world: World) -> None:
    world.arrivals.leave(ONE)
    world.arrivals.expect(ONE, world.replicas[ONE])
    await world.follow(ONE, entry(1))
    world.arrivals.join(ONE, world.replicas[ONE])
    assert world.arrivals.awaited_lsn(ONE) == 0
    parts = ((FIRST, 1), (ONE, 2))
    first = asyncio.ensure_future(world.follow(FIRST, entry(1, *parts)))
    await turns()
    assert world.order == [(ONE, 1)]
    await asyncio.gather(first, world.follow(ONE, entry(2, *parts)))
    assert world.order == [(ONE, 1), (ONE, 2), (FIRST, 1)]


async def test_two_that_are_on_their_way_know_what_they_owe_each_other(world: World) -> None:
    for name in (ONE, TWO):
        world.arrivals.leave(name)
        world.arrivals.expect(name, world.replicas[name])
    await world.follow(ONE, entry(1, (ONE, 1), (TWO, 4)))
    assert world.arrivals.awaited_lsn(TWO) == 4
    world.arrivals.join(ONE, world.replicas[ONE])
    ahead = asyncio.ensure_future(world.follow(TWO, entry(1, (ONE, 2), (TWO, 1))))
    await turns()
    assert world.order == [(ONE, 1)], "it does not show what the other does not"
    await world.follow(ONE, entry(2, (ONE, 2), (TWO, 1)))
    await ahead
    assert world.order == [(ONE, 1), (ONE, 2), (TWO, 1)]


# --- any order -------------------------------------------------------------------------------------------------------

SPACES = (FIRST, ONE, TWO, b"3" * 16)


class Node:
    """A follower of four logs that any number of transactions tie together: it gets tablespaces and gives them up. What
    is seen must be whole after every turn."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.logs: dict[bytes, list[LogEntry]] = {name: [] for name in SPACES}
        self.transactions: list[dict[bytes, int]] = []
        self.arrivals = ApplyOrder(FIRST)
        self.replicas: dict[bytes, Replica] = {}
        self.seen: set[bytes] = set()
        self.tasks: dict[bytes, asyncio.Task[None]] = {}
        self.goals: dict[bytes, tuple[int, dict[bytes, int]]] = {}
        self.schema = 0
        self.came = 0
        for name in SPACES:
            self.begin(name, 0)
            self.show(name)

    def commit(self) -> None:
        chosen = self.random.sample(SPACES, self.random.choice((1, 1, 2, 2, 3, 4)))
        lsns = {name: len(self.logs[name]) + 1 for name in chosen}
        parts = tuple(lsns.items()) if len(lsns) > 1 else ()
        for name, lsn in lsns.items():
            self.logs[name].append(entry(lsn, *parts, schema=self.schema))
        if FIRST in lsns and self.random.random() < 0.3:
            self.schema = lsns[FIRST]
        self.transactions.append(lsns)

    def begin(self, name: bytes, lsn: int) -> None:
        replica = self.replicas[name] = Replica(name, [])
        replica.applied_lsn = lsn
        self.arrivals.expect(name, replica)
        self.tasks[name] = asyncio.ensure_future(self.follow(name))

    async def follow(self, name: bytes) -> None:
        replica = self.replicas[name]
        while True:
            if replica.applied_lsn == len(self.logs[name]) or self.random.random() < 0.5:
                await asyncio.sleep(0)
                continue
            following = self.logs[name][replica.applied_lsn]
            waiting = self.arrivals.admit(name, following)
            if waiting is not None:
                await waiting
            if following.lsn > replica.applied_lsn:
                replica.apply_now(following)
                self.arrivals.apply_waiting()

    def bring(self, name: bytes) -> None:
        """From a checkpoint; as shoal/cluster/replica_placement.py does it."""
        self.begin(name, self.random.randint(0, len(self.logs[name])))
        heads = {other: len(self.logs[other]) for other in self.seen}
        self.goals[name] = len(self.logs[name]), heads

    def look(self) -> None:
        for name, (goal, heads) in list(self.goals.items()):
            behind = [
                other for other in heads if other in self.seen and self.replicas[other].applied_lsn < heads[other]
            ]
            if not behind and self.replicas[name].applied_lsn >= max(goal, self.arrivals.awaited_lsn(name)):
                del self.goals[name]
                self.show(name)
                self.came += 1

    def show(self, name: bytes) -> None:
        self.arrivals.join(name, self.replicas[name])
        self.seen.add(name)

    async def leave(self, name: bytes) -> None:
        self.seen.discard(name)
        self.goals.pop(name, None)
        self.tasks[name].cancel()
        await asyncio.gather(self.tasks[name], return_exceptions=True)
        self.arrivals.leave(name)
        del self.replicas[name]

    def check(self) -> None:
        for lsns in self.transactions:
            shown = {self.replicas[name].applied_lsn >= lsn for name, lsn in lsns.items() if name in self.seen}
            assert len(shown) < 2, "a part of a transaction is seen, and another is not"
        for name in self.seen:
            for item in self.logs[name][: self.replicas[name].applied_lsn][-1:]:
                assert self.replicas[FIRST].applied_lsn >= item.schema_version


@pytest.mark.parametrize("seed", range(40))
async def test_transactions_are_seen_whole_while_tablespaces_come_and_go(seed: int) -> None:
    node = Node(seed)
    for _ in range(600):
        if node.random.random() < 0.3:
            node.commit()
        if node.random.random() < 0.05:
            name = node.random.choice(SPACES[1:])
            if name in node.replicas:
                await node.leave(name)
            else:
                node.bring(name)
        await asyncio.sleep(0)
        node.look()
        node.check()
    for name in SPACES:
        if name not in node.replicas:
            node.bring(name)
    async with asyncio.timeout(10):
        while node.seen != set(SPACES) or any(
            node.replicas[name].applied_lsn < len(node.logs[name]) for name in SPACES
        ):
            await asyncio.sleep(0)
            node.look()
            node.check()
    assert node.came > 3
    for task in node.tasks.values():
        task.cancel()
