"""Constants in the place of what is computed of constants alone.

    d < date '1994-01-01' + interval '1 year'       d < timestamp '1995-01-01 00:00:00'

For the columnar path: what the row path's evaluator makes of immutable functions and casts is PostgreSQL's value, and
DuckDB prunes by a constant and compares with it as it is. What fails stays as it is, and fails where it is reached; so
does what takes long, and what gives a long value or one of a type whose constants are not plain.
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

_LONGEST = 1000  # characters of a value that becomes part of a statement
_PLAIN = oids.NUMBERS | oids.TEXTS | oids.TIMESTAMPS | {oids.BOOL, oids.DATE, oids.TIME, oids.INTERVAL}
# Types whose text forms depend on nothing but the value.
_TEXT_FORMS = oids.INTEGERS | oids.FLOATS | oids.TEXTS | {oids.BOOL, oids.NUMERIC}
_CASTS = (tree.RelabelType, tree.CoerceTypmod, tree.CoerceViaIO)


def fold_constants(analyzed: tree.Analyzed, settings: FormatSettings) -> tree.Analyzed:
    """The statement with a constant for each part that is computed of constants."""

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
