"""Functions in PL/pgSQL, and in SQL with bodies of more than a query, give in every place of a statement what they give
in PostgreSQL."""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pytest

from tests.engine.session.conftest import Pair
from tests.outcome import full_outcome

SETUP = """
CREATE TABLE t (a int PRIMARY KEY, b text, c numeric(10,2));
INSERT INTO t SELECT i, 'row ' || i, i * 1.5 FROM generate_series(1, 9) i;
CREATE TABLE log (n serial, what text);
CREATE TYPE pair AS (x int, y text);
CREATE FUNCTION doubled(x int) RETURNS int LANGUAGE plpgsql IMMUTABLE AS $$ BEGIN RETURN x * 2; END $$;
CREATE FUNCTION is_small(x int) RETURNS bool LANGUAGE plpgsql IMMUTABLE AS $$ BEGIN RETURN x < 100; END $$;
CREATE FUNCTION name_of(k int) RETURNS text LANGUAGE plpgsql STABLE AS $$
DECLARE found_name text; BEGIN SELECT b INTO found_name FROM t WHERE a = k; RETURN found_name; END $$;
CREATE FUNCTION noted(w text) RETURNS int LANGUAGE plpgsql AS $$
BEGIN INSERT INTO log (what) VALUES (w); RETURN (SELECT count(*) FROM log); END $$;
CREATE FUNCTION upto(n int) RETURNS SETOF int LANGUAGE plpgsql AS $$
BEGIN FOR i IN 1..n LOOP RETURN NEXT i; END LOOP; END $$;
CREATE FUNCTION some_rows(low int) RETURNS SETOF t LANGUAGE plpgsql AS $$
BEGIN RETURN QUERY SELECT * FROM t WHERE a >= low ORDER BY a; END $$;
CREATE FUNCTION listed(low int) RETURNS TABLE (k int, v text) LANGUAGE plpgsql AS $$
BEGIN FOR k, v IN SELECT a, b FROM t WHERE a > low ORDER BY a LOOP v := upper(v); RETURN NEXT; END LOOP; END $$;
CREATE FUNCTION outs(x int, OUT s int, OUT p int) LANGUAGE plpgsql AS $$ BEGIN s := x + 1; p := x * x; END $$;
CREATE FUNCTION one_out(x int, OUT s int) LANGUAGE plpgsql AS $$ BEGIN s := x + 1; END $$;
CREATE FUNCTION swapped(INOUT a int, INOUT b int) LANGUAGE plpgsql AS $$
DECLARE c int := a; BEGIN a := b; b := c; END $$;
CREATE FUNCTION any_record(k int) RETURNS record LANGUAGE plpgsql AS $$
DECLARE r record; BEGIN SELECT a, b INTO r FROM t WHERE a = k; RETURN r; END $$;
CREATE FUNCTION any_records(k int) RETURNS SETOF record LANGUAGE plpgsql AS $$
BEGIN RETURN QUERY SELECT a, b FROM t WHERE a < k ORDER BY a; END $$;
CREATE FUNCTION a_pair(k int) RETURNS pair LANGUAGE plpgsql AS $$
DECLARE p pair; BEGIN p.x := k; p.y := 'y' || k; RETURN p; END $$;
CREATE FUNCTION a_row(k int) RETURNS t LANGUAGE plpgsql AS $$
DECLARE r t%ROWTYPE; BEGIN SELECT * INTO r FROM t WHERE a = k; RETURN r; END $$;
CREATE FUNCTION factorial_of(n numeric) RETURNS numeric LANGUAGE plpgsql AS $$
BEGIN IF n <= 1 THEN RETURN 1; END IF; RETURN n * factorial_of(n - 1); END $$;
CREATE FUNCTION first_of(anyarray) RETURNS anyelement LANGUAGE plpgsql AS $$ BEGIN RETURN $1[1]; END $$;
CREATE FUNCTION larger(x anyelement, y anyelement) RETURNS anyelement LANGUAGE plpgsql AS $$
DECLARE r x%TYPE; BEGIN IF x > y THEN r := x; ELSE r := y; END IF; RETURN r; END $$;
CREATE FUNCTION summed(VARIADIC xs int[]) RETURNS int LANGUAGE plpgsql AS $$
DECLARE s int := 0; x int; BEGIN FOREACH x IN ARRAY xs LOOP s := s + x; END LOOP; RETURN s; END $$;
CREATE FUNCTION greeting(who text, word text DEFAULT 'hello') RETURNS text LANGUAGE plpgsql AS $$
BEGIN RETURN word || ' ' || who; END $$;
CREATE FUNCTION strict_one(x int) RETURNS int LANGUAGE plpgsql STRICT AS $$ BEGIN RETURN coalesce(x, -1); END $$;
CREATE FUNCTION fails_at(x int) RETURNS int LANGUAGE plpgsql AS $$
BEGIN
  IF x > 3 THEN
    RAISE EXCEPTION 'too much: %', x USING ERRCODE = '22003', HINT = 'less';
  END IF;
  RETURN x;
END $$;
CREATE FUNCTION through(x int) RETURNS int LANGUAGE plpgsql AS $$
DECLARE r int;
BEGIN
  r := fails_at(x);
  PERFORM fails_at(x + 1);
  RETURN r;
END $$;
CREATE FUNCTION safe(x int) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO log (what) VALUES ('before ' || x);
  PERFORM fails_at(x);
  RETURN 'fine';
EXCEPTION WHEN numeric_value_out_of_range THEN
  RETURN SQLERRM;
END $$;
CREATE FUNCTION told_where() RETURNS text LANGUAGE plpgsql AS $$
DECLARE c text;
BEGIN
  PERFORM through(4);
  RETURN 'none';
EXCEPTION WHEN OTHERS THEN
  GET STACKED DIAGNOSTICS c = PG_EXCEPTION_CONTEXT;
  RETURN c;
END $$;
CREATE FUNCTION sum_now() RETURNS numeric LANGUAGE plpgsql AS $$ BEGIN RETURN (SELECT sum(c) FROM t); END $$;
CREATE FUNCTION sum_then() RETURNS numeric LANGUAGE plpgsql STABLE AS $$
DECLARE s numeric; BEGIN SELECT sum(c) INTO s FROM t; RETURN s; END $$;
CREATE FUNCTION sum_within() RETURNS numeric LANGUAGE plpgsql STABLE AS $$
DECLARE s numeric; BEGIN SELECT sum_then() + max(c) * 0 INTO s FROM t; RETURN s; END $$;
CREATE FUNCTION sum_after() RETURNS numeric LANGUAGE plpgsql AS $$
BEGIN UPDATE t SET c = c + 1 WHERE a = 9; RETURN sum_then(); END $$;
CREATE FUNCTION sql_sum_then() RETURNS numeric LANGUAGE sql STABLE AS 'SELECT 1; SELECT sum(c) FROM t';
CREATE FUNCTION place() RETURNS text LANGUAGE plpgsql AS $$
DECLARE c text;
BEGIN
  RAISE NOTICE 'here';
  BEGIN
    PERFORM 1 / 0;
  EXCEPTION WHEN OTHERS THEN
    GET STACKED DIAGNOSTICS c = PG_EXCEPTION_CONTEXT;
    RAISE NOTICE '%', c;
  END;
  GET DIAGNOSTICS c = PG_CONTEXT;
  RETURN c;
END $$;
CREATE FUNCTION sql_place() RETURNS text LANGUAGE sql AS 'INSERT INTO log (what) VALUES (''p''); SELECT place()';
CREATE FUNCTION places(k int) RETURNS text LANGUAGE plpgsql AS $$
DECLARE c text;
BEGIN
  CASE k
    WHEN 1 THEN c := place();
    WHEN 2 THEN SELECT place() INTO c;
    WHEN 3 THEN
      EXECUTE 'SELECT place() FROM t LIMIT 1' INTO c;
    WHEN 4 THEN FOR c IN SELECT place() LOOP NULL; END LOOP;
    WHEN 5 THEN SELECT sql_place() INTO c;
    ELSE
      c := places(k - 5);
  END CASE;
  RETURN c;
END $$;
CREATE FUNCTION sql_noted(w text) RETURNS bigint LANGUAGE sql AS
  'INSERT INTO log (what) VALUES (w); SELECT count(*) FROM log';
CREATE FUNCTION sql_rows(k int) RETURNS SETOF t LANGUAGE sql AS
  'INSERT INTO log (what) VALUES (''rows''); SELECT * FROM t WHERE a <= k ORDER BY a';
CREATE FUNCTION sql_fib(n int) RETURNS int LANGUAGE sql AS
  'SELECT CASE WHEN n < 2 THEN n ELSE sql_fib(n - 1) + sql_fib(n - 2) END';
CREATE FUNCTION cursor_sum(low int) RETURNS numeric LANGUAGE plpgsql AS $$
DECLARE c CURSOR (from_a int) FOR SELECT * FROM t WHERE a >= from_a; r record; s numeric := 0;
BEGIN
  FOR r IN c(low) LOOP s := s + r.c; END LOOP;
  OPEN c(low); LOOP FETCH c INTO r; EXIT WHEN NOT FOUND; s := s + r.a; END LOOP; CLOSE c;
  RETURN s;
END $$;
CREATE FUNCTION moved_cursor() RETURNS text LANGUAGE plpgsql AS $$
DECLARE c refcursor; x int; y int; z int;
BEGIN
  OPEN c SCROLL FOR SELECT a FROM t ORDER BY a;
  FETCH LAST FROM c INTO x; FETCH PRIOR FROM c INTO y; MOVE ABSOLUTE 2 FROM c; FETCH RELATIVE 1 FROM c INTO z;
  RETURN x || ',' || y || ',' || z;
END $$;
CREATE FUNCTION dynamic(tab text, k int) RETURNS text LANGUAGE plpgsql AS $$
DECLARE r text; BEGIN EXECUTE format('SELECT b FROM %I WHERE a = $1', tab) INTO r USING k; RETURN r; END $$;
CREATE FUNCTION slices() RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE x int[]; BEGIN
  FOREACH x SLICE 1 IN ARRAY ARRAY[[1,2],[3,4],[5,6]] LOOP RETURN NEXT x::text; END LOOP;
  FOREACH x SLICE 2 IN ARRAY ARRAY[[1,2],[3,4]] LOOP RETURN NEXT x::text; END LOOP;
END $$;
CREATE FUNCTION into_fields() RETURNS text LANGUAGE plpgsql AS $$
DECLARE r t%ROWTYPE; n int; BEGIN
  r.a := 7; SELECT b, c, 5 INTO r.b, r.c, n FROM t WHERE a = 2; RETURN r::text || n;
END $$;
CREATE FUNCTION empty_row() RETURNS SETOF t LANGUAGE plpgsql AS $$
DECLARE w t%ROWTYPE; BEGIN RAISE NOTICE '%', w; RETURN NEXT w; RAISE NOTICE '%', w; END $$;
CREATE PROCEDURE adds(x int, INOUT total int) LANGUAGE plpgsql AS $$ BEGIN total := total + x; END $$;
CREATE PROCEDURE in_parts(n int) LANGUAGE plpgsql AS $$
BEGIN FOR i IN 1..n LOOP INSERT INTO log (what) VALUES ('part ' || i);
  IF i % 2 = 0 THEN COMMIT; ELSE ROLLBACK; END IF; END LOOP; END $$;
CREATE FUNCTION as_owner() RETURNS text LANGUAGE plpgsql SECURITY DEFINER AS $$ BEGIN RETURN current_user; END $$;
CREATE TABLE checked (
  x int CHECK (is_small(x)), y int DEFAULT doubled(21), z int GENERATED ALWAYS AS (doubled(x)) STORED)
"""

QUERIES = (
    "SELECT * FROM empty_row()",
    "SELECT doubled(4), doubled(NULL)",
    "SELECT a, doubled(a) FROM t WHERE doubled(a) > 12 ORDER BY doubled(a) DESC",
    "SELECT name_of(a) FROM t WHERE name_of(a) LIKE '%3'",
    "SELECT a, doubled(a) FROM t WHERE is_small(a) ORDER BY a FOR UPDATE",
    "SELECT a FROM t WHERE doubled(a) < 9 ORDER BY a FOR KEY SHARE",
    "SELECT doubled(a), count(*) FROM t GROUP BY doubled(a) HAVING doubled(max(a)) > 10 ORDER BY 1",
    "SELECT noted('x'), noted('y'), (SELECT count(*) FROM log)",
    "SELECT noted(b) FROM t WHERE a < 3; SELECT count(*) FROM log",
    "SELECT * FROM upto(3)",
    "SELECT * FROM upto(3) AS n WHERE n > 1",
    "SELECT upto(2), a FROM t WHERE a < 3 ORDER BY 2, 1",
    "SELECT * FROM upto(3) WITH ORDINALITY",
    "SELECT t.a, n FROM t, LATERAL upto(t.a) n WHERE t.a < 3 ORDER BY 1, 2",
    "SELECT t.a, n FROM t LEFT JOIN LATERAL upto(t.a - 1) n ON true WHERE t.a < 3 ORDER BY 1, 2",
    "SELECT * FROM some_rows(8)",
    "SELECT b FROM some_rows(8) WHERE a = 9",
    "SELECT (some_rows(8)).b",
    "SELECT * FROM listed(7)",
    "SELECT l.v FROM listed(5) l JOIN t ON t.a = l.k WHERE t.c > 10 ORDER BY l.k",
    "SELECT * FROM outs(3)",
    "SELECT outs(3)",
    "SELECT (outs(3)).p",
    "SELECT s + p FROM t, outs(a) WHERE a = 4",
    "SELECT one_out(3), * FROM one_out(4)",
    "SELECT * FROM swapped(1, 2)",
    "SELECT * FROM any_record(3) AS r (a int, b text)",
    "SELECT * FROM any_record(3) AS r (a int)",
    "SELECT b FROM any_records(3) AS r (a int, b text) ORDER BY 1",
    "SELECT * FROM any_records(3) AS r (a int, b int)",
    "SELECT * FROM any_records(3)",
    "SELECT a_pair(3), (a_pair(4)).y",
    "SELECT * FROM a_pair(3)",
    "SELECT p.y FROM t, a_pair(t.a) p WHERE t.a = 2",
    "SELECT (a_row(2)).a, (a_row(3)).c",
    "SELECT * FROM a_row(2)",
    "SELECT factorial_of(20)",
    "SELECT first_of(ARRAY['x', 'y']), first_of(ARRAY[1, 2])",
    "SELECT larger(1, 2), larger('a'::text, 'b'), larger(1.5, 1)",
    "SELECT a FROM t WHERE larger(a, 5) = a ORDER BY 1",
    "SELECT summed(1, 2, 3), summed(VARIADIC ARRAY[4, 5])",
    "SELECT greeting('you'), greeting(word => 'bye', who => 'me')",
    "SELECT strict_one(NULL), strict_one(1)",
    "SELECT fails_at(1)",
    "SELECT fails_at(4)",
    "SELECT through(2)",
    "SELECT through(3)",
    "SELECT through(4)",
    "SELECT a, through(a) FROM t ORDER BY a",
    "SELECT safe(1), safe(9); SELECT what FROM log ORDER BY n",
    "UPDATE t SET c = sum_now() WHERE a < 4 RETURNING c",
    "UPDATE t SET c = sum_then() WHERE a < 4 RETURNING c",
    "UPDATE t SET c = sum_within() WHERE a < 4 RETURNING c",
    "UPDATE t SET c = sql_sum_then() WHERE a < 4 RETURNING c",
    "SELECT sum_after(), sum_then(), sum_now()",
    "SELECT sum_after()",
    "BEGIN; UPDATE t SET c = 7 WHERE a = 1; SELECT sum_then(), sum_now() FROM t WHERE a = 1; COMMIT",
    "SELECT told_where()",
    "SELECT place()",
    "SELECT places(a) FROM t ORDER BY a",
    "SELECT places(7)",
    "DO $$ BEGIN PERFORM places(8); END $$",
    "SELECT sql_noted('p'); SELECT count(*) FROM log",
    "SELECT a, sql_noted(b) FROM t WHERE a < 3 ORDER BY a",
    "SELECT * FROM sql_rows(2) WHERE a > 1",
    "SELECT sql_fib(10)",
    "SELECT a, sql_fib(a) FROM t ORDER BY a",
    "SELECT cursor_sum(7), moved_cursor()",
    "SELECT dynamic('t', 3), dynamic('t', 99)",
    "SELECT dynamic('nowhere', 3)",
    "SELECT slices()",
    "SELECT into_fields()",
    "CALL adds(2, 3)",
    "CALL in_parts(5)",
    "BEGIN; CALL in_parts(2); COMMIT",
    "INSERT INTO checked (x) VALUES (5) RETURNING *",
    "INSERT INTO checked (x) VALUES (500)",
    "INSERT INTO checked (x) SELECT a FROM t RETURNING z",
    "UPDATE t SET c = doubled(a) WHERE a < 3 RETURNING a, c, name_of(a)",
    "DELETE FROM t WHERE doubled(a) > 15 RETURNING a",
    "WITH q AS (SELECT doubled(a) d FROM t WHERE a < 3) SELECT sum(d) FROM q",
    "SELECT a FROM t WHERE a IN (SELECT upto(2)) ORDER BY a",
    "SELECT array(SELECT upto(3)), EXISTS (SELECT FROM upto(0))",
    "SELECT CASE WHEN a > 3 THEN 0 ELSE fails_at(a) END FROM t ORDER BY a",
    "CREATE VIEW v AS SELECT a, doubled(a) d FROM t; SELECT * FROM v WHERE d = 4",
    "SELECT proname, prosrc <> '', provolatile, lanname FROM pg_proc p JOIN pg_language l ON l.oid = prolang"
    " WHERE proname = 'doubled'",
    "CREATE EXTENSION IF NOT EXISTS plpgsql",
    "SELECT extname, extversion FROM pg_extension WHERE extname = 'plpgsql'",
    "DROP FUNCTION doubled(int)",
    "DROP FUNCTION doubled(int) CASCADE; INSERT INTO checked (x) VALUES (1) RETURNING *",
    "CREATE OR REPLACE FUNCTION doubled(x int) RETURNS int LANGUAGE plpgsql AS $$ BEGIN RETURN x * 3; END $$;"
    " SELECT doubled(2)",
)


@pytest.fixture
def filled(pair: Pair) -> Iterator[Pair]:
    for connection in (pair.shoal, pair.postgres):
        connection.execute(SETUP.encode())
    yield pair


@pytest.mark.parametrize("sql", QUERIES)
def test_calls(filled: Pair, sql: str) -> None:
    assert full_outcome(filled.shoal, sql) == full_outcome(filled.postgres, sql)
    filled.same("SELECT * FROM t", "SELECT what FROM log", "SELECT * FROM checked")


def test_a_function_ends_when_it_is_told_to(pair: Pair) -> None:
    """An endless loop, and endless recursion."""
    pair.run(
        "CREATE FUNCTION endless() RETURNS int LANGUAGE plpgsql AS $$ BEGIN LOOP NULL; END LOOP; END $$",
        "CREATE FUNCTION deeper(x int) RETURNS int LANGUAGE plpgsql AS $$ BEGIN RETURN deeper(x + 1); END $$",
        "SET statement_timeout = 300",
    )
    for sql, sqlstate in (("SELECT endless()", "57014"), ("DO $$ BEGIN PERFORM endless(); END $$", "57014")):
        for connection in (pair.shoal, pair.postgres):
            with pytest.raises(psycopg.Error) as caught:
                connection.execute(sql.encode())
            assert caught.value.sqlstate == sqlstate
    pair.run("SET statement_timeout = 0")
    for connection in (pair.shoal, pair.postgres):
        with pytest.raises(psycopg.Error) as caught:
            connection.execute(b"SELECT deeper(1)")
        assert caught.value.sqlstate == "54001"


def test_a_function_runs_as_its_user(pair: Pair) -> None:
    for connection in (pair.shoal, pair.postgres):
        connection.execute(
            b"DROP ROLE IF EXISTS walker; CREATE ROLE walker; GRANT USAGE ON SCHEMA statements TO walker;"
            b"CREATE TABLE hidden (x int);"
            b"CREATE FUNCTION looks() RETURNS bigint LANGUAGE plpgsql AS"
            b" $$ BEGIN RETURN (SELECT count(*) FROM hidden); END $$;"
            b"CREATE FUNCTION may_look() RETURNS bigint LANGUAGE plpgsql SECURITY DEFINER AS"
            b" $$ BEGIN RETURN looks(); END $$;"
            b"CREATE FUNCTION not_for_all() RETURNS int LANGUAGE plpgsql AS $$ BEGIN RETURN 1; END $$;"
            b"REVOKE EXECUTE ON FUNCTION not_for_all() FROM PUBLIC; SET ROLE walker"
        )
    for sql in (
        "SELECT looks()",
        "SELECT may_look()",
        "SELECT not_for_all()",
        "DO $$ BEGIN PERFORM not_for_all(); END $$",
        "SELECT looks() FROM generate_series(1, 2)",
        "SELECT may_look() FROM generate_series(1, 2)",
    ):
        assert full_outcome(pair.shoal, sql) == full_outcome(pair.postgres, sql), sql
    pair.run("RESET ROLE")


def test_a_void_is_not_null(pair: Pair) -> None:
    pair.run(
        "create function silent() returns void language plpgsql as 'begin return; end'",
        "create function ends() returns void language plpgsql as 'begin end'",
        "create procedure ran() language plpgsql as 'begin return; end'",
    )
    pair.same(
        "select silent()",
        "select ends(), silent() is null, silent()::text is null",
        "select * from silent()",
        "select g, ends() from generate_series(1, 2) g",
        "select count(ends())",
        "call ran()",
    )
