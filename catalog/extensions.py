"""The extensions that Shoal has, and their content: types, functions, operators, casts.

Their objects are declared like built-in ones (catalog/data/extensions, written by tools/dump_extensions.py), with the
same OIDs in every database, and implemented like them (catalog/types, catalog/functions). CREATE EXTENSION writes one
row, an `Extension`, after which the names are found in its schema. So a single object of an extension cannot be changed
or dropped, as in PostgreSQL. Views of extensions (`VIEWS`) are ordinary views with the extension's OID.
"""

from __future__ import annotations

import csv
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING

from catalog.functions import registry
from catalog.functions.added import Added
from catalog.functions.base import Function, Operator
from catalog.system.relations import read_rows
from catalog.types import extensions
from catalog.types.user import UserEntry

if TYPE_CHECKING:
    from catalog.catalog import Catalog
    from catalog.schema import Extension


# Views that CREATE EXTENSION makes, readable for PUBLIC: (name, query, with {} for the extension's schema).
VIEWS: Mapping[str, tuple[tuple[str, str], ...]] = {
    "pg_stat_statements": (
        ("pg_stat_statements", "SELECT * FROM {}.pg_stat_statements(true)"),
        ("pg_stat_statements_info", "SELECT * FROM {}.pg_stat_statements_info()"),
    )
}


PLPGSQL = "plpgsql"
"""The extension that every database has, and keeps."""

POSTGRES_FDW = "postgres_fdw"
POSTGRES_HANDLER, POSTGRES_VALIDATOR = 16204, 16205
"""The OIDs of its functions postgres_fdw_handler and postgres_fdw_validator."""


@dataclass(frozen=True, slots=True)
class Available:
    """An extension that can be created. Its objects have OIDs from `first` to `last`."""

    name: str
    version: str
    comment: str
    relocatable: bool
    trusted: bool
    first: int
    last: int

    def has(self, oid: int) -> bool:
        return self.first <= oid <= self.last


@cache
def available() -> Mapping[str, Available]:
    """All extensions that can be created, by name."""
    text = resources.files("catalog").joinpath("data/extensions/extensions.tsv").read_text(encoding="utf-8")
    rows = csv.DictReader(text.splitlines(), delimiter="\t", quoting=csv.QUOTE_NONE)
    return {
        row["name"]: Available(
            row["name"],
            row["version"],
            row["comment"],
            row["relocatable"] == "t",
            row["trusted"] == "t",
            int(row["first"]),
            int(row["last"]),
        )
        for row in rows
    }


def extension_with(catalog: Catalog, oid: int) -> Extension | None:
    """Returns the extension in this database that the object with this OID belongs to; None if there is none."""
    return next((item for item in catalog.extensions.values() if available()[item.name].has(oid)), None)


def types_of(extension: Extension, schema: str) -> dict[int, UserEntry]:
    """The types of an extension, by OID."""
    known = available()[extension.name]
    return extensions.entries(known.first, known.last, schema)


@cache
def _functions_of(name: str) -> tuple[Function, ...]:
    known = available()[name]
    return tuple(
        registry.function(oid) for oids in registry.extension_functions().values() for oid in oids if known.has(oid)
    )


@cache
def _operators_of(name: str) -> tuple[Operator, ...]:
    known = available()[name]
    return tuple(
        registry.operator(oid) for oids in registry.extension_operators().values() for oid in oids if known.has(oid)
    )


@cache
def _dictionaries_of(name: str) -> Mapping[int, str]:
    rows = {int(row["oid"] or 0): row["dictname"] or "" for row in read_rows("extensions/pg_ts_dict")}
    return {oid: called for oid, called in rows.items() if available()[name].has(oid)}


def brought_by(catalog: Catalog) -> Added:
    """The functions, operators and text search dictionaries of a database's extensions."""
    functions: dict[str, list[tuple[str, Function]]] = {}
    operators: dict[str, list[tuple[str, Operator]]] = {}
    schemas: dict[int, str] = {}
    dictionaries: dict[int, tuple[str, str]] = {}
    for extension in catalog.extensions.values():
        name, schema = extension.name, catalog.schema_name(extension.schema)
        for function in _functions_of(name):
            functions.setdefault(function.name, []).append((schema, function))
            schemas[function.oid] = schema
        for operator in _operators_of(name):
            operators.setdefault(operator.name, []).append((schema, operator))
            schemas[operator.oid] = schema
        for oid, called in _dictionaries_of(name).items():
            dictionaries[oid] = (schema, called)
    return Added(functions, operators, schemas, dictionaries)
