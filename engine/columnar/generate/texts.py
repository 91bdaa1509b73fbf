"""Converts values to text and back: input and output functions of the types.

DuckDB prints and reads most values as PostgreSQL does. If a simple test shows that both agree on a value (a year of
four digits, a number without exponent), DuckDB converts it; a UDF around the type's codec converts the others. Forms
that depend on session settings are native under the usual settings only, and clear `Generation.settings_free`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from catalog import types
from catalog.duckdb.nodes import CastTo, ColumnReference, Null, Sql, fill, join_parts, text_literal
from catalog.duckdb.types import BIGINT, VARCHAR, ListType, list_of
from catalog.errors import not_supported
from catalog.functions.composites import FIELD
from catalog.functions.duckdb_errors import raising_with
from catalog.functions.duckdb_sql import bind_once, evaluate_once
from catalog.types import oids
from catalog.types.array import ArrayType
from catalog.types.base import SqlType, TypeRef
from catalog.types.composite import CompositeType
from catalog.types.enum import EnumType
from catalog.types.named_objects import holds_names
from engine.columnar.generate.catalog_functions import codec
from engine.columnar.generate.forms import Piece, convert, form_of
from engine.columnar.generate.state import Generation
from engine.columnar.generate.udf import input_signature, output_signature, row_signature, udf_form

TEXTS = oids.COLLATABLE | {oids.CHAR, oids.UNKNOWN, oids.CSTRING}

UTC = frozenset({"UTC", "GMT", "Etc/UTC"})
_FOUR_DIGITS = "{0} BETWEEN '0001-01-01'::%s AND '9999-12-31'::%s"
_DATE = _FOUR_DIGITS % ("DATE", "DATE")
_TIMESTAMP = _FOUR_DIGITS % ("TIMESTAMP", "TIMESTAMP")
_SHORT_FLOAT = "abs({0}) >= 0.0001 AND abs({0}) < 1e15"
_FLOAT_TEXT = "CASE WHEN {0} = trunc({0}) THEN CAST(CAST({0} AS BIGINT) AS VARCHAR) ELSE CAST({0} AS VARCHAR) END"


def as_declared(piece: Piece, oid: int) -> Sql:
    """Casts an argument of a UDF to the type with which the UDF is registered. A cast to the same type is free."""
    return Null(udf_form(oid)) if piece.is_null else CastTo(piece.sql, udf_form(oid))


# ---- output ---------------------------------------------------------------------------------------------------------


def to_text(generation: Generation, piece: Piece, oid: int) -> Piece:
    """Returns the value as text, as the type's output function does."""
    if piece.fields:
        return record_text(generation, piece)
    if types.columns_of(oid).printed:
        return piece
    registered = codec(oid, "out")
    if registered is not None:
        return Piece(registered.make(generation, [piece.sql]), VARCHAR)
    if holds_names(known := types.lookup(oid)):
        return _names_text(generation, piece, known)
    if oid in oids.WHOLE_NUMBERS or oid in (oids.NUMERIC, oids.TIME):
        return convert(piece, VARCHAR)
    if oid == oids.BOOL:
        return _made(piece, "CASE WHEN {0} THEN 't' WHEN NOT {0} THEN 'f' END")
    if oid == oids.UUID:
        dashes = "'(.{8})(.{4})(.{4})(.{4})', '\\1-\\2-\\3-\\4-'"
        return Piece(fill("regexp_replace(lower(hex({})), {})", piece.sql, dashes), VARCHAR, once=piece.once)
    if oid == oids.RECORD:
        not_supported("text of this record")
    if isinstance(known, EnumType):
        return Piece(bind_once([piece.sql], lambda position: _label_of(known, position)), VARCHAR, once=piece.once)
    signature = output_signature(oid)
    if piece.once:
        return generation.udf(signature, [as_declared(piece, oid)], once=True)
    usual = _usual_output(generation, oid)
    if usual is None:
        return generation.udf(signature, [as_declared(piece, oid)])
    test, native = usual
    template = f"CASE WHEN {test} THEN {native} ELSE {{1}} END"

    def text(value: Sql) -> Sql:
        return fill(template, value, generation.call_udf(signature, [value]))

    return Piece(bind_once([piece.sql], text), VARCHAR)


def over_elements(generation: Generation, array: Piece, make: Callable[[Piece], Piece]) -> Piece:
    """Applies `make` to each element of a LIST. `make` reads names from the catalog by sub-queries, which a lambda may
    not contain, so the result is a sub-query. Raises 0A000 for an array that is not a LIST."""
    if not isinstance(array.form, ListType):
        not_supported("names of objects from and to the elements of such arrays on this query")
    alias = generation.alias()
    made = make(Piece(ColumnReference(alias, "x"), array.form.element))
    rows = fill("SELECT unnest({0}) AS x, generate_subscripts({0}, 1) AS n", array.sql)
    found = fill("coalesce((SELECT list({0} ORDER BY {1}.n) FROM ({2}) AS {1}), [])", made.sql, alias, rows)
    return Piece(fill("CASE WHEN {} IS NOT NULL THEN {} END", array.sql, found), list_of(made.form))


def _names_text(generation: Generation, piece: Piece, known: SqlType) -> Piece:
    """Returns the text of an array or a composite type that contains names of objects."""
    if isinstance(known, ArrayType):
        names = over_elements(generation, piece, lambda item: to_text(generation, item, known.element.oid))
        return to_text(generation, names, oids.TEXT_ARRAY)
    assert isinstance(known, CompositeType)
    fields = []
    for number, (_, type_) in enumerate(known.fields, 1):
        signature = row_signature(FIELD, [TypeRef(known.oid), TypeRef(oids.INT4)], type_, strict=True)
        field = generation.udf(signature, [piece.sql, number])
        fields.append(to_text(generation, field, type_.oid).sql)
    return Piece(_row_text(piece.sql, fields), VARCHAR)


def _label_of(enum: EnumType, position: Sql) -> Sql:
    """Returns SQL for the label of an enum value."""
    if not enum.labels:
        return Null(VARCHAR)
    branches = [fill("WHEN {} THEN {}", number, text_literal(label)) for label, number in enum.labels]
    return fill("CASE {} {} END", position, join_parts(" ", branches))


def _position_of(enum: EnumType, label: Sql) -> Sql:
    """Returns SQL for the enum value of a label; it raises 22P02 for another text."""
    message = text_literal(f"invalid input value for enum {types.format_type(enum.oid)}: ")
    error = raising_with("22P02", fill("{} || '\"' || {} || '\"'", message, label))
    missing = fill("CASE WHEN {} IS NOT NULL THEN {} END", label, error)
    if not enum.labels:
        return fill("{}::BIGINT", missing)
    branches = [fill("WHEN {} THEN ({})::BIGINT", text_literal(known), number) for known, number in enum.labels]
    return fill("CASE {} {} ELSE {} END", label, join_parts(" ", branches), missing)


def _made(piece: Piece, template: str) -> Piece:
    return Piece(evaluate_once([piece.sql], template), VARCHAR, once=piece.once)


def _usual_output(generation: Generation, oid: int) -> tuple[str, str] | None:
    """Returns (test of the value, its text) for values that DuckDB prints as PostgreSQL does under the session's
    settings; None if there are none."""
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
    """Returns the text of a record, such as '(1,"a b",)', as record_out does. A field is quoted if it is empty or
    contains a special character."""
    fields = [
        to_text(generation, Piece(fill("struct_extract({}, 'f{}')", piece.sql, number), form), type_.oid).sql
        for number, (type_, form) in enumerate(piece.fields, 1)
    ]
    return Piece(_row_text(piece.sql, fields), VARCHAR)


def _row_text(row: Sql, fields: Sequence[Sql]) -> Sql:
    quoted = """'"' || replace(replace({0}, '\\', '\\\\'), '"', '""') || '"'"""
    special = """{0} = '' OR regexp_matches({0}, '["\\\\(),\\s]')"""
    template = f"CASE WHEN {{0}} IS NULL THEN '' WHEN {special} THEN {quoted} ELSE {{0}} END"
    inner = join_parts(" || ',' || ", [evaluate_once([field], template) for field in fields] or ["''"])
    return fill("CASE WHEN {} IS NOT NULL THEN '(' || {} || ')' END", row, inner)


# ---- input ----------------------------------------------------------------------------------------------------------

# (pattern of the texts that DuckDB reads as PostgreSQL does, the value); if the value is NULL, the UDF reads the text
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
    """Returns the value of a text, as the type's input function does. The query raises its errors: 22P02, 22003, 22007,
    22008."""
    if target.oid == oids.RECORD:
        not_supported("input of records")
    registered = codec(target.oid, "in")
    if registered is not None:
        return Piece(registered.make(generation, [text.sql]), form_of(target.oid))
    if isinstance(known := types.lookup(target.oid), EnumType):
        return Piece(bind_once([text.sql], lambda label: _position_of(known, label)), BIGINT, once=text.once)
    signature = input_signature(target)
    readable = _READABLE.get(target.oid) if target.typmod < 0 and not text.once else None
    if readable is None:
        return generation.udf(signature, [text.sql], once=text.once)
    pattern, value = readable
    test = "regexp_full_match({0}, '" + pattern.replace("{", "{{").replace("}", "}}") + "')"
    native = value.replace("@", "{0}")
    if target.oid not in _SURE:
        native = f"coalesce({native}, {{1}})"
    template = f"CASE WHEN {test} THEN {native} ELSE {{1}} END"

    def read(value: Sql) -> Sql:
        return fill(template, value, generation.call_udf(signature, [value]))

    return Piece(bind_once([text.sql], read), form_of(target.oid))
