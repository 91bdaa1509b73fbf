"""Rows of no declared type through sub-queries, VALUES, WITH and set operations, beside PostgreSQL."""

from __future__ import annotations

from tests.engine.session.conftest import Pair


def test_rows_of_no_declared_type(pair: Pair) -> None:
    pair.run(
        "create table g (f int, t int, l text)",
        "insert into g values (1, 2, 'a'), (1, 3, 'b'), (2, 3, null)",
    )
    pair.same(
        "select x from (values (row(1, 2)), (row(1, 3))) v(x) union select x from (values (row(1, 4))) v(x)",
        "select x from (values (row(1, 2)), (row(1, 3))) v(x) intersect select row(f, t) from g",
        "select x from (values (row(1, 2)), (row(7, 3))) v(x) except select row(f, t) from g",
        "select row(1, row(2, 'b c')), row(row(row(null, true)))",
        "select f, row(f, row(t, l)) from g order by row(l, f) desc",
        "with c as (select row(f, l) as x from g) select x from c union all select row(9, null::text)",
        "with recursive r(n, x) as (select 1, row(1, 'a'::text) union all "
        "select n + 1, row(n + 1, 'b'::text) from r where n < 3) select * from r",
        "with recursive r(n, x) as (select 1, row(1, 'a'::text) union "
        "select (n + 1) % 3, row(n % 3, 'a'::text) from r) select * from r",
        "select case when f = 1 then row(f, l) else row(t, 'z') end, (select row(f, t) from g where l = 'a') from g",
        "select distinct row(f, null::text) from g",
    )
    pair.same(
        "select v.* from g, lateral (values (g.*), (9, 9, 'z')) v where g.f = 2",
        "values (1, 2), (3)",
        "create view w as select f, t from g offset 0",
        "update g set l = 'n' from w where w.t = g.t and w.f = g.f and g.f = 1 returning g.t, w.f, w::text",
        "delete from g using (select t, l from g) s where s.t = g.t and g.l is null returning s",
    )
    ordered = b"select x from (select row(l, f) as x from g) s order by x desc"
    assert pair.shoal.execute(ordered).fetchall() == pair.postgres.execute(ordered).fetchall()


def test_all_columns_of_a_table_within_rows(both_paths: Pair) -> None:
    both_paths.run("create table starred (a int, b int)", "insert into starred values (1, 2), (3, 4), (5, null)")
    both_paths.same(
        "select a from starred s where row(s.*) = row(1, 2)",
        "select a from starred s where row(1, 2) <> row(s.*)",
        "select a from starred s where row(s.*) < row(3, 5)",
        "select a from starred s where row(s.*) in (row(1, 2), (3, 4))",
        "select a from starred s where row(s.*) in (select 1, 2)",
        "select a from starred s where row(s.*, 1) = row(1, 2)",
        "select a from starred s where row(s.*) is distinct from row(1, 2)",
        "select a from starred s where (s.*) in (select 1, 2)",
        "update starred set (a, b) = row(v.*) from (values (3, 30)) v where starred.a = v.column1 returning starred.*",
        "update starred set (a, b) = row(v.*, 1) from (values (3, 30)) v",
    )
