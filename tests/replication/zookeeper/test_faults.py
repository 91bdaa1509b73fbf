"""Sessions of a real ZooKeeper whose servers are killed and frozen, whose connections break, and which run out."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator

import pytest
import pytest_asyncio
from kazoo.client import KazooClient

from replication.interface import (
    ConflictError,
    CoordinationUnavailableError,
    OutcomeUnknownError,
    SessionState,
    Set,
    Znode,
)
from replication.zookeeper import ZooKeeperCoordination, open_coordination
from tests.zookeeper_server import ZooKeeper, ZooKeeperServer

Open = Callable[..., Awaitable[ZooKeeperCoordination]]


@pytest.fixture(scope="module")
def frail() -> Iterator[ZooKeeper]:
    """A server of this file's own: other tests' sessions do not suffer with it."""
    with ZooKeeper() as zookeeper:
        yield zookeeper


@pytest.fixture
def server(frail: ZooKeeper) -> Iterator[ZooKeeperServer]:
    (server,) = frail.servers
    yield server
    if server.running:
        server.resume()
    server.start()


@pytest_asyncio.fixture
async def open_session(frail: ZooKeeper, request: pytest.FixtureRequest) -> AsyncIterator[Open]:
    """Opens sessions, closed after the test; of `frail` unless a URL is given."""
    sessions: list[ZooKeeperCoordination] = []

    async def open_(url: str = "", *, session_timeout: float = 10.0, timeout: float = 5.0) -> ZooKeeperCoordination:
        name = request.node.name.partition("[")[0]
        url = url or frail.url(name)
        sessions.append(await open_coordination(url, session_timeout=session_timeout, timeout=timeout))
        return sessions[-1]

    yield open_
    await asyncio.gather(*(session.close() for session in sessions))


class States:
    """What a session was in, in order."""

    def __init__(self, session: ZooKeeperCoordination) -> None:
        self.seen: list[SessionState] = []
        self._changed = asyncio.Event()
        session.on_state(self._saw)

    def _saw(self, state: SessionState) -> None:
        self.seen.append(state)
        self._changed.set()

    async def wait_for(self, state: SessionState) -> None:
        async with asyncio.timeout(10):
            while state not in self.seen:
                self._changed.clear()
                await self._changed.wait()


class Proxy:
    """Between a client and one server: it can keep replies or requests to itself, and cut connections."""

    def __init__(self, server: ZooKeeperServer) -> None:
        self._server = server
        self._writers: list[asyncio.StreamWriter] = []
        self._tasks: list[asyncio.Task[None]] = []
        self.passes = {"up": True, "down": True}
        self.swallowed = {"up": b"", "down": b""}
        self.kept = asyncio.Event()
        self.open = True

    async def __aenter__(self) -> Proxy:
        self._listener = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        self.port: int = self._listener.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        self.cut()
        self._listener.close()
        await asyncio.gather(*self._tasks)

    def cut(self) -> None:
        self.passes = {"up": True, "down": True}
        writers, self._writers = self._writers, []
        for writer in writers:
            writer.close()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if not self.open:
            writer.close()
            return
        above = await asyncio.open_connection("127.0.0.1", self._server.port)
        self._writers += [writer, above[1]]
        for way, source, sink in (("up", reader, above[1]), ("down", above[0], writer)):
            self._tasks.append(asyncio.create_task(self._pump(way, source, sink)))

    async def _pump(self, way: str, source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            while piece := await source.read(65536):
                if self.passes[way]:
                    sink.write(piece)
                else:
                    self.swallowed[way] += piece
                    self.kept.set()
        sink.close()


@pytest_asyncio.fixture
async def proxy(server: ZooKeeperServer) -> AsyncIterator[Proxy]:
    async with Proxy(server) as proxy:
        yield proxy


async def test_a_lost_reply_is_an_unknown_outcome_of_what_was_done(open_session: Open, proxy: Proxy) -> None:
    session = await open_session(f"zk://127.0.0.1:{proxy.port}/lost-reply")
    await session.create("head", b"old")
    states = States(session)
    proxy.passes["down"] = False
    writes = [asyncio.create_task(session.multi([Set("head", b"%d" % n, n)])) for n in range(3)]
    read = asyncio.create_task(session.get("head"))
    await proxy.kept.wait()
    other = await open_session(session.address.url.replace(str(proxy.port), str(proxy._server.port)))
    while (await other.get("head")) != Znode(b"2", 3):
        await other.sync()
    proxy.cut()
    for write in writes:
        with pytest.raises(OutcomeUnknownError):
            await write
    assert await read == Znode(b"2", 3)  # reads are sent again
    assert states.seen == ["suspended", "connected"]


async def test_answers_out_of_order_break_the_connection_and_not_the_session(open_session: Open, proxy: Proxy) -> None:
    session = await open_session(f"zk://127.0.0.1:{proxy.port}/out-of-order")
    await session.create("head", b"old")
    states = States(session)
    proxy.passes["down"] = False
    write = asyncio.create_task(session.set("head", b"new", 0))
    await proxy.kept.wait()
    proxy.passes["down"] = True
    assert await session.get("head") == Znode(b"new", 1)  # another answer than the next one: asked again
    with pytest.raises(OutcomeUnknownError):
        await write
    await states.wait_for("connected")
    assert states.seen == ["suspended", "connected"]
    assert await session.set("head", b"newer", 1) == 2


async def test_a_lost_request_is_an_unknown_outcome_of_what_was_not_done(open_session: Open, proxy: Proxy) -> None:
    session = await open_session(f"zk://127.0.0.1:{proxy.port}/lost-request")
    await session.create("head", b"old")
    proxy.passes["up"] = False
    write = asyncio.create_task(session.multi([Set("head", b"new", 0)]))
    await proxy.kept.wait()
    proxy.cut()
    with pytest.raises(OutcomeUnknownError):
        await write
    assert await session.get("head") == Znode(b"old", 0)
    assert await session.multi([Set("head", b"new", 0)]) == [1]


async def test_requests_wait_while_suspended_and_keep_their_order(open_session: Open, proxy: Proxy) -> None:
    session = await open_session(f"zk://127.0.0.1:{proxy.port}/order")
    await session.create("head", b"")
    states = States(session)
    proxy.open = False
    proxy.cut()
    await states.wait_for("suspended")
    writes = [asyncio.create_task(session.multi([Set("head", b"%d" % n, n)])) for n in range(20)]
    await asyncio.sleep(0)
    proxy.open = True
    assert await asyncio.gather(*writes) == [[n + 1] for n in range(20)]


async def test_what_was_given_up_while_suspended_is_never_done(open_session: Open, proxy: Proxy) -> None:
    session = await open_session(f"zk://127.0.0.1:{proxy.port}/given-up", timeout=0.3)
    await session.create("head", b"")
    states = States(session)
    proxy.open = False
    proxy.cut()
    await states.wait_for("suspended")
    for request in (session.set("head", b"zombie"), session.get("head")):
        with pytest.raises(CoordinationUnavailableError) as error:
            await request
        assert not isinstance(error.value, OutcomeUnknownError)
    proxy.open = True
    await states.wait_for("connected")
    assert await session.get("head") == Znode(b"", 0)


async def test_watches_fire_when_a_connection_breaks_and_can_be_set_again(open_session: Open, proxy: Proxy) -> None:
    session = await open_session(f"zk://127.0.0.1:{proxy.port}/watches")
    other = await open_session(session.address.url.replace(str(proxy.port), str(proxy._server.port)))
    await session.create("a/b", b"")
    fired: list[str] = []
    event = asyncio.Event()

    def watch(name: str) -> Callable[[], None]:
        def called() -> None:
            fired.append(name)
            event.set()

        return called

    await session.get("a", watch("data"))
    await session.get("none", watch("missing"))
    await session.children("a", watch("children"))
    proxy.cut()
    await event.wait()
    await session.sync()
    assert sorted(fired) == ["children", "data", "missing"]
    fired.clear()
    event.clear()
    await session.get("a", watch("again"))
    await other.set("a", b"1")
    await event.wait()
    assert fired == ["again"]


async def test_a_session_survives_the_restart_of_its_server(open_session: Open, server: ZooKeeperServer) -> None:
    session = await open_session()
    await session.create("nodes/a", b"here", ephemeral=True)
    await session.create("head", b"0")
    states = States(session)
    server.suspend()
    write = asyncio.create_task(session.set("head", b"1", 0))
    await asyncio.sleep(0.05)
    server.stop()
    with pytest.raises(OutcomeUnknownError):
        await write
    waiting = asyncio.create_task(session.children("nodes"))
    server.start()
    assert await waiting == ["a"]
    assert states.seen == ["suspended", "connected"]
    found = await session.get("head")
    assert found in (Znode(b"0", 0), Znode(b"1", 1))
    assert await session.set("head", b"2", found.version) == found.version + 1


async def test_a_frozen_server_suspends_the_session_until_it_runs_out(
    open_session: Open, server: ZooKeeperServer, proxy: Proxy
) -> None:
    session = await open_session(f"zk://127.0.0.1:{proxy.port}/frozen", session_timeout=0.6)
    other = await open_session(f"zk://127.0.0.1:{server.port}/frozen")
    await session.create("nodes/a", b"", ephemeral=True)
    states, fired, gone = States(session), asyncio.Event(), asyncio.Event()
    await session.get("nodes/a", fired.set)
    server.suspend()
    write = asyncio.create_task(session.set("nodes/a", b"1"))
    await asyncio.sleep(0)
    proxy.open = False  # what waits at the server when it goes on would revive the session
    with pytest.raises(OutcomeUnknownError):
        await write
    assert session.state == "suspended"
    await fired.wait()
    server.resume()
    while await other.get("nodes/a", gone.set) is not None:
        await gone.wait()
        gone.clear()
    assert session.alive_until < time.monotonic()
    assert states.seen == ["suspended"]
    proxy.open = True
    await states.wait_for("lost")
    assert states.seen[-1] == "lost"
    with pytest.raises(CoordinationUnavailableError):
        await session.get("nodes/a")


async def test_a_server_that_takes_a_connection_but_never_answers_is_left(open_session: Open, proxy: Proxy) -> None:
    session = await open_session(f"zk://127.0.0.1:{proxy.port}/mute", session_timeout=2.0)
    states = States(session)
    proxy.cut()
    proxy.passes["up"] = False
    await proxy.kept.wait()
    proxy.passes["up"] = True  # too late for what it has swallowed: the session's request for a connection
    began = time.monotonic()
    await states.wait_for("connected")
    assert time.monotonic() - began < 2.0


async def test_a_busy_client_leaves_a_server_that_hangs(open_session: Open, zookeeper_ensemble: ZooKeeper) -> None:
    session = await open_session(zookeeper_ensemble.url("hanging"), session_timeout=3.0)
    follower = zookeeper_ensemble.server("follower")
    while _port(session) != follower.port:
        states = States(session)
        session._handler.drop()
        await states.wait_for("connected")
    await session.create("nodes/a", b"", ephemeral=True)
    states = States(session)
    follower.suspend()
    try:
        began = time.monotonic()
        requests = []
        while session.state != "lost" and "connected" not in states.seen:
            requests.append(asyncio.create_task(session.get("nodes/a")))
            await asyncio.sleep(0.05)
        assert time.monotonic() - began < 3.0
        assert _port(session) != follower.port
        assert await asyncio.gather(*requests) == [Znode(b"", 0)] * len(requests)
        assert states.seen == ["suspended", "connected"]
    finally:
        follower.resume()


def _port(session: ZooKeeperCoordination) -> int:
    assert session._handler._socket is not None
    port: int = session._handler._socket.getpeername()[1]
    return port


async def test_a_session_that_the_server_ends_is_lost_for_good(open_session: Open, frail: ZooKeeper) -> None:
    session, other = await open_session(), await open_session()
    await session.create("nodes/a", b"", ephemeral=True)
    states, fired = States(session), asyncio.Event()
    await session.children("nodes", fired.set)
    thief = KazooClient(frail.hosts, client_id=session._client.client_id)
    await asyncio.to_thread(thief.start)
    await asyncio.to_thread(thief.stop)
    thief.close()
    await states.wait_for("lost")
    await fired.wait()
    assert states.seen[-1] == session.state == "lost"
    assert await other.children("nodes") == []
    for request in (session.set("nodes", b"zombie"), session.get("nodes"), session.sync()):
        with pytest.raises(CoordinationUnavailableError):
            await request
    with pytest.raises(ConnectionRefusedError):
        session._handler.create_connection(("127.0.0.1", frail.servers[0].port))
    assert session._stopping is not None
    await session._stopping


async def test_alive_until_runs_ahead_only_while_the_server_answers(
    open_session: Open, server: ZooKeeperServer
) -> None:
    session = await open_session(session_timeout=0.6)
    assert session.session_timeout == pytest.approx(0.6)
    until = session.alive_until
    assert time.monotonic() < until < time.monotonic() + 0.6
    while session.alive_until <= until + 0.3:
        await asyncio.sleep(0.02)
    server.suspend()
    until = session.alive_until
    while time.monotonic() < until:
        await asyncio.sleep(0.02)
    assert session.alive_until <= until + 0.1 < time.monotonic() + 0.1


async def test_reads_alone_prove_nothing_about_the_session(open_session: Open) -> None:
    session = await open_session(session_timeout=30.0)
    until = session.alive_until
    await asyncio.sleep(0.01)
    await session.get("n")
    assert session.alive_until == until
    await session.sync()
    assert session.alive_until > until


async def test_the_session_timeout_is_the_one_agreed_on(open_session: Open) -> None:
    assert (await open_session(session_timeout=0.01)).session_timeout == pytest.approx(0.2)
    assert (await open_session(session_timeout=90.0)).session_timeout == pytest.approx(60.0)


PROCESS = """
import asyncio, sys, time
from replication.zookeeper import open_coordination

async def main():
    session = await open_coordination(sys.argv[1], session_timeout=0.6)
    await session.create("nodes/a", b"", ephemeral=True)
    print("ready", flush=True)
    line = await asyncio.get_running_loop().run_in_executor(None, sys.stdin.readline)
    print(time.monotonic() < session.alive_until, session.state, flush=True)
    while session.state != "lost":
        await asyncio.sleep(0.01)
        assert session.alive_until < time.monotonic()
    print("lost", flush=True)

asyncio.run(main())
"""


async def test_a_process_that_was_stopped_knows_that_its_session_may_be_over(
    open_session: Open, frail: ZooKeeper
) -> None:
    other = await open_session(frail.url("stopped"))
    command = [sys.executable, "-c", PROCESS, frail.url("stopped")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None and process.stdout is not None
        try:
            assert process.stdout.readline() == "ready\n"
            gone = asyncio.Event()
            assert await other.get("nodes/a", gone.set) is not None
            process.send_signal(signal.SIGSTOP)
            await gone.wait()
            process.stdin.write("\n")
            process.stdin.flush()
            process.send_signal(signal.SIGCONT)
            assert (await asyncio.to_thread(process.stdout.readline)).startswith("False ")
            assert await asyncio.to_thread(process.stdout.readline) == "lost\n"
        finally:
            process.kill()


async def test_closing_does_not_wait_for_a_frozen_server(open_session: Open, server: ZooKeeperServer) -> None:
    session = await open_session()
    await session.create("n", b"")
    server.suspend()
    write = asyncio.create_task(session.set("n", b""))
    await asyncio.sleep(0)
    began = time.monotonic()
    await session.close()
    assert time.monotonic() - began < 3.0
    with pytest.raises(OutcomeUnknownError):
        await write


async def test_nothing_is_told_after_close(open_session: Open) -> None:
    session = await open_session()
    states = States(session)
    fired: list[None] = []
    await session.get("n", lambda: fired.append(None))
    await session.close()
    await session.close()
    await asyncio.sleep(0.05)
    assert not states.seen and not fired


async def test_followers_show_what_was_committed_after_a_sync(
    open_session: Open, zookeeper_ensemble: ZooKeeper
) -> None:
    writers = [await open_session(zookeeper_ensemble.url("sync")) for _ in range(3)]
    await writers[0].create("head", b"")
    for number in range(30):
        writer, reader = writers[number % 3], writers[(number + 1) % 3]
        assert await writer.set("head", b"%d" % number, number) == number + 1
        await reader.sync()
        assert await reader.get("head") == Znode(b"%d" % number, number + 1)
        with pytest.raises(ConflictError):
            await reader.set("head", b"", number)


async def test_commits_survive_the_death_of_the_leading_server(
    open_session: Open, zookeeper_ensemble: ZooKeeper
) -> None:
    session = await open_session(zookeeper_ensemble.url("election"), session_timeout=20.0, timeout=20.0)
    await session.create("head", b"")
    leader = zookeeper_ensemble.server("leader")
    version = 0
    acknowledged = 0
    leader_dies_at, until = 50, 100
    try:
        while version < until:
            if version == leader_dies_at and leader.running:
                zookeeper_ensemble.settle()
                leader.stop()
            try:
                version = await session.set("head", b"%d" % version, version)
                acknowledged += 1
            except OutcomeUnknownError:
                found = await session.get("head")
                assert found is not None and found.version in (version, version + 1)
                version = found.version
        assert acknowledged >= until - 2
        await session.sync()
        found = await session.get("head")
        assert found is not None and found.version == version
    finally:
        leader.start()
