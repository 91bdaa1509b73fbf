"""pg_collation: the built-in collations, and user-defined ones."""

from __future__ import annotations

from collections.abc import Sequence as Seq

from catalog.collations import ICU, POSIX, C, built_in, is_visible, show_name, version
from catalog.schema import Collation
from catalog.system import derived_oids
from catalog.system import relations as internal
from catalog.system.content import Columns, Item, Surroundings, comment_columns, content, objects_of

collations = objects_of(Collation)


def _collation_rows(found: Seq[Collation]) -> Columns:
    icu = [item.provider == ICU for item in found]
    libc = [item.locale if item.provider == "c" else None for item in found]
    return {
        "oid": [item.oid for item in found],
        "collname": [item.name for item in found],
        "collnamespace": [item.schema for item in found],
        "collowner": [item.owner for item in found],
        "collprovider": [item.provider for item in found],
        "collisdeterministic": [item.deterministic for item in found],
        "collencoding": [6 if item.provider == "c" and item.oid not in (C, POSIX) else -1 for item in found],
        "collcollate": libc,
        "collctype": libc,
        "colliculocale": [item.locale if of_icu else None for item, of_icu in zip(found, icu, strict=True)],
        "collversion": [item.version or version(item) for item in found],
    }


@content("pg_collation", "fixed")
def _built_in_collations(_: list[Item], __: Surroundings) -> Columns:
    return _collation_rows(list(built_in().values()))


@content("pg_collation", "catalog", collations)
def _user_collations(items: list[Item], _: Surroundings) -> Columns:
    return _collation_rows([item for (item,) in items])


@content("pg_description", "catalog", collations)
def _collation_comments(items: list[Item], _: Surroundings) -> Columns:
    return comment_columns(derived_oids.PG_COLLATION, (item for (item,) in items))


def _names(items: list[Collation], surroundings: Surroundings) -> Columns:
    catalog, path = surroundings.catalog, surroundings.path
    return {
        "oid": [item.oid for item in items],
        "shown": [show_name(catalog, path, item.oid) for item in items],
        "visible": [is_visible(catalog, path, item) for item in items],
        "version": [version(item) for item in items],
    }


@content(internal.COLLATION_NAMES, "session", collations)
def _user_names(items: list[Item], surroundings: Surroundings) -> Columns:
    return _names([item for (item,) in items], surroundings)


@content(internal.COLLATION_NAMES, "session", lambda _: [(item,) for item in built_in().values()])
def _built_in_names(items: list[Item], surroundings: Surroundings) -> Columns:
    return _names([item for (item,) in items], surroundings)
