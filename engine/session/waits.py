"""What a session waits for: locks, durability, the time that statements and transactions may take."""

from __future__ import annotations

import asyncio
from collections.abc import Hashable, Mapping
from functools import partial
from time import perf_counter
from typing import TYPE_CHECKING

from catalog.errors import SqlError
from engine.node.node import resolve
from engine.session.errors import canceled_error, transaction_error
from engine.storage.moments import Lsn
from engine.txn.commit import Acknowledge, Lost
from engine.txn.interface import LockWait
from engine.txn.joint import wait_for
from engine.txn.locks import ACCESS_EXCLUSIVE, ROW_EXCLUSIVE, Ticket
from engine.txn.transaction import Transaction

if TYPE_CHECKING:
    from engine.session.interface import SessionCore


class Waits:
    """Of a session whose clients are told of commits when these are durable; engine/session/asynchronous_commit.py has
    the others."""

    def __init__(self, session: SessionCore) -> None:
        self._session = session

    # ---- locks ------------------------------------------------------------------------------------------------------

    def table_locks(self) -> Mapping[Hashable, int]:
        """The table locks that the transaction holds now."""
        transaction = self._session.transaction
        return dict(transaction.table_locks) if transaction is not None else {}

    async def lock_table(self, transaction: Transaction, oid: int, mode: int, wait: str = "block") -> None:
        """Locks a table, waiting as long as it takes."""
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
                # Whoever shuts out writers reads what the last of them wrote, and not only where it locks rows.
                await self.durable(node.store.sequenced_lsn)
            return

    async def wait_for(self, wait: LockWait) -> None:
        """Waits until the lock is granted. Raises what ended the wait: 57014, 55P03 (lock_timeout); 40001 where the
        node leads no more."""
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
            except SqlError:
                if session.transaction is not None:
                    await self.met_durable(session.transaction)
                raise
        if isinstance(ticket, Ticket) and ticket.space is session.node.table_locks:
            await self.durable(session.node.store.sequenced_lsn)  # what held the lock is to be seen
        session.waited += perf_counter() - began
        session.check_leads()

    # ---- durability -------------------------------------------------------------------------------------------------

    @property
    def for_nothing(self) -> bool:
        """Whether everything that its client was told of is durable."""
        return True

    def await_commit(self, lsn: int, acknowledge: Acknowledge, lost: Lost) -> None:
        """CommitQueue.wait for the LSN of a commit of this session, before its client is told."""
        self._session.node.commits.wait(lsn, acknowledge, lost)

    async def catch_up(self) -> None:
        """Before a statement that may wait: what the session was told early is to be seen."""

    def late(self, transaction: Transaction) -> int:
        """What to wait for before the client is told of what the transaction has met; 0: nothing."""
        return self._session.node.commits.late(transaction.met) if transaction.met else 0

    async def met_durable(self, transaction: Transaction) -> None:
        """Waits until what the transaction has met is durable: for what only reads that, and before errors that come
        of it, so that who looks for the reason finds it."""
        if transaction.met and (late := self._session.node.commits.late(transaction.met)):
            await self.durable(late)

    async def durable(self, lsn: Lsn) -> None:
        """Waits until the LSN is durable. Cannot be cancelled: a commit that is under way is not undone, so nobody is
        to be told that it was. Raises 40001 or 08007 when the node has lost its leadership (CommitQueue.wait)."""
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
        """Ends a wait that is no statement's. False: there is none."""
        return False


class Timeouts:
    """statement_timeout and transaction_timeout of a session."""

    def __init__(self, session: SessionCore) -> None:
        self._session = session
        self.transaction = 0  # milliseconds; 0: none
        self._transaction_timer: asyncio.TimerHandle | None = None
        self._statement_timer: asyncio.TimerHandle | None = None

    def follow(self, milliseconds: int) -> None:
        """transaction_timeout is set."""
        if milliseconds != self.transaction:
            self.transaction = milliseconds
            self.watch_transaction()

    def watch_transaction(self) -> None:
        """transaction_timeout is another one, or a transaction has begun under it."""
        if self._transaction_timer is not None:
            self._transaction_timer.cancel()
            self._transaction_timer = None
        if self.transaction and self._has_transaction:
            loop = asyncio.get_running_loop()
            self._transaction_timer = loop.call_later(self.transaction / 1000, self._transaction_late)

    @property
    def _has_transaction(self) -> bool:
        """False where there is none, not even that of a single statement."""
        return self._session.transaction is not None or self._session.status != "I"

    def _transaction_late(self) -> None:
        self._transaction_timer = None
        if self._has_transaction:
            self._session.cancel(transaction_error())

    def watch_statement(self) -> None:
        """A statement that may wait begins: from now on it has statement_timeout."""
        self.leave_statement()
        limit = self._session.statement_timeout
        if limit:
            error = SqlError("57014", "canceling statement due to statement timeout")
            loop = asyncio.get_running_loop()
            self._statement_timer = loop.call_later(limit / 1000, self._session.cancel, error)

    def leave_statement(self) -> None:
        """Nothing runs that statement_timeout counts."""
        if self._statement_timer is not None:
            self._statement_timer.cancel()
            self._statement_timer = None
