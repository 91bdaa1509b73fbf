"""COPY TO STDOUT beside PostgreSQL, byte for byte, on both ways: small row plans and the worker's results."""

from __future__ import annotations

import pytest

from tests.engine.bulk.conftest import Pair

ROWS = [
    "(1, 'plain', 1.50, true)",
    "(2, E'tab\\there', -3, false)",
    "(3, E'line\\nfeed\\r', NULL, NULL)",
    "(4, E'back\\\\slash', 0, true)",
    "(5, '', 7, true)",
    "(6, NULL, 7, true)",
    "(7, 'comma, \"quote\" and ''one''', 7, true)",
    "(8, E'\\b\\f\\x0b', 7, true)",
    "(9, 'N', 7, true)",
    "(10, E'\\\\N', 7, true)",
    "(11, E'\\\\.', 7, true)",
    "(12, 'ünïcödé', 12345678.90, true)",
    "(13, 'a|b', 1, true)",
]
OPTIONS = [
    "",
    "DELIMITER '|'",
    "NULL 'x'",
    "CSV",
    "CSV HEADER",
    "(FORMAT csv, DELIMITER '|', NULL 'N')",
    "(FORMAT csv, FORCE_QUOTE *)",
    "(FORMAT csv, FORCE_QUOTE (b, a), HEADER)",
    "(FORMAT csv, QUOTE '''')",
    "(FORMAT csv, ESCAPE '\\')",
    "(HEADER)",
]


@pytest.fixture
def table(pair: Pair) -> Pair:
    pair.run('CREATE TABLE t (a int PRIMARY KEY, b text, "c ""x""" numeric(10,2), d bool)')
    pair.run(f"INSERT INTO t VALUES {', '.join(ROWS)}")
    return pair


@pytest.mark.parametrize("options", OPTIONS)
def test_tables_and_queries(table: Pair, options: str) -> None:
    table.same_copy_out(f"COPY (SELECT * FROM t WHERE a = 7) TO STDOUT {options}")
    table.same_copy_out(f"COPY (SELECT * FROM t ORDER BY a) TO STDOUT {options}")
    table.same_copy_out(f"COPY (SELECT a, b, max(d::int) AS m FROM t GROUP BY a, b ORDER BY a) TO STDOUT {options}")
    table.same_copy_out(f"COPY t TO STDOUT {options}")
    table.same_copy_out(f"COPY t (b, a) TO STDOUT {options}")


def test_a_single_column(table: Pair) -> None:
    for options in ("", "CSV", "CSV HEADER"):
        table.same_copy_out(f"COPY (SELECT b FROM t ORDER BY a) TO STDOUT {options}")
        table.same_copy_out(f"COPY (SELECT b FROM t GROUP BY b ORDER BY b) TO STDOUT {options}")


def test_what_returning_gives(table: Pair) -> None:
    table.same_copy_out("COPY (INSERT INTO t (a, b) VALUES (20, 'new'), (21, NULL) RETURNING *) TO STDOUT")
    table.same_copy_out("COPY (DELETE FROM t WHERE a > 20 RETURNING a, b) TO STDOUT CSV")
    table.same("SELECT count(*) FROM t")


def test_nothing(table: Pair) -> None:
    table.run("TRUNCATE t")
    table.same_copy_out("COPY (SELECT * FROM t ORDER BY a) TO STDOUT")
    table.same_copy_out("COPY t TO STDOUT CSV HEADER")


def test_what_goes_out_comes_in(table: Pair) -> None:
    table.run("CREATE TABLE again (LIKE t)")
    for options in OPTIONS:
        if "NULL" in options or "FORCE" in options:
            continue
        data = table.same_copy_out(f"COPY t TO STDOUT {options}")
        table.same_copy_in(f"COPY again FROM STDIN {options}", data, "again")
        table.same("SELECT count(*) FROM again JOIN t USING (a) WHERE again.b IS NOT DISTINCT FROM t.b")
        table.run("TRUNCATE again")


def test_own_changes_are_seen(table: Pair) -> None:
    table.run("BEGIN", "UPDATE t SET b = 'own' WHERE a < 3", "DELETE FROM t WHERE a > 3")
    table.same_copy_out("COPY (SELECT * FROM t ORDER BY a) TO STDOUT")
    table.run("ROLLBACK")
