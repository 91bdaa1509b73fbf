"""Statements without their constants, as PostgreSQL's pg_stat_statements shows them."""

from __future__ import annotations

import psycopg
import pytest

from engine.sql import normalize
from engine.sql.normalize import normalize_statement, without_secrets
from engine.sql.parser import parse

QUERIES = [
    "select 1",
    "SELECT   1  -- why",
    "select -1, - 2, 1-1, 1 -1",
    "select date '2020-01-01', interval '1 day', true, null, 'a'::text",
    "select 1 order by 1",
    "select count(*) from pg_class group by 1+1, relkind order by 1 limit 10",
    "select * from pg_class where relname in ('a','b') and oid = $1 and true limit 5",
    "select 1.5::numeric(10,2), x'1f', b'01', E'a\\nb', $$dollar$$",
    "values (1,2),(3,4)",
    "select array[1,2], (array[1])[1]",
    "select case when 1=1 then 2 else 3 end",
    "select extract(year from timestamp '2020-01-01'), substring('abc' from 2 for 1)",
    "select position('a' in 'b'), trim('x' from 'xax'), overlay('abc' placing 'x' from 1)",
    "select 1 union all select 2 order by 1",
    "update counted set a=a+1 where b='x'",
    "insert into counted values (1,'x'),(-2,'y')",
    "select a from counted group by 1 order by a desc, 1 offset 2 fetch first 3 rows only",
    "select interval '1' year, time '10:00' at time zone 'UTC', cast('5' as int), int '5'",
    "with x as (select 1 a) select * from x where a between 1 and 2",
    "select distinct on (1) oid, 5 from pg_class order by 1",
    "select sum(1) over (order by 1), lag(oid, 2) over (order by oid rows 1 preceding) from pg_class",
    "select u&'\\0061', 1::int8 as \"Foo\"",
    "select /* c */ 1+/* d */2",
]


@pytest.fixture(scope="module")
def counted(counting_postgres: psycopg.Connection) -> psycopg.Connection:
    counting_postgres.execute("CREATE TEMPORARY TABLE counted (a int, b varchar(10))")
    return counting_postgres


@pytest.mark.parametrize("sql", QUERIES)
def test_constants_are_replaced_as_postgresql_does(counted: psycopg.Connection, sql: str) -> None:
    counted.execute("SELECT pg_stat_statements_reset()")
    if "$1" in sql:
        counted.execute(sql.replace("$1", "%s").encode(), (5,))
    else:
        counted.execute(sql.encode())
    shown = counted.execute(
        "SELECT query FROM pg_stat_statements WHERE query NOT LIKE '%pg_stat_statements%'"
    ).fetchone()
    assert shown is not None
    (statement,) = parse(sql)
    assert (
        normalize_statement(statement, (), True)[1].partition(" --")[0].strip() == shown[0].partition(" --")[0].strip()
    )


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("SELECT a FROM t WHERE b = 1", "select  a from T where b = -7 -- c", True),
        ("SELECT a FROM t WHERE b = 1", "SELECT a FROM t WHERE b = 'x'", True),
        ("SELECT a FROM t WHERE b = 1", "SELECT a FROM t WHERE b = $1", False),
        ("SELECT a FROM t WHERE b = 1", 'SELECT "A" FROM t WHERE b = 1', False),
        ("SELECT a FROM t WHERE b IN (1)", "SELECT a FROM t WHERE b IN (1, 2)", False),
        ("SELECT a FROM t ORDER BY 1", "SELECT a FROM t ORDER BY 2", False),
    ],
)
def test_queries_that_differ_in_constants_alone_are_one(one: str, other: str, same: bool) -> None:
    first, second = (normalize_statement(parse(sql)[0], (), True)[0] for sql in (one, other))
    assert (first == second) is same


@pytest.mark.parametrize("sql", QUERIES)
def test_the_short_way_and_the_long_way_agree(sql: str) -> None:
    (statement,) = parse(sql)
    places = normalize._constants(statement.tree)[0]
    short, long = normalize._splice(statement, places, True), normalize._replace(statement, places, True)
    assert short is None or short == long


def test_most_queries_go_the_short_way() -> None:
    statements = [parse(sql)[0] for sql in QUERIES]
    taken = [normalize._splice(statement, normalize._constants(statement.tree)[0], True) for statement in statements]
    assert sum(found is not None for found in taken) > len(QUERIES) * 0.7


def test_the_same_names_of_other_relations_are_another_query() -> None:
    (statement,) = parse("SELECT a FROM t")
    assert normalize_statement(statement, (16384,), True)[0] != normalize_statement(statement, (16390,), True)[0]


def test_the_second_statement_of_a_string_is_found_in_it() -> None:
    _, second = parse("SELECT 'first'; SELECT 'second', 2")
    assert normalize_statement(second, (), True)[1] == "SELECT $1, $2"


@pytest.mark.parametrize("sql", ["ALTER ROLE a PASSWORD 'hidden' LOGIN", "create user x encrypted password 'hidden'"])
def test_passwords_are_never_shown(sql: str) -> None:
    (statement,) = parse(sql)
    assert without_secrets(statement, True)[1] == sql.replace("hidden", "********")
