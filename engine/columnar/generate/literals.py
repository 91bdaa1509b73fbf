"""Constants and parameters as DuckDB SQL. Every literal has a cast, so that DuckDB does not choose its type."""

from __future__ import annotations

import datetime
import decimal
import math
from collections.abc import Callable, Sequence
from typing import Any

from catalog import types
from catalog.duckdb.nodes import CastTo, Constant, Null, comma_list, fill, integer, string
from catalog.duckdb.types import (
    BIGINT,
    BLOB,
    BOOLEAN,
    DATE,
    DOUBLE,
    FLOAT,
    INTEGER,
    INTERVAL,
    SMALLINT,
    TIME,
    TIMESTAMP,
    UBIGINT,
    VARCHAR,
    DecimalType,
    DuckDBType,
    char_type,
    list_of,
)
from catalog.errors import not_supported
from catalog.types import oids
from catalog.types.base import Array, Interval, TypeRef
from catalog.types.carried import is_carried_as_text
from catalog.types.datetime import END_TIMESTAMP, LATE_TIMESTAMP
from engine.columnar.generate.forms import MAX_DIGITS, Piece, decimal_form, form_of, is_whole, stored_form, unify
from engine.columnar.generate.state import MANY, Scope, makes
from engine.columnar.generate.udf import is_composite
from engine.columnar.literals import LATE
from engine.sql import tree
from engine.storage.columns import ShapedArray

_EPOCH = datetime.date(2000, 1, 1)
_MOMENT = datetime.datetime(2000, 1, 1)
_DATE_RANGE = range((datetime.date.min - _EPOCH).days, (datetime.date.max - _EPOCH).days + 1)
_DAY = 86_400_000_000
_UNIX_OFFSET = 946_684_800_000_000  # 1970-01-01 to 2000-01-01
_TIMESTAMP_INFINITY, _DATE_INFINITY = 2**63 - 1, 2**31 - 1


def _whole(form: DuckDBType) -> Callable[[Any, TypeRef], Piece]:
    return lambda value, _: Piece(integer(value, form), form)


def _boolean(value: Any, _: TypeRef) -> Piece:
    return Piece(Constant("TRUE" if value else "FALSE", value, BOOLEAN, simple=True), BOOLEAN)


def _quoted(written: object, value: object, form: DuckDBType) -> Piece:
    """Returns the literal 'written'::form."""
    return Piece(Constant(f"'{written}'::{form}", value, form, simple=not isinstance(form, DecimalType)), form)


def _float(form: DuckDBType) -> Callable[[Any, TypeRef], Piece]:
    return lambda value, _: _quoted(repr(value) if math.isfinite(value) else value, value, form)


def _text(value: Any, _: TypeRef) -> Piece:
    return Piece(string(value), VARCHAR)


def _numeric(value: decimal.Decimal, type_: TypeRef) -> Piece:
    if value.is_finite():
        digits, exponent = value.as_tuple()[1:]
        assert isinstance(exponent, int)
        precision = max(len(digits), 1 - exponent)
        declared = stored_form(oids.NUMERIC, type_.typmod)
        if isinstance(declared, DecimalType) and declared.scale == -exponent:  # visible in COPY's Arrow types
            precision = max(precision, declared.precision)
        if precision <= MAX_DIGITS and exponent <= 0:
            return _quoted(f"{value:f}", value, decimal_form(precision, -exponent))
    return _as_text(value, TypeRef(oids.NUMERIC))


def _as_text(value: object, type_: TypeRef) -> Piece:
    """Returns the value's text form as a string, for types whose DuckDB form is text."""
    return Piece(string(types.lookup(type_.oid).carrier().text_encoder()(value).decode()), VARCHAR)


def _bytes(value: Any, _: TypeRef) -> Piece:
    return Piece(Constant(f"from_hex('{value.hex()}')", value, BLOB), BLOB)


def _date(value: Any, _: TypeRef) -> Piece:
    if value == _DATE_INFINITY:
        return _quoted("infinity", value, DATE)
    if value == -_DATE_INFINITY - 1:
        return _quoted("-infinity", value, DATE)
    if value in _DATE_RANGE:
        return _quoted(_EPOCH + datetime.timedelta(value), value, DATE)
    return Piece(Constant(f"(DATE '2000-01-01' + ({value})::INTEGER)", value, DATE), DATE)


def _timestamp(value: Any, _: TypeRef) -> Piece:
    if value == _TIMESTAMP_INFINITY:
        return _quoted("infinity", value, TIMESTAMP)
    if value == -_TIMESTAMP_INFINITY - 1:
        return _quoted("-infinity", value, TIMESTAMP)
    if value >= LATE_TIMESTAMP:
        if value != END_TIMESTAMP:
            not_supported(LATE)
        value = LATE_TIMESTAMP  # stands for all later timestamps: bounds.py
    if value // _DAY in _DATE_RANGE:
        return _quoted(_MOMENT + datetime.timedelta(microseconds=value), value, TIMESTAMP)
    return Piece(Constant(f"make_timestamp(({value + _UNIX_OFFSET})::BIGINT)", value, TIMESTAMP), TIMESTAMP)


def _time(value: Any, _: TypeRef) -> Piece:
    seconds, micro = divmod(value, 1_000_000)
    return _quoted(f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}.{micro:06}", value, TIME)


def _interval(value: Interval, _: TypeRef) -> Piece:
    months, days, micro = value
    sql = f"(to_months(({months})::INTEGER) + to_days(({days})::INTEGER) + to_microseconds(({micro})::BIGINT))"
    return Piece(Constant(sql, value, INTERVAL), INTERVAL)


_LITERALS: dict[int, Callable[[Any, TypeRef], Piece]] = {
    oids.BOOL: _boolean,
    oids.INT2: _whole(SMALLINT),
    oids.INT4: _whole(INTEGER),
    oids.INT8: _whole(BIGINT),
    oids.FLOAT4: _float(FLOAT),
    oids.FLOAT8: _float(DOUBLE),
    oids.NUMERIC: _numeric,
    oids.TEXT: _text,
    oids.VARCHAR: _text,
    oids.BPCHAR: _text,
    oids.NAME: _text,
    oids.UNKNOWN: _text,
    oids.CSTRING: _text,
    oids.XML: _text,
    oids.BYTEA: _bytes,
    oids.TID: _bytes,
    oids.UUID: _bytes,
    oids.DATE: _date,
    oids.TIME: _time,
    oids.TIMESTAMP: _timestamp,
    oids.TIMESTAMPTZ: _timestamp,
    oids.INTERVAL: _interval,
}


def null(oid: int) -> Piece:
    """Returns NULL of a type."""
    form = INTEGER if oid == oids.RECORD else form_of(oid)
    return Piece(Null(form), form)


def literal(value: object, type_: TypeRef) -> Piece:
    """Returns the literal of a value in internal form. Raises 0A000 for a type without literals."""
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
    if form in (BIGINT, UBIGINT):
        return _whole(form)(value, type_)
    if form == VARCHAR:
        return _as_text(value, type_)
    not_supported(f"constants of type {types.format_type(type_.oid)} on this query")


def _listed(numbers: Sequence[object]) -> str:
    """Returns integers and NULLs as in the text of a DuckDB list. Formats them in slices, between which other threads
    can run."""
    slices = (numbers[start : start + MANY] for start in range(0, len(numbers), MANY))
    return ", ".join([repr(list(part))[1:-1] for part in slices]).replace("None", "NULL")


def _array(value: Array, type_: TypeRef) -> Piece:
    if len(value.dimensions) > 1 or (value.lower_bounds and value.lower_bounds != (1,)):
        raise ShapedArray
    element = types.element_of(type_.oid)
    form = form_of(element)
    if element in oids.INTEGERS and len(value.elements) >= MANY:  # DuckDB takes seconds to parse so many expressions
        many = list_of(form)
        return Piece(Constant(f"CAST('[{_listed(value.elements)}]' AS {many})", value, many), many)
    pieces = [literal(item, TypeRef(element)) for item in value.elements]
    if element == oids.NUMERIC and pieces:
        form = pieces[0].form
        for piece in pieces[1:]:
            form = unify(form, piece.form)
    items = comma_list([piece.sql if piece.form == form else CastTo(piece.sql, form) for piece in pieces])
    return Piece(fill("[{}]::{}", items, list_of(form)), list_of(form))


@makes(tree.Const)
def _const(scope: Scope, node: tree.Const) -> Piece:
    if node.type.oid == oids.BPCHAR and isinstance(node.value, str):  # the form of columns, for comparisons with them
        return Piece(string(node.value.rstrip(" ")), char_type(len(node.value)), once=True)
    return literal(node.value, node.type)._replace(once=True)


@makes(tree.Param)
def _param(scope: Scope, node: tree.Param) -> Piece:
    form = form_of(node.type.oid)
    if is_composite(node.type.oid) or is_carried_as_text(node.type.oid) or is_whole(node.type.oid):
        scope.generation.texts[node.number] = node.type.oid
    elif is_composite(element := types.element_of(node.type.oid)) or is_carried_as_text(element):
        not_supported("a parameter that is an array of this type on this query")
    return Piece(scope.generation.parameter(node.number, form), form, once=True)
