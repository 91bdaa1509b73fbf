"""Pages of ranges of keys, counted from LMDB's tree, against what LMDB itself says of the whole."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from engine.storage.checkpoint import Checkpoint
from engine.storage.keys import prefix_range, storage_prefix


@pytest.fixture
def checkpoint(tmp_path: Path) -> Iterator[Checkpoint]:
    opened = Checkpoint(str(tmp_path))
    yield opened
    opened.close()


def _write(checkpoint: Checkpoint, items: list[tuple[int, bytes, bytes]]) -> dict[str, Any]:
    """Writes (storage id, key, value); what LMDB says of the tree then."""
    with checkpoint.environment.begin(db=checkpoint.rows, write=True) as transaction:
        for storage_id, key, value in items:
            transaction.put(storage_prefix(storage_id) + key, value)
        found: dict[str, Any] = transaction.stat(checkpoint.rows)
    return found


def _pages(checkpoint: Checkpoint, *storage_ids: int) -> list[int]:
    with closing(checkpoint.pages()) as pages:
        return [pages.bytes_of(*prefix_range(storage_prefix(number))) // 4096 for number in storage_ids]


def test_an_empty_tree_and_absent_ranges_take_nothing(checkpoint: Checkpoint) -> None:
    assert _pages(checkpoint, 1) == [0]
    _write(checkpoint, [(2, b"k", b"v")])
    assert _pages(checkpoint, 1, 2, 3) == [0, 1, 0]


def test_leaves_are_counted(checkpoint: Checkpoint) -> None:
    numbers = random.Random(3).sample(range(2**60), 30_000)
    items = [(2, number.to_bytes(8, "big"), b"v" * 40) for number in numbers]
    items += [(number, b"one", b"v") for number in (1, 3)]
    stat = _write(checkpoint, items)
    before, counted, after = _pages(checkpoint, 1, 2, 3)
    assert (before, after) == (1, 1)
    assert stat["depth"] == 3 and abs(counted - stat["leaf_pages"]) <= 0.1 * stat["leaf_pages"]


def test_deep_trees_are_judged_by_samples(checkpoint: Checkpoint) -> None:
    items = [(2 + number % 2, number.to_bytes(8, "big") * 50, b"v" * 100) for number in range(20_000)]
    stat = _write(checkpoint, items)
    counted = sum(_pages(checkpoint, 2, 3))
    assert stat["depth"] >= 4 and abs(counted - stat["leaf_pages"]) <= 0.1 * stat["leaf_pages"]


def test_values_in_pages_of_their_own_count(checkpoint: Checkpoint) -> None:
    items = [(1, number.to_bytes(8, "big"), b"v" * 30_000) for number in range(300)]
    items += [(2, number.to_bytes(8, "big"), b"v") for number in range(300)]
    stat = _write(checkpoint, items)
    large, small = _pages(checkpoint, 1, 2)
    assert abs(large - stat["overflow_pages"]) <= 0.1 * large and small < 10


def test_they_are_counted_while_others_write(checkpoint: Checkpoint) -> None:
    _write(checkpoint, [(1, number.to_bytes(8, "big"), b"v" * 100) for number in range(10_000)])
    with closing(checkpoint.pages()) as pages:
        first = pages.bytes_of(*prefix_range(storage_prefix(1)))
        for turn in range(5):
            _write(checkpoint, [(1, number.to_bytes(8, "big"), b"w" * 100) for number in range(turn, 10_000, 7)])
        assert pages.bytes_of(*prefix_range(storage_prefix(1))) == first


def test_keys_are_counted_and_read_as_of_one_moment(checkpoint: Checkpoint) -> None:
    _write(checkpoint, [(1, number.to_bytes(8, "big"), b"v" * 30) for number in range(1000)])
    _write(checkpoint, [(2, number.to_bytes(8, "big"), b"v" * 30) for number in range(100_000)])
    with closing(checkpoint.pages()) as pages:
        _write(checkpoint, [(1, b"later", b"v")])
        few, many, none = (pages.entries_in(*prefix_range(storage_prefix(number))) for number in (1, 2, 3))
        assert (few, none) == (1000, 0) and abs(many - 100_000) < 10_000
        assert pages.get(storage_prefix(1) + b"later") is None
        assert pages.get(storage_prefix(1) + (7).to_bytes(8, "big")) == b"v" * 30
