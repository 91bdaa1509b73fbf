"""The rows of user-defined operators in pg_operator and other catalogs."""

from __future__ import annotations

from catalog.identifiers import quote_identifier
from catalog.routines import shown_operator
from catalog.schema import UserOperator
from catalog.system import derived_oids
from catalog.system import relations as internal
from catalog.system.content import (
    Columns,
    Dependency,
    Item,
    Surroundings,
    comment_columns,
    content,
    dependency_columns,
    objects_of,
)
from catalog.types.user import FIRST_ADDED_OID

operators = objects_of(UserOperator)


@content("pg_operator", "catalog", operators)
def _operators(items: list[Item], _: Surroundings) -> Columns:
    found: list[UserOperator] = [item for (item,) in items]
    return {
        "oid": [item.oid for item in found],
        "oprname": [item.name for item in found],
        "oprnamespace": [item.schema for item in found],
        "oprowner": [item.owner for item in found],
        "oprkind": ["b" if item.left else "l" for item in found],
        "oprcanmerge": [item.merges for item in found],
        "oprcanhash": [item.hashes for item in found],
        "oprleft": [item.left for item in found],
        "oprright": [item.right for item in found],
        "oprresult": [item.result for item in found],
        "oprcom": [item.commutator for item in found],
        "oprnegate": [item.negator for item in found],
        "oprcode": [item.function for item in found],
        "oprrest": [item.restrict for item in found],
        "oprjoin": [item.join for item in found],
    }


@content("pg_description", "catalog", operators)
def _comments(items: list[Item], _: Surroundings) -> Columns:
    return comment_columns(derived_oids.PG_OPERATOR, (item for (item,) in items))


@content("pg_depend", "catalog", operators)
def _dependencies(items: list[Item], _: Surroundings) -> Columns:
    found: list[Dependency] = []
    for (item,) in items:
        own = (derived_oids.PG_OPERATOR, item.oid, 0)
        found.append((*own, derived_oids.PG_NAMESPACE, item.schema, 0, "n"))
        types = dict.fromkeys((item.left, item.right, item.result))
        found += [(*own, derived_oids.PG_TYPE, oid, 0, "n") for oid in types if oid >= FIRST_ADDED_OID]
        functions = dict.fromkeys((item.function, item.restrict, item.join))
        found += [(*own, derived_oids.PG_PROC, oid, 0, "n") for oid in functions if oid >= FIRST_ADDED_OID]
    return dependency_columns(found)


@content(internal.OPERATOR_NAMES, "session", operators)
def _names(items: list[Item], surroundings: Surroundings) -> Columns:
    shown, signatures = [], []
    for (item,) in items:
        catalog = surroundings.catalog
        prefix = "" if item.schema in surroundings.path else f"{quote_identifier(catalog.schema_name(item.schema))}."
        alone = len(catalog.operators.get(item.name, ())) == 1
        hidden = f"{quote_identifier(catalog.schema_name(item.schema))}."
        shown.append((prefix if alone else hidden) + item.name)
        signatures.append(prefix + shown_operator(item))
    return {"oid": [item.oid for (item,) in items], "shown": shown, "signature": signatures}
