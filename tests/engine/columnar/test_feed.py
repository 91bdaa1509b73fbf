"""What the feed of the worker's tables costs, and that it finds every change, however many tables there are."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import pyarrow as pa
import pytest
import pytest_asyncio

from engine.columnar import feed as feed_module
from engine.columnar.drafts import KeptRun
from engine.columnar.feed import FedTable, Feed
from engine.storage.edits import Edits
from engine.storage.keys import row_number_key
from engine.storage.runs import BulkRun
from engine.storage.tablespace import Tablespace
from tests.engine.columnar.conftest import make_table, open_store

FIRST = 30_000


class Keeper:
    """Keeps nothing: keys of runs come one by one."""

    def keep(self, path: str) -> KeptRun | None:
        return None

    def release(self, kept: KeptRun) -> None:
        raise AssertionError("nothing is kept")


class CountingFeed(Feed):
    """Counts the keys that it looks at, by steps."""

    def __init__(self, store: Tablespace) -> None:
        super().__init__(store, Keeper())
        self.looked = [0]

    def _give(self, tables: object, lsn: int, changed: Sequence[bytes] | BulkRun) -> None:
        self.looked[-1] += 0 if isinstance(changed, BulkRun) else len(changed)
        super()._give(tables, lsn, changed)  # type: ignore[arg-type]

    def settle_all(self) -> None:
        for _ in self.settle():
            self.looked.append(0)


@pytest_asyncio.fixture
async def store(tmp_path: Path) -> AsyncIterator[Tablespace]:
    made = open_store(tmp_path)
    yield made
    made.close()


async def durable(store: Tablespace) -> None:
    async with asyncio.timeout(20):
        while store.durable_lsn < store.sequenced_lsn:
            await asyncio.sleep(0)


def fill(feed: Feed, count: int) -> list[FedTable]:
    """Tables that are loaded."""
    made = []
    for number in range(count):
        made.append(feed.begin_load(make_table(FIRST + number, [(23, -1)], ())))
        feed.note_loaded(FIRST + number, feed.store.of(FIRST).flushed_lsn)
    return made


async def test_many_tables_cost_nothing_for_themselves(store: Tablespace) -> None:
    feed = CountingFeed(store)
    tables = fill(feed, 1000)
    for number in range(500):
        store.sequence(Edits({row_number_key(FIRST + number % 1000, number): b"x"}), 0, 1)
    await durable(store)
    feed.looked = [0]
    feed.settle_all()
    assert feed.looked == [500]  # and not 500,000
    assert [len(fed.pending) for fed in tables] == [1] * 500 + [0] * 500
    assert {fed.reached for fed in tables} == {store.durable_lsn} and feed.behind == 0


async def test_a_query_of_many_tables_looks_at_every_key_once(store: Tablespace) -> None:
    feed = CountingFeed(store)
    tables = fill(feed, 8)
    for number in range(400):
        store.sequence(Edits({row_number_key(FIRST + number % 8, number): b"x"}), 0, 1)
    await durable(store)
    feed.looked = [0]
    feed.collect(*tables)
    assert feed.looked == [400]
    assert [len(fed.pending) for fed in tables] == [50] * 8
    feed.collect(*tables)
    assert feed.looked == [400]


@pytest.mark.parametrize("commits", [[50_000], [3_000] * 10, [1] * 9_000, [4_000, 5_000, 1, 12_345]])
async def test_no_step_is_long(store: Tablespace, commits: list[int]) -> None:
    feed = CountingFeed(store)
    (fed,) = fill(feed, 1)
    number = 0
    for size in commits:
        store.sequence(Edits({row_number_key(FIRST, number + n): b"x" for n in range(size)}), 0, 1)
        number += size
    await durable(store)
    feed.looked = [0]
    feed.settle_all()
    assert sum(feed.looked) == number == len(fed.pending)
    assert max(feed.looked) <= feed_module.STEP_KEYS
    assert len(feed.looked) <= 2 * number / feed_module.STEP_KEYS + 2


@pytest.mark.parametrize("seed", range(12))
async def test_everything_is_found_whatever_comes_between_the_steps(
    store: Tablespace, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Commits, bulk runs, queries, tables that come and go: the keys that a table is told of are those that changed."""
    monkeypatch.setattr(feed_module, "STEP_KEYS", 7)
    monkeypatch.setattr(feed_module, "PUSH_KEYS", 8)
    choices = random.Random(seed)
    feed = Feed(store, Keeper())
    changed: dict[int, set[bytes]] = {}  # since the table was last sent
    fed = {table.table.storage_id: table for table in fill(feed, 5)}
    changed = {storage_id: set() for storage_id in fed}

    def write() -> None:
        keys = [
            row_number_key(FIRST + choices.randrange(6), choices.randrange(50))
            for _ in range(choices.choice((1, 9, 30)))
        ]
        edits = Edits(dict.fromkeys(keys, b"x"))
        if choices.random() < 0.3:
            writer = store.new_run()
            more = sorted({row_number_key(FIRST + choices.randrange(6), choices.randrange(50)) for _ in range(20)})
            writer.add(pa.array(more, pa.binary()), pa.array([b"y"] * len(more), pa.binary()))
            edits = Edits(edits.writes, [writer.finish().reference])
            keys += more
        store.sequence(edits, 0, 1)
        for name in keys:
            changed.get(int.from_bytes(name[:4], "big"), set()).add(name)

    def query() -> None:
        some = choices.sample(list(fed.values()), choices.randrange(1, len(fed) + 1))
        feed.collect(*some)
        for table in some:
            _, part = feed.delta(table, whole=False)
            _, sent = feed.delta(table)
            sent += part
            assert len(part) <= 8
            storage_id = table.table.storage_id
            assert {name for name, _ in sent} >= changed[storage_id]
            assert all(store.current.get(name) == value for name, value in sent)
            changed[storage_id] = set()

    def replace() -> None:
        storage_id = choices.choice(list(fed))
        feed.forget(storage_id)
        store.flush()
        made = feed.begin_load(make_table(storage_id, [(23, -1)], ()))
        feed.note_loaded(storage_id, store.durable_lsn)
        fed[storage_id], changed[storage_id] = made, set()

    settling = feed.settle()
    for _ in range(150):
        step = choices.choice((write, write, query, replace, None, None))
        if step is None:
            if next(settling, "end") == "end":
                settling = feed.settle()
        else:
            step()
        await durable(store)
    list(settling)
    list(feed.settle())
    query()
    assert feed.behind == 0
    for storage_id in list(fed):
        feed.forget(storage_id)
    assert not store.in_use
