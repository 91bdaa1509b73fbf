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


_SMALL = (
    "zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve",
    "thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen",
)  # fmt: skip
_TENS = ["zero", "ten", "twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"]
_GROUPS = ("quadrillion", "trillion", "billion", "million", "thousand", "")


def _in_words(number: int) -> str:
    """A number below 1,000 as cash.c writes it: 'one hundred and five', 'one hundred twenty three'."""
    hundreds, rest = divmod(number, 100)
    if rest < 20:
        below = _SMALL[rest]
    else:
        below = _TENS[rest // 10] + (f" {_SMALL[rest % 10]}" if rest % 10 else "")
    if not hundreds:
        return below
    above = f"{_SMALL[hundreds]} hundred"
    if not rest:
        return above
    return f"{above} and {below}" if rest < 20 else f"{above} {below}"


def words(value: int) -> str:
    """cash_words(): 'Minus one dollar and twenty cents'."""
    dollars, cents = divmod(abs(value), 100)
    text = "minus " if value < 0 else ""
    for place, group in enumerate(_GROUPS):
        if number := dollars // 1000 ** (len(_GROUPS) - 1 - place) % 1000:
            text += f"{_in_words(number)} {group} " if group else _in_words(number)  # two blanks before 'dollars'
    if not dollars:
        text += "zero"
    text += f" dollar{'' if dollars == 1 else 's'} and {_in_words(cents)} cent{'' if cents == 1 else 's'}"
    return text[0].upper() + text[1:]


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
    implement("cash_words", words)
    implement("cash_numeric", lambda value: Decimal(value).scaleb(-2))
    for aggregate, step in (("sum", _add_to_sum), ("max", _choice_step(max)), ("min", _choice_step(min))):
        implement(f"{aggregate}(money)", python_aggregate=(lambda: None, step, lambda state: state))


_register()
