"""A worker is replaced where it does nothing for those who wait for it, and in no other case."""

from __future__ import annotations

import asyncio
import os
import threading
import time
from collections.abc import Callable, Iterator

import pytest

from catalog import stillness
from catalog.stillness import Stillness
from catalog.types import oids
from catalog.types.base import TypeRef
from engine.columnar.interface import UdfSignature
from tests.engine.columnar.conftest import Database, query

FAR = 60.0  # seconds


@pytest.fixture
def over() -> Iterator[threading.Event]:
    event = threading.Event()
    yield event
    event.set()


def looked(monkeypatch: pytest.MonkeyPatch, due: bool, seconds: float) -> bool:
    """Whether this process would be replaced within so many seconds."""
    monkeypatch.setattr(stillness, "LOOK_SECONDS", 0.1)
    monkeypatch.setattr(stillness, "STILL_SECONDS", 1.0)
    # What other tests have left in this process does not count.
    others = {thread.native_id or 0 for thread in threading.enumerate() if thread.name != "mine"} | not_python()
    watch = Stillness(os.getpid(), others)
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if watch.lasts(due):
            return True
        time.sleep(0.02)
    return False


def not_python() -> set[int]:
    return {int(name) for name in os.listdir("/proc/self/task")} - {
        thread.native_id or 0 for thread in threading.enumerate()
    }


def begin(function: Callable[[], object]) -> None:
    threading.Thread(target=function, name="mine", daemon=True).start()


def test_threads_that_wait_for_each_other(monkeypatch: pytest.MonkeyPatch, over: threading.Event) -> None:
    begin(over.wait)
    assert looked(monkeypatch, True, FAR)


def test_threads_that_wait_while_nothing_is_to_be_done(monkeypatch: pytest.MonkeyPatch, over: threading.Event) -> None:
    begin(over.wait)
    assert not looked(monkeypatch, False, 2.5)


def test_a_thread_that_works_now_and_then(monkeypatch: pytest.MonkeyPatch, over: threading.Event) -> None:
    def work() -> None:
        while not over.wait(0.5):
            sum(range(500_000))

    begin(work)
    assert not looked(monkeypatch, True, 4.0)


def test_a_process_that_has_rested(monkeypatch: pytest.MonkeyPatch, over: threading.Event) -> None:
    """As one that was stopped and goes on: the time between two looks is none in which its threads were still."""
    begin(over.wait)
    now = time.monotonic()
    monkeypatch.setattr(time, "monotonic", lambda: now)
    watch = Stillness(os.getpid())
    for _ in range(3):
        now += 1000.0
        assert not watch.lasts()


SLEEPS = UdfSignature("f_sleep", "function", "sleep_slice", (TypeRef(oids.INT8), TypeRef(oids.FLOAT8)),
                      ("BIGINT", "DOUBLE"), TypeRef(oids.TEXT), "VARCHAR", volatile=True)  # fmt: skip


async def test_a_query_that_sleeps_works_enough(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """What sleeps in the worker does so in slices (pg_sleep), and is no wait for what never comes."""
    monkeypatch.setattr(stillness, "LOOK_SECONDS", 0.1)
    monkeypatch.setattr(stillness, "STILL_SECONDS", 1.0)
    sleeping = query("SELECT count(f_sleep(i, 3.0)) AS a FROM range(122880) AS r(i)", [(oids.INT8, "BIGINT")],
                     functions=(SLEEPS,))  # fmt: skip
    await database.client.start()
    first = database.client.process_id
    began = time.monotonic()
    assert await database.fetch(sleeping) == [(122880,)]
    assert time.monotonic() - began > 2.5 and database.client.process_id == first


async def test_readers_that_take_nothing_are_no_wait_for_the_worker(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its query waits for them."""
    monkeypatch.setattr(stillness, "LOOK_SECONDS", 0.1)
    monkeypatch.setattr(stillness, "STILL_SECONDS", 1.0)
    plenty = query("SELECT range AS a FROM range(3000000)", [(oids.INT8, "BIGINT")])
    stream = await database.client.batches(plenty, (), database.store.current)
    await anext(stream)
    first = database.client.process_id
    await asyncio.sleep(3.0)
    assert database.client.process_id == first
    await stream.close()
