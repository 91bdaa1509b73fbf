"""DISTINCT aggregates whose operands hold sub-queries: DuckDB takes no two sub-queries for the same, and sorts by what
it finds among the operands only."""

from __future__ import annotations

from itertools import product

import pytest

from tests.engine.session.conftest import Pair
from tests.samples import Part, parts

OPERANDS = (
    "(select a.v + 1)", "(select a.v + 1) * 2", "(select max(b.v) from distinct_rows b where b.i <= a.i)",
    "(select 7)", "case when a.v in (select v from distinct_rows where v < 3) then a.v end",
    "case when exists (select from distinct_rows b where b.v > a.v) then 1 else 2 end",
)  # fmt: skip
CALLS = (
    "count(distinct {})", "sum(distinct {})", "array_agg(distinct {})", "array_agg(distinct {0} order by {0} desc)",
    "string_agg(distinct ({0})::text, ',' order by ({0})::text)", "jsonb_agg(distinct {})",
    "array_agg(distinct {0} order by {0} nulls first) filter (where a.i <> 4)", "min(distinct {})",
)  # fmt: skip
SHAPES = (
    "select {} from distinct_rows a",
    "select a.g, {} from distinct_rows a group by a.g",
    "select a.g, (select a.g + 1), {} from distinct_rows a group by a.g having count(*) > 1",
    "select a.g, {} from distinct_rows a group by rollup (a.g)",
    "select {}, random() < 2 from distinct_rows a",
    "select a.g, {}, sum(case when random() < 2 then 1 end) from distinct_rows a group by a.g",
)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("part", parts(2))
def test_they_are_postgresqls(both_paths: Pair, shape: str, part: Part) -> None:
    both_paths.run(
        "create table distinct_rows (i int primary key, g int, v int)",
        "insert into distinct_rows select n, n % 3, nullif(n % 4, 0) from generate_series(1, 9) n",
    )
    for operand, call in part.of(product(OPERANDS, CALLS)):
        query = shape.format(call.format(operand))
        both_paths.same(f"{query} order by 1, 2" if "a.g," in shape else query)
