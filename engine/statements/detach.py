"""DETACH PARTITION CONCURRENTLY over its two transactions, and the wait before FINALIZE; engine/ddl/detach.py has the
changes. Between the transactions the session has no lock, so that nobody waits for it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from catalog.schema import Table
from engine.sql import ast
from engine.txn.interface import READ_COMMITTED, LockWait
from engine.txn.locks import ACCESS_EXCLUSIVE, SHARE_UPDATE_EXCLUSIVE, Owner
from engine.txn.transaction import Transaction

if TYPE_CHECKING:
    from engine.session.session import Session


def detach_command(statement: ast.Node, how: str) -> ast.AlterTableCmd | None:
    """The command, if the statement is ALTER TABLE ... DETACH PARTITION ... CONCURRENTLY or FINALIZE (`how`)."""
    if not isinstance(statement, ast.AlterTableStmt):
        return None
    found = (item for item in statement.commands if item.action == "detach_partition" and item.value == how)
    return next(found, None)


async def wait_before_finalize(session: Session, statement: ast.Node) -> None:
    """FINALIZE waits for users of the parent whose snapshots may be older. Raises 40P01, 55P03, 57014."""
    if detach_command(statement, "finalize") is None:
        return
    assert isinstance(statement, ast.AlterTableStmt) and session.transaction is not None
    parent = session.environment.find_relation(statement.relation.schema, statement.relation.name)
    if isinstance(parent, Table) and parent.partitioning is not None:
        await session.lock_table(session.transaction, parent.oid, SHARE_UPDATE_EXCLUSIVE)
        await _wait_for_users(session, parent.oid, _keeps_snapshot)


async def finalize_statement(session: Session, statement: ast.AlterTableStmt) -> ast.AlterTableStmt | None:
    """After the first transaction of CONCURRENTLY: ends it, waits for all transactions that use the parent, and begins
    the second one. Returns its statement; None if a table is gone. Raises 40P01, 55P03, 57014."""
    command = detach_command(statement, "concurrently")
    assert command is not None and command.relation is not None
    environment = session.environment
    parent = environment.find_relation(statement.relation.schema, statement.relation.name)
    partition = environment.find_relation(command.relation.schema, command.relation.name)
    assert isinstance(parent, Table) and isinstance(partition, Table)
    await session.durable(session.finish())
    session.begin_implicit()
    await _wait_for_users(session, parent.oid)
    above, below = session.catalog.get(parent.oid), session.catalog.get(partition.oid)
    if not isinstance(above, Table) or not isinstance(below, Table):
        return None
    finalized = replace(command, value="finalize", relation=_by_schema(session, below))
    return replace(statement, relation=_by_schema(session, above), commands=(finalized,))


def _by_schema(session: Session, table: Table) -> ast.RangeVar:
    return ast.RangeVar(None, session.catalog.schema_name(table.schema), table.name)


def _keeps_snapshot(owner: Owner) -> bool:
    return isinstance(owner, Transaction) and owner.isolation != READ_COMMITTED and owner.has_snapshot


async def _wait_for_users(session: Session, oid: int, concerns: Callable[[Owner], bool] | None = None) -> None:
    assert session.transaction is not None
    space = session.node.table_locks
    ticket = space.wait_for_lockers(session.transaction, oid, ACCESS_EXCLUSIVE, concerns)
    if ticket is not None:
        await session.wait_for(LockWait(ticket))
