"""Functions and operators of arrays (PostgreSQL 16 manual, 9.19; arrayfuncs.c and array_userfuncs.c).

Elements are compared by the sort key of their type, or directly if the type has none. On the columnar path arrays are
LISTs, one-dimensional with subscripts from 1. DuckDB searches LISTs of types whose equality in DuckDB is PostgreSQL's.
"""

from __future__ import annotations

import functools
from bisect import bisect_right
from collections.abc import Callable, Sequence
from typing import Any

from catalog.duckdb.nodes import Sql
from catalog.errors import SqlError
from catalog.functions.base import CallContext, Side, Trait
from catalog.functions.comparison import PLAIN_ELEMENTS
from catalog.functions.duckdb_sql import evaluate_once
from catalog.functions.registry import implement, mark
from catalog.memory import POINTER, room_for
from catalog.types import element_of, lookup, oids
from catalog.types.array import MAX_DIMENSIONS, MAX_ELEMENTS, too_many_dimensions
from catalog.types.base import EMPTY_ARRAY, Array, FormatSettings, TypeRef
from catalog.types.user import FIRST_USER_OID

Key = Callable[[Any], Any]
_INT_MAX = 2147483647


def _identity(value: Any) -> Any:
    return value


def _key(oid: int) -> Key:
    """Returns the sort key of an element type. Raises 42883 for a type without equality."""
    element = lookup(oid)
    if element.key_encoder() is None:
        raise SqlError("42883", f"could not identify an equality operator for type {element.sql_name}")
    return element.sort_key() or _identity


def _bounds_error() -> SqlError:
    return SqlError("22003", "integer out of range")


# ---- bounds and sizes ----


def array_length(array: Array, dimension: int) -> int | None:
    return array.dimensions[dimension - 1] if 1 <= dimension <= len(array.dimensions) else None


def _lower(array: Array, dimension: int) -> int | None:
    return array.lower_bounds[dimension - 1] if 1 <= dimension <= len(array.dimensions) else None


def _upper(array: Array, dimension: int) -> int | None:
    if not 1 <= dimension <= len(array.dimensions):
        return None
    return array.lower_bounds[dimension - 1] + array.dimensions[dimension - 1] - 1


def _dimensions_text(array: Array) -> str | None:
    pairs = zip(array.lower_bounds, array.dimensions, strict=True)
    return "".join([f"[{lower}:{lower + length - 1}]" for lower, length in pairs]) or None


def _subscripts(array: Array, dimension: int, reverse: bool = False) -> range:
    if not 1 <= dimension <= len(array.dimensions):
        return range(0)
    lower = array.lower_bounds[dimension - 1]
    found = range(lower, lower + array.dimensions[dimension - 1])
    return found[::-1] if reverse else found


# ---- concatenation ----


def append(array: Array | None, element: Any) -> Array:
    """array || element. Raises 22000 for several dimensions."""
    lower = _one_dimension(array)
    elements = array.elements if array is not None else ()
    if lower + len(elements) > _INT_MAX:
        raise _bounds_error()
    return _check_limits(Array((*elements, element), (len(elements) + 1,), (lower,)))


def prepend(element: Any, array: Array | None) -> Array:
    """element || array; the array keeps its lower bound. Raises 22000."""
    lower = _one_dimension(array)
    if lower == -_INT_MAX - 1:
        raise _bounds_error()
    elements = array.elements if array is not None else ()
    return Array((element, *elements), (len(elements) + 1,), (lower,))


def _one_dimension(array: Array | None) -> int:
    """Returns the lower bound of an array. Raises 22000 for several dimensions."""
    if array is None or not array.dimensions:
        return 1
    if len(array.dimensions) > 1:
        raise SqlError("22000", "argument must be empty or one-dimensional array")
    return array.lower_bounds[0]


def _check_limits(array: Array) -> Array:
    """Raises 54000 if the last subscript of a dimension does not fit int4."""
    for lower, length in zip(array.lower_bounds, array.dimensions, strict=True):
        if lower + length > _INT_MAX:
            raise SqlError("54000", f"array lower bound is too large: {lower}")
    return array


def _incompatible(detail: str) -> SqlError:
    return SqlError("2202E", "cannot concatenate incompatible arrays", detail=detail)


def concatenate(left: Array | None, right: Array | None) -> Array | None:
    """array || array: concatenates arrays of equal dimensions, or adds one as an element of the other. Raises 2202E for
    other dimensions."""
    if left is None or right is None:
        return right if left is None else left
    if not left.dimensions or not right.dimensions:
        return right if not left.dimensions else left
    one, other = len(left.dimensions), len(right.dimensions)
    if abs(one - other) > 1:
        raise _incompatible(f"Arrays of {one} and {other} dimensions are not compatible for concatenation.")
    outer = left if one >= other else right
    if one == other:
        same = left.dimensions[1:] == right.dimensions[1:] and left.lower_bounds[1:] == right.lower_bounds[1:]
        count = left.dimensions[0] + right.dimensions[0]
        detail = "Arrays with differing element dimensions are not compatible for concatenation."
    else:
        inner = right if one > other else left
        same = outer.dimensions[1:] == inner.dimensions and outer.lower_bounds[1:] == inner.lower_bounds
        count = outer.dimensions[0] + 1
        detail = "Arrays with differing dimensions are not compatible for concatenation."
    if not same:
        raise _incompatible(detail)
    room_for(POINTER * (len(left.elements) + len(right.elements)))
    return _check_limits(Array(left.elements + right.elements, (count, *outer.dimensions[1:]), outer.lower_bounds))


def _fill(element: Any, sizes: Array | None, lowers: Array | None = None, *, with_bounds: bool = False) -> Array:
    """array_fill. Raises 22004, 2202E, 54000."""
    if sizes is None or (with_bounds and lowers is None):
        raise SqlError("22004", "dimension array or low bound array cannot be null")
    for given in (sizes,) if lowers is None else (sizes, lowers):
        _check_dimension_array(given)
    counts = [int(str(item)) for item in sizes.elements]
    if len(counts) > MAX_DIMENSIONS:
        raise too_many_dimensions(len(counts))
    if lowers is not None and len(lowers.elements) != len(counts):
        raise SqlError("2202E", "wrong number of array subscripts",
                       detail="Low bound array has different size than dimensions array.")  # fmt: skip
    total = 1
    for count in counts:
        total *= count
        if count < 0 or total > MAX_ELEMENTS:
            raise SqlError("54000", f"array size exceeds the maximum allowed ({MAX_ELEMENTS})")
    if not counts or not total:
        return EMPTY_ARRAY
    room_for(POINTER * total)
    bounds = tuple(int(str(item)) for item in lowers.elements) if lowers is not None else (1,) * len(counts)
    return _check_limits(Array((element,) * total, tuple(counts), bounds))


def _check_dimension_array(given: Array) -> None:
    if len(given.dimensions) > 1:
        raise SqlError("2202E", "wrong number of array subscripts", detail="Dimension array must be one dimensional.")
    if None in given.elements:
        raise SqlError("22004", "dimension values cannot be null")


def _trim(array: Array, count: int) -> Array:
    """trim_array: removes the last `count` elements of the first dimension. Raises 2202E."""
    length = array.dimensions[0] if array.dimensions else 0
    if not 0 <= count <= length:
        raise SqlError("2202E", f"number of elements to trim must be between 0 and {length}")
    kept = length - count
    if not kept:
        return EMPTY_ARRAY
    size = len(array.elements) // length
    return Array(array.elements[: kept * size], (kept, *array.dimensions[1:]), (1,) * len(array.dimensions))


# ---- search ----


def _same_as(element: Any, key: Key) -> Callable[[Any], bool]:
    """Returns the test `IS NOT DISTINCT FROM element`."""
    if element is None:
        return lambda item: item is None
    wanted = key(element)
    return lambda item: item is not None and key(item) == wanted


def _for_element(function: Callable[..., object]) -> Callable[[Sequence[TypeRef], TypeRef], Callable[..., object]]:
    """Returns a maker for a function whose first argument is the sort key of the elements' type."""

    def make(types: Sequence[TypeRef], result: TypeRef) -> Callable[..., object]:
        array = next(reference.oid for reference in types if element_of(reference.oid))
        return functools.partial(function, _key(element_of(array)))

    return make


_UNSTARTED = object()


def _position(key: Key, array: Array | None, element: Any, start: Any = _UNSTARTED) -> int | None:
    """array_position. Raises 0A000 for several dimensions, 22004 for a NULL start."""
    if array is None:
        return None
    _only_one_dimension(array, "searching for elements in multidimensional arrays is not supported")
    if not array.elements or (element is None and None not in array.elements):
        return None
    if start is None:
        raise SqlError("22004", "initial position must not be null")
    lower, same = array.lower_bounds[0], _same_as(element, key)
    for number, item in enumerate(array.elements, lower):
        if same(item) and (start is _UNSTARTED or number >= start):
            return number
    return None


def _positions(key: Key, array: Array | None, element: Any) -> Array | None:
    if array is None:
        return None
    _only_one_dimension(array, "searching for elements in multidimensional arrays is not supported")
    if not array.elements:
        return EMPTY_ARRAY
    same = _same_as(element, key)
    return Array.of(tuple([n for n, item in enumerate(array.elements, array.lower_bounds[0]) if same(item)]))


def _only_one_dimension(array: Array, message: str) -> None:
    if len(array.dimensions) > 1:
        raise SqlError("0A000", message)


def _remove(key: Key, array: Array | None, element: Any) -> Array | None:
    if array is None or not array.elements:
        return array
    _only_one_dimension(array, "removing elements from multidimensional arrays is not supported")
    same = _same_as(element, key)
    kept = tuple([item for item in array.elements if not same(item)])
    return Array(kept, (len(kept),), array.lower_bounds) if kept else EMPTY_ARRAY


def _replace(key: Key, array: Array | None, element: Any, new: Any) -> Array | None:
    if array is None:
        return None
    same = _same_as(element, key)
    return array._replace(elements=tuple([new if same(item) else item for item in array.elements]))


def _keys(array: Array, key: Key) -> list[Any]:
    return [key(item) for item in array.elements if item is not None]


def _contains(key: Key, array: Array, part: Array) -> bool:
    """array @> part: the array contains each element of the part. No array contains NULL."""
    if None in part.elements:
        return False
    there = _keys(array, key)
    return all(item in there for item in _keys(part, key))


def _is_contained(key: Key, part: Array, array: Array) -> bool:
    return _contains(key, array, part)


def _overlaps(key: Key, left: Array, right: Array) -> bool:
    there = _keys(left, key)
    return any(item in there for item in _keys(right, key))


# ---- order ----


def _extreme(larger: bool) -> Callable[[Sequence[TypeRef], TypeRef], Callable[..., object]]:
    def make(types: Sequence[TypeRef], result: TypeRef) -> Callable[..., object]:
        key: Any = lookup(types[0].oid).sort_key()
        if larger:
            return lambda left, right: left if key(left) > key(right) else right
        return lambda left, right: left if key(left) < key(right) else right

    return make


def _compare(types: Sequence[TypeRef], result: TypeRef) -> Callable[..., object]:
    key: Any = lookup(types[0].oid).sort_key()
    return lambda left, right: int(key(left) > key(right)) - int(key(left) < key(right))


def _bucket(key: Key, operand: Any, thresholds: Array) -> int:
    """width_bucket(operand, thresholds): the number of thresholds that are at most the operand. Raises 2202E for
    several dimensions, 22004 for NULL thresholds."""
    if len(thresholds.dimensions) > 1:
        raise SqlError("2202E", "thresholds must be one-dimensional array")
    if None in thresholds.elements:
        raise SqlError("22004", "thresholds array must not contain NULLs")
    return bisect_right([key(item) for item in thresholds.elements], key(operand))


# ---- text ----


def _encoder(oid: int, settings: FormatSettings) -> Callable[[Any], bytes]:
    return _builtin_encoder(oid, settings) if oid < FIRST_USER_OID else lookup(oid).text_encoder(settings)


@functools.lru_cache(maxsize=256)
def _builtin_encoder(oid: int, settings: FormatSettings) -> Callable[[Any], bytes]:
    return lookup(oid).text_encoder(settings)


def _to_string(types: Sequence[TypeRef], result: TypeRef) -> Callable[..., object]:
    element = element_of(types[0].oid)

    def join(context: CallContext, array: Array | None, separator: str | None, null: str | None = None) -> str | None:
        if array is None or separator is None:
            return None
        show = _encoder(element, context.format)
        shown = (null if item is None else show(item).decode() for item in array.elements)
        texts = [text for text in shown if text is not None]
        room_for(sum(map(len, texts)) + len(separator) * len(texts))
        return separator.join(texts)

    return join


# ---- in DuckDB ----

# Element types whose equality in DuckDB is PostgreSQL's, and whose equal values are identical.
_PLAIN = PLAIN_ELEMENTS | oids.TIMESTAMPS


def _plain(template: str) -> Side:
    """Returns a DuckDB side that uses the template for plain element types only."""

    def side(arguments: Sequence[Sql], types: Sequence[TypeRef]) -> Sql | None:
        elements = {element_of(reference.oid) for reference in types} - {0}
        return evaluate_once(arguments, template) if elements <= _PLAIN else None

    return side


def _of_list(template: str) -> Side:
    return lambda arguments, types: evaluate_once(arguments, template)


_LENGTH = "(CASE WHEN {1} = 1 AND len({0}) > 0 THEN CAST(len({0}) AS INTEGER) END)"
_LOWER = "(CASE WHEN {1} = 1 AND len({0}) > 0 THEN 1 END)"
_BOTH = "(CASE WHEN {0} IS NOT NULL AND {1} IS NOT NULL THEN @ END)"
# In DuckDB a list with NULL contains NULL; in PostgreSQL no array contains it.
_NO_NULLS = "len({0}) = len(list_filter({0}, lambda x: x IS NOT NULL))"
_CONTAINS = _BOTH.replace("@", "list_has_all({0}, {1}) AND " + _NO_NULLS.replace("{0}", "{1}"))
_CONTAINED = _BOTH.replace("@", "list_has_all({1}, {0}) AND " + _NO_NULLS)
_CONCATENATE = "(CASE WHEN {0} IS NOT NULL OR {1} IS NOT NULL THEN list_concat({0}, {1}) END)"
_POSITION = "(CASE WHEN {0} IS NOT NULL THEN list_position({0}, {1}) END)"
_REMOVE = "list_filter({0}, lambda x: x IS DISTINCT FROM {1})"


def _register_sizes() -> None:
    implement("array_length", array_length, _of_list(_LENGTH))
    implement("array_lower", _lower, _of_list(_LOWER))
    implement("array_upper", _upper, _of_list(_LENGTH))
    implement(
        "array_ndims", lambda array: len(array.dimensions) or None, _of_list("(CASE WHEN len({0}) > 0 THEN 1 END)")
    )
    implement("array_dims", _dimensions_text,
              _of_list("(CASE WHEN len({0}) > 0 THEN '[1:' || CAST(len({0}) AS VARCHAR) || ']' END)"))  # fmt: skip
    implement("array_cardinality", lambda array: len(array.elements), _of_list("CAST(len({0}) AS INTEGER)"))
    implement("generate_subscripts", _subscripts)
    implement("generate_subscripts_nodir", _subscripts)


def _register_changes() -> None:
    implement("array_append", append, _plain("list_append({0}, {1})"))
    implement("array_prepend", prepend, _plain("list_prepend({0}, {1})"))
    implement("array_cat", concatenate, _plain(_CONCATENATE))
    implement("array_fill", _fill)
    implement("array_fill_with_lower_bounds", functools.partial(_fill, with_bounds=True))
    implement("trim_array", _trim)
    implement("array_remove", duckdb=_plain(_REMOVE), python_for_types=_for_element(_remove))
    implement("array_replace", python_for_types=_for_element(_replace))
    mark(Trait.GROWS_ARRAY, "array_append", "array_prepend", "array_cat")
    mark(Trait.MATCHES_TEXTS, "array_remove", "array_replace")


def _register_searches() -> None:
    implement("array_position", duckdb=_plain(_POSITION), python_for_types=_for_element(_position))
    implement("array_position_start", python_for_types=_for_element(_position))
    implement("array_positions", python_for_types=_for_element(_positions))
    implement("arraycontains", duckdb=_plain(_CONTAINS), python_for_types=_for_element(_contains))
    implement("arraycontained", duckdb=_plain(_CONTAINED), python_for_types=_for_element(_is_contained))
    implement("arrayoverlap", duckdb=_plain("list_has_any({0}, {1})"), python_for_types=_for_element(_overlaps))
    implement("width_bucket_array", python_for_types=_for_element(_bucket))
    implement("array_larger", python_for_types=_extreme(True))
    implement("array_smaller", python_for_types=_extreme(False))
    implement("btarraycmp", python_for_types=_compare)
    implement("array_to_text", python_for_types=_to_string, needs_context=True)
    implement("array_to_text_null", python_for_types=_to_string, needs_context=True)
    mark(Trait.WRITES_VALUES, "array_to_text", "array_to_text_null")
    mark(Trait.MATCHES_TEXTS, "array_position", "array_position_start", "array_positions")
    mark(Trait.MATCHES_TEXTS, "arraycontains", "arraycontained", "arrayoverlap")
    mark(Trait.ORDERS_TEXTS, "array_larger", "array_smaller", "btarraycmp", "width_bucket_array")


_register_sizes()
_register_changes()
_register_searches()
