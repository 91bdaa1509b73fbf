"""Temporary tables of a session: ON COMMIT at the commit of a transaction, and their end.

    DELETE ROWS    the transaction's writes of the table are not committed; there are no earlier rows, because earlier
                   transactions did the same
    DROP           the table is dropped with the transaction that made it

Only sessions with temporary tables use this.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from catalog.errors import SqlError
from catalog.schema import Table
from engine.ddl.drop import remove
from engine.sql import ast
from engine.statements import schema_change
from engine.statements.ddl_context import SessionDdl
from engine.storage.keys import PREFIX_BYTES, storage_prefix

if TYPE_CHECKING:
    from engine.session.session import Session
    from engine.txn.transaction import Transaction


class TemporaryTables:
    """The temporary tables of one session (engine.session.interface.TemporaryTables)."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def on_commit(self, transaction: Transaction) -> None:
        """Runs before the session's transaction is sequenced."""
        session = self._session
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
                remove(SessionDdl(session), [table], cascade=True)

    async def drop(self) -> None:
        """Drops the session's temporary schema with its contents, in a transaction of its own."""
        session = self._session
        name = session.temporary_schema_name
        session.temporary_schema = None
        if name not in session.catalog.schemas:
            return
        session.begin_implicit()
        try:
            await schema_change.execute(session, ast.DropStmt("schema", ((name,),), cascade=True))
        except SqlError as error:
            session.transactions.fail(error)
            raise
        session.notices.clear()
        lsn = session.finish()
        if lsn:
            await session.durable(lsn)


def _leave_out(session: Session, transaction: Transaction, tables: list[Table]) -> None:
    prefixes = {storage_prefix(table.storage_id) for table in tables}
    prefixes |= {storage_prefix(session.catalog.index(oid).storage_id) for table in tables for oid in table.indexes}
    for key in [key for key in transaction.writes if key[:PREFIX_BYTES] in prefixes]:
        del transaction.writes[key]
    for run in list(transaction.runs):
        if any(map(run.has, prefixes)):
            transaction.runs.remove(run)
            run.discard()
