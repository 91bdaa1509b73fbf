"""Queries of every kind through parser, analyser and generator, run in DuckDB, compared with PostgreSQL's rows."""

from __future__ import annotations

import pathlib
from collections.abc import Iterator

import psycopg
import pytest

from catalog import types
from catalog.errors import SqlError
from engine.columnar.generate import generate
from engine.sql import tree
from tests.engine.columnar.generate.harness import Columns, OracleError, Rows, oracle_rows
from tests.oracle import PostgresServer

_HERE = pathlib.Path(__file__).parent
TABLES = (_HERE / "tables.sql").read_text(encoding="utf-8")
QUERIES = (_HERE / "queries.sql").read_text(encoding="utf-8")

REFUSED_BY_BOTH = """
select 1 / 0
select a / (a - a) from t
select 2147483647 + a from t
select 9223372036854775807 + a from t
select (select a from t)
select n / 0 from t
select n % 0 from t
select 'x'::int
select s::int from t
select 1.5e300::float8 * 1e300::float8 from t
select a from t limit -1
select a from t offset -1
select a from t limit (select -1)
select 100000::numeric(5,2)
select 300000::smallint
select generate_series(1, 2, 0)
select sqrt(-1)
select ln(0)
select cast('2024-13-01' as date)
select abs(-2147483648)
select (-32768)::int2 / (-1)::int2
select 40000::int2
select 1e10::int
select chr(0)
"""


@pytest.fixture(scope="module")
def columns(postgres_server: PostgresServer) -> Iterator[Columns]:
    with psycopg.connect(postgres_server.dsn, autocommit=True) as postgres:
        postgres.execute("CREATE SCHEMA generated; SET search_path = generated; SET timezone = 'UTC'")
        postgres.execute(TABLES)
        made = Columns(postgres)
        for name in ("t", "u", "e"):
            made.copy(name)
        yield made
        postgres.execute("DROP SCHEMA generated CASCADE")


def _lines(text: str) -> list[str]:
    return [line for line in text.split("\n") if line.strip() and not line.startswith("--")]


def _comparable(rows: Rows, sql: str) -> Rows:
    """Rows in their order if the statement ends in ORDER BY, sorted otherwise."""
    return rows if "order by" in sql.rsplit(")", 1)[-1] else sorted(rows, key=repr)


@pytest.mark.parametrize("sql", _lines(QUERIES))
def test_rows_are_those_of_postgres(columns: Columns, sql: str) -> None:
    expected = oracle_rows(columns.postgres, sql)
    query = columns.analysed(sql)
    assert isinstance(query, tree.Query)
    assert _comparable(columns.rows(generate(query)), sql) == _comparable(expected, sql)


@pytest.mark.parametrize("sql", _lines(REFUSED_BY_BOTH))
def test_errors_have_the_sqlstate_of_postgres(columns: Columns, sql: str) -> None:
    with pytest.raises(OracleError) as theirs:
        oracle_rows(columns.postgres, sql)
    with pytest.raises(SqlError) as ours:
        query = columns.analysed(sql)
        assert isinstance(query, tree.Query)
        columns.rows(generate(query))
    assert ours.value.sqlstate == theirs.value.sqlstate


@pytest.mark.parametrize(
    "value", ["1.5", "1.50", "2.249", "-7.1", "-7.105", "-7.095", "0", "NaN", "Infinity", "-Infinity", "1e40", "-1e40"]
)
@pytest.mark.parametrize("operator", ["=", "<>", "<", "<=", ">", ">=", "is distinct from"])
def test_a_decimal_column_against_a_numeric_parameter(columns: Columns, operator: str, value: str) -> None:
    sql = f"select a, n {operator} $1, $1 {operator} n from t"
    query = columns.analysed(sql, (1700,))
    assert isinstance(query, tree.Query)
    expected = oracle_rows(columns.postgres, sql.replace("$1", f"'{value}'::numeric"))
    shown = "1" + "0" * 40
    bound = {"1e40": shown, "-1e40": "-" + shown}.get(value, value)
    assert sorted(columns.rows(generate(query), [bound])) == sorted(expected)


@pytest.mark.parametrize(
    ("sql", "oids", "values"),
    [
        ("select a + $1, $2 || s from t where a > $1", (23, 25), [1, "x'{"]),
        ("select $1::int", (23,), [None]),
        ("select sum(n) filter (where n > $1) from t having sum(n) < $1 + 100", (1700,), ["0.5"]),
        ("select b, count(*) from t where n in ($1, 2.25) or n < $1 group by b having max(n) >= $1", (1700,), ["1.5"]),
        ("select x.a from t x join t y on x.a = y.a and x.n <= $1", (1700,), ["1.5"]),
        ("select a, case when n > $1 then n else $1 end from t", (1700,), ["1"]),
        ("select a from t order by a limit $1 offset $2", (20, 20), [2, 1]),
        ("select x.a, y.b from t x, lateral (select b from u where u.a <= x.a order by b limit $1) y", (20,), [1]),
        ("select a + $1, count(*) from t group by a + $1", (23,), [5]),
        ("select a from t where a = any($1)", (1007,), [[1, 4]]),
        ("select a from t where a = any($1)", (1007,), [None]),
    ],
)
def test_parameters(columns: Columns, sql: str, oids: tuple[int, ...], values: list[object]) -> None:
    query = columns.analysed(sql, oids)
    assert isinstance(query, tree.Query)
    literal = sql
    for number, (oid, value) in enumerate(zip(oids, values, strict=True), 1):
        text = "null" if value is None else "'" + str(value).replace("'", "''") + "'"
        text = text.replace("[", "{").replace("]", "}")
        literal = literal.replace(f"${number}", f"{text}::{types.lookup(oid).sql_name}")
    expected = oracle_rows(columns.postgres, literal)
    assert sorted(columns.rows(generate(query), values), key=repr) == sorted(expected, key=repr)
