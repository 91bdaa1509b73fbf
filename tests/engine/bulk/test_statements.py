"""INSERT ... SELECT, UPDATE and DELETE of few and of many rows, beside PostgreSQL."""

from __future__ import annotations

import pytest

from engine.statements.data_change import SMALL_ROWS
from tests.engine.bulk.conftest import Pair

FEW, MANY = 300, SMALL_ROWS + 1000
SUMS = "SELECT count(*), sum(id), sum(a), min(b), max(b), sum(c), sum(g) FROM t"


@pytest.fixture(params=[FEW, MANY], ids=["few", "many"])
def rows(request: pytest.FixtureRequest) -> int:
    count: int = request.param
    return count


@pytest.fixture
def table(pair: Pair, rows: int) -> Pair:
    """src: rows 1 to `rows`. t: a serial key, a unique text, an index, a check, a generated column."""
    pair.run(
        "CREATE TABLE src (a int PRIMARY KEY, b text, c numeric(10,2))",
        f"INSERT INTO src SELECT i, 'row ' || i, i * 1.5 FROM generate_series(1, {rows}) i",
        "CREATE TABLE t (id serial PRIMARY KEY, a int NOT NULL, b text UNIQUE, "
        "c numeric DEFAULT 7 CHECK (c < 1000000), g int GENERATED ALWAYS AS (a * 2) STORED)",
        "CREATE INDEX ta ON t (a, c)",
        "INSERT INTO t (a, b) SELECT a, b FROM src ORDER BY a",
    )
    return pair


def same_all(pair: Pair, *statements: str) -> None:
    for sql in statements:
        pair.same(sql)


def test_insert(table: Pair) -> None:
    same_all(
        table,
        SUMS,
        "SELECT * FROM t WHERE b = 'row 77'",
        "INSERT INTO t (a, b) SELECT a, b FROM src WHERE a = 5",
        "INSERT INTO t (id, a, b) SELECT a + 100000, a, 'x' || b FROM src",
        "INSERT INTO t (id, a, b) SELECT a + 200000, a, 'y' FROM src WHERE a < 3",
        "INSERT INTO t (id, a) SELECT a + 300000, CASE WHEN a = 7 THEN NULL ELSE a END FROM src WHERE a > 6 ORDER BY a",
        "INSERT INTO t (id, a, c) SELECT a + 300000, a, 1000000 FROM src WHERE a = 9",
        SUMS,
    )


def test_returning(table: Pair, rows: int) -> None:
    sql = "INSERT INTO t (id, a, b) SELECT a + 100000, a, 'x' || b FROM src RETURNING id, b, g, c + 1 AS more"
    for connection in (table.shoal, table.postgres):
        found = sorted(connection.execute(sql.encode()).fetchall())
        assert len(found) == rows
        assert found[76][:3] == (100077, "xrow 77", 154)
        changed = connection.execute(b"UPDATE t SET c = a + g RETURNING a, c").fetchall()
        assert sorted(changed)[2] == (2, 6)
        assert len(changed) == 2 * rows
        gone = connection.execute(b"DELETE FROM t WHERE a % 2 = 0 RETURNING id").fetchall()
        assert len(gone) == rows // 2 * 2
    table.same(SUMS)


def test_update(table: Pair) -> None:
    same_all(
        table,
        "UPDATE t SET c = c + 1",
        "SELECT * FROM t WHERE a = 7 AND c = 8",
        "UPDATE t SET b = 'y' || b",
        "SELECT * FROM t WHERE b = 'row 77'",
        "SELECT * FROM t WHERE b = 'yrow 77'",
        "UPDATE t SET a = a + 1, c = a",
        "SELECT id, g FROM t WHERE a = 78",
        "UPDATE t SET id = id + 100000",
        "SELECT * FROM t WHERE id = 100077",
        "SELECT * FROM t WHERE b = 'yrow 77'",
        "SELECT id FROM t WHERE a BETWEEN 70 AND 75 ORDER BY a",
        "UPDATE t SET c = 1000000 WHERE a > 2",
        "UPDATE t SET a = NULL WHERE id > 100001",
        "UPDATE t SET c = src.c, b = src.b || '!' FROM src WHERE src.a = t.a",
        SUMS,
    )
    for sql in ("UPDATE t SET b = 'same'", "UPDATE t SET id = 5"):
        outcomes = [connection_outcome[0] for connection_outcome in both(table, sql)]
        assert outcomes == ["23505", "23505"]
    table.same(SUMS)


def both(pair: Pair, sql: str) -> list[tuple[object, ...]]:
    from tests.engine.bulk.conftest import outcome

    return [outcome(pair.shoal, sql), outcome(pair.postgres, sql)]  # type: ignore[list-item]


def test_delete(table: Pair) -> None:
    same_all(
        table,
        "DELETE FROM t WHERE id % 2 = 0",
        SUMS,
        "SELECT * FROM t WHERE b = 'row 78'",
        "SELECT * FROM t WHERE b = 'row 79'",
        "INSERT INTO t (id, a, b) SELECT a, a, b FROM src WHERE a % 2 = 0",
        SUMS,
        "DELETE FROM t USING src WHERE src.a = t.a AND src.c > 10",
        SUMS,
        "DELETE FROM t",
        "SELECT count(*) FROM t",
    )


def test_on_conflict(table: Pair) -> None:
    same_all(
        table,
        "INSERT INTO t (id, a, b) SELECT a + 100000, 0, b FROM src ON CONFLICT DO NOTHING",
        "INSERT INTO t (id, a, b) SELECT a + 100000, a + 5, b FROM src WHERE a < 50 "
        "ON CONFLICT (b) DO UPDATE SET a = excluded.a, c = t.c + 1",
        SUMS,
        "INSERT INTO t (id, a, b) SELECT a + 100000, 1, 'row 1' FROM src WHERE a < 3 "
        "ON CONFLICT (b) DO UPDATE SET a = 0",
        SUMS,
    )


def test_one_transaction(table: Pair) -> None:
    table.run("BEGIN")
    same_all(
        table,
        "DELETE FROM t WHERE a = 5",
        "UPDATE t SET b = 'single' WHERE a = 6",
        "UPDATE t SET c = c + 1",
        SUMS,
        "SELECT * FROM t WHERE a < 9 ORDER BY a",
        "DELETE FROM t WHERE a > 10",
    )
    table.run("SAVEPOINT s")
    same_all(
        table,
        "INSERT INTO t (id, a, b) SELECT a + 100000, a, b FROM src WHERE a > 10",
        "UPDATE t SET id = id + 300000",
        SUMS,
        "UPDATE t SET c = 0 WHERE a = 7",
        "SELECT * FROM t WHERE a < 9 ORDER BY a",
    )
    table.run("ROLLBACK TO s")
    table.same(SUMS)
    table.run("COMMIT")
    same_all(table, SUMS, "SELECT * FROM t WHERE a < 9 ORDER BY a", "SELECT id FROM t WHERE b = 'single'")


def test_rows_without_a_key(pair: Pair, rows: int) -> None:
    pair.run(
        "CREATE TABLE n (a int, b text)",
        "CREATE INDEX nb ON n (b)",
        f"INSERT INTO n SELECT i, 'r' || i % 10 FROM generate_series(1, {rows}) i",
    )
    same_all(
        pair,
        "INSERT INTO n SELECT a, b FROM n",
        "UPDATE n SET a = a + 1 WHERE b <> 'r3'",
        "SELECT count(*), sum(a), count(DISTINCT a) FROM n",
        "DELETE FROM n WHERE a % 3 = 0",
        "SELECT b, count(*), sum(a) FROM n GROUP BY b ORDER BY b",
        "SELECT count(*) FROM n WHERE b = 'r7'",
    )


def test_partial_and_expression_indexes(pair: Pair, rows: int) -> None:
    pair.run(
        "CREATE TABLE e (a int PRIMARY KEY, b text, live bool)",
        "CREATE UNIQUE INDEX eb ON e (lower(b)) WHERE live",
        f"INSERT INTO e SELECT i, 'R' || i, i % 2 = 0 FROM generate_series(1, {rows}) i",
    )
    same_all(
        pair,
        "INSERT INTO e VALUES (1000000, 'r2', true)",
        "INSERT INTO e VALUES (1000000, 'r3', true)",
        "UPDATE e SET live = NOT live WHERE a < 1000000 AND a <> 3",
        "SELECT count(*) FROM e WHERE live",
        "INSERT INTO e SELECT a + 2000000, b, live FROM e WHERE a = 1",
        "INSERT INTO e SELECT a + 2000000, b, live FROM e WHERE NOT live",
        "DELETE FROM e WHERE live",
        "INSERT INTO e SELECT a + 4000000, b, true FROM e WHERE a > 2000000",
        "SELECT count(*), sum(a), sum(live::int) FROM e",
    )


def test_foreign_keys(pair: Pair, rows: int) -> None:
    pair.run(
        "CREATE TABLE p (id int PRIMARY KEY, v int)",
        f"INSERT INTO p SELECT i, 0 FROM generate_series(1, {rows}) i",
        "CREATE TABLE c (id int PRIMARY KEY, p int REFERENCES p ON DELETE CASCADE)",
        "CREATE INDEX cp ON c (p)",
    )
    same_all(
        pair,
        "INSERT INTO c SELECT id, id FROM p",
        "INSERT INTO c SELECT id + 1000000, id + 1 FROM p ORDER BY id",
        "UPDATE p SET v = 1",
        "UPDATE c SET p = 1 WHERE id > 5",
        "UPDATE c SET p = 0",
        "DELETE FROM p WHERE id < 4",
        "SELECT count(*), sum(p) FROM c",
        "INSERT INTO c SELECT id, id FROM p WHERE id > 5",
        "DELETE FROM p",
        "SELECT count(*) FROM c",
    )
