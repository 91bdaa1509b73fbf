"""Statements with changes in their WITH clause, and sub-queries that lock rows, beside PostgreSQL."""

from __future__ import annotations

import threading

import psycopg
import pytest

from engine.statements.data_change import SMALL_ROWS
from tests.end_to_end.test_isolation import Client
from tests.engine.session.conftest import SCHEMA, Pair
from tests.server import ShoalServer


@pytest.fixture
def tables(both_paths: Pair) -> Pair:
    both_paths.run(
        "CREATE TABLE a (id int PRIMARY KEY, v text, n int DEFAULT 5)",
        "CREATE TABLE b (id int, v text)",
        "INSERT INTO a SELECT i, 'v' || i, i * 10 FROM generate_series(1, 20) i",
    )
    return both_paths


def test_returning_feeds_the_rest(tables: Pair) -> None:
    tables.same(
        "WITH d AS (DELETE FROM a WHERE id <= 3 RETURNING *) INSERT INTO b SELECT id, v FROM d",
        "WITH d AS (DELETE FROM a WHERE id = 4 RETURNING *) SELECT * FROM d",
        "WITH d(x) AS (DELETE FROM a WHERE id = 5 RETURNING id, v AS w) SELECT x, w, count(*) FROM d GROUP BY x, w",
        "WITH u AS (UPDATE a SET v = 'new' WHERE id BETWEEN 6 AND 8 RETURNING id, v), "
        "i AS (INSERT INTO b SELECT * FROM u RETURNING *) SELECT u.id, i.v FROM u JOIN i USING (id)",
        "WITH i AS (INSERT INTO a (id, v) SELECT 60 + g, 'd' FROM generate_series(1, 3) g RETURNING n) "
        "SELECT sum(n) FROM i",
        "WITH i AS (INSERT INTO a VALUES (61, 'x') ON CONFLICT (id) DO UPDATE SET v = 'y' RETURNING id, v) "
        "INSERT INTO b SELECT * FROM i RETURNING *",
        "WITH a1 AS (INSERT INTO a VALUES (71, 'r') RETURNING id) SELECT (SELECT id FROM a1), exists(SELECT FROM a1)",
        "WITH a1 AS (INSERT INTO a VALUES (72, 'r') RETURNING id) "
        "UPDATE b SET v = (SELECT id FROM a1)::text WHERE id = 1 RETURNING *",
        "WITH a1 AS (INSERT INTO a VALUES (73, 'r') RETURNING id) INSERT INTO b VALUES ((SELECT id FROM a1), 'v')",
        "CREATE TABLE made AS WITH i AS (INSERT INTO b VALUES (77, 'made') RETURNING *) SELECT * FROM i",
        "SELECT * FROM a",
        "SELECT * FROM b",
        "SELECT * FROM made",
    )


def test_parts_see_what_was_there_before(tables: Pair) -> None:
    tables.same(
        "WITH i AS (INSERT INTO b VALUES (100, 'x'), (101, 'y') RETURNING *) SELECT count(*) FROM b, i",
        "WITH i AS (INSERT INTO a VALUES (50, 'fifty')) UPDATE a SET v = 'seen' WHERE id = 50",
        "WITH u AS (UPDATE a SET id = id + 1000 WHERE id > 10 RETURNING id), s AS (SELECT max(id) m FROM a) "
        "SELECT m, count(*) FROM s, u GROUP BY m",
        "BEGIN",
        "INSERT INTO a VALUES (-1, 'mine')",
        "WITH d AS (DELETE FROM a WHERE id < 3 RETURNING *), i AS (INSERT INTO a VALUES (-3, 'x')) "
        "SELECT count(*), min(id) FROM a",
        "SELECT * FROM a",
        "ROLLBACK",
        "SELECT * FROM a",
    )


def test_every_part_runs_once_and_to_its_end(tables: Pair) -> None:
    tables.same(
        "WITH d AS (DELETE FROM a WHERE id < 11 RETURNING id) SELECT 1 FROM d LIMIT 1",
        "SELECT count(*) FROM a",
        "WITH i AS (INSERT INTO b VALUES (8, 'z')) SELECT 1",
        "WITH n AS (SELECT generate_series(1, 3) g), i1 AS (INSERT INTO b SELECT g, 'i1' FROM n RETURNING *), "
        "i2 AS (INSERT INTO b SELECT g, 'i2' FROM n RETURNING *) SELECT * FROM i1 UNION ALL SELECT * FROM i2",
        "CREATE SEQUENCE s",
        "WITH n AS (SELECT nextval('s') g), i AS (INSERT INTO b SELECT g, 's' FROM n RETURNING id) "
        "SELECT i.id, n.g FROM i, n",
        "SELECT * FROM b",
    )


def test_a_row_is_changed_once(tables: Pair) -> None:
    tables.run(
        "WITH u AS (UPDATE a SET v = v || '!' WHERE id = 9 RETURNING *) UPDATE a SET v = a.v || '!' WHERE id = 9",
        "WITH u AS (UPDATE a SET v = 'u' WHERE id = 8 RETURNING *) DELETE FROM a USING u WHERE a.id = u.id",
    )
    tables.same(
        "SELECT v FROM a WHERE id = 9",
        "SELECT v FROM a WHERE id = 8",
        "WITH i AS (INSERT INTO a VALUES (70, 'c') RETURNING id) INSERT INTO a SELECT id, 'd' FROM i "
        "ON CONFLICT (id) DO UPDATE SET v = 'x'",
        "WITH i AS (INSERT INTO a VALUES (71, 'c') RETURNING id) INSERT INTO a SELECT id, 'd' FROM i",
        "SELECT count(*) FROM a",
    )


def test_foreign_keys_are_checked_at_the_end(both_paths: Pair) -> None:
    both_paths.run("CREATE TABLE p (id int PRIMARY KEY)", "CREATE TABLE c (id int PRIMARY KEY, p int REFERENCES p)")
    both_paths.same(
        "WITH x AS (INSERT INTO p VALUES (1)) INSERT INTO c VALUES (1, 1)",
        "WITH x AS (INSERT INTO c VALUES (2, 2)) INSERT INTO p VALUES (2)",
        "WITH x AS (INSERT INTO c VALUES (3, 33) RETURNING p) SELECT * FROM x",
        "WITH x AS (DELETE FROM p WHERE id = 2) DELETE FROM c WHERE id = 2",
        "WITH x AS (DELETE FROM p WHERE id = 1) SELECT 1",
        "SELECT * FROM c",
        "SELECT * FROM p",
        "ALTER TABLE c DROP CONSTRAINT c_p_fkey",
        "ALTER TABLE c ADD FOREIGN KEY (p) REFERENCES p ON DELETE CASCADE",
        "WITH x AS (INSERT INTO c VALUES (9, 1)) DELETE FROM p WHERE id = 1",
        "SELECT * FROM c",
    )


def test_errors(tables: Pair) -> None:
    tables.same(
        "WITH x AS (INSERT INTO b VALUES (8, 'z')) SELECT * FROM x",
        "WITH RECURSIVE t AS (INSERT INTO b SELECT * FROM t RETURNING *) SELECT * FROM t",
        "SELECT * FROM (WITH x AS (INSERT INTO b VALUES (9, 'q') RETURNING *) SELECT * FROM x) s",
        "INSERT INTO b WITH d AS (DELETE FROM b RETURNING *) SELECT * FROM d",
        "CREATE VIEW v AS WITH d AS (DELETE FROM b RETURNING *) SELECT * FROM d",
        "DECLARE c CURSOR FOR WITH d AS (DELETE FROM b RETURNING *) SELECT * FROM d",
        "WITH i AS (INSERT INTO b VALUES (1, 'kept?')) SELECT 1 / (SELECT 0 FROM a WHERE id = 1)",
        "SELECT * FROM b",
        "BEGIN READ ONLY",
        "WITH d AS (DELETE FROM a RETURNING *) SELECT * FROM d",
        "ROLLBACK",
    )


def test_parameters_and_cursors_of_the_protocol(tables: Pair) -> None:
    sql = "WITH u AS (UPDATE a SET n = n + %s WHERE id = ANY(%s) RETURNING id, n) SELECT id, n + %s FROM u ORDER BY id"
    for connection in (tables.shoal, tables.postgres):
        for _ in range(7):  # prepared from the fifth on
            found = connection.execute(sql, (1, [1, 2], 100)).fetchall()
        assert found == [(1, 117), (2, 127)]
        found = connection.execute(sql, (1, [1, 2], 100), binary=True).fetchall()
        assert found == [(1, 118), (2, 128)]


def test_many_rows(tables: Pair) -> None:
    rows = SMALL_ROWS + 500
    tables.run(f"INSERT INTO a SELECT i, 'many', i FROM generate_series(21, {rows}) i")
    tables.same(
        "WITH d AS (DELETE FROM a WHERE id % 2 = 0 RETURNING id, v) INSERT INTO b SELECT * FROM d",
        "WITH u AS (UPDATE a SET v = 'big' RETURNING id, n), i AS (INSERT INTO b SELECT id, 'n' FROM u) "
        "SELECT count(*), sum(n) FROM u",
        "SELECT count(*), sum(id), min(v), max(v) FROM a",
        "SELECT count(*), sum(id), min(v), max(v) FROM b",
    )


def test_queues(tables: Pair) -> None:
    tables.same(
        "WITH q AS (SELECT id FROM a ORDER BY id LIMIT 2 FOR UPDATE SKIP LOCKED) "
        "UPDATE a SET n = 77 FROM q WHERE a.id = q.id RETURNING a.id, a.n",
        "UPDATE a SET n = 78 WHERE id = (SELECT id FROM a WHERE n > 5 ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED) "
        "RETURNING id, n",
        "DELETE FROM a WHERE id IN (SELECT id FROM a ORDER BY id LIMIT 2 FOR UPDATE) RETURNING id",
        "WITH q AS (SELECT id FROM a ORDER BY id LIMIT 2 FOR NO KEY UPDATE) SELECT count(*) FROM q",
    )


def test_workers_of_a_queue_share_nothing(pair: Pair, shoal: ShoalServer) -> None:
    pair.shoal.execute("CREATE TABLE jobs (id int PRIMARY KEY, done bool DEFAULT false)")
    pair.shoal.execute("INSERT INTO jobs SELECT generate_series(1, 60)")
    taken: list[int] = []

    def work() -> None:
        with psycopg.connect(shoal.dsn, autocommit=True) as connection:
            connection.execute(f"SET search_path = {SCHEMA}".encode())
            while True:
                rows = connection.execute(
                    "WITH job AS (SELECT id FROM jobs WHERE NOT done ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED), "
                    "gone AS (DELETE FROM jobs USING job WHERE jobs.id = job.id RETURNING jobs.id) SELECT id FROM gone"
                ).fetchall()
                if not rows:
                    return
                taken.append(rows[0][0])

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    left = pair.shoal.execute("SELECT id FROM jobs").fetchall()
    assert sorted(taken) + [row[0] for row in left] == sorted({*taken, *(row[0] for row in left)})
    assert len(taken) + len(left) == 60


def test_a_changed_row_has_the_statement_run_again(tables: Pair, shoal: ShoalServer) -> None:
    sql = "WITH i AS (INSERT INTO b VALUES (1, 'once')), u AS (UPDATE a SET n = n + 1 WHERE id = 1 RETURNING n)"
    first, second = Client(shoal.dsn, SCHEMA), Client(shoal.dsn, SCHEMA)
    try:
        first.run("BEGIN", "UPDATE a SET n = 1000 WHERE id = 1")
        waiting = second.waits(f"{sql} SELECT n FROM u")
        first.run("COMMIT")
        assert waiting.result(20) == [(1001,)]
    finally:
        first.close()
        second.close()
    assert tables.shoal.execute("SELECT * FROM b").fetchall() == [(1, "once")]


def test_explain_shows_the_parts(pair: Pair) -> None:
    pair.shoal.execute("CREATE TABLE a (id int PRIMARY KEY)")
    plan = pair.shoal.execute("EXPLAIN WITH d AS (DELETE FROM a WHERE id = 1 RETURNING id) SELECT * FROM d").fetchall()
    lines = [row[0].strip() for row in plan]
    assert "CTE d" in lines
    assert "Delete on a" in lines
