"""The recent past: what `keep_from` keeps is read as it was, across flushes, drops and updates of the same rows."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from catalog.errors import SqlError
from engine.storage.edits import Edits
from engine.storage.keys import prefix_range, storage_prefix
from engine.storage.memtable import Memtable
from tests.engine.storage.harness import Store, key

KEYS = 30


def _content(store: Store, lsn: int) -> dict[bytes, bytes]:
    with store.space.snapshot(lsn) as snapshot:
        found = dict(snapshot.scan(*prefix_range(storage_prefix(1))))
        assert {place: snapshot.get(place) for place in map(key, range(KEYS))} == {
            place: found.get(place) for place in map(key, range(KEYS))
        }
        return found


@pytest.mark.parametrize("seed", range(3))
def test_every_lsn_that_is_kept_reads_as_it_did(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    store = Store(tmp_path)
    recorded: dict[int, dict[bytes, bytes]] = {0: {}}
    kept = 0
    store.space.keep_from(0)
    for step in range(300):
        writes = {key(chance.randrange(KEYS)): chance.choice([b"%d" % step, None]) for _ in range(3)}
        lsn = store.commit(writes)
        recorded[lsn] = store.contents()
        if chance.random() < 0.1:
            store.flush()
        if chance.random() < 0.1:
            kept = max(kept, lsn - chance.randrange(80))
            store.space.keep_from(kept)
    for lsn in range(kept, max(recorded) + 1):
        assert _content(store, lsn) == recorded[lsn], lsn
    if kept:
        with pytest.raises(SqlError, match="72000"):
            store.space.snapshot(kept - 1)
    store.close()


def test_what_was_let_go_of_before_is_not_promised(tmp_path: Path) -> None:
    store = Store(tmp_path)
    for _ in range(5):
        store.commit({key(0): b"x"})
    store.space.keep_from(0)
    store.commit({key(0): b"y"})
    assert _content(store, store.space.readable_from) == {key(0): b"x"}
    with pytest.raises(SqlError, match="72000"):
        store.space.snapshot(store.space.readable_from - 1)
    store.close()


def test_a_flush_drops_versions_that_are_not_kept(tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.space.keep_from(0)
    for number in range(5):
        store.commit({key(number): b"x"})
        store.flush()
    assert len(store.space._bases) == 5
    assert _content(store, 2) == {key(0): b"x", key(1): b"x"}
    store.space.keep_from(5)
    assert store.space._bases == []
    assert store.space._history == []
    store.close()


def test_times_and_lsns_are_found_from_each_other(tmp_path: Path) -> None:
    store = Store(tmp_path)
    space = store.space
    assert space.lsn_at(10**18) is None
    for number, time in enumerate([100, 200, 150, 300], 1):
        lsn = space.sequence(Edits({key(number): b"x"}), time, 0)
        store.loop.until(lambda: space.durable_lsn >= lsn)  # noqa: B023 - at once
    assert [space.time_of(lsn) for lsn in range(6)] == [None, 100, 200, 200, 300, None]
    assert [space.lsn_at(time) for time in (99, 100, 199, 200, 299, 300, 10**18)] == [None, 1, 1, 3, 3, 4, 4]
    store.close()


def test_a_hot_row_with_much_that_is_wanted_is_not_walked_at_every_write() -> None:
    table = Memtable(1)
    steps = 0

    class Counting(list):  # type: ignore[type-arg]
        def __getitem__(self, place: object) -> object:
            nonlocal steps
            steps += 1
            return super().__getitem__(place)  # type: ignore[index]

    for lsn in range(1, 20_000):
        table.apply(lsn, {key(1): b"x"}, lsn - 5000)
        table.versions[key(1)] = Counting(table.versions[key(1)])
    version, length = table.find(key(1)), 0
    while version is not None:
        version, length = list.__getitem__(version, 2), length + 1
    assert length <= 10_002
    assert steps < 20_000 * 12
