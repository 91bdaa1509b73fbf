"""The rows of casts of users in pg_cast and other catalogs."""

from __future__ import annotations

from catalog.catalog import Catalog
from catalog.schema import Routine, UserCast
from catalog.system import derived_oids
from catalog.system.content import (
    Columns,
    Dependency,
    Item,
    Items,
    Surroundings,
    comment_columns,
    content,
    dependency_columns,
    objects_of,
)
from catalog.types.user import FIRST_ADDED_OID

casts = objects_of(UserCast)
_with_functions = Items((UserCast,), lambda catalog, item: (item, _is_of_constructor(catalog, item)))


def _is_of_constructor(catalog: Catalog, item: UserCast) -> bool:
    """Whether the cast is a part of a range type, as the constructor that it calls is."""
    found = catalog.get(item.function)
    return isinstance(found, Routine) and found.is_constructor


@content("pg_cast", "catalog", casts)
def _casts(items: list[Item], _: Surroundings) -> Columns:
    found: list[UserCast] = [item for (item,) in items]
    return {
        "oid": [item.oid for item in found],
        "castsource": [item.source for item in found],
        "casttarget": [item.target for item in found],
        "castfunc": [item.function for item in found],
        "castcontext": [item.context for item in found],
        "castmethod": [item.method for item in found],
    }


@content("pg_description", "catalog", casts)
def _comments(items: list[Item], _: Surroundings) -> Columns:
    return comment_columns(derived_oids.PG_CAST, (item for (item,) in items))


@content("pg_depend", "catalog", _with_functions)
def _dependencies(items: list[Item], _: Surroundings) -> Columns:
    found: list[Dependency] = []
    for item, internal in items:
        own, kind = (derived_oids.PG_CAST, item.oid, 0), "i" if internal else "n"
        types = dict.fromkeys((item.source, item.target))
        found += [(*own, derived_oids.PG_TYPE, oid, 0, kind) for oid in types if oid >= FIRST_ADDED_OID]
        if item.function >= FIRST_ADDED_OID:
            found.append((*own, derived_oids.PG_PROC, item.function, 0, kind))
    return dependency_columns(found)
