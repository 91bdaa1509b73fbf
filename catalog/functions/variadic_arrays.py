"""concat(VARIADIC array) and others: functions of VARIADIC "any" over the elements of one array.

Such a function takes separate arguments of any types. A call with VARIADIC calls another function instead, which
expands the array for each row, and creates the original function for each number of elements. A NULL array gives NULL;
for format() it means no arguments.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from catalog.functions.base import Function
from catalog.functions.registry import declare, implement, implementation
from catalog.types import element_of, oids
from catalog.types.base import EMPTY_ARRAY, TypeRef

# source -> (OID of the array function, types before the array, result, whether a NULL array is an empty one)
_FUNCTIONS: dict[str, tuple[int, tuple[int, ...], int, bool]] = {
    "text_concat": (9110, (), oids.TEXT, False),
    "text_concat_ws": (9111, (oids.TEXT,), oids.TEXT, False),
    "text_format": (9112, (oids.TEXT,), oids.TEXT, True),
    "json_build_array": (9113, (), oids.JSON, False),
    "jsonb_build_array": (9114, (), oids.JSONB, False),
    "json_build_object": (9115, (), oids.JSON, False),
    "jsonb_build_object": (9116, (), oids.JSONB, False),
    "pg_num_nulls": (9117, (), oids.INT4, False),
    "pg_num_nonnulls": (9118, (), oids.INT4, False),
}
TWINS = {source: twin for source, (twin, *_) in _FUNCTIONS.items()}


def _spread(source: str, null_is_empty: bool) -> Callable[[Sequence[TypeRef], TypeRef], Callable[..., object]]:
    def make(types: Sequence[TypeRef], result: TypeRef) -> Callable[..., object]:
        fixed, element = list(types[:-1]), TypeRef(element_of(types[-1].oid))
        made: dict[int, Callable[..., object]] = {}

        def call(context: Any, *values: Any) -> object:
            array = values[-1]
            if array is None:
                if not null_is_empty:
                    return None
                array = EMPTY_ARRAY
            count = len(array.elements)
            if count not in made:
                made[count] = _callable(source, [*fixed, *[element] * count], result)
            return made[count](context, *values[:-1], *array.elements)

        return call

    return make


def _callable(source: str, types: Sequence[TypeRef], result: TypeRef) -> Callable[..., object]:
    """Returns the function for these types, with a context as first argument."""
    found = implementation(source)
    assert found is not None
    python = found.python if found.python_for_types is None else found.python_for_types(types, result)
    assert python is not None
    side: Callable[..., object] = python
    return side if found.needs_context else lambda context, *values: side(*values)


def _register() -> None:
    for source, (oid, before, result, null_is_empty) in _FUNCTIONS.items():
        name = f"{source}_of_array"
        implement(name, python_for_types=_spread(source, null_is_empty), needs_context=True)
        declare(Function(oid, name, name, "f", False, False, "s", (*before, oids.ANYARRAY), result, 0, 0), inner=True)


_register()
