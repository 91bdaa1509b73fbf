"""CLUSTER and ALTER TABLE ... CLUSTER ON: the index by which PostgreSQL would order the rows on disk is marked.

Rows are stored in the order of their primary key, so the mark is all that there is to change. Locks and errors are
those of cluster.c in PostgreSQL.
"""

from __future__ import annotations

from dataclasses import replace

from catalog.errors import SqlError
from catalog.schema import Index, Table
from engine.ddl import names
from engine.ddl.context import DdlContext
from engine.sql import ast

_METHODS = ("btree", "gist")


def cluster(context: DdlContext, statement: ast.ClusterStmt) -> str:
    """CLUSTER of one table that is not partitioned. Raises 42P01, 42501, 42809, 42704, 0A000."""
    assert statement.relation is not None
    table = names.table_named(context, statement.relation, materialized=True)
    mark(context, table, clustered_index(context, table, statement.index))
    return "CLUSTER"


def clustered_index(context: DdlContext, table: Table, name: str | None) -> Index:
    """The index to order a table by; None: the one that was marked before. Raises 42704, 42809, 0A000."""
    if name is None:
        for index in map(context.catalog.index, table.indexes):
            if index.clustered:
                return index
        raise SqlError("42704", f'there is no previously clustered index for table "{table.name}"')
    found = context.catalog.get(context.catalog.relations.get((table.schema, name), 0))
    if found is None:
        raise SqlError("42704", f'index "{name}" for table "{table.name}" does not exist')
    if not isinstance(found, Index) or found.table != table.oid:
        raise SqlError("42809", f'"{found.name}" is not an index for table "{table.name}"')
    if found.method not in _METHODS:
        message = f'cannot cluster on index "{name}" because access method does not support clustering'
        raise SqlError("0A000", message)
    if found.predicate is not None:
        raise SqlError("0A000", f'cannot cluster on partial index "{name}"')
    if not found.valid:
        raise SqlError("0A000", f'cannot cluster on invalid index "{name}"')
    return found


def mark(context: DdlContext, table: Table, chosen: Index | None) -> None:
    """Marks this index of a table and no other one. Raises 0A000 for a partitioned table."""
    if table.partitioning is not None:
        raise SqlError("0A000", "cannot mark index clustered in partitioned table")
    for index in map(context.catalog.index, table.indexes):
        clustered = chosen is not None and index.oid == chosen.oid
        if index.clustered != clustered:
            context.change({index.oid: replace(index, clustered=clustered)})
