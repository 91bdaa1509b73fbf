"""A row whose key has been changed since the snapshot was updated, not deleted; as in PostgreSQL."""

from __future__ import annotations

from itertools import product

import psycopg
import pytest

from tests.meeting import Meeting
from tests.oracle import PostgresServer
from tests.samples import some
from tests.server import ShoalServer

MOVE, DELETE = "UPDATE moved SET id = 2 WHERE id = 1", "DELETE FROM moved WHERE id = 1"


@pytest.mark.parametrize(
    ("change", "then", "what"),
    [
        (MOVE, "SELECT * FROM moved FOR UPDATE", "update"),
        (MOVE, "UPDATE moved SET v = 1", "update"),
        (MOVE, "DELETE FROM moved", "update"),
        (DELETE, "SELECT * FROM moved FOR SHARE", "update"),
        (DELETE, "UPDATE moved SET v = 1", "delete"),
    ],
)
def test_what_has_become_of_a_row(
    shoal: ShoalServer, postgres_server: PostgresServer, change: str, then: str, what: str
) -> None:
    for server in (shoal, postgres_server):
        with (
            psycopg.connect(server.dsn, autocommit=True) as other,
            psycopg.connect(server.dsn, autocommit=True) as connection,
        ):
            other.execute("CREATE TABLE moved (id int PRIMARY KEY, v int)")
            try:
                other.execute("INSERT INTO moved VALUES (1)")
                connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
                connection.execute("SELECT * FROM moved")
                other.execute(change.encode())
                with pytest.raises(psycopg.errors.SerializationFailure, match=f"due to concurrent {what}"):
                    connection.execute(then.encode())
                connection.execute("ROLLBACK")
            finally:
                other.execute("DROP TABLE moved")


LEVELS = ("READ COMMITTED", "REPEATABLE READ")
TABLES = {
    "plain": "CREATE TABLE moved (id int PRIMARY KEY, v int)",
    "indexed": "CREATE TABLE moved (id int PRIMARY KEY, v int); CREATE INDEX ON moved (v)",
    "partitioned": "CREATE TABLE moved (id int, v int, p int DEFAULT 1, PRIMARY KEY (id, p)) PARTITION BY LIST (p); "
    "CREATE TABLE moved_1 PARTITION OF moved FOR VALUES IN (1); CREATE TABLE moved_2 PARTITION OF moved DEFAULT",
}
# What a transaction does to rows (1, 10), (2, 20), (3, 30) while another one waits for it: `1>4` gives row 1 the key
# 4, `-1` deletes it, `1*` changes another column of it, `+5` inserts a row 5, `[` is SAVEPOINT, `]` ROLLBACK TO.
CHANGES = (
    "1>4", "-2 1>2", "1>9 2>1 9>2", "1>9 2>1 3>2 9>3", "1>4 +1", "-1 +1", "1>4 +5", "+9 -2 9>2", "1>4 4>5", "1>4 4>1",
    "-1 +5", "[ 1>4 ] -1 +4", "[ 1>4 ] 1*", "1* 1>4", "1>4 4*", "-3 2>3 1>2", "1>4 -4", "1>4 -2 4>2",
    "3>4 -1 +1 1>3", "2>5 -1 +2 2>1", "+4 -4 1>4", "-1 -2 +1 +2", "1>4 2>1 -4",
)  # fmt: skip
STATEMENTS = (
    *(f"SELECT * FROM moved WHERE id < 3 FOR {strength}" for strength in ("KEY SHARE", "SHARE", "NO KEY UPDATE")),
    "UPDATE moved SET v = v + 1",
    "UPDATE moved SET v = v + 1 WHERE id > 0 RETURNING *",
    "UPDATE moved SET v = v + 1 WHERE id = 1",
    "UPDATE moved SET v = v + 1 WHERE id = 2",
    "UPDATE moved SET v = v + 1 WHERE id IN (1, 2)",
    "UPDATE moved SET v = v + 1 WHERE v = 10",
    "UPDATE moved SET v = v + w FROM (VALUES (10, 1), (20, 2)) s (u, w) WHERE v = u",
    "DELETE FROM moved",
    "DELETE FROM moved WHERE id = 1",
    "DELETE FROM moved WHERE id < 3",
    "DELETE FROM moved WHERE v IN (10, 20)",
    "SELECT * FROM moved ORDER BY v FOR UPDATE",
    "SELECT id FROM moved WHERE id = 2 FOR NO KEY UPDATE",
    "SELECT v FROM moved WHERE v < 30 FOR UPDATE",
    "MERGE INTO moved m USING (VALUES (10), (20)) s (u) ON m.v = u WHEN MATCHED THEN UPDATE SET v = v + 1",
)
CASES = [
    (level, table, change, statement)
    for level, table, change, statement in product(LEVELS, TABLES, CHANGES, STATEMENTS)
    if table != "partitioned" or statement.startswith(("UPDATE", "DELETE"))  # the others are 0A000
]


def _steps(change: str) -> list[str]:
    steps = []
    for step in change.split():
        if step in "[]":
            steps.append("SAVEPOINT s" if step == "[" else "ROLLBACK TO s")
        elif ">" in step:
            steps.append("UPDATE moved SET id = {1} WHERE id = {0}".format(*step.split(">")))
        elif step.endswith("*"):
            steps.append(f"UPDATE moved SET v = v + 100 WHERE id = {step[:-1]}")
        else:
            steps.append(
                f"DELETE FROM moved WHERE id = {step[1:]}"
                if step[0] == "-"
                else f"INSERT INTO moved VALUES ({step[1:]}, 10)"
            )
    return steps


def check(
    servers: tuple[PostgresServer | ShoalServer, ...],
    table: str,
    rows: str,
    level: str,
    steps: list[str],
    statement: str,
) -> None:
    """What a statement gives that waits for a transaction of these steps, and what is in the table then."""
    for end in ("COMMIT", "ROLLBACK"):
        given = []
        for server in servers:
            meeting = Meeting(server.dsn, "moved_rows", f"CREATE SCHEMA moved_rows; {table}")
            try:
                meeting.third.run(f"INSERT INTO moved VALUES {rows}")
                meeting.second.run(f"BEGIN ISOLATION LEVEL {level}", "SELECT * FROM moved")
                found = meeting.given_after(steps, statement, end)
                meeting.second.run("COMMIT")
                given.append((found, meeting.third.run("SELECT * FROM moved")))
            finally:
                meeting.close()
        assert given[1] == given[0], end


@pytest.mark.parametrize(("level", "table", "change", "statement"), some(CASES, 89))
def test_a_statement_continues_after_a_wait_with_the_rows_that_it_had_found(
    shoal: ShoalServer, postgres_server: PostgresServer, level: str, table: str, change: str, statement: str
) -> None:
    rows = "(1, 10), (2, 20), (3, 30)"
    check((postgres_server, shoal), TABLES[table], rows, level, _steps(change), statement)


UNIQUE = {
    "immediate": "UNIQUE",
    "deferrable": "UNIQUE DEFERRABLE",
    "deferred": "UNIQUE DEFERRABLE INITIALLY DEFERRED",
    "excluded": "EXCLUDE USING btree (v WITH =)",
}
TAKEN = (
    ("UPDATE moved SET v = 3 WHERE id = 1", "INSERT INTO moved VALUES (3, 1)"),
    ("DELETE FROM moved WHERE id = 1", "INSERT INTO moved VALUES (3, 1)"),
    ("UPDATE moved SET v = 5 WHERE id = 2", "INSERT INTO moved VALUES (0, 2)"),
    ("INSERT INTO moved VALUES (3, 3)", "UPDATE moved SET v = 4 WHERE id = 1"),
    ("UPDATE moved SET v = 7 WHERE id = 1", "UPDATE moved SET v = 1 WHERE id = 2"),
    ("UPDATE moved SET id = 5 WHERE id = 1", "INSERT INTO moved VALUES (1, 4)"),
    ("UPDATE moved SET v = v + 10",),
    ("INSERT INTO moved VALUES (3, 3)", "DELETE FROM moved WHERE id = 3"),
)
TAKING = (
    "UPDATE moved SET v = 3 - v WHERE id > 0",
    "UPDATE moved SET v = v + 1",
    "UPDATE moved SET v = v + 1 WHERE id = 1",
    "UPDATE moved SET v = 3 WHERE id = 2",
    "UPDATE moved SET v = 4 WHERE v = 1 RETURNING *",
    "INSERT INTO moved VALUES (4, 3)",
    "INSERT INTO moved VALUES (4, 1) RETURNING *",
    "INSERT INTO moved SELECT id + 10, v + 1 FROM moved",
    "INSERT INTO moved VALUES (4, 1), (5, 2), (6, 3), (7, 4)",
)


UNIQUE_CASES = [
    (kind, change, statement, level)
    for kind, change, statement, level in product(UNIQUE, TAKEN, TAKING, LEVELS)
    if (kind, statement) != ("excluded", TAKING[-1])  # keys of all rows come before exclusion constraints
]


@pytest.mark.parametrize(("kind", "change", "statement", "level"), some(UNIQUE_CASES, 43))
def test_a_statement_that_continues_looks_unique_keys_up_again(
    shoal: ShoalServer,
    postgres_server: PostgresServer,
    kind: str,
    change: tuple[str, ...],
    statement: str,
    level: str,
) -> None:
    if kind == "excluded":
        table = f"CREATE TABLE moved (id int PRIMARY KEY, v int, {UNIQUE[kind]})"
    else:
        table = f"CREATE TABLE moved (id int PRIMARY KEY, v int {UNIQUE[kind]})"
    check((postgres_server, shoal), table, "(1, 1), (2, 2)", level, list(change), statement)
