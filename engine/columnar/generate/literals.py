"""Constants and parameters as DuckDB SQL. Every literal says its type: DuckDB's own literal types never decide."""

from __future__ import annotations

import datetime
import decimal
import math
from collections.abc import Callable, Sequence
from typing import Any

from catalog import types
from catalog.errors import not_supported
from catalog.types import oids
from catalog.types.base import Array, Interval, TypeRef
from catalog.types.carried import CARRIED_AS_TEXT
from engine.columnar.generate.forms import MAX_DIGITS, Piece, decimal_form, form_of, is_whole, text_literal, unify
from engine.columnar.generate.state import MANY, Scope, makes
from engine.columnar.generate.udf import is_composite
from engine.sql import tree
from engine.storage.columns import ShapedArray

_EPOCH = datetime.date(2000, 1, 1)
_MOMENT = datetime.datetime(2000, 1, 1)
_DATE_RANGE = range((datetime.date.min - _EPOCH).days, (datetime.date.max - _EPOCH).days + 1)
_DAY = 86_400_000_000
_UNIX_OFFSET = 946_684_800_000_000  # 1970-01-01 to 2000-01-01
_TIMESTAMP_INFINITY, _DATE_INFINITY = 2**63 - 1, 2**31 - 1


def _whole(form: str) -> Callable[[Any, TypeRef], Piece]:
    def literal(value: Any, _: TypeRef) -> Piece:
        return Piece(f"{value}::{form}" if value >= 0 else f"({value})::{form}", form)

    return literal


def _boolean(value: Any, _: TypeRef) -> Piece:
    return Piece("TRUE" if value else "FALSE", "BOOLEAN")


def _float(form: str) -> Callable[[Any, TypeRef], Piece]:
    def literal(value: Any, _: TypeRef) -> Piece:
        return Piece(f"'{value!r}'::{form}" if math.isfinite(value) else f"'{value}'::{form}", form)

    return literal


def _text(value: Any, _: TypeRef) -> Piece:
    return Piece(text_literal(value) + "::VARCHAR", "VARCHAR")


def _numeric(value: decimal.Decimal, _: TypeRef) -> Piece:
    if value.is_finite():
        digits, exponent = value.as_tuple()[1:]
        assert isinstance(exponent, int)
        precision = max(len(digits), 1 - exponent)
        if precision <= MAX_DIGITS and exponent <= 0:
            form = decimal_form(precision, -exponent)
            return Piece(f"'{value:f}'::{form}", form)
    return Piece(_output(value, TypeRef(oids.NUMERIC)) + "::VARCHAR", "VARCHAR")


def _output(value: object, type_: TypeRef) -> str:
    """The value's text form as a string literal: for types that are carried as text."""
    return text_literal(types.lookup(type_.oid).text_encoder()(value).decode())


def _as_text(value: object, type_: TypeRef) -> Piece:
    return Piece(_output(value, type_) + "::VARCHAR", "VARCHAR")


def _bytes(value: Any, _: TypeRef) -> Piece:
    return Piece(f"from_hex('{value.hex()}')", "BLOB")


def _date(value: Any, _: TypeRef) -> Piece:
    if value == _DATE_INFINITY:
        return Piece("'infinity'::DATE", "DATE")
    if value == -_DATE_INFINITY - 1:
        return Piece("'-infinity'::DATE", "DATE")
    if value in _DATE_RANGE:
        return Piece(f"'{_EPOCH + datetime.timedelta(value)}'::DATE", "DATE")
    return Piece(f"(DATE '2000-01-01' + ({value})::INTEGER)", "DATE")


def _timestamp(value: Any, _: TypeRef) -> Piece:
    if value == _TIMESTAMP_INFINITY:
        return Piece("'infinity'::TIMESTAMP", "TIMESTAMP")
    if value == -_TIMESTAMP_INFINITY - 1:
        return Piece("'-infinity'::TIMESTAMP", "TIMESTAMP")
    if value // _DAY in _DATE_RANGE:
        return Piece(f"'{_MOMENT + datetime.timedelta(microseconds=value)}'::TIMESTAMP", "TIMESTAMP")
    return Piece(f"make_timestamp(({value + _UNIX_OFFSET})::BIGINT)", "TIMESTAMP")


def _time(value: Any, _: TypeRef) -> Piece:
    seconds, micro = divmod(value, 1_000_000)
    return Piece(f"'{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}.{micro:06}'::TIME", "TIME")


def _interval(value: Interval, _: TypeRef) -> Piece:
    months, days, micro = value
    sql = f"(to_months(({months})::INTEGER) + to_days(({days})::INTEGER) + to_microseconds(({micro})::BIGINT))"
    return Piece(sql, "INTERVAL")


_LITERALS: dict[int, Callable[[Any, TypeRef], Piece]] = {
    oids.BOOL: _boolean,
    oids.INT2: _whole("SMALLINT"),
    oids.INT4: _whole("INTEGER"),
    oids.INT8: _whole("BIGINT"),
    oids.FLOAT4: _float("FLOAT"),
    oids.FLOAT8: _float("DOUBLE"),
    oids.NUMERIC: _numeric,
    oids.TEXT: _text,
    oids.VARCHAR: _text,
    oids.BPCHAR: _text,
    oids.NAME: _text,
    oids.UNKNOWN: _text,
    oids.CSTRING: _text,
    oids.BYTEA: _bytes,
    oids.UUID: _bytes,
    oids.DATE: _date,
    oids.TIME: _time,
    oids.TIMESTAMP: _timestamp,
    oids.TIMESTAMPTZ: _timestamp,
    oids.INTERVAL: _interval,
}


def null(oid: int) -> Piece:
    """NULL of a type. `forms` knows it by its spelling: it takes any form."""
    form = "INTEGER" if oid == oids.RECORD else form_of(oid)
    return Piece("NULL::" + form, form)


def literal(value: object, type_: TypeRef) -> Piece:
    """A value in internal form as SQL."""
    if value is None:
        return null(type_.oid)
    maker = _LITERALS.get(type_.oid)
    if maker is not None:
        return maker(value, type_)
    if is_whole(type_.oid):
        return _as_text(value, type_)
    if isinstance(value, Array):
        return _array(value, type_)
    if isinstance(value, tuple) and type_.oid == oids.RECORD:
        not_supported("record constants on this query")
    form = form_of(type_.oid)
    if form in ("BIGINT", "UBIGINT"):
        return _whole(form)(value, type_)
    if form == "VARCHAR":
        return _as_text(value, type_)
    not_supported(f"constants of type {types.format_type(type_.oid)} on this query")


def _listed(numbers: Sequence[object]) -> str:
    """Integers and NULLs as in the text of a DuckDB list. A slice at a time: other threads get the interpreter between
    them."""
    slices = (numbers[start : start + MANY] for start in range(0, len(numbers), MANY))
    return ", ".join([repr(list(part))[1:-1] for part in slices]).replace("None", "NULL")


def _array(value: Array, type_: TypeRef) -> Piece:
    if len(value.dimensions) > 1 or (value.lower_bounds and value.lower_bounds != (1,)):
        raise ShapedArray
    element = types.element_of(type_.oid)
    if element in oids.INTEGERS and len(value.elements) >= MANY:  # as an expression for each they take DuckDB seconds
        return Piece(f"CAST('[{_listed(value.elements)}]' AS {form_of(element)}[])", f"{form_of(element)}[]")
    pieces = [literal(item, TypeRef(element)) for item in value.elements]
    form = form_of(element)
    if element == oids.NUMERIC and pieces:
        form = pieces[0].form
        for piece in pieces[1:]:
            form = unify(form, piece.form)
    items = ", ".join(piece.sql if piece.form == form else f"CAST({piece.sql} AS {form})" for piece in pieces)
    return Piece(f"[{items}]::{form}[]", form + "[]")


@makes(tree.Const)
def _const(scope: Scope, node: tree.Const) -> Piece:
    return literal(node.value, node.type)._replace(once=True)


@makes(tree.Param)
def _param(scope: Scope, node: tree.Param) -> Piece:
    form = form_of(node.type.oid)
    if is_composite(node.type.oid) or node.type.oid in CARRIED_AS_TEXT or is_whole(node.type.oid):
        scope.generation.texts[node.number] = node.type.oid
    elif is_composite(element := types.element_of(node.type.oid)) or element in CARRIED_AS_TEXT:
        not_supported("a parameter that is an array of this type on this query")
    return Piece(scope.generation.parameter(node.number, form), form, once=True)
