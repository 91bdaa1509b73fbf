"""Arrays of rows taken apart by unnest beside a column definition list, on both servers: rows that are what the list
says, others, NULLs, rows of declared types, from wherever an array may come."""

from __future__ import annotations

from itertools import product

import pytest

from tests.engine.session.conftest import Pair, outcome
from tests.samples import Part, parts

_ROWS = {
    "plain": "ROW(1, 'a'::text)", "nested": "ROW(1, ROW(2, 'x'::text))", "declared": "ROW(1, 'a')::c",
    "NULL": "NULL::record", "wide": "ROW(1, 'a'::text, 2)", "narrow": "ROW(1)", "of no type": "ROW(1, 'a')",
    "a domain in it": "ROW(1::d, 'a'::text)", "other types": "ROW(1.5, true)",
}  # fmt: skip
_ARRAYS = (
    "ARRAY[{0}]", "ARRAY[{0}, {0}]", "(SELECT array_agg({0}) FROM generate_series(1, 2))", "ARRAY(SELECT {0})",
    "(SELECT array_agg({0}) FROM generate_series(1, 0))", "ARRAY[{0}] || ARRAY[{0}]",
    "CASE WHEN true THEN ARRAY[{0}] END",
    "array_append(ARRAY[{0}], {0})", "ARRAY[ARRAY[{0}]]", "coalesce(ARRAY[{0}])", "ARRAY[{0}]::record[]",
    "NULL::record[]", "ARRAY[{0}, NULL]",
)  # fmt: skip
_PLACES = (
    "SELECT * FROM unnest({0}) AS t(x int, y text)",
    "SELECT x FROM unnest({0}) AS t(x text, y text)",
    "SELECT x FROM unnest({0}) AS t(x int, y text) WHERE x = 1",
    "SELECT count(*) FROM unnest({0}) AS t(x int, y text) GROUP BY y",
    "SELECT * FROM ROWS FROM (unnest({0}) AS (x int, y text)) WITH ORDINALITY",
    "SELECT * FROM ROWS FROM (unnest({0}) AS (x int, y text), generate_series(1, 3))",
    "SELECT q.* FROM (SELECT 1 n) s, LATERAL unnest({0}) AS q(x int, y text)",
    "SELECT u FROM unnest({0}) u(x int, y text)",
    "SELECT * FROM tt, LATERAL unnest(ARRAY[ROW(tt.a, tt.b), NULL]) AS t(x int, y text)",
    "SELECT * FROM tt, LATERAL unnest(ARRAY[ROW(tt.a, tt.b)]) AS t(x text, y text)",
    "SELECT * FROM tt, unnest(ARRAY[tt]) AS t(x int, y text)",
)
_NOT_HERE = "0A000"


@pytest.mark.parametrize("path", ["auto", "columnar"])
@pytest.mark.parametrize("row", _ROWS)
@pytest.mark.parametrize("part", parts(2))
def test_rows_are_what_the_list_says(pair: Pair, row: str, path: str, part: Part) -> None:
    pair.run("CREATE TYPE c AS (x int, y text)", "CREATE DOMAIN d AS int", "CREATE TABLE tt (a int, b text)")
    pair.run("INSERT INTO tt VALUES (1, 'p'), (2, 'q')")
    pair.shoal.execute(f"SET shoal.path = {path}".encode())
    wrong, refused, tried = [], 0, 0
    for array, place in part.of(product(_ARRAYS, _PLACES)):
        sql = place.format(array.format(_ROWS[row]))
        ours, theirs = outcome(pair.shoal, sql), outcome(pair.postgres, sql)
        tried += 1
        refused += ours[0] == _NOT_HERE
        if ours != theirs and ours[0] != _NOT_HERE:
            wrong.append(f"{sql}\n  {ours}\n  {theirs}")
    assert not wrong, "\n".join(wrong)
    assert refused < (0.7 if path == "auto" else 0.9) * tried
