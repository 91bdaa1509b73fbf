"""money: arithmetic in whole cents (PostgreSQL 16 manual, 8.2; cash.c)."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from decimal import MAX_PREC, ROUND_HALF_UP, Context, Decimal
from typing import Any

from catalog.errors import SqlError
from catalog.functions.registry import implement

_LEAST = -(1 << 63)
_EXACT = Context(MAX_PREC, traps=[])


def in_range(value: int, what: str = "money") -> int:
    if not _LEAST <= value < -_LEAST:
        raise SqlError("22003", f"{what} out of range")
    return value


def _round_cents(value: float) -> int:
    """Rounds half to even, as rint() does. Raises 22003."""
    if math.isnan(value) or abs(value) >= 2.0**63:
        raise SqlError("22003", "money out of range")
    return in_range(round(value))


def _not_zero(number: Any) -> Any:
    if number == 0:
        raise SqlError("22012", "division by zero")
    return number


def _quotient(value: int, number: int) -> int:
    whole = abs(value) // abs(_not_zero(number))
    return in_range(whole if (value < 0) == (number < 0) else -whole)


def _of_numeric(value: Decimal) -> int:
    if not value.is_finite():
        raise SqlError("0A000", f"cannot convert {'NaN' if value.is_nan() else 'infinity'} to bigint")
    if value.adjusted() > 18:
        raise SqlError("22003", "bigint out of range")
    return in_range(int(value.scaleb(2, _EXACT).quantize(Decimal(1), ROUND_HALF_UP, _EXACT)), "bigint")


def _of_integer(value: int) -> int:
    return in_range(value * 100, "bigint")


def _add_to_sum(state: Any, value: int) -> Any:
    return value if state is None else in_range(state + value)


def _choice_step(choose: Callable[[int, int], int]) -> Callable[[Any, int], Any]:
    return lambda state, value: value if state is None else choose(state, value)


def _register() -> None:
    for name in ("eq", "ne", "lt", "le", "gt", "ge"):
        implement(f"cash_{name}", getattr(operator, name))
    implement("cash_cmp", lambda left, right: int(left > right) - int(left < right))
    implement("cashlarger", max)
    implement("cashsmaller", min)
    implement("cash_pl", lambda left, right: in_range(left + right))
    implement("cash_mi", lambda left, right: in_range(left - right))
    implement("cash_div_cash", lambda left, right: float(left) / float(_not_zero(right)))
    for kind in ("int2", "int4", "int8"):
        implement(f"cash_mul_{kind}", lambda value, number: in_range(value * number))
        implement(f"{kind}_mul_cash", lambda number, value: in_range(value * number))
        implement(f"cash_div_{kind}", _quotient)
    for kind in ("flt4", "flt8"):
        implement(f"cash_mul_{kind}", lambda value, number: _round_cents(value * number))
        implement(f"{kind}_mul_cash", lambda number, value: _round_cents(value * number))
        implement(f"cash_div_{kind}", lambda value, number: _round_cents(value / _not_zero(number)))
    implement("int4_cash", _of_integer)
    implement("int8_cash", _of_integer)
    implement("numeric_cash", _of_numeric)
    implement("cash_numeric", lambda value: Decimal(value).scaleb(-2))
    for aggregate, step in (("sum", _add_to_sum), ("max", _choice_step(max)), ("min", _choice_step(min))):
        implement(f"{aggregate}(money)", python_aggregate=(lambda: None, step, lambda state: state))


_register()
