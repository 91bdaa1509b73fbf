"""Data of a session for pg_stat_activity: its statement, the time when that began, and the event that it waits for."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from engine.session.prepared import Prepared
from engine.sql.lift import lift

if TYPE_CHECKING:
    from engine.session.session import Session


def query_text(session: Session) -> str:
    """The statement that runs, or ran last."""
    shown = session.shown
    if isinstance(shown, Prepared):
        return shown.statement.text
    return shown.decode(errors="replace") if isinstance(shown, bytes) else shown


def sent_text(session: Session) -> str:
    """The query string with the statement that runs, or ran last, as its client has sent it."""
    shown = session.shown
    return (isinstance(shown, Prepared) and shown.statement.whole) or query_text(session)


def query_id(session: Session) -> int | None:
    """The query id in pg_stat_statements, after the first execution."""
    plan = known_plan(session)
    return None if plan is None or plan.tally is None else plan.tally.queryid


def known_plan(session: Session) -> Prepared | None:
    """The plan of the current or last statement, if it is known."""
    shown = session.shown
    if not isinstance(shown, bytes):
        return shown if isinstance(shown, Prepared) else None
    lifted = lift(shown)
    plans = session.known_plans
    return plans.get(shown) or (None if lifted is None else plans.get((lifted[0], lifted[2])))


def query_start(session: Session) -> int:
    """The start of the current or last statement, in microseconds since 2000-01-01 UTC; 0: there was none."""
    return _wall(session, session.began)


def query_end(session: Session) -> int:
    """The end of the last statement. Statements of the cached path take microseconds, so their end is not recorded."""
    return _wall(session, max(session.began, session.ended))


def _wall(session: Session, counter: float) -> int:
    return session.node.clock() - round((time.perf_counter() - counter) * 1e6) if counter else 0


def state_of(session: Session) -> str:
    """The value of pg_stat_activity.state."""
    carried = session.client.carried
    waits = session.transaction is not None and session.transaction.waiting is not None
    if carried == "active" or waits or session.running or (session.task is not None and not session.task.done()):
        return "active"
    if carried:
        return {"I": "idle", "T": "idle in transaction"}.get(carried, "idle in transaction (aborted)")
    if session.status == "E":
        return "idle in transaction (aborted)"
    return "idle in transaction" if session.in_block else "idle"


def waits_for(session: Session) -> tuple[str | None, str | None]:
    """wait_event_type and wait_event: a lock, or the client."""
    transaction = session.transaction
    ticket = None if transaction is None else transaction.waiting
    if ticket is None:
        return (None, None) if state_of(session) == "active" else ("Client", "ClientRead")
    if ticket.owner is session.advisory_held:
        return "Lock", "advisory"
    return "Lock", "relation" if isinstance(ticket.name, int) else "transactionid"


def blockers(session: Session) -> list[int]:
    """The process ids of the sessions for which it waits."""
    transaction = session.transaction
    ticket = None if transaction is None else transaction.waiting
    return [] if ticket is None else ticket.space.blockers(ticket)
