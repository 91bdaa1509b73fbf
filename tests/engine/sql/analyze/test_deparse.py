"""Deparsed text: what PostgreSQL prints for the same query, and a text that means the same again."""

from __future__ import annotations

import psycopg
import pytest

from engine.sql import tree
from engine.sql.analyze import Environment, analyze, analyze_expression
from engine.sql.deparse import deparse_expression, deparse_query
from engine.sql.parser import parse, parse_expression

QUERIES = """
SELECT a, b || 'x' AS e, -a AS m, c::int FROM t WHERE a > 1 AND NOT b = 'y' OR c IS NULL
SELECT 'lit' AS l, NULL AS n, -5 AS f, 2.50 AS g, 3000000000 AS h
SELECT x.a, u.v FROM t x JOIN u USING (a) LEFT JOIN s ON s.n = u.a WHERE x.d > '2020-01-01'
SELECT * FROM (t JOIN u ON t.a = u.a) j (p, q)
SELECT CASE WHEN a > 1 THEN 'big' ELSE 'small' END AS size, CASE a WHEN 1 THEN 2 END AS k FROM t
SELECT b, sum(a) FILTER (WHERE a > 1) FROM t GROUP BY b HAVING count(*) > 2 ORDER BY count(*) DESC, b NULLS FIRST
SELECT DISTINCT ON (a) a, lower(b) FROM t ORDER BY a, lower(b) DESC LIMIT 5 OFFSET 2
SELECT 1 AS one UNION ALL SELECT 2 UNION ALL SELECT a FROM t ORDER BY 1
SELECT a FROM t EXCEPT (SELECT id FROM u LIMIT 3)
WITH x (p) AS (SELECT a FROM t), y AS MATERIALIZED (SELECT p FROM x) SELECT y.p, x.p AS q FROM y, x
WITH RECURSIVE r (n) AS (VALUES (1) UNION ALL SELECT n + 1 FROM r WHERE n < 5) SELECT n FROM r
SELECT (SELECT max(id) FROM u WHERE u.a = t.a) AS m, a IN (SELECT a FROM u) AS i, EXISTS (SELECT 1 FROM u) AS e FROM t
SELECT arr[1] AS p, arr[2:3] AS q, arr || 5 AS r, j -> 'a' AS s, ARRAY[1, 2] AS x, ARRAY(SELECT a FROM t) FROM u
SELECT a IN (1, 2) AS p, a BETWEEN 1 AND 5 AS q, a = ANY ('{1,2}') FROM t
SELECT b LIKE 'x%' AS r, b IS DISTINCT FROM 'x' AS s FROM t
SELECT extract(year FROM ts), ts AT TIME ZONE 'UTC', trim(v) FROM u
SELECT position('a' IN v), substring(v FROM 1 FOR 2), current_date FROM u
SELECT row_number() OVER (PARTITION BY b ORDER BY a DESC) FROM t
SELECT sum(a) OVER w FROM t WINDOW w AS (ORDER BY a ROWS BETWEEN 1 PRECEDING AND CURRENT ROW)
SELECT g, n FROM generate_series(1, 3) WITH ORDINALITY AS x (g, n)
SELECT COALESCE(b, 'x'), NULLIF(a, 1), GREATEST(a, 2), (a, b) < (1, 'x') AS less FROM t
SELECT ok IS TRUE AS p, ok IS NOT UNKNOWN AS q, NOT ok AS r FROM u
SELECT "left"(b, 2), "order"."Odd" FROM (SELECT b, a AS "Odd" FROM t) "order"
SELECT v::text AS p, id::numeric(10,2), '1.5'::numeric(5,1) AS q, v::varchar(3) FROM u
SELECT nextval('q'), 'q'::regclass
SELECT * FROM w
SELECT * FROM t, LATERAL (SELECT t.a + 1 AS z) l
SELECT t1.a, t2.a AS b FROM t t1, t t2 WHERE EXISTS (SELECT 1 FROM t t1 WHERE t1.a = t2.a)
"""


@pytest.mark.parametrize("sql", QUERIES.strip().splitlines())
def test_query_text(connection: psycopg.Connection, environment: Environment, sql: str) -> None:
    connection.execute(f"CREATE OR REPLACE TEMP VIEW shown AS {sql}")
    row = connection.execute("SELECT pg_get_viewdef('shown'::regclass)").fetchone()
    connection.execute("DROP VIEW shown")
    assert row is not None
    query = analyze(parse(sql)[0].tree, environment).statement
    assert isinstance(query, tree.Query)
    assert deparse_query(query, environment.catalog, environment.path_oids) == row[0].rstrip(";")
    again = analyze(parse(deparse_query(query, environment.catalog))[0].tree, environment).statement
    assert isinstance(again, tree.Query)
    assert [(target.name, target.expression.type) for target in again.output] == [
        (target.name, target.expression.type) for target in query.output
    ]


CHECKS = """
a > 0
a > 0 AND b <> ''
b IN ('x', 'y')
length(b) < 10 OR c IS NULL
c * 1.5 > a
d > '2020-01-01'
lower(b) = upper('x')
"""


@pytest.mark.parametrize("text", CHECKS.strip().splitlines())
def test_check_text(connection: psycopg.Connection, environment: Environment, text: str) -> None:
    connection.execute(f"ALTER TABLE t ADD CONSTRAINT shown CHECK ({text})")
    row = connection.execute(
        "SELECT pg_get_expr(conbin, conrelid) FROM pg_constraint WHERE conname = 'shown'"
    ).fetchone()
    connection.execute("ALTER TABLE t DROP CONSTRAINT shown")
    assert row is not None
    table = environment.find_relation(None, "t")
    entry = tree.RangeTable(table, "t", tuple(tree.RangeColumn(c.name, c.type) for c in table.columns))  # type: ignore[arg-type, union-attr]
    check = analyze_expression(parse_expression(text), environment, table)  # type: ignore[arg-type]
    assert deparse_expression(check, (entry,), environment.catalog, environment.path_oids) == row[0]


def test_names_outside_the_search_path_carry_their_schema(environment: Environment) -> None:
    default = analyze_expression(parse_expression("nextval('q')"), environment)
    assert deparse_expression(default, (), environment.catalog) == "nextval('an.q'::regclass)"
