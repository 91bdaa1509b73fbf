"""Aggregates: counts, sums, averages, extremes, booleans, bits, and collections (PostgreSQL 16 manual, 9.21).

The key of an implementation is name and argument types: 'sum(int4)'. The DuckDB side is one aggregate call, or an
expression over several, each with the marks that a caller replaces (`Implementation`). Sums of integers are exact on
both sides. An average of exact numbers is PostgreSQL's numeric quotient of sum and count, computed once for each group.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any

from catalog.duckdb.nodes import CastTo, Parameter, Sql, constant_text, fill
from catalog.duckdb.templates import DISTINCT_MARK, FILTER_MARK, ORDER_MARK
from catalog.duckdb.types import VARCHAR
from catalog.errors import SqlError
from catalog.functions.base import AggregateSteps, Side, Trait, udf_name
from catalog.functions.duckdb_errors import sql_error_call
from catalog.functions.floats import overflow, to_single
from catalog.functions.integers import CHECKS
from catalog.functions.numeric import add, decimal_form, decimal_type, divide, less
from catalog.functions.registry import implement, mark
from catalog.types import lookup
from catalog.types.base import Array, Interval, TypeRef
from catalog.types.oids import NUMERIC


def call(name: str, argument: str = "{0}") -> str:
    """Returns the template of an aggregate call with its marks."""
    return f"{name}({DISTINCT_MARK}{argument}{ORDER_MARK}){FILTER_MARK}"


def _identity(state: Any) -> Any:
    return state


def _nothing() -> Any:
    return None


def folding(function: Callable[[Any, Any], Any]) -> AggregateSteps:
    """Returns the steps of an aggregate whose state is the result so far, NULL before the first row."""

    def step(state: Any, value: Any) -> Any:
        return value if state is None else function(state, value)

    return _nothing, step, _identity


# ---- counts and sums ----


def _counts() -> None:
    steps: AggregateSteps = (int, lambda state, *values: state + 1, _identity)
    implement("count()", duckdb=f"count(*){FILTER_MARK}", python_aggregate=steps, traits=(Trait.COUNTS,))
    implement("count(any)", duckdb=call("count"), python_aggregate=steps, traits=(Trait.COUNTS,))


def _integer_sum(state: Any, value: Any) -> Any:
    return value if state is None else state + value


def _sum_of_small_integers(name: str) -> None:
    def final(state: Any) -> Any:
        return None if state is None else CHECKS[8](state)

    steps: AggregateSteps = (_nothing, _integer_sum, final)
    implement(f"sum({name})", duckdb=f"CAST({call('sum')} AS BIGINT)", python_aggregate=steps)


def _average_steps(to_numeric: Callable[[Any], Decimal]) -> AggregateSteps:
    def step(state: Any, value: Any) -> Any:
        return (value, 1) if state is None else (state[0] + value, state[1] + 1)

    def final(state: Any) -> Any:
        return None if state is None else divide(to_numeric(state[0]), Decimal(state[1]))

    return _nothing, step, final


_AVERAGE_SQL = f"{udf_name('numeric_div')}(CAST({call('sum')} AS VARCHAR), CAST({call('count')} AS VARCHAR))"


def _integer_sums() -> None:
    _sum_of_small_integers("int2")
    _sum_of_small_integers("int4")
    steps: AggregateSteps = (_nothing, _integer_sum, lambda state: None if state is None else Decimal(state))
    implement("sum(int8)", duckdb=f"CAST({call('sum')} AS DECIMAL(38, 0))", python_aggregate=steps,
              duckdb_result=lambda types: decimal_type(38, 0))  # fmt: skip
    for name in ("int2", "int4", "int8"):
        implement(f"avg({name})", duckdb=_AVERAGE_SQL, duckdb_udfs=("numeric_div",),
                  python_aggregate=_average_steps(Decimal))  # fmt: skip


def _if_decimal(template: str) -> Side:
    def side(arguments: Sequence[Sql], types: Sequence[TypeRef]) -> Sql | None:
        return fill(template, *arguments) if decimal_form(types[0]) else None

    return side


def _numeric_sums() -> None:
    def average_step(state: Any, value: Any) -> Any:
        return (value, 1) if state is None else (add(state[0], value), state[1] + 1)

    _, _, average = _average_steps(_identity)
    implement("sum(numeric)", duckdb=_if_decimal(call("sum")), python_aggregate=folding(add),
              duckdb_result=lambda types: decimal_type(38, (decimal_form(types[0]) or (0, 0))[1]))  # fmt: skip
    implement("avg(numeric)", duckdb=_if_decimal(_AVERAGE_SQL), duckdb_udfs=("numeric_div",),
              python_aggregate=(_nothing, average_step, average))  # fmt: skip


# PostgreSQL raises 22003 if a sum of finite numbers is infinite.
_OVERFLOWN = f"isinf({call('sum')}) AND NOT bool_or(isinf({{0}})){FILTER_MARK}"
_FLOAT_SQL = f"(CASE WHEN {_OVERFLOWN} THEN {sql_error_call('22003', 'value out of range: overflow')} ELSE @ END)"

# DuckDB's sum begins with 0, PostgreSQL's with the first value: a sum of values that are all -0 is -0.
_NEGATIVE = f"bool_and(signbit({{0}})){FILTER_MARK}"
_SUM_OF_FLOATS = f"(CASE WHEN {call('sum')} = 0 AND {_NEGATIVE} THEN -0.0::DOUBLE ELSE {call('sum')} END)"

# PostgreSQL's average also sums squares, so it raises an error for some numbers whose squares do not fit a double.
_LARGE = f"max(CASE WHEN isfinite({{0}}) THEN abs({{0}}) END){FILTER_MARK} > 1e150"
_REFUSED = sql_error_call("0A000", "avg of double precision beyond 1e150 is not supported")
_AVERAGE_OF_FLOATS_SQL = f"(CASE WHEN {_LARGE} THEN {_REFUSED} ELSE {call('avg')} END)"


def accumulate(state: Any, value: float) -> Any:
    """float8_accum: the state is (count, sum, sum of squared differences), by the Youngs-Cramer method. Raises
    22003."""
    if state is None:
        return 1.0, 0.0 + value, math.nan if value - value != 0.0 else 0.0
    count, total, squares = state
    new_count, new_total = count + 1.0, total + value
    difference = value * new_count - new_total
    squares += difference * difference / (new_count * count)
    if math.isinf(new_total) or math.isinf(squares):
        if not math.isinf(total) and not math.isinf(value):
            raise overflow()
        squares = math.nan
    return new_count, new_total, squares


def _float_sums() -> None:
    def step(rounded: Callable[[float], float]) -> Callable[[Any, Any], Any]:
        def compute(state: float, value: float) -> float:
            result = rounded(state + value)
            if result - result != 0.0 and state - state == 0.0 and value - value == 0.0:
                raise overflow()
            return result

        return compute

    plain = step(_identity)
    average: AggregateSteps = (_nothing, accumulate, lambda state: None if state is None else state[1] / state[0])
    # PostgreSQL rounds the sum to single precision at every step; only the Python side does the same.
    implement("sum(float4)", python_aggregate=folding(step(to_single)))
    implement("sum(float8)", duckdb=_FLOAT_SQL.replace("@", _SUM_OF_FLOATS), python_aggregate=folding(plain))
    for name in ("float4", "float8"):
        implement(f"avg({name})", duckdb=_AVERAGE_OF_FLOATS_SQL, python_aggregate=average)


def _interval_sums() -> None:
    def plus(left: Interval, right: Interval) -> Interval:
        months, days, microseconds = (one + other for one, other in zip(left, right, strict=True))
        if not (-(2**31) <= months < 2**31 and -(2**31) <= days < 2**31 and -(2**63) <= microseconds < 2**63):
            raise SqlError("22008", "interval out of range")
        return Interval(months, days, microseconds)

    implement("sum(interval)", python_aggregate=folding(plus))


# ---- extremes ----

_DUCKDB_ORDERED = ("int8", "int4", "int2", "oid", "float4", "float8", "date", "time", "timestamp", "timestamptz",
                   "text", "pg_lsn", "tid")  # fmt: skip
_PYTHON_ORDERED = ("interval", "timetz", "anyarray", "xid8", "citext")


def extreme(larger: bool) -> Callable[[Sequence[TypeRef], TypeRef], AggregateSteps]:
    """Returns the maker of max or min for the order of the argument's type."""

    def make(types: Sequence[TypeRef], result: TypeRef) -> AggregateSteps:
        key = lookup(types[0].oid).sort_key()
        if key is None:
            return folding(max if larger else min)

        def step(state: Any, value: Any) -> Any:
            pair = (key(value), value)
            if state is None:
                return pair
            return state if (pair[0] < state[0] if larger else state[0] < pair[0]) else pair  # the last of equal values

        return _nothing, step, lambda state: None if state is None else state[1]

    return make


def _extremes() -> None:
    for name, larger in (("max", True), ("min", False)):
        for of in _DUCKDB_ORDERED:
            implement(f"{name}({of})", duckdb=call(name), aggregate_for_types=extreme(larger))
        for of in _PYTHON_ORDERED:
            implement(f"{name}({of})", aggregate_for_types=extreme(larger))
        implement(f"{name}(bpchar)", duckdb=call(f"arg_{name}", "{0}, rtrim({0}, ' ')"),
                  aggregate_for_types=extreme(larger))  # fmt: skip
    greater = folding(lambda state, value: state if less(value, state) else value)
    smaller = folding(lambda state, value: state if less(state, value) else value)
    for name, steps in (("max", greater), ("min", smaller)):
        implement(f"{name}(numeric)", duckdb=_if_decimal(call(name)), duckdb_result=lambda types: types[0],
                  python_aggregate=steps)  # fmt: skip


# ---- booleans and bits ----


def _booleans_and_bits() -> None:
    conjunction = folding(lambda state, value: state and value)
    disjunction = folding(lambda state, value: state or value)
    implement("bool_and(bool)", duckdb=call("bool_and"), python_aggregate=conjunction)
    implement("every(bool)", duckdb=call("bool_and"), python_aggregate=conjunction)
    implement("bool_or(bool)", duckdb=call("bool_or"), python_aggregate=disjunction)
    for name in ("int2", "int4", "int8"):
        implement(f"bit_and({name})", duckdb=call("bit_and"), python_aggregate=folding(lambda s, v: s & v))
        implement(f"bit_or({name})", duckdb=call("bit_or"), python_aggregate=folding(lambda s, v: s | v))
        implement(f"bit_xor({name})", duckdb=call("bit_xor"), python_aggregate=folding(lambda s, v: s ^ v))


# ---- aggregates that collect values ----


def _string_agg_side(arguments: Sequence[Sql], types: Sequence[TypeRef]) -> Sql | None:
    """Returns DuckDB's string_agg for a constant separator, else None: DuckDB allows only one separator for all rows,
    PostgreSQL one for each row. A NULL separator is an empty one."""
    separator = arguments[1]
    if constant_text(separator) is None and not isinstance(separator, Parameter):
        return None
    return fill(call("string_agg").replace(ORDER_MARK, f", coalesce({{1}}, ''){ORDER_MARK}"), *arguments)


def _joining(empty: Any) -> AggregateSteps:
    """Returns the steps of string_agg. It ignores the first row's separator and NULL values; a NULL separator is an
    empty one."""

    def step(state: Any, value: Any, separator: Any) -> Any:
        if value is None:
            return state
        if state is None:
            return [value]
        if separator:
            state.append(separator)
        state.append(value)
        return state

    return _nothing, step, lambda state: None if state is None else empty.join(state)


def _array_side(arguments: Sequence[Sql], types: Sequence[TypeRef]) -> Sql:
    argument = arguments[0]
    if types[0].oid == NUMERIC and decimal_form(types[0]):
        argument = CastTo(argument, VARCHAR)
    return fill(call("list"), argument)


def _append(state: Any, value: Any) -> Any:
    state.append(value)
    return state


def _array_of_arrays(state: list[Array]) -> object:
    """array_agg over arrays: the result has one more dimension. Raises 22004 for a NULL array, and 2202E for arrays of
    different dimensions."""
    if not state:
        return None
    if any(array is None for array in state):
        raise SqlError("22004", "cannot accumulate null arrays")
    first = state[0]
    if not first.dimensions:
        raise SqlError("2202E", "cannot accumulate empty arrays")
    if any(array.dimensions != first.dimensions for array in state):
        raise SqlError("2202E", "cannot accumulate arrays of different dimensionality")
    elements = tuple(element for array in state for element in array.elements)
    return Array(elements, (len(state), *first.dimensions), (1, *first.lower_bounds))


def _collecting() -> None:
    implement("string_agg(text,text)", duckdb=_string_agg_side, python_aggregate=_joining(""), steps_see_nulls=True)
    implement("string_agg(bytea,bytea)", python_aggregate=_joining(b""), steps_see_nulls=True)
    to_array: AggregateSteps = (list, _append, lambda state: Array.of(tuple(state)) if state else None)
    implement("array_agg(anynonarray)", duckdb=_array_side, python_aggregate=to_array, steps_see_nulls=True)
    implement("array_agg(anyarray)", python_aggregate=(list, _append, _array_of_arrays), steps_see_nulls=True)


_counts()
_integer_sums()
_numeric_sums()
_float_sums()
_interval_sums()
_extremes()
for _name in ("max", "min"):
    mark(Trait.EXTREME_OF_TEXTS, f"{_name}(text)", f"{_name}(bpchar)", f"{_name}(anyarray)")
_booleans_and_bits()
_collecting()
