"""Chooses the members of a table that may have rows for the conditions of a statement.

Conditions on the columns of a partition key are found like those on the columns of an index (engine/execute/access.py).
Their operands are evaluated as soon as possible: constants when the statement is planned, parameters when it runs. A
condition with an unknown operand excludes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from catalog.catalog import Catalog
from catalog.schema import Table
from catalog.types.base import Array
from engine.execute.access import Condition, Finder
from engine.execute.index_forms import FIRST_EXPRESSION
from engine.partitions.levels import Limits, level_of
from engine.sql import tree
from engine.sql.tree_walk import walk

Conditions = Mapping[str, Sequence[Condition]]
"""By column name: members may have them under other numbers."""
Known = Callable[[tree.Expr], tuple[object] | None]
"""The value of an operand, in a tuple of one; None where it is not known."""


def conditions_on(catalog: Catalog, table: Table, relation: int, conjuncts: Sequence[tree.Expr]) -> Conditions:
    """The conditions on the table's columns whose operands contain no column and no sub-query."""
    finder = Finder(catalog, table, relation)
    finder.add([item for item in conjuncts if not _looks_outside(item)])
    return {
        table.column_by_number(number).name: [item for item in found if item.kind != "like"]
        for number, found in finder.conditions.items()
        if number > FIRST_EXPRESSION
    }


def _looks_outside(conjunct: tree.Expr) -> bool:
    return any(
        isinstance(item, tree.SubLink) or (isinstance(item, tree.Var) and item.levels_up > 0) for item in walk(conjunct)
    )


def members(catalog: Catalog, table: Table, conditions: Conditions, known: Known) -> list[Table]:
    """The members of the table that the conditions do not exclude."""
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
    """Combines two limits. Of two lists of values the shorter one is used."""
    if limits.values is None or len(values) < len(limits.values):
        limits.values = values
