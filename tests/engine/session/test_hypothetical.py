"""rank, dense_rank, percent_rank and cume_dist of a hypothetical row, beside PostgreSQL."""

from __future__ import annotations

from tests.engine.session.conftest import Pair


def test_where_a_row_would_stand(pair: Pair) -> None:
    pair.run(
        "create table h (g text, a int, b numeric, c text)",
        "insert into h values ('x', 1, 1.5, 'a'), ('x', 3, 2.5, 'b'), ('x', 3, null, 'c'), ('y', null, 3.0, null), "
        "('y', 7, 3, 'd'), ('y', 7, 3.00, 'd')",
    )
    pair.same(
        "select rank(3) within group (order by a), dense_rank(3) within group (order by a), "
        "percent_rank(3) within group (order by a), cume_dist(3) within group (order by a) from h",
        "select g, rank(3) within group (order by a desc), dense_rank(8) within group (order by a), "
        "percent_rank(7) within group (order by a desc nulls last), cume_dist(3) within group (order by a nulls first) "
        "from h group by g",
        "select rank(3, 2) within group (order by a, b), dense_rank(7, 3.01) within group (order by a, b desc), "
        "cume_dist(3, null) within group (order by a, b) from h",
        "select rank(null) within group (order by a), rank('b') within group (order by c desc) from h",
        "select rank(3) within group (order by a) filter (where g = 'x') from h group by rollup (g)",
        "select rank(1) within group (order by a), percent_rank(1) within group (order by a), "
        "cume_dist(1) within group (order by a) from h where false",
        "select g, rank(g) within group (order by c) from h group by g",
        "select rank(4, 'x') within group (order by a) from h",
        "select n, rank(n) within group (order by a) from h, generate_series(1, 8, 3) n group by n",
    )
