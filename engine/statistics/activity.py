"""The activity of a node's sessions, in total and by database: transactions, errors.

A session counts its own transactions, except reads that need none (StatementStatistics.single_reads). Its numbers are
added here when it ends.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from catalog.errors import SqlError

DEADLOCK = "40P01"


class CountedSession(Protocol):
    """The counted numbers of a session."""

    @property
    def database_oid(self) -> int: ...
    @property
    def commits(self) -> int: ...
    @property
    def rollbacks(self) -> int: ...


class DatabaseActivity:
    """The activity of the sessions of one database."""

    __slots__ = ("commits", "deadlocks", "killed", "rollbacks", "sessions")

    def __init__(self) -> None:
        self.commits = 0
        self.rollbacks = 0
        self.deadlocks = 0
        self.sessions = 0  # that were opened
        self.killed = 0  # that an administrator ended

    def add(self, session: CountedSession) -> None:
        """Adds the numbers of a session."""
        self.commits += session.commits
        self.rollbacks += session.rollbacks


class Activity:
    """`planned` counts statements that were not in a plan cache. `errors` are the errors that clients received, by
    SQLSTATE."""

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
        """Called when a database is dropped. Another OID is ignored."""
        self._databases.pop(oid, None)

    def count_open(self, session: CountedSession) -> None:
        self.database(session.database_oid).sessions += 1

    def count_close(self, session: CountedSession) -> None:
        self.database(session.database_oid).add(session)

    def count_failure(self, session: CountedSession, error: SqlError) -> None:
        """Counts an error that a client receives."""
        self.errors[error.sqlstate] += 1
        if error.sqlstate == DEADLOCK:
            self.database(session.database_oid).deadlocks += 1
        elif error.sqlstate == "57P01":
            self.database(session.database_oid).killed += 1

    def now(self, oid: int, sessions: Iterable[CountedSession]) -> DatabaseActivity:
        """The numbers of a database, with those of these open sessions, without single reads."""
        known, made = self.database(oid), DatabaseActivity()
        made.commits, made.rollbacks = known.commits, known.rollbacks
        made.deadlocks, made.sessions, made.killed = known.deadlocks, known.sessions, known.killed
        for session in sessions:
            if session.database_oid == oid:
                made.add(session)
        return made
