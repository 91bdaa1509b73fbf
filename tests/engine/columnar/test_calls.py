"""Calls of Python functions in the worker are left when their query is stopped, and have a limit of memory."""

from __future__ import annotations

import _imp
import asyncio
import contextlib
import gc
import importlib
import io
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil  # type: ignore[import-untyped]
import pytest

from catalog.errors import SqlError
from catalog.memory import UNLIMITED, meter
from catalog.types import oids
from catalog.types.base import TypeRef
from engine.columnar import worker_answers
from engine.columnar.interface import ColumnarQuery, UdfSignature
from engine.columnar.worker import calls
from tests.engine.columnar.conftest import Database, query

TEXT, BOOL = TypeRef(oids.TEXT), TypeRef(oids.BOOL)


def going_on() -> bool:
    """Nobody has stopped the query."""
    return False


class InThread:
    """Runs in a thread, of a query or of none."""

    def __init__(self, function: Callable[[], object], query: int | None = None) -> None:
        self.state = ""
        self.result: object = None
        self._function, self._query = function, query
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        of = contextlib.nullcontext() if self._query is None else calls.of_query(self._query, UNLIMITED, going_on)
        with of:
            try:
                self.result = calls.call(self._function)
                self.state = "done"
            except SqlError as error:
                self.state = error.sqlstate

    def begins(self) -> None:
        while self._thread.ident not in calls._under_way:
            time.sleep(0.01)

    def left(self, query: int) -> str:
        """As the worker does it: again and again."""
        end = time.monotonic() + 60
        while self._thread.is_alive() and time.monotonic() < end:
            calls.leave(query, 0.0)
            time.sleep(0.05)
        return self.state

    def ends(self) -> str:
        self._thread.join(30)
        return self.state


@pytest.fixture
def over() -> Iterator[threading.Event]:
    """Ends what has not been left."""
    event = threading.Event()
    yield event
    event.set()


def endless(over: threading.Event) -> Callable[[], None]:
    def run() -> None:
        while not over.is_set():
            sum(range(1000))

    return run


def test_a_call_on_the_thread_of_its_query_is_left(over: threading.Event) -> None:
    thread, other = InThread(endless(over), 1), InThread(endless(over), 2)
    thread.begins()
    other.begins()
    assert thread.left(1) == calls.LOST
    assert not other.state


def test_a_call_that_may_be_of_several_queries_is_left_late(over: threading.Event) -> None:
    with calls.of_query(21, UNLIMITED, going_on), calls.of_query(22, UNLIMITED, going_on):
        thread = InThread(endless(over))
        thread.begins()
    calls.leave(23, 0.0)
    calls.leave(22, time.monotonic() + 1000)
    time.sleep(0.2)
    assert not thread.state
    time.sleep(2 * calls.PATIENCE)
    assert thread.left(22) == calls.LOST


def test_a_call_for_a_table_is_not_left(over: threading.Event, monkeypatch: pytest.MonkeyPatch) -> None:
    with calls.of_query(21, UNLIMITED, going_on):
        monkeypatch.setattr(calls, "loading", True)
        thread = InThread(endless(over))
        thread.begins()
    calls.leave(21, 0.0)
    time.sleep(0.2)
    assert not thread.state


def test_an_interrupt_that_comes_too_late_for_a_call_spoils_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    """It was for a call that has ended: the next one on its thread begins again."""
    begun: list[int] = []
    go = threading.Event()

    def run() -> str:
        begun.append(threading.get_ident())
        deadline = time.monotonic() + 20
        while len(begun) < 2 and not go.is_set() and time.monotonic() < deadline:
            sum(range(1000))
        return "whole"

    thread = InThread(run, 1)
    while not begun:
        time.sleep(0.01)
    calls._interrupt(begun[0], calls.Interrupted)
    assert (thread.ends(), thread.result, len(begun)) == ("done", "whole", 2)


def test_interrupts_at_any_moment_reach_nothing_but_calls() -> None:
    """Calls that last next to nothing, one after the other, while all are told to end: each is left or whole."""
    over = threading.Event()
    found: list[object] = []

    def work() -> None:
        with calls.of_query(7, UNLIMITED, going_on):
            while not over.is_set():
                try:
                    found.append(calls.call(lambda: len("abc")))
                except SqlError as error:
                    found.append(error.sqlstate)

    thread = threading.Thread(target=work)
    thread.start()
    end = time.monotonic() + 2
    while time.monotonic() < end:
        calls.leave(7, 0.0)
        time.sleep(0)
    over.set()
    thread.join(30)
    assert not thread.is_alive() and {*found} <= {3, calls.LOST} and 3 in found
    assert threading.get_ident() not in calls._under_way


class Locks:
    """What a call takes and gives back, in each of the ways that the standard library has: `take_...` does it once."""

    def __init__(self) -> None:
        self._condition = threading.Condition()
        self._inside = 0

    def take_import_lock(self) -> None:
        importlib._bootstrap._lock_unlock_module("a_module")  # type: ignore[attr-defined]

    def take_condition(self) -> None:
        with self._condition:
            pass

    def take_context(self) -> None:
        with self._context():
            pass

    @contextlib.contextmanager
    def _context(self) -> Iterator[None]:
        self._inside += 1
        try:
            yield
        finally:
            self._inside -= 1

    def kept(self) -> str:
        """What has been taken and not given back."""
        if _imp.lock_held():
            return "the import lock"
        if not self._condition.acquire(timeout=1):
            return "the condition"
        self._condition.release()
        return "the context" if self._inside else ""


class Garbage:
    """A cycle with an open file. To close a file, the collector lets other threads run."""

    def __init__(self) -> None:
        self.itself, self.file = self, io.FileIO(os.devnull)


@pytest.fixture
def many_collections() -> Iterator[None]:
    before = gc.get_threshold()
    gc.set_threshold(40)
    yield
    gc.set_threshold(*before)


@pytest.mark.usefixtures("many_collections")
@pytest.mark.filterwarnings("ignore::ResourceWarning")
@pytest.mark.parametrize("name", [name for name in vars(Locks) if name.startswith("take_")])
@pytest.mark.parametrize("seconds", [1, pytest.param(10, marks=pytest.mark.long)])
def test_a_call_that_is_left_gives_back_what_it_took(name: str, seconds: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """An exception between a lock that was just taken and the block that gives it back would leave it taken for good.
    With the import lock no query would end any more."""
    monkeypatch.setattr(
        sys, "unraisablehook", lambda _: None
    )  # an interrupt that met a finalizer is lost: another comes
    over = threading.Event()
    locks = Locks()
    take = getattr(locks, name)
    ends = 0

    def run() -> None:
        while not over.is_set():
            take()

    def work() -> None:
        nonlocal ends
        with calls.of_query(7, UNLIMITED, going_on):
            while not over.is_set():
                with contextlib.suppress(SqlError):
                    calls.call(run)
                ends += 1

    thread = threading.Thread(target=work, daemon=True)
    interval = sys.getswitchinterval()
    sys.setswitchinterval(0.00001)
    thread.start()
    end = time.monotonic() + seconds
    while ends < 5000 and time.monotonic() < end:
        Garbage()
        calls.leave(7, 0.0)
        time.sleep(0)
    sys.setswitchinterval(interval)
    over.set()
    thread.join(10)
    assert not locks.kept()
    assert not thread.is_alive() and ends > 20


def test_a_collection_ends_before_its_call_is_left(over: threading.Event) -> None:
    """A call may collect garbage at any step, also while it gives back a lock, and what is collected is of others."""
    steps: list[str] = []

    class SlowToEnd:
        def __init__(self) -> None:
            self.itself = self

        def __del__(self) -> None:
            steps.append("begun")
            end = time.monotonic() + 1
            while time.monotonic() < end:
                sum(range(1000))
            steps.append("ended")

    def run() -> None:
        SlowToEnd()
        gc.collect()
        endless(over)()

    thread = InThread(run, 1)
    thread.begins()
    assert thread.left(1) == calls.LOST
    assert steps == ["begun", "ended"]


def test_no_call_begins_of_a_query_that_is_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    stopped = threading.Event()
    begun: list[int] = []
    with calls.of_query(1, UNLIMITED, stopped.is_set):
        calls.call(lambda: begun.append(1))
        stopped.set()
        with pytest.raises(SqlError) as caught:
            calls.call(lambda: begun.append(2))
        assert caught.value.sqlstate == "57014"
        assert InThread(lambda: begun.append(3)).ends() == "57014"  # a thread of DuckDB's
        with calls.of_query(2, UNLIMITED, going_on):
            assert InThread(lambda: begun.append(4)).ends() == "done"  # which may work for the other one
        monkeypatch.setattr(calls, "loading", True)
        assert InThread(lambda: begun.append(5)).ends() == "done"
    assert begun == [1, 4, 5]


def test_a_call_has_the_limit_of_its_query() -> None:
    with calls.of_query(1, 1000, going_on):
        assert calls.call(lambda: meter().limit) == 1000
    with calls.of_query(1, 1000, going_on), calls.of_query(2, 3000, going_on):
        assert InThread(lambda: meter().limit).ends() == "done"
        thread = InThread(lambda: meter().limit)
        assert (thread.ends(), thread.result) == ("done", 3000)
    assert calls.call(lambda: meter().limit) == UNLIMITED


# ---- in a worker ---------------------------------------------------------------------------------------------------

MATCHES = UdfSignature("f_matches", "function", "textregexeq", (TEXT, TEXT), ("VARCHAR", "VARCHAR"), BOOL, "BOOLEAN")
IN_STEPS = ("repeat('a', 5)", r"repeat('\w', 20000)")  # of Python: an expression that takes minutes to compile
IN_ONE_STEP = ("repeat('a', 45)", r"'^(a*)*\1\1x$'")  # of C


def calling(text: str, pattern: str) -> ColumnarQuery:
    sql = f"SELECT f_matches({text} || CAST(range % 2 AS VARCHAR), {pattern}) AS a FROM range(5000)"
    return query(sql, [(oids.BOOL, "BOOLEAN")], functions=(MATCHES,))


def at_work(pid: int) -> bool:
    """Whether a thread of a process has something to do, with a processor or without."""
    states = [path.read_text().rpartition(")")[2].split()[0] for path in Path(f"/proc/{pid}/task").glob("*/stat")]
    return "R" in states


async def worked_after_cancel(database: Database, arguments: tuple[str, str], most: float) -> float:
    """Seconds of processor that the worker works for a query that is cancelled, until it rests or ends; `most` where it
    goes on for longer."""
    await database.fetch(calling("'a'", "'b'"))
    worker = psutil.Process(database.client.process_id)
    idle = sum(worker.cpu_times()[:2])
    stream = await database.client.batches(calling(*arguments), (), database.store.current)
    while sum(worker.cpu_times()[:2]) < idle + 0.5:
        await asyncio.sleep(0.05)
    await stream.close()
    first = last = sum(worker.cpu_times()[:2])
    while last - first < most:
        await asyncio.sleep(0.3)
        try:
            now = sum(worker.cpu_times()[:2])
            if worker.status() == psutil.STATUS_ZOMBIE:
                break
        except psutil.NoSuchProcess:
            break
        if now - last < 0.02 and not at_work(worker.pid):
            break
        last = now
    return last - first


@pytest.mark.parametrize("arguments", (IN_STEPS, IN_ONE_STEP))
async def test_a_function_ends_with_its_query(database: Database, arguments: tuple[str, str]) -> None:
    assert await database.fetch(calling("'a'", "'b'"))
    before = database.client.process_id
    assert await worked_after_cancel(database, arguments, 3.0) < 1.5
    assert len(await asyncio.wait_for(database.fetch(calling("'a'", "'b'")), 60)) == 5000
    assert (database.client.process_id == before) == (arguments is IN_STEPS)


async def test_a_worker_that_does_not_stop_is_found(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker_answers, "CANCEL_SECONDS", 30.0)
    monkeypatch.setattr(worker_answers, "CANCEL_PATIENCE", 30.0)
    assert await worked_after_cancel(database, IN_ONE_STEP, 2.0) >= 1.5
