"""Opens a session on a node, after checks of the role, the database and connection limits. This module joins the
packages that a session needs."""

from __future__ import annotations

from catalog.catalog import Catalog
from catalog.errors import SqlError
from catalog.privileges import may
from catalog.schema import Database, Role
from engine.node.node import Node
from engine.session.interface import SessionParts
from engine.session.session import Session
from engine.statements.plpgsql.within import CallsWithin
from engine.statements.temporary import TemporaryTables
from engine.system_views.views import SessionViews

PARTS = SessionParts(SessionViews, TemporaryTables, CallsWithin)


def open_session(node: Node, user: str, database: str, settings: dict[str, str]) -> Session:
    """A new session. Raises 28000 (no such role, no login), 3D000 (no such database), 42501, 53300, 55000, 22023 (all
    FATAL)."""
    try:
        catalog = node.shared_catalog
        role = _role(node, catalog, user)
        _check_database(node, catalog, role, database)
        return Session(node, role, catalog.databases[database], database, settings, PARTS)
    except SqlError as error:
        error.severity = "FATAL"
        raise


def _role(node: Node, catalog: Catalog, user: str) -> Role:
    found = catalog.roles.get(user)
    if found is None:
        raise SqlError("28000", f'role "{user}" does not exist')
    role = catalog.get(found)
    assert isinstance(role, Role)
    if not role.login:
        raise SqlError("28000", f'role "{user}" is not permitted to log in')
    if role.connection_limit >= 0 and not role.superuser:
        taken = sum(session.role.oid == role.oid for session in node.sessions.values())
        if taken >= role.connection_limit:
            raise SqlError("53300", f'too many connections for role "{user}"')
    return role


def _check_database(node: Node, catalog: Catalog, role: Role, database: str) -> None:
    if database not in catalog.databases:
        raise SqlError("3D000", f'database "{database}" does not exist')
    chosen = catalog.get(catalog.databases[database])
    if not isinstance(chosen, Database):
        return
    if not chosen.allow_connections:
        raise SqlError("55000", f'database "{database}" is not currently accepting connections')
    if chosen.acl is not None and not may(catalog, chosen, role, "c"):
        message = f'permission denied for database "{database}"'
        raise SqlError("42501", message, detail="User does not have CONNECT privilege.")
    if chosen.connection_limit >= 0 and not role.superuser:
        taken = sum(session.database_oid == chosen.oid for session in node.sessions.values())
        if taken >= chosen.connection_limit:
            raise SqlError("53300", f'too many connections for database "{database}"')
