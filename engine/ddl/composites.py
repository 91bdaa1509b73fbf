"""CREATE TYPE ... AS (...), and ALTER TYPE of its attributes, which is refused while a column stores values of the
type."""

from __future__ import annotations

from dataclasses import replace

from catalog import types
from catalog.collations import rules
from catalog.errors import SqlError, not_supported
from catalog.schema import Column, Composite, Table
from catalog.types.base import TypeRef
from engine.ddl.collations import column_collation
from engine.ddl.context import DdlContext
from engine.ddl.user_types import place_of, type_named, users_of
from engine.sql import ast
from engine.sql.analyze import resolve_type


def create_composite(context: DdlContext, statement: ast.CompositeTypeStmt) -> str:
    """Raises 42710, 42701 (an attribute twice), 42P16 (a pseudo-type)."""
    schema, name = place_of(context, statement.name)
    columns: tuple[Column, ...] = ()
    try:
        for attribute in statement.attributes:
            columns = _with_attribute(context, columns, attribute, "")
    except SqlError as error:
        error.position = None  # as in PostgreSQL
        raise
    item = Composite(
        context.new_oid(), schema.oid, name, context.new_oid(), context.new_oid(), columns, context.user_oid
    )
    context.change({item.oid: item})
    return "CREATE TYPE"


def _attribute_type(context: DdlContext, name: str, written: ast.TypeName | None) -> TypeRef:
    assert written is not None
    found = resolve_type(written, context.environment)
    if types.lookup(found.oid).category == "P":
        raise SqlError("42P16", f'column "{name}" has pseudo-type {types.format_type(found.oid)}')
    return found


def _with_attribute(
    context: DdlContext, columns: tuple[Column, ...], attribute: ast.ColumnDef, owner: str
) -> tuple[Column, ...]:
    if any(column.name == attribute.name for column in columns):
        if owner:
            raise SqlError("42701", f'column "{attribute.name}" of relation "{owner}" already exists')
        raise SqlError("42701", f'column "{attribute.name}" specified more than once')
    number = max((column.number for column in columns), default=0) + 1
    type_ = _attribute_type(context, attribute.name, attribute.type)
    collation = column_collation(context, attribute.collation, type_, attribute.location)
    if rules(context.catalog, collation) is not None:
        not_supported("an ICU collation for an attribute of a composite type")
    return (*columns, Column(number, attribute.name, type_, collation=collation))


def alter_composite(context: DdlContext, statement: ast.AlterCompositeStmt) -> str:
    """ADD, DROP, ALTER, RENAME ATTRIBUTE. Raises 0A000 if a column has the type, 42703, 42701, 42809."""
    item = type_named(context, statement.name)
    if not isinstance(item, Composite):
        raise SqlError("42809", f"{types.format_type(item.oid)} is not a composite type")
    context.lock_name(item.oid, "")
    for command in statement.commands:
        if command.action in ("drop", "alter"):
            _refuse_used(context, item)
        elif command.action == "add" and next(users_of(context, item), None) is not None:
            not_supported(f"another attribute of type {item.name} while it is used")
        item = _change(context, item, command)
    context.change({item.oid: item})
    return "ALTER TYPE"


def _refuse_used(context: DdlContext, item: Composite) -> None:
    for user, column in users_of(context, item):
        if isinstance(user, Table) and column is not None:
            place = f"{user.name}.{column.name}"
            raise SqlError("0A000", f'cannot alter type "{item.name}" because column "{place}" uses it')
        not_supported(f"altering type {item.name} while {user.name} uses it")


def _change(context: DdlContext, item: Composite, command: ast.AlterTableCmd) -> Composite:
    if command.action == "add":
        assert isinstance(command.definition, ast.ColumnDef)
        return replace(item, columns=_with_attribute(context, item.columns, command.definition, item.name))
    found = next((column for column in item.columns if column.name == command.name), None)
    if found is None:
        message = f'column "{command.name}" of relation "{item.name}" does not exist'
        if command.action == "rename":
            message = f'column "{command.name}" does not exist'
        if not command.if_exists:
            raise SqlError("42703", message)
        context.notice(SqlError("00000", f"{message}, skipping", severity="NOTICE"))
        return item
    if command.action == "drop":
        return replace(item, columns=tuple(column for column in item.columns if column is not found))
    if command.action == "rename":
        if any(column.name == command.value for column in item.columns):
            raise SqlError("42701", f'column "{command.value}" of relation "{item.name}" already exists')
        changed = replace(found, name=str(command.value))
    else:
        changed = replace(found, type=_attribute_type(context, found.name, command.type))
    return replace(item, columns=tuple(changed if column is found else column for column in item.columns))
