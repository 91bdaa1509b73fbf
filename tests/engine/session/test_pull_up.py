"""Sub-queries and views that are dissolved into the query around them: the same rows as in PostgreSQL, by look-ups."""

from __future__ import annotations

import pytest

from tests.engine.session.conftest import Pair

SET_UP = (
    "CREATE TABLE a (id int PRIMARY KEY, b int, c text)",
    "CREATE TABLE b (id int PRIMARY KEY, d text, e int)",
    "CREATE INDEX ON a (b)",
    "INSERT INTO a SELECT g, g % 7, 'c' || g % 3 FROM generate_series(1, 40) g",
    "INSERT INTO a VALUES (41, NULL, NULL)",
    "INSERT INTO b SELECT g, 'd' || g, CASE WHEN g % 2 = 0 THEN g END FROM generate_series(0, 9) g",
    "CREATE VIEW v AS SELECT id, b + 1 AS n, upper(c) AS c FROM a WHERE id > 3",
    "CREATE VIEW w AS SELECT v.id, v.n, b.d, b.e FROM v LEFT JOIN b ON b.id = v.n",
    "CREATE VIEW grouped AS SELECT b, count(*) AS n, max(id) AS top FROM a GROUP BY b",
    "CREATE VIEW either AS SELECT id, 'a' AS kind, c AS t FROM a UNION ALL SELECT id, 'b', d FROM b",
)
QUERIES = (
    "SELECT * FROM v WHERE id = 5",
    "SELECT w.*, a.c FROM w JOIN a ON a.id = w.id WHERE w.id IN (4, 5, 6, 40)",
    "SELECT id, (SELECT count(*) FROM v WHERE v.n = w.n AND w.e IS NULL) FROM w WHERE id < 9",
    "SELECT x.id, y.n FROM v x, LATERAL (SELECT n FROM v WHERE v.id = x.id + 1) y WHERE x.id < 8",
    "SELECT * FROM b LEFT JOIN v ON v.id = b.id AND v.n > 2 WHERE b.e IS NULL OR v.c = 'C1'",
    "SELECT * FROM b LEFT JOIN (a JOIN v ON v.id = a.id) ON a.b = b.id AND v.n < 5 WHERE b.id < 5",
    "SELECT b.id, a.id, x.id FROM b LEFT JOIN (a CROSS JOIN b x) ON a.id = b.id AND x.id = a.b ORDER BY 1, 2, 3",
    "SELECT b.id, v.id FROM b LEFT JOIN (a LEFT JOIN v ON v.id = a.id) ON a.id = b.id WHERE b.id < 6",
    "SELECT * FROM a RIGHT JOIN (b JOIN v ON v.n = b.id) ON a.id = b.id WHERE v.id < 12",
    "SELECT * FROM grouped WHERE b = 3",
    "SELECT * FROM grouped WHERE n = 6 AND b IS NOT NULL",
    "SELECT * FROM grouped g JOIN b ON b.id = g.b WHERE g.b IN (1, 2) AND g.top > 1",
    "SELECT * FROM either WHERE id = 4",
    "SELECT kind, count(*) FROM either WHERE kind = 'b' OR t LIKE 'c%' GROUP BY kind",
    "SELECT * FROM (SELECT id FROM a UNION SELECT id FROM b WHERE e > 3) u WHERE u.id < 5",
    "SELECT * FROM (SELECT id FROM a EXCEPT SELECT id FROM b) u WHERE u.id < 12",
    "SELECT * FROM (SELECT DISTINCT b FROM a) x WHERE b < 3",
    "SELECT * FROM (SELECT DISTINCT ON (b) b, id FROM a ORDER BY b, id DESC) x WHERE id > 36",
    "SELECT * FROM (SELECT id, row_number() OVER (ORDER BY id DESC) AS r FROM a) x WHERE id < 4",
    "SELECT * FROM (SELECT id FROM a ORDER BY id LIMIT 3) x WHERE id > 1",
    "SELECT x FROM (SELECT id, b FROM a WHERE id < 3) x",
    "SELECT x.id, x.k FROM (SELECT id, 7 AS k FROM a) x WHERE x.k = 7 AND x.id = 9",
    "SELECT b.id, x.k FROM b LEFT JOIN (SELECT id, 7 AS k FROM a WHERE id > 5) x ON x.id = b.id ORDER BY 1",
    "SELECT count(*), sum(n) FROM v WHERE c = 'C2'",
    "SELECT id FROM a WHERE id IN (SELECT n FROM v WHERE v.id < a.id) AND EXISTS (SELECT FROM w WHERE w.id = a.id)",
    "WITH q AS (SELECT * FROM v) SELECT q.id, v.n FROM q JOIN v USING (id) WHERE id BETWEEN 7 AND 9",
    "SELECT id, n, d FROM v JOIN b USING (id) NATURAL JOIN (SELECT id FROM a) z WHERE id = 8",
    "WITH q AS (SELECT 3 AS x) SELECT z.id, (SELECT z.y + b.id FROM b WHERE b.id = 1) "
    "FROM (SELECT id, (SELECT x FROM q) AS y FROM a WHERE id < 3) z",
    "WITH q AS (SELECT 3 AS x) SELECT z.id FROM (SELECT id, (SELECT x FROM q) AS y FROM a) z "
    "WHERE EXISTS (WITH q AS (SELECT 4 AS x) SELECT FROM b, q WHERE b.id = z.y AND q.x > z.id)",
)


@pytest.fixture
def filled(pair: Pair) -> Pair:
    pair.run(*SET_UP)
    return pair


@pytest.mark.parametrize("path", ["auto", "columnar"])
def test_the_rows_are_those_of_postgresql(filled: Pair, path: str) -> None:
    filled.shoal.execute(f"SET shoal.path = {path}".encode())
    for query in QUERIES:
        if path == "auto" or not query.startswith("SELECT x FROM"):  # a whole row of unknown type
            filled.same(query)


@pytest.mark.parametrize(
    "query",
    [
        "SELECT * FROM v WHERE id = 5",
        "SELECT * FROM w WHERE id = 5",
        "SELECT * FROM grouped WHERE b = 3",
        "SELECT * FROM either WHERE id = 4",
        "SELECT * FROM b LEFT JOIN (a JOIN v ON v.id = a.id) ON a.id = b.id WHERE b.id = 4",
    ],
)
def test_a_condition_becomes_a_look_up(filled: Pair, query: str) -> None:
    rows = filled.shoal.execute(f"EXPLAIN {query}".encode()).fetchall()
    plan = "\n".join(row[0] for row in rows)
    assert "Seq Scan" not in plan and "Columnar" not in plan


def test_changes_go_on_through_views(filled: Pair) -> None:
    filled.same(
        "UPDATE b SET e = v.n FROM v WHERE v.id = b.id RETURNING b.id, b.e, v.c",
        "DELETE FROM b USING (SELECT id FROM v WHERE n > 5) x WHERE x.id = b.id RETURNING *",
        "INSERT INTO b SELECT id + 100, c, n FROM v WHERE id < 9 RETURNING *",
        "SELECT * FROM b",
    )
