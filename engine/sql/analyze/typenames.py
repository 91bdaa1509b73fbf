"""Type names: converts a written name to OID and modifier (LookupTypeName, typenameTypeMod)."""

from __future__ import annotations

from functools import lru_cache

from catalog import types
from catalog.errors import SqlError
from catalog.row_types import row_type_of
from catalog.schema import Domain, ExtensionType, Table, UserType, View, VirtualTable
from catalog.types.base import TypeRef
from engine.sql import ast
from engine.sql.analyze.environment import Environment, undefined_table
from engine.sql.analyze.errors import fail, refuse
from engine.sql.analyze.typeinfo import array_type, element_type, facts, type_name, type_oid_by_name
from engine.sql.parser import parse_expression


def resolve_type(name: ast.TypeName, environment: Environment) -> TypeRef:
    """The type and modifier that were written.

    42704 type "x" does not exist; 42601 for a modifier where the type takes none; 22023 for a bad modifier.
    """
    if name.percent_type:
        return _percent_type(name, environment)
    if len(name.names) == 1 and environment.before_system:
        hiding = environment.type_among(environment.before_system, name.names[0])
        if hiding is not None:
            return _user_type(name, hiding, name.array_dimensions > 0)
    found = _lookup(name.names, name.modifiers, name.array_dimensions > 0)
    if isinstance(found, TypeRef):
        return found
    if isinstance(found, SqlError):
        raise SqlError(found.sqlstate, found.message, hint=found.hint, position=_position(name))
    schema = name.names[-2] if len(name.names) > 1 else None
    environment.check_usage(schema)
    defined = environment.find_type(schema, name.names[-1]) if len(name.names) <= 2 else None
    if defined is not None:
        return _user_type(name, defined, name.array_dimensions > 0)
    over = environment.find_element_type(schema, name.names[-1]) if len(name.names) <= 2 else None
    if over is not None:
        return _user_type(name, over, True)
    shown = ".".join(name.names) + "[]" * name.array_dimensions
    if len(name.names) > 1 and not environment.schema_oid(name.names[-2]):
        fail("3F000", f'schema "{name.names[-2]}" does not exist', name)
    relation = environment.find_relation(schema, name.names[-1]) if len(name.names) <= 2 else None
    if isinstance(relation, Table | View):
        return _user_type(name, row_type_of(relation), name.array_dimensions > 0)
    names = (name.names[-1], name.names[-1][1:]) if name.names[-1].startswith("_") else (name.names[-1],)
    if any(isinstance(environment.find_relation(schema, each), Table | View | VirtualTable) for each in names):
        refuse(f'composite type "{shown}"', name)
    fail("42704", f'type "{shown}" does not exist', name)


def _user_type(name: ast.TypeName, defined: UserType | ExtensionType, is_array: bool) -> TypeRef:
    """A user's or an extension's type or an array over it. Only built-in types have modifiers."""
    if name.modifiers:
        message = f'type modifier is not allowed for type "{type_name(defined.oid)}"'
        raise SqlError("42601", message, position=_position(name))
    declared = defined.array_oid if is_array else defined.oid
    if not isinstance(defined, Domain):
        return TypeRef(declared)
    oid = array_type(defined.type.oid) if is_array else defined.type.oid
    return TypeRef(oid, defined.type.typmod, declared)


@lru_cache(2048)
def _lookup(names: tuple[str, ...], modifiers: tuple[str, ...], is_array: bool) -> TypeRef | SqlError | None:
    if len(names) > 2 or (len(names) == 2 and names[0] != "pg_catalog"):
        return None
    oid = type_oid_by_name().get(names[-1], 0)
    if not oid:
        return None
    typmod = -1
    if modifiers:
        base = element_type(oid) or oid
        if not facts(base).modifier_input:
            return SqlError("42601", f'type modifier is not allowed for type "{type_name(oid)}"')
        try:
            typmod = types.lookup(base).typmod_in(modifiers)
        except SqlError as error:
            return error
    if is_array:
        array = array_type(oid)
        if not array and not element_type(oid):
            return SqlError("42704", f"could not find array type for data type {type_name(oid)}")
        oid = array or oid
    return TypeRef(oid, typmod)


def _position(name: ast.TypeName) -> int | None:
    return name.location + 1 if name.location >= 0 else None


def _percent_type(name: ast.TypeName, environment: Environment) -> TypeRef:
    if len(name.names) < 2:
        fail("42601", f"improper %TYPE reference (too few dotted names): {'.'.join(name.names)}", name)
    schema = name.names[-3] if len(name.names) > 2 else None
    environment.check_usage(schema)
    relation = environment.find_relation(schema, name.names[-2])
    if relation is None:
        raise undefined_table(schema, name.names[-2], name.location)
    for column in getattr(relation, "columns", ()):
        if column.name == name.names[-1]:
            found: TypeRef = column.type
            return TypeRef(array_type(found.oid), found.typmod) if name.array_dimensions else found
    fail("42703", f'column "{name.names[-1]}" of relation "{name.names[-2]}" does not exist', name)


def type_from_text(text: str, environment: Environment) -> TypeRef:
    """The type of a text in the form of regtype's input: 'integer[]', 'varchar(10)'. 42704 if there is none."""
    node = parse_expression(f"NULL::{text}") if text.strip() else None
    if not isinstance(node, ast.TypeCast) or isinstance(node.argument, ast.TypeCast):
        raise SqlError("42601", f'invalid type name "{text}"')
    try:
        return resolve_type(node.type, environment)
    except SqlError as error:
        error.position = None
        raise
