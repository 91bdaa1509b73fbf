"""CREATE, ALTER and DROP EXTENSION. catalog/extensions.py has the content of the extensions."""

from __future__ import annotations

from dataclasses import replace

from catalog.errors import SqlError, not_supported
from catalog.extensions import PLPGSQL, POSTGRES_FDW, VIEWS, Available, available
from catalog.identifiers import quote_identifier
from catalog.privileges import may
from catalog.schema import Database, Extension, Role, Schema, SchemaObject, View
from engine.ddl import ownership
from engine.ddl.code_users import refuse_users
from engine.ddl.context import DdlContext
from engine.ddl.drop import remove
from engine.ddl.foreign import create_wrapper_of
from engine.ddl.views import create_view
from engine.sql import ast
from engine.sql.parser import parse_select


def extension(context: DdlContext, statement: ast.ExtensionStmt) -> str:
    """Runs CREATE, ALTER or DROP EXTENSION. Raises 42710, 0A000 (not available), 22023 (no such version), 3F000, 42501,
    42704."""
    if statement.action == "create":
        return _create(context, statement)
    if statement.action == "drop":
        return _drop(context, statement)
    return _alter(context, statement)


def _create(context: DdlContext, statement: ast.ExtensionStmt) -> str:
    (name,) = statement.names
    if not name or any(char in name for char in "/\\") or "--" in name or name.startswith("-") or name.endswith("-"):
        raise SqlError("22023", f'invalid extension name: "{name}"')
    if name in context.catalog.extensions or name == PLPGSQL:
        message = f'extension "{name}" already exists'
        if not statement.if_exists:
            raise SqlError("42710", message)
        context.notice(SqlError("42710", f"{message}, skipping", severity="NOTICE"))
        return "CREATE EXTENSION"
    known = _available(name)
    _check_version(known, statement.version)
    _may_create(context, known)
    relation = ast.RangeVar(None, statement.schema, name) if statement.schema is not None else None
    schema = context.creation_schema(relation)
    context.lock_name(0, f"extension {name}")
    _refuse_conflicts(context, known, schema)
    item = Extension(context.new_oid(), schema.oid, name, known.version, context.user_oid, known.comment)
    context.change({item.oid: item})
    _create_views(context, item, schema)
    if name == POSTGRES_FDW:
        create_wrapper_of(context, item)
    return "CREATE EXTENSION"


def _create_views(context: DdlContext, item: Extension, schema: Schema) -> None:
    for name, text in VIEWS.get(item.name, ()):
        query = parse_select(text.format(quote_identifier(schema.name)))
        create_view(context, ast.ViewStmt(ast.RangeVar(None, schema.name, name), (), query))
        view = context.catalog.relation(schema.oid, name)
        assert isinstance(view, View)
        owner = context.catalog.get(item.owner)
        assert isinstance(owner, Role)
        shown = quote_identifier(owner.name)
        acl = (f"{shown}=arwdDxt/{shown}", f"=r/{shown}")
        context.change({view.oid: replace(view, extension=item.oid, acl=acl)})


def _available(name: str) -> Available:
    found = available().get(name)
    if found is None:
        raise SqlError(
            "0A000",
            f'extension "{name}" is not available',
            hint="The extension must first be installed on the system where PostgreSQL is running.",
        )
    return found


def _check_version(known: Available, version: str | None) -> None:
    if version is not None and version != known.version:
        raise SqlError(
            "22023", f'extension "{known.name}" has no installation script nor update path for version "{version}"'
        )


def _may_create(context: DdlContext, known: Available) -> None:
    """A user who may create schemas may create trusted extensions."""
    database = context.catalog.get(context.catalog.database)
    if context.is_superuser or not isinstance(database, Database):
        return
    hint = ""
    if not known.trusted:
        hint = "Must be superuser to create this extension."
    elif not may(context.catalog, database, ownership.user_role(context), "C"):
        hint = "Must have CREATE privilege on current database to create this extension."
    if hint:
        raise SqlError("42501", f'permission denied to create extension "{known.name}"', hint=hint)


def _refuse_conflicts(context: DdlContext, known: Available, schema: Schema) -> None:
    """42710 if the schema has a type with the name of an extension's type."""
    planned = Extension(0, schema.oid, known.name, known.version)
    catalog = context.catalog.with_object(planned)
    for entry in catalog.user_types.values():
        name = entry.row.name
        if entry.definition is None and known.has(entry.row.oid) and not entry.row.element:
            taken = context.catalog.relation(schema.oid, name) or context.catalog.user_type(schema.oid, name)
            if taken is not None:
                raise SqlError("42710", f'type "{name}" already exists')


def _get_extension(context: DdlContext, name: str) -> Extension:
    """The extension. Raises 42704; 42501 unless the user owns it."""
    found = context.catalog.extensions.get(name)
    if name == PLPGSQL:
        not_supported("a change of the extension plpgsql, which every database has,")
    if found is None:
        raise SqlError("42704", f'extension "{name}" does not exist')
    ownership.must_own(context, found)
    return found


def _drop(context: DdlContext, statement: ast.ExtensionStmt) -> str:
    roots: list[SchemaObject] = []
    for name in statement.names:
        if statement.if_exists and name not in context.catalog.extensions:
            message = f'extension "{name}" does not exist, skipping'
            context.notice(SqlError("00000", message, severity="NOTICE"))
        else:
            roots.append(_get_extension(context, name))
    remove(context, roots, statement.cascade)
    return "DROP EXTENSION"


def _alter(context: DdlContext, statement: ast.ExtensionStmt) -> str:
    """SET SCHEMA, UPDATE. Stored definitions contain the schema's name, so they are written again."""
    found = _get_extension(context, statement.names[0])
    if statement.action == "update":
        _check_version(_available(found.name), statement.version)
        version = statement.version or found.version
        context.notice(
            SqlError(
                "00000", f'version "{version}" of extension "{found.name}" is already installed', severity="NOTICE"
            )
        )
        return "ALTER EXTENSION"
    assert statement.schema is not None
    schema = context.creation_schema(ast.RangeVar(None, statement.schema, found.name))
    if schema.oid != found.schema:
        if found.name in VIEWS:
            not_supported("ALTER EXTENSION SET SCHEMA of an extension with views")
        refuse_users(context, found, "ALTER EXTENSION SET SCHEMA of an extension that stored expressions use")
        _refuse_conflicts(context, _available(found.name), schema)
        context.change({found.oid: replace(found, schema=schema.oid)})
    return "ALTER EXTENSION"


def comment(context: DdlContext, name: str, text: str | None) -> str:
    """COMMENT ON EXTENSION. That of plpgsql, which dumps write, is there already."""
    if name == PLPGSQL and text == available()[name].comment:
        return "COMMENT"
    found = _get_extension(context, name)
    context.change({found.oid: replace(found, comment=text)})
    return "COMMENT"
