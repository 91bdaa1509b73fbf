"""SET clauses of functions and procedures beside PostgreSQL: when they apply, and what is left at the end."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.engine.session.conftest import Pair

SETUP = """
CREATE SCHEMA apart; CREATE TABLE apart.t (n int); INSERT INTO apart.t VALUES (1), (2);
CREATE TABLE t (n int); INSERT INTO t VALUES (10);
CREATE FUNCTION total() RETURNS bigint LANGUAGE sql SET search_path = apart AS 'SELECT sum(n) FROM t';
CREATE FUNCTION day() RETURNS text LANGUAGE sql SET datestyle TO 'German' AS $$ SELECT (date '2024-02-01')::text $$;
CREATE FUNCTION days() RETURNS SETOF date LANGUAGE sql SET datestyle TO 'German' AS $$ SELECT date '2024-02-01' $$;
CREATE FUNCTION shown(OUT path text, OUT style text) LANGUAGE plpgsql SET search_path TO '' SET datestyle = 'SQL, DMY'
AS $$ BEGIN path := current_setting('search_path'); style := current_setting('datestyle'); END $$;
CREATE FUNCTION inner_local() RETURNS text LANGUAGE plpgsql SET work_mem = '1MB' AS $$
BEGIN SET LOCAL work_mem = '2MB'; RETURN current_setting('work_mem'); END $$;
CREATE FUNCTION inner_set() RETURNS text LANGUAGE plpgsql SET work_mem = '1MB' AS $$
BEGIN SET work_mem = '3MB'; RETURN current_setting('work_mem'); END $$;
CREATE FUNCTION other_local() RETURNS text LANGUAGE plpgsql SET work_mem = '1MB' AS $$
BEGIN SET LOCAL statement_timeout = '77s'; RETURN current_setting('work_mem'); END $$;
CREATE FUNCTION nested() RETURNS text LANGUAGE plpgsql SET work_mem = '5MB' AS $$
BEGIN RETURN inner_local() || current_setting('work_mem') || inner_set() || current_setting('work_mem'); END $$;
CREATE FUNCTION caught() RETURNS text LANGUAGE plpgsql SET work_mem = '5MB' AS $$
BEGIN
    BEGIN SET LOCAL work_mem = '6MB'; PERFORM 1 / 0; EXCEPTION WHEN division_by_zero THEN NULL; END;
    RETURN current_setting('work_mem');
END $$;
CREATE FUNCTION fails() RETURNS text LANGUAGE plpgsql SET work_mem = '5MB' AS 'BEGIN RETURN 1 / 0; END';
CREATE PROCEDURE commits() LANGUAGE plpgsql SET work_mem = '5MB' AS 'BEGIN COMMIT; END';
CREATE PROCEDURE adds() LANGUAGE sql SET search_path = apart AS 'INSERT INTO t VALUES (3)';
CREATE FUNCTION fill() RETURNS trigger LANGUAGE plpgsql SET search_path = apart AS $$
BEGIN NEW.n := (SELECT max(n) FROM t); RETURN NEW; END $$;
CREATE TRIGGER filled BEFORE INSERT ON t FOR EACH ROW EXECUTE FUNCTION fill();
"""
SHOWN = "SELECT current_setting('work_mem'), current_setting('search_path'), current_setting('statement_timeout')"


@pytest.fixture
def filled(both_paths: Pair) -> Iterator[Pair]:
    both_paths.run("DROP SCHEMA IF EXISTS apart CASCADE")
    both_paths.run(SETUP)
    yield both_paths
    for connection in (both_paths.shoal, both_paths.postgres):
        connection.rollback()
        connection.execute("RESET ALL")
        connection.execute("DROP SCHEMA apart CASCADE")


CALLS = (
    "SELECT total()", "SELECT total() + n FROM t", "SELECT * FROM total()", "SELECT day()", "SELECT days()",
    "SELECT day(), d, n FROM days() d, t", "SELECT * FROM shown()", "SELECT shown()", "SELECT inner_local()",
    "SELECT inner_set()", "SELECT other_local()", "SELECT nested()", "SELECT caught()", "SELECT fails()",
    "CALL commits()", "CALL adds()", "INSERT INTO t VALUES (99) RETURNING n", "SELECT n FROM apart.t",
    "SELECT nested() FROM generate_series(1, 3)", "DO 'BEGIN PERFORM nested(); PERFORM caught(); END'",
)  # fmt: skip


@pytest.mark.parametrize("in_block", [False, True])
@pytest.mark.parametrize("ended_by", ["COMMIT", "ROLLBACK"])
def test_calls(filled: Pair, in_block: bool, ended_by: str) -> None:
    for call in CALLS:
        if in_block:
            filled.same("BEGIN", "SET LOCAL work_mem = '8MB'" if ended_by == "COMMIT" else "SAVEPOINT a", call, SHOWN)
            filled.same(ended_by, SHOWN, "RESET work_mem")
        else:
            filled.same(call, SHOWN, "RESET work_mem", "RESET statement_timeout")


def test_what_is_kept(filled: Pair) -> None:
    shown = (
        "SELECT proname, proconfig FROM pg_proc WHERE pronamespace::regnamespace::text NOT LIKE 'pg%' AND proowner > 0"
    )
    filled.same(f"{shown} AND proconfig IS NOT NULL ORDER BY 1")
    filled.same(
        'ALTER FUNCTION total() SET search_path TO public, apart, "Odd"', "SELECT pg_get_functiondef('total'::regproc)",
        "ALTER FUNCTION total() SET TIME ZONE 'UTC' SET work_mem TO '4MB'",
        "SELECT proconfig FROM pg_proc WHERE proname = 'total'", "ALTER FUNCTION total() RESET timezone",
        "SELECT proconfig FROM pg_proc WHERE proname = 'total'", "SELECT total()", "SET work_mem = '9MB'",
        "ALTER FUNCTION total() SET work_mem FROM CURRENT", "SELECT proconfig FROM pg_proc WHERE proname = 'total'",
        "ALTER FUNCTION total() RESET ALL", "SELECT proconfig FROM pg_proc WHERE proname = 'total'", "SELECT total()",
        "ALTER FUNCTION total() SET nothing TO 1", "ALTER FUNCTION total() SET work_mem TO 'x'",
        "ALTER FUNCTION total() SET custom.name TO 'x'", "SELECT pg_get_functiondef('total'::regproc)",
        "CREATE FUNCTION g() RETURNS int LANGUAGE sql SET search_path = apart BEGIN ATOMIC SELECT n FROM t; END",
        "SELECT g()", "SELECT pg_get_functiondef('shown'::regproc)",
    )  # fmt: skip
