"""ALTER SYSTEM (PostgreSQL 16 manual, ALTER SYSTEM).

It writes the file of the node that runs it. The values take effect when the configuration is read again, or when the
server starts. It is for superusers, and for roles with GRANT ALTER SYSTEM ON PARAMETER for a setting.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from catalog.errors import SqlError, not_supported
from catalog.privileges import may_set
from engine.session.settings import check_for_all, in_list, not_permitted
from engine.sql import ast

if TYPE_CHECKING:
    from engine.session.answer import Sink
    from engine.session.portal import Portal
    from engine.session.session import Session


async def alter_system(session: Session, tree: ast.AlterSystemStmt, portal: Portal, sink: Sink) -> None:
    """Raises 42501, 42704, 22023, 55P02, 58030."""
    changed, user = tree.setting, session.identity.user
    every = changed.reset and changed.name.lower() == "all"
    if every and (user is None or not user.superuser):
        raise SqlError("42501", "permission denied to perform ALTER SYSTEM RESET ALL")
    if not every and not may_set(session.catalog, user, changed.name, "A"):
        raise not_permitted(changed.name)
    name = None if every else changed.name.lower()
    value = None if name is None else check_for_all(name, in_list(name, changed.values) if changed.values else None)
    configuration = session.present.configuration
    if configuration is None:
        not_supported("ALTER SYSTEM: this database has no server whose settings it could change")
    await configuration.alter(name, value)
    sink.complete("ALTER SYSTEM")
