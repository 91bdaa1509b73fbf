"""A database that cannot be opened, or that is closed at any moment, leaves nothing that runs: no task, no thread, no
process, no lock. What fails is each step of an opening in turn, found by running one that works."""

from __future__ import annotations

import asyncio
import logging
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import shoal
import shoal.embedded.engine_thread
import shoal.serve
from engine.columnar.client import WorkerClient
from engine.node.node import Node
from engine.past.manager import Past
from shoal.directory_watch import DirectoryWatch
from shoal.embedded.engine_thread import EngineThread
from shoal.history import LocalHistory
from tests.samples import some
from wire.server import Server

# What an opening calls, in order.
STEPS: list[tuple[type, str]] = [
    (WorkerClient, "__init__"), (Node, "__init__"), (Node, "bootstrap"), (DirectoryWatch, "start"),
    (LocalHistory, "start"), (Past, "start"), (Server, "__init__"), (Server, "accept"),
]  # fmt: skip


@pytest.fixture
def ended(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> Iterator[Callable[[], None]]:
    """A check that loops were closed without tasks, and that processes and threads are gone."""
    left: list[str] = []
    closing = EngineThread._end_tasks

    def end(engine: EngineThread) -> None:
        left.extend(map(repr, asyncio.all_tasks(engine.loop)))  # each part is to have ended its own by now
        closing(engine)

    monkeypatch.setattr(EngineThread, "_end_tasks", end)
    threads = set(threading.enumerate())
    caplog.set_level(logging.WARNING, "asyncio")

    def check() -> None:
        assert left == []
        assert [record.getMessage() for record in caplog.records if record.name == "asyncio"] == []
        until = time.monotonic() + 30
        while (processes := children()) and time.monotonic() < until:
            time.sleep(0.05)
        assert processes == []
        assert [item for item in set(threading.enumerate()) - threads if item.name == "shoal"] == []

    yield check


def children() -> list[str]:
    """The analytic workers of this process."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                command, status = (entry / "cmdline").read_bytes(), (entry / "stat").read_text()
            except OSError:
                continue
            state, parent = status.rpartition(")")[2].split()[:2]
            if b"engine.columnar.worker" in command and int(parent) == os.getpid() and state != "Z":
                found.append(entry.name)
    return found


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("step", STEPS, ids=lambda step: f"{step[0].__name__}.{step[1]}")
def test_an_opening_that_fails_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ended: Callable[[], None], step: tuple[type, str], after: bool
) -> None:
    kind, name = step
    works = getattr(kind, name)
    failed = []

    def fails(self: Any, *arguments: Any, **named: Any) -> Any:
        if after:
            works(self, *arguments, **named)
        failed.append(name)
        raise OSError("planted")

    with monkeypatch.context() as planted:
        planted.setattr(kind, name, fails)
        with pytest.raises((shoal.OperationalError, OSError), match="planted"):
            shoal.open(tmp_path / "d", history_retention=60.0).execute("SELECT 1")
        assert failed
        for database in list(shoal.embedded.database._open):
            if database.path == tmp_path / "d":
                database.close()
    ended()
    with shoal.open(tmp_path / "d") as db:  # the lock went too
        assert db.execute("SELECT 1").fetchone() == (1,)


@pytest.mark.parametrize("pause", some([0.0, 0.01, 0.05, 0.2, 0.5], 2))
def test_a_close_beside_a_starting_worker_leaves_no_worker(
    tmp_path: Path, ended: Callable[[], None], pause: float
) -> None:
    db = shoal.open(tmp_path / "d")
    told: list[BaseException] = []

    def ask() -> None:
        try:
            db.connect(autocommit=True).execute("SELECT count(*), sum(n) FROM generate_series(1, 300000) n")
        except shoal.Error as error:
            told.append(error)

    asking = threading.Thread(target=ask)
    asking.start()
    time.sleep(pause)
    db.close()
    asking.join(60)
    assert not asking.is_alive()
    ended()


def test_a_failure_while_it_is_open_leaves_no_worker(tmp_path: Path, ended: Callable[[], None]) -> None:
    db = shoal.open(tmp_path / "d")
    db.execute("CREATE TABLE t (a int)")
    db.execute("INSERT INTO t SELECT generate_series(1, 10000)")
    assert db.execute("SELECT count(*) FROM t").fetchone() == (10000,)
    assert children()
    db._engine._fatal(OSError("planted"))
    with pytest.raises(shoal.OperationalError):
        while True:
            db.execute("SELECT 1")
    db.close()
    ended()


def test_the_interpreter_says_nothing_at_its_end(tmp_path: Path) -> None:
    """Of a task that is destroyed while it is pending Python tells only on standard error."""
    program = """
import asyncio, contextlib, shoal, sys
from catalog.errors import SqlError
from engine.node.node import Node
async def starts(worker):
    with contextlib.suppress(SqlError):
        await worker.start()
def fails(self):
    asyncio.get_running_loop().create_task(starts(self.columnar))
    raise OSError("planted")
Node.bootstrap = fails
try:
    shoal.open(sys.argv[1])
except shoal.OperationalError as error:
    print(error)
"""
    done = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path / "d")], capture_output=True, text=True, timeout=240, check=False
    )
    assert (done.stdout, done.stderr, done.returncode) == ("planted\n", "", 0)


@pytest.mark.parametrize("work", [LocalHistory, DirectoryWatch])
def test_work_in_the_background_that_fails_stops_the_database(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ended: Callable[[], None], work: type
) -> None:
    async def fail(self: Any) -> None:
        await asyncio.sleep(0.1)
        raise ValueError("planted")

    monkeypatch.setattr(work, "_run", fail)
    db = shoal.open(tmp_path / "d", history_retention=60.0)
    until = time.monotonic() + 30
    with pytest.raises(shoal.OperationalError, match="planted"):
        while time.monotonic() < until:
            db.execute("SELECT 1")
    db.close()
    ended()
