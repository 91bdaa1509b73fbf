"""A coroutine whose first step runs at once goes on as a task does."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from wire.task_steps import begin_task

Said = list[object]


async def ends(said: Said) -> None:
    said.append("end")


async def waits(said: Said) -> None:
    try:
        said.append(await asyncio.sleep(0.001, "slept"))
        await asyncio.sleep(0)
        said.append("end")
    except asyncio.CancelledError:
        said.append("cancelled")
        await asyncio.sleep(0)
        said.append("cleaned")


async def waits_for_the_loop(said: Said) -> None:
    try:
        await asyncio.sleep(0)
        said.append("end")
    except asyncio.CancelledError:
        said.append("cancelled")


def test_the_first_step_may_be_all() -> None:
    said: Said = []

    async def run() -> None:
        assert begin_task(ends(said)) is None
        assert said == ["end"]

    asyncio.run(run())


@pytest.mark.parametrize(("work", "expected"), [(waits, ["slept", "end"]), (waits_for_the_loop, ["end"])])
def test_the_rest_is_a_task(work: Callable[[Said], Coroutine[Any, Any, None]], expected: Said) -> None:
    said: Said = []

    async def run() -> None:
        task = begin_task(work(said))
        assert task is not None and not said
        await task

    asyncio.run(run())
    assert said == expected


@pytest.mark.parametrize("turns", [0, 1])
def test_a_cancellation_arrives_at_any_time(turns: int) -> None:
    said: Said = []

    async def run() -> None:
        task = begin_task(waits(said))
        assert task is not None
        for _ in range(turns):
            await asyncio.sleep(0)
        task.cancel()
        await task

    asyncio.run(run())
    assert said == ["cancelled", "cleaned"]


def test_a_cancellation_before_a_turn_of_the_loop() -> None:
    said: Said = []

    async def run() -> None:
        task = begin_task(waits_for_the_loop(said))
        assert task is not None
        task.cancel()
        await task

    asyncio.run(run())
    assert said == ["cancelled"]
