"""Sub-queries beside groups: their own aggregates and columns are not those of the query around them."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

import pytest

from tests.engine.session.conftest import Pair
from tests.samples import Part, parts

INNER = (
    "(SELECT string_agg(s::text, ',') FROM (SELECT s, count(*) n FROM {0} WHERE {1} GROUP BY s ORDER BY s) x)",
    "(SELECT count(*) FROM {0} WHERE {1})", "(SELECT max(e.v) FROM {0} WHERE {1})",
    "(SELECT sum(n) FROM (SELECT count(*) n, e.q FROM {0} WHERE {1} GROUP BY e.q) y)",
    "EXISTS (SELECT FROM {0} WHERE {1} GROUP BY e.s HAVING count(*) > 1)",
    "ARRAY(SELECT e.id FROM {0} WHERE {1} ORDER BY 1)",
    "(SELECT json_object_agg(s, n) FROM (SELECT s, count(*) n FROM {0} WHERE {1} AND s IS NOT NULL GROUP BY s) x)",
    "(SELECT e.v FROM {0} WHERE {1} ORDER BY e.id LIMIT 1)",
)  # fmt: skip
SOURCES = ("jobs_table e", "jobs e")
CONDITIONS = ("e.q = j.q", "e.q = 'a'", "true", "e.id = min(j.id)")


def statements() -> Iterator[str]:
    before = "WITH jobs AS (SELECT id, q, s, v FROM jobs_table) SELECT"
    for inner, source in product(INNER, SOURCES):
        for condition, outer in product(CONDITIONS, ("jobs_table j", "jobs j")):
            value = inner.format(source, condition)
            yield f"{before} j.q, count(*), {value} FROM {outer} GROUP BY j.q ORDER BY j.q"
            if "min(" not in condition:
                yield f"{before} j.q, {value} FROM {outer} ORDER BY j.id"
            alone = value.replace("j.q", "'b'")
            yield f"{before} count(*), {alone} FROM {outer}"
        value, test = inner.format(source, "e.q = j.q"), inner.format(source, "e.v = j.v")
        yield f"{before} j.id, sum(j.v), {value} FROM jobs_table j GROUP BY j.id ORDER BY j.id"
        yield f"{before} j.id, j.s, {value} FROM jobs_table j GROUP BY j.id HAVING {test} IS NOT NULL ORDER BY j.id"


@pytest.mark.parametrize("part", parts(3))
def test_rows(both_paths: Pair, part: Part) -> None:
    both_paths.run(
        "CREATE TYPE state AS ENUM ('todo', 'doing', 'done')",
        "CREATE TABLE jobs_table (id int PRIMARY KEY, q text, s state, v int)",
        "INSERT INTO jobs_table VALUES (1, 'a', 'todo', 5), (2, 'a', 'doing', 6), (3, 'b', 'done', 7),"
        " (4, 'a', 'todo', 8), (5, NULL, NULL, NULL)",
    )  # fmt: skip
    both_paths.same(*part.of(statements()))
