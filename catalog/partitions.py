"""Keys and bounds of partitioned tables as text, and the constraints that follow from bounds, as PostgreSQL prints them
(ruleutils.c, partbounds.c).

The text of a partition's constraint is parsed and analysed like a CHECK, and then checks rows. Bounds are stored in the
text form of their types, so this module needs no expressions.
"""

from __future__ import annotations

from collections.abc import Sequence

from catalog.catalog import Catalog
from catalog.identifiers import quote_identifier, quote_literal
from catalog.schema import PartitionBound, PartitionColumn, Partitioning, Table
from catalog.types import format_type, oids

STRATEGIES = {"r": "RANGE", "l": "LIST", "h": "HASH"}


def key_text(table: Table, partitioning: Partitioning) -> str:
    """pg_get_partkeydef: the definition after PARTITION BY."""
    parts = [_key_part(table, column) for column in partitioning.columns]
    return f"{STRATEGIES[partitioning.strategy]} ({', '.join(parts)})"


def _key_part(table: Table, column: PartitionColumn) -> str:
    if column.number:
        return quote_identifier(table.column_by_number(column.number).name)
    text = column.expression or ""
    return text if _is_call(text) else f"({text})"


def _is_call(text: str) -> bool:
    """Whether the text is one function call, which needs no parentheses."""
    name, bracket, _ = text.partition("(")
    return bool(bracket) and name.replace("_", "a").isalnum() and text.endswith(")")


def bound_text(partitioning: Partitioning, bound: PartitionBound) -> str:
    """FOR VALUES ... or DEFAULT: pg_get_expr(relpartbound)."""
    types = [column.type.oid for column in partitioning.columns]
    if bound.kind == "d":
        return "DEFAULT"
    if bound.kind == "h":
        return f"FOR VALUES WITH (modulus {bound.modulus}, remainder {bound.remainder})"
    if bound.kind == "l":
        return f"FOR VALUES IN ({', '.join(bare_literal(value, types[0]) for value in bound.values)})"
    lower, upper = _row_text(bound.lower, types), _row_text(bound.upper, types)
    return f"FOR VALUES FROM ({lower}) TO ({upper})"


def _row_text(items: Sequence[tuple[str, str]], types: Sequence[int]) -> str:
    return ", ".join(datum_text(item, oid) for item, oid in zip(items, types, strict=True))


def datum_text(item: tuple[str, str], oid: int) -> str:
    """One end of a range in one column: MINVALUE, MAXVALUE or a literal."""
    return {"-": "MINVALUE", "+": "MAXVALUE"}.get(item[0]) or bare_literal(item[1], oid)


def bare_literal(text: str | None, oid: int) -> str:
    """A value without its type (get_const_expr)."""
    if text is None:
        return "NULL"
    if oid == oids.BOOL:
        return "true" if text == "t" else "false"
    return text if _is_number(text, oid) else quote_literal(text)


def _is_number(text: str, oid: int) -> bool:
    if oid == oids.INT4:
        return not text.startswith("-")
    return oid == oids.NUMERIC and text[0].isdigit() and any(char in "eE." for char in text)


def _literal(text: str, oid: int) -> str:
    """A literal with its type."""
    if oid in oids.OF_LENGTH:
        oid = oids.TEXT
    bare = bare_literal(text, oid)
    return bare if oid == oids.BOOL or _is_number(text, oid) else f"{bare}::{format_type(oid)}"


# ---- constraints ----------------------------------------------------------------------------------------------------


def constraint_text(catalog: Catalog, table: Table) -> str | None:
    """pg_get_partition_constraintdef: the condition of a partition's rows, including the bounds of its ancestors. None
    if there is no condition (the only partition of a table, by DEFAULT)."""
    conditions = _conditions(catalog, table)
    if not conditions:
        return None
    return conditions[0] if len(conditions) == 1 else f"({' AND '.join(conditions)})"


def _conditions(catalog: Catalog, table: Table) -> list[str]:
    if table.bound is None:
        return []
    parent = catalog.table(table.parents[0])
    return _conditions(catalog, parent) + bound_conditions(catalog, parent, table.bound, table.oid)


def bound_conditions(catalog: Catalog, parent: Table, bound: PartitionBound, oid: int = 0) -> list[str]:
    """The conditions of a bound for rows of `parent`. For DEFAULT: that no partition except `oid` accepts the row."""
    assert parent.partitioning is not None
    columns = [(_key_part(parent, column), column.type.oid) for column in parent.partitioning.columns]
    if bound.kind == "d":
        return _default_conditions(catalog, parent, columns, oid)
    if bound.kind == "h":
        operands = ", ".join(operand for operand, _ in columns)
        return [f"satisfies_hash_partition('{parent.oid}'::oid, {bound.modulus}, {bound.remainder}, {operands})"]
    if bound.kind == "l":
        return _list_conditions(*columns[0], [bound])
    return [*_not_null(columns), *_range_conditions(columns, bound)]


def _not_null(columns: Sequence[tuple[str, int]]) -> list[str]:
    return [f"({operand} IS NOT NULL)" for operand, _ in columns]


def _list_conditions(operand: str, oid: int, bounds: Sequence[PartitionBound]) -> list[str]:
    texts = [value for bound in bounds for value in bound.values]
    literals = [_literal(value, oid) for value in texts if value is not None]
    test = ""
    if len(literals) == 1:
        test = f"({operand} = {literals[0]})"
    elif literals:
        test = f"({operand} = ANY (ARRAY[{', '.join(literals)}]))"
    if None not in texts:
        return [f"({operand} IS NOT NULL)", *([test] if test else [])]
    return [f"(({operand} IS NULL) OR {test})" if test else f"({operand} IS NULL)"]


def _default_conditions(catalog: Catalog, parent: Table, columns: Sequence[tuple[str, int]], oid: int) -> list[str]:
    assert parent.partitioning is not None
    siblings = [catalog.table(child) for child in catalog.children.get(parent.oid, ()) if child != oid]
    bounds = [item.bound for item in siblings if item.bound is not None and item.bound.kind != "d"]
    if not bounds:
        return []
    if parent.partitioning.strategy == "l":
        return [f"(NOT {_all(_list_conditions(*columns[0], bounds))})"]
    ranges = [_all(_range_conditions(columns, bound)) for bound in bounds]
    any_of = ranges[0] if len(ranges) == 1 else f"({' OR '.join(ranges)})"
    return [f"(NOT {_all([*_not_null(columns), any_of])})"]


def _all(conditions: Sequence[str]) -> str:
    if not conditions:
        return "true"
    return conditions[0] if len(conditions) == 1 else f"({' AND '.join(conditions)})"


def _range_conditions(columns: Sequence[tuple[str, int]], bound: PartitionBound) -> list[str]:
    """get_qual_for_range: `=` for leading columns with equal ends, then comparisons with both ends."""
    found: list[str] = []
    start = 0
    while start < len(columns) - 1 and bound.lower[start] == bound.upper[start] and bound.lower[start][0] == "v":
        operand, oid = columns[start]
        found.append(f"({operand} = {_literal(bound.lower[start][1], oid)})")
        start += 1
    for ends, strict, loose, free in ((bound.lower, ">", ">=", "-"), (bound.upper, "<", "<=", "+")):
        arms = _arms(columns, ends, start, strict, loose, free)
        if arms:
            found.append(arms[0] if len(arms) == 1 else f"({' OR '.join(arms)})")
    return found


def _arms(
    columns: Sequence[tuple[str, int]], ends: Sequence[tuple[str, str]], start: int, strict: str, loose: str, free: str
) -> list[str]:
    """A row comparison with one end, column by column. `free` is the infinite end that includes all values."""
    arms = []
    for place in range(start, len(columns)):
        if ends[place][0] != "v":
            break
        last = place == len(columns) - 1
        inclusive = (last and strict == ">") or (not last and ends[place + 1][0] == free)
        parts = [
            f"({operand} = {_literal(text, oid)})"
            for (operand, oid), (_, text) in zip(columns[start:place], ends[start:place], strict=True)
        ]
        operand, oid = columns[place]
        parts.append(f"({operand} {loose if inclusive else strict} {_literal(ends[place][1], oid)})")
        arms.append(_all(parts))
        if inclusive and not last:
            break
    return arms
