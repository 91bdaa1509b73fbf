"""JSON as rows of declared columns: json_to_record, json_populate_record and similar (jsonfuncs.c).

A column definition list, or the composite type of the first argument, defines the columns. In FROM, the analyser
(engine/sql/analyze/json_records.py) replaces all these functions by one of Shoal's own, whose first argument lists the
columns.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from functools import lru_cache
from json.decoder import scanstring  # type: ignore[attr-defined]
from typing import Any

from catalog.errors import SqlError, not_supported
from catalog.functions.base import CallContext, Function, Trait
from catalog.functions.json_access import elements, kind_of, members
from catalog.functions.registry import declare, implement, mark
from catalog.types import element_of, lookup, oids
from catalog.types.base import EMPTY_ARRAY, Array, FormatSettings, TypeRef
from catalog.types.composite import CompositeType
from catalog.types.json import parse_jsonb
from catalog.types.user import FIRST_USER_OID

ROWS, ROWS_OVER = 9946, 9947
_SOURCE = "shoal_json_rows"
_TWO, _THREE = (oids.TEXT, oids.JSON), (oids.TEXT, oids.JSON, oids.ANYELEMENT)
declare(Function(ROWS, _SOURCE, _SOURCE, "f", False, True, "s", _TWO, oids.RECORD, 0, 0), inner=True)
declare(Function(ROWS_OVER, _SOURCE, _SOURCE, "f", False, True, "s", _THREE, oids.RECORD, 0, 0), inner=True)

Read = Callable[[str, str, Any], object]
Columns = Sequence[tuple[str, TypeRef]]


def describe_columns(function: str, columns: Columns) -> str:
    """Returns the first argument of Shoal's own function."""
    return json.dumps([function, [[name, type_.oid, type_.typmod] for name, type_ in columns]])


# ---- values ---------------------------------------------------------------------------------------------------------


def _reader(type_: TypeRef, settings: FormatSettings) -> Read:
    """Returns populate_record_field: (text of a JSON value that is not null, its key, the base row's value) ->
    value."""
    known = lookup(type_.oid)
    if type_.oid == oids.JSON:
        return lambda text, key, base: text
    if type_.oid == oids.JSONB:
        return lambda text, key, base: parse_jsonb(text)
    decode = known.text_decoder(settings, type_.typmod)
    element = element_of(type_.oid)
    if element:
        return _array_reader(decode, TypeRef(element, type_.typmod), settings)
    if isinstance(known, CompositeType):
        row = _row_reader(known.fields, settings)

        def composite(text: str, key: str, base: Any) -> object:
            return decode(_string(text)) if text[0] == '"' else row(text, base)

        return composite
    return lambda text, key, base: decode(_string(text) if text[0] == '"' else text)


def _string(text: str) -> str:
    return str(scanstring(text, 1, True)[0])


def _array_reader(decode: Callable[[str], object], element: TypeRef, settings: FormatSettings) -> Read:
    read = _reader(element, settings)

    def array(text: str, key: str, base: Any) -> object:
        if text[0] == '"':
            return decode(_string(text))
        if text[0] != "[":
            raise SqlError("22P02", "expected JSON array", hint=f'See the value of key "{key}".')
        depth, first = 0, text
        while first[0] == "[":
            depth += 1
            first = next(elements(first), "0")
        values: list[object] = []
        dimensions: list[int] = []
        _gather(text, depth, 0, dimensions, values, lambda item: None if item == "null" else read(item, key, None))
        return Array(tuple(values), tuple(dimensions), (1,) * depth) if values else EMPTY_ARRAY

    return array


def _gather(
    text: str, depth: int, level: int, dimensions: list[int], values: list[object], read: Callable[[str], object]
) -> None:
    """Collects the values of an array of any dimensions in `values`, and its size in `dimensions`. Raises 22P02 for
    sub-arrays of different sizes."""
    if text[0] != "[":
        raise SqlError("22P02", "expected JSON array")
    items = list(elements(text))
    if len(dimensions) == level:
        dimensions.append(len(items))
    elif dimensions[level] != len(items):
        detail = "Multidimensional arrays must have sub-arrays with matching dimensions."
        raise SqlError("22P02", "malformed JSON array", detail=detail)
    for item in items:
        if level + 1 < depth:
            _gather(item, depth, level + 1, dimensions, values, read)
        else:
            values.append(read(item))


def _row_reader(columns: Columns, settings: FormatSettings) -> Callable[[str, Any], tuple[object, ...]]:
    """Returns populate_record: (text of an object, the row with the values of absent keys) -> row."""
    readers = [(name, _reader(type_, settings)) for name, type_ in columns]

    def row(text: str, base: Any) -> tuple[object, ...]:
        kind = kind_of(text)
        if kind != "{":
            raise SqlError("22023", f"cannot call populate_composite on {'an array' if kind == '[' else 'a scalar'}")
        found = dict(members(text))
        values: list[object] = []
        for place, (name, read) in enumerate(readers):
            part = found.get(name)
            before = None if base is None else base[place]
            if part is None:
                values.append(before)
            else:
                values.append(None if part == "null" else read(part, name, before))
        return tuple(values)

    return row


def _rows(
    function: str, row: Callable[[str, Any], tuple[object, ...]], text: str | None, base: Any
) -> list[tuple[object, ...]]:
    """Returns the rows of ...recordset, or the one row of ...record."""
    if text is None:
        if function.endswith("set"):
            return []
        return [base] if base is not None else []
    if not function.endswith("set"):
        return [row(text, base)]
    kind = kind_of(text)
    if kind != "[":
        what = "a non-array" if function.startswith("jsonb") else "an object" if kind == "{" else "a scalar"
        raise SqlError("22023", f"cannot call {function} on {what}")
    found = []
    for item in elements(text):
        if item[0] != "{":
            raise SqlError("22023", f"argument of {function} must be an array of objects")
        found.append(row(item, base))
    return found


# ---- functions ------------------------------------------------------------------------------------------------------


def _read_spec(
    spec: str, settings: FormatSettings
) -> tuple[str, Callable[[str, Any], tuple[object, ...]], tuple[int, ...]]:
    function, columns = json.loads(spec)
    row = _row_reader([(name, TypeRef(oid, typmod)) for name, oid, typmod in columns], settings)
    return function, row, tuple(oid for _, oid, _ in columns)


_kept = lru_cache(256)(_read_spec)


def _json_rows(call: CallContext, spec: str, text: str | None, base: Any = None) -> list[tuple[object, ...]]:
    function, row, columns = _kept(spec, call.format)
    if any(oid >= FIRST_USER_OID for oid in columns):  # definitions of user-defined types can change
        function, row, _ = _read_spec(spec, call.format)
    rows = _rows(function, row, text, base)
    return rows if rows or function.endswith("set") else [(None,) * len(columns)]


def _populate(function: str) -> Callable[[Sequence[TypeRef], TypeRef], Callable[..., object]]:
    """json_populate_record outside of FROM, which returns a value of the composite type."""

    def make(types: Sequence[TypeRef], result: TypeRef) -> Callable[..., object]:
        known = lookup(result.oid)
        if not isinstance(known, CompositeType):
            not_supported(f"function {function} over rows of no declared type")

        def populate(call: CallContext, base: Any, text: str | None, _: object = None) -> object:
            rows = _rows(function, _row_reader(known.fields, call.format), text, base)
            if function.endswith("set"):
                return rows
            return rows[0] if rows else None

        return populate

    return make


implement(_SOURCE, _json_rows, needs_context=True)
for _name in ("json_populate_record", "json_populate_recordset", "jsonb_populate_record", "jsonb_populate_recordset"):
    implement(_name, python_for_types=_populate(_name), needs_context=True, traits=(Trait.POPULATED_ROWS,))
mark(Trait.DEFINED_ROWS, "json_to_record", "json_to_recordset", "jsonb_to_record", "jsonb_to_recordset")
