"""The table lock that a large statement takes in place of row locks (see the package's text)."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from catalog.errors import SqlError
from catalog.schema import Table
from engine.txn.locks import EXCLUSIVE

if TYPE_CHECKING:
    from engine.bulk.session import BulkSession


TELL_AFTER = 5.0  # seconds


def _tell(session: BulkSession, table: Table) -> None:
    """Sends a NOTICE with the sessions that hold locks. PostgreSQL would wait for single rows only, so the user must
    learn for whom the statement waits."""
    if session.client.tell_now is None or session.transaction is None:
        return
    blockers = session.functions.blockers(session.process_id)
    detail = " ".join(f"Process {process} holds a lock of it{_since(session, process)}." for process in blockers)
    hint = "pg_blocking_pids() shows the blocking sessions; a change of 2,000 rows or fewer locks only rows."
    message = f'waiting for all writers of table "{table.name}" to end their transactions'
    session.client.tell_now(SqlError("00000", message, severity="NOTICE", detail=detail or None, hint=hint))


def _since(session: BulkSession, process: int) -> str:
    other = session.node.sessions.get(process)
    if other is None or other.transaction is None:
        return ""
    seconds = (session.node.clock() - other.transaction.start_time) // 1_000_000
    return f", in a transaction that began {seconds} s ago"


async def lock_for_changes(session: BulkSession, table: Table, held_before: int) -> None:
    """The lock for changed and deleted rows: no other transaction may write, or lock rows.

    `held_before`: the modes that the transaction held before the statement. A mode of the statement itself is released,
    because two statements that want the stronger mode would otherwise wait for each other's weaker one."""
    transaction = session.transaction
    assert transaction is not None
    if transaction.table_locks.get(table.oid, 0) & EXCLUSIVE:
        return
    if not held_before:
        transaction.unlock_table(table.oid)
    telling = asyncio.get_running_loop().call_later(TELL_AFTER, _tell, session, table)
    try:
        await session.lock_table(transaction, table.oid, EXCLUSIVE)
    finally:
        telling.cancel()
    if session.catalog.get(table.oid) is not table:
        # An earlier transaction in the queue has changed the definition.
        raise SqlError("40001", f'table "{table.name}" was changed while the statement waited for a lock')
