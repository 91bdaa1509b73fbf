"""Reading the text of a literal as a value of a type.

Types have their input functions in `catalog.types`; the reg types (regclass, regtype, ...) are names that only the
catalog can resolve, so they are read here.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

from catalog import types
from catalog.errors import SqlError
from catalog.functions import added, registry
from catalog.functions.base import Function
from catalog.system import numbering
from catalog.types.array import read_array
from catalog.types.base import EMPTY_ARRAY, Array, FormatSettings
from catalog.types.oids import (
    NAMED_ARRAY_TYPES,
    NAMED_TYPES,
    REGCLASS,
    REGCOLLATION,
    REGNAMESPACE,
    REGOPER,
    REGOPERATOR,
    REGPROC,
    REGPROCEDURE,
    REGROLE,
    REGTYPE,
)
from catalog.types.user import FIRST_USER_OID
from engine.sql.analyze.environment import Environment, undefined_table
from engine.sql.analyze.errors import fail
from engine.sql.analyze.typeinfo import element_type, type_name


@lru_cache(1024)
def _decoder(oid: int, typmod: int, settings: FormatSettings) -> Callable[[str], object]:
    return types.lookup(oid).text_decoder(settings, typmod)


def read_literal(environment: Environment, text: str, oid: int, typmod: int, location: int) -> object:
    """The value of a literal. Errors of the input function point at the literal."""
    try:
        if oid in NAMED_TYPES:
            return _read_reg(environment, text, oid)
        if oid in NAMED_ARRAY_TYPES:
            return _read_reg_array(environment, text, oid)
        if oid >= FIRST_USER_OID:
            return types.lookup(oid).text_decoder(environment.format, typmod)(text)
        return _decoder(oid, typmod, environment.format)(text)
    except SqlError as error:
        if error.position is None and location >= 0:
            error.position = location + 1
        raise
    except (KeyError, NotImplementedError):
        fail("0A000", f"type {type_name(oid)} is not supported", location)


def _read_reg(environment: Environment, text: str, oid: int) -> int:
    stripped = text.strip()
    if stripped == "-":
        return 0
    if stripped.isascii() and stripped.isdigit():
        return int(stripped)
    return _REG_READERS[oid](environment, stripped)


def _read_reg_array(environment: Environment, text: str, oid: int) -> Array:
    element = element_type(oid)
    texts, dimensions, lower_bounds = read_array(text)
    values = [None if item is None else _read_reg(environment, item, element) for item in texts]
    return Array(tuple(values), dimensions, lower_bounds) if values else EMPTY_ARRAY


def split_identifiers(text: str) -> tuple[str, ...]:
    """'s."T"' -> ('s', 'T'). Raises 42602 for a malformed name."""
    parts: list[str] = []
    index, length = 0, len(text)
    while True:
        while index < length and text[index].isspace():
            index += 1
        if index < length and text[index] == '"':
            part = ""
            index += 1
            while True:
                end = text.find('"', index)
                if end < 0:
                    raise SqlError("42602", "invalid name syntax")
                part += text[index:end]
                index = end + 1
                if index < length and text[index] == '"':
                    part += '"'
                    index += 1
                    continue
                break
        else:
            start = index
            while index < length and text[index] != "." and not text[index].isspace():
                index += 1
            part = text[start:index].lower()
        if not part:
            raise SqlError("42602", "invalid name syntax")
        parts.append(part)
        while index < length and text[index].isspace():
            index += 1
        if index >= length:
            return tuple(parts)
        if text[index] != ".":
            raise SqlError("42602", "invalid name syntax")
        index += 1


def _read_class(environment: Environment, text: str) -> int:
    names = split_identifiers(text)
    if len(names) > 3:
        raise SqlError("42601", f"improper relation name (too many dotted names): {text}")
    schema = names[-2] if len(names) > 1 else None
    environment.check_usage(schema)
    relation = environment.find_relation(schema, names[-1])
    if relation is None:
        if schema is not None and not environment.schema_oid(schema):
            raise SqlError("3F000", f'schema "{schema}" does not exist')
        raise undefined_table(schema, names[-1], -1)
    return relation.oid


def _read_type(environment: Environment, text: str) -> int:
    from engine.sql.analyze.typenames import type_from_text

    try:
        return type_from_text(text, environment).declared
    except SqlError as error:
        if error.sqlstate != "0A000":
            raise
    return _row_type(environment, text)


def _row_type(environment: Environment, text: str) -> int:
    """The OID of a table's row type, or of its array: no values of it exist, but catalogs tell of it."""
    names = split_identifiers(text.removesuffix("[]"))
    schema = names[-2] if len(names) > 1 else None
    environment.check_usage(schema)
    relation, is_array = environment.find_relation(schema, names[-1]), text.endswith("[]")
    if relation is None and names[-1].startswith("_"):
        relation, is_array = environment.find_relation(schema, names[-1][1:]), True
    if relation is None:
        raise SqlError("42704", f'type "{text}" does not exist')
    return numbering.row_array_type(relation.oid) if is_array else numbering.row_type(relation.oid)


def _read_role(environment: Environment, text: str) -> int:
    names = split_identifiers(text)
    oid = environment.catalog.roles.get(names[0])
    if oid is None or len(names) > 1:
        raise SqlError("42704", f'role "{names[0]}" does not exist')
    return oid


def _read_namespace(environment: Environment, text: str) -> int:
    names = split_identifiers(text)
    oid = environment.schema_oid(names[0])
    if not oid or len(names) > 1:
        raise SqlError("3F000", f'schema "{names[0]}" does not exist')
    return oid


def _read_procedure(environment: Environment, text: str) -> int:
    """A function by name, with its argument types in parentheses for regprocedure."""
    name, parenthesis, arguments = text.partition("(")
    names = split_identifiers(name)
    schema = names[-2] if len(names) > 1 else None
    environment.check_usage(schema)
    found = _functions(names[-1], schema)
    if parenthesis:
        wanted = tuple(_read_type(environment, item) for item in arguments.rstrip(") ").split(",") if item.strip())
        found = tuple(function for function in found if function.argument_types == wanted)
    if not found:
        raise SqlError("42883", f'function "{text}" does not exist')
    if len(found) > 1:
        raise SqlError("42725", f'more than one function named "{text}"')
    return found[0].oid


def _functions(name: str, schema: str | None) -> tuple[Function, ...]:
    """The functions of that name in a schema, or on the search path: those that none before them hides there."""
    if schema is not None:
        return registry.functions_named(name) if schema == "pg_catalog" else added.functions_named(name, schema)
    found: dict[tuple[int, ...], Function] = {}
    for _, function in added.searched_functions(name, registry.functions_named(name)):
        found.setdefault(function.argument_types, function)
    return tuple(found.values())


def _read_operator(environment: Environment, text: str) -> int:
    name, parenthesis, arguments = text.partition("(")
    schema, _, bare = name.strip().rpartition(".")
    environment.check_usage(schema)
    built_in = registry.operators_named(bare) if schema in ("", "pg_catalog") else ()
    found = (*built_in, *added.operators_named(bare, schema or None))
    if parenthesis:
        items = [item.strip() for item in arguments.rstrip(") ").split(",")]
        wanted = tuple(0 if item.lower() == "none" else _read_type(environment, item) for item in items)
        found = tuple(operator for operator in found if (operator.left, operator.right) == wanted)
    if not found:
        raise SqlError("42883", f"operator does not exist: {text}")
    if len(found) > 1:
        raise SqlError("42725", f"more than one operator named {text}")
    return found[0].oid


def _with_arguments(read: Callable[[Environment, str], int]) -> Callable[[Environment, str], int]:
    """The reader of a name that its arguments' types must follow (parseNameAndArgTypes)."""

    def checked(environment: Environment, text: str) -> int:
        if "(" not in text:
            raise SqlError("22P02", "expected a left parenthesis")
        if not text.endswith(")"):
            raise SqlError("22P02", "expected a right parenthesis")
        return read(environment, text)

    return checked


def _read_collation(environment: Environment, text: str) -> int:
    return environment.find_collation(tuple(split_identifiers(text))).oid


_REG_READERS: dict[int, Callable[[Environment, str], int]] = {
    REGPROC: _read_procedure,
    REGPROCEDURE: _with_arguments(_read_procedure),
    REGOPER: _read_operator,
    REGOPERATOR: _with_arguments(_read_operator),
    REGCLASS: _read_class,
    REGTYPE: _read_type,
    REGROLE: _read_role,
    REGNAMESPACE: _read_namespace,
    REGCOLLATION: _read_collation,
}
