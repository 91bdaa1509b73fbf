"""Statements whose literals were lifted out of their text: none of these is NULL, everything else may be."""

from __future__ import annotations

from tests.engine.session.conftest import Pair


def thrice(*templates: str) -> list[str]:
    """Each template with other literals: planned, planned again and kept, taken from the cache."""
    return [template.format(number) for template in templates for number in (2, 3, 4)]


def test_literals_beside_nulls(pair: Pair) -> None:
    pair.run(
        "create table t (id int primary key, a int, f float8, s text, j jsonb)",
        "insert into t values (1, 1, 1.5, 'x', '{}'), (2, 2, null, null, 'null'), (3, null, 2, 'y', null)",
    )
    pair.same(
        *thrice(
            "select id, a + {0}, {0} - a, -a, a - id from t where a < {0} or a is null",
            "select id from t where a in ({0} - 1, abs({0} - 4), {0} / 2)",
            "select id, a in ({0}, null) from t",
            "select id from t where f < {0}.5 and s <> 'a{0}'",
            "select nullif(a, {0}), coalesce(a, {0}), case when a = {0} then 'is' else s end from t",
            "select id, nullif({0}, 3) + a, coalesce(nullif({0}, 3), a, 7) from t",
            "select id, j = 'null', j ->> 'a{0}' from t",
            "select sum(a - {0}), max(nullif(a, {0})), count(nullif({0}, 3)) from t",
            "select a, a from t where id <> {0} order by a desc nulls last, id",
            "select not (a > {0}), (a > {0}) is not true, (a > {0} and f > {0}) from t",
        )
    )


def test_rows_with_nulls_beside_literals_are_written(pair: Pair) -> None:
    pair.run("create table t (id int primary key, a int, b int)")
    pair.same(
        *thrice("insert into t values ({0}, nullif({0}, 3), {0} + 1)"),
        *thrice("update t set a = nullif(b, {0}), b = b - {0} where id <= {0}"),
        *thrice(
            "insert into t select g, nullif(g % 3, 0), {0} from generate_series({0}, 9000) g"
            " on conflict (id) do nothing"
        ),
        "select count(*), count(a), sum(b) from t",
    )


def test_a_whole_small_table_is_read_and_a_larger_one_too(pair: Pair) -> None:
    pair.run("create table t (id int primary key, a int)", "insert into t select g, g from generate_series(1, 512) g")
    pair.same("select count(*), sum(a) from t", "select a from t where a > 500 limit 3", "select max(a - id) from t")
    pair.run("insert into t values (513, 513)")
    pair.same("select count(*), sum(a) from t", "select max(a - id) from t", "select t.a from t where 1 / a >= 0")


def test_now_is_when_the_transaction_began(pair: Pair) -> None:
    pair.run("create table t (id serial, d timestamp, a timestamptz[], r tstzrange)", "begin")
    for _ in range(3):
        pair.run("insert into t (d, a, r) values ('now', '{now}', '[now,)')")
    pair.same(
        "select count(distinct d), count(distinct a), count(distinct r), bool_and(d = now()) from t",
        *["select 'now'::timestamptz = now(), count(*) from t where d = 'now'"] * 3,
        *["select 'today'::date = current_date, 'tomorrow'::timestamp > 'yesterday'"] * 3,
    )
    for connection in (pair.shoal, pair.postgres):
        for _ in range(3):
            found = connection.execute("select %s::timestamptz = now(), count(*) from t where d = %s", ("now", "now"))
            assert found.fetchall() == [(True, 3)]
    pair.run("rollback")
