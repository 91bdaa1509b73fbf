"""Physical forms: the DuckDB type in which a generated expression yields its value.

Most SQL types have one form. numeric has many: DECIMAL(p,s) where precision and display scale are known, and VARCHAR
('general numeric') where each value has its own scale, as in PostgreSQL. Where two forms meet (branches of CASE, rows
of VALUES, arms of a UNION), `unify` finds the form that keeps every value *and its display scale*: DECIMALs of one
scale stay DECIMAL, anything else becomes general. `convert` brings a piece there.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable
from typing import NamedTuple

from catalog import types
from catalog.types import oids
from catalog.types.base import TypeRef

GENERAL = "VARCHAR"
_DECIMAL = re.compile(r"DECIMAL\((\d+),(\d+)\)")
MAX_DIGITS = 38


class Piece(NamedTuple):
    """SQL of an expression (safe to put next to any operator), its form, and a record's fields: types and forms."""

    sql: str
    form: str
    fields: tuple[tuple[TypeRef, str], ...] = ()


@functools.lru_cache(maxsize=4096)
def form_of(oid: int, typmod: int = -1) -> str:
    """The DuckDB type that carries a stored value of this type. Raises 0A000 for types without one."""
    if oid == oids.VOID:
        return "VARCHAR"
    return types.lookup(oid).duckdb_type(typmod)


@functools.lru_cache(maxsize=4096)
def digits_of(form: str) -> tuple[int, int] | None:
    """(precision, scale) of a DECIMAL form; None for any other."""
    found = _DECIMAL.fullmatch(form)
    return (int(found[1]), int(found[2])) if found else None


def physical_type(type_: TypeRef, form: str) -> TypeRef:
    """The type as implementations see it: numeric has a modifier only if the value physically is a DECIMAL."""
    if type_.oid != oids.NUMERIC:
        return type_
    digits = digits_of(form)
    return TypeRef(oids.NUMERIC, ((digits[0] << 16) | digits[1]) + 4 if digits else -1)


def decimal_form(precision: int, scale: int) -> str:
    return f"DECIMAL({min(max(precision, 1), MAX_DIGITS)},{scale})"


def unify(first: str, second: str) -> str:
    """The form that holds values of both forms of one SQL type without loss of value or display scale."""
    if first == second:
        return first
    left, right = digits_of(first), digits_of(second)
    if left and right and left[1] == right[1]:
        return decimal_form(max(left[0], right[0]), left[1])
    if (left or right) and "[]" not in first + second:
        return GENERAL
    if first.endswith("[]") and second.endswith("[]"):
        return unify(first[:-2], second[:-2]) + "[]"
    return first


def unify_pieces(pieces: Iterable[Piece], null_form: str = "") -> str:
    """The form of several pieces. NULL constants fit anywhere: they count only if there is nothing else."""
    form = ""
    for piece in pieces:
        if piece.sql.startswith("NULL::"):
            continue
        form = unify(form, piece.form) if form else piece.form
    return form or null_form or next(iter(pieces)).form


def convert(piece: Piece, form: str) -> Piece:
    """The piece in another form of the same SQL type. DECIMAL to general keeps the digits that its scale shows."""
    if piece.form == form:
        return piece
    if piece.sql.startswith("NULL::"):
        return Piece("NULL::" + form, form, piece.fields)
    return Piece(f"CAST({piece.sql} AS {form})", form, piece.fields)


def common(pieces: list[Piece], null_form: str = "") -> tuple[list[Piece], str]:
    """All pieces brought to one form, and that form."""
    form = unify_pieces(pieces, null_form)
    return [convert(piece, form) for piece in pieces], form


_MARKS = re.compile("[\x01\x02\x03]")


def text_literal(text: str) -> str:
    """A DuckDB string literal. The characters that mark placeholders while SQL is put together are spelled out."""
    sql = "'" + text.replace("'", "''") + "'"
    if _MARKS.search(text):
        sql = "(" + _MARKS.sub(lambda found: f"' || chr({ord(found[0])}) || '", sql) + ")"
    return sql
