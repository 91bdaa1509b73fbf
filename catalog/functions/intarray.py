"""The extension intarray (PostgreSQL 16 manual, F.20): arrays of integers without NULLs as sets. Its operator classes
are declared in catalog/data/extensions."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, cast

from catalog.errors import SqlError
from catalog.functions.registry import implement
from catalog.types.base import Array
from catalog.types.boolean_queries import holds
from catalog.types.query_int import parse_query


def _elements(array: Array) -> tuple[int, ...]:
    """Returns the elements in order. Raises 22004 for a NULL."""
    if None in array.elements:
        raise SqlError("22004", "array must not contain nulls")
    return cast(tuple[int, ...], array.elements)


def _make_set(elements: Iterable[int]) -> Array:
    return Array.of(tuple(sorted(set(elements))))


def _sort(array: Array, direction: str = "asc") -> Array:
    elements = _elements(array)
    if len(elements) < 2:
        return array
    word = direction.lower()
    if word not in ("asc", "desc"):
        raise SqlError("22023", 'second parameter must be "ASC" or "DESC"')
    return array._replace(elements=tuple(sorted(elements, reverse=word == "desc")))


def _unique(array: Array) -> Array:
    """Removes elements that equal the one before."""
    elements = _elements(array)
    kept = tuple(item for place, item in enumerate(elements) if not place or elements[place - 1] != item)
    return array if len(kept) == len(elements) else Array.of(kept)


def _index(array: Array, wanted: int) -> int:
    elements = _elements(array)
    return elements.index(wanted) + 1 if wanted in elements else 0


def _part(array: Array, start: int, length: int = 0) -> Array:
    """subarray(): `length` 0 is to the end, a negative one leaves so many elements off."""
    elements = _elements(array)
    count = len(elements)
    begin = start - 1 if start > 0 else start
    begin = count + begin if begin < 0 else begin
    end = begin + length if length > 0 else count + length
    return Array.of(elements[max(begin, 0) : min(end, count)] if end > 0 else ())


def _without(array: Array, gone: int) -> Array:
    elements = _elements(array)
    return array if gone not in elements else Array.of(tuple(item for item in elements if item != gone))


def _of_sets(function: Callable[[set[int], set[int]], Any]) -> Callable[[Array, Array], Any]:
    return lambda left, right: function(set(_elements(left)), set(_elements(right)))


def _matches(array: Array, query: str) -> bool:
    elements = set(_elements(array))
    return holds(parse_query(query), elements.__contains__)


def _register() -> None:
    implement("icount", lambda array: len(_elements(array)))
    implement("sort", _sort)
    implement("sort_asc", _sort)
    implement("sort_desc", lambda array: _sort(array, "desc"))
    implement("uniq", _unique)
    implement("idx", _index)
    implement("subarray", _part)
    implement("intset", lambda item: Array.of((item,)))
    implement("intarray_push_elem", lambda array, item: Array.of((*_elements(array), item)))
    implement("intarray_push_array", lambda left, right: Array.of((*_elements(left), *_elements(right))))
    implement("intarray_del_elem", _without)
    implement("intset_union_elem", lambda array, item: _make_set((*_elements(array), item)))
    implement("intset_subtract", _of_sets(lambda left, right: _make_set(left - right)))
    implement("_int_union", _of_sets(lambda left, right: _make_set(left | right)))
    implement("_int_inter", _of_sets(lambda left, right: _make_set(left & right)))
    implement("_int_overlap", _of_sets(lambda left, right: not left.isdisjoint(right)))
    implement("_int_contains", _of_sets(lambda left, right: left >= right))
    implement("_int_contained", _of_sets(lambda left, right: left <= right))
    implement("_int_same", _of_sets(lambda left, right: left == right))
    implement("_int_different", _of_sets(lambda left, right: left != right))
    implement("boolop", _matches)
    implement("rboolop", lambda query, array: _matches(array, query))


_register()
