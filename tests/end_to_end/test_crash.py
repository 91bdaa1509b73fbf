"""kill -9 under load, again and again: what was acknowledged is there, what was not is there whole or not at all.

Clients write down what they were told and what they had asked for when the server went away. After each restart the
database is compared with that: through index lookups and scans, through the row path and the columnar path. Thresholds
are small, so that kills meet flushes and the rolling of the changelog. Every other time the directory is also looked at
from inside (tests/end_to_end/consistency.py).

SHOAL_CRASH_ROUNDS sets how many times the server is killed; SHOAL_CRASH_SEED repeats the choices of a run.
"""

from __future__ import annotations

import contextlib
import os
import random
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import psycopg
import pytest

from tests.end_to_end.consistency import problems
from tests.server import ShoalServer

ROUNDS = int(os.environ.get("SHOAL_CRASH_ROUNDS", "3"))
SEED = int(os.environ.get("SHOAL_CRASH_SEED", str(random.SystemRandom().randrange(1 << 32))))
ACCOUNTS, BALANCE, WIDE, COPIED = 40, 1000, 6000, 6000

_SMALL = """
import sys
from engine.storage.tablespace import Tablespace
from replication.local import LocalChangelog
Tablespace.prepare.__func__.__kwdefaults__.update(flush_bytes=200_000, flush_versions=3_000)
LocalChangelog.__init__.__kwdefaults__.update(segment_bytes=300_000)
from shoal.cli import main
sys.exit(main(sys.argv[1:]))
"""

SCHEMA = """
CREATE TABLE ledger (client int, n int, twin int UNIQUE, note text, PRIMARY KEY (client, n));
CREATE INDEX ledger_note ON ledger (note);
CREATE TABLE marks (client int, n int);
CREATE TABLE accounts (id int PRIMARY KEY, balance bigint NOT NULL);
CREATE TABLE numbered (id serial PRIMARY KEY, v int);
CREATE SEQUENCE drawn;
CREATE TABLE loads (batch int, i int, h text, PRIMARY KEY (batch, i));
CREATE INDEX loads_h ON loads (h, i);
CREATE TABLE wide (id int PRIMARY KEY, version int, pad text);
CREATE INDEX wide_version ON wide (version);
CREATE TABLE emptied (v int);
"""


class SmallServer(ShoalServer):
    """Flushes and rolls its changelog after little."""

    def command(self) -> list[str]:
        return [sys.executable, "-c", _SMALL, *super().command()[3:]]


class Gone(Exception):  # noqa: N818 - what has happened
    """The server has gone away under a statement, or the round is over."""


class Client(threading.Thread):
    """Does one kind of work until the server goes away. `unknown` is what it had asked for then."""

    def __init__(self, load: Load, name: str, work: Callable[[Client], None]) -> None:
        super().__init__(name=name, daemon=True)
        self.load = load
        self.work = work
        self.random = random.Random(f"{SEED} {name} {load.round}")
        self.connection: psycopg.Connection[Any] | None = None
        self.failure: BaseException | None = None

    def run(self) -> None:
        try:
            with contextlib.suppress(psycopg.OperationalError, Gone):
                self.connection = psycopg.connect(self.load.server.dsn, autocommit=True)
                while not self.load.over:
                    self.work(self)
        except BaseException as error:
            self.failure = error

    def sql(self, text: str, *parameters: object) -> list[tuple[Any, ...]]:
        assert self.connection is not None
        try:
            cursor = self.connection.execute(text.encode(), parameters or None)
        except (psycopg.errors.SerializationFailure, psycopg.errors.DeadlockDetected):
            raise
        except psycopg.OperationalError:
            raise Gone from None
        return cursor.fetchall() if cursor.description else []

    @contextlib.contextmanager
    def transaction(self) -> Iterator[None]:
        self.sql("BEGIN")
        yield
        self.sql("COMMIT")


class Load:
    """What the clients were told, over all rounds."""

    def __init__(self, server: ShoalServer) -> None:
        self.server = server
        self.round = 0
        self.over = False
        self.acknowledged: dict[int, dict[int, int]] = {}  # client -> n -> rows in marks
        self.unknown: dict[int, tuple[int, int]] = {}  # client -> (n, rows in marks) without an answer
        self.next_n: dict[int, int] = {}
        self.identifiers: list[int] = []
        self.drawn: list[int] = []
        self.batches: set[int] = set()
        self.next_batch = 0
        self.version = 0
        self.tables: dict[str, int] = {}  # name -> rows
        self.unknown_table: tuple[str, set[int | None]] | None = None
        self.next_table = 0
        self.emptied: set[int] = {0}

    # ---- clients ------------------------------------------------------------------------------------------------

    def ledger(self, number: int) -> Callable[[Client], None]:
        acknowledged = self.acknowledged.setdefault(number, {})

        def work(client: Client) -> None:
            n = self.next_n.get(number, 0)
            self.next_n[number] = n + 1
            marks = client.random.choice((0, 1, 1, 1, 1, 5))
            self.unknown[number] = (n, marks)
            row = f"INSERT INTO ledger VALUES ({number}, {n}, {n * 10 + number}, 'note {n % 50}')"
            if not marks:
                client.sql(row)
            else:
                with client.transaction():
                    client.sql(f"INSERT INTO marks VALUES ({number}, {n})")
                    client.sql("SAVEPOINT a")
                    client.sql(f"INSERT INTO marks VALUES ({number}, -1)")
                    client.sql("ROLLBACK TO a")
                    client.sql(row)
                    if marks > 1:
                        client.sql("INSERT INTO marks SELECT %s, %s FROM generate_series(2, %s)", number, n, marks)
            acknowledged[n] = marks
            self.unknown[number] = (-1, 0)
            if n % 7 == 0:
                client.sql(f"UPDATE ledger SET note = 'new' WHERE client = {number} AND n = {n}")

        return work

    def transfer(self, client: Client) -> None:
        source, target = client.random.sample(range(ACCOUNTS), 2)
        amount = client.random.randrange(50)
        try:
            with client.transaction():
                client.sql(f"UPDATE accounts SET balance = balance - {amount} WHERE id = {source}")
                client.sql(f"UPDATE accounts SET balance = balance + {amount} WHERE id = {target}")
                if client.random.random() < 0.1:
                    client.sql("ROLLBACK")
        except psycopg.errors.DeadlockDetected:
            client.sql("ROLLBACK")

    def number(self, client: Client) -> None:
        self.identifiers += [row[0] for row in client.sql("INSERT INTO numbered (v) VALUES (1), (2) RETURNING id")]
        self.drawn.append(client.sql("SELECT nextval('drawn')")[0][0])

    def copy(self, client: Client) -> None:
        assert client.connection is not None
        batch = self.next_batch
        self.next_batch += 1
        lines = "".join(f"{batch}\t{i}\th{i * 7 % 1000}\n" for i in range(COPIED))
        try:
            with client.connection.cursor().copy("COPY loads FROM STDIN") as copy:
                copy.write(lines)
        except psycopg.OperationalError:
            raise Gone from None
        self.batches.add(batch)

    def update(self, client: Client) -> None:
        client.sql("UPDATE wide SET version = version + 1, pad = md5(pad) WHERE id > 0")
        self.version += 1

    def define(self, client: Client) -> None:
        name = f"made_{self.next_table}"
        self.next_table += 1
        self.unknown_table = (name, {None, 3})
        client.sql(
            f"CREATE TABLE {name} (id int, v text); INSERT INTO {name} VALUES (1, 'a'), (2, 'b'), (3, 'a');"
            f"CREATE INDEX ON {name} (v); ALTER TABLE {name} ADD PRIMARY KEY (id)"
        )
        self.tables[name] = 3
        self.unknown_table = None
        client.sql(f"ALTER TABLE {name} ADD COLUMN w int DEFAULT 5")
        client.sql(f"ALTER TABLE {name} ALTER COLUMN id TYPE bigint")
        if client.random.random() < 0.5:
            old = client.random.choice(list(self.tables))
            self.unknown_table = (old, {None, self.tables[old]})
            client.sql(f"DROP TABLE {old}")
            del self.tables[old]
            self.unknown_table = None
        if client.random.random() < 0.5:
            count = client.random.randrange(1, 9)
            self.emptied.add(count)
            with client.transaction():
                client.sql("TRUNCATE emptied")
                client.sql(f"INSERT INTO emptied SELECT {count} FROM generate_series(1, {count})")
            self.emptied = {count}

    def keep_temporary(self, client: Client) -> None:
        client.sql("CREATE TEMPORARY TABLE IF NOT EXISTS forgotten (id serial PRIMARY KEY, v text)")
        client.sql("INSERT INTO forgotten (v) SELECT 'x' FROM generate_series(1, 10)")
        time.sleep(0.05)

    def checkpoint(self, client: Client) -> None:
        client.sql("CHECKPOINT")
        client.sql("SELECT sum(balance), count(*) FROM accounts")
        time.sleep(client.random.random() * 0.3)

    # ---- rounds -------------------------------------------------------------------------------------------------

    def run(self, seconds: float) -> None:
        """Runs the clients and kills the server under them."""
        self.round += 1
        self.over = False
        works: list[tuple[str, Callable[[Client], None]]] = [
            *((f"ledger {number}", self.ledger(number)) for number in range(3)),
            *((f"transfer {number}", self.transfer) for number in range(3)),
            *((f"number {number}", self.number) for number in range(2)),
            ("copy", self.copy),
            ("update", self.update),
            ("define", self.define),
            ("temporary", self.keep_temporary),
            ("checkpoint", self.checkpoint),
        ]
        clients = [Client(self, *work) for work in works]
        for client in clients:
            client.start()
        time.sleep(seconds)
        self.server.kill()
        self.over = True
        for client in clients:
            client.join(20)
            assert not client.is_alive(), f"{client.name} hangs (seed {SEED})"
            assert client.failure is None, f"{client.name} (seed {SEED}): {client.failure!r}"

    def summary(self) -> str:
        """How much was acknowledged so far."""
        commits = sum(map(len, self.acknowledged.values()))
        return (
            f"round {self.round}: {commits} ledger rows, {len(self.identifiers)} serials, {len(self.batches)} COPYs, "
            f"{self.version} UPDATEs, {self.next_table} tables"
        )

    # ---- the comparison -----------------------------------------------------------------------------------------

    def check(self) -> None:
        with psycopg.connect(self.server.dsn, autocommit=True) as connection:

            def rows(text: str) -> list[tuple[Any, ...]]:
                return connection.execute(text.encode()).fetchall()

            self._check_ledger(rows)
            balances = rows("SELECT id, balance FROM accounts ORDER BY id")
            assert len(balances) == ACCOUNTS and sum(row[1] for row in balances) == ACCOUNTS * BALANCE
            assert rows("SELECT sum(balance)::bigint FROM accounts") == [(ACCOUNTS * BALANCE,)]
            for one, balance in balances:
                assert rows(f"SELECT balance FROM accounts WHERE id = {one}") == [(balance,)]
            identifiers = {row[0] for row in rows("SELECT id FROM numbered")}
            assert len(set(self.identifiers)) == len(self.identifiers) and identifiers >= set(self.identifiers)
            assert len(set(self.drawn)) == len(self.drawn), "a sequence gave a value twice"
            self._check_bulk(rows)
            self._check_tables(rows)

    def _check_ledger(self, rows: Callable[[str], list[tuple[Any, ...]]]) -> None:
        for number, acknowledged in self.acknowledged.items():
            unknown, unknown_marks = self.unknown[number]
            there = {row[0] for row in rows(f"SELECT n FROM ledger WHERE client = {number}")}
            assert acknowledged.keys() - there == set(), "acknowledged rows are lost"
            assert there - acknowledged.keys() <= {unknown}, "rows that nobody committed"
            marks = dict(rows(f"SELECT n, count(*) FROM marks WHERE client = {number} GROUP BY n"))
            if unknown in there:
                acknowledged[unknown] = unknown_marks
            assert marks == {n: count for n, count in acknowledged.items() if count}, "a transaction is torn"
            for n in random.Random(SEED).sample(sorted(there), min(len(there), 100)):
                assert rows(f"SELECT client, n FROM ledger WHERE twin = {n * 10 + number}") == [(number, n)]
        assert rows("SELECT count(*), count(DISTINCT twin) FROM ledger") == rows(
            "SELECT count(*), count(*) FROM ledger WHERE note >= ''"
        )

    def _check_bulk(self, rows: Callable[[str], list[tuple[Any, ...]]]) -> None:
        batches = dict(rows("SELECT batch, count(*) FROM loads GROUP BY batch"))
        assert self.batches <= batches.keys(), "an acknowledged COPY is lost"
        assert set(batches.values()) <= {COPIED}, "a COPY is torn"
        assert len(batches.keys() - self.batches) <= 1
        self.batches = set(batches)
        for batch in batches:
            assert rows(f"SELECT h FROM loads WHERE batch = {batch} AND i = 77") == [("h539",)]
        ((low, high, count),) = rows("SELECT min(version), max(version), count(*) FROM wide")
        assert count == WIDE and low == high and self.version <= low <= self.version + 1, "an UPDATE is torn or lost"
        self.version = low
        assert rows(f"SELECT count(*) FROM wide WHERE version = {low}") == [(WIDE,)]
        assert rows("SELECT version FROM wide WHERE id = 5") == [(low,)]

    def _check_tables(self, rows: Callable[[str], list[tuple[Any, ...]]]) -> None:
        there = {row[0] for row in rows("SELECT relname FROM pg_class WHERE relname LIKE 'made%' AND relkind = 'r'")}
        name, allowed = self.unknown_table or ("", {None})
        assert self.tables.keys() - there <= {name}, "a table is lost"
        assert there - self.tables.keys() <= {name}, "a dropped table has come back"
        for table in there:
            found = rows(f"SELECT count(*), count(DISTINCT id) FROM {table}")[0]
            assert found == (3, 3) and rows(f"SELECT v FROM {table} WHERE id = 2") == [("b",)]
            assert sorted(rows(f"SELECT id FROM {table} WHERE v = 'a'")) == [(1,), (3,)]
        if name:
            assert (3 if name in there else None) in allowed
        self.tables = dict.fromkeys(there, 3)
        self.unknown_table = None
        assert rows("SELECT oid FROM pg_class WHERE relname LIKE 'forgotten%'") == []
        emptied = [row[0] for row in rows("SELECT v FROM emptied")]
        assert len(emptied) in self.emptied and set(emptied) <= {len(emptied)}, "a TRUNCATE is torn"
        self.emptied = {len(emptied)}


@pytest.fixture
def small_server() -> Iterator[SmallServer]:
    with SmallServer() as server:
        yield server


@pytest.mark.parametrize("rounds", [2 * ROUNDS // 3, pytest.param(ROUNDS, marks=pytest.mark.long)])
async def test_nothing_acknowledged_is_lost_when_the_server_is_killed(small_server: SmallServer, rounds: int) -> None:
    server = small_server
    with psycopg.connect(server.dsn, autocommit=True) as connection:
        connection.execute(SCHEMA.encode())
        connection.execute(
            f"INSERT INTO accounts SELECT g, {BALANCE} FROM generate_series(0, {ACCOUNTS - 1}) g".encode()
        )
        connection.execute(f"INSERT INTO wide SELECT g, 0, 'x' FROM generate_series(1, {WIDE}) g".encode())
    load = Load(server)
    choices = random.Random(SEED)
    print(f"seed {SEED}")
    for number in range(rounds):
        load.run(0.4 + 2 * choices.random())
        if number % 2:
            assert await problems(server.data) == []
        server.start()
        load.check()
        print(load.summary())
    assert server.stop() == 0
    assert await problems(server.data) == []
