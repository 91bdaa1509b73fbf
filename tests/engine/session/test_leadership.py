"""What a session's statement hears of the end of its node's leadership."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from catalog.errors import SqlError
from engine.session.leadership import LedSession, deposed


class OpenBlock:
    """A transaction that has written, as `lose_transaction` sees it."""

    has_writes = True
    waiting = None

    def __init__(self) -> None:
        self.savepoints: list[Any] = []


class Running(LedSession):
    """A session in a block in which a statement runs as a task."""

    def __init__(self, status: str, task: asyncio.Task[None]) -> None:
        self.status = status
        self.in_block = True
        self.temporary_schema = None
        self.transaction: Any = OpenBlock()
        self.task = task
        self.running = True
        self.cancel_error: SqlError | None = None

    def _let_go(self, transaction: object) -> None: ...
    def _close_portals(self, *, committed: bool) -> None: ...


@pytest.mark.parametrize(("status", "hears"), [("T", True), ("E", False)])
async def test_what_ends_a_failed_block_goes_on(status: str, hears: bool) -> None:
    task = asyncio.ensure_future(asyncio.sleep(60))
    await asyncio.sleep(0)
    session = Running(status, task)  # type: ignore[arg-type]
    session.lose_transaction(deposed())
    assert (session.cancel_error is not None) is hears and bool(task.cancelling()) is hears
    assert session.owed is None and session.status == "E"
    task.cancel()
