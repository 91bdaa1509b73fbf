"""SELECT on the row path gives what PostgreSQL gives."""

from __future__ import annotations

import pytest

from engine.storage.keys import row_key_encoder
from engine.storage.rows import RowCodec
from tests.engine.execute.mirror import Mirror

LOOKUPS = """
select * from t
select * from t where id = 2
select * from t where 2 = id
select b from t where id = 77
select id, a from t where a = 20
select id, a from t where a = 20 and b > 'g'
select id from t where a = 20 and b in ('two', 'four', 'x')
select id from t where u = 400
select id from t where a is null
select id from t where a is not null
select id from t where a > 10 and a <= 70
select id from t where a > 10 and a > 20
select id from t where a < 20
select id from t where a >= null
select id from t where id = null
select id from t where id in (1, 3, 99, 1)
select id from t where id in (1, null)
select id from t where id = any(array[1, 2])
select id from t where id = any(null::int[])
select id from t where id not in (1, 2)
select id from t where a not in (20, null)
select id from t where id between 2 and 4
select id from t where id < 3000000000
select id from t where id = 3000000000
select id from t where id > 3000000000
select id from t where id::bigint = 2
select * from comp where a = 1 and b = 1
select * from comp where a = 1 and b = 1 and c = 'a'
select * from comp where a = 1 and b > 1
select * from comp where b = 1
select * from comp where a in (1, 2) and b = 1
select * from wide where k = 'a'
select k from wide where k > 'a'
select k from wide where k >= '' and k < 'b'
select k from wide where n = 5
select k from wide where n between -5::smallint and 10::int
select k from wide where ts > '2000-01-01'
select k from wide where f = 'nan'
select k, arr[2], arr[1:2], arr[9] from wide
select k from wide where ch = 'ab'
select * from nokey where x = 1
select * from t where b like 'f%'
select * from t where not (a = 20)
select * from t where c
select * from t where c is not true
select * from t where a = 20 or b = 'one'
select * from t where (a = 20) is unknown
select id from t where d = 2.250
select id from t limit 0
select t from t where id = 3
select row(1, 'a b', null, true)
select id from t as x where x.id = 1
""".strip().splitlines()

ORDERED = """
select id from t order by id
select id from t order by id desc
select id from t order by id limit 2 offset 1
select id from t order by id desc limit 2
select id, a from t order by a desc nulls last, id
select id, a from t order by a nulls first, id desc
select id, a from t order by a desc, id limit 3
select id, a from t order by a, b
select id from t where a = 20 order by b
select id from t where a = 20 order by b desc limit 1
select a, b, c from comp order by a, b, c
select a, b, c from comp order by a desc, b desc, c desc limit 2
select a, b, c from comp where a = 1 order by b, c
select a, b, c from comp order by b, a, c
select * from comp where a in (2, 1) and b = 1 order by a desc, c desc
select b from t order by b nulls first limit 2
select k from wide order by k
select k from wide order by f
select k from wide order by f desc nulls last
select id % 2 as odd, id from t order by odd, id desc
select id from t order by -id
select distinct a from t order by a
select distinct on (a) a, id from t order by a, id desc
select id from t order by id offset 2
select id from t order by id limit null offset null
select * from (values (1, 'a'), (2, 'b')) v(i, s) order by i desc
select id from t where a is not null order by a, id limit 2 for update
select id from t order by id for share skip locked
select id from t where id = 2 for no key update nowait
select id from t where id > 1 order by b limit 1 for update
""".strip().splitlines()

AGGREGATES = """
select count(*), count(a), sum(a), min(b), max(d), avg(a) from t
select count(*) from t where id = 99
select sum(a), max(a), bool_and(c) from t where id = 99
select a, count(*) from t group by a
select a, count(*) from t group by a having count(*) > 1
select a + 1, sum(id) from t group by a + 1
select a, array_agg(id order by id desc), string_agg(b, ',' order by b) from t group by a
select count(distinct a), sum(distinct a) from t
select count(*) filter (where a = 20), max(id) filter (where c) from t
select sum(d), avg(d) from t
select bool_and(c), bool_or(c) from t
select min(id), max(id) from t
select max(a), min(a), min(u) from t
select max(a) from t where id > 100
select max(a) from t where a < 20
select max(c) from comp where a = 1 and b = 1
select t.id, t.b, count(child.id) from t left join child on child.tid = t.id group by t.id
select 1 from t having count(*) > 3
select max(a) + min(a) from t
""".strip().splitlines()

JOINS = """
select t.id, c.id from t join child c on c.tid = t.id
select t.id, c.id from t, child c where c.tid = t.id and t.a = 10
select t.id, c.id, c.note from t left join child c on c.tid = t.id
select t.id, c.id from t left join child c on c.tid = t.id and c.id > 1 where t.id < 4
select t.id from t left join child c on c.tid = t.id where c.id is null
select t.id, c.id from child c right join t on c.tid = t.id
select t.id, c.id, d.id from t join child c on c.tid = t.id left join child2 d on d.tu = t.u
select a.id, b.id from tree a join tree b on b.up = a.id
select x.id, y.id from t x cross join tree y where y.id = x.id
select id, tid from t join child using (id)
select id from t natural join tree
select g, t.id from generate_series(1, 3) g left join t on t.id = g
select * from (select id, a from t where a is not null) s join child on child.tid = s.id
select t.id, l.id from t, lateral (select child.id from child where child.tid = t.id limit 1) l
select v.x, t.b from (values (1), (4), (9)) v(x) left join t on t.id = v.x
""".strip().splitlines()

SUBQUERIES = """
select id from t where exists (select 1 from child2 where tu = t.u)
select id from t where not exists (select from child where tid = t.id)
select id from t where id in (select tid from child)
select id from t where id not in (select tid from child)
select id from t where id not in (select tid from child where tid is not null)
select id, (select count(*) from child where tid = t.id) from t
select (select b from t where id = 7), (select max(id) from t), (select id from t where false)
select array(select id from t order by id)
select id from t where a = (select max(a) from t where a < 30)
select id from t where a > all (select a from t where id < 3)
select id from t where a >= any (select a from t where id = 2)
select (select id from t)
select 1 union select 2 union all select 2
select a from t union select tid from child
select id from t intersect select tid from child
select a from t except select 20
select a from t except all select 20
select tid from child intersect all select id from t
with x as (select id, a from t where a is not null) select * from x where id > 2
with x as (select id from t), y as (select * from x where id > 2) select count(*) from x, y
select x.id from (select id from t union select id from tree) x where x.id > 3
values (1, 2), (3, null)
select * from (select id, a from t order by id limit 2) s where a > 5
select (select t.a + s.v from (select 5 as v) s) from t
""".strip().splitlines()


SET_FUNCTIONS = """
select unnest(arr) from wide where k = 'a'
select k, unnest(arr), n from wide where k >= 'a'
select k, unnest(arr) + 1 as e, n from wide order by k, e desc
select k, unnest(arr) from wide order by 2 nulls first, 1 limit 3 offset 1
select k, unnest(arr) from wide where k = 'a' order by 2 desc
select k from wide order by unnest(arr), k
select distinct unnest(arr) from wide order by 1
select distinct on (1) k, unnest(arr) from wide order by 1, 2 desc
select generate_series(1, 3), generate_series(1, 2), 'x'
select generate_series(1, 2), unnest(array['a', 'b', null]), unnest('{}'::int[])
select unnest('{}'::int[]), 1
select generate_series(1, a / 10), id from t where id < 4 order by id, 1
select generate_series(1, count(*)), max(a) from t where id < 4
select a, generate_series(1, count(*)) from t group by a order by 1, 2
select a, count(*), generate_series(1, 2) from t group by a having count(*) > 0 order by 1, 3
select regexp_split_to_table('a,b,c', ','), generate_series(1, 2) * 2
select id from t where exists (select unnest(arr) from wide where k = 'no such')
select id from t where exists (select unnest('{}'::int[])) or id = 1
select id from t where id in (select unnest(arr) from wide)
select id, array(select unnest(arr) from wide where k = 'a') from t where id = 1
select (select generate_series(1, 2))
select (select unnest(array[7]))
select s.* from (select k, unnest(arr) as e from wide) s where e > 1 order by 1, 2
select unnest(array[true, false, null]) and k = 'a' from wide where k = 'a'
select count(*) from (select unnest(arr), generate_series(1, 2) from wide) s
select k, unnest(arr) from wide union all select 'x', generate_series(1, 2) order by 1, 2
""".strip().splitlines()


@pytest.mark.parametrize("sql", SET_FUNCTIONS)
def test_set_returning_functions_in_the_target_list(mirror: Mirror, sql: str) -> None:
    mirror.statement(sql, ordered="order by" in sql)


@pytest.mark.parametrize("sql", LOOKUPS)
def test_lookups_and_filters(mirror: Mirror, sql: str) -> None:
    mirror.statement(sql)


@pytest.mark.parametrize("sql", ORDERED)
def test_order_limit_and_locks(mirror: Mirror, sql: str) -> None:
    mirror.statement(sql, ordered=True)


@pytest.mark.parametrize("sql", AGGREGATES)
def test_aggregates(mirror: Mirror, sql: str) -> None:
    mirror.statement(sql)


@pytest.mark.parametrize("sql", JOINS)
def test_joins(mirror: Mirror, sql: str) -> None:
    mirror.statement(sql)


@pytest.mark.parametrize("sql", SUBQUERIES)
def test_subqueries_and_sets(mirror: Mirror, sql: str) -> None:
    mirror.statement(sql)


@pytest.mark.parametrize(
    ("sql", "parameters"),
    [
        ("select * from t where id = $1", ("2",)),
        ("select * from t where id = $1", (None,)),
        ("select id from t where a = $1 or $1 is null", (None,)),
        ("select id from t where id = any($1)", ("{1,4,NULL}",)),
        ("select id from t where id in ($1, $2)", ("1", None)),
        ("select id from t where a between $1 and $2", ("15", "30")),
        ("select id from t where id = $1::bigint", ("9999999999",)),
        ("select id from t order by id limit $1 offset $2", ("2", "1")),
        ("select id from t limit $1", ("-1",)),
        ("select id from t offset $1", ("-1",)),
        ("select $1::text || b from t where id < $2", ("x", "3")),
        ("select case when $1 then id else -id end from t", ("f",)),
        ("select k from wide where k = $1", ("b",)),
        ("select k from wide where ts < $1", ("2020-01-01",)),
    ],
)
def test_parameters(mirror: Mirror, sql: str, parameters: tuple[str | None, ...]) -> None:
    mirror.statement(sql, *parameters, ordered=True)


def test_rows_are_sorted_by_the_very_values_that_are_shown(mirror: Mirror) -> None:
    rows = mirror.ours("select random() as r from generate_series(1, 20) order by r").rows
    assert rows is not None and rows == sorted(rows, key=lambda row: float(str(row[0])))


@pytest.mark.parametrize(
    "sql",
    [
        "select * from t where id > 1000 and 1 / 0 = 1",
        "select * from t where false and 1 / 0 = 1",
        "select * from t left join child on true where t.id < 0 and 'x' || 1 = 'x2'",
        "update t set a = 1 where id = 1 and 1 / 0 = 1",
        "select count(*) from t where 1 = 2",
    ],
)
def test_conditions_without_columns_need_no_rows(mirror: Mirror, sql: str) -> None:
    mirror.statement(sql)


@pytest.mark.parametrize(
    "condition",
    [
        "a in (select u from t)",
        "a in (select a from t where id > 1 order by id)",
        "a in (select max(a) from t)",
        "a in (select distinct u from t limit 3)",
        "a in (select a from t where a is null)",
        "(a, b) in (select a, b from t where id < 3)",
        "(a, d) in (select u, d from t)",
        "d in (select d + 0.00 from t)",
        "b in (select b from t union select 'one')",
        "a + 1 in (select u from t) or c in (select not c from t)",
        "a in (select 1 / (id - 1) from t)",
        "not (a in (select u from t))",
        "a in (select x.u from t x where x.a in (select y.a from t y where y.c))",
        "exists (select 1 from t x where x.a in (select y.u from t y) and x.id = t.id)",
        "'NaN'::float8 in (select 'NaN'::float8 from t)",
        "0::float8 in (select '-0'::float8 from t)",
    ],
)
def test_in_over_a_sub_query_that_is_the_same_for_all_rows(mirror: Mirror, condition: str) -> None:
    mirror.statement(f"select id from t where {condition}")
    mirror.statement(f"select count(*) from t where {condition} group by c")


def test_such_a_sub_query_runs_once(mirror: Mirror) -> None:
    table = mirror.catalog.table(mirror.plan("select id from nulls").relations[0])
    codec, key = RowCodec(table), row_key_encoder(table.storage_id, [table.columns[0].type])
    for number in range(300):  # 90,000 visits, if it ran for each
        mirror.rows[key((number,))] = codec.encode((number, number + 100))
    plan = mirror.plan("select count(*) from nulls where v in (select id + 0 from nulls)")
    assert plan.rows(mirror.context(mirror.rows), ()) == ([(200,)], 1)
