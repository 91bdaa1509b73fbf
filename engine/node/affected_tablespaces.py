"""The tablespaces that relations and schema changes concern; each tablespace may have its own leader.

    relation    its own tablespace; those of the tables that a view reads; for an index that of its table; those of
                partitions and of other children
    changes     of rows: also those of the tables at the other side of its foreign keys, through all cascades, those of
                parents, and pg_default for the sequences of its columns
    schema      a change of a relation: the same, for its old and new form. A new relation concerns no others, unless it
                hides a relation of that name or is code. Other changes (types, roles, schemas) may concern the rows
                of every tablespace

A schema change has a part, maybe an empty one, in each tablespace that it concerns. So it commits only where all of
them are led, and no row is committed under an outdated schema: the next leader of the tablespace has applied the part,
and with it the change.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from catalog.catalog import Catalog
from catalog.functions.base import Trait
from catalog.functions.registry import names_with
from catalog.schema import (
    CODE,
    DEFAULT_TABLESPACE_OID,
    ChangeStream,
    Index,
    Routine,
    Schema,
    SchemaObject,
    Sequence,
    Table,
    Tablespace,
    View,
)

TEMPORARY = "pg_temp_"


class UntoldError(Exception):
    """A function in SQL is called: its tablespaces depend on the caller's privileges and search path."""


def tables_behind(catalog: Catalog, relation: object, tables: dict[int, Table]) -> bool:
    """Adds the tables that a read of the relation reads. Returns whether pg_default has some of them. Raises
    UntoldError."""
    if isinstance(relation, Routine):
        raise UntoldError
    if isinstance(relation, Table):
        tables[relation.oid] = relation
        tables.update((item.oid, item) for item in catalog.descendants(relation.oid))
        return _add_behind_policies(catalog, relation, tables)
    if isinstance(relation, Index):
        return tables_behind(catalog, catalog.get(relation.table), tables)
    if isinstance(relation, View):
        return any([tables_behind(catalog, catalog.get(oid), tables) for oid in relation.depends_on])
    return True


def _add_behind_policies(catalog: Catalog, table: Table, tables: dict[int, Table]) -> bool:
    """Adds the tables that the conditions of a table's policies read, like `tables_behind`."""
    if not table.row_security:
        return False
    texts = [text for policy in table.policies for text in (policy.using, policy.check) if text is not None]
    if any(f"{name}(" in text for name in catalog.routines for text in texts):
        raise UntoldError
    others = {oid for policy in table.policies for oid in policy.depends_on if oid not in tables}
    return any([tables_behind(catalog, catalog.get(oid), tables) for oid in others])


def add_touched(catalog: Catalog, tables: dict[int, Table]) -> bool:
    """Adds the tables that changes of these tables may read or change. Returns whether sequences are among them. Raises
    UntoldError."""
    draws = False
    pending = list(tables.values())
    while pending:
        table = pending.pop()
        defaults = [column.default for column in table.columns if column.default is not None]
        if any(f"{name}(" in default for name in catalog.routines for default in defaults):
            raise UntoldError
        draws |= any(column.sequence is not None or column.identity for column in table.columns)
        draws |= any(f"{name}(" in default for name in names_with(Trait.LEADER) for default in defaults)
        near = (catalog.referencing, catalog.children)
        related = (*_references(table), *table.parents, *(oid for found in near for oid in found.get(table.oid, ())))
        for other in map(catalog.get, related):
            if isinstance(other, Table) and other.oid not in tables:
                tables[other.oid] = other
                pending.append(other)
    return draws


def places_of_changes(
    before: Mapping[int, Catalog], changes: Mapping[int, SchemaObject | None]
) -> frozenset[int] | None:
    """The OIDs of the tablespaces that a schema change concerns, without pg_default; None: all. `before`: the catalogs
    before the change, by database."""
    found: set[int] = set()
    for oid, new in changes.items():
        for catalog in before.values():
            old = catalog.get(oid)
            for item in (old, new):
                if item is not None and not _places(catalog, item, old is None, found):
                    return None
    return frozenset(found - {DEFAULT_TABLESPACE_OID})


def _places(catalog: Catalog, item: SchemaObject, is_new: bool, found: set[int]) -> bool:
    """Adds the tablespaces of one object. Returns False for all."""
    if is_new and isinstance(item, Table | View | Sequence) and _hides(catalog, item):
        return False
    if isinstance(item, Table | Index | View):
        tables: dict[int, Table] = {}
        try:
            tables_behind(catalog, item, tables)
            if isinstance(item, Table):
                add_touched(catalog, tables)
        except UntoldError:
            return False
        found.update(table.tablespace for table in tables.values())
    elif isinstance(item, ChangeStream):
        found.add(item.tablespace)
    elif isinstance(item, Tablespace):
        if not is_new:
            found.add(item.oid)
    elif not isinstance(item, Sequence):
        is_code = isinstance(item, CODE)  # existing calls may resolve to a new function
        return (is_new and not is_code) or (isinstance(item, Schema) and item.name.startswith(TEMPORARY))
    return True


def _hides(catalog: Catalog, item: Table | View | Sequence) -> bool:
    """Whether names that meant another relation may resolve to a new relation now."""
    temporary = isinstance(item, Table) and item.persistence == "t"
    schema = catalog.get(item.schema)
    own = not isinstance(schema, Schema) or schema.database == catalog.database
    return own and not temporary and any(name == item.name for _, name in catalog.relations)


def _references(table: Table) -> Iterable[int]:
    return (item.references for item in table.constraints if item.kind == "f" and item.references is not None)
