"""The functions and operators of the extension hstore (PostgreSQL 16 manual, F.18.2)."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Sequence
from typing import Any

from catalog.errors import SqlError, not_supported
from catalog.functions.base import CallContext, Function, Trait
from catalog.functions.registry import declare, implement
from catalog.types import lookup, oids
from catalog.types.base import Array, TypeRef
from catalog.types.composite import CompositeType
from catalog.types.hstore import HSTORE, first_wins, pairs_of, text_of
from catalog.types.json import quote_json, render_jsonb
from catalog.types.json_text import Number, Pairs

_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?", re.ASCII)
_order: Callable[[str], Any] = HSTORE.sort_key()


# ---- construction ---------------------------------------------------------------------------------------------------


def _of_one(key: str | None, value: str | None) -> str | None:
    return None if key is None else text_of({key: value})


def _null_key() -> SqlError:
    return SqlError("22004", "null value not allowed for hstore key")


def _wrong_dimensions() -> SqlError:
    return SqlError("2202E", "wrong number of array subscripts")


def _of_flat(array: Array) -> str:
    """hstore(text[]): of '{a,1,b,2}' or '{{a,1},{b,2}}'. Raises 2202E for other arrays."""
    if len(array.dimensions) > 2:
        raise _wrong_dimensions()
    if len(array.dimensions) == 2 and array.dimensions[1] != 2:
        raise SqlError("2202E", "array must have two columns")
    if len(array.elements) % 2:
        raise SqlError("2202E", "array must have even number of elements")
    return _of_lists(array.elements[0::2], array.elements[1::2])


def _of_lists(keys: Sequence[Any], values: Sequence[Any]) -> str:
    if None in keys:
        raise _null_key()
    return text_of(first_wins(zip(keys, values, strict=True)))


def _of_arrays(keys: Array | None, values: Array | None) -> str | None:
    if keys is None:
        return None
    if len(keys.dimensions) > 1 or (values is not None and len(values.dimensions) > 1):
        raise _wrong_dimensions()
    if values is None:
        return _of_lists(keys.elements, [None] * len(keys.elements))
    if (keys.dimensions, keys.lower_bounds) != (values.dimensions, values.lower_bounds):
        raise SqlError("2202E", "arrays must have same bounds")
    return _of_lists(keys.elements, values.elements)


def _composite(types: Sequence[TypeRef], what: str) -> CompositeType:
    known = lookup(types[0].oid)
    if not isinstance(known, CompositeType):
        not_supported(f"{what} over rows of no declared type")
    return known


def _of_record(types: Sequence[TypeRef], result: TypeRef) -> Callable[..., object]:
    fields = _composite(types, "hstore(record)").fields

    def make(call: CallContext, row: Any) -> object:
        values = [None] * len(fields) if row is None else row
        return text_of(
            {
                name: None if value is None else lookup(type_.oid).text_encoder(call.format)(value).decode()
                for (name, type_), value in zip(fields, values, strict=True)
            }
        )

    return make


def _populate(types: Sequence[TypeRef], result: TypeRef) -> Callable[..., object]:
    fields = _composite(types, "populate_record()").fields

    def populate(call: CallContext, row: Any, given: str | None) -> object:
        if given is None:
            return row
        pairs = pairs_of(given)
        values = []
        for (name, type_), old in zip(fields, [None] * len(fields) if row is None else row, strict=True):
            text = pairs.get(name)
            if name not in pairs:
                values.append(old)
            else:
                values.append(None if text is None else lookup(type_.oid).text_decoder(call.format, type_.typmod)(text))
        return tuple(values)

    return populate


# ---- access and changes --------------------------------------------------------------------------------------------


def _keys(array: Array) -> list[Any]:
    return [key for key in array.elements if key is not None]


def _slice(value: str, keys: Array) -> str:
    pairs = pairs_of(value)
    return text_of({key: pairs[key] for key in _keys(keys) if key in pairs})


def _slice_array(value: str, keys: Array) -> Array:
    pairs = pairs_of(value)
    return Array(
        tuple(None if key is None else pairs.get(str(key)) for key in keys.elements), keys.dimensions, keys.lower_bounds
    )


def _without(value: str, gone: Callable[[str, str | None], bool]) -> str:
    return text_of({key: item for key, item in pairs_of(value).items() if not gone(key, item)})


def _delete_keys(value: str, keys: Array) -> str:
    gone = set(_keys(keys))
    return _without(value, lambda key, _: key in gone)


def _delete_pairs(value: str, other: str) -> str:
    gone = set(pairs_of(other).items())
    return _without(value, lambda key, item: (key, item) in gone)


def _contains(value: str, part: str) -> bool:
    return pairs_of(part).items() <= pairs_of(value).items()


def _flat(value: str) -> tuple[object, ...]:
    return tuple(part for pair in pairs_of(value).items() for part in pair)


def _matrix(value: str) -> Array:
    flat = _flat(value)
    return Array(flat, (len(flat) // 2, 2), (1, 1)) if flat else Array.of(())


# ---- JSON -----------------------------------------------------------------------------------------------------------


def _loose(text: str) -> object:
    """Converts a text with the form of a boolean or a number to that (hstore_to_json_loose)."""
    if text in ("t", "f"):
        return text == "t"
    return Number(text) if _NUMBER.fullmatch(text) else text


def _json(value: str, loose: bool) -> str:
    parts = []
    for key, text in pairs_of(value).items():
        item = None if text is None else _loose(text) if loose else text
        if item is None or isinstance(item, bool):
            shown = "null" if item is None else "true" if item else "false"
        else:
            shown = str(item) if isinstance(item, Number) else quote_json(str(item))
        parts.append(f"{quote_json(key)}: {shown}")
    return "{" + ", ".join(parts) + "}"


def _jsonb(value: str, loose: bool) -> str:
    items = pairs_of(value).items()
    return render_jsonb(Pairs([(k, None if v is None else _loose(v) if loose else v) for k, v in items]))


def _assign(value: str | None, key: str | None, stored: str | None) -> str:
    """UPDATE t SET h['key'] = 'value': returns the hstore with the key set to a value or NULL
    (hstore_subscript_assign). Raises 22004 for a NULL key."""
    if key is None:
        raise SqlError("22004", "hstore subscript in assignment must not be null")
    return text_of((pairs_of(value) if value is not None else {}) | {key: stored})


ASSIGN = 9981
declare(
    Function(
        ASSIGN, "shoal_hstore_assign", "shoal_hstore_assign", "f", False, False, "i",
        (oids.HSTORE, oids.TEXT, oids.TEXT), oids.HSTORE, 0, 0,
    ),
    inner=True,
)  # fmt: skip


def _register() -> None:
    implement("shoal_hstore_assign", _assign)
    implement("hstore_from_text", _of_one)
    implement("hstore_from_array", _of_flat)
    implement("hstore_from_arrays", _of_arrays)
    implement(
        "hstore_from_record",
        python_for_types=_of_record,
        needs_context=True,
        traits=(Trait.TAKES_ROW, Trait.TAKES_COLUMNS),
    )
    implement("hstore_populate_record", python_for_types=_populate, needs_context=True, traits=(Trait.TAKES_ROW,))
    implement("hstore_fetchval", lambda value, key: pairs_of(value).get(key))
    implement("hstore_exists", lambda value, key: key in pairs_of(value))
    implement("hstore_exists_any", lambda value, keys: not pairs_of(value).keys().isdisjoint(_keys(keys)))
    implement("hstore_exists_all", lambda value, keys: pairs_of(value).keys() >= set(_keys(keys)))
    implement("hstore_defined", lambda value, key: pairs_of(value).get(key) is not None)
    implement("hstore_slice_to_hstore", _slice)
    implement("hstore_slice_to_array", _slice_array)
    implement("hstore_delete", lambda value, key: _without(value, lambda other, _: other == key))
    implement("hstore_delete_array", _delete_keys)
    implement("hstore_delete_hstore", _delete_pairs)
    implement("hstore_concat", lambda value, other: text_of(pairs_of(value) | pairs_of(other)))
    implement("hstore_contains", _contains)
    implement("hstore_contained", lambda part, value: _contains(value, part))
    implement("hstore_akeys", lambda value: Array.of(tuple(pairs_of(value))))
    implement("hstore_avals", lambda value: Array.of(tuple(pairs_of(value).values())))
    implement("hstore_skeys", lambda value: list(pairs_of(value)))
    implement("hstore_svals", lambda value: list(pairs_of(value).values()))
    implement("hstore_each", lambda value: list(pairs_of(value).items()))
    implement("hstore_to_array", lambda value: Array.of(_flat(value)))
    implement("hstore_to_matrix", _matrix)
    for suffix, loose in (("", False), ("_loose", True)):
        implement(f"hstore_to_json{suffix}", lambda value, loose=loose: _json(value, loose))
        implement(f"hstore_to_jsonb{suffix}", lambda value, loose=loose: _jsonb(value, loose))
    for name in ("lt", "le", "gt", "ge", "eq", "ne"):
        implement(f"hstore_{name}", _comparison(getattr(operator, name)))
    implement("hstore_send", HSTORE.binary_encoder())
    implement("hstore_cmp", lambda left, right: int(_order(left) > _order(right)) - int(_order(left) < _order(right)))


def _comparison(compare: Callable[[Any, Any], bool]) -> Callable[[str, str], bool]:
    return lambda left, right: compare(_order(left), _order(right))


_register()
