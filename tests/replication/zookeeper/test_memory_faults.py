"""The faults of the coordination service in memory do what their names say."""

from __future__ import annotations

import asyncio

import pytest

from replication.interface import (
    ConflictError,
    CoordinationUnavailableError,
    OutcomeUnknownError,
    SessionState,
    Set,
    Znode,
)
from tests.replication.memory_coordination import Loss, MemoryCoordination, MemorySession


@pytest.fixture
def service() -> MemoryCoordination:
    return MemoryCoordination()


async def settle() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


def states_of(session: MemorySession) -> list[SessionState]:
    states: list[SessionState] = []
    session.on_state(states.append)
    return states


@pytest.mark.parametrize(("loss", "value"), [("before", b"old"), ("after", b"new"), ("later", b"old")])
async def test_a_lost_write_is_unknown_and_done_or_not(service: MemoryCoordination, loss: Loss, value: bytes) -> None:
    session = service.session()
    await session.create("head", b"old")
    states = states_of(session)
    session.lose_reply(loss)
    with pytest.raises(OutcomeUnknownError):
        await session.set("head", b"new", 0)
    assert await session.get("head") == Znode(value, int(value == b"new"))
    assert states == ["suspended", "connected"]
    if loss == "later":
        assert session.carry_out_late_requests() == 1
        assert service.value("head") == b"new"


async def test_a_late_request_fails_where_the_version_has_moved_on(service: MemoryCoordination) -> None:
    session = service.session()
    await session.create("head", b"old")
    session.lose_reply("later")
    with pytest.raises(OutcomeUnknownError):
        await session.set("head", b"new", 0)
    await session.set("head", b"newer", 0)
    assert session.carry_out_late_requests() == 0
    assert service.value("head") == b"newer"


async def test_everything_in_flight_is_lost_with_the_connection(service: MemoryCoordination) -> None:
    session = service.session()
    await session.create("n", b"")
    session.hold_replies()
    done = asyncio.create_task(session.set("n", b"1"))
    read = asyncio.create_task(session.get("n"))
    await settle()
    sent = asyncio.create_task(session.set("n", b"2"))
    await asyncio.sleep(0)
    session.suspend()
    for write in (done, sent):
        with pytest.raises(OutcomeUnknownError):
            await write
    session.resume()
    assert await read == Znode(b"1", 1)  # the second was not there yet when the connection broke; reads are sent again


async def test_requests_wait_for_the_connection_and_give_up(service: MemoryCoordination) -> None:
    session = service.session(timeout=0.02)
    session.suspend()
    with pytest.raises(CoordinationUnavailableError) as error:
        await session.set("n", b"")
    assert not isinstance(error.value, OutcomeUnknownError)
    waiting = asyncio.create_task(session.create("n", b"x"))
    await asyncio.sleep(0)
    session.resume()
    await waiting
    assert await session.get("n") == Znode(b"x", 0)


async def test_watches_fire_when_the_connection_breaks(service: MemoryCoordination) -> None:
    session = service.session()
    fired: list[str] = []
    await session.get("a", lambda: fired.append("a"))
    await session.children("b", lambda: fired.append("b"))
    session.suspend()
    await settle()
    assert fired == ["a", "b"]
    session.resume()
    await session.create("a", b"")
    assert fired == ["a", "b"]


async def test_an_expired_session_takes_its_nodes_with_it(service: MemoryCoordination) -> None:
    session, other = service.session(), service.session()
    await session.create("nodes/a", b"", ephemeral=True)
    states, fired = states_of(session), asyncio.Event()
    await other.get("nodes/a", fired.set)
    session.expire()
    await fired.wait()
    assert await other.get("nodes/a") is None
    assert states == ["suspended", "lost"]
    with pytest.raises(CoordinationUnavailableError):
        await session.get("nodes/a")


async def test_a_session_that_is_cut_off_runs_out_and_hears_of_it_last(service: MemoryCoordination) -> None:
    session, other = service.session(session_timeout=0.06), service.session()
    await session.create("nodes/a", b"", ephemeral=True)
    states, gone = states_of(session), asyncio.Event()
    await other.get("nodes/a", gone.set)
    session.partition()
    alive_until = session.alive_until
    write = asyncio.create_task(session.set("nodes/a", b"zombie"))
    await gone.wait()
    assert service.clock() >= alive_until == session.alive_until
    with pytest.raises(OutcomeUnknownError):
        await write
    assert session.state == "suspended"
    session.resume()
    await settle()
    assert states == ["suspended", "lost"]


async def test_sessions_outlive_a_stop_of_the_service(service: MemoryCoordination) -> None:
    session = service.session(session_timeout=0.02)
    await session.create("nodes/a", b"", ephemeral=True)
    service.stop()
    await asyncio.sleep(0.04)
    service.start()
    assert session.state == "connected"
    assert await session.get("nodes/a") == Znode(b"", 0)


async def test_a_lagging_server_shows_what_was_until_sync(service: MemoryCoordination) -> None:
    session, other = service.session(), service.session()
    await other.create("head", b"old")
    fired: list[None] = []
    await session.get("head", lambda: fired.append(None))
    session.lag()
    await other.set("head", b"new")
    await settle()
    assert await session.get("head") == Znode(b"old", 0)
    assert not fired
    await session.sync()
    assert fired
    assert await session.get("head") == Znode(b"new", 1)


async def test_a_write_of_its_own_ends_the_lag(service: MemoryCoordination) -> None:
    session, other = service.session(), service.session()
    await other.create("head", b"old")
    session.lag()
    await other.set("head", b"new")
    with pytest.raises(ConflictError):
        await session.set("head", b"mine", 0)
    assert await session.get("head") == Znode(b"new", 1)


async def test_latency_delays_and_keeps_the_order(service: MemoryCoordination) -> None:
    delays = iter([0.02, 0.0, 0.01] * 100)
    service.latency = lambda session: next(delays)
    session = service.session()
    await session.create("n", b"")
    done: list[int] = []

    async def write(number: int) -> None:
        await session.multi([Set("n", b"", number)])
        done.append(number)

    await asyncio.gather(*(write(number) for number in range(10)))
    assert done == list(range(10))


async def test_an_interceptor_decides_about_every_write() -> None:
    service = MemoryCoordination(intercept=lambda session, operations: "after" if len(operations) > 1 else None)
    session = service.session("a")
    await session.create("n", b"")
    with pytest.raises(OutcomeUnknownError):
        await session.multi([Set("n", b"1", 0), Set("n", b"2", 1)])
    assert await session.get("n") == Znode(b"2", 2)
    assert [name for name, _ in service.log] == ["a", "a"]
