"""SERIALIZABLE transactions that are prepared: a dangerous structure fails where it fails in PostgreSQL, in any order
of the steps of three transactions; and after a start, when the conflicts that were known are not known any more."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from contextlib import ExitStack

import psycopg

from tests.engine.bulk.conftest import Connection
from tests.oracle import PostgresServer
from tests.server import ShoalServer

TABLES = ("CREATE TABLE skew1 (a int)", "CREATE TABLE skew2 (a int)", "CREATE TABLE skew3 (a int)")
ORDERS = 40


def _steps(chance: random.Random) -> list[tuple[int, str]]:
    """The steps of three transactions, each (number of the transaction, statement), in any order."""
    queues = []
    for number in range(3):
        read, written = chance.sample((1, 2, 3), 2)
        work = [f"SELECT * FROM skew{read}", f"INSERT INTO skew{written} VALUES ({number})"]
        chance.shuffle(work)
        if chance.random() < 0.2:
            work.pop()
        last = chance.choice(("COMMIT", "COMMIT", "ROLLBACK"))
        end = [f"PREPARE TRANSACTION 's{number}'", f"{last} PREPARED 's{number}'"]
        queues.append(["BEGIN ISOLATION LEVEL SERIALIZABLE", *work, *(end if chance.random() < 0.75 else ["COMMIT"])])
    order = [number for number, queue in enumerate(queues) for _ in queue]
    chance.shuffle(order)
    return [(number, queues[number].pop(0)) for number in order]


def _outcomes(connections: Sequence[Connection], steps: Sequence[tuple[int, str]]) -> Iterator[tuple[str, str]]:
    for number, sql in steps:
        try:
            cursor = connections[number].execute(sql.encode())
            found = repr(sorted(cursor.fetchall())) if cursor.description else str(cursor.statusmessage)
        except psycopg.Error as error:
            found = f"{error.diag.sqlstate} {error.diag.message_detail}"
        yield sql, found.split(" on conflict out to pivot")[0]  # PostgreSQL adds the number of a transaction
    for connection in connections:
        connection.execute("ROLLBACK")


def _clean(connection: Connection) -> None:
    for (name,) in connection.execute("SELECT gid FROM pg_prepared_xacts").fetchall():
        connection.execute(f"ROLLBACK PREPARED '{name}'".encode())
    connection.execute("TRUNCATE skew1, skew2, skew3")


def test_any_order_of_steps_fails_where_it_fails_in_postgresql(
    shoal: ShoalServer, postgres_server: PostgresServer
) -> None:
    failures = 0
    with ExitStack() as stack:
        sides = [
            [stack.enter_context(psycopg.connect(server.dsn, autocommit=True)) for _ in range(3)]
            for server in (postgres_server, shoal)
        ]
        for side in sides:
            for sql in TABLES:
                side[0].execute(sql.encode())
        for seed in range(ORDERS):
            steps = _steps(random.Random(seed))
            theirs, ours = (list(_outcomes(side, steps)) for side in sides)
            assert ours == theirs, seed
            failures += any(found.startswith("40001") for _, found in theirs)
            for side in sides:
                _clean(side[0])
        for side in sides:
            side[0].execute("DROP TABLE skew1, skew2, skew3")
    assert failures > ORDERS / 10


def test_after_a_start_it_still_prevents_write_skew(private_shoal: ShoalServer) -> None:
    with psycopg.connect(private_shoal.dsn, autocommit=True) as connection:
        for sql in TABLES:
            connection.execute(sql.encode())
        connection.execute("BEGIN ISOLATION LEVEL SERIALIZABLE")
        connection.execute("SELECT * FROM skew1")
        connection.execute("INSERT INTO skew2 VALUES (1)")
        connection.execute("PREPARE TRANSACTION 'kept'")
    private_shoal.kill()
    private_shoal.start()
    with psycopg.connect(private_shoal.dsn, autocommit=True) as connection:
        connection.execute("BEGIN ISOLATION LEVEL SERIALIZABLE")
        connection.execute("SELECT * FROM skew3")
        connection.execute("INSERT INTO skew3 VALUES (2)")
        connection.execute("COMMIT")
        for work in (("SELECT * FROM skew2",), ("INSERT INTO skew1 VALUES (2)",)):
            error = ""
            try:
                connection.execute("BEGIN ISOLATION LEVEL SERIALIZABLE")
                for sql in (*work, "COMMIT"):
                    connection.execute(sql.encode())
            except psycopg.errors.SerializationFailure as failed:
                error = str(failed.diag.message_detail)
            connection.execute("ROLLBACK")
            assert "pivot" in error, work
        connection.execute("COMMIT PREPARED 'kept'")
        connection.execute("BEGIN ISOLATION LEVEL SERIALIZABLE")
        assert connection.execute("SELECT * FROM skew2").fetchall() == [(1,)]
        connection.execute("INSERT INTO skew1 VALUES (2)")
        connection.execute("COMMIT")
