"""The tablespace: what is read at which LSN, before, during and after flushes, restarts and failures."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lmdb
import pyarrow as pa
import pytest

from catalog.errors import SqlError
from engine.storage.branch_storage import LEANS
from engine.storage.checkpoint import Checkpoint, FormatTooNew
from engine.storage.directory_lock import DirectoryInUse
from engine.storage.edits import Edits
from engine.storage.flush import Flusher
from engine.storage.keys import encode_row_numbers, prefix_range, row_number_key, storage_prefix
from engine.storage.lmdb_writer import delete_slice
from engine.storage.memtable import Memtable
from replication.files import Files
from tests.engine.storage.harness import Store, key


def _random_writes(chance: random.Random, lsn: int) -> dict[bytes, bytes | None]:
    return {
        key(chance.randrange(40)): None if chance.random() < 0.25 else b"%d" % lsn
        for _ in range(chance.randrange(1, 6))
    }


def _apply(state: dict[bytes, bytes], writes: dict[bytes, bytes | None]) -> dict[bytes, bytes]:
    merged: dict[bytes, bytes | None] = {**state, **writes}
    return {place: value for place, value in merged.items() if value is not None}


@pytest.mark.parametrize("seed", range(4))
def test_every_reader_sees_its_state_through_flushes_and_restarts(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    store = Store(tmp_path)
    state: dict[bytes, bytes] = {}
    held: list[tuple[Any, dict[bytes, bytes]]] = []
    for _ in range(150):
        writes = _random_writes(chance, store.space.sequenced_lsn + 1)
        store.commit(writes)
        state = _apply(state, writes)
        assert store.contents() == state
        action = chance.random()
        if action < 0.15:
            held.append((store.space.snapshot(), state))
        elif action < 0.3:
            store.space.flush()
        elif action < 0.35:
            store.flush()
        elif action < 0.4 and held:
            held.pop(chance.randrange(len(held)))[0].close()
        elif action < 0.43:
            for snapshot, _ in held:
                snapshot.close()
            held.clear()
            store.close()
            store = Store(tmp_path)
            assert store.contents() == state
        store.loop.drain()
        for snapshot, then in held:
            assert dict(snapshot.scan(key(0), key(99))) == then
            assert list(snapshot.scan(key(5), key(30), reverse=True)) == sorted(
                ((k, v) for k, v in then.items() if key(5) <= k < key(30)), reverse=True
            )
            assert all(snapshot.get(key(number)) == then.get(key(number)) for number in range(40))
    for snapshot, _ in held:
        snapshot.close()
    store.close()


def test_what_is_not_durable_is_sequenced_but_not_readable(tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.commit({key(1): b"old"})
    lsn = store.space.sequence(Edits({key(1): b"new"}), 0, 0)
    assert store.space.current.get(key(1)) == b"old"
    assert store.space.newest(key(1)) == (lsn, b"new")
    store.loop.until(lambda: store.space.durable_lsn == lsn)
    assert store.space.current.get(key(1)) == b"new"
    store.close()


def test_newest_is_exact_for_keys_changed_since_an_open_snapshot(tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.commit({key(1): b"a", key(2): b"b", key(3): b"c"})
    store.flush()
    snapshot = store.space.snapshot()
    store.commit({key(1): b"A"})
    store.commit({key(2): None})
    store.flush()
    found = {number: store.space.newest(key(number)) for number in (1, 2, 3, 4)}
    assert found[1] == (2, b"A") and found[2] == (3, None) and found[4] is None
    assert found[3] is not None and found[3][0] <= snapshot.lsn and found[3][1] == b"c"
    assert store.space.changed_since(1, snapshot.lsn) == [(2, key(1)), (3, key(2))]
    snapshot.close()
    with pytest.raises(SqlError) as error:
        store.space.changed_since(1, 1)
    assert error.value.sqlstate == "72000"
    with pytest.raises(RuntimeError):
        snapshot.get(key(1))
    store.close()


def test_keys_are_new_as_long_as_nothing_is_known_of_them(tmp_path: Path) -> None:
    store = Store(tmp_path)

    def new(*numbers: int) -> bool:
        return store.space.all_new([key(number) for number in numbers])

    store.commit({key(1): b"a"})
    store.flush()
    store.commit({key(2): b"b", key(3): b"c"})
    snapshot = store.space.snapshot()
    store.commit({key(3): None})
    assert new(4, 5) and not new(4, 1) and not new(2, 4) and not new(4, 3, 5)
    store.flush()  # the snapshot still needs what was there before
    assert new(4, 5) and not new(4, 1) and not new(2, 4) and not new(4, 3, 5)
    snapshot.close()
    loaded = store.space.new_run()
    loaded.add(pa.array([key(20), key(30)], pa.binary()), pa.array([b"r", None], pa.binary()))
    store.commit({key(40): b"e"}, runs=[loaded.finish().reference])
    assert new(4) and new(19, 25, 31) and not new(4, 20) and not new(30) and not new(4, 40)
    store.flush()
    assert new(4) and new(19, 25, 31) and not new(4, 20) and not new(4, 40)
    assert new() and new(4) and not store.space.all_new([bytes([LEANS]) + key(4)[1:]])
    store.close()


def test_a_snapshot_below_the_horizon_is_refused(tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.commit({key(1): b"a"})
    store.commit({key(1): b"b"})
    with pytest.raises(SqlError) as error:
        store.space.snapshot(1)
    assert error.value.sqlstate == "72000"
    store.close()


def test_a_full_memtable_is_flushed_and_the_changelog_is_retired(tmp_path: Path) -> None:
    store = Store(tmp_path, flush_versions=100, segment_bytes=8192)
    for number in range(600):
        store.commit({key(number): b"x" * 50})
    store.loop.until(lambda: store.space.flushed_lsn >= 500)
    assert store.contents() == {key(number): b"x" * 50 for number in range(600)}
    store.close()
    assert len(list((tmp_path / "changelog").glob("*.segment"))) < 600 * 150 // 8192
    again = Store(tmp_path)
    assert again.space.flushed_lsn == 600
    assert len(again.contents()) == 600
    again.close()


def test_recovery_is_the_replay_of_the_changelog(tmp_path: Path) -> None:
    """What is in LMDB plus the tail equals every entry applied in order."""
    chance = random.Random(7)
    store = Store(tmp_path, flush_versions=30)
    state: dict[bytes, bytes] = {}
    for number in range(200):
        writes = _random_writes(chance, number)
        store.commit(writes)
        state = _apply(state, writes)
    replayed: dict[bytes, bytes] = {}
    with Checkpointed(tmp_path / "rows") as flushed:
        replayed, lsn = flushed
    for _, _, body in store.space._changelog.read(lsn):
        replayed = _apply(replayed, Edits.decode(body).writes)
    assert replayed == state == store.contents()
    store.close()


class Checkpointed:
    """The rows in LMDB and the LSN, read by another process."""

    _SCRIPT = """
import lmdb, sys, struct
e = lmdb.open(sys.argv[1], readonly=True, max_dbs=4, map_size=1 << 40)
rows, meta = e.open_db(b'rows', create=False), e.open_db(b'meta', create=False)
with e.begin() as t:
    print(struct.unpack('<Q', t.get(b'flushed', db=meta))[0])
    for k, v in t.cursor(db=rows):
        print(k.hex(), v.hex())
"""

    def __init__(self, path: Path) -> None:
        self._path = path

    def __enter__(self) -> tuple[dict[bytes, bytes], int]:
        done = subprocess.run(
            [sys.executable, "-c", self._SCRIPT, str(self._path)], capture_output=True, text=True, check=True
        )
        first, *lines = done.stdout.splitlines()
        pairs = (line.split(" ") for line in lines)
        return {bytes.fromhex(k): bytes.fromhex(v) for k, v in pairs}, int(first)

    def __exit__(self, *_: object) -> None:
        return


def test_a_bulk_run_is_read_flushed_recovered_and_removed(tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.commit({row_number_key(1, 5): b"before", row_number_key(1, 6): b"before"})
    snapshot = store.space.snapshot()
    writer = store.space.new_run()
    writer.add(
        encode_row_numbers(1, 0, 100), pa.array([None if n == 6 else b"%d" % n for n in range(100)], pa.binary())
    )
    reference = writer.finish().reference
    lsn = store.commit({row_number_key(1, 7): b"edit"}, runs=[reference])
    expected = {row_number_key(1, n): b"%d" % n for n in range(100) if n != 6} | {row_number_key(1, 7): b"edit"}
    assert store.contents() == expected
    assert len(dict(snapshot.scan(*prefix_range(storage_prefix(1))))) == 2
    assert store.space.newest(row_number_key(1, 6)) == (lsn, None)
    assert len(store.space.changed_since(1, lsn - 1)) == 100
    snapshot.close()
    bulk = tmp_path / "changelog" / "bulk"
    store.close()
    again = Store(tmp_path)
    assert again.contents() == expected
    again.close()
    assert not list(bulk.iterdir())  # in the checkpoint since the close, so removed at the open


def test_an_uncommitted_run_is_removed_at_the_next_start(tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.space.new_run().finish()
    bulk = tmp_path / "changelog" / "bulk"
    assert len(list(bulk.iterdir())) == 1
    store.close()
    Store(tmp_path).close()
    assert not list(bulk.iterdir())


def test_a_dropped_storage_id_is_deleted_in_the_background_also_after_a_restart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    deleted = threading.Event()

    def last(environment: Any, rows: Any, meta: Any, name: bytes, count: int) -> bool:
        more = delete_slice(environment, rows, meta, name, count)
        if not more:
            deleted.set()
        return more

    monkeypatch.setattr("engine.storage.checkpoint.delete_slice", last)
    store = Store(tmp_path)
    store.commit({key(1, 2): b"stays", **{key(number): b"x" for number in range(100)}})
    store.flush()
    snapshot = store.space.snapshot()
    store.commit({}, drops=[1])
    store.close()  # the drop is recorded, nothing deleted yet
    assert snapshot.lsn == 1
    assert not deleted.is_set()
    again = Store(tmp_path)
    assert deleted.wait(20)
    with again.space._checkpoint.environment.begin(db=again.space._checkpoint.rows) as transaction:
        assert [found for found, _ in transaction.cursor()] == [key(1, 2)]
    again.close()


def test_deletes_of_dropped_storage_pause_and_continue_later(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("engine.storage.checkpoint.DROP_SLICE", 10)
    store = Store(tmp_path)
    store.commit({key(number): b"x" for number in range(100)})
    store.flush()
    store.space._flusher.stop()  # type: ignore[union-attr]
    checkpoint = store.space._checkpoint
    checkpoint._lock = None  # it deletes everything itself
    with checkpoint.environment.begin(write=True, db=checkpoint._meta) as transaction:
        transaction.put(b"drop" + storage_prefix(1), b"")

    def left() -> int:
        with checkpoint.environment.begin(db=checkpoint.rows) as transaction:
            return sum(1 for _ in transaction.cursor())

    asked = iter([False, False, True])
    checkpoint.delete_dropped(lambda worked: None, lambda: next(asked))
    assert left() == 80
    checkpoint.delete_dropped(lambda worked: None, lambda: True)
    assert left() == 80
    checkpoint.delete_dropped(lambda worked: None, lambda: False)
    assert left() == 0
    store.close()


def test_the_flusher_ends_without_deleting_what_was_dropped(tmp_path: Path) -> None:
    class Deleting(Checkpoint):
        def delete_dropped(self, pause: Callable[[float], None], stop: Callable[[], bool]) -> bool:
            while not stop():
                begun.set()
            return True

    begun = threading.Event()
    checkpoint = Deleting(str(tmp_path / "rows"))
    flusher = Flusher(checkpoint, lambda _: None, lambda: 0, lambda _: None, *[lambda: None] * 2, *[lambda _: None] * 2)
    assert begun.wait(20)
    flusher.stop()
    checkpoint.close()


def test_one_process_at_a_time(tmp_path: Path) -> None:
    store = Store(tmp_path)
    with pytest.raises(DirectoryInUse) as error:
        Store(tmp_path)
    assert error.value.sqlstate == "55006"
    assert str(os.getpid()) in (error.value.hint or "")
    store.close()
    Store(tmp_path).close()


def test_a_newer_format_is_refused_and_left_alone(tmp_path: Path) -> None:
    Store(tmp_path).close()
    with lmdb.open(str(tmp_path / "rows"), max_dbs=4) as environment:
        meta = environment.open_db(b"meta")
        with environment.begin(write=True, db=meta) as transaction:
            transaction.put(b"format", (99).to_bytes(4, "little"))
    with pytest.raises(FormatTooNew):
        Store(tmp_path)
    with pytest.raises(FormatTooNew):  # nothing is left locked
        Store(tmp_path)


class FailingFiles(Files):
    """The Nth write or sync fails, and every one after it."""

    def __init__(self, nth: int) -> None:
        self.left = nth

    def _count(self) -> None:
        self.left -= 1
        if self.left < 0:
            raise OSError(5, "Input/output error")

    def write(self, fd: int, data: bytes | memoryview, offset: int) -> None:
        self._count()
        super().write(fd, data, offset)

    def sync(self, fd: int) -> None:
        self._count()
        super().sync(fd)


def _commit_until_it_fails(store: Store) -> int:
    """Commits one key after the other; the number of those that were acknowledged."""
    for number in range(1, 40):
        try:
            lsn = store.space.sequence(Edits({key(number): b"v" * 100}), 0, 0)
        except SqlError as error:
            assert error.sqlstate == "58030"
            return number - 1
        store.loop.until(lambda lsn=lsn: store.space.durable_lsn >= lsn or bool(store.fatal))  # type: ignore[misc]
        if store.fatal:
            with pytest.raises(SqlError):
                store.space.sequence(Edits({key(number): b"never"}), 0, 0)
            return number - 1
    raise AssertionError("nothing failed")


def test_every_failing_write_stops_commits_and_loses_nothing(tmp_path: Path) -> None:
    for nth in range(30):
        path = tmp_path / str(nth)
        try:
            store = Store(path, files=FailingFiles(nth), segment_bytes=2048)
        except OSError:
            Store(path).close()
            continue
        acknowledged = _commit_until_it_fails(store)
        assert len(store.fatal) == 1
        with pytest.raises(SqlError):
            store.close()
        again = Store(path)
        assert again.contents().items() >= {key(n): b"v" * 100 for n in range(1, acknowledged + 1)}.items()
        assert len(again.contents()) <= acknowledged + 1
        again.close()


def test_a_failing_flush_is_fatal_and_loses_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = Store(tmp_path)
    store.commit({key(1): b"a"})

    def fail(*_: object) -> None:
        raise lmdb.DiskError("sync failed")

    monkeypatch.setattr(Checkpoint, "write", fail)
    store.space.flush()
    store.loop.until(lambda: bool(store.fatal))
    with pytest.raises(SqlError) as error:
        store.space.sequence(Edits({key(2): b"b"}), 0, 0)
    assert error.value.sqlstate == "58030"
    store.close()
    monkeypatch.undo()
    again = Store(tmp_path)
    assert again.contents() == {key(1): b"a"}
    again.close()


def test_nothing_is_flushed_before_it_is_durable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """LMDB must never be ahead of the changelog: after a crash it would hold what nobody was ever told."""
    store = Store(tmp_path)
    flusher = store.space._flusher
    assert flusher is not None
    handed_over: list[Any] = []
    monkeypatch.setattr(flusher, "add", handed_over.append)
    lsn = store.space.sequence(Edits({key(1): b"a"}), 0, 0)
    store.space.flush()
    assert handed_over == []
    store.loop.until(lambda: store.space.durable_lsn == lsn)
    assert [layer.last_lsn for layer in handed_over] == [lsn]
    store.close()


def test_pressure_when_flushes_fall_behind(tmp_path: Path) -> None:
    store = Store(tmp_path, flush_bytes=2000)
    assert not store.space.pressure
    for number in range(100):  # nothing runs the flusher's news, so everything stays frozen
        store.space.sequence(Edits({key(number): b"x" * 100}), 0, 0)
    assert store.space.pressure
    store.loop.until(lambda: not store.space.pressure)
    store.close()


def test_what_fails_behind_the_changelog_stops_the_node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The entry will be there after a start, so nobody may be told that the commit has failed, or see half of it."""
    store = Store(tmp_path)
    with monkeypatch.context() as patched:

        def fail(*_: object) -> None:
            raise MemoryError

        patched.setattr(Memtable, "apply", fail)
        with pytest.raises(MemoryError):
            store.space.sequence(Edits({key(1): b"a"}), 0, 0)
    assert [type(error) for error in store.fatal] == [MemoryError]
    with pytest.raises(SqlError, match="storage has failed"):
        store.space.sequence(Edits({key(2): b"b"}), 0, 0)
    store.close()
    again = Store(tmp_path)
    assert again.contents() == {key(1): b"a"}
    again.close()
