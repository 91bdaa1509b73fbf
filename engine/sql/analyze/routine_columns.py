"""The columns of the rows that a call of a user-defined function gives."""

from __future__ import annotations

from collections.abc import Sequence

from catalog.functions.base import Function
from catalog.types import oids
from catalog.types.base import TypeRef
from catalog.types.composite import CompositeType
from catalog.types.user import entry_of
from engine.sql import tree
from engine.sql.analyze import common_types


def is_row(result: TypeRef) -> bool:
    """Whether it is a composite type."""
    entry = entry_of(result.oid)
    return entry is not None and isinstance(entry.sql_type, CompositeType)


def output_columns(function: Function, result: TypeRef, types: Sequence[int]) -> list[TypeRef] | None:
    """The types of the columns that a body must return for arguments of these types. None for record, which accepts
    any."""
    if function.output_types:
        declared = function.argument_types
        return [
            TypeRef(common_types.resolve_polymorphic(types, list(declared), oid, False))
            for oid in function.output_types
        ]
    return None if result.oid == oids.RECORD else [result]


def columns_of_call(call: tree.FuncExpr) -> tuple[tree.RangeColumn, ...]:
    """The columns of the rows of a call; none for records without declared columns."""
    function = call.function
    if function.output_types:
        types = [item.type.oid for item in call.arguments]
        found = output_columns(function, call.type, types) or []
        return tuple(tree.RangeColumn(name, type_) for name, type_ in zip(function.output_names, found, strict=True))
    entry = entry_of(call.type.oid)
    if entry is not None and isinstance(entry.sql_type, CompositeType):
        return tuple(tree.RangeColumn(name, type_) for name, type_ in entry.sql_type.fields)
    return () if call.type.oid == oids.RECORD else (tree.RangeColumn(function.name, call.type),)
