"""CREATE INDEX."""

from __future__ import annotations

from dataclasses import replace

from catalog.catalog import Catalog
from catalog.errors import SqlError
from catalog.operator_classes import METHODS
from catalog.schema import Index, Relation, Table
from engine.ddl import names, partition_members, partitions
from engine.ddl.context import BuildIndex, DdlContext
from engine.ddl.expressions import stored_predicate
from engine.ddl.index_columns import find_included, index_column, second_part, with_method
from engine.ddl.ownership import must_create_in, user_role
from engine.ddl.storage_parameters import check_parameters
from engine.ddl.tablespaces import place_of_index
from engine.execute.index_expressions import predicate_of, value_getter
from engine.sql import ast
from engine.sql.analyze import Environment

MAX_KEYS = 32


def create_index(context: DdlContext, statement: ast.IndexStmt) -> str:
    """CREATE [UNIQUE] INDEX. Raises 42P07, 42703, 42704, 42804, 0A000 for options that the access method does not
    support, 23505 (job)."""
    statement = with_method(context, statement)
    table = names.table_named(context, statement.relation, "share", materialized=True, foreign=True)
    if table.server:
        detail = "This operation is not supported for foreign tables."
        raise SqlError("42809", f'cannot create index on relation "{table.name}"', detail=detail)
    must_create_in(context, table.schema, user_role(context))
    context.refuse_in_use(table, "CREATE INDEX")
    if len(statement.elements) > MAX_KEYS:
        raise SqlError("54011", f"cannot use more than {MAX_KEYS} columns in an index")
    check_parameters(statement.options, METHODS[statement.method].options)
    name = statement.name
    if name is None:
        name = names.free_relation_name(context, table.schema, table.name, second_part(statement), "idx")
    if names.refuse_if_taken(context, table.schema, name, statement.if_not_exists):
        return "CREATE INDEX"
    index = Index(
        context.new_oid(),
        table.schema,
        name,
        table.oid,
        tuple(index_column(context, table, element, statement.method) for element in statement.elements),
        context.new_storage_id(table.tablespace),
        unique=statement.unique,
        nulls_not_distinct=statement.nulls_not_distinct,
        include=tuple(find_included(table, item) for item in statement.include),
        predicate=stored_predicate(context, table, statement.where) if statement.where is not None else None,
        method=statement.method,
        owner=table.owner,
        tablespace=place_of_index(context, statement.tablespace, table),
        options=statement.options,
    )
    if index.unique:
        partitions.check_unique_key(table, "UNIQUE", tuple(column.number for column in index.columns))
    only = statement.relation.only and table.partitioning is not None
    if only and table.oid in context.catalog.children:
        index = replace(index, valid=False)
    if table.partitioning is not None and statement.concurrently:
        raise SqlError("0A000", f'cannot create index on partitioned table "{table.name}" concurrently')
    changed = replace(table, indexes=(*table.indexes, index.oid))
    if index.is_tree:  # what cannot be computed is refused now, and not by the first row
        value_getter(context.catalog, changed, index)
        predicate_of(context.catalog, changed, index)
    context.change({index.oid: index, table.oid: changed})
    if index.is_tree and not context.table_is_empty(table):
        context.add_job(BuildIndex(changed, index))
    if table.partitioning is not None and not only:
        partition_members.add_index_parts(context, changed, index)
    return "CREATE INDEX"


def rebuild(context: DdlContext, statement: ast.ReindexStmt) -> str:
    """REINDEX: gives indexes new storage, and builds the entries of all rows. Raises 42P01 for an index that was
    dropped during a lock wait, 23505 (job)."""
    relation = context.environment.find_relation(*statement.name)
    if relation is None:
        raise SqlError("42P01", f'relation "{".".join(filter(None, statement.name))}" does not exist')
    for oid in reindexed_tables(context.catalog, relation):
        # Who reads a table has locks of its indexes in PostgreSQL, where REINDEX waits for these.
        context.lock_relation(oid, "access exclusive" if context.catalog.table(oid).indexes else "share")
    for index in find_reindexed(context.environment, statement):
        table = context.catalog.table(index.table)
        context.drop_storage(index.storage_id)
        fresh = replace(
            index,
            storage_id=context.new_storage_id(index.tablespace),
            ready=True,
            valid=True,
            collation_version="",
        )
        context.change({index.oid: fresh})
        fresh = context.catalog.index(index.oid)
        if not context.table_is_empty(table):
            context.add_job(BuildIndex(table, fresh))
    return "REINDEX"


def find_reindexed(environment: Environment, statement: ast.ReindexStmt) -> list[Index]:
    """The indexes with entries that REINDEX INDEX or TABLE names: of a partitioned table, those of all partitions. A
    primary key has no entries beside the rows."""
    catalog, (schema, name) = environment.catalog, statement.name
    relation = environment.find_relation(schema, name)
    if isinstance(relation, Index):
        found = _parts(catalog, relation)
    elif isinstance(relation, Table):
        below = catalog.descendants(relation.oid) if relation.partitioning is not None else []
        found = [catalog.index(oid) for table in (relation, *below) for oid in table.indexes]
    else:
        found = []
    return [
        item
        for item in found
        if item.is_tree and not item.primary and catalog.table(item.table).partitioning is None
    ]  # fmt: skip


def reindexed_tables(catalog: Catalog, relation: Relation) -> list[int]:
    """The tables with rows whose indexes REINDEX builds again, for an index or a table."""
    if not isinstance(relation, Index | Table):
        return []
    table = catalog.table(relation.table) if isinstance(relation, Index) else relation
    below = catalog.descendants(table.oid) if table.partitioning is not None else []
    return [item.oid for item in (table, *below) if item.partitioning is None]


def _parts(catalog: Catalog, index: Index) -> list[Index]:
    """An index and all of its parts."""
    below = catalog.index_children.get(index.oid, ())
    return [index, *(item for oid in below for item in _parts(catalog, catalog.index(oid)))]
