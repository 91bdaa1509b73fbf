"""numeric: arithmetic, comparison, rounding and conversions, with the same digits as PostgreSQL's numeric.c.

The scale is part of a result: a sum has the larger scale of its operands, a product the sum of both scales, and a
quotient at least 16 significant digits (`division_scale`). NaN is equal to itself and greater than all other values;
arithmetic accepts infinities.

On the columnar path a numeric argument is either DECIMAL(p,s), or VARCHAR in PostgreSQL's text form. Sums, differences,
products and comparisons of DECIMALs are exact in DuckDB, or raise an error for more than 38 digits; other functions are
UDFs over text.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from decimal import MIN_EMIN, ROUND_CEILING, ROUND_DOWN, ROUND_FLOOR, ROUND_HALF_UP, Context, Decimal, Overflow

from catalog.duckdb.nodes import CastTo, Sql, constant_integer, fill
from catalog.duckdb.types import DOUBLE, VARCHAR
from catalog.errors import SqlError
from catalog.functions.base import Side, Trait
from catalog.functions.integers import CHECKS, division_by_zero
from catalog.functions.registry import implement, mark
from catalog.types.base import TypeRef
from catalog.types.float import parse_float4, parse_float8
from catalog.types.numeric import (
    EXACT,
    INFINITY,
    MAX_SCALE,
    NAN,
    apply_typmod,
    format_numeric,
    overflow,
    precision_of,
    scale_of,
)
from catalog.types.oids import NUMERIC

_MIN_SIGNIFICANT_DIGITS = 16
MAX_DISPLAY_SCALE = 1000
_ZERO, _ONE = Decimal(0), Decimal(1)
_MAX_DECIMAL_DIGITS = 38

# Like EXACT, but accepts NaN and infinities, and raises Overflow for too many digits before the point.
_ARITHMETIC = Context(prec=400_000, rounding=ROUND_HALF_UP, Emin=MIN_EMIN, Emax=131071, traps=[Overflow])
_add, _subtract, _multiply = _ARITHMETIC.add, _ARITHMETIC.subtract, _ARITHMETIC.multiply


def scale(value: Decimal) -> int:
    """Returns the display scale of a finite numeric."""
    exponent = value.as_tuple().exponent
    return -exponent if isinstance(exponent, int) else 0


def rescale(value: Decimal, digits: int) -> Decimal:
    """Rounds half away from zero to `digits` decimals, or pads with zeros."""
    result = value.quantize(Decimal((0, (1,), -digits)), rounding=ROUND_HALF_UP, context=EXACT)
    return result if result else result.copy_abs()


# ---- arithmetic -----------------------------------------------------------------------------------------------------


def add(left: Decimal, right: Decimal) -> Decimal:
    try:
        return _add(left, right)
    except Overflow:
        raise overflow() from None


def subtract(left: Decimal, right: Decimal) -> Decimal:
    try:
        return _subtract(left, right)
    except Overflow:
        raise overflow() from None


def multiply(left: Decimal, right: Decimal) -> Decimal:
    try:
        result = _multiply(left, right)
    except Overflow:
        raise overflow() from None
    if not result:
        result = result.copy_abs()
    if result.__sizeof__() > 3000 or result.adjusted() < -4096:  # others cannot have too many decimals
        return rescale(result, MAX_SCALE) if result.is_finite() and scale(result) > MAX_SCALE else result
    return result


def _leading_group(value: Decimal) -> tuple[int, int]:
    """Returns the weight and the value of the first base-10000 digit of a finite numeric."""
    if not value:
        return 0, 0
    adjusted = value.adjusted()
    weight = adjusted // 4
    digits = value.as_tuple().digits
    count = adjusted - 4 * weight + 1
    group = 0
    for digit in digits[:count]:
        group = 10 * group + digit
    return weight, group * 10 ** max(count - len(digits), 0)


def division_scale(left: Decimal, right: Decimal) -> int:
    """Returns the scale of a quotient (select_div_scale)."""
    left_weight, left_group = _leading_group(left)
    right_weight, right_group = _leading_group(right)
    weight = left_weight - right_weight - (left_group <= right_group)
    wanted = max(_MIN_SIGNIFICANT_DIGITS - 4 * weight, scale(left), scale(right), 0)
    return min(wanted, MAX_DISPLAY_SCALE)


def divide_to_scale(left: Decimal, right: Decimal, digits: int) -> Decimal:
    """Divides finite numbers, and rounds half away from zero to `digits` decimals."""
    # One more digit, truncated, suffices for rounding half away from zero.
    quotient = EXACT.divide_int(left.scaleb(digits + 1, EXACT), right)
    return rescale(quotient.scaleb(-digits - 1, EXACT), digits)


def divide(left: Decimal, right: Decimal) -> Decimal:
    """left / right. Raises 22012, 22003."""
    if not (left.is_finite() and right.is_finite()):
        return _divide_special(left, right)
    if not right:
        raise division_by_zero()
    result = divide_to_scale(left, right, division_scale(left, right))
    if result.adjusted() > 131071:
        raise overflow()
    return result


def _divide_special(left: Decimal, right: Decimal) -> Decimal:
    if left.is_nan() or right.is_nan():
        return NAN
    if left.is_infinite():
        if right.is_infinite():
            return NAN
        if not right:
            raise division_by_zero()
        return INFINITY if (left > 0) == (right > 0) else -INFINITY
    return _ZERO


def divide_truncated(left: Decimal, right: Decimal) -> Decimal:
    """div(): the integer quotient, truncated towards zero. Raises 22012."""
    if not (left.is_finite() and right.is_finite()):
        return _divide_special(left, right)
    if not right:
        raise division_by_zero()
    result = EXACT.divide_int(left, right)
    return result if result else _ZERO


def modulo(left: Decimal, right: Decimal) -> Decimal:
    """Returns the remainder, with the sign of the dividend. Raises 22012."""
    if left.is_nan() or right.is_nan():
        return NAN
    if not right:
        raise division_by_zero()
    if left.is_infinite():
        return NAN
    if right.is_infinite():
        return left
    result = EXACT.remainder(left, right)
    return result if result else result.copy_abs()


def negate(value: Decimal) -> Decimal:
    return value.copy_negate() if value and not value.is_nan() else value


# ---- comparison -----------------------------------------------------------------------------------------------------


def _numeric_eq(left: Decimal, right: Decimal) -> bool:
    return left == right or (left.is_nan() and right.is_nan())


def _numeric_ne(left: Decimal, right: Decimal) -> bool:
    return left != right and not (left.is_nan() and right.is_nan())


def less(left: Decimal, right: Decimal) -> bool:
    if left.is_nan() or right.is_nan():
        return not left.is_nan()
    return left < right


def less_or_equal(left: Decimal, right: Decimal) -> bool:
    if left.is_nan() or right.is_nan():
        return right.is_nan()
    return left <= right


def compare(left: Decimal, right: Decimal) -> int:
    return 0 if _numeric_eq(left, right) else -1 if less(left, right) else 1


# ---- rounding -------------------------------------------------------------------------------------------------------


def round_to(value: Decimal, digits: int = 0) -> Decimal:
    """round(): rounds half away from zero; negative `digits` round before the point."""
    return _to_digits(value, digits, ROUND_HALF_UP)


def truncate_to(value: Decimal, digits: int = 0) -> Decimal:
    return _to_digits(value, digits, ROUND_DOWN)


def _to_digits(value: Decimal, digits: int, rounding: str) -> Decimal:
    if not value.is_finite():
        return value
    digits = min(max(digits, -140_000), MAX_SCALE)
    result = value.quantize(Decimal((0, (1,), -digits)), rounding=rounding, context=EXACT)
    if digits < 0:
        result = result.quantize(_ONE, context=EXACT) if result else _ZERO
    if result.adjusted() > 131071:
        raise overflow()
    return result if result else result.copy_abs()


def ceiling(value: Decimal) -> Decimal:
    return _to_digits_whole(value, ROUND_CEILING)


def floor(value: Decimal) -> Decimal:
    return _to_digits_whole(value, ROUND_FLOOR)


def _to_digits_whole(value: Decimal, rounding: str) -> Decimal:
    if not value.is_finite():
        return value
    result = value.quantize(_ONE, rounding=rounding, context=EXACT)
    return result if result else _ZERO


def sign(value: Decimal) -> Decimal:
    if value.is_nan():
        return NAN
    return _ONE if value > 0 else -_ONE if value < 0 else _ZERO


def _display_scale(value: Decimal) -> int | None:
    return scale(value) if value.is_finite() else None


def trim_scale(value: Decimal) -> Decimal:
    """Removes trailing zeros after the point."""
    if not value.is_finite():
        return value
    return rescale(value, min_scale(value))


def min_scale(value: Decimal) -> int:
    if not value:
        return 0
    sign_digits_exponent = value.as_tuple()
    digits, exponent = sign_digits_exponent.digits, int(sign_digits_exponent.exponent)
    last = len(digits)
    while exponent < 0 and digits[last - 1] == 0:
        last -= 1
        exponent += 1
    return max(-exponent, 0)


# ---- the DuckDB side ------------------------------------------------------------------------------------------------


def decimal_form(ref: TypeRef) -> tuple[int, int] | None:
    """Returns (p, s) of a numeric that is a DECIMAL(p,s) in DuckDB, else None."""
    if ref.typmod == -1:
        return None
    return precision_of(ref.typmod), scale_of(ref.typmod)


def decimal_type(precision: int, digits: int) -> TypeRef:
    """Returns the TypeRef of a value that is a DECIMAL(precision, digits) in DuckDB."""
    return TypeRef(NUMERIC, ((precision << 16) | digits) + 4)


_Forms = Sequence[tuple[int, int]]


def _forms(types: Sequence[TypeRef]) -> _Forms | None:
    forms = [decimal_form(ref) for ref in types]
    return None if None in forms else [form for form in forms if form]


def sum_form(types: Sequence[TypeRef]) -> TypeRef:
    """Returns the DuckDB type of a sum or difference, by DuckDB's own rule."""
    (left, left_scale), (right, right_scale) = (decimal_form(ref) or (0, 0) for ref in types)
    digits = max(left_scale, right_scale)
    whole = max(left - left_scale, right - right_scale) + 1
    return decimal_type(min(whole + digits, _MAX_DECIMAL_DIGITS), digits)


_SMALL_DECIMAL_DIGITS = 18  # DuckDB stores these in 64 bits, and raises an overflow instead of widening their product


def _wide_first(left: int, right: int) -> int:
    """Returns the precision of the first factor with which DuckDB's product does not overflow."""
    return max(left, _SMALL_DECIMAL_DIGITS + 1) if left + right > _SMALL_DECIMAL_DIGITS >= right else left


def product_form(types: Sequence[TypeRef]) -> TypeRef:
    (left, left_scale), (right, right_scale) = (decimal_form(ref) or (0, 0) for ref in types)
    return decimal_type(min(_wide_first(left, right) + right, _MAX_DECIMAL_DIGITS), left_scale + right_scale)


def _sum_side(symbol: str) -> Side:
    def side(arguments: Sequence[Sql], types: Sequence[TypeRef]) -> Sql | None:
        return fill(f"({{}} {symbol} {{}})", *arguments) if _forms(types) else None

    return side


def _product_side(arguments: Sequence[Sql], types: Sequence[TypeRef]) -> Sql | None:
    forms = _forms(types)
    if forms is None or forms[0][1] + forms[1][1] > _MAX_DECIMAL_DIGITS:
        return None
    (left, left_scale), (right, _) = forms
    first = arguments[0]
    if _wide_first(left, right) != left:
        first = fill("CAST({} AS DECIMAL({}, {}))", first, _wide_first(left, right), left_scale)
    return fill("({} * {})", first, arguments[1])


def _comparison_side(symbol: str) -> Side:
    def side(arguments: Sequence[Sql], types: Sequence[TypeRef]) -> Sql | None:
        forms = _forms(types)
        if forms is None or max(p - s for p, s in forms) + max(s for _, s in forms) > _MAX_DECIMAL_DIGITS:
            return None
        return fill(f"({{}} {symbol} {{}})", *arguments)

    return side


def _unary_side(template: str) -> Side:
    def side(arguments: Sequence[Sql], types: Sequence[TypeRef]) -> Sql | None:
        return fill(template, *arguments) if decimal_form(types[0]) else None

    return side


def _round_side(arguments: Sequence[Sql], types: Sequence[TypeRef]) -> Sql | None:
    form = decimal_form(types[0])
    if form is None:
        return None
    return fill("CAST({} AS DECIMAL({}, 0))", arguments[0], min(form[0] - form[1] + 1, _MAX_DECIMAL_DIGITS))


def _round_to_side(arguments: Sequence[Sql], types: Sequence[TypeRef]) -> Sql | None:
    """Returns round(x, constant) of a DECIMAL as text, because the types do not determine the scale of the result."""
    form, digits = decimal_form(types[0]), constant_integer(arguments[1])
    if form is None or digits is None or digits < 0:
        return None
    precision = form[0] - form[1] + 1 + digits
    if precision > _MAX_DECIMAL_DIGITS:
        return None
    return fill("CAST(CAST({} AS DECIMAL({}, {})) AS VARCHAR)", arguments[0], precision, digits)


def _whole_form(types: Sequence[TypeRef]) -> TypeRef:
    precision, digits = decimal_form(types[0]) or (0, 0)
    return decimal_type(min(precision - digits + 1, _MAX_DECIMAL_DIGITS), 0)


# ---- conversions ----------------------------------------------------------------------------------------------------

_NAMES_OF_SIZES = {2: "smallint", 4: "integer", 8: "bigint"}


def to_integer(size: int) -> Callable[[Decimal], int]:
    """Returns the cast of numeric to int2, int4 or int8, which rounds half away from zero. The cast raises 22003, and
    0A000 for NaN and infinity."""
    check, name = CHECKS[size], _NAMES_OF_SIZES[size]

    def convert(value: Decimal) -> int:
        if not value.is_finite():
            raise SqlError("0A000", f"cannot convert {'NaN' if value.is_nan() else 'infinity'} to {name}")
        if value.adjusted() > 19:
            raise SqlError("22003", f"{name} out of range")
        return check(int(value.to_integral_value(ROUND_HALF_UP, EXACT)))

    return convert


def from_float(digits: int) -> Callable[[float], Decimal]:
    """Returns the cast of float to numeric by its decimal form of 15 (float8) or 6 (float4) digits, as in
    PostgreSQL."""

    def convert(value: float) -> Decimal:
        if value - value != 0.0:
            return NAN if value != value else INFINITY if value > 0 else -INFINITY  # noqa: PLR0124
        result = Decimal(f"{value:.{digits}g}")
        if int(result.as_tuple().exponent) > 0:
            result = result.quantize(_ONE, context=EXACT)
        return result if result else result.copy_abs()

    return convert


def to_float8(value: Decimal) -> float:
    result = float(value)
    return result if result - result == 0.0 and result else parse_float8(format_numeric(value))


def to_float4(value: Decimal) -> float:
    return parse_float4(format_numeric(value))


def _to_double_side(arguments: Sequence[Sql], types: Sequence[TypeRef]) -> Sql | None:
    form = decimal_form(types[0])
    if form is None:
        return None
    # Up to 15 digits both coefficient and power of ten are exact doubles, so their quotient is rounded once; for more
    # digits only the text form gives the nearest double.
    return CastTo(arguments[0] if form[0] <= 15 else CastTo(arguments[0], VARCHAR), DOUBLE)


def _from_integer_form(precision: int) -> Callable[[Sequence[TypeRef]], TypeRef]:
    return lambda types: decimal_type(precision, 0)


def _to_integer_side(duck: str) -> Side:
    return _unary_side(f"CAST({{0}} AS {duck})")


def _register_arithmetic() -> None:
    implement("numeric_add", add, _sum_side("+"), duckdb_result=sum_form)
    implement("numeric_sub", subtract, _sum_side("-"), duckdb_result=sum_form)
    implement("numeric_mul", multiply, _product_side, duckdb_result=product_form)
    implement("numeric_div", divide)
    implement("numeric_div_trunc", divide_truncated)
    implement("numeric_mod", modulo)
    implement("numeric_uminus", negate, _unary_side("(-{0})"), duckdb_result=lambda types: types[0])
    implement("numeric_uplus", lambda value: value, _unary_side("{0}"), duckdb_result=lambda types: types[0])
    implement(
        "numeric_abs", lambda value: value.copy_abs(), _unary_side("abs({0})"), duckdb_result=lambda types: types[0]
    )
    implement("numeric_sign", sign)
    implement("numeric_inc", lambda value: add(value, _ONE))
    implement("numeric_scale", _display_scale)
    implement("numeric_min_scale", lambda value: min_scale(value) if value.is_finite() else None)
    implement("numeric_trim_scale", trim_scale)


def _register_comparisons() -> None:
    for suffix, symbol, function in (
        ("eq", "=", _numeric_eq),
        ("ne", "<>", _numeric_ne),
        ("lt", "<", less),
        ("le", "<=", less_or_equal),
        ("gt", ">", lambda left, right: less(right, left)),
        ("ge", ">=", lambda left, right: less_or_equal(right, left)),
    ):
        implement(f"numeric_{suffix}", function, _comparison_side(symbol))
    implement("numeric_larger", lambda left, right: left if less(right, left) else right)
    implement("numeric_smaller", lambda left, right: left if less(left, right) else right)


def _register_rounding() -> None:
    implement("round", round_to, _round_side, duckdb_result=_whole_form)
    implement("numeric_round", round_to, _round_to_side)
    implement("trunc", truncate_to)
    implement("numeric_trunc", truncate_to)
    implement("numeric_ceil", ceiling)
    implement("numeric_floor", floor)
    implement("numeric", lambda value, typmod: value if typmod < 4 else apply_typmod(typmod)(value))


def _register_conversions() -> None:
    for size, duck, precision in ((2, "SMALLINT", 5), (4, "INTEGER", 10), (8, "BIGINT", 19)):
        implement(f"int{size}_numeric", Decimal, f"CAST({{0}} AS DECIMAL({precision}, 0))",
                  duckdb_result=_from_integer_form(precision))  # fmt: skip
        implement(f"numeric_int{size}", to_integer(size), _to_integer_side(duck))
    implement("float4_numeric", from_float(6))
    implement("float8_numeric", from_float(15))
    implement("numeric_float4", to_float4)
    implement("numeric_float8", to_float8, _to_double_side)
    mark(Trait.NEVER_FAILS, "int2_numeric", "int4_numeric", "int8_numeric")
    mark(Trait.NEVER_FAILS, "float4_numeric", "float8_numeric", "numeric_float8")


_register_arithmetic()
mark(Trait.NEVER_FAILS, "numeric_uminus", "numeric_uplus")
_register_comparisons()
_register_rounding()
_register_conversions()
