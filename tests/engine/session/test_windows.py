"""Window functions beside PostgreSQL: the order in which rows come, frames with offsets at the ends of types."""

from __future__ import annotations

import pytest

from tests.engine.session.conftest import Pair

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
