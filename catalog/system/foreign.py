"""The rows of foreign data wrappers, servers, user mappings and foreign tables in pg_catalog.

The options of a user mapping may contain a password: pg_user_mapping is for superusers only (engine/sql/privileges.py),
and the view pg_user_mappings shows the options to those who may see them.
"""

from __future__ import annotations

from collections.abc import Sequence

from catalog.catalog import Catalog
from catalog.schema import ForeignServer, ForeignWrapper, Table, UserMapping
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
from catalog.types.base import Array
from catalog.types.user import FIRST_ADDED_OID


def _foreign_table(_: Catalog, item: Table) -> Item | None:
    return (item,) if item.server else None


wrappers = objects_of(ForeignWrapper)
servers = objects_of(ForeignServer)
mappings = objects_of(UserMapping)
foreign_tables = Items((Table,), _foreign_table)


def option_array(options: Sequence[tuple[str, str]]) -> Array | None:
    """Returns options as catalogs show them: {name=value,...}."""
    return Array.of(tuple(f"{name}={value}" for name, value in options)) if options else None


def _acl(item: ForeignWrapper | ForeignServer) -> Array | None:
    return None if item.acl is None else Array.of(item.acl)


@content("pg_foreign_data_wrapper", "catalog", wrappers)
def _wrappers(items: list[Item], _: Surroundings) -> Columns:
    found: list[ForeignWrapper] = [item for (item,) in items]
    return {
        "oid": [item.oid for item in found],
        "fdwname": [item.name for item in found],
        "fdwowner": [item.owner for item in found],
        "fdwhandler": [item.handler for item in found],
        "fdwvalidator": [item.validator for item in found],
        "fdwacl": [_acl(item) for item in found],
        "fdwoptions": [option_array(item.options) for item in found],
    }


@content("pg_foreign_server", "catalog", servers)
def _servers(items: list[Item], _: Surroundings) -> Columns:
    found: list[ForeignServer] = [item for (item,) in items]
    return {
        "oid": [item.oid for item in found],
        "srvname": [item.name for item in found],
        "srvowner": [item.owner for item in found],
        "srvfdw": [item.wrapper for item in found],
        "srvtype": [item.type for item in found],
        "srvversion": [item.version for item in found],
        "srvacl": [_acl(item) for item in found],
        "srvoptions": [option_array(item.options) for item in found],
    }


@content("pg_user_mapping", "catalog", mappings)
def _mappings(items: list[Item], _: Surroundings) -> Columns:
    found: list[UserMapping] = [item for (item,) in items]
    return {
        "oid": [item.oid for item in found],
        "umuser": [item.role for item in found],
        "umserver": [item.server for item in found],
        "umoptions": [option_array(item.options) for item in found],
    }


@content("pg_foreign_table", "catalog", foreign_tables)
def _tables(items: list[Item], _: Surroundings) -> Columns:
    found: list[Table] = [item for (item,) in items]
    return {
        "ftrelid": [item.oid for item in found],
        "ftserver": [item.server for item in found],
        "ftoptions": [option_array(item.foreign_options) for item in found],
    }


# ---- comments, dependencies -----------------------------------------------------------------------------------------


@content("pg_description", "catalog", wrappers)
def _wrapper_comments(items: list[Item], _: Surroundings) -> Columns:
    return comment_columns(derived_oids.PG_FOREIGN_DATA_WRAPPER, (item for (item,) in items))


@content("pg_description", "catalog", servers)
def _server_comments(items: list[Item], _: Surroundings) -> Columns:
    return comment_columns(derived_oids.PG_FOREIGN_SERVER, (item for (item,) in items))


@content("pg_depend", "catalog", wrappers)
def _of_wrappers(items: list[Item], _: Surroundings) -> Columns:
    found: list[Dependency] = []
    for (item,) in items:
        own = (derived_oids.PG_FOREIGN_DATA_WRAPPER, item.oid, 0)
        functions = (oid for oid in (item.handler, item.validator) if oid >= FIRST_ADDED_OID)
        found += [(*own, derived_oids.PG_PROC, oid, 0, "n") for oid in functions]
        if item.extension:
            found.append((*own, derived_oids.PG_EXTENSION, item.extension, 0, "e"))
    return dependency_columns(found)


@content("pg_depend", "catalog", servers)
def _of_servers(items: list[Item], _: Surroundings) -> Columns:
    own, wrapper = derived_oids.PG_FOREIGN_SERVER, derived_oids.PG_FOREIGN_DATA_WRAPPER
    return dependency_columns([(own, item.oid, 0, wrapper, item.wrapper, 0, "n") for (item,) in items])


@content("pg_depend", "catalog", mappings)
def _of_mappings(items: list[Item], _: Surroundings) -> Columns:
    own, server = derived_oids.PG_USER_MAPPING, derived_oids.PG_FOREIGN_SERVER
    return dependency_columns([(own, item.oid, 0, server, item.server, 0, "n") for (item,) in items])


@content("pg_depend", "catalog", foreign_tables)
def _of_tables(items: list[Item], _: Surroundings) -> Columns:
    own, server = derived_oids.PG_CLASS, derived_oids.PG_FOREIGN_SERVER
    return dependency_columns([(own, item.oid, 0, server, item.server, 0, "n") for (item,) in items])
