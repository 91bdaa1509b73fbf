"""Row locks between two transactions, every kind against every kind, on Shoal and on PostgreSQL.

The first transaction does something to a row, the second one does something to the same row at each isolation level,
and the first one then ends in every way, or has committed when the second one, whose snapshot is older, comes. What is
compared: whether the second waits, how it ends, what it returns, and the rows that are there in the end.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import pytest

from tests.meeting import PATIENCE, Meeting
from tests.oracle import PostgresServer
from tests.samples import some
from tests.server import ShoalServer

ROWS = "TRUNCATE t; INSERT INTO t VALUES (1, 10, 'one'), (2, 20, 'two')"
SETUP = """
DROP SCHEMA IF EXISTS row_locks CASCADE; CREATE SCHEMA row_locks;
CREATE TABLE row_locks.t (id int PRIMARY KEY, v int, x text);
"""

LOCKS = {
    "key share": "SELECT * FROM t WHERE id = 1 FOR KEY SHARE",
    "share": "SELECT * FROM t WHERE id = 1 FOR SHARE",
    "no key update": "SELECT * FROM t WHERE id = 1 FOR NO KEY UPDATE",
    "for update": "SELECT * FROM t WHERE id = 1 FOR UPDATE",
    "update": "UPDATE t SET v = v + 1, x = 'new' WHERE id = 1 RETURNING v, x",
    "update of the key": "UPDATE t SET id = 3 WHERE id = 1 RETURNING *",
    "delete": "DELETE FROM t WHERE id = 1 RETURNING *",
    "lock, then update": "SELECT * FROM t WHERE id = 1 FOR SHARE; UPDATE t SET v = v + 1 WHERE id = 1",
}
FIRST = {
    **{name: (text,) for name, text in LOCKS.items()},
    "savepoint kept": ("SAVEPOINT s", LOCKS["update"], "RELEASE s"),
    "key share, undone update": (LOCKS["key share"], "SAVEPOINT s", LOCKS["update"], "ROLLBACK TO s"),
    "key share, undone lock": (LOCKS["key share"], "SAVEPOINT s", LOCKS["no key update"], "ROLLBACK TO s"),
    "undone update": ("SAVEPOINT s", LOCKS["update"], "ROLLBACK TO s"),
    "undone delete": ("SAVEPOINT s", LOCKS["delete"], "ROLLBACK TO s"),
    "update, undone delete": (LOCKS["update"], "SAVEPOINT s", LOCKS["delete"], "ROLLBACK TO s"),
}


class Side(Meeting):
    """One server."""

    def __init__(self, dsn: str) -> None:
        super().__init__(dsn, "row_locks", SETUP)

    def outcome(self, first: tuple[str, ...], second: str, level: str, end: str) -> dict[str, object]:
        self.third.run(ROWS)
        self.second.run(f"BEGIN ISOLATION LEVEL {level}", "SELECT * FROM t WHERE id = 2")
        self.first.run("BEGIN", *first)
        if end.startswith("earlier "):
            self.first.run(end.removeprefix("earlier "))
        running = self.second.start(second)
        waits = self.waits(running)
        self.first.run(end if end in ("COMMIT", "ROLLBACK") else "SELECT 1")
        result = running.result(PATIENCE)
        ended = self.second.run("COMMIT")
        return {"waits": waits, "result": result, "ended": ended, "rows": self.third.run("SELECT * FROM t")}


@pytest.fixture(scope="module")
def sides(shoal: ShoalServer, postgres_server: PostgresServer) -> Iterator[tuple[Side, Side]]:
    pair = Side(shoal.dsn), Side(postgres_server.dsn)
    yield pair
    for side in pair:
        side.close()


def _cases() -> list[tuple[str, str, str, str]]:
    """(first, second, level, end): each level with the ends that it can tell apart."""
    ends = {
        "READ COMMITTED": ("COMMIT", "ROLLBACK"),
        "REPEATABLE READ": ("COMMIT", "earlier COMMIT"),
        "SERIALIZABLE": ("earlier COMMIT",),
    }
    return [
        (first, second, level, end)
        for first, second in itertools.product(FIRST, LOCKS)
        for level in ends
        for end in ends[level]
    ]


@pytest.mark.parametrize(("first", "second", "level", "end"), some(_cases(), 5))
def test_row_locks(sides: tuple[Side, Side], first: str, second: str, level: str, end: str) -> None:
    ours, theirs = (side.outcome(FIRST[first], LOCKS[second], level, end) for side in sides)
    assert ours == theirs


SEQUENCES = {
    "other bounds": "ALTER SEQUENCE s MAXVALUE 10",
    "another increment": "ALTER SEQUENCE s INCREMENT 5",
    "restart": "ALTER SEQUENCE s RESTART 3",
}
DRAWS = ("SELECT nextval('s')", "SELECT setval('s', 11)", "INSERT INTO d DEFAULT VALUES RETURNING id")


@pytest.mark.parametrize("end", ["COMMIT", "ROLLBACK"])
@pytest.mark.parametrize(("change", "draw"), list(itertools.product(SEQUENCES, DRAWS)))
@pytest.mark.parametrize("drawn_first", [False, True])
def test_sequences_that_change(sides: tuple[Side, Side], change: str, draw: str, end: str, drawn_first: bool) -> None:
    found = []
    for side in sides:
        side.third.run(
            "DROP TABLE IF EXISTS d; DROP SEQUENCE IF EXISTS s; CREATE SEQUENCE s",
            "CREATE TABLE d (id int DEFAULT nextval('s'))",
        )
        one, two = (draw, SEQUENCES[change]) if drawn_first else (SEQUENCES[change], draw)
        side.first.run("BEGIN", one)
        running = side.second.start(two)
        waits = side.waits(running)
        side.first.run(end)
        found.append((waits, running.result(PATIENCE), side.third.run("SELECT nextval('s')")))
    assert found[0] == found[1]
