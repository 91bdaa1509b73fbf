"""Statements that are new and find a few rows run without code of their own: they mean what PostgreSQL means."""

from __future__ import annotations

import random

import pytest

from catalog.errors import SqlError
from engine.execute import small
from engine.execute.code import _compile
from engine.execute.context import RowPathFull
from engine.execute.planner import SelectPlan
from tests.engine.execute.mirror import Mirror, Outcome, split_rows

STATEMENTS = (
    "select 1 / 0",
    "select case when true then 1 else 1 / 0 end, case when false then 1 / 0 end",
    "select case a when 10 then 'ten' when 20 then 'twenty' end, case when c then 1 when not c then 0 end from t",
    "select case a when case u when 100 then 10 end then 1 else 2 end from t",
    "select id from t where 1 / 0 = 1",
    "select x from nokey where x > 5 and 1 / (x - 1) = 1",
    "select x from nokey where x > 5 or 1 / (x - 1) = 1",
    "select x from nokey where null and 1 / (x - 1) = 1",
    "select (x > 1 and null), (x > 1 or null), not (x > 1), x is null from nokey",
    "select id from nulls where not (v + 1 > 1 and v + 1 < 9)",
    "select x + 2147483647 from nokey",
    "select nullif(x, 1), coalesce(nullif(x, 1), nullif(x, 2), 7) from nokey",
    "select x in (1, x + 5, null), x not in (2, null), x in (3, 4) from nokey",
    "select x, count(*), count(y), sum(x), avg(x + 1), min(-x) from nokey group by x having count(*) > 1 order by x",
    "select count(*), count(y), sum(x), max(x + 0) from nokey where x + 0 > 100",
    "select count(distinct x + 0), sum(distinct x + 0), count(*) filter (where x + 0 > 1) from nokey",
    "select x + 1, sum(x) from nokey group by x + 1 order by 1 desc",
    "select sum(x) / (count(*) - 3) from nokey",
    "select distinct x + 0, y is null from nokey order by 1 desc",
    "select y from nokey order by x + 0 desc, y",
    "select d + 1, d * 2.5 from t order by d + 0 nulls first",
    "select count(*) * 2, sum(3)",
    "select 5 where 1 = 2",
    "select from nokey",
    "select * from t where id = 2",
    "select b from t where u = 200",
    "select id from t where a = 10 and b is not null",
    "select id from t where a in (20, 10, null, 10) order by id",
    "select id from t where 15 > a",
    "select count(*), sum(a) from t where a >= 10 and a < 20 + 5",
    "select id, tu from child2 where id in (1, 3, 9223372036854775807)",
    "select id from child2 where tu is null",
    "select id from child2 where tu is not null order by id",
    "select id from t where id = 9223372036854775807",
    "select id from t where id > 9223372036854775807 or id < 2",
    "select id from t where id > -9223372036854775807 and id <= 2147483648 order by 1 desc",
    "select id from t where id < -9223372036854775807",
    "select id from t where id >= 2147483648",
    "select id from t where id > null",
    "select a, b, c from comp where a = 1 and b in (1, 2) and c >= 'a'",
    "select c from comp where a = 1 and b = 1 and c = 'b'",
    "select b from comp where a > 1",
    "select v from nulls where v is null",
    "select n from wide where k = 'b'",
    "select k from wide where k > 'a' and n < 6",
    "select id from t where id = 1 and false and 1 / (id - 1) = 1",
    "select id from t where id = 1 / 0",
    "select id from t where 1 = 2 and id = 1 / 0",
)


def outcome(mirror: Mirror, plan: SelectPlan) -> Outcome:
    try:
        data, count = plan.make_encoder((0,) * len(plan.fields))(mirror.context(mirror.rows), ())
    except SqlError as error:
        return Outcome(error=(error.sqlstate, error.message, error.detail))
    return Outcome(split_rows(data), count)


@pytest.mark.parametrize("sql", STATEMENTS)
def test_what_runs_without_code_means_the_same(mirror: Mirror, sql: str) -> None:
    plan = mirror.plan(sql, brief=True)
    assert plan._small is not None
    ours, theirs = outcome(mirror, plan), mirror.theirs(sql)
    if "order by" not in sql and ours.rows is not None:
        ours.rows.sort(key=repr)
        assert theirs.rows is not None
        theirs.rows.sort(key=repr)
    assert ours == theirs


def test_nothing_is_compiled_for_the_statement(mirror: Mirror) -> None:
    outcome(mirror, mirror.plan("select x + 1, count(*) from nokey group by x", brief=True))
    before = _compile.cache_info().misses
    for sql in ("select count(*), x + 1 from nokey where x + 5 = 6 group by x", "select x + 1 from nokey order by x"):
        assert outcome(mirror, mirror.plan(sql, brief=True)).error is None
    assert _compile.cache_info().misses == before


@pytest.mark.parametrize(
    "sql",
    (
        "select b || 'x' from t",  # may be large
        "select now() from t",  # asks the session
        "select id from t limit 1",
        "select id from t for update",
        "select random()",
        "select (select 1)",
        "select generate_series(1, 3)",
    ),
)
def test_what_has_a_plan_of_its_own(mirror: Mirror, sql: str) -> None:
    plan = mirror.plan(sql, brief=True)
    assert plan is None or plan._small is None


def test_look_ups_find_what_written_plans_find(mirror: Mirror) -> None:
    chance = random.Random(5)
    rows = ", ".join(f"({a}, {b}, '{c}', {a + b})" for a in range(3) for b in range(3) for c in "wxyz")
    mirror.statement(f"insert into comp values {rows} on conflict do nothing")
    values = ("0", "1", "2", "3", "null", "-9223372036854775807", "9223372036854775807")

    def condition() -> str:
        column = chance.choice("aabbcv")
        if column == "c":
            value = chance.choice(("'w'", "'x'", "''", f"'{'z' * 600}'"))
        else:
            value = chance.choice(values)
        if chance.random() < 0.3:
            return f"{column} in ({value}, {value}, {chance.choice(('null', value))})"
        return f"{column} {chance.choice(('=', '=', '<', '<=', '>', '>='))} {value}"

    for _ in range(300):
        sql = f"select a, b, c from comp where {' and '.join(condition() for _ in range(chance.randint(1, 4)))}"
        plan = mirror.plan(sql, brief=True)
        assert plan._small is not None
        try:
            wanted = mirror.plan(sql).rows(mirror.context(mirror.rows), ())
        except RowPathFull:  # keys that may be cut
            continue
        assert plan.rows(mirror.context(mirror.rows), ()) == wanted, sql


@pytest.mark.parametrize("value", ("5", "'five'"))
def test_values_of_the_statement_may_be_parameters(mirror: Mirror, value: str) -> None:
    column = "y" if "'" in value else "x"
    mirror.statement("insert into nokey values (5, 'five')")
    plan = mirror.plan(f"select x, y from nokey where {column} = $1", brief=True)
    assert plan._small is not None
    assert plan.rows(mirror.context(mirror.rows), (eval(value),)) == ([(5, "five")], 1)


def test_a_large_parameter_wants_a_plan(mirror: Mirror) -> None:
    plan = mirror.plan("select x from nokey where y <> $1", brief=True)
    with pytest.raises(small.NotSmall):
        plan._small.run(mirror.context(mirror.rows), ("x" * 5000,))
    assert plan.rows(mirror.context(mirror.rows), ("x" * 5000,)) == ([(1,), (1,)], 2)


def test_look_ups_that_find_more_rows_have_a_plan(mirror: Mirror) -> None:
    values = ", ".join(f"({n}, {n})" for n in range(1000, 1000 + small.MOST_ROWS + 1))
    mirror.statement(f"insert into tree values {values}")
    for sql in ("select id from tree where id >= 1000", "select id from tree where id > 1000"):
        plan = mirror.plan(sql, brief=True)
        assert plan._small is not None
        assert outcome(mirror, plan) == mirror.theirs(sql)


def test_a_table_of_more_rows_has_a_plan_and_is_not_tried_again(mirror: Mirror) -> None:
    values = ", ".join(f"({n}, '{n}')" for n in range(small.MOST_ROWS - 3))
    mirror.statement(f"insert into nokey values {values}")
    sql = "select x + 1, count(*) from nokey group by x order by 1"
    plan = mirror.plan(sql, brief=True)
    assert outcome(mirror, plan) == mirror.theirs(sql)  # as many as there may be
    assert mirror.plan(sql, brief=True)._small is not None
    mirror.statement("insert into nokey values (-7, 'one more')")
    plan = mirror.plan(sql, brief=True)
    assert plan._small is not None
    assert outcome(mirror, plan) == mirror.theirs(sql)
    assert mirror.plan(sql, brief=True)._small is None
    small._large.clear()
