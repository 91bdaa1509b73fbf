"""What ON COMMIT says of temporary tables, done when their transaction commits.

    DELETE ROWS    what the transaction has written into the table is left out of what it commits: no row of an earlier
                   transaction can be there, since each left its own out
    DROP           the table goes with the transaction that made it

Only sessions with temporary tables come here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from catalog.schema import Table
from engine.ddl.drop import Removal
from engine.session.ddl import SessionDdl
from engine.storage.keys import PREFIX_BYTES, storage_prefix

if TYPE_CHECKING:
    from engine.session.session import Session
    from engine.txn.transaction import Transaction


def on_commit(session: Session, transaction: Transaction) -> None:
    """Runs before the session's transaction is sequenced."""
    tables = [
        item
        for item in session.catalog.tables()
        if item.schema == session.temporary_schema and item.on_commit in ("delete", "drop")
    ]
    emptied = [table for table in tables if table.on_commit == "delete"]
    if emptied and (transaction.writes or transaction.runs):
        _leave_out(session, transaction, emptied)
    for table in tables:
        if table.on_commit == "drop" and table.oid in session.catalog.objects:
            removal = Removal(SessionDdl(session), cascade=True)
            removal.add(table)
            removal.carry_out([table])


def _leave_out(session: Session, transaction: Transaction, tables: list[Table]) -> None:
    prefixes = {storage_prefix(table.storage_id) for table in tables}
    prefixes |= {storage_prefix(session.catalog.index(oid).storage_id) for table in tables for oid in table.indexes}
    for key in [key for key in transaction.writes if key[:PREFIX_BYTES] in prefixes]:
        del transaction.writes[key]
    for run in list(transaction.runs):
        if any(map(run.has, prefixes)):
            transaction.runs.remove(run)
            run.discard()
