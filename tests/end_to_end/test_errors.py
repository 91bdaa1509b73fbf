"""What is wrong is said as PostgreSQL says it; what is not supported is refused by name."""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pytest

from tests.server import ShoalServer

SETUP = """
    DROP SCHEMA IF EXISTS wrong CASCADE;
    CREATE SCHEMA wrong;
    CREATE TABLE wrong.t (id int PRIMARY KEY, s smallint, n numeric(5,2), v varchar(5), d date, b bool);
    INSERT INTO wrong.t VALUES (1, 1, 1.5, 'one', '2024-01-01', true), (2, 2, 2.5, 'two', NULL, false);
    CREATE VIEW wrong.w AS SELECT id, v FROM wrong.t;
"""

STATEMENTS = (
    # syntax
    "SELECT",
    "SELEC 1",
    "SELECT 1 FROM",
    "SELECT * FROM t WHERE",
    "SELECT 1 +",
    "SELECT (1",
    "SELECT 1)",
    "SELECT 'abc",
    'SELECT "abc',
    "SELECT 1 /* open",
    "INSERT INTO t VALUES",
    "INSERT t VALUES (1)",
    "UPDATE t WHERE id = 1",
    "DELETE t",
    "CREATE TABLE x (a int,)",
    "CREATE TABLE x (a)",
    "DROP TABEL t",
    "SELECT * FROM t ORDER id",
    "SELECT * FROM t GROUP id",
    "SELECT 1 AS",
    "BEGIN TRANSACTION ISOLATION",
    "SAVEPOINT",
    "COPY t FROM",
    "SELECT * FROM t LIMIT",
    "SELECT CASE WHEN true THEN 1",
    "SELECT 1 UNION",
    "SELECT $0",
    "select 1; ; selekt 2",
    # names
    "SELECT missing FROM t",
    "SELECT t.missing FROM t",
    "SELECT x.id FROM t",
    "SELECT * FROM missing",
    "SELECT * FROM missing.t",
    "SELECT missing(id) FROM t",
    "SELECT id::missing FROM t",
    "INSERT INTO t (missing) VALUES (1)",
    "UPDATE t SET missing = 1",
    "DELETE FROM missing",
    "DROP TABLE missing",
    "ALTER TABLE missing ADD COLUMN a int",
    "ALTER TABLE t DROP COLUMN missing",
    "ALTER TABLE t ADD COLUMN v int",
    "CREATE INDEX i ON t (missing)",
    "CREATE TABLE t (a int)",
    "CREATE TABLE x (a int, a text)",
    "SELECT id FROM t, t u",
    "SELECT * FROM t, t",
    "SELECT * FROM t AS a WHERE t.id = 1",
    "TRUNCATE missing",
    "SET missing_setting = 1",
    "SHOW missing_setting",
    "SELECT nextval('missing')",
    "EXECUTE missing",
    "FETCH missing",
    "ROLLBACK TO missing",
    "RELEASE missing",
    "DROP VIEW t",
    "DROP TABLE w",
    "DROP INDEX t",
    # types
    "SELECT id + v FROM t",
    "SELECT id = v FROM t",
    "SELECT id || id FROM t",
    "SELECT v + 1 FROM t",
    "SELECT -v FROM t",
    "SELECT sum(v) FROM t",
    "SELECT * FROM t WHERE id",
    "SELECT * FROM t WHERE v = 1",
    "SELECT * FROM t WHERE id = 'x'",
    "SELECT CASE WHEN b THEN 1 ELSE 'x' END FROM t",
    "SELECT id FROM t UNION SELECT v FROM t",
    "SELECT 1 UNION SELECT 1, 2",
    "SELECT (1, 2) = (1, 2, 3)",
    "SELECT id IN (1, 'x') FROM t",
    "INSERT INTO t VALUES ('x')",
    "INSERT INTO t (id, d) VALUES (3, 5)",
    "INSERT INTO t VALUES (3, 1, 1, 'x', NULL, true, 7)",
    "INSERT INTO t (id, s) VALUES (3)",
    "UPDATE t SET b = 5",
    "SELECT length(5)",
    "SELECT abs('x')",
    "SELECT round(1, 2, 3)",
    "SELECT coalesce(1, 'x')",
    "SELECT ARRAY[1, 'x']",
    "SELECT 1::bool::date",
    "SELECT upper(id) FROM t",
    "SELECT '2024-13-01'::date",
    "SELECT 'nope'::date",
    "SELECT '25:00'::time",
    "SELECT 'x'::uuid",
    "SELECT '{'::json",
    "SELECT '{1,2'::int[]",
    "SELECT 'maybe'::bool",
    "SELECT 'x'::numeric",
    "SELECT '1e400'::float8",
    # values
    "SELECT 1/0",
    "SELECT 1.0/0",
    "SELECT 1::float8/0",
    "SELECT 5 % 0",
    "SELECT 2147483647 + 1",
    "SELECT -2147483648 - 1",
    "SELECT 9223372036854775807 + 1",
    "SELECT 32767::smallint + 1::smallint",
    "SELECT 3000000000::int",
    "SELECT 40000::smallint",
    "SELECT 1e10::int",
    "SELECT abs((-2147483648)::int)",
    "SELECT sqrt(-1)",
    "SELECT ln(0)",
    "SELECT 10::numeric ^ 1000000",
    "SELECT exp(1000::float8)",
    "SELECT 'x'::varchar(0)",
    "SELECT 1000::numeric(5,2) * 100::numeric(5,2)",
    "SELECT 12345::numeric(5,2)",
    "SELECT substring('abc' FROM 1 FOR -1)",
    "SELECT repeat('x', 2000000000)",
    "SELECT chr(0)",
    "SELECT date '2024-01-01' + interval '1 year' * 1e9",
    "SELECT make_date(2024, 2, 30)",
    "SELECT extract(nothing FROM date '2024-01-01')",
    "SELECT (SELECT id FROM t)",
    "SELECT id FROM t LIMIT -1",
    "SELECT id FROM t OFFSET -1",
    "SELECT * FROM generate_series(1, 5, 0)",
    # constraints
    "INSERT INTO t VALUES (1)",
    "INSERT INTO t VALUES (NULL)",
    "INSERT INTO t VALUES (3, 40000)",
    "INSERT INTO t VALUES (3, 1, 1000)",
    "INSERT INTO t VALUES (3, 1, 1, 'too long')",
    "INSERT INTO t SELECT 7 FROM generate_series(1, 2)",
    "UPDATE t SET id = 1",
    "UPDATE t SET id = NULL WHERE id = 1",
    "UPDATE t SET s = s + 32767",
    # grouping and windows
    "SELECT id, count(*) FROM t",
    "SELECT count(*) FROM t WHERE count(*) > 1",
    "SELECT sum(count(*)) FROM t",
    "SELECT id FROM t HAVING id > 1",
    "SELECT DISTINCT id FROM t ORDER BY v",
    "SELECT id FROM t GROUP BY 5",
    "SELECT id FROM t ORDER BY 5",
    "SELECT row_number() FROM t",
    "SELECT id FROM t WHERE row_number() OVER () = 1",
    "SELECT sum(id) OVER w FROM t",
    "SELECT generate_series(1, 3) FROM t WHERE generate_series(1, 3) = 1",
    "SELECT (SELECT 1, 2)",
    "SELECT * FROM (SELECT 1)",
    "SELECT *",
    "WITH x AS (SELECT 1), x AS (SELECT 2) SELECT * FROM x",
    "WITH RECURSIVE x AS (SELECT 1 UNION ALL SELECT count(*) FROM x) SELECT * FROM x",
    "INSERT INTO t VALUES (1) ON CONFLICT (v) DO NOTHING",
    "SELECT count(*) FROM t FOR UPDATE",
    # transactions
    "SAVEPOINT s",
    "LOCK TABLE t",
    "DECLARE c CURSOR FOR SELECT 1",
    "BEGIN ISOLATION LEVEL NOTHING",
)

NOT_SUPPORTED = (
    ("CREATE PROCEDURE p() LANGUAGE c AS 'p'", 'language "c"'),
    ("CREATE PUBLICATION p", "CREATE PUBLICATION"),
    ("CREATE CAST (int AS date) WITHOUT FUNCTION", "CREATE CAST"),
    ("CREATE OPERATOR CLASS c FOR TYPE int USING btree AS STORAGE int", "CREATE OPERATOR CLASS"),
    ("CREATE TYPE shell", "CREATE TYPE of a base type"),
    ("SELECT relname FROM pg_class ORDER BY 1 LIMIT 2 FOR UPDATE SKIP LOCKED", "FOR UPDATE of a system catalog"),
    ("WITH c AS (SELECT s.typname FROM pg_type s, t FOR SHARE OF s) SELECT * FROM c", "FOR UPDATE of a system catalog"),
    ("SELECT * FROM pg_stat_activity a JOIN t ON true FOR KEY SHARE", "FOR UPDATE of a system catalog"),
    ("CREATE INDEX ON t ((t IS NULL))", "IS NULL of a row in an index or in the definition of a column"),
    ("CREATE COLLATION c (provider = libc, locale = 'de_DE')", 'libc collation "de_DE"'),
    ("CREATE FOREIGN TABLE f PARTITION OF t DEFAULT SERVER s", "a foreign table as a partition"),
    ("CREATE FOREIGN TABLE f (a int) INHERITS (t) SERVER s", "a foreign table that inherits"),
    ("COPY t FROM '/etc/passwd'", "COPY"),
    ("COPY t TO PROGRAM 'cat'", "COPY"),
)


@pytest.fixture(scope="module")
def wrong(shoal: ShoalServer, postgres_server: object) -> Iterator[tuple[psycopg.Connection, psycopg.Connection]]:
    """Connections to Shoal and to PostgreSQL with the same tables."""
    connections = []
    for dsn in (shoal.dsn, getattr(postgres_server, "dsn", "")):
        connection = psycopg.connect(dsn, autocommit=True, options="-c search_path=wrong")
        connection.execute(SETUP.encode())
        connections.append(connection)
    yield connections[0], connections[1]
    for connection in connections:
        connection.execute("ROLLBACK")
        connection.execute("DROP SCHEMA wrong CASCADE")
        connection.close()


def error_of(connection: psycopg.Connection, statement: str) -> tuple[str | None, ...]:
    """SQLSTATE, message, detail, hint and position of a statement's error."""
    try:
        connection.execute(statement.encode())
    except psycopg.Error as error:
        given = error.diag
        return (
            given.sqlstate,
            given.message_primary,
            given.message_detail,
            given.message_hint,
            given.statement_position,
        )
    finally:
        if connection.info.transaction_status != psycopg.pq.TransactionStatus.IDLE:
            connection.execute("ROLLBACK")
    return ("no error",)


@pytest.mark.parametrize("statement", STATEMENTS)
def test_errors_are_those_of_postgresql(wrong: tuple[psycopg.Connection, psycopg.Connection], statement: str) -> None:
    shoal, postgres = wrong
    assert error_of(shoal, statement) == error_of(postgres, statement)


@pytest.mark.parametrize(("statement", "name"), NOT_SUPPORTED)
def test_what_is_not_supported_is_refused_by_name(
    wrong: tuple[psycopg.Connection, psycopg.Connection], statement: str, name: str
) -> None:
    sqlstate, message, *_ = error_of(wrong[0], statement)
    assert sqlstate == "0A000", message
    assert message is not None and name.lower() in message.lower()
