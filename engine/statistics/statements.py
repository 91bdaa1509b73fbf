"""The executions, time and rows of each statement, for pg_stat_statements.

A statement is identified by its user, its database and its `queryid`: a hash of its tokens without constants, and of
the relations that its names refer to (engine/sql/normalize.py). `Prepared.tally` refers from a plan to its numbers, so
the cached path needs no look-up. Times are those of the execution. They include waits for locks, and exclude planning,
and the commit at the end (which counts for COMMIT, if there is one). Failed statements are not counted, as in
PostgreSQL.

Statements inside of others (the query of COPY or CREATE TABLE AS, a cursor's) count with these, as with PostgreSQL's
default `pg_stat_statements.track = top`.

Times are also added to histograms, by command and path, in powers of two of a nanosecond: bucket n has the executions
of less than 2^n. Element 0, which no time belongs to, is the sum of all.
"""

from __future__ import annotations

import math
from collections import Counter, deque
from collections.abc import Callable, Iterable, Sequence
from operator import attrgetter
from time import perf_counter
from typing import TYPE_CHECKING, Protocol

import numpy as np

from engine.sql import ast
from engine.sql.normalize import describe_statement

if TYPE_CHECKING:
    from catalog.catalog import Catalog

MOST = 5000  # statements, PostgreSQL's default of pg_stat_statements.max
DROPPED = 20  # one in so many is dropped when there are more than MOST
LONGEST = 4096  # characters of a text: of statements of a megabyte, which anybody may send, MOST would be 5 GB
BUCKETS = 64
GATHERED = 512  # times: to fold so many at once costs a twentieth of adding them one by one
BUSY_GATHERED = 4096  # of a busy statement: a fold begins with 0.15 ms of code that is in no cache any more
BUSY_SECONDS = 1.0  # a statement is busy when it gathers GATHERED within so long,
BUSY = 64  # at most so many are busy, so that their gathered times take 8 MB
FEW = 32  # times that are added one by one sooner
NEVER = 1 << 62  # nanoseconds
ROW, COLUMNAR, UTILITY = "row", "columnar", "utility"  # the paths of statements
_NANOSECONDS = 1e9
_CALLS = attrgetter("calls")
_TRANSACTION = {"begin": "BEGIN", "start": "BEGIN", "commit": "COMMIT", "end": "COMMIT", "rollback": "ROLLBACK",
                "abort": "ROLLBACK"}  # fmt: skip


def threshold(milliseconds: int) -> float:
    """Converts milliseconds to seconds. A negative number is never."""
    return math.inf if milliseconds < 0 else milliseconds / 1000


class Tally:
    """The numbers of one statement. `command` is its kind. Times are in nanoseconds, `squares` in their squares.

    An execution without waits adds its seconds to `alone` if it is a read that needs no transaction, else to `inside`,
    and its rows beyond one to `rows` (`RowRunner.run`). When a list has `limit` of these, StatementStatistics.full adds
    them to the sums. All others use `add`.
    """

    __slots__ = (
        "alone", "buckets", "calls", "command", "database", "filled", "inside", "least", "limit", "most", "queryid",
        "rows", "single", "squares", "text", "total", "user",
    )  # fmt: skip

    def __init__(self, user: int, database: int, queryid: int, text: str, command: str, buckets: list[int]) -> None:
        self.user = user
        self.database = database
        self.queryid = queryid
        self.text = text
        self.command = command
        self.buckets = buckets  # of its command on the path that is taken at once
        self.alone: list[float] = []
        self.inside: list[float] = []
        self.limit = GATHERED
        self.filled = 0.0  # perf_counter(), when it was full the last time
        self.single = 0  # reads that needed no transaction
        self.forget()

    def forget(self) -> None:
        """Resets the numbers."""
        self.fold()
        self.calls = self.rows = self.total = self.most = 0
        self.squares = 0.0
        self.least = NEVER

    def fold(self) -> None:
        """Adds the collected times to the sums."""
        self.single += len(self.alone)
        for gathered in (self.alone, self.inside):
            if gathered:
                self._take(gathered)
                gathered.clear()

    def _take(self, gathered: list[float]) -> None:
        """Adds the times of executions with one row each."""
        if len(gathered) < FEW:
            for seconds in gathered:
                self.add(seconds, 1, self.buckets)
            return
        times = np.fromiter(gathered, np.float64, len(gathered))  # half of the time of np.array(gathered)
        times *= _NANOSECONDS
        np.rint(times, out=times)  # sums of these are exact: they have less than 53 bits
        total = int(np.add.reduce(times))
        self.calls += len(gathered)
        self.rows += len(gathered)
        self.total += total
        self.squares += float(times.dot(times))
        self.least = min(self.least, int(np.minimum.reduce(times)))
        self.most = max(self.most, int(np.maximum.reduce(times)))
        counts = np.bincount(np.frexp(times)[1])  # the exponent is the number of bits
        for bucket in counts.nonzero()[0].tolist():
            self.buckets[bucket] += int(counts[bucket])
        self.buckets[0] += total

    def add(self, seconds: float, rows: int, buckets: list[int]) -> None:
        """Adds one execution."""
        took = round(seconds * _NANOSECONDS)
        self.calls += 1
        self.rows += rows
        self.total += took
        self.squares += took * took
        self.least = min(self.least, took)
        self.most = max(self.most, took)
        buckets[took.bit_length()] += 1
        buckets[0] += took

    def add_alike(self, seconds: float, executions: int, rows: int) -> None:
        """Adds so many executions of `seconds` each, with `rows` rows in total."""
        took = round(seconds * _NANOSECONDS)
        self.calls += executions
        self.rows += rows
        self.total += took * executions
        self.squares += took * took * executions
        self.least = min(self.least, took)
        self.most = max(self.most, took)
        self.buckets[took.bit_length()] += executions
        self.buckets[0] += took * executions


class PlanSettings(Protocol):
    """The settings that a plan depends on."""

    @property
    def user(self) -> str: ...
    @property
    def database(self) -> int: ...
    @property
    def conforming(self) -> bool: ...


class CountedPlan(Protocol):
    """The interface of a plan for statistics (engine/session/prepared.py)."""

    tally: Tally | None

    @property
    def statement(self) -> ast.Statement: ...
    @property
    def catalog(self) -> Catalog: ...
    @property
    def key(self) -> PlanSettings: ...
    @property
    def relations(self) -> Sequence[int]: ...
    @property
    def command(self) -> str: ...
    @property
    def description(self) -> tuple[int, str] | None:
        """`queryid` and text, if they were computed before."""


class StatementStatistics:
    """All statements of a node. `plans` returns its plans, which refer to their tallies. `now` is the wall clock, in
    microseconds since 2000-01-01 UTC."""

    def __init__(self, plans: Callable[[], Iterable[CountedPlan]], now: Callable[[], int]) -> None:
        self._plans = plans
        self._now = now
        self._entries: dict[tuple[int, int, int], Tally] = {}
        self.histograms: dict[tuple[str, str], list[int]] = {}  # by command and path
        self.nested = Tally(0, 0, 0, "", "", [0] * BUCKETS)  # of all statements inside others
        self.dropped = 0  # how often there were more than MOST
        self._busy: deque[Tally] = deque()
        self.since = now()
        # Of statements that were dropped or reset, by database: rows of SELECTs; and reads without a transaction.
        self._fetched: Counter[int] = Counter()
        self._single: Counter[int] = Counter()

    def tally(self, prepared: CountedPlan) -> Tally:
        """The numbers of a plan's statement."""
        catalog, key, statement = prepared.catalog, prepared.key, prepared.statement
        user = catalog.roles.get(key.user, 0)
        queryid, text = prepared.description or describe_statement(statement, prepared.relations, key.conforming)
        name = (user, key.database, queryid)
        tally = self._entries.get(name)
        if tally is None:
            if len(self._entries) >= MOST:
                self._drop_some()
            if len(text) > LONGEST:
                text = text[:LONGEST] + "..."
            command = _command(prepared)
            buckets = self.histogram(command, ROW if prepared.command else UTILITY)
            tally = self._entries[name] = Tally(*name, text, command, buckets)
        prepared.tally = tally
        return tally

    def histogram(self, command: str, path: str) -> list[int]:
        found = self.histograms.get((command, path))
        if found is None:
            found = self.histograms[command, path] = [0] * BUCKETS
        return found

    def count_execution(self, prepared: CountedPlan, path: str, took: float, rows: int) -> None:
        """Counts a statement that has ended outside of the cached path, after so many seconds."""
        tally = prepared.tally or self.tally(prepared)
        if tally is not self.nested:
            tally.add(took, rows, self.histogram(tally.command, path))

    def full(self, tally: Tally) -> None:
        """Folds a tally that has collected its limit. A frequent tally gets a higher limit, until BUSY others have
        become frequent after it."""
        tally.fold()
        now = perf_counter()
        if tally.limit == GATHERED and now - tally.filled < BUSY_SECONDS:
            tally.limit = BUSY_GATHERED
            self._busy.append(tally)
            if len(self._busy) > BUSY:
                calm = self._busy.popleft()
                calm.limit = GATHERED
                calm.fold()
        tally.filled = now

    def fold(self) -> None:
        """Adds all collected times to the sums, before histograms are read."""
        for tally in self._entries.values():
            if tally.alone or tally.inside:
                tally.fold()

    def entries(self) -> list[Tally]:
        """The statements that have run."""
        self.fold()
        return [tally for tally in self._entries.values() if tally.calls]

    def reset(self, user: int = 0, database: int = 0, queryid: int = 0) -> None:
        """Resets the statements of a user, a database, a query; 0 is all of them."""
        for tally in self._entries.values():
            if user in (0, tally.user) and database in (0, tally.database) and queryid in (0, tally.queryid):
                self._keep(tally)
                tally.forget()
        if not (user or database or queryid):
            self.dropped = 0
            self.since = self._now()

    def rows_fetched(self, database: int) -> int:
        """The number of rows that SELECTs of a database have returned."""
        self.fold()
        return self._fetched[database] + sum(
            tally.rows for tally in self._entries.values() if tally.database == database and tally.command == "SELECT"
        )

    def single_reads(self, database: int) -> int:
        """The number of reads of a database that needed no transaction. Each counts as one transaction."""
        return self._single[database] + sum(
            tally.single + len(tally.alone) for tally in self._entries.values() if tally.database == database
        )

    def _keep(self, tally: Tally) -> None:
        """Keeps the sums of statements that are reset."""
        tally.fold()
        self._single[tally.database] += tally.single
        tally.single = 0
        if tally.command == "SELECT":
            self._fetched[tally.database] += tally.rows

    def _drop_some(self) -> None:
        """Drops the least frequent statements. Their plans look up a tally again."""
        self.fold()
        least = sorted(self._entries.values(), key=_CALLS)[: MOST // DROPPED]
        gone = set[int]()
        for tally in least:
            del self._entries[tally.user, tally.database, tally.queryid]
            gone.add(id(tally))
            self._keep(tally)
        for plan in self._plans():
            if plan.tally is not None and id(plan.tally) in gone:
                plan.tally = None
        self.dropped += 1


def _command(prepared: CountedPlan) -> str:
    """SELECT, INSERT, UPDATE, DELETE, MERGE, COPY, BEGIN, COMMIT, ROLLBACK; UTILITY for the rest."""
    tree = prepared.statement.tree
    if isinstance(tree, ast.CopyStmt):
        return "COPY"
    if isinstance(tree, ast.TransactionStmt):
        return _TRANSACTION.get(tree.kind, "UTILITY")
    return prepared.command or "UTILITY"
