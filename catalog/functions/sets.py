"""Set-returning functions over numbers and arrays: generate_series and unnest (PostgreSQL 16 manual, 9.26).

The Python side returns an iterable of rows. The DuckDB side returns a LIST of rows, which the caller unnests.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from decimal import Decimal

from catalog.errors import SqlError
from catalog.functions.duckdb_errors import sql_error_call
from catalog.functions.duckdb_sql import once
from catalog.functions.integers import LIMITS
from catalog.functions.numeric import add
from catalog.functions.registry import implement
from catalog.types.base import Array


def _zero_step() -> SqlError:
    return SqlError("22023", "step size cannot equal zero")


def _series(size: int) -> Callable[..., Iterable[int]]:
    """Returns generate_series for integers of `size` bytes. The series ends without an error if the next value would be
    out of the type's range."""
    limit = LIMITS[size]

    def series(start: int, stop: int, step: int = 1) -> Iterable[int]:
        if step == 0:
            raise _zero_step()
        return range(start, min(stop + 1, limit), step) if step > 0 else range(start, max(stop - 1, -limit - 1), step)

    return series


def numeric_series(start: Decimal, stop: Decimal, step: Decimal = Decimal(1)) -> Iterator[Decimal]:
    """generate_series(numeric). Raises 22023 for NaN and infinity, and for a step of zero."""
    for value, name in ((start, "start"), (stop, "stop"), (step, "step size")):
        if not value.is_finite():
            what = "NaN" if value.is_nan() else "infinity"
            raise SqlError(
                "22023", f"{name} value cannot be {what}" if name != "step size" else f"step size cannot be {what}"
            )
    if not step:
        raise _zero_step()
    return _numeric_values(start, stop, step)


def _numeric_values(current: Decimal, stop: Decimal, step: Decimal) -> Iterator[Decimal]:
    while current <= stop if step > 0 else current >= stop:
        yield current
        current = add(current, step)


def unnest(array: Array) -> Iterable[object]:
    return array.elements


# For steps other than 1, DuckDB's series also ends at the range of BIGINT, as PostgreSQL's does.
_ZERO_STEP = sql_error_call("22023", "step size cannot equal zero")
_STEPS = "(CASE WHEN {2} = 0 AND {0} IS NOT NULL AND {1} IS NOT NULL THEN " + _ZERO_STEP + " ELSE @ END)"
_CAST4 = "CAST(generate_series({0}::BIGINT, {1}::BIGINT, {2}::BIGINT) AS INTEGER[])"

implement("generate_series_int4", _series(4), "CAST(generate_series({0}::BIGINT, {1}::BIGINT) AS INTEGER[])")
implement("generate_series_step_int4", _series(4), once(_STEPS.replace("@", _CAST4)))
implement("generate_series_int8", _series(8), "generate_series({0}::BIGINT, {1}::BIGINT)")
implement("generate_series_step_int8", _series(8), once(_STEPS.replace("@", "generate_series({0}, {1}, {2})")))
implement("generate_series_numeric", numeric_series)
implement("generate_series_step_numeric", numeric_series)
implement("array_unnest", unnest, "{0}")
