"""CREATE, ALTER and DROP TABLESPACE: the work outside the database."""

from __future__ import annotations

from typing import TYPE_CHECKING

from catalog.schema import (
    Tablespace,
)
from engine.session.answer import Sink
from engine.session.portal import Portal
from engine.sql import ast
from engine.statements import schema_change
from engine.statements.ddl_context import SessionDdl

if TYPE_CHECKING:
    from engine.session.session import Session


async def run(session: Session, tree: ast.TablespaceStmt, portal: Portal, sink: Sink) -> None:
    schema_change.begin(session, tree)
    if tree.action == "create":
        await _prepare_tablespace(session, tree)
    tag = await schema_change.execute(session, tree)
    if tree.action == "create" and session.node.replica is not None:
        await _until_it_stands(session, tree.name)
    sink.complete(tag)


async def _prepare_tablespace(session: Session, statement: ast.TablespaceStmt) -> None:
    """Prepares a new tablespace outside the database, unless CREATE will be refused."""
    if SessionDdl(session).is_superuser and statement.name not in session.catalog.tablespaces:
        await session.node.held.make_ready(dict(statement.options))


async def _until_it_stands(session: Session, name: str) -> None:
    """Commits the CREATE of a tablespace, and waits until it has a leader: the next statement will write to it."""
    item = session.catalog.get(session.catalog.tablespaces[name])
    assert isinstance(item, Tablespace)
    lsn = session.finish()
    await session.durable(lsn)
    if not await session.node.held.stands(item.identity):
        session.warn("57P03", f'tablespace "{name}" has no leader yet')
    session.begin_implicit()
