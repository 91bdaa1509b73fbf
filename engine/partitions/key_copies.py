"""The names of the copies of a foreign key that refers to a partitioned table.

PostgreSQL makes a constraint for each partition of the referenced table, at any level, under a generated name, and
errors name the one of the partition that has the row. Here one constraint serves them all, and this computes the name
that its copy would have: copies for the partitions that were there before the foreign key are made with it, a partition
before those below it, and a later partition brings its own (addFkRecurseReferenced in tablecmds.c).
"""

from __future__ import annotations

from collections.abc import Iterator

from catalog.catalog import Catalog
from catalog.identifiers import join_names
from catalog.schema import Constraint, Table


def as_declared(catalog: Catalog, constraint: Constraint, table: Table) -> tuple[Constraint, Table]:
    """A foreign key of a partition as that of the partitioned table to which it belongs."""
    while constraint.parent is not None:
        table = catalog.table(catalog.constraint_owners[constraint.parent])
        wanted = constraint.parent
        constraint = next(item for item in table.constraints if item.oid == wanted)
    return constraint, table


def name_for(catalog: Catalog, table: Table, constraint: Constraint, partition: Table) -> str:
    """The name of a foreign key of a table in errors about a row of a partition (or of the table that it refers to)."""
    if constraint.references in (None, partition.oid) or partition.bound is None:
        return constraint.name
    assert constraint.references is not None
    names = [column.name for column in map(table.column_by_number, constraint.columns)]
    taken = {item.name for other in catalog.tables() if other.schema == table.schema for item in other.constraints}
    members = list(_members(catalog, constraint.references))
    early = [item for item in members if item.oid < constraint.oid]
    late = sorted((item for item in members if item.oid > constraint.oid), key=lambda item: item.oid)
    number = 0
    for member in (*early, *late):
        while (name := join_names(table.name, "_".join(names), f"fkey{number or ''}")) in taken:
            number += 1
        if member.oid == partition.oid:
            return name
        taken.add(name)
    return constraint.name


def _members(catalog: Catalog, oid: int) -> Iterator[Table]:
    for child in catalog.children.get(oid, ()):
        yield catalog.table(child)
        yield from _members(catalog, child)
