"""REINDEX: rebuilds indexes from their tables' rows. Names and privileges are checked as in PostgreSQL, and its rules
for transaction blocks apply. SCHEMA and DATABASE process one table after the other, each in a transaction of its
own."""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn

from catalog.errors import SqlError
from catalog.privileges import acts_as
from catalog.schema import BOOTSTRAP_ROLE_OID, FIRST_USER_OID, Database, Index, Schema, Table, VirtualTable
from engine.ddl.indexes import find_reindexed
from engine.sql import ast
from engine.sql.analyze.rules import check_calls
from engine.statements import registry
from engine.statements.schema_change import execute

if TYPE_CHECKING:
    from engine.session.answer import Sink
    from engine.session.portal import Portal
    from engine.session.session import Session

_NOT_CONCURRENTLY = "cannot reindex system catalogs concurrently"


async def reindex(session: Session, tree: ast.ReindexStmt, portal: Portal, sink: Sink) -> None:
    """Raises 25001, 3F000, 42P01, 42809, 42501, 0A000."""
    if session.has_block and (tree.concurrently or tree.kind in ("schema", "database", "system")):
        _refuse_in_block(session, "REINDEX CONCURRENTLY" if tree.concurrently else f"REINDEX {tree.kind.upper()}")
    if tree.kind in ("index", "table"):
        _check_one(session, tree)
    else:
        _check_many(session, tree)
    if tree.kind not in ("index", "table"):
        await _each_table(session, tree)
    elif not isinstance(session.environment.find_relation(*tree.name), VirtualTable):
        if find_reindexed(session.environment, tree):
            _check_calls(session, tree)
        await execute(session, tree)
    sink.complete("REINDEX")


def _check_calls(session: Session, tree: ast.ReindexStmt) -> None:
    """Raises 42501 for functions of indexes that the user may not call any more."""
    found = session.environment.find_relation(*tree.name)
    table = session.catalog.table(found.table) if isinstance(found, Index) else found
    if isinstance(table, Table):
        check_calls(table, session.environment)


async def _each_table(session: Session, tree: ast.ReindexStmt) -> None:
    """Skips tables that were dropped meanwhile, and temporary tables of other sessions."""
    for oid in _tables(session, tree):
        table = session.catalog.get(oid)
        if not isinstance(table, Table):
            continue
        one = ast.ReindexStmt("table", (session.catalog.schema_name(table.schema), table.name), tree.concurrently)
        if find_reindexed(session.environment, one):
            check_calls(table, session.environment)
        try:
            await execute(session, one)
        except SqlError as error:
            if error.sqlstate != "42P01" or session.catalog.get(oid) is not None:
                raise  # otherwise it was dropped during the wait for its lock
            session.transactions.roll_back()
        else:
            await session.durable(session.finish())
        session.begin_implicit()


def _tables(session: Session, tree: ast.ReindexStmt) -> list[int]:
    if tree.kind == "system":
        return []
    schema = session.environment.schema_oid(tree.name[1]) if tree.kind == "schema" else None
    return [
        table.oid
        for table in session.catalog.tables()
        if (table.schema == schema if schema is not None else True)
        and table.partitioning is None
        and (table.persistence != "t" or table.schema == session.temporary_schema)
    ]


def _refuse_in_block(session: Session, what: str, context: str | None = None) -> NoReturn:
    error = registry.in_block_error(session, what)
    error.context = context
    raise error


def _check_many(session: Session, tree: ast.ReindexStmt) -> None:
    """SCHEMA, DATABASE, SYSTEM."""
    catalog, name = session.catalog, tree.name[1]
    if tree.kind == "system" and tree.concurrently:
        raise SqlError("0A000", _NOT_CONCURRENTLY)
    if tree.kind == "schema":
        oid = session.environment.schema_oid(name)
        if not oid:
            raise SqlError("3F000", f'schema "{name}" does not exist')
    else:
        if name != session.database_name:
            raise SqlError("0A000", "can only reindex the currently open database")
        oid = session.database_oid
    found = catalog.get(oid)
    if isinstance(found, Schema | Database) and not acts_as(catalog, session.identity.user, found.owner):
        raise SqlError("42501", f"must be owner of {'schema' if tree.kind == 'schema' else 'database'} {name}")
    if tree.kind == "schema" and tree.concurrently and oid < FIRST_USER_OID and name != "public":
        session.warn("0A000", f"{_NOT_CONCURRENTLY}, skipping all")


def _check_one(session: Session, tree: ast.ReindexStmt) -> None:
    schema, name = tree.name
    found = session.environment.find_relation(schema, name)
    if found is None:
        shown = name if schema is None else f"{schema}.{name}"
        raise SqlError("42P01", f'relation "{shown}" does not exist')
    if isinstance(found, VirtualTable) and tree.kind == "table" and found.kind == "r":
        if not acts_as(session.catalog, session.identity.user, BOOTSTRAP_ROLE_OID):
            raise SqlError("42501", f"must be owner of table {name}")
        if tree.concurrently:
            raise SqlError("0A000", _NOT_CONCURRENTLY)
        return
    if not isinstance(found, Index if tree.kind == "index" else Table):
        what = "an index" if tree.kind == "index" else "a table or materialized view"
        raise SqlError("42809", f'"{name}" is not {what}')
    if not acts_as(session.catalog, session.identity.user, found.owner):
        raise SqlError("42501", f"must be owner of {tree.kind} {name}")
    table = session.catalog.table(found.table) if isinstance(found, Index) else found
    if session.has_block and table.partitioning is not None:
        shown = f"{session.catalog.schema_name(table.schema)}.{found.name}"
        _refuse_in_block(session, f"REINDEX {tree.kind.upper()}", f'while reindexing partitioned {tree.kind} "{shown}"')
