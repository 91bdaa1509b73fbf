"""Column definition lists: FROM f() AS t (a int, b text), FROM ROWS FROM (f() AS (a int, b text), ...)."""

from __future__ import annotations

from collections.abc import Sequence

from catalog.collations import of_type, rules
from catalog.errors import SqlError
from catalog.schema import Domain
from catalog.types import format_type, oids, type_row
from catalog.types.base import TypeRef
from catalog.types.oids import RECORD, RECORDS, UNKNOWN
from engine.sql import ast, tree
from engine.sql.analyze.errors import fail, refuse
from engine.sql.analyze.state import State
from engine.sql.analyze.typeinfo import type_name
from engine.sql.analyze.typenames import resolve_type

Definitions = tuple[ast.ColumnDefinitionItem, ...]


def calls_of(node: ast.RangeFunction) -> tuple[list[ast.Node], list[Definitions]]:
    """The calls, and the column definition list of each. Raises 42601 for a list that could belong to several calls."""
    calls: list[ast.Node] = []
    lists: list[Definitions] = []
    for place, call in enumerate(node.functions):
        own = node.inside[place] if node.inside else ()
        parts = [call] if own else _unnest_each(call)
        calls += parts
        lists += [own] * len(parts)
    if not node.definitions:
        return calls, lists
    first = node.definitions[0]
    if node.inside:
        fail("42601", "multiple column definition lists are not allowed for the same function", first)
    if len(node.functions) > 1:
        hint = "Put a separate column definition list for each function inside ROWS FROM()."
        fail("42601", "ROWS FROM() with multiple functions cannot have a column definition list", first, hint=hint)
    if len(calls) > 1:
        hint = "Use separate UNNEST() calls inside ROWS FROM(), and attach a column definition list to each one."
        fail("42601", "UNNEST() with multiple arguments cannot have a column definition list", first, hint=hint)
    if node.ordinality:
        hint = "Put the column definition list inside ROWS FROM()."
        fail("42601", "WITH ORDINALITY cannot be used with a column definition list", first, hint=hint)
    return calls, [node.definitions]


def _unnest_each(call: ast.Node) -> list[ast.Node]:
    """unnest(a, b) in FROM is unnest(a) and unnest(b) side by side."""
    if isinstance(call, ast.FuncCall) and call.names[-1] == "unnest" and len(call.arguments) > 1 and not call.variadic:
        return [ast.FuncCall(call.names, (argument,), location=call.location) for argument in call.arguments]
    return [call]


def columns_of(state: State, definitions: Definitions, value: tree.Expr) -> list[tree.RangeColumn]:
    """The columns that a list defines for the rows of a call. Raises 42P16 for pseudo-types, 42701 for a duplicate
    name, 42704 and 42804 for COLLATE, 42804 if the rows in `value` are known to differ."""
    found: list[tree.RangeColumn] = []
    for item in definitions:
        type_ = resolve_type(item.type, state.environment)
        found.append(tree.RangeColumn(item.name, type_, _collation(state, item, type_)))
    for number, column in enumerate(found):
        if any(column.name == other.name for other in found[:number]):
            raise SqlError("42701", f'column name "{column.name}" specified more than once')
    for column in found:
        oid = column.type.oid
        if oid not in RECORDS and (oid == UNKNOWN or getattr(type_row(oid), "category", "") == "P"):
            raise SqlError("42P16", f'column "{column.name}" has pseudo-type {format_type(oid)}')
    for row in _listed_rows(value):
        check_row([item.type for item in row.elements], [column.type for column in found])
    return found


def _collation(state: State, item: ast.ColumnDefinitionItem, type_: TypeRef) -> int:
    """GetColumnDefCollation: the collation in the list, the domain's, or 0 for the type's. Raises 42704, 42804."""
    catalog = state.environment.catalog
    if not item.collation:
        domain = catalog.objects.get(type_.domain)
        return domain.collation if isinstance(domain, Domain) else 0
    found = state.environment.find_collation(item.collation, item.collate_location).oid
    typed = of_type(type_.oid)
    if not typed:
        shown = type_name(type_.declared)
        fail("42804", f"collations are not supported by type {shown}", item.collate_location)
    if type_.oid == oids.CITEXT and rules(catalog, found) is not None:
        refuse("citext under an ICU collation", item.collate_location)
    state.shared.collated = True
    return 0 if found == typed else found


def _listed_rows(value: tree.Expr) -> list[tree.RowExpr]:
    """The rows of unnest(ARRAY[ROW(...), ...])."""
    if not isinstance(value, tree.FuncExpr) or value.function.source != "array_unnest":
        return []
    (array,) = value.arguments
    rows = array.elements if isinstance(array, tree.ArrayExpr) else ()
    return [row for row in rows if isinstance(row, tree.RowExpr) and row.type.oid == RECORD]


def _deciding_type(type_: TypeRef) -> int:
    """The type that is compared: the base type of a domain, `unknown` for a literal without a type."""
    return UNKNOWN if type_.domain == UNKNOWN else type_.oid


def check_row(given: Sequence[TypeRef], wanted: Sequence[TypeRef]) -> None:
    """tupledesc_match: checks a row against its column definition list. Raises 42804."""
    detail = ""
    if len(given) != len(wanted):
        attributes = "attribute" if len(given) == 1 else "attributes"
        detail = f"Returned row contains {len(given)} {attributes}, but query expects {len(wanted)}."
    for number, (one, other) in enumerate(zip(given, wanted, strict=False), 1):
        if not detail and _deciding_type(one) != _deciding_type(other):
            shown = format_type(one.declared), format_type(other.declared)
            detail = f"Returned type {shown[0]} at ordinal position {number}, but query expects {shown[1]}."
    if detail:
        raise SqlError("42804", "function return row and query-specified return row do not match", detail=detail)
