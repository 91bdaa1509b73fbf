"""INSERT, UPDATE and DELETE: the same rows, counts, errors and details as PostgreSQL."""

from __future__ import annotations

import pytest

from tests.engine.execute.mirror import Mirror

EVERYTHING = ("t", "child", "child2", "tree", "pair", "pair_child", "nokey", "gen", "comp", "nulls", "wide")

CHANGES = """
insert into t values (9, 1, 'x', true, 0, 5)
insert into t (a, id) values (5, 9) returning *, a + 1 as more
insert into t values (1, 1, 'x', true, 0, 5)
insert into t values (9, 1, 'x', true, 0, 100)
insert into t values (9, 1000, 'x', true, 0, 900)
insert into t (a) values (5)
insert into t values (8, 1), (9, 2), (8, 3)
insert into t values (9, 1, 'x', true, 123456789.555, 900)
insert into t values (9, 1, 'a long text that is cut: 0123456789 0123456789 0123456789 0123456789', true, 0, 1)
insert into t select id + 100, a, b from t where a is not null
insert into t select id, a from t
insert into t (id, b) select 50, 'a very long text, 0123456789 0123456789 0123456789 0123456789 0123456789 0123456789'
insert into child (tid, note) values (1, null)
insert into child (tid, note) values (1, 'far too long for it')
insert into child (tid) values (99)
insert into child (tid) values (null) returning id, note
insert into child values (77, 1, default)
insert into child2 values (4, 12345)
insert into child2 values (4, 700)
insert into tree values (5, 5)
insert into tree values (6, 7), (7, 6)
insert into tree values (6, 77)
insert into pair_child values (3, 1, 2)
insert into pair_child values (3, 2, 1)
insert into pair_child values (3, null, 1)
insert into nokey values (3, 'c'), (3, 'c')
insert into nokey default values returning *
insert into gen (a) values (5), (null) returning *
insert into gen (id, a) values (3, 4)
insert into gen (g) values (3)
insert into comp values (5, 5, 'A', 3)
insert into comp values (5, 5, 'A', 0)
insert into comp values (1, 1, 'a', 3)
insert into nulls values (3, null)
insert into nulls values (3, 3)
insert into wide values ('c', 1, 2, '2021-01-01', '{4}', '[1]', 'x', 'abcde')
insert into t values (1, 1) on conflict do nothing
insert into t values (9, 1), (9, 2), (1, 3) on conflict do nothing returning id
insert into t values (9, 1, 'n', true, 0, 100) on conflict do nothing
insert into t values (9, 1, 'n', true, 0, 100) on conflict (id) do nothing
insert into t values (1, 5, 'n', true, 0, 100) on conflict (id) do update set a = excluded.a + t.a, b = 'm' returning *
insert into t values (20, 1), (20, 2) on conflict (id) do update set a = excluded.a
insert into t values (1, 1), (1, 2) on conflict (id) do update set a = excluded.a
insert into t values (21, 1, 'n', true, 0, 200) on conflict (u) do update set b = excluded.b where t.a > 100
insert into t values (21, 1, 'n', true, 0, 200) on conflict (u) do update set b = excluded.b, u = 201 where t.a = 20
insert into t values (1, 2000) on conflict (id) do update set a = 2000
insert into t values (1) on conflict on constraint t_pkey do update set id = 2
insert into t values (1) on conflict (id) do update set id = excluded.id + 100 returning id
insert into nulls values (9, null) on conflict (v) do update set id = 9
update t set a = a + 1 where id = 1
update t set a = a + 1 where id = 77
update t set b = b || '!' where a = 20 returning id, b
update t set a = null, b = default, c = not c
update t set u = 200 where id = 1
update t set u = 201 where id = 2
update t set u = u + 1
update t set a = 5000 where id = 1
update t set id = null where id = 1
update t set id = 10 where id = 7 returning *
update t set id = 2 where id = 7
update t set id = 11 where id = 1
update t set id = id where id = 1
update t set id = id + 100
update t set (a, b) = (1, 'x') where id = 2
update t set a = (select max(id) from tree) where id = 2
update t set a = c.id from child c where c.tid = t.id returning t.id
update t set b = 'z' where id in (select tid from child)
update t set b = 'z' where exists (select 1 from child2 where tu = t.u) and a > 10
update child set tid = 99 where id = 1
update child set tid = null
update child2 set tu = 400 where id = 1
update tree set up = 4 where id = 2
update tree set id = 9 where id = 1
update tree set id = 9, up = 9 where id = 4
update pair set b = 9 where a = 1 and b = 1
update pair set b = 9 where a = 1 and b = 2
update gen set a = a + 1 returning g
update gen set g = 1
update comp set c = 'B' where c = 'b'
update comp set v = 2 where c = 'A'
update comp set v = 2
update wide set arr[2] = 9 where k = 'b' returning arr
update wide set k = k || k
update nokey set y = 'z' where x = 1
update nulls set v = null where id = 1
update t set a = 1/0 where id = 1
update t set a = 1 where false
delete from t where id = 1 returning *
delete from t where id = 2
delete from t where a = 20
delete from t
delete from t using child2 where child2.tu = t.u
delete from child
delete from tree where id = 4
delete from tree where id = 1
delete from tree
delete from pair where b = 1
delete from pair
delete from nokey where x = 1
delete from comp where a = 1 and b = 1
delete from wide where n < 0 or n is null
""".strip().splitlines()


@pytest.mark.parametrize("sql", CHANGES)
def test_change(mirror: Mirror, sql: str) -> None:
    mirror.statement(sql)
    for table in EVERYTHING:
        mirror.statement(f"select * from {table}")


def test_indexes_follow_the_rows(mirror: Mirror) -> None:
    mirror.statement("update t set a = a + 5, b = upper(b)")
    mirror.statement("update t set id = id + 50, u = u + 1 where id > 2")
    mirror.statement("delete from t where id = 2")
    mirror.statement("insert into t values (2, 25, 'again', null, null, 200)")
    for sql in (
        "select * from t where a = 25",
        "select * from t where a = 25 and b = 'TWO'",
        "select id from t where u = 401",
        "select id from t where u = 200",
        "select id from t where a is null",
        "select id from t where a < 100",
    ):
        mirror.statement(sql)


def test_restrict_and_set_default(mirror: Mirror) -> None:
    mirror.statement("insert into strict_child values (1, 4)")
    mirror.statement("insert into default_child values (1, 2), (2, 7)")
    mirror.statement("delete from t where id = 4")
    mirror.statement("delete from t where id = 2")
    mirror.statement("select * from default_child")
    mirror.statement("delete from t where id = 7")
    mirror.statement("delete from t")


def test_parameters_in_changes(mirror: Mirror) -> None:
    mirror.statement("insert into t (id, a, b) values ($1, $2, $3)", "30", None, "thirty")
    mirror.statement("insert into t (id, a) values ($1, 1), ($2, $3)", "31", "32", "3")
    mirror.statement("update t set a = a + $1 where id = $2 returning a", "7", "1")
    mirror.statement("update t set a = $1 where id = $2", "7000", "1")
    mirror.statement("delete from t where id = $1", "31")
    mirror.statement("select * from t")
