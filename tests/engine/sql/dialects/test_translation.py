"""Statements as PostgreSQL has them, and what is refused."""

from __future__ import annotations

import pytest

from catalog.errors import SqlError
from engine.sql.dialects.names import DIALECTS, SHOAL, TRAITS
from engine.sql.dialects.statements import LONGEST, statements_in
from tests.engine.sql.dialects.statements import REFUSED_STATEMENTS, STATEMENTS


@pytest.mark.parametrize(("dialect", "sql", "expected"), STATEMENTS)
def test_a_statement_as_postgresql_has_it(dialect: str, sql: str, expected: str) -> None:
    (statement,) = statements_in(sql, dialect)
    assert statement.translation == statement.text == expected


@pytest.mark.parametrize(("dialect", "sql", "construct"), REFUSED_STATEMENTS)
def test_a_statement_without_counterpart_is_refused(dialect: str, sql: str, construct: str) -> None:
    with pytest.raises(SqlError) as error:
        statements_in(sql, dialect)
    assert error.value.sqlstate == "0A000"
    assert error.value.message == f'"{construct}" of the dialect {dialect} has no counterpart in PostgreSQL'


@pytest.mark.parametrize("dialect", TRAITS)
@pytest.mark.parametrize(
    "sql",
    [
        "SET sql_dialect = 'shoal'", "RESET sql_dialect", "SHOW sql_dialect;", "BEGIN", "START TRANSACTION READ ONLY",
        "COMMIT", "ROLLBACK TO SAVEPOINT s", "SAVEPOINT \"S\"", "RELEASE s", "DISCARD ALL", "DEALLOCATE ALL",
        "FETCH 3 FROM c", "CLOSE c", "LISTEN x", " set x.y to 'a;b' ",
    ],
)  # fmt: skip
def test_statements_about_the_session_are_postgresqls(dialect: str, sql: str) -> None:
    (statement,) = statements_in(sql, dialect)
    assert statement.translation == "" and statement.text.strip() == sql.strip().rstrip(";")


def test_statements_of_one_text() -> None:
    found = statements_in("BEGIN; SELECT `a;b` FROM t; ; SET x.y = 1; EXPLAIN (VERBOSE) SELECT `c`", "mysql")
    assert [statement.text.strip() for statement in found] == [
        "BEGIN", 'SELECT "a;b" FROM t', "SET x.y = 1", "EXPLAIN (VERBOSE) SELECT c",
    ]  # fmt: skip
    assert [statement.translation for statement in found] == ["", 'SELECT "a;b" FROM t', "", "SELECT c"]
    assert statements_in(" ; ", "mysql") == () == statements_in("", "mysql") == statements_in("-- x", "mysql")


@pytest.mark.parametrize("dialect", TRAITS)
def test_statements_that_sqlglot_does_not_look_into(dialect: str) -> None:
    """EXPLAIN, SHOW and the like: to sqlglot, what follows is a string up to the next semicolon."""
    found = statements_in("EXPLAIN (VERBOSE) SELECT 'a;b' AS x; SHOW y; SELECT 2; FETCH 1 FROM c", dialect)
    assert [statement.translation for statement in found] == ["SELECT 'a;b' AS x", "", "SELECT 2", ""]
    for word in ("EXPLAIN", "EXPLAIN ANALYZE VERBOSE", "DECLARE c CURSOR FOR"):
        (statement,) = statements_in(f"{word} SELECT 'a;b' AS x", dialect)
        assert statement.text == f"{word} SELECT 'a;b' AS x"
    with pytest.raises(SqlError, match="42601: syntax error at end of input"):
        statements_in("EXPLAIN", dialect)


def test_a_cursor_is_declared_for_a_query_in_the_dialect() -> None:
    (statement,) = statements_in('DECLARE "c" SCROLL CURSOR WITH HOLD FOR SELECT `a` FROM t', "mysql")
    assert statement.text == 'DECLARE "c" SCROLL CURSOR WITH HOLD FOR SELECT a FROM t'
    assert statement.translation == "SELECT a FROM t"


@pytest.mark.parametrize(
    ("sql", "position", "message"),
    [
        ("SELECT 1 + , 2", 12, 'syntax error at or near "," in the dialect mysql'),
        ("SELECT `é`, a FROM t WHERE )", 28, 'syntax error at or near ")" in the dialect mysql'),
        ("SELECT 1; SELECT (2", 20, "syntax error at end of input in the dialect mysql"),
    ],
)
def test_a_syntax_error_has_its_place_in_the_text(sql: str, position: int, message: str) -> None:
    with pytest.raises(SqlError) as error:
        statements_in(sql, "mysql")
    assert (error.value.sqlstate, error.value.position, error.value.message) == ("42601", position, message)


def test_a_statement_about_the_session_has_postgresqls_strings() -> None:
    """To MySQL the backslash keeps the string open; nothing of it may run as something else."""
    with pytest.raises(SqlError, match="42601: a statement ends elsewhere"):
        statements_in(r"SET x.y = 'a\'; DROP TABLE t; -- '; SELECT 1", "mysql")


def test_a_string_without_an_end_is_a_syntax_error() -> None:
    for sql in ("SELECT 'a", 'SELECT "a', "SELECT `a", "SELECT /* a"):
        with pytest.raises(SqlError, match="42601"):
            statements_in(sql, "mysql")


def test_what_sqlglot_itself_fails_on_is_a_syntax_error() -> None:
    with pytest.raises(SqlError) as error:
        statements_in("SELECT 1; SELECT { : 'a' : 1 } FROM 2 t", "duckdb")
    assert (error.value.sqlstate, error.value.position) == ("42601", 11)


def test_a_refusal_has_its_place_in_the_text() -> None:
    with pytest.raises(SqlError) as error:
        statements_in("SELECT 1;\nSELECT a, ELT(1, 'b') FROM t", "mysql")
    assert error.value.position == len("SELECT 1;\nSELECT a, ") + 1


@pytest.mark.parametrize(
    ("dialect", "sql", "own"),
    [
        ("mysql", "SELECT * FROM t AS OF LSN 5", "AS OF"),
        ("spark", "SELECT * FROM t AS OF TIMESTAMP now()", "AS OF"),
        ("tsql", "CREATE TABLE t (a INT) TABLESPACE fast", "TABLESPACE"),
        ("duckdb", "CREATE CHANGE STREAM s FOR ALL TABLES", "CHANGE STREAM"),
        ("snowflake", "DROP  CHANGE  STREAM s", "CHANGE STREAM"),
    ],
)
def test_shoals_own_syntax_is_called_so(dialect: str, sql: str, own: str) -> None:
    with pytest.raises(SqlError) as error:
        statements_in(sql, dialect)
    assert error.value.sqlstate == "0A000"
    assert error.value.message == f"{own} is Shoal's own syntax, which the dialect {dialect} has not"
    assert error.value.hint == "SET sql_dialect = 'shoal' first."


def test_the_words_of_shoals_syntax_are_free_in_strings_and_names() -> None:
    (statement,) = statements_in("SELECT 'AS OF LSN', `tablespace` FROM `change stream`", "mysql")
    assert statement.translation == "SELECT 'AS OF LSN', tablespace FROM \"change stream\""
    with pytest.raises(SqlError, match='"ELT"'):
        statements_in("SELECT ELT(1, 'AS OF LSN') FROM `tablespace`", "mysql")


def test_a_text_that_is_too_long_is_refused() -> None:
    with pytest.raises(SqlError) as error:
        statements_in(f"SELECT '{'x' * LONGEST}'", "mysql")
    assert error.value.sqlstate == "54000"


@pytest.mark.parametrize("sql", ["(" * 20_000 + "1" + ")" * 20_000, "1" + " + 1" * 20_000, "NOT " * 20_000 + "a"])
def test_what_nests_too_deeply_is_refused(sql: str) -> None:
    with pytest.raises(SqlError) as error:
        statements_in(f"SELECT {sql}", "mysql")
    assert error.value.sqlstate == "54001"


def test_postgresqls_own_grammar_is_the_default() -> None:
    assert DIALECTS[0] == SHOAL
    (statement,) = statements_in("SELECT 'a\\'", SHOAL)
    assert statement.translation == ""
    with pytest.raises(SqlError, match="42601"):
        statements_in("SELECT `a`", SHOAL)
