"""Decides whether a statement depends on collations. Most statements do not, and are not walked again."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from catalog.catalog import Catalog
from catalog.derived import DerivedValues
from catalog.schema import Table, View

_collated: DerivedValues[int, bool] = DerivedValues()  # the relations with collations of their own


def needs_collations(catalog: Catalog, relations: Sequence[int], named: bool) -> bool:
    """Whether collations must be derived for a statement: it names one (`named`), a relation has one, or the database's
    own is not the usual one."""
    if named or catalog.collating_domains or catalog.knows_ascii_only:
        return True
    known = _collated.of(catalog)
    for oid in relations:
        found = known.get(oid)
        if found is None:
            item = catalog.objects.get(oid)
            of_view = isinstance(item, View) and "COLLATE" in item.query
            found = known[oid] = is_collated(item) if isinstance(item, Table) else of_view
        if found:
            return True
    return False


def is_collated(table: Table) -> bool:
    """Whether a column of a table, or an expression of it, has a collation."""
    return any(column.collation for column in table.columns) or any("COLLATE" in text for text in texts_of(table))


def texts_of(table: Table) -> Iterator[str]:
    """The expressions that statements over a table may run."""
    for column in table.columns:
        yield from filter(None, (column.default, column.generated))
    yield from filter(None, (item.check for item in table.constraints))
