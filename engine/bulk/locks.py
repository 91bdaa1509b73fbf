"""The table locks that stand for row locks in bulk (see the package's text), taken when a statement proves large."""

from __future__ import annotations

from typing import TYPE_CHECKING

from catalog.errors import SqlError
from catalog.schema import Table
from engine.bulk.encode import TableEncoder
from engine.txn.locks import EXCLUSIVE, SHARE_ROW_EXCLUSIVE

if TYPE_CHECKING:
    from engine.session.session import Session


async def lock_for_rows(session: Session, encoder: TableEncoder, held_before: int) -> None:
    """For new rows: nobody else may write while keys are looked up."""
    if encoder.has_unique_keys:
        await _lock(session, encoder.table, SHARE_ROW_EXCLUSIVE, held_before)


async def lock_for_changes(session: Session, table: Table, held_before: int) -> None:
    """For changed and deleted rows: nobody else may write, nor lock rows."""
    await _lock(session, table, EXCLUSIVE, held_before)


async def _lock(session: Session, table: Table, mode: int, held_before: int) -> None:
    """`held_before`: the modes that the transaction held before the statement. A mode of the statement's own is given
    back, or two statements that both want the stronger one would wait for each other's weaker one."""
    transaction = session.transaction
    assert transaction is not None
    if transaction.table_locks.get(table.oid, 0) & mode:
        return
    if not held_before:
        transaction.unlock_table(table.oid)
    await session.lock_table(transaction, table.oid, mode)
    if session.catalog.get(table.oid) is not table:
        # Somebody was before us in the queue and has changed the definition.
        raise SqlError("40001", f'table "{table.name}" was changed while the statement waited for a lock')
