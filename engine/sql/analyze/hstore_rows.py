"""hstore and records. A record does not have its fields' names and types, so calls over one whose columns are known are
replaced:

    hstore(r)    hstore('{id,name}', ARRAY[r.id::text, r.name])
    r #= h       ROW(CASE WHEN h ? 'id' THEN (h -> 'id')::int ELSE r.id END, ...)

Rows of tables are values of their row types instead (engine/sql/analyze/calls.py).
"""

from __future__ import annotations

from catalog.functions import added
from catalog.functions.base import Function, Trait
from catalog.functions.registry import has_trait
from catalog.types import oids
from catalog.types.base import Array, TypeRef
from engine.sql import tree
from engine.sql.analyze.scope import row_columns
from engine.sql.analyze.state import State

_TEXT, _TEXTS, _BOOL = TypeRef(oids.TEXT), TypeRef(oids.TEXT_ARRAY), TypeRef(oids.BOOL)


def call_with_columns(state: State, function: Function, row: tree.Expr) -> tuple[Function, tuple[tree.Expr, ...]]:
    """The function and the arguments that replace hstore(r). Rows of unknown columns stay."""
    columns = row_columns(state, row)
    if columns is None:
        return function, (row,)
    names = tree.Const(Array.of(tuple(name for name, _ in columns)), _TEXTS)
    texts = tuple(tree.CoerceViaIO(value, _TEXT, True) for _, value in columns)
    wanted = (oids.TEXT_ARRAY, oids.TEXT_ARRAY)
    return _beside(function, function.name, wanted), (names, tree.ArrayExpr(texts, _TEXTS, _TEXT))


def _beside(function: Function, name: str, types: tuple[int, ...]) -> Function:
    """Another function of the same extension."""
    schema = added.schema_of(function.oid)
    assert schema is not None
    return next(item for item in added.functions_named(name, schema) if item.argument_types == types)


def row_with_pairs(state: State, call: tree.FuncExpr) -> tree.Expr:
    """The row that replaces r #= h, if the call is one; else the call itself."""
    source = call.function.source
    if not has_trait(source, Trait.TAKES_ROW) or has_trait(source, Trait.TAKES_COLUMNS) or len(call.arguments) != 2:
        return call
    row, pairs = call.arguments
    columns = row_columns(state, row) if row.type.oid == oids.RECORD else None
    if columns is None or any(value.type.domain for _, value in columns):
        return call
    types = (oids.HSTORE, oids.TEXT)
    has, get = _beside(call.function, "exist", types), _beside(call.function, "fetchval", types)
    elements = []
    for name, old in columns:
        key = tree.Const(name, _TEXT)
        text = tree.FuncExpr(get, (pairs, key), _TEXT)
        there = tree.FuncExpr(has, (pairs, key), _BOOL)
        new = text if old.type == _TEXT else tree.CoerceViaIO(text, old.type, True)
        elements.append(tree.CaseExpr(None, ((there, new),), old, old.type))
    return tree.RowExpr(tuple(elements), tuple(name for name, _ in columns), location=call.location)
