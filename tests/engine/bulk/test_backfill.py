"""Jobs of schema changes over rows that are there, beside PostgreSQL."""

from __future__ import annotations

import pytest

from tests.engine.bulk.conftest import Pair

SMALL = (
    "CREATE TABLE n (a int, b text)",
    "INSERT INTO n VALUES (1, 'x'), (NULL, 'y'), (NULL, 'z')",
    "CREATE TABLE d (a int, b text)",
    "INSERT INTO d VALUES (1, 'x'), (2, 'x'), (1, 'x')",
    "CREATE TABLE p (id int PRIMARY KEY)",
    "INSERT INTO p VALUES (1)",
)


@pytest.mark.parametrize(
    "sql",
    [
        "ALTER TABLE n ADD PRIMARY KEY (a)",
        "ALTER TABLE d ADD PRIMARY KEY (a)",
        "ALTER TABLE d ADD UNIQUE (a, b)",
        "CREATE UNIQUE INDEX di ON d (a)",
        "CREATE UNIQUE INDEX di ON d ((a + 1))",
        "CREATE UNIQUE INDEX di ON d (a) WHERE b = 'y'",
        "ALTER TABLE n ALTER a SET NOT NULL",
        "ALTER TABLE d ADD CHECK (a > 1)",
        "ALTER TABLE d ADD CHECK (a > 0)",
        "ALTER TABLE d ADD CONSTRAINT f FOREIGN KEY (a) REFERENCES p (id)",
        "ALTER TABLE d ALTER b TYPE int USING b::int",
        "CREATE UNIQUE INDEX di ON n (a)",
        "CREATE UNIQUE INDEX di ON n (a) NULLS NOT DISTINCT",
        "ALTER TABLE d ADD COLUMN x int NOT NULL",
        "ALTER TABLE d ADD COLUMN x int CHECK (x > 0) DEFAULT -1",
    ],
)
def test_what_rows_forbid(pair: Pair, sql: str) -> None:
    pair.run(*SMALL)
    pair.same(sql)
    pair.same("SELECT * FROM n ORDER BY a, b")
    pair.same("SELECT * FROM d ORDER BY a, b")


@pytest.fixture
def big(pair: Pair) -> Pair:
    pair.run(
        "CREATE TABLE big (a int, b text, c bigint)",
        "INSERT INTO big SELECT i, 'r' || i, i % 100 FROM generate_series(1, 40000) i",
    )
    return pair


SUMS = "SELECT count(*), sum(a), min(b), max(b), sum(c) FROM big"


def test_a_primary_key(big: Pair) -> None:
    for sql in (
        "ALTER TABLE big ADD PRIMARY KEY (a)",
        SUMS,
        "SELECT * FROM big WHERE a = 777",
        "INSERT INTO big VALUES (777, 'again', 0)",
        "ALTER TABLE big DROP CONSTRAINT big_pkey",
        "INSERT INTO big VALUES (777, 'again', 0)",
        "ALTER TABLE big ADD PRIMARY KEY (a)",
        "ALTER TABLE big ADD PRIMARY KEY (b, a)",
        "SELECT a FROM big WHERE b BETWEEN 'r100' AND 'r1002' ORDER BY b",
        SUMS,
    ):
        big.same(sql)


def test_indexes(big: Pair) -> None:
    for sql in (
        "CREATE INDEX bc ON big (c, b)",
        "CREATE UNIQUE INDEX bb ON big (b)",
        "SELECT count(*) FROM big WHERE c = 7",
        "SELECT * FROM big WHERE b = 'r500'",
        "INSERT INTO big VALUES (100001, 'r1', 1)",
        "UPDATE big SET b = 'moved' WHERE a = 500",
        "SELECT * FROM big WHERE b IN ('moved', 'r500')",
        "ALTER TABLE big ADD PRIMARY KEY (a)",
        "SELECT * FROM big WHERE b = 'r501'",
        "SELECT count(*) FROM big WHERE c = 7",
    ):
        big.same(sql)


def test_types_and_new_columns(big: Pair) -> None:
    for sql in (
        "ALTER TABLE big ALTER c TYPE numeric(12,2)",
        "ALTER TABLE big ALTER b TYPE varchar(4)",
        "ALTER TABLE big ALTER b TYPE varchar(10)",
        SUMS,
        "SELECT * FROM big WHERE a = 777",
        "ALTER TABLE big ADD COLUMN e serial, ADD COLUMN k int DEFAULT 5",
        "SELECT count(DISTINCT e), min(e), max(e), sum(k) FROM big",
        "ALTER TABLE big ADD COLUMN g int GENERATED ALWAYS AS (a * 2) STORED",
        "SELECT sum(g) FROM big",
        "SELECT a, g, k FROM big WHERE a = 5",
        "INSERT INTO big (a, b, c) VALUES (0, 'new', 1)",
        "SELECT * FROM big WHERE a = 0",
    ):
        big.same(sql)


def test_in_one_transaction_with_changes(big: Pair) -> None:
    big.run("BEGIN", "DELETE FROM big WHERE a = 5", "UPDATE big SET c = c + 1", "INSERT INTO big VALUES (0, 'zero', 0)")
    for sql in (
        "ALTER TABLE big ADD PRIMARY KEY (a)",
        "CREATE INDEX bc ON big (c)",
        SUMS,
        "SELECT * FROM big WHERE a IN (0, 4, 5) ORDER BY a",
        "SELECT count(*) FROM big WHERE c = 8",
        "INSERT INTO big VALUES (5, 'five', 8)",
        "UPDATE big SET c = 0 WHERE a < 10",
        SUMS,
    ):
        big.same(sql)
    big.run("COMMIT")
    for sql in (SUMS, "SELECT * FROM big WHERE a < 7 ORDER BY a", "SELECT count(*) FROM big WHERE c = 8"):
        big.same(sql)


def test_foreign_keys_over_many_rows(big: Pair) -> None:
    for sql in (
        "ALTER TABLE big ADD PRIMARY KEY (a)",
        "ALTER TABLE big ADD UNIQUE (b)",
        "CREATE TABLE child (id bigint, name varchar(20))",
        "INSERT INTO child SELECT a, b FROM big",
        "ALTER TABLE child ADD FOREIGN KEY (id) REFERENCES big (a)",
        "ALTER TABLE child ADD FOREIGN KEY (name) REFERENCES big (b)",
        "INSERT INTO child VALUES (0, 'r1')",
        "ALTER TABLE child DROP CONSTRAINT child_id_fkey, DROP CONSTRAINT child_name_fkey",
        "INSERT INTO child VALUES (100000000000, NULL), (NULL, 'none')",
        "ALTER TABLE child ADD FOREIGN KEY (id) REFERENCES big (a)",
        "ALTER TABLE child ADD FOREIGN KEY (name) REFERENCES big (b)",
    ):
        big.same(sql)
