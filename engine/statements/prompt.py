"""Statements that call functions in PL/pgSQL or fire triggers, up to their first wait. Most never wait: then the answer
is there, without a coroutine. If something comes first that waits (for a table's lock, for another snapshot), run.py
runs the statement as a task.

    begin    runs the statement in a greenlet (plpgsql/suspend.py) until it waits
    _rest    the coroutine for the rest of one that waits
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from functools import partial
from time import perf_counter
from typing import TYPE_CHECKING, Any

from catalog.patience import TooLong
from engine.session import statement_log
from engine.session.answer import tag
from engine.session.errors import canceled_error
from engine.session.plan import Answer
from engine.session.portal import Portal
from engine.statements import run as running
from engine.statements.call import work_of_call
from engine.statements.plpgsql import suspend
from engine.statements.routine_calls import CallPlan
from engine.statements.routine_path import RoutinePath
from engine.statements.rows_plan import RowsPlan
from engine.statements.trigger_path import TriggerPath
from engine.statistics.statements import COLUMNAR, ROW
from engine.txn.interface import READ_COMMITTED, SERIALIZABLE, LockWait

if TYPE_CHECKING:
    from engine.session.answer import Sink
    from engine.session.session import Session

Work = Callable[[], Answer | None]
"""A whole statement, for a greenlet. None: the portal has its rows."""


def begin(session: Session, portal: Portal, sink: Sink) -> Answer | Coroutine[Any, Any, None] | None:
    """Runs a statement whose plan `is_prompt`: its answer, or if it waits the rest, which tells the sink. None: nothing
    has happened, and it needs a task. Raises SqlError."""
    if session.depth or session.status == "E" or session.waits.catches_up:
        return None
    run = _Run(session, portal)
    session.depth = 1
    begun = None
    try:
        session.leadership.check()
        work = _work_of(session, portal)
        if work is not None:
            sink.fields(portal.prepared, portal.formats)
            begun = suspend.begin(work)
    except BaseException:
        run.leave()
        raise
    if begun is None:
        session.depth = 0
        return None
    transaction = session.transaction
    is_over = transaction is None or session.in_block or transaction.deferred is None
    if not begun.is_idle or portal.stream is not None or not is_over:
        return _rest(run, begun, sink)
    found: Answer | None = begun.take()
    if transaction is not None and not session.in_block:
        transaction.defers = False  # as `end_deferred` leaves it
    run.leave()
    run.count()
    if found is not None:
        return found
    rows = portal.pending_rows
    data, _ = portal.take(0)
    plan = portal.prepared.plan
    return Answer(data, portal.prepared.command, portal.count if plan.writes else rows, 0)


async def _rest(run: _Run, begun: suspend.Begun, sink: Sink) -> None:
    session, portal = run.session, run.portal
    try:
        found: Answer | None = await suspend.finish(begun)
        if found is not None:
            for notice in session.notices:
                sink.notice(notice)
            session.notices.clear()
            if found.data:
                await sink.rows(found.data)
            sink.complete(found.command if found.rows < 0 else tag(found.command, found.rows))
        else:
            await running.deliver(session, portal, 0, sink)
        await session.transactions.end_deferred()
    finally:
        run.leave()
    run.count()


class _Run:
    """One execution: what is counted at its end."""

    __slots__ = ("_alone", "_began", "_ended", "portal", "session")

    def __init__(self, session: Session, portal: Portal) -> None:
        self.session, self.portal = session, portal
        self._alone, self._ended = session.transaction is None, session.commits + session.rollbacks
        self._began = session.began = perf_counter() - session.waited
        session.shown = portal.prepared

    def leave(self) -> None:
        """It has ended, or failed."""
        session, portal = self.session, self.portal
        session.depth = 0
        session.waited = 0.0
        session.ended = ended = perf_counter()
        portal.took = took = ended - self._began
        if took >= session.log_over and portal.path != ROW:
            statement_log.ran(session, portal.prepared, took)

    def count(self) -> None:
        """It has ended."""
        session, portal = self.session, self.portal
        portal.done = True
        if portal.path != ROW:
            running.count(session, portal)
            if self._alone and session.transaction is None and session.commits + session.rollbacks == self._ended:
                session.commits += 1


def _work_of(session: Session, portal: Portal) -> Work | None:
    """The statement; None if it needs more first."""
    plan = portal.prepared.plan
    if isinstance(plan, CallPlan):
        return work_of_call(session, portal, plan)
    assert isinstance(plan, RowsPlan)
    path = plan.columnar
    if not isinstance(path, TriggerPath | RoutinePath) or not _has_locks(session, portal, plan):
        return None
    running.fail_first(session, plan, portal.parameters)
    portal.started, portal.path = True, COLUMNAR
    return partial(_run_path, session, portal, path)


def _has_locks(session: Session, portal: Portal, plan: RowsPlan) -> bool:
    """Takes the statement's table locks and snapshot, as far as nothing waits for them. Raises 25006, 40P01."""
    transaction = session.transaction
    if transaction is None:
        if session.default_isolation != READ_COMMITTED:
            return False
        transaction = session.begin_implicit()
    elif transaction.isolation == SERIALIZABLE or transaction.before_snapshot is not None:
        return False
    if transaction.met and session.node.commits.late(transaction.met):
        return False
    held = transaction.table_locks
    portal.held = dict(held)
    try:
        for oid, mode in plan.locks:
            if not held.get(oid, 0) & mode:
                transaction.lock_table(oid, mode)
    except LockWait as wait:
        wait.ticket.cancel(canceled_error())  # who runs the statement as a task requests it again
        return False
    if portal.prepared.catalog is not session.catalog:
        return False
    if plan.writes and not plan.temporary:
        transaction.refuse_if_read_only(portal.prepared.command)
    return True


def _run_path(session: Session, portal: Portal, path: TriggerPath | RoutinePath) -> None:
    assert portal.held is not None
    try:
        path.run_whole(session, portal, portal.held)
    except TooLong:
        path.compute_in_worker()
