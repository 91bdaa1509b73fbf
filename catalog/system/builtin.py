"""pg_proc, pg_operator, pg_cast, pg_type and other catalogs whose rows are the same in every server of this release."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from catalog import types
from catalog.extensions import available
from catalog.functions import registry
from catalog.schema import BOOTSTRAP_ROLE_OID, PG_CATALOG_OID, VirtualTable
from catalog.system import derived_oids
from catalog.system.cluster import CLUSTER_VIEWS
from catalog.system.content import Columns, Item, Surroundings, content, dependency_columns, of_rows, system_table
from catalog.system.relations import read_fields, read_rows
from catalog.text_search.configurations import CONFIGURATIONS, DICTIONARIES, dictionary_for, dictionary_options
from catalog.text_search.parser import DEFAULT_PARSER, TOKEN_TYPES
from catalog.types import lookup, oids
from catalog.types.array import vector_of
from catalog.types.base import Array

INTERNAL, SQL, PLPGSQL = 12, 14, 13563
LANGUAGES = {"internal": INTERNAL, "sql": SQL, "plpgsql": PLPGSQL}
"""The OIDs of the languages of routines."""
_SIMPLE_TEMPLATE, _SNOWBALL_TEMPLATE = 3727, 13150


def as_dumped(table: VirtualTable, rows: Iterable[Mapping[str, str | None]]) -> Columns:
    """Converts rows of catalog/data to columns in internal form; `complete` adds missing columns."""
    by_name = {column.name: column for column in table.columns}
    decoders = {name: lookup(column.type.oid).text_decoder() for name, column in by_name.items()}
    return of_rows(
        [
            {key: None if text is None else decoders[key](text) for key, text in row.items() if key in decoders}
            for row in rows
        ]
    )


def _whole(name: str) -> None:
    table = system_table(name)

    @content(table, "fixed")
    def every_row(_: list[Item], __: Surroundings) -> Columns:
        return as_dumped(table, read_rows(name))


for _name in (
    "pg_am", "pg_amop", "pg_amproc", "pg_cast", "pg_conversion", "pg_language", "pg_opclass", "pg_opfamily",
    "pg_range", "pg_ts_template",
):  # fmt: skip
    _whole(_name)


@content("pg_ts_config", "fixed")
def _configurations(_: list[Item], __: Surroundings) -> Columns:
    return {
        "oid": list(CONFIGURATIONS),
        "cfgname": list(CONFIGURATIONS.values()),
        "cfgnamespace": PG_CATALOG_OID,
        "cfgowner": BOOTSTRAP_ROLE_OID,
        "cfgparser": DEFAULT_PARSER,
    }


@content("pg_ts_config_map", "fixed")
def _configuration_maps(_: list[Item], __: Surroundings) -> Columns:
    dictionaries = {name: oid for oid, name in DICTIONARIES.items()}
    found = [
        (oid, kind, dictionaries[dictionary])
        for oid, name in CONFIGURATIONS.items()
        for kind in range(1, len(TOKEN_TYPES) + 1)
        if (dictionary := dictionary_for(name, kind)) is not None
    ]
    return {
        "mapcfg": [oid for oid, _, _ in found],
        "maptokentype": [kind for _, kind, _ in found],
        "mapseqno": 1,
        "mapdict": [oid for _, _, oid in found],
    }


@content("pg_ts_dict", "fixed")
def _dictionaries(_: list[Item], __: Surroundings) -> Columns:
    return {
        "oid": list(DICTIONARIES),
        "dictname": list(DICTIONARIES.values()),
        "dictnamespace": PG_CATALOG_OID,
        "dictowner": BOOTSTRAP_ROLE_OID,
        "dicttemplate": [
            _SIMPLE_TEMPLATE if name == "simple" else _SNOWBALL_TEMPLATE for name in DICTIONARIES.values()
        ],
        "dictinitoption": [dictionary_options(name) for name in DICTIONARIES.values()],
    }


@content("pg_ts_parser", "fixed")
def _parsers(_: list[Item], __: Surroundings) -> Columns:
    return of_rows(
        [
            {
                "oid": DEFAULT_PARSER, "prsname": "default", "prsnamespace": PG_CATALOG_OID, "prsstart": 3717,
                "prstoken": 3718, "prsend": 3719, "prsheadline": 3720, "prslextype": 3721,
            }
        ]
    )  # fmt: skip


def _number(text: str | None) -> int:
    return int(text or 0)


def _oids(text: str | None) -> tuple[int, ...]:
    return tuple(map(int, text.split())) if text else ()


@content("pg_proc", "fixed")
def _functions(_: list[Item], __: Surroundings) -> Columns:
    return {
        **function_columns(list(read_fields("pg_proc"))),  # some columns of the file have the same name
        "pronamespace": PG_CATALOG_OID,
        "proowner": BOOTSTRAP_ROLE_OID,
    }


def function_columns(lines: Sequence[Sequence[str | None]]) -> Columns:
    """Returns declarations of functions as columns of pg_proc."""
    return {
        "oid": [int(line[0] or 0) for line in lines],
        "proname": [line[1] for line in lines],
        "prolang": [_number(line[18]) for line in lines],
        "procost": [float(line[15] or 0) for line in lines],
        "prorows": [float(line[16] or 0) for line in lines],
        "provariadic": [_number(line[9]) for line in lines],
        "prokind": [line[3] for line in lines],
        "proisstrict": [line[4] == "t" for line in lines],
        "proretset": [line[5] == "t" for line in lines],
        "proleakproof": [line[19] == "t" for line in lines],
        "provolatile": [line[6] for line in lines],
        "proparallel": "s",
        "pronargs": [_number(line[7]) for line in lines],
        "pronargdefaults": [_number(line[8]) for line in lines],
        "prorettype": [_number(line[10]) for line in lines],
        "proargtypes": [vector_of(_oids(line[11])) for line in lines],
        "proallargtypes": [Array.of(_oids(line[12])) if line[12] else None for line in lines],
        "proargmodes": [Array.of(tuple(line[13])) if line[13] else None for line in lines],
        "proargnames": [Array.of(tuple(line[14].split(","))) if line[14] is not None else None for line in lines],
        "proargdefaults": [None if line[17] is None else f"{line[17]}\x1f{line[17]}" for line in lines],
        "prosrc": [line[2] for line in lines],
    }


@content("pg_operator", "fixed")
def _operators(_: list[Item], __: Surroundings) -> Columns:
    return {
        **as_dumped(system_table("pg_operator"), read_rows("pg_operator")),
        "oprnamespace": PG_CATALOG_OID,
        "oprowner": BOOTSTRAP_ROLE_OID,
    }


@content("pg_aggregate", "fixed")
def _aggregates(_: list[Item], __: Surroundings) -> Columns:
    return as_dumped(system_table("pg_aggregate"), read_rows("pg_aggregate"))


@content("pg_type", "fixed")
def _types(_: list[Item], __: Surroundings) -> Columns:
    rows = types.pg_type_rows
    return {
        **type_columns(rows),
        "typnamespace": PG_CATALOG_OID,
        "typowner": BOOTSTRAP_ROLE_OID,
        "typsubscript": [_subscripting(row) for row in rows],
        "typanalyze": [_statistics(row) for row in rows],
    }


def type_columns(rows: Sequence[types.TypeRow]) -> Columns:
    """Returns the columns of pg_type that `TypeRow` determines."""
    return {
        "oid": [row.oid for row in rows],
        "typname": [row.name for row in rows],
        "typlen": [row.length for row in rows],
        "typbyval": [row.by_value for row in rows],
        "typtype": [row.kind for row in rows],
        "typcategory": [row.category for row in rows],
        "typispreferred": [row.preferred for row in rows],
        "typisdefined": True,
        "typdelim": [row.delimiter for row in rows],
        "typrelid": [row.relation for row in rows],
        "typelem": [row.element for row in rows],
        "typarray": [row.array for row in rows],
        "typinput": [row.input for row in rows],
        "typoutput": [row.output for row in rows],
        "typreceive": [row.receive for row in rows],
        "typsend": [row.send for row in rows],
        "typmodin": [row.typmod_in for row in rows],
        "typmodout": [row.typmod_out for row in rows],
        "typalign": [row.alignment for row in rows],
        "typstorage": [row.storage for row in rows],
        "typbasetype": [row.base for row in rows],
        "typtypmod": [row.typmod for row in rows],
        "typcollation": [row.collation for row in rows],
    }


def _subscripting(row: types.TypeRow) -> int:
    """typsubscript: the OID of the subscripting handler."""
    if row.oid == oids.JSONB:
        return registry.functions_named("jsonb_subscript_handler")[0].oid
    if not row.element:
        return 0
    return registry.functions_named(("raw_" if row.length != -1 else "") + "array_subscript_handler")[0].oid


def _statistics(row: types.TypeRow) -> int:
    """typanalyze: the OID of the type's ANALYZE function."""
    name = {"r": "range_typanalyze", "m": "multirange_typanalyze"}.get(row.kind, "")
    if row.oid == oids.TSVECTOR:
        name = "ts_typanalyze"
    elif row.input == registry.functions_named("array_in")[0].oid:
        name = "array_typanalyze"
    return registry.functions_named(name)[0].oid if name else 0


_CLASSES = {
    "pg_proc": derived_oids.PG_PROC,
    "pg_type": derived_oids.PG_TYPE,
    "pg_operator": derived_oids.PG_OPERATOR,
    "pg_collation": derived_oids.PG_COLLATION,
    "pg_am": 2601,
    "pg_language": 2612,
    "pg_ts_dict": 3600,
    "pg_ts_parser": 3601,
    "pg_ts_config": 3602,
    "pg_ts_template": 3764,
}


@content("pg_description", "fixed")
def _descriptions(_: list[Item], __: Surroundings) -> Columns:
    rows = list(read_rows("pg_description"))
    return {
        "objoid": [_number(row["objoid"]) for row in rows],
        "classoid": [_CLASSES[str(row["classoid"])] for row in rows],
        "objsubid": 0,
        "description": [row["description"] for row in rows],
    }


@content("pg_description", "fixed")
def _description_of_plpgsql(_: list[Item], __: Surroundings) -> Columns:
    extension = available()["plpgsql"]
    return {
        "objoid": [extension.first],
        "classoid": derived_oids.PG_EXTENSION,
        "objsubid": 0,
        "description": [extension.comment],
    }


_HANDLERS = (13560, 13561, 13562)  # plpgsql_call_handler, plpgsql_inline_handler, plpgsql_validator


@content("pg_depend", "fixed")
def _parts_of_plpgsql(_: list[Item], __: Surroundings) -> Columns:
    extension, language, function = derived_oids.PG_EXTENSION, 2612, derived_oids.PG_PROC
    owner = (extension, available()["plpgsql"].first, 0)
    return dependency_columns(
        [
            *((function, oid, 0, *owner, "e") for oid in _HANDLERS),
            (language, PLPGSQL, 0, *owner, "e"),
            *((language, PLPGSQL, 0, function, oid, 0, "n") for oid in _HANDLERS),
        ]
    )


@content("pg_description", "fixed")
def _descriptions_of_views(_: list[Item], __: Surroundings) -> Columns:
    return {
        "objoid": [view.oid for view in CLUSTER_VIEWS],
        "classoid": derived_oids.PG_CLASS,
        "objsubid": 0,
        "description": [view.comment for view in CLUSTER_VIEWS],
    }
