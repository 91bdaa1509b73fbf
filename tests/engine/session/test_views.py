"""Changes through views, and check options, beside PostgreSQL."""

from __future__ import annotations

import psycopg
import pytest

from tests.engine.session.conftest import Pair


def test_views_that_can_be_changed_and_those_that_cannot(both_paths: Pair) -> None:
    both_paths.same(
        "create table b (id int primary key, v text default 'dd', n int check (n < 500), g int generated "
        "always as (n * 2) stored, w text unique)",
        "create view w1 with (check_option=foo) as select * from b",
        "create view w1 with (foo=foo) as select * from b",
        "create view w1 with (security_barrier) as select * from b",
        "create view w2 as select distinct * from b with check option",
        "create recursive view r(n) as values (1) union all select n + 1 from r where n < 5",
        "select * from r",
        "insert into r values (1)",
        "create view w3 as select id, v, n + 1 as e, id as id2 from b where n > 0 with local check option",
        "insert into w3 values (1, 'x', 3)",
        "insert into w3 (id, e) values (1,3)",
        "insert into w3 (id, id2) values (1,3)",
        "insert into w3 (id, nocol) values (1,3)",
        "update w3 set e = 3",
        "update w3 set id = 3, id2 = 4",
        "update w3 set nocol = 4",
        "insert into w3 values (1, 'x')",
        "insert into w3 (id) values ('q')",
        "insert into w3 (id2) select 'q'::text",
        "select reloptions from pg_class where relname in ('w3','w1')",
        "create view agg as select count(*) from b",
        "insert into agg values (1)",
        "update agg set count = 1",
        "delete from agg",
        "create view noc as select n+1 as x from b",
        "insert into noc values (1)",
        "delete from noc",
        "update noc set x = 1",
        "create view un as select id from b union select id from b",
        "insert into un values (1)",
        "create view jo as select b.id from b, b b2",
        "delete from jo",
        "create view li as select id from b limit 1",
        "delete from li",
        "create view gr as select id from b group by id",
        "delete from gr",
        "create view wi as with x as (select 1) select id from b",
        "delete from wi",
        "create view srf as select id, generate_series(1,2) from b",
        "delete from srf",
        "create view win as select id, row_number() over () from b",
        "delete from win",
        "create view hav as select 1 as one from b having true",
        "delete from hav",
        "create view p as select id as pid, n as pn, v || '!' as loud, w from b where n between 0 and 100",
        "insert into p (pid, pn, w) values (1, 5, 'a'), (2, 50, 'b'), (3, 100, 'c') returning *",
        "insert into p (pid, pn) values (4, 300) returning pid, pn, loud",
        "insert into p values (5, 6)",
        "insert into p select 6, 7",
        "insert into p select 6, 7, 'loud'",
        "insert into p values (7, 8, 'loud')",
        "insert into p (pid) values (5)",
        "insert into p (pid, pn) values (8, 600)",
        "select * from p",
        "select * from b",
        "update p set pn = pn + 1 where pid > 1 returning *, pid + 1 as more",
        "update p as q set pn = q.pn + 1 where q.loud = 'dd!' and q.pid = 2 returning q.*",
        "update p set pn = x.c from (values (1, 11), (4, 12)) x(id, c) where p.pid = x.id returning p.pid, x.c",
        "update p set loud = 'x'",
        "update p set (pn, w) = (21, 'multi') where pid = 1 returning pn, w",
        "update p set pn = default where pid = 5 returning *",
        "delete from p where pid = 2 returning *",
        "delete from p using (values (3),(4)) d(x) where pid = x returning pid",
        "select * from b",
        "insert into p (pid, pn) values (1, 77) on conflict (pid) do update set pn = excluded.pn + p.pn returning *",
        "insert into p (pid, pn) values (1, 77) on conflict do nothing",
        "insert into p (pid, pn, w) values (99, 77, 'multi') on conflict (w) do update set pn = 1 where "
        "p.pid = 1 returning *",
        "create view p2 as select pid, pn, w, loud from p where pn > 10 with cascaded check option",
        "create view p3 as select pid as a, pn as c from p2 where pid < 1000 with local check option",
        "create view p4 as select * from p3 where c <> 50",
        "create view p5 as select * from p4 where c <> 60 with check option",
        "insert into p2 (pid, pn) values (10, 20)",
        "insert into p2 (pid, pn) values (11, 5)",
        "insert into p2 (pid, pn) values (11, 200)",
        "insert into p2 (pid, pn, loud) values (11, 200, 'x')",
        "insert into p3 values (12, 30)",
        "insert into p3 values (12, 30)",
        "insert into p3 values (1200, 30)",
        "insert into p3 values (1200, 5)",
        "insert into p4 values (14, 50)",
        "insert into p4 values (2000, 51)",
        "insert into p5 values (15, 50)",
        "insert into p5 values (15, 60)",
        "insert into p5 values (15, 61)",
        "insert into p5 values (15, 800)",
        "insert into p5 values (null, 62)",
        "insert into p5 values (16, null)",
        "update p5 set c = 60 where a = 15",
        "update p5 set c = c + 1 where a = 15 returning *",
        "update p4 set c = 50 where a = 15",
        "update p2 set loud = 'a'",
        "select * from p5",
        "select * from b",
        "delete from p5 where a = 12",
        "delete from p5",
        "select * from b",
        "create view ex as select id, v from b where exists (select 1 from r where r.n = b.id) with check option",
        "insert into ex values (2, 'ok')",
        "insert into ex values (200, 'bad')",
        "insert into ex select x, 'bulk' from generate_series(3,4) x",
        "update ex set id = 300 where id = 2",
        "update ex set id = id where id = 2",
        "with q as (insert into p (pid, pn) values (700, 1) returning *) select * from q",
        "with q as (delete from p where pid = 700 returning *) insert into p (pid, pn) select pid + 1, pn "
        "from q returning *",
        "prepare ins(int, int) as insert into p5 values ($1, $2) returning *",
        "execute ins(800, 77)",
        "execute ins(801, 60)",
        "create or replace view p5 as select * from p4",
        "insert into p5 values (803, 60)",
        "truncate p",
        "merge into p using b on false when matched then delete",
        "begin read only",
        "delete from p",
        "rollback",
        "create view v6 as select id, v from b where v like 'z%' with check option",
        "insert into v6 select g, 'zz' || g from generate_series(10001, 14000) g",
        "insert into v6 select g, 'y' || g from generate_series(20001, 24000) g",
        "update v6 set v = 'z' || id",
        "update v6 set v = 'y' || id",
        "select count(*) from v6",
        "delete from v6 where id % 2 = 0",
    )


def test_what_reads_a_temporary_relation_is_temporary(pair: Pair) -> None:
    pair.run("create table kept (a int)", "create temp table passing (a int)")
    pair.same(
        "create view one as select * from kept",
        "create view two as select * from kept where exists (select 1 from passing)",
        "create view three as select * from two",
        "create view statements.four as select * from passing",
        "select relname, relpersistence from pg_class where relname in ('one', 'two', 'three', 'four')",
        "create or replace view one as select a::text from kept",
        "drop view three, two",
        "drop table passing",
    )


def test_a_schema_with_its_elements(pair: Pair) -> None:
    try:
        pair.same(
            "create schema whole create view v as select * from b create table b (j int primary key references a) "
            "create table a (i int primary key)",
            "create schema whole create view v as select * from b create table a (i int primary key) "
            "create table b (j int references a) create index on b (j) create sequence s grant select on b to public",
            "select relname, relkind from pg_class where relnamespace = 'whole'::regnamespace",
            "select * from whole.v",
            "create schema other create table whole.c (i int)",
            "create schema other create temp view v as select 1",
            "show search_path",
        )
    finally:
        for connection in (pair.shoal, pair.postgres):
            connection.execute(b"drop schema if exists whole cascade")


def test_a_whole_row_in_a_list_is_refused_where_it_would_be_read_as_its_columns(pair: Pair) -> None:
    pair.run("create table t (a int, b int)", "insert into t values (1, 2)")
    for query in (
        "select ss.* from t i, lateral (values (i)) ss",
        "select a from t i where row(i, 1) is not null",
        "select a from t i where (select count(*) from (values (i)) v) = 1",
    ):
        with pytest.raises(psycopg.errors.FeatureNotSupported, match="a stored query with a whole row"):
            pair.shoal.execute(f"create view v as {query}".encode())
    with pytest.raises(psycopg.errors.FeatureNotSupported, match="a stored query with a whole row"):
        pair.shoal.execute(f"create materialized view v as {query}".encode())
    pair.run(
        "create view v as select ss.* from t i, lateral (values (i.*)) ss",
        "create view w as select count(*) as n from t i where row(i.*) = row(1, 2)",
    )
    pair.same("select * from v", "select * from w")
