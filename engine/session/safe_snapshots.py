"""SERIALIZABLE READ ONLY DEFERRABLE: waits for a snapshot with which nothing can go wrong (GetSafeSnapshot in
PostgreSQL's predicate.c), and is watched no more: it never fails with 40001, and nobody fails because of it.
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING

from engine.session.waiting import Work
from engine.txn.interface import SERIALIZABLE, LockWait

if TYPE_CHECKING:
    from engine.session.interface import SessionCore
    from engine.txn.transaction import Transaction


def look_before(session: SessionCore, transaction: Transaction) -> None:
    """The transaction is SERIALIZABLE or not: what it asks before it takes its snapshot."""
    serializable = transaction.isolation == SERIALIZABLE
    transaction.before_snapshot = partial(_wait, session, transaction) if serializable else None


def blockers(session: SessionCore) -> list[int]:
    """The process ids of those for whom the session's wait for a safe snapshot goes on."""
    return [] if session.safety is None else [serial.process_id for serial in session.safety.left]


async def begun(session: SessionCore, transaction: Transaction) -> None:
    """Returns when the transaction has a snapshot, of the statement or its own."""
    while True:
        try:
            transaction.begin_statement()
            return
        except LockWait as wait:
            await session.wait_for(wait)


def _wait(session: SessionCore, transaction: Transaction) -> None:
    """Raises LockWait where the transaction is to have a safe snapshot, and has none yet."""
    if transaction.read_only and session.variables.get("transaction_deferrable") == "on":
        raise LockWait(Work(_take(session, transaction)))


async def _take(session: SessionCore, transaction: Transaction) -> None:
    space = session.node.table_locks.serializable
    while not transaction.has_snapshot:
        await session.durable(session.node.store.sequenced_lsn)  # so that it shows what is committed
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
