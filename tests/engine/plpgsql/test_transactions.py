"""What functions, procedures and DO may do to the transaction that they run in, as in PostgreSQL."""

from __future__ import annotations

from collections.abc import Iterator
from time import monotonic

import psycopg
import pytest

from tests.engine.session.conftest import Pair
from tests.outcome import full_outcome

SETUP = """
CREATE TABLE t (a int PRIMARY KEY, b text);
INSERT INTO t SELECT i, 'row ' || i FROM generate_series(1, 4) i;
CREATE FUNCTION commits() RETURNS int LANGUAGE plpgsql AS $$ BEGIN COMMIT; RETURN 1; END $$;
CREATE PROCEDURE ends(what int) LANGUAGE plpgsql AS $$
BEGIN INSERT INTO t VALUES (what, 'p'); COMMIT; INSERT INTO t VALUES (what + 1, 'q'); ROLLBACK; END $$;
CREATE PROCEDURE ends_as_owner() LANGUAGE plpgsql SECURITY DEFINER AS $$ BEGIN COMMIT; END $$;
CREATE PROCEDURE calls() LANGUAGE plpgsql AS $$ BEGIN CALL ends(10); CALL ends(20); END $$;
CREATE PROCEDURE calls_by_text() LANGUAGE plpgsql AS $$ BEGIN EXECUTE 'CALL ends(10)'; END $$;
CREATE PROCEDURE grows(INOUT x int, OUT z text, y int DEFAULT 3) LANGUAGE plpgsql AS $$
BEGIN x := x + y; z := 'z' || x; COMMIT; END $$;
CREATE FUNCTION changes() RETURNS int LANGUAGE plpgsql STABLE AS $$
BEGIN UPDATE t SET b = 'changed'; RETURN 1; END $$;
CREATE FUNCTION locks() RETURNS int LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN PERFORM a FROM t FOR UPDATE; RETURN 1; END $$;
CREATE FUNCTION creates() RETURNS int LANGUAGE plpgsql STABLE AS $$
BEGIN SET work_mem = '1MB'; RETURN 1; END $$;
CREATE FUNCTION reads() RETURNS bigint LANGUAGE plpgsql STABLE AS $$ BEGIN RETURN (SELECT count(*) FROM t); END $$;
CREATE FUNCTION changes_in_sql() RETURNS bigint LANGUAGE sql STABLE AS
  'UPDATE t SET b = ''changed''; SELECT count(*) FROM t';
CREATE FUNCTION first_of_cursor() RETURNS int LANGUAGE plpgsql AS $$
DECLARE c CURSOR FOR SELECT a FROM t ORDER BY a; BEGIN FOR r IN c LOOP RETURN r.a; END LOOP; END $$;
CREATE FUNCTION leaves() RETURNS int LANGUAGE plpgsql AS $$ BEGIN EXIT leaves; END $$;
CREATE FUNCTION recursive(n int) RETURNS int LANGUAGE plpgsql AS $$
DECLARE r int;
BEGIN
  IF n = 0 THEN
    RAISE EXCEPTION 'at the end';
  END IF;
  IF n % 2 = 0 THEN
    SELECT recursive(n - 1) INTO r;
  END IF;
  RETURN recursive(n - 1);
END $$;
CREATE FUNCTION deep(n int) RETURNS int LANGUAGE plpgsql AS $$
BEGIN IF n = 0 THEN RETURN 0; END IF; RETURN 1 + deep(n - 1); END $$;
CREATE FUNCTION deep_by_query(n int) RETURNS int LANGUAGE plpgsql AS $$
DECLARE r int; BEGIN IF n = 0 THEN RETURN 0; END IF; SELECT deep_by_query(n - 1) INTO r; RETURN r + 1; END $$
"""

ALONE = (
    "VACUUM t", "CREATE DATABASE other", "DROP DATABASE other", "CREATE INDEX CONCURRENTLY i ON t (b)",
    "DROP INDEX CONCURRENTLY t_pkey", "REINDEX TABLE CONCURRENTLY t", "REINDEX SCHEMA statements", "DISCARD ALL",
    "ALTER SYSTEM SET work_mem = '1MB'", "CREATE TABLESPACE place LOCATION ''", "SAVEPOINT s", "COPY t TO STDOUT",
    "COPY t FROM STDIN", "SET TRANSACTION ISOLATION LEVEL SERIALIZABLE", "LISTEN x", "LOCK TABLE t", "ANALYZE t",
    "SET LOCAL work_mem = '2MB'", "CHECKPOINT", "TRUNCATE t", "PREPARE p AS SELECT 1", "DEALLOCATE ALL",
)  # fmt: skip

STATEMENTS = (
    "SELECT commits()",
    "SELECT * FROM commits()",
    "SELECT commits() FROM t",
    "DO $$ BEGIN PERFORM commits(); END $$",
    "CALL ends(5)",
    "BEGIN; CALL ends(5); COMMIT",
    "CALL ends_as_owner()",
    "CALL calls()",
    "CALL calls_by_text()",
    "DO $$ BEGIN CALL ends(5); END $$",
    "DO $$ BEGIN BEGIN CALL ends(5); EXCEPTION WHEN unique_violation THEN NULL; END; END $$",
    "DO $x$ BEGIN DO $y$ BEGIN COMMIT; END $y$; END $x$",
    "DO $x$ BEGIN EXECUTE 'DO ''BEGIN COMMIT; END'''; END $x$",
    "DO $x$ BEGIN DO $y$ BEGIN RAISE EXCEPTION 'inner'; END $y$; END $x$",
    "DO $$ DECLARE v int := 1; s text; BEGIN CALL grows(v, s, 4); RAISE NOTICE '% %', v, s; END $$",
    "DO $$ DECLARE v int := 1; s text; BEGIN CALL grows(x => v, z => s); RAISE NOTICE '% %', v, s; END $$",
    "DO $$ DECLARE s text; BEGIN CALL grows(1 + 1, s, 4); END $$",
    "DO $$ DECLARE v int := 1; r record; BEGIN SELECT 'a' AS s INTO r; CALL grows(v, r.s, 4);"
    " RAISE NOTICE '%', r; END $$",
    "SELECT changes()",
    "SELECT locks()",
    "SELECT creates()",
    "SELECT reads(), a FROM t ORDER BY a",
    "SELECT changes_in_sql()",
    "SELECT changes_in_sql() FROM t",
    "SELECT first_of_cursor() FROM t",
    "BEGIN; SELECT first_of_cursor(); SELECT first_of_cursor(); COMMIT",
    "SELECT leaves()",
    "SELECT a, recursive(a) FROM t",
    "SELECT deep(400), deep_by_query(150)",
    "DO $$ BEGIN EXECUTE 'SELECT 1 INTO made'; END $$",
    "DO $$ DECLARE v int := 3; BEGIN CREATE TEMP TABLE made AS SELECT a, v AS v FROM t WHERE a < v;"
    " RAISE NOTICE '%', (SELECT sum(a + m.v) FROM made m); DROP TABLE made; END $$",
    "DO $$ DECLARE a int := 3; BEGIN CREATE TEMP TABLE made AS SELECT a FROM t; END $$",
    "DO $$ DECLARE n int; m int := 300; BEGIN SELECT a INTO STRICT n FROM t WHERE a > m; END $$",
    "SET plpgsql.print_strict_params = on;"
    " DO $$ DECLARE n int; m int := 300; BEGIN SELECT a INTO STRICT n FROM t WHERE a > m; END $$",
    "DO $$ #print_strict_params on\nDECLARE n int; m text := 'it''s'; r record; BEGIN SELECT 1 AS x INTO r;"
    " SELECT a INTO STRICT n FROM t WHERE b <> m AND a > r.x; END $$",
    "DO $$ #print_strict_params on\nDECLARE n int; BEGIN"
    " EXECUTE 'SELECT a FROM t WHERE a > $1' INTO STRICT n USING 9; END $$",
    "DO $$ DECLARE s text COLLATE \"default\" := 'b'; BEGIN RAISE NOTICE '%', s < 'A'; END $$",
    "DO $$ DECLARE s text COLLATE \"nowhere\" := 'b'; BEGIN RAISE NOTICE '%', s; END $$",
    "DO $$ DECLARE r t; BEGIN r := ROW(7, 'x'); r.b := 'y'; RAISE NOTICE '% %', r, r.b; INSERT INTO t VALUES (r.*);"
    " SELECT * INTO r FROM t WHERE a = 1; RAISE NOTICE '%', r; END $$",
    "DO $$ DECLARE s text; n int; BEGIN SELECT a INTO n FROM t WHERE a = 1; s := repeat('x', 3000000);"
    " s := upper(s); s := s || s; RAISE NOTICE '%', length(s); END $$",
    "DO $$ DECLARE s text; BEGIN FOR i IN 1..300 LOOP s := repeat('x', 3000000); END LOOP; RAISE NOTICE '%', length(s);"
    " END $$",
)  # fmt: skip

CANCELLATIONS = (
    "DO $$ BEGIN LOOP NULL; END LOOP; END $$",
    "DO $$\nBEGIN\n PERFORM pg_sleep(10);\nEND $$",
    "DO $$ BEGIN BEGIN LOOP NULL; END LOOP; EXCEPTION WHEN OTHERS THEN RAISE NOTICE 'others'; END; END $$",
    "DO $$ BEGIN BEGIN LOOP NULL; END LOOP; EXCEPTION WHEN query_canceled THEN RAISE NOTICE '%', SQLERRM; END; END $$",
    "DO $$ BEGIN BEGIN INSERT INTO t VALUES (9); PERFORM pg_sleep(10); EXCEPTION WHEN query_canceled THEN"
    " RAISE NOTICE '%', SQLSTATE; END; END $$",
)


@pytest.fixture
def filled(pair: Pair) -> Iterator[Pair]:
    for connection in (pair.shoal, pair.postgres):
        connection.execute(SETUP.encode())
    yield pair
    pair.run("ROLLBACK; RESET ALL; SET search_path = statements")


def same(pair: Pair, sql: str) -> None:
    assert full_outcome(pair.shoal, sql) == full_outcome(pair.postgres, sql), sql


@pytest.mark.parametrize("sql", STATEMENTS)
def test_statements(filled: Pair, sql: str) -> None:
    same(filled, sql)
    for connection in (filled.shoal, filled.postgres):
        connection.execute("ROLLBACK")
    filled.same("SELECT * FROM t ORDER BY a")


@pytest.mark.parametrize("sql", ALONE)
def test_statements_that_are_transactions_of_their_own(filled: Pair, sql: str) -> None:
    quoted = sql.replace("'", "''")
    for body in (sql, f"EXECUTE '{quoted}'"):
        same(filled, f"DO $$ BEGIN {body}; END $$")
    same(filled, f"DO $$ BEGIN {sql}; EXCEPTION WHEN OTHERS THEN RAISE NOTICE '% %', SQLSTATE, SQLERRM; END $$")


@pytest.mark.parametrize("sql", CANCELLATIONS)
def test_cancellations(filled: Pair, sql: str) -> None:
    filled.run("SET statement_timeout = 200")
    same(filled, sql)
    filled.run("SET statement_timeout = 0")
    filled.same("SELECT * FROM t ORDER BY a")


def test_prepared_calls(filled: Pair) -> None:
    """Their plans are kept until the schema changes."""
    filled.run("CREATE FUNCTION times(x int) RETURNS int LANGUAGE plpgsql AS $$ BEGIN RETURN x * 2; END $$")
    changes = (
        "SELECT 1", "CREATE TABLE other (x int)",
        "CREATE OR REPLACE FUNCTION times(x int) RETURNS int LANGUAGE plpgsql AS $$ BEGIN RETURN x * 3; END $$",
        "CREATE OR REPLACE FUNCTION times(x int) RETURNS int LANGUAGE sql AS 'SELECT x * 4'",
        "CREATE OR REPLACE FUNCTION times(x int) RETURNS int LANGUAGE sql AS 'DELETE FROM t; SELECT x * 5'",
        "DROP FUNCTION times(int)",
    )  # fmt: skip
    for change in changes:
        filled.run(change)
        found = []
        for connection in (filled.shoal, filled.postgres):
            try:
                found.append(connection.execute("SELECT times(%s::int)", (7,), prepare=True).fetchall())
            except psycopg.Error as error:
                found.append([(error.sqlstate, str(error))])
        assert found[0] == found[1], change


def test_arguments_of_calls_need_privileges(filled: Pair) -> None:
    filled.run(
        "CREATE FUNCTION full_outcome(x bigint) RETURNS bigint LANGUAGE plpgsql AS $$ BEGIN RETURN x; END $$",
        "DROP ROLE IF EXISTS caller",
        "CREATE ROLE caller",
        "GRANT USAGE ON SCHEMA statements TO caller",
        "SET ROLE caller",
    )
    same(filled, "SELECT full_outcome((SELECT count(*) FROM t))")
    same(filled, "SELECT full_outcome(full_outcome(2))")
    same(filled, "SELECT * FROM full_outcome((SELECT count(*) FROM t))")
    filled.run(
        "RESET ROLE", "ALTER TABLE t ENABLE ROW LEVEL SECURITY", "GRANT SELECT ON t TO caller", "SET ROLE caller"
    )
    same(filled, "SELECT full_outcome((SELECT count(*) FROM t))")
    filled.run("RESET ROLE")


def test_results_are_limited(filled: Pair) -> None:
    """A function that gives rows for ever ends when the connection has no more memory."""
    filled.shoal.execute(
        b"CREATE FUNCTION endless() RETURNS SETOF text LANGUAGE plpgsql AS"
        b" $$ BEGIN LOOP RETURN NEXT 'a row of some bytes ' || random(); END LOOP; END $$"
    )
    filled.shoal.execute("SET connection_memory_limit = '20MB'")
    found = full_outcome(filled.shoal, "SELECT * FROM endless()")
    assert found[1] == "53200"


def test_notices_come_while_a_function_runs(filled: Pair) -> None:
    came: list[float] = []
    filled.shoal.add_notice_handler(lambda notice: came.append(monotonic()))
    filled.shoal.execute("DO $$ BEGIN RAISE NOTICE 'first'; PERFORM pg_sleep(0.5); RAISE NOTICE 'second'; END $$")
    assert len(came) == 2
    assert came[1] - came[0] > 0.3


def test_a_body_nested_too_deeply_is_refused(filled: Pair) -> None:
    body = "NULL;"
    for _ in range(30):
        body = f"LOOP {body} EXIT; END LOOP;"
    found = full_outcome(filled.shoal, f"DO $$ BEGIN {body} END $$")
    assert found[1] == "0A000"
    assert "within one another" in str(found[2])
