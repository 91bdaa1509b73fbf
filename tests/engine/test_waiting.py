"""Functions that wait: one result for a run of a statement, another for the next statement, and cancelling."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import pytest

from catalog.errors import SqlError
from engine.session.other_waits import Work, result_of
from engine.txn.interface import LockWait


async def slow(value: int) -> int:
    await asyncio.sleep(0)
    return value


async def granted(wait: LockWait) -> Exception | None:
    done = asyncio.Event()
    wait.ticket.add_done_callback(done.set)
    await done.wait()
    return wait.ticket.error


async def test_a_run_is_given_one_result_and_the_next_statement_another() -> None:
    session: Any = SimpleNamespace(work={})
    values = iter(range(10))
    first, second, third = object(), object(), object()

    def call(run: object) -> object:
        return result_of(session, "f", run, lambda: slow(next(values)))

    with pytest.raises(LockWait) as wait:
        call(first)
    assert await granted(wait.value) is None
    assert [call(second), call(second), call(second)] == [0, 0, 0]
    with pytest.raises(LockWait) as wait:
        call(third)
    assert await granted(wait.value) is None
    assert call(object()) == 1


async def test_an_error_ends_the_wait_and_not_the_next_call() -> None:
    session: Any = SimpleNamespace(work={})

    async def fails() -> int:
        raise SqlError("55000", "no")

    with pytest.raises(LockWait) as wait:
        result_of(session, "f", object(), fails)
    error = await granted(wait.value)
    assert isinstance(error, SqlError) and error.sqlstate == "55000"
    with pytest.raises(LockWait) as wait:
        result_of(session, "f", object(), lambda: slow(3))
    assert await granted(wait.value) is None
    assert result_of(session, "f", object(), lambda: slow(4)) == 3


async def test_a_defect_is_an_error_too() -> None:
    async def fails() -> int:
        raise ValueError("odd")

    work = Work(fails())
    error = await granted(LockWait(work))
    assert isinstance(error, SqlError) and error.sqlstate == "XX000"


async def test_a_cancelled_wait_ends_with_what_cancelled_it() -> None:
    session: Any = SimpleNamespace(work={})
    with pytest.raises(LockWait) as wait:
        result_of(session, "f", object(), lambda: asyncio.sleep(60))
    cancelled = SqlError("57014", "enough")
    cast(Work, wait.value.ticket).cancel(cancelled)
    with pytest.raises(LockWait) as another:  # the next statement does not wait for the one that was cancelled
        result_of(session, "f", object(), lambda: slow(1))
    assert await granted(wait.value) is cancelled
    assert await granted(another.value) is None
