"""Values at the edges of their types, on both paths, beside PostgreSQL."""

from __future__ import annotations

import pytest

from tests.engine.session.conftest import Pair

_CASH = "'92233720368547758.07'::money"


def test_money_out_of_range(both_paths: Pair) -> None:
    least = "'-92233720368547758.08'::money"
    numbers = ("2", "-2", "1::int2", "-1::int8", "3::int8", "1.5::float4", "2.5::float8", "-2.5::float8")
    both_paths.same(
        *(f"select {cash} {operator} '{other}'::money" for cash in (_CASH, least) for operator in ("+", "-")
          for other in ("0.01", "-0.01", "92233720368547758.07")),
        *(f"select {cash} * {number}" for cash in (_CASH, least) for number in numbers),
        *(f"select {number} * {cash}" for cash in (_CASH, least) for number in numbers),
        *(f"select {_CASH} / {number}" for number in ("2", "0", "-1::int8", "0.5::float8", "0::float4", "1::int2")),
        f"select sum(x) from (values ({_CASH}), ('0.01')) v(x)",
        f"select sum(x) over (order by x) from (values ({_CASH}), ('0.01')) v(x)",
        *(f"select {number}::numeric::money" for number in ("1e30", "-1e18", "92233720368547758.074", "1e-30")),
        "select 1e131000::numeric::money",
    )  # fmt: skip


def test_negative_zero(both_paths: Pair) -> None:
    both_paths.run("create table z (i int primary key, d float8, s float4)", "insert into z values (1, '-0', '-0')")
    for number in (2, 3):
        both_paths.same(
            "select sum(d), avg(d), sum(s), avg(s), min(d), stddev(d) from z",
            "select sum(d) over (), avg(d) over (), sum(s) over (order by i rows 1 preceding) from z",
            "select sum(d) filter (where i > 1), sum(distinct d), sum(d + 0) from z",
            "select i % 2, sum(d), avg(s) from z group by 1",
        )
        both_paths.run(f"insert into z values ({number}, '-0', '-0')")
    both_paths.run("insert into z values (9, 0, 0)")
    both_paths.same("select sum(d), sum(s), avg(d) from z", "select sum(d) from z where i < 2 or i = 9")


def test_input_of_times_and_networks(both_paths: Pair) -> None:
    texts = (
        "m2 15:36:39", "d2 15:36:39", "15:36:39 d2", "15:36:39 y2", "15:36:39 m2", "y2020 m2 d3 15:36:39",
        "15:36:39 y2020 m2 d3", "15:36:39 j2450000", "y2020 15:36:39", "m2 15:36:39 d2", "15:36:39 m2 +02",
        "15:36:39 m2 EST", "y2020 m2 d3 15:36:39 America/New_York", "15:36:39 m",
    )  # fmt: skip
    networks = ("ffff:ffff:ffff:ffff::/24", "ffff:ff00::/24", "10.1.2.3/8", "10.0.0.0/8", "10", "x")
    both_paths.same(
        *(f"select '{text}'::{kind}" for text in texts for kind in ("time", "timetz")),
        *(f"select cidr('{text}')::text" for text in networks),
        *(f"select '{text}'::cidr::text, cidr '{text}'::text, inet('{text}')::text" for text in networks),
        "select cidr(i)::text from (values ('10.1.2.3/8'::inet)) v(i)",
    )


def test_moments_of_jsonpath(both_paths: Pair) -> None:
    texts = (
        "20-1-1", "1-1-1", "202-1-1", "12020-1-1", "1000000-01-01", "5874897-12-31", "5874898-01-01", "9999999-01-01",
        "99999999999-01-01", "1000000-01-01 10:00:00", "294276-12-31 10:00:00", "0-1-1", "2020-13-01", "2020-02-30",
    )  # fmt: skip
    both_paths.same(
        *(f"""select jsonb_path_query('"{text}"', '$.datetime()')""" for text in texts),
        *(
            f"""select jsonb_path_query('"{text}"', '$.datetime() {symbol} "2020-01-01 12:00:00".datetime()')"""
            for text in texts
            for symbol in ("<", ">", "==")
        ),
    )


def test_positions_and_collations(both_paths: Pair) -> None:
    both_paths.same(
        "select position(b'' in b''), position(b'1' in b''), position(b'' in b'1'), position(b'01' in b'1101')",
        "select position(''::bytea in ''::bytea), position(''::bytea in '\\x01'::bytea)",
        "select collation for ('foo')",
        "select collation for (null), pg_collation_for('foo')",
        "select collation for ('foo'::text), collation for ('a' || 'b'), collation for ((select 'a'))",
        "select collation for ('foo' collate \"C\")",
        "select collation for (1)",
    )


def test_rows(both_paths: Pair) -> None:
    both_paths.run(
        "create type pair as (a int, b int)", "create type one as (a int)", "create type named as (a int, b text)",
        "create table r (g int, b bool)", "insert into r values (1, true), (1, null), (1, null), (2, false)",
    )  # fmt: skip
    both_paths.same(
        "select count(distinct (g, b)) from r",
        "select count(distinct (g, (g, b))) from r",
        "select distinct (g, b) from r order by 1",
        "select * from coalesce(row(1, 2)) as (a int, b int)",
        "select * from coalesce(row(1)) as (a int, b int)",
        "select * from coalesce(row(1, 2, 3)) as (a int, b int)",
        "select * from coalesce(row(1, 'x'::text)) as (a int, b int)",
    )


def test_intervals_of_a_function_without_arguments(both_paths: Pair) -> None:
    both_paths.same(
        "select count(*) > 300 from (select pg_timezone_names()) q",
        "select x from (select pg_timezone_names()::text x) q where x like '(Etc/GMT-5,%'",
    )


def test_rows_of_several_types(pair: Pair) -> None:
    pair.run(
        "create type pair as (a int, b int)", "create type one as (a int)", "create type named as (a int, b text)",
        "create type other as (c int, d int)",
    )  # fmt: skip
    rows = ("row(1, 2)::pair", "row(1, null)::pair", "row(1)::one", "row(3)::one", "row(1, 'x')::named",
            "row(1, 2)::other", "row(null, 2)::other")  # fmt: skip
    pair.same(
        *(f"select {one} {symbol} {another}" for one in rows for another in rows for symbol in ("<", "=", "<>", ">="))
    )


def test_distinct_on_beside_functions_that_return_sets(both_paths: Pair) -> None:
    both_paths.run("create table t (a int, b int)", "insert into t values (3,2), (3,1), (1,1), (1,4), (5,3), (5,1)")
    both_paths.same(
        "select distinct on (a) a, b, generate_series(1, 3) g from t order by a, b desc",
        "select distinct on (a) a, b, generate_series(1, 3) g from t order by a, b desc limit 4 offset 1",
        "select distinct on (a) a, b, generate_series(1, 3) g from t order by a, b desc, g desc",
        "select distinct on (a) a, sum(b), generate_series(1, 2) from t group by a, b order by a, b desc",
        "select distinct on (a) a, row_number() over (order by b, a), unnest(array[a, b]) from t order by a, b desc",
        "select distinct on (a % 2) a, (select b), unnest(array[a, b]) + a from t order by a % 2, b desc, a",
        "select distinct on (a) a, (select max(c.b) from t c where c.a = t.a), unnest(array[a, b]) from t"
        " order by a, b",
        "select distinct a, generate_series(1, 2) from t order by a",
    )


@pytest.mark.parametrize("rows", [600, pytest.param(3000, marks=pytest.mark.long)])
def test_numerics_of_more_digits_than_a_decimal_has(both_paths: Pair, rows: int) -> None:
    both_paths.run(
        "create table n (i int primary key, v numeric(20,10), w numeric(38,20), x numeric(38,0))",
        f"insert into n select i, i * 1234567.123, i * 123456.789, i * 1e33 from generate_series(1, {rows}) i",
    )
    both_paths.same(
        "select sum(v * w), avg(v * w), count(*) from n",
        "select sum(x), avg(x), max(x), sum(x * 1000) from n",
        "select i % 3, sum(x), sum(i) from n where x > 1e33 group by 1 having sum(x) > 10",
        f"select x * v, x + w, -x, round(x * 7, 2) from n where i in (7, {rows - 1})",
        "select sum(sum(x)) over (order by i % 2), i % 2 from n group by 2",
        "select max(s) from (select sum(x) over (order by i) s from n) q",
        "select sum(case when i > 5 then x else v end), sum(coalesce(x, 0)) from n",
        "select distinct (x / 1e33)::numeric(38,0) * 0 + sum(x) over () from n",
        f"select a.x * b.x from n a join n b on a.x = b.x where a.i > {rows - 2}",
        "select array_agg(x * 1000 order by i) from n where i < 3",
    )


def test_domains_of_conditional_expressions(pair: Pair) -> None:
    pair.run("create domain d4 as int", "create domain d5 as int check (value > 0)")
    pair.same(
        *(
            f"select pg_typeof({form})::text"
            for form in (
                "coalesce(4::d4, 7::d4)", "coalesce(4::d4, 7)", "coalesce(4::d4, 7::d5)", "coalesce(null, 4::d4)",
                "case when true then 4::d4 else 7::d4 end", "case when true then 4::d4 end",
                "case 1::d4 when 1 then 2::d4 else 3::d4 end", "greatest(4::d4, 7::d4)", "least(4::d4, 7)",
                "nullif(4::d4, 7::d4)", "nullif(4::d4, 7)", "coalesce('a'::varchar(3), 'b')", "max(4::d4)",
            )
        ),
        "select coalesce(4::d5, 7::d5)::d4, greatest(1::d5, 2::d5) + 1",
    )  # fmt: skip
