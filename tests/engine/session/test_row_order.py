"""The order in which rows come where PostgreSQL's plans give one: expanded rows, DISTINCT ON; EXPLAIN's formats."""

from __future__ import annotations

from xml.etree import ElementTree

import yaml

from tests.engine.session.conftest import Pair, outcome


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


def test_distinct_on_comes_sorted(both_paths: Pair) -> None:
    both_paths.run(
        "create table d as select g % 7 a, g b, case when g % 5 = 0 then null else to_jsonb(g % 4) end j "
        "from generate_series(1, 3000) g"
    )
    for sql in (b"select distinct on (a) a, a * 2 from d", b"select distinct on (j, a) j, a from d"):
        ours, theirs = both_paths.shoal.execute(sql), both_paths.postgres.execute(sql)
        assert ours.fetchall() == theirs.fetchall(), sql


def test_windows_over_grouped_expressions(both_paths: Pair) -> None:
    both_paths.same(
        "create table e (id serial primary key, salary int, hired date)",
        "insert into e (salary, hired) values (1, '2005-01-01'), (2, '2005-03-01'), (3, '2006-01-01')",
        "select e.id, e.hired, max(e.salary) over (partition by extract(year from e.hired)) m, count(*) "
        "from e group by e.id, (extract(year from e.hired))",
    )


def test_explain_in_every_format(pair: Pair) -> None:
    for form, opens in (("text", ""), ("json", "["), ("xml", "<explain"), ("yaml", "- Plan:")):
        sql = f"explain (costs off, format {form}) select '<&>' where 1 = 2".encode()
        ours, theirs = pair.shoal.execute(sql).fetchall(), pair.postgres.execute(sql).fetchall()
        for rows in (ours, theirs):
            first = rows[0][0]
            assert (first if isinstance(first, str) else "[").startswith(opens), rows
    document = pair.shoal.execute(b"explain (format xml) select 1").fetchall()[0][0]
    assert ElementTree.fromstring(document).tag == "{http://www.postgresql.org/2009/explain}explain"
    written = pair.shoal.execute(b"explain (format yaml) select 1").fetchall()[0][0]
    assert yaml.safe_load(written)[0]["Plan"]["Lines"]
    unknown = "explain (format nonsense) select 1"
    assert outcome(pair.shoal, unknown)[:2] == outcome(pair.postgres, unknown)[:2]  # type: ignore[index]
