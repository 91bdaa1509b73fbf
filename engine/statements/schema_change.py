"""Schema changes of a session: the change itself, and its jobs on rows.

A statement runs as: the schema change (again after each wait for a lock), then its jobs, all in the session's
transaction. So a failed job rolls everything back, and no session sees a half-made table. Further work of some
statements is in files of its own: databases.py, schemas.py, tablespaces.py, roles.py.
"""

from __future__ import annotations

import contextlib
import dataclasses
from typing import TYPE_CHECKING, Protocol

from catalog.errors import SqlError
from engine.bulk import backfill
from engine.ddl.branches import Then
from engine.ddl.context import BuildIndex, merge_jobs
from engine.session import settings
from engine.session.answer import Sink
from engine.session.portal import Portal
from engine.sql import ast
from engine.statements import event_triggers, registry
from engine.statements.concurrent_index import wait_for_users
from engine.statements.ddl_context import SessionDdl
from engine.statements.detach import detach_command, finalize_statement, wait_before_finalize
from engine.txn.interface import LockWait

if TYPE_CHECKING:
    from engine.session.session import Session
    from engine.storage.runs import BulkRun


class BranchSource(Then, Protocol):
    """The source of a new database: another one at a moment (engine/statements/branches.py)."""

    def take_runs(self) -> list[BulkRun]:
        """The runs that the statement commits beside its own rows."""


async def run(session: Session, tree: ast.Node, portal: Portal, sink: Sink) -> None:
    """Runs a statement that is only a schema change."""
    sink.complete(await execute(session, tree))


async def execute(session: Session, statement: ast.Node) -> str:
    """Runs a schema change with its jobs; returns the command tag."""
    begin(session, statement)
    await wait_for_users(session, statement)
    await wait_before_finalize(session, statement)
    events = session.ddl_events
    before, first = session.catalog, 0 if events is None else len(events.touched)
    tag, context = await change_with_jobs(session, statement)
    if events is not None:
        event_triggers.note_part(session, before, first, statement)
    session.notices += context.notices
    if isinstance(statement, ast.AlterTableStmt) and detach_command(statement, "concurrently") is not None:
        rest = await finalize_statement(session, statement)
        if rest is not None:
            await change_with_jobs(session, rest)
    return tag


def begin(session: Session, statement: ast.Node) -> None:
    """Begins the transaction of a schema change. Raises 25006 in a read-only one, 25001 if a block refuses it."""
    kind = registry.kind_of(statement)
    transaction = session.transaction or session.begin_implicit()
    transaction.refuse_if_read_only(kind.command if isinstance(kind.command, str) else kind.command(statement))
    registry.refuse_in_block(session, statement)
    if isinstance(statement, ast.DropStmt) and statement.concurrently:
        what = "DROP INDEX CONCURRENTLY"
        if len(statement.names) > 1:
            raise SqlError("0A000", f"{what} does not support dropping multiple objects")
        if statement.cascade:
            raise SqlError("0A000", f"{what} does not support CASCADE")


async def change_with_jobs(
    session: Session, statement: ast.Node, then: BranchSource | None = None
) -> tuple[str, SessionDdl]:
    tag, context = await _change(session, statement, then)
    if session.ddl_events is not None:
        await event_triggers.fire_rewrites(session, statement)
    if then is not None:
        assert session.transaction is not None
        session.transaction.runs += then.take_runs()
    if context.jobs:
        try:
            for job in merge_jobs(context.jobs, context.catalog):
                await backfill.run(session, job)
        except SqlError:
            if isinstance(statement, ast.IndexStmt) and statement.concurrently:
                with contextlib.suppress(SqlError):
                    await _leave_invalid(session, statement)
            raise
    return tag, context


async def _leave_invalid(session: Session, statement: ast.IndexStmt) -> None:
    """CREATE INDEX CONCURRENTLY has failed on the rows: the index remains, without entries, until it is dropped or
    REINDEX builds it. Statements neither read nor write it, and it does not enforce uniqueness."""
    session.transactions.roll_back()
    session.begin_implicit()
    _, context = await _change(session, statement)
    for job in context.jobs:
        if isinstance(job, BuildIndex):
            index = context.catalog.index(job.index.oid)
            context.change({index.oid: dataclasses.replace(index, ready=False, valid=False)})
    await session.durable(session.finish())


async def _change(session: Session, statement: ast.Node, then: Then | None = None) -> tuple[str, SessionDdl]:
    transaction = session.transaction
    assert transaction is not None
    transaction.begin_statement()
    mark = transaction.mark()
    changed, dropped = dict(transaction.changed_objects), len(transaction.dropped_storage)
    while True:
        context = SessionDdl(session, then)
        try:
            tag = context.run(statement)
            _check_setting(statement)
            return tag, context
        except LockWait as wait:
            transaction.rollback_to(mark)
            transaction.changed_objects = dict(changed)
            transaction.catalog = None
            del transaction.dropped_storage[dropped:]
            await session.wait_for(wait)


def _check_setting(statement: ast.Node) -> None:
    """ALTER ROLE and ALTER DATABASE ... SET refuse values that a session could not have. Raises 42704, 22023, 55P02."""
    change = statement.setting if isinstance(statement, ast.RoleStmt | ast.AlterDatabaseStmt) else None
    if change is not None and not change.reset:
        name = "TimeZone" if change.name.lower() == "time zone" else change.name
        settings.check(name, ", ".join(change.values) if change.values else None)
