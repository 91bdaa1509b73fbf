"""CREATE, ALTER and DROP ROLE (user.c of PostgreSQL 15).

Superusers may do everything. CREATEROLE may create, change, rename and drop every role except superusers and roles with
REPLICATION or BYPASSRLS, and may not grant these attributes. Every role may set its own password and settings.
"""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

from catalog.errors import SqlError, not_supported
from catalog.event_triggers import EventTrigger
from catalog.schema import (
    FIRST_USER_OID,
    USER_TYPES,
    ChangeStream,
    ForeignServer,
    ForeignWrapper,
    Index,
    Role,
    Routine,
    SchemaObject,
    StatisticsObject,
    Table,
    UserMapping,
)
from catalog.scram import verifier
from catalog.types import lookup, oids
from engine.ddl import default_privileges, grants, ownership
from engine.ddl.context import DdlContext
from engine.ddl.object_words import name_object
from engine.ddl.policies import policies_of_role, show_policy
from engine.sql import ast

_OPTIONS: dict[str, str] = {
    "superuser": "superuser", "login": "login", "createdb": "create_db", "createrole": "create_role",
    "inherit": "inherit", "replication": "replication", "bypassrls": "bypass_rls",
}  # fmt: skip
_FOR_SUPERUSERS = ("superuser", "replication", "bypassrls")
_USERS = {"superuser": "superusers", "replication": "replication users", "bypassrls": "bypassrls users"}
_OF_MEMBERS = ("add_members", "drop_members")
_SPECIAL = ("current_user", "current_role", "session_user")


def role(context: DdlContext, statement: ast.RoleStmt) -> str:
    """CREATE, ALTER and DROP ROLE, USER and GROUP. Passwords are stored as SCRAM-SHA-256 verifiers only."""
    if not statement.names:
        not_supported("ALTER ROLE ALL")
    if any(name == "in_database" for name, _ in statement.options):
        not_supported("ALTER ROLE ... IN DATABASE", hint="ALTER ROLE and ALTER DATABASE each have settings.")
    for name in statement.names:
        if statement.action == "create":
            _create(context, statement, name)
        elif statement.action == "alter":
            found = ownership.role_named(context, name)
            ownership.refuse_reserved(found, "Cannot alter reserved roles.")
            if statement.setting is not None:
                _set(context, found, statement.setting)
            else:
                _may_alter(context, found, dict(statement.options))
                context.change({found.oid: _with_options(context, found, statement.options)})
                _change_members(context, found, dict(statement.options))
        else:
            _drop(context, statement, name)
    return f"{statement.action.upper()} ROLE"


# ---- who may --------------------------------------------------------------------------------------------------------


def administers_roles(context: DdlContext) -> bool:
    """Whether the user is a superuser or has CREATEROLE."""
    user = ownership.user_role(context)
    return user.superuser or user.create_role


def _may_create(context: DdlContext, options: dict[str, Any]) -> None:
    for name in _FOR_SUPERUSERS:
        if options.get(name) and not context.is_superuser:
            raise SqlError("42501", f"must be superuser to create {_USERS[name]}")
    if not administers_roles(context):
        raise SqlError("42501", "permission denied to create role")


def _may_alter(context: DdlContext, found: Role, options: dict[str, Any]) -> None:
    has = {"superuser": found.superuser, "replication": found.replication, "bypassrls": found.bypass_rls}
    for name in _FOR_SUPERUSERS:
        touched = name in options or (has[name] and name != "bypassrls")
        if touched and not context.is_superuser:
            what = {"bypassrls": "bypassrls users", "superuser": "superuser roles"}.get(name, _USERS[name])
            word = "change bypassrls attribute" if name == "bypassrls" else f"alter {what} or change {name} attribute"
            raise SqlError("42501", f"must be superuser to {word}")
    own_password = found.oid == context.user_oid and set(options) == {"password"}
    if not (administers_roles(context) or own_password):
        raise SqlError("42501", "permission denied")


def _may_touch(context: DdlContext, found: Role, what: str) -> None:
    """Checks a change that needs CREATEROLE, or a superuser if the role is one. Raises 42501."""
    if found.superuser and not context.is_superuser:
        raise SqlError("42501", f"must be superuser to {what} superusers")
    if not administers_roles(context):
        raise SqlError("42501", f"permission denied to {what} role")


def may_rename(context: DdlContext, found: Role, new: str) -> None:
    """Raises 42501, 0A000, 42939, 42710."""
    session_user = ownership.role_named(context, "session_user")
    for one, word in ((session_user, "session"), (ownership.user_role(context), "current")):
        if one.oid == found.oid:
            raise SqlError("0A000", f"{word} user cannot be renamed")
    ownership.refuse_reserved(found, 'Role names starting with "pg_" are reserved.')
    ownership.refuse_reserved(replace(found, name=new), 'Role names starting with "pg_" are reserved.')
    if new in context.catalog.roles:
        raise SqlError("42710", f'role "{new}" already exists')
    _may_touch(context, found, "rename")


# ---- CREATE, ALTER --------------------------------------------------------------------------------------------------


def _create(context: DdlContext, statement: ast.RoleStmt, name: str) -> None:
    _may_create(context, dict(statement.options))
    base = Role(0, name, login=statement.kind == "user")
    ownership.refuse_reserved(base, 'Role names starting with "pg_" are reserved.')
    context.lock_name(0, name)
    if name in context.catalog.roles:
        raise SqlError("42710", f'role "{name}" already exists')
    base = replace(base, oid=context.new_oid())
    context.change({base.oid: _with_options(context, base, statement.options)})
    for option, value in statement.options:
        for other in value if option in ("in_role", "role", "admin") else ():
            new, known = ownership.role_named(context, name), ownership.role_named(context, other)
            if option == "in_role":
                grants.must_administer(context, known)
                grants.add_member(context, known, new, False)
            else:
                grants.add_member(context, new, known, option == "admin")


def _set(context: DdlContext, found: Role, setting: ast.SetStmt) -> None:
    """ALTER ROLE ... SET and RESET."""
    if found.superuser and not context.is_superuser:
        raise SqlError("42501", "must be superuser to alter superusers")
    if not (administers_roles(context) or found.oid == context.user_oid):
        raise SqlError("42501", "permission denied")
    context.check_stored_setting(setting)
    context.change({found.oid: replace(found, settings=with_setting(found.settings, setting))})


def with_setting(settings: tuple[tuple[str, str], ...], change: ast.SetStmt) -> tuple[tuple[str, str], ...]:
    """The settings of a role or a database after SET or RESET."""
    if change.reset and change.name == "all":
        return ()
    kept = [item for item in settings if item[0] != change.name]
    if change.values:
        kept.append((change.name, ", ".join(change.values)))
    return tuple(kept)


def connection_limit(value: Any) -> int:
    """A connection limit; -1 is none. Raises 22023."""
    if int(value) < -1:
        raise SqlError("22023", f"invalid connection limit: {value}")
    return int(value)


def _change_members(context: DdlContext, group: Role, options: dict[str, Any]) -> None:
    """ALTER GROUP ... ADD | DROP USER. Raises 42704, 42501, 0LP01."""
    for option in _OF_MEMBERS:
        for member in [ownership.role_named(context, name) for name in options.get(option, ())]:
            grants.must_administer(context, group)
            if option == "add_members":
                grants.add_member(context, group, member, False)
            else:
                grants.remove_member(context, group, member, False)


def _with_options(context: DdlContext, base: Role, options: tuple[tuple[str, Any], ...]) -> Role:
    known = {field.name for field in fields(Role)}
    for name, value in options:
        if name == "password":
            base = replace(base, password=None if value is None else verifier(str(value)))
        elif name in ("in_role", "role", "admin", *_OF_MEMBERS):
            continue  # these options change other roles
        elif name == "valid_until":
            base = replace(base, valid_until=_moment(context, value))
        elif name == "sysid":
            not_supported("role option SYSID")
        elif name == "connection_limit":
            base = replace(base, connection_limit=connection_limit(value))
        elif _OPTIONS.get(name) in known:
            base = replace(base, **{_OPTIONS[name]: value})
        else:
            raise SqlError("42601", f'unrecognized role option "{name}"')
    return base


def _moment(context: DdlContext, text: str) -> int:
    """VALID UNTIL, in microseconds since 2000. A time without a zone is in the session's."""
    found = lookup(oids.TIMESTAMPTZ).text_decoder(context.environment.format)(text)
    assert isinstance(found, int)
    return found


# ---- DROP -----------------------------------------------------------------------------------------------------------


def _owner(item: SchemaObject) -> int | None:
    """The OID of the role that owns an object, or whose it is."""
    return item.role if isinstance(item, UserMapping) else getattr(item, "owner", None)


def _describe(context: DdlContext, item: SchemaObject) -> str:
    if isinstance(item, UserMapping):
        role, server = context.catalog.get(item.role), context.catalog.get(item.server)
        assert isinstance(role, Role) and isinstance(server, ForeignServer)
        return f"user mapping for {role.name} on server {server.name}"
    told = (Routine, ChangeStream, StatisticsObject, Table, ForeignServer, ForeignWrapper, EventTrigger, *USER_TYPES)
    return name_object(item) if isinstance(item, told) else f"{type(item).__name__.lower()} {item.name}"


def _drop(context: DdlContext, statement: ast.RoleStmt, name: str) -> None:
    if not administers_roles(context):
        raise SqlError("42501", "permission denied to drop role")
    if name in _SPECIAL:
        raise SqlError("22023", "cannot use special role specifier in DROP ROLE")
    if name not in context.catalog.roles:
        if not statement.if_exists:
            raise SqlError("42704", f'role "{name}" does not exist')
        context.notice(SqlError("00000", f'role "{name}" does not exist, skipping', severity="NOTICE"))
        return
    found = ownership.role_named(context, name)
    for one, word in ((context.user_oid, "current"), (ownership.role_named(context, "session_user").oid, "session")):
        if one == found.oid:
            raise SqlError("55006", f"{word} user cannot be dropped")
    _may_touch(context, found, "drop")
    if found.oid < FIRST_USER_OID:
        raise SqlError("2BP01", f"cannot drop role {name} because it is required by the database system")
    details = _dependents(context, found)
    if details:
        message = f'role "{name}" cannot be dropped because some objects depend on it'
        raise SqlError("2BP01", message, detail="\n".join(details))
    for item in list(context.catalog.objects.values()):
        if isinstance(item, Role) and found.oid in item.member_of:
            members = tuple(oid for oid in item.member_of if oid != found.oid)
            admins = tuple(oid for oid in item.admin_of if oid != found.oid)
            context.change({item.oid: replace(item, member_of=members, admin_of=admins)})
    context.change({found.oid: None})


def _dependents(context: DdlContext, found: Role) -> list[str]:
    """The objects and privileges that depend on a role, as DROP ROLE reports them."""
    objects = context.catalog.objects.values()
    owned = {item.oid: item for item in objects if _owner(item) == found.oid}
    mentioned = {item.oid: item for item in grants.mentioning(context, found.name) if item.oid not in owned}
    details = [
        f"{'owner of' if oid in owned else 'privileges for'} {_describe(context, item)}"
        for oid, item in sorted((owned | mentioned).items())
        if not isinstance(item, Index)
    ]
    details = default_privileges.descriptions(context, found) + details
    details += [f"target of {show_policy(policy, table)}" for table, policy in policies_of_role(context, found)]
    for database, count in context.large_objects_elsewhere(found.oid).items():
        details.append(f"{count} {'object' if count == 1 else 'objects'} in database {database}")
    return details + [f"owner of large object {oid}" for oid in context.large_objects_of(found.oid)]
