"""PREPARE TRANSACTION, COMMIT PREPARED, ROLLBACK PREPARED of a session. engine/txn/two_phase.py keeps the prepared
transaction.

Refused, as in PostgreSQL: transactions that have used temporary tables, LISTEN or NOTIFY, or have made a cursor WITH
HOLD. Also refused here: schema changes, advisory locks of the transaction. Every refusal, and a wrong
identifier, rolls the transaction back. (PostgreSQL 16 manual, PREPARE TRANSACTION.)
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from catalog.errors import SqlError, not_supported
from catalog.schema import Role, Table
from engine.node.schema_of_snapshots import see_committed
from engine.session.setting_definitions import MAX_PREPARED_TRANSACTIONS

if TYPE_CHECKING:
    from engine.session.interface import SessionCore
    from engine.txn.transaction import Transaction

IDENTIFIER_LIMIT = 200  # bytes; a longer identifier is refused


class Used(NamedTuple):
    """Features that the transaction has used and that cannot be prepared."""

    advisory_locks: bool
    notifications: bool  # LISTEN, UNLISTEN or NOTIFY
    held_cursors: bool


def check(session: SessionCore, identifier: str, used: Used) -> None:
    """Whether the session's transaction may be prepared under this identifier. Raises 22023, 42710, 53200, 0A000."""
    known = session.node.prepared
    if len(identifier.encode()) >= IDENTIFIER_LIMIT:
        raise SqlError("22023", f'transaction identifier "{identifier}" is too long')
    transaction = session.transaction
    assert transaction is not None
    _check_work(session, transaction, used)
    if known.find(identifier) is not None:
        raise SqlError("42710", f'transaction identifier "{identifier}" is already in use')
    if len(known) >= MAX_PREPARED_TRANSACTIONS:
        hint = f"Increase max_prepared_transactions (currently {MAX_PREPARED_TRANSACTIONS})."
        raise SqlError("53200", "maximum number of prepared transactions reached", hint=hint)


def _check_work(session: SessionCore, transaction: Transaction, used: Used) -> None:
    see_committed(transaction)
    if transaction.changed_objects or transaction.dropped_storage:
        not_supported("PREPARE TRANSACTION after a schema change")
    if used.advisory_locks:
        not_supported("PREPARE TRANSACTION of a transaction that holds advisory locks")
    if used.notifications:
        raise SqlError("0A000", "cannot PREPARE a transaction that has executed LISTEN, UNLISTEN, or NOTIFY")
    if session.node.exported.any_of(transaction):
        raise SqlError("0A000", "cannot PREPARE a transaction that has exported snapshots")
    if used.held_cursors:
        raise SqlError("0A000", "cannot PREPARE a transaction that has created a cursor WITH HOLD")
    if session.temporary_schema is not None:
        objects = session.catalog.objects
        locked = (objects.get(name) for name in transaction.table_locks if isinstance(name, int))
        if any(isinstance(item, Table) and item.schema == session.temporary_schema for item in locked):
            raise SqlError("0A000", "cannot PREPARE a transaction that has operated on temporary objects")


def finish(session: SessionCore, identifier: str, committed: bool) -> int:
    """Ends a prepared transaction. Returns the LSN to wait for. Raises 25001, 42704, 42501, 0A000."""
    if session.in_block:
        word = "COMMIT" if committed else "ROLLBACK"
        raise SqlError("25001", f"{word} PREPARED cannot run inside a transaction block")
    known = session.node.prepared
    prepared = known.find(identifier)
    if prepared is None:
        raise SqlError("42704", f'prepared transaction with identifier "{identifier}" does not exist')
    user = session.catalog.get(session.catalog.roles.get(session.user_name, 0))
    if not isinstance(user, Role) or (user.oid != prepared.owner and not user.superuser):
        hint = "Must be superuser or the user that prepared the transaction."
        raise SqlError("42501", "permission denied to finish prepared transaction", hint=hint)
    if session.database_oid != prepared.database:
        hint = "Connect to the database where the transaction was prepared to finish it."
        raise SqlError("0A000", "prepared transaction belongs to another database", hint=hint)
    return known.finish(identifier, committed)
