"""Functions that look into the catalog, over window functions and over rows that set-returning functions make."""

from __future__ import annotations

import psycopg
import pytest

from tests.oracle import PostgresServer
from tests.server import ShoalServer

T = "(VALUES (1, 23, 'int4'), (2, 25, 'int4'), (2, 1700, 'text')) AS t(a, o, s)"
NAMED = """
SELECT format_type(max(o) OVER (PARTITION BY a), NULL), s, a + 1 FROM @ ORDER BY o
SELECT format_type(unnest(ARRAY[o, 20, a + 19]), NULL), count(*) OVER () FROM @ ORDER BY o
SELECT format_type(unnest(ARRAY[o, 20]), NULL) AS x, a FROM @ ORDER BY x DESC, a LIMIT 4 OFFSET 1
SELECT DISTINCT format_type(min(o) OVER (), NULL) || s FROM @ ORDER BY 1
SELECT DISTINCT ON (a) a, format_type(o, NULL), (max(o) OVER ())::regtype::text FROM @ ORDER BY a, o
SELECT a, format_type(max(min(o)) OVER (ORDER BY a), NULL), count(*), a * 2 FROM @ GROUP BY a ORDER BY a
SELECT a + 1, format_type(sum(min(o)) OVER ()::oid, NULL) FROM @ GROUP BY a + 1 ORDER BY a + 1
SELECT grouping(a), format_type(max(max(o)) OVER (), NULL) FROM @ GROUP BY ROLLUP (a) ORDER BY a
SELECT (SELECT count(*) FROM generate_series(1, t.a)), (max(o) OVER ())::oid::regtype::text FROM @ ORDER BY o
SELECT CASE WHEN a = 2 THEN format_type(max(o) OVER () - a + 2, NULL) END FROM @ ORDER BY o
SELECT x, (SELECT format_type(max(o) OVER () + x, NULL) FROM @ LIMIT 1) FROM generate_series(0, 1) AS x ORDER BY x
SELECT (max(s) OVER ())::regtype = o FROM @ ORDER BY o
SELECT to_regtype(max(s) OVER ())::oid, pg_table_is_visible((min(o) OVER ())::oid), a FROM @ ORDER BY o
SELECT obj_description(min(o) OVER (), 'pg_class'), pg_get_userbyid((8 + max(a) OVER ())::oid) = user FROM @
WITH w AS (SELECT * FROM @) SELECT format_type(max(o) OVER (), NULL), a FROM w ORDER BY o
SELECT format_type(generate_series(20, 23), NULL)
SELECT n, format_type(unnest(v), NULL) FROM (VALUES (1, ARRAY[20, 21]), (2, '{}')) AS x(n, v)
WITH w AS (SELECT * FROM @) SELECT format_type(max(o) OVER (), NULL), (SELECT max(a) FROM w) FROM w
SELECT format_type(max(min(o)) OVER (), NULL), (SELECT max(t.o)) FROM @
""".replace("@", T)


@pytest.mark.parametrize("path", ["auto", "columnar"])
@pytest.mark.parametrize("query", NAMED.strip().splitlines())
def test_they_find_what_postgresql_finds(
    shoal: ShoalServer, postgres_server: PostgresServer, path: str, query: str
) -> None:
    with psycopg.connect(postgres_server.dsn) as oracle, psycopg.connect(shoal.dsn) as ours:
        ours.execute(f"SET shoal.path = '{path}'".encode())
        if path == "columnar":
            assert "Columnar" in str(ours.execute(f"EXPLAIN {query}".encode()).fetchall())
        assert ours.execute(query.encode()).fetchall() == oracle.execute(query.encode()).fetchall()
