"""Waits that are not for locks: functions that wait, shoal_check(), shoal_checkpoint(), durability.

Functions are plain synchronous calls. A function that must wait starts its work and raises LockWait, like a statement
that meets a lock. The statement runs again when the work is done, and its call then returns the result. If a statement
makes the call for several rows, all get the same result.

An error caused by a commit that is not durable yet (the key exists) is reported when the commit is durable: the client
may look for the row, and a new transaction sees only durable rows.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Protocol

from catalog.errors import SqlError, as_sql_error
from engine.txn.interface import LockWait

if TYPE_CHECKING:
    from engine.node.node import Node


class Work:
    """The wait for the result of a function (engine.txn.interface.WaitTicket)."""

    def __init__(self, work: Awaitable[object]) -> None:
        self.error: Exception | None = None
        self.taken_by: object = None  # the run of the statement that has received the result
        self._callbacks: list[Callable[[], None]] = []
        self._task = asyncio.ensure_future(work)
        self._task.add_done_callback(self._note_end)

    @property
    def done(self) -> bool:
        return self._task.done()

    @property
    def result(self) -> object:
        return self._task.result()

    def add_done_callback(self, callback: Callable[[], None]) -> None:
        if self.done:
            callback()
        else:
            self._callbacks.append(callback)

    def cancel(self, error: Exception) -> None:
        """Ends the wait with an error, and cancels the work."""
        if not self.done:
            self.error = error
            self._task.cancel()

    def _note_end(self, task: asyncio.Future[object]) -> None:
        if not task.cancelled():
            self.error = self.error or _as_error(task.exception())
        elif self.error is None:
            self.error = SqlError("57014", "canceling statement due to user request")
        callbacks, self._callbacks = self._callbacks, []
        for callback in callbacks:
            callback()


class DurabilityWait:
    """A wait until positions are durable, like a statement's wait for a lock (engine.txn.interface.WaitTicket)."""

    def __init__(self, node: Node, positions: Sequence[int]) -> None:
        self.error: Exception | None = None
        self._left = len(positions)
        self._callbacks: list[Callable[[], None]] = []
        for position in positions:
            node.commits.wait(position, self._wake, self.cancel)

    def add_done_callback(self, callback: Callable[[], None]) -> None:
        if self._left:
            self._callbacks.append(callback)
        else:
            callback()

    def cancel(self, error: Exception) -> None:
        """Ends the wait with an error."""
        if self._left > 0:
            self.error = error
            self._end()

    def _wake(self) -> None:
        if self._left > 0:
            self._left -= 1
            if not self._left:
                self._end()

    def _end(self) -> None:
        self._left = 0
        callbacks, self._callbacks = self._callbacks, []
        for callback in callbacks:
            callback()


def wait_for_met(node: Node, late: int) -> None:
    """Called before an error that a commit up to `late` may have caused. Raises LockWait unless that commit is durable
    (0)."""
    if late:
        raise LockWait(DurabilityWait(node, [late]))


def _as_error(error: BaseException | None) -> Exception | None:
    return None if error is None else as_sql_error(error)


class _Worker(Protocol):
    work: dict[str, Work]


def result_of(session: _Worker, name: str, run: object, begin: Callable[[], Awaitable[object]]) -> object:
    """The result of the work that `begin` starts. `run` is the same object throughout one run of the statement. Raises
    LockWait until the result exists."""
    work = session.work.get(name)
    if work is not None and (work.error is not None or (work.taken_by is not None and work.taken_by is not run)):
        work = None  # of an earlier statement
    if work is None:
        work = session.work[name] = Work(begin())
    if not work.done:
        raise LockWait(work)
    work.taken_by = run
    return work.result
