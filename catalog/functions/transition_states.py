"""The functions of built-in aggregates that can be called by themselves: they take and give states that are arrays.

float.c. A state of one variable is {N, sum, sum of squared differences}; one of two is {N, Sx, Sxx, Sy, Syy, Sxy}.
"""

from __future__ import annotations

import math
from typing import Any

from catalog.errors import SqlError
from catalog.functions.aggregates import accumulate
from catalog.functions.floats import overflow
from catalog.functions.registry import implements
from catalog.functions.statistics import regression_step
from catalog.types.base import Array


def _numbers(state: Array, caller: str, count: int) -> tuple[Any, ...]:
    """The numbers of a state. Raises XX000, like PostgreSQL, for other arrays."""
    if state.dimensions != (count,) or None in state.elements:
        raise SqlError("XX000", f"{caller}: expected {count}-element float8 array")
    return state.elements


@implements("float8_accum")
@implements("float4_accum")
def _accum(state: Array, value: float) -> Array:
    numbers = _numbers(state, "float8_accum", 3)
    if numbers[0] > 0.0:
        return Array.of(accumulate(numbers, value))
    count, total, squares = numbers
    return Array.of((count + 1.0, total + value, squares if math.isfinite(value) else math.nan))


@implements("float8_regr_accum")
def _regression(state: Array, y: float, x: float) -> Array:
    numbers = _numbers(state, "float8_regr_accum", 6)
    if numbers[0] > 0.0:
        return Array.of(regression_step(numbers, y, x))
    count, sx, sxx, sy, syy, sxy = numbers
    x_bad, y_bad = not math.isfinite(x), not math.isfinite(y)
    sxx, syy = math.nan if x_bad else sxx, math.nan if y_bad else syy
    return Array.of((count + 1.0, sx + x, sxx, sy + y, syy, math.nan if x_bad or y_bad else sxy))


@implements("float8_combine")
def _combine(one: Array, other: Array) -> Array:
    left, right = (_numbers(state, "float8_combine", 3) for state in (one, other))
    if not left[0] or not right[0]:
        return Array.of(tuple(right if not left[0] else left))
    count, total = left[0] + right[0], _sum(left[1], right[1])
    apart = left[1] / left[0] - right[1] / right[0]
    return Array.of((count, total, _add_up(left[2], right[2], left[0] * right[0] * apart * apart / count)))


@implements("float8_regr_combine")
def _combine_regressions(one: Array, other: Array) -> Array:
    left, right = (_numbers(state, "float8_regr_combine", 6) for state in (one, other))
    if not left[0] or not right[0]:
        return Array.of(tuple(right if not left[0] else left))
    count, sx, sy = left[0] + right[0], _sum(left[1], right[1]), _sum(left[3], right[3])
    dx, dy = left[1] / left[0] - right[1] / right[0], left[3] / left[0] - right[3] / right[0]
    weight = left[0] * right[0]
    squares = (weight * dx * dx / count, weight * dy * dy / count, weight * dx * dy / count)
    sxx, syy, sxy = (_add_up(left[at], right[at], item) for at, item in zip((2, 4, 5), squares, strict=True))
    return Array.of((count, sx, sxx, sy, syy, sxy))


def _sum(one: float, other: float) -> float:
    """float8_pl."""
    return _check_overflow(one + other, one, other)


def _add_up(one: float, other: float, between: float) -> float:
    return _check_overflow(one + other + between, one, other)


def _check_overflow(result: float, one: float, other: float) -> float:
    if math.isinf(result) and not math.isinf(one) and not math.isinf(other):
        raise overflow()
    return result
