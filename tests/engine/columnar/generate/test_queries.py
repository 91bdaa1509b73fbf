"""Queries of every kind through parser, analyser and generator, run in DuckDB, compared with PostgreSQL's rows."""

from __future__ import annotations

import pathlib
from collections.abc import Iterator

import psycopg
import pytest

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
