"""Casts between text and other types on columns: what DuckDB does itself and what goes to the codecs, as PostgreSQL."""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pytest

from catalog.errors import SqlError
from engine.columnar.generate import generate
from engine.sql import tree
from tests.engine.columnar.generate.harness import Columns, OracleError, Rows, oracle_rows
from tests.oracle import PostgresServer


@pytest.fixture(scope="module")
def columns(postgres_server: PostgresServer) -> Iterator[Columns]:
    with psycopg.connect(postgres_server.dsn, autocommit=True) as postgres:
        postgres.execute("SET timezone = 'UTC'")
        yield Columns(postgres)


def _oracle(columns: Columns, sql: str) -> Rows | str:
    try:
        return oracle_rows(columns.postgres, sql)
    except OracleError as error:
        return error.sqlstate


def _ours(columns: Columns, sql: str) -> Rows | str:
    try:
        query = columns.analysed(sql)
        assert isinstance(query, tree.Query)
        return columns.rows(generate(query))
    except SqlError as error:
        return error.sqlstate


def _cases(types: str, texts: list[str]) -> list[tuple[str, str]]:
    return [(type_, text) for type_ in types.split() for text in texts]


NUMBERS = ["7", " 7 ", "+5", "-0", "007", "1.5", "1e3", "0x10", "1_000", "", "x", "99999", "2147483648", "-2147483648",
           "99999999999999999999", "inf", "-1.50", "0.10", ".5", "5.",
           "NaN", "1e-7", "123456789012345.678"]  # fmt: skip
DATES = ["2024-02-29", "2023-02-29", "0001-01-01", "0000-01-01", "12345-01-01", "infinity", "2024-1-5", "20240105",
         "2024-01-05 10:11:12", "2024-01-05 10:11:12.5", "2024-01-05 24:00:00", "2024-01-05 25:00:00", "44-03-15 BC",
         "Jan 5, 2024", "2024-01-05 10:11:60"]  # fmt: skip


@pytest.mark.parametrize(
    ("type_", "text"), _cases("int2 int4 int8 float8 numeric", NUMBERS) + _cases("date timestamp", DATES)
)
def test_text_to_values(columns: Columns, type_: str, text: str) -> None:
    sql = f"select s::{type_}, (s || '')::{type_} from (values ('{text}'), ('1')) x(s) where s <> '1'"
    expected = _oracle(columns, sql)
    if type_ in ("date", "timestamp"):
        expected = _oracle(columns, sql.replace(", ('1')", ""))
        sql = sql.replace(", ('1')", "")
    assert _ours(columns, sql) == expected


FLOATS = "0 -0 1 -1 0.1 1e15 1e14 123456789012345 1e-4 0.0001234 1e-5 NaN Infinity -Infinity 1.5 1e300 2.5e-300 100 0.3"
MOMENTS = ["2024-01-05", "0001-01-01", "12345-06-07", "infinity", "-infinity", "0044-03-15 BC"]


@pytest.mark.parametrize(
    ("type_", "text"),
    _cases("float8", FLOATS.split())
    + _cases("date timestamp timestamptz", MOMENTS)
    + _cases(
        "timestamp timestamptz", ["2024-01-05 10:11:12.5", "2024-01-05 10:11:12.123456", "1969-12-31 23:59:59.999"]
    )
    + _cases("time", ["10:11:12", "00:00:00.5", "24:00:00"])
    + _cases("uuid", ["01234567-89ab-cdef-0123-456789ABCDEF"])
    + _cases("bool", ["t", "f"])
    + _cases("numeric", ["1.50", "-0.5", "0.00", "NaN", "1e30"]),
)
def test_values_to_text(columns: Columns, type_: str, text: str) -> None:
    sql = f"select v::text, v::varchar(4), row(v) from (values ('{text}'::{type_}), (null)) x(v)"
    assert _ours(columns, sql) == _oracle(columns, sql)
