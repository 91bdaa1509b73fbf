"""Where functions are called: volatile ones after the sort, and several set-returning ones in FROM in step."""

from __future__ import annotations

import pytest

from tests.engine.session.conftest import Pair

SORTED = (
    "SELECT nextval('s'), n FROM t ORDER BY n DESC", "SELECT nextval('s'), n FROM t ORDER BY n DESC LIMIT 2",
    "SELECT nextval('s') + n, n FROM t ORDER BY n DESC LIMIT 1 OFFSET 1", "SELECT last_value FROM s",
    "SELECT nextval('s') FROM t OFFSET 1", "SELECT nextval('s'), n FROM t ORDER BY 1 DESC",
    "SELECT nextval('s') x, n FROM (SELECT n FROM t ORDER BY n DESC) q", "SELECT last_value FROM s",
    "INSERT INTO r SELECT nextval('s'), n FROM t ORDER BY n DESC RETURNING *",
    "INSERT INTO r SELECT nextval('s'), n + 1 FROM t WHERE n > 1 ORDER BY n + 1 DESC RETURNING *",
    "SELECT nextval('s'), n, count(*) FROM t GROUP BY n ORDER BY count(*), n DESC",
    "SELECT nextval('s') + sum(n), n % 2 FROM t GROUP BY n % 2 HAVING count(*) > 0 ORDER BY n % 2",
    "SELECT DISTINCT n * 0 + nextval('s') * 0, n FROM t ORDER BY n DESC", "SELECT n FROM t ORDER BY nextval('s') DESC",
    "SELECT nextval('s'), (SELECT max(u.n) FROM t u WHERE u.n < t.n) FROM t ORDER BY n DESC",
    "SELECT nextval('s'), x FROM unnest(ARRAY[1,2,3]) u(x) ORDER BY x DESC",
    "SELECT q.* FROM (SELECT nextval('s') v, n FROM t ORDER BY n DESC LIMIT 2) q",
    "CREATE TABLE z AS SELECT nextval('s') i, n FROM t ORDER BY n DESC", "SELECT * FROM z",
    "WITH c AS (SELECT nextval('s') v, n FROM t ORDER BY n DESC) SELECT a.v, b.n FROM c a JOIN c b ON a.v = b.v",
)  # fmt: skip
IN_STEP = (
    "SELECT * FROM unnest(ARRAY[1,2], ARRAY['a','b','c']) t(x, y)",
    "SELECT nextval('s'), x, y FROM unnest(ARRAY[1,2], ARRAY['a','b']) t(x, y)",
    "SELECT nextval('s'), x, y, o FROM unnest(ARRAY[1,2], ARRAY['a']) WITH ORDINALITY t(x, y, o)"
    " WHERE o < 5 ORDER BY o DESC",
    "SELECT * FROM ROWS FROM (generate_series(1, 3), unnest(ARRAY['a', NULL]), jsonb_array_elements('[1,2,3]'))"
    " WITH ORDINALITY",
    "SELECT t.n, u.* FROM t, LATERAL unnest(t.a, t.b) u(x, y)", "SELECT * FROM unnest('{}'::int[], '{}'::text[])",
    "SELECT t.n, u.* FROM t LEFT JOIN LATERAL unnest(t.a, t.b) u(x, y) ON true ORDER BY 1, 2, 3",
    "INSERT INTO t (n) SELECT x + coalesce(y, 0) FROM unnest(ARRAY[5,6,7], ARRAY[1,2]) u(x, y) RETURNING n",
    "SELECT count(*), sum(x), max(y) FROM unnest(ARRAY[1,2,3], ARRAY['a','b']) u(x, y)",
    "SELECT * FROM unnest(NULL::int[], ARRAY[1])", "SELECT u FROM unnest(ARRAY[1,2], ARRAY['a','b']) u",
    "SELECT a.x, b.y FROM unnest(ARRAY[1,2], ARRAY['a','b']) a(x, z)"
    " JOIN unnest(ARRAY[2,3], ARRAY['c','d']) b(x, y) ON a.x = b.x",
    "UPDATE t SET n = u.y FROM unnest(ARRAY[1,2], ARRAY[10,20]) u(x, y) WHERE t.n = u.x RETURNING t.n",
    "WITH i AS MATERIALIZED (SELECT nextval('s') id, x, y FROM unnest(ARRAY[1,2], ARRAY['a','b'])"
    " WITH ORDINALITY t(x, y, o)),"
    " r AS (INSERT INTO r SELECT id, x FROM i RETURNING i, n) SELECT * FROM r JOIN i ON r.i = i.id",
    "SELECT * FROM unnest(ARRAY[[1,2],[3,4]], ARRAY[1])",
    "SELECT x FROM unnest(ARRAY[1,2], ARRAY['a','b']) t(x, y) OFFSET 1",
)  # fmt: skip


@pytest.mark.parametrize("statements", [SORTED, IN_STEP], ids=["sorted", "in step"])
def test_places(both_paths: Pair, statements: tuple[str, ...]) -> None:
    both_paths.run(
        "CREATE SEQUENCE s", "CREATE TABLE t (n int, a int[], b text[])", "CREATE TABLE r (i int, n int)",
        "INSERT INTO t VALUES (1, '{1,2}', '{a}'), (2, NULL, '{x,y}'), (3, '{}', NULL)",
    )  # fmt: skip
    both_paths.same(*statements)
