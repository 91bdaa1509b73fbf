"""The rows of pg_extension, and the rows of extensions in pg_type, pg_proc, pg_operator, ..."""

from __future__ import annotations

from functools import cache

from catalog.catalog import Catalog
from catalog.extensions import PLPGSQL, available, types_of
from catalog.identifiers import quote_identifier
from catalog.schema import PG_CATALOG_OID, Extension
from catalog.system import derived_oids
from catalog.system import relations as internal
from catalog.system.builtin import as_dumped, function_columns, type_columns
from catalog.system.content import (
    Columns,
    Dependency,
    Item,
    Surroundings,
    comment_columns,
    content,
    dependency_columns,
    objects_of,
    system_table,
)
from catalog.system.names import function_name_columns, operator_name_columns
from catalog.system.relations import DATA, read_fields, read_rows
from catalog.types.user import UserEntry

extensions = objects_of(Extension)
_PLPGSQL = Extension(available()[PLPGSQL].first, PG_CATALOG_OID, PLPGSQL, available()[PLPGSQL].version)
_MEMBERS = {
    "pg_type": derived_oids.PG_TYPE, "pg_proc": derived_oids.PG_PROC, "pg_operator": derived_oids.PG_OPERATOR,
    "pg_cast": derived_oids.PG_CAST, "pg_opclass": derived_oids.PG_OPCLASS, "pg_opfamily": derived_oids.PG_OPFAMILY,
    "pg_ts_dict": derived_oids.PG_TS_DICT, "pg_ts_template": derived_oids.PG_TS_TEMPLATE,
}  # fmt: skip


def _present(catalog: Catalog) -> list[tuple[Extension]]:
    """The extensions of a database."""
    return [(item,) for item in (_PLPGSQL, *catalog.extensions.values())]


@content("pg_extension", "catalog", _present)
def _extensions(items: list[Item], _: Surroundings) -> Columns:
    return {
        "oid": [item.oid for (item,) in items],
        "extname": [item.name for (item,) in items],
        "extowner": [item.owner for (item,) in items],
        "extnamespace": [item.schema for (item,) in items],
        "extrelocatable": [available()[item.name].relocatable for (item,) in items],
        "extversion": [item.version for (item,) in items],
    }


@content(
    "pg_available_extensions", "catalog", lambda catalog: [(_of_name(catalog, name), name) for name in available()]
)
def _available(items: list[Item], _: Surroundings) -> Columns:
    return {
        "name": [name for _, name in items],
        "default_version": [available()[name].version for _, name in items],
        "installed_version": [None if item is None else item.version for item, _ in items],
        "comment": [available()[name].comment for _, name in items],
    }


@content(
    "pg_available_extension_versions",
    "catalog",
    lambda catalog: [(_of_name(catalog, name), name) for name in available()],
)
def _versions(items: list[Item], _: Surroundings) -> Columns:
    return {
        "name": [name for _, name in items],
        "version": [available()[name].version for _, name in items],
        "installed": [item is not None for item, _ in items],
        "superuser": True,
        "trusted": [available()[name].trusted for _, name in items],
        "relocatable": [available()[name].relocatable for _, name in items],
        "comment": [available()[name].comment for _, name in items],
    }


def _of_name(catalog: Catalog, name: str) -> Extension | None:
    return _PLPGSQL if name == PLPGSQL else catalog.extensions.get(name)


@cache
def _fields(name: str) -> list[list[str | None]]:
    return list(read_fields(f"extensions/{name}"))


@cache
def _rows(name: str) -> list[dict[str, str | None]]:
    return list(read_rows(f"extensions/{name}"))


def _of(item: Extension, oid: str | None) -> bool:
    return available()[item.name].has(int(oid or 0))


def own_rows(item: Extension, name: str) -> list[dict[str, str | None]]:
    """Returns an extension's rows in a catalog; [] if no extension has rows there."""
    if not (DATA / "extensions" / f"{name}.tsv").exists():
        return []
    key = "aggfnoid" if name == "pg_aggregate" else "oid"
    return [row for row in _rows(name) if _of(item, row[key])]


def own_functions(item: Extension) -> list[list[str | None]]:
    """Returns an extension's rows in pg_proc, as fields."""
    return [line for line in _fields("pg_proc") if _of(item, line[0])]


def _own_rows(items: list[Item], name: str) -> list[tuple[Extension, dict[str, str | None]]]:
    return [(item, row) for (item,) in items for row in own_rows(item, name)]


def _own_lines(items: list[Item]) -> list[tuple[Extension, list[str | None]]]:
    return [(item, line) for (item,) in items for line in own_functions(item)]


@content("pg_type", "catalog", extensions)
def _types(items: list[Item], _: Surroundings) -> Columns:
    found = [(item, entry) for (item,) in items for entry in types_of(item, "").values()]
    return {
        **type_columns([entry.row for _, entry in found]),
        "typnamespace": [item.schema for item, _ in found],
        "typowner": [item.owner for item, _ in found],
    }


@content("pg_proc", "catalog", extensions)
def _functions(items: list[Item], _: Surroundings) -> Columns:
    found = _own_lines(items)
    return {
        **function_columns([line for _, line in found]),
        "pronamespace": [item.schema for item, _ in found],
        "proowner": [item.owner for item, _ in found],
    }


def _place(name: str, schema: str = "", owner: str = "") -> None:
    """Registers the rows of extensions in a catalog, with its columns for schema and owner."""
    table = system_table(name)

    @content(table, "catalog", extensions)
    def rows(items: list[Item], _: Surroundings) -> Columns:
        found = _own_rows(items, name)
        if not found:
            return {column.name: [] for column in table.columns}
        columns = dict(as_dumped(table, [row for _, row in found]))
        if schema:
            columns[schema] = [item.schema for item, _ in found]
        if owner:
            columns[owner] = [item.owner for item, _ in found]
        return columns


_place("pg_operator", "oprnamespace", "oprowner")
_place("pg_cast")
_place("pg_aggregate")
_place("pg_opclass", "opcnamespace", "opcowner")
_place("pg_opfamily", "opfnamespace", "opfowner")
_place("pg_ts_dict", "dictnamespace", "dictowner")
_place("pg_ts_template", "tmplnamespace")


@content("pg_depend", "catalog", extensions)
def _dependencies(items: list[Item], _: Surroundings) -> Columns:
    """Rows of pg_depend: each object depends on its extension, an array type on its element type instead, and the
    extension on its schema."""
    rows: list[Dependency] = []
    for name, kind in _MEMBERS.items():
        for item, row in _own_rows(items, name):
            oid, element = int(row["oid"] or 0), int(row.get("typelem") or 0)
            if element:
                rows.append((kind, oid, 0, kind, element, 0, "i"))
            else:
                rows.append((kind, oid, 0, derived_oids.PG_EXTENSION, item.oid, 0, "e"))
    for (item,) in items:
        rows.append((derived_oids.PG_EXTENSION, item.oid, 0, derived_oids.PG_NAMESPACE, item.schema, 0, "n"))
    return dependency_columns(rows)


@content("pg_description", "catalog", extensions)
def _comments(items: list[Item], _: Surroundings) -> Columns:
    return comment_columns(derived_oids.PG_EXTENSION, (item for (item,) in items))


# ---- names ----------------------------------------------------------------------------------------------------------


def _prefix(surroundings: Surroundings, item: Extension) -> str:
    """Returns the schema prefix of names of an extension's objects; '' if the schema is in the search path."""
    if item.schema in surroundings.path:
        return ""
    return quote_identifier(surroundings.catalog.schema_name(item.schema)) + "."


def _entries(items: list[Item]) -> list[tuple[Extension, UserEntry]]:
    return [(item, entry) for (item,) in items for entry in types_of(item, "").values()]


@content(internal.TYPE_NAMES, "session", extensions)
def _type_names(items: list[Item], surroundings: Surroundings) -> Columns:
    found = _entries(items)
    return {
        "oid": [entry.row.oid for _, entry in found],
        "shown": [_prefix(surroundings, item) + entry.shown for item, entry in found],
        "visible": [item.schema in surroundings.path for item, _ in found],
    }


@content(internal.TYPE_INPUT, "session", extensions)
def _type_input(items: list[Item], surroundings: Surroundings) -> Columns:
    names: dict[str, int] = {}
    for item, entry in _entries(items):
        schema = quote_identifier(surroundings.catalog.schema_name(item.schema))
        for spelling in (entry.shown, entry.row.name):
            names[f"{schema}.{spelling}"] = entry.row.oid
            if item.schema in surroundings.path:
                names[spelling] = entry.row.oid
    return {"name": list(names), "oid": list(names.values())}


def _add_prefixes(columns: Columns, prefixes: list[str], keys: tuple[str, ...]) -> Columns:
    made = dict(columns)
    for key in keys:
        texts = made[key]
        assert isinstance(texts, list)
        made[key] = [prefix + text for prefix, text in zip(prefixes, texts, strict=True)]
    return made


@content(internal.FUNCTION_NAMES, "session", extensions)
def _function_names(items: list[Item], surroundings: Surroundings) -> Columns:
    found = _own_lines(items)
    columns = dict(function_name_columns([line for _, line in found], ""))
    columns["visible"] = [item.schema in surroundings.path for item, _ in found]
    return _add_prefixes(columns, [_prefix(surroundings, item) for item, _ in found], ("shown", "signature"))


@content(internal.OPERATOR_NAMES, "session", extensions)
def _operator_names(items: list[Item], surroundings: Surroundings) -> Columns:
    found = _own_rows(items, "pg_operator")
    columns = operator_name_columns([int(row["oid"] or 0) for _, row in found], "")
    return _add_prefixes(columns, [_prefix(surroundings, item) for item, _ in found], ("shown", "signature"))
