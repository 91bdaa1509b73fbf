"""Leaf pages as columns: the same keys and values as a cursor gives, in whatever order they were written."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import lmdb
import pytest

from engine.storage.leaves import Leaves

Environment = Any


@pytest.fixture
def environment(tmp_path: Path) -> Iterator[Environment]:
    found: Environment = lmdb.open(str(tmp_path), max_dbs=4, map_size=1 << 30)
    yield found
    found.close()


def _read(environment: Environment, transaction: Any, low: bytes, high: bytes) -> tuple[list[tuple[bytes, bytes]], int]:
    """What is in the range, and how many parts a cursor had to read."""
    leaves = Leaves.of(environment, b"rows", transaction)
    assert leaves is not None
    found: list[tuple[bytes, bytes]] = []
    left = 0
    for keys, values in leaves.batches(low, high):
        if isinstance(keys, bytes):
            left += 1
            found += _by_cursor(transaction, keys, values)
        else:
            found += zip(keys.to_pylist(), values.to_pylist(), strict=True)
    leaves.close()
    return found, left


def _by_cursor(transaction: Any, low: bytes, high: bytes) -> list[tuple[bytes, bytes]]:
    found: list[tuple[bytes, bytes]] = []
    cursor = transaction.cursor()
    if cursor.set_range(low):
        for item in cursor.iternext():
            if item[0] >= high:
                break
            found.append(item)
    return found


@pytest.mark.parametrize("largest", [0, 90, 9000])
def test_every_range_reads_as_by_a_cursor(environment: Environment, largest: int) -> None:
    chance = random.Random(largest)
    rows = environment.open_db(b"rows")
    environment.open_db(b"meta")
    for _ in range(6):
        with environment.begin(db=rows, write=True) as transaction:
            for _ in range(6000):
                key = bytes((chance.randrange(4),)) + chance.randbytes(chance.choice((2, 3, 30)))
                if chance.random() < 0.3:
                    transaction.delete(key)
                else:
                    size = (
                        chance.randrange(largest + 1) if chance.random() < 0.02 else chance.randrange(largest // 9 + 1)
                    )
                    transaction.put(key, chance.randbytes(size))
        with environment.begin(db=rows) as transaction:
            for _ in range(20):
                low, high = sorted(bytes((chance.randrange(5),)) + chance.randbytes(2) for _ in range(2))
                found, left = _read(environment, transaction, low, high)
                assert found == _by_cursor(transaction, low, high)
                assert largest > 100 or not left
            assert _read(environment, transaction, b"", b"\xff")[0] == _by_cursor(transaction, b"", b"\xff")


def test_it_is_the_transactions_own_tree(environment: Environment) -> None:
    """Commits that come later change nothing; after two of them its root can no longer be told."""
    rows = environment.open_db(b"rows")
    with environment.begin(db=rows, write=True) as transaction:
        for number in range(5000):
            transaction.put(b"k%06d" % number, b"first")
    reading = environment.begin(db=rows)
    leaves = Leaves.of(environment, b"rows", reading)
    assert leaves is not None
    for turn in range(4):
        with environment.begin(db=rows, write=True) as transaction:
            for number in range(0, 6000, 3):
                transaction.put(b"k%06d" % number, b"later %d" % turn)
    ((keys, values),) = list(leaves.batches(b"k", b"l"))
    assert len(keys) == 5000
    assert set(values.to_pylist()) == {b"first"}
    assert Leaves.of(environment, b"rows", reading) is None
    leaves.close()
    reading.abort()


def test_nothing_is_no_tree(environment: Environment) -> None:
    rows = environment.open_db(b"rows")
    with environment.begin(db=rows) as transaction:
        assert Leaves.of(environment, b"rows", transaction) is None
