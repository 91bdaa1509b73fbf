"""Threads of bulk work yield to others; the engine's thread does not."""

from __future__ import annotations

import os
import sys
import threading

import pytest

from engine.bulk.thread import BulkThread
from engine.priority import NICENESS

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
