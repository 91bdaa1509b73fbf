"""Values that are computed from a catalog stay while the catalog is used, and go with it."""

from __future__ import annotations

import gc
import weakref

from catalog.catalog import Catalog
from catalog.derived import DerivedValues


class _Value:
    pass


def test_catalogs_do_not_displace_each_others_values() -> None:
    kinds: list[DerivedValues[int, _Value]] = [DerivedValues(), DerivedValues()]
    catalogs = [Catalog(database=1), Catalog(database=2)]
    made = {}
    for number, kind in enumerate(kinds):
        for catalog in catalogs:
            made[number, catalog.database] = kind.of(catalog)[7] = _Value()
    for number, kind in enumerate(kinds):
        for catalog in catalogs:
            assert kind.of(catalog) == {7: made[number, catalog.database]}


def test_values_go_with_their_catalog() -> None:
    kind: DerivedValues[int, _Value] = DerivedValues()
    catalog = Catalog()
    value = kind.of(catalog)[7] = _Value()
    gone = weakref.ref(value)
    successor = catalog.with_changes({})
    assert kind.of(successor) == {}
    del value, catalog
    gc.collect()
    assert gone() is None
