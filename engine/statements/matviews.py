"""Materialized views: tables that keep the rows of a query (PostgreSQL 16 manual, 41.3).

A materialized view is a `Table` with a `query`. Only REFRESH (and CREATE) writes it: it removes the query within the
transaction, inserts the query's rows like INSERT ... SELECT, and restores the query:

    REFRESH                 new storage under ACCESS EXCLUSIVE, so that a rollback restores the old rows
    REFRESH CONCURRENTLY    old rows are deleted and new ones inserted under EXCLUSIVE: readers continue and see the old
                            ones until the transaction commits

A refresh reads and calls with the privileges of the owner, whoever runs it: the owner defines the query, so no other
role's privileges may be used.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from catalog.errors import SqlError
from catalog.schema import Role, Table
from catalog.system.objects import qualified_name
from engine.ddl import names, ownership
from engine.ddl.truncate import empty_table
from engine.ddl.views import refuse_whole_rows
from engine.session.activity import query_text
from engine.sql import ast, tree
from engine.sql.analyze import analyze
from engine.sql.analyze.routines import expand_calls
from engine.sql.analyze.views import sources_of, stored_query
from engine.sql.deparse import deparse_query
from engine.sql.parser import parse_select
from engine.statements import planning
from engine.statements import run as running
from engine.statements.ddl_context import SessionDdl
from engine.statements.schema_change import execute
from engine.statements.table_of_query import definition
from engine.txn.locks import TABLE_MODES

if TYPE_CHECKING:
    from engine.session.answer import Sink
    from engine.session.portal import Portal
    from engine.session.session import Session


def _analyze(session: Session, query: ast.SelectStmt) -> tree.Analyzed:
    analyzed = expand_calls(analyze(query, session.environment), session.environment)
    if analyzed.parameter_types:
        raise SqlError("0A000", "materialized views may not be defined using bound parameters")
    return analyzed


async def create(session: Session, created: ast.CreateTableAsStmt, whole: ast.Statement) -> str:
    """CREATE MATERIALIZED VIEW. Raises 0A000, 42P07, and errors of the query."""
    query = created.query
    assert isinstance(query, ast.SelectStmt)
    if query.changes_data:
        raise SqlError("0A000", "materialized views must not use data-modifying statements in WITH")
    if session.transaction is None:
        session.begin_implicit()
    _analyze(session, query)  # a wrong query is refused even if IF NOT EXISTS finds the name
    known = session.environment.find_relation(created.relation.schema, created.relation.name)
    if known is not None and created.if_not_exists:
        session.warn("42P07", f'relation "{created.relation.name}" already exists, skipping', "NOTICE")
        return "CREATE MATERIALIZED VIEW"
    source = await running.lock_relations(session, planning.prepare(session, whole.of(query), ()), fixed=False)
    analyzed = _analyze(session, query)  # with its relations as of now, after they are locked
    assert isinstance(analyzed.statement, tree.Query)
    await execute(session, definition(created, source))
    made = session.environment.find_relation(created.relation.schema, created.relation.name)
    assert isinstance(made, Table)
    columns = [column.name for column in made.columns]
    refuse_whole_rows(analyzed.statement)
    text = deparse_query(analyzed.statement, session.catalog, names=columns)
    relations = tuple(oid for oid in analyzed.relations if oid in session.catalog.objects)
    if any(isinstance(item := session.catalog.get(oid), Table) and item.persistence == "t" for oid in relations):
        raise SqlError("0A000", "materialized views must not use temporary tables or views")
    count = 0
    if created.with_data:
        count = await _fill(session, made, text)
    made = session.catalog.table(made.oid)
    sources = sources_of(text, session.environment)
    _change(session, replace(made, query=text, sources=sources, depends_on=relations, populated=created.with_data))
    return f"SELECT {count}" if created.with_data else "CREATE MATERIALIZED VIEW"


async def run_refresh(session: Session, tree: ast.RefreshMatViewStmt, portal: Portal, sink: Sink) -> None:
    sink.complete(await refresh(session, tree))


async def refresh(session: Session, statement: ast.RefreshMatViewStmt) -> str:
    """REFRESH MATERIALIZED VIEW. Raises 42P01, 0A000, 42501, 55000, and errors of the query."""
    if session.transaction is None:
        session.begin_implicit()
    transaction = session.transaction
    assert transaction is not None
    transaction.refuse_if_read_only("REFRESH MATERIALIZED VIEW")
    if statement.concurrently and not statement.with_data:
        message = "REFRESH options CONCURRENTLY and WITH NO DATA cannot be used together"
        raise SqlError("42601", message)
    while True:
        found = _find(session, statement.relation)
        await session.lock_table(transaction, found.oid, _EXCLUSIVE if statement.concurrently else _ACCESS_EXCLUSIVE)
        if _find(session, statement.relation) is found:
            break
    ownership.must_own(SessionDdl(session), found)
    if statement.concurrently:
        _refuse_concurrently(session, found)
    transaction.begin_statement()
    assert found.query is not None
    text = deparse_query(stored_query(found, session.environment), session.catalog)
    if not statement.concurrently:
        context = SessionDdl(session)
        context.change(empty_table(context, replace(found, query=None)))
    owner = session.catalog.get(found.owner)
    assert isinstance(owner, Role)
    with session.identity.acting_as(owner):
        if statement.concurrently:
            _change(session, replace(found, query=None))
            await _run(session, ast.DeleteStmt(_name(session, found)))
        if statement.with_data:
            await _fill(session, found, text)
    left = session.catalog.table(found.oid)
    _change(session, replace(left, query=found.query, populated=statement.with_data))
    return "REFRESH MATERIALIZED VIEW"


def _find(session: Session, relation: ast.RangeVar) -> Table:
    found = session.environment.find_relation(relation.schema, relation.name)
    if found is None:
        raise SqlError("42P01", f'relation "{names.show_relation(relation)}" does not exist')
    if not isinstance(found, Table) or found.query is None:
        raise SqlError("0A000", f'"{found.name}" is not a materialized view')
    return found


def _refuse_concurrently(session: Session, item: Table) -> None:
    if not item.populated:
        raise SqlError("0A000", "CONCURRENTLY cannot be used when the materialized view is not populated")
    for oid in item.indexes:
        index = session.catalog.index(oid)
        if index.unique and index.predicate is None and all(column.number for column in index.columns):
            return
    shown = qualified_name(session.catalog, item)
    hint = "Create a unique index with no WHERE clause on one or more columns of the materialized view."
    raise SqlError("55000", f'cannot refresh materialized view "{shown}" concurrently', hint=hint)


def _name(session: Session, item: Table) -> ast.RangeVar:
    return ast.RangeVar(None, session.catalog.schema_name(item.schema), item.name)


async def _fill(session: Session, item: Table, text: str) -> int:
    """Inserts the rows of the query into the view, which is a plain table at this moment."""
    return await _run(session, ast.InsertStmt(_name(session, item), (), parse_select(text)))


async def _run(session: Session, statement: ast.Node) -> int:
    prepared = planning.prepare(session, ast.Statement(statement, query_text(session)), ())
    prepared.tally = session.node.statements.nested
    return await running.run_to_count(session, prepared, ())


def _change(session: Session, item: Table) -> None:
    SessionDdl(session).change({item.oid: item})


_EXCLUSIVE, _ACCESS_EXCLUSIVE = (TABLE_MODES[name] for name in ("exclusive", "access exclusive"))
