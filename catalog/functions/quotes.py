"""Quoting, concatenation and format(): convert values of any type to text (PostgreSQL 16 manual, 9.4).

concat(), concat_ws() and format() are VARIADIC "any": they take values of any types, and convert them to text by the
session's settings.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Sequence
from typing import Any

from catalog.duckdb.nodes import Call, CastTo, Sql, fill, join_parts
from catalog.duckdb.types import VARCHAR
from catalog.errors import SqlError
from catalog.functions.base import CallContext, Trait
from catalog.functions.registry import implement, mark
from catalog.identifiers import quote_identifier, quote_literal, quote_nullable
from catalog.memory import room_for
from catalog.types import lookup, oids
from catalog.types.base import FormatSettings, TypeRef
from catalog.types.user import FIRST_USER_OID

Show = Callable[[Any], bytes]


# ---- concat ----

# Types whose text does not depend on settings: their encoders are cached.
_SETTLED = oids.WHOLE_NUMBERS | oids.COLLATABLE | {oids.NUMERIC, oids.BOOL, oids.UNKNOWN, oids.UUID}


def _encoder(oid: int, settings: FormatSettings) -> Show:
    return _builtin_encoder(oid, settings) if oid < FIRST_USER_OID else lookup(oid).text_encoder(settings)


@functools.lru_cache(maxsize=256)
def _builtin_encoder(oid: int, settings: FormatSettings) -> Show:
    return lookup(oid).text_encoder(settings)


def _text_maker(types: Sequence[TypeRef]) -> Callable[[FormatSettings, Sequence[Any]], list[str | None]]:
    """Returns the function that converts arguments of these types to texts."""
    references = [ref.oid for ref in types]

    def show(settings: FormatSettings, values: Sequence[Any]) -> list[str | None]:
        return [
            None if value is None else value if isinstance(value, str) else _encoder(oid, settings)(value).decode()
            for oid, value in zip(references, values, strict=False)
        ]

    return show


def _concat_maker(types: Sequence[TypeRef], result: TypeRef) -> Callable[..., object]:
    show = _text_maker(types)

    def concat(context: CallContext, *values: Any) -> str:
        return _join("", [text for text in show(context.format, values) if text is not None])

    return concat


def _concat_ws_maker(types: Sequence[TypeRef], result: TypeRef) -> Callable[..., object]:
    show = _text_maker(types[1:])

    def concat_ws(context: CallContext, separator: str | None, *values: Any) -> str | None:
        if separator is None:
            return None
        return _join(separator, [text for text in show(context.format, values) if text is not None])

    return concat_ws


def _join(separator: str, texts: Sequence[str]) -> str:
    room_for(sum(map(len, texts)) + len(separator) * len(texts))
    return separator.join(texts)


_DUCKDB_TEXT = oids.INTEGERS | oids.COLLATABLE | {oids.UNKNOWN}


def _concat_side(arguments: Sequence[Sql], types: Sequence[TypeRef]) -> Sql | None:
    """Returns DuckDB's concat(), which also ignores NULLs, for types with the same text in DuckDB."""
    if not arguments or any(ref.oid not in _DUCKDB_TEXT for ref in types):
        return None
    return Call("concat", arguments)


def _concat_ws_side(arguments: Sequence[Sql], types: Sequence[TypeRef]) -> Sql | None:
    if len(arguments) < 2 or any(ref.oid not in _DUCKDB_TEXT for ref in types):
        return None
    return Call("concat_ws", arguments)


def _cast_to_text(oid: int) -> Callable[[CallContext, Any], str]:
    """Returns the function value::text: true or false for bool, without padding for bpchar."""
    if oid == oids.BOOL:
        return lambda context, value: "true" if value else "false"
    if oid == oids.BPCHAR:
        return lambda context, value: str(value).rstrip(" ")
    if oid in oids.WHOLE_NUMBERS:
        return lambda context, value: str(value)
    return lambda context, value: value if isinstance(value, str) else _encoder(oid, context.format)(value).decode()


def _text_then_any(types: Sequence[TypeRef], result: TypeRef) -> Callable[..., object]:
    show = _cast_to_text(types[1].oid)
    return lambda context, left, right: left + show(context, right)


def _any_then_text(types: Sequence[TypeRef], result: TypeRef) -> Callable[..., object]:
    show = _cast_to_text(types[0].oid)
    return lambda context, left, right: show(context, left) + right


def _anytext_side(arguments: Sequence[Sql], types: Sequence[TypeRef]) -> Sql | None:
    if any(ref.oid not in _DUCKDB_TEXT or ref.oid == oids.BPCHAR for ref in types):
        return None
    return fill("({})", join_parts(" || ", [CastTo(argument, VARCHAR) for argument in arguments]))


# ---- format ----

_SPECIFIER = re.compile(r"%(?:(\d+)\$)?(-*)(?:(\d+)|\*(?:(\d+)\$)?)?(.?)", re.DOTALL)


class _Arguments:
    """The arguments of one format() call, which are read in order or by position."""

    def __init__(self, texts: Sequence[str | None], values: Sequence[Any]) -> None:
        self.texts, self.values, self.next = texts, values, 0

    def position(self, given: str | None) -> int:
        if given is not None:
            if int(given) == 0:
                raise SqlError("22023", "format specifies argument 0, but arguments are numbered from 1")
            self.next = int(given) - 1
        index = self.next
        self.next += 1
        if index >= len(self.texts):
            raise SqlError("22023", "too few arguments for format()")
        return index


def _format_text(template: str, arguments: _Arguments) -> str:
    """format() over the texts of its arguments (text_format in varlena.c). Raises 22023, 22004."""
    result, end, size = [], 0, len(template)
    for match in _SPECIFIER.finditer(template):
        if match.start() < end:
            continue
        result.append(template[end : match.start()])
        end = match.end()
        position, minus, width_text, star_position, kind = match.groups()
        if match[0] == "%%":
            result.append("%")
            continue
        if not kind:
            raise SqlError("22023", "unterminated format() type specifier",
                           hint='For a single "%" use "%%".')  # fmt: skip
        width, left_aligned = int(width_text or 0), bool(minus)
        if "*" in match[0][:-1]:
            item = arguments.values[arguments.position(star_position)]
            width = 0 if item is None else int(item)
            if width < 0:
                width, left_aligned = -width, True
        if kind not in "sIL":
            raise SqlError("22023", f'unrecognized format() type specifier "{kind}"',
                           hint='For a single "%" use "%%".')  # fmt: skip
        text = _convert(kind, arguments.texts[arguments.position(position)])
        size += max(width, len(text))
        room_for(2 * size)
        result.append(text.ljust(width) if left_aligned else text.rjust(width))
    result.append(template[end:])
    return "".join(result)


def _convert(kind: str, text: str | None) -> str:
    if kind == "L":
        return quote_nullable(text)
    if kind == "I":
        if text is None:
            raise SqlError("22004", "null values cannot be formatted as an SQL identifier")
        return quote_identifier(text)
    return text or ""


def _format_maker(types: Sequence[TypeRef], result: TypeRef) -> Callable[..., object]:
    show = _text_maker(types[1:])

    def format_text(context: CallContext, template: str | None, *values: Any) -> str | None:
        if template is None:
            return None
        return _format_text(template, _Arguments(show(context.format, values), values))

    return format_text


def _quoting(quote: Callable[[Any], object]) -> Callable[[Sequence[TypeRef], TypeRef], Callable[..., object]]:
    """quote_literal(anyelement) and quote_nullable(anyelement), which cast the argument to text."""

    def make(types: Sequence[TypeRef], result: TypeRef) -> Callable[..., object]:
        show = _cast_to_text(types[0].oid)
        return lambda context, value: quote(None if value is None else show(context, value))

    return make


def _register() -> None:
    implement("quote_ident", quote_identifier)
    implement("quote_literal", python_for_types=_quoting(quote_literal), needs_context=True)
    implement("quote_nullable", python_for_types=_quoting(quote_nullable), needs_context=True)
    implement("text_concat", duckdb=_concat_side, python_for_types=_concat_maker, needs_context=True)
    implement("text_concat_ws", duckdb=_concat_ws_side, python_for_types=_concat_ws_maker, needs_context=True)
    implement("textanycat", duckdb=_anytext_side, python_for_types=_text_then_any, needs_context=True)
    implement("anytextcat", duckdb=_anytext_side, python_for_types=_any_then_text, needs_context=True)
    implement("text_format", python_for_types=_format_maker, needs_context=True)
    implement("text_format_nv", python_for_types=_format_maker, needs_context=True)
    mark(Trait.NEVER_FAILS, "quote_literal")
    mark(Trait.WRITES_VALUES, "quote_literal", "quote_nullable", "text_concat", "text_concat_ws", "text_format")
    mark(Trait.JOINS_AS_TEXT, "textanycat", "anytextcat")


_register()
