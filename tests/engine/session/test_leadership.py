"""What a session's statement hears of the end of its node's leadership."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from catalog.errors import SqlError
from engine.session.client import Client
from engine.session.leadership import Leadership, deposed_error
from engine.session.portals import Portals
from engine.session.session import Session
from engine.session.transactions import TransactionControl
from engine.session.waits import Waits


class OpenBlock:
    """A transaction that has written, as `lose_transaction` sees it."""

    has_writes = True
    waiting = None

    def __init__(self) -> None:
        self.savepoints: list[Any] = []


class Undoing(TransactionControl):
    def _let_go(self, transaction: object) -> None: ...


class Running(Session):
    """A session in a block in which a statement runs as a task."""

    def __init__(self, status: str, task: asyncio.Task[None]) -> None:
        self.status = status
        self.in_block = True
        self.temporary_schema = None
        self.transaction: Any = OpenBlock()
        self.task = task
        self.running = True
        self.cancel_error: SqlError | None = None
        self.client = Client(0)
        self.portals = Portals(self)
        self.waits = Waits(self)
        self.leadership = Leadership(self)
        self.transactions = Undoing(self)


@pytest.mark.parametrize(("status", "hears"), [("T", True), ("E", False)])
async def test_statements_that_end_a_failed_block_run(status: str, hears: bool) -> None:
    task = asyncio.ensure_future(asyncio.sleep(60))
    await asyncio.sleep(0)
    session = Running(status, task)
    session.lose_transaction(deposed_error())
    assert (session.cancel_error is not None) is hears and bool(task.cancelling()) is hears
    assert session.leadership.owed is None and session.status == "E"
    task.cancel()
