"""LOCK TABLE: tables with their children, and views with all that they read, as the view's owner (lockcmds.c)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from catalog.errors import SqlError
from catalog.privileges import may
from catalog.schema import Role, Table, View, VirtualTable
from engine.sql import ast
from engine.sql.privileges import permission_denied
from engine.txn.locks import TABLE_MODES

if TYPE_CHECKING:
    from engine.session.answer import Sink
    from engine.session.portal import Portal
    from engine.session.session import Session

_LETTERS = {"access share": "r", "row exclusive": "awdD"}
_INVOKER = ("yes", "true", "on", "1", "")


async def lock(session: Session, statement: ast.LockStmt, portal: Portal, sink: Sink) -> None:
    """Raises 25P01, 42P01, 42809, 42501, 55P03."""
    if session.transaction is None or not session.has_block:
        raise SqlError("25P01", "LOCK TABLE can only be used in transaction blocks")
    for relation in statement.relations:
        while not await _lock_named(session, statement, relation):
            pass
    sink.complete("LOCK TABLE")


async def _lock_named(session: Session, statement: ast.LockStmt, relation: ast.RangeVar) -> bool:
    """Whether the locked relation still has the name."""
    found = session.environment.find_relation(relation.schema, relation.name)
    if found is None:
        raise SqlError("42P01", f'relation "{relation.name}" does not exist')
    user = session.identity.user
    if isinstance(found, VirtualTable):
        if statement.mode != "access share" and (user is None or not user.superuser):
            raise SqlError("42501", f"permission denied for table {found.name}")
    elif not isinstance(found, Table | View):
        raise SqlError("42809", f'"{found.name}" is not a table or view')
    elif user is None:
        raise SqlError("42704", f'role "{session.user_name}" does not exist')
    elif isinstance(found, Table) and found.server:
        detail = "This operation is not supported for foreign tables."
        raise SqlError("42809", f'cannot lock relation "{found.name}"', detail=detail)
    else:
        await _lock(session, statement, found, user, relation.only)
    now = session.environment.find_relation(relation.schema, relation.name)
    return now is not None and now.oid == found.oid


async def _lock(session: Session, statement: ast.LockStmt, item: Table | View, role: Role, only: bool) -> None:
    """Locks a relation as `role`, with its children or the relations of a view."""
    catalog = session.catalog
    if not may(catalog, item, role, _LETTERS.get(statement.mode, "wdD")):
        raise permission_denied(catalog, item)
    await _take(session, statement, item.oid)
    catalog = session.catalog
    now = catalog.get(item.oid)  # it may have been changed or dropped during the wait for the lock
    if not isinstance(now, Table | View):
        return
    item = now
    if isinstance(item, Table):
        for child in () if only else catalog.descendants(item.oid):
            await _take(session, statement, child.oid)
        return
    if dict(item.options).get("security_invoker", "off") not in _INVOKER:
        owner = catalog.get(item.owner)
        role = owner if isinstance(owner, Role) else role
    for oid in item.depends_on:
        below = catalog.get(oid)
        if isinstance(below, Table | View):
            await _lock(session, statement, below, role, only=False)


async def _take(session: Session, statement: ast.LockStmt, oid: int) -> None:
    assert session.transaction is not None
    wait = "nowait" if statement.nowait else "block"
    await session.lock_table(session.transaction, oid, TABLE_MODES[statement.mode], wait)
