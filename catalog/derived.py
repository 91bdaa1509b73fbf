"""Caches of what modules compute from a catalog: bound rules of tables, analysed views, partition levels.

A catalog owns what was computed from it, so a new version of the catalog begins with nothing, and the values go with
the last reader of the old one. Databases, and sessions with temporary objects, have catalogs of their own, so they do
not displace each other's values.
"""

from __future__ import annotations

from typing import Generic, TypeVar

from catalog.catalog import Catalog

Key = TypeVar("Key")
Value = TypeVar("Value")


class DerivedValues(Generic[Key, Value]):
    """The values of one kind. A module makes one instance, and computes what is missing:

        _rules: DerivedValues[int, TableRules] = DerivedValues()
        known = _rules.of(catalog)

    Long statements are planned in threads, so two threads may compute the same value; either may stay.
    """

    def of(self, catalog: Catalog) -> dict[Key, Value]:
        """The values that are known for a catalog."""
        values: dict[Key, Value] = catalog.derivations.setdefault(self, {})
        return values
