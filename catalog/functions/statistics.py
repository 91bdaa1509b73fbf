"""Statistical and ordered-set aggregates: variances, regressions, mode and percentiles.

PostgreSQL 16 manual, 9.21; float.c and numeric.c. Variances of exact numbers are computed exactly from count, sum and
sum of squares. Variances of floats use the Youngs-Cramer method, as in PostgreSQL, because the last digits depend on
the method; DuckDB uses another one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any

from catalog.duckdb.nodes import Sql, fill
from catalog.errors import SqlError
from catalog.functions.aggregates import accumulate, call
from catalog.functions.base import AggregateSteps, Function, Side, udf_name
from catalog.functions.floats import overflow
from catalog.functions.numeric import (
    decimal_form,
    divide_to_scale,
    division_scale,
    rescale,
    scale,
)
from catalog.functions.registry import declare, implement
from catalog.types import lookup
from catalog.types.base import Array, Interval, TypeRef
from catalog.types.numeric import EXACT, NAN
from catalog.types.oids import NUMERIC

_ZERO = Decimal(0)
_NAMES = (  # name, whether of a sample, whether the square root
    ("var_pop", False, False), ("var_samp", True, False), ("variance", True, False),
    ("stddev_pop", False, True), ("stddev_samp", True, True), ("stddev", True, True),
)  # fmt: skip


# ---- variances of exact numbers ----


def exact_variance(count: Decimal, total: Decimal, squares: Decimal, sample: bool, root: bool) -> Decimal | None:
    """numeric_stddev_internal: computes a variance from exact sums, or with `root` a standard deviation. None if it is
    not defined."""
    if count <= (1 if sample else 0):
        return None
    if not (total.is_finite() and squares.is_finite()):
        return NAN
    digits = 2 * scale(total)
    difference = EXACT.subtract(rescale(EXACT.multiply(count, squares), digits), EXACT.multiply(total, total))
    if difference <= 0:
        return _ZERO
    divisor = count * (count - 1 if sample else count)
    digits = division_scale(difference, divisor)
    result = divide_to_scale(difference, divisor, digits)
    return square_root_to_scale(result, digits) if root else result


def square_root_to_scale(value: Decimal, digits: int) -> Decimal:
    context = EXACT.copy()
    context.prec = max(value.adjusted() // 2 + digits + 12, 20)
    return rescale(context.sqrt(value), digits)


def _exact_steps(sample: bool, root: bool) -> AggregateSteps:
    def step(state: Any, value: Any) -> Any:
        number = Decimal(value)
        if state is None:
            return 1, number, _square(number)
        count, total, squares = state
        return count + 1, _plus(total, number), _plus(squares, _square(number))

    def final(state: Any) -> Any:
        return None if state is None else exact_variance(Decimal(state[0]), state[1], state[2], sample, root)

    return (lambda: None), step, final


def _square(value: Decimal) -> Decimal:
    return EXACT.multiply(value, value) if value.is_finite() else NAN


def _plus(left: Decimal, right: Decimal) -> Decimal:
    return EXACT.add(left, right) if left.is_finite() and right.is_finite() else NAN


def _declare_final(oid: int, name: str, sample: bool, root: bool) -> str:
    """Declares a function of (count, sum, sum of squares), which the DuckDB side calls once for each group."""
    source = f"{name}_of_sums"
    declare(
        Function(oid=oid, name=source, source=source, kind="f", strict=True, returns_set=False, volatility="i",
                 argument_types=(NUMERIC,) * 3, result_type=NUMERIC, variadic=0, default_count=0),
        inner=True,
    )  # fmt: skip
    implement(source, lambda count, total, squares: exact_variance(count, total, squares, sample, root))
    return source


_LONGEST_SQUARED = 15  # digits of a DECIMAL whose sum of squares fits 38 digits


def _exact_side(source: str) -> Side:
    def side(arguments: Sequence[Sql], types: Sequence[TypeRef]) -> Sql | None:
        form, wide = decimal_form(types[0]), "BIGINT"
        if types[0].oid == NUMERIC:
            if form is None or form[0] > _LONGEST_SQUARED or 2 * form[1] > 38:
                return None
            wide = f"DECIMAL(19, {form[1]})"
        # The squares are computed from the list of values, because DISTINCT applies to values: 1 and -1 have the same
        # square.
        squares = f"list_sum(list_transform({call('list')}, lambda v: CAST(v AS {wide}) * CAST(v AS {wide})))"
        parts = (call("count"), call("sum"), squares)
        texts = ", ".join(f"CAST({part} AS VARCHAR)" for part in parts)
        return fill(f"{udf_name(source)}({texts})", *arguments)

    return side


def _exact_variances() -> None:
    for number, (name, sample, root) in enumerate(_NAMES):
        source = _declare_final(9000 + number, name, sample, root)
        side = _exact_side(source)
        for of in ("int2", "int4", "int8", "numeric"):
            # The squares of int8 do not fit, so int8 has only the Python side.
            duckdb, udfs = (None, ()) if of == "int8" else (side, (source,))
            implement(f"{name}({of})", duckdb=duckdb, duckdb_udfs=udfs, python_aggregate=_exact_steps(sample, root))


# ---- variances of floats ----


def _float_final(sample: bool, root: bool) -> Callable[[Any], Any]:
    def final(state: Any) -> Any:
        if state is None or (sample and state[0] <= 1.0):
            return None
        result = state[2] / (state[0] - 1.0 if sample else state[0])
        return math.sqrt(result) if root else result

    return final


def _float_variances() -> None:
    for name, sample, root in _NAMES:
        for of in ("float4", "float8"):
            implement(f"{name}({of})", python_aggregate=((lambda: None), accumulate, _float_final(sample, root)))


# ---- regressions ----

_Sums = tuple[float, float, float, float, float, float]  # count, Sx, Sxx, Sy, Syy, Sxy


def regression_step(state: _Sums | None, y: float, x: float) -> _Sums:
    """float8_regr_accum. The first argument is the dependent variable."""
    if state is None:
        x_bad, y_bad = x - x != 0.0, y - y != 0.0
        nan = math.nan
        return 1.0, x, nan if x_bad else 0.0, y, nan if y_bad else 0.0, nan if x_bad or y_bad else 0.0
    count, sx, sxx, sy, syy, sxy = state
    new_count, new_sx, new_sy = count + 1.0, sx + x, sy + y
    dx, dy, factor = x * new_count - new_sx, y * new_count - new_sy, 1.0 / (new_count * count)
    sxx, syy, sxy = sxx + dx * dx * factor, syy + dy * dy * factor, sxy + dx * dy * factor
    isinf = math.isinf
    if isinf(new_sx) or isinf(sxx) or isinf(new_sy) or isinf(syy) or isinf(sxy):
        x_finite, y_finite = not isinf(sx) and not isinf(x), not isinf(sy) and not isinf(y)
        if (
            ((isinf(new_sx) or isinf(sxx)) and x_finite)
            or ((isinf(new_sy) or isinf(syy)) and y_finite)
            or (isinf(sxy) and x_finite and y_finite)
        ):
            raise overflow()
        sxx, syy, sxy = (math.nan if isinf(item) else item for item in (sxx, syy, sxy))
    return new_count, new_sx, sxx, new_sy, syy, sxy


def _correlation(sums: _Sums) -> float | None:
    _, _, sxx, _, syy, sxy = sums
    return None if sxx == 0.0 or syy == 0.0 else sxy / math.sqrt(sxx * syy)


def _determination(sums: _Sums) -> float | None:
    _, _, sxx, _, syy, sxy = sums
    if sxx == 0.0:
        return None
    return 1.0 if syy == 0.0 else (sxy * sxy) / (sxx * syy)


def _intercept(sums: _Sums) -> float | None:
    count, sx, sxx, sy, _, sxy = sums
    return None if sxx == 0.0 else (sy - sx * sxy / sxx) / count


def _regressions() -> None:
    finals: dict[str, Callable[[_Sums], object]] = {
        "regr_sxx": lambda s: s[2],
        "regr_syy": lambda s: s[4],
        "regr_sxy": lambda s: s[5],
        "regr_avgx": lambda s: s[1] / s[0],
        "regr_avgy": lambda s: s[3] / s[0],
        "regr_r2": _determination,
        "regr_slope": lambda s: None if s[2] == 0.0 else s[5] / s[2],
        "regr_intercept": _intercept,
        "covar_pop": lambda s: s[5] / s[0],
        "covar_samp": lambda s: None if s[0] < 2.0 else s[5] / (s[0] - 1.0),
        "corr": _correlation,
    }
    for name, final in finals.items():
        implement(f"{name}(float8,float8)", python_aggregate=((lambda: None), regression_step, _unless_empty(final)))
    counting: AggregateSteps = (int, lambda state, y, x: state + 1, lambda state: state)
    implement("regr_count(float8,float8)", duckdb=f"CAST({call('regr_count', '{0}, {1}')} AS BIGINT)",
              python_aggregate=counting)  # fmt: skip


def _unless_empty(final: Callable[[_Sums], object]) -> Callable[[Any], object]:
    return lambda state: None if state is None else final(state)


# ---- ordered-set aggregates ----


def _mode(types: Sequence[TypeRef], result: TypeRef) -> AggregateSteps:
    key = lookup(types[-1].oid).sort_key() or (lambda value: value)

    def final(state: list[Any]) -> object:
        """Returns the first of the most frequent values. The values are sorted."""
        best, best_count, current, count = None, 0, None, 0
        for value in state:
            same = count and key(value) == key(current)
            count = count + 1 if same else 1
            current = current if same else value
            if count > best_count:
                best, best_count = current, count
        return best

    return list, _append, final


def _append(state: Any, value: Any) -> Any:
    state[-1].append(value) if isinstance(state, tuple) else state.append(value)
    return state


def _checked_fraction(fraction: float) -> float:
    if not 0.0 <= fraction <= 1.0:
        raise SqlError("22003", f"percentile value {fraction:g} is not between 0 and 1")
    return fraction


def _discrete(values: list[Any], fraction: float) -> object:
    row = math.ceil(_checked_fraction(fraction) * len(values))
    return values[max(row, 1) - 1]


def _continuous(interpolate: Callable[[Any, Any, float], Any]) -> Callable[[list[Any], float], object]:
    def compute(values: list[Any], fraction: float) -> object:
        position = _checked_fraction(fraction) * (len(values) - 1)
        first, second = math.floor(position), math.ceil(position)
        if first == second:
            return values[first]
        return interpolate(values[first], values[second], position - first)

    return compute


def _between_intervals(low: Interval, high: Interval, part: float) -> Interval:
    """Returns low + (high - low) * part, with fractions of months and days carried down as in interval_mul."""
    months, days = (high.months - low.months) * part, (high.days - low.days) * part
    whole_months, whole_days = math.trunc(months), math.trunc(days)
    rest_days = round((months - whole_months) * 30 * 1_000_000) / 1_000_000
    seconds = (days - whole_days + rest_days - math.trunc(rest_days)) * 86400
    seconds = round(seconds * 1_000_000) / 1_000_000
    carried = math.trunc(seconds / 86400) if abs(seconds) >= 86400 else 0
    microseconds = round((high.microseconds - low.microseconds) * part + (seconds - carried * 86400) * 1_000_000)
    return Interval(
        low.months + whole_months,
        low.days + whole_days + math.trunc(rest_days) + carried,
        low.microseconds + microseconds,
    )


def _percentile(compute: Callable[[list[Any], float], object]) -> AggregateSteps:
    """Returns the steps of a percentile. The state is (fraction or array of fractions, the sorted values). A NULL
    fraction gives NULL."""

    def start(fraction: Any) -> Any:
        return fraction, []

    def final(state: Any) -> object:
        fraction, values = state
        if isinstance(fraction, float):
            _checked_fraction(fraction)
        if fraction is None or not values:
            return None
        if isinstance(fraction, Array):
            results = (None if item is None else compute(values, item) for item in fraction.elements)  # type: ignore[arg-type]
            return Array(tuple(results), fraction.dimensions, fraction.lower_bounds)
        return compute(values, fraction)

    return start, _append, final


def _ordered_sets() -> None:
    implement("mode(anyelement)", aggregate_for_types=_mode)
    floats = _continuous(lambda low, high, part: low + part * (high - low))
    for fraction in ("float8", "_float8"):
        implement(f"percentile_disc({fraction},anyelement)", python_aggregate=_percentile(_discrete))
        implement(f"percentile_cont({fraction},float8)", python_aggregate=_percentile(floats))
        implement(
            f"percentile_cont({fraction},interval)", python_aggregate=_percentile(_continuous(_between_intervals))
        )


_exact_variances()
_float_variances()
_regressions()
_ordered_sets()
