"""Carrying a session to a leader: a real server behind a proxy that can be cut, and a scripted client in front."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping, Sequence
from itertools import product

import psycopg
import pytest

from catalog.errors import SqlError
from tests.samples import some
from tests.server import ShoalServer
from tests.wire.leader_proxy import LeaderProxy
from wire import client, client_core, core, frozen_leader, messages
from wire.client_core import Frame, FrameStream
from wire.session_proxy import NOT_LEADING, ClientGoneError, LeaderAddress, SessionImage, SessionProxy

IMAGE = SessionImage({"user": "postgres", "database": "postgres"}, {})
DONE = 30.0  # seconds that a test may take


class Front:
    """The client's connection as the session proxy sees it, with what it was told."""

    def __init__(self) -> None:
        self.statements: dict[bytes, core.Parse] = {}
        self.stream = FrameStream()
        self.events: list[object] = []
        self.settings: dict[str, str] = {}
        self.pauses: set[str] = set()
        self.running = b""
        self.slow: asyncio.Event | None = None
        self.arrived = asyncio.Event()
        self.received = 0

    leads_here = False

    def on_statement_start(self, sql: bytes) -> None:
        self.running = sql

    def on_statement_end(self, status: str) -> None:
        self.running = b""

    def on_settings_lost(self, names: Sequence[str]) -> None:
        self.events += [("settings_lost", *names)] if names else []

    def send(self, data: bytes) -> None:
        self.received += len(data)
        self.stream.receive_data(data)
        self.arrived.set()

    async def drain(self) -> None:
        if self.slow is not None:
            await self.slow.wait()

    def pause(self, reason: str) -> None:
        self.pauses.add(reason)

    def resume(self, reason: str) -> None:
        self.pauses.discard(reason)

    def statement(self, name: bytes) -> core.Parse | None:
        return self.statements.get(name)

    def statement_names(self) -> Sequence[bytes]:
        return list(self.statements)

    def adopt_statement(self, statement: core.Parse) -> None:
        self.statements[statement.name] = statement

    def forget_statement(self, name: bytes | None) -> None:
        if name is None:
            self.statements.clear()
        else:
            self.statements.pop(name, None)

    def adopt_settings(self, settings: Mapping[str, str]) -> None:
        self.settings.update(settings)

    def on_committed(self, token: str) -> None:
        self.events.append(("committed", token))

    def end_block(self) -> None:
        self.events.append("end_block")

    def fail_block(self, error: SqlError | None) -> None:
        self.events.append(("fail_block", error and error.sqlstate))

    def skip_to_sync(self) -> None:
        self.events.append("skip_to_sync")

    async def until(self, last: bytes) -> list[str]:
        """What the client is sent up to a message of this kind, in short."""
        told: list[str] = []
        while True:
            while (frame := self.stream.next_frame()) is not None:
                told.append(short(frame))
                if frame.kind == last[0]:
                    return told
            self.arrived.clear()
            await asyncio.wait_for(self.arrived.wait(), DONE)


def short(frame: Frame) -> str:
    """A message as its kind and what counts in it."""
    kind = chr(frame.kind)
    if kind == "E":
        return f"E {client_core.report_error(frame.body).sqlstate}"
    if kind in "CS":
        return f"{kind} {' '.join(client_core.strings(frame.body))}"
    if kind == "Z":
        return f"Z {frame.body.decode()}"
    if kind == "D" and (len(frame.data) > 4096 or frame.data[0] != frame.kind):
        return "D"  # a piece of a run
    if kind == "D":
        reader = client_core.RowReader(1 << 20)
        return f"D {[[value and value.decode() for value in row] for row in reader.rows(frame.data)]}"
    return kind


class FixedLocator:
    """The leader is behind the proxy; `targets` come first, each once."""

    def __init__(self, proxy: LeaderProxy) -> None:
        self.proxy = proxy
        self.targets: list[LeaderAddress] = []
        self.asked = 0

    async def leader(self, tablespace: str, not_this: LeaderAddress | None = None) -> LeaderAddress:
        self.asked += 1
        return self.targets.pop(0) if self.targets else LeaderAddress("a", "127.0.0.1", self.proxy.port)

    def introduce(self, target: LeaderAddress, parameters: Mapping[str, str], client: str) -> dict[str, str]:
        return dict(parameters)


class Rig:
    """Front, proxy, leader, and a session proxy between them."""

    def __init__(self, proxy: LeaderProxy, deadline: float = 10.0) -> None:
        self.front = Front()
        self.proxy = proxy
        self.locator = FixedLocator(proxy)
        self.session_proxy = SessionProxy(self.front, self.locator, deadline=deadline)

    def carry(self, *first: core.Event, image: SessionImage = IMAGE, fed: bytes = b"") -> asyncio.Task[None]:
        self.session_proxy.feed(b"".join(map(client_core.encode_event, first)) + fed)
        work: Coroutine[object, object, None] = self.session_proxy.forward("pg_default", image)
        return asyncio.create_task(asyncio.wait_for(work, DONE))

    async def query(self, sql: str, image: SessionImage = IMAGE) -> list[str]:
        """One Query that ends its transaction; what the client is told."""
        await self.carry(core.Query(sql.encode()), image=image)
        return await self.front.until(b"Z")


@pytest.fixture
async def rig(shoal: ShoalServer) -> AsyncIterator[Rig]:
    with psycopg.connect(shoal.dsn, autocommit=True) as connection:
        connection.execute("DROP TABLE IF EXISTS forwarded")
        connection.execute("CREATE TABLE forwarded (a int PRIMARY KEY, b text)")
    async with LeaderProxy(shoal.port) as proxy:
        rig = Rig(proxy)
        yield rig
        rig.session_proxy.close()


def rows(server: ShoalServer) -> list[tuple[object, ...]]:
    with psycopg.connect(server.dsn) as connection:
        return connection.execute("SELECT a, b FROM forwarded ORDER BY a").fetchall()


def extended(sql: bytes, *parameters: bytes, name: bytes = b"", sync: bool = True) -> bytes:
    """A whole execution of a prepared statement of that name, or of a new unnamed one."""
    parts = [client_core.parse(b"", sql)] if sql else []
    parts += [client_core.bind(b"", name, parameters), client_core.execute(b""), client_core.SYNC if sync else b""]
    return b"".join(parts)


BEGIN = SessionImage(IMAGE.startup, {}, block=("BEGIN",))


async def test_one_statement_goes_to_the_leader_and_the_session_comes_back(rig: Rig, shoal: ShoalServer) -> None:
    assert await rig.query("INSERT INTO forwarded VALUES (1, 'one')") == ["C INSERT 0 1", "Z I"]
    assert await rig.query("SELECT b FROM forwarded") == ["T", "D [['one']]", "C SELECT 1", "Z I"]
    assert rows(shoal) == [(1, "one")]
    assert rig.proxy.connections == 1


async def test_an_error_of_the_leader_reaches_the_client(rig: Rig) -> None:
    assert await rig.query("SELECT * FROM nowhere") == ["E 42P01", "Z I"]


async def test_a_block_begun_here_is_carried_whole_and_what_follows_is_given_back(rig: Rig, shoal: ShoalServer) -> None:
    fed = client_core.query(b"INSERT INTO forwarded VALUES (2, 'two')") + client_core.query(b"COMMIT")
    rest = client_core.query(b"SELECT 'local'")
    await rig.carry(core.Query(b"INSERT INTO forwarded VALUES (1, 'one')"), image=BEGIN, fed=fed + rest)
    told = [await rig.front.until(b"Z") for _ in range(3)]
    assert told == [["C INSERT 0 1", "Z T"], ["C INSERT 0 1", "Z T"], ["C COMMIT", "Z I"]]
    assert rig.session_proxy.take_rest() == rest
    assert rig.front.events == ["end_block"]
    assert rows(shoal) == [(1, "one"), (2, "two")]


async def test_a_block_that_begins_at_the_leader_is_carried_to_its_end(rig: Rig) -> None:
    task = rig.carry(core.Query(b"BEGIN; INSERT INTO forwarded VALUES (1, 'one')"))
    assert (await rig.front.until(b"Z"))[-1] == "Z T"
    assert not task.done()
    rig.session_proxy.feed(client_core.query(b"ROLLBACK"))
    assert await rig.front.until(b"Z") == ["C ROLLBACK", "Z I"]
    await task


async def test_savepoints_of_the_local_block_are_made_at_the_leader(rig: Rig, shoal: ShoalServer) -> None:
    image = SessionImage(IMAGE.startup, {}, block=("BEGIN ISOLATION LEVEL REPEATABLE READ", "SAVEPOINT s"))
    fed = client_core.query(b"SHOW transaction_isolation") + client_core.query(b"ROLLBACK TO s; COMMIT")
    await rig.carry(core.Query(b"INSERT INTO forwarded VALUES (1, 'one')"), image=image, fed=fed)
    told = [await rig.front.until(b"Z") for _ in range(3)]
    assert told[1][1] == "D [['repeatable read']]"
    assert told[2] == ["C ROLLBACK", "C COMMIT", "Z I"]
    assert rows(shoal) == []


async def test_settings_are_equal_on_both_sides(rig: Rig) -> None:
    image = SessionImage(IMAGE.startup, {"datestyle": "SQL, DMY", "my.own": "it's"})
    told = await rig.query("SELECT current_setting('DateStyle'), current_setting('my.own')", image)
    assert told == ["T", "D [['SQL, DMY', \"it's\"]]", "C SELECT 1", "Z I"]
    assert rig.front.settings == {}
    told = await rig.query("SET DateStyle = 'German'", image)
    assert told == ["C SET", "S DateStyle German, DMY", "Z I"]
    assert rig.front.settings == {"datestyle": "German, DMY"}
    assert await rig.query("SET application_name = 'x'", image) == ["C SET", "S application_name x", "Z I"]


async def test_a_setting_that_the_leader_refuses_is_the_statements_error(rig: Rig) -> None:
    image = SessionImage(IMAGE.startup, {"statement_timeout": "rubbish"})
    with pytest.raises(SqlError) as caught:
        await rig.query("SELECT 1", image)
    assert (caught.value.sqlstate, caught.value.severity) == ("22023", "ERROR")
    assert await rig.query("SELECT 1") == ["T", "D [['1']]", "C SELECT 1", "Z I"]


async def test_statements_prepared_here_are_prepared_at_the_leader_when_they_are_used(rig: Rig) -> None:
    rig.front.statements[b"ins"] = core.Parse(b"ins", b"INSERT INTO forwarded VALUES ($1, $2)", ())
    for number in (b"1", b"2"):
        bind = core.Bind(b"", b"ins", (), [number, b"x"], ())
        await rig.carry(bind, fed=client_core.execute(b"") + client_core.SYNC)
        assert await rig.front.until(b"Z") == ["2", "C INSERT 0 1", "Z I"]
    rig.front.statements[b"ins"] = core.Parse(b"ins", b"DELETE FROM forwarded WHERE a = $1", ())
    await rig.carry(core.Bind(b"", b"ins", (), [b"1"], ()), fed=client_core.execute(b"") + client_core.SYNC)
    assert await rig.front.until(b"Z") == ["2", "C DELETE 1", "Z I"]


async def test_a_statement_described_at_the_leader_is_known_there(rig: Rig) -> None:
    rig.front.statements[b"s"] = core.Parse(b"s", b"SELECT a FROM forwarded WHERE a = $1", ())
    await rig.carry(core.Describe("S", b"s"), fed=client_core.SYNC)
    assert await rig.front.until(b"Z") == ["t", "T", "Z I"]


async def test_statements_prepared_at_the_leader_are_known_here(rig: Rig) -> None:
    parse = core.Parse(b"later", b"SELECT a FROM forwarded", ())
    await rig.carry(parse, fed=client_core.SYNC)
    assert await rig.front.until(b"Z") == ["1", "Z I"]
    assert rig.front.statements == {b"later": parse}
    await rig.carry(core.Close("S", b"later"), fed=client_core.SYNC)
    assert await rig.front.until(b"Z") == ["3", "Z I"]
    assert rig.front.statements == {}


async def test_execute_in_sql_finds_a_statement_prepared_here(rig: Rig) -> None:
    rig.front.statements[b"named"] = core.Parse(b"named", b"INSERT INTO forwarded VALUES ($1, 'sql')", ())
    assert await rig.query("EXECUTE named (5)") == ["C INSERT 0 1", "Z I"]
    assert await rig.query("DEALLOCATE ALL") == ["C DEALLOCATE ALL", "Z I"]
    assert rig.front.statements == {}
    rig.front.statements[b"broken"] = core.Parse(b"broken", b"SELECT * FROM nowhere", ())
    assert await rig.query("EXECUTE broken") == ["E 42P01", "Z I"]


async def test_statements_that_sql_prepares_pin_the_session_to_the_leader(rig: Rig) -> None:
    task = rig.carry(core.Query(b"PREPARE p AS SELECT 1"))
    assert await rig.front.until(b"Z") == ["C PREPARE", "Z I"]
    rig.session_proxy.feed(client_core.query(b"EXECUTE p"))
    assert await rig.front.until(b"Z") == ["T", "D [['1']]", "C SELECT 1", "Z I"]
    assert rig.session_proxy.is_pinned and not task.done()
    rig.session_proxy.feed(client_core.query(b"DEALLOCATE ALL"))
    assert await rig.front.until(b"Z") == ["C DEALLOCATE ALL", "Z I"]
    await task


async def test_copy_goes_both_ways(rig: Rig, shoal: ShoalServer) -> None:
    task = rig.carry(core.Query(b"COPY forwarded FROM STDIN"))
    assert await rig.front.until(b"G") == ["G"]
    rig.session_proxy.feed(b"".join(client_core.copy_data(b"%d\tx\n" % number) for number in range(1000)))
    piece = client_core.copy_data(b"1000\ty\n")
    rig.session_proxy.feed(piece[:7])
    rig.session_proxy.feed(piece[7:] + client_core.COPY_DONE)
    assert await rig.front.until(b"Z") == ["C COPY 1001", "Z I"]
    await task
    await rig.carry(core.Query(b"COPY forwarded TO STDOUT"))
    told = await rig.front.until(b"Z")
    assert (told[0], told[-3:]) == ("H", ["c", "C COPY 1001", "Z I"])
    assert len(rows(shoal)) == 1001


async def test_copy_that_fails_in_the_middle_leaves_a_usable_session(rig: Rig) -> None:
    task = rig.carry(core.Query(b"COPY forwarded FROM STDIN"))
    await rig.front.until(b"G")
    rig.session_proxy.feed(client_core.copy_data(b"rubbish\n"))
    rig.session_proxy.feed(client_core.copy_fail("stop"))
    told = await rig.front.until(b"Z")
    assert told[0].startswith("E ") and told[1] == "Z I"
    await task
    assert await rig.query("SELECT 1") == ["T", "D [['1']]", "C SELECT 1", "Z I"]


async def test_a_copy_that_fails_in_the_midst_of_a_message_leaves_whole_messages(rig: Rig) -> None:
    piece = client_core.copy_data(b"1000\t" + b"x" * 1000 + b"\n")
    task = rig.carry(core.Query(b"COPY forwarded FROM STDIN"))
    await rig.front.until(b"G")
    rig.session_proxy.feed(
        client_core.copy_data(b"rubbish\n") * 10_000 + piece[:500]
    )  # the leader looks at many rows at once
    assert await rig.front.until(b"E") == ["E 22P02"]
    rig.session_proxy.feed(piece[500:] + piece + piece[:9])
    await asyncio.sleep(0)  # what was fed is taken
    rig.session_proxy.feed(piece[9:] + piece)
    assert await rig.front.until(b"Z") == ["Z I"]
    await task
    assert rig.session_proxy.take_rest() in (b"", piece)
    assert await rig.query("SELECT 1") == ["T", "D [['1']]", "C SELECT 1", "Z I"]
    assert rig.proxy.connections == 1


async def test_copy_in_the_extended_protocol_ends_at_its_sync(rig: Rig, shoal: ShoalServer) -> None:
    parse = core.Parse(b"", b"COPY forwarded FROM STDIN", ())
    rest = client_core.bind(b"", b"", ()) + client_core.execute(b"") + client_core.SYNC
    task = rig.carry(parse, fed=rest)
    assert await rig.front.until(b"G") == ["1", "2", "G"]
    rig.session_proxy.feed(client_core.copy_data(b"1\tx\n") + client_core.COPY_DONE + client_core.SYNC)
    assert await rig.front.until(b"Z") == ["C COPY 1", "Z I"]
    await task
    assert rows(shoal) == [(1, "x")]


async def test_a_pipeline_runs_up_to_its_sync_and_the_next_one_is_given_back(rig: Rig) -> None:
    parse = core.Parse(b"", b"INSERT INTO forwarded VALUES ($1, $2)", ())
    fed = b"".join(client_core.bind(b"", b"", (b"%d" % n, b"x")) + client_core.execute(b"") for n in range(200))
    rest = extended(b"SELECT 1")
    await rig.carry(parse, fed=fed + client_core.SYNC + rest)
    assert await rig.front.until(b"Z") == ["1", *["2", "C INSERT 0 1"] * 200, "Z I"]
    assert rig.session_proxy.take_rest() == rest


async def test_an_error_in_a_pipeline_skips_to_its_sync(rig: Rig, shoal: ShoalServer) -> None:
    fed = extended(b"SELECT * FROM nowhere", sync=False) + extended(b"INSERT INTO forwarded VALUES (2, '')")
    await rig.carry(core.Parse(b"", b"INSERT INTO forwarded VALUES (1, '')", ()), fed=extended(b"", sync=False) + fed)
    assert await rig.front.until(b"Z") == ["1", "2", "C INSERT 0 1", "E 42P01", "Z I"]
    assert rows(shoal) == []


async def test_cancel_reaches_the_leader(rig: Rig) -> None:
    rig.carry(core.Query(b"SELECT count(*) FROM generate_series(1, 200000) a, generate_series(1, 200000) b"))
    while rig.proxy.connections == 0:
        await asyncio.sleep(0.01)
    await asyncio.sleep(0.3)
    rig.session_proxy.cancel()
    assert (await rig.front.until(b"Z"))[-2:] == ["E 57014", "Z I"]


@pytest.mark.parametrize(("how", "block"), some(product(("cancel", "statement_timeout"), (False, True)), 3))
async def test_a_statement_at_a_leader_that_is_frozen_ends(
    monkeypatch: pytest.MonkeyPatch, how: str, block: bool
) -> None:
    """With what is known of its outcome. The leader would watch over the timeout; its connections stay open."""
    monkeypatch.setattr(client, "CANCEL_TIMEOUT", 1.0)
    settings = {"statement_timeout": "3s"} if how == "statement_timeout" else {}
    with ShoalServer() as leader:
        async with LeaderProxy(leader.port) as proxy:
            rig = Rig(proxy)
            image = SessionImage(IMAGE.startup, settings, block=("BEGIN",) if block else ())
            carried = rig.carry(core.Query(b"SELECT pg_sleep(60)"), image=image)
            async with asyncio.timeout(DONE):
                while not _sleeps(leader):
                    await asyncio.sleep(0.05)
            os.kill(leader.pid, signal.SIGSTOP)
            try:
                if how == "cancel":
                    rig.session_proxy.cancel()
                if block:
                    assert await rig.front.until(b"Z") == ["E 40001", "Z E"]
                else:
                    with pytest.raises(SqlError) as caught:
                        await carried
                    assert caught.value.sqlstate == "08007"
            finally:
                os.kill(leader.pid, signal.SIGCONT)
            rig.session_proxy.close()


async def test_a_leader_that_goes_on_is_waited_for(monkeypatch: pytest.MonkeyPatch, rig: Rig) -> None:
    """Each statement has the timeout for itself."""
    monkeypatch.setattr(frozen_leader, "LATE", -0.9)
    image = SessionImage(IMAGE.startup, {"statement_timeout": "1s"})
    assert (await rig.query("; ".join(["SELECT pg_sleep(0.3)"] * 5), image))[-1] == "Z I"


def _sleeps(server: ShoalServer) -> bool:
    with psycopg.connect(server.dsn, autocommit=True) as connection:
        active = "SELECT 1 FROM pg_stat_activity WHERE state = 'active' AND query LIKE '%%pg_sleep(60)%%' AND pid <> %s"
        return connection.execute(active, (connection.info.backend_pid,)).fetchone() is not None


async def test_a_client_that_does_not_read_stops_the_leaders_frames(rig: Rig) -> None:
    rig.front.slow = asyncio.Event()
    task = rig.carry(core.Query(b"SELECT repeat('x', 1000) FROM generate_series(1, 100000)"))
    await rig.front.until(b"T")
    for _ in range(20):
        await asyncio.sleep(0.02)
    assert rig.front.received < 4 << 20
    rig.front.slow.set()
    await rig.front.until(b"C")
    await task
    assert rig.front.received > 100_000_000


async def test_a_leader_that_does_not_read_stops_the_client(rig: Rig) -> None:
    rig.session_proxy.feed(client_core.copy_data(b"x" * (3 << 20)))
    assert rig.front.pauses == {"relay"}
    rig.session_proxy.take_rest()
    assert rig.front.pauses == set()


async def test_a_dead_connection_is_replaced_before_anything_is_sent(rig: Rig) -> None:
    assert (await rig.query("SELECT 1"))[-1] == "Z I"
    rig.proxy.cut()
    await asyncio.sleep(0.05)
    assert await rig.query("INSERT INTO forwarded VALUES (1, '')") == ["C INSERT 0 1", "Z I"]
    assert rig.proxy.connections == 2


async def test_a_leader_that_cannot_be_reached_is_looked_up_again(rig: Rig) -> None:
    rig.locator.targets = [LeaderAddress("gone", "127.0.0.1", 1), LeaderAddress("gone", "127.0.0.1", 1)]
    assert (await rig.query("SELECT 1"))[-1] == "Z I"
    assert rig.locator.asked == 3


async def test_no_leader_in_time_is_57p03(shoal: ShoalServer) -> None:
    rig = Rig(LeaderProxy(shoal.port), deadline=0.3)
    rig.proxy.port = 1
    with pytest.raises(SqlError) as caught:
        await rig.query("SELECT 1")
    assert caught.value.sqlstate == "57P03"


async def test_a_break_inside_a_block_is_a_retryable_error_once(rig: Rig, shoal: ShoalServer) -> None:
    rig.proxy.cut_when = lambda data: b"(2," in data
    task = rig.carry(core.Query(b"INSERT INTO forwarded VALUES (1, '')"), image=BEGIN)
    assert await rig.front.until(b"Z") == ["C INSERT 0 1", "Z T"]
    rig.session_proxy.feed(client_core.query(b"INSERT INTO forwarded VALUES (2, '')"))
    assert await rig.front.until(b"Z") == ["E 40001", "Z E"]
    await task
    assert rig.front.events == [("fail_block", None)]
    assert rows(shoal) == []


async def test_a_break_in_the_middle_of_extended_messages_skips_to_sync(rig: Rig) -> None:
    rig.proxy.cut_when = lambda data: b"(2," in data
    task = rig.carry(core.Query(b"INSERT INTO forwarded VALUES (1, '')"), image=BEGIN)
    await rig.front.until(b"Z")
    rig.session_proxy.feed(extended(b"INSERT INTO forwarded VALUES (2, '')", sync=False))
    assert await rig.front.until(b"E") == ["E 40001"]
    await task
    assert rig.front.events == [("fail_block", None), "skip_to_sync"]


async def test_a_break_while_the_client_thinks_answers_its_next_statement(rig: Rig) -> None:
    task = rig.carry(core.Query(b"INSERT INTO forwarded VALUES (1, '')"), image=BEGIN)
    await rig.front.until(b"Z")
    rig.proxy.cut()
    await task
    assert rig.front.events == [("fail_block", "40001")]


async def test_a_rollback_on_its_way_to_a_dead_leader_is_done_here(rig: Rig) -> None:
    rig.proxy.cut_when = lambda data: b"ROLLBACK" in data
    task = rig.carry(core.Query(b"INSERT INTO forwarded VALUES (1, '')"), image=BEGIN)
    await rig.front.until(b"Z")
    rig.session_proxy.feed(client_core.query(b"ROLLBACK") + client_core.query(b"SELECT 2"))
    await task
    assert rig.front.events == [("fail_block", None)]
    assert rig.session_proxy.take_rest() == client_core.query(b"ROLLBACK") + client_core.query(b"SELECT 2")


COMMITS: list[Callable[[], bytes]] = [
    lambda: client_core.query(b"COMMIT"),
    lambda: client_core.query(b"insert into forwarded values (3, ''); end"),
    lambda: extended(b"commit"),
]


@pytest.mark.parametrize("commit", COMMITS)
@pytest.mark.parametrize("lost", ["request", "reply"])
async def test_a_commit_whose_outcome_is_unknown_is_08007(
    rig: Rig, shoal: ShoalServer, commit: Callable[[], bytes], lost: str
) -> None:
    task = rig.carry(core.Query(b"INSERT INTO forwarded VALUES (1, '')"), image=BEGIN)
    await rig.front.until(b"Z")
    if lost == "request":
        rig.proxy.cut_when = lambda data: True
    else:
        rig.proxy.swallow_when = lambda data: b"COMMIT" in data
    rig.session_proxy.feed(commit())
    with pytest.raises(SqlError) as caught:
        await task
    assert (caught.value.sqlstate, caught.value.severity) == ("08007", "FATAL")


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        (b"", "end_block"),  # it was run at the next leader: the block had not done anything
        (messages.BIND_COMPLETE, "fail_block"),
        (messages.BIND_COMPLETE + messages.command_complete("COMMIT"), "08007"),
    ],
)
async def test_a_commit_that_a_leader_refuses_is_not_in_doubt(rig: Rig, answer: bytes, told: str) -> None:
    """It leads no more when it comes to the COMMIT, whose Bind it may have answered."""
    going = SqlError("57P01", "this node no longer leads", severity="FATAL", routine=NOT_LEADING)

    async def leader(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readexactly(int.from_bytes(await reader.readexactly(4), "big") - 4)
        writer.write(messages.AUTHENTICATION_OK + messages.READY["I"])
        for part in (messages.command_complete("BEGIN") + messages.READY["T"], b"", b""):
            await reader.readexactly(1)
            await reader.readexactly(int.from_bytes(await reader.readexactly(4), "big") - 4)
            writer.write(part)
        writer.write(answer + messages.error_response(going, "FATAL"))
        writer.close()

    async with await asyncio.start_server(leader, "127.0.0.1", 0) as server:
        rig.locator.targets = [LeaderAddress("b", "127.0.0.1", server.sockets[0].getsockname()[1])]
        task = rig.carry(fed=extended(b"COMMIT"), image=BEGIN)
        try:
            await task
        except SqlError as error:
            assert error.sqlstate == told
            return
    assert rig.front.events == [told if told == "end_block" else (told, None)]
    if told == "fail_block":
        assert "E 40001" in await rig.front.until(b"E")


async def test_one_statement_outside_a_block_is_a_commit_too(rig: Rig, shoal: ShoalServer) -> None:
    rig.proxy.swallow_when = lambda data: b"INSERT" in data
    with pytest.raises(SqlError) as caught:
        await rig.query("INSERT INTO forwarded VALUES (1, '')")
    assert caught.value.sqlstate == "08007"
    assert rows(shoal) == [(1, "")]


async def test_a_case_expression_is_no_commit(rig: Rig) -> None:
    rig.proxy.cut_when = lambda data: b"CASE" in data
    task = rig.carry(core.Query(b"INSERT INTO forwarded VALUES (1, '')"), image=BEGIN)
    await rig.front.until(b"Z")
    rig.session_proxy.feed(client_core.query(b"SELECT CASE WHEN true THEN 1 END"))
    assert await rig.front.until(b"Z") == ["E 40001", "Z E"]
    await task


async def test_a_message_cut_in_the_middle_closes_without_a_word(rig: Rig) -> None:
    big = b"SELECT repeat('x', 30000000)"
    task = rig.carry(core.Query(b"INSERT INTO forwarded VALUES (1, '')"), image=BEGIN)
    await rig.front.until(b"Z")
    rig.front.slow = asyncio.Event()
    rig.session_proxy.feed(client_core.query(big))
    await rig.front.until(b"T")
    rig.proxy.cut()
    rig.front.slow.set()
    with pytest.raises(Exception, match="cut"):
        await task


async def test_terminate_ends_the_carried_session(rig: Rig) -> None:
    task = rig.carry(core.Query(b"INSERT INTO forwarded VALUES (1, '')"), image=BEGIN)
    await rig.front.until(b"Z")
    rig.session_proxy.feed(client_core.TERMINATE)
    with pytest.raises(ClientGoneError):
        await task


async def test_a_fatal_error_of_the_leader_ends_the_session(rig: Rig) -> None:
    image = SessionImage(IMAGE.startup, {"idle_in_transaction_session_timeout": "50ms"}, block=("BEGIN",))
    task = rig.carry(core.Query(b"INSERT INTO forwarded VALUES (1, '')"), image=image)
    await rig.front.until(b"Z")
    with pytest.raises(SqlError) as caught:
        await task
    assert (caught.value.sqlstate, caught.value.severity) == ("25P03", "FATAL")
