"""Volatile values: one evaluation a row where PostgreSQL has one, and one a statement for sub-queries that depend on no
row, on both paths."""

from __future__ import annotations

import pytest

from tests.engine.session.conftest import Pair

ONE_VALUE_A_ROW = (
    "select count(*) from (select nullif(floor(random()*2), 0) x from {t}) q where x = 0",
    "select count(*) from (select coalesce(nullif(floor(random()*2)::int, 0), -1) x from {t}) q where x = 0",
    "select count(*) from (select nullif(random() < 0.5, true) x from {t}) q where x",
    "select count(*) from {t} where floor(random()*3)::int in (0, 1, 2)",
    "select count(*) from {t} where floor(random()*3)::int not in (0, 1, 2)",
    "select count(*) from {t} where floor(random()*3)::int = any (array[0, 1, 2])",
    "select count(*) from {t} where case floor(random()*3)::int when 0 then 1 when 1 then 1 when 2 then 1 end = 1",
    "select count(*) from {t} where floor(random()*3)::numeric in (select 0.0 union select 1 union select 2)",
    "select count(*) from {t} where floor(random()*3)::numeric not in (select 0.0 union select 1 union select 2)",
    "select count(*) from {t} where random()::int in (select 0 union select 1)",
    "select count(*) from {t} where nullif(random(), (select max(i) from {t})) is null",
    "select count(*) from {t} where greatest(floor(random()*2)::numeric, 0.0) not in (0, 1)",
    "select count(*), count(distinct r), max(r) from (select row_number() over (order by random()) r from {t}) q",
    "select count(*), max(s) from (select sum(1) over (partition by random()) s from {t}) q",
    "select bool_and(a = b) from (select rank() over w a, row_number() over w b from {t}"
    " window w as (order by random())) q",
    "select bool_and(r >= p) from (select r, lag(r) over () p from (select random()::numeric r from {t}"
    " order by 1) q) s",
    "select sum(c)::int, max(g) < 5 from (select floor(random()*5)::numeric g, count(*) c from {t} group by 1) q",
    "select count(*) <= 5 from (select distinct floor(random()*5)::numeric from {t}) q",
    "select count(*) <= 5 from (select distinct on (floor(random()*5)) i from {t}) q",
    "select avg(random()::numeric) between 0 and 1, min(random()::numeric) < 1, count(distinct random()::numeric)"
    " from {t}",
    "select count(*) from (select i, sum(random()) > 0 b from {t} group by i having nullif(count(*), 1) is null) q"
    " where b",
    "select count(*) from {t} where exists (select random() where i < 0)",
)  # fmt: skip
ONE_VALUE_A_STATEMENT = (
    "select count(distinct (select random())) from {t}",
    "select count(distinct array(select random())) from {t}",
    "select count(distinct (select max(random()) from {t})) from {t}",
    "select count(distinct (select clock_timestamp())) from {t}",
    "select count(distinct x) from (select (select random()) x, i from {t}) q",
    "select count(*) in (0, (select count(*) from {t})) from {t} where exists (select where random() < 0.5)",
    "select count(*) <= 1 from {t} where i in (select floor(random() * 1000)::int)",
    "select count(*) from {t} where 1.5 <> all (select random()) and i > any (select random())",
)
DRAWN = (
    "select count(distinct n), count(*) from (select (select nextval('s')) n, i from few) q",
    "select currval('s')",
    "select count(distinct n) from (select nullif(nextval('s'), 0) n from few) q",
    "select currval('s')",
    "select count(case when i > 100 then (select nextval('s')) end) from few",
    "select currval('s')",
    "select count(*) from few where i = any (array(select nextval('s') - nextval('s') + 2))",
    "select currval('s')",
    "select count(*) from few where i in (select nextval('s') from few)",
    "select currval('s')",
    "select count(*) from few where exists (select nextval('s'))",
    "select currval('s')",
    "select count(*) from few where i = 1 or i > (select nextval('s') - 1000)",
    "select currval('s')",
    "select case nextval('s') when 1 then 1 when 2 then 2 end from few",
    "select currval('s')",
    "select coalesce(nullif(nextval('s'), -1), nextval('s')) - currval('s') from few",
    "select currval('s')",
    "select i from few order by (select nextval('s')), i desc limit 1",
    "select currval('s')",
)


@pytest.fixture
def tables(both_paths: Pair) -> Pair:
    both_paths.run(
        "create table many (i int primary key)",
        "insert into many select generate_series(1, 3000)",
        "create table few (i int primary key)",
        "insert into few values (1), (2), (3), (4)",
        "create sequence s",
        "select nextval('s')",
    )
    return both_paths


@pytest.mark.parametrize("table", ["many", "few"])
def test_one_value_a_row(tables: Pair, table: str) -> None:
    tables.same(*(sql.format(t=table) for sql in ONE_VALUE_A_ROW))


@pytest.mark.parametrize("table", ["many", "few"])
def test_one_value_a_statement(tables: Pair, table: str) -> None:
    tables.same(*(sql.format(t=table) for sql in ONE_VALUE_A_STATEMENT))


def test_sequences_are_where_they_are_in_postgres(pair: Pair) -> None:
    """The row path, on which they are drawn."""
    pair.run(
        "create table few (i int primary key)", "insert into few values (1), (2), (3), (4)", "create sequence s",
        "select nextval('s')",
    )  # fmt: skip
    pair.same(*DRAWN)


def test_changes_with_volatile_values(tables: Pair) -> None:
    tables.run("create table c (i int primary key, v numeric, w text)")
    tables.same(
        "insert into c select i, nullif(floor(random() * 2)::numeric, 0), 'a' from many",
        "select count(*) from c where v = 0",
        "update c set v = nullif(floor(random() * 2)::numeric, 1), w = (select random())::text where i > 0",
        "select count(*) filter (where v = 1), count(distinct w) from c",
        "delete from c where floor(random() * 3)::int not in (0, 1, 2)",
        "select count(*) from c",
    )
