"""What the sessions of a node have done, all of them together and by database: transactions, errors.

A session counts its transactions for itself, but for the reads that needed none (StatementStatistics.single_reads). Its
numbers are added here when it ends.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from catalog.errors import SqlError

DEADLOCK = "40P01"


class CountedSession(Protocol):
    """What is counted of a session."""

    @property
    def database_oid(self) -> int: ...
    @property
    def commits(self) -> int: ...
    @property
    def rollbacks(self) -> int: ...


class DatabaseActivity:
    """Of the sessions of one database."""

    __slots__ = ("commits", "deadlocks", "killed", "rollbacks", "sessions")

    def __init__(self) -> None:
        self.commits = 0
        self.rollbacks = 0
        self.deadlocks = 0
        self.sessions = 0  # that were opened
        self.killed = 0  # that an administrator ended

    def add(self, session: CountedSession) -> None:
        """Takes over what a session has counted."""
        self.commits += session.commits
        self.rollbacks += session.rollbacks


class Activity:
    """`planned` counts statements that were planned, so what the plan cache did not have; `errors` are those that
    clients were told, by SQLSTATE."""

    def __init__(self) -> None:
        self.planned = 0
        self.errors: Counter[str] = Counter()
        self._databases: dict[int, DatabaseActivity] = {}

    def database(self, oid: int) -> DatabaseActivity:
        found = self._databases.get(oid)
        if found is None:
            found = self._databases[oid] = DatabaseActivity()
        return found

    def forget(self, oid: int) -> None:
        """The database, if it is one, has been dropped."""
        self._databases.pop(oid, None)

    def count_open(self, session: CountedSession) -> None:
        self.database(session.database_oid).sessions += 1

    def count_close(self, session: CountedSession) -> None:
        self.database(session.database_oid).add(session)

    def count_failure(self, session: CountedSession, error: SqlError) -> None:
        """A client is told of an error."""
        self.errors[error.sqlstate] += 1
        if error.sqlstate == DEADLOCK:
            self.database(session.database_oid).deadlocks += 1
        elif error.sqlstate == "57P01":
            self.database(session.database_oid).killed += 1

    def now(self, oid: int, sessions: Iterable[CountedSession]) -> DatabaseActivity:
        """Of a database, with what these sessions, those that are open, have counted so far; without single reads."""
        known, made = self.database(oid), DatabaseActivity()
        made.commits, made.rollbacks = known.commits, known.rollbacks
        made.deadlocks, made.sessions, made.killed = known.deadlocks, known.sessions, known.killed
        for session in sessions:
            if session.database_oid == oid:
                made.add(session)
        return made
