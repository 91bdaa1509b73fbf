"""Threads of bulk work yield to others; the engine's thread does not."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Iterator

import pytest

from engine.bulk.thread import BulkThread
from engine.priority import NICENESS, PRESSED_LOOK, PRESSED_SECONDS, REST, Foreground, foreground

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="niceness is a thread's on Linux only")


def _place() -> tuple[int, int]:
    """The calling thread's niceness and policy."""
    return os.getpriority(os.PRIO_PROCESS, threading.get_native_id()), os.sched_getscheduler(0)


def _place_of_a_thread_of_its() -> tuple[int, int]:
    found: list[tuple[int, int]] = []
    thread = threading.Thread(target=lambda: found.append(_place()))
    thread.start()
    thread.join()
    return found[0]


async def test_bulk_threads_and_those_that_they_start_stand_back() -> None:
    before = _place()
    thread = BulkThread("test")
    try:
        for place in (_place, _place_of_a_thread_of_its):
            assert await thread.run(place) == (min(before[0] + NICENESS, 19), os.SCHED_BATCH)
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
        return self.found.pressed


@pytest.mark.parametrize(
    ("answered", "waited", "pressed"), [(1000.0, 0.2, True), (1000.0, 0.02, False), (10.0, 0.2, False)]
)
def test_bulk_work_gives_way_to_many_statements_that_wait(answered: float, waited: float, pressed: bool) -> None:
    times = Times()
    assert not times.found.pressed
    assert times.after(1.0, answered, waited) == pressed


def test_it_gives_way_for_a_while() -> None:
    times = Times()
    assert times.after(1.0, 1000.0, 0.2)
    assert times.after(PRESSED_LOOK, 1000.0, 0.01)
    assert times.after(PRESSED_SECONDS / 2, 1000.0, 0.01)
    assert not times.after(PRESSED_SECONDS / 2, 1000.0, 0.01)


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
async def test_a_thread_that_gives_way_rests(pressed: None, gives_way: bool) -> None:
    thread = BulkThread("test", gives_way)
    began = time.monotonic()
    try:
        for _ in range(2):
            await thread.run(_work, 0.02)
    finally:
        thread.close()
    used = time.monotonic() - began
    assert used >= 0.04 * (1 + REST) if gives_way else used < 0.04 * (1 + REST)
