"""Rules about owners for all kinds of objects: who may change, give away or move an object (PostgreSQL 15:
ATExecChangeOwner, AlterObjectOwner, CheckSetNamespace and similar functions).

The owner is a role, and its members that inherit from it are owners too. To give an object away, a user must own it and
be a member of the new owner, which needs CREATE on the object's schema or database. Superusers may give anything to any
role.
"""

from __future__ import annotations

from dataclasses import replace

from catalog import privileges
from catalog.errors import SqlError
from catalog.privileges import Owned, Securable, is_member, is_owner, may, owner_of
from catalog.schema import (
    USER_TYPES,
    ChangeStream,
    Collation,
    Database,
    Extension,
    ForeignServer,
    ForeignWrapper,
    Index,
    Parameter,
    Role,
    Routine,
    Schema,
    Sequence,
    StatisticsObject,
    Table,
    Tablespace,
    UserOperator,
    View,
)
from catalog.text_search.objects import (
    TextSearchConfiguration,
    TextSearchDictionary,
)
from engine.ddl.context import DdlContext
from engine.sql import ast

_WORDS: dict[type[Owned], str] = {
    Table: "table", View: "view", Index: "index", Sequence: "sequence", Schema: "schema", Database: "database",
    Tablespace: "tablespace", **dict.fromkeys(USER_TYPES, "type"), Collation: "collation",
    TextSearchConfiguration: "text search configuration", TextSearchDictionary: "text search dictionary",
    Extension: "extension", UserOperator: "operator", ChangeStream: "change stream", Parameter: "parameter",
    StatisticsObject: "statistics object",
    ForeignServer: "foreign server", ForeignWrapper: "foreign-data wrapper",
}  # fmt: skip


def user_role(context: DdlContext) -> Role:
    """The current user."""
    found = context.catalog.get(context.user_oid)
    assert isinstance(found, Role)
    return found


def role_named(context: DdlContext, name: str) -> Role:
    """The role that a statement names. Raises 42704."""
    named = {"current_user": context.user_name, "current_role": context.user_name}
    wanted = context.session_user_name if name == "session_user" else named.get(name, name)
    found = context.catalog.get(context.catalog.roles.get(wanted, 0))
    if not isinstance(found, Role):
        raise SqlError("42704", f'role "{wanted}" does not exist')
    return found


def word_of(item: Owned) -> str:
    """The kind of an object, as messages show it."""
    if isinstance(item, Routine):
        return {"f": "function", "p": "procedure", "a": "aggregate"}[item.kind]
    if isinstance(item, Table) and (item.server or item.query is not None):
        return "foreign table" if item.server else "materialized view"
    return _WORDS[type(item)]


def owns(context: DdlContext, item: Owned) -> bool:
    return is_owner(context.catalog, item, user_role(context))


def must_own(context: DdlContext, item: Owned) -> None:
    """42501 unless the user owns the object."""
    if not owns(context, item):
        raise SqlError("42501", f"must be owner of {word_of(item)} {item.name}")


def must_own_to_drop(context: DdlContext, item: Owned) -> None:
    """42501 unless the user owns the object, or the schema that contains it."""
    schema = context.catalog.get(getattr(item, "schema", 0))
    if not (isinstance(schema, Schema) and owns(context, schema)):
        must_own(context, item)


def must_be_member(context: DdlContext, role: Role) -> None:
    """42501 unless the user may become that role."""
    if not is_member(context.catalog, user_role(context), role.oid):
        raise SqlError("42501", f'must be member of role "{role.name}"')


def must_create_schemas(context: DdlContext, role: Role) -> None:
    """42501 unless a role holds CREATE on the database."""
    database = context.catalog.get(context.catalog.database)
    assert isinstance(database, Database)
    if not may(context.catalog, database, role, "C"):
        raise SqlError("42501", f"permission denied for database {database.name}")


def must_create_in(context: DdlContext, schema: int, role: Role) -> None:
    """42501 unless a role holds CREATE on a schema."""
    found = context.catalog.get(schema)
    assert isinstance(found, Schema)
    if not may(context.catalog, found, role, "C"):
        raise SqlError("42501", f"permission denied for schema {found.name}")


def must_rename(context: DdlContext, item: Owned) -> None:
    """42501 unless the user owns an object and could create it in its schema."""
    must_own(context, item)
    must_create_in(context, getattr(item, "schema", 0), user_role(context))


def new_owner(context: DdlContext, item: Owned, name: str) -> Role:
    """The new owner of an object. Raises 42704, 42501."""
    role = role_named(context, name)
    user = user_role(context)
    if role.oid == owner_of(item) or user.superuser:
        return role
    must_own(context, item)
    must_be_member(context, role)
    if isinstance(item, Schema):
        must_create_schemas(context, user)
    elif isinstance(item, Database):
        if not user.create_db:
            raise SqlError("42501", "permission denied to change owner of database")
    elif isinstance(item, ChangeStream):
        must_create_schemas(context, role)
        if item.all_tables and not role.superuser:
            raise SqlError(
                "42501",
                f'permission denied to change owner of change stream "{item.name}"',
                hint="The owner of a FOR ALL TABLES change stream must be a superuser.",
            )
    elif not isinstance(item, Tablespace | Parameter | ForeignServer | ForeignWrapper):
        must_create_in(context, item.schema, role)
    return role


def target_schema(context: DdlContext, schema: int, name: str, wanted: str) -> Schema:
    """The schema to which an object, now in `schema`, is moved. Raises 3F000, 42501, 0A000."""
    found = context.creation_schema(ast.RangeVar(None, wanted, name))
    if found.oid != schema:
        for place in (found.name, context.catalog.schema_name(schema)):
            if place.startswith("pg_temp_"):
                raise SqlError("0A000", "cannot move objects into or out of temporary schemas")
            if place == "pg_toast":
                raise SqlError("0A000", "cannot move objects into or out of TOAST schema")
    return found


def refuse_reserved(role: Role, detail: str) -> None:
    """42939 for a role that every server has."""
    if role.name.startswith("pg_"):
        raise SqlError("42939", f'role name "{role.name}" is reserved', detail=detail)


def with_renamed_role(item: Securable, old: str, new: str) -> Securable:
    """An object whose access control list contains a renamed role, under the new name."""
    if isinstance(item, (Table, View)):
        columns = tuple(replace(column, acl=privileges.rename_role(column.acl, old, new)) for column in item.columns)
        item = replace(item, columns=columns)
    return replace(item, acl=privileges.rename_role(item.acl, old, new))


def with_owner(context: DdlContext, item: Securable, owner: Role) -> Securable:
    """An object with a new owner, which replaces the old one in the access control list too."""
    old = privileges.owner_name(context.catalog, item)
    return replace(with_renamed_role(item, old, owner.name), owner=owner.oid)
