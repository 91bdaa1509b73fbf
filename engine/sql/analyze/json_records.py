"""json_to_record, json_populate_record and similar functions in FROM: calls with given columns."""

from __future__ import annotations

from catalog.errors import not_supported
from catalog.functions import registry
from catalog.functions.base import Trait
from catalog.functions.json_records import ROWS, ROWS_OVER, describe_columns
from catalog.types.base import TypeRef
from catalog.types.composite import CompositeType
from catalog.types.oids import JSON, JSONB
from catalog.types.user import entry_of
from engine.sql import tree
from engine.sql.analyze.domains import add_checks, has_conditions
from engine.sql.analyze.environment import Environment
from engine.sql.analyze.typeinfo import RECORD_REF, TEXT_REF


def composite_columns(value: tree.Expr) -> list[tree.RangeColumn] | None:
    """The columns of a populating call in FROM: the fields of its composite type."""
    if not isinstance(value, tree.FuncExpr) or not registry.has_trait(value.function.source, Trait.POPULATED_ROWS):
        return None
    entry = entry_of(value.type.oid)
    if entry is None or not isinstance(entry.sql_type, CompositeType):
        return None
    return [tree.RangeColumn(name, type_) for name, type_ in entry.sql_type.fields]


def with_columns(value: tree.Expr, columns: list[tree.RangeColumn]) -> tree.Expr:
    """The call with its columns as an argument, if it is one of these functions; else the value itself."""
    if not isinstance(value, tree.FuncExpr):
        return value
    source = value.function.source
    base = value.arguments[0] if registry.has_trait(source, Trait.POPULATED_ROWS) else None
    defined = registry.has_trait(source, Trait.DEFINED_ROWS)
    without_base = defined or (value.type.oid == RECORD_REF.oid and _is_null(base))
    if not without_base and composite_columns(value) is None:
        return value
    spec = tree.Const(describe_columns(source, [(column.name, column.type) for column in columns]), TEXT_REF)
    text = value.arguments[0 if defined else 1]
    if text.type.oid == JSONB:
        text = tree.RelabelType(text, TypeRef(JSON))
    function = registry.function(ROWS if without_base else ROWS_OVER)
    arguments = (spec, text) if without_base else (spec, text, value.arguments[0])
    return tree.FuncExpr(function, arguments, RECORD_REF, None, "call", False, value.location)


def _is_null(value: tree.Expr | None) -> bool:
    """Whether it is a literal NULL: null::record."""
    while isinstance(value, tree.RelabelType | tree.CoerceViaIO):
        value = value.argument
    return isinstance(value, tree.Const) and value.value is None


def checked_record(environment: Environment, value: tree.FuncExpr, kind: str) -> tree.Expr:
    """A populating call with checks of its composite type, or of the domain over it. In FROM, the item itself checks
    the columns."""
    if not registry.has_trait(value.function.source, Trait.POPULATED_ROWS):
        return value
    type_ = TypeRef(value.type.oid, -1, value.arguments[0].type.domain)
    if kind == "functions in FROM" and not type_.domain:
        return value
    if value.function.returns_set and has_conditions(environment.catalog, type_):
        not_supported(f"function {value.function.name} over a type with conditions, here")
    return add_checks(environment, value, type_)
