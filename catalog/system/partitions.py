"""pg_inherits, pg_partitioned_table, and the internal table for the functions about partitions."""

from __future__ import annotations

from catalog import partitions
from catalog.catalog import Catalog
from catalog.operator_classes import default_class
from catalog.schema import Index, Table
from catalog.system import relations as internal
from catalog.system.content import Columns, Item, Items, Surroundings, content
from catalog.system.objects import collation_of_type, expression_tree
from catalog.types.array import vector_of


def _inheriting(catalog: Catalog, item: Table | Index) -> Item | None:
    """Returns (table or index, the OIDs of its parents); None without parents."""
    parents = item.parents if isinstance(item, Table) else () if item.parent is None else (item.parent,)
    return (item, parents) if parents else None


@content("pg_inherits", "catalog", Items((Table, Index), _inheriting))
def _inherits(items: list[Item], _: Surroundings) -> Columns:
    found = [(item, parent, number) for item, parents in items for number, parent in enumerate(parents, 1)]
    return {
        "inhrelid": [item.oid for item, _, _ in found],
        "inhparent": [parent for _, parent, _ in found],
        "inhseqno": [number for _, _, number in found],
        "inhdetachpending": [isinstance(item, Table) and bool(item.detaching) for item, _, _ in found],
    }


def _partition_item(catalog: Catalog, table: Table) -> Item | None:
    """Returns (partitioned table, the OID of its default partition or 0); None for other tables."""
    if table.partitioning is None:
        return None
    children = (catalog.table(oid) for oid in catalog.children.get(table.oid, ()))
    return table, next((item.oid for item in children if item.bound is not None and item.bound.kind == "d"), 0)


@content("pg_partitioned_table", "session", Items((Table,), _partition_item))
def _partitioned_tables(items: list[Item], surroundings: Surroundings) -> Columns:
    found = [(table, table.partitioning, default) for table, default in items]
    return {
        "partrelid": [table.oid for table, _, _ in found],
        "partstrat": [part.strategy for _, part, _ in found],
        "partnatts": [len(part.columns) for _, part, _ in found],
        "partdefid": [default for _, _, default in found],
        "partattrs": [vector_of(tuple(column.number for column in part.columns)) for _, part, _ in found],
        "partclass": [
            vector_of(tuple(_class_of(part.strategy, column.type.oid) for column in part.columns))
            for _, part, _ in found
        ],
        "partcollation": [
            vector_of(tuple(collation_of_type(column.type) for column in part.columns)) for _, part, _ in found
        ],
        "partexprs": [_expressions(surroundings, table) for table, _, _ in found],
    }


def _class_of(strategy: str, type_: int) -> int:
    found = default_class("hash" if strategy == "h" else "btree", type_)
    return 0 if found is None else found.oid


def _expressions(surroundings: Surroundings, table: Table) -> str | None:
    assert table.partitioning is not None
    texts = [column.expression for column in table.partitioning.columns if column.expression is not None]
    return ", ".join(expression_tree(surroundings, text, table) for text in texts) or None


def _with_texts(catalog: Catalog, table: Table) -> Item | None:
    """Returns (table, partition key, partition constraint); None for a table without partitions that is not one."""
    if table.partitioning is None and table.bound is None:
        return None
    key = None if table.partitioning is None else partitions.key_text(table, table.partitioning)
    return table, key, partitions.constraint_text(catalog, table)


@content(internal.PARTITION_TEXTS, "catalog", Items((Table,), _with_texts))
def _texts(items: list[Item], _: Surroundings) -> Columns:
    return {
        "oid": [table.oid for table, _, _ in items],
        "key": [key for _, key, _ in items],
        "condition": [condition for _, _, condition in items],
    }
