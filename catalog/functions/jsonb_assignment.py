"""Assignment to an element of a jsonb: UPDATE t SET j['a'][0] = value (jsonbsubs.c, jsonfuncs.c's setPath).

Missing containers on the path are created: objects for names, arrays for numbers, filled with nulls up to the number.
A scalar on the path is an error (22023).
"""

from __future__ import annotations

import re
from typing import Any

from catalog.errors import SqlError
from catalog.functions.base import Function
from catalog.functions.registry import declare, implement
from catalog.types import oids
from catalog.types.base import Array
from catalog.types.json import render_jsonb
from catalog.types.json_text import Pairs, decode_json

ASSIGN = 9940
_INTEGER = re.compile(r"[ \t\n\v\f\r]*[+-]?[0-9]+\Z", re.ASCII)
declare(
    Function(
        ASSIGN, "shoal_jsonb_assign", "shoal_jsonb_assign", "f", False, False, "i",
        (oids.JSONB, oids.TEXT_ARRAY, oids.JSONB, oids.BOOL), oids.JSONB, 0, 0,
    ),
    inner=True,
)  # fmt: skip


def _whole(text: str) -> int | None:
    """Returns the number of a step; None for a name. A number out of the range of int4 is a name."""
    if _INTEGER.match(text) is None:
        return None
    number = int(text)
    return number if -(1 << 31) <= number < 1 << 31 else None


def _in_the_way() -> SqlError:
    detail = "The path assumes key is a composite object, but it is a scalar value."
    return SqlError("22023", "cannot replace existing key", detail=detail)


def assign(document: str | None, path: Array, value: str | None, first_is_number: bool) -> str:
    """Returns the document with the value at the path. Raises 22004, 22023, 22P02."""
    steps = path.elements
    if None in steps:
        raise SqlError("22004", "jsonb subscript in assignment must not be null")
    root: Any = decode_json(document) if document is not None else [] if first_is_number else Pairs()
    if not isinstance(root, list):
        raise _in_the_way()
    stored = None if value is None else decode_json(value)
    return render_jsonb(_store(root, [str(step) for step in steps], 0, stored))


def _store(node: Any, steps: list[str], level: int, value: object) -> object:
    """Returns the node with the value at steps[level:]. Raises 22023 for a scalar."""
    if isinstance(node, Pairs):
        return _in_object(node, steps, level, value)
    if isinstance(node, list):
        return _in_array(node, steps, level, value)
    raise _in_the_way()


def _in_object(node: Pairs, steps: list[str], level: int, value: object) -> object:
    key, last = steps[level], level == len(steps) - 1
    found = Pairs(node)
    for place, (name, member) in enumerate(found):
        if name == key:
            found[place] = (name, value if last else _store(member, steps, level + 1, value))
            return found
    found.append((key, value if last else _make_path(steps, level + 1, value)))
    return found


def _in_array(node: list[Any], steps: list[str], level: int, value: object) -> object:
    number, last = _whole(steps[level]), level == len(steps) - 1
    if number is None:
        message = f'path element at position {level + 1} is not an integer: "{steps[level]}"'
        raise SqlError("22P02", message)
    if number < 0:
        if -number > len(node):
            raise SqlError("22023", f"path element at position {level + 1} is out of range: {number}")
        number += len(node)
    found = list(node)
    if number < len(found):
        found[number] = value if last else _store(found[number], steps, level + 1, value)
        return found
    found += [None] * (number - len(found))
    found.append(value if last else _make_path(steps, level + 1, value))
    return found


def _make_path(steps: list[str], level: int, value: object) -> object:
    """Creates the containers of steps[level:], with the value at the end."""
    made = value
    for step in reversed(steps[level:]):
        number = _whole(step)
        made = Pairs([(step, made)]) if number is None else [*[None] * max(number, 0), made]
    return made


implement("shoal_jsonb_assign", assign)
