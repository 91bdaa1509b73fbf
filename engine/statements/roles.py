"""CREATE, ALTER and DROP ROLE, REASSIGN OWNED and DROP OWNED: the last three concern large objects too."""

from __future__ import annotations

from typing import TYPE_CHECKING

from engine.session.answer import Sink
from engine.session.portal import Portal
from engine.sql import ast
from engine.statements import schema_change

if TYPE_CHECKING:
    from engine.session.session import Session


async def run(session: Session, tree: ast.RoleStmt | ast.OwnedStmt, portal: Portal, sink: Sink) -> None:
    schema_change.begin(session, tree)
    if owners := _owners(session, tree):
        await session.large_objects.find_owned(owners)
    try:
        await schema_change.run(session, tree, portal, sink)
    finally:
        session.large_objects.forget_owned()


def _owners(session: Session, statement: ast.Node) -> frozenset[int]:
    """The roles whose large objects the statement affects."""
    names: tuple[str, ...] = ()
    if isinstance(statement, ast.OwnedStmt):
        names = statement.roles
    elif isinstance(statement, ast.RoleStmt) and statement.action == "drop":
        names = statement.names
    if not names:
        return frozenset()
    names += (session.user_name, session.session_user_name)  # CURRENT_USER and its kin
    return frozenset(oid for oid in map(session.catalog.roles.get, names) if oid)
