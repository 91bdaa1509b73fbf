"""A capture shows one LSN, whatever layer holds a key, and whatever happens after it was taken."""

from __future__ import annotations

import asyncio
import random
from pathlib import Path

import pyarrow as pa
import pytest

from catalog.errors import SqlError
from engine.checkpoint import read_checkpoint, verify_checkpoint
from engine.checkpoint.capture import Capture
from engine.storage.edits import Edits
from engine.storage.runs import BulkRun
from engine.storage.tablespace import Tablespace
from tests.engine.checkpoint.harness import FolderFiles, checkpoint, commit, contents, flush, opened
from tests.engine.storage.harness import key

Pairs = dict[bytes, bytes | None]
IDS = (200, 201, 202)  # of no table: a checkpoint keeps them as they are


def some(chance: random.Random, marker: int) -> Pairs:
    return {
        key(number, chance.choice(IDS)): None if chance.random() < 0.3 else b"%d-%d" % (marker, number)
        for number in chance.sample(range(300), 60)
    }


def run_of(store: Tablespace, pairs: Pairs) -> BulkRun:
    writer = store.new_run()
    writer.add(pa.array(list(pairs), pa.binary()), pa.array(list(pairs.values()), pa.binary()))
    return writer.finish()


async def change(store: Tablespace, chance: random.Random, marker: int, model: Pairs) -> None:
    """A commit, a bulk commit, or a flush."""
    what = chance.random()
    if what < 0.2:
        await flush(store)
        return
    edits, parts = some(chance, marker), {}
    if what < 0.5:
        loaded = some(chance, marker + 1000)
        parts["runs"] = [run_of(store, loaded).reference]
        model.update(loaded)
    model.update(edits)
    await commit(store, edits, **parts)


def read(capture: Capture) -> dict[bytes, bytes]:
    found: dict[bytes, bytes] = {}
    for storage_id in capture.storage_ids():
        if storage_id in IDS:
            pairs = list(capture.pairs(storage_id))
            assert [name for name, _ in pairs] == sorted(dict(pairs))
            found.update(pairs)
    return found


@pytest.mark.parametrize("seed", range(8))
async def test_a_capture_is_the_state_at_its_lsn(tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("engine.checkpoint.capture.BATCH_ROWS", 16)
    chance = random.Random(seed)
    model: Pairs = {}
    async with opened(tmp_path / "data") as store:
        for marker in range(15):
            await change(store, chance, marker, model)
            if chance.random() < 0.4:
                expected = {place: value for place, value in model.items() if value is not None}
                capture = Capture.take(store)
                await change(store, chance, marker + 500, model)
                thread = asyncio.to_thread(capture.resolve)
                await change(store, chance, marker + 600, model)
                await thread
                capture.release()
                await change(store, chance, marker + 700, model)
                assert await asyncio.to_thread(read, capture) == expected
                capture.close()


async def test_it_pauses_while_it_looks_through_a_memtable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("engine.checkpoint.capture.SLICE_VERSIONS", 16)
    pauses: list[int] = []
    async with opened(tmp_path / "data") as store:
        pairs = {key(number, storage_id): b"%d" % number for number in range(100) for storage_id in IDS}
        await commit(store, dict(pairs))
        capture = Capture.take(store)
        capture.resolve(lambda: pauses.append(1))
        assert len(pauses) >= len(pairs) / 16
        assert read(capture) == pairs
        capture.close()


async def test_what_is_sequenced_and_not_durable_is_not_in_it(tmp_path: Path) -> None:
    async with opened(tmp_path / "data") as store:
        await commit(store, {key(1, 200): b"old", key(2, 200): b"old"})
        store.sequence(Edits({key(1, 200): b"new", key(3, 200): b"new"}), 0, 0)
        capture = Capture.take(store)
        await commit(store, {key(2, 200): b"new"})
        capture.resolve()
        capture.release()
        assert capture.lsn == 1
        assert read(capture) == {key(1, 200): b"old", key(2, 200): b"old"}
        capture.close()


async def test_changes_are_known_as_long_as_they_are_in_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with opened(tmp_path / "data") as store:
        await commit(store, {key(number, 200): b"x" for number in range(100)})
        await flush(store)
        monkeypatch.setattr(store._flusher, "add", lambda layer: None)
        await commit(store, {key(10, 200): b"y"})
        last = await commit(store, {}, runs=[run_of(store, {key(50, 200): b"z"}).reference])
        capture = Capture.take(store)
        capture.resolve()
        capture.release()
        assert capture.known_since == 1
        changed = [n for n in range(100) if capture.has_changed(200, key(n, 200), key(n + 1, 200), 1)]
        assert changed == [10, 50]
        assert not capture.has_changed(200, key(0, 200), key(100, 200), last)
        capture.close()


async def test_keys_that_no_table_owns_are_kept_and_dropped_ones_are_not(tmp_path: Path) -> None:
    files = FolderFiles(tmp_path / "store")
    async with opened(tmp_path / "data") as store:
        await commit(store, {key(number, storage_id): b"v" for number in range(50) for storage_id in IDS})
        await commit(store, {}, drops=[201])
        manifest = await checkpoint(store, files, tmp_path / "scratch")
        expected = {place: value for place, value in contents(store).items() if place[:4] != key(0, 201)[:4]}
    assert manifest.other_rows == 100 == len(expected)
    assert await verify_checkpoint(files, "", manifest, str(tmp_path / "verify")) == []
    await read_checkpoint(files, "", manifest, str(tmp_path / "again"))
    async with opened(tmp_path / "again") as again:
        assert contents(again) == expected
        assert await commit(again, {key(1, 200): b"goes on"}) == manifest.lsn + 1


async def test_an_lsn_that_the_flush_may_have_passed_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with opened(tmp_path / "data") as store:
        await commit(store, {key(1, 200): b"old"})
        with store.snapshot(1):
            await commit(store, {key(1, 200): b"new"})
            capture = Capture.take(store, 1)
            capture.resolve()
            assert read(capture) == {key(1, 200): b"old"}
            capture.close()
            monkeypatch.setattr(store._flusher, "_on_flushed", lambda layer: None)  # as long as nobody has heard of it
            store.flush()
            with pytest.raises(SqlError, match="LMDB may hold changes after LSN 1") as caught:
                Capture.take(store, 1)
            assert caught.value.sqlstate == "72000"
