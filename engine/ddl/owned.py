"""REASSIGN OWNED and DROP OWNED: all that a role owns in this database, and the databases and tablespaces it owns."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, cast

from catalog.errors import SqlError
from catalog.privileges import names_of
from catalog.schema import (
    ChangeStream,
    Database,
    Role,
    Routine,
    Schema,
    SchemaObject,
    Sequence,
    Table,
    Tablespace,
    View,
)
from engine.ddl import change_streams, default_privileges, grants, names
from engine.ddl.context import DdlContext
from engine.ddl.drop import Removal
from engine.sql import ast


def owned(context: DdlContext, statement: ast.OwnedStmt) -> str:
    """Raises 42704, 42501, 2BP01."""
    roles = [_role(context, name) for name in statement.roles]
    if statement.new_owner is not None:
        owner = _role(context, statement.new_owner)
        for role in roles:
            _reassign(context, role, owner)
        return "REASSIGN OWNED"
    _drop(context, roles, statement.cascade)
    return "DROP OWNED"


def _role(context: DdlContext, name: str) -> Role:
    if name in ("current_user", "current_role", "session_user"):
        name = context.user_name
    found = context.catalog.get(context.catalog.roles.get(name, 0))
    if not isinstance(found, Role):
        raise SqlError("42704", f'role "{name}" does not exist')
    user = names.user_role(context)
    if not user.superuser and found.name not in names_of(context.catalog, user):
        raise SqlError("42501", "permission denied to reassign objects")
    return found


def _of(context: DdlContext, role: Role, kinds: tuple[type[Any], ...]) -> list[Any]:
    here = set(context.catalog.schemas.values())
    return [
        item
        for item in context.catalog.objects.values()
        if isinstance(item, kinds)
        and item.owner == role.oid
        and (isinstance(item, (Schema, Database, Tablespace)) or item.schema in here)
    ]


def _reassign(context: DdlContext, role: Role, owner: Role) -> None:
    if not role.superuser and role.oid == owner.oid:
        return
    changes: dict[int, SchemaObject | None] = {}
    for item in _of(context, role, (Table, View, Sequence, Schema, Database, Tablespace, Routine)):
        changes[item.oid] = grants.with_owner(context, item, owner)
    for item in context.catalog.objects.values():
        if item.oid not in changes and getattr(item, "owner", None) == role.oid and _is_here(context, item):
            changes[item.oid] = replace(cast(Any, item), owner=owner.oid)
    context.change(changes)


def _is_here(context: DdlContext, item: SchemaObject) -> bool:
    if isinstance(item, ChangeStream):
        return item.database == context.catalog.database
    return getattr(item, "schema", 0) in context.catalog.schemas.values()


def _drop(context: DdlContext, roles: list[Role], cascade: bool) -> None:
    """What they own here goes, and what they were granted here and on what all databases share."""
    removal = Removal(context, cascade)
    roots = [
        item
        for role in roles
        for item in _of(context, role, (Table, View, Sequence, Schema, Routine))
        if not (isinstance(item, Sequence) and item.owned_by is not None)
    ]
    for item in roots:
        if not isinstance(item, Schema | Routine):
            context.lock_relation(item.oid, "access exclusive")
        removal.add(item)
    if roots:
        removal.carry_out(roots)
    streams = [item.name for item in context.catalog.change_streams.values() if item.owner in {r.oid for r in roles}]
    if streams:
        change_streams.drop(context, streams)
    for role in roles:
        default_privileges.forget(context, role)
        for item in grants.mentioning(context, role.name):
            if isinstance(item, (Database, Tablespace)) or _is_here(context, item) or isinstance(item, Schema):
                context.change({item.oid: grants.without_role(item, role.name)})
