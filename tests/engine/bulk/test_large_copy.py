"""COPY beyond what goes row by row: whole columns into bulk runs, with the same outcome as PostgreSQL's."""

from __future__ import annotations

import os
from decimal import Decimal
from pathlib import Path

import psycopg
import pytest

from engine.bulk.load import PIECE_BYTES, SMALL_ROWS
from tests.engine.bulk.conftest import Connection, Pair, copy_in, failure
from tests.server import ShoalServer

MANY = SMALL_ROWS + 1000


def lines(count: int, start: int = 1) -> list[bytes]:
    return [b"%d\tname %d\t%d.50\t2024-01-01 00:00:%02d\n" % (i, i, i, i % 60) for i in range(start, start + count)]


TABLE = "CREATE TABLE t (a int PRIMARY KEY, b text UNIQUE, c numeric(12,2), d timestamp)"
SUMS = "SELECT count(*), sum(a), min(b), max(b), sum(c), max(d) FROM t"


@pytest.fixture
def table(pair: Pair) -> Pair:
    pair.run(TABLE, "CREATE INDEX td ON t (d, c)")
    return pair


def load(
    pair: Pair, data: bytes, sql: str = "COPY t FROM STDIN", what: str = "(SELECT count(*) FROM t) AS x"
) -> object:
    return pair.same_copy_in(sql, data, what)


def test_rows_are_there_on_every_way(table: Pair) -> None:
    load(table, b"".join(lines(MANY)))
    table.same(SUMS)
    table.same("SELECT * FROM t WHERE a = 777")
    table.same("SELECT * FROM t WHERE b = 'name 4321'")
    table.same("SELECT a FROM t WHERE a BETWEEN 100 AND 110 ORDER BY a")
    table.same("SELECT count(*) FROM t WHERE d = '2024-01-01 00:00:07' AND c > 100")
    table.same("UPDATE t SET b = 'changed' WHERE a = 5 RETURNING *")
    table.same("INSERT INTO t VALUES (5, 'five'), (6, 'six')")
    table.same("INSERT INTO t VALUES (0, 'name 9')")
    table.same("DELETE FROM t WHERE a = 6")
    load(table, b"6\tsix\t\\N\t\\N\n")
    table.same(SUMS)


@pytest.mark.parametrize("seed", [1, 2])
def test_rows_in_any_order_with_escapes_and_nulls(table: Pair, seed: int) -> None:
    import random

    source = random.Random(seed)
    found = lines(MANY)
    source.shuffle(found)
    found[17] = b"100001\tt\\tab \\\\ back\t\\N\t\\N\n"
    found[18] = b"100002\ta\\\nb\t1\t2024-01-01\n"
    found[19] = b"100003\t\\N\t1e2\t2024-01-01 5:00\n"
    load(table, b"".join(found))
    table.same(SUMS)
    table.same("SELECT * FROM t WHERE a > 100000 ORDER BY a")


def test_the_first_line_that_is_wrong_is_named(table: Pair) -> None:
    for number, line in (
        (4000, b"x\ty\t1\t\\N\n"),
        (5500, b"1\tname 1\n"),
        (3000, b"\\N\tq\t1\t\\N\n"),
        (5999, b"5\tunique\t1\t\\N\n"),
        (5999, b"100000\tname 3\t1\t\\N\n"),
        (10, b"7\tq\t99999999999.999\t\\N\n"),
    ):
        found = lines(MANY)
        found[number] = line
        assert isinstance(load(table, b"".join(found)), tuple)
    load(table, b"".join(lines(10)))
    load(table, b"".join(lines(MANY, 5)))
    table.same(SUMS)


def test_a_key_in_two_pieces(ours: Connection) -> None:
    ours.execute("CREATE TABLE w (a int PRIMARY KEY, b int UNIQUE, pad text)")
    count = 2 * PIECE_BYTES // 1000
    found = [b"%d\t%d\t%s\n" % (i % 2 * count + i, i, b"x" * 1000) for i in range(count)]
    status, _ = copy_in(ours, "COPY w FROM STDIN", b"".join(found), "(SELECT 1 AS a) x")
    assert status == f"COPY {count}"
    ours.execute("TRUNCATE w")
    for line, name, key in (
        (b"%d\t-1\tx\n" % (count + 1), "w_pkey", f"(a)=({count + 1})"),
        (b"-1\t1\tx\n", "w_b_key", "(b)=(1)"),
    ):
        status, _ = copy_in(ours, "COPY w FROM STDIN", b"".join([*found, line]), "(SELECT 1 AS a) x")
        assert status[:3] == (
            "23505",
            f'duplicate key value violates unique constraint "{name}"',
            f"Key {key} already exists.",
        )
    assert ours.execute("SELECT count(*) FROM w").fetchone() == (0,)


def test_serials_defaults_generated_and_checks(pair: Pair) -> None:
    pair.run(
        "CREATE TABLE q (id serial, a int NOT NULL CHECK (a >= 0), b int DEFAULT 7, c text DEFAULT 'c' || 1, "
        "g int GENERATED ALWAYS AS (a * b) STORED)"
    )
    data = b"".join(b"%d\n" % i for i in range(MANY))
    count = "(SELECT count(*), max(id), sum(g), min(c) FROM q) x"
    pair.same_copy_in("COPY q (a) FROM STDIN", data, count)
    pair.same("SELECT * FROM q WHERE a = 5000")
    pair.same_copy_in("COPY q (a) FROM STDIN", data + b"-1\n", count)
    pair.same_copy_in("COPY q (a) FROM STDIN WHERE a % 2 = 0", data, "(SELECT count(*) FROM q) x")
    pair.same("SELECT count(*), sum(a), sum(g) FROM q")


def test_foreign_keys_are_looked_up(pair: Pair) -> None:
    pair.run("CREATE TABLE p (id int PRIMARY KEY)", "INSERT INTO p SELECT generate_series(0, 99)")
    pair.run("CREATE TABLE c (id int PRIMARY KEY, p int REFERENCES p, up int REFERENCES c)")
    found = [b"%d\t%d\t%d\n" % (i, i % 100, i // 2) for i in range(MANY)]
    pair.same_copy_in("COPY c FROM STDIN", b"".join(found), "(SELECT count(*) FROM c) x")
    pair.run("CREATE TABLE d (id int, p int REFERENCES p)")
    for extra in (b"", b"1\t100\n"):
        data = b"".join(b"%d\t%d\n" % (i, i % 100) for i in range(MANY)) + extra
        pair.same_copy_in("COPY d FROM STDIN", data, "(SELECT count(*), sum(p) FROM d) x")


def test_own_changes_before_and_after(table: Pair) -> None:
    load(table, b"".join(lines(MANY)))
    table.run("BEGIN", "DELETE FROM t WHERE a IN (3, 4)", "UPDATE t SET b = 'moved' WHERE a = 5")
    load(table, b"".join([*lines(2, 3), *lines(MANY, 20000), b"30001\tname 5\t1\t\\N\n"]))
    table.same("SELECT * FROM t WHERE a IN (3, 4, 5, 20001, 30001) ORDER BY a")
    table.same("SELECT * FROM t WHERE b = 'name 5'")
    table.run("UPDATE t SET c = 0 WHERE a = 20001", "DELETE FROM t WHERE a = 20002", "SAVEPOINT s")
    table.same(SUMS)
    load(table, b"".join(lines(MANY, 40000)))
    table.run("ROLLBACK TO s")
    table.same(SUMS)
    table.run("COMMIT")
    table.same(SUMS)
    table.same("SELECT * FROM t WHERE a IN (3, 4, 5, 20001, 20002, 30001) ORDER BY a")


def bulk_files(server: ShoalServer) -> list[str]:
    return os.listdir(Path(server.data) / "changelog" / "bulk")


def test_a_failed_load_leaves_no_file(private_shoal: ShoalServer) -> None:
    with psycopg.connect(private_shoal.dsn, autocommit=True) as connection:
        connection.execute(TABLE)
        with (
            pytest.raises(psycopg.errors.InvalidTextRepresentation),
            connection.cursor().copy("COPY t FROM STDIN") as copy,
        ):
            copy.write(b"".join(lines(MANY)) + b"x\t\\N\t\\N\t\\N\n")
        with pytest.raises(psycopg.errors.QueryCanceled), connection.cursor().copy("COPY t FROM STDIN") as copy:
            copy.write(b"".join(lines(MANY)))
            raise psycopg.errors.QueryCanceled("the client gives up")
        connection.execute("BEGIN")
        with connection.cursor().copy("COPY t FROM STDIN") as copy:
            copy.write(b"".join(lines(MANY)))
        connection.execute("ROLLBACK")
        assert connection.execute("SELECT count(*) FROM t").fetchone() == (0,)
        assert bulk_files(private_shoal) == []


def test_kill_9(private_shoal: ShoalServer) -> None:
    """What was committed is there, what was not has gone, its files too."""
    connection = psycopg.connect(private_shoal.dsn, autocommit=True)
    connection.execute(TABLE)
    connection.execute("CREATE TABLE u AS SELECT 1 AS a")
    with connection.cursor().copy("COPY t FROM STDIN") as copy:
        copy.write(b"".join(lines(MANY)))
    connection.execute("UPDATE t SET c = c + 1")
    connection.execute("BEGIN")
    connection.execute("INSERT INTO u SELECT a FROM t")
    connection.execute("DELETE FROM t")
    private_shoal.kill()
    connection.close()
    private_shoal.start()
    with psycopg.connect(private_shoal.dsn, autocommit=True) as connection:
        expected = (MANY, sum(range(1, MANY + 1)), sum(range(1, MANY + 1)) + MANY + MANY // 2)
        assert connection.execute("SELECT count(*), sum(a), sum(c)::int FROM t").fetchone() == expected
        assert connection.execute("SELECT c FROM t WHERE b = 'name 17'").fetchone() == (Decimal("18.5"),)
        assert connection.execute("SELECT count(*) FROM u").fetchone() == (1,)
        connection.execute("CHECKPOINT")
        assert connection.execute("SELECT c FROM t WHERE b = 'name 17'").fetchone() == (Decimal("18.5"),)
        assert connection.execute("SELECT count(*), sum(a), sum(c)::int FROM t").fetchone() == expected
        assert bulk_files(private_shoal) == []


def test_the_error_of_a_large_load_fails_the_block(pair: Pair) -> None:
    pair.run(TABLE, "BEGIN")
    data = b"".join(lines(MANY)) + b"x\n"
    for connection in (pair.shoal, pair.postgres):
        with pytest.raises(psycopg.Error) as found, connection.cursor().copy("COPY t FROM STDIN") as copy:
            copy.write(data)
        assert failure(found.value)[0] == "22P02"
    pair.same("SELECT 1")
    pair.run("ROLLBACK")
    pair.same(SUMS)
