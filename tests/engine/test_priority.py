"""Threads of bulk work yield to others; the engine's thread does not. What rests, rests for all that it has worked."""

from __future__ import annotations

import asyncio
import ctypes
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from types import SimpleNamespace

import pytest

from engine import priority
from engine.bulk.thread import BulkThread
from engine.foreground import (
    LONGEST_TURN,
    PRESSED_AGAIN,
    PRESSED_LOOK,
    PRESSED_SECONDS,
    PRESSED_STALE,
    PRESUMED_SECONDS,
    Foreground,
    Place,
    aside,
    foreground,
)
from engine.priority import IDLE, LONGEST_REST, NICENESS, PROCESSORS, REST, Pace, beside, stand_first


def _place() -> tuple[int, int]:
    """The calling thread's niceness and policy."""
    policy = os.sched_getscheduler(0) & ~os.SCHED_RESET_ON_FORK  # an engine may have run in this thread
    return os.getpriority(os.PRIO_PROCESS, threading.get_native_id()), policy


def _place_of_a_thread_of_its() -> tuple[int, int]:
    found: list[tuple[int, int]] = []
    thread = threading.Thread(target=lambda: found.append(_place()))
    thread.start()
    thread.join()
    return found[0]


@pytest.mark.skipif(sys.platform != "linux", reason="niceness is a thread's on Linux only")
async def test_threads_of_long_works_and_those_that_they_start_stand_back() -> None:
    before = _place()
    thread = BulkThread("test")
    try:
        for place in (_place, _place_of_a_thread_of_its):
            assert await thread.run(place) == (min(before[0] + NICENESS, 19), os.SCHED_BATCH)
            assert await aside(place) == (min(before[0] + NICENESS, 19), os.SCHED_BATCH)
    finally:
        thread.close()
    assert _place() == before == _place_of_a_thread_of_its()


class Times:
    """A clock and the waits of an engine's thread, in seconds."""

    def __init__(self) -> None:
        self.now = self.waited = 0.0
        self.found = Foreground(lambda: int(self.waited * 1e9), lambda: self.now)

    def after(self, seconds: float, answered: float, waited: float) -> bool:
        """Whether bulk work gives way after so many seconds with so many answers a second and this share of waits."""
        self.now += seconds
        self.waited += waited * seconds
        self.found.answered += round(answered * seconds)
        return self.found.is_pressed


@pytest.mark.parametrize(
    ("answered", "waited", "pressed"), [(1000.0, 0.2, True), (1000.0, 0.02, False), (10.0, 0.2, False)]
)
def test_bulk_work_gives_way_to_many_statements_that_wait(answered: float, waited: float, pressed: bool) -> None:
    times = Times()
    assert not times.found.is_pressed
    assert times.after(PRESSED_STALE / 2, answered, waited) == pressed


def test_it_gives_way_for_a_while_and_longer_when_that_was_too_short() -> None:
    times = Times()
    lasts = PRESSED_SECONDS
    assert not times.after(PRESSED_STALE, 10.0, 0.2), "what was long before says nothing of now"
    assert times.after(PRESSED_STALE, 1000.0, 0.0), "nothing is known: it may be so"
    assert not times.after(PRESUMED_SECONDS, 1000.0, 0.01)
    for _ in range(2):
        assert times.after(2 * PRESSED_LOOK, 1000.0, 0.2)
        assert times.after(lasts / 2, 10.0, 0.01)
        assert not times.after(lasts / 2, 10.0, 0.01)
        lasts *= 2
    times.after(PRESSED_AGAIN, 10.0, 0.01)
    assert times.after(2 * PRESSED_LOOK, 1000.0, 0.2)
    assert not times.after(PRESSED_SECONDS, 10.0, 0.01)


@pytest.fixture
def pressed(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The calling thread's statements wait for processors."""
    monkeypatch.setattr(foreground(), "_until", float("inf"))
    yield


def _work(seconds: float) -> None:
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        pass


@pytest.mark.parametrize("gives_way", [True, False])
async def test_a_thread_that_gives_way_rests_longer_than_it_works(
    pressed: None, gives_way: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    rests: list[float] = []

    async def rest(seconds: float) -> None:
        rests.append(seconds)

    monkeypatch.setattr("engine.foreground.asyncio.sleep", rest)
    thread = BulkThread("test", gives_way)
    try:
        for _ in range(2):
            await thread.run(_work, 0.02)
    finally:
        thread.close()
    assert sum(rests) >= 0.1 if gives_way else not rests


async def test_one_long_work_runs_at_a_time(pressed: None) -> None:
    running = most = 0

    def work() -> None:
        nonlocal running, most
        running += 1
        most = max(most, running)
        _work(0.005)
        running -= 1

    thread = BulkThread("test", gives_way=True)
    try:
        await asyncio.gather(*(aside(work) for _ in range(4)), *(thread.run(work) for _ in range(2)))
    finally:
        thread.close()
    assert most == 1


async def test_who_has_worked_for_long_rests_longer_than_it_keeps_others_waiting(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def worked(seconds: float) -> tuple[None, float]:
        return None, seconds

    shared = Foreground()
    monkeypatch.setattr(shared, "_until", float("inf"))
    began = time.monotonic()
    long = asyncio.create_task(shared.aside(lambda: worked(2.0)))
    await asyncio.sleep(0)
    await shared.aside(lambda: worked(0.0))
    assert LONGEST_TURN <= time.monotonic() - began < 2.0 and not long.done()
    long.cancel()


@pytest.mark.skipif(len(PROCESSORS) < 2, reason="one processor is all that there is")
async def test_the_process_keeps_to_one_processor_and_others_to_the_rest() -> None:
    ended = threading.Event()
    thread = threading.Thread(target=ended.wait)
    thread.start()
    place = Place()

    def started() -> subprocess.Popen[bytes]:
        return subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE, start_new_session=True)

    def where(*tasks: int | None) -> list[set[int]]:
        return [os.sched_getaffinity(task or 0) for task in tasks]

    first, second, third = (started() for _ in range(3))
    try:
        with beside(first.pid):
            assert where(os.getpid(), thread.native_id, first.pid) == [set(PROCESSORS)] * 3
            place.gather(60.0)
            own, too, rest = where(os.getpid(), thread.native_id, first.pid)
            assert len(own) == 1 and own == too and rest == PROCESSORS - own
            os.sched_setaffinity(second.pid, own)  # as it would have been started now
            with beside(second.pid), beside(third.pid):
                assert where(second.pid, third.pid) == [rest, rest]
            place.scatter()
            assert where(os.getpid(), thread.native_id, first.pid) == [set(PROCESSORS)] * 3
            assert where(second.pid) == [rest]  # it was let go
    finally:
        place.scatter()
        ended.set()
        for process in (first, second, third):
            process.communicate(b"\n")


@pytest.mark.skipif(sys.platform != "linux" or os.uname().machine != "x86_64", reason="a call of Linux, by its number")
def test_the_engine_s_thread_has_short_turns_and_those_that_it_starts_usual_ones() -> None:
    get = 315  # sched_getattr
    turns: dict[str, int] = {}

    def turn(name: str) -> None:
        found = priority._Attributes()
        assert ctypes.CDLL(None).syscall(get, 0, ctypes.byref(found), ctypes.sizeof(found), 0) == 0
        turns[name] = found.runtime

    def first() -> None:
        turn("before")
        stand_first()
        turn("after")
        later = threading.Thread(target=turn, args=("started",))
        later.start()
        later.join()

    thread = threading.Thread(target=first)
    thread.start()
    thread.join()
    if not turns["before"]:
        pytest.skip("this Linux has no turns of its own for each thread")
    assert turns["after"] == priority.TURN_NANOSECONDS < turns["before"] == turns["started"]


class _Clocks:
    """In place of `time`: a thread that works, the engine's thread, which is `busy` for a share of all time, and sleeps
    that only count."""

    def __init__(self) -> None:
        self.busy = 1.0
        self.now = self.worked = self.engine = 0.0
        self.sleeps: list[float] = []

    def work(self, seconds: float) -> None:
        self.worked += seconds
        self._pass(seconds)

    def sleep(self, seconds: float) -> None:
        self.sleeps.append(seconds)
        self._pass(seconds)

    def _pass(self, seconds: float) -> None:
        self.now += seconds
        self.engine += seconds * self.busy


@pytest.fixture
def clocks(monkeypatch: pytest.MonkeyPatch) -> _Clocks:
    made = _Clocks()
    stand_in = SimpleNamespace(
        monotonic=lambda: made.now,
        thread_time=lambda: made.worked,
        clock_gettime=lambda _: made.engine,
        pthread_getcpuclockid=lambda _: 0,
        sleep=made.sleep,
    )
    monkeypatch.setattr("engine.priority.time", stand_in)
    return made


def test_each_slice_of_work_is_rested_for_once(clocks: _Clocks) -> None:
    pace = Pace()
    for worked in (0.5, 0.25, 0.0, 0.125):
        clocks.work(worked)
        clocks.sleeps.clear()
        pace.pause()
        assert sum(clocks.sleeps) == pytest.approx(REST * worked)
        assert max(clocks.sleeps, default=0.0) <= LONGEST_REST


@pytest.mark.parametrize(("busy", "share"), [(0.0, IDLE), (0.25, 0.25), (1.0, 1.0)])
def test_there_is_less_rest_beside_an_engine_that_is_less_busy(clocks: _Clocks, busy: float, share: float) -> None:
    pace = Pace()
    clocks.busy = busy
    clocks.work(0.5)
    pace.pause()
    assert sum(clocks.sleeps) == pytest.approx(REST * share * 0.5)


def test_a_cancelled_caller_does_not_wait_for_the_rest(clocks: _Clocks) -> None:
    def check() -> None:
        if clocks.sleeps:
            raise KeyboardInterrupt

    pace = Pace(check=check)
    clocks.work(10.0)
    with pytest.raises(KeyboardInterrupt):
        pace.pause()
    assert clocks.sleeps == [LONGEST_REST]
