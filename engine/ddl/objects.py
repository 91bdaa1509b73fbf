"""Schemas, databases, roles; comments, renames, owners, moves between schemas."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, TypeVar

from catalog.errors import SqlError, not_supported
from catalog.schema import (
    IN_DATABASES,
    POSTGRES_DATABASE_OID,
    Database,
    Index,
    Role,
    Schema,
    SchemaObject,
    Sequence,
    Table,
    Tablespace,
    View,
)
from engine.ddl import (
    branches,
    collations,
    default_privileges,
    event_triggers,
    extensions,
    foreign,
    grants,
    names,
    ownership,
    roles,
    rules,
    statistics_objects,
    tablespaces,
    text_search,
    triggers,
    user_types,
)
from engine.ddl.context import DdlContext
from engine.ddl.drop import Removal
from engine.ddl.policies import comment_on_policy, policies_naming, policy_rewrites, rename_policy
from engine.ddl.rewrite_text import rename_relations, renamed_texts
from engine.ddl.tables import refuse_system_name
from engine.sql import ast

_FOREIGN = ("server", "foreign data wrapper")
Named = TypeVar("Named", Role, Database, Schema, Tablespace)


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


def _refuse_schema_name(name: str) -> None:
    if name.startswith("pg_"):
        message = f'unacceptable schema name "{name}"'
        raise SqlError("42939", message, detail='The prefix "pg_" is reserved for system schemas.')


def create_schema(context: DdlContext, statement: ast.CreateSchemaStmt) -> str:
    name = statement.name or statement.owner
    assert name is not None
    _refuse_schema_name(name)
    owner = context.user_oid
    if statement.owner:
        owner = ownership.role_named(context, statement.owner).oid
    ownership.must_create_schemas(context, ownership.user_role(context))
    if statement.owner:
        ownership.must_be_member(context, ownership.role_named(context, statement.owner))
    context.lock_name(0, name)
    if name in context.catalog.schemas:
        if not statement.if_not_exists:
            raise SqlError("42P06", f'schema "{name}" already exists')
        context.notice(SqlError("42P06", f'schema "{name}" already exists, skipping', severity="NOTICE"))
        return "CREATE SCHEMA"
    schema = Schema(context.new_oid(), context.catalog.database, name, owner)
    context.change({schema.oid: schema})
    if statement.elements and owner != context.user_oid:
        not_supported("CREATE SCHEMA AUTHORIZATION of another role with schema elements")
    return "CREATE SCHEMA"


def create_database(context: DdlContext, statement: ast.CreateDatabaseStmt) -> str:
    """CREATE DATABASE: an empty one, a branch of the database in FROM or TEMPLATE, or a copy of one in a backup.
    Refuses encodings other than UTF8. Raises 42501, 42P04, 3D000, 42601, 42809, 22023, 0A000."""
    owner = check_new_database(context, statement)
    context.lock_name(0, statement.name)
    parent = parent_of(statement)
    if parent is not None:
        then = context.then()
        found = branches.parent_at(context, then, parent)
        if found is None:
            raise SqlError("3D000", f'database "{parent}" does not exist')
        branches.create(context, found, _new_database(context, statement, owner, found), then)
        return "CREATE DATABASE"
    database = _new_database(context, statement, owner, None)
    public = Schema(context.new_oid(), database.oid, "public", comment="standard public schema")
    catalog_schemas = [
        replace(item, database=0)
        for item in context.catalog.objects.values()
        if isinstance(item, Schema) and item.name in ("pg_catalog", "information_schema")
    ]
    context.change({database.oid: database, public.oid: public, **{item.oid: item for item in catalog_schemas}})
    return "CREATE DATABASE"


_CREATE_OPTIONS = frozenset(
    [
        "tablespace",
        "owner",
        "template",
        "encoding",
        "locale",
        "lc_collate",
        "lc_ctype",
        "icu_locale",
        "locale_provider",
        "is_template",
        "allow_connections",
        "connection_limit",
        "collation_version",
        "location",
        "oid",
        "strategy",
    ]
)
_LOCALES = ("C", "POSIX", "C.UTF-8", "C.utf8")


def _new_database(
    context: DdlContext, statement: ast.CreateDatabaseStmt, owner: int, parent: Database | None
) -> Database:
    """The new database. Raises 22023 for a branch with another locale than its parent."""
    options = {name.lower(): value for name, value in statement.options}
    made = Database(context.new_oid(), statement.name, owner)
    if parent is not None:
        made = replace(made, collate=parent.collate, ctype=parent.ctype)
    wanted = []
    for word, shown, before in (("lc_collate", "collation", made.collate), ("lc_ctype", "LC_CTYPE", made.ctype)):
        given = str(options.get(word, options.get("locale", before)))
        wanted.append(given)
        if parent is not None and given != before:
            message = f"new {shown} ({given}) is incompatible with the {shown} of the template database ({before})"
            hint = f"Use the same {shown} as in the template database, or use template0 as template."
            raise SqlError("22023", message, hint=hint)
    made = replace(made, collate=wanted[0], ctype=wanted[1])
    if "connection_limit" in options:
        made = replace(made, connection_limit=roles.connection_limit(options["connection_limit"]))
    if "allow_connections" in options:
        made = replace(made, allow_connections=_is_on(options["allow_connections"]))
    return replace(made, is_template=_is_on(options["is_template"])) if "is_template" in options else made


def _is_on(value: object) -> bool:
    return str(value).lower() in ("true", "on", "1")


def _check_locales(options: dict[str, Any]) -> None:
    """42809 for a locale that no database can have, 0A000 for ICU's."""
    if "icu_locale" in options or str(options.get("locale_provider", "libc")).lower() != "libc":
        not_supported("a database whose locale is ICU's")
    for word in ("locale", "lc_collate", "lc_ctype"):
        if word in options and options[word] not in _LOCALES:
            hint = "A database is of the locale C, POSIX or C.UTF-8; columns and expressions take ICU's collations."
            raise SqlError("42809", f'invalid locale name: "{options[word]}"', hint=hint)


def check_new_database(context: DdlContext, statement: ast.CreateDatabaseStmt) -> int:
    """Checks everything that can be checked before work starts. Returns the owner (OID). Raises 42501, 42P04, 42704,
    0A000."""
    user = ownership.user_role(context)
    if not (user.superuser or user.create_db):
        raise SqlError("42501", "permission denied to create database")
    _may_copy(context, statement)
    options = {name.lower(): value for name, value in statement.options}
    for name in options:
        if name not in _CREATE_OPTIONS:
            raise SqlError("42601", f'option "{name}" not recognized')
    encoding = str(options.get("encoding", "utf8")).replace("-", "").lower()
    if encoding not in ("utf8", "unicode", "6", "default"):
        not_supported(f"encoding {options['encoding']}")
    if str(options.get("tablespace", "default")) not in ("default", "pg_default"):
        not_supported(f'CREATE DATABASE with tablespace "{options["tablespace"]}"')
    _check_locales(options)
    if statement.name in context.catalog.databases:
        raise SqlError("42P04", f'database "{statement.name}" already exists')
    if "owner" not in options:
        return context.user_oid
    owner = ownership.role_named(context, str(options["owner"]))
    ownership.must_be_member(context, owner)
    return owner.oid


def _may_copy(context: DdlContext, statement: ast.CreateDatabaseStmt) -> None:
    """42501 for a branch of another owner's database, and for one AS OF an earlier moment."""
    parent = parent_of(statement)
    if parent is None or context.is_superuser:
        return
    found = context.catalog.get(context.catalog.databases.get(parent, 0))
    then = statement.as_of is not None or statement.backup is not None  # would restore privileges revoked meanwhile
    if then or not (found is None or (isinstance(found, Database) and ownership.owns(context, found))):
        raise SqlError("42501", f'permission denied to copy database "{parent}"')


def parent_of(statement: ast.CreateDatabaseStmt) -> str | None:
    """The name of the parent of a new branch. Raises 42601 for two."""
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
    ownership.must_own(context, database)
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
        if isinstance(item, IN_DATABASES) and item.database == database.oid:
            changes[item.oid] = None
    for item in removal.gone.values():
        if isinstance(item, Table | Sequence) or (isinstance(item, Index) and not item.primary):
            context.drop_storage(item.storage_id)
    context.change(changes)
    return "DROP DATABASE"


def alter_database(context: DdlContext, statement: ast.AlterDatabaseStmt) -> str:
    database = _find(context, Database, statement.name)
    ownership.must_own(context, database)
    if statement.setting is not None:
        context.check_stored_setting(statement.setting)
        settings = roles.with_setting(database.settings, statement.setting)
        context.change({database.oid: replace(database, settings=settings)})
        return "ALTER DATABASE"
    options = dict(statement.options)
    changed = database
    for name, value in options.items():
        if name == "connection_limit":
            changed = replace(changed, connection_limit=roles.connection_limit(value))
        elif name == "allow_connections":
            changed = replace(changed, allow_connections=_is_on(value))
            if not changed.allow_connections and database.oid == context.catalog.database:
                raise SqlError("22023", "cannot disallow connections for current database")
        elif name == "is_template":
            changed = replace(changed, is_template=_is_on(value))
        else:
            not_supported(f"ALTER DATABASE {name.upper()}")
    context.change({changed.oid: changed})
    return "ALTER DATABASE"


# ---- renames, owners, schemas, comments -----------------------------------------------------------------------------


def _relation(
    context: DdlContext, relation: ast.RangeVar, if_exists: bool, mode: str = "access exclusive"
) -> Table | Index | Sequence | View | None:
    found = names.find(context, relation)
    if found is None:
        message = f'relation "{names.show_relation(relation)}" does not exist'
        if not if_exists:
            raise SqlError("42P01", message)
        context.notice(SqlError("00000", f"{message}, skipping", severity="NOTICE"))
        return None
    if not isinstance(found, Table | Index | Sequence | View) or found.oid not in context.catalog.objects:
        raise SqlError("42501", f'permission denied: "{found.name}" is a system catalog')
    ownership.must_own(context, found)
    context.lock_relation(found.oid, mode)
    return found


def rename(context: DdlContext, statement: ast.RenameStmt) -> str:
    """ALTER ... RENAME. Names are stored once, and stored expressions are deparsed from columns, not from names."""
    if statement.kind == "trigger":
        return triggers.rename(context, statement)
    if statement.kind in _FOREIGN:
        return foreign.rename(context, statement)
    if statement.kind == "rule":
        return rules.rename_rule(context, statement)
    word = statement.of if statement.kind in ("column", "constraint") else statement.kind
    word = "materialized view" if word == "matview" else word
    tag = f"ALTER {word.upper()}"
    kinds: dict[str, type[Any]] = {"schema": Schema, "database": Database, "role": Role, "tablespace": Tablespace}
    if statement.kind in kinds:
        found = _find(context, kinds[statement.kind], statement.name or "")
        if isinstance(found, Tablespace):
            ownership.must_own(context, found)
            tablespaces.refuse_name(context, statement.new_name)
        else:
            _may_rename(context, found, statement.new_name)
        change: dict[int, SchemaObject | None] = {found.oid: replace(found, name=statement.new_name)}
        if statement.kind == "schema":
            rename_relations(context, change, f"renaming schema {found.name}")
        else:
            if isinstance(found, Role):
                renamed = grants.mentioning(context, found.name)
                change |= {one.oid: ownership.with_renamed_role(one, found.name, statement.new_name) for one in renamed}
            context.change(change)
            if isinstance(found, Role):
                default_privileges.rename(context, found.name, statement.new_name)
        return tag
    if statement.kind == "policy":
        return rename_policy(context, statement)
    if statement.relation is None:
        not_supported(f"ALTER {statement.kind.upper()} RENAME")
    item = _relation(context, statement.relation, statement.if_exists)
    if item is None:
        return tag
    if statement.kind == "column":
        _refuse_inherited_name(context, item, statement)
        _rename_column(context, item, statement.name or "", statement.new_name)
    elif statement.kind == "constraint":
        _refuse_inherited_constraint(context, item, statement.name or "", only=statement.relation.only)
        _rename_constraint(context, item, statement.name or "", statement.new_name)
    else:
        ownership.must_rename(context, item)
        names.refuse_if_taken(context, item.schema, statement.new_name, False)
        rename_relations(context, {item.oid: replace(item, name=statement.new_name)}, f"renaming {item.name}")
        if isinstance(item, Index):
            _rename_constraint_of(context, item, statement.new_name)
    return tag


def _may_rename(context: DdlContext, found: Schema | Database | Role, new: str) -> None:
    """Raises 42501, 42939 (a reserved name), 42P06, 42P04, 42710, 0A000."""
    if isinstance(found, Role):
        roles.may_rename(context, found, new)
        return
    ownership.must_own(context, found)
    user = ownership.user_role(context)
    if isinstance(found, Database):
        if not (user.superuser or user.create_db):
            raise SqlError("42501", "permission denied to rename database")
        if new in context.catalog.databases:
            raise SqlError("42P04", f'database "{new}" already exists')
        return
    ownership.must_create_schemas(context, user)
    _refuse_schema_name(new)
    if new in context.catalog.schemas:
        raise SqlError("42P06", f'schema "{new}" already exists')


def _refuse_inherited_name(context: DdlContext, item: SchemaObject, statement: ast.RenameStmt) -> None:
    """42P16 for an inherited column, or one that children have too."""
    column = item.column(statement.name or "") if isinstance(item, Table) else None
    if column is None or not isinstance(item, Table):
        return
    if column.inherited:
        raise SqlError("42P16", f'cannot rename inherited column "{column.name}"')
    assert statement.relation is not None
    if statement.relation.only and item.oid in context.catalog.children:
        raise SqlError("42P16", f'inherited column "{column.name}" must be renamed in child tables too')


def _refuse_inherited_constraint(context: DdlContext, item: SchemaObject, name: str, only: bool) -> None:
    """42P16 for an inherited CHECK, or one that children have too."""
    for constraint in item.constraints if isinstance(item, Table) else ():
        if constraint.name != name or constraint.kind != "c":
            continue
        if only and not constraint.no_inherit and item.oid in context.catalog.children:
            raise SqlError("42P16", f'inherited constraint "{name}" must be renamed in child tables too')
        if constraint.inherited:
            raise SqlError("42P16", f'cannot rename inherited constraint "{name}"')


def _rename_column(context: DdlContext, item: SchemaObject, old: str, new: str) -> None:
    if not isinstance(item, Table | View):
        raise SqlError("42809", f'"{item.name}" is not a table or view')
    column = next((column for column in item.columns if column.name == old), None)
    if column is None:
        raise SqlError("42703", f'column "{old}" does not exist')
    if isinstance(item, Table):
        refuse_system_name(new)
    if any(column.name == new for column in item.columns):
        raise SqlError("42701", f'column "{new}" of relation "{item.name}" already exists')
    columns = tuple(replace(each, name=new) if each is column else each for each in item.columns)
    changed = replace(item, columns=columns)
    if isinstance(item, Table) and isinstance(changed, Table):
        rewrites = policy_rewrites(context, policies_naming((item.oid,)))
        context.change(renamed_texts(context, item, changed, column.number))
        for rewrite in rewrites:
            rewrite()
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
    if isinstance(item, Index):
        raise SqlError("42809", f'cannot change schema of index "{item.name}"')
    if isinstance(item, Sequence) and item.owned_by is not None:
        detail = f'Sequence "{item.name}" is linked to table "{context.catalog.table(item.owned_by[0]).name}".'
        raise SqlError("0A000", "cannot move an owned sequence into another schema", detail=detail)
    target = ownership.target_schema(context, item.schema, item.name, statement.schema)
    if target.oid == item.schema:
        return tag
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
    if statement.kind in _FOREIGN:
        return foreign.set_owner(context, statement)
    if statement.kind not in kinds:
        not_supported(f"ALTER {statement.kind.upper()} OWNER")
    found = _find(context, kinds[statement.kind], statement.name)
    context.change(
        {found.oid: ownership.with_owner(context, found, ownership.new_owner(context, found, statement.owner))}
    )
    return f"ALTER {statement.kind.upper()}"


def comment(context: DdlContext, statement: ast.CommentStmt) -> str:
    """COMMENT ON. An empty text removes the comment, as NULL does."""
    text = statement.text or None
    kind, parts = statement.kind, statement.names
    shared: dict[str, type[Any]] = {"schema": Schema, "database": Database, "tablespace": Tablespace}
    if kind in shared:
        found = _find(context, shared[kind], parts[-1])
        ownership.must_own(context, found)
        context.change({found.oid: replace(found, comment=text)})
        return "COMMENT"
    if kind == "event trigger":
        return event_triggers.comment(context, parts[-1], text)
    if kind == "extension":
        return extensions.comment(context, parts[-1], text)
    if kind in _FOREIGN:
        return foreign.comment(context, kind, parts[-1], text)
    if kind == "column":
        return _comment_part(context, parts[:-1], lambda item: _commented_column(item, parts[-1], text))
    if kind == "constraint":
        return _comment_part(context, statement.on, lambda item: _commented_constraint(item, parts[-1], text))
    if kind == "rule":
        return rules.comment_on_rule(context, statement.on, parts[-1], text)
    if kind == "trigger":
        return triggers.comment(context, parts[-1], statement.on, text)
    if kind == "policy":
        return comment_on_policy(context, statement.on, parts[-1], text)
    if kind.startswith("text search "):
        return text_search.comment(context, kind.removeprefix("text search "), parts, text)
    if kind == "collation":
        return collations.comment(context, parts, text)
    if kind == "statistics":
        return statistics_objects.comment(context, parts, text)
    if kind in ("type", "domain", "domain constraint"):
        return user_types.comment(context, kind, statement.on or parts, parts[-1], text)
    if kind not in ("table", "view", "matview", "index", "sequence", "foreign table"):
        not_supported(f"COMMENT ON {kind.upper()}")
    return _comment_part(context, parts, lambda item: _with_comment(item, kind, text))


def _comment_part(context: DdlContext, parts: tuple[str, ...], change: Callable[[Any], SchemaObject]) -> str:
    relation = ast.RangeVar(None, parts[-2] if len(parts) > 1 else None, parts[-1])
    item = _relation(context, relation, False, "share update exclusive")
    assert item is not None
    context.change({item.oid: change(item)})
    return "COMMENT"


def _with_comment(item: Any, kind: str, text: str | None) -> SchemaObject:
    """Raises 42809 for a foreign table as a table, and the other way round."""
    if kind in ("table", "foreign table") and (kind == "table") == bool(getattr(item, "server", 0)):
        raise SqlError("42809", f'"{item.name}" is not a {kind}')
    commented: SchemaObject = replace(item, comment=text)
    return commented


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
