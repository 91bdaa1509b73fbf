"""What is known of a row's fields where it becomes text or is sent: an anonymous record carries no types itself."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeGuard

from catalog.types import lookup
from catalog.types.base import SqlType, TypeRef
from catalog.types.oids import RECORD
from engine.execute.code import NotOnRowPath
from engine.sql import tree


def record_fields(expression: tree.Expr, range_table: Sequence[tree.RangeEntry]) -> tuple[SqlType, ...]:
    """The types of the fields of a row that is sent. Raises NotOnRowPath where the expression does not tell."""
    types: list[TypeRef] = []
    if isinstance(expression, tree.RowExpr) and expression.type.oid == RECORD:
        types = [element.type for element in expression.elements]
    elif _is_whole_row(expression) and expression.relation < len(range_table):
        entry = range_table[expression.relation]
        if isinstance(entry, tree.RangeTable):
            types = [column.type for column in entry.table.columns]
    if not types or any(type_.oid == RECORD for type_ in types):
        raise NotOnRowPath("a row of unknown type")
    return tuple(lookup(type_.oid) for type_ in types)


def _is_whole_row(expression: tree.Expr) -> TypeGuard[tree.Var]:
    return isinstance(expression, tree.Var) and expression.column == 0 and expression.levels_up == 0


def record_key(fields: Sequence[SqlType]) -> Callable[[Sequence[object]], object]:
    """Makes what rows of these fields are compared by: field by field, NULLs equal to each other and after all else
    (record_cmp)."""
    keys = [known.sort_key() for known in fields]

    def key(row: Sequence[object]) -> object:
        return tuple(
            [
                (True, 0) if value is None else (False, value if known is None else known(value))
                for known, value in zip(keys, row, strict=True)
            ]
        )

    return key
