"""pg_type, pg_enum and pg_constraint of user-defined types, and their names for catalog functions."""

from __future__ import annotations

from catalog import types
from catalog.functions.registry import functions_named
from catalog.identifiers import quote_identifier
from catalog.privileges import acts_as
from catalog.schema import (
    PG_CATALOG_OID,
    Composite,
    Constraint,
    Domain,
    Enum,
    UserMultirange,
    UserRange,
    UserType,
)
from catalog.system import derived_oids
from catalog.system import relations as internal
from catalog.system.builtin import type_columns
from catalog.system.content import Columns, Dependency, Item, Surroundings, content, dependency_columns, objects_of
from catalog.system.definitions import domain_check
from catalog.system.objects import attributes
from catalog.types.enum import GAP
from catalog.types.rows import TypeRow
from catalog.types.user import FIRST_ADDED_OID, UserEntry
from catalog.usertypes import array_name, entries_of

enums = objects_of(Enum)
domains = objects_of(Domain)
composites = objects_of(Composite)
ranges = objects_of(UserRange)
user_types = objects_of(Enum, Domain, Composite, UserRange, UserMultirange)


def _entries(items: list[Item]) -> list[tuple[UserType, UserEntry]]:
    """Returns two entries for each type: its own, and that of its array type."""
    return [(item, entry) for (item,) in items for entry in entries_of([(item, "")]).values()]


def _source_oid(name: str) -> int:
    return functions_named(name)[0].oid


@content("pg_type", "catalog", user_types)
def _types(items: list[Item], _: Surroundings) -> Columns:
    found = _entries(items)
    rows: list[TypeRow] = [entry.row for _, entry in found]
    subscripting, analyze = _source_oid("array_subscript_handler"), _source_oid("array_typanalyze")
    ranges_analyze = {"r": _source_oid("range_typanalyze"), "m": _source_oid("multirange_typanalyze")}
    arrays = [row.category == "A" and row.kind == "b" for row in rows]
    owns = [isinstance(item, Domain) and row.kind == "d" for (item, _), row in zip(found, rows, strict=True)]
    return {
        **type_columns(rows),
        "typnamespace": [item.schema for item, _ in found],
        "typowner": [item.owner for item, _ in found],
        "typsubscript": [subscripting if array else 0 for array in arrays],
        "typanalyze": [
            analyze if array else ranges_analyze.get(row.kind, 0) for array, row in zip(arrays, rows, strict=True)
        ],
        "typnotnull": [own and _not_null(item) for own, (item, _) in zip(owns, found, strict=True)],
        "typdefault": [_default(item) if own else None for own, (item, _) in zip(owns, found, strict=True)],
        "typdefaultbin": [_default_tree(item) if own else None for own, (item, _) in zip(owns, found, strict=True)],
    }


def _not_null(item: UserType) -> bool:
    return isinstance(item, Domain) and item.not_null


def _default(item: UserType) -> str | None:
    return item.default if isinstance(item, Domain) else None


def _default_tree(item: UserType) -> str | None:
    """Returns the value of a pg_node_tree column: the plain and the pretty text, one of which pg_get_expr returns."""
    text = _default(item)
    return None if text is None else f"{text}\x1f{text}"


@content("pg_class", "catalog", composites)
def _classes(items: list[Item], _: Surroundings) -> Columns:
    return {
        "oid": [item.relation for (item,) in items],
        "relname": [item.name for (item,) in items],
        "relnamespace": [item.schema for (item,) in items],
        "reltype": [item.oid for (item,) in items],
        "relowner": [item.owner for (item,) in items],
        "relpersistence": "p",
        "relkind": "c",
        "relnatts": [len(item.columns) for (item,) in items],
        "relreplident": "n",
        "relispopulated": True,
    }


@content("pg_attribute", "catalog", composites)
def _attributes(items: list[Item], _: Surroundings) -> Columns:
    return attributes([(item.relation, column.number, column) for (item,) in items for column in item.columns])


@content("pg_depend", "catalog", user_types)
def _dependencies(items: list[Item], _: Surroundings) -> Columns:
    """A type depends on its schema, its array type on it; a domain on its base type, a composite type on those of its
    attributes."""
    own = derived_oids.PG_TYPE
    found: list[Dependency] = []
    for (item,) in items:
        found.append((own, item.oid, 0, derived_oids.PG_NAMESPACE, item.schema, 0, "n"))
        found.append((own, item.array_oid, 0, own, item.oid, 0, "i"))
        if isinstance(item, Domain) and item.base_oid >= FIRST_ADDED_OID:
            found.append((own, item.oid, 0, own, item.base_oid, 0, "n"))
        if isinstance(item, UserMultirange):
            found.append((own, item.oid, 0, own, item.range, 0, "i"))
        if isinstance(item, UserRange):
            used = (
                (own, item.subtype),
                (derived_oids.PG_PROC, item.difference),
                (derived_oids.PG_OPCLASS, item.operator_class),
                (derived_oids.PG_COLLATION, item.collation),
            )
            found += [(own, item.oid, 0, kind, oid, 0, "n") for kind, oid in used if oid >= FIRST_ADDED_OID]
        if isinstance(item, Composite):
            found.append((derived_oids.PG_CLASS, item.relation, 0, own, item.oid, 0, "i"))
            for column in item.columns:
                if column.type.declared >= FIRST_ADDED_OID:
                    place = (derived_oids.PG_CLASS, item.relation, column.number)
                    found.append((*place, own, column.type.declared, 0, "n"))
    return dependency_columns(found)


@content("pg_range", "catalog", ranges)
def _ranges(items: list[Item], _: Surroundings) -> Columns:
    found: list[UserRange] = [item for (item,) in items]
    return {
        "rngtypid": [item.oid for item in found],
        "rngsubtype": [item.subtype for item in found],
        "rngmultitypid": [item.multirange for item in found],
        "rngcollation": [item.collation for item in found],
        "rngsubopc": [item.operator_class for item in found],
        "rngcanonical": 0,
        "rngsubdiff": [item.difference for item in found],
    }


@content("pg_enum", "catalog", enums)
def _labels(items: list[Item], _: Surroundings) -> Columns:
    found = [(item, label) for (item,) in items for label in item.labels]
    return {
        "oid": [label.oid for _, label in found],
        "enumtypid": [item.oid for item, _ in found],
        "enumsortorder": [label.position / GAP for _, label in found],
        "enumlabel": [label.name for _, label in found],
    }


def _checks(items: list[Item]) -> list[tuple[Domain, Constraint]]:
    return [(item, check) for (item,) in items for check in item.checks]


@content("pg_constraint", "catalog", domains)
def _domain_checks(items: list[Item], _: Surroundings) -> Columns:
    found = _checks(items)
    return {
        "oid": [check.oid for _, check in found],
        "conname": [check.name for _, check in found],
        "connamespace": [item.schema for item, _ in found],
        "contype": "c",
        "convalidated": [check.validated for _, check in found],
        "contypid": [item.oid for item, _ in found],
        "confupdtype": " ",
        "confdeltype": " ",
        "confmatchtype": " ",
        "conislocal": True,
    }


@content(internal.CONSTRAINT_TEXTS, "session", domains)
def _domain_check_texts(items: list[Item], _: Surroundings) -> Columns:
    found = _checks(items)
    return {
        "oid": [check.oid for _, check in found],
        "plain": [domain_check(check, False) for _, check in found],
        "pretty": [domain_check(check, True) for _, check in found],
    }


@content("pg_description", "catalog", user_types)
def _comments(items: list[Item], _: Surroundings) -> Columns:
    found = [(item.oid, derived_oids.PG_TYPE, item.comment) for (item,) in items if item.comment is not None]
    found += [
        (check.oid, derived_oids.PG_CONSTRAINT, check.comment)
        for (item,) in items
        if isinstance(item, Domain)
        for check in item.checks
        if check.comment is not None
    ]
    return {
        "objoid": [oid for oid, _, _ in found],
        "classoid": [kind for _, kind, _ in found],
        "objsubid": 0,
        "description": [text for _, _, text in found],
    }


# ---- names ----------------------------------------------------------------------------------------------------------


def _visible(surroundings: Surroundings, item: UserType) -> bool:
    """Whether the search path finds this type: no earlier schema has a type of its name."""
    catalog = surroundings.catalog
    for schema in surroundings.path:
        if schema == item.schema:
            return True
        if catalog.user_type(schema, item.name) is not None:
            return False
        if schema == PG_CATALOG_OID and item.name in types.pg_type_by_name:
            return False
    return False


def _full(surroundings: Surroundings, item: UserType) -> str:
    return f"{quote_identifier(surroundings.catalog.schema_name(item.schema))}.{quote_identifier(item.name)}"


@content(internal.RELATION_NAMES, "session", composites)
def _composite_names(items: list[Item], surroundings: Surroundings) -> Columns:
    user = surroundings.user
    return {
        "oid": [item.relation for (item,) in items],
        "shown": [
            quote_identifier(item.name) if _visible(surroundings, item) else _full(surroundings, item)
            for (item,) in items
        ],
        "visible": [_visible(surroundings, item) for (item,) in items],
        "owned": [acts_as(surroundings.catalog, user, item.owner) for (item,) in items],
        "comment": None,
    }


@content(internal.TYPE_NAMES, "session", user_types)
def _shown_names(items: list[Item], surroundings: Surroundings) -> Columns:
    found, shown, visible = [], [], []
    for (item,) in items:
        seen = _visible(surroundings, item)
        name = quote_identifier(item.name) if seen else _full(surroundings, item)
        found += [item.oid, item.array_oid]
        shown += [name, name + "[]"]
        visible += [seen, seen]
    return {"oid": found, "shown": shown, "visible": visible}


@content(internal.TYPE_INPUT, "session", user_types)
def _read_names(items: list[Item], surroundings: Surroundings) -> Columns:
    names: dict[str, int] = {}
    for (item,) in items:
        spellings = [_full(surroundings, item)]
        if _visible(surroundings, item):
            spellings.append(quote_identifier(item.name))
            names.setdefault(quote_identifier(array_name(item.name)), item.array_oid)
        for spelling in spellings:
            names[spelling] = item.oid
            names[f"{spelling}[]"] = item.array_oid
        schema = quote_identifier(surroundings.catalog.schema_name(item.schema))
        names.setdefault(f"{schema}.{quote_identifier(array_name(item.name))}", item.array_oid)
    return {"name": list(names), "oid": list(names.values())}
