"""What statements that fail, or are ended, hold of the disk: nothing, though their errors may live for hours.

An error that is kept in a variable of the function that raises it refers to itself, by way of that function's frame,
and with it to all that the statement had. Only Python's cyclic collector ends that, and it never runs on this server.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import psycopg
import pytest

from tests import resources
from tests.end_to_end.test_held_resources import connect, nothing_is_held
from tests.engine.bulk.test_beside_writers import BULK, OTHERS, Side
from tests.resources import WithoutCollector
from tests.samples import some

Connection = psycopg.Connection
ROWS = 6000  # enough for a bulk run
SETUP = f"""
DROP SCHEMA IF EXISTS held CASCADE; CREATE SCHEMA held; SET search_path = held;
CREATE TABLE parents (id int PRIMARY KEY);
INSERT INTO parents SELECT generate_series(1, {ROWS});
CREATE TABLE t (id int PRIMARY KEY, v int NOT NULL CHECK (v < 1000000), s varchar(40), u int UNIQUE,
    p int REFERENCES parents);
INSERT INTO t SELECT n, 1, md5(n::text), n, n FROM generate_series(1, {ROWS}) n;
CREATE TABLE parted (id int PRIMARY KEY, v int) PARTITION BY RANGE (id);
CREATE TABLE low PARTITION OF parted FOR VALUES FROM (0) TO (3000);
CREATE TABLE high PARTITION OF parted FOR VALUES FROM (3000) TO (10000);
INSERT INTO parted SELECT n, n FROM generate_series(1, {ROWS}) n;
"""
FAILING = {
    "a key that is there": "INSERT INTO t SELECT n + 3000, 1, '', n + 50000 FROM generate_series(1, 6000) n",
    "a key twice": "INSERT INTO t SELECT 10000 + n % 5999, 1, '', n + 50000 FROM generate_series(1, 6000) n",
    "a unique value that is there": "INSERT INTO t SELECT n + 50000, 1, '', n FROM generate_series(1, 6000) n",
    "a check": "INSERT INTO t SELECT n + 50000, n * 200, '', n + 50000 FROM generate_series(1, 6000) n",
    "a NULL": "INSERT INTO t SELECT n + 50000, nullif(n, 5900), '', n + 50000 FROM generate_series(1, 6000) n",
    "no parent": "INSERT INTO t SELECT n + 50000, 1, '', n + 50000, n + 3000 FROM generate_series(1, 6000) n",
    "an error of its query": "INSERT INTO t SELECT n + 50000, 1 / (n - 5900), '' FROM generate_series(1, 6000) n",
    "a value that is too long": "INSERT INTO t SELECT n + 50000, 1, repeat('x', n) FROM generate_series(1, 6000) n",
    "no partition": "INSERT INTO parted SELECT n + 6000, 1 FROM generate_series(1, 6000) n",
    "a key in a partition": "INSERT INTO parted SELECT n, 1 FROM generate_series(2000, 9000) n",
    "a changed key": "UPDATE t SET id = 7",
    "a changed unique value": "UPDATE t SET u = u / 2",
    "a check of changed rows": "UPDATE t SET v = id * 200",
    "a NULL in changed rows": "UPDATE t SET v = nullif(id, 5900)",
    "changed rows without parents": "UPDATE t SET p = id + 3000",
    "an error of what changes": "UPDATE t SET v = 1 / (id - 5900)",
    "rows that others refer to": "DELETE FROM parents",
    "a deletion with an error": "DELETE FROM t WHERE 1 / (id - 5900) < 5",
    "MERGE": "MERGE INTO t USING (SELECT n FROM generate_series(1, 6000) n) q ON t.id = q.n WHEN MATCHED THEN "
    "UPDATE SET v = 1 / (n - 5900)",
    "ON CONFLICT": "INSERT INTO t SELECT n, 1, '' FROM generate_series(1, 6000) n "
    "ON CONFLICT (id) DO UPDATE SET v = 1 / (t.id - 5900)",
    "a part of a statement": "WITH w AS (UPDATE t SET v = v + 1 RETURNING id) SELECT sum(1 / (id - 5900)) FROM w",
    "a unique index": "CREATE UNIQUE INDEX ON t (v)",
    "an index on an error": "CREATE INDEX ON t ((1 / (id - 5900)))",
    "a new constraint": "ALTER TABLE t ADD UNIQUE (v)",
    "a new check": "ALTER TABLE t ADD CHECK (id < 5900)",
    "a new NOT NULL": "UPDATE t SET u = NULL WHERE id = 5900; ALTER TABLE t ALTER u SET NOT NULL",
    "a new reference": "ALTER TABLE t ADD FOREIGN KEY (v) REFERENCES low",
    "an exclusion": "ALTER TABLE t ADD EXCLUDE (v WITH =)",
    "rows written anew": "ALTER TABLE t ALTER v TYPE bigint USING 1 / (id - 5900)",
    "CREATE TABLE AS": "CREATE TABLE made AS SELECT 1 / (id - 5900) FROM t",
    "a query": "SELECT v, sum(1 / (id - 5900)) FROM t GROUP BY v",
    "a query of few rows": "SELECT 1 / (id - 40) FROM t WHERE id < 50",
    "a cursor": "BEGIN; DECLARE c CURSOR FOR SELECT 1 / (id - 5900) FROM t; FETCH ALL FROM c",
}
COPIED = {
    "a key that is there": b"".join(b"%d\t1\tx\t%d\t\\N\n" % (n, n + 50_000) for n in range(3000, 9000)),
    "a key twice": b"".join(b"%d\t1\tx\t\\N\t\\N\n" % (50_000 + n % 5900) for n in range(6000)),
    "no number": b"".join(b"%d\t1\tx\t\\N\t\\N\n" % (50_000 + n) for n in range(6000)) + b"z\n",
    "no parent": b"".join(b"%d\t1\tx\t\\N\t%d\n" % (50_000 + n, n + 3000) for n in range(6000)),
}
MET = ("equal key", "key becomes equal", "unique value becomes equal", "delete of a row", "bulk, equal keys")
ENDED_AFTER = (1, 25)  # milliseconds


@pytest.fixture(scope="module")
def server() -> Iterator[WithoutCollector]:
    with WithoutCollector() as server:
        yield server


def fails(connection: Connection, sql: str, data: bytes = b"") -> None:
    with contextlib.suppress(psycopg.Error):
        if data:
            with connection.cursor() as cursor, cursor.copy(sql.encode()) as copy:
                copy.write(data)
        else:
            connection.execute(sql.encode())
    connection.execute("ROLLBACK")


def in_all_ways(connection: Connection, sql: str, data: bytes = b"") -> None:
    """By itself, in a block that goes on, and ended after some time."""
    fails(connection, sql, data)
    connection.execute("BEGIN; SAVEPOINT s")
    fails(connection, sql, data)
    for after in ENDED_AFTER:
        connection.execute(f"SET statement_timeout = {after}")
        fails(connection, sql, data)
    connection.execute("RESET statement_timeout")


def each(server: WithoutCollector, works: dict[str, tuple[str, bytes]]) -> None:
    """Runs them. Of what is held then LMDB's numbers tell during which work it began."""
    began: dict[int, str] = {}
    with connect(server) as connection:
        for name, (sql, data) in works.items():
            connection.execute(SETUP)
            connection.execute("CHECKPOINT")
            with resources.opened_tables(server) as environment:
                began[environment.info()["last_txnid"]] = name
            in_all_ways(connection, sql, data)
        nothing_is_held(server, f"where each began: {began}")


def test_statements_that_fail_hold_nothing(server: WithoutCollector) -> None:
    each(server, {name: (sql, b"") for name, sql in FAILING.items()})


def test_copies_that_fail_hold_nothing(server: WithoutCollector) -> None:
    each(server, {name: ("COPY t FROM STDIN", data) for name, data in COPIED.items()})


@pytest.mark.parametrize("bulk", some(["COPY", "INSERT of old rows too"], 2))
@pytest.mark.long
def test_bulk_statements_that_met_others_hold_nothing(server: WithoutCollector, bulk: str) -> None:
    side = Side(server.dsn)
    try:
        for name in MET:
            side.outcome(OTHERS[name], BULK[bulk], "COMMIT")
        nothing_is_held(server)
    finally:
        side.close()
