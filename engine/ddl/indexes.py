"""CREATE INDEX."""

from __future__ import annotations

from dataclasses import replace

from catalog.errors import SqlError, not_supported
from catalog.schema import Index, IndexColumn, Table
from engine.ddl import names
from engine.ddl.context import BuildIndex, DdlContext
from engine.ddl.expressions import stored_index_expression, stored_predicate
from engine.ddl.tables import must_have_order
from engine.ddl.tablespaces import place_of_index
from engine.sql import ast
from engine.sql.analyze.targets import column_name

MAX_KEYS = 32


def create_index(context: DdlContext, statement: ast.IndexStmt) -> str:
    """CREATE [UNIQUE] INDEX. Every access method's name makes a tree here; hash, gin, gist and their kin are refused,
    for what they are asked for (operators of their own) is not there. Raises 42P07, 42703, 42704, 23505 (job)."""
    if statement.method not in ("btree", "hash"):
        not_supported(f'access method "{statement.method}"')
    table = names.table_named(context, statement.relation, "share", materialized=True)
    if len(statement.elements) > MAX_KEYS:
        raise SqlError("54011", f"cannot use more than {MAX_KEYS} columns in an index")
    name = statement.name
    if name is None:
        name = names.free_relation_name(context, table.schema, table.name, _second(statement), "idx")
    if names.refuse_if_taken(context, table.schema, name, statement.if_not_exists):
        return "CREATE INDEX"
    index = Index(
        context.new_oid(),
        table.schema,
        name,
        table.oid,
        tuple(_column(context, table, element) for element in statement.elements),
        context.new_storage_id(table.tablespace),
        unique=statement.unique,
        nulls_not_distinct=statement.nulls_not_distinct,
        include=tuple(_included(table, item) for item in statement.include),
        predicate=stored_predicate(context, table, statement.where) if statement.where is not None else None,
        method=statement.method,
        owner=table.owner,
        tablespace=place_of_index(context, statement.tablespace, table),
    )
    changed = replace(table, indexes=(*table.indexes, index.oid))
    context.change({index.oid: index, table.oid: changed})
    if not context.table_is_empty(table):
        context.add_job(BuildIndex(changed, index))
    return "CREATE INDEX"


def _second(statement: ast.IndexStmt) -> str:
    """The columns' part of a generated name: expressions by what they call, or 'expr', numbered when taken."""
    parts: list[str] = []
    for element in statement.elements:
        base = element.name
        if base is None:
            assert element.expression is not None
            base = column_name(element.expression)
            base = "expr" if base == "?column?" else base
        name, number = base, 0
        while name in parts:
            number += 1
            name = f"{base}{number}"
        parts.append(name)
    return "_".join([*parts, *(name for name in statement.include if name not in parts)])


def _column(context: DdlContext, table: Table, element: ast.IndexElement) -> IndexColumn:
    if element.collation and element.collation[-1] not in ("C", "POSIX", "default"):
        not_supported(f'collation "{element.collation[-1]}"')
    descending = element.direction == "desc"
    nulls_first = element.nulls == "first" or (element.nulls == "default" and descending)
    if element.name is not None:
        column = table.column(element.name)
        if column is None:
            raise SqlError("42703", f'column "{element.name}" does not exist')
        must_have_order(column)
        return IndexColumn(column.number, None, descending, nulls_first, type=column.type)
    assert element.expression is not None
    text, type_ = stored_index_expression(context, table, element.expression)
    return IndexColumn(0, text, descending, nulls_first, type=type_)


def _included(table: Table, name: str) -> int:
    column = table.column(name)
    if column is None:
        raise SqlError("42703", f'column "{name}" does not exist')
    return column.number
