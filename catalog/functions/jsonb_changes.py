"""Changes and comparisons of jsonb: concatenation, deletion, jsonb_set, containment, casts (jsonfuncs.c).

Values are decoded (catalog/types/json_text.py: None, bool, Number, str, list, Pairs), changed, and rendered again. Keys
of decoded objects are unique, because jsonb is canonical text.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from decimal import Decimal
from json.encoder import encode_basestring
from typing import Any

from catalog.errors import SqlError
from catalog.functions.json_access import EXISTS, kind_of, members, of_key, path_index
from catalog.functions.numeric import to_float4, to_float8, to_integer
from catalog.functions.registry import implement
from catalog.memory import room_for
from catalog.types import lookup, oids
from catalog.types.base import Array
from catalog.types.json import render_jsonb
from catalog.types.json_text import Number, Pairs, decode_json
from catalog.types.numeric import parse_numeric


def _refusal(message: str, hint: str | None = None) -> SqlError:
    return SqlError("22023", message, hint=hint)


def _is_container(node: object) -> bool:
    return isinstance(node, list)


def _steps(path: Array) -> tuple[Any, ...]:
    if len(path.dimensions) > 1:
        raise SqlError("2202E", "wrong number of array subscripts")
    return path.elements


# ---- concatenation and deletion ----


def concatenate(left: str, right: str) -> str:
    """jsonb || jsonb: merges two objects, and concatenates other values as arrays."""
    one, other = decode_json(left), decode_json(right)
    if isinstance(one, Pairs) and isinstance(other, Pairs):
        return render_jsonb(Pairs([*one, *other]))
    return render_jsonb([*_as_array(one), *_as_array(other)])


def _as_array(node: object) -> list[object]:
    return node if isinstance(node, list) and not isinstance(node, Pairs) else [node]


def _delete_keys(text: str, keys: Sequence[object]) -> str:
    node = decode_json(text)
    if not _is_container(node):
        raise _refusal("cannot delete from scalar")
    gone = {key for key in keys if key is not None}
    if isinstance(node, Pairs):
        return render_jsonb(Pairs([member for member in node if member[0] not in gone]))
    assert isinstance(node, list)
    return render_jsonb([item for item in node if not (type(item) is str and item in gone)])


def _delete_index(text: str, index: int) -> str:
    node = decode_json(text)
    if not _is_container(node):
        raise _refusal("cannot delete from scalar")
    if isinstance(node, Pairs):
        raise _refusal("cannot delete from object using integer index")
    assert isinstance(node, list)
    if -len(node) <= index < len(node):
        del node[index]
    return render_jsonb(node)


# ---- changes along a path ----

_CREATE, _DELETE, _REPLACE, _BEFORE, _AFTER = 1, 2, 4, 8, 16
_ADD = _CREATE | _BEFORE | _AFTER


class _Change:
    """One change at the end of a path (setPath, setPathObject and setPathArray)."""

    def __init__(self, path: tuple[Any, ...], value: object, operation: int) -> None:
        self.path = path
        self.value = value
        self.operation = operation

    def apply(self, node: Any, level: int) -> Any:
        if self.path[level] is None:
            raise SqlError("22004", f"path element at position {level + 1} is null")
        if not _is_container(node):
            return node
        last = level == len(self.path) - 1
        return self._object(node, level, last) if isinstance(node, Pairs) else self._array(node, level, last)

    def _object(self, node: Pairs, level: int, last: bool) -> Pairs:
        key, result, found = self.path[level], Pairs(), False
        for name, value in node:
            if name != key:
                result.append((name, value))
                continue
            found = True
            if not last:
                result.append((name, self.apply(value, level + 1)))
            elif self.operation & (_BEFORE | _AFTER):
                raise _refusal("cannot replace existing key", "Try using the function jsonb_set to replace key value.")
            elif not self.operation & _DELETE:
                result.append((name, self.value))
        if last and not found and self.operation & _ADD:
            result.append((key, self.value))
        return result

    def _array(self, node: list[Any], level: int, last: bool) -> list[Any]:
        index = path_index(self.path[level])
        if index is None:
            raise SqlError("22P02", f'path element at position {level + 1} is not an integer: "{self.path[level]}"')
        if index < 0:
            index += len(node)
        if last and self.operation & _ADD and (index < 0 or not node):
            return [self.value, *node]
        if index < 0:
            return node
        if index >= len(node):
            return [*node, self.value] if last and self.operation & _ADD else node
        before, old, after = node[:index], node[index], node[index + 1 :]
        if not last:
            return [*before, self.apply(old, level + 1), *after]
        changed = [self.value] if self.operation & (_BEFORE | _CREATE) else []
        if self.operation & (_BEFORE | _AFTER):
            changed.append(old)
        if self.operation & (_AFTER | _REPLACE):
            changed.append(self.value)
        return [*before, *changed, *after]


def _set(text: str, path: Array, value: str, create: bool = True) -> str:
    """jsonb_set. Raises 22023, 22004, 22P02, 2202E."""
    steps, node = _steps(path), decode_json(text)
    if not _is_container(node):
        raise _refusal("cannot set path in scalar")
    if not steps or (not node and not create):
        return text
    return render_jsonb(_Change(steps, decode_json(value), _CREATE if create else _REPLACE).apply(node, 0))


def _insert(text: str, path: Array, value: str, after: bool = False) -> str:
    steps, node = _steps(path), decode_json(text)
    if not _is_container(node):
        raise _refusal("cannot set path in scalar")
    if not steps:
        return text
    return render_jsonb(_Change(steps, decode_json(value), _AFTER if after else _BEFORE).apply(node, 0))


def _delete_path(text: str, path: Array) -> str:
    steps, node = _steps(path), decode_json(text)
    if not _is_container(node):
        raise _refusal("cannot delete path in scalar")
    if not steps or not node:
        return text
    return render_jsonb(_Change(steps, None, _DELETE).apply(node, 0))


_TREATMENTS = '"delete_key", "return_target", "use_json_null", or "raise_exception"'


def _set_lax(
    text: str | None,
    path: Array | None,
    value: str | None,
    create: bool | None = True,
    treatment: str | None = "use_json_null",
) -> str | None:
    if text is None or path is None or create is None:
        return None
    if treatment is None:
        raise _refusal(f"null_value_treatment must be {_TREATMENTS}")
    if value is not None:
        return _set(text, path, value, create)
    if treatment == "raise_exception":
        raise SqlError(
            "22004",
            "JSON value must not be null",
            detail='Exception was raised because null_value_treatment is "raise_exception".',
            hint="To avoid, either change the null_value_treatment argument or ensure that an SQL NULL is not passed.",
        )
    if treatment == "use_json_null":
        return _set(text, path, "null", create)
    if treatment == "delete_key":
        return _delete_path(text, path)
    if treatment == "return_target":
        return text
    raise _refusal(f"null_value_treatment must be {_TREATMENTS}")


# ---- containment ----


def _comparable(node: object) -> object:
    """Converts a scalar to a value that is equal only for equal scalars of the same kind."""
    if isinstance(node, Number):
        return parse_numeric(node)
    return ("string", node) if isinstance(node, str) else ("other", node)


def _contains(value: Any, part: Any) -> bool:
    """Whether a container contains the members or elements of another one."""
    if isinstance(value, Pairs) != isinstance(part, Pairs):
        return False
    if isinstance(part, Pairs):
        there = dict(value)
        return all(key in there and _matches(there[key], wanted) for key, wanted in part)
    scalars = {_comparable(item) for item in value if not _is_container(item)}
    return all(
        any(_is_container(item) and _contains(item, wanted) for item in value)
        if _is_container(wanted)
        else _comparable(wanted) in scalars
        for wanted in part
    )


def _matches(value: Any, wanted: Any) -> bool:
    if _is_container(value) and _is_container(wanted):
        return _contains(value, wanted)
    if _is_container(value) or _is_container(wanted):
        return False
    return _comparable(value) == _comparable(wanted)


def contains(text: str, part: str) -> bool:
    """jsonb @> jsonb. An array also contains a scalar that is one of its elements; a scalar contains only itself."""
    value, wanted = decode_json(text), decode_json(part)
    if not _is_container(wanted):
        if isinstance(value, Pairs):
            return False
        return _contains(value if isinstance(value, list) else [value], [wanted])
    return _is_container(value) and _contains(value, wanted)


def _top_strings(text: str) -> set[str]:
    """Returns the keys of an object, the strings of an array, or a string scalar."""
    if kind_of(text) == "{":
        return {key for key, _ in members(text)}
    node = decode_json(text)
    return {item for item in _as_array(node) if type(item) is str}


def exists(text: str, key: str) -> bool:
    return key in _top_strings(text)


def _exists_any(text: str, keys: Array) -> bool:
    there = _top_strings(text)
    return any(key in there for key in keys.elements if key is not None)


def _exists_all(text: str, keys: Array) -> bool:
    there = _top_strings(text)
    return all(key in there for key in keys.elements if key is not None)


# ---- other forms ----


def strip_nulls(node: object) -> object:
    """Removes members of objects with the value null, at all depths."""
    if isinstance(node, Pairs):
        return Pairs([(key, strip_nulls(value)) for key, value in node if value is not None])
    return [strip_nulls(item) for item in node] if isinstance(node, list) else node


def compact(node: object) -> str:
    """Returns JSON text without white space; numbers keep their text."""
    if isinstance(node, Pairs):
        return "{" + ",".join([f"{encode_basestring(key)}:{compact(value)}" for key, value in node]) + "}"
    if isinstance(node, list):
        return "[" + ",".join([compact(item) for item in node]) + "]"
    if isinstance(node, Number):
        return str(node)
    if isinstance(node, str):
        return encode_basestring(node)
    return "null" if node is None else "true" if node else "false"


def pretty(node: object) -> str:
    """jsonb_pretty, which indents by four blanks for each level. Raises 53200."""
    pieces: list[str] = []
    _add_pretty(pieces, node, "\n")
    room_for(sum(map(len, pieces)))
    return "".join(pieces)


def _add_pretty(pieces: list[str], node: object, outer: str) -> None:
    """Adds the pieces of the text of a node; its lines begin with `outer`. The time is linear at any depth."""
    if not isinstance(node, list):
        pieces.append(render_jsonb(node))
        return
    inner, before = outer + "    ", ""
    start, end = ("{", "}") if isinstance(node, Pairs) else ("[", "]")
    pieces.append(start)
    for item in node:
        pieces += (before, inner)
        value = item
        if isinstance(node, Pairs):
            key, value = item
            pieces += (encode_basestring(key), ": ")
        _add_pretty(pieces, value, inner)
        before = ","
    pieces += (outer, end)


# ---- casts ----

_KINDS = {"{": "object", "[": "array", '"': "string", "t": "boolean", "f": "boolean", "n": "null"}


def _cast(kind: str, sql_name: str, convert: Callable[[str], object]) -> Callable[[str], object]:
    """Returns the cast of a scalar of this kind to an SQL value. The cast raises 22023 for other kinds."""

    def cast(text: str) -> object:
        found = _KINDS.get(text[0], "numeric")
        if found != kind:
            raise _refusal(f"cannot cast jsonb {found} to type {sql_name}")
        return convert(text)

    return cast


def _casts() -> None:
    implement("jsonb_bool", _cast("boolean", "boolean", lambda text: text == "true"))
    targets: tuple[tuple[str, int, Callable[[Decimal], object]], ...] = (
        ("numeric", oids.NUMERIC, lambda value: value),
        ("int2", oids.INT2, to_integer(2)),
        ("int4", oids.INT4, to_integer(4)),
        ("int8", oids.INT8, to_integer(8)),
        ("float4", oids.FLOAT4, to_float4),
        ("float8", oids.FLOAT8, to_float8),
    )
    for name, oid, convert in targets:
        implement(f"jsonb_{name}", _cast("numeric", lookup(oid).sql_name, _from_numeric(convert)))


def _from_numeric(convert: Callable[[Decimal], object]) -> Callable[[str], object]:
    return lambda text: convert(parse_numeric(text))


def _compare(left: str, right: str) -> int:
    key: Any = lookup(oids.JSONB).sort_key()
    one, other = key(left), key(right)
    return int(one > other) - int(one < other)


def _register() -> None:
    implement("jsonb_concat", concatenate)
    implement("jsonb_delete", lambda text, key: _delete_keys(text, (key,)))
    implement("jsonb_delete_array", lambda text, keys: _delete_keys(text, _steps(keys)))
    implement("jsonb_delete_idx", _delete_index)
    implement("jsonb_delete_path", _delete_path)
    implement("jsonb_set", _set)
    implement("jsonb_set_lax", _set_lax)
    implement("jsonb_insert", _insert)
    implement("jsonb_contains", contains)
    implement("jsonb_contained", lambda part, text: contains(text, part))
    implement("jsonb_exists", exists, of_key("jsonb_exists", EXISTS), duckdb_udfs=("jsonb_exists",))
    implement("jsonb_exists_any", _exists_any)
    implement("jsonb_exists_all", _exists_all)
    implement("json_strip_nulls", lambda text: compact(strip_nulls(decode_json(text))))
    implement("jsonb_strip_nulls", lambda text: render_jsonb(strip_nulls(decode_json(text))))
    implement("jsonb_pretty", lambda text: pretty(decode_json(text)))
    implement("jsonb_cmp", _compare)


_register()
_casts()
