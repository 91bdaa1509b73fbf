"""TRUNCATE: the tables, with those that refer to them, get new storage."""

from __future__ import annotations

from dataclasses import replace

from catalog.errors import SqlError, not_supported
from catalog.schema import Constraint, SchemaObject, Sequence, Table
from engine.ddl import names
from engine.ddl.context import DdlContext
from engine.ddl.sequences import restart_sequence
from engine.sql import ast
from engine.txn.interface import EmptiedStorage


def truncate(context: DdlContext, statement: ast.TruncateStmt) -> str:
    """TRUNCATE. The tables get new storage ids, so that a rollback restores the rows. Raises 0A000 for a referenced
    table."""
    for table in truncated_tables(context, statement):
        context.lock_relation(table.oid, "share")  # as PostgreSQL does, which builds the empty indexes
        context.change(empty_table(context, table))
        if statement.restart_identity:
            for item in list(context.catalog.objects.values()):
                if isinstance(item, Sequence) and item.owned_by and item.owned_by[0] == table.oid:
                    context.change({item.oid: restart_sequence(context, item, None)})
    return "TRUNCATE TABLE"


def truncated_tables(context: DdlContext, statement: ast.TruncateStmt) -> list[Table]:
    """The tables of a TRUNCATE, locked: those that it names, their children, and with CASCADE those that refer to
    them."""
    tables: dict[int, Table] = {}
    for relation in statement.relations:
        table = names.table_named(context, relation, letter="D", foreign=True)
        if table.server:
            not_supported("TRUNCATE of a foreign table")
        tables[table.oid] = table
        if relation.only and table.partitioning is not None and table.oid in context.catalog.children:
            hint = "Do not specify the ONLY keyword, or use TRUNCATE ONLY on the partitions directly."
            raise SqlError("42809", "cannot truncate only a partitioned table", hint=hint)
        for child in () if relation.only else context.catalog.descendants(table.oid):
            if context.environment.is_of_others(child):
                continue
            context.lock_relation(child.oid, "access exclusive")
            tables[child.oid] = context.catalog.table(child.oid)
    while referring := _referring(context, tables):
        if not statement.cascade:
            other, _, table = referring[0]
            context.lock_relation(other.oid, "access exclusive")  # who drops it is waited for
            raise SqlError(
                "0A000",
                "cannot truncate a table referenced in a foreign key constraint",
                detail=f'Table "{other.name}" references "{table.name}".',
                hint=f'Truncate table "{other.name}" at the same time, or use TRUNCATE ... CASCADE.',
            )
        for other, _, _ in referring:
            if other.oid not in tables:
                if not names.may_on_table(context, other, "D"):
                    raise SqlError("42501", f"permission denied for table {other.name}")
                context.notice(SqlError("00000", f'truncate cascades to table "{other.name}"', severity="NOTICE"))
                context.lock_relation(other.oid, "access exclusive")
                tables[other.oid] = other
    for table in tables.values():
        context.refuse_in_use(table, "TRUNCATE")
    return list(tables.values())


def _referring(context: DdlContext, tables: dict[int, Table]) -> list[tuple[Table, Constraint, Table]]:
    """The foreign keys that refer to one of the tables, or to a partitioned table that contains it: (table, key,
    referenced)."""
    referenced = {above.oid: table for table in tables.values() for above in context.catalog.partitioned_above(table)}
    referenced |= tables
    return [
        (other, constraint, referenced[constraint.references])
        for other in context.catalog.tables()
        if other.oid not in tables
        for constraint in other.constraints
        if constraint.kind == "f" and constraint.references in referenced
    ]


def empty_table(context: DdlContext, table: Table) -> dict[int, SchemaObject | None]:
    """Gives the table and its indexes new, empty storage."""
    context.drop_storage(EmptiedStorage(table.storage_id))
    fresh = replace(table, storage_id=context.new_storage_id(table.tablespace))
    changes: dict[int, SchemaObject | None] = {table.oid: fresh}
    for oid in table.indexes:
        index = context.catalog.index(oid)
        if index.primary:
            changes[oid] = replace(index, storage_id=fresh.storage_id)
        else:
            context.drop_storage(index.storage_id)
            changes[oid] = replace(index, storage_id=context.new_storage_id(index.tablespace))
    return changes
