"""Bulk inserts beside single writers and beside each other: who waits for whom, and what comes of it, on both servers.

Every pair of statements below is run in both orders, the first one in an open transaction that then ends in every way.
What is compared with PostgreSQL: whether the second waits, how it ends, and the rows that are there in the end.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator

import pytest

from engine.bulk.load import SMALL_ROWS
from tests.meeting import PATIENCE, Meeting, Statement
from tests.oracle import PostgresServer
from tests.samples import some
from tests.server import ShoalServer

MANY = SMALL_ROWS + 500
KEY = 100_005  # that the bulk statements bring
SETUP = """
DROP SCHEMA IF EXISTS beside CASCADE; CREATE SCHEMA beside;
CREATE TABLE beside.t (id int PRIMARY KEY, u int UNIQUE, v int);
CREATE TABLE beside.p (id int PRIMARY KEY, u int, v int) PARTITION BY RANGE (id);
CREATE TABLE beside.p1 PARTITION OF beside.p FOR VALUES FROM (0) TO (102000);
CREATE TABLE beside.p2 PARTITION OF beside.p FOR VALUES FROM (102000) TO (1000000);
"""
ROWS = """
TRUNCATE t, p;
INSERT INTO t SELECT n, n, 0 FROM generate_series(1, 50) n;
INSERT INTO p SELECT n, n, 0 FROM generate_series(1, 50) n;
"""


def _insert(table: str, start: int, shift: int = 0) -> str:
    return f"INSERT INTO {table} SELECT n, n + {shift}, 1 FROM generate_series({start}, {start + MANY - 1}) n"


def _copy(start: int) -> tuple[str, bytes]:
    return "COPY t FROM STDIN", b"".join(b"%d\t%d\t2\n" % (n, n) for n in range(start, start + MANY))


BULK: dict[str, Statement] = {
    "INSERT": _insert("t", 100_000),
    "COPY": _copy(100_000),
    "INSERT of old rows too": f"INSERT INTO t SELECT n, n, 1 FROM generate_series(7, 7) n UNION ALL"
    f" SELECT n, n, 1 FROM generate_series(100000, {100_000 + MANY}) n",
    "partitions": _insert("p", 100_000),
}
OTHERS: dict[str, Statement] = {
    "equal key": f"INSERT INTO t VALUES ({KEY}, 1000, 0)",
    "other key": "INSERT INTO t VALUES (1000, 1000, 0)",
    "equal unique value": f"INSERT INTO t VALUES (1000, {KEY}, 0)",
    "equal key or nothing": f"INSERT INTO t VALUES ({KEY}, 1000, 0) ON CONFLICT DO NOTHING",
    "equal key or update": f"INSERT INTO t VALUES ({KEY}, 1000, 0) ON CONFLICT (id) DO UPDATE SET v = 9",
    "several rows, one equal": f"INSERT INTO t VALUES (1000, 1000, 0), ({KEY}, 1001, 0), (1002, 1002, 0)",
    "update of a row": "UPDATE t SET v = 5 WHERE id = 7",
    "key becomes equal": f"UPDATE t SET id = {KEY} WHERE id = 7",
    "unique value becomes equal": f"UPDATE t SET u = {KEY} WHERE id = 7",
    "delete of a row": "DELETE FROM t WHERE id = 7",
    "lock of a row": "SELECT v FROM t WHERE id = 7 FOR UPDATE",
    "lock of what is not there": f"SELECT v FROM t WHERE id = {KEY} FOR UPDATE",
    "bulk, equal keys": _insert("t", 104_000),
    "bulk, other keys": _insert("t", 300_000),
    "bulk, equal unique values": _insert("t", 300_000, shift=-200_000),
    "COPY, equal keys": _copy(104_000),
    "partition, equal key": f"INSERT INTO p VALUES ({KEY}, 1, 0)",
    "partition, other key": "INSERT INTO p VALUES (1000, 1, 0)",
    "partition by itself": f"INSERT INTO p1 VALUES ({KEY}, 1, 0)",
    "partition in bulk": _insert("p", 103_000),
}
ENDS = ("COMMIT", "ROLLBACK", "ROLLBACK TO s")


class Side(Meeting):
    """One server."""

    def __init__(self, dsn: str) -> None:
        super().__init__(dsn, "beside", SETUP)

    def outcome(self, first: Statement, second: Statement, end: str) -> dict[str, object]:
        self.third.run(ROWS)
        began = self.first.run("BEGIN", "SAVEPOINT s", first)
        running = self.second.start(second)
        waits = self.waits(running)
        self.first.run(end)
        ended = running.result(PATIENCE)
        self.first.run("COMMIT")
        sums = "count(*) || ' ' || count(DISTINCT id) || ' ' || coalesce(sum(v), 0) || ' ' || coalesce(sum(u), 0)"
        by_index = f"SELECT count(*) FROM t WHERE u BETWEEN 100000 AND {100_000 + MANY}"
        rows = self.third.run(f"SELECT (SELECT {sums} FROM t), (SELECT {sums} FROM p), ({by_index})")
        return {"first": began, "waits": waits, "second": ended, "rows": rows}


@pytest.fixture(scope="module")
def sides(shoal: ShoalServer, postgres_server: PostgresServer) -> Iterator[tuple[Side, Side]]:
    pair = Side(shoal.dsn), Side(postgres_server.dsn)
    yield pair
    for side in pair:
        side.close()


def _cases() -> list[tuple[str, str, bool, str]]:
    """(bulk statement, other statement, which comes first, how the first one ends) over the same table."""
    found = []
    for bulk, other, bulk_first, end in itertools.product(BULK, OTHERS, (True, False), ENDS):
        if ("partition" in bulk) != ("partition" in other):
            continue
        if (bulk, other, bulk_first) == ("INSERT of old rows too", "lock of a row", False):
            continue  # PostgreSQL tells at once of a key whose row is only locked; Shoal waits for whoever locked it
        if end == "COMMIT" or bulk in ("INSERT", "partitions"):
            found.append((bulk, other, bulk_first, end))
    return found


@pytest.mark.parametrize(("bulk", "other", "bulk_first", "end"), some(_cases(), 17))
def test_only_equal_keys_meet(sides: tuple[Side, Side], bulk: str, other: str, bulk_first: bool, end: str) -> None:
    one, two = (BULK[bulk], OTHERS[other]) if bulk_first else (OTHERS[other], BULK[bulk])
    ours, theirs = (side.outcome(one, two, end) for side in sides)
    assert ours == theirs


def test_keys_stay_locked_when_a_later_savepoint_is_undone(sides: tuple[Side, Side]) -> None:
    for side in sides:
        side.third.run(ROWS)
        side.first.run("BEGIN", BULK["INSERT"], "SAVEPOINT s")
        running = side.second.start(OTHERS["equal key"])
        assert side.waits(running)
        side.first.run("ROLLBACK TO s")
        assert side.waits(running)
        side.first.run("COMMIT")
        assert running.result(PATIENCE) == "23505"


def test_a_wait_for_a_whole_table_names_the_blocking_sessions(shoal: ShoalServer, sides: tuple[Side, Side]) -> None:
    side = sides[0]
    side.third.run(ROWS, f"INSERT INTO t SELECT n, n, 0 FROM generate_series(1000, {1000 + MANY}) n")
    side.first.run("BEGIN", "UPDATE t SET v = 1 WHERE id = 7")
    told: list[tuple[str | None, str | None]] = []
    side.second.connection.add_notice_handler(lambda item: told.append((item.message_primary, item.message_detail)))
    running = side.second.start("UPDATE t SET v = 2")
    until = time.monotonic() + PATIENCE
    while not told and time.monotonic() < until:
        time.sleep(0.1)
    assert not running.done()
    assert told[0][0] == 'waiting for all writers of table "t" to end their transactions'
    assert f"Process {side.first.pid} holds a lock of it" in (told[0][1] or "")
    side.first.run("COMMIT")
    assert running.result(PATIENCE) == 50 + MANY + 1
