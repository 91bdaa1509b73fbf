"""REASSIGN OWNED and DROP OWNED: a role's objects in this database, and its databases and tablespaces."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, cast

from catalog.errors import SqlError
from catalog.privileges import acts_as
from catalog.schema import (
    FIRST_USER_OID,
    ChangeStream,
    Database,
    ForeignServer,
    ForeignWrapper,
    Parameter,
    Role,
    Routine,
    Schema,
    SchemaObject,
    Sequence,
    Table,
    Tablespace,
    View,
)
from catalog.text_search.objects import TEXT_SEARCH
from engine.ddl import change_streams, default_privileges, event_triggers, grants, ownership, policies
from engine.ddl.context import DdlContext
from engine.ddl.drop import Removal
from engine.sql import ast


def run_owned(context: DdlContext, statement: ast.OwnedStmt) -> str:
    """Raises 42704, 42501, 2BP01."""
    what = "drop" if statement.new_owner is None else "reassign"
    roles = [_of_user(context, name, what) for name in statement.roles]
    if statement.new_owner is not None:
        owner = _of_user(context, statement.new_owner, what)
        for role in roles:
            _reassign(context, role, owner)
        return "REASSIGN OWNED"
    _drop(context, roles, statement.cascade)
    return "DROP OWNED"


def _of_user(context: DdlContext, name: str, what: str) -> Role:
    """A role whose privileges the user has. Raises 42704, 42501."""
    found = ownership.role_named(context, name)
    if not acts_as(context.catalog, ownership.user_role(context), found.oid):
        raise SqlError("42501", f"permission denied to {what} objects")
    return found


def _of(context: DdlContext, role: Role, kinds: tuple[type[Any], ...]) -> list[Any]:
    return [
        item
        for item in context.catalog.objects.values()
        if isinstance(item, kinds)
        and item.owner == role.oid
        and (isinstance(item, (Schema, Database, Tablespace)) or _is_here(context, item))
    ]


def _reassign(context: DdlContext, role: Role, owner: Role) -> None:
    if role.oid < FIRST_USER_OID:
        because = "because they are required by the database system"
        raise SqlError("2BP01", f"cannot reassign ownership of objects owned by role {role.name} {because}")
    changes: dict[int, SchemaObject | None] = {}
    kinds = (Table, View, Sequence, Schema, Database, Tablespace, Routine, ForeignServer, ForeignWrapper)
    for item in _of(context, role, kinds):
        if isinstance(item, (Schema, Routine)):  # the others go without, as in PostgreSQL
            ownership.new_owner(context, item, owner.name)
        changes[item.oid] = ownership.with_owner(context, item, owner)
    for trigger in context.catalog.event_triggers:
        if trigger.owner == role.oid:
            changes[trigger.oid] = event_triggers.with_owner(trigger, owner)
    for item in context.catalog.objects.values():
        if item.oid not in changes and getattr(item, "owner", None) == role.oid and _is_here(context, item):
            changes[item.oid] = replace(cast(Any, item), owner=owner.oid)
    context.change(changes)
    for oid in context.large_objects_of(role.oid):
        context.give_large_object(oid, owner.oid)


def _is_here(context: DdlContext, item: SchemaObject) -> bool:
    if isinstance(item, ChangeStream | ForeignServer | ForeignWrapper):
        return item.database == context.catalog.database
    return getattr(item, "schema", 0) in context.catalog.schemas.values()


def _drop(context: DdlContext, roles: list[Role], cascade: bool) -> None:
    """Drops the roles' objects here, and their privileges here and on objects that all databases share."""
    owners = {role.oid for role in roles}
    mappings = [item.oid for item in context.catalog.user_mappings.values() if item.role in owners]
    if mappings:
        context.change(dict.fromkeys(mappings))
    removal = Removal(context, cascade)
    roots = [
        item
        for role in roles
        for item in _of(
            context, role, (Table, View, Sequence, Schema, Routine, ForeignServer, ForeignWrapper, *TEXT_SEARCH)
        )
        if not (isinstance(item, Sequence) and item.owned_by is not None)
    ]
    roots += [item for role in roles for item in context.catalog.event_triggers if item.owner == role.oid]
    for item in roots:
        if isinstance(item, Table | View | Sequence):
            context.lock_relation(item.oid, "access exclusive")
        removal.add(item)
    if roots:
        removal.carry_out(roots)
    streams = [item.name for item in context.catalog.change_streams.values() if item.owner in {r.oid for r in roles}]
    if streams:
        change_streams.drop(context, streams)
    for role in roles:
        for oid in context.large_objects_of(role.oid):
            context.drop_large_object(oid)
        default_privileges.forget(context, role)
        policies.forget_role(context, role)
        for item in grants.mentioning(context, role.name):
            if isinstance(item, (Database, Tablespace, Parameter, Schema)) or _is_here(context, item):
                context.change({item.oid: grants.without_defaults(context, grants.without_role(item, role.name))})
