"""Reads the text of a literal as a value of a type.

Types have their input functions in `catalog.types`. The reg types (regclass, regtype, ...) are names that only the
catalog can resolve, so this module reads them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache

from catalog import types
from catalog.errors import SqlError
from catalog.functions import added, registry
from catalog.functions.base import Function, Operator
from catalog.identifiers import split_name
from catalog.system import derived_oids
from catalog.types.array import read_array
from catalog.types.base import EMPTY_ARRAY, Array, FormatSettings
from catalog.types.long_values import LONG
from catalog.types.oid import parse_oid
from catalog.types.oids import (
    NAMED_ARRAY_TYPES,
    NAMED_TYPES,
    OPERATOR_NAMES,
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
from catalog.types.texts import WHITESPACE
from catalog.types.user import FIRST_USER_OID
from engine.sql.analyze.environment import Environment, undefined_table
from engine.sql.analyze.errors import fail
from engine.sql.analyze.typeinfo import element_type, type_name
from engine.sql.analyze.typenames import type_from_text


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
    if len(text) > LONG:
        detail = f"A name of {len(text)} characters names nothing."
        raise SqlError("54000", "name is too long", detail=detail)
    if text == "-" and oid not in OPERATOR_NAMES:
        return 0
    if text.isascii() and text.isdigit():
        return parse_oid(text)
    return _REG_READERS[oid](environment, text)


def _read_reg_array(environment: Environment, text: str, oid: int) -> Array:
    element = element_type(oid)
    texts, dimensions, lower_bounds = read_array(text)
    values = [None if item is None else _read_reg(environment, item, element) for item in texts]
    return Array(tuple(values), dimensions, lower_bounds) if values else EMPTY_ARRAY


def _schema_of(environment: Environment, names: tuple[str, ...], what: str = "qualified") -> str | None:
    """The named schema (DeconstructQualifiedName, LookupExplicitNamespace).

    Raises 42601 for too many names, 0A000 for another database, 3F000, 42501.
    """
    if len(names) > 3:
        raise SqlError("42601", f"improper {what} name (too many dotted names): {'.'.join(names)}")
    if len(names) == 3 and names[0] != environment.database_name:
        raise SqlError("0A000", f"cross-database references are not implemented: {'.'.join(names)}")
    if len(names) == 1:
        return None
    if not environment.schema_oid(names[-2]):
        raise SqlError("3F000", f'schema "{names[-2]}" does not exist')
    environment.check_usage(names[-2])
    return names[-2]


def _read_class(environment: Environment, text: str) -> int:
    names = split_name(text)
    schema = _schema_of(environment, names, "relation")
    relation = environment.find_relation(schema, names[-1])
    if relation is None:
        raise undefined_table(schema, names[-1], -1)
    return relation.oid


def _read_type(environment: Environment, text: str) -> int:
    try:
        return type_from_text(text, environment).declared
    except SqlError as error:
        if error.sqlstate != "0A000":
            raise
    return _row_type(environment, text)


def _row_type(environment: Environment, text: str) -> int:
    """The OID of a table's row type, or of its array type. It has no stored values, but catalogs show it."""
    names = split_name(text.removesuffix("[]"))
    schema = names[-2] if len(names) > 1 else None
    environment.check_usage(schema)
    relation, is_array = environment.find_relation(schema, names[-1]), text.endswith("[]")
    if relation is None and names[-1].startswith("_"):
        relation, is_array = environment.find_relation(schema, names[-1][1:]), True
    if relation is None:
        raise SqlError("42704", f'type "{text}" does not exist')
    return derived_oids.row_array_type(relation.oid) if is_array else derived_oids.row_type(relation.oid)


def _only_name(text: str) -> str:
    names = split_name(text)
    if len(names) > 1:
        raise SqlError("42602", "invalid name syntax")
    return names[0]


def _read_role(environment: Environment, text: str) -> int:
    name = _only_name(text)
    oid = environment.catalog.roles.get(name)
    if oid is None:
        raise SqlError("42704", f'role "{name}" does not exist')
    return oid


def _read_namespace(environment: Environment, text: str) -> int:
    name = _only_name(text)
    oid = environment.schema_oid(name)
    if not oid:
        raise SqlError("3F000", f'schema "{name}" does not exist')
    return oid


def _read_procedure(environment: Environment, text: str, types: tuple[int, ...] | None = None) -> int:
    """A function by its name, and by the types of its arguments if they are given."""
    names = split_name(text)
    found = _functions(names[-1], _schema_of(environment, names))
    if types is not None:
        found = tuple(function for function in found if function.argument_types == types)
    return _only_one(found, f'function "{text}" does not exist', f'more than one function named "{text}"')


def _functions(name: str, schema: str | None) -> tuple[Function, ...]:
    """The functions of that name in a schema, or on the search path without those that earlier schemas hide."""
    if schema is not None:
        return registry.functions_named(name) if schema == "pg_catalog" else added.functions_named(name, schema)
    found: dict[tuple[int, ...], Function] = {}
    for _, function in added.searched_functions(name, registry.functions_named(name)):
        found.setdefault(function.argument_types, function)
    return tuple(found.values())


def _read_operator(environment: Environment, text: str, types: tuple[int, ...] | None = None) -> int:
    names = split_name(text)
    schema = _schema_of(environment, names)
    built_in = registry.operators_named(names[-1]) if schema in (None, "pg_catalog") else ()
    found = (*built_in, *added.operators_named(names[-1], schema))
    if types is not None:
        found = tuple(operator for operator in found if (operator.left, operator.right) == types)
    return _only_one(found, f"operator does not exist: {text}", f"more than one operator named {text}")


def _only_one(found: Sequence[Function | Operator], none: str, many: str) -> int:
    if not found:
        raise SqlError("42883", none)
    if len(found) > 1:
        raise SqlError("42725", many)
    return found[0].oid


_BEFORE_TYPES = re.compile(r'(?:[^"(]|"[^"]*")*')
_TYPE_NAME = re.compile(r'((?:[^"(),]|"[^"]*"|\([^()]*\))*)(,|\Z)')


def _with_types(read: Callable[..., int], operator: bool = False) -> Callable[[Environment, str], int]:
    """The reader of a name followed by the types of its arguments (parseNameAndArgTypes). NONE is a missing operand of
    an operator."""

    def read_both(environment: Environment, text: str) -> int:
        name = _BEFORE_TYPES.match(text)
        if name is None or text[name.end() : name.end() + 1] != "(":
            raise SqlError("22P02", "expected a left parenthesis")
        split_name(name[0])
        within = text[name.end() + 1 :].rstrip(WHITESPACE)
        if not within.endswith(")"):
            raise SqlError("22P02", "expected a right parenthesis")
        types = tuple(_argument_types(environment, within[:-1], operator))
        if operator and len(types) < 2:
            raise SqlError(
                "42P02",
                "missing argument",
                hint="Use NONE to denote the missing argument of a unary operator.",
            )
        if operator and len(types) > 2:
            raise SqlError("54023", "too many arguments", hint="Provide two argument types for operator.")
        return read(environment, name[0], types)

    return read_both


def _argument_types(environment: Environment, text: str, none: bool) -> Iterator[int]:
    at, more = 0, bool(text.strip(WHITESPACE))
    while more:
        found = _TYPE_NAME.match(text, at)
        if found is None:
            raise SqlError("22P02", "improper type name")
        name, more, at = found[1].strip(WHITESPACE), bool(found[2]), found.end()
        if not name:
            raise SqlError("22P02", "expected a type name")
        yield 0 if none and name.lower() == "none" else _read_type(environment, name)


def _read_collation(environment: Environment, text: str) -> int:
    names = split_name(text)
    _schema_of(environment, names)
    return environment.find_collation(names).oid


_REG_READERS: dict[int, Callable[[Environment, str], int]] = {
    REGPROC: _read_procedure,
    REGPROCEDURE: _with_types(_read_procedure),
    REGOPER: _read_operator,
    REGOPERATOR: _with_types(_read_operator, operator=True),
    REGCLASS: _read_class,
    REGTYPE: _read_type,
    REGROLE: _read_role,
    REGNAMESPACE: _read_namespace,
    REGCOLLATION: _read_collation,
}
