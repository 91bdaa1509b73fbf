"""Functions of enums. The internal form is the label's position, so enums are compared like integers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from catalog.duckdb.nodes import Sql, comma_list, fill
from catalog.errors import SqlError
from catalog.functions.aggregates import call
from catalog.functions.base import AggregateSteps, Side
from catalog.functions.integers import comparisons
from catalog.functions.registry import implement
from catalog.types import element_of, lookup
from catalog.types.base import Array, TypeRef
from catalog.types.enum import EnumType

Maker = Callable[[Sequence[TypeRef], TypeRef], Callable[..., object]]


def _enum(oid: int) -> EnumType:
    found = lookup(oid)
    assert isinstance(found, EnumType)
    return found


def _end(last: bool) -> Maker:
    """enum_first and enum_last: the result depends only on the argument's type."""

    def make(types: Sequence[TypeRef], result: TypeRef) -> Callable[..., object]:
        labels = _enum(result.oid).labels

        def end(value: object) -> object:
            if not labels:
                raise SqlError("55000", f"enum {_enum(result.oid).sql_name} contains no values")
            return labels[-1 if last else 0][1]

        return end

    return make


def _whole(types: Sequence[TypeRef], result: TypeRef) -> Callable[..., object]:
    every = Array.of(tuple(position for _, position in _enum(element_of(result.oid)).labels))
    return lambda value: every


def _between(types: Sequence[TypeRef], result: TypeRef) -> Callable[..., object]:
    """enum_range(from, to): a NULL bound means no bound."""
    positions = [position for _, position in _enum(element_of(result.oid)).labels]

    def between(low: Any, high: Any) -> object:
        kept = [item for item in positions if (low is None or item >= low) and (high is None or item <= high)]
        return Array.of(tuple(kept))

    return between


def _literal(positions: Sequence[int]) -> Sql:
    return fill("[{}]::BIGINT[]", comma_list(positions))


def _every(types: Sequence[TypeRef]) -> list[int]:
    return [position for _, position in _enum(types[0].oid).labels]


def _sql_of_end(last: bool) -> Side:
    def side(arguments: Sequence[Sql], types: Sequence[TypeRef]) -> Sql | None:
        positions = _every(types)
        return fill("({})::BIGINT", positions[-1 if last else 0]) if positions else None

    return side


def _sql_between(arguments: Sequence[Sql], types: Sequence[TypeRef]) -> Sql:
    every = _literal(_every(types))
    return fill("list_filter({}, lambda x: x >= coalesce({}, x) AND x <= coalesce({}, x))", every, *arguments)


def _extreme(name: str) -> None:
    better = max if name == "max" else min
    steps: AggregateSteps = (
        lambda: None,
        lambda state, value: value if state is None else better(state, value),
        lambda state: state,
    )
    implement(f"{name}(anyenum)", duckdb=call(name), python_aggregate=steps)


comparisons("enum_{}")
implement("enum_smaller", lambda left, right: left if left < right else right, "least({0}, {1})")
implement("enum_larger", lambda left, right: left if left > right else right, "greatest({0}, {1})")
implement("enum_cmp", lambda left, right: (left > right) - (left < right))
implement("enum_first", duckdb=_sql_of_end(False), python_for_types=_end(False))
implement("enum_last", duckdb=_sql_of_end(True), python_for_types=_end(True))
implement("enum_range_all", duckdb=lambda _, types: _literal(_every(types)), python_for_types=_whole)
implement("enum_range_bounds", duckdb=_sql_between, python_for_types=_between)
_extreme("max")
_extreme("min")
