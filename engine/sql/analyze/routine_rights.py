"""The privilege to execute functions, procedures and aggregates of users."""

from __future__ import annotations

from catalog.catalog import Catalog
from catalog.errors import SqlError
from catalog.privileges import may
from catalog.schema import Role, Routine


def may_execute(routine: Routine, catalog: Catalog, role: Role) -> bool:
    """All users may execute it if no privilege was granted or revoked."""
    return routine.acl is None or role.superuser or may(catalog, routine, role, "X")


def check_execute(routine: Routine, catalog: Catalog, role: Role) -> None:
    """42501 unless the role may call it."""
    if not may_execute(routine, catalog, role):
        word = {"f": "function", "p": "procedure", "a": "aggregate"}[routine.kind]
        raise SqlError("42501", f"permission denied for {word} {routine.name}")
