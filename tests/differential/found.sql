-- What comparisons have found, each statement run on both paths and on PostgreSQL. Blank lines part the statements.
CREATE TABLE th (a int, b int)

INSERT INTO th VALUES (1, 2), (1, 3), (2, NULL)

SELECT 1 AS one FROM th HAVING 1 > 2

SELECT 1 AS one FROM th HAVING 1 < 2

SELECT 1 AS one FROM th WHERE a = 7 HAVING true

SELECT a, b, (SELECT max(o.a)) FROM th o GROUP BY 1, 2

SELECT (SELECT max((SELECT i.a FROM th i WHERE i.a = o.a LIMIT 1))) FROM th o

SELECT t1.a, count(t2.*) FROM th t1 LEFT JOIN (SELECT * FROM th) t2 ON t1.a = t2.b GROUP BY t1.a

SELECT UNION SELECT

SELECT FROM generate_series(1, 5) EXCEPT ALL SELECT FROM generate_series(1, 3)

CREATE TABLE nocols ()

INSERT INTO nocols DEFAULT VALUES

SELECT * FROM nocols

SELECT v.* FROM (VALUES (1, 2), (3, 4)) x(q1, q2), LATERAL (SELECT x.q1 FROM nocols UNION ALL SELECT x.q2 FROM nocols) v

SELECT coalesce(nullif(0.9999999999 ^ 23300000000000, 0), 0)

SELECT sqrt(1.000000000000003::numeric), sqrt(8015491789940783531003294973900306::numeric), sqrt(2::numeric)

CREATE TABLE tz (id int NOT NULL, a text, n numeric(10,2))

INSERT INTO tz VALUES (0, 'a', 1.5), (1, 'b', NULL) RETURNING *

SELECT id, rank() OVER (PARTITION BY (n / 2)::numeric(10,2) ORDER BY (id / (id + 1)) DESC, id) FROM tz

SELECT id, rank() OVER (ORDER BY 1 / id) FROM tz

SELECT array_agg(DISTINCT split_part(a, 'b', 1)) FROM tz GROUP BY split_part(a, 'b', 1)

SELECT (WITH c(x) AS (VALUES (a)) SELECT (SELECT x FROM c)) FROM (VALUES (1), (2)) v(a)

WITH c(x) AS (VALUES (1)) SELECT (SELECT x FROM c), a FROM (VALUES (1), (2)) v(a) WHERE a IN (SELECT x FROM c)

SELECT ntile(0) OVER () FROM tz

SELECT count(*) OVER (ORDER BY id RANGE BETWEEN -1 PRECEDING AND CURRENT ROW) FROM tz

SELECT count(*) OVER (ORDER BY id ROWS BETWEEN -1 PRECEDING AND CURRENT ROW) FROM tz

SELECT nth_value(id, 0) OVER (ORDER BY id) FROM tz

CREATE TABLE arrays (id int PRIMARY KEY, a int[])

INSERT INTO arrays VALUES (1, '{1}')

UPDATE arrays SET a[2147483647] = 42 WHERE id = 1

UPDATE arrays SET a[200000000] = 42

SELECT g AS first, g AS second FROM generate_series(1, 3) g GROUP BY first, ROLLUP (second)

SELECT '2011-03-27 02:00:00 MSK'::timestamptz, '2014-10-25 21:00:00 UTC'::timestamptz AT TIME ZONE 'MSK'

SET TimeZone TO '+02'

SHOW TimeZone

SELECT '2020-01-01 00:00+00'::timestamptz

SET TIME ZONE INTERVAL '-07:30' HOUR TO MINUTE

SHOW TimeZone

SET TimeZone TO '+02:30'

SELECT '2020-01-01 00:00+00'::timestamptz

SET TimeZone TO 'nowhere/at/all'

RESET TimeZone

SELECT a * (id / (id - id)) FROM (VALUES (1, NULL::int)) v(id, a)

SELECT n * (id / (id - id)) FROM tz WHERE n IS NULL

SELECT (n / 0) * (id + 1) FROM tz WHERE a = 'b'

SELECT id FROM tz WHERE n IS NULL AND n < 1 / (id - 1)

CREATE TABLE renamed (id serial, a int)

ALTER SEQUENCE renamed_id_seq RENAME TO renamed_sequence

INSERT INTO renamed (a) VALUES (1) RETURNING id

ALTER TABLE renamed RENAME TO renamed_again

INSERT INTO renamed_again (a) VALUES (1) RETURNING id

CREATE SEQUENCE drawn_from

CREATE TABLE drawing (id int DEFAULT nextval('drawn_from') + 1)

DROP SEQUENCE drawn_from

ALTER TABLE drawn_from RENAME TO drawn_from_still

INSERT INTO drawing DEFAULT VALUES RETURNING id

DROP SEQUENCE drawn_from_still CASCADE

INSERT INTO drawing DEFAULT VALUES RETURNING id

SELECT g, (g % (g - g)) <> ALL('{}'::int4[]) FROM generate_series(1, 3) g

SELECT bool_or((-3)::int4 = ANY(NULL::int4[])), count(*) FROM generate_series(1, 3) g GROUP BY g % 2
