"""Replaces expressions over constants by their values.

    d < date '1994-01-01' + interval '1 year'       d < timestamp '1995-01-01 00:00:00'

For the columnar path: the row path's evaluator computes PostgreSQL's value of immutable functions and casts, and DuckDB
prunes by a constant and compares with it directly. An expression that fails is not replaced, and fails when it is
reached. Expressions that take long, and values that are long or of types without simple constants, are not replaced
either.
"""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal

from catalog.patience import TooLong
from catalog.types import oids
from catalog.types.base import FormatSettings
from engine.execute.code import Code, NotOnRowPath
from engine.execute.compiled_value import Value
from engine.execute.expressions import ExpressionCompiler
from engine.sql import tree
from engine.sql.tree_walk import children, transform

_LONGEST = 1000  # characters of a value that may become part of a statement
_PLAIN = oids.NUMBERS | oids.TEXTS | oids.TIMESTAMPS | {oids.BOOL, oids.DATE, oids.TIME, oids.INTERVAL}
# Types whose text forms depend only on the value.
_TEXT_FORMS = oids.INTEGERS | oids.FLOATS | oids.TEXTS | {oids.BOOL, oids.NUMERIC}
_CASTS = (tree.RelabelType, tree.CoerceTypmod, tree.CoerceViaIO)


def fold_constants(analyzed: tree.Analyzed, settings: FormatSettings) -> tree.Analyzed:
    """The statement with constants in place of expressions over constants."""

    def no_column(item: tree.Var) -> Value:
        raise NotOnRowPath(f"column {item.name}")

    compiler = ExpressionCompiler(Code(), settings, no_column)

    def change(node: object, depth: int) -> object:
        if not isinstance(node, tree.FuncExpr | tree.RelabelType | tree.CoerceTypmod | tree.CoerceViaIO):
            return node
        if node.type.oid not in _PLAIN or node.type.domain or not all(map(_is_plain, children(node))):
            return node
        if isinstance(node, tree.CoerceViaIO) and not _TEXT_FORMS.issuperset((node.argument.type.oid, node.type.oid)):
            return node
        try:
            found = compiler.constant(node)
        except (TooLong, NotOnRowPath):
            return node
        if found is None or _is_long(found[0]):
            return node
        return tree.Const(found[0], node.type, node.location)

    statement = transform(analyzed.statement, change)
    return analyzed if statement is analyzed.statement else replace(analyzed, statement=statement)


def _is_plain(node: object) -> bool:
    return isinstance(node, tree.Const) and node.type.oid in _PLAIN


def _is_long(value: object) -> bool:
    return isinstance(value, str | Decimal) and len(str(value)) > _LONGEST
