"""Waits of a session: locks, durability, and timeouts of statements and transactions."""

from __future__ import annotations

import asyncio
from collections.abc import Hashable, Mapping
from functools import partial
from time import perf_counter
from typing import TYPE_CHECKING

from catalog.errors import SqlError
from engine.node.node import resolve
from engine.session.errors import canceled_error, transaction_error
from engine.session.serializable_statements import look_for_dependency
from engine.storage.moments import Lsn
from engine.txn.commit import Acknowledge, Lost
from engine.txn.interface import LockWait
from engine.txn.joint import wait_for
from engine.txn.locks import ACCESS_EXCLUSIVE, ROW_EXCLUSIVE, Ticket
from engine.txn.transaction import Transaction

if TYPE_CHECKING:
    from engine.session.interface import SessionCore


class Waits:
    """Waits of a session whose commits are acknowledged when they are durable; engine/session/asynchronous_commit.py
    has the others."""

    catches_up = False
    """Whether `catch_up` may have something to do."""

    def __init__(self, session: SessionCore) -> None:
        self._session = session

    # ---- locks ------------------------------------------------------------------------------------------------------

    def table_locks(self) -> Mapping[Hashable, int]:
        """The table locks that the transaction holds now."""
        transaction = self._session.transaction
        return dict(transaction.table_locks) if transaction is not None else {}

    async def lock_table(self, transaction: Transaction, oid: int, mode: int, wait: str = "block") -> None:
        """Locks a table, and waits without a limit."""
        node = self._session.node
        if mode == ACCESS_EXCLUSIVE and not transaction.exclusive:
            transaction.exclusive = True
            node.exclusive_tables += 1
        while True:
            try:
                transaction.lock_table(oid, mode, wait)
            except LockWait as wait_for:
                await self.wait_for(wait_for)
                continue
            if mode > ROW_EXCLUSIVE:
                # A session that excludes writers reads the commits of the last one, not only for row locks.
                await self.durable(node.store.sequenced_lsn)
            return

    async def wait_for(self, wait: LockWait) -> None:
        """Waits until the lock is granted. Raises the error that ended the wait: 57014, 55P03 (lock_timeout), or 40001
        if the node is no longer the leader."""
        session, ticket = self._session, wait.ticket
        began = perf_counter()
        loop = asyncio.get_running_loop()
        future: asyncio.Future[None] = loop.create_future()

        ticket.add_done_callback(partial(resolve, future))
        timer = None
        if session.lock_timeout:
            error = SqlError("55P03", "canceling statement due to lock timeout")
            timer = loop.call_later(session.lock_timeout / 1000, ticket.cancel, error)
        try:
            await future
        except asyncio.CancelledError:
            ticket.cancel(canceled_error())
            raise
        finally:
            if timer is not None:
                timer.cancel()
        if ticket.error is not None:
            raise ticket.error
        if wait.then is not None:
            try:
                wait.then()
            except SqlError as error:
                if session.transaction is not None:
                    await self.met_durable(session.transaction)
                    look_for_dependency(session.catalog, session.transaction, error)
                raise
        if isinstance(ticket, Ticket) and ticket.space is session.node.table_locks:
            await self.durable(session.node.store.sequenced_lsn)  # the commit of the former holder must be visible
        session.waited += perf_counter() - began
        session.check_leads()

    # ---- durability -------------------------------------------------------------------------------------------------

    @property
    def for_nothing(self) -> bool:
        """Whether all commits that the client knows of are durable."""
        return True

    def await_commit(self, lsn: int, acknowledge: Acknowledge, lost: Lost) -> None:
        """CommitQueue.wait for the LSN of a commit of this session, before the client gets its answer."""
        self._session.node.commits.wait(lsn, acknowledge, lost)

    async def catch_up(self) -> None:
        """Called before a statement that may wait: makes early acknowledged commits visible."""

    def late(self, transaction: Transaction) -> int:
        """The position to wait for before an error of the transaction is reported; 0: none."""
        return self._session.node.commits.late(transaction.met) if transaction.met else 0

    async def met_durable(self, transaction: Transaction) -> None:
        """Waits until the commits that the transaction has met are durable: before statements that only read them, and
        before errors that they cause, so that a client that looks for the reason finds it."""
        if transaction.met and (late := self._session.node.commits.late(transaction.met)):
            await self.durable(late)

    async def durable(self, lsn: Lsn) -> None:
        """Waits until the LSN is durable. Cannot be cancelled, because a running commit is not undone. Raises 40001 or
        08007 if the node has lost its leadership (CommitQueue.wait)."""
        session = self._session
        if lsn <= session.node.store.durable_lsn:
            return
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        lost: list[SqlError] = []

        def give_up(error: SqlError) -> None:
            lost.append(error)
            resolve(future)

        wait_for(session.node.commits, lsn, partial(resolve, future), give_up)
        while not future.done():
            try:
                await asyncio.shield(future)
            except asyncio.CancelledError:
                session.cancel_error = None
                task = asyncio.current_task()
                if task is not None:
                    task.uncancel()
        if lost:
            raise lost[0]

    def cancel(self) -> bool:
        """Ends a wait that does not belong to a statement. False: there is none."""
        return False


class Timeouts:
    """statement_timeout and transaction_timeout of a session."""

    def __init__(self, session: SessionCore) -> None:
        self._session = session
        self.transaction = 0  # milliseconds; 0: none
        self._transaction_timer: asyncio.TimerHandle | None = None
        self._statement_timer: asyncio.TimerHandle | None = None

    def follow(self, milliseconds: int) -> None:
        """transaction_timeout was set."""
        if milliseconds != self.transaction:
            self.transaction = milliseconds
            self.watch_transaction()

    def watch_transaction(self) -> None:
        """transaction_timeout has changed, or a transaction has begun under it."""
        if self._transaction_timer is not None:
            self._transaction_timer.cancel()
            self._transaction_timer = None
        if self.transaction and self._has_transaction:
            loop = asyncio.get_running_loop()
            self._transaction_timer = loop.call_later(self.transaction / 1000, self._transaction_late)

    @property
    def _has_transaction(self) -> bool:
        """False if there is no transaction, not even of a single statement."""
        return self._session.transaction is not None or self._session.status != "I"

    def _transaction_late(self) -> None:
        self._transaction_timer = None
        if self._has_transaction:
            self._session.cancel(transaction_error())

    def watch_statement(self) -> None:
        """Starts statement_timeout for a statement that may wait."""
        self.leave_statement()
        limit = self._session.statement_timeout
        if limit:
            error = SqlError("57014", "canceling statement due to statement timeout")
            loop = asyncio.get_running_loop()
            self._statement_timer = loop.call_later(limit / 1000, self._session.cancel, error)

    def leave_statement(self) -> None:
        """Stops statement_timeout."""
        if self._statement_timer is not None:
            self._statement_timer.cancel()
            self._statement_timer = None
