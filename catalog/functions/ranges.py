"""Functions and operators of ranges (PostgreSQL 16 manual, 9.20; rangetypes.c)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from catalog.errors import SqlError
from catalog.functions.registry import implement
from catalog.types import lookup
from catalog.types.base import TypeRef
from catalog.types.range import EMPTY, Range, RangeType

Maker = Callable[[Sequence[TypeRef], TypeRef], Callable[..., object]]
_FLAGS = ("[)", "[]", "(]", "()")


def _range_type(oid: int) -> RangeType:
    found = lookup(oid)
    assert isinstance(found, RangeType)
    return found


def _of_first(make: Callable[[RangeType], Callable[..., object]]) -> Maker:
    """Returns the maker of a function whose first argument is the range."""
    return lambda types, result: make(_range_type(types[0].oid))


# ---- construction ----


def _constructor(types: Sequence[TypeRef], result: TypeRef) -> Callable[..., object]:
    known = _range_type(result.oid)

    def construct(lower: Any, upper: Any, *flags: Any) -> object:
        shape = flags[0] if flags else "[)"
        if shape is None:
            raise SqlError("22000", "range constructor flags argument must not be null")
        if shape not in _FLAGS:
            hint = 'Valid values are "[]", "[)", "(]", and "()".'
            raise SqlError("42601", "invalid range bound flags", hint=hint)
        return known.make(lower, upper, shape[0] == "[", shape[1] == "]")

    return construct


# ---- comparison ----


def over_ends(decide: Callable[[Any, Any, Any, Any], bool]) -> Callable[[RangeType], Callable[..., bool]]:
    """Returns the maker of an operator over the ends (lower, upper, lower, upper) of two ranges; it is FALSE for an
    empty range."""

    def make(known: RangeType) -> Callable[..., bool]:
        ends = known.ends
        return lambda one, other: not (one.empty or other.empty) and decide(*ends(one), *ends(other))

    return make


PLACES: dict[str, Callable[[Any, Any, Any, Any], bool]] = {
    "before": lambda low, high, other_low, other_high: high < other_low,
    "after": lambda low, high, other_low, other_high: low > other_high,
    "overleft": lambda low, high, other_low, other_high: high <= other_high,
    "overright": lambda low, high, other_low, other_high: low >= other_low,
}


def contains(known: RangeType) -> Callable[..., bool]:
    def decide(one: Range, other: Range) -> bool:
        if other.empty or one.empty:
            return other.empty
        (low, high), (inner_low, inner_high) = known.ends(one), known.ends(other)
        return bool(low <= inner_low and inner_high <= high)

    return decide


def _is_within(known: RangeType) -> Callable[..., bool]:
    inside = contains(known)
    return lambda one, other: inside(other, one)


def has(known: RangeType, value: Range, element: Any) -> bool:
    if value.empty:
        return False
    low, high = known.ends(value)
    place = (1, known.key(element), 0)
    return bool(low <= place <= high)


def _has_element(types: Sequence[TypeRef], result: TypeRef) -> Callable[..., object]:
    known = _range_type(types[0].oid)
    return lambda value, element: has(known, value, element)


def _element_of(types: Sequence[TypeRef], result: TypeRef) -> Callable[..., object]:
    known = _range_type(types[1].oid)
    return lambda element, value: has(known, value, element)


def _meet(known: RangeType, one: Range, other: Range) -> bool:
    """Whether the upper bound of `one` equals the lower bound of `other`, and exactly one of both is inclusive."""
    if one.upper is None or other.lower is None:
        return False
    return bool(known.key(one.upper) == known.key(other.lower) and one.upper_inclusive != other.lower_inclusive)


def adjacent(known: RangeType) -> Callable[..., bool]:
    return lambda one, other: not (one.empty or other.empty) and (_meet(known, one, other) or _meet(known, other, one))


def _order_of(known: RangeType) -> Callable[..., int]:
    key: Any = known.sort_key()
    return lambda one, other: (key(one) > key(other)) - (key(one) < key(other))


def _comparison(decide: Callable[[int], bool]) -> Maker:
    def make(known: RangeType) -> Callable[..., object]:
        compared = _order_of(known)
        return lambda one, other: decide(compared(one, other))

    return _of_first(make)


# ---- combination ----


def _span(known: RangeType, one: Range, other: Range) -> Range:
    """Returns the smallest range that contains both ranges."""
    if one.empty or other.empty:
        return one if other.empty else other
    (low, high), (other_low, other_high) = known.ends(one), known.ends(other)
    first, last = one if low <= other_low else other, one if high >= other_high else other
    return Range(first.lower, last.upper, first.lower_inclusive, last.upper_inclusive)


def overlap(known: RangeType, one: Range, other: Range) -> bool:
    if one.empty or other.empty:
        return False
    (low, high), (other_low, other_high) = known.ends(one), known.ends(other)
    return bool(low <= other_high and other_low <= high)


def _union(known: RangeType) -> Callable[..., object]:
    touch = adjacent(known)

    def union(one: Range, other: Range) -> Range:
        if not (one.empty or other.empty or overlap(known, one, other) or touch(one, other)):
            raise SqlError("22000", "result of range union would not be contiguous")
        return _span(known, one, other)

    return union


def intersection(known: RangeType) -> Callable[[Range, Range], Range]:
    def intersect(one: Range, other: Range) -> Range:
        if not overlap(known, one, other):
            return EMPTY
        (low, high), (other_low, other_high) = known.ends(one), known.ends(other)
        first, last = one if low >= other_low else other, one if high <= other_high else other
        return known.make(first.lower, last.upper, first.lower_inclusive, last.upper_inclusive)

    return intersect


def _difference(known: RangeType) -> Callable[..., object]:
    def difference(one: Range, other: Range) -> Range:
        if one.empty or other.empty:
            return one
        (low, high), (other_low, other_high) = known.ends(one), known.ends(other)
        if low < other_low and high > other_high:
            raise SqlError("22000", "result of range difference would not be contiguous")
        if low > other_high or high < other_low:
            return one
        if low >= other_low and high <= other_high:
            return EMPTY
        if low < other_low:
            return known.make(one.lower, other.lower, one.lower_inclusive, not other.lower_inclusive)
        return known.make(other.upper, one.upper, not other.upper_inclusive, one.upper_inclusive)

    return difference


implement("range_constructor2", python_for_types=_constructor)
implement("range_constructor3", python_for_types=_constructor)
implement("range_lower", lambda value: value.lower)
implement("range_upper", lambda value: value.upper)
implement("range_empty", lambda value: value.empty)
implement("range_lower_inc", lambda value: value.lower_inclusive)
implement("range_upper_inc", lambda value: value.upper_inclusive)
implement("range_lower_inf", lambda value: value.lower is None and not value.empty)
implement("range_upper_inf", lambda value: value.upper is None and not value.empty)
implement("range_contains", python_for_types=_of_first(contains))
implement("range_contained_by", python_for_types=_of_first(_is_within))
implement("range_contains_elem", python_for_types=_has_element)
implement("elem_contained_by_range", python_for_types=_element_of)
implement("range_overlaps", python_for_types=_of_first(lambda known: lambda one, other: overlap(known, one, other)))
for _place, _decide in PLACES.items():
    implement(f"range_{_place}", python_for_types=_of_first(over_ends(_decide)))
implement("range_adjacent", python_for_types=_of_first(adjacent))
implement("range_union", python_for_types=_of_first(_union))
implement("range_intersect", python_for_types=_of_first(intersection))
implement("range_minus", python_for_types=_of_first(_difference))
implement("range_merge", python_for_types=_of_first(lambda known: lambda one, other: _span(known, one, other)))
implement("range_cmp", python_for_types=_of_first(_order_of))
implement("range_eq", python_for_types=_comparison(lambda order: order == 0))
implement("range_ne", python_for_types=_comparison(lambda order: order != 0))
implement("range_lt", python_for_types=_comparison(lambda order: order < 0))
implement("range_le", python_for_types=_comparison(lambda order: order <= 0))
implement("range_gt", python_for_types=_comparison(lambda order: order > 0))
implement("range_ge", python_for_types=_comparison(lambda order: order >= 0))
for _name in ("int4range", "int8range", "daterange"):
    implement(f"{_name}_canonical", lambda value: value)  # every value is
