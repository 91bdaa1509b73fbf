"""Facts about types for resolution: kind, category, array and element types, printable name.

Facts come from PostgreSQL's pg_type, so that types without values in Shoal (point, regconfig, the polymorphic
pseudo-types) still take part in resolution and in error messages. Everything is read once and kept in dictionaries.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, TypeVar, cast

from catalog.functions.added import has_casts_of_built_in_types
from catalog.schema import UserMultirange, UserRange
from catalog.types import TypeRow, format_type, oids, pg_type_rows
from catalog.types.base import TypeRef
from catalog.types.composite import CompositeType
from catalog.types.multirange import MULTIRANGES
from catalog.types.range import RANGES
from catalog.types.user import FIRST_ADDED_OID, entry_of

_Function = TypeVar("_Function", bound=Callable[..., Any])


def cached_for_builtins(size: int) -> Callable[[_Function], _Function]:
    """Decorator: caches up to `size` results of the function. It does not cache calls with the OID of a user-defined
    type in their arguments, because its meaning depends on the catalog, nor any where users have made casts between
    built-in types."""

    def wrap(function: _Function) -> _Function:
        known: dict[tuple[Any, ...], Any] = {}

        def call(*arguments: Any) -> Any:
            if has_casts_of_built_in_types():
                return function(*arguments)
            found = known.get(arguments, known)
            if found is known:  # it is not there
                found = function(*arguments)
                if not any(map(_is_of_users, arguments)):
                    if len(known) >= size:
                        known.clear()
                    known[arguments] = found
            return found

        return cast(_Function, call)

    return wrap


def _is_of_users(item: object) -> bool:
    if type(item) is tuple:
        return any(map(_is_of_users, item))
    return type(item) is int and item >= FIRST_ADDED_OID


# Types with a "<" operator that is no btree order, and types without any equality.
_UNORDERED = frozenset({
    oids.JSON, oids.POINT, oids.LSEG, oids.PATH, oids.BOX, oids.POLYGON, oids.LINE, oids.CIRCLE, oids.XML,
    oids.JSONPATH, oids.PG_NODE_TREE, oids.PG_DDL_COMMAND, oids.PG_NDISTINCT, oids.PG_DEPENDENCIES,
    oids.PG_MCV_LIST, oids.TXID_SNAPSHOT, oids.PG_SNAPSHOT, oids.GTSVECTOR, oids.PG_BRIN_BLOOM_SUMMARY,
    oids.PG_BRIN_MINMAX_MULTI_SUMMARY,
})  # fmt: skip
_RANGES = {known.oid: known.element.oid for known in RANGES}
_MULTIRANGES = {known.oid: known.range.oid for known in MULTIRANGES}

BOOL_REF, INT4_REF, INT8_REF, TEXT_REF = TypeRef(oids.BOOL), TypeRef(oids.INT4), TypeRef(oids.INT8), TypeRef(oids.TEXT)
UNKNOWN_REF, RECORD_REF = TypeRef(oids.UNKNOWN), TypeRef(oids.RECORD)


@dataclass(frozen=True, slots=True)
class TypeFacts:
    """One row of pg_type, as far as resolution needs it. `element` is 0 unless it is a true array type."""

    oid: int
    name: str
    kind: str  # b base, p pseudo, r range, m multirange, d domain, e enum
    category: str
    preferred: bool
    element: int
    array: int
    subscript: int  # the type of x[i]: also of name and oidvector, which are no true arrays
    relation: int
    modifier_input: int  # typmodin: 0 where the type takes no modifier


@cache
def _facts() -> dict[int, TypeFacts]:
    return {row.oid: _facts_of(row) for row in pg_type_rows}


@cache
def type_oid_by_name() -> dict[str, int]:
    """typname -> OID of every built-in type."""
    return {fact.name: fact.oid for fact in _facts().values()}


def facts(oid: int) -> TypeFacts:
    """The facts of a type; an unknown OID behaves as a base type of category U."""
    found = _facts().get(oid)
    if found is not None:
        return found
    entry = entry_of(oid)
    return TypeFacts(oid, f"type {oid}", "b", "U", False, 0, 0, 0, 0, 0) if entry is None else _facts_of(entry.row)


def _facts_of(row: TypeRow) -> TypeFacts:
    element = row.element if row.length == -1 else 0
    return TypeFacts(
        row.oid,
        row.name,
        row.kind,
        row.category,
        row.preferred,
        element,
        row.array,
        row.element,
        row.relation,
        row.typmod_in,
    )


def category(oid: int) -> str:
    return facts(oid).category


def element_type(oid: int) -> int:
    """The element type of a true array type, else 0."""
    return facts(oid).element


def array_type(oid: int) -> int:
    return facts(oid).array


def range_subtype(oid: int) -> int:
    found = _definition(oid)
    return found.subtype if isinstance(found, UserRange) else _RANGES.get(oid, 0)


def multirange_range(oid: int) -> int:
    found = _definition(oid)
    return found.range if isinstance(found, UserMultirange) else _MULTIRANGES.get(oid, 0)


def multirange_of(range_oid: int) -> int:
    found = _definition(range_oid)
    if isinstance(found, UserRange):
        return found.multirange
    return next((multi for multi, single in _MULTIRANGES.items() if single == range_oid), 0)


def _definition(oid: int) -> object:
    """The schema object of a user's type itself, not of its array type; None for other types."""
    entry = entry_of(oid)
    return entry.definition if entry is not None and getattr(entry.definition, "oid", 0) == oid else None


def type_name(oid: int) -> str:
    """The name in error messages: 'integer', 'character varying', 'integer[]' (format_type_be)."""
    return _builtin_name(oid) if oid < FIRST_ADDED_OID else format_type(oid)


@cache
def _builtin_name(oid: int) -> str:
    return format_type(oid)


def type_names(types: Sequence[int]) -> str:
    return ", ".join(map(type_name, types))


def is_ordered(oid: int) -> bool:
    """Whether the type has a default btree order (ORDER BY, <, DISTINCT by sorting)."""
    fact = facts(oid)
    if fact.element and fact.name.startswith("_"):
        return is_ordered(fact.element)
    if fact.kind == "c":
        return all(map(is_ordered, _fields(oid)))
    return oid not in _UNORDERED and oid not in oids.EQUALITY_ONLY and (fact.kind != "p" or oid in _ORDERED_PSEUDO)


def has_equality(oid: int) -> bool:
    """Whether the type has a default equality (GROUP BY, DISTINCT, UNION)."""
    fact = facts(oid)
    if fact.element and fact.name.startswith("_"):
        return has_equality(fact.element)
    if fact.kind == "c":
        return all(map(has_equality, _fields(oid)))
    return oid in oids.EQUALITY_ONLY or is_ordered(oid)


def _fields(oid: int) -> tuple[int, ...]:
    """The types of a composite type's fields."""
    entry = entry_of(oid)
    known = None if entry is None else entry.sql_type
    return tuple(reference.oid for _, reference in known.fields) if isinstance(known, CompositeType) else ()


_ORDERED_PSEUDO = frozenset({oids.RECORD, oids.ANYARRAY, oids.ANYENUM, oids.ANYRANGE, oids.ANYMULTIRANGE, oids.UNKNOWN})
