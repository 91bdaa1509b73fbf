"""Space goes back to the file system while the tables are in use, and nobody who reads them notices."""

from __future__ import annotations

import os
import pathlib
import random
import subprocess
import sys
from contextlib import suppress

import numpy as np
import pytest

from catalog.errors import SqlError
from engine.storage import checkpoint, holes, space
from engine.storage.edits import Edits
from engine.storage.keys import prefix_range, storage_prefix
from engine.storage.views import Snapshot
from tests.engine.storage.harness import Store, key

STEPS = 120
KEYS = 400
ROWS = 3000
UNSEEN = "holes.oldest_reader = lambda environment: environment.info()['last_txnid']"
"""Planted: readers do not count."""

Rows = dict[bytes, bytes]


def file_of(store: Store) -> pathlib.Path:
    return pathlib.Path(store.space.checkpoint_path, "data.mdb")


def pack(store: Store, *storage_ids: int) -> None:
    told: list[SqlError | None] = []
    store.space.pack(storage_ids, told.append)
    store.loop.until(lambda: bool(told))
    assert told == [None]


def used_bytes(store: Store) -> int:
    """What rows take, with LMDB's own pages beside them."""
    held = store.space._checkpoint
    return held.file_bytes[0] - held.free_bytes()


def read(snapshot: Snapshot, storage_ids: range) -> Rows:
    return {k: v for one in storage_ids for k, v in snapshot.scan(*prefix_range(storage_prefix(one)))}


class Trial:
    """Commits, flushes, drops, packing, readers of now and of then, in a random order, beside a plain dictionary."""

    def __init__(self, path: pathlib.Path, seed: int) -> None:
        self.path = path
        self.chance = random.Random(seed)
        self.store = Store(path)
        self.rows: Rows = {}
        self.ids = range(1, 4)
        self.readers: list[tuple[Snapshot, range, Rows]] = []
        self.past: list[tuple[int, range, Rows]] = []
        self.given = 0

    def run(self, steps: int) -> str:
        """What is wrong, '' if nothing."""
        self.store.space.keep_from(0)
        for number in range(steps):
            step = self.chance.choice(
                (self.write, self.write, self.write, self.flush, self.drop, self.look, self.leave)
            )
            step()
            if number % 4 == 3:
                pack(self.store, *(one for one in self.ids if self.chance.random() < 0.5))
                self.given += 1
            wrong = self.wrong()
            if wrong:
                return f"after step {number} ({step.__name__}): {wrong}"
            if number % 40 == 39:
                self.again()
        return ""

    def write(self) -> None:
        writes: dict[bytes, bytes | None] = {}
        one, first = self.chance.choice(self.ids), self.chance.randrange(KEYS)
        for number in range(first, min(first + self.chance.randrange(120), KEYS)):
            gone, size = self.chance.random() < 0.4, self.chance.choice((10, 300, 300, 9000))
            writes[key(number, one)] = None if gone else self.chance.randbytes(4) * (size // 4)
        self.commit(Edits(writes))

    def commit(self, edits: Edits) -> None:
        for name, value in edits.writes.items():
            self.rows.pop(name, None)
            if value is not None:
                self.rows[name] = value
        lsn = self.store.space.sequence(edits, 0, 0)
        self.store.loop.until(lambda: self.store.space.durable_lsn >= lsn)
        self.past.append((lsn, self.ids, dict(self.rows)))

    def flush(self) -> None:
        self.store.flush()

    def drop(self) -> None:
        """Storage ids are never used again: the last one goes, and one that is new comes."""
        gone = self.ids.start
        self.rows = {name: value for name, value in self.rows.items() if name[:4] != storage_prefix(gone)}
        self.ids = range(gone + 1, gone + 4)
        self.commit(Edits({key(0, gone + 3): b"new"}, drops=[gone]))

    def look(self) -> None:
        self.readers.append((self.store.space.snapshot(), self.ids, dict(self.rows)))

    def leave(self) -> None:
        """Readers go, and some of the past."""
        if self.readers:
            self.readers.pop(self.chance.randrange(len(self.readers)))[0].close()
        if self.past:
            del self.past[: self.chance.randrange(len(self.past))]
            self.store.space.keep_from(self.past[0][0])

    def wrong(self) -> str:
        for snapshot, ids, rows in self.readers:
            if read(snapshot, ids) != rows:
                return f"the reader at {snapshot.lsn} sees something else"
        for lsn, ids, rows in self.past[-6:]:
            if lsn >= self.store.space.readable_from:
                with self.store.space.snapshot(lsn) as snapshot:
                    if read(snapshot, ids) != rows:
                        return f"the past at {lsn} is another one"
        with self.store.space.snapshot() as snapshot:
            return "" if read(snapshot, self.ids) == self.rows else "rows are lost"

    def again(self) -> None:
        self.close()
        self.store = Store(self.path)
        self.store.space.keep_from(self.store.space.durable_lsn)

    def close(self) -> None:
        for snapshot, _, _ in self.readers:
            snapshot.close()
        self.readers, self.past = [], []
        self.store.close()


@pytest.mark.parametrize("seed", range(4))
def test_no_reader_notices(tmp_path: pathlib.Path, seed: int) -> None:
    trial = Trial(tmp_path, seed)
    assert trial.run(STEPS) == ""
    trial.close()
    assert trial.given > 20


@pytest.mark.parametrize("planted", [False, True], ids=["as it is", "planted"])
def test_pages_of_readers_are_missed_when_they_are_given_back(tmp_path: pathlib.Path, planted: bool) -> None:
    """LMDB may end the process that meets an empty page, so it is one of its own."""
    lines = (
        "import sys, pathlib",
        "from engine.storage import holes",
        "from tests.engine.storage.test_holes import STEPS, Trial",
        UNSEEN if planted else "",
        "sys.exit(Trial(pathlib.Path(sys.argv[1]), 0).run(STEPS) or 0)",
    )
    command = [sys.executable, "-c", "\n".join(lines), str(tmp_path)]
    ended = subprocess.run(command, check=False, capture_output=True, timeout=200)
    assert bool(ended.returncode) == planted, ended.stderr.decode()


def _filled(path: pathlib.Path, value: bytes = b"x" * 600) -> Store:
    store = Store(path)
    for start in range(0, ROWS, 500):
        store.commit({key(number): value for number in range(start, start + 500)})
    store.flush()
    return store


@pytest.mark.parametrize("kept", [0, 10, 2])
def test_what_is_packed_fills_its_pages(tmp_path: pathlib.Path, kept: int) -> None:
    """One row in `kept` stays: half-filled pages are joined, so the rows take what they would in a new file."""
    store, small = _filled(tmp_path / "large"), Store(tmp_path / "small")
    try:
        rows = {key(number): b"x" * 600 for number in range(ROWS) if kept and number % kept == 0}
        store.commit({key(number): None for number in range(ROWS) if key(number) not in rows})
        small.commit(dict(rows))
        for one in (store, small):
            pack(one, 1)
        assert used_bytes(store) <= used_bytes(small) * 1.1 + 50_000
        assert store.space._checkpoint.file_bytes[0] <= small.space._checkpoint.file_bytes[0] * 1.1 + 100_000
        assert store.contents() == small.contents() == rows
    finally:
        store.close()
        small.close()


def test_readers_keep_their_pages_and_give_them_back_at_their_end(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(space, "READERS_PAUSE", 0.05)
    monkeypatch.setattr(space, "SPARE_BYTES", 100_000)
    store = _filled(tmp_path)
    try:
        full = holes.allocated_bytes(str(file_of(store)))
        snapshot = store.space.snapshot()
        store.commit({}, drops=[1])
        pack(store)
        assert holes.allocated_bytes(str(file_of(store))) > full // 2
        assert len(read(snapshot, range(1, 2))) == ROWS
        snapshot.close()
        del snapshot
        store.loop.until(lambda: _shrunk(store, full), 20.0)
    finally:
        store.close()


def _shrunk(store: Store, full: int) -> bool:
    store.loop.calls.put(lambda: None)  # and it looks again
    return holes.allocated_bytes(str(file_of(store))) < full // 8


def test_a_dropped_range_is_flushed_and_removed_without_a_call(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(space, "SPARE_BYTES", 500_000)
    store = _filled(tmp_path)
    try:
        full = holes.allocated_bytes(str(file_of(store)))
        store.commit({key(0, 2): b"stays"}, drops=[1])
        store.loop.until(lambda: _shrunk(store, full), 20.0)
        assert store.contents(b"\0\0\0\2") == {key(0, 2): b"stays"}
    finally:
        store.close()


def test_a_file_system_without_holes_is_tried_once_and_a_start_shrinks_the_file(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []

    def refuses(file: int, offset: int, size: int) -> None:
        asked.append(offset)
        raise OSError(95, os.strerror(95))

    monkeypatch.setattr(holes, "punch", refuses)
    monkeypatch.setattr(checkpoint, "SHRINK_BYTES", 500_000)
    store = _filled(tmp_path)
    full = holes.allocated_bytes(str(file_of(store)))
    store.commit({}, drops=[1])
    pack(store)
    pack(store, 2)
    assert len(asked) == 1
    store.close()
    again = Store(tmp_path)
    assert holes.allocated_bytes(str(file_of(again))) < full // 4
    again.close()


def test_a_failure_leaves_all_as_it_is_and_is_tried_again(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = _filled(tmp_path)
    full = holes.allocated_bytes(str(file_of(store)))
    store.commit({}, drops=[1])

    def fails(file: int, offset: int, size: int) -> None:
        raise OSError(5, os.strerror(5))

    with monkeypatch.context() as patched:
        patched.setattr(holes, "punch", fails)
        pack(store)
    assert holes.allocated_bytes(str(file_of(store))) >= full
    pack(store)
    assert holes.allocated_bytes(str(file_of(store))) < full // 8
    store.close()


def test_runs_of_pages() -> None:
    pages = np.array([3, 4, 5, 9, 11, 12], np.int64)
    assert list(holes.runs(pages, 1)) == [(3, 6), (9, 10), (11, 13)]
    assert list(holes.runs(pages, 2)) == [(3, 6), (11, 13)]
    assert list(holes.runs(pages[:0], 1)) == []


def test_all_of_a_long_list_of_free_pages_is_found(tmp_path: pathlib.Path) -> None:
    """Beyond half a page the list has pages of its own."""
    store = _filled(tmp_path, b"x" * 1800)
    try:
        store.commit({key(number): None for number in range(ROWS)})
        pack(store)
        free = store.space._checkpoint.free_bytes()
        assert free < 300_000
    finally:
        with suppress(SqlError):
            store.close()
