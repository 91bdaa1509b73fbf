"""The Python implementation of SQL functions on the row path, and comparisons that Python's operators do."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from catalog.functions.base import Function, Operator
from catalog.functions.registry import implementation
from catalog.types import lookup
from catalog.types.array import ArrayType
from catalog.types.base import DEFAULT_FORMAT, Array, FormatSettings, SqlType, TypeRef
from catalog.types.composite import CompositeType
from catalog.types.incomparable import order_key
from catalog.types.named_objects import holds_names
from catalog.types.oids import (
    BOOL,
    BYTEA,
    CHAR,
    DATE,
    NAMED_TYPES,
    RECORD,
    TEXT_ARRAY,
    TIME,
    TIMESTAMPS,
    UNPADDED_TEXTS,
    UUID,
    WHOLE_NUMBERS,
)
from catalog.types.pseudo import quote_field
from engine.execute.code import NotOnRowPath

# Types whose values Python's == and hash compare as SQL does.
_HASHABLE = WHOLE_NUMBERS | UNPADDED_TEXTS | TIMESTAMPS | {BOOL, BYTEA, CHAR, DATE, TIME, UUID}


def python_side(function: Function, types: Sequence[TypeRef], result: TypeRef) -> tuple[Callable[..., object], bool]:
    """The Python function that runs a function on the row path, and whether its first argument is the CallContext."""
    found = implementation(function.source)
    if function.source.startswith("record_") and any(type_.oid == RECORD for type_ in types):
        raise NotOnRowPath("comparing rows of no declared type")
    if found is not None and found.python_for_types is not None:
        return found.python_for_types(types, result), found.needs_context
    if found is None or found.python is None:
        raise NotOnRowPath(f"function {function.name}")
    return found.python, found.needs_context


def comparison(function: Function, left: TypeRef, right: TypeRef) -> Callable[[object, object], object]:
    """The Python side of a comparison of two values."""
    python, needs_context = python_side(function, (left, right), TypeRef(BOOL))
    if needs_context:
        raise NotOnRowPath(f"function {function.name} among many values")
    return python


def equality_of(operator: Operator, one: TypeRef, other: TypeRef) -> Callable[[object, object], object]:
    """The equality of two values in the type's btree order, for an ordering operator's pair of types; the types of the
    values decide if the operator takes several."""
    declared = (operator.left, operator.right)
    if declared[0] == declared[1] and lookup(declared[0]).category == "P":
        declared = (one.oid, other.oid)
    left, right = order_key(lookup(declared[0])), order_key(lookup(declared[1]))
    if left is None and right is None:
        return lambda a, b: a == b
    if declared[0] != declared[1]:
        raise NotOnRowPath("row comparison of different types")
    key = left
    assert key is not None
    return lambda a, b: key(a) == key(b)


def same_equality(left: int, right: int) -> bool:
    """Whether SQL's = of these two types is Python's == and hash of their internal forms."""
    if left == right:
        return left in _HASHABLE
    return {left, right} <= WHOLE_NUMBERS or {left, right} <= UNPADDED_TEXTS


def named_codec(oid: int, direction: str, settings: FormatSettings = DEFAULT_FORMAT) -> Callable[..., object] | None:
    """The output ('out') or input ('in') function of a type whose values are shown as names, and the output function of
    an array or a composite type with such values in it; None for any other."""
    known = lookup(oid)
    if oid not in NAMED_TYPES:
        return _output_with_names(known, settings) if direction == "out" and holds_names(known) else None
    found = implementation(known.name + direction)
    return None if found is None else found.python


def _output_with_names(known: SqlType, settings: FormatSettings) -> Callable[[object, Any], str]:
    """(call, value) to text, where names of objects stand somewhere inside."""
    if isinstance(known, ArrayType):
        shown = _output_of(known.element, settings)
        encode = lookup(TEXT_ARRAY).text_encoder()

        def array_text(call: object, value: Array) -> str:
            texts = tuple([None if item is None else shown(call, item) for item in value.elements])
            return encode(value._replace(elements=texts)).decode()

        return array_text
    assert isinstance(known, CompositeType)
    outputs = [_output_of(field, settings) for field in known.types]

    def text(call: object, value: Sequence[object]) -> str:
        parts = [
            "" if item is None else quote_field(str(output(call, item)))
            for output, item in zip(outputs, value, strict=True)
        ]
        return f"({','.join(parts)})"

    return text


def _output_of(known: SqlType, settings: FormatSettings) -> Callable[..., object]:
    shown = named_codec(known.oid, "out", settings)
    if shown is not None:
        return shown
    encode = known.text_encoder(settings)
    return lambda call, value: encode(value).decode()
