"""Which members of a table may hold rows that meet the conditions of a statement.

Conditions on the columns of a partition key are found as those on the columns of an index are
(engine/execute/access.py), and their operands are evaluated where that can be done: constants when the statement is
planned, parameters when it runs. What is not known confines nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from catalog.catalog import Catalog
from catalog.schema import Table
from catalog.types.base import Array
from engine.execute.access import Condition, Finder
from engine.partitions.levels import Limits, level_of
from engine.sql import tree
from engine.sql.tree_walk import walk

Conditions = Mapping[str, Sequence[Condition]]
"""By column name: members may have them under other numbers."""
Known = Callable[[tree.Expr], tuple[object] | None]
"""The value of an operand, in a tuple of one; None where it is not known."""


def conditions_on(catalog: Catalog, table: Table, relation: int, conjuncts: Sequence[tree.Expr]) -> Conditions:
    """The conditions on the table's columns whose operands refer to no column and to no sub-query."""
    finder = Finder(catalog, table, relation)
    finder.add([item for item in conjuncts if not _looks_outside(item)])
    return {table.column_by_number(number).name: found for number, found in finder.conditions.items()}


def _looks_outside(conjunct: tree.Expr) -> bool:
    return any(
        isinstance(item, tree.SubLink) or (isinstance(item, tree.Var) and item.levels_up > 0) for item in walk(conjunct)
    )


def members(catalog: Catalog, table: Table, conditions: Conditions, known: Known) -> list[Table]:
    """The tables whose own rows are the table's, less those that the conditions rule out."""
    if table.partitioning is None:
        return [table] + [item for item in catalog.descendants(table.oid) if item.partitioning is None]
    level = level_of(catalog, table)
    limits = []
    for column in table.partitioning.columns:
        name = table.column_by_number(column.number).name if column.number else ""
        limits.append(_limits(conditions.get(name, ()) if name else (), known))
    chosen: list[Table] = []
    for item in level.matching(limits):
        chosen += members(catalog, item, conditions, known) if item.partitioning is not None else [item]
    return chosen


def _limits(conditions: Sequence[Condition], known: Known) -> Limits:
    limits = Limits()
    for condition in conditions:
        if condition.kind == "null":
            limits.values = [None]
            continue
        if condition.operand is None or (found := known(condition.operand)) is None:
            continue
        value = found[0]
        if value is None:
            limits.values = []  # no row compares with NULL
        elif condition.kind == "in":
            assert isinstance(value, Array)
            _confine(limits, [item for item in value.elements if item is not None])
        elif condition.kind == "=":
            _confine(limits, [value])
        elif condition.kind in (">", ">="):
            limits.lower = value, condition.kind == ">="
        else:
            limits.upper = value, condition.kind == "<="
    return limits


def _confine(limits: Limits, values: list[object]) -> None:
    """Of two lists of values the shorter one confines more."""
    if limits.values is None or len(values) < len(limits.values):
        limits.values = values
