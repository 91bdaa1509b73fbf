"""float4 and float8: arithmetic and comparison (float.c, PostgreSQL 16 manual, 8.1.3 and 9.3).

Unlike IEEE 754, PostgreSQL raises 22003 if finite arguments give an infinity (overflow) or a zero (underflow), and NaN
is equal to itself and greater than all other values. A float4 is a Python float that is rounded to single precision.
Sums and products of two such values, computed in double and then rounded, are correctly rounded. DuckDB's DOUBLE
follows IEEE, so the DuckDB side checks results; DuckDB's comparisons order NaN as PostgreSQL does.
"""

# ruff: noqa: PLR0124 (a value that differs from itself is NaN: half the cost of calling isnan)

from __future__ import annotations

import ctypes
import math
import operator
import random
from collections.abc import Callable

from catalog.errors import SqlError
from catalog.functions.base import Trait
from catalog.functions.duckdb_errors import sql_error_call
from catalog.functions.duckdb_sql import once
from catalog.functions.integers import division_by_zero
from catalog.functions.registry import implement

_inf, _isinf, _isnan = math.inf, math.isinf, math.isnan
_single = ctypes.c_float
Float2 = Callable[[float, float], float]
Float1 = Callable[[float], float]


def overflow() -> SqlError:
    return SqlError("22003", "value out of range: overflow")


def underflow() -> SqlError:
    return SqlError("22003", "value out of range: underflow")


def _input_out_of_range() -> SqlError:
    return SqlError("22003", "input is out of range")


def to_single(value: float) -> float:
    """Rounds to single precision. An overflow gives an infinity, as in C."""
    return float(_single(value).value)


def _same(value: float) -> float:
    return value


# ---- arithmetic -----------------------------------------------------------------------------------------------------


def _sum_like(function: Float2, rounded: Float1) -> Float2:
    def compute(left: float, right: float) -> float:
        result = rounded(function(left, right))
        if _isinf(result) and not _isinf(left) and not _isinf(right):
            raise overflow()
        return result

    return compute


def _product(rounded: Float1) -> Float2:
    def compute(left: float, right: float) -> float:
        result = rounded(left * right)
        if _isinf(result) and not _isinf(left) and not _isinf(right):
            raise overflow()
        if result == 0.0 and left != 0.0 and right != 0.0:
            raise underflow()
        return result

    return compute


def _quotient(rounded: Float1) -> Float2:
    def compute(left: float, right: float) -> float:
        if right == 0.0:
            if _isnan(left):
                return left
            raise division_by_zero()
        result = rounded(left / right)
        if _isinf(result) and not _isinf(left):
            raise overflow()
        if result == 0.0 and left != 0.0 and not _isinf(right):
            raise underflow()
        return result

    return compute


add, subtract = _sum_like(operator.add, _same), _sum_like(operator.sub, _same)  # of float8; geo_ops.c uses these too
multiply, divide = _product(_same), _quotient(_same)

_OVERFLOW = sql_error_call("22003", "value out of range: overflow")
_UNDERFLOW = sql_error_call("22003", "value out of range: underflow")
_SUM_SQL = (
    "(CASE WHEN isinf({0} @ {1}) AND NOT isinf({0}) AND NOT isinf({1}) THEN " + _OVERFLOW + " ELSE {0} @ {1} END)"
)
_PRODUCT_SQL = (
    "(CASE WHEN isinf({0} * {1}) AND NOT isinf({0}) AND NOT isinf({1}) THEN " + _OVERFLOW
    + " WHEN {0} * {1} = 0 AND {0} <> 0 AND {1} <> 0 THEN " + _UNDERFLOW + " ELSE {0} * {1} END)"
)  # fmt: skip
_QUOTIENT_SQL = (
    "(CASE WHEN {1} = 0 THEN CASE WHEN isnan({0}) THEN {0} WHEN {0} IS NOT NULL THEN "
    + sql_error_call("22012", "division by zero") + " END WHEN isinf({0} / {1}) AND NOT isinf({0}) THEN " + _OVERFLOW
    + " WHEN {0} / {1} = 0 AND {0} <> 0 AND NOT isinf({1}) THEN " + _UNDERFLOW + " ELSE {0} / {1} END)"
)  # fmt: skip


def _arithmetic() -> None:
    for pair, rounded in (("float4", to_single), ("float8", _same), ("float48", _same), ("float84", _same)):
        implement(f"{pair}pl", _sum_like(operator.add, rounded), once(_SUM_SQL.replace("@", "+")))
        implement(f"{pair}mi", _sum_like(operator.sub, rounded), once(_SUM_SQL.replace("@", "-")))
        implement(f"{pair}mul", _product(rounded), once(_PRODUCT_SQL))
        implement(f"{pair}div", _quotient(rounded), once(_QUOTIENT_SQL))
        _comparisons(pair)
    for name in ("float4", "float8"):
        implement(f"{name}um", operator.neg, "(-{0})", inline="(-{0})", traits=(Trait.NEVER_FAILS,))
        implement(f"{name}up", _same, "{0}", inline="{0}", traits=(Trait.NEVER_FAILS,))
        implement(f"{name}abs", abs, "abs({0})", inline="abs({0})", names={"abs": abs})
        implement(f"{name}larger", lambda left, right: left if _greater(left, right) else right)
        implement(f"{name}smaller", lambda left, right: left if _less(left, right) else right)


# ---- comparison -----------------------------------------------------------------------------------------------------


def _equal(left: float, right: float) -> bool:
    return left == right or (left != left and right != right)


def _not_equal(left: float, right: float) -> bool:
    return left != right and (left == left or right == right)


def _less(left: float, right: float) -> bool:
    return left < right or (right != right and left == left)


def _less_or_equal(left: float, right: float) -> bool:
    return left <= right or right != right


def _greater(left: float, right: float) -> bool:
    return left > right or (left != left and right == right)


def _greater_or_equal(left: float, right: float) -> bool:
    return left >= right or left != left


def _comparisons(pair: str) -> None:
    for suffix, symbol, function in (("eq", "=", _equal), ("ne", "<>", _not_equal), ("lt", "<", _less),
                                     ("le", "<=", _less_or_equal), ("gt", ">", _greater), ("ge", ">=", _greater_or_equal)):  # fmt: skip  # noqa: E501
        implement(f"{pair}{suffix}", function, f"({{0}} {symbol} {{1}})")


# ---- rounding, powers, logarithms -----------------------------------------------------------------------------------


def round_half_even(value: float) -> float:
    """C's rint: to the nearest integer, ties to even; keeps the sign of zero."""
    return math.copysign(float(round(value)), value) if value - value == 0.0 else value


def _whole(function: Callable[[float], int]) -> Float1:
    """Returns a function such as C's ceil: unlike Python's, it accepts infinities and keeps the sign of zero."""
    return lambda value: math.copysign(float(function(value)), value) if value - value == 0.0 else value


def _sign(value: float) -> float:
    return 1.0 if value > 0 else -1.0 if value < 0 else 0.0


def square_root(value: float) -> float:
    if value < 0:
        raise SqlError("2201F", "cannot take square root of a negative number")
    return math.sqrt(value)


def _is_odd(value: float) -> bool:
    return math.floor(value) == value and math.fmod(value, 2.0) != 0.0


def _infinite_power(base: float, exponent: float) -> float:
    """power() if one argument is infinite and none is NaN (dpow in float.c)."""
    if _isinf(exponent):
        size = abs(base)
        if size == 1.0:
            return 1.0
        return _inf if (size > 1.0) == (exponent > 0.0) else 0.0
    if exponent == 0.0:
        return 1.0
    if base > 0.0:
        return _inf if exponent > 0.0 else 0.0
    if exponent > 0.0:
        return base if _is_odd(exponent) else _inf
    return -0.0 if _is_odd(exponent) else 0.0


def power(base: float, exponent: float) -> float:
    """base ^ exponent. Raises 2201F, 22003."""
    if _isnan(base):
        return base if exponent != 0.0 else 1.0
    if _isnan(exponent):
        return exponent if base != 1.0 else 1.0
    if base == 0.0 and exponent < 0.0:
        raise SqlError("2201F", "zero raised to a negative power is undefined")
    if base < 0.0 and not _isinf(exponent) and math.floor(exponent) != exponent:
        raise SqlError("2201F", "a negative number raised to a non-integer power yields a complex result")
    if _isinf(base) or _isinf(exponent):
        return _infinite_power(base, exponent)
    try:
        result = math.pow(base, exponent)
    except OverflowError:
        raise overflow() from None
    if result == 0.0 and base != 0.0:
        raise underflow()
    return result


def _exponential(value: float) -> float:
    if _isnan(value) or value == _inf:
        return value
    if value == -_inf:
        return 0.0
    try:
        result = math.exp(value)
    except OverflowError:
        raise overflow() from None
    if result == 0.0:
        raise underflow()
    return result


def _logarithm(function: Float1) -> Float1:
    def compute(value: float) -> float:
        if value == 0.0:
            raise SqlError("2201E", "cannot take logarithm of zero")
        if value < 0.0:
            raise SqlError("2201E", "cannot take logarithm of a negative number")
        return function(value)

    return compute


def _rounding_and_powers() -> None:
    implement("dround", round_half_even)
    implement("dceil", _whole(math.ceil), "ceil({0})")
    implement("dfloor", _whole(math.floor), "floor({0})")
    implement("dtrunc", _whole(math.trunc), "trunc({0})")
    implement("dsign", _sign)
    root_error = sql_error_call("2201F", "cannot take square root of a negative number")
    implement("dsqrt", square_root, once("(CASE WHEN {0} < 0 THEN " + root_error + " ELSE sqrt({0}) END)"))
    implement("dcbrt", math.cbrt)
    implement("dpow", power)
    implement("dexp", _exponential)
    implement("dlog1", _logarithm(math.log))
    implement("dlog10", _logarithm(math.log10))
    implement("drandom", random.random, "random()", traits=(Trait.TRACELESS,))
    implement("dpi", lambda: math.pi, "pi()")
    implement("degrees", lambda value: _quotient(_same)(value, 0.0174532925199432957692))
    implement("radians", lambda value: _product(_same)(value, 0.0174532925199432957692))


# ---- trigonometry ---------------------------------------------------------------------------------------------------


def _circular(function: Float1) -> Float1:
    def compute(value: float) -> float:
        if _isinf(value):
            raise _input_out_of_range()
        return function(value)

    return compute


def _domain(function: Float1) -> Float1:
    """Converts Python's ValueError to PostgreSQL's error "input is out of range": both have the same conditions."""

    def compute(value: float) -> float:
        try:
            return function(value)
        except ValueError:
            raise _input_out_of_range() from None

    return compute


def _hyperbolic(function: Float1, odd: bool) -> Float1:
    def compute(value: float) -> float:
        try:
            return function(value)
        except OverflowError:
            return math.copysign(_inf, value) if odd else _inf

    return compute


def _atanh(value: float) -> float:
    if abs(value) == 1.0:
        return math.copysign(_inf, value)
    return _domain(math.atanh)(value)


def _cotangent(value: float) -> float:
    tangent = math.tan(value)
    return 1.0 / tangent if tangent != 0.0 else math.copysign(_inf, tangent)


_RADIANS_PER_DEGREE = 0.0174532925199432957692
_SIN_30, _ONE_MINUS_COS_60 = math.sin(30 * _RADIANS_PER_DEGREE), 1.0 - math.cos(60 * _RADIANS_PER_DEGREE)
_ASIN_HALF, _ACOS_HALF = math.asin(0.5), math.acos(0.5)
_ATAN_1 = math.atan(1.0)


def _sind_0_to_30(value: float) -> float:
    return (math.sin(value * _RADIANS_PER_DEGREE) / _SIN_30) / 2.0


def _cosd_0_to_60(value: float) -> float:
    return 1.0 - ((1.0 - math.cos(value * _RADIANS_PER_DEGREE)) / _ONE_MINUS_COS_60) / 2.0


def _sind_first_quadrant(value: float) -> float:
    return _sind_0_to_30(value) if value <= 30.0 else _cosd_0_to_60(90.0 - value)


def _cosd_first_quadrant(value: float) -> float:
    return _cosd_0_to_60(value) if value <= 60.0 else _sind_0_to_30(90.0 - value)


def _fold(value: float) -> tuple[float, int]:
    """Returns an angle from 0 to 180 degrees and a sign: the sine of `value` is the sign times the angle's sine."""
    angle, sign = math.fmod(value, 360.0), 1
    if angle < 0.0:
        angle, sign = -angle, -1
    return (360.0 - angle, -sign) if angle > 180.0 else (angle, sign)


def _sind(value: float) -> float:
    angle, sign = _fold(value)
    if angle > 90.0:
        angle = 180.0 - angle
    return sign * _sind_first_quadrant(angle)


def _cosd(value: float) -> float:
    angle, sign = abs(math.fmod(value, 360.0)), 1
    if angle > 180.0:
        angle = 360.0 - angle
    if angle > 90.0:
        angle, sign = 180.0 - angle, -sign
    return sign * _cosd_first_quadrant(angle)


def _fold_tangent(value: float) -> tuple[float, int]:
    angle, sign = _fold(value)
    return (180.0 - angle, -sign) if angle > 90.0 else (angle, sign)


_TAND_45 = _sind_first_quadrant(45.0) / _cosd_first_quadrant(45.0)
_COTD_45 = _cosd_first_quadrant(45.0) / _sind_first_quadrant(45.0)


def _tand(value: float) -> float:
    angle, sign = _fold_tangent(value)
    cosine = _cosd_first_quadrant(angle)
    result = (_sind_first_quadrant(angle) / cosine) / _TAND_45 if cosine else _inf
    return sign * result or 0.0


def _cotd(value: float) -> float:
    angle, sign = _fold_tangent(value)
    sine = _sind_first_quadrant(angle)
    result = (_cosd_first_quadrant(angle) / sine) / _COTD_45 if sine else _inf
    return sign * result or 0.0


def _asind_first_quadrant(value: float) -> float:
    if value <= 0.5:
        return (math.asin(value) / _ASIN_HALF) * 30.0
    return 90.0 - (math.acos(value) / _ACOS_HALF) * 60.0


def _acosd_first_quadrant(value: float) -> float:
    if value <= 0.5:
        return 90.0 - (math.asin(value) / _ASIN_HALF) * 30.0
    return (math.acos(value) / _ACOS_HALF) * 60.0


def _inside_unit(function: Float1) -> Float1:
    def compute(value: float) -> float:
        if value < -1.0 or value > 1.0:
            raise _input_out_of_range()
        return value if _isnan(value) else function(value)

    return compute


def _trigonometry() -> None:
    for name in ("sin", "cos", "tan"):
        implement(f"d{name}", _circular(getattr(math, name)))
    implement("dcot", _circular(_cotangent))
    for name in ("asin", "acos", "acosh"):
        implement(f"d{name}", _domain(getattr(math, name)))
    for name in ("atan", "atan2", "tanh", "asinh"):
        implement(f"d{name}", getattr(math, name))
    implement("datanh", _atanh)
    implement("dsinh", _hyperbolic(math.sinh, odd=True))
    implement("dcosh", _hyperbolic(math.cosh, odd=False))
    for name, function in (("dsind", _sind), ("dcosd", _cosd), ("dtand", _tand), ("dcotd", _cotd)):
        implement(name, _circular(function))
    implement("dasind", _inside_unit(lambda v: _asind_first_quadrant(v) if v >= 0 else -_asind_first_quadrant(-v)))
    implement(
        "dacosd", _inside_unit(lambda v: _acosd_first_quadrant(v) if v >= 0 else 90.0 + _asind_first_quadrant(-v))
    )
    implement("datand", lambda value: (math.atan(value) / _ATAN_1) * 45.0)
    implement("datan2d", lambda left, right: (math.atan2(left, right) / _ATAN_1) * 45.0)


def width_bucket(operand: float, low: float, high: float, count: int) -> int:
    """Returns the bucket of an operand in a histogram (width_bucket_float8). Raises 2201G, 22003."""
    if count <= 0:
        raise SqlError("2201G", "count must be greater than zero")
    if _isnan(operand) or _isnan(low) or _isnan(high):
        raise SqlError("2201G", "operand, lower bound, and upper bound cannot be NaN")
    if _isinf(low) or _isinf(high):
        raise SqlError("2201G", "lower and upper bounds must be finite")
    if low == high:
        raise SqlError("2201G", "lower bound cannot equal upper bound")
    ascending = low < high
    if (operand < low) if ascending else (operand > low):
        return 0
    if (operand >= high) if ascending else (operand <= high):
        bucket = count + 1
        if bucket > 2147483647:
            raise SqlError("22003", "integer out of range")
        return bucket
    span, offset = (high - low, operand - low) if ascending else (low - high, low - operand)
    if _isinf(span):
        span, offset = (
            (high / 2 - low / 2, operand / 2 - low / 2) if ascending else (low / 2 - high / 2, low / 2 - operand / 2)
        )
    bucket = int(count * (offset / span))
    return min(bucket, count - 1) + 1


_arithmetic()
_rounding_and_powers()
_trigonometry()
implement("width_bucket_float8", width_bucket)
