"""What UPDATE, DELETE and INSERT ... SELECT are to write, compared with what PostgreSQL writes."""

from __future__ import annotations

import pathlib
from collections.abc import Iterator

import psycopg
import pytest

from engine.columnar.generate import ColumnarDml, generate_dml
from engine.sql import tree
from tests.engine.columnar.generate.harness import Columns, Rows, oracle_rows
from tests.oracle import PostgresServer

TABLES = (pathlib.Path(__file__).parent / "tables.sql").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def columns(postgres_server: PostgresServer) -> Iterator[Columns]:
    with psycopg.connect(postgres_server.dsn, autocommit=True) as postgres:
        postgres.execute("CREATE SCHEMA changed; SET search_path = changed; SET timezone = 'UTC'")
        postgres.execute(TABLES)
        made = Columns(postgres)
        for name in ("t", "u", "e"):
            made.copy(name)
        yield made
        postgres.execute("DROP SCHEMA changed CASCADE")


def _made(columns: Columns, sql: str) -> tuple[ColumnarDml, Rows, tree.Insert | tree.Update | tree.Delete]:
    statement = columns.analysed(sql)
    assert not isinstance(statement, tree.Query)
    dml = generate_dml(statement)
    return dml, columns.rows(dml.query), statement


def _undone(columns: Columns, sql: str) -> Rows:
    """RETURNING's rows, with the change taken back."""
    oracle_rows(columns.postgres, "BEGIN")
    try:
        return oracle_rows(columns.postgres, sql)
    finally:
        oracle_rows(columns.postgres, "ROLLBACK")


@pytest.mark.parametrize(
    "sql",
    [
        "update t set b = b + 1, n = n * 2 where a > 2",
        "update t set g = n, s = upper(s), v = a",
        "update u set b = a, a = b",
        "update t set b = (select max(b) from u where u.a = t.a), d = 7 where a in (select a from u)",
        "update t set b = u.b, s = u.k from u where u.a = t.a and u.b = 1",
        "update t set n = 5 where false",
        "update t set ch = 'x', f = a, r = n where a = 1",
        "with x as (select 1 as a) update t set b = 0 from x where x.a = t.a",
    ],
)
def test_update_computes_the_new_rows(columns: Columns, sql: str) -> None:
    dml, rows, statement = _made(columns, sql)
    assert isinstance(statement, tree.Update)
    place = {**dict(dml.old), **dict(dml.new)}
    ours = [tuple(row[place[column.number]] for column in statement.table.columns) for row in rows]
    table = statement.table.name
    assert sorted(ours, key=repr) == sorted(_undone(columns, f"{sql} returning {table}.*"), key=repr)


@pytest.mark.parametrize(
    "sql",
    [
        "update t set b = 1 where a < 3 returning a, b, n + 1, s",
        "update t set n = n + 0.5 returning n, n * 2",
        "update t set b = u.b from u where u.a = t.a and u.b = 1 returning t.a, t.b, u.k",
        "delete from t where b = 20 returning a, s || '!'",
        "delete from u using t where u.a = t.a returning u.*, t.s",
        "delete from t where exists (select 1 from u where u.a = t.a) returning *",
        "insert into u values (1, 2, 'x'), (null, 3 + 4, 'y') returning *, a + b",
        "insert into t (a, n, ch) values (100, 1.555, 'x'), (101, 2, 'abc') returning a, n, ch, s, g",
        "insert into u select a, b, s from t where b is not null returning *",
        "insert into u (k, a) select s, a * 2 from t returning a, b, k",
        "insert into t (a, n, g, ch) select b + 100, 1.005, 1.005, k from u where b > 1 returning a, n, g, ch, s",
    ],
)
def test_returning_gives_what_postgres_gives(columns: Columns, sql: str) -> None:
    dml, rows, _ = _made(columns, sql)
    ours = [tuple(row[index] for index in dml.returning) for row in rows]
    assert sorted(ours, key=repr) == sorted(_undone(columns, sql), key=repr)


def test_keys_of_changed_rows(columns: Columns) -> None:
    dml, rows, _ = _made(columns, "delete from t where b = 20")
    assert sorted(row[dml.key[0]] or "" for row in rows) == ["2", "4"]
    dml, rows, _ = _made(columns, "delete from u where b = 1")
    assert sorted(row[dml.key[0]] or "" for row in rows) == ["0", "1"]  # hidden row numbers


def test_each_row_is_changed_once_when_several_rows_match(columns: Columns) -> None:
    _, rows, _ = _made(columns, "update t set b = u.b from u where u.a = t.a")
    assert len(rows) == 2


def test_new_values_are_in_stored_forms(columns: Columns) -> None:
    dml, _, statement = _made(columns, "update t set n = a, v = s")
    forms = {number: dml.query.columns[index].duckdb_type for number, index in dml.new}
    column = statement.table.column("n")
    assert column is not None
    assert forms[column.number] == "DECIMAL(10,2)"
