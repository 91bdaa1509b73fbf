"""WITH RECURSIVE: lazy where a LIMIT ends it, rows in the order of its steps; beside PostgreSQL."""

from __future__ import annotations

import pytest

from tests.engine.session.conftest import Pair

TABLE = (
    "create table node (id int, parent int, name text)",
    "insert into node values (9, null, 'r'), (1, 9, 'a'), (2, 1, 'b'), (3, 2, 'c'), (4, 2, 'd'), (5, 9, 'e')",
    "insert into node values (6, 4, 'f')",
)

ORDERED = (
    "with recursive t(n) as (select 1 union all select n + 1 from t) select * from t limit 10",
    "select * from (with recursive t(n) as (select 1 union all select n + 1 from t) select * from t) t limit 7",
    "with recursive t(n) as (select 1 union all select n + 1 from t), u as (select n from t limit 3) select * from u",
    "with recursive t(n) as (select 1 union all select n / 0 from t) select * from t limit 1",
    "with recursive t(n) as (select 3 union select (n + 5) % 4 from t) select a.n, b.n from t a, t b where a.n < b.n",
    "with recursive t as (select * from node where parent is null union all "
    "select n.* from node n join t on n.parent = t.id) select * from t",
    "with recursive t(n) as (select 1 union all (with s as (select n from t) select n + 1 from s where n < 4)) "
    "select * from t",
    "with recursive t as (select id, array[id] as path from node where parent is null union all "
    "select n.id, path || n.id from node n join t on n.parent = t.id) select * from t order by path",
    "with recursive q as (select id from node union all (with recursive x as (select id from node union all "
    "(select * from q union all select * from x)) select * from x)) select * from q limit 32",
    "select s.name from (select name, (select n.id from node n where n.parent = m.id) from node m) s",
    "select name, (with recursive t(n) as (select node.id union all select n + 1 from t where n < 6) "
    "select sum(n) from t) from node",
    "with recursive x(i) as (select 1 union all select i + 1 from x where i < 3), y(i) as (select i * 10 from x union "
    "all select i + 1 from y where i % 10 < 2) select * from y",
)


@pytest.mark.parametrize("sql", ORDERED)
def test_rows_come_step_by_step(pair: Pair, sql: str) -> None:
    pair.run(*TABLE)
    assert pair.shoal.execute(sql.encode()).fetchall() == pair.postgres.execute(sql.encode()).fetchall()


def test_recursions_that_are_long_and_those_within_changes(both_paths: Pair) -> None:
    both_paths.run(*TABLE)
    both_paths.same(
        "with recursive t(n) as (select 1 union all select n + 1 from t where n < 9999) select count(*), sum(n) from t",
        "with recursive t(n) as (select 1 union all select n + 1 from t where n < 9) delete from node "
        "where id in (select n from t where n > 5) returning *",
        "with recursive t(n) as (values (1) union all select n + 1 from t where n < 3) "
        "insert into node select n, n, 'new' from t returning id",
        "select * from node",
    )
