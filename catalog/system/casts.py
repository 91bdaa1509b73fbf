"""The rows of casts of users in pg_cast and other catalogs."""

from __future__ import annotations

from catalog.schema import UserCast
from catalog.system import derived_oids
from catalog.system.content import Columns, Item, Surroundings, content, objects_of
from catalog.types.user import FIRST_ADDED_OID

casts = objects_of(UserCast)


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
    found = [item for (item,) in items if item.comment is not None]
    return {
        "objoid": [item.oid for item in found],
        "classoid": [derived_oids.PG_CAST] * len(found),
        "objsubid": 0,
        "description": [item.comment for item in found],
    }


@content("pg_depend", "catalog", casts)
def _dependencies(items: list[Item], _: Surroundings) -> Columns:
    found: list[tuple[int, int, int]] = []
    for (item,) in items:
        types = dict.fromkeys((item.source, item.target))
        found += [(item.oid, derived_oids.PG_TYPE, oid) for oid in types if oid >= FIRST_ADDED_OID]
        if item.function >= FIRST_ADDED_OID:
            found.append((item.oid, derived_oids.PG_PROC, item.function))
    return {
        "classid": [derived_oids.PG_CAST] * len(found),
        "objid": [row[0] for row in found],
        "objsubid": 0,
        "refclassid": [row[1] for row in found],
        "refobjid": [row[2] for row in found],
        "refobjsubid": 0,
        "deptype": "n",
    }
