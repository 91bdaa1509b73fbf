"""numeric: square roots, powers, logarithms, and other functions whose results are rounded to a computed scale.

The scale of a result is computed from estimates of its size, as numeric.c does; the value is then computed with more
digits and rounded half away from zero.
"""

from __future__ import annotations

import math
from decimal import ROUND_HALF_EVEN, Context, Decimal

from catalog.errors import SqlError
from catalog.functions.numeric import MAX_DISPLAY_SCALE, divide_to_scale, rescale, scale
from catalog.functions.registry import implement
from catalog.patience import long_step
from catalog.types.numeric import EXACT, INFINITY, NAN, canonical, overflow

_MIN_SIGNIFICANT_DIGITS = 16
_MAX_RESULT_SCALE = 2000  # NUMERIC_MAX_RESULT_SCALE: a result beyond e^(+-3 * this) over- or underflows
_LOG10_E = 0.434294481903252
_LN_10 = 2.302585092994046
_ZERO, _ONE, _TEN = Decimal(0), Decimal(1), Decimal(10)
_GUARD_DIGITS = 12
_PART = 2000  # digits


def _context(digits: int) -> Context:
    return Context(prec=max(digits, 20), rounding=ROUND_HALF_EVEN, Emin=-999999, Emax=999999, traps=[])


def _limit_digits(wanted: int, *least: int) -> int:
    """Returns a result's scale: `wanted`, but at least the scales `least` of the arguments, and at most
    MAX_DISPLAY_SCALE."""
    return min(max(wanted, *least, 0), MAX_DISPLAY_SCALE)


def _weight(value: Decimal) -> int:
    """Returns the weight of the first digit in base 10000; 0 for zero."""
    return value.adjusted() // 4 if value else 0


def _leading_groups(value: Decimal, most: int) -> tuple[int, int, int]:
    """Returns the first base-10000 digits of a non-zero numeric as one integer, their number (at most `most`), and the
    number of all digits."""
    sign_digits = value.as_tuple()
    digits = "".join(map(str, sign_digits.digits)).rstrip("0") or "0"
    head = value.adjusted() % 4 + 1  # decimal digits in the first group
    groups = 1 + max(-(-(len(digits) - head) // 4), 0)
    count = min(groups, most)
    wanted = head + 4 * (count - 1)
    return int(digits[:wanted].ljust(wanted, "0")), count, groups


# ---- square root ----


def square_root(value: Decimal) -> Decimal:
    """sqrt(). Raises 2201F."""
    if not value.is_finite():
        if value == -INFINITY:
            raise SqlError("2201F", "cannot take square root of a negative number")
        return value
    if value < 0:
        raise SqlError("2201F", "cannot take square root of a negative number")
    half = int((_weight(value) + 1) * 4 / 2) - 1
    digits = _limit_digits(_MIN_SIGNIFICANT_DIGITS - half, scale(value))
    if not value:
        return rescale(_ZERO, digits)
    # Truncated before the last rounding, because two roundings would round a value just below a half up.
    root = math.isqrt(_whole(value.scaleb(2 * (digits + 1), EXACT)))
    return rescale(Decimal(root).scaleb(-digits - 1, EXACT), digits)


# ---- exponential and logarithms ----


def _whole(value: Decimal) -> int:
    """Returns the integer part of a positive number. Python's int() takes quadratic time for many digits."""
    return int(value) if value.adjusted() < _PART else _of_digits(f"{value:f}".partition(".")[0])


def _of_digits(digits: str) -> int:
    if len(digits) <= _PART:
        return int(digits)
    half = len(digits) // 2
    power: int = 10 ** (len(digits) - half)
    return _of_digits(digits[:half]) * power + _of_digits(digits[half:])


def _to_double(value: Decimal) -> float:
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf


def exponential_to_scale(value: Decimal, digits: int) -> Decimal:
    """exp_var: e ** value, rounded to `digits` decimals. Raises 22003 if the result is too large."""
    if abs(_to_double(value)) >= _MAX_RESULT_SCALE * 3:
        if value > 0:
            raise overflow()
        return rescale(_ZERO, digits)
    whole = max(int(_to_double(value) * _LOG10_E), 0)
    result = rescale(_context(whole + digits + _GUARD_DIGITS).exp(value), digits)
    return canonical(result)


def exponential(value: Decimal) -> Decimal:
    if not value.is_finite():
        return _ZERO if value == -INFINITY else value
    estimate = min(max(_to_double(value) * _LOG10_E, -_MAX_RESULT_SCALE), _MAX_RESULT_SCALE)
    return exponential_to_scale(value, _limit_digits(_MIN_SIGNIFICANT_DIGITS - int(estimate), scale(value)))


def estimate_logarithm_weight(value: Decimal) -> int:
    """Estimates the decimal weight of ln(value) (estimate_ln_dweight); 0 if there is no logarithm."""
    if value <= 0:
        return 0
    if Decimal("0.9") <= value <= Decimal("1.1"):
        rest = EXACT.subtract(value, _ONE)
        if not rest:
            return 0
        group, _, _ = _leading_groups(rest, 1)
        return _weight(rest) * 4 + int(math.log10(group))
    group, count, _ = _leading_groups(value, 2)
    logarithm = math.log(group) + (_weight(value) - (count - 1)) * 4 * _LN_10
    return int(math.log10(abs(logarithm))) if logarithm else 0


def logarithm_to_scale(value: Decimal, digits: int) -> Decimal:
    weight = max(estimate_logarithm_weight(value), 0)
    return rescale(_context(weight + digits + _GUARD_DIGITS).ln(value), digits)


def _check_logarithm(value: Decimal) -> None:
    if value.is_nan():
        return
    if not value:
        raise SqlError("2201E", "cannot take logarithm of zero")
    if value < 0:
        raise SqlError("2201E", "cannot take logarithm of a negative number")


def natural_logarithm(value: Decimal) -> Decimal:
    _check_logarithm(value)
    if not value.is_finite():
        return value
    digits = _limit_digits(_MIN_SIGNIFICANT_DIGITS - estimate_logarithm_weight(value), scale(value))
    return logarithm_to_scale(value, digits)


def logarithm(base: Decimal, value: Decimal | None = None) -> Decimal:
    """log(base, value), or log(value) to base 10. Raises 2201E, 22012 for base 1."""
    if value is None:
        base, value = _TEN, base
    if base.is_nan() or value.is_nan():
        return NAN
    if not (base.is_finite() and value.is_finite()):
        _check_logarithm(min(base, value))  # if both are wrong, the error names the negative one
        if base.is_infinite():
            return NAN if value.is_infinite() else _ZERO
        return INFINITY
    _check_logarithm(base)
    _check_logarithm(value)
    base_weight, value_weight = estimate_logarithm_weight(base), estimate_logarithm_weight(value)
    weight = value_weight - base_weight
    digits = _limit_digits(_MIN_SIGNIFICANT_DIGITS - weight, scale(base), scale(value))
    base_logarithm = logarithm_to_scale(base, max(digits + weight - base_weight + 8, 0))
    if not base_logarithm:
        raise SqlError("22012", "division by zero")
    value_logarithm = logarithm_to_scale(value, max(digits - base_weight + 8, 0))
    return divide_to_scale(value_logarithm, base_logarithm, digits)


# ---- powers ----


def _is_integer(value: Decimal) -> bool:
    return value == value.to_integral_value(context=EXACT)


def _special_power(base: Decimal, exponent: Decimal) -> Decimal:
    """power() if an argument is NaN or infinite, by the rules of POSIX pow()."""
    if base.is_nan():
        return _ONE if exponent.is_finite() and not exponent else NAN
    if exponent.is_nan():
        return _ONE if base == 1 else NAN
    if not base and exponent < 0:
        raise SqlError("2201F", "zero raised to a negative power is undefined")
    if exponent.is_infinite():
        if abs(base) == 1:
            return _ONE
        return INFINITY if (abs(base) > 1) == (exponent > 0) else _ZERO
    if not exponent:
        return _ONE
    if base < 0:
        if not _is_integer(exponent):
            raise SqlError("2201F", "a negative number raised to a non-integer power yields a complex result")
        if exponent < 0:
            return _ZERO
        return -INFINITY if exponent % 2 else INFINITY
    return INFINITY if exponent > 0 else _ZERO


def power(base: Decimal, exponent: Decimal) -> Decimal:
    """base ^ exponent. Raises 2201F, 22003."""
    if not (base.is_finite() and exponent.is_finite()):
        return _special_power(base, exponent)
    if not base and exponent < 0:
        raise SqlError("2201F", "zero raised to a negative power is undefined")
    whole = _is_integer(exponent)
    if base < 0 and not whole:
        raise SqlError("2201F", "a negative number raised to a non-integer power yields a complex result")
    if whole and -(2**31) <= exponent < 2**31:
        return _integer_power(base, int(exponent), scale(exponent))
    return _fractional_power(base, exponent)


def _integer_power(base: Decimal, exponent: int, exponent_scale: int) -> Decimal:
    digits = _limit_digits(_MIN_SIGNIFICANT_DIGITS, scale(base))
    if not base:
        return rescale(_ONE if exponent == 0 else _ZERO, digits)
    size = base.adjusted() * exponent
    if size > 2 * 131072 or (abs(base) > 1 and exponent * math.log10(abs(float(base))) > 131072 + 8):
        raise overflow()
    if size < -2 * 131072 or exponent * _log10(abs(base)) < -digits - 2:
        return rescale(_ZERO, digits)
    precision = max(int(exponent * _log10(abs(base))), 0) + digits + _GUARD_DIGITS + len(str(abs(exponent)))
    return canonical(rescale(_context(precision).power(base, exponent), digits))


def _log10(value: Decimal) -> float:
    return float(_context(20).log10(value))


def _fractional_power(base: Decimal, exponent: Decimal) -> Decimal:
    if not base:
        return rescale(_ZERO, _MIN_SIGNIFICANT_DIGITS)
    negative = base < 0 and exponent % 2 != 0
    base = base.copy_abs()
    weight = estimate_logarithm_weight(base)
    rough = EXACT.multiply(logarithm_to_scale(base, max(8 - weight, 0)), exponent)
    value = _to_double(rescale(rough, max(8 - weight, 0)))
    if abs(value) > _MAX_RESULT_SCALE * 3.01:
        if value > 0:
            raise overflow()
        return rescale(_ZERO, MAX_DISPLAY_SCALE)
    decimal_weight = int(value * _LOG10_E)
    digits = _limit_digits(_MIN_SIGNIFICANT_DIGITS - decimal_weight, scale(base), scale(exponent))
    local = max(max(digits + decimal_weight, 0) - weight + 8, 0)
    product = rescale(EXACT.multiply(logarithm_to_scale(base, local), exponent), local)
    result = exponential_to_scale(product, digits)
    return -result if negative and result else result


# ---- integers in numeric ----


_LONG_FACTORIAL = 16_000  # larger factorials take 0.05 s and more
_LONG_INTEGER = 60_000  # digits; the conversion of more digits to a Decimal takes 0.05 s and more


def factorial(value: int) -> Decimal:
    """factorial(). Raises 22003."""
    if value < 0:
        raise SqlError("22003", "factorial of a negative number is undefined")
    if value > 32177:
        raise overflow()
    if value > _LONG_FACTORIAL:
        long_step()
    return Decimal(math.factorial(value))


def _scale_both(left: Decimal, right: Decimal) -> tuple[int, int, int]:
    """Returns both absolute values as integers of the larger scale, and this scale."""
    digits = max(scale(left), scale(right))
    if left.adjusted() + right.adjusted() + 2 * digits > _LONG_INTEGER:
        long_step()
    return _whole(left.copy_abs().scaleb(digits, EXACT)), _whole(right.copy_abs().scaleb(digits, EXACT)), digits


def greatest_common_divisor(left: Decimal, right: Decimal) -> Decimal:
    if not (left.is_finite() and right.is_finite()):
        return NAN
    first, second, digits = _scale_both(left, right)
    return Decimal(math.gcd(first, second)).scaleb(-digits, EXACT)


def least_common_multiple(left: Decimal, right: Decimal) -> Decimal:
    if not (left.is_finite() and right.is_finite()):
        return NAN
    first, second, digits = _scale_both(left, right)
    return canonical(Decimal(math.lcm(first, second)).scaleb(-digits, EXACT))


def width_bucket(operand: Decimal, low: Decimal, high: Decimal, count: int) -> int:
    """Returns the bucket of an operand in a histogram (width_bucket_numeric). Raises 2201G, 22003."""
    if count <= 0:
        raise SqlError("2201G", "count must be greater than zero")
    if operand.is_nan() or low.is_nan() or high.is_nan():
        raise SqlError("2201G", "operand, lower bound, and upper bound cannot be NaN")
    if low.is_infinite() or high.is_infinite():
        raise SqlError("2201G", "lower and upper bounds must be finite")
    if low == high:
        raise SqlError("2201G", "lower bound cannot equal upper bound")
    ascending = low < high
    if (operand < low) if ascending else (operand > low):
        return 0
    if (operand >= high) if ascending else (operand <= high):
        bucket = count + 1
    else:
        span, offset = EXACT.subtract(high, low), EXACT.subtract(operand, low)
        bucket = int(EXACT.divide_int(EXACT.multiply(offset, Decimal(count)), span)) + 1
    if bucket > 2147483647:
        raise SqlError("22003", "integer out of range")
    return bucket


implement("numeric_sqrt", square_root)
implement("numeric_exp", exponential)
implement("numeric_ln", natural_logarithm)
implement("numeric_log", logarithm)
implement("log", logarithm)
implement("log10", logarithm)
implement("numeric_power", power)
implement("numeric_fac", factorial)
implement("numeric_gcd", greatest_common_divisor)
implement("numeric_lcm", least_common_multiple)
implement("width_bucket_numeric", width_bucket)
