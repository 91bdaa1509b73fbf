"""Whole storage ids as they stand now: whatever layer holds a key, the newest counts."""

from __future__ import annotations

import asyncio
import random
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from engine.storage.edits import Edits
from engine.storage.newest import NewestRows
from engine.storage.runs import BulkRun
from engine.txn.locks import TableLocks
from engine.txn.row_locks import RowLocks
from engine.txn.transaction import Transaction
from tests.engine.storage.harness import Store, key

Pairs = dict[bytes, bytes | None]


def run_of(store: Store, pairs: Pairs) -> BulkRun:
    writer = store.space.new_run()
    writer.add(pa.array(list(pairs), pa.binary()), pa.array(list(pairs.values()), pa.binary()))
    return writer.finish()


def some(chance: random.Random, marker: int) -> Pairs:
    """Values and deletions under some keys of two storage ids."""
    return {
        key(number, chance.choice((1, 1, 2))): None if chance.random() < 0.3 else b"%d-%d" % (marker, number)
        for number in chance.sample(range(200), 40)
    }


def check(store: Store, model: Pairs, transaction: Transaction | None = None) -> None:
    newest = asyncio.run(NewestRows.open(store.space, 1, transaction))
    found: dict[bytes, bytes] = {}
    for keys, values in newest.batches():
        for place, value in zip(keys.to_pylist(), values.to_pylist(), strict=True):
            assert place not in found
            found[place] = value
    expected = {place: value for place, value in model.items() if value is not None and place[:4] == key(0)[:4]}
    assert found == expected
    for wanted in (range(250), range(60, 70), range(300, 310), random.Random(1).sample(range(250), 30)):
        places = [key(number) for number in wanted]
        existing = newest.existing(pa.array(places, pa.binary()))
        assert existing.tolist() == [place in expected for place in places]
    assert newest.existing(pa.array([], pa.binary())).tolist() == np.zeros(0, np.bool_).tolist()
    newest.close()


@pytest.mark.parametrize("seed", range(6))
def test_layers_hide_what_is_below_them(tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("engine.storage.newest.BATCH_ROWS", 16)
    chance = random.Random(seed)
    store = Store(tmp_path)
    model: Pairs = {}
    for marker in range(12):
        edits = some(chance, marker)
        if chance.random() < 0.5:
            loaded = some(chance, 100 + marker)
            store.commit(edits, runs=[run_of(store, loaded).reference])
            model.update(loaded)
        else:
            store.commit(edits)
        model.update(edits)
        if chance.random() < 0.3:
            store.flush()
        check(store, model)
    transaction = Transaction(store.space, RowLocks(), TableLocks(), 1, 0)
    for marker in (20, 21):
        own = some(chance, marker)
        transaction.runs.append(run_of(store, own))
        model.update(own)
        check(store, model, transaction)
    for place, value in some(chance, 30).items():
        model[place] = value
        if value is None:
            transaction.delete(place)
        else:
            transaction.put(place, value)
    check(store, model, transaction)
    transaction.abort()
    store.close()


def test_a_view_stays_as_it_is_while_layers_are_flushed(tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.commit({key(number): b"old" for number in range(100)})
    store.flush()
    store.commit({key(number): b"new" for number in range(50)})
    newest = asyncio.run(NewestRows.open(store.space, 1))
    store.flush()
    store.space.sequence(Edits({key(1, 2): b"other"}), 0, 0)
    found = [value for _, values in newest.batches() for value in values.to_pylist()]
    assert (found.count(b"new"), found.count(b"old")) == (50, 50)
    newest.close()
    store.close()


@pytest.mark.parametrize("apart_keys", [0, 1 << 60], ids=["apart", "here"])
def test_a_large_layer_is_flushed_in_several_transactions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, apart_keys: int
) -> None:
    monkeypatch.setattr("engine.storage.checkpoint.APART_KEYS", apart_keys)
    monkeypatch.setattr("engine.storage.checkpoint.COMMIT_BYTES", 10_000)
    store = Store(tmp_path)
    store.commit({key(number): b"old" for number in range(0, 4000, 2)})
    store.flush()
    loaded: Pairs = {key(number): None if number % 5 == 0 else b"new" for number in range(3000)}
    store.commit({key(7): b"edit"}, runs=[run_of(store, loaded).reference])
    expected = {key(number): b"old" for number in range(3000, 4000, 2)}
    expected |= {place: value for place, value in loaded.items() if value is not None} | {key(7): b"edit"}
    assert store.contents() == expected
    store.flush()
    assert store.contents() == expected
    store.close()
    again = Store(tmp_path)
    assert again.contents() == expected
    again.close()
