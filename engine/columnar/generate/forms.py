"""Physical forms: the DuckDB type of a generated expression's value.

Most SQL types have one form. numeric has many: DECIMAL(p,s) if precision and display scale are known, and VARCHAR
('general numeric') if each value has its own scale, as in PostgreSQL. If two forms meet (branches of CASE, rows of
VALUES, arms of a UNION), `unify` returns the form that keeps every value *and its display scale*: DECIMALs of one scale
stay DECIMAL, other combinations become general. `convert` converts a piece to a form.

Arrays are LISTs. A statement with other arrays, of several dimensions or not starting at 1, is generated with all
arrays of built-in types as text (`arrays_as_text`); their functions and comparisons are then UDFs.

char(n) of a stored table has the form CHAR(n) (`CharType`): the value without its padding blanks. Comparisons,
grouping, counts and output columns of sub-queries use this form; for other uses `settle` adds the blanks. Only
`state.compact_expression` and `state.scaled_expression` return CHAR(n).

A *scaled* piece is between DECIMAL and general: a DECIMAL with room for all scales, and SQL for the number of digits
after the point that each value shows (`Piece.scale`). `CASE WHEN paid THEN price ELSE 0 END` is an example: sums and
comparisons of it stay native, and `settle` converts only the output to text. Only `state.scaled_expression` returns
scaled pieces; `state.expression` settles them.
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
    """The tree of an expression (it needs no parentheses), its form, and the types and forms of a record's fields.

    `once`: the expression has one value for the whole query. `scale`: the display scale of a scaled DECIMAL.
    """

    sql: Sql
    form: DuckDBType
    fields: tuple[tuple[TypeRef, DuckDBType], ...] = ()
    once: bool = False
    scale: Sql | None = None

    @property
    def is_null(self) -> bool:
        """Whether the expression is a bare NULL, which can have any form."""
        return isinstance(self.sql, Null)


_NOTHING = Words("")


def of_form(form: DuckDBType, fields: tuple[tuple[TypeRef, DuckDBType], ...] = ()) -> Piece:
    """Returns a piece with a form and without SQL, for a column of a query."""
    return Piece(_NOTHING, form, fields)


_whole: ContextVar[bool] = ContextVar("_whole", default=False)


@contextlib.contextmanager
def arrays_as_text(whole: bool) -> Iterator[None]:
    """Selects the form of arrays in the SQL that is generated inside: text, which has any dimensions and bounds
    (`whole`), or LISTs."""
    token = _whole.set(whole)
    try:
        yield
    finally:
        _whole.reset(token)


def is_whole(oid: int) -> bool:
    """Whether the type is an array type whose current form is text."""
    return _whole.get() and takes_shapes(oid)


def whole() -> bool:
    """Whether the current form of arrays is text."""
    return _whole.get()


_exact: ContextVar[bool] = ContextVar("_exact", default=False)


@contextlib.contextmanager
def numerics_as_text() -> Iterator[None]:
    """Selects the general form for all numerics in the SQL that is generated inside. It has any number of digits."""
    token = _exact.set(True)
    try:
        yield
    finally:
        _exact.reset(token)


_short: ContextVar[list[bool] | None] = ContextVar("_short", default=None)
SHORT_DIGITS = 18  # the most digits of a DECIMAL in 64 bits


@contextlib.contextmanager
def short_products() -> Iterator[list[bool]]:
    """Multiplies DECIMALs in 64 bits in the SQL that is generated inside, even if a product may need more and then
    fails. Yields a list, which stays empty if there are no such products."""
    used: list[bool] = []
    token = _short.set(used)
    try:
        yield used
    finally:
        _short.reset(token)


def short_product(left: DuckDBType, right: DuckDBType) -> DuckDBType | None:
    """Returns the form of a product in 64 bits by DuckDB's own rule. None outside of `short_products`, if an operand
    has more than 18 digits, if the product cannot have more, or if its scale is 18 or more."""
    used, forms = _short.get(), (digits_of(left), digits_of(right))
    if used is None or forms[0] is None or forms[1] is None:
        return None
    (one, scale), (other, more) = forms[0], forms[1]
    if max(one, other) > SHORT_DIGITS or one + other <= SHORT_DIGITS or scale + more >= SHORT_DIGITS:
        return None
    used.append(True)
    return decimal_form(SHORT_DIGITS, scale + more)


def form_of(oid: int, typmod: int = -1) -> DuckDBType:
    """Returns the DuckDB type of values of this type. Raises 0A000 for types without one."""
    return GENERAL if is_whole(oid) or (oid == oids.NUMERIC and _exact.get()) else stored_form(oid, typmod)


@functools.lru_cache(maxsize=4096)
def stored_form(oid: int, typmod: int) -> DuckDBType:
    """Returns the DuckDB type of stored values; arrays are LISTs."""
    if oid == oids.VOID:
        return VARCHAR
    return parse_type(types.lookup(oid).duckdb_type(typmod))


def compact_form(type_: TypeRef, form: DuckDBType) -> DuckDBType:
    """Returns the form of a column of a stored table; `form` is that of other values of the type."""
    return char_type(type_.typmod - 4) if has_blanks(type_) else form


def digits_of(form: DuckDBType) -> tuple[int, int] | None:
    """Returns (precision, scale) of a DECIMAL form; None for other forms."""
    return (form.precision, form.scale) if isinstance(form, DecimalType) else None


def element_form(form: DuckDBType) -> DuckDBType:
    """Returns the form of a LIST's elements."""
    assert isinstance(form, ListType)
    return form.element


def physical_type(type_: TypeRef, form: DuckDBType) -> TypeRef:
    """Returns the type that implementations see: numeric has a modifier only if the value is a DECIMAL in DuckDB."""
    if type_.oid != oids.NUMERIC:
        return type_
    digits = digits_of(form)
    return TypeRef(oids.NUMERIC, ((digits[0] << 16) | digits[1]) + 4 if digits else -1)


def decimal_form(precision: int, scale: int) -> DuckDBType:
    return duckdb_decimal(min(max(precision, 1), MAX_DIGITS), scale)


def unify(first: DuckDBType, second: DuckDBType) -> DuckDBType:
    """Returns the form that holds values of two forms of one SQL type without loss of value or display scale."""
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
    """Returns the common form of several pieces. Bare NULLs count only if there are no other pieces."""
    form: DuckDBType | None = None
    for piece in pieces:
        if piece.is_null:
            continue
        form = piece.form if form is None else unify(form, piece.form)
    return form or null_form or next(iter(pieces)).form


def convert(piece: Piece, form: DuckDBType) -> Piece:
    """Converts the piece to another form of the same SQL type. A DECIMAL keeps its display scale. Raises 0A000 for
    conversions between LISTs and the text of arrays."""
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
    """Adds the padding blanks to a char(n); returns other pieces unchanged."""
    form = piece.form
    if not isinstance(form, CharType):
        return piece
    if piece.is_null:
        return piece._replace(sql=Null(VARCHAR), form=VARCHAR)
    text = constant_text(piece.sql)
    if text is not None:
        sql: Sql = string(text.ljust(form.length))
    else:  # takes a fifth of rpad's time
        sql = fill("left({} || repeat(' ', {}), {})", piece.sql, form.length, form.length)
    return piece._replace(sql=sql, form=VARCHAR)


def _with_whole_digit(piece: Piece) -> Piece:
    """Adds a digit before the point to a DECIMAL whose precision is its scale, because DuckDB prints such a 0.5 as
    '.5'. Raises 0A000 for numeric(38, 38)."""
    digits = digits_of(piece.form)
    if digits is None or digits[0] != digits[1]:
        return piece
    if digits[0] == MAX_DIGITS:
        not_supported("numeric(38, 38) in this expression")
    form = decimal_form(digits[0] + 1, digits[1])
    return piece._replace(sql=CastTo(piece.sql, form), form=form)


def shown_scale(piece: Piece) -> Part:
    """Returns the number of digits after the point that a DECIMAL shows, as a number or as SQL."""
    digits = digits_of(piece.form)
    return piece.scale or (digits[1] if digits else 0)


def settle(piece: Piece) -> Piece:
    """Converts a scaled piece to a general numeric: its text without the hidden digits, which are zeros. Adds the
    blanks to a char(n)."""
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
    """Returns the DECIMAL form with room for DECIMAL pieces of several scales; None if they have one scale, or if 38
    digits do not suffice."""
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
    """Converts all pieces to one form, and returns them and the form."""
    form = unify_pieces(pieces, null_form)
    return [convert(piece, form) for piece in pieces], form
