"""Sub-queries in the place of tables: a RangeTable becomes a sub-query whose columns are at the positions of their
numbers in the table, so that references to the table do not change. tableoid, if it is used, is a column after the last
one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TypeVar, cast

from catalog.schema import Table
from catalog.types.base import TypeRef
from catalog.types.oids import INT8, RECORD
from engine.sql import tree
from engine.sql.tree_walk import transform, walk_with_depth

_Reading = TypeVar("_Reading", tree.Query, tree.Update, tree.Delete, tree.Merge)


def row_columns(table: Table) -> tuple[tuple[int, TypeRef], ...]:
    """The columns that have the key of the table's row, with their types."""
    numbers = table.key_columns or (tree.ROW_NUMBER,)
    types = [table.column_by_number(number).type for number in table.key_columns] or [TypeRef(INT8)]
    return tuple(zip(numbers, types, strict=True))


def own_variables(node: object, relation: int) -> Iterator[tuple[tree.Var, int]]:
    """The Vars of a range entry of this query or change, including those in sub-queries, with the queries between."""
    for item, depth in walk_with_depth(node):
        if isinstance(item, tree.Var) and item.relation == relation and item.levels_up == depth - 1:
            yield item, depth - 1


def uses(node: object, relation: int, column: int) -> bool:
    return any(item.column == column for item, _ in own_variables(node, relation))


def replace_columns(node: object, relation: int, change: Callable[[tree.Var], tree.Expr]) -> object:
    """The query or change with replacements for its own Vars of one range entry."""

    def each(item: object, depth: int) -> object:
        if isinstance(item, tree.Var) and item.relation == relation and item.levels_up == depth - 1:
            return change(item)
        return item

    return transform(node, each)


def as_subquery(node: _Reading, relation: int, before: tree.RangeTable, after: tree.RangeSubquery) -> _Reading:
    """Moves tableoid to its column, and makes whole rows from the table's columns only."""
    table = before.table
    assert isinstance(table, Table)
    plain = len(after.columns) == len(table.columns)

    def change(item: tree.Var) -> tree.Expr:
        if item.column == tree.TABLE_OID:
            return replace(item, column=len(after.columns))
        if item.column == 0 and not plain:
            return row_of(item, table, {column.number: column.number for column in table.columns})
        return item

    return cast("_Reading", replace_columns(node, relation, change))


def row_of(item: tree.Var, table: Table, numbers: dict[int, int]) -> tree.Expr:
    """The row of a table as a value, from the columns with these numbers."""
    elements = tuple(
        replace(item, column=numbers[column.number], type=column.type, name=column.name) for column in table.columns
    )
    return tree.RowExpr(elements, tuple(column.name for column in table.columns), TypeRef(RECORD), item.location)
