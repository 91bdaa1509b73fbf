"""Collations: their definitions, the built-in ones, and their effect on a type.

    default, C.utf8                          by bytes, with the letters of Unicode
    C, POSIX, ucs_basic                      by bytes; upper, lower, initcap and ILIKE only know the letters of ASCII
    "de-x-icu", ... and CREATE COLLATION     by ICU (catalog/icu.py)

The built-in collations and their OIDs are those of PostgreSQL with ICU 72 (catalog/data/pg_collation.tsv). User-defined
collations are schema objects. Objects store the OID of a collation; 0 stands for the collation of the type.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from catalog import icu
from catalog.catalog import Catalog
from catalog.errors import SqlError
from catalog.identifiers import quote_identifier
from catalog.schema import PG_CATALOG_OID, Collation, Index
from catalog.system.relations import read_rows
from catalog.types import element_of, oids, type_row
from catalog.types.base import TypeRef
from catalog.types.collated import Rules, with_collation

DEFAULT, C, POSIX = 100, 950, 951
ICU = "i"


@lru_cache(1)
def built_in() -> dict[int, Collation]:
    """The collations that every database has, by OID."""
    return {
        int(row["oid"] or 0): Collation(
            int(row["oid"] or 0),
            PG_CATALOG_OID,
            row["collname"] or "",
            row["colliculocale"] or row["collcollate"] or "",
            row["collisdeterministic"] == "t",
            row["collprovider"] or "",
        )
        for row in read_rows("pg_collation")
    }


@lru_cache(1)
def built_in_names() -> dict[str, int]:
    return {item.name: oid for oid, item in built_in().items()}


def collation(catalog: Catalog, oid: int) -> Collation:
    """The collation with this OID. Raises 42704."""
    if oid in (DEFAULT, C, POSIX):
        return _PLAIN[oid]
    found = catalog.objects.get(oid) or built_in().get(oid)
    if not isinstance(found, Collation):
        raise SqlError("42704", f"collation with OID {oid} does not exist")
    return found


_PLAIN = {
    DEFAULT: Collation(DEFAULT, PG_CATALOG_OID, "default", provider="d"),
    C: Collation(C, PG_CATALOG_OID, "C", "C", provider="c"),
    POSIX: Collation(POSIX, PG_CATALOG_OID, "POSIX", "POSIX", provider="c"),
}


def rules(catalog: Catalog, oid: int) -> Rules | None:
    """ICU's locale and options for the collation; None if it compares bytes."""
    if oid in (0, DEFAULT, C, POSIX):
        return None
    found = collation(catalog, oid)
    return Rules(found.locale, found.deterministic) if found.provider == ICU else None


def is_ascii(catalog: Catalog, oid: int) -> bool:
    """Whether the collation's LC_CTYPE is C, so that case mappings only know the letters of ASCII."""
    if oid in (C, POSIX):
        return True
    if oid in (0, DEFAULT):
        return catalog.knows_ascii_only
    found = collation(catalog, oid)
    return found.provider != ICU and found.locale in ("C", "POSIX")


def with_rules(catalog: Catalog, found: Rules) -> int:
    """The OID of a collation with these rules: the built-in one, or the first user-defined one."""
    oid = built_in_names().get(f"{found.locale}-x-icu") if found.deterministic else None
    made = (item.oid for item in catalog.collations.values() if Rules(item.locale, item.deterministic) == found)
    return oid or next(made)


def is_visible(catalog: Catalog, path: Sequence[int], item: Collation) -> bool:
    """Whether its unqualified name finds it by a search path (OIDs of schemas)."""
    for schema in (*path, PG_CATALOG_OID):
        if schema == item.schema:
            return True
        if (schema, item.name) in catalog.collations or (schema == PG_CATALOG_OID and item.name in built_in_names()):
            return False
    return False


def of_type(oid: int) -> int:
    """The collation of a type: DEFAULT, C for name, 0 for types that are not collatable."""
    row = type_row(oid)
    return row.collation if row else 0


def key_type(catalog: Catalog, type_: TypeRef, oid: int) -> TypeRef:
    """The type by which keys encode values of a column with this collation: a collated type for ICU's collations,
    otherwise the type itself. Raises 0A000 for a type whose keys ICU cannot make."""
    found = rules(catalog, oid)
    if found is None:
        return type_
    return collated_type(type_.oid, found)


def key_types(catalog: Catalog, index: Index) -> list[TypeRef]:
    """The types by which the keys of an index encode its columns."""
    return [key_type(catalog, column.type, column.collation) for column in index.columns]


def key_version(catalog: Catalog, index: Index) -> str:
    """The versions of this machine's ICU rules for the columns of an index, such as '153.120', separated by commas; ''
    for an index without an ICU collation."""
    found = [rules(catalog, column.collation) for column in index.columns]
    return ",".join(icu.version_of(item.locale) for item in found if item is not None)


def is_current(catalog: Catalog, index: Index) -> bool:
    """Whether the keys of an index are in the order of this machine's ICU rules."""
    if not index.collation_version:
        return True
    return icu.is_available() and key_version(catalog, index) == index.collation_version


def refuse_outdated(catalog: Catalog, index: Index) -> None:
    """55000 for a write to an index whose keys were made by another version of ICU's rules, because searches fail in a
    tree with two orders."""
    if is_current(catalog, index):
        return
    here = key_version(catalog, index) if icu.is_available() else "none"
    raise SqlError(
        "55000",
        f'index "{index.name}" was built with another version of its ICU collation',
        detail=f"The index was built with version {index.collation_version}, this machine has version {here}.",
        hint=f"Rebuild it with REINDEX INDEX {index.name}. Until then queries do not use it.",
    )


def collated_type(oid: int, found: Rules) -> TypeRef:
    """The collated type of values of text, varchar, char(n), name or an array of them under these rules."""
    element = element_of(oid)
    if element:
        return with_collation(oids.BPCHAR_ARRAY if element == oids.BPCHAR else oids.TEXT_ARRAY, found)
    return with_collation(oids.BPCHAR if oid == oids.BPCHAR else oids.TEXT, found)


def version(item: Collation) -> str | None:
    """pg_collation_actual_version: the version of this machine's ICU rules; None for collations without versions, and
    on a machine without ICU."""
    return icu.version_of(item.locale) if item.provider == ICU and icu.is_available() else None


def show_name(catalog: Catalog, path: tuple[int, ...], oid: int) -> str | None:
    """A collation's name, with its schema unless it is visible; None if no collation has the OID."""
    try:
        item = collation(catalog, oid)
    except SqlError:
        return None
    name = quote_identifier(item.name)
    return name if is_visible(catalog, path, item) else f"{quote_identifier(catalog.schema_name(item.schema))}.{name}"
