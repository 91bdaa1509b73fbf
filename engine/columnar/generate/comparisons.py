"""Equality and order: types that DuckDB compares as PostgreSQL does, and types that are compared by keys.

native      booleans, integers, floats (NaN is highest and equals itself in both), text types (binary order is the C
            collation), bytea, uuid, dates, times, interval (months of 30 days in both), DECIMAL with DECIMAL, arrays
            and records of these
by rtrim    bpchar: trailing blanks do not count; char(n) of tables and of constants has none (forms.py)
by key      general numeric, jsonb, timetz, citext, hstore, tsvector, inet, cidr, text under an ICU collation: the bytes
            of the type's key_encoder
"""

from __future__ import annotations

from collections.abc import Sequence

from catalog import types
from catalog.duckdb.nodes import ColumnReference, Identifier, Part, Sql, comma_list, fill
from catalog.duckdb.types import CharType, DecimalType, DuckDBType, ListType, decimal_type
from catalog.errors import not_supported
from catalog.types import oids
from catalog.types.base import Order, TypeRef
from catalog.types.collated_oids import FIRST_OID as FIRST_COLLATED
from engine.columnar.generate.bounds import MIRRORED, narrow_decimal
from engine.columnar.generate.forms import GENERAL, MAX_DIGITS, Piece, convert, digits_of, is_whole, of_form, unify
from engine.columnar.generate.state import Generation
from engine.columnar.generate.udf import is_composite, key_signature

_SYMBOLS = {"eq": "=", "ne": "<>", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}
# fmt: off
_PREFIXES = (
    "bool", "int2", "int4", "int8", "int24", "int42", "int28", "int82", "int48", "int84", "float4", "float8", "float48",
    "float84", "text", "name", "nametext", "textname", "bytea", "oid", "char", "uuid_", "date_", "time_", "timestamp_",
    "timestamptz_", "interval_", "numeric_", "bpchar", "jsonb_", "timetz_", "array_", "record_", "enum_", "range_",
    "citext_", "hstore_", "multirange_", "tid", "tsvector_", "network_", "collated_",
)
# fmt: on

# prosrc of a comparison -> its symbol in DuckDB, over `comparable_pair`
COMPARISONS: dict[str, str] = {prefix + suffix: symbol for prefix in _PREFIXES for suffix, symbol in _SYMBOLS.items()}


def key_of(generation: Generation, piece: Piece, oid: int) -> Sql:
    """Returns SQL of the bytes of the type's key encoder."""
    return generation.call_udf(key_signature(oid), [convert(piece, GENERAL).sql])


def is_by_key(piece: Piece, oid: int) -> bool:
    """Whether values of the piece are compared by their keys."""
    if oid == oids.NUMERIC:
        return piece.form == GENERAL
    by_key = types.columns_of(oid).order is Order.BY_KEY
    return by_key or oid >= FIRST_COLLATED or is_composite(oid) or is_whole(oid)


def comparable(generation: Generation, piece: Piece, oid: int) -> Sql:
    """Returns SQL whose order, equality and hash in DuckDB are those of the type; the piece's own SQL if possible.
    Raises 0A000 for a type that cannot be compared."""
    if oid == oids.BPCHAR:
        return piece.sql if isinstance(piece.form, CharType) else fill("rtrim({}, ' ')", piece.sql)
    if is_composite(oid) and types.lookup(oid).key_encoder() is None:
        not_supported(f"comparison of type {types.format_type(oid)} on this query")
    if is_by_key(piece, oid):
        return key_of(generation, piece, oid)
    if types.columns_of(oid).order is Order.NONE:
        not_supported(f"comparison of type {types.format_type(oid)}")
    element = types.element_of(oid)
    if element:
        comparable_element(element, piece.form.element if isinstance(piece.form, ListType) else piece.form)
    return piece.sql if is_native(piece, oid) else _comparable_record(generation, piece)


def _comparable_record(generation: Generation, piece: Piece) -> Sql:
    """Returns a record of the keys of the fields. Raises 0A000 for a field of a type without an order: PostgreSQL
    raises an error only if all earlier fields of two rows are equal, and DuckDB compares whole rows."""
    for type_, _ in piece.fields:
        if types.columns_of(type_.oid).order is Order.NONE:
            not_supported(f"comparison of rows with a field of type {types.format_type(type_.oid)} on this query")
    if not isinstance(piece.sql, ColumnReference | Identifier):
        not_supported("comparison of computed rows with fields that are compared by keys, on this query")
    keys = []
    for n, (type_, form) in enumerate(piece.fields, 1):
        field = Piece(fill("struct_extract({}, 'f{}')", piece.sql, n), form)
        keys.append(fill("'f{}': {}", n, comparable(generation, field, type_.oid)))
    return fill("CASE WHEN {} IS NOT NULL THEN {{{}}} END", piece.sql, comma_list(keys))


def comparable_element(oid: int, form: DuckDBType) -> None:
    """Raises 0A000 for arrays whose elements DuckDB compares in another way than PostgreSQL."""
    by_key = is_composite(oid) or oid == oids.BPCHAR or types.columns_of(oid).order is not Order.NATIVE
    if by_key or (oid == oids.NUMERIC and form == GENERAL):
        not_supported(f"comparison of type {types.format_type(types.array_of(oid))} on this query")


def is_native(piece: Piece, oid: int) -> bool:
    """Whether DuckDB groups and compares the piece as PostgreSQL does, without a key."""
    if piece.fields and oid == oids.RECORD:
        return all(is_native(of_form(form), types.element_of(type_.oid) or type_.oid) for type_, form in piece.fields)
    if oid == oids.NUMERIC:
        return piece.form != GENERAL
    if oid == oids.BPCHAR:
        return isinstance(piece.form, CharType)
    return (
        oid < FIRST_COLLATED
        and not (is_composite(oid) or is_whole(oid))
        and types.columns_of(oid).order is Order.NATIVE
    )


def comparable_pair(generation: Generation, left: Piece, right: Piece, oids_: tuple[int, int]) -> tuple[Sql, Sql]:
    """Returns comparable SQL of both operands. If one is a general numeric, the other becomes general."""
    if oids_ == (oids.NUMERIC, oids.NUMERIC) and not (digits_of(left.form) and digits_of(right.form)):
        if left.form != right.form:
            left, right = convert(left, GENERAL), convert(right, GENERAL)
    elif oids_[0] != oids_[1] and (is_composite(oids_[0]) or is_composite(oids_[1])):
        not_supported("comparison of rows of different types on this query")
    elif isinstance(left.form, ListType) and left.form != right.form:
        form = unify(left.form, right.form)
        left, right = convert(left, form), convert(right, form)
    return comparable(generation, left, oids_[0]), comparable(generation, right, oids_[1])


def compare(generation: Generation, symbol: str, left: Piece, right: Piece, oids_: tuple[int, int]) -> Sql:
    """Returns `left symbol right` with the semantics of PostgreSQL's operator for these types."""
    if oids_ == (oids.NUMERIC, oids.NUMERIC):
        if left.once and left.form == GENERAL and _bounded(right):
            return fill(
                "({} {} {})", right.sql, MIRRORED[symbol], _bound(generation, symbol, left, right, mirrored=True)
            )
        if right.once and right.form == GENERAL and _bounded(left):
            return fill("({} {} {})", left.sql, symbol, _bound(generation, symbol, right, left))
        if isinstance(left.form, DecimalType) and (found := narrow_decimal(symbol, left.form, right.sql)):
            return fill("({} {} {})", left.sql, *found)
        if isinstance(right.form, DecimalType) and (found := narrow_decimal(MIRRORED[symbol], right.form, left.sql)):
            return fill("({} {} {})", right.sql, *found)
    first, second = comparable_pair(generation, left, right, oids_)
    return fill("({} {} {})", first, symbol, second)


_ROUNDED = {"<": "up", ">=": "up", "<=": "down", ">": "down"}


def _bounded(piece: Piece) -> bool:
    digits = digits_of(piece.form)
    return digits is not None and digits[0] < MAX_DIGITS and not piece.once


def _bound(generation: Generation, symbol: str, value: Piece, column: Piece, mirrored: bool = False) -> Sql:
    """Returns the bound with which a DECIMAL column is compared, instead of a general numeric that is the same in every
    row: the value rounded to the column's scale, in the direction that keeps the result. For values outside of the
    column's range, for NaN and infinities, and for `=` with a value between two steps of the scale, the bound is a
    number with one digit more than the column has."""
    digits = digits_of(column.form)
    assert digits is not None
    precision, scale = digits[0] + 1, digits[1]
    side = _ROUNDED.get(MIRRORED[symbol] if mirrored else symbol, "exact")
    point = f".{'9' * scale}" if scale else ""
    past = f"{'9' * (precision - scale)}{point}"
    step = f"0.{'0' * (scale - 1)}1" if scale else "1"
    a, b, c = generation.alias(), generation.alias(), generation.alias()
    dot = "strpos({}.v, '.')"
    between = fill(f"({dot.format(c)} > 0 AND rtrim(substr({c}.v, {dot.format(c)} + {scale + 1}), '0') <> '')")
    adjusted = {
        "up": fill(
            "WHEN NOT starts_with({c}.v, '-') AND {between} THEN {c}.k + {step}", c=c, between=between, step=step
        ),
        "down": fill("WHEN starts_with({c}.v, '-') AND {between} THEN {c}.k - {step}", c=c, between=between, step=step),
        "exact": fill("WHEN {} THEN {}", between, past),
    }[side]
    cut = scale or -1  # scale 0: without the dot
    truncated = fill(f"CASE WHEN {dot.format(a)} = 0 THEN {a}.v ELSE left({a}.v, {dot.format(a)} + {cut}) END")
    return fill(
        "(SELECT CASE WHEN {c}.v IS NULL THEN NULL WHEN {c}.k IS NULL AND starts_with({c}.v, '-') THEN -{past} "
        "WHEN {c}.k IS NULL THEN {past} {adjusted} ELSE {c}.k END "
        "FROM (SELECT {b}.v, TRY_CAST({b}.t AS {form}) AS k "
        "FROM (SELECT {a}.v, {truncated} AS t FROM (SELECT {value} AS v) AS {a}) AS {b}) AS {c})",
        a=a,
        b=b,
        c=c,
        past=past,
        adjusted=adjusted,
        form=decimal_type(precision, scale),
        truncated=truncated,
        value=value.sql,
    )


def row_comparison(symbol: str, pairs: Sequence[tuple[Sql, Sql]]) -> Sql:
    """Returns (a, b) < (c, d): from the left, the first pair that differs or has a NULL decides."""
    *before, (left, right) = pairs
    sql: Sql = fill("({} {} {})", left, symbol, right)
    for left, right in reversed(before):
        sql = fill("({0} {1} {2} OR ({0} = {2} AND {3}))", left, symbol[0], right, sql)
    return sql


def sort_item(generation: Generation, piece: Piece, type_: TypeRef, descending: bool, nulls_first: bool) -> Sql:
    """Returns the ORDER BY item of an expression."""
    return sort_key(comparable(generation, piece, type_.oid), descending, nulls_first)


def sort_key(key: Part, descending: bool, nulls_first: bool) -> Sql:
    """Returns the ORDER BY item of a comparable key or a position, always with NULLS FIRST or LAST."""
    return fill("{} {} NULLS {}", key, "DESC" if descending else "ASC", "FIRST" if nulls_first else "LAST")
