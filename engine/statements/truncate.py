"""TRUNCATE: the schema change, between the triggers of its tables."""

from __future__ import annotations

from typing import TYPE_CHECKING

from catalog.schema import Table
from engine.ddl.truncate import truncated_tables
from engine.execute.triggers import FiredTrigger, triggers_for
from engine.session.answer import Sink
from engine.session.portal import Portal
from engine.sql import ast
from engine.statements import schema_change
from engine.statements.ddl_context import SessionDdl
from engine.statements.plpgsql import suspend
from engine.txn.interface import LockWait

if TYPE_CHECKING:
    from engine.session.session import Session


async def run(session: Session, statement: ast.TruncateStmt, portal: Portal, sink: Sink) -> None:
    """Runs TRUNCATE."""
    if not session.catalog.with_triggers:
        await schema_change.run(session, statement, portal, sink)
        return
    schema_change.begin(session, statement)
    tables = await _tables(session, statement)
    await _fire(session, tables, "b")
    tag = await schema_change.execute(session, statement)
    await _fire(session, tables, "a")
    sink.complete(tag)


async def _tables(session: Session, statement: ast.TruncateStmt) -> list[Table]:
    """The tables, locked. Notices come with the schema change."""
    while True:
        try:
            return truncated_tables(SessionDdl(session), statement)
        except LockWait as wait:
            await session.wait_for(wait)


async def _fire(session: Session, tables: list[Table], timing: str) -> None:
    found = [
        trigger for table in tables for trigger in triggers_for(session.catalog, table, "t", timing, for_row=False)
    ]
    if found:
        await suspend.run(lambda: _call(session, found))


def _call(session: Session, triggers: list[FiredTrigger]) -> None:
    for trigger in triggers:
        context = session.context()
        if trigger.is_due(context):
            trigger.fire(context, None, None)
