"""The row types of tables and views, as composite types.

An entry is made when it is looked up: a database has many tables, and few of their row types are named. A row of a
table that a query reads as a whole is a record in the tree (engine/sql/analyze/declared.py), and becomes a value of the
row type where a cast or an argument asks for that.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from catalog.catalog import Catalog
from catalog.derived import DerivedValues
from catalog.schema import Composite, Table, View
from catalog.system import derived_oids
from catalog.types.user import UserEntry
from catalog.usertypes import entries_of


def row_type_of(relation: Table | View) -> Composite:
    """Returns the row type of a table or a view."""
    return Composite(
        derived_oids.row_type(relation.oid), relation.schema, relation.name, derived_oids.row_array_type(relation.oid),
        relation.oid, tuple(relation.columns), relation.owner,
    )  # fmt: skip


def is_row_type(oid: int) -> bool:
    """Whether this is the OID of a row type of a table or a view, or of an array of rows."""
    return derived_oids.ROW_TYPES <= oid < derived_oids.RULES


class CatalogTypes(Mapping[int, UserEntry]):
    """The types of users and extensions in a catalog, and the row types of its relations, by OID."""

    def __init__(self, catalog: Catalog) -> None:
        self._named = catalog.user_types
        self._catalog = catalog
        self._rows: dict[int, UserEntry | None] = {}

    def get(self, oid: int, default: Any = None) -> Any:
        """Returns the entry of a type."""
        found = self._named.get(oid)
        if found is not None or not derived_oids.ROW_TYPES <= oid < derived_oids.RULES:
            return default if found is None else found
        if oid not in self._rows:
            self._rows[oid] = self._row_entry(oid)
        return self._rows[oid] or default

    def _row_entry(self, oid: int) -> UserEntry | None:
        relation = self._catalog.objects.get(derived_oids.relation_of_type(self._catalog, oid) or 0)
        if not isinstance(relation, Table | View):
            return None
        schema = self._catalog.schema_name(relation.schema)
        return entries_of([(row_type_of(relation), schema)]).get(oid)

    def __getitem__(self, oid: int) -> UserEntry:
        found: UserEntry | None = self.get(oid)
        if found is None:
            raise KeyError(oid)
        return found

    def __iter__(self) -> Iterator[int]:
        return iter(self._named)

    def __len__(self) -> int:
        return len(self._named)

    def __bool__(self) -> bool:
        return True


_types: DerivedValues[None, CatalogTypes] = DerivedValues()


def types_in(catalog: Catalog) -> CatalogTypes:
    """Returns the types of a catalog."""
    known = _types.of(catalog)
    found = known.get(None)
    if found is None:
        found = known[None] = CatalogTypes(catalog)
    return found
