"""Functions and operators of multiranges (PostgreSQL 16 manual, 9.20; multirangetypes.c).

As in PostgreSQL, most of them depend only on the range from the first to the last value (`span_of`), and call a
function of ranges.py. A range as an operand is a multirange of one range.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

from catalog.errors import SqlError
from catalog.functions import ranges
from catalog.functions.base import AggregateSteps
from catalog.functions.registry import implement
from catalog.types import lookup
from catalog.types.base import Array, TypeRef
from catalog.types.multirange import Multirange, MultirangeType
from catalog.types.range import EMPTY, Range, RangeType

Maker = Callable[[Sequence[TypeRef], TypeRef], Callable[..., Any]]


def span_of(value: Multirange) -> Range:
    """Returns the smallest range that contains the multirange."""
    if not value:
        return EMPTY
    first, last = value[0], value[-1]
    return Range(first.lower, last.upper, first.lower_inclusive, last.upper_inclusive)


def _types(types: Sequence[TypeRef]) -> tuple[RangeType, bool, bool]:
    """Returns the range type of two operands, and whether each operand is a multirange."""
    left, right = (lookup(item.oid) for item in types)
    multirange = left if isinstance(left, MultirangeType) else right
    assert isinstance(multirange, MultirangeType)
    return multirange.range, isinstance(left, MultirangeType), isinstance(right, MultirangeType)


def _over_spans(make: Callable[[RangeType], Callable[[Range, Range], Any]]) -> Maker:
    """Returns the maker of an operator that depends only on the spans of its operands."""

    def make_function(types: Sequence[TypeRef], result: TypeRef) -> Callable[..., Any]:
        known, left_many, right_many = _types(types)
        decide = make(known)

        def decide_spans(left: Any, right: Any) -> Any:
            return decide(span_of(left) if left_many else left, span_of(right) if right_many else right)

        return decide_spans

    return make_function


def _over_parts(make: Callable[[RangeType], Callable[[Multirange, Multirange], Any]]) -> Maker:
    """Returns the maker of an operator over the ranges of its operands."""

    def make_function(types: Sequence[TypeRef], result: TypeRef) -> Callable[..., Any]:
        known, left_many, right_many = _types(types)
        decide = make(known)

        def parts(value: Any, many: bool) -> Multirange:
            return value if many else () if value.empty else (value,)

        return lambda left, right: decide(parts(left, left_many), parts(right, right_many))

    return make_function


def _contains(known: RangeType) -> Callable[[Multirange, Multirange], bool]:
    contains = ranges.contains(known)
    return lambda whole, parts: all(any(contains(item, part) for item in whole) for part in parts)


def _is_within(known: RangeType) -> Callable[[Multirange, Multirange], bool]:
    contains = _contains(known)
    return lambda parts, whole: contains(whole, parts)


def _overlaps(known: RangeType) -> Callable[[Multirange, Multirange], bool]:
    return lambda left, right: any(ranges.overlap(known, one, other) for one in left for other in right)


def _has_element(types: Sequence[TypeRef], result: TypeRef) -> Callable[..., bool]:
    known, *_ = _types(types)
    return lambda value, element: any(ranges.has(known, item, element) for item in value)


def _element_of(types: Sequence[TypeRef], result: TypeRef) -> Callable[..., bool]:
    known, *_ = _types(types)
    return lambda element, value: any(ranges.has(known, item, element) for item in value)


def _multirange(oid: int) -> MultirangeType:
    found = lookup(oid)
    assert isinstance(found, MultirangeType)
    return found


def _union(types: Sequence[TypeRef], result: TypeRef) -> Callable[..., Multirange]:
    known = _multirange(result.oid)
    return lambda left, right: known.make((*left, *right))


def intersection_of(known: MultirangeType, left: Multirange, right: Multirange) -> Multirange:
    intersect = ranges.intersection(known.range)
    return known.make([intersect(one, other) for one in left for other in right])


def _intersection(types: Sequence[TypeRef], result: TypeRef) -> Callable[..., Multirange]:
    known = _multirange(result.oid)
    return lambda left, right: intersection_of(known, left, right)


def _difference(types: Sequence[TypeRef], result: TypeRef) -> Callable[..., Multirange]:
    """multirange - multirange: removes the ranges of the second from each range of the first."""
    known = _multirange(result.oid)
    of = known.range

    def cut(item: Range, other: Range) -> list[Range]:
        if not ranges.overlap(of, item, other):
            return [item]
        (low, high), (other_low, other_high) = of.ends(item), of.ends(other)
        kept = []
        if low < other_low:
            kept.append(of.make(item.lower, other.lower, item.lower_inclusive, not other.lower_inclusive))
        if high > other_high:
            kept.append(of.make(other.upper, item.upper, not other.upper_inclusive, item.upper_inclusive))
        return kept

    def difference(left: Multirange, right: Multirange) -> Multirange:
        kept = list(left)
        for other in right:
            kept = [part for item in kept for part in cut(item, other)]
        return known.make(kept)

    return difference


def _comparison(decide: Callable[[Any, Any], Any]) -> Maker:
    def make(types: Sequence[TypeRef], result: TypeRef) -> Callable[..., Any]:
        key = _multirange(types[0].oid).sort_key()
        return lambda left, right: decide(key(left), key(right))

    return make


# ---- construction ---------------------------------------------------------------------------------------------------


def _of_one(types: Sequence[TypeRef], result: TypeRef) -> Callable[..., Multirange]:
    known = _multirange(result.oid)
    return lambda item: known.make((item,))


def _of_array(types: Sequence[TypeRef], result: TypeRef) -> Callable[..., Multirange]:
    known = _multirange(result.oid)

    def make(array: Array) -> Multirange:
        if len(array.dimensions) > 1:
            raise SqlError("21000", "multiranges cannot be constructed from multidimensional arrays")
        if None in array.elements:
            raise SqlError("22004", "multirange values cannot contain null members")
        return known.make(array.elements)  # type: ignore[arg-type]

    return make


def _range_collection(of_ranges: bool) -> Callable[[Sequence[TypeRef], TypeRef], AggregateSteps]:
    def make(types: Sequence[TypeRef], result: TypeRef) -> AggregateSteps:
        known = _multirange(result.oid)

        def step(state: Any, value: Any) -> Any:
            state = [] if state is None else state
            state.extend((value,) if of_ranges else value)
            return state

        return (lambda: None), step, (lambda state: None if state is None else known.make(state))

    return make


def _range_intersection(types: Sequence[TypeRef], result: TypeRef) -> AggregateSteps:
    known = lookup(result.oid)
    meet: Callable[[Any, Any], Any]
    if isinstance(known, MultirangeType):
        of = known
        meet = lambda left, right: intersection_of(of, left, right)  # noqa: E731
    else:
        assert isinstance(known, RangeType)
        meet = ranges.intersection(known)
    return (lambda: None), (lambda state, value: value if state is None else meet(state, value)), (lambda state: state)


def _register() -> None:
    for name, ask in (("lower", "lower"), ("upper", "upper"), ("lower_inc", "lower_inclusive"),
                      ("upper_inc", "upper_inclusive")):  # fmt: skip
        implement(f"multirange_{name}", lambda value, ask=ask: getattr(span_of(value), ask))
    implement("multirange_empty", lambda value: not value)
    implement("multirange_lower_inf", lambda value: bool(value) and value[0].lower is None)
    implement("multirange_upper_inf", lambda value: bool(value) and value[-1].upper is None)
    implement("range_merge_from_multirange", span_of)
    implement("multirange_unnest", list)
    implement("multirange_constructor0", lambda: ())
    implement("multirange_constructor1", python_for_types=_of_one)
    implement("multirange_constructor2", python_for_types=_of_array)
    implement("multirange_union", python_for_types=_union)
    implement("multirange_minus", python_for_types=_difference)
    implement("multirange_intersect", python_for_types=_intersection)
    implement("multirange_contains_elem", python_for_types=_has_element)
    implement("elem_contained_by_multirange", python_for_types=_element_of)
    for sources, maker in (
        ("multirange_contains_range multirange_contains_multirange range_contains_multirange", _contains),
        ("range_contained_by_multirange multirange_contained_by_multirange multirange_contained_by_range", _is_within),
        ("range_overlaps_multirange multirange_overlaps_range multirange_overlaps_multirange", _overlaps),
    ):
        for source in sources.split():
            implement(source, python_for_types=_over_parts(maker))
    for word, decide in ranges.PLACES.items():
        for source in (f"range_{word}_multirange", f"multirange_{word}_range", f"multirange_{word}_multirange"):
            implement(source, python_for_types=_over_spans(ranges.over_ends(decide)))
    for source in ("range_adjacent_multirange", "multirange_adjacent_range", "multirange_adjacent_multirange"):
        implement(source, python_for_types=_over_spans(ranges.adjacent))
    implement("multirange_cmp", python_for_types=_comparison(lambda left, right: (left > right) - (left < right)))
    for suffix in ("eq", "ne", "lt", "le", "gt", "ge"):
        implement(f"multirange_{suffix}", python_for_types=_comparison(getattr(operator, suffix)))
    implement("range_agg(anyrange)", aggregate_for_types=_range_collection(True))
    implement("range_agg(anymultirange)", aggregate_for_types=_range_collection(False))
    implement("range_intersect_agg(anyrange)", aggregate_for_types=_range_intersection)
    implement("range_intersect_agg(anymultirange)", aggregate_for_types=_range_intersection)


_register()
