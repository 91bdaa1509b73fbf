"""Errors that end statements and sessions from outside; several parts of a session and the wire raise them."""

from __future__ import annotations

from catalog.errors import SqlError


def aborted_error() -> SqlError:
    return SqlError("25P02", "current transaction is aborted, commands ignored until end of transaction block")


def canceled_error() -> SqlError:
    return SqlError("57014", "canceling statement due to user request")


def transaction_error() -> SqlError:
    """The error of a session whose transaction exceeds transaction_timeout (PostgreSQL 17 manual, 19.11)."""
    return SqlError("25P04", "terminating connection due to transaction timeout", severity="FATAL")


def idle_error(status: str) -> SqlError:
    """The error of a session that has idled too long, in this state of ReadyForQuery."""
    if status == "I":
        return SqlError("57P05", "terminating connection due to idle-session timeout", severity="FATAL")
    return SqlError("25P03", "terminating connection due to idle-in-transaction timeout", severity="FATAL")
