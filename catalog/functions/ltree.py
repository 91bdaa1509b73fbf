"""The functions and operators of the extension ltree (PostgreSQL 16 manual, F.23). Its operator classes are declared in
catalog/data/extensions."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, cast

from catalog.errors import SqlError
from catalog.functions.base import Trait
from catalog.functions.registry import implement
from catalog.types.base import Array
from catalog.types.boolean_queries import holds
from catalog.types.ltree import (
    LQUERY,
    LTREE,
    LTXTQUERY,
    Level,
    check_levels,
    labels_of,
    parse_lquery,
    parse_ltree,
    parse_ltxtquery,
    sort_key,
)

Test = Callable[[str, Any], bool]


def _of_labels(labels: Sequence[str]) -> str:
    check_levels(len(labels))
    return ".".join(labels)


# ---- paths ----------------------------------------------------------------------------------------------------------


def _is_parent(value: str, other: str) -> bool:
    """Whether a path is an ancestor of another one, or equal."""
    return not value or other == value or other.startswith(value + ".")


def _is_child(value: str, other: str) -> bool:
    return _is_parent(other, value)


def _join(left: str, right: str) -> str:
    return _of_labels(labels_of(left) + labels_of(right))


def _slice(value: str, start: int, end: int) -> str:
    """subltree(). Raises 22023."""
    labels = labels_of(value)
    if start < 0 or end < 0 or start >= len(labels) or start > end:
        raise SqlError("22023", "invalid positions")
    return ".".join(labels[start:end])


def _part(value: str, offset: int, length: int | None = None) -> str:
    """subpath(). A negative offset counts from the end, a negative length leaves so many labels off."""
    count = len(labels_of(value))
    start = offset
    if start < 0:
        start += count
    if start < 0:
        start += count
    if length is None:
        end = count
    else:
        end = count + length if length < 0 else start + length
    return _slice(value, start, end)


def _index(value: str, part: str, offset: int = 0) -> int:
    labels, wanted = labels_of(value), labels_of(part)
    start = max(len(labels) + offset, 0) if offset < 0 else offset
    if not wanted:
        return -1
    places = range(start, len(labels) - len(wanted) + 1)
    return next((place for place in places if labels[place : place + len(wanted)] == wanted), -1)


def _common_ancestor(*values: str) -> str | None:
    """lca(): the longest path above all of them; NULL if one has no labels."""
    if not values or not all(values):
        return None
    paths = [labels_of(value) for value in values]
    count = min(map(len, paths)) - 1
    same = 0
    while same < count and all(path[same] == paths[0][same] for path in paths):
        same += 1
    return ".".join(paths[0][:same])


# ---- queries --------------------------------------------------------------------------------------------------------


def _fits(value: str, query: str) -> bool:
    """ltree ~ lquery."""
    levels, labels = parse_lquery(query), labels_of(value)
    return _fits_from(levels, labels)


def _fits_from(levels: Sequence[Level], labels: Sequence[str]) -> bool:
    """Follows all possible places of the levels at once."""
    places = [0]
    for level in levels:
        reached: list[int] = []
        for place in places:
            end, last = place, min(place + level.high, len(labels))
            if level.labels:
                while end < last and level.fits(labels[end]):
                    end += 1
            else:
                end = last
            begin = max(place + level.low, reached[-1] + 1 if reached else 0)
            reached += range(begin, end + 1)
        places = reached
    return len(labels) in places


def _searches(value: str, query: str) -> bool:
    """ltree @ ltxtquery."""
    labels = labels_of(value)
    return holds(parse_ltxtquery(query), cache(lambda wanted: any(map(wanted.fits, labels))))


def _fits_any(value: str, queries: Array) -> bool:
    """ltree ? lquery[]."""
    return any(_fits(value, query) for query in _elements(queries))


def _elements(array: Array) -> list[Any]:
    if len(array.dimensions) > 1:
        raise SqlError("2202E", "array must be one-dimensional")
    if None in array.elements:
        raise SqlError("22004", "array must not contain nulls")
    return list(array.elements)


def _exchange(test: Callable[[Any, Any], object]) -> Callable[[Any, Any], object]:
    return lambda left, right: test(right, left)


def _of_arrays(test: Test) -> Callable[[Array, Any], bool]:
    return lambda array, other: any(test(value, other) for value in _elements(array))


def _first(test: Test) -> Callable[[Array, Any], str | None]:
    return lambda array, other: next((value for value in _elements(array) if test(value, other)), None)


def _register_tests() -> None:
    """Each test has a form with exchanged arguments, and two for arrays of ltree."""
    for plain, exchanged, test in (
        ("ltq_regex", "ltq_rregex", cast(Test, _fits)),
        ("lt_q_regex", "lt_q_rregex", cast(Test, _fits_any)),
        ("ltxtq_exec", "ltxtq_rexec", cast(Test, _searches)),
    ):
        implement(plain, test, traits=(Trait.SLOW,))
        implement(exchanged, _exchange(test), traits=(Trait.SLOW,))
        implement(f"_{plain}", _of_arrays(test), traits=(Trait.SLOW,))
        implement(f"_{exchanged}", _exchange(_of_arrays(test)), traits=(Trait.SLOW,))
    for name, test in (("isparent", _is_parent), ("risparent", _is_child)):
        implement(f"ltree_{name}", test)
        implement(f"_ltree_{name}", _of_arrays(test))
        implement(f"_ltree_r_{name}", _exchange(_of_arrays(test)))
        implement(f"_ltree_extract_{name}", _first(test))
    implement("_ltq_extract_regex", _first(_fits), traits=(Trait.SLOW,))
    implement("_ltxtq_extract_exec", _first(_searches), traits=(Trait.SLOW,))


def _register() -> None:
    for name in ("lt", "le", "gt", "ge", "eq", "ne"):
        implement(f"ltree_{name}", _comparison(getattr(operator, name)))
    implement("ltree_cmp", lambda left, right: _compare(sort_key(left), sort_key(right)))
    implement("ltree_addltree", _join)
    implement("ltree_addtext", lambda left, right: _join(left, parse_ltree(right)))
    implement("ltree_textadd", lambda left, right: _join(parse_ltree(left), right))
    implement("nlevel", lambda value: len(labels_of(value)))
    implement("subltree", _slice)
    implement("subpath", _part)
    implement("ltree_index", _index)
    implement("lca", _common_ancestor)
    implement("_lca", lambda array: _common_ancestor(*_elements(array)))
    implement("text2ltree", parse_ltree)
    implement("ltree2text", lambda value: value)
    for known in (LTREE, LQUERY, LTXTQUERY):
        implement("ltxtq_send" if known is LTXTQUERY else f"{known.name}_send", known.binary_encoder())
    _register_tests()


def _comparison(compare: Callable[[Any, Any], bool]) -> Callable[[str, str], bool]:
    return lambda left, right: compare(sort_key(left), sort_key(right))


def _compare(left: bytes, right: bytes) -> int:
    """ltree_cmp() in its sign."""
    return int(left > right) - int(left < right)


_register()
