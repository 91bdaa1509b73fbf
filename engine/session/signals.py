"""The right to cancel another session's statement, or to end the session (pg_signal_backend of PostgreSQL 15)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from catalog.errors import SqlError
from catalog.privileges import acts_as
from catalog.schema import SIGNAL_BACKEND_OID, Role

if TYPE_CHECKING:
    from engine.session.session import Session


def check_signal(session: Session, target: Session, terminate: bool) -> None:
    """Raises 42501 unless the user is a superuser, or has the privileges of the target's role or those of
    pg_signal_backend and the target is not a superuser."""
    catalog, user = session.catalog, session.identity.user
    role = catalog.get(catalog.roles.get(target.session_user_name, 0))
    if isinstance(role, Role) and role.superuser and not (user is not None and user.superuser):
        what = "terminate superuser process" if terminate else "cancel superuser query"
        raise SqlError("42501", f"must be a superuser to {what}")
    allowed = (SIGNAL_BACKEND_OID, *([role.oid] if isinstance(role, Role) else []))
    if not any(acts_as(catalog, user, oid) for oid in allowed):
        what = "process is being terminated" if terminate else "query is being canceled"
        raise SqlError("42501", f"must be a member of the role whose {what} or member of pg_signal_backend")
