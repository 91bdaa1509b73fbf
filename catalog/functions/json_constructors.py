"""SQL values as JSON: to_json, the build functions, json_agg and json_object_agg (PostgreSQL 16 manual, 9.16; json.c).

The JSON of a value depends on its type: numbers and booleans stay so, dates and times are ISO 8601 in the session's
zone, arrays and json become structure, other values become a string, the text of their output function. White space is
PostgreSQL's, which differs between functions: {"a" : 1} from json_build_object, {"a":1} from row_to_json.

Analysis replaces a row with known columns by `row_to_json_object`, because a record does not have the types of its
fields (engine/sql/analyze/json_rows.py).
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Sequence
from json.decoder import scanstring  # type: ignore[attr-defined]
from json.encoder import encode_basestring
from typing import Any

from catalog.errors import SqlError, not_supported
from catalog.functions.base import AggregateSteps, CallContext, Function, Trait
from catalog.functions.registry import declare, implement, mark
from catalog.types import element_of, lookup, oids
from catalog.types.base import DEFAULT_FORMAT, Array, FormatSettings, TypeRef
from catalog.types.composite import CompositeType
from catalog.types.datetime_output import timestamp_formatter, timestamptz_formatter
from catalog.types.json import parse_jsonb
from catalog.types.timezones import find_zone
from catalog.types.user import FIRST_USER_OID

Write = Callable[[Any], str]
_NUMBERS = oids.NUMBERS - {oids.OID}
_TEXTS = oids.COLLATABLE | {oids.UNKNOWN}
_VALID_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?", re.ASCII)
_SETTLED = frozenset({oids.BOOL, oids.INT2, oids.INT4, oids.INT8, oids.NUMERIC, oids.UUID, oids.DATE, oids.TIMESTAMP,
                      oids.TIME, oids.JSON, oids.JSONB, oids.OID, *_TEXTS})  # fmt: skip
ROW_TO_JSON, JSON_LINE = 9101, 9103
_LINE = "\x01"  # first character of a value that json_agg writes on a separate line; no JSON text begins with it


# ---- one value ----


def is_settled(oid: int) -> bool:
    """Whether the JSON of the type's values does not depend on the session's settings."""
    return (element_of(oid) or oid) in _SETTLED


def is_structured(oid: int) -> bool:
    """Whether json_agg writes each value of the type on a separate line."""
    return element_of(oid) != 0 or oid == oids.RECORD


def _iso_time(text: str) -> str:
    return text if text.endswith("infinity") else text.replace(" ", "T", 1)


def _zoned_writer(settings: FormatSettings) -> Write:
    """Returns the writer of ISO 8601 with hours and minutes of the offset: '2024-01-01T00:00:00+00:00'."""
    shown = timestamptz_formatter(FormatSettings(timezone=settings.timezone), find_zone(settings.timezone))

    def write(value: int) -> str:
        text = shown(value)
        if text.endswith("infinity"):
            return f'"{text}"'
        body, blank, era = text.replace(" ", "T", 1).partition(" ")
        return f'"{body if body[-3] == ":" and body[-6] in "+-:" else body + ":00"}{blank}{era}"'

    return write


def _quote(text: str) -> str:
    return f'"{text}"'


def writer(oid: int, settings: FormatSettings) -> Write:
    """Returns the function that converts a value of the type, never None, to JSON text. Raises 0A000 for a record."""
    return _builtin_writer(oid, settings) if oid < FIRST_USER_OID else _writer(oid, settings)


@functools.lru_cache(maxsize=512)
def _builtin_writer(oid: int, settings: FormatSettings) -> Write:
    return _writer(oid, settings)


def _writer(oid: int, settings: FormatSettings) -> Write:
    element = element_of(oid)
    if element:
        return _array_writer(writer(element, settings))
    if oid == oids.RECORD:
        not_supported("JSON of a row whose columns are not known here")
    if oid == oids.BOOL:
        return lambda value: "true" if value else "false"
    if oid in oids.JSON_TYPES:
        return str
    if oid in _TEXTS:
        return encode_basestring
    if oid in oids.INTEGERS:
        return str
    if oid == oids.TIMESTAMPTZ:
        return _zoned_writer(settings)
    if oid == oids.TIMESTAMP:
        timestamp = timestamp_formatter(DEFAULT_FORMAT)
        return lambda value: _quote(_iso_time(timestamp(value)))
    known = lookup(oid)
    if isinstance(known, CompositeType):
        return _row_writer(known, settings)
    encode = known.text_encoder(DEFAULT_FORMAT if oid == oids.DATE else settings)
    if oid in _NUMBERS:
        return lambda value: _number(encode(value).decode())
    return lambda value: encode_basestring(encode(value).decode())


def _number(text: str) -> str:
    return text if _VALID_NUMBER.fullmatch(text) else _quote(text)


def _row_writer(known: CompositeType, settings: FormatSettings) -> Write:
    fields = [(encode_basestring(name) + ":", writer(reference.oid, settings)) for name, reference in known.fields]

    def write_row(value: Any) -> str:
        parts = [
            label + ("null" if item is None else write(item))
            for (label, write), item in zip(fields, value, strict=True)
        ]
        return "{" + ",".join(parts) + "}"

    return write_row


def _array_writer(write: Write) -> Write:
    def write_array(value: Array) -> str:
        if not value.elements:
            return "[]"
        return _nest(["null" if item is None else write(item) for item in value.elements], value.dimensions)

    return write_array


def _nest(parts: list[str], dimensions: tuple[int, ...], outer: str = ",") -> str:
    for depth in range(len(dimensions) - 1, -1, -1):
        length, separator = dimensions[depth], outer if depth == 0 else ","
        parts = ["[" + separator.join(parts[i : i + length]) + "]" for i in range(0, len(parts), length)]
    return parts[0]


def _values_writer(types: Sequence[TypeRef]) -> Callable[[FormatSettings, Sequence[Any]], list[str]]:
    """Returns the function that converts values of these types to JSON texts."""
    of_types = [reference.oid for reference in types]

    def write(settings: FormatSettings, values: Sequence[Any]) -> list[str]:
        return [
            "null" if value is None else writer(oid, settings)(value)
            for oid, value in zip(of_types, values, strict=True)
        ]

    return write


# ---- keys ----


def _key_writer(oid: int, settings: FormatSettings) -> Callable[[Any], str]:
    """Returns the function that converts a key to text without quotes. Raises 22023 for arrays, rows and json."""
    if element_of(oid) or oid in (oids.RECORD, oids.JSON, oids.JSONB) or isinstance(lookup(oid), CompositeType):
        raise SqlError("22023", "key value must be scalar, not array, composite, or json")
    if oid in _TEXTS:
        return str
    write = writer(oid, settings)

    def key(value: Any) -> str:
        text = write(value)
        if not text.startswith('"'):
            return text
        return _unquote(text)

    return key


def _unquote(text: str) -> str:
    return str(scanstring(text, 1, True)[0])


# ---- to_json and the build functions ----

Finish = Callable[[str], str]


def _to_json(finish: Finish) -> Callable[[Sequence[TypeRef], TypeRef], Callable[..., object]]:
    def make(types: Sequence[TypeRef], result: TypeRef) -> Callable[..., object]:
        oid = types[0].oid
        if oid == oids.UNKNOWN:
            raise SqlError("22023", "could not determine input data type")
        return lambda context, value: finish(writer(oid, context.format)(value))

    return make


def _array_to_json(types: Sequence[TypeRef], result: TypeRef) -> Callable[..., object]:
    element = element_of(types[0].oid)

    def convert(context: CallContext, value: Array, pretty: bool = False) -> str:
        if not value.elements:
            return "[]"
        write = writer(element, context.format)
        parts = ["null" if item is None else write(item) for item in value.elements]
        return _nest(parts, value.dimensions, ",\n " if pretty else ",")

    return convert


def _build_object(
    finish: Finish, null_key: str
) -> Callable[[Sequence[TypeRef], TypeRef], Callable[..., object]]:  # fmt: skip
    def make(types: Sequence[TypeRef], result: TypeRef) -> Callable[..., object]:
        write_values = _values_writer(types[1::2])
        keys = [reference.oid for reference in types[::2]]

        def build(context: CallContext, *values: Any) -> str:
            if len(values) % 2:
                hint = f"The arguments of {_NAMES[result.oid]}() must consist of alternating keys and values."
                raise SqlError("22023", "argument list must have even number of elements", hint=hint)
            shown = write_values(context.format, values[1::2])
            parts = []
            for number, (oid, key) in enumerate(zip(keys, values[::2], strict=True)):
                if key is None:
                    raise SqlError("22023", null_key.format(2 * number + 1))
                name = encode_basestring(_key_writer(oid, context.format)(key))
                parts.append(f"{name} : {shown[number]}")
            return finish("{" + ", ".join(parts) + "}")

        return build

    return make


_NAMES = {oids.JSON: "json_build_object", oids.JSONB: "jsonb_build_object"}


def _build_array(finish: Finish) -> Callable[[Sequence[TypeRef], TypeRef], Callable[..., object]]:
    def make(types: Sequence[TypeRef], result: TypeRef) -> Callable[..., object]:
        write_values = _values_writer(types)
        return lambda context, *values: finish("[" + ", ".join(write_values(context.format, values)) + "]")

    return make


def _object_of_texts(finish: Finish) -> Callable[[Array], str]:
    """json_object(text[]): of alternating keys and values, or of pairs in a second dimension."""

    def build(array: Array) -> str:
        count = len(array.dimensions)
        if count == 0:
            return "{}"
        if count == 1 and array.dimensions[0] % 2:
            raise SqlError("2202E", "array must have even number of elements")
        if count == 2 and array.dimensions[1] != 2:
            raise SqlError("2202E", "array must have two columns")
        if count > 2:
            raise SqlError("2202E", "wrong number of array subscripts")
        return finish(_pairs(array.elements[::2], array.elements[1::2]))

    return build


def _object_of_two(finish: Finish) -> Callable[[Array, Array], str]:
    def build(keys: Array, values: Array) -> str:
        if len(keys.dimensions) > 1 or len(keys.dimensions) != len(values.dimensions):
            raise SqlError("2202E", "wrong number of array subscripts")
        if not keys.elements:
            return "{}"
        if len(keys.elements) != len(values.elements):
            raise SqlError("2202E", "mismatched array dimensions")
        return finish(_pairs(keys.elements, values.elements))

    return build


def _pairs(keys: Sequence[Any], values: Sequence[Any]) -> str:
    parts = []
    for key, value in zip(keys, values, strict=True):
        if key is None:
            raise SqlError("22004", "null value not allowed for object key")
        parts.append(f"{encode_basestring(key)} : {'null' if value is None else encode_basestring(value)}")
    return "{" + ", ".join(parts) + "}"


# ---- rows ----


def _row_object(types: Sequence[TypeRef], result: TypeRef) -> Callable[..., object]:
    """row_to_json_object('column', value, ...): {"column":value,...}, as row_to_json writes a row."""
    write_values = _values_writer(types[1::2])

    def build(context: CallContext, *values: Any) -> str:
        shown = write_values(context.format, values[1::2])
        return "{" + ",".join([f"{encode_basestring(k)}:{v}" for k, v in zip(values[::2], shown, strict=True)]) + "}"

    return build


# ---- aggregates ----


def _aggregate_format(oid: int) -> FormatSettings:
    """Returns the default settings, because aggregates have no session. If the settings matter, analysis replaces the
    argument by to_json(value). Raises 0A000 for such a type without that."""
    if not is_settled(oid):
        not_supported(f"JSON aggregate of type {lookup(oid).sql_name} here")
    return DEFAULT_FORMAT


def _array_aggregate(finish: Finish) -> Callable[[Sequence[TypeRef], TypeRef], AggregateSteps]:
    def make(types: Sequence[TypeRef], result: TypeRef) -> AggregateSteps:
        oid = types[0].oid
        write = writer(oid, _aggregate_format(oid))
        structured = is_structured(oid)

        def step(state: list[str], value: Any) -> list[str]:
            if value is None:
                state.append(", null" if state else "null")
            else:
                text = write(value)
                line = structured or text.startswith(_LINE)
                state.append(("" if not state else ", \n " if line else ", ") + text.removeprefix(_LINE))
            return state

        return list, step, lambda state: finish("[" + "".join(state) + "]") if state else None

    return make


def _object_aggregate(finish: Finish) -> Callable[[Sequence[TypeRef], TypeRef], AggregateSteps]:
    def make(types: Sequence[TypeRef], result: TypeRef) -> AggregateSteps:
        write_key = _key_writer(types[0].oid, _aggregate_format(types[0].oid))
        write = writer(types[1].oid, _aggregate_format(types[1].oid))

        def step(state: list[str], key: Any, value: Any) -> list[str]:
            if key is None:
                raise SqlError("22023", "field name must not be null")
            shown = "null" if value is None else write(value)
            state.append(f"{encode_basestring(write_key(key))} : {shown}")
            return state

        return list, step, lambda state: finish("{ " + ", ".join(state) + " }") if state else None

    return make


# ---- registration ----


def _register() -> None:
    for kind, finish in (("json", str), ("jsonb", parse_jsonb)):
        null_key = "argument {} cannot be null" if kind == "json" else "argument {}: key must not be null"
        implement(f"to_{kind}", python_for_types=_to_json(finish), needs_context=True)
        implement(f"{kind}_build_object", python_for_types=_build_object(finish, null_key), needs_context=True)
        implement(f"{kind}_build_object_noargs", lambda: "{}")
        implement(f"{kind}_build_array", python_for_types=_build_array(finish), needs_context=True)
        implement(f"{kind}_build_array_noargs", lambda: "[]")
        implement(f"{kind}_object", _object_of_texts(finish))
        implement(f"{kind}_object_two_arg", _object_of_two(finish))
        implement(f"{kind}_agg(anyelement)", aggregate_for_types=_array_aggregate(finish), steps_see_nulls=True)
        implement(f"{kind}_object_agg(any,any)", aggregate_for_types=_object_aggregate(finish), steps_see_nulls=True)
        mark(Trait.NEVER_FAILS, f"to_{kind}")
        mark(Trait.WRITES_JSON, f"to_{kind}", f"{kind}_build_object", f"{kind}_build_array")
        mark(Trait.WRITES_JSON, f"{kind}_agg(anyelement)", f"{kind}_object_agg(any,any)")
    implement("array_to_json", python_for_types=_array_to_json, needs_context=True)
    implement("array_to_json_pretty", python_for_types=_array_to_json, needs_context=True)
    mark(Trait.WRITES_VALUES, "array_to_json", "array_to_json_pretty")
    mark(Trait.WRITES_ARRAY, "array_to_json", "array_to_json_pretty")
    mark(Trait.WRITES_JSON, "row_to_json", "row_to_json_pretty")
    mark(Trait.WRITES_ROW, "row_to_json", "row_to_json_pretty")
    implement("row_to_json_object", python_for_types=_row_object, needs_context=True)
    implement("json_line", lambda text: _LINE + text)
    declare(
        Function(JSON_LINE, "json_line", "json_line", "f", True, False, "i", (oids.JSON,), oids.JSON, 0, 0), inner=True
    )
    declare(Function(ROW_TO_JSON, "row_to_json_object", "row_to_json_object", "f", False, False, "s", (oids.ANY,),
                     oids.JSON, oids.ANY, 0), inner=True)  # fmt: skip


_register()
