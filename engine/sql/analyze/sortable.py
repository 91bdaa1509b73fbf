"""Decides which values can be sorted, grouped and compared (get_sort_group_operators): those of types with an order, or
at least with an equality. Rows of a declared type need this for all of their fields. Rows without a declared type are
accepted here; a comparison of two rows raises the error (catalog/types/incomparable.py)."""

from __future__ import annotations

from catalog.types.base import TypeRef
from engine.sql import ast, tree
from engine.sql.analyze import coerce, typeinfo
from engine.sql.analyze.declared import relation_of, shown_type
from engine.sql.analyze.dispatch import expression
from engine.sql.analyze.errors import expr_location, fail, location_of
from engine.sql.analyze.resolve import operator_for
from engine.sql.analyze.state import State

_HINT = "Use an explicit ordering operator or modify the query."


def has_order(state: State, type_: TypeRef) -> bool:
    """Whether the type has a default order."""
    return all(map(typeinfo.is_ordered, _parts(state, type_)))


def must_have_order(state: State, type_: TypeRef, location: int, detail: str = "") -> None:
    """42883 for a type without a default order."""
    if not has_order(state, type_):
        message = f"could not identify an ordering operator for type {shown_type(state.environment, type_)}"
        if detail:
            fail("42883", message, location, detail=detail)
        fail("42883", message, location, hint=_HINT)


def must_have_equality(state: State, value: tree.Expr, location: int = -1) -> tree.Expr:
    """The value; 42883 for a type without a default equality."""
    type_must_have_equality(state, value.type, location if location >= 0 else expr_location(value))
    return value


def must_have_comparison(state: State, type_: TypeRef) -> None:
    """42883, as GREATEST and LEAST raise it at the start of execution."""
    if not has_order(state, type_):
        fail("42883", f"could not identify a comparison function for type {shown_type(state.environment, type_)}", -1)


def type_must_have_equality(state: State, type_: TypeRef, location: int) -> None:
    if not all(map(typeinfo.has_equality, _parts(state, type_))):
        fail(
            "42883",
            f"could not identify an equality operator for type {shown_type(state.environment, type_)}",
            location,
        )


def _parts(state: State, type_: TypeRef) -> tuple[int, ...]:
    """The types whose operators are needed."""
    relation = relation_of(state.environment, type_)
    return (type_.oid,) if relation is None else tuple(column.type.oid for column in relation.columns)


def find_sort_expression(state: State, node: ast.Node, targets: list[tree.Target], kind: str) -> tree.Expr:
    """findTargetlistEntrySQL99: an expression over the input columns, or equal to an output column."""
    return coerce.settle_unknown(state, expression(state, node, kind))


def sort_clause(state: State, value: tree.Expr, item: ast.SortBy) -> tree.SortClause:
    """A sort key: direction and place of NULLs resolved. 42883 for a type without an order."""
    oid = value.type.oid
    location = location_of(item.expression)
    descending = item.direction == "desc"
    if item.direction == "using":
        if item.using[:-1] not in ((), ("pg_catalog",)):
            operator_for(state.environment, item.using, oid, oid, -1)
        if item.using[-1] not in ("<", ">"):
            fail(
                "42809", f"operator {item.using[-1]} is not a valid ordering operator", item,
                hint='Ordering operators must be "<" or ">" members of btree operator families.',
            )  # fmt: skip
        descending = item.using[-1] == ">"
    must_have_order(state, value.type, location)
    nulls_first = item.nulls == "first" if item.nulls != "default" else descending
    return tree.SortClause(value, descending, nulls_first)
