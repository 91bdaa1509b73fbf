"""Layers that a process of its own writes into LMDB."""

from __future__ import annotations

import contextlib
import os
import pathlib
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator

import pytest

from catalog import stillness
from catalog.errors import SqlError
from engine.storage import checkpoint
from engine.storage.checkpoint import Checkpoint
from engine.storage.directory_lock import DirectoryInUse, lock_directory
from engine.storage.memtable import Memtable
from engine.storage.views import Layer
from tests.engine.storage.harness import Store, key


@pytest.fixture
def tables(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Checkpoint]:
    """Tables of which every layer is written by another process."""
    monkeypatch.setattr(checkpoint, "APART_KEYS", 0)
    monkeypatch.setattr(Checkpoint, "_write_here", None)
    lock = lock_directory(str(tmp_path))
    opened = Checkpoint(str(tmp_path / "rows"), lock=lock)
    yield opened
    opened.close()
    os.close(lock)


def layer(lsn: int, writes: dict[bytes, bytes | None], drops: list[int] | None = None) -> Memtable:
    made = Memtable(lsn)
    made.apply(lsn, writes, lsn)
    made.drop(lsn, drops or [])
    return made


def stored(tables: Checkpoint) -> dict[bytes, bytes]:
    with tables.environment.begin(db=tables.rows) as transaction:
        return dict(transaction.cursor())


def no_pause(_: float) -> None:
    return


def the_child() -> int:
    """The process that a write of this test has started."""
    children: list[int] = []
    names: dict[int, bytes] = {}
    for task in pathlib.Path("/proc/self/task").iterdir():
        with contextlib.suppress(FileNotFoundError):  # the thread has just ended
            children += map(int, (task / "children").read_text().split())
    for child in children:
        with contextlib.suppress(FileNotFoundError):
            names[child] = pathlib.Path(f"/proc/{child}/cmdline").read_bytes()
    return next(child for child, name in names.items() if b"engine.storage.lmdb_writer" in name)


def test_writes_deletions_and_drops_arrive(tables: Checkpoint) -> None:
    first = {key(number): b"%d" % number for number in range(20_000)}
    tables.write(layer(1, dict(first)), no_pause)
    assert stored(tables) == first
    leaning = b"\x80\0\0\1"
    second: dict[bytes, bytes | None] = {key(number): None for number in range(0, 20_000, 3)}
    second |= {key(1): b"", key(2): b"x" * 9_000_000, leaning + b"a": None, leaning + b"b": b"v"}
    tables.write(layer(2, second, [7, 9]), no_pause)
    expected = {place: value for place, value in {**first, **second}.items() if value is not None}
    assert stored(tables) == {**expected, leaning + b"a": b""}
    with tables.environment.begin() as transaction:
        assert tables.drops_in(transaction) == [7, 9]
    assert tables.flushed_lsn == 2
    tables.write(layer(3, {}), no_pause)
    tables.close()
    again = Checkpoint(tables.path)
    assert again.flushed_lsn == 3
    again.close()


def test_what_was_dropped_is_deleted_and_makes_way(tables: Checkpoint, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checkpoint, "DROP_SLICE", 10)
    kept = {key(number, 2): b"y" for number in range(10)}
    tables.write(layer(1, {key(number): b"x" for number in range(2_000)} | dict(kept)), no_pause)
    tables.write(layer(2, {key(1, 3): b"z"}, [1, 3]), no_pause)
    seen: list[int] = []

    def stop_when_some_are_gone() -> bool:
        seen.append(len(stored(tables)))
        return seen[-1] < 1_990  # the first slice is the server's own

    tables.delete_dropped(no_pause, stop_when_some_are_gone)
    assert len(stored(tables)) > len(kept) + 1
    tables.delete_dropped(no_pause, lambda: False)
    assert stored(tables) == kept
    with tables.environment.begin() as transaction:
        assert tables.drops_in(transaction) == []


def test_a_process_that_is_killed_has_written_nothing(tables: Checkpoint, monkeypatch: pytest.MonkeyPatch) -> None:
    """So the server writes it."""
    own: list[int] = []

    def write(layer: Layer, *_: object) -> None:
        assert stored(tables) == {key(1): b"kept"} and tables.flushed_lsn == 1
        own.append(layer.last_lsn)

    monkeypatch.setattr(tables, "_write_here", write)
    tables.write(layer(1, {key(1): b"kept"}), no_pause)
    tables.write(layer(2, {key(number): b"x" for number in range(100_000)}), lambda _: end_the_child(signal.SIGKILL))
    assert own == [2]
    tables.write(layer(3, {key(2): b"later"}), no_pause)
    assert stored(tables) == {key(1): b"kept", key(2): b"later"}


def end_the_child(number: signal.Signals) -> None:
    with contextlib.suppress(StopIteration):  # it was
        os.kill(the_child(), number)


@pytest.fixture
def quick(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Checkpoint]:
    """Tables of which every layer and range is written by another process, which is not waited for if it does nothing
    for a second; the server can write as well."""
    monkeypatch.setattr(checkpoint, "APART_KEYS", 0)
    monkeypatch.setattr(checkpoint, "DROP_SLICE", 10)
    monkeypatch.setattr(stillness, "LOOK_SECONDS", 0.1)
    monkeypatch.setattr(stillness, "STILL_SECONDS", 1.0)
    lock = lock_directory(str(tmp_path))
    opened = Checkpoint(str(tmp_path / "rows"), lock=lock)
    yield opened
    opened.close()
    os.close(lock)


ENDS = (signal.SIGKILL, signal.SIGSTOP)


@pytest.mark.parametrize("number", ENDS)
@pytest.mark.parametrize("place", [0, 1, 5])
def test_a_layer_is_written_whatever_becomes_of_the_process(
    quick: Checkpoint, number: signal.Signals, place: int
) -> None:
    """`place`: how much it has been given."""
    given: list[float] = []

    def end(worked: float) -> None:
        given.append(worked)
        if len(given) == place + 1:
            end_the_child(number)

    quick.write(layer(1, {key(0): b"before"}), no_pause)
    rows = {key(number): b"x" * 1000 for number in range(20_000)}
    quick.write(layer(2, dict(rows), [7]), end)
    assert stored(quick) == rows and quick.flushed_lsn == 2 and len(given) > place
    with quick.environment.begin() as transaction:
        assert quick.drops_in(transaction) == [7]


@pytest.mark.parametrize("number", ENDS)
@pytest.mark.parametrize("work", ["delete", "pack"])
def test_a_range_is_deleted_or_packed_whatever_becomes_of_the_process(
    quick: Checkpoint, number: signal.Signals, work: str
) -> None:
    """One that was stopped holds nobody who stops it."""
    kept = {key(number, 2): b"y" for number in range(10)}
    rows = {key(number): b"x" * 100 for number in range(2_000)}
    quick.write(layer(1, rows | dict(kept)), no_pause)
    looks: list[int] = []

    def stop() -> bool:
        end_the_child(number)
        looks.append(1)
        return number == signal.SIGSTOP and len(looks) > 3

    if work == "delete":
        quick.write(layer(2, {}, [1]), no_pause)
        quick.delete_dropped(no_pause, stop)
        quick.delete_dropped(no_pause, lambda: False)
        assert stored(quick) == kept
    else:
        quick.write(layer(2, {name: None for place, name in enumerate(rows) if place % 4}), no_pause)
        low, high = key(0), key(0, 2)
        left = quick.pack(low, high, no_pause, stop)
        while left is not None:
            left = quick.pack(left, high, no_pause, lambda: False)
        assert stored(quick) == dict([*rows.items()][::4]) | kept
    assert looks


def test_a_failed_write_is_reported(tables: Checkpoint, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checkpoint, "map_size", lambda _: 1 << 20)
    with pytest.raises(SqlError, match=r"the map of the tables in .* is full") as raised:
        tables.write(layer(1, {key(number): b"x" * 100 for number in range(50_000)}), no_pause)
    assert raised.value.sqlstate == "53100"


def test_the_server_writes_where_no_process_can_be_started(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checkpoint, "APART_KEYS", 0)
    monkeypatch.setattr(sys, "executable", str(tmp_path / "nothing"))
    lock = lock_directory(str(tmp_path))
    tables = Checkpoint(str(tmp_path / "rows"), lock=lock)
    tables.write(layer(1, {key(1): b"a"}), no_pause)
    assert stored(tables) == {key(1): b"a"}
    tables.close()
    os.close(lock)


def test_a_killed_server_s_writing_process_is_waited_for(tmp_path: pathlib.Path) -> None:
    """It has the lock of the directory; whoever owned that is gone."""
    Store(tmp_path).close()
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    lock = lock_directory(str(tmp_path))
    os.pwrite(lock, b"%-20d\n" % gone.pid, 0)
    writing = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE, pass_fds=(lock,))
    os.close(lock)
    opened: list[Store] = []
    opening = threading.Thread(target=lambda: opened.append(Store(tmp_path)))
    opening.start()
    opening.join(0.2)
    assert not opened
    writing.communicate(b"\n")
    opening.join()
    with pytest.raises(DirectoryInUse):  # at once, its owner is alive
        lock_directory(str(tmp_path))
    opened[0].close()
