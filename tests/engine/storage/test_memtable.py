"""The memtable against a dict for every LSN."""

from __future__ import annotations

import random

import pytest

from engine.storage.memtable import SCAN_CHUNK, Memtable
from tests.engine.storage.harness import key

History = list[dict[bytes, bytes | None]]


def _random_history(seed: int, horizon_lag: int) -> tuple[Memtable, History]:
    """A memtable and, for each LSN, what a dict says; readers below lsn - lag do not exist."""
    chance = random.Random(seed)
    table = Memtable(1)
    states: History = [{}]
    for lsn in range(1, 120):
        writes = {
            key(chance.randrange(30), chance.choice((1, 2))): None if chance.random() < 0.2 else b"%d" % lsn
            for _ in range(chance.randrange(1, 5))
        }
        table.apply(lsn, writes, max(lsn - horizon_lag, 0))
        states.append({**states[-1], **writes})
    return table, states


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("lag", [1, 7, 1000])
def test_reads_at_every_lsn_from_the_horizon_on(seed: int, lag: int) -> None:
    table, states = _random_history(seed, lag)
    for lsn in range(max(119 - lag, 0), 120):
        state = states[lsn]
        for number in range(30):
            version = table.get(key(number), lsn)
            assert (None if version is None else version[1]) == state.get(key(number))
        low, high = key(5), key(25)
        expected = sorted((k, v) for k, v in state.items() if low <= k < high)
        assert list(table.scan(low, high, lsn)) == expected
        assert list(table.scan(low, high, lsn, reverse=True)) == expected[::-1]


def test_newest_gives_everything_in_key_order() -> None:
    table, states = _random_history(1, 5)
    items = [item for part in table.newest() for item in zip(*(column.to_pylist() for column in part), strict=True)]
    assert items == sorted(states[-1].items())


def test_changes_are_in_lsn_order_and_of_one_storage_id() -> None:
    table = Memtable(1)
    table.apply(1, {key(1): b"a", key(1, 2): b"b"}, 0)
    table.apply(2, {key(1): None}, 1)
    table.apply(3, {key(9, 2): b"c"}, 2)
    assert list(table.changes(b"\0\0\0\1", 0, 9)) == [(1, key(1)), (2, key(1))]
    assert list(table.changes(b"\0\0\0\2", 1, 9)) == [(3, key(9, 2))]
    assert list(table.changes(b"\0\0\0\1", 0, 1)) == [(1, key(1))]


def test_a_scan_continues_while_others_write() -> None:
    table = Memtable(1)
    count = 3 * SCAN_CHUNK
    table.apply(1, {key(2 * number): b"old" for number in range(count)}, 0)
    seen = []
    for step, (found, value) in enumerate(table.scan(key(0), key(10 * count), 1)):
        seen.append(found)
        assert value == b"old"
        table.apply(step + 2, {key(2 * step + 1): b"new", key(2 * count - 2 * step): b"new"}, 1)
    assert seen == [key(2 * number) for number in range(count)]


def test_a_row_that_is_written_all_the_time_keeps_few_versions() -> None:
    table = Memtable(1)
    for lsn in range(1, 5000):
        table.apply(lsn, {key(1): b"x" * 100}, lsn - 3)
    version, length = table.find(key(1)), 0
    while version is not None:
        version, length = version[2], length + 1
    assert length <= 8


def test_has_knows_storage_ids() -> None:
    table = Memtable(1)
    assert not table.has(b"\0\0\0\1")
    table.apply(1, {key(1): b"a"}, 0)
    assert table.has(b"\0\0\0\1")
    assert not table.has(b"\0\0\0\2")
    assert list(table.scan(key(0, 2), key(9, 2), 1)) == []


def test_what_is_known_of_keys_stays_so_when_it_has_been_put_in_order() -> None:
    table = Memtable(1)
    table.apply(1, {key(number): b"x" for number in range(10, 20)}, 0)

    def known(*numbers: int) -> bool:
        keys = [key(number) for number in numbers]
        return table.knows_any(keys, min(keys), max(keys))

    for _ in range(2):
        assert known(1, 10) and known(19) and known(5, 15, 25)
        assert not known(1, 9) and not known(20, 30) and not known(1, 30)
        list(table.newest())
