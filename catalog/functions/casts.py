"""The functions behind pg_cast for numbers, oids and character types (PostgreSQL 16 manual, 4.2.9 and 10).

The casts of numeric are in numeric.py, those of dates and times in the modules of these types. A cast without a
function (text to varchar) is a relabelling or uses the text forms.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from catalog.errors import SqlError
from catalog.functions.base import Trait
from catalog.functions.duckdb_errors import sql_error_call
from catalog.functions.duckdb_sql import once
from catalog.functions.floats import overflow, to_single, underflow
from catalog.functions.integers import LIMITS, out_of_range
from catalog.functions.registry import implement, mark
from catalog.identifiers import clip_name
from catalog.memory import room_for
from catalog.types import lookup, oids
from catalog.types.float import parse_float4
from catalog.types.text import CHAR

_DUCKDB_TYPES = {2: "SMALLINT", 4: "INTEGER", 8: "BIGINT"}
_EXACT_DOUBLES = 1 << 53


# ---- numbers ----


def _float_to_integer(size: int) -> Callable[[float], int]:
    """Returns a cast that rounds half to even, as rint() does. The cast raises 22003 for NaN and values out of
    range."""
    limit = LIMITS[size]

    def convert(value: float) -> int:
        if value - value != 0.0:
            raise out_of_range(size)
        result = round(value)
        if -limit <= result < limit:
            return result
        raise out_of_range(size)

    return convert


def _integer_to_single(value: int) -> float:
    """Rounds an integer to single precision. Above 2^53 it converts the decimal digits, because an intermediate double
    would round twice."""
    return to_single(value) if -_EXACT_DOUBLES <= value <= _EXACT_DOUBLES else parse_float4(str(value))


def _double_to_single(value: float) -> float:
    result = to_single(value)
    if result - result != 0.0 and value - value == 0.0:
        raise overflow()
    if result == 0.0 and value != 0.0:
        raise underflow()
    return result


_UNDERFLOW = sql_error_call("22003", "value out of range: underflow")
_TO_SINGLE_SQL = (
    "(CASE WHEN {0} <> 0 AND abs({0}) < 1e-44 AND CAST({0} AS FLOAT) = 0 THEN " + _UNDERFLOW
    + " ELSE CAST({0} AS FLOAT) END)"
)  # fmt: skip


def _numbers() -> None:
    for size, duck in _DUCKDB_TYPES.items():
        implement(f"i{size}tod", float, "CAST({0} AS DOUBLE)", inline="float({0})", names={"float": float})
        implement(f"i{size}tof", _integer_to_single, "CAST({0} AS FLOAT)")
        mark(Trait.NEVER_FAILS, f"i{size}tod", f"i{size}tof")
        implement(f"dtoi{size}", _float_to_integer(size), f"CAST({{0}} AS {duck})")
        implement(f"ftoi{size}", _float_to_integer(size), f"CAST({{0}} AS {duck})")
    implement("ftod", lambda value: value, "CAST({0} AS DOUBLE)", inline="{0}", traits=(Trait.NEVER_FAILS,))
    implement("dtof", _double_to_single, once(_TO_SINGLE_SQL))


def _integer_to_oid(value: int) -> int:
    if 0 <= value < 1 << 32:
        return value
    raise SqlError("22003", "OID out of range")


_OID_SQL = (
    "(CASE WHEN {0} < 0 OR {0} > 4294967295 THEN " + sql_error_call("22003", "OID out of range") + " ELSE {0} END)"
)


def _object_identifiers() -> None:
    implement("i8tooid", _integer_to_oid, once(_OID_SQL))
    implement("oidtoi8", lambda value: value, "{0}", inline="{0}")


# ---- character types ----


def length_coercion(oid: int, pads: bool) -> Callable[[Any, int, bool], object]:
    """Returns the function that coerces a value to the length of a type modifier: (value, modifier, explicit). `pads`:
    the value may become longer; then the function raises 53200 if memory does not suffice."""

    def coerce(value: Any, typmod: int, explicit: bool) -> object:
        fit = lookup(oid).length_coercion(typmod, explicit)
        if fit is not None and pads:
            room_for(typmod)
        return fit(value) if fit else value

    return coerce


def _first_byte_sign(value: str) -> int:
    code = ord(value) if value else 0
    return code - 256 if code > 127 else code


def _to_char(value: int) -> str:
    if not -128 <= value <= 127:
        raise SqlError("22003", '"char" out of range')
    return chr(value % 256) if value else ""


def _characters() -> None:
    implement("name_text", lambda value: value, "{0}", inline="{0}")
    implement("name_bpchar", lambda value: value, "{0}", inline="{0}")
    implement("text_name", clip_name)
    implement("bpchar_name", lambda value: clip_name(value.rstrip(" ")))
    implement("varchar", length_coercion(oids.VARCHAR, False))
    implement("bpchar", length_coercion(oids.BPCHAR, True))
    shown, read = CHAR.text_encoder(), CHAR.text_decoder()
    implement("char_text", lambda value: shown(value).decode())
    implement("char_bpchar", lambda value: shown(value).decode())
    implement("text_char", read)
    mark(Trait.NEVER_FAILS, "name_text", "text_name", "char_text")
    implement("chartoi4", _first_byte_sign)
    implement("i4tochar", _to_char)


_numbers()
_object_identifiers()
_characters()
