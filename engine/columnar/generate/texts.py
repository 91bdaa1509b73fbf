"""Values to text and back: input and output functions of the types.

DuckDB prints and reads much as PostgreSQL does, but not all. Where a simple test of the value tells that both agree
(a year of four digits, a number without exponent), DuckDB does it and only the odd values go through the UDF around the
type's own codec. What depends on session settings is native under the usual settings only, and is noted as such.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from catalog import types
from catalog.errors import not_supported
from catalog.functions.composites import FIELD
from catalog.functions.duckdb_errors import sql_error_call_of
from catalog.functions.duckdb_sql import evaluate_once
from catalog.types import oids
from catalog.types.array import ArrayType
from catalog.types.base import SqlType, TypeRef
from catalog.types.composite import CompositeType
from catalog.types.enum import EnumType
from catalog.types.naming import holds_names
from engine.columnar.generate.catalog_functions import codec
from engine.columnar.generate.forms import Piece, convert, form_of, text_literal
from engine.columnar.generate.state import Generation
from engine.columnar.generate.udf import input_signature, output_signature, row_signature, udf_form

TEXTS = oids.COLLATABLE | {oids.CHAR, oids.UNKNOWN, oids.CSTRING}

UTC = frozenset({"UTC", "GMT", "Etc/UTC"})
_FOUR_DIGITS = "{0} BETWEEN '0001-01-01'::%s AND '9999-12-31'::%s"
_DATE = _FOUR_DIGITS % ("DATE", "DATE")
_TIMESTAMP = _FOUR_DIGITS % ("TIMESTAMP", "TIMESTAMP")
_SHORT_FLOAT = "abs({0}) >= 0.0001 AND abs({0}) < 1e15"
_FLOAT_TEXT = "CASE WHEN {0} = trunc({0}) THEN CAST(CAST({0} AS BIGINT) AS VARCHAR) ELSE CAST({0} AS VARCHAR) END"


def as_declared(piece: Piece, oid: int) -> str:
    """An argument of a UDF in the type that the UDF is registered with. A cast that changes nothing costs nothing."""
    if piece.sql.startswith("NULL::"):
        return "NULL::" + udf_form(oid)
    return f"CAST({piece.sql} AS {udf_form(oid)})"


# ---- output ---------------------------------------------------------------------------------------------------------


def to_text(generation: Generation, piece: Piece, oid: int) -> Piece:
    """The output function of a type, as text."""
    if piece.fields:
        return record_text(generation, piece)
    if types.columns_of(oid).printed:
        return piece
    registered = codec(oid, "out")
    if registered is not None:
        return Piece(registered.make(generation, [piece.sql]), "VARCHAR")
    if holds_names(known := types.lookup(oid)):
        return _names_text(generation, piece, known)
    if oid in oids.WHOLE_NUMBERS or oid in (oids.NUMERIC, oids.TIME):
        return convert(piece, "VARCHAR")
    if oid == oids.BOOL:
        return _made(piece, "CASE WHEN {0} THEN 't' WHEN NOT {0} THEN 'f' END")
    if oid == oids.UUID:
        dashes = "'(.{8})(.{4})(.{4})(.{4})', '\\1-\\2-\\3-\\4-'"
        return Piece(f"regexp_replace(lower(hex({piece.sql})), {dashes})", "VARCHAR", once=piece.once)
    if oid == oids.RECORD:
        not_supported("text of this record")
    if isinstance(known, EnumType):
        return _made(piece, _label_of(known))
    signature = output_signature(oid)
    if piece.once:
        return Piece(generation.call_udf(signature, [as_declared(piece, oid)]), "VARCHAR", once=True)
    usual = _usual_output(generation, oid)
    if usual is None:
        return Piece(generation.call_udf(signature, [as_declared(piece, oid)]), "VARCHAR")
    test, native = usual
    other = generation.call_udf(signature, ["\x03"])
    return _made(piece, f"CASE WHEN {test} THEN {native} ELSE {_held(other)} END")


def over_elements(generation: Generation, array: Piece, make: Callable[[Piece], Piece]) -> Piece:
    """What `make` gives for each element of a LIST: a sub-query, for a lambda may hold none. `make` looks names up."""
    if array.once or not array.form.endswith("[]"):
        not_supported("names of objects from and to the elements of such arrays on this query")
    alias = generation.alias()
    made = make(Piece(f"{alias}.x", array.form[:-2]))
    rows = f"SELECT unnest({array.sql}) AS x, generate_subscripts({array.sql}, 1) AS n"
    found = f"coalesce((SELECT list({made.sql} ORDER BY {alias}.n) FROM ({rows}) AS {alias}), [])"
    return Piece(f"CASE WHEN {array.sql} IS NOT NULL THEN {found} END", made.form + "[]")


def _names_text(generation: Generation, piece: Piece, known: SqlType) -> Piece:
    """Of an array or a composite type that has names of objects in it."""
    if isinstance(known, ArrayType):
        names = over_elements(generation, piece, lambda item: to_text(generation, item, known.element.oid))
        return to_text(generation, names, oids.TEXT_ARRAY)
    assert isinstance(known, CompositeType)
    fields = []
    for number, (_, type_) in enumerate(known.fields, 1):
        signature = row_signature(FIELD, [TypeRef(known.oid), TypeRef(oids.INT4)], type_, strict=True)
        field = Piece(generation.call_udf(signature, [piece.sql, str(number)]), signature.result_duckdb)
        fields.append(to_text(generation, field, type_.oid).sql)
    return Piece(_row_text(piece.sql, fields), "VARCHAR")


def _label_of(enum: EnumType) -> str:
    """The label of a position: a template of SQL."""
    branches = " ".join(f"WHEN {position} THEN {_quoted(label)}" for label, position in enum.labels)
    return f"CASE {{0}} {branches} END" if branches else "NULL::VARCHAR"


def _position_of(enum: EnumType) -> str:
    """The position of a label: a template of SQL. Raises 22P02 for a text that is none."""
    branches = " ".join(f"WHEN {_quoted(label)} THEN ({position})::BIGINT" for label, position in enum.labels)
    message = _quoted(f"invalid input value for enum {types.format_type(enum.oid)}: ")
    error = sql_error_call_of("22P02", f"{message} || '\"' || {{0}} || '\"'")
    missing = f"WHEN {{0}} IS NOT NULL THEN {error}"
    if not branches:
        return f"CASE {missing} END::BIGINT"
    return f"CASE {{0}} {branches} ELSE CASE {missing} END END"


def _quoted(text: str) -> str:
    return text_literal(text).replace("{", "{{").replace("}", "}}")


def _held(call: str) -> str:
    """A call inside a template: its braces doubled, its argument the template's."""
    return call.replace("{", "{{").replace("}", "}}").replace("\x03", "{0}")


def _made(piece: Piece, template: str) -> Piece:
    return Piece(evaluate_once([piece.sql], template), "VARCHAR", once=piece.once)


def _usual_output(generation: Generation, oid: int) -> tuple[str, str] | None:
    """(test of the value, its text) where DuckDB prints what PostgreSQL does under the session's settings."""
    settings = generation.settings
    if oid == oids.FLOAT8 and settings.extra_float_digits > 0:
        return _SHORT_FLOAT, _FLOAT_TEXT
    if settings.date_style != "ISO":
        return None
    if oid == oids.DATE:
        return _DATE, "CAST({0} AS VARCHAR)"
    if oid == oids.TIMESTAMP:
        return _TIMESTAMP, "CAST({0} AS VARCHAR)"
    if oid == oids.TIMESTAMPTZ and settings.timezone in UTC:
        return _TIMESTAMP, "CAST({0} AS VARCHAR) || '+00'"
    return None


def record_text(generation: Generation, piece: Piece) -> Piece:
    """'(1,"a b",)': record_out. A field is quoted if it is empty or holds a character that means something there."""
    fields = [
        to_text(generation, Piece(f"struct_extract({piece.sql}, 'f{number}')", form), type_.oid).sql
        for number, (type_, form) in enumerate(piece.fields, 1)
    ]
    return Piece(_row_text(piece.sql, fields), "VARCHAR")


def _row_text(row: str, fields: Sequence[str]) -> str:
    quoted = """'"' || replace(replace({0}, '\\', '\\\\'), '"', '""') || '"'"""
    special = """{0} = '' OR regexp_matches({0}, '["\\\\(),\\s]')"""
    template = f"CASE WHEN {{0}} IS NULL THEN '' WHEN {special} THEN {quoted} ELSE {{0}} END"
    inner = " || ',' || ".join(evaluate_once([field], template) for field in fields) or "''"
    return f"CASE WHEN {row} IS NOT NULL THEN '(' || {inner} || ')' END"


# ---- input ----------------------------------------------------------------------------------------------------------

# (pattern of the texts that DuckDB reads as PostgreSQL does, the value); a value that comes out NULL is tried again
_READABLE: dict[int, tuple[str, str]] = {
    oids.INT2: (r" *[+-]?[0-9]{1,4} *", "CAST(@ AS SMALLINT)"),
    oids.INT4: (r" *[+-]?[0-9]{1,9} *", "CAST(@ AS INTEGER)"),
    oids.INT8: (r" *[+-]?[0-9]{1,18} *", "CAST(@ AS BIGINT)"),
    oids.FLOAT8: (r"[+-]?[0-9]{1,15}(\.[0-9]{1,15})?", "CAST(@ AS DOUBLE)"),
    oids.NUMERIC: (r"(-?[1-9][0-9]{0,30}|0)(\.[0-9]{1,30})?", "@"),
    oids.DATE: (r"[1-9][0-9]{3}-[0-9]{2}-[0-9]{2}", "TRY_CAST(@ AS DATE)"),
    oids.TIMESTAMP: (
        r"[1-9][0-9]{3}-[0-9]{2}-[0-9]{2} [0-2][0-9]:[0-5][0-9]:[0-5][0-9](\.[0-9]{1,6})?",
        "TRY_CAST(@ AS TIMESTAMP)",
    ),
}
_SURE = oids.INTEGERS | {oids.FLOAT8, oids.NUMERIC}


def from_text(generation: Generation, text: Piece, target: TypeRef) -> Piece:
    """The input function of a type. Raises what it raises: 22P02, 22003, 22007, 22008."""
    if target.oid == oids.RECORD:
        not_supported("input of records")
    registered = codec(target.oid, "in")
    if registered is not None:
        return Piece(registered.make(generation, [text.sql]), form_of(target.oid))
    if isinstance(known := types.lookup(target.oid), EnumType):
        return Piece(evaluate_once([text.sql], _position_of(known)), "BIGINT", once=text.once)
    signature = input_signature(target)
    readable = _READABLE.get(target.oid) if target.typmod < 0 and not text.once else None
    if readable is None:
        return Piece(generation.call_udf(signature, [text.sql]), signature.result_duckdb, once=text.once)
    pattern, value = readable
    other = _held(generation.call_udf(signature, ["\x03"]))
    test = "regexp_full_match({0}, '" + pattern.replace("{", "{{").replace("}", "}}") + "')"
    native = value.replace("@", "{0}")
    if target.oid not in _SURE:
        native = f"coalesce({native}, {other})"
    sql = evaluate_once([text.sql], f"CASE WHEN {test} THEN {native} ELSE {other} END")
    return Piece(sql, form_of(target.oid))
