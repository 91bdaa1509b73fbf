"""Physical forms: the DuckDB type in which a generated expression yields its value.

Most SQL types have one form. numeric has many: DECIMAL(p,s) where precision and display scale are known, and VARCHAR
('general numeric') where each value has its own scale, as in PostgreSQL. Where two forms meet (branches of CASE, rows
of VALUES, arms of a UNION), `unify` finds the form that keeps every value *and its display scale*: DECIMALs of one
scale stay DECIMAL, anything else becomes general. `convert` brings a piece there.

Arrays are LISTs. A statement that has others, of several dimensions or not starting at 1, is generated with all arrays
of built-in types as their text (`arrays_as_text`); functions and comparisons of them are UDFs then.

char(n) of a stored table has the form CHAR(n) (`CharType`): the value without the blanks that pad it. What is compared,
grouped, counted, or handed on by a sub-query stays so; everything else gets the value with them from `settle`. CHAR(n)
comes from `state.compact_expression` and `state.scaled_expression` alone.

Between DECIMAL and general stands the *scaled* piece: a DECIMAL with room for all scales that meet, and SQL that says
how many digits after the point each value shows (`Piece.scale`). `CASE WHEN paid THEN price ELSE 0 END` is one: sums
and comparisons of it stay native, and only what is shown is turned into text by `settle`. Scaled pieces come from
`state.scaled_expression` alone; `state.expression` settles them.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterable, Iterator
from contextvars import ContextVar
from typing import NamedTuple

from catalog import types
from catalog.duckdb.nodes import CastTo, Null, Part, Sql, Words, constant_text, fill, string
from catalog.duckdb.types import VARCHAR, CharType, DecimalType, DuckDBType, ListType, char_type, list_of, parse_type
from catalog.duckdb.types import decimal_type as duckdb_decimal
from catalog.errors import not_supported
from catalog.functions.duckdb_sql import evaluate_once
from catalog.types import oids
from catalog.types.base import TypeRef
from catalog.types.text import has_blanks
from engine.storage.columns import takes_shapes

GENERAL = VARCHAR
MAX_DIGITS = 38


class Piece(NamedTuple):
    """The tree of an expression (safe to put next to any operator), its form, and a record's fields: types and forms.

    `once`: it has one value for the whole query. `scale`: the display scale of a scaled DECIMAL.
    """

    sql: Sql
    form: DuckDBType
    fields: tuple[tuple[TypeRef, DuckDBType], ...] = ()
    once: bool = False
    scale: Sql | None = None

    @property
    def is_null(self) -> bool:
        """Whether it is a bare NULL, which takes any form."""
        return isinstance(self.sql, Null)


_NOTHING = Words("")


def of_form(form: DuckDBType, fields: tuple[tuple[TypeRef, DuckDBType], ...] = ()) -> Piece:
    """What has a form, and no SQL yet: a column of a query."""
    return Piece(_NOTHING, form, fields)


_whole: ContextVar[bool] = ContextVar("_whole", default=False)


@contextlib.contextmanager
def arrays_as_text(whole: bool) -> Iterator[None]:
    """Whether what is generated inside carries arrays as text, which has any dimensions and bounds, or as LISTs."""
    token = _whole.set(whole)
    try:
        yield
    finally:
        _whole.reset(token)


def is_whole(oid: int) -> bool:
    """Whether values of the type are arrays that are carried as text now."""
    return _whole.get() and takes_shapes(oid)


def whole() -> bool:
    """Whether arrays are carried as text now."""
    return _whole.get()


_exact: ContextVar[bool] = ContextVar("_exact", default=False)


@contextlib.contextmanager
def numerics_as_text() -> Iterator[None]:
    """What is generated inside has all numerics in the general form: no result has too many digits for it."""
    token = _exact.set(True)
    try:
        yield
    finally:
        _exact.reset(token)


_short: ContextVar[list[bool] | None] = ContextVar("_short", default=None)
SHORT_DIGITS = 18  # a DECIMAL of so many is 64 bits


@contextlib.contextmanager
def short_products() -> Iterator[list[bool]]:
    """What is generated inside multiplies DECIMALs of 64 bits as such where the product may need more, and then fails.
    The list that it gives is empty where there are no such products."""
    used: list[bool] = []
    token = _short.set(used)
    try:
        yield used
    finally:
        _short.reset(token)


def short_product(left: DuckDBType, right: DuckDBType) -> DuckDBType | None:
    """The form of such a product: DuckDB's own rule. None where it is not asked for, or not needed."""
    used, forms = _short.get(), (digits_of(left), digits_of(right))
    if used is None or forms[0] is None or forms[1] is None:
        return None
    (one, scale), (other, more) = forms[0], forms[1]
    if max(one, other) > SHORT_DIGITS or one + other <= SHORT_DIGITS or scale + more >= SHORT_DIGITS:
        return None
    used.append(True)
    return decimal_form(SHORT_DIGITS, scale + more)


def form_of(oid: int, typmod: int = -1) -> DuckDBType:
    """The DuckDB type that carries a value of this type. Raises 0A000 for types without one."""
    return GENERAL if is_whole(oid) or (oid == oids.NUMERIC and _exact.get()) else stored_form(oid, typmod)


@functools.lru_cache(maxsize=4096)
def stored_form(oid: int, typmod: int) -> DuckDBType:
    """The same of a stored value, unless it is an array that is carried as text."""
    if oid == oids.VOID:
        return VARCHAR
    return parse_type(types.lookup(oid).duckdb_type(typmod))


def compact_form(type_: TypeRef, form: DuckDBType) -> DuckDBType:
    """The form of a column of a stored table, `form` being that of all other values of the type."""
    return char_type(type_.typmod - 4) if has_blanks(type_) else form


def digits_of(form: DuckDBType) -> tuple[int, int] | None:
    """(precision, scale) of a DECIMAL form; None for any other."""
    return (form.precision, form.scale) if isinstance(form, DecimalType) else None


def element_form(form: DuckDBType) -> DuckDBType:
    """The form of the elements of a LIST."""
    assert isinstance(form, ListType)
    return form.element


def physical_type(type_: TypeRef, form: DuckDBType) -> TypeRef:
    """The type as implementations see it: numeric has a modifier only if the value physically is a DECIMAL."""
    if type_.oid != oids.NUMERIC:
        return type_
    digits = digits_of(form)
    return TypeRef(oids.NUMERIC, ((digits[0] << 16) | digits[1]) + 4 if digits else -1)


def decimal_form(precision: int, scale: int) -> DuckDBType:
    return duckdb_decimal(min(max(precision, 1), MAX_DIGITS), scale)


def unify(first: DuckDBType, second: DuckDBType) -> DuckDBType:
    """The form that holds values of both forms of one SQL type without loss of value or display scale."""
    if first == second:
        return first
    if isinstance(first, CharType) or isinstance(second, CharType):
        return VARCHAR
    left, right = digits_of(first), digits_of(second)
    if left and right and left[1] == right[1]:
        return decimal_form(max(left[0], right[0]), left[1])
    if isinstance(first, ListType) and isinstance(second, ListType):
        return list_of(unify(first.element, second.element))
    if (left or right) and not isinstance(first, ListType) and not isinstance(second, ListType):
        return GENERAL
    return first


def unify_pieces(pieces: Iterable[Piece], null_form: DuckDBType | None = None) -> DuckDBType:
    """The form of several pieces. NULL constants fit anywhere: they count only if there is nothing else."""
    form: DuckDBType | None = None
    for piece in pieces:
        if piece.is_null:
            continue
        form = piece.form if form is None else unify(form, piece.form)
    return form or null_form or next(iter(pieces)).form


def convert(piece: Piece, form: DuckDBType) -> Piece:
    """The piece in another form of the same SQL type. DECIMAL to general keeps the digits that its scale shows."""
    if piece.form == form:
        return piece
    if piece.is_null:
        return Piece(Null(form), form, piece.fields)
    if isinstance(piece.form, CharType):
        return with_blanks(piece)
    if isinstance(piece.form, ListType) != isinstance(form, ListType):  # DuckDB's text of a LIST is not PostgreSQL's
        not_supported("arrays of several dimensions, or not starting at 1, with these LISTs on this query")
    if form == GENERAL:
        piece = _with_whole_digit(piece)
    return Piece(CastTo(piece.sql, form), form, piece.fields, piece.once)


def with_blanks(piece: Piece) -> Piece:
    """The value of char(n) with the blanks that pad it; any other piece as it is."""
    form = piece.form
    if not isinstance(form, CharType):
        return piece
    if piece.is_null:
        return piece._replace(sql=Null(VARCHAR), form=VARCHAR)
    text = constant_text(piece.sql)
    if text is not None:
        sql: Sql = string(text.ljust(form.length))
    else:  # a fifth of the time that rpad takes
        sql = fill("left({} || repeat(' ', {}), {})", piece.sql, form.length, form.length)
    return piece._replace(sql=sql, form=VARCHAR)


def _with_whole_digit(piece: Piece) -> Piece:
    """A DECIMAL as wide as its scale gets a digit before the point: DuckDB prints 0.5 as '.5' otherwise."""
    digits = digits_of(piece.form)
    if digits is None or digits[0] != digits[1]:
        return piece
    if digits[0] == MAX_DIGITS:
        not_supported("numeric(38, 38) in this expression")
    form = decimal_form(digits[0] + 1, digits[1])
    return piece._replace(sql=CastTo(piece.sql, form), form=form)


def shown_scale(piece: Piece) -> Part:
    """The number of digits after the point that a DECIMAL shows."""
    digits = digits_of(piece.form)
    return piece.scale or (digits[1] if digits else 0)


def settle(piece: Piece) -> Piece:
    """A scaled piece as general numeric: its text without the digits that it does not show, which are zeros. char(n)
    with its blanks."""
    shown = piece.scale
    if shown is None:
        return with_blanks(piece)
    piece = _with_whole_digit(piece)
    digits = digits_of(piece.form)
    assert digits is not None
    scale = digits[1]
    template = (
        f"CASE {{1}} WHEN {scale} THEN CAST({{0}} AS VARCHAR) WHEN 0 THEN left(CAST({{0}} AS VARCHAR), {-scale - 1}) "
        f"ELSE left(CAST({{0}} AS VARCHAR), CAST({{1}} - {scale} AS BIGINT)) END"
    )
    return Piece(evaluate_once([piece.sql, shown], template), GENERAL)


def rescaled(pieces: list[Piece]) -> DuckDBType | None:
    """The DECIMAL form with room for DECIMAL pieces of several scales; None where they need none, or do not fit."""
    whole, scales = 0, set()
    for piece in pieces:
        if piece.is_null:
            continue
        digits = digits_of(piece.form)
        if digits is None:
            return None
        whole = max(whole, digits[0] - digits[1])
        scales.add(piece.scale or digits[1])
    most = max((digits[1] for piece in pieces if (digits := digits_of(piece.form))), default=0)
    if whole + most > MAX_DIGITS or (len(scales) < 2 and not any(piece.scale for piece in pieces)):
        return None
    return decimal_form(whole + most, most)


def common(pieces: list[Piece], null_form: DuckDBType | None = None) -> tuple[list[Piece], DuckDBType]:
    """All pieces brought to one form, and that form."""
    form = unify_pieces(pieces, null_form)
    return [convert(piece, form) for piece in pieces], form
