"""Questions whether the worker hears: when they are asked, and what follows from no answer."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable

import pytest

from engine.columnar import worker_answers
from engine.columnar.worker_answers import Hearing
from tests.samples import some

WITHIN = 30.0  # seconds
PID = os.getpid()


class Worker:
    """Answers while it hears."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        for name in ("CANCEL_SECONDS", "PATIENCE_SECONDS", "LAST_SECONDS", "AGAIN_SECONDS"):
            monkeypatch.setattr(worker_answers, name, 0.05)
        # This process stands for the worker's; whoever looks is computing, and is given all of the patience there is.
        monkeypatch.setattr(worker_answers, "CANCEL_PATIENCE", 1.0)
        self.hears = True
        self.asked = 0
        self.replaced = asyncio.Event()
        self.hearing = Hearing(self._ask, self.replaced.set)

    def _ask(self, number: int) -> None:
        self.asked += 1
        if self.hears:
            asyncio.get_running_loop().call_soon(self.hearing.note_answer, number, PID)

    async def until(self, reached: Callable[[], bool]) -> None:
        async with asyncio.timeout(WITHIN):
            while not reached():
                await asyncio.sleep(0.01)

    async def is_replaced(self) -> bool:
        async with asyncio.timeout(WITHIN):
            return await self.replaced.wait()

    async def rests(self) -> bool:
        before = self.asked
        await asyncio.sleep(0.5)
        return self.asked == before and not self.replaced.is_set()


async def test_questions_are_sent_until_a_cancelled_query_has_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    worker = Worker(monkeypatch)
    worker.hearing.note_cancel(1, PID)
    worker.hearing.note_cancel(2, PID)
    worker.hearing.note_end(1)
    await worker.until(lambda: worker.asked >= 5)
    worker.hearing.note_end(2)
    await asyncio.sleep(0.1)
    assert await worker.rests()


@pytest.mark.parametrize("later", some([True, False], 2))
async def test_one_that_a_cancelled_query_holds_is_replaced(monkeypatch: pytest.MonkeyPatch, later: bool) -> None:
    """It may have heard of the cancellation."""
    worker = Worker(monkeypatch)
    worker.hears = later
    worker.hearing.note_cancel(1, PID)
    await worker.until(lambda: worker.asked >= 1 + later)
    worker.hears = False
    assert await worker.is_replaced()


async def test_others_who_ask_do_not_put_it_off(monkeypatch: pytest.MonkeyPatch) -> None:
    worker = Worker(monkeypatch)
    monkeypatch.setattr(worker_answers, "PATIENCE_SECONDS", 0.5)
    worker.hears = False
    for number in range(1000):
        worker.hearing.note_cancel(number, PID) if number % 2 else worker.hearing.ask(PID)
        await asyncio.sleep(0.02)
        if worker.replaced.is_set():
            break
    assert worker.replaced.is_set() and worker.asked == 1


async def test_one_question_and_no_remaining_task(monkeypatch: pytest.MonkeyPatch) -> None:
    worker = Worker(monkeypatch)
    worker.hearing.ask(PID)
    assert await worker.rests() and worker.asked == 1
    worker.hears = False
    worker.hearing.ask(PID)
    assert await worker.is_replaced()


async def test_another_worker_owes_no_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    worker = Worker(monkeypatch)
    worker.hears = False
    worker.hearing.note_cancel(1, PID)
    worker.hearing.clear()
    worker.hears = True
    assert await worker.rests()
    worker.hearing.ask(PID)
    assert await worker.rests() and worker.asked == 2
