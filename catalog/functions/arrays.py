"""Functions of arrays (PostgreSQL 16 manual, 9.19): dimensions, search, change, text, containment.

Elements are compared as the type's btree order compares them, and NULL elements are equal to each other in searches
(IS NOT DISTINCT FROM) but never in containment. Inside DuckDB arrays have one dimension and start at 1 (vectors at 0).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from catalog.errors import SqlError
from catalog.functions.base import CallContext
from catalog.functions.registry import implement, implements
from catalog.types import element_of, lookup, oids
from catalog.types.base import EMPTY_ARRAY, Array, TypeRef

Types = Sequence[TypeRef]
_AS_TEXT = frozenset({oids.TEXT, oids.VARCHAR, oids.NAME, oids.CHAR, oids.BPCHAR, oids.ACLITEM, oids.UNKNOWN})
_NUMBERS = frozenset({oids.INT2, oids.INT4, oids.INT8, oids.OID})
_VECTORS = frozenset({oids.INT2VECTOR, oids.OIDVECTOR})


def _length_of(kind: str) -> Callable[[Types, TypeRef], Callable[..., object]]:
    """array_lower, array_upper and array_length of a dimension; NULL where there is no such dimension."""

    def function(array: Array, dimension: int) -> int | None:
        if not 1 <= dimension <= len(array.dimensions):
            return None
        length, lower = array.dimensions[dimension - 1], array.lower_bounds[dimension - 1]
        return {"length": length, "lower": lower, "upper": lower + length - 1}[kind]

    return lambda types, result: function


def _bound_side(template: str, shift: int) -> Callable[[Sequence[str], Types], str]:
    """The DuckDB side of a bound; vectors start one lower than arrays and have their bounds even when empty."""

    def side(arguments: Sequence[str], types: Types) -> str:
        array, dimension = arguments
        vector = types[0].oid in _VECTORS
        bound = template.format(f"CAST(len({array}) AS INTEGER)")
        if vector:
            return f"CASE WHEN {dimension} = 1 THEN {bound}{f' - {shift}' if shift else ''} END"
        return f"CASE WHEN {dimension} = 1 AND len({array}) > 0 THEN {bound} END"

    return side


implement("array_length", duckdb=_bound_side("{0}", 0), python_for_types=_length_of("length"))
implement("array_upper", duckdb=_bound_side("{0}", 1), python_for_types=_length_of("upper"))
implement("array_lower", duckdb=_bound_side("1", 1), python_for_types=_length_of("lower"))


@implements("array_cardinality", duckdb="CAST(len({0}) AS INTEGER)")
def _cardinality(array: Array) -> int:
    return len(array.elements)


@implements("array_ndims")
def _dimensions(array: Array) -> int | None:
    return len(array.dimensions) or None


@implements("array_dims")
def _dimensions_text(array: Array) -> str | None:
    bounds = zip(array.lower_bounds, array.dimensions, strict=True)
    return "".join(f"[{lower}:{lower + length - 1}]" for lower, length in bounds) or None


@implements("generate_subscripts", "generate_subscripts_nodir")
def _subscripts(array: Array, dimension: int, reverse: bool = False) -> Iterable[int]:
    if not 1 <= dimension <= len(array.dimensions):
        return ()
    lower = array.lower_bounds[dimension - 1]
    found = range(lower, lower + array.dimensions[dimension - 1])
    return reversed(found) if reverse else found


# ---- text -----------------------------------------------------------------------------------------------------------


def _to_text(types: Types, result: TypeRef) -> Callable[..., object]:
    element = lookup(element_of(types[0].oid))

    def function(call: CallContext, array: Array | None, separator: str | None, null: str | None = None) -> str | None:
        if array is None or separator is None:
            return None
        encode = element.text_encoder(call.format)
        texts = [null if item is None else encode(item).decode() for item in array.elements]
        return separator.join(text for text in texts if text is not None)

    return function


def _to_text_side(arguments: Sequence[str], types: Types) -> str | None:
    """DuckDB joins texts and whole numbers as PostgreSQL does, leaving NULLs out."""
    if element_of(types[0].oid) not in _AS_TEXT | _NUMBERS:
        return None
    return f"array_to_string({arguments[0]}, {arguments[1]})"


implement("array_to_text", duckdb=_to_text_side, python_for_types=_to_text, needs_context=True)
implement("array_to_text_null", python_for_types=_to_text, needs_context=True)


# ---- search ---------------------------------------------------------------------------------------------------------


def _same(element_oid: int) -> Callable[[Any], Any]:
    """What elements are compared by; NULL stays None, which equals itself."""
    key = lookup(element_oid).sort_key()
    return lambda value: None if value is None else value if key is None else (key(value),)


def _one_dimension(array: Array, what: str) -> None:
    if len(array.dimensions) > 1:
        raise SqlError("0A000", f"{what} multidimensional arrays is not supported")


def _position(types: Types, result: TypeRef) -> Callable[..., object]:
    same = _same(types[1].oid)

    def function(array: Array | None, wanted: object, *start: int | None) -> int | None:
        if array is None:
            return None
        if start and start[0] is None:
            raise SqlError("22004", "initial position must not be null")
        _one_dimension(array, "searching for elements in")
        lower, target = (array.lower_bounds or (1,))[0], same(wanted)
        first = max((start[0] or 0) - lower, 0) if start else 0
        for position, item in enumerate(array.elements[first:], first + lower):
            if same(item) == target:
                return position
        return None

    return function


def _positions(types: Types, result: TypeRef) -> Callable[..., object]:
    same = _same(types[1].oid)

    def function(array: Array | None, wanted: object) -> Array | None:
        if array is None:
            return None
        _one_dimension(array, "searching for elements in")
        lower, target = (array.lower_bounds or (1,))[0], same(wanted)
        return Array.of(tuple(n for n, item in enumerate(array.elements, lower) if same(item) == target))

    return function


implement("array_position", python_for_types=_position)
implement("array_position_start", python_for_types=_position)
implement("array_positions", python_for_types=_positions)


def _containment(kind: str) -> Callable[[Types, TypeRef], Callable[..., object]]:
    def make(types: Types, result: TypeRef) -> Callable[..., object]:
        same = _same(element_of(types[0].oid))

        def keys(array: Array) -> set[object]:
            return {same(item) for item in array.elements if item is not None}

        def contains(whole: Array, part: Array) -> bool:
            return None not in part.elements and keys(part) <= keys(whole)

        return {
            "contains": contains,
            "contained": lambda part, whole: contains(whole, part),
            "overlap": lambda left, right: not keys(left).isdisjoint(keys(right)),
        }[kind]

    return make


for _kind in ("contains", "contained", "overlap"):
    implement(f"array{_kind}", python_for_types=_containment(_kind))


# ---- change ---------------------------------------------------------------------------------------------------------


def _appended(array: Array | None, item: object) -> Array:
    if array is None or not array.elements:
        return Array.of((item,))
    if len(array.dimensions) > 1:
        raise SqlError("22000", "argument must be empty or one-dimensional array")
    return Array((*array.elements, item), (len(array.elements) + 1,), array.lower_bounds)


def _prepended(item: object, array: Array | None) -> Array:
    if array is None or not array.elements:
        return Array.of((item,))
    if len(array.dimensions) > 1:
        raise SqlError("22000", "argument must be empty or one-dimensional array")
    return Array((item, *array.elements), (len(array.elements) + 1,), array.lower_bounds)


def _joined(left: Array | None, right: Array | None) -> Array | None:
    """array_cat: arrays of equal dimensions end to end, or an element array put to an array of arrays."""
    if left is None or right is None or not right.elements:
        return right if left is None else left
    if not left.elements:
        return right
    outer, inner = (left, right) if len(left.dimensions) >= len(right.dimensions) else (right, left)
    depth = len(outer.dimensions) - len(inner.dimensions)
    fits = depth in (0, 1) and outer.dimensions[1:] == (inner.dimensions if depth else inner.dimensions[1:])
    if not fits:
        raise SqlError("2202E", "cannot concatenate incompatible arrays")
    length = outer.dimensions[0] + (1 if depth else inner.dimensions[0])
    bounds = outer.lower_bounds if outer is left or not depth else (1, *outer.lower_bounds[1:])
    if not depth:
        bounds = left.lower_bounds
    return Array(left.elements + right.elements, (length, *outer.dimensions[1:]), bounds)


implement("array_append", _appended)
implement("array_prepend", _prepended)
implement("array_cat", _joined)


def _removed(types: Types, result: TypeRef) -> Callable[..., object]:
    same = _same(types[1].oid)

    def function(array: Array | None, wanted: object) -> Array | None:
        if array is None:
            return None
        if len(array.dimensions) > 1:
            raise SqlError("0A000", "removing elements from multidimensional arrays is not supported")
        target = same(wanted)
        kept = tuple(item for item in array.elements if same(item) != target)
        return Array(kept, (len(kept),), array.lower_bounds) if kept else EMPTY_ARRAY

    return function


def _replaced(types: Types, result: TypeRef) -> Callable[..., object]:
    same = _same(types[1].oid)

    def function(array: Array | None, wanted: object, value: object) -> Array | None:
        if array is None:
            return None
        target = same(wanted)
        return array._replace(elements=tuple(value if same(item) == target else item for item in array.elements))

    return function


implement("array_remove", python_for_types=_removed)
implement("array_replace", python_for_types=_replaced)


@implements("trim_array")
def _trimmed(array: Array, count: int) -> Array:
    length = array.dimensions[0] if array.dimensions else 0
    if not 0 <= count <= length:
        raise SqlError("2202E", f"number of elements to trim must be between 0 and {length}")
    size = len(array.elements) // length if length else 0
    kept = array.elements[: (length - count) * size]
    return Array(kept, (length - count, *array.dimensions[1:]), array.lower_bounds) if kept else EMPTY_ARRAY


@implements("array_fill", "array_fill_with_lower_bounds")
def _filled(value: object, dimensions: Array | None, bounds: Array | None = None) -> Array:
    if dimensions is None or None in dimensions.elements:
        raise SqlError("22004", "dimension array or low bound array cannot be null" if dimensions is None else
                       "dimension values cannot be null")  # fmt: skip
    lengths: Any = dimensions.elements
    lowers: Any = bounds.elements if bounds is not None else (1,) * len(lengths)
    if len(lowers) != len(lengths):
        raise SqlError("2202E", "wrong number of array subscripts",
                       detail="Low bound array has different size than dimensions array.")  # fmt: skip
    total = 1
    for length in lengths:
        total *= length
    if not lengths or total <= 0:
        return EMPTY_ARRAY
    return Array((value,) * total, tuple(lengths), tuple(lowers))
