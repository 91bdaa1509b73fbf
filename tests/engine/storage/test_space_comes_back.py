"""Space that is free goes back to the file system by itself, whoever keeps it for a while and whatever fails once.

Generated: work that leaves pages free, beside readers that come and go, while the engine's thread is late and single
steps fail. When all of it is over and nothing else happens, the file takes what its rows take.
"""

from __future__ import annotations

import errno
import gc
import os
import pathlib
import queue
import random
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import lmdb
import pytest

import engine.foreground
from catalog.errors import SqlError
from engine.storage import checkpoint, flush, holes, space, tablespace
from engine.storage.edits import Edits
from engine.storage.keys import prefix_range, storage_prefix
from engine.storage.tablespace import Tablespace
from engine.storage.views import Snapshot
from tests.engine.storage.harness import EngineLoop, Store, key
from tests.samples import some

ROWS = 900
VALUE = b"x" * 600
SPARE = 100_000  # in the place of flush.SPARE_BYTES
SLACK = 100_000  # bytes of LMDB's own list of free pages, and of runs that are too short to be given back
PATIENCE = 20.0  # seconds
STEPS = 25

READER = """
import lmdb, sys
environment = lmdb.open(sys.argv[1], map_size=1 << 40, max_dbs=4, readonly=True)
for line in sys.stdin:
    if line == "begin\\n":
        held = environment.begin()
    else:
        held.abort()
    print("done", flush=True)
"""


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(space, "READERS_PAUSE", 0.03)
    monkeypatch.setattr(flush, "FULL_PAUSE", 0.03)
    monkeypatch.setattr(space, "SPARE_BYTES", SPARE)
    monkeypatch.setattr(space, "ASKED_SPARE_BYTES", SPARE)
    monkeypatch.setattr(space, "LONGEST_PAUSE", 0.1)
    monkeypatch.setattr(space, "IMPOSSIBLE_PAUSE", 0.1)
    monkeypatch.setattr(engine.foreground, "COLLECT_SECONDS", 0.0)


def _lmdb_full() -> Exception:
    return lmdb.DiskError("mdb_txn_commit: No space left on device")


def _os(number: int) -> Callable[[], Exception]:
    return lambda: OSError(number, os.strerror(number))


def _no_room() -> Exception:
    return SqlError("53100", "no room")


FAULTS: dict[str, tuple[Any, str, Callable[[], Exception]]] = {
    **{f"a hole: {name}": (holes, "punch", _os(getattr(errno, name)))
       for name in ("ENOSPC", "EINTR", "EOPNOTSUPP", "EBUSY", "EIO", "EINVAL")},
    "giving back: EMFILE": (checkpoint, "give_back", _os(errno.EMFILE)),
    "giving back: no room": (checkpoint, "give_back", _lmdb_full),
    "parting: no room": (checkpoint.Checkpoint, "part_from_readers", _no_room),
    "deleting: no room": (checkpoint, "delete_slice", _lmdb_full),
    "deleting: the map is full": (checkpoint, "delete_slice", lambda: lmdb.MapFullError("mdb_put: MDB_MAP_FULL")),
    "packing: no room": (checkpoint, "pack_slice", _lmdb_full),
    "writing: no room": (checkpoint.Checkpoint, "write", _no_room),
    "the engine's next look": (Tablespace, "_read_anew", MemoryError),
}  # fmt: skip
"""Which step fails once, and how."""


class OtherProcess:
    """One that reads the tables, and may be killed."""

    def __init__(self, path: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-c", READER, path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def say(self, what: str) -> None:
        assert self._process.stdin is not None and self._process.stdout is not None
        print(what, file=self._process.stdin, flush=True)
        assert self._process.stdout.readline() == "done\n"

    def kill(self) -> None:
        self._process.kill()
        self._process.communicate()


class Story:
    def __init__(self, path: pathlib.Path, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
        self.chance = random.Random(seed)
        self.store = Store(path)
        self.store.space.keep_from(0)
        self.patch = monkeypatch
        self.ids: list[int] = []
        self.gone: list[int] = []
        self.next = 1
        self.snapshots: list[Snapshot] = []
        self.others: list[OtherProcess] = []
        self.told: list[SqlError | None] = []
        self.asked = 0
        self.asking = False
        self.said: list[str] = []

    # ---- steps

    def run(self) -> None:
        for _ in range(STEPS):
            step = self.chance.choice(
                (
                    self.fill,
                    self.fill,
                    self.drop,
                    self.drop,
                    self.thin,
                    self.vacuum,
                    self.flush,
                    self.look,
                    self.leave,
                    self.past,
                    self.engine,
                    self.engine,
                    self.wait,
                    self.fault,
                    self.other,
                )
            )
            self.said.append(step.__name__)
            step()

    def commit(self, edits: Edits) -> None:
        lsn = self.store.space.sequence(edits, 0, 0)
        self.until(lambda: self.store.space.durable_lsn >= lsn)

    def until(self, condition: Callable[[], bool]) -> None:
        while not condition():
            with suppress(MemoryError):
                self.store.loop.until(condition, PATIENCE)

    def fill(self) -> None:
        self.ids.append(self.next)
        self.next += 1
        self.commit(Edits({key(number, self.ids[-1]): VALUE for number in range(ROWS)}))

    def drop(self) -> None:
        if self.ids:
            self.gone.append(self.ids.pop(self.chance.randrange(len(self.ids))))
            self.commit(Edits({key(0, 1 << 20): b"x"}, drops=[self.gone[-1]]))

    def thin(self) -> None:
        if self.ids:
            one = self.chance.choice(self.ids)
            self.commit(Edits({key(number, one): None for number in range(ROWS) if number % 8}))

    def vacuum(self) -> None:
        if self.chance.random() < 0.5:
            self.store.space.give_back()
        else:
            self.asked += 1
            self.store.space.pack([one for one in self.ids if self.chance.random() < 0.5], self.told.append)

    def packed(self) -> bool:
        """VACUUM FULL of all tables: whether it has been told how it ended. To be called until it is."""
        if len(self.told) == self.asked:
            if self.asking:
                self.asking = False
                return True
            self.asking = True
            self.asked += 1
            self.store.space.pack(self.ids, self.told.append)
        return False

    def flush(self) -> None:
        self.store.space.flush()

    def look(self) -> None:
        self.snapshots.append(self.store.space.snapshot())

    def leave(self) -> None:
        if self.snapshots:
            self.snapshots.pop(self.chance.randrange(len(self.snapshots))).close()

    def past(self) -> None:
        self.store.space.keep_from(self.store.space.durable_lsn)

    def engine(self) -> None:
        """The engine's thread does some of what it is asked for; what fails there is logged."""
        for _ in range(self.chance.randrange(4)):
            with suppress(queue.Empty, MemoryError):
                self.store.loop.calls.get(timeout=0.05)()

    def wait(self) -> None:
        time.sleep(self.chance.random() * 0.06)

    def fault(self, name: str = "") -> None:
        """A step fails when it is next taken."""
        place, step, error = FAULTS[name or self.chance.choice(list(FAULTS))]
        works = getattr(place, step)
        broken = [error()]

        def breaks(*arguments: Any, **named: Any) -> Any:
            if broken and (place is not Tablespace or sys._getframe(1).f_code.co_name == "_rewritten"):
                raise broken.pop()
            return works(*arguments, **named)

        self.patch.setattr(place, step, breaks)

    def other(self) -> None:
        """Another process reads, or has read, or is killed meanwhile."""
        if not self.others or self.chance.random() < 0.3:
            self.others.append(OtherProcess(self.store.space.checkpoint_path))
            self.others[-1].say("begin")
        elif self.chance.random() < 0.5:
            self.others[-1].say("abort")
            self.others[-1].say("begin")
        else:
            self.others.pop().kill()

    # ---- the end

    def over(self) -> str:
        """What is wrong once everybody has gone."""
        while self.snapshots:
            self.snapshots.pop().close()
        while self.others:
            self.others.pop().kill()
        if self.settle(self._all_is_gone):
            return ""
        return f"{self._spare()} bytes stay, {self.asked - len(self.told)} are not told: {self.said}"

    def settle(self, condition: Callable[[], bool]) -> bool:
        """Whether the condition comes true while time passes and the engine does what it is asked for."""
        end = time.monotonic() + PATIENCE
        while not condition():
            if time.monotonic() > end:
                return False
            self.past()
            if self.store.space.held:  # as engine/past/manager.py looks
                self.store.space.held = False
                engine.foreground.foreground().collect()
            self.engine()
            time.sleep(0.01)
        return True

    def _all_is_gone(self) -> bool:
        ranges = [prefix_range(storage_prefix(one)) for one in self.gone]
        deleted = not self._checkpoint.weighs(ranges, SPARE)
        return deleted and self._spare() <= 2 * SPARE + SLACK and len(self.told) == self.asked

    @property
    def _checkpoint(self) -> checkpoint.Checkpoint:
        return self.store.space._checkpoint

    def _spare(self) -> int:
        return self._checkpoint.free_bytes()

    def close(self) -> None:
        self.patch.undo()  # nothing fails any more
        for other in self.others:
            other.kill()
        self.store.close()


@pytest.fixture
def seed() -> int:
    return 0


@pytest.fixture
def story(tmp_path: pathlib.Path, seed: int, monkeypatch: pytest.MonkeyPatch) -> Iterator[Story]:
    made = Story(tmp_path, seed, monkeypatch)
    yield made
    made.close()


@pytest.mark.parametrize("seed", some(range(40), 4))
def test_all_space_is_returned_when_no_reader_is_left(story: Story) -> None:
    story.run()
    assert story.over() == ""


@pytest.mark.parametrize("step", FAULTS)
@pytest.mark.parametrize("asked", [False, True], ids=["dropped", "asked for"])
def test_each_step_that_fails_once_is_tried_again(story: Story, step: str, asked: bool) -> None:
    story.fill()
    story.store.flush()
    if asked:
        story.thin()
    story.fault(step)
    if asked:
        assert story.settle(story.packed)
        if any(story.told):  # a full disk is told; and then it is not done
            assert story.settle(story.packed)
    else:
        story.drop()
    assert story.over() == ""


def test_what_is_dropped_while_the_engine_is_late_goes(story: Story, monkeypatch: pytest.MonkeyPatch) -> None:
    """It begins a newer read transaction for what was dropped before, and that is older than what was dropped since."""
    late: list[Callable[[], None]] = []

    def holds(loop: EngineLoop, call: Callable[[], None]) -> None:
        (late.append if getattr(call, "__name__", "") == "_rewritten" else loop.calls.put)(call)

    story.fill()
    story.fill()
    story.store.flush()
    with monkeypatch.context() as patched:
        patched.setattr(EngineLoop, "__call__", holds)
        story.drop()
        assert story.settle(lambda: bool(late))
        full = story._spare()
        story.drop()
        assert story.settle(lambda: story._spare() > full + ROWS * len(VALUE) // 2)
    late.pop()()
    assert story.over() == ""


def test_a_reader_that_is_killed_keeps_nothing(story: Story) -> None:
    """Nobody is told of its end."""
    story.fill()
    story.store.flush()
    story.others.append(OtherProcess(story.store.space.checkpoint_path))
    story.others[0].say("begin")
    story.drop()
    assert story.settle(lambda: story._spare() > ROWS * len(VALUE) // 2)
    assert story.over() == ""  # it is killed there


@pytest.mark.parametrize("beside", ["a flush", "layers of the past", "a full disk"])
def test_vacuum_is_not_forgotten(story: Story, beside: str) -> None:
    """It waits until a flush does no harm."""
    story.fill()
    story.store.flush()
    if beside == "layers of the past":
        story.look()
        for number in range(tablespace.HISTORY_KEPT):
            story.commit(Edits({key(number, 1 << 20): b"x"}))
            story.store.flush()
    story.commit(Edits({key(number, 1): None for number in range(ROWS)}))
    if beside == "a flush":
        story.flush()
    elif beside == "a full disk":
        story.fault("writing: no room")
    story.store.space.give_back()
    story.store.loop.drain()
    assert story.settle(
        lambda: story.store.space.flushed_lsn == story.store.space.sequenced_lsn or bool(story.snapshots)
    )
    assert story.over() == ""
    assert story.settle(lambda: story._checkpoint.file_bytes[0] < ROWS * len(VALUE) // 2)


class _Itself:
    """What an error that refers to itself still has."""

    def __init__(self, has: object) -> None:
        self.itself, self.has = self, has


def test_what_only_the_collector_ends_keeps_nothing(story: Story) -> None:
    """While nobody sends statements; beside the past that is kept nothing is known, and nothing done."""
    gc.disable()
    try:
        story.fill()
        story.store.flush()
        _Itself(story.store.space._generation)
        story.drop()
        assert story.over() == ""
    finally:
        gc.enable()


@pytest.mark.parametrize("what", ["delete", "pack"])
def test_a_process_that_is_killed_while_it_writes_stops_nothing(
    story: Story, what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checkpoint, "DROP_SLICE", 100)
    killed: list[int] = []
    waits = checkpoint._wait

    def kills(process: Any, stop: Callable[[], bool]) -> None:
        if not killed:
            killed.append(process.pid)
            process.kill()
        waits(process, stop)

    monkeypatch.setattr(checkpoint, "_wait", kills)
    story.fill()
    story.store.flush()
    if what == "pack":
        story.thin()
        story.asked += 1
        story.store.space.pack(story.ids, story.told.append)
    else:
        story.drop()
    assert story.over() == ""
    assert killed and not story.store.fatal
