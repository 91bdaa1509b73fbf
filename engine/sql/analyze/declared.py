"""The domain, or row type, of a value or an array: `TypeRef.domain` of expressions over other expressions.

ARRAY[4::d4]          d4[]: the array type over the domain
(x.v)[1], unnest(v)   d4, if the column has the type d4[]
x                     the whole row of table x: its row type; in the tree it is a record
"""

from __future__ import annotations

from collections.abc import Sequence

from catalog.identifiers import quote_identifier
from catalog.schema import Table, View
from catalog.system import derived_oids
from catalog.types.base import TypeRef
from catalog.types.oids import (
    ANY_ARRAYS,
    ANYARRAY,
    ANYCOMPATIBLE,
    ANYCOMPATIBLEARRAY,
    ANYCOMPATIBLENONARRAY,
    ANYELEMENT,
    ANYNONARRAY,
    RECORD,
    RECORD_ARRAY,
    RECORDS,
    UNKNOWN,
)
from catalog.types.user import base_domain, entry_of
from engine.sql import tree
from engine.sql.analyze.environment import Environment
from engine.sql.analyze.typeinfo import RECORD_REF, type_name

_FAMILIES = (
    frozenset((ANYELEMENT, ANYNONARRAY, ANYARRAY)),
    frozenset((ANYCOMPATIBLE, ANYCOMPATIBLENONARRAY, ANYCOMPATIBLEARRAY)),
)


def row_of(entry: tree.RangeEntry) -> TypeRef:
    """The type of a whole row: a record, with the row type if it belongs to a table or a view."""
    relation: int | None = None
    if isinstance(entry, tree.RangeTable):
        relation = entry.table.oid if isinstance(entry.table, Table) else None
    elif isinstance(entry, tree.RangeSubquery):
        relation = entry.view
    return RECORD_REF if relation is None else TypeRef(RECORD, -1, derived_oids.row_type(relation))


def array_over(domain: int) -> int:
    """The array type over a domain or a row type, or 0."""
    if derived_oids.ROW_TYPES <= domain < derived_oids.ARRAY_TYPES:
        return domain - derived_oids.ROW_TYPES + derived_oids.ARRAY_TYPES
    entry = entry_of(domain)
    return 0 if entry is None else entry.row.array


def element_within(domain: int) -> int:
    """The domain or row type of an array's elements, if `domain` is the array's type; otherwise 0."""
    if derived_oids.ARRAY_TYPES <= domain < derived_oids.RULES:
        return domain - derived_oids.ARRAY_TYPES + derived_oids.ROW_TYPES
    entry = entry_of(base_domain(domain))
    element = 0 if entry is None else entry.row.element
    return element if element and _is_domain(element) else 0


def slice_of(type_: TypeRef) -> TypeRef:
    """The type of a slice of an array. It is never a domain over arrays, because the domain's conditions were not
    checked."""
    return TypeRef(type_.oid, type_.typmod, base_domain(type_.domain))


def common_domain(types: Sequence[TypeRef]) -> int:
    """The domain that all have, or 0. Together with an unknown literal, a value of a domain has the base type. A row,
    and an array of a domain, keep their types."""
    first = types[0]
    if all(item.domain == first.domain and item.oid == first.oid for item in types):
        return first.domain
    bases = {(item.oid, base_domain(item.domain)) for item in types if item.oid != UNKNOWN}
    return next(iter(bases))[1] if len(bases) == 1 else 0


def result_domain(types: Sequence[TypeRef], wanted: Sequence[int], result: int) -> int:
    """The domain of a call's result. `wanted` are the declared types of its arguments; the domain is the common one of
    all arguments in the polymorphic family of the result."""
    for family in _FAMILIES:
        if result in family:
            break
    else:
        return 0
    parts = {
        element_within(given.domain) if want in ANY_ARRAYS else given.domain
        for given, want in zip(types, wanted, strict=False)
        if want in family and given.oid != UNKNOWN
    }
    if len(parts) != 1:
        return 0
    (part,) = parts
    return array_over(part) if part and result in ANY_ARRAYS else part


def _is_domain(oid: int) -> bool:
    entry = entry_of(oid)
    return entry is not None and entry.row.kind == "d"


# ---- names of types in messages --------------------------------------------------------------------------------------


def relation_of(environment: Environment, type_: TypeRef) -> Table | View | None:
    """The table or view of a row, or of an array of rows."""
    if type_.oid not in RECORDS or not type_.domain:
        return None
    catalog = environment.catalog
    found = catalog.objects.get(derived_oids.relation_of_type(catalog, type_.domain) or 0)
    return found if isinstance(found, Table | View) else None


def shown_type(environment: Environment, type_: TypeRef) -> str:
    """The type as messages show it: the name of a domain, or of a row's table."""
    relation = relation_of(environment, type_)
    if relation is None:
        return type_name(type_.declared)
    name = quote_identifier(relation.name)
    if environment.find_relation(None, relation.name) is not relation:
        name = f"{quote_identifier(environment.catalog.schema_name(relation.schema))}.{name}"
    return name + ("[]" if type_.oid == RECORD_ARRAY else "")
