"""Bodies in PL/pgSQL give what they give in PostgreSQL: results, notices, errors with their context."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.engine.session.conftest import Pair
from tests.outcome import full_outcome

TABLE = """
CREATE TABLE t (a int PRIMARY KEY, b text, c numeric(10,2));
INSERT INTO t SELECT i, 'row ' || i, i * 1.5 FROM generate_series(1, 9) i;
CREATE PROCEDURE p(INOUT a int) LANGUAGE plpgsql AS 'BEGIN a := NULL; END';
"""
DECLARED = "x int; y int := 2; s text; n numeric; r record; w t%ROWTYPE; v t.a%TYPE; e int[]; j jsonb;"

STATEMENTS = {
    "assignment": "x := y + 1; RAISE NOTICE '%', x",
    "assignment by =": "x = y * 3; RAISE NOTICE '%', x",
    "assignment cast": "x := 2.7; s := 12; n := '3.50'; RAISE NOTICE '% % %', x, s, n",
    "assignment that fails": "x := 'abc'",
    "overflow": "x := 2147483647; x := x + 1",
    "elements": "e := '{1,2,3}'; e[2] := 20; e[5] := 50; RAISE NOTICE '% %', e, e[2]",
    "elements by variables": "FOR i IN 1..3 LOOP e[i] := i * y; END LOOP; RAISE NOTICE '%', e",
    "elements by fields": "SELECT a, b INTO r FROM t WHERE a = 2; e[r.a] := r.a; e[r.a + 1] := y; RAISE NOTICE '%', e",
    "elements by queries": "e := '{1,2}'; e[1] := (SELECT max(a) FROM t); e[2] := a FROM t WHERE a = 5;"
    " RAISE NOTICE '%', e",
    "a slice": "e := '{1,2,3}'; e[1:2] := '{7,8}'; RAISE NOTICE '%', e",
    "fields": "SELECT * INTO w FROM t WHERE a = 3; w.b := 'x'; RAISE NOTICE '% % %', w, w.b, w.c",
    "a row of queries": "w := ROW((SELECT max(a) FROM t), (SELECT b FROM t WHERE a = 2), 1); RAISE NOTICE '%', w",
    "a record": "SELECT a, b INTO r FROM t WHERE a = 4; RAISE NOTICE '% %', r, r.b",
    "a record without a value": "RAISE NOTICE '%', r.a",
    "a field that is missing": "SELECT a INTO r FROM t WHERE a = 1; RAISE NOTICE '%', r.z",
    "a record changes its shape": "SELECT a INTO r FROM t WHERE a = 1; RAISE NOTICE '%', r;"
    " SELECT b, c INTO r FROM t WHERE a = 2; RAISE NOTICE '%', r.c",
    "if": "IF y > 5 THEN x := 1; ELSIF y = 2 THEN x := 2; ELSE x := 3; END IF; RAISE NOTICE '%', x",
    "if of NULL": "IF x THEN RAISE NOTICE 'yes'; ELSE RAISE NOTICE 'no'; END IF",
    "if null": "IF x = 1 THEN RAISE NOTICE 'yes'; ELSE RAISE NOTICE 'no'; END IF",
    "case": "CASE y WHEN 1, 2 THEN RAISE NOTICE 'low'; WHEN 3 THEN RAISE"
    " NOTICE 'three'; ELSE RAISE NOTICE 'e'; END CASE",
    "case of text": "s := 'b'; CASE s WHEN 'a' THEN RAISE NOTICE '1'; WHEN 'b' THEN RAISE NOTICE '2'; END CASE",
    "case without a match": "CASE y WHEN 7 THEN NULL; END CASE",
    "searched case": "CASE WHEN y > 5 THEN RAISE NOTICE 'a'; WHEN y > 1 THEN RAISE NOTICE 'b'; END CASE",
    "loop": "x := 0; LOOP x := x + 1; EXIT WHEN x > 4; CONTINUE WHEN x = 2; RAISE NOTICE '%', x; END LOOP",
    "while": "x := 0; WHILE x < 3 LOOP x := x + 1; END LOOP; RAISE NOTICE '%', x",
    "labels": "x := 0; <<o>> LOOP LOOP x := x + 1; CONTINUE o WHEN x < 3;"
    " EXIT o; END LOOP; END LOOP o; RAISE NOTICE '%', x",
    "a labelled block": "<<b>> BEGIN x := 1; EXIT b; x := 2; END b; RAISE NOTICE '%', x",
    "exit of a block from a loop": "x := 0; <<b>> BEGIN LOOP x := x + 1; EXIT b WHEN x = 3; END"
    " LOOP; END; RAISE NOTICE '%', x",
    "for": "FOR i IN 1..3 LOOP RAISE NOTICE '%', i; END LOOP; RAISE NOTICE '%', FOUND",
    "for reverse by": "FOR i IN REVERSE 10..1 BY 4 LOOP RAISE NOTICE '%', i; END LOOP",
    "for without a turn": "FOR i IN 3..1 LOOP NULL; END LOOP; RAISE NOTICE '%', FOUND",
    "for of NULL": "FOR i IN 1..x LOOP NULL; END LOOP",
    "NULL in a loop": "x := 1; FOR i IN 1..3 LOOP RAISE NOTICE '%', x + i; x := y + x; y := NULL; END LOOP",
    "NULL by a row in a loop": "x := 1; FOR i IN 1..3 LOOP SELECT NULL INTO x; RAISE NOTICE '%', x + i; END LOOP",
    "NULL in a declaration": "FOR i IN 1..2 LOOP DECLARE k int := y; m int := i; BEGIN RAISE NOTICE '% %', k + 1, m;"
    " k := x; RAISE NOTICE '% %', k + 1, m * 2; END; END LOOP",
    "NULL in a handler": "FOR i IN 1..2 LOOP DECLARE k int := 1; BEGIN k := 1 / (i - 1); k := k + 1;"
    " EXCEPTION WHEN division_by_zero THEN k := x; END; END LOOP",
    "NULL of CALL in a loop": "FOR i IN 1..2 LOOP DECLARE k int := i; BEGIN CALL p(k); RAISE NOTICE '%', k + 1; END;"
    " END LOOP",
    "a changed variable of FOR": "FOR i IN 1..3 LOOP i := x; RAISE NOTICE '%', i + 1; END LOOP",
    "remainders": "FOR i IN -5..5 LOOP RAISE NOTICE '% % %', i % 3, i / 3, (i - 2) % 3; END LOOP",
    "remainders of negative ones": "FOR i IN -5..5 LOOP RAISE NOTICE '% %', i % -3, i / -3; END LOOP",
    "no row for STRICT": "SELECT a INTO x FROM t WHERE a = 1; BEGIN SELECT a INTO STRICT x FROM t WHERE a = -1;"
    " EXCEPTION WHEN no_data_found THEN RAISE NOTICE '%', FOUND; END",
    "too many changed rows": "PERFORM 1 FROM t WHERE a = -1; BEGIN UPDATE t SET b = '' RETURNING a INTO x;"
    " EXCEPTION WHEN too_many_rows THEN RAISE NOTICE '%', FOUND; END",
    "options of RAISE in their order": "RAISE EXCEPTION 'a' USING HINT = NULL, DETAIL = r.b",
    "two messages of RAISE": "RAISE EXCEPTION 'a' USING MESSAGE = 'b'",
    "two errcodes of RAISE": "RAISE EXCEPTION division_by_zero USING ERRCODE = '22012'",
    "a wrong errcode": "RAISE EXCEPTION USING ERRCODE = 'nonsense'",
    "a constant that fails in a row": "w := ROW(1, s, 1 / 0)",
    "a refused NULL": "DECLARE k int NOT NULL := 5; BEGIN BEGIN k := x; EXCEPTION WHEN others THEN RAISE NOTICE '%', k;"
    " END; BEGIN SELECT NULL, 1 INTO k, x; EXCEPTION WHEN others THEN RAISE NOTICE '% %', k, x; END; END",
    "an argument of a cursor that fails": "s := 'v'; DECLARE c CURSOR (low int) FOR SELECT a FROM t WHERE a > low;"
    " BEGIN OPEN c(s::int); END",
    "a constant that fails": "x := coalesce('a', '1')::int",
    "a cursor that fails at once": "s := 'x'; DECLARE c CURSOR FOR SELECT a FROM t WHERE a > s::int; BEGIN OPEN c; END",
    "PERFORM of nothing": "PERFORM",
    "found after loops": "FOR i IN 1..2 LOOP FOR j IN 2..1 LOOP NULL; END LOOP; END LOOP; RAISE NOTICE '%', FOUND",
    "for by 0": "FOR i IN 1..2 BY 0 LOOP NULL; END LOOP",
    "for over rows": "FOR r IN SELECT a, b FROM t WHERE a < 4 ORDER BY a LOOP RAISE NOTICE '% %', r.a, r.b; END LOOP",
    "for into scalars": "FOR x, s IN SELECT a, b FROM t WHERE a < 3 ORDER BY a LOOP RAISE NOTICE '% %', x, s; END LOOP",
    "for execute": "FOR r IN EXECUTE 'SELECT a FROM t WHERE a < $1 ORDER BY 1'"
    " USING 3 LOOP RAISE NOTICE '%', r.a; END LOOP",
    "foreach": "FOREACH x IN ARRAY ARRAY[3,4] LOOP RAISE NOTICE '%', x; END LOOP",
    "foreach of NULL": "FOREACH x IN ARRAY e LOOP NULL; END LOOP",
    "foreach of no array": "FOREACH x IN ARRAY y LOOP NULL; END LOOP",
    "select into": "SELECT count(*), max(b) INTO x, s FROM t; RAISE NOTICE '% %', x, s",
    "select into nothing": "SELECT a INTO x FROM t WHERE a = 99; RAISE NOTICE '% %', x, FOUND",
    "strict without rows": "SELECT a INTO STRICT x FROM t WHERE a = 99",
    "strict with rows": "SELECT a INTO STRICT x FROM t",
    "insert": "INSERT INTO t VALUES (50, 'new', 1) RETURNING c INTO n; RAISE NOTICE '% %', n, FOUND",
    "a duplicate": "INSERT INTO t VALUES (1, 'new', 1)",
    "update": "UPDATE t SET b = 'z' WHERE a > y; GET DIAGNOSTICS x = ROW_COUNT; RAISE NOTICE '% %', x, FOUND",
    "delete of nothing": "DELETE FROM t WHERE a = 77; RAISE NOTICE '%', FOUND",
    "a result without a place": "SELECT 1",
    "returning without a place": "DELETE FROM t WHERE a = 1 RETURNING a",
    "perform": "PERFORM a FROM t WHERE a = 1; RAISE NOTICE '%', FOUND",
    "execute": "EXECUTE 'SELECT b FROM t WHERE a = $1' INTO s USING y; RAISE NOTICE '%', s",
    "execute of NULL": "EXECUTE s",
    "execute of errors": "EXECUTE 'SELECT nonsense FROM t'",
    "execute of commit": "EXECUTE 'COMMIT'",
    "raise": "RAISE EXCEPTION 'x % y %%', y",
    "raise with everything": "RAISE EXCEPTION 'm' USING DETAIL = 'd', HINT = 'h', ERRCODE = '22012', COLUMN = 'c',"
    " CONSTRAINT = 'k', DATATYPE = 'ty', TABLE = 'ta', SCHEMA = 's'",
    "raise by condition": "RAISE division_by_zero",
    "raise by sqlstate": "RAISE SQLSTATE 'AB123' USING MESSAGE = 'own'",
    "raise of levels": "RAISE WARNING 'w'; RAISE INFO 'i'",
    "raise of NULL": "RAISE NOTICE '%', x",
    "raise an option of NULL": "RAISE EXCEPTION USING MESSAGE = s",
    "raise again outside": "RAISE",
    "assert": "ASSERT y = 2; ASSERT y = 3, 'it is ' || y",
    "a handler": "BEGIN x := 1 / 0; EXCEPTION WHEN division_by_zero THEN RAISE NOTICE '% %', SQLSTATE, SQLERRM; END",
    "a handler of others": "BEGIN x := 'q'; EXCEPTION WHEN OTHERS THEN RAISE NOTICE '% %', SQLSTATE, SQLERRM; END",
    "a handler of a class": "BEGIN x := 1/0; EXCEPTION WHEN data_exception THEN RAISE NOTICE 'class'; END",
    "another handler": "BEGIN x := 1/0; EXCEPTION WHEN unique_violation THEN NULL; END",
    "work that is undone": "BEGIN INSERT INTO t VALUES (60, 'u', 0); x := 1/0; EXCEPTION WHEN OTHERS THEN NULL; END;"
    " SELECT count(*) INTO x FROM t WHERE a = 60; RAISE NOTICE '%', x",
    "an error is raised again": "BEGIN x := 1/0; EXCEPTION WHEN OTHERS THEN RAISE NOTICE 'seen'; RAISE; END",
    "stacked": "BEGIN INSERT INTO t VALUES (1, 'd', 0); EXCEPTION WHEN OTHERS THEN GET STACKED DIAGNOSTICS"
    " s = CONSTRAINT_NAME; RAISE NOTICE '%', s; GET STACKED DIAGNOSTICS s = MESSAGE_TEXT; RAISE NOTICE '%', s; END",
    "stacked outside": "GET STACKED DIAGNOSTICS s = MESSAGE_TEXT",
    "a query as an expression": "x := (SELECT max(a) FROM t) + y; RAISE NOTICE '%', x",
    "an expression with FROM": "x := a FROM t WHERE a = 3; RAISE NOTICE '%', x",
    "an expression of several rows": "x := a FROM t",
    "an expression of several columns": "x := 1, 2",
    "a name that is both": "DECLARE a int := 1; BEGIN SELECT b INTO s FROM t WHERE a = 1; END",
    "a place": "GET DIAGNOSTICS s = PG_CONTEXT; RAISE NOTICE '%', s",
    "a block's own names": "<<inn>> DECLARE x int := 7; BEGIN RAISE NOTICE '% %', x, inn.x; END",
    "NOT NULL": "DECLARE z int NOT NULL := 1; BEGIN z := NULL; END",
    "a constant": "DECLARE z CONSTANT int := 5; BEGIN RAISE NOTICE '%', z; END",
    "json": "j := '{\"k\": [1, 2]}'; x := j->'k'->>1; RAISE NOTICE '% %', x, j->>'k'",
    "a table of its own": "CREATE TABLE own (q int); INSERT INTO own VALUES (1);"
    " SELECT q INTO x FROM own; RAISE NOTICE '%', x",
    "commit": "INSERT INTO t VALUES (70, 'c', 0); COMMIT; INSERT INTO t VALUES (71, 'r', 0); ROLLBACK",
}


@pytest.fixture
def filled(pair: Pair) -> Iterator[Pair]:
    pair.run(*TABLE.strip().split(";\n"))
    yield pair


@pytest.mark.parametrize("name", STATEMENTS)
def test_statements(filled: Pair, name: str) -> None:
    sql = f"DO $$\nDECLARE {DECLARED}\nBEGIN\n{STATEMENTS[name]};\nEND $$"
    assert full_outcome(filled.shoal, sql) == full_outcome(filled.postgres, sql)
    filled.same("SELECT * FROM t")
