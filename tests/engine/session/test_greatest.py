"""greatest and least: of equal values that look different, the first is given."""

from __future__ import annotations

from tests.engine.session.conftest import Pair


def test_of_equal_values_the_first_is_shown(both_paths: Pair) -> None:
    both_paths.run(
        "create table t (id int primary key, n numeric, m numeric(8,3), i interval, f float8, c char(3), a interval[])",
        "insert into t values (1, 0, 0, '1 month', 0, 'x', '{1 month}'), (2, 0.000, 0, '30 days', '-0', 'y',"
        " '{30 days}'), (3, null, null, null, null, null, null), (4, 'NaN', 7, '-1 day', 'NaN', 'z', '{}')",
    )
    shown = (
        "select id, {0}(n, 0::numeric(10,2))::text, {0}(0.00, n)::text, {0}(n, m, 0.0)::text, {0}(m, n)::text from t",
        "select id, {0}(0.0, null, n, 0)::text, {0}(null::numeric, n)::text, {0}({0}(n, 0.0), 0.00)::text from t",
        "select id, {0}(i, '1 month')::text, {0}('30 days', i)::text, {0}(i, '720 hours', null)::text from t",
        "select id, {0}(f, 0)::text, {0}(0, f)::text, {0}(f, f)::text from t",
        "select id, {0}('-0', f)::text, {0}(f, '-0', null)::text from t",
        "select id, {0}(a, '{{30 days}}')::text, {0}('{{1 month}}', a)::text from t",
        "select id, {0}(c, 'y')::text, {0}(id, 2), {0}(c::text, 'y') from t",
        "select count(*), sum({0}(n, m))::text, {0}(min(m), 0.0)::text from t where {0}(n, 0) >= {0}(m, 0)",
    )
    both_paths.same(*(query.format(name) for name in ("greatest", "least") for query in shown))


def test_the_first_of_equal_numerics_is_stored(both_paths: Pair) -> None:
    both_paths.run("create table t (id int primary key, n numeric)", "insert into t values (1, 0), (2, 0.000), (3, -1)")
    both_paths.same(
        "insert into t select id + 10, greatest(n, 0::numeric(10,2)) from t",
        "insert into t select id + 20, least(0.0, n) from t where id < 10",
        "update t set n = least(n, 0.0000) where id = 1 returning id, n::text",
        "select id, n::text from t",
    )
