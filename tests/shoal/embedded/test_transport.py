"""The transport of embedded connections: results and loads of any size and shape arrive, and no side runs ahead of the
other by more than its bound."""

from __future__ import annotations

import ast
import gc
import random
import threading
import time
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import shoal
from shoal.embedded.connection import COPY_PIECE
from shoal.embedded.engine_thread import Link
from tests.samples import some
from tests.server import ROOT
from wire.channel import WRITE_BEHIND

LIMIT = 120.0  # seconds
SIZES = [(1, 0), (20_000, 0), (60_000, 4), (12_000, 100), (20_000, 100), (1_000, 5_000), (40, 100_000), (3, 3_000_000)]
"""Rows, and characters of the text in each."""


@pytest.fixture(scope="module")
def db(tmp_path_factory: pytest.TempPathFactory) -> Iterator[shoal.Database]:
    with shoal.open(tmp_path_factory.mktemp("transport")) as database:
        yield database


class Watch:
    """How far the server's side has been ahead of the caller's, and the other way round; and a caller that is slow."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.unread = self.untaken = self.piece = 0
        self.slow = 0.0
        written, taken, received = Link.write, Link._take, Link._receive

        def write(link: Link, data: Any) -> None:
            written(link, data)
            self.piece = max(self.piece, len(data))
            self.unread = max(self.unread, link.get_write_buffer_size())

        def take(link: Link, data: bytes | None) -> None:
            if self.slow:
                time.sleep(random.random() * self.slow)
            taken(link, data)

        def receive(link: Link, data: bytes) -> None:
            self.untaken = max(self.untaken, link._sent - link._taken)
            received(link, data)

        monkeypatch.setattr(Link, "write", write)
        monkeypatch.setattr(Link, "_take", take)
        monkeypatch.setattr(Link, "_receive", receive)


@pytest.fixture
def watch(monkeypatch: pytest.MonkeyPatch) -> Watch:
    return Watch(monkeypatch)


def within(work: Any) -> Any:
    """What `work` gives; a side that waits for ever fails the test, and not the run of tests."""
    found: list[Any] = []
    thread = threading.Thread(target=lambda: found.append(work()), daemon=True)
    thread.start()
    thread.join(LIMIT)
    assert not thread.is_alive(), "the two sides wait for each other"
    assert found, "it raised"
    return found[0]


def query(rows: int, width: int) -> str:
    return f"SELECT n, repeat(chr(97 + n % 26), {width}) AS t, n / 8.0::float8 AS f FROM generate_series(1, {rows}) n"


def expected(rows: int, width: int) -> list[tuple[int, str, float]]:
    return [(n, chr(97 + n % 26) * width, n / 8) for n in range(1, rows + 1)]


@pytest.mark.parametrize(("size", "slow"), some(product(SIZES, (0.0, 0.002)), 3))
def test_a_result_of_any_size_arrives(db: shoal.Database, watch: Watch, size: tuple[int, int], slow: float) -> None:
    rows, width = size
    watch.slow = slow
    sql = query(rows, width)
    wanted = expected(rows, width)
    assert within(lambda: db.execute(sql).fetchall()) == wanted
    simple = within(lambda: db.execute(f"SELECT 1; {sql}").fetchall())  # several statements: the simple protocol
    assert [(n, text, float(f)) for n, text, f in simple] == wanted
    assert within(lambda: db.arrow(sql)).to_pydict() == {
        "n": [n for n, _, _ in wanted], "t": [text for _, text, _ in wanted], "f": [f for _, _, f in wanted]
    }  # fmt: skip
    assert watch.unread <= WRITE_BEHIND + 2 * watch.piece  # what is made is written; then it waits


@pytest.mark.parametrize("seed", range(6))
def test_random_sizes_arrive(db: shoal.Database, watch: Watch, seed: int) -> None:
    chance = random.Random(seed)
    for _ in range(4):
        size = int(2 ** chance.uniform(10, 23))  # bytes of the whole result
        rows = max(1, int(size / 2 ** chance.uniform(3, 20)))
        width = size // rows
        watch.slow = chance.choice([0.0, 0.0005, 0.005])
        sql = query(rows, width)
        way = chance.choice(["execute", "simple", "arrow", "df"])
        if way == "execute":
            count = within(lambda sql=sql: len(db.execute(sql).fetchall()))
        elif way == "simple":
            count = within(lambda sql=sql: len(db.execute(f"SELECT 1; {sql}").fetchall()))
        elif way == "arrow":
            count = within(lambda sql=sql: db.arrow(sql).num_rows)
        else:
            count = within(lambda sql=sql: len(db.df(sql)))
        assert count == rows, (way, rows, width)


@pytest.mark.parametrize(("rows", "width"), SIZES)
def test_a_load_of_any_size_arrives(db: shoal.Database, watch: Watch, rows: int, width: int) -> None:
    db.execute("DROP TABLE IF EXISTS loaded")
    db.execute("CREATE TABLE loaded (n int, t text, f float8)")
    wanted = expected(rows, width)
    table = pa.table({"n": pa.array([n for n, _, _ in wanted], pa.int32()), "t": [t for _, t, _ in wanted],
                      "f": [f for _, _, f in wanted]})  # fmt: skip
    assert within(lambda: db.load("loaded", table)) == rows
    assert watch.untaken <= WRITE_BEHIND + 2 * COPY_PIECE
    assert within(lambda: sorted(db.execute("SELECT * FROM loaded").fetchall())) == wanted


def test_neither_side_waits_for_the_other_where_both_have_much_to_say(db: shoal.Database, watch: Watch) -> None:
    """Statements whose parameters and answers are large, many of them sent before the first answer is read."""
    values = [(letter * 200_000,) for letter in "abcdefghijklmnopqrstuvwxyz"]
    statement = "SELECT length(%s), repeat('x', 200000) FROM generate_series(1, 20) n, pg_sleep(0.01)"
    assert within(lambda: db.executemany(statement, values).rowcount) == 20 * len(values)


def test_the_connections_of_threads_that_have_ended_are_closed(db: shoal.Database) -> None:
    before = db._engine.server.connections
    for _ in range(30):
        assert within(lambda: db.execute("SELECT 1").fetchone()) == (1,)
    deadline = time.monotonic() + 10
    while db._engine.server.connections > before + 1 and time.monotonic() < deadline:
        gc.collect()
        time.sleep(0.05)
    assert db._engine.server.connections <= before + 1


def test_a_connection_remains_usable_after_an_error_in_the_middle_of_a_large_result(db: shoal.Database) -> None:
    for _ in range(3):
        with pytest.raises(shoal.DataError):
            db.execute("SELECT repeat('x', 100), 1 / (50000 - n) FROM generate_series(1, 60000) n").fetchall()
        assert db.execute("SELECT 1").fetchone() == (1,)


def asked_by_wire() -> set[str]:
    """The methods that wire calls on the transports of connections."""
    found = set()
    for path in (Path(ROOT) / "wire").glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
                on = node.func.value
                name = on.attr if isinstance(on, ast.Attribute) else on.id if isinstance(on, ast.Name) else ""
                if name in ("_transport", "transport"):
                    found.add(node.func.attr)
    return found


def lacking(kind: type, names: set[str]) -> set[str]:
    """What the class leaves to asyncio's classes, which raise NotImplementedError."""
    return {
        name
        for name in names
        if not any(name in base.__dict__ for base in kind.__mro__ if base.__module__ != "asyncio.transports")
    }


def test_the_transport_has_all_that_wire_asks_of_one() -> None:
    asked = asked_by_wire()
    assert {"write", "close", "pause_reading", "get_write_buffer_size", "get_extra_info"} <= asked
    own = {"get_extra_info"}  # asyncio's own does what it says
    assert lacking(Link, asked - own) == set()

    without = type(
        "Without", (Link.__mro__[1],), {k: v for k, v in Link.__dict__.items() if k != "get_write_buffer_size"}
    )
    assert lacking(without, asked - own) == {"get_write_buffer_size"}
