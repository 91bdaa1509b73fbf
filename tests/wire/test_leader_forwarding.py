"""Messages to a node that follows, cut and mixed as no driver would: where they run must not show."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator

import psycopg
import pytest

from tests.two_nodes import ScriptedNode, TwoNodes
from tests.wire.test_session_proxy import short
from wire.client import ClientConnection
from wire.client_core import COPY_DONE, FLUSH, SYNC, TERMINATE, bind, close, copy_data, describe, execute, parse, query

START = {"user": "postgres", "database": "postgres"}
DONE = 20.0  # seconds


@pytest.fixture(scope="module")
def shared() -> Iterator[TwoNodes]:
    with TwoNodes() as nodes:
        yield nodes


@pytest.fixture
def nodes(shared: TwoNodes) -> TwoNodes:
    with psycopg.connect(shared.leader.dsn, autocommit=True) as connection:
        connection.execute("DROP TABLE IF EXISTS t")
        connection.execute("CREATE TABLE t (a int PRIMARY KEY)")
    return shared


class Client:
    """What a client says, and what it is told in short; settings are passed over."""

    def __init__(self, connection: ClientConnection) -> None:
        self.connection = connection

    @classmethod
    async def of(cls, node: ScriptedNode) -> Client:
        return cls(await ClientConnection.open("127.0.0.1", node.port, START))

    async def says(self, *data: bytes, until: str = "Z") -> list[str]:
        self.connection.send(b"".join(data))
        return await self.hears(until)

    async def hears(self, until: str = "Z") -> list[str]:
        found: list[str] = []
        async with asyncio.timeout(DONE):
            while not found or found[-1][0] != until:
                told = short(await self.connection.receive())
                found += [told] if told[0] != "S" else []
        return found


@pytest.fixture
async def front(nodes: TwoNodes) -> AsyncIterator[Client]:
    client = await Client.of(nodes.follower)
    yield client
    client.connection.abort()


INSERT = parse(b"", b"INSERT INTO t VALUES ($1)")
SELECT = parse(b"", b"SELECT a FROM t ORDER BY a")


def one(number: int) -> bytes:
    return bind(b"", b"", [b"%d" % number]) + execute(b"")


async def test_cycles_of_both_kinds_in_one_piece(front: Client) -> None:
    data = b""
    for number in range(3):
        data += (
            INSERT + one(number) + SYNC + SELECT + bind(b"", b"", []) + execute(b"") + SYNC + query(b"SHOW datestyle")
        )
    front.connection.send(data)
    for number in range(3):
        assert await front.hears() == ["1", "2", "C INSERT 0 1", "Z I"]
        rows = [f"D {[[str(i)]]}" for i in range(number + 1)]
        told = await front.hears()
        assert told[:2] + told[-2:] == ["1", "2", f"C SELECT {number + 1}", "Z I"]
        assert "".join(told[2:-2]).replace("], [", "]]D [[") == "".join(rows)
        assert (await front.hears())[-2:] == ["C SHOW", "Z I"]


@pytest.mark.parametrize("size", [1, 7, 40])
async def test_messages_in_small_pieces(front: Client, size: int) -> None:
    data = INSERT + describe("S", b"") + one(1) + SYNC + query(b"BEGIN") + query(b"INSERT INTO t VALUES (2)")
    data += query(b"COMMIT") + SELECT + describe("S", b"") + bind(b"", b"", []) + execute(b"") + SYNC
    for start in range(0, len(data), size):
        front.connection.send(data[start : start + size])
        await asyncio.sleep(0)
    assert await front.hears() == ["1", "t", "n", "2", "C INSERT 0 1", "Z I"]
    assert [await front.hears() for _ in range(3)] == [["C BEGIN", "Z T"], ["C INSERT 0 1", "Z T"], ["C COMMIT", "Z I"]]
    told = await front.hears()
    assert told[:4] == ["1", "t", "T", "2"] and told[-2:] == ["C SELECT 2", "Z I"]


async def test_a_statement_described_before_it_is_bound(front: Client) -> None:
    named = parse(b"s", b"SELECT a FROM t WHERE a = $1")
    assert await front.says(named, describe("S", b"s"), FLUSH, until="T") == ["1", "t", "T"]
    assert await front.says(bind(b"", b"s", [b"1"]), execute(b""), SYNC) == ["2", "C SELECT 0", "Z I"]
    named = parse(b"i", b"INSERT INTO t VALUES ($1)")
    assert await front.says(named, describe("S", b"i"), FLUSH, until="n") == ["1", "t", "n"]
    assert await front.says(bind(b"", b"i", [b"1"]), execute(b""), SYNC) == ["2", "C INSERT 0 1", "Z I"]
    assert await front.says(bind(b"", b"i", [b"2"]), execute(b""), SYNC) == ["2", "C INSERT 0 1", "Z I"]
    assert await front.says(close("S", b"i"), SYNC) == ["3", "Z I"]
    assert await front.says(bind(b"", b"i", [b"3"]), execute(b""), SYNC) == ["E 26000", "Z I"]


async def test_a_read_whose_end_is_not_there_yet(front: Client) -> None:
    assert await front.says(SELECT, bind(b"", b"", []), execute(b""), FLUSH, until="C") == ["1", "2", "C SELECT 0"]
    assert await front.says(INSERT, one(1), SYNC) == ["1", "2", "C INSERT 0 1", "Z I"]


async def test_a_copy_data_in_the_midst_of_which_the_leader_was_deposed(nodes: TwoNodes) -> None:
    client = await Client.of(nodes.leader)
    data = copy_data(b"1\n" * 20_000)
    assert await client.says(query(b"COPY t FROM STDIN"), data[:10_000], until="G") == ["G"]
    # It has read that before it hears of anything else.
    assert await (await Client.of(nodes.leader)).says(query(b"SELECT count(*) FROM t"))
    nodes.switch()
    assert await client.hears() == ["E 40001", "Z I"]
    client.connection.send(data[10_000:] + COPY_DONE)
    assert await client.says(query(b"INSERT INTO t VALUES (2)")) == ["C INSERT 0 1", "Z I"]
    client.connection.abort()


async def test_an_error_drops_what_comes_up_to_sync(front: Client) -> None:
    wrong = parse(b"", b"SELECT wrong FROM t")
    assert await front.says(wrong, FLUSH, until="E") == ["E 42703"]
    assert await front.says(INSERT, one(1), SYNC) == ["Z I"]
    assert await front.says(wrong, INSERT, one(1), SYNC) == ["E 42703", "Z I"]
    assert await front.says(INSERT, one(1), wrong, SYNC, INSERT, one(2), SYNC) == [
        "1",
        "2",
        "C INSERT 0 1",
        "E 42703",
        "Z I",
    ]
    assert await front.hears() == ["1", "2", "C INSERT 0 1", "Z I"]
    assert await front.says(query(b"SELECT a FROM t")) == ["T", "D [['2']]", "C SELECT 1", "Z I"]
    assert await front.says(query(b"syntax error")) == ["E 42601", "Z I"]


async def test_a_simple_query_destroys_the_unnamed_statement_wherever_it_runs(front: Client) -> None:
    assert await front.says(SELECT, SYNC) == ["1", "Z I"]
    assert await front.says(query(b"INSERT INTO t VALUES (1)")) == ["C INSERT 0 1", "Z I"]
    assert await front.says(bind(b"", b"", []), execute(b""), SYNC) == ["E 26000", "Z I"]


async def test_portals_that_are_read_in_pieces(front: Client) -> None:
    await front.says(query(b"INSERT INTO t SELECT generate_series(1, 5)"))
    for begin in (b"BEGIN READ ONLY", b"BEGIN"):
        await front.says(query(begin))
        told = await front.says(SELECT, bind(b"p", b"", []), execute(b"p", 2), SYNC)
        assert (told[:2], told[-2:]) == (["1", "2"], ["s", "Z T"])
        told = await front.says(execute(b"p", 2), FLUSH, until="s")
        assert "4" in "".join(told)
        assert await front.says(execute(b"p"), SYNC) == ["D [['5']]", "C SELECT 1", "Z T"]
        await front.says(query(b"COMMIT"))


async def test_a_client_that_is_owed_an_error_is_told_in_the_extended_protocol(nodes: TwoNodes) -> None:
    for node, commit in ((nodes.leader, True), (nodes.follower, True), (nodes.leader, False), (nodes.follower, False)):
        client = await Client.of(node)
        await client.says(query(b"BEGIN"), until="Z")
        await client.says(INSERT, one(1), SYNC)
        nodes.switch()
        assert await client.says(SYNC) == ["Z E"]
        end = parse(b"", b"COMMIT" if commit else b"ROLLBACK") + bind(b"", b"", []) + execute(b"") + SYNC
        assert await client.says(end) == (["E 40001", "Z I"] if commit else ["1", "2", "C ROLLBACK", "Z I"])
        assert await client.says(query(b"SELECT count(*) FROM t")) == ["T", "D [['0']]", "C SELECT 1", "Z I"]
        client.connection.abort()


async def test_what_was_acknowledged_before_its_sync_and_is_lost(nodes: TwoNodes) -> None:
    for node in (nodes.leader, nodes.follower):
        client = await Client.of(node)
        assert await client.says(INSERT, one(1), FLUSH, until="C") == ["1", "2", "C INSERT 0 1"]
        nodes.switch()
        told = await client.says(SYNC)
        assert told in (["E 40001", "Z I"], ["E 40001", "Z E"])
        if told[-1] == "Z E":
            await client.says(query(b"ROLLBACK"))
        assert await client.says(query(b"SELECT count(*) FROM t")) == ["T", "D [['0']]", "C SELECT 1", "Z I"]
        client.connection.abort()


@pytest.mark.parametrize("polite", [True, False])
async def test_a_client_that_leaves_lets_its_locks_go(nodes: TwoNodes, front: Client, polite: bool) -> None:
    client = await Client.of(nodes.follower)
    await client.says(query(b"BEGIN; INSERT INTO t VALUES (1)"))
    if polite:
        client.connection.send(TERMINATE)
    else:
        client.connection.abort()
    assert await front.says(query(b"INSERT INTO t VALUES (1)")) == ["C INSERT 0 1", "Z I"]
