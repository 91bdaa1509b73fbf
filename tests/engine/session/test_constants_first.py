"""What PostgreSQL's planner computes fails whatever the rows are, and what it leaves out does not: generated trees of
CASE, COALESCE, AND, OR and NULLIF over constants that divide by zero, columns and aggregates, on both paths."""

from __future__ import annotations

import random
from collections.abc import Iterator

import psycopg
import pytest

from tests.oracle import PostgresServer
from tests.server import ShoalServer

FEW, MANY = 3, 3000
TREES = 60


def answer(connection: psycopg.Connection, statement: str) -> object:
    """The rows of a statement, or its SQLSTATE."""
    try:
        return sorted(connection.execute(statement.encode()).fetchall(), key=repr)
    except psycopg.Error as error:
        return error.sqlstate


@pytest.fixture
def both(postgres_server: PostgresServer, shoal: ShoalServer) -> Iterator[tuple[psycopg.Connection, ...]]:
    """A connection to each, in a schema of its own with the same tables."""
    connections = [psycopg.connect(found.dsn, autocommit=True) for found in (postgres_server, shoal)]
    for connection in connections:
        connection.execute("create schema first")
        connection.execute("set search_path to first")
        for name, rows in (("none", 0), ("few", FEW), ("many", MANY)):
            connection.execute(f"create table {name}_rows (id int primary key, a int, n int)".encode())
            series = f"generate_series(1, {rows}) g"
            connection.execute(f"insert into {name}_rows select g, g % 5, nullif(g % 3, 0) from {series}".encode())
    yield tuple(connections)
    for connection in connections:
        connection.execute("drop schema first cascade")
        connection.close()


class Trees:
    """Random expressions; `leaves` are what columns or aggregates there are."""

    def __init__(self, seed: int, leaves: tuple[str, ...]) -> None:
        self._random = random.Random(seed)
        self._leaves = leaves

    def number(self, depth: int) -> str:
        pick = self._random.choice
        if depth == 0:
            return pick((*self._leaves, *self._leaves, "0", "1", "7", "1 / 0", "null::int", "5 / (3 - 3)", "-4"))
        kind = self._random.randrange(6)
        one, other = self.number(depth - 1), self.number(depth - 1)
        if kind == 0:
            return f"case when {self.truth(depth - 1)} then {one} else {other} end"
        if kind == 1:
            return f"case {one} when {self.number(0)} then {other} when 1 then {self.number(0)} end"
        if kind == 2:
            return f"coalesce({one}, {other}, {self.number(0)})"
        if kind == 3:
            return f"nullif({one}, {other})"
        return f"({one} {pick('+-')} {other})"

    def truth(self, depth: int) -> str:
        pick = self._random.choice
        if depth == 0:
            return pick(("true", "false", "null::bool", "1 = 1", "2 = 1", f"{self.number(0)} > 1", "1 / 0 = 1"))
        if self._random.random() < 0.3:
            return f"({self.number(depth - 1)}) {pick(('=', '<', 'is distinct from'))} ({self.number(depth - 1)})"
        return f"({self.truth(depth - 1)} {pick(('and', 'or'))} {self.truth(depth - 1)})"


def statements(seed: int, table: str) -> Iterator[str]:
    rows, groups = Trees(seed, ("id", "a", "n")), Trees(seed, ("max(a)", "count(n)::int", "sum(1 / 0)::int", "min(n)"))
    for _ in range(TREES):
        yield f"select {rows.number(2)} as x from {table}"
        yield f"select count(*) from {table} where {rows.truth(2)}"
        yield f"select {groups.number(2)} as x from {table}"


@pytest.mark.parametrize("table", ["none_rows", "few_rows", "many_rows"])
@pytest.mark.parametrize("seed", range(2))
def test_trees(both: tuple[psycopg.Connection, ...], table: str, seed: int) -> None:
    wrong, failed = [], 0
    for statement in statements(seed, table):
        one, other = (answer(each, statement) for each in both)
        failed += one == "22012"
        if one != other:
            wrong.append(f"{statement}: {str(one)[:60]}, not {str(other)[:60]}")
    assert not wrong, f"{len(wrong)}: " + "\n".join(wrong)
    assert failed > TREES // 4


@pytest.mark.parametrize("rows", [0, FEW, MANY])
@pytest.mark.parametrize(
    ("statement", "outcome"),
    [
        ("select coalesce(-22, count(45 / coalesce(54 / 88, 1)))", [(-22,)]),
        ("select case when true then 1 else max(1 / 0) end", [(1,)]),
        ("select case when 1 = 1 then 1 else (select 1 / 0) end", [(1,)]),
        ("select case when id = -1 then 1 / 0 else 0 end from t", "22012"),
        ("select count(*) from t where id = -1 and 1 / 0 = 1", "22012"),
        ("select count(*) from t where false and 1 / 0 = 1", [(0,)]),
        ("select 1 from (select 1 / 0 as x, id from t) q where id = -1", []),
        ("select x from (select 1 / 0 as x, id from t) q where id = -1", "22012"),
        ("with q as (select 1 / 0) select 1", [(1,)]),
        ("update t set a = 1 / 0 where id = -1", "22012"),
        ("delete from t where id = -1 and id = 1 / 0", "22012"),
        ("select 1 from t where id = -1 group by id having 1 / 0 = id", "22012"),
        ("select id from t where id = -1 union all select 1 / 0 where false", "22012"),
        ("select 1 from t where id = -1 and exists (select 1 / 0)", []),
        ("select 1 from t where id = -1 and id in (select 'x'::text::int)", "22P02"),
    ],
)
def test_what_is_computed_before_the_first_row(
    server: PostgresServer | ShoalServer, statement: str, outcome: object, rows: int
) -> None:
    with psycopg.connect(server.dsn, autocommit=True) as connection:
        connection.execute("create temporary table t (id int primary key, a int)")
        connection.execute(f"insert into t select g, g from generate_series(1, {rows}) g".encode())
        assert answer(connection, statement) == outcome


def test_parameters_are_constants_too(server: PostgresServer | ShoalServer) -> None:
    with psycopg.connect(server.dsn, autocommit=True) as connection:
        connection.execute("create temporary table t (id int primary key)")
        connection.execute("prepare p(int) as select case when id = 1 then 1 / $1 else 0 end from t")
        connection.execute("prepare q(int, int) as select case when $1 = 1 then 1 / $2 else id end from t")
        assert connection.execute("execute p(1)").fetchall() == []
        with pytest.raises(psycopg.errors.DivisionByZero):
            connection.execute("execute p(0)")
        assert connection.execute("execute q(2, 0)").fetchall() == []
        with pytest.raises(psycopg.errors.DivisionByZero):
            connection.execute("execute q(1, 0)")


_FAILS = "case when id = -7 then 1 / 0 else a end"
_PARTS = (
    "select {0} from {1}", "explain select {0} from {1}", "explain analyze select {0} from {1}",
    "create table made as select {0} as x from {1}", "create materialized view made as select {0} as x from {1}",
    "insert into other select id, {0} from {1}", "with w as (select {0} as x from {1}) select x from w",
    "with w as (insert into other select id, {0} from {1} returning id) select * from w",
    "with w as (delete from other where {0} = 1 returning id) select * from w", "update {1} set a = {0}",
    "with w as (delete from other returning id) select {0} from {1}", "delete from {1} where {0} = -1",
    "update {1} set a = o.b from other o where o.id = {1}.id and o.b = case when o.id = -7 then 1 / 0 else 0 end",
    "merge into other o using {1} t on o.id = t.id when matched then update set b = case when t.id = -7 then 1 / 0 end",
    "insert into other select id, a from {1} on conflict (id) do update set b = case when other.id = -7 then 1 / 0 end",
    "select id from {1} where id = 1 for update", "select count(*) from (select {0} as x from {1}) q where x = 1",
    "select {0} from {1} where id = 1 union all select 1", "select * from kept", "explain select * from kept",
    "begin; declare c cursor for select {0} from {1}; rollback", "explain update {1} set a = {0}",
    "with recursive r as (select 1 as id, 2 as a union all select id + 1, {0} from r where id < 3) select * from r",
    "select * from given()", "copy (select {0} from {1}) to stdout",
    "copy (with w as (delete from other returning id) select {0} from {1}) to stdout",
)  # fmt: skip


def _tag(connection: psycopg.Connection, statement: str) -> object:
    """The SQLSTATE of a statement, None where it succeeds."""
    try:
        with connection.cursor() as cursor:
            if statement.startswith("copy"):
                with cursor.copy(statement.encode()) as copy:
                    list(copy)
            else:
                cursor.execute(statement.encode())
    except psycopg.Error as error:
        connection.execute("rollback")
        return error.sqlstate
    return None


@pytest.mark.parametrize("path", ["auto", "columnar"])
@pytest.mark.parametrize("table", ["few_rows", "many_rows", "parts"])
def test_parts_of_statements_fail_first(both: tuple[psycopg.Connection, ...], table: str, path: str) -> None:
    """Wherever a query stands its constants are computed before its first row, and nothing is changed."""
    postgres, shoal = both
    for connection in both:
        connection.execute("create table parts (id int, a int, n int) partition by range (id)")
        connection.execute("create table parts1 partition of parts for values from (0) to (10)")
        connection.execute("create table parts2 partition of parts for values from (10) to (20)")
        connection.execute("insert into parts values (1, 1), (12, 2)")
        connection.execute("create table other (id int primary key, b int)")
        connection.execute("insert into other values (1, 0), (5, 1)")
        connection.execute(f"create view kept as select {_FAILS} as x from {table}".encode())
        body = f"select {_FAILS} from {table}"
        connection.execute(f"create function given() returns setof int language sql as '{body}'".encode())
    shoal.execute(f"set shoal.path = {path}".encode())
    wrong, failed = [], 0
    for part in _PARTS:
        statement = part.format(_FAILS, table)
        expected, found = _tag(postgres, statement), _tag(shoal, statement)
        failed += expected == "22012"
        if expected != found:
            wrong.append((statement, found, expected))
    assert not wrong, "\n".join(map(str, wrong))
    assert failed >= len(_PARTS) - 3  # a few have nothing that fails
    for read in ("select * from other order by id", f"select sum(a) from {table}"):
        assert answer(shoal, read) == answer(postgres, read)
