"""Comparisons with constants of other types, and products that need more than 64 bits, beside PostgreSQL."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import product
from typing import TypeAlias

import psycopg
import pytest

from tests.oracle import PostgresServer
from tests.samples import some
from tests.server import ShoalServer

Connection: TypeAlias = "psycopg.Connection[tuple[object, ...]]"
TABLES = """
CREATE SCHEMA bounded; SET search_path TO bounded;
CREATE TABLE b (n int PRIMARY KEY, d date, s timestamp, i int2, j int4, k int8, m numeric(5,2), w numeric(3,0),
    g numeric);
INSERT INTO b VALUES
    (1, '1994-12-31', '1994-12-31 23:59:59.999999', 1, 1, 1, 1, 1, 1), (2, '1995-01-01', '1995-01-01', 2, 2, 2, 1.01, 2, 1.0),
    (3, '1995-01-02', '1995-01-01 12:00', -1, -1, -1, -1.01, -1, -1.005), (4, 'infinity', 'infinity', 32767, 2147483647,
    9223372036854775807, 999.99, 999, 'infinity'), (5, '-infinity', '-infinity', -32768, -2147483648,
    -9223372036854775808, -999.99, -999, '-infinity'), (6, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL),
    (7, '0044-03-15 BC', '0044-03-15 12:00 BC', 0, 0, 0, 0, 0, 'NaN'), (8, '5874897-12-31', '294246-12-31', 7, 7, 7, 7, 7, 7);
"""  # noqa: E501
DATES = (
    "date '1995-01-01'", "timestamp '1995-01-01'", "timestamp '1995-01-01 12:00'",
    "timestamp '1994-12-31 23:59:59.999999'",
    "timestamp 'infinity'", "timestamp '-infinity'", "date 'infinity'", "date '-infinity'", "date '290000-12-31'",
    "timestamp '0044-03-15 12:00 BC'", "date '1994-01-01' + interval '1 year'", "date '1994-01-01' + 365",
    "timestamp '1995-01-01' - interval '1 second'", "date '4713-01-01 BC'", "NULL::timestamp",
    "date '1995-01-01' + interval '36 hours'",
)  # fmt: skip
NUMBERS = (
    "1", "1::int8", "1::int2", "-1", "0", "40000", "3000000000", "-3000000000", "9223372036854775807", "1.0", "1.5",
    "-1.5",
    "1.005", "-1.005", "0.999999999999999999999999", "1e3", "999.99", "999.995", "1e30", "-1e30", "'NaN'::numeric",
    "'infinity'::numeric", "'-infinity'::numeric", "1.01 - 0.01", "2 * 3 + 1", "NULL::numeric", "7::numeric / 7",
    "1e-30", "-1e-30", "(SELECT avg(m) FROM b)", "(SELECT 1.005 FROM b WHERE n = 1)",
    "(SELECT max(g) FROM b WHERE n < 3)",
)  # fmt: skip
OPERATORS = ("=", "<>", "<", "<=", ">", ">=", "IS DISTINCT FROM", "IS NOT DISTINCT FROM")


@pytest.fixture(scope="module")
def sides(postgres_server: PostgresServer, shoal: ShoalServer) -> Iterator[tuple[Connection, Connection]]:
    """PostgreSQL, and Shoal's columnar path."""
    opened = []
    for dsn in (postgres_server.dsn, shoal.dsn):
        connection = psycopg.connect(dsn, autocommit=True)
        connection.execute(TABLES.encode())
        opened.append(connection)
    oracle, columnar = opened
    columnar.execute("SET shoal.path TO columnar")
    yield oracle, columnar
    for connection in opened:
        connection.execute("DROP SCHEMA bounded CASCADE")
        connection.close()


def _answer(connection: Connection, sql: str) -> object:
    """All rows, or the SQLSTATE of an error."""
    try:
        return connection.execute(sql.encode()).fetchall()
    except psycopg.Error as error:
        return error.sqlstate


@pytest.mark.parametrize(("constant", "column"), some([*product(DATES, "ds"), *product(NUMBERS, "ijkmwg")], 17))
def test_comparisons(sides: tuple[Connection, Connection], constant: str, column: str) -> None:
    wrong = []
    for symbol in OPERATORS:
        for test in (f"{column} {symbol} {constant}", f"{constant} {symbol} {column}"):
            for sql in (f"SELECT {test} FROM b ORDER BY n", f"SELECT n FROM b WHERE {test} ORDER BY n"):
                expected, found = (_answer(side, sql) for side in sides)
                if found not in (expected, "0A000"):  # more than 38 digits
                    wrong.append(f"{sql}: {expected} {found}")
    assert not wrong, "\n".join(wrong)


def test_parameters_are_as_constants(sides: tuple[Connection, Connection]) -> None:
    for symbol in OPERATORS:
        sql = f"SELECT n FROM b WHERE d {symbol} %s::timestamp OR m {symbol} %s::numeric ORDER BY n".encode()
        for values in (("1995-01-01 12:00", "1.005"), ("1995-01-01", "1.01"), ("infinity", "NaN")):
            expected, found = (side.execute(sql, values).fetchall() for side in sides)
            assert expected == found, (symbol, values)


def test_what_fails_fails_where_it_is_reached(sides: tuple[Connection, Connection]) -> None:
    for sql in (
        "SELECT n FROM b WHERE d < date '5874897-01-01' + interval '1 year'",
        "SELECT n FROM b WHERE n > 100 AND j < 1 / 0",
        "SELECT CASE WHEN n > 100 THEN 1 / (n - n) ELSE 2 + 3 END FROM b ORDER BY n",
        "SELECT CASE WHEN true THEN 5 ELSE 1 / 0 END FROM b",
        "SELECT n FROM b WHERE j < 2147483647 + 1",
    ):
        expected, found = (_answer(side, sql) for side in sides)
        assert expected == found, sql


def test_large_products(sides: tuple[Connection, Connection]) -> None:
    """They need more than 64 bits, and their sums may need more than 38 digits."""
    for side in sides:
        side.execute("CREATE TABLE p (a numeric(18,2), b numeric(18,2), c numeric(18,4))")
        side.execute("INSERT INTO p SELECT g * 1e13 + 0.01, g * 1e14 + 0.02, g + 0.0001 FROM generate_series(1, 90) g")
        side.execute("INSERT INTO p SELECT g, g, g FROM generate_series(1, 5000) g")
    for sql in (
        b"SELECT sum(a * b), avg(a * b), max(a * c), count(a * b) FROM p",
        b"SELECT sum(a * b * c) FROM p",
        b"SELECT sum(a * (1 - c)), sum(a * (1 - c) * (1 + b)) FROM p WHERE c < 5000",
        b"SELECT c > 50, sum(v) FROM (SELECT a * b AS v, c FROM p) x GROUP BY 1 ORDER BY 1",
        b"SELECT sum(CASE WHEN c > 3 THEN a * b ELSE 0 END) FROM p",
        b"SELECT count(*) FROM p WHERE a * b > 1e20",
        b"SELECT a * b AS v, count(*) FROM p GROUP BY 1 ORDER BY 1 DESC LIMIT 3",
        b"SELECT max(c) * max(a), sum(a) * 2 FROM p HAVING max(a) * max(b) > 0",
    ):
        expected, found = (side.execute(sql).fetchall() for side in sides)
        assert found == expected, sql
        assert list(map(str, found)) == list(map(str, expected)), sql
    for side in sides:
        side.execute("DROP TABLE p")


def test_explain_shows_what_duckdb_does(sides: tuple[Connection, Connection]) -> None:
    query = b"SELECT i, sum(m * 2) FROM b WHERE d < date '1994-01-01' + interval '1 year' GROUP BY i"
    lines = [str(line) for (line,) in sides[1].execute(b"EXPLAIN (ANALYZE, VERBOSE) " + query).fetchall()]
    scan = next(place for place, line in enumerate(lines) if "Seq Scan on b (actual time=" in line)
    assert "rows=3)" in lines[scan]
    assert any("Filters: " in line and "(d < '1995-01-01'::DATE)" in line for line in lines[scan:])
    assert any(line.strip().startswith("Row Groups Scanned: 1 of 1") for line in lines[scan:])
    (found,) = sides[1].execute(b"EXPLAIN (ANALYZE, VERBOSE, FORMAT json) " + query).fetchone() or ()
    plan = (json.loads(found) if isinstance(found, str) else found)[0]["Plan"]
    names = []
    while plan:
        names.append(plan["Node Type"])
        plan = plan.get("Plans", [None])[0]
    assert names[0] == "Columnar Query"
    assert names[-1] == "Seq Scan on b"
    for form in ("yaml", "xml"):
        rows = sides[1].execute(f"EXPLAIN (ANALYZE, VERBOSE, FORMAT {form}) ".encode() + query).fetchall()
        assert "Seq Scan on b" in str(rows[0][0])


def test_explain_of_a_change_shows_its_query(sides: tuple[Connection, Connection]) -> None:
    with sides[1].transaction(force_rollback=True):
        rows = sides[1].execute("EXPLAIN (ANALYZE, VERBOSE) UPDATE b SET j = 5 WHERE d > '1995-01-01'").fetchall()
        assert any("Seq Scan on b" in str(line) for (line,) in rows)
        assert ("Actual Rows: 3",) in rows
