"""Where statements may run, told from their text."""

from __future__ import annotations

import pytest

from engine.session.statement_texts import LONG_TEXT
from engine.statements.needs import Needs
from engine.statements.routing import LONG, Routes

NOTHING = [
    "SET datestyle = 'ISO'", "SHOW all", "RESET ALL", "BEGIN", "COMMIT", "SAVEPOINT s", "ROLLBACK TO s", "DISCARD ALL",
    "FETCH 1 FROM c", "CLOSE c", "DEALLOCATE p", "SELECT 1", "SELECT version(), current_user", "", "-- nothing",
    "SELECT set_config('a.b', 'c', false)", "syntax error", "SELECT pg_advisory_unlock_all()",
]  # fmt: skip
READ = [
    "SELECT * FROM t", "TABLE t", "VALUES (now())", "SELECT a FROM t WHERE b = 'x' AND c IN (SELECT 1 FROM u)",
    "WITH x AS (SELECT 1) SELECT * FROM x", "EXPLAIN INSERT INTO t VALUES (1)", "SET ROLE ann",
    "DECLARE c CURSOR FOR SELECT 1", "PREPARE p AS INSERT INTO t VALUES (1)", "SELECT 't'::regclass", "ANALYZE t",
    "EXPLAIN ANALYZE SELECT * FROM t", "EXPLAIN (ANALYZE off) DELETE FROM t", "SELECT to_regclass('t')",
]  # fmt: skip
LEADER = [
    "INSERT INTO t VALUES (1)", "UPDATE t SET a = 1", "DELETE FROM t", "CREATE TABLE u (a int)", "DROP TABLE t",
    "SELECT * FROM t FOR UPDATE", "SELECT * FROM (SELECT * FROM t FOR SHARE) x", "SELECT nextval('s')",
    "SELECT a FROM t WHERE a = pg_catalog.lastval()", "WITH x AS (DELETE FROM t RETURNING a) SELECT * FROM x",
    "SELECT 1 INTO u", "COPY t FROM STDIN", "COPY t TO STDOUT", "LOCK TABLE t", "TRUNCATE t",
    "DECLARE c CURSOR WITH HOLD FOR SELECT 1", "EXPLAIN ANALYZE UPDATE t SET a = 1", "SELECT txid_current()",
    "EXECUTE p (nextval('s'))", "SELECT 1; DELETE FROM t", "SELECT count(*) FILTER (WHERE setval('s', 1) = 1) FROM t",
    "CREATE TEMPORARY TABLE u AS SELECT 1", "GRANT SELECT ON t TO ann", "SELECT pg_advisory_lock(1)",
    "SELECT shoal_checkpoint()", "SELECT pg_try_advisory_xact_lock(1)",
]  # fmt: skip


@pytest.mark.parametrize(
    ("needs", "sql"),
    [(needs, sql) for needs, texts in zip(Needs, (NOTHING, READ, LEADER), strict=True) for sql in texts],
)
def test_what_statements_need(needs: Needs, sql: str) -> None:
    routes = Routes()
    assert routes.of(sql.encode()).needs is needs
    assert routes.of(sql.encode()).needs is needs


def test_what_a_query_string_does_to_the_transaction() -> None:
    route = Routes().of
    assert route(b"BEGIN; SELECT * FROM t").opens_writable
    assert not route(b"BEGIN READ ONLY; SELECT * FROM t").opens_writable
    assert route(b"rollback").rolls_back and route(b"ABORT WORK").rolls_back
    assert not route(b"ROLLBACK TO s").rolls_back and not route(b"ROLLBACK; SELECT 1").rolls_back
    assert route(b"ROLLBACK; SELECT 1").ends_first and not route(b"SELECT 1; COMMIT").ends_first
    assert route(b"SELECT 1; COMMIT").commits and route(b"END").commits
    assert route(b"EXECUTE p; EXECUTE q").executes == ("p", "q")
    assert route(b"SELECT * FROM a.b, c").relations == {("a", "b"), (None, "c")}
    assert route(b"DISCARD TEMP").discards


def test_a_long_text_is_parsed_on_request() -> None:
    routes = Routes()
    long = b"INSERT INTO t VALUES " + b", ".join([b"(1)"] * 2000)
    assert len(long) >= LONG_TEXT and not routes.of(long).told
    assert routes.closer(long).told and routes.closer(long).relations == {(None, "t")}
    assert not routes.closer(long + b", (1)" * 10_000).told


def test_texts_that_differ_in_their_literals_share_a_route() -> None:
    routes = Routes()
    assert routes.of(b"SELECT a FROM t WHERE b = 1") is routes.of(b"SELECT a FROM t WHERE b = 22")


def test_a_long_text_is_not_parsed_for_its_route() -> None:
    routes = Routes()
    numbers = b"1, " * LONG_TEXT + b"1"
    assert routes.of(b"  (SELECT a FROM t WHERE b IN (" + numbers + b"))").needs is Needs.READ
    assert routes.of(b"SELECT a FROM t WHERE b IN (" + numbers + b") FOR UPDATE").needs is Needs.LEADER
    assert routes.of(b"SELECT nextval('s') IN (" + numbers + b")").needs is Needs.LEADER
    assert routes.of(b"SELECT 1 IN (" + numbers + b"); DELETE FROM t").needs is Needs.LEADER
    assert routes.of(b"/* hm */ SELECT 1 IN (" + numbers + b")").needs is Needs.LEADER


def test_a_text_in_another_dialect_is_carried() -> None:
    """What it means is known where it is planned. Statements about the session are PostgreSQL's."""
    routes = Routes()
    assert routes.of(b"SELECT 1").needs is not Needs.LEADER
    for sql in (b"SELECT 1", b"SELECT `a`", b"INSERT INTO t VALUES (1)", b"SELECT " + b"1, " * 3000 + b"1"):
        assert routes.of(sql, dialect="mysql") is LONG is routes.closer(sql, dialect="mysql")
    for sql in (b"SET sql_dialect = 'shoal'", b"RESET ALL", b"ROLLBACK", b"BEGIN READ ONLY"):
        assert routes.of(sql, dialect="mysql") == routes.of(sql)
