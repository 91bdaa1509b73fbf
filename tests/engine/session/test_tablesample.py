"""TABLESAMPLE beside PostgreSQL."""

from __future__ import annotations

from tests.engine.session.conftest import Pair


def test_tablesample(both_paths: Pair) -> None:
    both_paths.same(
        "create table st as select g id from generate_series(1,1000) g",
        "create table k (id int primary key, v text)",
        "insert into k select g, 'v' || g from generate_series(1, 2000) g",
        "create view sv as select * from st",
        "select count(*) from st tablesample foo(10)",
        "select count(*) from st tablesample bernoulli(10, 5)",
        "select count(*) from sv tablesample bernoulli(10)",
        "select count(*) from (select 1) x tablesample bernoulli(10)",
        "select count(*) from st tablesample bernoulli(-1)",
        "select count(*) from st tablesample bernoulli(101)",
        "select count(*) from st tablesample bernoulli(null)",
        "select count(*) from st tablesample bernoulli(10) repeatable (null)",
        "select count(*) from st tablesample bernoulli('a')",
        "select count(*) from st tablesample system(100)",
        "select count(*) from k tablesample bernoulli(100) where id < 5",
        "select count(*) from k tablesample bernoulli(0)",
        "select count(*) between 100 and 300 from k tablesample bernoulli(10)",
        "select count(*) between 100 and 300 from k as q (a, b) tablesample bernoulli(5 + 5) repeatable (3) "
        "where a > 0",
        "select (select array_agg(id order by id) from k tablesample bernoulli(10) repeatable (3)) = (select "
        "array_agg(id order by id) from k tablesample bernoulli(10) repeatable (3))",
        "select (select array_agg(id order by id) from k tablesample bernoulli(10) repeatable (3)) = (select "
        "array_agg(id order by id) from k tablesample bernoulli(10) repeatable (4))",
        "select count(*) from st tablesample bernoulli(id)",
        "with q as (select 1) select * from q tablesample bernoulli(10)",
        "create view sv2 as select * from st as q tablesample bernoulli(10) repeatable (5)",
        "select pg_get_viewdef('sv2')",
        "create view sv3 as select * from st tablesample system (id)",
        "create view sv4 as select * from st tablesample system (1.5 + 1)",
        "select pg_get_viewdef('sv4')",
        "insert into sv2 values (1)",
        "select count(*) from st tablesample bernoulli(10) where random() < 0",
        "select max(id) from k tablesample bernoulli(0)",
        "delete from k using st tablesample bernoulli(0) where k.id = st.id",
        "insert into k select id + 5000, 'x' from k tablesample bernoulli(100) where id < 3",
        "select count(*) from k a tablesample bernoulli(100) join st tablesample system(100) on a.id = st.id",
    )


def test_tables_of_the_catalog_have_samples_and_its_views_have_none(both_paths: Pair) -> None:
    both_paths.same(
        "select relname from pg_class tablesample bernoulli (100) where relname = 'pg_class'",
        "select count(*) from pg_class tablesample system (0)",
        "select count(*) between 500 and 2500 from pg_proc tablesample system (40)",
        "select (select array_agg(oid order by oid) from pg_type tablesample bernoulli(10) repeatable (3)) = (select "
        "array_agg(oid order by oid) from pg_type tablesample bernoulli(10) repeatable (3))",
        "select count(*) from pg_tables tablesample system (30)",
        "select count(*) from information_schema.tables tablesample system (30)",
    )
