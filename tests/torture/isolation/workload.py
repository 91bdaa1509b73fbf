"""Random list-append transactions of many sessions on a running server, written down for the checker.

Lists are text in rows of two tables, the second in a tablespace of its own where the server has one. They are read by
the primary key, by a secondary index, several at once by an index that is not unique, for update, and by the columnar
path; appended to by INSERT ... ON CONFLICT and by UPDATE through either index. Sessions differ in path and protocol.
Keys are retired after a while, so that lists stay short and rows go on being inserted.
"""

from __future__ import annotations

import itertools
import random
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import psycopg
from psycopg import errors

from tests.torture.isolation.checker import Append, Level, Outcome, Read, Transaction

T = TypeVar("T")
ACTIVE, APPENDS_A_KEY, IN_BUCKET = 6, 12, 3
ATTEMPTS = 100
GONE = (None, "57P03", "08007")  # libpq keeps the SQLSTATE of a connection that is refused to itself
REFUSED = (errors.SerializationFailure, errors.DeadlockDetected, errors.LockNotAvailable)


@dataclass(frozen=True, slots=True)
class Site:
    """Where sessions go. `tablespace`: one that the second table is made in."""

    dsns: tuple[str, ...]
    tablespace: str = ""

    @property
    def leaders_change(self) -> bool:
        """A node of a cluster may say, on a machine that is busy, that nobody leads just now, and mean it."""
        return len(self.dsns) > 1


@dataclass(slots=True)
class Run:
    """What a run has made. `problems`: what nobody may be told by a healthy server."""

    history: list[Transaction] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Lie:
    """A planted fault of the clients, that the checker must find: the level that is asked for in place of the one that
    is checked, whether a ROLLBACK is a COMMIT, and the `read_consistency` that sessions have in place of strong."""

    level: Level | None = None
    commits: bool = False
    consistency: str = "strong"


def patiently(site: Site, dsn: str, action: Callable[[psycopg.Connection[Any]], T], options: str = "") -> T:
    """What an action gives on a connection of its own. Where leaders change, both are asked for again when nobody
    leads or the connection has gone: the action is one that may be repeated."""
    for attempt in itertools.count(1):
        try:
            with psycopg.connect(dsn, autocommit=True, options=options) as connection:
                return action(connection)
        except psycopg.OperationalError as error:
            if not site.leaders_change or error.sqlstate not in GONE or attempt == ATTEMPTS:
                raise
            time.sleep(0.1)  # beside what a node waits for a leader before it says that there is none
    raise AssertionError("unreachable")


def prepare(site: Site) -> None:
    """Empty tables."""

    def create(connection: psycopg.Connection[Any]) -> None:
        for name, space in (("lists_0", ""), ("lists_1", site.tablespace)):
            connection.execute(f"DROP TABLE IF EXISTS {name}".encode())
            where = f" TABLESPACE {space}" if space else ""
            columns = "(id int PRIMARY KEY, twin int, bucket int, v text NOT NULL)"
            connection.execute(f"CREATE TABLE {name} {columns}{where}".encode())
            connection.execute(f"CREATE INDEX ON {name} (twin)".encode())
            connection.execute(f"CREATE INDEX ON {name} (bucket)".encode())

    patiently(site, site.dsns[0], create)


def run(site: Site, level: Level, seed: int, transactions: int, sessions: int = 8, lie: Lie | None = None) -> Run:
    """A history of about so many transactions, with a last read of every key."""
    prepare(site)
    found = Run()
    counter = itertools.count(1)
    lock = threading.Lock()

    def next_number() -> int:
        with lock:
            return next(counter)

    threads = [
        _Session(site, index, level, seed, transactions, next_number, found, lie or Lie()) for index in range(sessions)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    found.history.append(_last_read(site, next_number()))
    return found


def _last_read(site: Site, number: int) -> Transaction:
    def read(connection: psycopg.Connection[Any]) -> Transaction:
        transaction = Transaction(number, time.monotonic(), outcome=Outcome.COMMITTED)
        for table in (0, 1):
            for key, text in connection.execute(f"SELECT id, v FROM lists_{table}".encode()):
                transaction.operations.append(Read(key, values(text)))
        transaction.ended = time.monotonic()
        return transaction

    return patiently(site, site.dsns[0], read)


def values(text: str | None) -> tuple[int, ...]:
    """A list as it is stored."""
    return tuple(map(int, text.split())) if text else ()


class _Session(threading.Thread):
    """A client. Its choices are its seed's, the machine's is when they happen."""

    def __init__(
        self,
        site: Site,
        index: int,
        level: Level,
        seed: int,
        transactions: int,
        next_number: Callable[[], int],
        found: Run,
        lie: Lie,
    ) -> None:
        super().__init__(daemon=True)
        self.site = site
        self.dsn = site.dsns[index % len(site.dsns)]
        self.refused = (*REFUSED, errors.CannotConnectNow) if site.leaders_change else REFUSED
        self.level = level
        self.random = random.Random(f"{seed} {index}")
        self.path = "columnar" if index % 4 == 3 else "auto"
        self.literal = index % 2 == 1  # values in the text, by the simple protocol: the plan is found by lifting them
        self.transactions = transactions
        self.next_number = next_number
        self.found = found
        self.lie = lie
        self.connection: psycopg.Connection[Any]

    def run(self) -> None:
        try:
            options = f"-c shoal.path={self.path}"
            if self.lie.consistency != "strong":
                options += f" -c read_consistency={self.lie.consistency}"
            patiently(self.site, self.dsn, self._work, options)
        except Exception as error:
            self.found.problems.append(f"{self.dsn}: {error!r}")

    def _work(self, connection: psycopg.Connection[Any]) -> None:
        self.connection = connection
        while (number := self.next_number()) <= self.transactions:
            transaction = Transaction(number, time.monotonic())
            self.found.history.append(transaction)
            self._transact(transaction)
            transaction.ended = time.monotonic()

    def _sql(self, text: str, *parameters: object) -> Sequence[tuple[Any, ...]]:
        if self.literal:
            shown = tuple(f"'{value}'" if isinstance(value, str) else value for value in parameters)
            cursor = self.connection.execute((text % shown).encode())
        else:
            cursor = self.connection.execute(text.encode(), parameters or None, prepare=True if parameters else None)
        return cursor.fetchall() if cursor.description else [()] * cursor.rowcount

    def _transact(self, transaction: Transaction) -> None:
        asked = self.lie.level or self.level
        wants = self.random.random()
        try:
            if wants < 0.15 and asked is Level.READ_COMMITTED:
                self._operate(transaction)  # a transaction of one statement
            else:
                self._sql(f"BEGIN ISOLATION LEVEL {asked.value}")
                for _ in range(self.random.choice((1, 2, 2, 3, 4))):
                    self._operate(transaction)
                if wants > 0.93:
                    self._sql("COMMIT" if self.lie.commits else "ROLLBACK")
                    transaction.outcome = Outcome.ABORTED
                    return
                self._sql("COMMIT")
            transaction.outcome = Outcome.COMMITTED
        except self.refused:
            transaction.outcome = Outcome.ABORTED
            self._sql("ROLLBACK")

    def _operate(self, transaction: Transaction) -> None:
        newest = transaction.number // APPENDS_A_KEY
        key = newest + min(int(self.random.expovariate(0.5)), ACTIVE)
        table = f"lists_{key // IN_BUCKET % 2}"
        if self.random.random() < 0.5:
            self._append(transaction, table, key)
        else:
            self._read(transaction, table, key)

    def _append(self, transaction: Transaction, table: str, key: int) -> None:
        own = sum(isinstance(operation, Append) for operation in transaction.operations)
        value = transaction.number * 10 + own
        transaction.operations.append(Append(key, value))
        way = self.random.choice(("id", "twin", "insert"))
        if way != "insert":
            shift = 0 if way == "id" else 100_000
            changed = self._sql(f"UPDATE {table} SET v = v || %s WHERE {way} = %s", f" {value}", key + shift)
            if changed:
                return
        self._sql(
            f"INSERT INTO {table} VALUES (%s, %s, %s, %s) "
            f"ON CONFLICT (id) DO UPDATE SET v = {table}.v || ' ' || excluded.v",
            key,
            key + 100_000,
            key // IN_BUCKET,
            str(value),
        )

    def _read(self, transaction: Transaction, table: str, key: int) -> None:
        way = self.random.choice(("id", "twin", "bucket", "locked", "counted"))
        if way in ("bucket", "counted"):
            bucket = key // IN_BUCKET
            text = f"SELECT id, v FROM {table} WHERE bucket = %s"
            if way == "counted":  # an aggregate belongs to the columnar path
                text = f"SELECT id, max(v) FROM {table} WHERE bucket = %s GROUP BY id"
            rows = dict(self._sql(text, bucket))
            for one in range(bucket * IN_BUCKET, (bucket + 1) * IN_BUCKET):
                transaction.operations.append(Read(one, values(rows.get(one))))
            return
        where, lock = ("twin = %s", "") if way == "twin" else ("id = %s", " FOR UPDATE" if way == "locked" else "")
        rows = self._sql(f"SELECT v FROM {table} WHERE {where}{lock}", key + (100_000 if way == "twin" else 0))
        transaction.operations.append(Read(key, values(rows[0][0] if rows else None)))


def with_tablespace(site: Site) -> Site:
    """The same with a second tablespace, of a Shoal."""
    with psycopg.connect(site.dsns[0], autocommit=True) as connection:
        if not connection.execute(b"SELECT 1 FROM pg_tablespace WHERE spcname = 'torture'").fetchall():
            connection.execute(b"CREATE TABLESPACE torture")
    return Site(site.dsns, "torture")
