"""A function that runs statements may stand wherever another one may: kinds of functions in places of a query."""

from __future__ import annotations

import pytest

from tests.engine.session.conftest import Pair, outcome

SETUP = """
CREATE TABLE t (a int PRIMARY KEY, b int);
INSERT INTO t SELECT g, g % 3 FROM generate_series(1, 6) g;
CREATE TABLE log (n int);
CREATE FUNCTION noted(x int) RETURNS int LANGUAGE sql AS $$ INSERT INTO log VALUES (x); SELECT x + 1 $$;
CREATE FUNCTION made(x int) RETURNS int LANGUAGE plpgsql AS $$
BEGIN DROP TABLE IF EXISTS made_one; CREATE TABLE made_one AS SELECT x AS n; RETURN (SELECT n + 1 FROM made_one);
END $$;
CREATE FUNCTION pairs(x int) RETURNS TABLE (p int, q int) LANGUAGE plpgsql AS $$
BEGIN RETURN QUERY VALUES (x, x % 2), (x + 1, x % 3); END $$;
SET client_min_messages = warning
"""
KINDS = ("noted", "made")
PLACES = (
    "SELECT a, row_number() OVER (ORDER BY f(a) DESC) FROM t ORDER BY 1",
    "SELECT a, sum(f(b)) OVER (PARTITION BY f(b)) FROM t ORDER BY 1",
    "SELECT a, f((sum(b) OVER (ORDER BY a))::int) FROM t ORDER BY 1",
    "SELECT lag(f(a)) OVER w, first_value(f(b)) OVER w FROM t WINDOW w AS (ORDER BY a) ORDER BY a",
    "SELECT count(*) FILTER (WHERE f(a) > 4) OVER (PARTITION BY b), a FROM t ORDER BY 2",
    "SELECT b, sum(f(a)) FROM t GROUP BY CUBE (b) ORDER BY 1",
    "SELECT b, grouping(b), f(sum(a)::int) FROM t GROUP BY ROLLUP (b) ORDER BY 1, 2",
    "SELECT f(b), count(*) FROM t GROUP BY GROUPING SETS ((f(b)), ()) ORDER BY 1",
    "SELECT grouping(b), f(grouping(b)), count(*) FROM t GROUP BY ROLLUP (b) ORDER BY 1, 3",
    "SELECT b, count(*), sum(p) FROM t, pairs(a) GROUP BY ROLLUP (b) HAVING f(b) > 1 ORDER BY 1",
    "SELECT b, sum(f(a)), rank() OVER (ORDER BY sum(f(a))) FROM t GROUP BY b ORDER BY b",
    "SELECT b, f(rank() OVER (ORDER BY f(sum(a)::int))::int) FROM t GROUP BY ROLLUP (b)"
    " HAVING f(count(*)::int) > 1 ORDER BY 1, 2",
    "SELECT percentile_disc(0.5) WITHIN GROUP (ORDER BY f(a)), mode() WITHIN GROUP (ORDER BY f(b)) FROM t",
    "SELECT percentile_cont(ARRAY[0.5]) WITHIN GROUP (ORDER BY f(a)) FROM t GROUP BY b ORDER BY 1",
    "SELECT DISTINCT f(count(*) OVER (PARTITION BY b)::int) FROM t ORDER BY 1",
    "SELECT a FROM t ORDER BY row_number() OVER (ORDER BY f(b), a) DESC LIMIT f(1)",
    "SELECT * FROM (SELECT a, row_number() OVER (ORDER BY f(a)) n FROM t) s WHERE n <= f(1) ORDER BY 1",
    "SELECT f(a), (SELECT max(r) FROM (SELECT rank() OVER (ORDER BY b) r FROM t) q) FROM t ORDER BY 1",
    "SELECT f(a), n FROM (SELECT a, row_number() OVER (ORDER BY b, a) n FROM t) q ORDER BY 1",
    "SELECT a, sum(b) OVER (PARTITION BY (SELECT max(f(b)) FROM t)) FROM t ORDER BY 1",
    "SELECT count(*) FROM (SELECT f(a) z FROM t) x FULL JOIN (SELECT f(b) z FROM t) y ON x.z = y.z",
    "SELECT f(x.a), y.b FROM t x FULL JOIN (SELECT a + 3 AS a, b FROM t) y ON x.a = y.a WHERE f(x.a) > 3 ORDER BY 1",
    "SELECT f(a) FROM t UNION SELECT (count(*) OVER ())::int FROM t WHERE f(b) > 1 ORDER BY 1",
    "SELECT * FROM t WHERE f(a) IN (SELECT rank() OVER (ORDER BY f(b)) FROM t) ORDER BY 1",
    "WITH w AS (SELECT a, f(a) p FROM t) SELECT a, lag(p) OVER (ORDER BY a) FROM w ORDER BY 1",
    "WITH w AS MATERIALIZED (SELECT rank() OVER (ORDER BY f(a)) r FROM t) SELECT sum(r), count(*) FROM w, w v",
    "INSERT INTO t SELECT 100 + a, row_number() OVER (ORDER BY f(a)) FROM t WHERE a < 4 RETURNING *, f(a)",
    "WITH x AS (INSERT INTO t SELECT 200 + a, rank() OVER (ORDER BY f(a)) FROM t WHERE a < 4 RETURNING *)"
    " SELECT sum(a) OVER (), f(b) FROM x",
    "CREATE TABLE made_of AS SELECT f(a) q, ntile(2) OVER (ORDER BY f(a)) FROM t",
)


@pytest.fixture
def filled(pair: Pair) -> Pair:
    pair.run(SETUP)
    return pair


@pytest.mark.parametrize("kind", KINDS)
def test_places(filled: Pair, kind: str) -> None:
    for place in PLACES:
        sql = place.replace("f(", f"{kind}(")
        ours, theirs = outcome(filled.shoal, sql), outcome(filled.postgres, sql)
        assert ours == theirs, sql
    filled.same("SELECT * FROM t", "SELECT * FROM made_of", "SELECT count(*) > 0 FROM log")


CURSORS = (
    "BEGIN", "DECLARE c CURSOR FOR SELECT f(1)", "DECLARE o CURSOR FOR SELECT * FROM t ORDER BY a",
    "SELECT count(*) FROM log", "SAVEPOINT s1", "FETCH o", "FETCH c", "SELECT * FROM log", "ROLLBACK TO s1", "FETCH o",
    "FETCH c", "SELECT * FROM log", "COMMIT", "BEGIN", "DECLARE c CURSOR FOR SELECT f(1), (SELECT count(*) FROM log)",
    "INSERT INTO log VALUES (5)", "FETCH c", "MOVE BACKWARD c", "COMMIT", "BEGIN",
    "DECLARE c SCROLL CURSOR FOR SELECT * FROM f(3)", "FETCH ALL FROM c", "FETCH PRIOR FROM c", "CLOSE c",
    "DECLARE c CURSOR FOR SELECT f(a) FROM t", "CLOSE c", "SELECT count(*) FROM log", "COMMIT", "BEGIN",
    "DECLARE c CURSOR WITH HOLD FOR SELECT f(7)", "COMMIT", "FETCH ALL FROM c", "CLOSE c", "SELECT count(*) FROM log",
    "BEGIN", "DECLARE c CURSOR FOR SELECT fails(1)", "SAVEPOINT s", "FETCH c", "ROLLBACK TO s", "FETCH c", "ROLLBACK",
    "PREPARE p AS SELECT f(1)", "CREATE TABLE of_execute AS EXECUTE p", "EXECUTE p", "DEALLOCATE p",
    "SELECT * FROM of_execute", "DROP TABLE of_execute", "SELECT * FROM reads()",
)  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
def test_cursors(filled: Pair, kind: str) -> None:
    """The query of a cursor calls the function when it is fetched from, not when it is declared."""
    filled.run(
        "CREATE FUNCTION fails(x int) RETURNS int LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'no'; END $$",
        "CREATE FUNCTION reads() RETURNS SETOF text LANGUAGE plpgsql AS $$"
        f" DECLARE c CURSOR FOR SELECT {kind}(1), (SELECT count(*) FROM log); r record;"
        " BEGIN OPEN c; RETURN NEXT (SELECT count(*) FROM log); FETCH c INTO r; RETURN NEXT r::text; CLOSE c;"
        " FOR r IN c LOOP RETURN NEXT r::text; END LOOP; END $$",
    )
    for sql in CURSORS:
        filled.same(sql.replace("f(", f"{kind}("))


OTHER_BODIES = ("SELECT 5", "INSERT INTO log VALUES (1); SELECT 5", "SELECT 1; SELECT 5")


@pytest.mark.parametrize("body", OTHER_BODIES)
def test_another_body_under_a_prepared_statement(filled: Pair, body: str) -> None:
    """A plan for one kind of body is made again for another kind."""
    filled.run(
        "CREATE FUNCTION g() RETURNS int LANGUAGE plpgsql AS $$ BEGIN INSERT INTO log VALUES (9); RETURN 4; END $$",
        "PREPARE alone AS SELECT g()",
        "PREPARE within AS SELECT g() + 1",
    )
    for language, text in (("sql", body), ("plpgsql", "BEGIN RETURN 6; END"), ("sql", body)):
        filled.run(f"CREATE OR REPLACE FUNCTION g() RETURNS int LANGUAGE {language} AS $$ {text} $$")
        filled.same("EXECUTE alone", "EXECUTE within", "SELECT count(*) FROM log")


BODIES = (
    "CREATE FUNCTION s() RETURNS int LANGUAGE sql AS $$ CREATE TABLE n (a int); DROP TABLE n; SELECT 5 $$",
    "SELECT s()", "SELECT s() + 1", "SELECT s() FROM t",
    "CREATE FUNCTION c(int) RETURNS void LANGUAGE sql AS $$ DECLARE k CURSOR FOR SELECT a FROM t WHERE a > $1 $$",
    "BEGIN", "SELECT c(4)", "FETCH ALL FROM k", "COMMIT",
    "CREATE FUNCTION i(int) RETURNS void LANGUAGE sql AS $$ SELECT $1 AS x INTO made_t; ANALYZE made_t;"
    " COMMENT ON TABLE made_t IS 'x'; GRANT SELECT ON made_t TO public $$",
    "SELECT i(3)", "SELECT i(3)", "SELECT * FROM made_t", "DROP TABLE made_t",
    "SELECT i(g) FROM generate_series(4, 4) g",
    "SELECT * FROM made_t", "CREATE FUNCTION z() RETURNS int LANGUAGE sql AS $$ CREATE TABLE n (a int) $$",
    "CREATE FUNCTION e() RETURNS int LANGUAGE sql AS $$ COMMIT; SELECT 1 $$", "SELECT e()", "SELECT e() + 1",
    "CREATE FUNCTION y() RETURNS int LANGUAGE sql AS $$ COPY t FROM STDIN; SELECT 1 $$", "SELECT y()",
    "CREATE PROCEDURE p() LANGUAGE sql AS $$ LOCK TABLE made_t; TRUNCATE made_t; NOTIFY x $$", "CALL p()",
    "SELECT * FROM made_t",
    "CREATE FUNCTION w() RETURNS text LANGUAGE sql AS $$ SET LOCAL work_mem = '5MB'; SELECT current_setting('work_mem')"
    " $$", "SELECT w()",
)  # fmt: skip


def test_bodies_in_sql(filled: Pair) -> None:
    """A body in SQL may have any statement."""
    filled.same(*BODIES)


ROWS = (
    "CREATE FUNCTION r1(int, int) RETURNS t LANGUAGE sql AS $$ SELECT row($1, $2)::t $$",
    "CREATE FUNCTION r2(int, int) RETURNS t LANGUAGE sql AS $$ SELECT row($1, $2) $$",
    "CREATE FUNCTION r3(int, int) RETURNS t LANGUAGE sql AS $$ SELECT t FROM t WHERE a = $1 $$",
    "CREATE FUNCTION r4(int, int) RETURNS t LANGUAGE sql AS $$ SELECT $1, $2 $$",
    "CREATE FUNCTION r5(int, int, OUT x int, OUT y int) LANGUAGE sql AS $$ SELECT row($1, $2) $$",
    "CREATE FUNCTION r6(int, int) RETURNS SETOF t LANGUAGE sql AS"
    " $$ SELECT row(g, $2)::t FROM generate_series(1, $1) g $$",
    "CREATE FUNCTION r7(int, int) RETURNS t LANGUAGE sql AS $$ SELECT row($1)::t $$",
)  # fmt: skip


def test_rows_of_bodies_in_sql(filled: Pair) -> None:
    """The row of a composite type as one value."""
    for sql in ROWS:
        assert outcome(filled.shoal, sql)[:1] == outcome(filled.postgres, sql)[:1], sql
    for name in ("r1", "r2", "r3", "r4", "r5", "r6"):
        filled.same(
            f"SELECT * FROM {name}(2, 5)", f"SELECT ({name}(2, 5)).*", f"SELECT x.* FROM t, {name}(t.a, 8) x",
        )  # fmt: skip
