"""Window functions beside PostgreSQL: the order in which rows come, frames with offsets at the ends of types."""

from __future__ import annotations

from itertools import product

import pytest

from tests.engine.session.conftest import Pair
from tests.samples import some

TABLE = (
    "create table w (g text, a int, b int, f float8, i int8)",
    "insert into w values ('x', 3, 1, 1.5, 9223372036854775806), ('y', 1, 2, 'infinity', -9223372036854775807), "
    "('x', 2, 3, -2, 5), (null, 5, 4, 'nan', null), ('y', 4, 5, '-infinity', 0)",
)

ORDERED = (
    "select g, a, sum(b) over (partition by g order by a desc) from w",
    "select a, row_number() over (order by a desc), rank() over (partition by g order by b) from w",
    "select a, rank() over (partition by g order by b), row_number() over (order by a desc) from w",
    "select a, sum(b) over (partition by g), count(*) over (partition by g order by a) from w",
    "select a, count(*) over () , sum(a) over (order by b desc nulls first) from w",
    "select sum(a), g, row_number() over (order by g desc), count(*) over (order by g) from w group by g",
    "select * from (select a, lag(b) over (order by a) as before from w) s where a <> 3",
    "select a, first_value(b) over v from w window u as (order by b), v as (order by a) limit 3",
)


@pytest.mark.parametrize("sql", ORDERED)
def test_rows_come_as_the_last_window_has_sorted_them(pair: Pair, sql: str) -> None:
    pair.run(*TABLE)
    assert pair.shoal.execute(sql.encode()).fetchall() == pair.postgres.execute(sql.encode()).fetchall()


def test_frames_with_offsets_at_the_ends_of_types(pair: Pair) -> None:
    pair.run(*TABLE)
    pair.same(
        "select i, count(*) over (order by i range between 4 preceding and 9 following) from w",
        "select i, max(a) over (order by i desc range between 9223372036854775807 preceding and current row) from w",
        "select a, sum(b) over (order by a range between 1 preceding and 2147483647 following) from w",
        "select a, sum(b) over (order by a range between -1 preceding and 1 following) from w",
        "select f, count(*) over (order by f range between 2 preceding and 1.5 following) from w where f < 10",
        "select f, count(*) over (order by f range between 'nan' preceding and 1 following) from w",
    )


FAILING_KEYS = (
    "a.d + a.i",
    "a.i + 1",
    "a.i / 2",
    "a.n::numeric(6,2)",
    "a.t::int",
    "a.d",
    "make_date(2000 + a.i, 1, 1)",
)
"""Keys whose computation may fail: DuckDB takes an error that it may raise for something volatile."""
USES = (
    "select max(i) over (order by {}), {} from failing a",
    "select rank() over (order by {} desc nulls last, i), {} from failing a",
    "select sum(i) over (partition by {}), {} from failing a",
    "select sum(i) over (partition by {} order by i groups between 1 preceding and 1 following), {} from failing a",
    "select count(distinct {}), {} from failing a",
    "select max(max(i)) over (order by count(*)), {0}, {1} from failing a group by {0}",
)


@pytest.mark.parametrize(
    ("form", "beside"),
    some(product(("{}", "(select {})", "(select max({}) from failing)"), ("1", "random() < 2")), 2),
)
def test_keys_that_may_fail_order_and_part_rows(both_paths: Pair, form: str, beside: str) -> None:
    """Whatever stands beside: a volatile function has its operands written in another way."""
    both_paths.run(
        "create table failing (i int primary key, d date, n numeric, t text)",
        "insert into failing select g, date '2024-01-01' + g % 3, g % 4 / 2.0, g % 2 from generate_series(1, 9) g",
    )
    for use in USES:
        for key in FAILING_KEYS:
            if "group by" not in use or form == "{}":
                both_paths.same(f"{use.format(form.format(key), beside)} order by 1, 2")
