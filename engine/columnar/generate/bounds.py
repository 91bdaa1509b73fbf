"""Comparisons with a constant, which is converted to the type of the other operand.

    d < timestamp '1995-01-01 00:00'     d < date '1995-01-01'
    d < timestamp '1995-01-01 12:00'     d <= date '1995-01-01'
    i > 7.5                              i > 7
    price < 24                           price < 24.00

Then DuckDB compares a column without a cast, and skips parts of a table by the column's statistics. A constant between
two values of the type is replaced by the lower one: `<` becomes `<=`, and `>=` becomes `>`. For other operators, and
for a constant outside of the type's range, the comparison does not change. There are two exceptions: a date is compared
for equality with a date that no row has (END_DATE), and a timestamp with a constant that is later than all columns
(END_TIMESTAMP, see literals.py).
"""

from __future__ import annotations

from decimal import Decimal
from typing import NamedTuple

from catalog.duckdb.nodes import Constant, Sql
from catalog.duckdb.types import DecimalType
from catalog.types import oids
from catalog.types.base import TypeRef
from catalog.types.datetime import (
    DATE_INFINITY,
    DATE_MINUS_INFINITY,
    END_DATE,
    END_TIMESTAMP,
    LATE_TIMESTAMP,
    MIN_TIMESTAMP,
    TIMESTAMP_INFINITY,
    TIMESTAMP_MINUS_INFINITY,
    USECS_PER_DAY,
)
from engine.sql import tree

MIRRORED = {"=": "=", "<>": "<>", "<": ">", "<=": ">=", ">": "<", ">=": "<=",
            "IS DISTINCT FROM": "IS DISTINCT FROM", "IS NOT DISTINCT FROM": "IS NOT DISTINCT FROM"}  # fmt: skip
_SUFFIXES = {"eq": "=", "ne": "<>", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}
_OF_DATES: dict[str, str] = {
    source: symbol
    for suffix, symbol in _SUFFIXES.items()
    for source in (f"date_{suffix}_timestamp", f"timestamp_{suffix}_date")
}
_BETWEEN = {"<": "<=", "<=": "<=", ">": ">", ">=": ">"}
_TO_NUMERIC = frozenset(("int2_numeric", "int4_numeric", "int8_numeric"))
_SAME_MOMENTS = ((oids.TIMESTAMP, oids.TIMESTAMP), (oids.TIMESTAMPTZ, oids.TIMESTAMPTZ))
_BITS = {oids.INT2: 16, oids.INT4: 32, oids.INT8: 64}


class Bound(NamedTuple):
    """A constant in the type of `operand`: equal to `value` (`is_exact`), or between `value` and the next value."""

    operand: tree.Expr
    value: object
    is_exact: bool


def cross_type_symbol(source: str) -> str | None:
    """Returns the operator of a comparison between dates and timestamps, by its prosrc; None for other functions."""
    return _OF_DATES.get(source)


def narrow_comparison(symbol: str, operand: tree.Expr, constant: tree.Expr) -> tuple[str, tree.Expr, tree.Expr] | None:
    """Returns the operator and the operands of a comparison with a constant, with the constant in the type of the other
    operand; None if there is no constant, if the types are equal already, or if the constant cannot be converted."""
    if isinstance(operand, tree.Const):
        operand, constant, symbol = constant, operand, MIRRORED[symbol]
    if not isinstance(constant, tree.Const) or isinstance(operand, tree.Const) or constant.value is None:
        return None
    bound = _find_bound(operand, constant)
    if bound is None:
        return None
    if not bound.is_exact:
        if symbol in _BETWEEN:
            symbol = _BETWEEN[symbol]
        elif bound.operand.type.oid == oids.DATE:
            bound = bound._replace(value=END_DATE)  # no row has this date
        else:
            return None
    type_ = TypeRef(bound.operand.type.oid)
    return symbol, bound.operand, tree.Const(bound.value, type_, constant.location)


def _find_bound(operand: tree.Expr, constant: tree.Const) -> Bound | None:
    kinds = (operand.type.oid, constant.type.oid)
    if kinds == (oids.DATE, oids.TIMESTAMP):
        return _date_of(operand, constant.value)
    if kinds == (oids.TIMESTAMP, oids.DATE):
        return _timestamp_of(operand, constant.value)
    if kinds in _SAME_MOMENTS and isinstance(constant.value, int) and LATE_TIMESTAMP <= constant.value < END_TIMESTAMP:
        return Bound(operand, END_TIMESTAMP, True)
    if kinds[0] in _BITS and kinds[1] in _BITS and kinds[0] != kinds[1]:
        return _integer_of(operand, constant.value)
    is_whole = isinstance(operand, tree.FuncExpr) and operand.function.source in _TO_NUMERIC
    if is_whole and isinstance(constant.value, Decimal) and constant.value.is_finite():
        assert isinstance(operand, tree.FuncExpr)
        floor, rest = _divide(constant.value, 0)
        found = _integer_of(operand.arguments[0], floor)
        return found and found._replace(is_exact=not rest)
    return None


def _date_of(operand: tree.Expr, value: object) -> Bound:
    assert isinstance(value, int)
    if value == TIMESTAMP_INFINITY:
        return Bound(operand, DATE_INFINITY, True)
    if value == TIMESTAMP_MINUS_INFINITY:
        return Bound(operand, DATE_MINUS_INFINITY, True)
    day, rest = divmod(value, USECS_PER_DAY)
    return Bound(operand, day, not rest)


def _timestamp_of(operand: tree.Expr, value: object) -> Bound | None:
    assert isinstance(value, int)
    if value == DATE_INFINITY:
        return Bound(operand, TIMESTAMP_INFINITY, True)
    if value == DATE_MINUS_INFINITY:
        return Bound(operand, TIMESTAMP_MINUS_INFINITY, True)
    moment = value * USECS_PER_DAY
    if moment >= LATE_TIMESTAMP:
        moment = END_TIMESTAMP
    return Bound(operand, moment, True) if moment >= MIN_TIMESTAMP else None


def _integer_of(operand: tree.Expr, value: object) -> Bound | None:
    half = 1 << (_BITS[operand.type.oid] - 1)
    return Bound(operand, value, True) if isinstance(value, int) and -half <= value < half else None


def _divide(value: Decimal, scale: int) -> tuple[int, int]:
    """Divides a finite number by 10**-scale. Returns the quotient, rounded down, and the remainder."""
    sign, digits, exponent = value.as_tuple()
    assert isinstance(exponent, int)
    number = int("".join(map(str, digits)) or "0") * (-1 if sign else 1)
    shift = exponent + scale
    return (number * 10**shift, 0) if shift >= 0 else divmod(number, 10**-shift)


def narrow_decimal(symbol: str, form: DecimalType, constant: Sql) -> tuple[str, Sql] | None:
    """Returns the operator and the constant for the comparison of a DECIMAL of this form with a DECIMAL constant, with
    the constant in the same form; None if the form is the same already or cannot hold it."""
    if not isinstance(constant, Constant) or not isinstance(constant.value, Decimal) or constant.type == form:
        return None
    steps, rest = _divide(constant.value, form.scale)
    if rest:
        if symbol not in _BETWEEN:
            return None
        symbol = _BETWEEN[symbol]
    if abs(steps) >= 10**form.precision:
        return None
    value = Decimal((int(steps < 0), tuple(map(int, str(abs(steps)))), -form.scale))
    return symbol, Constant(f"'{value:f}'::{form}", value, form)
