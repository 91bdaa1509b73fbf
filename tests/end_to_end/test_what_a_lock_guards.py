"""Whoever gets a lock sees what those who had it have committed, durable or not yet: whatever kind of lock it is,
whether he has waited for it or came just after them, at every isolation level, in one tablespace or two."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from itertools import product
from threading import Timer

import psycopg
import pytest

from tests.end_to_end.held_changelog import HoldingServer
from tests.samples import some

Connection = psycopg.Connection[tuple[object, ...]]
Rows = list[tuple[object, ...]]

UNTOLD = 0.03  # seconds from a COMMIT that is sequenced until it is durable
LOCKS = {
    "advisory": "SELECT pg_advisory_xact_lock(7)",
    "advisory of two numbers": "SELECT pg_advisory_xact_lock(7, 7)",
    "advisory, shared": "SELECT pg_advisory_xact_lock_shared(7)",
    "advisory, of the session": "SELECT pg_advisory_lock(7)",
    "table": "LOCK TABLE guard IN ACCESS EXCLUSIVE MODE",
    "table, but for reads": "LOCK TABLE guard IN EXCLUSIVE MODE",
    "table, for reads": "LOCK TABLE guard IN SHARE MODE",
    "table, by a write": "INSERT INTO guard VALUES (5, 5)",
    "table, by a read": "SELECT count(*) FROM guard",
    "row": "SELECT id FROM guard WHERE id = 1 FOR UPDATE",
    "row, keys free": "SELECT id FROM guard WHERE id = 1 FOR NO KEY UPDATE",
    "row, shared": "SELECT id FROM guard WHERE id = 1 FOR SHARE",
    "row, its key": "SELECT id FROM guard WHERE id = 1 FOR KEY SHARE",
    "row, by a change": "UPDATE guard SET v = v WHERE id = 1",
    "row, found by its values": "UPDATE guard SET v = 1 WHERE v = 0",
    "row, by its end": "DELETE FROM guard WHERE id = 1",
    "row, by a reference": "INSERT INTO refers VALUES (3, 1)",
    "key": "INSERT INTO guard VALUES (9, 9) ON CONFLICT DO NOTHING",
}
# The first has one lock, the second asks for the other.
PAIRS = (
    *((name, name) for name in ("advisory", "advisory of two numbers", "advisory, of the session", "key")),
    *((name, name) for name in ("table", "table, but for reads", "row", "row, keys free")),
    *((name, name) for name in ("row, by a change", "row, by its end")),
    ("advisory", "advisory, of the session"),
    ("advisory, of the session", "advisory, shared"),
    ("advisory, shared", "advisory"),
    ("table", "table, by a read"),
    ("table", "row"),
    ("table, but for reads", "table, by a write"),
    ("table, for reads", "row, by a change"),
    ("table, by a read", "table"),
    ("table, by a write", "table, for reads"),
    ("row", "table, but for reads"),
    ("row", "row, by a change"),
    ("row", "row, by its end"),
    ("row", "row, by a reference"),
    ("row", "row, found by its values"),
    ("row, keys free", "row, shared"),
    ("row, shared", "row, by a change"),
    ("row, its key", "row"),
    ("row, by a change", "row"),
    ("row, by a reference", "row"),
    ("row, found by its values", "row, keys free"),
)
AUTOCOMMIT = "each statement alone"
LEVELS = ("READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE", AUTOCOMMIT)
GUARDED: dict[str, Rows] = {
    "SELECT v FROM guarded WHERE id = 1": [(7,)],
    "SELECT id, v FROM guarded ORDER BY id": [(1, 7), (2, 2)],
    "SELECT sum(v), count(*) FROM guarded": [(9, 2)],
    "UPDATE guarded SET v = v + 1 WHERE v = 7 RETURNING v": [(8,)],
    "INSERT INTO guarded SELECT id + 10, v FROM guarded RETURNING id": [(11,), (12,)],
}
CHANGES = (
    "UPDATE {} SET v = 7 WHERE id = 1; INSERT INTO {} VALUES (2, 2)",
    "DELETE FROM {} WHERE id = 3",
)
# Statements that wait for the table themselves.
STATEMENTS: dict[str, Rows] = {
    "SELECT v FROM {} WHERE id = 2": [(2,)],
    "SELECT id, v FROM {} ORDER BY 1": [(1, 7), (2, 2)],
    "SELECT sum(v) FROM {}": [(9,)],
    "UPDATE {} SET v = v + 10 WHERE id = 2 RETURNING v": [(12,)],
    "UPDATE {} SET v = v + 10 WHERE v < 5 RETURNING id": [(2,)],
    "DELETE FROM {} WHERE id IN (1, 2, 3) RETURNING id": [(1,), (2,)],
    "INSERT INTO {} SELECT id + 10, v FROM {} RETURNING id": [(11,), (12,)],
    "SELECT id FROM {} WHERE id = 2 FOR UPDATE": [(2,)],
}
KEEPS_ITS_SNAPSHOT = ("table, by a read", "table, by a write")


def cases(one_in: int, also_later: bool) -> list[object]:
    """Those of which PostgreSQL's answer is one: a statement that takes the only snapshot of its transaction does so
    before it waits, but for LOCK TABLE, which takes none. `also_later`: locks that are held beyond the commit."""
    made = []
    for held, asked in PAIRS:
        for guarded in GUARDED:
            for level in LEVELS:
                if level == AUTOCOMMIT and asked != "advisory, of the session":
                    continue
                if level not in (LEVELS[0], AUTOCOMMIT) and (
                    not asked.startswith("table") or asked in KEEPS_ITS_SNAPSHOT
                ):
                    continue
                if also_later or "session" not in held:
                    made.append((held, asked, guarded, level))
    return some(made, one_in)


@pytest.fixture(scope="module", params=["", "TABLESPACE other"])
def server(request: pytest.FixtureRequest) -> Iterator[HoldingServer]:
    """What is guarded is in the guard's tablespace, or in another."""
    with HoldingServer() as server, psycopg.connect(server.dsn, autocommit=True) as setup:
        if request.param:
            setup.execute("CREATE TABLESPACE other")
        setup.execute("CREATE TABLE guard (id int PRIMARY KEY, v int)")
        setup.execute("CREATE TABLE refers (id int PRIMARY KEY, guard int REFERENCES guard)")
        setup.execute(f"CREATE TABLE guarded (id int PRIMARY KEY, v int) {request.param}".encode())
        setup.execute("CREATE TABLE t (id int PRIMARY KEY, v int)")
        setup.execute("CREATE TABLE pt (id int PRIMARY KEY, v int) PARTITION BY RANGE (id)")
        setup.execute("CREATE TABLE pt1 PARTITION OF pt FOR VALUES FROM (0) TO (2)")
        setup.execute("CREATE TABLE pt2 PARTITION OF pt FOR VALUES FROM (2) TO (100)")
        yield server


@pytest.fixture
def one(server: HoldingServer) -> Iterator[Connection]:
    with psycopg.connect(server.dsn, autocommit=True, options="-c statement_timeout=20s") as connection:
        yield connection


@pytest.fixture
def other(server: HoldingServer) -> Iterator[Connection]:
    with psycopg.connect(server.dsn, autocommit=True, options="-c statement_timeout=20s") as connection:
        yield connection


def run(connection: Connection, text: str) -> Rows:
    done = connection.execute(text.encode())
    return done.fetchall() if done.description else []


def meet(server: HoldingServer, one: Connection, ask: Callable[[], None], commit: str) -> None:
    """Lets the other ask; once it waits, commits."""
    with ThreadPoolExecutor(1) as pool:
        asking = pool.submit(ask)
        deadline = time.monotonic() + 20
        while run(one, "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'") == [(0,)]:
            assert not asking.done() and time.monotonic() < deadline, "it does not wait"
        server.hold()
        Timer(UNTOLD, server.release).start()
        run(one, commit)
        asking.result(20)


@contextmanager
def meanwhile(server: HoldingServer, one: Connection) -> Iterator[None]:
    """It has sent its COMMIT, which is sequenced, and is not told yet."""
    with ThreadPoolExecutor(1) as pool:
        server.hold()
        began = time.monotonic()
        committing = pool.submit(run, one, "COMMIT")
        Timer(UNTOLD, server.release).start()
        time.sleep(UNTOLD / 5)
        yield
        committing.result(20)
        assert time.monotonic() - began > UNTOLD


def begin(connection: Connection, level: str) -> None:
    if level != AUTOCOMMIT:
        run(connection, f"BEGIN ISOLATION LEVEL {level}")


def finish(connection: Connection, level: str) -> None:
    if level != AUTOCOMMIT:
        run(connection, "COMMIT")
    run(connection, "SELECT pg_advisory_unlock_all()")


def change(one: Connection, lock: str, table: str) -> None:
    """Begins, takes the lock, and changes the table under it."""
    for text in ("BEGIN", lock, *CHANGES):
        run(one, text.replace("{}", table))


def prepare(one: Connection) -> None:
    run(one, "BEGIN; TRUNCATE guard, refers, guarded; INSERT INTO guard VALUES (1, 0)")
    run(one, "INSERT INTO guarded VALUES (1, 1), (3, 3); COMMIT")


@pytest.mark.parametrize(("held", "asked", "guarded", "level"), cases(6, True))
def test_who_has_waited_for_a_lock_sees_what_was_committed_under_it(
    server: HoldingServer, one: Connection, other: Connection, held: str, asked: str, guarded: str, level: str
) -> None:
    seen = []
    prepare(one)
    change(one, LOCKS[held], "guarded")

    def ask() -> None:
        begin(other, level)
        run(other, LOCKS[asked])
        seen.extend(run(other, guarded))
        finish(other, level)

    meet(server, one, ask, "COMMIT; SELECT pg_advisory_unlock_all()" if "session" in held else "COMMIT")
    assert sorted(seen) == GUARDED[guarded]


@pytest.mark.parametrize(("held", "asked", "guarded", "level"), cases(6, False))
def test_who_gets_a_lock_at_once_sees_what_was_committed_under_it(
    server: HoldingServer, one: Connection, other: Connection, held: str, asked: str, guarded: str, level: str
) -> None:
    prepare(one)
    change(one, LOCKS[held], "guarded")
    begin(other, level)
    with meanwhile(server, one):
        run(other, LOCKS[asked])
        seen = run(other, guarded)
        finish(other, level)
    assert sorted(seen) == GUARDED[guarded]


@pytest.mark.parametrize(
    ("table", "statement", "level", "waits"),
    some(product(["t", "pt"], STATEMENTS, [AUTOCOMMIT, LEVELS[0]], [True, False]), 3),
)
def test_a_statement_sees_what_was_committed_under_the_lock_that_it_needs(
    server: HoldingServer, one: Connection, other: Connection, table: str, statement: str, level: str, waits: bool
) -> None:
    run(one, f"BEGIN; TRUNCATE {table}; INSERT INTO {table} VALUES (1, 1), (3, 3); COMMIT")
    change(one, f"LOCK TABLE {table} IN ACCESS EXCLUSIVE MODE", table)
    seen = []

    def ask() -> None:
        begin(other, level)
        seen.extend(run(other, statement.replace("{}", table)))
        finish(other, level)

    if waits:
        meet(server, one, ask, "COMMIT")
    else:
        with meanwhile(server, one):
            ask()
    assert sorted(seen) == STATEMENTS[statement]
