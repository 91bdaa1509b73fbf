"""Schemas, databases, roles; comments, renames, owners, moves between schemas."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, replace
from typing import Any, TypeVar

from catalog.errors import SqlError, not_supported
from catalog.privileges import may
from catalog.schema import (
    POSTGRES_DATABASE_OID,
    ChangeStream,
    Database,
    Index,
    Role,
    Routine,
    Schema,
    SchemaObject,
    Sequence,
    Table,
    Tablespace,
    View,
)
from catalog.scram import verifier
from catalog.types import lookup, oids
from engine.ddl import branches, collations, default_privileges, extensions, grants, names, tablespaces, user_types
from engine.ddl.context import DdlContext
from engine.ddl.drop import Removal, named
from engine.ddl.rewrite_text import rename_relations, renamed_texts
from engine.sql import ast

Named = TypeVar("Named", Role, Database, Schema, Tablespace)


def _superuser_only(context: DdlContext, what: str) -> None:
    if not context.is_superuser:
        raise SqlError("42501", f"permission denied to {what}")


def _find(context: DdlContext, kind: type[Named], name: str) -> Named:
    """Raises 42704 (roles, tablespaces), 3D000, 3F000."""
    catalog = context.catalog
    places = {
        Role: catalog.roles,
        Database: catalog.databases,
        Schema: catalog.schemas,
        Tablespace: catalog.tablespaces,
    }
    oid = places[kind].get(name)
    if oid is None:
        sqlstate = {Database: "3D000", Schema: "3F000"}.get(kind, "42704")
        raise SqlError(sqlstate, f'{kind.__name__.lower()} "{name}" does not exist')
    found = catalog.get(oid)
    assert isinstance(found, kind)
    return found


# ---- schemas and databases ----------------------------------------------------------------------------------------


def create_schema(context: DdlContext, statement: ast.CreateSchemaStmt) -> str:
    name = statement.name or statement.owner
    assert name is not None
    if name.startswith("pg_"):
        message = f'unacceptable schema name "{name}"'
        raise SqlError("42939", message, detail='The prefix "pg_" is reserved for system schemas.')
    database = context.catalog.get(context.catalog.database)
    if not (isinstance(database, Database) and may(context.catalog, database, names.user_role(context), "C")):
        shown = database.name if isinstance(database, Database) else ""
        raise SqlError("42501", f"permission denied for database {shown}")
    context.lock_name(0, name)
    if name in context.catalog.schemas:
        if not statement.if_not_exists:
            raise SqlError("42P06", f'schema "{name}" already exists')
        context.notice(SqlError("42P06", f'schema "{name}" already exists, skipping', severity="NOTICE"))
        return "CREATE SCHEMA"
    owner = _find(context, Role, statement.owner).oid if statement.owner else context.user_oid
    schema = Schema(context.new_oid(), context.catalog.database, name, owner)
    context.change({schema.oid: schema})
    if statement.elements and owner != context.user_oid:
        not_supported("CREATE SCHEMA AUTHORIZATION of another role with schema elements")
    return "CREATE SCHEMA"


def create_database(context: DdlContext, statement: ast.CreateDatabaseStmt) -> str:
    """CREATE DATABASE: an empty one, a branch of the one that is named by FROM or TEMPLATE, or a copy of one in a
    backup. Encodings other than UTF8 are refused. Raises 42501, 42P04, 3D000, 0A000."""
    owner = check_new_database(context, statement)
    context.lock_name(0, statement.name)
    parent = parent_of(statement)
    if parent is not None:
        then = context.then()
        found = branches.parent_at(context, then, parent)
        if found is None:
            raise SqlError("3D000", f'database "{parent}" does not exist')
        branches.create(context, found, Database(context.new_oid(), statement.name, owner), then)
        return "CREATE DATABASE"
    database = Database(context.new_oid(), statement.name, owner)
    public = Schema(context.new_oid(), database.oid, "public", comment="standard public schema")
    catalog_schemas = [
        replace(item, database=0)
        for item in context.catalog.objects.values()
        if isinstance(item, Schema) and item.name in ("pg_catalog", "information_schema")
    ]
    context.change({database.oid: database, public.oid: public, **{item.oid: item for item in catalog_schemas}})
    return "CREATE DATABASE"


def check_new_database(context: DdlContext, statement: ast.CreateDatabaseStmt) -> int:
    """What can be said before any work is done; the owner (OID). Raises 42501, 42P04, 42704, 0A000."""
    _superuser_only(context, "create database")
    options = {name.lower(): value for name, value in statement.options}
    encoding = str(options.get("encoding", "utf8")).replace("-", "").lower()
    if encoding not in ("utf8", "unicode", "6", "default"):
        not_supported(f"encoding {options['encoding']}")
    if str(options.get("tablespace", "default")) not in ("default", "pg_default"):
        not_supported(f'CREATE DATABASE with tablespace "{options["tablespace"]}"')
    if statement.name in context.catalog.databases:
        raise SqlError("42P04", f'database "{statement.name}" already exists')
    return _find(context, Role, str(options["owner"])).oid if "owner" in options else context.user_oid


def parent_of(statement: ast.CreateDatabaseStmt) -> str | None:
    """The name of the database that a new one is a branch of. Raises 42601 for two."""
    template = next((str(value) for name, value in statement.options if name.lower() == "template"), "default")
    if template.lower() in ("template0", "template1", "default"):
        return statement.parent
    if statement.parent is not None:
        raise SqlError("42601", "FROM and TEMPLATE exclude each other")
    return template


def drop_database(context: DdlContext, statement: ast.DropDatabaseStmt) -> str:
    if statement.name not in context.catalog.databases:
        if not statement.if_exists:
            raise SqlError("3D000", f'database "{statement.name}" does not exist')
        message = f'database "{statement.name}" does not exist, skipping'
        context.notice(SqlError("00000", message, severity="NOTICE"))
        return "DROP DATABASE"
    database = _find(context, Database, statement.name)
    _superuser_only(context, "drop database")
    if database.oid == context.catalog.database:
        raise SqlError("55006", "cannot drop the currently open database")
    if database.oid == POSTGRES_DATABASE_OID:
        raise SqlError("2BP01", "cannot drop the database that every server has")
    if context.database_in_use(database.oid):
        raise SqlError("55006", f'database "{statement.name}" is being accessed by other users')
    schemas = [
        item for item in context.catalog.objects.values() if isinstance(item, Schema) and item.database == database.oid
    ]
    removal = Removal(context, cascade=True)
    for schema in schemas:
        removal.add(schema)
    changes: dict[int, SchemaObject | None] = {database.oid: None, **dict.fromkeys(removal.gone)}
    for item in context.catalog.objects.values():
        if isinstance(item, ChangeStream) and item.database == database.oid:
            changes[item.oid] = None
    for item in removal.gone.values():
        if isinstance(item, Table | Sequence) or (isinstance(item, Index) and not item.primary):
            context.drop_storage(item.storage_id)
    context.change(changes)
    return "DROP DATABASE"


def alter_database(context: DdlContext, statement: ast.AlterDatabaseStmt) -> str:
    database = _find(context, Database, statement.name)
    _superuser_only(context, "alter database")
    if statement.setting is not None:
        settings = _with_setting(database.settings, statement.setting)
        context.change({database.oid: replace(database, settings=settings)})
        return "ALTER DATABASE"
    options = dict(statement.options)
    changed = database
    for name, value in options.items():
        if name == "connection_limit":
            changed = replace(changed, connection_limit=int(value))
        elif name == "allow_connections":
            changed = replace(changed, allow_connections=str(value).lower() in ("true", "on", "1"))
        elif name == "is_template":
            changed = replace(changed, is_template=str(value).lower() in ("true", "on", "1"))
        else:
            not_supported(f"ALTER DATABASE {name.upper()}")
    context.change({changed.oid: changed})
    return "ALTER DATABASE"


def _with_setting(settings: tuple[tuple[str, str], ...], change: ast.SetStmt) -> tuple[tuple[str, str], ...]:
    if change.reset and change.name == "all":
        return ()
    kept = [item for item in settings if item[0] != change.name]
    if change.values:
        kept.append((change.name, ", ".join(change.values)))
    return tuple(kept)


# ---- roles --------------------------------------------------------------------------------------------------------

_ROLE_OPTIONS: dict[str, str] = {
    "superuser": "superuser", "login": "login", "createdb": "create_db", "createrole": "create_role",
    "inherit": "inherit", "replication": "replication", "bypassrls": "bypass_rls",
    "connection_limit": "connection_limit",
}  # fmt: skip


def role(context: DdlContext, statement: ast.RoleStmt) -> str:
    """CREATE, ALTER and DROP ROLE, USER and GROUP. Passwords are kept as SCRAM-SHA-256 verifiers only."""
    _superuser_only(context, f"{statement.action} role")
    tag = f"{statement.action.upper()} ROLE"
    for name in statement.names:
        if statement.action == "create":
            _create_role(context, statement, name)
        elif statement.action == "alter":
            found = _find(context, Role, context.user_name if name in ("current_user", "current_role") else name)
            if statement.setting is not None:
                context.change({found.oid: replace(found, settings=_with_setting(found.settings, statement.setting))})
            else:
                context.change({found.oid: _with_options(context, found, statement.options)})
        else:
            _drop_role(context, statement, name)
    return tag


def _create_role(context: DdlContext, statement: ast.RoleStmt, name: str) -> None:
    if name.startswith("pg_"):
        message = f'role name "{name}" is reserved'
        raise SqlError("42939", message, detail='Role names starting with "pg_" are reserved.')
    context.lock_name(0, name)
    if name in context.catalog.roles:
        raise SqlError("42710", f'role "{name}" already exists')
    base = Role(context.new_oid(), name, login=statement.kind == "user")
    context.change({base.oid: _with_options(context, base, statement.options)})
    _memberships(context, name, statement.options)


def _memberships(context: DdlContext, name: str, options: tuple[tuple[str, Any], ...]) -> None:
    """IN ROLE, ROLE and ADMIN of CREATE ROLE."""
    for option, value in options:
        for other in value if option in ("in_role", "role", "admin") else ():
            new, known = _find(context, Role, name), _find(context, Role, other)
            if option == "in_role":
                grants.add_member(context, known, new, False)
            else:
                grants.add_member(context, new, known, option == "admin")


def _with_options(context: DdlContext, base: Role, options: tuple[tuple[str, Any], ...]) -> Role:
    known = {field.name for field in fields(Role)}
    for name, value in options:
        if name == "password":
            base = replace(base, password=None if value is None else verifier(str(value)))
        elif name in ("in_role", "role", "admin"):
            continue  # `_memberships`, once there is such a role
        elif name == "valid_until":
            base = replace(base, valid_until=_moment(context, value))
        elif name == "sysid":
            not_supported("role option SYSID")
        elif _ROLE_OPTIONS.get(name) in known:
            base = replace(base, **{_ROLE_OPTIONS[name]: value})
        else:
            raise SqlError("42601", f'unrecognized role option "{name}"')
    return base


def _moment(context: DdlContext, text: str) -> int:
    """VALID UNTIL, in microseconds since 2000; without a zone it is in the session's."""
    found = lookup(oids.TIMESTAMPTZ).text_decoder(context.environment.format)(text)
    assert isinstance(found, int)
    return found


def _described(item: SchemaObject) -> str:
    return named(item) if isinstance(item, Routine | ChangeStream) else f"{type(item).__name__.lower()} {item.name}"


def _drop_role(context: DdlContext, statement: ast.RoleStmt, name: str) -> None:
    if name not in context.catalog.roles:
        if not statement.if_exists:
            raise SqlError("42704", f'role "{name}" does not exist')
        context.notice(SqlError("00000", f'role "{name}" does not exist, skipping', severity="NOTICE"))
        return
    found = _find(context, Role, name)
    if found.oid == context.user_oid:
        raise SqlError("55006", "current user cannot be dropped")
    objects = context.catalog.objects.values()
    owned = {item.oid: item for item in objects if getattr(item, "owner", None) == found.oid}
    named = {item.oid: item for item in grants.mentioning(context, name) if item.oid not in owned}
    details = [
        f"{'owner of' if oid in owned else 'privileges for'} {_described(item)}"
        for oid, item in sorted((owned | named).items())
        if not isinstance(item, Index)
    ]
    details = default_privileges.descriptions(context, found) + details
    if details:
        message = f'role "{name}" cannot be dropped because some objects depend on it'
        raise SqlError("2BP01", message, detail="\n".join(details))
    for item in list(objects):
        if isinstance(item, Role) and found.oid in item.member_of:
            members = tuple(oid for oid in item.member_of if oid != found.oid)
            admins = tuple(oid for oid in item.admin_of if oid != found.oid)
            context.change({item.oid: replace(item, member_of=members, admin_of=admins)})
    context.change({found.oid: None})


# ---- renames, owners, schemas, comments -----------------------------------------------------------------------------


def _relation(context: DdlContext, relation: ast.RangeVar, if_exists: bool) -> Table | Index | Sequence | View | None:
    found = names.find(context, relation)
    if found is None:
        message = f'relation "{names.shown(relation)}" does not exist'
        if not if_exists:
            raise SqlError("42P01", message)
        context.notice(SqlError("00000", f"{message}, skipping", severity="NOTICE"))
        return None
    if not isinstance(found, Table | Index | Sequence | View) or found.oid not in context.catalog.objects:
        raise SqlError("42501", f'permission denied: "{found.name}" is a system catalog')
    names.must_own(context, found)
    context.lock_relation(found.oid, "access exclusive")
    return found


def rename(context: DdlContext, statement: ast.RenameStmt) -> str:
    """ALTER ... RENAME: names are stored once, and stored expressions are deparsed from columns, not from names."""
    word = statement.of if statement.kind in ("column", "constraint") else statement.kind
    word = "materialized view" if word == "matview" else word
    tag = f"ALTER {word.upper()}"
    kinds: dict[str, type[Any]] = {"schema": Schema, "database": Database, "role": Role, "tablespace": Tablespace}
    if statement.kind in kinds:
        found = _find(context, kinds[statement.kind], statement.name or "")
        if isinstance(found, Tablespace):
            tablespaces.must_own(context, found)
            tablespaces.refuse_name(context, statement.new_name)
        else:
            _superuser_only(context, f"rename {statement.kind}")
        change: dict[int, SchemaObject | None] = {found.oid: replace(found, name=statement.new_name)}
        if statement.kind == "schema":
            rename_relations(context, change, f"renaming schema {found.name}")
        else:
            if isinstance(found, Role):
                renamed = grants.mentioning(context, found.name)
                change |= {one.oid: grants.with_renamed_role(one, found.name, statement.new_name) for one in renamed}
            context.change(change)
            if isinstance(found, Role):
                default_privileges.rename(context, found.name, statement.new_name)
        return tag
    if statement.relation is None:
        not_supported(f"ALTER {statement.kind.upper()} RENAME")
    item = _relation(context, statement.relation, statement.if_exists)
    if item is None:
        return tag
    if statement.kind == "column":
        _refuse_inherited_name(context, item, statement)
        _rename_column(context, item, statement.name or "", statement.new_name)
    elif statement.kind == "constraint":
        _refuse_inherited_constraint(item, statement.name or "")
        _rename_constraint(context, item, statement.name or "", statement.new_name)
    else:
        names.refuse_if_taken(context, item.schema, statement.new_name, False)
        rename_relations(context, {item.oid: replace(item, name=statement.new_name)}, f"renaming {item.name}")
        if isinstance(item, Index):
            _rename_constraint_of(context, item, statement.new_name)
    return tag


def _refuse_inherited_name(context: DdlContext, item: SchemaObject, statement: ast.RenameStmt) -> None:
    """42P16 for a column whose name is the parent's business, or that children have too."""
    column = item.column(statement.name or "") if isinstance(item, Table) else None
    if column is None or not isinstance(item, Table):
        return
    if column.inherited:
        raise SqlError("42P16", f'cannot rename inherited column "{column.name}"')
    assert statement.relation is not None
    if statement.relation.only and item.oid in context.catalog.children:
        raise SqlError("42P16", f'inherited column "{column.name}" must be renamed in child tables too')


def _refuse_inherited_constraint(item: SchemaObject, name: str) -> None:
    for constraint in item.constraints if isinstance(item, Table) else ():
        if constraint.name == name and constraint.kind == "c" and constraint.inherited:
            raise SqlError("42P16", f'cannot rename inherited constraint "{name}"')


def _rename_column(context: DdlContext, item: SchemaObject, old: str, new: str) -> None:
    if not isinstance(item, Table | View):
        raise SqlError("42809", f'"{item.name}" is not a table or view')
    column = next((column for column in item.columns if column.name == old), None)
    if column is None:
        raise SqlError("42703", f'column "{old}" does not exist')
    if any(column.name == new for column in item.columns):
        raise SqlError("42701", f'column "{new}" of relation "{item.name}" already exists')
    columns = tuple(replace(each, name=new) if each is column else each for each in item.columns)
    changed = replace(item, columns=columns)
    if isinstance(item, Table) and isinstance(changed, Table):
        context.change(renamed_texts(context, item, changed, column.number))
        for oid in context.catalog.children.get(item.oid, ()):
            context.lock_relation(oid, "access exclusive")
            _rename_column(context, context.catalog.table(oid), old, new)
    else:
        context.change({item.oid: changed})


def _rename_constraint(context: DdlContext, item: SchemaObject, old: str, new: str) -> None:
    if not isinstance(item, Table):
        raise SqlError("42809", f'"{item.name}" is not a table')
    found = next((constraint for constraint in item.constraints if constraint.name == old), None)
    if found is None:
        raise SqlError("42704", f'constraint "{old}" for table "{item.name}" does not exist')
    constraints = tuple(replace(each, name=new) if each is found else each for each in item.constraints)
    context.change({item.oid: replace(item, constraints=constraints)})
    for oid in context.catalog.children.get(item.oid, ()) if found.kind == "c" and not found.no_inherit else ():
        context.lock_relation(oid, "access exclusive")
        _rename_constraint(context, context.catalog.table(oid), old, new)
    if found.index is not None and found.kind in "pux":
        context.change({found.index: replace(context.catalog.index(found.index), name=new)})


def _rename_constraint_of(context: DdlContext, index: Index, new: str) -> None:
    table = context.catalog.table(index.table)
    constraints = tuple(
        replace(each, name=new) if each.index == index.oid and each.kind in "pux" else each
        for each in table.constraints
    )
    if constraints != table.constraints:
        context.change({table.oid: replace(table, constraints=constraints)})


def set_schema(context: DdlContext, statement: ast.AlterObjectSchemaStmt) -> str:
    tag = f"ALTER {statement.kind.upper()}"
    item = _relation(context, statement.relation, statement.if_exists)
    if item is None:
        return tag
    target = _find(context, Schema, statement.schema)
    if isinstance(item, Index):
        raise SqlError("42809", f'cannot change schema of index "{item.name}"')
    names.refuse_if_taken(context, target.oid, item.name, False)
    changes: dict[int, SchemaObject | None] = {item.oid: replace(item, schema=target.oid)}
    if isinstance(item, Table):
        for other in context.catalog.objects.values():
            if (isinstance(other, Index) and other.table == item.oid) or (
                isinstance(other, Sequence) and other.owned_by and other.owned_by[0] == item.oid
            ):
                changes[other.oid] = replace(other, schema=target.oid)
    rename_relations(context, changes, f"moving {item.name} to another schema")
    return tag


def set_owner(context: DdlContext, statement: ast.AlterOwnerStmt) -> str:
    kinds: dict[str, type[Any]] = {"schema": Schema, "database": Database, "tablespace": Tablespace}
    if statement.kind not in kinds:
        not_supported(f"ALTER {statement.kind.upper()} OWNER")
    found = _find(context, kinds[statement.kind], statement.name)
    if isinstance(found, Tablespace):
        tablespaces.must_own(context, found)
    else:
        _superuser_only(context, f"alter {statement.kind}")
    context.change({found.oid: grants.with_owner(context, found, _find(context, Role, statement.owner))})
    return f"ALTER {statement.kind.upper()}"


def comment(context: DdlContext, statement: ast.CommentStmt) -> str:
    """COMMENT ON. An empty text removes the comment, as NULL does."""
    text = statement.text or None
    kind, parts = statement.kind, statement.names
    shared: dict[str, type[Any]] = {"schema": Schema, "database": Database, "tablespace": Tablespace}
    if kind in shared:
        found = _find(context, shared[kind], parts[-1])
        context.change({found.oid: replace(found, comment=text)})
        return "COMMENT"
    if kind == "extension":
        return extensions.comment(context, parts[-1], text)
    if kind == "column":
        return _comment_part(context, parts[:-1], lambda item: _commented_column(item, parts[-1], text))
    if kind == "constraint":
        return _comment_part(context, statement.on, lambda item: _commented_constraint(item, parts[-1], text))
    if kind == "collation":
        return collations.comment(context, parts, text)
    if kind in ("type", "domain", "domain constraint"):
        return user_types.comment(context, kind, statement.on or parts, parts[-1], text)
    if kind not in ("table", "view", "matview", "index", "sequence"):
        not_supported(f"COMMENT ON {kind.upper()}")
    return _comment_part(context, parts, lambda item: replace(item, comment=text))


def _comment_part(context: DdlContext, parts: tuple[str, ...], change: Callable[[Any], SchemaObject]) -> str:
    relation = ast.RangeVar(None, parts[-2] if len(parts) > 1 else None, parts[-1])
    item = _relation(context, relation, False)
    assert item is not None
    context.change({item.oid: change(item)})
    return "COMMENT"


def _commented_column(item: Any, name: str, text: str | None) -> SchemaObject:
    if not isinstance(item, Table | View):
        raise SqlError("42809", f'"{item.name}" is not a table or view')
    if not any(column.name == name for column in item.columns):
        raise SqlError("42703", f'column "{name}" of relation "{item.name}" does not exist')
    columns = tuple(replace(column, comment=text) if column.name == name else column for column in item.columns)
    return replace(item, columns=columns)


def _commented_constraint(item: Any, name: str, text: str | None) -> SchemaObject:
    if not isinstance(item, Table) or not any(constraint.name == name for constraint in item.constraints):
        raise SqlError("42704", f'constraint "{name}" for table "{item.name}" does not exist')
    constraints = tuple(replace(each, comment=text) if each.name == name else each for each in item.constraints)
    return replace(item, constraints=constraints)
