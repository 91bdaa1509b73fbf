"""Log lines of sessions: errors, long statements, connections.

    log_min_messages            errors of this level and above are logged (warning: all of them)
    log_min_error_statement     errors of this level and above are logged with their statement (error)
    log_min_duration_statement  statements that took this many milliseconds are logged (-1: none)
    log_connections, log_disconnections

As in PostgreSQL, with one difference: **no values**. Statements are logged without their constants (as
pg_stat_statements shows them), parameters are never logged, and values are removed from messages about a value
(SQLSTATE class 22). So neither passwords nor customer data get into logs.

Every line of a statement has its `trace_id`: that of a W3C `traceparent` in the statement's comment (sqlcommenter) or
in `application_name`, otherwise a new one.
"""

from __future__ import annotations

import logging
import re
from hashlib import blake2b
from typing import TYPE_CHECKING

from catalog.errors import SqlError
from engine.session.activity import known_plan, query_text
from engine.session.prepared import Prepared
from engine.session.setting_definitions import LOG_LEVELS
from engine.session.statement_texts import LONG_TEXT
from engine.sql.dialects.names import SHOAL
from engine.sql.normalize import without_values
from engine.sql.parser import parse

if TYPE_CHECKING:
    from engine.session.session import Session

log = logging.getLogger("shoal.statement")

_TRACE = re.compile(r"\b[0-9a-f]{2}-([0-9a-f]{32})-([0-9a-f]{16})-[0-9a-f]{2}\b")
_TRACED = 16_384  # characters at either end of a statement, which may contain the comment with its trace
_VALUE = re.compile(r'"[^"]*"|\'[^\']*\'')


def log_failure(session: Session, error: SqlError, severity: str) -> None:
    """An error of severity ERROR or FATAL was sent to a client."""
    level = LOG_LEVELS.index(severity.lower())
    settings = session.settings
    if level < LOG_LEVELS.index(settings.get("log_min_messages")):
        return
    fields = _fields(session)
    fields["sqlstate"] = error.sqlstate
    if level >= LOG_LEVELS.index(settings.get("log_min_error_statement")):
        statement = show_session(session)
        if statement:
            fields["statement"] = statement
    message = error.message
    if error.sqlstate[:2] == "22" or error.sqlstate == "42601":
        message = _VALUE.sub('"..."', message)
    log.log(logging.CRITICAL if severity == "FATAL" else logging.ERROR, "%s", message, extra={"fields": fields})


def ran(session: Session, prepared: Prepared, took: float) -> None:
    """A statement that took this many seconds has ended: logs it if that is long."""
    if took < session.log_over:
        return
    fields = _fields(session)
    fields["duration_ms"] = round(took * 1000, 3)
    fields["statement"] = _text(prepared)
    log.info("statement took %.3f ms", took * 1000, extra={"fields": fields})


def log_connection(session: Session) -> None:
    """A client has logged in."""
    if session.settings.get("log_connections") == "on":
        log.info("connection authorized", extra={"fields": _who(session)})


def log_refusal(peer: object, error: SqlError) -> None:
    """A client was refused."""
    client = f"{peer[0]}:{peer[1]}" if isinstance(peer, tuple) and len(peer) >= 2 else "local"
    log.warning("%s", error.message, extra={"fields": {"client": client, "sqlstate": error.sqlstate}})


def log_disconnection(session: Session) -> None:
    if session.settings.get("log_disconnections") == "on":
        seconds = (session.node.clock() - session.client.since) / 1e6
        log.info("disconnected", extra={"fields": _who(session) | {"session_s": round(seconds, 3)}})


def show_session(session: Session) -> str:
    """The current or last statement, without its constants; '' if it cannot be read, or not quickly."""
    statement = session.shown
    if isinstance(statement, Prepared):
        return _text(statement)
    text = query_text(session)
    found = known_plan(session)
    if found is not None:
        return _text(found)
    if len(text) >= LONG_TEXT or session.key.dialect != SHOAL:
        return ""
    try:
        conforming = session.key.conforming
        return "; ".join(without_values(item, conforming) for item in parse(text, conforming))
    except SqlError:
        return ""


def _text(prepared: Prepared) -> str:
    if len(prepared.statement.text) >= LONG_TEXT:  # other sessions must not wait while it is read
        return prepared.description[1] if prepared.description is not None else ""
    return without_values(prepared.statement, prepared.key.conforming)


def _who(session: Session) -> dict[str, object]:
    address = session.client.address
    return {
        "session": session.process_id,
        "user": session.session_user_name,
        "database": session.database_name,
        "application": session.settings.get("application_name"),
        "client": "local" if address is None else f"{address[0]}:{address[1]}",
    }


def _fields(session: Session) -> dict[str, object]:
    sent = session.shown.statement.whole if isinstance(session.shown, Prepared) else query_text(session)
    if len(sent) > 2 * _TRACED:
        sent = f"{sent[:_TRACED]}\n{sent[-_TRACED:]}"
    found = _TRACE.search(sent) or _TRACE.search(session.settings.get("application_name"))
    if found is not None:
        return _who(session) | {"trace_id": found[1], "span_id": found[2]}
    made = f"{session.node.started} {session.process_id} {session.began}".encode()
    return _who(session) | {"trace_id": blake2b(made, digest_size=16).hexdigest()}
