"""ALTER DEFAULT PRIVILEGES: the privileges on objects that a role creates later (aclchk.c, get_user_default_acl).

They belong to a database. An entry for all schemas starts from the default of the object's kind, and replaces it. An
entry for one schema contains only additional privileges.
"""

from __future__ import annotations

from dataclasses import replace

from catalog import privileges
from catalog.catalog import Catalog
from catalog.errors import SqlError, not_supported
from catalog.privileges import DEFAULTS, WORDS, Grant
from catalog.schema import Database, DefaultAcl, Role, Routine, Schema, SchemaObject, Sequence, Table, View
from engine.ddl import ownership
from engine.ddl.context import DdlContext
from engine.sql import ast

_KINDS = {
    "tables": "table",
    "sequences": "sequence",
    "functions": "function",
    "routines": "function",
    "schemas": "schema",
}


def alter(context: DdlContext, statement: ast.DefaultPrivilegesStmt) -> str:
    """Raises 42704, 42501, 3F000, 0LP01."""
    grant = statement.grant
    kind = _KINDS.get(grant.object_kind)
    if kind is None:
        not_supported(f"default privileges on {grant.object_kind.upper()}")
    if kind == "schema" and statement.schemas:
        raise SqlError("0LP01", "cannot use IN SCHEMA clause when using GRANT/REVOKE ON SCHEMAS")
    database = context.catalog.get(context.catalog.database)
    assert isinstance(database, Database)
    letters = _letters(grant, kind)
    roles = [ownership.role_named(context, name) for name in statement.roles or ("current_user",)]
    schemas = [_schema(context, name) for name in statement.schemas] or [0]
    for role in roles:
        ownership.must_be_member(context, role)
        for schema in schemas:
            database = _change(context, database, role, schema, kind, grant, letters)
    context.change({database.oid: database})
    return "ALTER DEFAULT PRIVILEGES"


def _schema(context: DdlContext, name: str) -> int:
    oid = context.catalog.schemas.get(name)
    if oid is None:
        raise SqlError("3F000", f'schema "{name}" does not exist')
    return oid


def _letters(grant: ast.GrantStmt, kind: str) -> frozenset[str]:
    everything = DEFAULTS[kind][0]
    found: set[str] = set()
    for word, columns in grant.privileges:
        if columns:
            raise SqlError("0LP01", "default privileges cannot be set for columns")
        if word == "all":
            return frozenset(everything)
        letter = WORDS.get(word.upper())
        if letter is None:
            raise SqlError("42601", f'unrecognized privilege type "{word}"')
        if letter not in everything:
            what = "relation" if kind == "table" else kind
            raise SqlError("0LP01", f"invalid privilege type {word.upper()} for {what}")
        found.add(letter)
    return frozenset(found)


def _change(
    context: DdlContext,
    database: Database,
    role: Role,
    schema: int,
    kind: str,
    grant: ast.GrantStmt,
    letters: frozenset[str],
) -> Database:
    old = _entry(database, role.oid, schema, kind)
    own = default_grants(role, kind)
    grants = tuple(map(privileges.parse, old.acl)) if old is not None else () if schema else own
    for name in grant.grantees:
        grantee = "" if name == "public" else ownership.role_named(context, name).name
        if not grantee and grant.is_grant and grant.grant_option:
            raise SqlError("0LP01", "grant options can only be granted to roles")
        change = Grant(grantee, role.name, letters, letters if grant.grant_option else frozenset())
        if grant.is_grant:
            grants = privileges.add_grant(grants, change)
        else:
            grants = privileges.remove_grants(grants, change, grant.grant_option, grant.cascade, role.name)
    rest = tuple(item for item in database.default_acls if item is not old)
    if set(grants) == (set() if schema else set(own)):
        return replace(database, default_acls=rest)
    oid = context.new_oid() if old is None else old.oid
    return replace(database, default_acls=(*rest, DefaultAcl(oid, role.oid, schema, kind, privileges.texts(grants))))


def default_grants(role: Role, kind: str) -> tuple[Grant, ...]:
    """The privileges of a role's new object without any entry."""
    everything, public = DEFAULTS[kind]
    own = Grant(role.name, role.name, frozenset(everything))
    return (Grant("", role.name, frozenset(public)), own) if public else (own,)


def _entry(database: Database, role: int, schema: int, kind: str) -> DefaultAcl | None:
    for item in database.default_acls:
        if (item.role, item.schema, item.kind) == (role, schema, kind):
            return item
    return None


def without_schemas(catalog: Catalog, gone: list[int]) -> dict[int, SchemaObject | None]:
    """The database without the entries of schemas that are dropped, if it has some."""
    database = catalog.get(catalog.database)
    if not gone or not isinstance(database, Database):
        return {}
    kept = tuple(item for item in database.default_acls if not item.schema or item.schema not in gone)
    return {} if len(kept) == len(database.default_acls) else {database.oid: replace(database, default_acls=kept)}


def descriptions(context: DdlContext, role: Role) -> list[str]:
    """The dependencies of a role in this database's default privileges, as DROP ROLE reports them."""
    found = []
    words = {"table": "relations", "sequence": "sequences", "function": "functions", "schema": "schemas"}
    for item in _own(context).default_acls:
        named = any(role.name in (one.grantee, one.grantor) for one in map(privileges.parse, item.acl))
        if item.role != role.oid and not named:
            continue
        owner = context.catalog.get(item.role)
        where = f" in schema {context.catalog.schema_name(item.schema)}" if item.schema else ""
        shown = owner.name if isinstance(owner, Role) else ""
        how = "owner of" if item.role == role.oid else "privileges for"
        found.append(f"{how} default privileges on new {words[item.kind]} belonging to role {shown}{where}")
    return found


def forget(context: DdlContext, role: Role) -> None:
    """DROP OWNED: removes the role's entries, and the role from the entries of others."""
    kept = []
    for item in _own(context).default_acls:
        grants = [one for one in map(privileges.parse, item.acl) if role.name not in (one.grantee, one.grantor)]
        if item.role != role.oid and (grants or not item.schema):
            kept.append(replace(item, acl=privileges.texts(grants)))
    _keep(context, tuple(kept))


def rename(context: DdlContext, old: str, new: str) -> None:
    """ALTER ROLE ... RENAME."""
    acls = _own(context).default_acls
    _keep(context, tuple(replace(item, acl=privileges.rename_role(item.acl, old, new) or ()) for item in acls))


def _own(context: DdlContext) -> Database:
    database = context.catalog.get(context.catalog.database)
    assert isinstance(database, Database)
    return database


def _keep(context: DdlContext, acls: tuple[DefaultAcl, ...]) -> None:
    database = _own(context)
    if acls != database.default_acls:
        context.change({database.oid: replace(database, default_acls=acls)})


def acl_of_new(catalog: Catalog, item: Table | View | Sequence | Schema | Routine) -> tuple[str, ...] | None:
    """The privileges of a new object, or None for the default of its kind."""
    database = catalog.get(catalog.database)
    if not isinstance(database, Database) or not database.default_acls:
        return None
    kind = {Table: "table", View: "table"}.get(type(item)) or privileges.kind_of(item)
    role = catalog.get(item.owner)
    if not isinstance(role, Role):
        return None
    everywhere = _entry(database, role.oid, 0, kind)
    here = None if isinstance(item, Schema) else _entry(database, role.oid, item.schema, kind)
    own = default_grants(role, kind)
    grants = own if everywhere is None else tuple(map(privileges.parse, everywhere.acl))
    for text in here.acl if here is not None else ():
        grants = privileges.add_grant(grants, privileges.parse(text))
    if set(grants) == set(own):
        return None
    return privileges.texts(sorted(grants, key=lambda grant: catalog.roles.get(grant.grantee, 0)))
