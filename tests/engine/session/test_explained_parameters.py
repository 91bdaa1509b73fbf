"""EXPLAIN and EXPLAIN ANALYZE of statements with parameters and of EXECUTE, beside PostgreSQL.
What they say of the plan is Shoal's own; which of them run, what they change, and their errors are PostgreSQL's."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import psycopg
import pytest

from tests.engine.session.conftest import Pair

OPTIONS = ("", "analyze", "(analyze, format json)", "(analyze, verbose)")
STATEMENTS: tuple[tuple[str, tuple[object, ...]], ...] = (
    ("select * from t where id = %s", (2,)),
    ("select sum(n) from t where n > %s group by word having count(*) < %s", (1, 100)),
    ("select %s::text || word from t", ("x",)),
    ("select %s", (1,)),
    ("insert into t values (%s, %s, %s)", (100, 7, "new")),
    ("insert into t select %s + g, g, 'many' from generate_series(1, %s) g", (1000, 3)),
    ("update t set n = n + %s where id = %s", (10, 3)),
    ("delete from t where word = %s", ("w4",)),
    ("merge into t using (select %s::int as i) s on t.id = s.i when matched then update set n = %s", (5, 55)),
    ("with gone as (delete from t where id = %s returning n) select * from gone", (6,)),
    ("declare c cursor for select * from t where id > %s", (2,)),
    ("select * from t where id = %s::posint", (2,)),
    ("select * from t where id = %s::posint", (-2,)),
    ("select 1 / %s::int", (0,)),
    ("select nothing from t where id = %s", (1,)),
    ("select * from t where id = any(%s)", ([1, 2],)),
)


@pytest.fixture
def filled(pair: Pair) -> Iterator[Pair]:
    pair.run(
        "create table t (id int primary key, n int, word text)",
        "insert into t select g, g % 5, 'w' || g from generate_series(1, 50) g",
        "create domain posint as int check (value > 0)",
    )
    yield pair


def answer(connection: psycopg.Connection, sql: str, values: tuple[object, ...] | None) -> object:
    try:
        cursor = connection.execute(sql.encode(), values)
        return cursor.statusmessage, [column.name for column in cursor.description or ()], bool(cursor.fetchall())
    except psycopg.Error as error:
        return error.sqlstate, error.diag.message_primary


def contents(connection: psycopg.Connection) -> object:
    return connection.execute("select * from t order by id").fetchall()


@pytest.mark.parametrize("path", ["auto", "columnar"])
@pytest.mark.parametrize("options", OPTIONS)
def test_extended_protocol(filled: Pair, options: str, path: str) -> None:
    filled.shoal.execute(f"set shoal.path = {path}".encode())
    for statement, values in STATEMENTS:
        answers = []
        for connection in (filled.shoal, filled.postgres):
            connection.execute("begin")
            answers.append((answer(connection, f"explain {options} {statement}", values),))
            if connection.info.transaction_status == psycopg.pq.TransactionStatus.INTRANS:
                answers[-1] += (contents(connection),)
            connection.execute("rollback")
        assert answers[0] == answers[1], statement


@pytest.mark.parametrize("options", OPTIONS)
def test_execute(filled: Pair, options: str) -> None:
    numbers = itertools.count(1)
    for statement, values in STATEMENTS:
        if statement.startswith("declare") or "posint" in statement:  # of a base type here, whose rules the query has
            continue
        text = statement
        for number in range(1, len(values) + 1):
            text = text.replace("%s", f"${number}", 1)
        given = ", ".join("null" if value is None else "'{1,2}'" if isinstance(value, list) else f"'{value}'"
                          for value in values)  # fmt: skip
        name = f"p{next(numbers)}"
        answers = []
        for connection in (filled.shoal, filled.postgres):
            connection.execute("begin")
            answers.append([answer(connection, f"prepare {name} as {text}", None)])
            if connection.info.transaction_status == psycopg.pq.TransactionStatus.INTRANS:
                answers[-1].append(answer(connection, f"explain {options} execute {name}({given})", None))
            if connection.info.transaction_status == psycopg.pq.TransactionStatus.INTRANS:
                answers[-1].append(contents(connection))
            connection.execute("rollback")
        assert answers[0] == answers[1], statement


def test_what_is_wrong_with_it(filled: Pair) -> None:
    filled.run("prepare one as select * from t where id = $1")
    filled.same(
        "explain execute one",
        "explain execute one(1, 2)",
        "explain execute none(1)",
        "explain execute one(point(1, 2))",
        "explain select $1::int",
        "explain analyze select $1::int",
        "explain analyze insert into t values ($1, $2)",
    )


def test_one_prepared_statement_on_both_paths(filled: Pair) -> None:
    """A plan that other executions have shares what it says with nobody: each tells the path that it took."""
    shoal = filled.shoal
    shoal.execute("create table wide (id int primary key, n int)")
    shoal.execute("insert into wide select g, g from generate_series(1, 50000) g")
    shoal.execute("prepare several(int) as select sum(n) from wide where id <= $1")
    for least in (3, 50_000, 3, 3):
        lines = [line for (line,) in shoal.execute(f"explain analyze execute several({least})".encode()).fetchall()]
        path = next(line for line in lines if line.startswith("Path:"))
        assert "Actual Rows: 1" in lines
        if least > 3:
            assert path == "Path: columnar"
            assert lines[0] == "Columnar Query"
