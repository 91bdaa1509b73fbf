"""text: lengths, parts, padding, trimming, searching and replacing.

PostgreSQL 16 manual, 9.4; varlena.c and oracle_compat.c. Positions count characters from 1. The order of text is that
of its code points (collation C), which is also the order of its UTF-8 bytes, so Python and DuckDB compare as PostgreSQL
does. varchar uses the functions of text; bpchar ignores its trailing blanks in comparisons, lengths and casts to text.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import TypeVar

from catalog.duckdb.nodes import Sql, fill
from catalog.errors import SqlError
from catalog.functions.base import Side, Trait
from catalog.functions.character_classes import is_alphanumeric
from catalog.functions.duckdb_errors import sql_error_call
from catalog.functions.duckdb_sql import evaluate_once, once
from catalog.functions.integers import comparisons
from catalog.functions.letter_case import lower, lower_character, upper, upper_character
from catalog.functions.registry import implement, mark
from catalog.memory import LARGE, room_for
from catalog.types import oids
from catalog.types.base import Array, TypeRef

Sliced = TypeVar("Sliced", str, bytes)

_MAXIMUM_BYTES = 0x3FFFFFFF  # MaxAllocSize: the largest size of a value
_PIECE = 60  # bytes of a short text in a list


def too_large() -> SqlError:
    return SqlError("54000", "requested length too large")


# ---- comparison and concatenation -----------------------------------------------------------------------------------


_COMPARISONS = (
    ("eq", "=", "==", operator.eq), ("ne", "<>", "!=", operator.ne), ("lt", "<", "<", operator.lt),
    ("le", "<=", "<=", operator.le), ("gt", ">", ">", operator.gt), ("ge", ">=", ">=", operator.ge),
)  # fmt: skip


def _without_blanks(function: Callable[[str, str], bool]) -> Callable[[str, str], bool]:
    return lambda left, right: function(left.rstrip(" "), right.rstrip(" "))


def _blank_padded_comparisons() -> None:
    for suffix, symbol, python_symbol, function in _COMPARISONS:
        template = f"(rtrim({{0}}, ' ') {symbol} rtrim({{1}}, ' '))"
        inline = f"({{0}}.rstrip(' ') {python_symbol} {{1}}.rstrip(' '))"
        traits = (Trait.COMPARES_TEXTS,)
        implement(f"bpchar{suffix}", _without_blanks(function), template, inline=inline, compares=suffix, traits=traits)
        if suffix not in ("eq", "ne"):
            implement(f"bpchar_pattern_{suffix}", _without_blanks(function), template, inline=inline)
    implement("bpchar_larger", lambda left, right: left if left.rstrip(" ") >= right.rstrip(" ") else right)
    implement("bpchar_smaller", lambda left, right: left if left.rstrip(" ") <= right.rstrip(" ") else right)


def _comparisons() -> None:
    for names in ("name{}", "name{}text", "text{}name"):
        comparisons(names, (Trait.COMPARES_TEXTS,))
    comparisons("char{}")
    for suffix, symbol, python_symbol, function in _COMPARISONS:
        template, inline = f"({{0}} {symbol} {{1}})", f"({{0}} {python_symbol} {{1}})"
        equality = suffix in ("eq", "ne")
        source = f"text{suffix}" if equality else f"text_{suffix}"
        implement(source, function, template, inline=inline, compares=suffix, traits=(Trait.COMPARES_TEXTS,))
        if not equality:
            implement(f"text_pattern_{suffix}", function, template, inline=inline)
    implement("text_larger", max, "greatest({0}, {1})")
    implement("text_smaller", min, "least({0}, {1})")
    implement("text_starts_with", lambda text, prefix: text.startswith(prefix), "starts_with({0}, {1})")
    mark(Trait.SEARCHES_TEXT, "text_starts_with")
    mark(Trait.ORDERS_TEXTS, "text_larger", "text_smaller", "bttextcmp", "bpchar_larger", "bpchar_smaller", "bpcharcmp")


# ---- lengths and parts ----------------------------------------------------------------------------------------------


def substring(text: Sliced, start: int, length: int | None = None) -> Sliced:
    """Returns `length` characters (for bytea, bytes) from `start`, which may be before the text. Raises 22011."""
    if length is None:
        return text[max(start - 1, 0) :]
    if length < 0:
        raise SqlError("22011", "negative substring length not allowed")
    end = start + length
    return text[max(start - 1, 0) : max(end - 1, 0)]


def left_part(text: str, count: int) -> str:
    return text[:count]


def right(text: str, count: int) -> str:
    """right(): the last `count` characters, or all but the first -count. The whole text for the smallest integer, whose
    negation overflows in PostgreSQL."""
    if count == -2147483648:
        return text
    if count > 0:
        return text[-count:]
    return text[-count:] if count < 0 else ""


def position(text: str, part: str) -> int:
    return text.find(part) + 1


def overlay(text: Sliced, replacement: Sliced, start: int, length: int | None = None) -> Sliced:
    """Replaces `length` characters from `start`. Raises 22011, 22003."""
    if start <= 0:
        raise SqlError("22011", "negative substring length not allowed")
    removed = len(replacement) if length is None else length
    if start + removed > 2147483647:
        raise SqlError("22003", "integer out of range")
    return text[: start - 1] + replacement + text[max(start + removed - 1, 0) :]


def split_part(text: str, delimiter: str, number: int) -> str:
    """Returns field `number`, counted from the end if it is negative. Raises 22023 for field 0."""
    if number == 0:
        raise SqlError("22023", "field position must not be zero")
    if not text:
        return ""
    if not delimiter:
        return text if number in (1, -1) else ""
    parts = text.split(delimiter)
    index = number - 1 if number > 0 else len(parts) + number
    return parts[index] if 0 <= index < len(parts) else ""


def string_to_array(text: str | None, delimiter: str | None, null_string: str | None = None) -> Array | None:
    """string_to_array: a NULL delimiter splits into characters; fields equal to `null_string` become NULL."""
    if text is None:
        return None
    if not text:
        return Array.of(())
    room_for(_PIECE * (len(text) if delimiter is None else text.count(delimiter or text)))
    parts = list(text) if delimiter is None else [text] if not delimiter else text.split(delimiter)
    return Array.of(tuple(None if part == null_string else part for part in parts))


def string_to_table(text: str | None, delimiter: str | None, null_string: str | None = None) -> list[object]:
    array = string_to_array(text, delimiter, null_string)
    return list(array.elements) if array else []


# ---- padding, trimming, replacing -----------------------------------------------------------------------------------


def left_pad(text: str, length: int, fill: str = " ") -> str:
    missing = max(length, 0) - len(text)
    if missing <= 0 or not fill:
        return text[: max(length, 0)]
    if length * 4 > _MAXIMUM_BYTES:
        raise too_large()
    room_for(2 * length)
    return (fill * (missing // len(fill) + 1))[:missing] + text


def right_pad(text: str, length: int, fill: str = " ") -> str:
    missing = max(length, 0) - len(text)
    if missing <= 0 or not fill:
        return text[: max(length, 0)]
    if length * 4 > _MAXIMUM_BYTES:
        raise too_large()
    room_for(2 * length)
    return text + (fill * (missing // len(fill) + 1))[:missing]


def repeat(text: str, count: int) -> str:
    if count <= 0 or not text:
        return ""
    if len(text.encode()) * count > _MAXIMUM_BYTES:
        raise too_large()
    room_for(len(text) * count)
    return text * count


def trim_both(text: str, characters: str) -> str:
    return text.strip(characters) if characters else text


def trim_left(text: str, characters: str) -> str:
    return text.lstrip(characters) if characters else text


def trim_right(text: str, characters: str) -> str:
    return text.rstrip(characters) if characters else text


_SAMPLE = 1 << 20


def replace(text: str, old: str, new: str) -> str:
    if not old:
        return text
    if len(new) > len(old) and len(text) * len(new) > LARGE:
        for end in (_SAMPLE, len(text)):  # because counting in a long text takes long
            room_for(len(text) + text.count(old, 0, end) * (len(new) - len(old)))
    return text.replace(old, new)


def translate(text: str, source: str, target: str) -> str:
    """Replaces each character in `source` by the character at the same position in `target`, or deletes it if `target`
    is shorter."""
    table: dict[int, str | None] = {}
    for index, char in enumerate(source):
        table.setdefault(ord(char), target[index] if index < len(target) else None)
    return text.translate(table)


def initcap(text: str) -> str:
    """Converts the first letter of each word to upper case, the others to lower case. Words are runs of letters and
    digits."""
    result, inside = [], False
    for char in text:
        result.append(lower_character(char) if inside else upper_character(char))
        inside = is_alphanumeric(char)
    return "".join(result)


# ---- single characters ----------------------------------------------------------------------------------------------


def code_point(text: str) -> int:
    return ord(text[0]) if text else 0


def character(code: int) -> str:
    """chr(). Raises 54000 for 0, surrogates and numbers above Unicode's, 22023 for negative numbers."""
    if code == 0:
        raise SqlError("54000", "null character not permitted")
    if code < 0:
        raise SqlError("22023", "character number must be positive")
    if code > 0x10FFFF:
        raise SqlError("54000", f"requested character too large for encoding: {code}")
    if 0xD800 <= code <= 0xDFFF:
        raise SqlError("54000", f"requested character not valid for encoding: {code}")
    return chr(code)


def to_hex4(value: int) -> str:
    return f"{value & 0xFFFFFFFF:x}"


def to_hex8(value: int) -> str:
    return f"{value & 0xFFFFFFFFFFFFFFFF:x}"


# ---- registration ---------------------------------------------------------------------------------------------------

_NEGATIVE_LENGTH = sql_error_call("22011", "negative substring length not allowed")
_FIRST = "CASE WHEN {1} < 1 THEN 1 ELSE {1} END"
_SUBSTRING_SQL = once(
    "(CASE WHEN {2} < 0 AND {0} IS NOT NULL AND {1} IS NOT NULL THEN " + _NEGATIVE_LENGTH
    + " WHEN {1}::BIGINT + {2}::BIGINT <= 1 AND {0} IS NOT NULL THEN ''"
    + " ELSE substring({0}, " + _FIRST + ", {1}::BIGINT + {2}::BIGINT - " + _FIRST + ") END)"
)  # fmt: skip


# DuckDB has an upper case of one character that libc does not change; all other characters of Unicode agree.
_UPPER_SQL = (
    "(CASE WHEN contains({0}, 'ß')"
    " THEN array_to_string(list_transform(string_split({0}, 'ß'), lambda p: upper(p)), 'ß') ELSE upper({0}) END)"
)


_SPLIT_SQL = (
    "(CASE WHEN {2} = 0 AND {0} IS NOT NULL AND {1} IS NOT NULL THEN "
    + sql_error_call("22023", "field position must not be zero")
    + " WHEN {1} = '' THEN CASE WHEN {2} IN (1, -1) THEN {0} WHEN {0} IS NOT NULL AND {2} IS NOT NULL THEN '' END"
    + " ELSE split_part({0}, {1}, {2}) END)"
)


def _pad_side(name: str) -> Side:
    """Returns the DuckDB side of lpad or rpad. DuckDB refuses an empty fill; PostgreSQL then only truncates."""

    def side(arguments: Sequence[Sql], types: Sequence[TypeRef]) -> Sql:
        if len(arguments) == 2:
            return fill(f"{name}({{}}, {{}}, ' ')", *arguments)
        template = (
            "(CASE WHEN {2} = '' THEN left({0}, CASE WHEN {1} < 0 THEN 0 ELSE {1} END) ELSE @({0}, {1}, {2}) END)"
        )
        return evaluate_once(arguments, template.replace("@", name))

    return side


def _bit_length(types: Sequence[TypeRef], result: TypeRef) -> Callable[..., object]:
    if types[0].oid == oids.BIT:
        return len
    return lambda value: 8 * len(value if isinstance(value, bytes) else value.encode())


def _lengths() -> None:
    side = "CAST(length({0}) AS INTEGER)"
    implement("textlen", len, side, inline="len({0})", names={"len": len}, traits=(Trait.NEVER_FAILS,))
    implement("textoctetlen", lambda text: len(text.encode()), "CAST(strlen({0}) AS INTEGER)")
    implement("bpcharlen", lambda text: len(text.rstrip(" ")), "CAST(length(rtrim({0}, ' ')) AS INTEGER)")
    implement("bpcharoctetlen", lambda text: len(text.encode()), "CAST(strlen({0}) AS INTEGER)")
    implement("bit_length", python_for_types=_bit_length)
    implement("ascii", code_point, "ascii({0})")
    implement("chr", character)
    implement("to_hex32", to_hex4)
    implement("to_hex64", to_hex8)
    mark(Trait.NEVER_LARGER, "chr", "to_hex32", "to_hex64")


def _parts() -> None:
    implement("text_substr", substring, _SUBSTRING_SQL)
    implement("text_substr_no_len", substring, once("substring({0}, " + _FIRST + ")"))
    implement("text_left", left_part, "left({0}, {1})")
    implement("text_right", right, once("(CASE WHEN {1} = -2147483648 THEN {0} ELSE right({0}, {1}) END)"))
    implement("textpos", position, "CAST(strpos({0}, {1}) AS INTEGER)")
    implement("textoverlay", overlay)
    implement("textoverlay_no_len", overlay)
    implement("text_to_array", string_to_array)
    implement("text_to_array_null", string_to_array)
    implement("text_to_table", string_to_table)
    implement("text_to_table_null", string_to_table)
    implement("text_reverse", lambda text: text[::-1])
    implement("split_part", split_part, once(_SPLIT_SQL))
    mark(
        Trait.NEVER_LARGER, "text_substr", "text_substr_no_len", "text_left", "text_right", "text_reverse", "split_part"
    )
    mark(Trait.SEARCHES_TEXT, "textpos", "text_to_array", "split_part")


def _changes() -> None:
    implement("textcat", lambda left, right: left + right, "({0} || {1})", inline="({0} + {1})")
    implement("lower", lower, "lower({0})")
    implement("upper", upper, once(_UPPER_SQL))
    implement("initcap", initcap)
    implement("lpad", left_pad, _pad_side("lpad"))
    implement("rpad", right_pad, _pad_side("rpad"))
    implement("repeat", repeat)
    implement("btrim", trim_both, "trim({0}, {1})")
    implement("ltrim", trim_left, "ltrim({0}, {1})")
    implement("rtrim", trim_right, "rtrim({0}, {1})")
    implement("btrim1", lambda text: text.strip(" "), "trim({0}, ' ')")
    implement("ltrim1", lambda text: text.lstrip(" "), "ltrim({0}, ' ')")
    implement("rtrim1", lambda text: text.rstrip(" "), "rtrim({0}, ' ')")
    implement("replace_text", replace, "replace({0}, {1}, {2})")
    implement("translate", translate, "translate({0}, {1}, {2})")
    mark(Trait.IGNORES_BLANKS, "rtrim1", "bpcharlen")
    trims = ("btrim1", "ltrim1", "rtrim1")
    mark(Trait.NEVER_FAILS, "textcat", "lower", "upper", *trims)
    mark(Trait.NEVER_LARGER, "lower", "upper", "initcap", "btrim", "ltrim", "rtrim", *trims)
    mark(Trait.MAPS_CASE, "lower", "upper", "initcap")
    mark(Trait.SEARCHES_TEXT, "replace_text")


_comparisons()
_blank_padded_comparisons()
_lengths()
_parts()
_changes()
