"""The rows of users' text search configurations and dictionaries."""

from __future__ import annotations

from catalog.identifiers import quote_identifier
from catalog.schema import (
    FIRST_USER_OID,
)
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
from catalog.text_search.configurations import UNACCENT, UNACCENT_TEMPLATE
from catalog.text_search.objects import (
    TextSearchConfiguration,
    TextSearchDictionary,
)
from catalog.text_search.parser import DEFAULT_PARSER

configurations = objects_of(TextSearchConfiguration)
dictionaries = objects_of(TextSearchDictionary)


@content("pg_ts_config", "catalog", configurations)
def _configurations(items: list[Item], _: Surroundings) -> Columns:
    return {
        "oid": [item.oid for (item,) in items],
        "cfgname": [item.name for (item,) in items],
        "cfgnamespace": [item.schema for (item,) in items],
        "cfgowner": [item.owner for (item,) in items],
        "cfgparser": DEFAULT_PARSER,
    }


@content("pg_ts_config_map", "catalog", configurations)
def _mappings(items: list[Item], _: Surroundings) -> Columns:
    found = [
        (item.oid, row.token, number, oid)
        for (item,) in items
        for row in item.mappings
        for number, oid in enumerate(row.dictionaries, 1)
    ]
    names = ("mapcfg", "maptokentype", "mapseqno", "mapdict")
    return {name: [row[place] for row in found] for place, name in enumerate(names)}


def _shown_options(item: TextSearchDictionary) -> str | None:
    """serialize_deflist."""
    shown = []
    for name, value, kind in item.options:
        quoted = value.replace("'", "''").replace("\\", "\\\\")
        written = value if kind == "number" else f"E'{quoted}'" if "\\" in value else f"'{quoted}'"
        shown.append(f"{quote_identifier(name)} = {written}")
    return ", ".join(shown) or None


@content("pg_ts_dict", "catalog", dictionaries)
def _dictionaries(items: list[Item], _: Surroundings) -> Columns:
    return {
        "oid": [item.oid for (item,) in items],
        "dictname": [item.name for (item,) in items],
        "dictnamespace": [item.schema for (item,) in items],
        "dictowner": [item.owner for (item,) in items],
        "dicttemplate": [item.template for (item,) in items],
        "dictinitoption": [_shown_options(item) for (item,) in items],
    }


@content("pg_description", "catalog", configurations)
def _comments_on_configurations(items: list[Item], _: Surroundings) -> Columns:
    return comment_columns(derived_oids.PG_TS_CONFIG, (item for (item,) in items))


@content("pg_description", "catalog", dictionaries)
def _comments_on_dictionaries(items: list[Item], _: Surroundings) -> Columns:
    return comment_columns(derived_oids.PG_TS_DICT, (item for (item,) in items))


@content("pg_depend", "catalog", objects_of(TextSearchConfiguration, TextSearchDictionary))
def _dependencies(items: list[Item], _: Surroundings) -> Columns:
    found: list[Dependency] = []
    for (item,) in items:
        configured = isinstance(item, TextSearchConfiguration)
        own = (derived_oids.PG_TS_CONFIG if configured else derived_oids.PG_TS_DICT, item.oid, 0)
        found.append((*own, derived_oids.PG_NAMESPACE, item.schema, 0, "n"))
        if configured:
            used = dict.fromkeys(oid for row in item.mappings for oid in row.dictionaries)
            of_users = (oid for oid in used if oid >= FIRST_USER_OID or oid == UNACCENT)
            found += [(*own, derived_oids.PG_TS_DICT, oid, 0, "n") for oid in of_users]
        elif item.template == UNACCENT_TEMPLATE:
            found.append((*own, derived_oids.PG_TS_TEMPLATE, item.template, 0, "n"))
    return dependency_columns(found)


@content(internal.TEXT_SEARCH_NAMES, "session", objects_of(TextSearchConfiguration, TextSearchDictionary))
def _names(items: list[Item], surroundings: Surroundings) -> Columns:
    """Whether the search path finds an object by its name; pg_catalog has objects of the same kinds."""
    catalog = surroundings.catalog
    known = {
        (type(item), catalog.schema_name(item.schema), item.name): item.oid for item in catalog.text_search.values()
    }
    places = [catalog.schema_name(schema) for schema in surroundings.path]

    def is_visible(item: TextSearchConfiguration | TextSearchDictionary) -> bool:
        found = (known.get((type(item), place, item.name)) for place in places)
        return next((oid for oid in found if oid is not None), None) == item.oid

    return {"oid": [item.oid for (item,) in items], "visible": [is_visible(item) for (item,) in items]}
