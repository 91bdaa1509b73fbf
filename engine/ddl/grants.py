"""GRANT and REVOKE of privileges on objects, and of membership in roles (aclchk.c, user.c).

The grantor is the object's owner if the user may act as the owner. Otherwise it is the user, or a role of the user,
with grant options. Privileges without a grant option are left out with a warning.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import get_args

from catalog import privileges
from catalog.errors import SqlError, not_supported
from catalog.privileges import DEFAULTS, WORDS, Grant, Securable
from catalog.schema import (
    DATABASE_OWNER_OID,
    Column,
    Database,
    Parameter,
    Role,
    Schema,
    Sequence,
    Table,
    Tablespace,
    View,
)
from engine.ddl import foreign, names, ownership, routines
from engine.ddl.context import DdlContext
from engine.sql import ast

_PLURALS = {"table": "relation", "view": "relation"}
_SHOWN = {letter: word for word, letter in WORDS.items() if word != "TEMP"}


def grant(context: DdlContext, statement: ast.GrantStmt) -> str:
    """GRANT and REVOKE. Raises 42501, 42704, 42P01, 3F000, 3D000, 0LP01, 2BP01."""
    tag = "GRANT" if statement.is_grant else "REVOKE"
    if statement.granted_by is not None and ownership.role_named(context, statement.granted_by).oid != context.user_oid:
        raise SqlError("0A000", "grantor must be current user")
    if statement.object_kind == "role":
        _membership(context, statement)
        return f"{tag} ROLE"
    grantees = [_grantee(context, name, statement) for name in statement.grantees]
    for item in list(_objects(context, statement)):
        _change(context, statement, item, grantees)
    return tag


def _grantee(context: DdlContext, name: str, statement: ast.GrantStmt) -> str:
    if name == "public":
        if statement.is_grant and statement.grant_option:
            raise SqlError("0LP01", "grant options can only be granted to roles")
        return ""
    return ownership.role_named(context, name).name


# ---- objects --------------------------------------------------------------------------------------------------------


def _objects(context: DdlContext, statement: ast.GrantStmt) -> Iterator[Securable]:
    kind = statement.object_kind
    catalog = context.catalog
    for signature in statement.signatures:
        yield routines.securable(context, kind, signature)
    for parts in statement.objects:
        if kind in ("table", "sequence"):
            yield _relation(context, parts, kind)
        elif kind in ("all_tables", "all_sequences"):
            schema = _get_securable(context, Schema, parts[0])
            wanted = (Table, View) if kind == "all_tables" else (Sequence,)
            yield from sorted(
                (item for item in catalog.objects.values() if isinstance(item, wanted) and item.schema == schema.oid),
                key=lambda item: item.oid,
            )
        elif kind in ("all_functions", "all_procedures", "all_routines"):
            schema = _get_securable(context, Schema, parts[0])
            letters = {"all_functions": "fa", "all_procedures": "p"}.get(kind, "fpa")
            for found in list(catalog.routines.values()):
                yield from (item for item in found if item.schema == schema.oid and item.kind in letters)
        elif kind == "parameter":
            yield from _parameter(context, ".".join(parts).lower(), statement.is_grant)
        elif kind in ("server", "foreign data wrapper"):
            yield foreign.find(context, kind, parts[0])
        elif kind in ("schema", "database", "tablespace"):
            yield _get_securable(
                context, {"schema": Schema, "database": Database, "tablespace": Tablespace}[kind], parts[0]
            )
        else:
            not_supported(f"GRANT ON {kind.upper().replace('_', ' ')}")


def _get_securable(context: DdlContext, kind: type[Schema | Database | Tablespace], name: str) -> Securable:
    catalog = context.catalog
    places = {Schema: catalog.schemas, Database: catalog.databases, Tablespace: catalog.tablespaces}
    found = catalog.get(places[kind].get(name, 0))
    if not isinstance(found, (Schema, Database, Tablespace)):
        sqlstate = {Schema: "3F000", Database: "3D000"}.get(kind, "42704")
        raise SqlError(sqlstate, f'{kind.__name__.lower()} "{name}" does not exist')
    return found


def _parameter(context: DdlContext, name: str, is_grant: bool) -> Iterator[Parameter]:
    """A setting has an object after the first GRANT on it. Without an object a REVOKE does nothing."""
    found = context.catalog.parameters.get(name)
    if found is not None:
        yield found
    elif is_grant:
        if not context.is_parameter(name):
            raise SqlError("42602", f'invalid parameter name "{name}"')
        yield Parameter(context.new_oid(), name)


def _relation(context: DdlContext, parts: tuple[str, ...], kind: str) -> Table | View | Sequence:
    relation = ast.RangeVar(None, parts[-2] if len(parts) > 1 else None, parts[-1])
    found = names.find(context, relation)
    if found is None:
        raise SqlError("42P01", f'relation "{names.show_relation(relation)}" does not exist')
    if kind == "sequence" and not isinstance(found, Sequence):
        raise SqlError("42809", f'"{found.name}" is not a sequence')
    if isinstance(found, (Table, View, Sequence)) and found.oid in context.catalog.objects:
        return found
    if found.oid in context.catalog.objects:
        raise SqlError("42809", f'"{found.name}" is an index')
    not_supported("GRANT on a system catalog")


# ---- privileges -----------------------------------------------------------------------------------------------------


def _change(context: DdlContext, statement: ast.GrantStmt, item: Securable, grantees: list[str]) -> None:
    kind = privileges.kind_of(item)
    whole = _letters(context, statement, item, kind)
    if whole or any(not columns for _, columns in statement.privileges):
        grants = _change_grants(
            context, statement, item, kind, item.name, privileges.grants_of(context.catalog, item), whole, grantees
        )
        item = replace(item, acl=privileges.texts(grants))
        if isinstance(item, (Table, View)) and not statement.is_grant:
            item = _revoked_of_columns(context, statement, item, whole, grantees)
    if isinstance(item, (Table, View)):
        for word, columns in statement.privileges:
            for name in columns:
                item = _on_column(context, statement, item, name, word, grantees)
    if item.oid in context.catalog.objects or without_defaults(context, item) is not None:
        context.change({item.oid: without_defaults(context, item)})


def without_defaults(context: DdlContext, item: Securable) -> Securable | None:
    """An object after a change of its privileges. A setting with default privileges only needs no object."""
    if isinstance(item, Parameter):
        default = privileges.grants_of(context.catalog, replace(item, acl=None))
        if set(privileges.grants_of(context.catalog, item)) == set(default):
            return None
    return item


def _letters(context: DdlContext, statement: ast.GrantStmt, item: Securable, kind: str) -> frozenset[str]:
    """The letters of privileges on the whole object."""
    everything = DEFAULTS[kind][0]
    allowed = DEFAULTS["table"][0] if statement.object_kind in ("table", "all_tables") else everything
    found: set[str] = set()
    for word, columns in statement.privileges:
        if columns:
            if not isinstance(item, (Table, View)):
                raise SqlError("0LP01", "column privileges are only valid for relations")
            continue
        if word == "all":
            return frozenset(everything)
        letter = WORDS.get(word.upper())
        if letter is None:
            raise SqlError("42601", f'unrecognized privilege type "{word}"')
        if letter not in allowed and not (kind == "sequence" and letter == "U"):
            what = "table" if letter == "U" and kind in _PLURALS else _PLURALS.get(kind, kind)
            raise SqlError("0LP01", f"invalid privilege type {word.upper()} for {what}")
        if letter not in everything:
            message = f'sequence "{item.name}" only supports USAGE, SELECT, and UPDATE privileges'
            context.notice(SqlError("0LP01", message, severity="WARNING"))
            continue
        found.add(letter)
    return frozenset(found)


def _change_grants(
    context: DdlContext,
    statement: ast.GrantStmt,
    item: Securable,
    kind: str,
    name: str,
    grants: tuple[Grant, ...],
    letters: frozenset[str],
    grantees: list[str],
    above: tuple[Grant, ...] = (),
) -> tuple[Grant, ...]:
    """The access control list of an object or a column after the statement. `above`: the list of a column's relation,
    whose grant options count for the column too."""
    owner = privileges.owner_name(context.catalog, item)
    grantor, options = _grantor(context, item, (*grants, *above), owner, DEFAULTS[kind][0])
    done = letters & options
    all_meant = any(word == "all" for word, _ in statement.privileges)
    if not options and not _holds_any(context, item, grants):
        what = "table" if kind == "column" else kind
        raise SqlError("42501", f"permission denied for {what} {item.name}")
    _warn(context, statement.is_grant, done, letters, all_meant, name)
    if not done:
        return grants
    if above and statement.is_grant and statement.grant_option:
        _, of_column = _grantor(context, item, grants, owner, DEFAULTS[kind][0])
        if not done <= of_column:
            raise SqlError("0LP01", "grant options cannot be granted back to your own grantor")
    for grantee in grantees:
        kept = done if statement.grant_option else frozenset[str]()
        change = Grant(grantee, grantor, done, kept)
        if statement.is_grant:
            grants = privileges.add_grant(grants, change)
            continue
        try:
            grants = privileges.remove_grants(grants, change, statement.grant_option, statement.cascade, owner)
        except privileges.DependentPrivileges:
            hint = "Use CASCADE to revoke them too."
            raise SqlError("2BP01", "dependent privileges exist", hint=hint) from None
    return grants


def _warn(
    context: DdlContext, is_grant: bool, done: frozenset[str], meant: frozenset[str], everything: bool, name: str
) -> None:
    if done == meant or (everything and done):
        return
    how = "no" if not done else "not all"
    what = "were granted" if is_grant else "could be revoked"
    sqlstate = "01007" if is_grant else "01006"
    context.notice(SqlError(sqlstate, f'{how} privileges {what} for "{name}"', severity="WARNING"))


def _grantor(
    context: DdlContext, item: Securable, grants: tuple[Grant, ...], owner: str, everything: str
) -> tuple[str, frozenset[str]]:
    """select_best_grantor: the grantor, and its grant options."""
    user = ownership.user_role(context)
    if privileges.is_owner(context.catalog, item, user):
        return owner, frozenset(everything)
    best, most = user.name, frozenset[str]()
    for name in sorted(privileges.names_of(context.catalog, user), key=lambda name: name != user.name):
        options = frozenset[str]().union(*(one.options for one in grants if one.grantee == name and name))
        if len(options) > len(most):
            best, most = name, options
    return best, most


def _holds_any(context: DdlContext, item: Securable, grants: tuple[Grant, ...]) -> bool:
    user = ownership.user_role(context)
    mine = privileges.names_of(context.catalog, user)
    return bool(privileges.get_privileges(context.catalog, item, user)[0]) or any(one.grantee in mine for one in grants)


# ---- columns --------------------------------------------------------------------------------------------------------


def _on_column(
    context: DdlContext, statement: ast.GrantStmt, item: Table | View, name: str, word: str, grantees: list[str]
) -> Table | View:
    column = next((column for column in item.columns if column.name == name), None)
    if column is None:
        raise SqlError("42703", f'column "{name}" of relation "{item.name}" does not exist')
    everything = DEFAULTS["column"][0]
    letters = frozenset(everything) if word == "all" else frozenset(WORDS.get(word.upper(), "?"))
    if not letters <= frozenset(everything):
        raise SqlError("0LP01", f"invalid privilege type {word.upper()} for column")
    grants = privileges.column_grants(column)
    above = privileges.grants_of(context.catalog, item)
    changed = _change_grants(context, statement, item, "column", name, grants, letters, grantees, above)
    return _with_column(item, column, changed)


def _with_column(item: Table | View, column: Column, grants: tuple[Grant, ...]) -> Table | View:
    acl = privileges.texts(grants) or None
    columns = tuple(replace(one, acl=acl) if one.number == column.number else one for one in item.columns)
    return replace(item, columns=columns)


def _revoked_of_columns(
    context: DdlContext, statement: ast.GrantStmt, item: Table | View, letters: frozenset[str], grantees: list[str]
) -> Table | View:
    """A REVOKE on a whole relation also revokes from its columns."""
    mine = letters & frozenset(DEFAULTS["column"][0])
    for column in item.columns:
        if column.acl is not None and mine:
            grants = privileges.column_grants(column)
            above = privileges.grants_of(context.catalog, item)
            grants = _change_grants(context, statement, item, "column", column.name, grants, mine, grantees, above)
            item = _with_column(item, column, grants)
    return item


def mentioning(context: DdlContext, role: str) -> list[Securable]:
    """The objects whose access control lists contain a role."""
    return [
        item
        for item in context.catalog.objects.values()
        if isinstance(item, get_args(Securable)) and _mentions(item, role)
    ]


def _mentions(item: Securable, role: str) -> bool:
    acls = [item.acl]
    if isinstance(item, (Table, View)):
        acls += [column.acl for column in item.columns]
    return any(role in (one.grantee, one.grantor) for acl in acls for one in map(privileges.parse, acl or ()))


def without_role(item: Securable, role: str) -> Securable:
    """An object without the privileges that a role was granted, or has granted, on it."""

    def rest(acl: privileges.Acl) -> privileges.Acl:
        kept = [one for one in map(privileges.parse, acl or ()) if role not in (one.grantee, one.grantor)]
        return None if acl is None else privileges.texts(kept)

    if isinstance(item, (Table, View)):
        item = replace(item, columns=tuple(replace(column, acl=rest(column.acl) or None) for column in item.columns))
    return replace(item, acl=rest(item.acl))


# ---- roles ----------------------------------------------------------------------------------------------------------


def _membership(context: DdlContext, statement: ast.GrantStmt) -> None:
    for word, _ in statement.privileges:
        group = ownership.role_named(context, word)
        must_administer(context, group)
        for name in statement.grantees:
            if name == "public":
                raise SqlError("42704", 'role "public" does not exist')
            member = ownership.role_named(context, name)
            if statement.is_grant:
                add_member(context, group, member, statement.grant_option)
            else:
                remove_member(context, group, member, statement.grant_option)


def must_administer(context: DdlContext, group: Role) -> None:
    """42501 unless the user may grant membership in a role: by CREATEROLE, or by the ADMIN OPTION of the user or of one
    of the user's roles."""
    user = ownership.user_role(context)
    if group.superuser and not user.superuser:
        raise SqlError("42501", "must be superuser to alter superusers")
    admin = privileges.administers(context.catalog, user, group.oid)
    if not (user.create_role or admin):
        raise SqlError("42501", f'must have admin option on role "{group.name}"')


def add_member(context: DdlContext, group: Role, member: Role, admin: bool) -> None:
    """Makes a role a member of another. Raises 0LP01 for a cycle, and for the role of the database's owner."""
    if DATABASE_OWNER_OID in (group.oid, member.oid):
        word = "have explicit members" if group.oid == DATABASE_OWNER_OID else "be a member of any role"
        raise SqlError("0LP01", f'role "pg_database_owner" cannot {word}')
    if member.oid in privileges.roles_of(context.catalog, group, inherited=False):
        raise SqlError("0LP01", f'role "{group.name}" is a member of role "{member.name}"')
    if group.oid in member.member_of and not (admin and group.oid not in member.admin_of):
        message = f'role "{member.name}" is already a member of role "{group.name}"'
        context.notice(SqlError("42710", message, severity="NOTICE"))
        return
    members = member.member_of if group.oid in member.member_of else (*member.member_of, group.oid)
    admins = (*member.admin_of, group.oid) if admin and group.oid not in member.admin_of else member.admin_of
    context.change({member.oid: replace(member, member_of=members, admin_of=admins)})


def remove_member(context: DdlContext, group: Role, member: Role, only_option: bool) -> None:
    """Removes a membership, or only its ADMIN OPTION."""
    if group.oid not in member.member_of:
        message = f'role "{member.name}" is not a member of role "{group.name}"'
        context.notice(SqlError("01000", message, severity="WARNING"))
        return
    admins = tuple(oid for oid in member.admin_of if oid != group.oid)
    members = member.member_of if only_option else tuple(oid for oid in member.member_of if oid != group.oid)
    context.change({member.oid: replace(member, member_of=members, admin_of=admins)})
