"""Finds the objects that use a function, an operator or a type of an extension, by their stored texts.

Stored texts qualify every name that is not built in. So a text without the schema's name and a dot is skipped. The
other texts are analysed, and their references compared. Casts have no names, so every text may use one.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from catalog import types
from catalog.errors import not_supported
from catalog.extensions import available
from catalog.functions import registry
from catalog.functions.base import Function, Operator
from catalog.identifiers import quote_identifier
from catalog.routines import shown_operator, shown_signature
from catalog.schema import (
    USER_TYPES,
    Domain,
    Extension,
    Index,
    Routine,
    SchemaObject,
    Table,
    UserCast,
    UserOperator,
    View,
)
from catalog.text_search.objects import (
    TextSearchConfiguration,
    TextSearchDictionary,
)
from catalog.types import oids
from catalog.types.base import TypeRef
from engine.ddl.context import DdlContext
from engine.sql import tree
from engine.sql.analyze import analyze_expression
from engine.sql.analyze.domains import analyze_check
from engine.sql.analyze.policies import bind_policy
from engine.sql.analyze.views import stored_query
from engine.sql.parser import parse_expression
from engine.sql.tree import Const
from engine.sql.tree_walk import walk

WORDS: dict[type, str] = {TextSearchConfiguration: "configuration", TextSearchDictionary: "dictionary"}
_NAMES = (oids.REGCONFIG, oids.REGDICTIONARY)  # whose constants are names of objects


@dataclass(frozen=True, slots=True)
class Use:
    """An object that uses it. `part` is the part of the object: default, check, policy, or '' for the whole; `number`:
    the column, or the OID of the constraint or policy. `used`: the OID of the used function, operator or type."""

    item: SchemaObject
    used: int
    part: str = ""
    number: int = 0
    name: str = ""


def own_objects(context: DdlContext) -> list[SchemaObject]:
    """Relations and types of this database, in the order of their OIDs."""
    kinds = context.catalog.by_kind
    found = [item for kind in (Table, View, Index, *USER_TYPES) for item in kinds.get(kind, ())]
    return sorted(found, key=lambda item: item.oid)


def users_of_code(
    context: DdlContext, schema: str, wanted: Callable[[int], bool], in_casts: bool = False
) -> Iterator[Use]:
    """The users of functions, operators or types of the schema with these OIDs. `in_casts`: one of them is the function
    of a cast, and no text of a cast names it."""
    mark = "" if in_casts else quote_identifier(schema) + "."
    return _users(context, mark, lambda found: _used(found, wanted))


def users_of_cast(context: DdlContext, cast: UserCast) -> Iterator[Use]:
    """The users of a cast, which is not named in their texts."""

    wanted = (cast.source, cast.target)

    def types_of(item: tree.CoerceViaIO) -> tuple[int, int]:
        return item.argument.type.declared, item.type.declared

    def find(found: object) -> int:
        for item in walk(found):
            if isinstance(item, tree.FuncExpr) and item.display in ("cast_explicit", "cast_implicit"):
                if cast.function and item.function.oid == cast.function:
                    return cast.oid
            elif isinstance(item, tree.CoerceViaIO) and cast.method == "i" and types_of(item) == wanted:
                return cast.oid
        return 0

    return _users(context, "", find)


def _users(context: DdlContext, mark: str, find: Callable[[object], int]) -> Iterator[Use]:
    """The objects with a stored text that contains the mark, and in whose tree `find` finds an OID."""
    environment = context.environment

    def used(text: str | None, table: Table | None = None) -> int:
        if text is None or mark not in text:
            return 0
        return find(analyze_expression(parse_expression(text), environment, table))

    for item in own_objects(context):
        if isinstance(item, View) or (isinstance(item, Table) and item.query is not None):
            query = item.query or ""
            if mark in query and (found := find(stored_query(item, environment))):
                yield Use(item, found)
            for column in item.columns if isinstance(item, View) else ():
                if found := used(column.default):
                    yield Use(item, found, "default", column.number, column.name)
        elif isinstance(item, Table):
            for column in item.columns:
                if found := used(column.default) or used(column.generated, item):
                    yield Use(item, found, "default", column.number, column.name)
            for constraint in item.constraints:
                if found := used(constraint.check, item):
                    yield Use(item, found, "check", constraint.oid, constraint.name)
            for policy in item.policies:
                if any(mark in (text or "") for text in (policy.using, policy.check)):
                    bound = bind_policy(policy, item, environment)
                    if found := find((bound.using, bound.check)):
                        yield Use(item, found, "policy", policy.oid, policy.name)
        elif isinstance(item, Index):
            table = context.catalog.table(item.table)
            texts = (item.predicate, *(column.expression for column in item.columns))
            if found := next(filter(None, (used(text, table) for text in texts)), 0):
                yield Use(item, found)
        elif isinstance(item, Domain):
            checks = [check.check for check in item.checks if check.check is not None and mark in check.check]
            conditions = (analyze_check(parse_expression(text), environment, item.type) for text in checks)
            if found := next(filter(None, (find(condition) for condition in conditions)), 0):
                yield Use(item, found)


def _used(node: object, wanted: Callable[[int], bool]) -> int:
    """The first of these OIDs in an analysed tree, or 0."""
    for item in walk(node):
        for name in ("function", "operator"):
            found = getattr(item, name, None)
            if isinstance(found, Function | Operator) and wanted(found.oid):
                return found.oid
        type_ = getattr(item, "type", None)
        if isinstance(type_, TypeRef) and wanted(type_.oid):
            return type_.oid
        if isinstance(item, Const) and item.type.oid in _NAMES and isinstance(item.value, int) and wanted(item.value):
            return item.value
    return 0


def shown_use(context: DdlContext, oid: int) -> str:
    """A function, an operator or a type as messages show it: 'function akeys(hstore)'."""
    routine = context.catalog.get(oid)
    if isinstance(routine, Routine):
        return f"function {shown_signature(routine)}"
    if isinstance(routine, TextSearchConfiguration | TextSearchDictionary):
        return f"text search {WORDS[type(routine)]} {routine.name}"
    if isinstance(routine, UserOperator):
        return f"operator {shown_operator(routine)}"
    if types.type_row(oid) is not None:
        return f"type {types.format_type(oid)}"
    with contextlib.suppress(KeyError):
        operator = registry.operator(oid)
        left = types.format_type(operator.left) if operator.left else "NONE"
        return f"operator {operator.name}({left},{types.format_type(operator.right)})"
    function = registry.function(oid)
    return f"function {function.name}({','.join(map(types.format_type, function.argument_types))})"


def refuse_users(context: DdlContext, extension: Extension, what: str) -> None:
    """0A000 if a stored text uses the extension."""
    schema = context.catalog.schema_name(extension.schema)
    if any(users_of_code(context, schema, available()[extension.name].has)):
        not_supported(what)
