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
