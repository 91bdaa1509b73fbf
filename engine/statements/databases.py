"""CREATE DATABASE, also from another one, and DROP DATABASE, which waits for sessions that are about to leave."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from catalog.errors import SqlError
from catalog.schema import (
    Database,
)
from engine.ddl.objects import check_new_database, parent_of
from engine.ddl.ownership import owns
from engine.session.answer import Sink
from engine.session.open_sessions import open_sessions
from engine.session.portal import Portal
from engine.session.signals import check_signal
from engine.sql import ast
from engine.statements import schema_change
from engine.statements.branches import Far, InBackup, Recent, branch_moment, in_backup
from engine.statements.ddl_context import SessionDdl
from engine.statements.schema_change import change_with_jobs

if TYPE_CHECKING:
    from engine.session.session import Session

LEAVING_ROUNDS, LEAVING_PAUSE = 50, 0.1  # seconds; how long DROP DATABASE waits for its other sessions


async def run_create(session: Session, tree: ast.CreateDatabaseStmt, portal: Portal, sink: Sink) -> None:
    if parent_of(tree) is None:
        await schema_change.run(session, tree, portal, sink)
        return
    schema_change.begin(session, tree)
    tag, context = await _create_from(session, tree)
    session.notices += context.notices
    sink.complete(tag)


async def _create_from(session: Session, statement: ast.CreateDatabaseStmt) -> tuple[str, SessionDdl]:
    """CREATE DATABASE from another one. Rows from a backup are durable when this returns."""
    check_new_database(SessionDdl(session), statement)
    then: Recent | Far | InBackup | None = None
    if statement.backup is not None:
        then = await in_backup(session, statement)
    elif statement.as_of is not None:
        then = await branch_moment(session, statement)
    if then is None:
        return await change_with_jobs(session, statement)
    try:
        done = await change_with_jobs(session, statement, then)
    finally:
        then.close()
    backups = session.node.backups
    if statement.backup is not None and backups is not None:
        await session.durable(session.finish())
        await asyncio.to_thread(backups.let_go, statement.name)
        session.begin_implicit()
    return done


async def run_drop(session: Session, tree: ast.DropDatabaseStmt, portal: Portal, sink: Sink) -> None:
    schema_change.begin(session, tree)
    await _until_unused(session, tree)
    await schema_change.run(session, tree, portal, sink)


async def _until_unused(session: Session, statement: ast.DropDatabaseStmt) -> None:
    """Before DROP DATABASE: waits, as PostgreSQL does, for sessions that are about to leave it; FORCE ends them."""
    oid = session.catalog.databases.get(statement.name)
    change = SessionDdl(session)
    database = session.catalog.get(oid or 0)
    if oid == session.database_oid or not (isinstance(database, Database) and owns(change, database)):
        return
    if statement.force:
        there = [other for other in open_sessions(session.node).values() if other.database_oid == oid]
        for other in there:
            check_signal(session, other, terminate=True)
        for other in there:
            message = "terminating connection due to administrator command"
            other.cancel(SqlError("57P01", message, severity="FATAL"))
    for _ in range(LEAVING_ROUNDS):
        if not change.database_in_use(database.oid):
            return
        await asyncio.sleep(LEAVING_PAUSE)
