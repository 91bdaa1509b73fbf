"""A statement that has waited for a table sees what the transaction that had it has committed, durable or not yet."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

import psycopg
import pytest

from tests.server import ShoalServer

ROUNDS = 12
BEFORE = ("UPDATE {} SET v = 7 WHERE id = 1", "INSERT INTO {} VALUES (2, 2)", "DELETE FROM {} WHERE id = 3")
STATEMENTS = {
    "SELECT v FROM {} WHERE id = 2": [(2,)],
    "SELECT id, v FROM {} ORDER BY 1": [(1, 7), (2, 2)],
    "SELECT sum(v) FROM {}": [(9,)],
    "UPDATE {} SET v = v + 10 WHERE id = 2 RETURNING v": [(12,)],
    "UPDATE {} SET v = v + 10 WHERE v < 5 RETURNING id": [(2,)],
    "DELETE FROM {} WHERE id IN (1, 2, 3) RETURNING id": [(1,), (2,)],
    "INSERT INTO {} SELECT id + 10, v FROM {} RETURNING id": [(11,), (12,)],
    "SELECT id FROM {} WHERE id = 2 FOR UPDATE": [(2,)],
}


@pytest.fixture(scope="module")
def connections() -> Iterator[tuple[psycopg.Connection[tuple[object, ...]], ...]]:
    with ShoalServer() as server, psycopg.connect(server.dsn) as one, psycopg.connect(server.dsn) as other:
        one.autocommit = other.autocommit = True
        one.execute("CREATE TABLE t (id int PRIMARY KEY, v int)")
        one.execute("CREATE TABLE pt (id int PRIMARY KEY, v int) PARTITION BY RANGE (id)")
        one.execute("CREATE TABLE pt1 PARTITION OF pt FOR VALUES FROM (0) TO (2)")
        one.execute("CREATE TABLE pt2 PARTITION OF pt FOR VALUES FROM (2) TO (100)")
        yield one, other


@pytest.mark.parametrize("table", ["t", "pt"])
@pytest.mark.parametrize("statement", STATEMENTS)
@pytest.mark.parametrize("in_block", [False, True])
def test_what_was_committed_before_is_seen(
    connections: tuple[psycopg.Connection[tuple[object, ...]], ...], table: str, statement: str, in_block: bool
) -> None:
    one, other = connections
    seen = []
    for _ in range(ROUNDS):
        one.execute(f"TRUNCATE {table}".encode())
        one.execute(f"INSERT INTO {table} VALUES (1, 1), (3, 3)".encode())
        one.execute("BEGIN")
        one.execute(f"LOCK TABLE {table} IN ACCESS EXCLUSIVE MODE".encode())

        def ask() -> None:
            if in_block:
                other.execute("BEGIN")
            seen.append(sorted(other.execute(statement.replace("{}", table).encode()).fetchall()))
            if in_block:
                other.execute("COMMIT")

        asked = threading.Thread(target=ask)
        asked.start()
        for text in BEFORE:
            one.execute(text.format(table).encode())
        deadline = time.monotonic() + 20
        while one.execute("SELECT count(*) FROM pg_locks WHERE NOT granted").fetchall() == [(0,)]:
            assert time.monotonic() < deadline, "it does not wait"
        one.execute("COMMIT")
        asked.join(20)
    assert seen == [STATEMENTS[statement]] * ROUNDS
