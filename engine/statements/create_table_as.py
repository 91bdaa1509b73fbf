"""CREATE TABLE AS, SELECT INTO and CREATE MATERIALIZED VIEW."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from catalog.errors import SqlError
from engine.session.answer import Sink
from engine.session.portal import Portal
from engine.sql import ast
from engine.statements import matviews, planning, prepared_statements, schema_change
from engine.statements import run as running
from engine.statements.table_of_query import definition

if TYPE_CHECKING:
    from engine.session.session import Session


async def run(session: Session, tree: ast.Node, portal: Portal, sink: Sink) -> None:
    prepared = portal.prepared
    tag = await create_table_as(session, tree, prepared.statement, portal.parameters, prepared.parameters.types)
    if tag.startswith("SELECT "):
        portal.count = int(tag[7:])
    sink.complete(tag)


async def create_table_as(
    session: Session,
    statement: ast.Node,
    whole: ast.Statement,
    parameters: Sequence[object],
    types: Sequence[int] = (),
) -> str:
    """CREATE TABLE AS and SELECT INTO: the table from the query's columns, then INSERT ... SELECT."""
    if isinstance(statement, ast.SelectStmt):
        assert statement.into is not None
        query: ast.Node = replace(statement, into=None)
        created = ast.CreateTableAsStmt(statement.into, (), query)
    else:
        assert isinstance(statement, ast.CreateTableAsStmt)
        created, query = statement, statement.query
    if created.materialized:
        return await matviews.create(session, created, whole)
    if isinstance(query, ast.ExecuteStmt):
        executed = prepared_statements.find_executed(session, query)
        types, parameters = executed.parameters.declared, await prepared_statements.arguments(session, query, executed)
        query, whole = executed.statement.tree, executed.statement
        if isinstance(query, ast.CallStmt):  # the plan of a SELECT that is no more than a call
            query = query.call
    if not isinstance(query, ast.SelectStmt):
        raise SqlError("42809", "prepared statement is not a SELECT")
    transaction = session.transaction or session.begin_implicit()
    transaction.refuse_if_read_only("CREATE TABLE AS")
    source = await running.lock_relations(session, planning.prepare(session, whole.of(query), types), fixed=False)
    columns = definition(created, source)
    known = session.environment.find_relation(created.relation.schema, created.relation.name)
    if known is not None and created.if_not_exists:
        session.warn("42P07", f'relation "{created.relation.name}" already exists, skipping', "NOTICE")
        return "CREATE TABLE AS"
    await schema_change.execute(session, columns)
    if not created.with_data:
        return "CREATE TABLE AS" if query is created.query else "SELECT 0"
    insert = ast.InsertStmt(created.relation, (), query)
    if query.changes_data:
        insert = replace(insert, query=replace(query, with_clause=None), with_clause=query.with_clause)
    prepared = planning.prepare(session, whole.of(insert), types)
    prepared.tally = session.node.statements.nested
    count = await running.run_to_count(session, prepared, parameters)
    return f"SELECT {count}"
