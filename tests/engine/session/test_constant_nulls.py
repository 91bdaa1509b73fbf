"""A strict function of a constant NULL is NULL at planning: its other arguments are not evaluated."""

from __future__ import annotations

import psycopg
import pytest

from tests.engine.session.conftest import Pair

NULLS = (
    "array_length('{}'::int4[], 1)",
    "array_length(array[1, 2], 2)",
    "nullif(1, 1)",
    "('{1}'::int4[])[2]",
    "('{\"a\": 1}'::jsonb ->> 'b')::int",
    "case when 1 = 2 then 7 end",
    "coalesce(null, nullif(3, 3))",
    "(null::int + 1)",
)


@pytest.fixture
def table(both_paths: Pair) -> Pair:
    both_paths.run("create table t (id int primary key, a int)", "insert into t values (0, 5), (1, 0), (2, null)")
    return both_paths


def test_other_arguments_are_not_evaluated(table: Pair) -> None:
    table.same(
        *(
            query.format(null)
            for null in NULLS
            for query in (
                "select id, {0} = a % id, a / id + {0}, ({0} + a) * (a / id) from t",
                "select id from t where a / id = {0} or id = 1",
            )
        ),
        "select id, a / id * -abs(nullif(1, 1) + a / id)::bigint from t",
        "select id, (nullif(1, 1) + a / id) is null, not (nullif(1, 1) = a / id) from t",
        "select id, repeat(repeat(nullif('a', 'a'), a / id), a / id) from t",
        "select id, to_char(a / id, nullif('9', '9')), (a / id)::text like nullif('a', 'a') from t",
        "select id, (a / id)::numeric(4, 1) * array_length('{}'::int4[], 1)::numeric(4, 1) from t",
        "select id from t where not (a / id = null::int)",
        "select sum(nullif(1, 1) + a / id), sum(a) + nullif(1, 1) * (sum(a) / 0) from t",
        "select nullif(1, 1) = a / id, count(*) from t group by 1",
        "select id, nullif(1, 1) + (select a / t.id) from t",
        "update t set a = nullif(1, 1) + a / id where id = 0 returning *",
        "insert into t select id + 10, nullif(1, 1) + 1 / id from t returning *",
    )


def test_what_is_not_null_hides_no_error(table: Pair) -> None:
    table.same(
        "select id, nullif(2, 1) + a / id from t",
        "select id, array_length('{1}'::int4[], 1) + a / id from t",
        "select id, array_length('{1}'::int4[], 1) + a / id from t where id > 0",
        "select id, greatest(nullif(1, 1), a / id) from t",
        "select id, nullif(1, 1) in (a / id, 3) and coalesce(nullif(1, 1), a / id) > 0 from t",
        "select id, nullif(a, a) + a / id from t",
        *(
            query.format(number)  # the third has a plan that is kept
            for query in (
                "select id, coalesce({0}, 1) + a % (id + 1), greatest({0}, 3) * (a - id) + coalesce({0}, a) from t",
                "select id, (nullif({0}, 3) + coalesce({0}, 1)) * (a + id) * (coalesce(5, {0}) + id) from t",
            )
            for number in (2, 3, 4)
        ),
    )


def test_errors_of_constants_are_raised(pair: Pair) -> None:
    pair.run("create table t (id int primary key, a int)", "insert into t values (0, 5), (1, 0), (2, null)")
    pair.same(
        "select id, nullif(1, 1) + 1 / 0 from t",
        "select id, 1 / 0 + nullif(1, 1) from t",
        "select id, nullif(1, 1) + (1 / 0 + a) from t",
    )


def test_parameters_are_constants(table: Pair) -> None:
    for value in (None, 1):
        found = []
        for connection in (table.shoal, table.postgres):
            try:
                query = "select id, a / id + %s, abs(%s) = a / id from t"
                found.append(sorted(connection.execute(query, (value, value)).fetchall()))
            except psycopg.errors.DivisionByZero as error:
                found.append([(error.sqlstate,)])
        assert found[0] == found[1]
