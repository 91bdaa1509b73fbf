"""Waits of a transaction before it takes the one snapshot of all its statements.

Commits that it depends on by its locks (LOCK TABLE as its first statement) must be durable, so that the snapshot shows
them. SERIALIZABLE READ ONLY DEFERRABLE waits for a safe snapshot (GetSafeSnapshot in PostgreSQL's predicate.c) and is
not tracked any more: it never fails with 40001, and no other transaction fails because of it.
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING

from engine.session.other_waits import Work
from engine.txn.interface import READ_COMMITTED, SERIALIZABLE, LockWait

if TYPE_CHECKING:
    from engine.session.interface import SessionCore
    from engine.txn.transaction import Transaction


def look_before(session: SessionCore, transaction: Transaction) -> None:
    """The transaction's isolation level is known: prepares the checks before its snapshot."""
    has_one = transaction.isolation != READ_COMMITTED
    transaction.before_snapshot = partial(_wait, session, transaction) if has_one else None


def blockers(session: SessionCore) -> list[int]:
    """The process ids of the sessions that delay the safe snapshot."""
    return [] if session.safety is None else [serial.process_id for serial in session.safety.left]


async def note_begin(session: SessionCore, transaction: Transaction) -> None:
    """Called when the transaction has a snapshot, of the statement or its own."""
    while True:
        try:
            transaction.begin_statement()
            return
        except LockWait as wait:
            await session.wait_for(wait)


def _wait(session: SessionCore, transaction: Transaction) -> None:
    """Raises LockWait if a snapshot that is taken now would not be safe."""
    safe = transaction.isolation == SERIALIZABLE and transaction.read_only
    if safe and session.variables.get("transaction_deferrable") == "on":
        raise LockWait(Work(_take(session, transaction)))
    if transaction.met and (late := session.node.commits.late(transaction.met)):
        raise LockWait(Work(session.durable(late)))


async def _take(session: SessionCore, transaction: Transaction) -> None:
    space = session.node.table_locks.serializable
    while not transaction.has_snapshot:
        await session.durable(session.node.store.sequenced_lsn)  # so that it shows these commits
        snapshot = transaction.store.snapshot()
        safety = session.safety = space.watch_safety(snapshot.lsn)
        decided: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        try:
            safety.when_decided(partial(_decide, decided))
            await decided
            if safety.holds:
                transaction.share_snapshot(snapshot)
        finally:
            session.safety = None
            space.watch_no_more(safety)
            snapshot.close()


def _decide(decided: asyncio.Future[None]) -> None:
    if not decided.done():
        decided.set_result(None)
