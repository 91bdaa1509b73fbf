"""CREATE INDEX, REINDEX and DROP INDEX CONCURRENTLY wait for the transactions that use the table before they lock it
against others (DefineIndex, ReindexRelationConcurrently and index_drop in PostgreSQL).

During these waits the table has SHARE UPDATE EXCLUSIVE only, and the waiter is in no queue: others read and write. What
then remains, the build or the removal itself, locks the table like the statement without CONCURRENTLY.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from catalog.privileges import acts_as
from catalog.schema import Index, Table
from engine.ddl.indexes import reindexed_tables
from engine.sql import ast
from engine.txn.interface import LockWait
from engine.txn.locks import ACCESS_EXCLUSIVE, SHARE_UPDATE_EXCLUSIVE, TABLE_SHARE

if TYPE_CHECKING:
    from engine.session.session import Session

_BEFORE_BUILD = (TABLE_SHARE, TABLE_SHARE)
_BEFORE_DROP = (ACCESS_EXCLUSIVE, ACCESS_EXCLUSIVE)


async def wait_for_users(session: Session, statement: ast.Node) -> None:
    """The waits before a schema change with CONCURRENTLY; none before other statements, and none where the statement
    is about to fail. Raises 40P01, 55P03, 57014."""
    if isinstance(statement, ast.IndexStmt) and statement.concurrently:
        await _wait(session, _tables(session, statement.relation.schema, statement.relation.name), _BEFORE_BUILD)
    elif isinstance(statement, ast.ReindexStmt) and statement.concurrently:
        await _wait(session, _tables(session, *statement.name), (*_BEFORE_BUILD, *_BEFORE_DROP))
    elif isinstance(statement, ast.DropStmt) and statement.concurrently:
        parts = statement.names[0]
        await _wait(session, _tables(session, parts[-2] if len(parts) > 1 else None, parts[-1]), _BEFORE_DROP)


def _tables(session: Session, schema: str | None, name: str) -> list[int]:
    """The tables with rows whose indexes the statement changes, if the user may."""
    catalog = session.catalog
    found = session.environment.find_relation(schema, name)
    if not isinstance(found, Index | Table) or not acts_as(catalog, session.identity.user, found.owner):
        return []
    return reindexed_tables(catalog, found)


async def _wait(session: Session, tables: Sequence[int], modes: Sequence[int]) -> None:
    transaction, space = session.transaction, session.node.table_locks
    assert transaction is not None
    for oid in tables:
        await session.lock_table(transaction, oid, SHARE_UPDATE_EXCLUSIVE)
    for mode in modes:
        for oid in tables:
            ticket = space.wait_for_lockers(transaction, oid, mode)
            if ticket is not None:
                await session.wait_for(LockWait(ticket))
