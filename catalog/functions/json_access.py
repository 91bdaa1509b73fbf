"""Access to json and jsonb: fields, elements, paths, keys, kinds (PostgreSQL 16 manual, 9.16; jsonfuncs.c).

json is stored as its text, so a part of it is a slice of that text. jsonb is stored as canonical text, and a slice of
canonical text is canonical. So the same functions read both: they walk through one level, skip its values by Python's C
scanner, and return the requested slice. If an object has equal keys, which only json can have, the last one counts.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Sequence
from json.decoder import scanstring  # type: ignore[attr-defined]
from typing import Any

from catalog.duckdb.nodes import Sql, constant_text
from catalog.errors import SqlError
from catalog.functions.base import Side, Trait, udf_name
from catalog.functions.duckdb_sql import evaluate_once
from catalog.functions.registry import implement, mark
from catalog.types.base import Array, TypeRef
from catalog.types.json_text import decode_json

_SPACE = re.compile(r"[ \t\n\r]*")
_INTEGER = re.compile(r"[ \t\n\v\f\r]*([+-]?[0-9]+)", re.ASCII)
_LOADS = json.JSONDecoder(parse_float=lambda text: text).decode
_SKIP = json.JSONDecoder(parse_float=lambda text: text, parse_int=lambda text: text).scan_once  # type: ignore[attr-defined]


def _after_space(text: str, position: int) -> int:
    found = _SPACE.match(text, position)
    assert found is not None
    return found.end()


def kind_of(text: str) -> str:
    """Returns '{' for an object, '[' for an array, and the first character of a scalar."""
    return text[_after_space(text, 0)]


def members(text: str) -> Iterator[tuple[str, str]]:
    """Yields the keys of an object and the texts of their values, in the order of the text."""
    position = _after_space(text, _after_space(text, 0) + 1)
    if text[position] == "}":
        return
    while True:
        key, position = scanstring(text, position + 1, True)
        start = _after_space(text, _after_space(text, position) + 1)
        _, end = _SKIP(text, start)
        yield key, text[start:end]
        position = _after_space(text, end)
        if text[position] == "}":
            return
        position = _after_space(text, position + 1)


def elements(text: str) -> Iterator[str]:
    """Yields the texts of an array's elements."""
    position = _after_space(text, _after_space(text, 0) + 1)
    if text[position] == "]":
        return
    while True:
        _, end = _SKIP(text, position)
        yield text[position:end]
        position = _after_space(text, end)
        if text[position] == "]":
            return
        position = _after_space(text, position + 1)


def text_of(part: str) -> str | None:
    """Returns the result of ->> for a part: a string without its quotes, NULL for null, otherwise the text itself."""
    first = part[0]
    if first == '"':
        return str(scanstring(part, 1, True)[0])
    return None if part == "null" else part


# ---- fields, elements and paths ----


def field(text: str, key: str) -> str | None:
    """Returns the text of an object's member; None if the text is not an object with this key."""
    if kind_of(text) != "{":
        return None
    found = None
    for name, part in members(text):
        if name == key:
            found = part
    return found


def element(text: str, index: int) -> str | None:
    """Returns the text of an array's element, counted from the end for a negative index; None if there is none."""
    if kind_of(text) != "[":
        return None
    if index < 0:
        parts = list(elements(text))
        return parts[index] if -index <= len(parts) else None
    for number, part in enumerate(elements(text)):
        if number == index:
            return part
    return None


def _jsonb_element(text: str, index: int) -> str | None:
    """Does the same for jsonb, where a scalar is like an array of one element."""
    if kind_of(text) in "{[":
        return element(text, index)
    return text if index in (0, -1) else None


def _require_json(text: str) -> str:
    """Checks the escapes of a json, which may contain escapes without a character. Raises 22P05, 22P02."""
    if "\\u" in text:
        decode_json(text)
    return text


def field_text(text: str, key: str) -> str | None:
    """Returns json ->> key. Python's parser does it if possible, because it is faster."""
    try:
        whole = _LOADS(text)
    except (ValueError, RecursionError):
        whole = None
    if type(whole) is dict:
        found = whole.get(key)
        if found is None:
            return None
        if type(found) is str and not _is_number_text(found):
            return found
    part = field(text, key)
    return None if part is None else text_of(part)


def _is_number_text(text: str) -> bool:
    """Whether a string may be the text of a number with a fraction, which the scanner returns as a str."""
    return bool(text) and (text[0] in "-0123456789")


def _part_text(
    read: Callable[[str, Any], str | None],
) -> Callable[[str, Any], str | None]:  # fmt: skip
    """Returns a function that returns the part that `read` returns as text, as ->> does."""

    def read_text(text: str, key: Any) -> str | None:
        part = read(text, key)
        return None if part is None else text_of(part)

    return read_text


def path_index(step: str) -> int | None:
    """Returns a step of a path as an array index; None if the step is not an int4."""
    match = _INTEGER.match(step)
    if match is None or match.end() != len(step):
        return None
    index = int(match[1])
    return index if -(2**31) <= index < 2**31 else None


def at_path(text: str, path: Array) -> str | None:
    """Returns the part at a path; None if there is none or the path contains NULL. The part at an empty path is the
    whole text."""
    part: str | None = text.strip(" \t\n\r")
    for step in path.elements:
        if part is None or step is None:
            return None
        assert isinstance(step, str)
        kind = part[0]
        if kind == "{":
            part = field(part, step)
        elif kind == "[":
            index = path_index(step)
            part = None if index is None else element(part, index)
        else:
            return None
    return part


# ---- kinds, lengths and keys ----

_KINDS = {"{": "object", "[": "array", '"': "string", "t": "boolean", "f": "boolean", "n": "null"}


def type_name(text: str) -> str:
    return _KINDS.get(kind_of(text), "number")


def _refusal(message: str) -> SqlError:
    return SqlError("22023", message)


def array_length(text: str) -> int:
    """json_array_length. Raises 22023 for an object or a scalar."""
    kind = kind_of(text)
    if kind != "[":
        raise _refusal("cannot get array length of a " + ("non-array" if kind == "{" else "scalar"))
    return sum(1 for _ in elements(text))


def _json_elements(name: str, convert: Callable[[str], Any]) -> Callable[[str], list[Any]]:
    def rows(text: str) -> list[Any]:
        kind = kind_of(text)
        if kind != "[":
            raise _refusal(f"cannot call {name} on a " + ("non-array" if kind == "{" else "scalar"))
        return [convert(part) for part in elements(text)]

    return rows


def _jsonb_elements(convert: Callable[[str], Any]) -> Callable[[str], list[Any]]:
    def rows(text: str) -> list[Any]:
        kind = kind_of(text)
        if kind != "[":
            raise _refusal("cannot extract elements from " + ("an object" if kind == "{" else "a scalar"))
        return [convert(part) for part in elements(text)]

    return rows


def _same(part: str) -> str:
    return part


def _json_each(convert: Callable[[str], Any]) -> Callable[[str], list[Any]]:
    def rows(text: str) -> list[Any]:
        kind = kind_of(text)
        if kind != "{":
            raise _refusal("cannot deconstruct " + ("an array as an object" if kind == "[" else "a scalar"))
        return [(key, convert(part)) for key, part in members(_require_json(text))]

    return rows


def _jsonb_each(name: str, convert: Callable[[str], Any]) -> Callable[[str], list[Any]]:
    def rows(text: str) -> list[Any]:
        if kind_of(text) != "{":
            raise _refusal(f"cannot call {name} on a non-object")
        return [(key, convert(part)) for key, part in members(text)]

    return rows


def _keys(name: str) -> Callable[[str], list[Any]]:
    def rows(text: str) -> list[Any]:
        kind = kind_of(text)
        if kind != "{":
            raise _refusal(f"cannot call {name} on " + ("an array" if kind == "[" else "a scalar"))
        return [key for key, _ in members(_require_json(text))]

    return rows


# ---- in DuckDB ----

_KEY = re.compile(r"[A-Za-z0-9_ ]+")
_FIELD_TEXT = """CASE json_type({0}, '$."@"') WHEN 'VARCHAR' THEN json_extract_string({0}, '$."@"')
 WHEN 'BIGINT' THEN json_extract_string({0}, '$."@"') WHEN 'UBIGINT' THEN json_extract_string({0}, '$."@"')
 WHEN 'BOOLEAN' THEN json_extract_string({0}, '$."@"') WHEN 'NULL' THEN NULL
 ELSE CASE WHEN json_exists({0}, '$."@"') THEN #({0}, '@') END END"""
EXISTS = """CASE WHEN json_type({0}) = 'OBJECT' THEN json_exists({0}, '$."@"') ELSE #({0}, '@') END"""


def of_key(source: str, template: str) -> Side:
    """Returns the DuckDB side of an access to canonical text by a plain constant key. DuckDB prints numbers with a
    fraction, objects and arrays in another form, so the UDF handles these, and texts that are not objects if that
    matters."""
    own = template.replace("\n", "").replace("#", udf_name(source))

    def side(arguments: Sequence[Sql], types: Sequence[TypeRef]) -> Sql | None:
        key = constant_text(arguments[1])
        plain = key is not None and _KEY.fullmatch(key)
        return evaluate_once(arguments[:1], own.replace("@", key)) if key is not None and plain else None

    return side


# ---- registration ----


def _on_checked(read: Callable[..., str | None], checked: bool) -> Callable[..., str | None]:
    """Returns `read` with a prior check of the text's escapes (`checked`): json may contain escapes without a
    character."""
    if not checked:
        return read
    return lambda text, *arguments: read(_require_json(text), *arguments)


def _extraction() -> None:
    for kind in ("json", "jsonb"):
        checked = kind == "json"
        implement(f"{kind}_object_field", _on_checked(field, checked))
        if checked:
            implement("json_object_field_text", _on_checked(field_text, checked))
        at_index = element if checked else _jsonb_element
        implement(f"{kind}_array_element", at_index)
        implement(f"{kind}_array_element_text", _on_checked(_part_text(at_index), checked))
        implement(f"{kind}_extract_path", _on_checked(at_path, checked))
        implement(f"{kind}_extract_path_text", _on_checked(_part_text(at_path), checked))
        implement(f"{kind}_typeof", type_name)
        implement(f"{kind}_array_length", array_length)
        implement(f"{kind}_object_keys", _keys(f"{kind}_object_keys"))
    name = "jsonb_object_field_text"
    implement(name, field_text, of_key(name, _FIELD_TEXT), duckdb_udfs=(name,))
    mark(Trait.NEVER_LARGER, "json_array_element_text", "jsonb_array_element_text", "json_object_field_text", name)


def _sets() -> None:
    implement("json_array_elements", _json_elements("json_array_elements", _same))
    implement("json_array_elements_text",
              lambda text: _json_elements("json_array_elements_text", text_of)(_require_json(text)))  # fmt: skip
    implement("jsonb_array_elements", _jsonb_elements(_same))
    implement("jsonb_array_elements_text", _jsonb_elements(text_of))
    implement("json_each", _json_each(_same))
    implement("json_each_text", _json_each(text_of))
    implement("jsonb_each", _jsonb_each("jsonb_each", _same))
    implement("jsonb_each_text", _jsonb_each("jsonb_each_text", text_of))


_extraction()
_sets()
