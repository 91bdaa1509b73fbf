"""Which tablespaces relations and schema changes have to do with, where each may be led by another node.

    relation    its own, and those of its partitions and children; behind a view those of what the view reads; beside
                an index that of its table
    changes     of its rows: besides, those of the other sides of its foreign keys, as far as cascades go, and
                pg_default for the sequences of its columns
    schema      a change of a relation: the same, and its parents', as it was and as it is. What is new and no relation
                concerns nobody; whatever else is changed (types, roles, schemas) may concern the rows of every
                tablespace

A schema change gets a part, maybe an empty one, in each tablespace that it has to do with. So it commits only where all
of them are led, and no row is committed under a schema that has been changed before: whoever leads the tablespace next
has applied the part, and with it the change.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from catalog.schema import (
    DEFAULT_TABLESPACE_OID,
    Catalog,
    Index,
    Schema,
    SchemaObject,
    Sequence,
    Table,
    Tablespace,
    View,
)
from engine.session.routing import LEADER_FUNCTIONS

TEMPORARY = "pg_temp_"


def tables_behind(catalog: Catalog, relation: object, tables: dict[int, Table]) -> bool:
    """Adds the tables that reading the relation reads; whether there is something in pg_default among the rest."""
    if isinstance(relation, Table):
        tables[relation.oid] = relation
        tables.update((item.oid, item) for item in catalog.descendants(relation.oid))
        return False
    if isinstance(relation, Index):
        return tables_behind(catalog, catalog.get(relation.table), tables)
    if isinstance(relation, View):
        return any([tables_behind(catalog, catalog.get(oid), tables) for oid in relation.depends_on])
    return True


def add_touched(catalog: Catalog, tables: dict[int, Table]) -> bool:
    """Adds the tables that changes of these may look at or change too; whether sequences are among that."""
    referencing: dict[int, list[Table]] = {}
    for item in catalog.objects.values():
        if isinstance(item, Table):
            for oid in _references(item):
                referencing.setdefault(oid, []).append(item)
    draws = False
    pending = list(tables.values())
    while pending:
        table = pending.pop()
        draws |= any(
            column.sequence is not None or column.identity or _draws(column.default) for column in table.columns
        )
        for other in [catalog.get(oid) for oid in _references(table)] + referencing.get(table.oid, []):
            if isinstance(other, Table) and other.oid not in tables:
                tables[other.oid] = other
                pending.append(other)
    return draws


def places_of_changes(
    before: Mapping[int, Catalog], changes: Mapping[int, SchemaObject | None]
) -> frozenset[int] | None:
    """The OIDs of the tablespaces that a schema change has to do with, pg_default left out; None: all. `before`: the
    catalogs without it, by database."""
    found: set[int] = set()
    for oid, new in changes.items():
        for catalog in before.values():
            old = catalog.get(oid)
            if old is not None:
                break
        else:
            old = None
        for item in (old, new):
            if item is not None and not _places(catalog, item, old is None, found):
                return None
    return frozenset(found - {DEFAULT_TABLESPACE_OID})


def _places(catalog: Catalog, item: SchemaObject, is_new: bool, found: set[int]) -> bool:
    """Adds those of one object; False: all."""
    if isinstance(item, Table | Index | View):
        tables: dict[int, Table] = {}
        tables_behind(catalog, item, tables)
        if isinstance(item, Table):
            for parent in item.parents:
                tables_behind(catalog, catalog.get(parent), tables)
            add_touched(catalog, tables)
        found.update(table.tablespace for table in tables.values())
    elif isinstance(item, Tablespace):
        if not is_new:
            found.add(item.oid)
    elif not isinstance(item, Sequence):
        return is_new or (isinstance(item, Schema) and item.name.startswith(TEMPORARY))
    return True


def _references(table: Table) -> Iterable[int]:
    return (item.references for item in table.constraints if item.kind == "f" and item.references is not None)


def _draws(default: str | None) -> bool:
    """Whether a default looks at what is for all tablespaces, such as a sequence."""
    return default is not None and any(f"{name}(" in default for name in LEADER_FUNCTIONS)
