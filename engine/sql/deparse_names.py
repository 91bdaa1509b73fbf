"""The names of tables and columns in a stored text when it is printed: their present names, if possible.

Columns that USING merges have one name on both sides, so they keep their stored name, which an alias with a list of
names defines. Other columns of that table get other names if they conflict (ruleutils.c, set_using_names and the
functions after it).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from functools import cache

from catalog.functions.system_columns import SYSTEM_COLUMNS
from engine.sql import tree
from engine.sql.parser.keywords import KEYWORDS
from engine.sql.tree_walk import walk


@cache
def quote_identifier(name: str) -> str:
    """Quotes a name for SQL, unless it is a plain lower-case word and not a keyword."""
    if re.fullmatch(r"[a-z_][a-z0-9_]*", name) and KEYWORDS.get(name, ("U", True))[0] == "U":
        return name
    escaped = name.replace('"', '""')
    return f'"{escaped}"'


def quote_literal(text: str) -> str:
    """The text between quotes, as standard_conforming_strings reads it."""
    escaped = text.replace("'", "''")
    return f"'{escaped}'"


def called(entry: tree.RangeEntry) -> str:
    """The name of a FROM item. A table in a stored text without an alias has its present name."""
    if isinstance(entry, tree.RangeTable) and entry.given is not None and not entry.aliased:
        return entry.table.name
    return entry.alias


def present_names(entry: tree.RangeTable, kept: frozenset[int]) -> dict[int, str]:
    """The names of a table's columns in a stored text (set_relation_column_names): the present names, except those that
    an alias or a USING fixes."""
    numbers = [column.number for column in entry.table.columns]
    names = {number: column.name for number, column in zip(numbers, entry.columns, strict=True) if number in kept}
    used = set(names.values())
    for column in entry.table.columns:
        if column.number not in kept:
            names[column.number] = unused_name(column.name, used)
    return {number: names[number] for number in numbers}


def unused_name(name: str, used: set[str]) -> str:
    """The name, with a number after it if it is used. Marks it as used."""
    found, number = name, 0
    while found in used:
        number += 1
        found = f"{name}_{number}"
    used.add(found)
    return found


def columns_of_using(entries: Sequence[tree.RangeEntry], from_items: Sequence[tree.FromItem]) -> set[tuple[int, int]]:
    """The columns (entry, column) that joins merge by USING."""
    found: set[tuple[int, int]] = set()
    pending = list(from_items)
    while pending:
        item = pending.pop()
        if isinstance(item, tree.FromJoin):
            pending += (item.left, item.right)
            for pair in merged_pairs(entries, item):
                found.update((var.relation, var.column) for var in pair)
    return found


def merged_pairs(entries: Sequence[tree.RangeEntry], item: tree.FromJoin) -> list[tuple[tree.Var, ...]]:
    """The columns of both sides for each column that a join merges by USING."""
    entry = entries[item.relation] if item.relation >= 0 else None
    if not isinstance(entry, tree.RangeJoin) or not entry.merged or item.condition is None:
        return []
    tests = item.condition.arguments if isinstance(item.condition, tree.BoolExpr) else (item.condition,)
    return [tuple(found for found in walk(test) if isinstance(found, tree.Var)) for test in tests]


def system_column(call: tree.FuncExpr) -> tree.Var:
    """The system column that a call stands for (analyze/system_columns.py), as a column of its table."""
    row: tree.Expr = call
    while isinstance(row, tree.FuncExpr):
        row = row.arguments[0]
    assert isinstance(row, tree.Var)
    return replace(row, column=tree.XMAX, name=SYSTEM_COLUMNS[call.function.oid])
