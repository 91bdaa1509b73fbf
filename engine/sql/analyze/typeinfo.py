"""What type resolution asks of a type: kind, category, array and element types, printable name.

Facts come from pg_type as PostgreSQL declares it, so that types without values here (point, regconfig, the polymorphic
pseudo-types) still take part in resolution and in error messages. Everything is read once and kept in dictionaries.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Any, TypeVar, cast

from catalog.types import TypeRow, format_type, pg_type_rows
from catalog.types.base import TypeRef
from catalog.types.composite import CompositeType
from catalog.types.user import FIRST_ADDED_OID, entry_of

BOOL, BYTEA, CHAR, NAME, INT8, INT2, INT2VECTOR, INT4, REGPROC, TEXT, OID = 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26
OIDVECTOR, JSON, XML, FLOAT4, FLOAT8, UNKNOWN = 30, 114, 142, 700, 701, 705
BPCHAR, VARCHAR, DATE, TIME, TIMESTAMP, TIMESTAMPTZ, INTERVAL, TIMETZ = 1042, 1043, 1082, 1083, 1114, 1184, 1186, 1266
BIT, VARBIT, NUMERIC, REFCURSOR, REGCLASS, REGTYPE = 1560, 1562, 1700, 1790, 2205, 2206
RECORD, RECORDARRAY, CSTRING, ANY, ANYARRAY, VOID, TRIGGER, INTERNAL = 2249, 2287, 2275, 2276, 2277, 2278, 2279, 2281
ANYELEMENT, ANYNONARRAY, ANYENUM, ANYRANGE, ANYMULTIRANGE = 2283, 2776, 3500, 3831, 4537
ANYCOMPATIBLE, ANYCOMPATIBLEARRAY, ANYCOMPATIBLENONARRAY = 5077, 5078, 5079
ANYCOMPATIBLERANGE, ANYCOMPATIBLEMULTIRANGE, JSONB = 5080, 4538, 3802

_Function = TypeVar("_Function", bound=Callable[..., Any])


def cached_for_builtins(size: int) -> Callable[[_Function], _Function]:
    """Decorator: the function's results are kept, but not where an argument is, or has among its items, the OID of a
    user's type: what that is belongs to a catalog."""

    def wrap(function: _Function) -> _Function:
        cached = lru_cache(size)(function)

        def call(*arguments: Any) -> Any:
            for item in arguments:
                if type(item) is int:
                    if item >= FIRST_ADDED_OID:
                        return function(*arguments)
                elif type(item) is tuple and any(type(part) is int and part >= FIRST_ADDED_OID for part in item):
                    return function(*arguments)
            return cached(*arguments)

        return cast(_Function, call)

    return wrap


FAMILY_ONE = frozenset({ANYELEMENT, ANYARRAY, ANYNONARRAY, ANYENUM, ANYRANGE, ANYMULTIRANGE})
FAMILY_TWO = frozenset(
    {ANYCOMPATIBLE, ANYCOMPATIBLEARRAY, ANYCOMPATIBLENONARRAY, ANYCOMPATIBLERANGE, ANYCOMPATIBLEMULTIRANGE}
)
POLYMORPHIC = FAMILY_ONE | FAMILY_TWO

# Types with a "<" operator that is no btree order, and types without any equality.
_UNORDERED = frozenset(
    {600, 601, 602, 603, 604, 628, 718, 114, 142, 4072, 194, 32, 3361, 3402, 5017, 2970, 5038, 3642, 4600, 4601}
)
_RANGES = {3904: INT4, 3906: NUMERIC, 3908: TIMESTAMP, 3910: TIMESTAMPTZ, 3912: DATE, 3926: INT8}
_MULTIRANGES = {4451: 3904, 4532: 3906, 4533: 3908, 4534: 3910, 4535: 3912, 4536: 3926}

BOOL_REF, INT4_REF, INT8_REF, TEXT_REF = TypeRef(BOOL), TypeRef(INT4), TypeRef(INT8), TypeRef(TEXT)
UNKNOWN_REF, RECORD_REF = TypeRef(UNKNOWN), TypeRef(RECORD)


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
    return _RANGES.get(oid, 0)


def multirange_range(oid: int) -> int:
    return _MULTIRANGES.get(oid, 0)


def multirange_of(range_oid: int) -> int:
    return next((multi for multi, single in _MULTIRANGES.items() if single == range_oid), 0)


def type_name(oid: int) -> str:
    """The name that error messages print: 'integer', 'character varying', 'integer[]' (format_type_be)."""
    return _builtin_name(oid) if oid < FIRST_ADDED_OID else format_type(oid)


@cache
def _builtin_name(oid: int) -> str:
    return format_type(oid)


def type_names(oids: Sequence[int]) -> str:
    return ", ".join(type_name(oid) for oid in oids)


def is_ordered(oid: int) -> bool:
    """Whether the type has a default btree order (ORDER BY, <, DISTINCT by sorting)."""
    fact = facts(oid)
    if fact.element and fact.name.startswith("_"):
        return is_ordered(fact.element)
    if fact.kind == "c":
        return all(map(is_ordered, _fields(oid)))
    return oid not in _UNORDERED and oid not in _HASH_ONLY and (fact.kind != "p" or oid in _ORDERED_PSEUDO)


def has_equality(oid: int) -> bool:
    """Whether the type has a default equality (GROUP BY, DISTINCT, UNION)."""
    fact = facts(oid)
    if fact.element and fact.name.startswith("_"):
        return has_equality(fact.element)
    if fact.kind == "c":
        return all(map(has_equality, _fields(oid)))
    return oid in _HASH_ONLY or is_ordered(oid)


def _fields(oid: int) -> tuple[int, ...]:
    """The types of a composite type's fields."""
    entry = entry_of(oid)
    known = None if entry is None else entry.sql_type
    return tuple(reference.oid for _, reference in known.fields) if isinstance(known, CompositeType) else ()


_HASH_ONLY = frozenset({28, 29, 1033})  # xid, cid, aclitem
_ORDERED_PSEUDO = frozenset({RECORD, ANYARRAY, ANYENUM, ANYRANGE, ANYMULTIRANGE, UNKNOWN})
