"""Set-returning functions in the target list: what one row becomes stays together and in its order."""

from __future__ import annotations

from tests.engine.session.conftest import Pair


def test_sorted_rows_are_expanded_in_order(both_paths: Pair) -> None:
    both_paths.run(
        "create table t (a int primary key, b int)",
        "insert into t select g, g % 3 from generate_series(1, 3000) g",
    )
    for sql in (
        b"select b, a, generate_series(1, 4) from t order by b, a",
        b"select generate_series(1, 3), a from t order by a desc limit 500",
        b"select a, unnest(array[3, 1, 2]), unnest(array['x', 'y']) from t order by a desc",
        b"select a, generate_series(1, a % 4) s from t order by s desc, a",
    ):
        ours, theirs = both_paths.shoal.execute(sql), both_paths.postgres.execute(sql)
        assert ours.fetchall() == theirs.fetchall(), sql
