"""Sessions that speak another dialect: the setting, plans, parameters, EXPLAIN and errors."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeAlias

import asyncpg
import psycopg
import pytest

from engine.sql.dialects.names import DIALECTS
from tests.server import ShoalServer

Connection: TypeAlias = "psycopg.Connection[tuple[object, ...]]"


@pytest.fixture
def connection(shoal: ShoalServer) -> Iterator[Connection]:
    with psycopg.connect(shoal.dsn, autocommit=True) as connection:
        connection.execute("CREATE TABLE accounts (id int PRIMARY KEY, owner text)")
        connection.execute("INSERT INTO accounts VALUES (1, 'a'), (2, 'b')")
        yield connection
        connection.execute("RESET ALL")
        connection.execute("DROP TABLE accounts")


def _value(connection: Connection, sql: str) -> object:
    row = connection.execute(sql.encode()).fetchone()
    return None if row is None else row[0]


def test_the_setting(connection: Connection) -> None:
    assert _value(connection, "SHOW sql_dialect") == "shoal"
    for name in DIALECTS:
        connection.execute(f"SET sql_dialect = '{name.upper()}'".encode())
        assert _value(connection, "SHOW sql_dialect") == name
    with pytest.raises(psycopg.errors.InvalidParameterValue) as error:
        connection.execute("SET sql_dialect = 'cobol'")
    assert error.value.diag.message_primary == 'invalid value for parameter "sql_dialect": "cobol"'
    assert error.value.diag.message_hint == f"Available values: {', '.join(DIALECTS)}."
    connection.execute("RESET sql_dialect")
    assert _value(connection, "SHOW sql_dialect") == "shoal"


def test_a_text_has_a_plan_for_each_dialect(connection: Connection) -> None:
    """The same text means two things, however often it came before, where the client does not prepare it."""
    connection.prepare_threshold = None
    text = "SELECT 7 / 2"
    for _ in range(4):
        assert _value(connection, text) == 3
        connection.execute("SET sql_dialect = 'mysql'")
        assert _value(connection, text) == 3.5
        connection.execute("SET sql_dialect = 'tsql'")
        assert _value(connection, text) == 3
        connection.execute("RESET sql_dialect")


def test_literals_are_the_dialects(connection: Connection) -> None:
    """They are not lifted as PostgreSQL's, which reads other ends of them."""
    connection.execute("SET sql_dialect = 'mysql'")
    for _ in range(3):
        assert _value(connection, r"SELECT owner FROM accounts WHERE id = 1 AND 'it\'s' = 'it''s'") == "a"
        assert _value(connection, 'SELECT owner FROM accounts WHERE owner = "b"') == "b"
        assert _value(connection, r"SELECT 'a\\b'") == "a\\b"


def test_transactions_and_changes(connection: Connection) -> None:
    connection.execute("SET sql_dialect = 'mysql'")
    connection.execute("BEGIN")
    connection.execute('INSERT INTO `accounts` (`id`, `owner`) VALUES (3, "c")')
    connection.execute("SAVEPOINT s")
    connection.execute("UPDATE `accounts` SET `owner` = CONCAT(`owner`, '!') WHERE `id` = 3")
    assert _value(connection, "SELECT `owner` FROM `accounts` WHERE `id` = 3") == "c!"
    connection.execute("ROLLBACK TO SAVEPOINT s")
    assert _value(connection, "SELECT `owner` FROM `accounts` WHERE `id` = 3") == "c"
    connection.execute("ROLLBACK")
    assert _value(connection, "SELECT COUNT(*) FROM `accounts`") == 2


def test_set_local_ends_with_the_transaction(connection: Connection) -> None:
    with connection.transaction():
        connection.execute("SET LOCAL sql_dialect = 'mysql'")
        assert _value(connection, "SELECT 1 / 2 FROM `accounts` LIMIT 1") == 0.5
    assert _value(connection, "SELECT 1 / 2") == 0


def test_a_failed_block_takes_only_its_end(connection: Connection) -> None:
    connection.execute("SET sql_dialect = 'mysql'")
    connection.execute("BEGIN")
    with pytest.raises(psycopg.errors.SyntaxError):
        connection.execute("SELECT FROM WHERE")
    with pytest.raises(psycopg.errors.InFailedSqlTransaction):
        connection.execute("SELECT `id` FROM `accounts`")
    connection.execute("ROLLBACK")
    assert _value(connection, "SELECT `id` FROM `accounts` ORDER BY `id` LIMIT 1") == 1


def test_parameters_by_number_and_by_question_marks(connection: Connection) -> None:
    connection.execute("SET sql_dialect = 'mysql'")
    cursor = psycopg.RawCursor(connection)
    for _ in range(7):  # psycopg prepares it at the sixth
        assert cursor.execute("SELECT `owner` FROM `accounts` WHERE `id` = $1", [2]).fetchone() == ("b",)
    assert cursor.execute("SELECT `owner` FROM `accounts` WHERE `id` = ? AND `owner` <> ?", [2, "x"]).fetchone() == (
        "b",
    )
    cursor.execute("SET sql_dialect = 'tsql'")
    assert cursor.execute("SELECT TOP (?) [owner] FROM accounts WHERE id > ? ORDER BY id", [1, 0]).fetchall() == [
        ("a",)
    ]
    with pytest.raises(psycopg.errors.FeatureNotSupported, match='"@p" of the dialect tsql'):
        cursor.execute("SELECT @p")


def test_a_prepared_statement_stays_what_it_was(connection: Connection, shoal: ShoalServer) -> None:
    cursor = psycopg.RawCursor(connection)
    connection.execute("SET sql_dialect = 'mysql'")
    assert cursor.execute("SELECT 1 / CAST($1 AS SIGNED)", [2], prepare=True).fetchone() == (0.5,)
    connection.execute("SET sql_dialect = 'shoal'")
    with psycopg.connect(shoal.dsn) as other:  # psycopg forgets its statements where it sees that
        other.execute("ALTER TABLE accounts ADD COLUMN extra int")
    assert cursor.execute("SELECT 1 / CAST($1 AS SIGNED)", [2], prepare=True).fetchone() == (0.5,)


def test_cursors(connection: Connection) -> None:
    connection.execute("SET sql_dialect = 'mysql'")
    with connection.transaction(), connection.cursor(name="c") as cursor:
        cursor.execute("SELECT `id` FROM `accounts` ORDER BY `id`")
        assert cursor.fetchone() == (1,)
        assert cursor.fetchall() == [(2,)]


def test_explain_shows_postgresqls_text(connection: Connection) -> None:
    connection.execute("SET sql_dialect = 'mysql'")
    for explain in ("EXPLAIN", "EXPLAIN ANALYZE", "EXPLAIN (VERBOSE)", "explain (analyze, summary off)"):
        lines = [row[0] for row in connection.execute(f"{explain} SELECT `id` FROM `accounts` LIMIT 0, 1".encode())]
        assert "PostgreSQL: SELECT id FROM accounts LIMIT 1 OFFSET 0" in lines
    connection.execute("RESET sql_dialect")
    lines = [row[0] for row in connection.execute("EXPLAIN SELECT id FROM accounts")]
    assert not any(str(line).startswith("PostgreSQL") for line in lines)


def test_errors_of_the_analysis_show_the_text_that_they_are_about(connection: Connection) -> None:
    connection.execute("SET sql_dialect = 'mysql'")
    with pytest.raises(psycopg.errors.UndefinedColumn) as error:
        connection.execute("SELECT `nope` FROM `accounts`")
    diagnosis = error.value.diag
    assert (diagnosis.statement_position, diagnosis.internal_position) == (None, "8")
    assert diagnosis.internal_query == "SELECT nope FROM accounts"
    with pytest.raises(psycopg.errors.SyntaxError) as syntax:
        connection.execute("SELECT 1 + , 2")
    assert (syntax.value.diag.statement_position, syntax.value.diag.internal_query) == ("12", None)


def test_a_refusal_names_the_construct_and_both_dialects(connection: Connection) -> None:
    connection.execute("SET sql_dialect = 'mysql'")
    with pytest.raises(psycopg.errors.FeatureNotSupported) as error:
        connection.execute("SELECT ELT(1, 'a')")
    assert error.value.diag.message_primary == '"ELT" of the dialect mysql has no counterpart in PostgreSQL'
    with pytest.raises(psycopg.errors.FeatureNotSupported, match="AS OF is Shoal's own syntax"):
        connection.execute("SELECT * FROM accounts AS OF LSN 5")


def test_the_option_at_the_start_of_a_session(shoal: ShoalServer) -> None:
    for option in ("-c sql_dialect=mysql", "--sql_dialect=MySQL"):
        with psycopg.connect(shoal.dsn, options=option) as connection:
            assert connection.execute("SELECT 1 / 2, `x` FROM (SELECT 3 AS `x`) AS q").fetchone() == (0.5, 3)
            connection.execute("RESET sql_dialect")
            assert _value(connection, "SHOW sql_dialect") == "mysql"
    with pytest.raises(psycopg.OperationalError, match='invalid value for parameter "sql_dialect"'):
        psycopg.connect(shoal.dsn, options="-c sql_dialect=cobol")


async def test_the_startup_packet(shoal: ShoalServer) -> None:
    connection = await asyncpg.connect(
        host="127.0.0.1", port=shoal.port, user="postgres", database="postgres",
        server_settings={"sql_dialect": "mysql"},
    )  # fmt: skip
    assert await connection.fetchval("SELECT `x` FROM (SELECT CAST($1 AS SIGNED) AS `x`) AS q", 3) == 3
    await connection.close()


def test_it_is_no_setting_of_the_server(connection: Connection) -> None:
    """Programs that come with it write PostgreSQL's SQL."""
    with pytest.raises(psycopg.errors.CantChangeRuntimeParam):
        connection.execute("ALTER SYSTEM SET sql_dialect = 'mysql'")


def test_roles_may_have_a_dialect(connection: Connection, shoal: ShoalServer) -> None:
    connection.execute("CREATE ROLE speaker LOGIN")
    connection.execute("ALTER ROLE speaker SET sql_dialect = 'spark'")
    with psycopg.connect(shoal.dsn, user="speaker") as other:
        assert _value(other, "SELECT `x` FROM (SELECT 3 AS `x`)") == 3
    connection.execute("DROP ROLE speaker")


def test_statement_statistics_have_postgresqls_text(connection: Connection) -> None:
    connection.execute("SET sql_dialect = 'mysql'")
    connection.execute("SELECT `owner` AS `spoken` FROM `accounts` WHERE `id` = 77")
    connection.execute("RESET sql_dialect")
    connection.execute("CREATE EXTENSION pg_stat_statements")
    try:
        query = "SELECT query FROM pg_stat_statements WHERE query LIKE '%spoken%' AND query NOT LIKE '%pg_stat%'"
        assert _value(connection, query) == "SELECT owner AS spoken FROM accounts WHERE id = $1"
    finally:
        connection.execute("DROP EXTENSION pg_stat_statements")
