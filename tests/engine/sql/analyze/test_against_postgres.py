"""Statements that the analyser and PostgreSQL must take for the same thing, errors included."""

from __future__ import annotations

from collections.abc import Callable

Agree = Callable[[str], None]


def test_columns_and_their_types(agree: Agree) -> None:
    agree("""
        SELECT * FROM t
        SELECT t.*, u.v AS w FROM t, u
        SELECT a, b || 'x', c * 2, d + 1, -a, a / 2.0, a % 3, c::int, a::text, 'x'::varchar(3) FROM t
        SELECT an.t.a, x.b FROM an.t, t AS x (a, b)
        SELECT 1, 2147483648, 9223372036854775808, -2147483648, 1.5, 'x', true, NULL, 1e10
        SELECT arr[1], arr[1:2], j -> 'a', j ->> 'b', ts AT TIME ZONE 'UTC', extract(year FROM ts) FROM u
        SELECT count(*), sum(a), avg(c), max(b), array_agg(a), string_agg(b, ',' ORDER BY a) FROM t
        SELECT CASE WHEN a > 1 THEN c ELSE 2 END, COALESCE(b, 'x'), NULLIF(a, 1), GREATEST(a, 2.5) FROM t
        SELECT CASE a WHEN 1 THEN 'one' END, (SELECT max(a) FROM u) FROM t
        SELECT EXISTS (SELECT 1), ARRAY(SELECT a FROM t)
        SELECT current_date, current_timestamp(3), current_user, localtime, now()
        SELECT ARRAY[1, 2.5], x.z FROM other.t x, LATERAL (SELECT 1) t
        SELECT date '2020-01-01', interval '1 day', '{1,2}'::int[], timestamp(0) '2020-01-01'
        SELECT 't'::regclass, 'int4'::regtype, ROW(1, 'x')
        SELECT * FROM generate_series(1, 3) g, unnest(ARRAY['a']) WITH ORDINALITY AS x (y, n)
        SELECT * FROM json_each('{}'), jsonb_to_recordset('[]') AS r (a int, b text)
        SELECT row_number() OVER (ORDER BY a), lag(b, 2, 'none') OVER w FROM t WINDOW w AS (PARTITION BY c)
        SELECT * FROM w
        SELECT int4('5'), date('2020-01-01'), text(5), numeric(7), concat(1, 'x')
        SELECT format('%s', 1), make_interval(days => 3)
        VALUES (1, 'a'), (2.5, NULL)
        SELECT rank(3) WITHIN GROUP (ORDER BY a), percentile_cont(0.5) WITHIN GROUP (ORDER BY c) FROM t
    """)


def test_parameters(agree: Agree) -> None:
    agree("""
        SELECT * FROM t WHERE a = $1 AND b LIKE $2 AND d > $3
        SELECT $1
        SELECT $1 + 1, $2 || 'x', $3::date
        SELECT * FROM u WHERE id IN ($1, $2, $3) AND a = ANY ($4)
        INSERT INTO t VALUES ($1, $2, $3, $4)
        UPDATE t SET c = c + $1, b = $2 WHERE a = $3
        SELECT * FROM t LIMIT $1 OFFSET $2
        SELECT $1 IS NULL
        SELECT $2::int
        SELECT $1::int, $1 || 'x'
        SELECT CASE WHEN a = 1 THEN $1 ELSE b END FROM t
        SELECT generate_series(1, $1), $2::int[]
    """)


def test_joins_and_subqueries(agree: Agree) -> None:
    agree("""
        SELECT * FROM t JOIN u USING (a)
        SELECT * FROM t NATURAL JOIN u
        SELECT * FROM t FULL JOIN u USING (a)
        SELECT a, t.a, u.a FROM t LEFT JOIN u USING (a)
        SELECT * FROM (t JOIN u ON t.a = u.a) j (x, y)
        SELECT * FROM t JOIN u USING (nothing)
        SELECT * FROM t JOIN u USING (id)
        SELECT * FROM t, LATERAL (SELECT t.a + 1 AS b1) l
        SELECT * FROM t, (SELECT t.a) l
        SELECT * FROM t, t
        SELECT * FROM t x JOIN u ON (y.a = 1)
        SELECT * FROM t WHERE a IN (SELECT id FROM u) AND (a, b) IN (SELECT a, v FROM u)
        SELECT * FROM t WHERE a IN (SELECT id, a FROM u)
        SELECT (SELECT a, b FROM t)
        SELECT * FROM (SELECT 1)
        WITH x AS (SELECT a, 'lit' AS l FROM t), y (p) AS (SELECT * FROM x) SELECT * FROM y
        WITH RECURSIVE r (n) AS (VALUES (1) UNION ALL SELECT n + 1 FROM r WHERE n < 5) SELECT * FROM r
        WITH RECURSIVE r AS (SELECT 1 UNION ALL SELECT n + 1.5 FROM r) SELECT * FROM r
        WITH RECURSIVE r (n) AS (SELECT 1 UNION ALL SELECT count(*) FROM r) SELECT * FROM r
        WITH RECURSIVE r (n) AS (SELECT 1 UNION ALL SELECT n FROM r, r AS r2) SELECT * FROM r
        WITH d AS (DELETE FROM t RETURNING a, b) SELECT * FROM d
        WITH d AS (DELETE FROM t) SELECT * FROM d
        SELECT 1 UNION SELECT 2.5 UNION ALL SELECT 3::bigint
        SELECT 'a' UNION SELECT 1
        SELECT a FROM t UNION SELECT b FROM t
        SELECT a, b FROM t EXCEPT SELECT a FROM t
        SELECT a FROM t UNION SELECT a FROM u ORDER BY a + 1
        (SELECT a AS z FROM t ORDER BY b LIMIT 1) UNION SELECT id FROM u ORDER BY z
    """)


def test_names_that_are_not_there(agree: Agree) -> None:
    agree("""
        SELECT * FROM nothing
        SELECT * FROM nowhere.t
        SELECT nothing FROM t
        SELECT t.nothing FROM t
        SELECT x.a FROM t
        SELECT t.a FROM t AS x
        SELECT a FROM t, u
        SELECT aa FROM t
        SELECT bb FROM t x
        SELECT 1 FROM t WHERE EXISTS (SELECT 1 FROM u WHERE missing = 1)
        SELECT f(1)
        SELECT substring(1, 2, 3, 4)
        SELECT nowhere.f(1)
        SELECT 1 + 'x'::text
        SELECT 1 + b FROM t
        SELECT - b FROM t
        SELECT a LIKE 'x' FROM t
        SELECT 1::nothing
        SELECT 'x'::int
        SELECT a::date FROM t
        SELECT int4 'nope', 1
        SELECT 'nothing'::regclass
        SELECT a = 'x' FROM t
        SELECT '2020-13-01'::date
        SELECT 1::int(3)
        SELECT round('1.5', 2), round(1.5::float8, 2)
        SELECT max(j) FROM u
        SELECT a.b.c.d.e FROM t
        SELECT b(1), count(b(1)) FROM t
    """)


def test_types_that_do_not_fit(agree: Agree) -> None:
    agree("""
        SELECT 1 FROM t WHERE a
        SELECT 1 FROM t WHERE 'x'
        SELECT CASE WHEN a THEN 1 END FROM t
        SELECT CASE WHEN true THEN 1 ELSE b END FROM t
        SELECT COALESCE(a, b) FROM t
        SELECT a AND true FROM t
        SELECT NOT a FROM t
        SELECT 1 FROM t LIMIT 'x'
        SELECT 1 FROM t LIMIT a
        SELECT 1 FROM t LIMIT b
        SELECT ARRAY[]
        SELECT ARRAY[1, 'x']
        SELECT ARRAY[1, true]
        SELECT a[1] FROM t
        SELECT arr['x'] FROM u
        SELECT 1 = ANY (1)
        SELECT 1 IN (1, 'x')
        SELECT a IN (1, 2.5, '3') FROM t
        SELECT (1, 2) = (1, 2, 3)
        SELECT (a, b) < (1, 'x'), (a, 1) IS DISTINCT FROM (2, NULL) FROM t
        SELECT (a).x FROM t
        VALUES (1), (2, 3)
        VALUES (1), ('x')
        SELECT DISTINCT json_column FROM other.t
        SELECT json_column FROM other.t ORDER BY 1
        SELECT json_column FROM other.t GROUP BY 1
        SELECT a BETWEEN 1 AND 'x' FROM t
    """)


def test_grouping_and_aggregates(agree: Agree) -> None:
    agree("""
        SELECT b, count(*) FROM t GROUP BY b
        SELECT a, b, count(*) FROM t GROUP BY a
        SELECT b, a FROM t GROUP BY b
        SELECT t.*, count(*) FROM t
        SELECT a + 1 FROM t GROUP BY a + 1
        SELECT a + 2 FROM t GROUP BY a + 1
        SELECT b AS x, count(*) FROM t GROUP BY x HAVING count(*) > 1 ORDER BY 2 DESC, x
        SELECT b FROM t GROUP BY 2
        SELECT b FROM t GROUP BY 'x'
        SELECT b FROM t GROUP BY sum(a)
        SELECT sum(a) FROM t GROUP BY 1
        SELECT sum(count(*)) FROM t
        SELECT 1 FROM t WHERE count(*) > 1
        SELECT 1 FROM t JOIN u ON count(*) > 1
        SELECT (SELECT count(t.a)) FROM t
        SELECT (SELECT max(u.a + t.a) FROM u) FROM t GROUP BY b
        SELECT count(*) FILTER (WHERE a > 1), count(DISTINCT b) FROM t
        SELECT count(), count(a, b) FROM t
        SELECT count(DISTINCT *) FROM t
        SELECT lower(DISTINCT b), lower(b) FILTER (WHERE true) FROM t
        SELECT string_agg(DISTINCT b, ',' ORDER BY a) FROM t
        SELECT a, b, grouping(a), count(*) FROM t GROUP BY ROLLUP (a, b)
        SELECT grouping(c) FROM t GROUP BY CUBE (a, b)
        SELECT rank() FROM t
        SELECT rank() OVER (ORDER BY count(*)) FROM t
        SELECT sum(rank() OVER ()) FROM t
        SELECT 1 FROM t WHERE rank() OVER () = 1
        SELECT rank() OVER nothing FROM t
        SELECT sum(a) OVER (ROWS BETWEEN a PRECEDING AND CURRENT ROW) FROM t
        SELECT sum(a) OVER (ORDER BY d RANGE BETWEEN '1 day' PRECEDING AND CURRENT ROW) FROM t
        SELECT sum(a) OVER (ORDER BY b RANGE 1 PRECEDING) FROM t
        SELECT 1 FROM t WHERE generate_series(1, 2) = 1
        SELECT COALESCE(1, a) FROM t HAVING true
        SELECT CASE WHEN true THEN generate_series(1, 2) END
        SELECT COALESCE(generate_series(1, 2), 3)
    """)


def test_order_distinct_and_limit(agree: Agree) -> None:
    agree("""
        SELECT a AS b, b AS a FROM t ORDER BY a, b
        SELECT a, a AS a FROM t ORDER BY a
        SELECT a AS x, b AS x FROM t ORDER BY x
        SELECT a FROM t ORDER BY 2
        SELECT a FROM t ORDER BY 'x'
        SELECT a FROM t ORDER BY nothing
        SELECT DISTINCT a FROM t ORDER BY b
        SELECT DISTINCT ON (a) a, b FROM t ORDER BY a, b
        SELECT DISTINCT ON (a) a, b FROM t ORDER BY b, a
        SELECT a FROM t ORDER BY a USING <, b USING > NULLS FIRST
        SELECT a FROM t FETCH FIRST 3 ROWS WITH TIES
        SELECT a FROM t FOR UPDATE OF t SKIP LOCKED
        SELECT DISTINCT a FROM t FOR UPDATE
        SELECT count(*) FROM t FOR SHARE
        SELECT a FROM t UNION SELECT a FROM u FOR UPDATE
    """)


def test_insert(agree: Agree) -> None:
    agree("""
        INSERT INTO t VALUES (1, 'x', 2.5, '2020-01-01') RETURNING *, a + 1 AS next
        INSERT INTO t (a, c) VALUES (1, 2), (3, DEFAULT), ('4', '5.5')
        INSERT INTO t DEFAULT VALUES
        INSERT INTO t (a) SELECT id FROM u
        INSERT INTO t (a, b) SELECT 1, 'lit' UNION SELECT 2, 'other'
        INSERT INTO t (b) SELECT DISTINCT 5
        INSERT INTO t (nothing) VALUES (1)
        INSERT INTO t (a, a) VALUES (1, 2)
        INSERT INTO t (a, b) VALUES (1)
        INSERT INTO t (a) VALUES (1, 2)
        INSERT INTO t VALUES (1, 2, 3, 4, 5)
        INSERT INTO t (d) VALUES (5)
        INSERT INTO t (d) SELECT a FROM t
        INSERT INTO t (a) VALUES ('x')
        INSERT INTO t (a) VALUES (b)
        INSERT INTO t (a) VALUES (1), (2, 3)
        INSERT INTO nothing VALUES (1)
        INSERT INTO s (i) VALUES (DEFAULT)
        INSERT INTO s (k) OVERRIDING USER VALUE VALUES (1) RETURNING k
        INSERT INTO t (a) VALUES ((SELECT max(id) FROM u)) RETURNING b
        INSERT INTO t VALUES (1) ON CONFLICT (a) DO UPDATE SET b = excluded.b || t.b WHERE t.a > 1 RETURNING a
        INSERT INTO t VALUES (1) ON CONFLICT (a) DO UPDATE SET b = b
        INSERT INTO t VALUES (1) ON CONFLICT DO NOTHING
        INSERT INTO t VALUES (1) ON CONFLICT ON CONSTRAINT t_pkey DO NOTHING
        INSERT INTO t VALUES (1) ON CONFLICT ON CONSTRAINT nothing DO NOTHING
        INSERT INTO s (n) VALUES (1) ON CONFLICT ((n + 1)) DO NOTHING
        INSERT INTO s (n) VALUES (1) ON CONFLICT (k) WHERE n > 0 DO NOTHING
    """)


def test_update_and_delete(agree: Agree) -> None:
    agree("""
        UPDATE t SET b = 'x', c = c * 2 WHERE a = 1 RETURNING *
        UPDATE t SET (b, c) = ('x', 1), d = DEFAULT
        UPDATE t SET (b, c) = (SELECT v, id FROM u WHERE u.a = t.a)
        UPDATE t SET (b, c) = (1, 2, 3)
        UPDATE t x SET b = u.v FROM u WHERE u.a = x.a RETURNING x.a, u.id
        UPDATE t SET nothing = 1
        UPDATE t SET d = 5
        UPDATE t SET a = b
        UPDATE t SET a = count(*)
        UPDATE u SET arr[1] = 5, v = 'long enough to be cut'
        UPDATE u SET arr[1] = 'x'
        UPDATE u SET id[1] = 5
        DELETE FROM t WHERE a = 1 RETURNING b
        DELETE FROM t USING u WHERE t.a = u.a RETURNING *
        DELETE FROM t x WHERE t.a = 1
        DELETE FROM nothing
        WITH x AS (SELECT 1 AS one) UPDATE t SET a = one FROM x
    """)
