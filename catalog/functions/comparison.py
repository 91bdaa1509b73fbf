"""Comparison operators of types without a separate module: dates and times, uuid, bytea, oid, interval, jsonb and
arrays.

If the internal form has the order of the type, the operator is Python's; otherwise values are compared by the type's
sort key (catalog/types/base.py).
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

from catalog.duckdb.nodes import Sql, fill
from catalog.errors import SqlError
from catalog.functions.base import Side, Trait
from catalog.functions.datetime_casts import date_comparison
from catalog.functions.integers import comparisons
from catalog.functions.registry import implement
from catalog.types import element_of, lookup, oids
from catalog.types.base import Interval, SqlType, TypeRef
from catalog.types.composite import CompositeType
from catalog.types.incomparable import order_key

Compare = Callable[[Any, Any], bool]
_OPERATORS: tuple[tuple[str, str, Compare], ...] = (
    ("eq", "=", operator.eq), ("ne", "<>", operator.ne), ("lt", "<", operator.lt),
    ("le", "<=", operator.le), ("gt", ">", operator.gt), ("ge", ">=", operator.ge),
)  # fmt: skip
_MICROSECONDS_A_DAY = 86_400_000_000


def interval_key(value: Interval) -> int:
    """Returns microseconds, with months of 30 days and days of 24 hours, as interval_cmp does."""
    months, days, microseconds = value
    return (months * 30 + days) * _MICROSECONDS_A_DAY + microseconds


def _timetz_key(value: Any) -> tuple[int, int]:
    microseconds, zone = value
    return microseconds + zone * 1_000_000, zone


def date_as_timestamp(days: int) -> int:
    """Returns a date as a timestamp for comparison, also for dates outside of the range of timestamps."""
    if days == -(2**31):
        return -(2**63)
    return 2**63 - 1 if days == 2**31 - 1 else days * _MICROSECONDS_A_DAY


def _by_key(function: Compare, left_key: Callable[[Any], Any], right_key: Callable[[Any], Any]) -> Compare:
    return lambda left, right: function(left_key(left), right_key(right))


def _implement_by_key(names: str, key: Callable[[Any], Any]) -> None:
    for suffix, _, function in _OPERATORS:
        implement(names.format(suffix), _by_key(function, key, key))


def _extremes(name: str, duckdb: bool, key: Callable[[Any], Any] | None = None) -> None:
    """Registers <name>larger and <name>smaller, which return the second of equal values."""
    larger, smaller = ("greatest({0}, {1})", "least({0}, {1})") if duckdb else (None, None)
    if key is None:
        implement(f"{name}larger", lambda left, right: left if left > right else right, larger)
        implement(f"{name}smaller", lambda left, right: left if left < right else right, smaller)
    else:
        implement(f"{name}larger", lambda left, right: left if key(left) > key(right) else right)
        implement(f"{name}smaller", lambda left, right: left if key(left) < key(right) else right)


def _dates_with_timestamps() -> None:
    def same(value: Any) -> Any:
        return value

    for suffix, symbol, function in _OPERATORS:
        implement(f"date_{suffix}_timestamp", _by_key(function, date_as_timestamp, same),
                  date_comparison(symbol, 0))  # fmt: skip
        implement(f"timestamp_{suffix}_date", _by_key(function, same, date_as_timestamp),
                  date_comparison(symbol, 1))  # fmt: skip


def _identity(value: Any) -> Any:
    return value


def python_operator(suffix: str) -> Compare:
    """Returns Python's operator for a suffix such as 'lt'."""
    return next(function for name, _, function in _OPERATORS if name == suffix)


def by_sort_key(function: Compare) -> Callable[[Sequence[TypeRef], TypeRef], Callable[..., object]]:
    """Returns the maker of a comparison by the sort key of the arguments' actual type."""

    def make(types: Sequence[TypeRef], result: TypeRef) -> Callable[..., object]:
        known = lookup(types[0].oid)
        key = (known.equality_key() if function in (operator.eq, operator.ne) else order_key(known)) or _identity
        return _by_key(function, key, key)

    return make


def _by_fields(function: Compare) -> Callable[[Sequence[TypeRef], TypeRef], Callable[..., object]]:
    """Returns the same for rows (record_cmp). Rows of two types are compared field by field; paired fields must have
    the same type."""
    alike = by_sort_key(function)

    def make(types: Sequence[TypeRef], result: TypeRef) -> Callable[..., object]:
        if types[0].oid == types[1].oid:
            return alike(types, result)
        left, right = lookup(types[0].oid), lookup(types[1].oid)
        assert isinstance(left, CompositeType) and isinstance(right, CompositeType)
        order = _order_of_fields(left.types, right.types)
        return lambda one, other: function(order(one, other), 0)

    return make


def _order_of_fields(left: Sequence[SqlType], right: Sequence[SqlType]) -> Callable[[Any, Any], int]:
    """Returns the function that compares two rows: -1, 0 or 1. The function raises 42804 if it reaches fields of
    different types, or if one row has more fields."""
    keys: list[Callable[[Any], Any]] = [known.sort_key() or _identity for known in left]

    def compare(one: Any, other: Any) -> int:
        for number, (known, another, key) in enumerate(zip(left, right, keys, strict=False), 1):
            if known.oid != another.oid:
                shown = f"{known.sql_name} and {another.sql_name}"
                raise SqlError("42804", f"cannot compare dissimilar column types {shown} at record column {number}")
            a, b = one[number - 1], other[number - 1]
            if a is None or b is None:
                if (a is None) != (b is None):
                    return 1 if a is None else -1
            elif key(a) != key(b):
                return 1 if key(a) > key(b) else -1
        if len(left) != len(right):
            raise SqlError("42804", "cannot compare record types with different numbers of columns")
        return 0

    return compare


# Element types whose equality in DuckDB is PostgreSQL's, also inside lists.
PLAIN_ELEMENTS = oids.WHOLE_NUMBERS | oids.VARYING_TEXTS | {oids.BOOL, oids.DATE, oids.UUID}


def _array_equality(symbol: str) -> Side:
    def side(arguments: Sequence[Sql], types: Sequence[TypeRef]) -> Sql | None:
        if element_of(types[0].oid) not in PLAIN_ELEMENTS:
            return None
        return fill(f"({{}} {symbol} {{}})", *arguments)

    return side


def _by_types() -> None:
    """Registers the comparisons of jsonb, arrays, vectors and records, by the sort key of their actual type."""
    for suffix, symbol, function in _OPERATORS:
        duckdb = _array_equality(symbol) if suffix in ("eq", "ne") else None
        array = (Trait.COMPARES_ROWS, Trait.COMPARES_TEXTS)
        source = f"array_{suffix}"
        implement(source, duckdb=duckdb, python_for_types=by_sort_key(function), compares=suffix, traits=array)
        implement(f"jsonb_{suffix}", python_for_types=by_sort_key(function))
        implement(f"oidvector{suffix}", python_for_types=by_sort_key(function))
        source, side = f"record_{suffix}", _by_fields(function)  # of composite types
        implement(source, python_for_types=side, compares=suffix, traits=(Trait.COMPARES_ROWS,))


for _names in ("oid{}", "date_{}", "time_{}", "timestamp_{}", "uuid_{}", "bytea{}", "xid8{}", "tid{}"):
    comparisons(_names)
_implement_by_key("interval_{}", interval_key)
_implement_by_key("timetz_{}", _timetz_key)
_dates_with_timestamps()
_by_types()
_extremes("tid", duckdb=False)
for _name in ("date_", "time_", "timestamp_", "oid"):
    _extremes(_name, duckdb=True)
_extremes("interval_", duckdb=False, key=interval_key)
_extremes("timetz_", duckdb=False, key=_timetz_key)
implement("xideq", operator.eq, "({0} = {1})")
implement("xidneq", operator.ne, "({0} <> {1})")
implement("xid8toxid", lambda number: number & 0xFFFFFFFF, "({0} % 4294967296)::BIGINT")
implement("bttidcmp", lambda left, right: (left > right) - (left < right))
implement("cideq", operator.eq, "({0} = {1})")
