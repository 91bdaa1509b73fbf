"""What every implementation of `Coordination` does alike: the one in memory, and the one over a real ZooKeeper."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from functools import partial

import pytest
import pytest_asyncio

from catalog.errors import SqlError
from replication.interface import (
    Check,
    ConflictError,
    Coordination,
    CoordinationUnavailableError,
    Create,
    Delete,
    Operation,
    Set,
    Znode,
)
from replication.zookeeper import open_coordination
from tests.replication.memory_coordination import MemoryCoordination

Open = Callable[[], Awaitable[Coordination]]


@pytest_asyncio.fixture(params=["memory", "zookeeper"])
async def open_session(request: pytest.FixtureRequest) -> AsyncIterator[Open]:
    """Opens sessions of one service, which are closed after the test."""
    sessions: list[Coordination] = []
    service = MemoryCoordination()
    url: str = request.getfixturevalue("zookeeper") if request.param == "zookeeper" else ""

    async def open_() -> Coordination:
        sessions.append(await open_coordination(url) if url else service.session())
        return sessions[-1]

    yield open_
    for session in sessions:
        await session.close()


class Fired:
    """A watch that can be waited for, and counts."""

    def __init__(self) -> None:
        self.times = 0
        self._event = asyncio.Event()

    def __call__(self) -> None:
        self.times += 1
        self._event.set()

    async def wait(self) -> None:
        async with asyncio.timeout(5):
            await self._event.wait()


async def test_a_node_is_created_read_set_and_deleted(open_session: Open) -> None:
    session = await open_session()
    assert await session.get("a") is None
    await session.create("a", b"one")
    assert await session.get("a") == Znode(b"one", 0)
    assert await session.set("a", b"two") == 1
    assert await session.set("a", b"three", 1) == 2
    assert await session.get("a") == Znode(b"three", 2)
    await session.delete("a", 2)
    assert await session.get("a") is None


async def test_create_makes_missing_parents(open_session: Open) -> None:
    session = await open_session()
    await session.create("tablespaces/x/spec", b"{}")
    await session.create("tablespaces/y/spec", b"{}")
    assert await session.children("tablespaces") == ["x", "y"]
    assert await session.get("tablespaces/x") == Znode(b"", 0)


async def test_create_makes_parents_again_that_somebody_deleted(open_session: Open) -> None:
    session, other = await open_session(), await open_session()
    await session.create("a/b/c", b"")
    for path in ("a/b/c", "a/b", "a"):
        await other.delete(path)
    await session.create("a/b/c", b"again")
    assert await session.get("a/b/c") == Znode(b"again", 0)


async def test_conflicts_say_what_is_wrong(open_session: Open) -> None:
    session = await open_session()
    await session.create("a/b", b"")
    for request, reason in (
        (session.create("a/b", b""), "exists"),
        (session.set("a/b", b"", 7), "version"),
        (session.set("none", b""), "missing"),
        (session.delete("a/b", 7), "version"),
        (session.delete("none"), "missing"),
        (session.delete("a"), "not empty"),
    ):
        with pytest.raises(ConflictError) as error:
            await request
        assert error.value.reason == reason


async def test_a_multi_does_all_of_it(open_session: Open) -> None:
    session = await open_session()
    await session.create("epoch", b"1")
    await session.create("head", b"1")
    await session.create("old", b"")
    operations: list[Operation] = [Check("epoch", 0), Set("head", b"2", 0), Create("new", b"n"), Delete("old")]
    assert await session.multi(operations) == [0, 1, 0, 0]
    assert await session.get("head") == Znode(b"2", 1)
    assert await session.get("new") == Znode(b"n", 0)
    assert await session.get("old") is None


@pytest.mark.parametrize(
    ("operations", "reason", "index"),
    [
        ([Set("head", b"2", 0), Check("epoch", 5)], "version", 1),
        ([Check("epoch", 5), Set("head", b"2", 5)], "version", 0),
        ([Set("head", b"2", 0), Set("head", b"3", 0)], "version", 1),
        ([Set("head", b"2", 0), Check("none", -1)], "missing", 1),
        ([Set("head", b"2", 0), Create("epoch", b"")], "exists", 1),
        ([Set("head", b"2", 0), Create("none/below", b"")], "missing", 1),
        ([Set("head", b"2", 0), Delete("none")], "missing", 1),
        ([Set("head", b"2", 0), Create("up", b""), Create("up/x", b""), Delete("up")], "not empty", 3),
    ],
)
async def test_a_multi_does_nothing_if_one_operation_fails(
    open_session: Open, operations: list[Operation], reason: str, index: int
) -> None:
    session = await open_session()
    await session.create("epoch", b"1")
    await session.create("head", b"1")
    with pytest.raises(ConflictError) as error:
        await session.multi(operations)
    assert (error.value.reason, error.value.index, error.value.path) == (reason, index, operations[index].path)
    assert await session.get("head") == Znode(b"1", 0)
    assert await session.get("up") is None


async def test_pipelined_requests_are_carried_out_in_order(open_session: Open) -> None:
    session = await open_session()
    await session.create("head", b"")
    done: list[int] = []

    async def commit(number: int) -> None:
        await session.multi([Set("head", str(number).encode(), number)])
        done.append(number)

    async with asyncio.TaskGroup() as group:
        for number in range(200):
            group.create_task(commit(number))
        reads = [group.create_task(session.get("head")) for _ in range(3)]
    assert done == list(range(200))
    assert [read.result() for read in reads] == [Znode(b"199", 200)] * 3


async def test_creations_keep_their_place_among_pipelined_requests(open_session: Open) -> None:
    session = await open_session()
    async with asyncio.TaskGroup() as group:
        group.create_task(session.create("deep/down/below", b"x"))
        read = group.create_task(session.get("deep/down/below"))
    assert read.result() == Znode(b"x", 0)


async def test_one_of_two_that_set_the_same_version_wins(open_session: Open) -> None:
    first, second = await open_session(), await open_session()
    await first.create("epoch", b"")
    results = await asyncio.gather(first.set("epoch", b"1", 0), second.set("epoch", b"2", 0), return_exceptions=True)
    assert sorted(type(result).__name__ for result in results) == ["ConflictError", "int"]


@pytest.mark.parametrize("change", ["create", "set", "delete"])
async def test_a_watch_of_a_node_fires_once(open_session: Open, change: str) -> None:
    session, other = await open_session(), await open_session()
    if change != "create":
        await other.create("n", b"")
    fired = Fired()
    await session.get("n", fired)
    if change == "delete":
        await other.delete("n")
    elif change == "set":
        await other.set("n", b"1")
    else:
        await other.create("n", b"")
    await fired.wait()
    await session.sync()
    if change == "delete":
        await other.create("n", b"")
    else:
        await other.set("n", b"2")
    await session.sync()
    await session.get("n")
    assert fired.times == 1


async def test_a_watch_of_children_fires_for_their_coming_and_going_only(open_session: Open) -> None:
    session, other = await open_session(), await open_session()
    await other.create("nodes/a", b"")
    fired, again = Fired(), Fired()
    assert await session.children("nodes", fired) == ["a"]
    await other.set("nodes/a", b"1")
    await other.set("nodes", b"1")
    await other.create("nodes/a/below", b"1")
    await session.sync()
    await session.children("nodes")
    assert fired.times == 0
    await other.create("nodes/b", b"")
    await fired.wait()
    assert await session.children("nodes", again) == ["a", "b"]
    await other.delete("nodes/b")
    await again.wait()
    assert await session.children("nodes") == ["a"]


async def test_children_of_a_node_that_is_not_there_can_be_waited_for(open_session: Open) -> None:
    session, other = await open_session(), await open_session()
    fired = Fired()
    assert await session.children("nodes", fired) == []
    await other.create("nodes", b"")
    await fired.wait()
    assert fired.times == 1


async def test_a_watch_fires_before_the_new_value_is_read(open_session: Open) -> None:
    session, other = await open_session(), await open_session()
    await session.create("head", b"0")
    for number in range(20):
        fired = Fired()
        await session.get("head", fired)
        writing = asyncio.create_task(other.set("head", str(number).encode()))
        while True:
            found = await session.get("head")
            assert found is not None
            if found.version == number + 1:
                break
        assert fired.times == 1
        await writing


async def test_the_same_watch_set_twice_fires_once(open_session: Open) -> None:
    session = await open_session()
    await session.create("n", b"")
    fired = Fired()
    await session.get("n", fired)
    await session.get("n", fired)
    await session.set("n", b"1")
    await fired.wait()
    await session.sync()
    assert fired.times == 1


async def test_ephemeral_nodes_go_when_their_session_is_closed(open_session: Open) -> None:
    session, other = await open_session(), await open_session()
    await session.create("nodes/a", b"here", ephemeral=True)
    fired = Fired()
    assert await other.get("nodes/a", fired) == Znode(b"here", 0)
    await session.close()
    await fired.wait()
    assert await other.children("nodes") == []
    assert session.state == "lost"
    with pytest.raises(CoordinationUnavailableError):
        await session.get("nodes")


async def test_ephemeral_nodes_can_be_part_of_a_multi(open_session: Open) -> None:
    session, other = await open_session(), await open_session()
    await session.create("epoch", b"")
    await session.multi([Check("epoch", 0), Create("controller", b"a", ephemeral=True)])
    with pytest.raises(ConflictError):
        await other.create("controller", b"b", ephemeral=True)
    await session.close()
    await other.sync()
    await other.create("controller", b"b", ephemeral=True)


async def test_an_open_session_is_alive_for_sure_for_most_of_its_timeout(open_session: Open) -> None:
    session = await open_session()
    await session.sync()
    left = session.alive_until - asyncio.get_running_loop().time()
    assert session.session_timeout * 0.7 < left <= session.session_timeout


async def test_requests_that_are_too_large_are_refused_by_their_size(open_session: Open) -> None:
    session = await open_session()
    await session.create("n", b"x" * 900_000)
    for request in (
        partial(session.set, "n", b"x" * 1_100_000),
        partial(session.create, "m", b"x" * 1_100_000),
        partial(session.multi, [Set("n", b"x" * 600_000, -1), Create("m", b"x" * 600_000)]),
    ):
        with pytest.raises(SqlError) as error:
            await request()
        assert error.value.sqlstate == "54000"
    found = await session.get("n")
    assert found is not None and len(found.data) == 900_000


async def test_a_cancelled_request_disturbs_no_other(open_session: Open) -> None:
    session = await open_session()
    await session.create("n", b"")
    cancelled = asyncio.create_task(session.set("n", b"1"))
    after = asyncio.create_task(session.get("n"))
    await asyncio.sleep(0)
    cancelled.cancel()
    assert await after is not None
    assert await session.set("n", b"2") in (1, 2)
