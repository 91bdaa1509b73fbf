"""Clients that work on any node of a cluster, write down what they were told, and go elsewhere when a node has gone."""

from __future__ import annotations

import contextlib
import random
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import psycopg

from tests.cluster import ShoalCluster
from tests.torture.history import Event, History, Outcome, judge

ACCOUNTS, BALANCE, COUNTERS, BULK = 24, 1000, 6, 1500
LED_SECONDS = 60.0  # in which a tablespace has a leader on a machine that is full
PACE = 0.01  # seconds between two pieces of work of one client

SCHEMA = """
CREATE TABLE inserts (client int, n int, twin bigint UNIQUE, note text, PRIMARY KEY (client, n));
CREATE TABLE marks (client int, n int, i int) TABLESPACE second;
CREATE INDEX marks_of ON marks (client, n);
CREATE TABLE accounts (id int PRIMARY KEY, balance bigint NOT NULL, sent bigint NOT NULL);
CREATE TABLE transfers (client int, n int, source int, target int, amount int, PRIMARY KEY (client, n))
    TABLESPACE second;
CREATE TABLE counters (id int PRIMARY KEY, n bigint NOT NULL);
"""


class Gone(Exception):  # noqa: N818 - what has happened
    """The node has gone away, or it refused."""


class Client(threading.Thread):
    """Does one kind of work, again and again, on a node that changes."""

    def __init__(self, load: Load, number: int, work: Callable[[Client], None]) -> None:
        super().__init__(name=f"{work.__name__} {number}", daemon=True)
        self.load = load
        self.number = number
        self.work = work
        self.random = random.Random(f"{load.seed} {number}")
        self.connection: psycopg.Connection[Any] | None = None
        self.node = ""
        self.next_n = 0
        self.committing = False
        self.began = 0.0  # the work that runs

    def run(self) -> None:
        while not self.load.over:
            self.began = time.monotonic()
            try:
                if self.connection is None or self.connection.closed:
                    self._connect()
                self.work(self)
            except (psycopg.OperationalError, Gone):
                self.leave()
            except Exception as error:
                self.load.history.problem(f"{self.name} on {self.node}: {error!r}")
                self.leave()
            self.load.pause.wait(PACE)
        self.leave()

    def _connect(self) -> None:
        self.node = self.random.choice(list(self.load.cluster.nodes))
        self.connection = psycopg.connect(self.load.cluster.dsn(self.node), autocommit=True)

    def leave(self) -> None:
        """Another node next time."""
        connection, self.connection = self.connection, None
        if connection is not None:
            connection.close()
        self.load.pause.wait(0.05)

    def sql(self, text: str, *parameters: object) -> list[tuple[Any, ...]]:
        assert self.connection is not None
        cursor = self.connection.execute(text.encode(), parameters or None)
        return cursor.fetchall() if cursor.description else []

    @contextlib.contextmanager
    def attempt(self, events: list[Event], value: tuple[int, ...]) -> Iterator[Event]:
        """One piece of work; its outcome is written down. The last statement that `attempt` covers is the commit:
        `committing` says that it may be on its way."""
        number, self.next_n = (self.number, self.next_n), self.next_n + 1
        event = Event(number, Outcome.UNKNOWN, time.monotonic(), 0.0, self.node, value=value)
        self.committing = False
        try:
            yield event
            event.outcome = Outcome.ACKNOWLEDGED
        except psycopg.Error as error:
            outcome = judge(error.sqlstate, self.committing)
            event.sqlstate = error.sqlstate or "lost"
            if outcome is None:
                self.load.history.problem(f"{self.name} on {self.node}: {error.sqlstate} {error}")
            event.outcome = outcome or Outcome.UNKNOWN
            raise Gone from error
        finally:
            event.ended = time.monotonic()
            events.append(event)


def _once_led(connection: psycopg.Connection, statement: str) -> None:
    """Runs it again while 57P03 says that nothing has happened, for a tablespace had no leader in time: on a machine
    that is full, elections take longer than statements wait."""
    until = time.monotonic() + LED_SECONDS
    while True:
        try:
            connection.execute(statement.encode())
            return
        except psycopg.errors.CannotConnectNow:
            if time.monotonic() > until:
                raise


class Load:
    """All clients."""

    def __init__(self, cluster: ShoalCluster, seed: int) -> None:
        self.cluster = cluster
        self.seed = seed
        self.history = History()
        self.over = False
        self.pause = threading.Event()
        works = [self.insert] * 3 + [self.transfer] * 3 + [self.increment] * 2 + [self.read] * 2
        self.clients = [Client(self, number, work) for number, work in enumerate(works)]
        self._last_insert: dict[int, int] = {}  # client -> its last acknowledged n

    def prepare(self) -> None:
        """Tables in two tablespaces, and what is in them at the beginning."""
        with self.cluster.connect() as connection:
            for statement in (
                "CREATE TABLESPACE second",
                SCHEMA,
                f"INSERT INTO accounts SELECT g, {BALANCE}, 0 FROM generate_series(0, {ACCOUNTS - 1}) g",
                f"INSERT INTO counters SELECT g, 0 FROM generate_series(0, {COUNTERS - 1}) g",
            ):
                _once_led(connection, statement)
        self.cluster.wait_for_applied()

    def start(self) -> None:
        for client in self.clients:
            client.start()

    def stop(self, timeout: float = 30.0) -> None:
        """Nobody may hang when nothing is in the way any more."""
        self.over = True
        self.pause.set()
        deadline = time.monotonic() + timeout
        for client in self.clients:
            client.join(max(deadline - time.monotonic(), 0.1))
            if client.is_alive():
                waited = time.monotonic() - client.began
                self.history.problem(f"{client.name} hangs on {client.node} for {waited:.0f} s")

    # --- work ----------------------------------------------------------------------------------------------------

    def insert(self, client: Client) -> None:
        marks = client.random.choice((0, 0, 0, 1, 3, BULK if client.random.random() < 0.1 else 2))
        with client.attempt(self.history.inserts, (marks,)) as event:
            one, n = event.number
            row = f"INSERT INTO inserts VALUES ({one}, {n}, {n * 100 + one}, repeat('note ', {n % 20}))"
            if not marks:
                client.committing = True
                client.sql(row)
            else:
                client.sql("BEGIN")
                client.sql(row)
                client.sql(f"INSERT INTO marks SELECT {one}, {n}, g FROM generate_series(1, {marks}) g")
                client.committing = True
                client.sql("COMMIT")
        self._last_insert[one] = n

    def transfer(self, client: Client) -> None:
        source, target = client.random.sample(range(ACCOUNTS), 2)
        amount = client.random.randrange(1, 50)
        with client.attempt(self.history.transfers, (source, target, amount)) as event:
            one, n = event.number
            client.sql("BEGIN")
            client.sql("UPDATE accounts SET balance = balance - %s, sent = sent + 1 WHERE id = %s", amount, source)
            client.sql("UPDATE accounts SET balance = balance + %s WHERE id = %s", amount, target)
            client.sql("INSERT INTO transfers VALUES (%s, %s, %s, %s, %s)", one, n, source, target, amount)
            client.committing = True
            client.sql("COMMIT")

    def increment(self, client: Client) -> None:
        counter = client.random.randrange(COUNTERS)
        with client.attempt(self.history.increments, (counter, -1)) as event:
            client.committing = True
            ((value,),) = client.sql(f"UPDATE counters SET n = n + 1 WHERE id = {counter} RETURNING n")
            event.value = (counter, value)

    def read(self, client: Client) -> None:
        """Every state that anybody sees is one that there was: the total holds, a session never goes back, and strong
        reads on any node see at once what was acknowledged."""
        seen: dict[int, int] = {}
        for _ in range(5):
            acknowledged = dict(self._last_insert)
            client.sql("SET read_consistency = 'strong'")
            balances = dict(client.sql("SELECT id, balance FROM accounts"))
            if sum(balances.values()) != ACCOUNTS * BALANCE or len(balances) != ACCOUNTS:
                self.history.problem(f"a read on {client.node} sees a torn transfer: {sum(balances.values())}")
            ((total,),) = client.sql("SELECT sum(balance)::bigint FROM accounts")
            if total != ACCOUNTS * BALANCE:
                self.history.problem(f"an aggregate on {client.node} sees a torn transfer: {total}")
            ((sent, stored),) = client.sql("SELECT (SELECT sum(sent) FROM accounts), (SELECT count(*) FROM transfers)")
            if sent != stored:
                self.history.problem(
                    f"a read on {client.node} sees {sent} transfers in one tablespace, {stored} in another"
                )
            for counter, value in client.sql("SELECT id, n FROM counters"):
                if value < seen.get(counter, 0):
                    self.history.problem(f"{client.node} went back from {seen[counter]} to {value}")
                seen[counter] = value
            for one, n in acknowledged.items():
                if not client.sql(f"SELECT 1 FROM inserts WHERE client = {one} AND n = {n}"):
                    self.history.problem(f"a strong read on {client.node} does not see ({one}, {n})")
            self.history.reads += 1
            self.pause.wait(0.1)
        if client.random.random() < 0.5:
            client.leave()

    # --- afterwards ----------------------------------------------------------------------------------------------

    def progress(self, since: float) -> float | None:
        """When the first work was acknowledged that had begun after `since`."""
        ended = [
            event.ended
            for events in (self.history.inserts, self.history.transfers, self.history.increments)
            for event in reversed(events[-400:])
            if event.outcome is Outcome.ACKNOWLEDGED and event.begun >= since
        ]
        return min(ended, default=None)
