"""Statements with functions and triggers, which run at once until they wait: their answers, notices, errors and limits
are the same whether they wait or not, by either protocol. Beside PostgreSQL."""

from __future__ import annotations

import time
from typing import Protocol

import psycopg
import pytest


class Server(Protocol):
    @property
    def dsn(self) -> str: ...


SETUP = """
DROP TABLE IF EXISTS prompt_rows CASCADE;
CREATE TABLE prompt_rows (a int PRIMARY KEY, b text); INSERT INTO prompt_rows VALUES (1, 'x'), (2, NULL);
CREATE OR REPLACE FUNCTION sleep_time() RETURNS float LANGUAGE sql AS $$
    SELECT CASE current_setting('statement_timeout') WHEN '0' THEN 0.02 ELSE 5 END $$;
CREATE OR REPLACE FUNCTION told(x int) RETURNS int LANGUAGE plpgsql AS $$
    BEGIN RAISE NOTICE 'n %', x; RETURN 6 / x; END $$;
CREATE OR REPLACE FUNCTION waiting(x int) RETURNS int LANGUAGE plpgsql AS $$
    BEGIN RAISE NOTICE 'before'; PERFORM pg_sleep(sleep_time()); RAISE NOTICE 'after'; RETURN 6 / x; END $$;
CREATE OR REPLACE FUNCTION later_rows(x int) RETURNS SETOF prompt_rows LANGUAGE plpgsql AS $$
    BEGIN RETURN QUERY SELECT * FROM prompt_rows WHERE a > x ORDER BY a; END $$;
CREATE OR REPLACE FUNCTION noted() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN RAISE NOTICE 'row %', NEW.a; IF NEW.a = 8 THEN PERFORM pg_sleep(sleep_time()); END IF; NEW.b := NEW.b || '!';
          IF NEW.a = 9 THEN PERFORM 1 / 0; END IF; RETURN NEW; END $$;
CREATE TRIGGER noted BEFORE INSERT OR UPDATE ON prompt_rows FOR EACH ROW EXECUTE FUNCTION noted()
"""
Outcome = tuple[object, list[str]]
CASES: tuple[tuple[str, object, list[str]], ...] = (
    ("SELECT told(3)", [(2,)], ["n 3"]),
    ("SELECT told(0)", "22012", ["n 0"]),
    ("SELECT waiting(3)", [(2,)], ["before", "after"]),
    ("SELECT waiting(0)", "22012", ["before", "after"]),
    ("SELECT told(a) FROM prompt_rows ORDER BY a", [(6,), (3,)], ["n 1", "n 2"]),
    ("SELECT waiting(a) FROM prompt_rows ORDER BY a LIMIT 1", [(6,)], ["before", "after"]),
    ("SELECT * FROM later_rows(0)", [(1, "x"), (2, None)], []),
    ("SELECT * FROM later_rows(5)", [], []),
    ("BEGIN", None, []),
    ("SELECT told(0)", "22012", ["n 0"]),
    ("SELECT told(3)", "25P02", []),
    ("INSERT INTO prompt_rows VALUES (7)", "25P02", []),
    ("ROLLBACK", None, []),
    ("BEGIN READ ONLY", None, []),
    ("SELECT told(3)", [(2,)], ["n 3"]),
    ("INSERT INTO prompt_rows VALUES (7)", "25006", []),
    ("ROLLBACK", None, []),
    ("BEGIN ISOLATION LEVEL SERIALIZABLE", None, []),
    ("SELECT told(a) FROM prompt_rows WHERE a = 1", [(6,)], ["n 1"]),
    ("INSERT INTO prompt_rows VALUES (7, 'y') RETURNING b", [("y!",)], ["row 7"]),
    ("ROLLBACK", None, []),
    ("INSERT INTO prompt_rows VALUES (7, 'y') RETURNING b", [("y!",)], ["row 7"]),
    ("INSERT INTO prompt_rows VALUES (8, 'y') RETURNING b", [("y!",)], ["row 8"]),
    ("INSERT INTO prompt_rows VALUES (9, 'y')", "22012", ["row 9"]),
    ("UPDATE prompt_rows SET b = 'k' WHERE a IN (7, 8) RETURNING b", [("k!",), ("k!",)], ["row 7", "row 8"]),
    ("SET statement_timeout = 300", None, []),
    ("SELECT waiting(3)", "57014", ["before"]),
    ("SELECT told(3)", [(2,)], ["n 3"]),
    ("UPDATE prompt_rows SET b = 'm' WHERE a = 8", "57014", ["row 8"]),
    ("RESET statement_timeout", None, []),
    ("SELECT count(*), min(b) FROM prompt_rows", [(4, "k!")], []),
)


@pytest.mark.parametrize("prepare", [True, False], ids=["extended", "simple"])
def test_answers_notices_errors_and_limits(server: Server, prepare: bool) -> None:
    notices: list[str] = []
    with psycopg.connect(server.dsn, autocommit=True) as connection:
        connection.execute("SET client_min_messages = warning")
        connection.execute(SETUP.encode())
        connection.execute("SET client_min_messages = notice")
        connection.add_notice_handler(lambda said: notices.append(said.message_primary or ""))
        for sql, expected, told in CASES:
            notices.clear()
            found: object
            try:
                cursor = connection.execute(sql.encode(), prepare=prepare)
                found = cursor.fetchall() if cursor.description else None
            except psycopg.Error as error:
                found = error.sqlstate
            assert (sql, found, notices) == (sql, expected, told)


def test_a_trigger_waits_for_a_lock(server: Server) -> None:
    with (
        psycopg.connect(server.dsn, autocommit=True) as first,
        psycopg.connect(server.dsn, autocommit=True) as second,
    ):
        first.execute(SETUP.encode())
        first.execute("BEGIN; LOCK TABLE prompt_rows IN SHARE MODE")
        second.execute("SET lock_timeout = 50")
        began = time.perf_counter()
        with pytest.raises(psycopg.errors.LockNotAvailable):
            second.execute("UPDATE prompt_rows SET b = 'z' WHERE a = 1")
        assert time.perf_counter() - began >= 0.04
        first.execute("COMMIT")
        assert second.execute("UPDATE prompt_rows SET b = 'z' WHERE a = 1 RETURNING b").fetchall() == [("z!",)]
