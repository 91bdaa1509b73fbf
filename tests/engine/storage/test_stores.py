"""Several tablespaces as one store: routing, moments, commits over several of them, and their recovery."""

from __future__ import annotations

import shutil
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pytest

from catalog.errors import SqlError
from engine.storage.checkpoint import Checkpoint
from engine.storage.directories import GONE, MARK, LocalTablespaces
from engine.storage.edits import Edits
from engine.storage.joints import Recovering, decide
from engine.storage.moments import Moment, position
from engine.storage.stores import ObservedStores, Stores, close_together
from engine.storage.tablespace import Tablespace
from replication.local import LocalChangelog
from tests.engine.storage.harness import EngineLoop, key

Writes = dict[bytes, bytes | None]


class Spaces:
    """pg_default and one tablespace for each further name, each with an engine's thread of its own, so that a test
    says whose changelog gets on. Storage id 100 + n belongs to the n-th."""

    def __init__(self, path: Path, names: str = "ab", recover: bool = True) -> None:
        self.path = path
        self.loops: list[EngineLoop] = []
        self.fatal: list[BaseException] = []
        self.recovering: list[Recovering] = []
        for name in names:
            self._prepare(path / name)
        if recover:
            decide(self.recovering)
        for item in self.recovering:
            item.tablespace.recover()
        self.spaces = [item.tablespace for item in self.recovering]
        self.stores = Stores(self.spaces[0])
        for space in self.spaces[1:]:
            self.stores.add(space)
        for number, space in enumerate(self.spaces):
            if number:
                self.stores.route(100 + number, space)

    def _prepare(self, path: Path) -> None:
        loop = EngineLoop()
        logs: list[LocalChangelog] = []

        def open_log(
            tablespace: bytes, committed: Callable[[int], None], failed: Callable[[BaseException], None]
        ) -> LocalChangelog:
            logs.append(LocalChangelog(str(path / "changelog"), loop, committed, failed, tablespace=tablespace))
            return logs[0]

        space = Tablespace.prepare(str(path), open_log, loop, on_fatal=self.fatal.append)
        self.loops.append(loop)
        self.recovering.append(Recovering(space, logs[0]))

    def sequence(self, writes: Writes, observed: set[int] | None = None) -> int:
        return self.stores.sequence(Edits(dict(writes)), 0, 0, (), observed or ())

    def sync(self, *slots: int) -> None:
        """Everything sequenced in these tablespaces is written; it is durable if its other parts are."""
        for slot in slots or range(len(self.spaces)):
            log = self.recovering[slot].changelog
            self.loops[slot].until(lambda log=log: log.pending_bytes == 0)  # type: ignore[misc]

    def commit(self, writes: Writes) -> int:
        at = self.sequence(writes)
        self.sync()
        assert at <= self.stores.durable_lsn
        return at

    def crash(self) -> Path:
        """A copy of the directories as they are on disk now."""
        target = self.path / "crashed"
        for item in self.recovering:
            name = Path(item.tablespace.path).name
            shutil.copytree(item.tablespace.path, target / name)
        return target

    def close(self) -> None:
        close_together(self.spaces)


def test_positions_and_moments_compare_by_tablespace() -> None:
    moment = Moment((7, 3))
    assert position(0, 7) == 7 <= moment
    assert not position(0, 8) <= moment
    assert position(1, 3) <= moment
    assert position(1, 4) > moment
    assert not position(1, 3) > moment
    assert position(2, 1) > moment  # a tablespace that is younger than the moment
    assert Moment((7,)) <= moment
    assert not Moment((7, 4)) <= moment
    assert not Moment((8, 3)) <= moment


def test_keys_go_to_the_tablespace_of_their_storage_id(tmp_path: Path) -> None:
    spaces = Spaces(tmp_path)
    at = spaces.commit({key(1, 100): b"default", key(2, 1): b"system"})
    assert at == 1
    assert spaces.commit({key(1, 101): b"other"}) == position(1, 1)
    assert [space.sequenced_lsn for space in spaces.spaces] == [1, 1]
    for reader in (spaces.stores.current, spaces.stores.snapshot()):
        assert (reader.get(key(1, 100)), reader.get(key(1, 101))) == (b"default", b"other")
        assert list(reader.scan(key(0, 101), key(9, 101))) == [(key(1, 101), b"other")]
    assert spaces.stores.newest(key(1, 101)) == (position(1, 1), b"other")
    assert spaces.stores.newest(key(1, 100)) == (1, b"default")
    assert spaces.stores.of(101) is spaces.spaces[1]
    spaces.close()


def test_a_commit_over_two_tablespaces_shows_in_both_or_in_neither(tmp_path: Path) -> None:
    spaces = Spaces(tmp_path)
    told: list[tuple[int, int, bytes | None, bytes | None]] = []
    current = spaces.stores.current

    def tell(slot: int) -> Callable[[int], None]:
        return lambda lsn: told.append((slot, lsn, current.get(key(1, 100)), current.get(key(1, 101))))

    spaces.stores.on_durable(tell(0), 0)
    spaces.stores.on_durable(tell(1), 1)
    spaces.commit({key(1, 100): b"0"})
    spaces.commit({key(1, 101): b"0"})
    told.clear()
    before = spaces.stores.snapshot()
    at = spaces.sequence({key(1, 100): b"1", key(1, 101): b"1"})
    later = spaces.sequence({key(2, 101): b"behind it"})
    spaces.sync(1)
    assert told == []
    assert at > spaces.stores.durable_lsn
    assert (current.get(key(1, 100)), current.get(key(1, 101)), current.get(key(2, 101))) == (b"0", b"0", None)
    spaces.sync(0)
    assert told == [(0, 2, b"1", b"1"), (1, 3, b"1", b"1")]
    assert at <= spaces.stores.durable_lsn and later <= spaces.stores.durable_lsn
    assert (before.get(key(1, 100)), before.get(key(1, 101))) == (b"0", b"0")
    assert spaces.stores.newest(key(1, 101)) == (position(1, 2), b"1")
    assert position(1, 2) > before.lsn
    before.close()
    spaces.close()


def test_the_dependencies_of_a_commit_in_another_tablespace_are_durable_with_it(tmp_path: Path) -> None:
    spaces = Spaces(tmp_path)
    spaces.sequence({key(1, 100): b"read by the next"})
    observer = ObservedStores(spaces.stores)
    assert observer.newest(key(1, 100)) == (1, b"read by the next")
    at = spaces.sequence({key(1, 101): b"stands on it"}, observer.observed)
    spaces.sync(1)
    assert at > spaces.stores.durable_lsn
    crashed = Spaces(spaces.crash())
    assert crashed.stores.current.get(key(1, 101)) is None
    crashed.close()
    spaces.sync(0)
    assert at <= spaces.stores.durable_lsn
    assert spaces.spaces[0].sequenced_lsn == 2
    at = spaces.sequence({key(1, 101): b"again"}, observer.observed)  # nothing there waits any more
    assert spaces.spaces[0].sequenced_lsn == 2
    spaces.close()


def test_a_snapshot_does_not_see_a_tablespace_that_is_younger(tmp_path: Path) -> None:
    spaces = Spaces(tmp_path, "a")
    spaces.commit({key(1, 100): b"old"})
    snapshot = spaces.stores.snapshot()
    spaces._prepare(tmp_path / "b")
    space = spaces.recovering[1].tablespace
    space.recover()
    spaces.spaces.append(space)
    spaces.stores.add(space)
    spaces.stores.route(101, space)
    spaces.commit({key(1, 101): b"new"})
    assert snapshot.get(key(1, 101)) is None
    assert list(snapshot.scan(key(0, 101), key(9, 101))) == []
    newest = spaces.stores.newest(key(1, 101))
    assert newest is not None and newest[0] > snapshot.lsn
    snapshot.close()
    spaces.close()


def test_what_is_not_on_this_node_is_refused(tmp_path: Path) -> None:
    spaces = Spaces(tmp_path, "a")
    spaces.stores.route(105, None)
    for call in (
        lambda: spaces.stores.current.get(key(1, 105)),
        lambda: spaces.stores.newest(key(1, 105)),
        lambda: spaces.sequence({key(1, 105): b"x"}),
        lambda: spaces.stores.of(105),
    ):
        with pytest.raises(SqlError, match="not on this node"):
            call()
    with spaces.stores.snapshot() as snapshot, pytest.raises(SqlError, match="not on this node"):
        snapshot.get(key(1, 105))
    spaces.close()


def test_a_tablespace_that_is_guarded_shows_what_is_durable_and_nothing_else_until_it_is_reopened(
    tmp_path: Path,
) -> None:
    spaces = Spaces(tmp_path)
    spaces.commit({key(1, 100): b"a", key(1, 101): b"b"})
    stores = spaces.stores
    with stores.snapshot() as snapshot:
        stores.guard(spaces.spaces[1], lambda: SqlError("40001", "led elsewhere"))
        stores.route(102, spaces.spaces[1])
        for call in (
            lambda: stores.newest(key(1, 101)),
            lambda: stores.scan_newest(key(1, 102), key(2, 102)),
            lambda: spaces.sequence({key(1, 100): b"x", key(1, 101): b"x"}),
            lambda: spaces.sequence({key(1, 101): b"x"}),
        ):
            with pytest.raises(SqlError, match="led elsewhere"):
                call()
        assert stores.current.get(key(1, 101)) == snapshot.get(key(1, 101)) == b"b"
        assert stores.newest(key(1, 100)) == (1, b"a")
        stores.reopen(spaces.spaces[1])
        assert stores.newest(key(1, 101)) is not None
    assert stores.current.get(key(1, 102)) is None
    spaces.close()


def test_a_snapshot_from_before_this_node_led_a_tablespace_is_not_read_there(tmp_path: Path) -> None:
    spaces = Spaces(tmp_path)
    spaces.commit({key(1, 100): b"a", key(1, 101): b"b"})
    with spaces.stores.snapshot() as old:
        spaces.commit({key(1, 101): b"of another leader"})
        spaces.spaces[1].led_from = spaces.spaces[1].durable_lsn
        for read in (lambda: old.get(key(1, 101)), lambda: list(old.scan(key(1, 101), key(2, 101)))):
            with pytest.raises(SqlError) as caught:
                read()
            assert caught.value.sqlstate == "40001"
        assert old.get(key(1, 100)) == b"a"
    with spaces.stores.snapshot() as new:
        assert new.get(key(1, 101)) == b"of another leader"
    spaces.close()


class Deposed:
    """A changelog of a node that leads no more."""

    leading = False
    pending_bytes = 0

    def close(self) -> None:
        return


def test_a_commit_is_sequenced_nowhere_when_one_of_its_tablespaces_takes_no_entries(tmp_path: Path) -> None:
    spaces = Spaces(tmp_path)
    kept = spaces.recovering[1].changelog
    spaces.spaces[1].use_changelog(cast(Any, Deposed()))
    with pytest.raises(SqlError) as caught:
        spaces.sequence({key(1, 100): b"x", key(1, 101): b"x"})
    assert caught.value.sqlstate == "40001"
    assert spaces.stores.newest(key(1, 100)) is None
    assert spaces.fatal == []
    spaces.spaces[1].use_changelog(kept)
    spaces.commit({key(1, 100): b"y", key(1, 101): b"y"})
    spaces.close()


# ---- recovery -------------------------------------------------------------------------------------------------------


def test_a_commit_with_all_parts_is_recovered_one_without_is_not(tmp_path: Path) -> None:
    spaces = Spaces(tmp_path)
    spaces.commit({key(1, 100): b"1", key(1, 101): b"1"})
    spaces.sequence({key(1, 100): b"2", key(1, 101): b"2"})
    spaces.sequence({key(2, 100): b"behind"})
    spaces.sync(0)
    crashed = Spaces(spaces.crash())
    current = crashed.stores.current
    assert (current.get(key(1, 100)), current.get(key(1, 101)), current.get(key(2, 100))) == (b"1", b"1", None)
    crashed.commit({key(1, 100): b"3", key(1, 101): b"3"})
    again = Spaces(crashed.crash())
    assert (again.stores.current.get(key(1, 100)), again.stores.current.get(key(1, 101))) == (b"3", b"3")
    for item in (again, crashed, spaces):
        item.close()


def test_without_the_decision_a_crash_would_leave_half_a_commit(tmp_path: Path) -> None:
    spaces = Spaces(tmp_path)
    spaces.commit({key(1, 100): b"1", key(1, 101): b"1"})
    spaces.sequence({key(1, 100): b"2", key(1, 101): b"2"})
    spaces.sync(0)
    planted = Spaces(spaces.crash(), recover=False)
    assert (planted.stores.current.get(key(1, 100)), planted.stores.current.get(key(1, 101))) == (b"2", b"1")
    planted.close()
    spaces.close()


def test_taking_one_commit_off_takes_off_those_that_stand_behind_it_elsewhere(tmp_path: Path) -> None:
    spaces = Spaces(tmp_path, "abc")
    spaces.commit({key(1, 100): b"0", key(1, 101): b"0", key(1, 102): b"0"})
    spaces.sequence({key(1, 100): b"1", key(1, 101): b"1"})  # its part in a is lost
    spaces.sequence({key(2, 101): b"2", key(2, 102): b"2"})  # whole, but behind the first in b
    spaces.sequence({key(3, 102): b"3"})  # behind the second in c
    spaces.sync(1, 2)
    crashed = Spaces(spaces.crash(), "abc")
    current = crashed.stores.current
    assert [current.get(key(1, storage_id)) for storage_id in (100, 101, 102)] == [b"0"] * 3
    assert [current.get(key(2, 101)), current.get(key(2, 102)), current.get(key(3, 102))] == [None] * 3
    assert [space.sequenced_lsn for space in crashed.spaces] == [1, 1, 1]
    crashed.close()
    spaces.close()


def test_parts_in_a_flushed_tablespace_and_in_a_dropped_one_are_there(tmp_path: Path) -> None:
    spaces = Spaces(tmp_path, "abc")
    spaces.commit({key(1, 100): b"1", key(1, 101): b"1", key(1, 102): b"1"})
    spaces.commit({key(2, 100): b"2", key(2, 101): b"2"})
    spaces.spaces[1].flush()
    spaces.loops[1].until(lambda: spaces.spaces[1].flushed_lsn == 2)
    crashed = Spaces(spaces.crash(), "ab")
    current = crashed.stores.current
    assert [current.get(key(1, 100)), current.get(key(2, 100)), current.get(key(2, 101))] == [b"1", b"2", b"2"]
    crashed.close()
    spaces.close()


def test_closing_with_a_commit_under_way_keeps_all_of_it(tmp_path: Path) -> None:
    spaces = Spaces(tmp_path)
    spaces.sequence({key(1, 100): b"1", key(1, 101): b"1"})
    spaces.close()
    again = Spaces(tmp_path)
    assert (again.stores.current.get(key(1, 100)), again.stores.current.get(key(1, 101))) == (b"1", b"1")
    again.close()


# ---- directories ----------------------------------------------------------------------------------------------------


class Directory:
    """A data directory as the composition root opens it."""

    def __init__(self, path: Path, keep: bool = False) -> None:
        self.loop = EngineLoop()
        self.fatal: list[BaseException] = []
        self.logs: dict[bytes, LocalChangelog] = {}
        self.spaces = LocalTablespaces(str(path), self._open_log, self.loop, self.fatal.append, keep)
        self.first = self.spaces.open()

    def _open_log(
        self,
        directory: str,
        tablespace: bytes,
        committed: Callable[[int], None],
        failed: Callable[[BaseException], None],
    ) -> LocalChangelog:
        path = f"{directory}/changelog"
        self.logs[tablespace] = LocalChangelog(path, self.loop, committed, failed, tablespace=tablespace)
        return self.logs[tablespace]


ONE, TWO = b"1" * 16, b"2" * 16


def names(path: Path) -> list[str]:
    return sorted(item.name for item in (path / "tablespaces").iterdir() if not item.name.endswith(GONE))


@pytest.mark.parametrize("keep", [False, True])
def test_a_flush_that_fails_since_the_directory_is_gone_is_no_failure(
    keep: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, moved = threading.Event(), threading.Event()
    original = Checkpoint.free_bytes

    def late(checkpoint: Checkpoint) -> int:
        if checkpoint.tablespace == ONE and threading.current_thread() is not threading.main_thread():
            begun.set()
            assert moved.wait(30)
        return original(checkpoint)

    monkeypatch.setattr(Checkpoint, "free_bytes", late)
    directory = Directory(tmp_path, keep)
    space = directory.spaces.create(ONE)
    assert begun.wait(30)
    directory.spaces.doubt(ONE)
    directory.spaces.remove(space)
    moved.set()
    end = time.monotonic() + 30
    while any(thread.name == "drop-tablespace" for thread in threading.enumerate()) and time.monotonic() < end:
        time.sleep(0.01)
    directory.loop.drain()
    assert directory.fatal == []


def test_a_tablespace_whose_create_was_not_committed_is_removed_at_start(tmp_path: Path) -> None:
    directory = Directory(tmp_path)
    directory.spaces.create(ONE)
    directory.spaces.create(TWO)
    directory.spaces.keep(TWO)
    directory.spaces.close()
    assert names(tmp_path) == [ONE.hex(), TWO.hex()]
    again = Directory(tmp_path)
    again.spaces.settle([TWO])
    assert names(tmp_path) == [TWO.hex()]
    assert list(again.spaces.found) == [TWO]
    again.spaces.close()


def test_a_committed_create_and_an_uncommitted_drop_lose_their_mark(tmp_path: Path) -> None:
    directory = Directory(tmp_path)
    space = directory.spaces.create(ONE)
    space.sequence(Edits({key(1, 100): b"1"}), 0, 0)
    directory.spaces.close()
    for _ in range(2):
        again = Directory(tmp_path)
        again.spaces.settle([ONE])
        assert not (tmp_path / "tablespaces" / ONE.hex() / MARK).exists()
        assert again.spaces.found[ONE].current.get(key(1, 100)) == b"1"
        again.spaces.doubt(ONE)
        again.spaces.close()


def test_a_committed_drop_is_finished_at_start(tmp_path: Path) -> None:
    directory = Directory(tmp_path)
    directory.spaces.create(ONE)
    directory.spaces.keep(ONE)
    directory.spaces.doubt(ONE)
    directory.spaces.close()
    again = Directory(tmp_path)
    again.spaces.settle([])
    assert names(tmp_path) == []
    again.spaces.close()


def test_a_directory_that_the_catalog_does_not_know_is_left_alone_unless_it_is_marked(tmp_path: Path) -> None:
    directory = Directory(tmp_path)
    directory.spaces.create(ONE)
    directory.spaces.keep(ONE)
    directory.spaces.close()
    again = Directory(tmp_path)
    again.spaces.settle([])
    assert names(tmp_path) == [ONE.hex()]
    again.spaces.close()


def test_a_missing_directory_is_damage(tmp_path: Path) -> None:
    directory = Directory(tmp_path)
    with pytest.raises(SqlError, match="is missing") as caught:
        directory.spaces.settle([ONE])
    assert caught.value.sqlstate == "XX001"
    directory.spaces.close()


def test_a_half_made_directory_is_removed(tmp_path: Path) -> None:
    directory = Directory(tmp_path)
    directory.spaces.create(ONE)
    directory.spaces.close()
    (tmp_path / "tablespaces" / ONE.hex() / "rows" / "data.mdb").write_bytes(b"half")
    again = Directory(tmp_path)
    again.spaces.settle([])
    assert names(tmp_path) == []
    again.spaces.close()


def test_a_tablespace_is_removed_and_the_others_continue(tmp_path: Path) -> None:
    directory = Directory(tmp_path)
    space = directory.spaces.create(ONE)
    directory.spaces.doubt(ONE)
    directory.spaces.remove(space)
    assert names(tmp_path) == []
    directory.first.sequence(Edits({key(1, 1): b"1"}), 0, 0)
    directory.spaces.close()
    assert Directory(tmp_path).first.current.get(key(1, 1)) == b"1"


def test_the_past_of_a_removed_tablespace_is_read_where_it_was_moved_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where the disk fails right behind the move."""

    def fails(path: str) -> None:
        raise OSError("the disk fails")

    directory = Directory(tmp_path, keep=True)
    space = directory.spaces.create(ONE)
    directory.spaces.keep(ONE)
    space.sequence(Edits({key(1, 1): b"1"}), 0, 0)
    directory.loop.until(lambda: space.durable_lsn == 1)
    monkeypatch.setattr("engine.storage.directories.sync_directory", fails)
    directory.spaces.remove(space)
    assert ONE in directory.spaces.dropped
    assert [entry.header.lsn for entry in directory.logs[ONE].entries(0, 1)] == [1]
    directory.spaces.close()


def test_closing_does_not_flush_a_commit_whose_other_part_could_not_be_written(tmp_path: Path) -> None:
    spaces = Spaces(tmp_path)
    spaces.commit({key(1, 100): b"1", key(1, 101): b"1"})
    spaces.sequence({key(1, 100): b"2", key(1, 101): b"2"})
    broken = spaces.recovering[1].changelog
    broken._fail(OSError(5, "planted"))  # type: ignore[attr-defined]
    with pytest.raises(SqlError, match="planted"):
        spaces.close()
    again = Spaces(tmp_path)
    assert (again.stores.current.get(key(1, 100)), again.stores.current.get(key(1, 101))) == (b"1", b"1")
    again.close()
