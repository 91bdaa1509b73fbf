"""Foreign tables of postgres_fdw: the same statements in Shoal and in PostgreSQL, over tables of PostgreSQL and of
Shoal. foreign_tables.sql has the statements, each ended by `;;`."""

from __future__ import annotations

import pathlib
import time
from collections.abc import Iterator

import psycopg
import pytest

from tests.oracle import PostgresServer
from tests.server import ShoalServer

SCRIPT = pathlib.Path(__file__).with_name("foreign_tables.sql").read_text(encoding="utf-8")
Server = ShoalServer | PostgresServer
LOCAL, REMOTE = "near", "far"
TABLES = """
CREATE SCHEMA "S 1";
CREATE TABLE "S 1"."T 1" ("C 1" int PRIMARY KEY, c2 text, c3 numeric(8,2), c4 timestamptz, c5 int[], c6 jsonb,
    c7 varchar(10) DEFAULT 'foo');
INSERT INTO "S 1"."T 1" SELECT i, 'text ' || i, i * 1.5, '2024-01-01'::timestamptz + i * interval '1 day',
    ARRAY[i, i + 1], jsonb_build_object('a', i) FROM generate_series(1, 3000) i;
CREATE TABLE plain (id int, v text); INSERT INTO plain VALUES (1, 'one'), (2, NULL), (3, 'three');
CREATE FUNCTION snail() RETURNS int LANGUAGE plpgsql AS 'BEGIN PERFORM pg_sleep(30); RETURN 1; END';
CREATE VIEW slow AS SELECT snail() AS a;
"""
SETUP = """
CREATE EXTENSION postgres_fdw;
CREATE SERVER far FOREIGN DATA WRAPPER postgres_fdw OPTIONS (host '127.0.0.1', port '{port}', dbname 'far');
CREATE USER MAPPING FOR postgres SERVER far;
"""


def _in(server: Server, database: str) -> psycopg.Connection:
    return psycopg.connect(server.dsn.replace("dbname=postgres", f"dbname={database}"), autocommit=True)


def _drop(server: Server) -> None:
    with psycopg.connect(server.dsn, autocommit=True) as connection:
        for name in (LOCAL, REMOTE):
            connection.execute(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")


def _make(local: Server, remote: Server) -> psycopg.Connection:
    """A session of the local server, with the foreign server `far`."""
    for server, name in ((local, LOCAL), (remote, REMOTE)):
        with psycopg.connect(server.dsn, autocommit=True) as connection:
            connection.execute(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")
            connection.execute(f"CREATE DATABASE {name}")
    with _in(remote, REMOTE) as connection:
        connection.execute(TABLES)
    found = _in(local, LOCAL)
    found.execute(SETUP.format(port=remote.port).encode())
    return found


def _outcome(connection: psycopg.Connection, statement: str) -> tuple[object, ...]:
    notices: list[tuple[object, ...]] = []
    connection.add_notice_handler(
        handler := lambda found: notices.append((found.severity, found.message_primary, found.message_detail))
    )
    try:
        cursor = connection.execute(statement.encode())
        rows = [tuple(map(str, row)) for row in cursor.fetchall()] if cursor.description else []
        return ("rows", cursor.statusmessage, rows if "order by" in statement else sorted(rows), notices)
    except psycopg.Error as error:
        found = error.diag
        return ("error", found.sqlstate, found.message_primary, found.message_detail, found.message_hint, found.context)
    finally:
        connection.remove_notice_handler(handler)


@pytest.fixture(scope="module")
def expected(postgres_server: PostgresServer) -> Iterator[list[tuple[object, ...]]]:
    """What PostgreSQL answers, over its own tables."""
    with _make(postgres_server, postgres_server) as connection:
        yield [_outcome(connection, statement) for statement in _statements()]
    _drop(postgres_server)


def _statements() -> list[str]:
    return [text for part in SCRIPT.split(";;") if (text := part.strip())]


@pytest.mark.parametrize("over", ["postgres", "shoal"])
def test_statements_are_answered_as_by_postgresql(
    shoal: ShoalServer, postgres_server: PostgresServer, expected: list[tuple[object, ...]], over: str
) -> None:
    with _make(shoal, postgres_server if over == "postgres" else shoal) as connection:
        for statement, theirs in zip(_statements(), expected, strict=True):
            assert _outcome(connection, statement) == theirs, statement
    _drop(shoal)


@pytest.fixture(params=["shoal", "postgres"])
def near(request: pytest.FixtureRequest, shoal: ShoalServer, postgres_server: PostgresServer) -> Iterator[Server]:
    """A local server, whose foreign server is PostgreSQL."""
    local = shoal if request.param == "shoal" else postgres_server
    with _make(local, postgres_server) as connection:
        connection.execute("CREATE FOREIGN TABLE plain (id int, v text) SERVER far")
        connection.execute("CREATE FOREIGN TABLE slow (a int) SERVER far")
    yield local
    _drop(local)
    _drop(postgres_server)


def _error(connection: psycopg.Connection, statement: str) -> tuple[str | None, str | None, str | None]:
    with pytest.raises(psycopg.Error) as caught:
        connection.execute(statement.encode())
    found = caught.value.diag
    return found.sqlstate, found.message_primary, found.message_detail


def _remote_queries(postgres_server: PostgresServer) -> int:
    """How many statements of foreign tables run on the remote server."""
    with psycopg.connect(postgres_server.dsn, autocommit=True) as connection:
        query = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'postgres_fdw' AND state = 'active'"
        return int(connection.execute(query).fetchall()[0][0])


def test_a_statement_that_ends_early_ends_the_remote_query(near: Server, postgres_server: PostgresServer) -> None:
    with _in(near, LOCAL) as connection:
        connection.execute("SET statement_timeout = 300")
        began = time.monotonic()
        with connection.transaction():
            assert connection.execute("SELECT count(*) FROM plain").fetchall() == [(3,)]
            with pytest.raises(psycopg.errors.QueryCanceled), connection.transaction():
                connection.execute("SELECT * FROM slow")
            assert connection.execute("SELECT count(*) FROM plain").fetchall() == [(3,)]
        assert time.monotonic() - began < 10
        assert _remote_queries(postgres_server) == 0


def test_a_lost_connection_is_opened_again_after_the_transaction(near: Server, postgres_server: PostgresServer) -> None:
    end = "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE application_name = 'postgres_fdw'"
    with _in(near, LOCAL) as connection, psycopg.connect(postgres_server.dsn, autocommit=True) as other:
        assert connection.execute("SELECT count(*) FROM plain").fetchall() == [(3,)]
        other.execute(end)
        assert connection.execute("SELECT count(*) FROM plain").fetchall() == [(3,)]
        connection.execute("BEGIN")
        connection.execute("INSERT INTO plain VALUES (9)")
        other.execute(end)
        assert _error(connection, "SELECT count(*) FROM plain")[0] in ("08006", "57P01")
        connection.execute("ROLLBACK")
        assert connection.execute("SELECT count(*) FROM plain").fetchall() == [(3,)]


def test_a_server_that_cannot_be_reached(near: Server) -> None:
    with _in(near, LOCAL) as connection:
        connection.execute("ALTER SERVER far OPTIONS (SET port '1')")
        state, message, detail = _error(connection, "SELECT * FROM plain")
        assert (state, message) == ("08001", 'could not connect to server "far"')
        assert detail is not None and 'connection to server at "127.0.0.1", port 1 failed: Connection refused' in detail


def test_users_and_passwords(near: Server, postgres_server: PostgresServer) -> None:
    rules = postgres_server.directory / "data" / "pg_hba.conf"
    before = rules.read_bytes()
    with psycopg.connect(postgres_server.dsn, autocommit=True) as remote, _in(near, LOCAL) as connection:
        for name, kind in (("scrammed", "scram-sha-256"), ("hashed", "md5"), ("clear", "scram-sha-256")):
            remote.execute(f"SET password_encryption = '{kind}'")
            remote.execute(f"DROP ROLE IF EXISTS {name}")
            remote.execute(f"CREATE ROLE {name} LOGIN SUPERUSER PASSWORD 'open sesame'")
        try:
            rules.write_bytes(
                b"host all scrammed all scram-sha-256\nhost all hashed all md5\nhost all clear all password\n" + before
            )
            remote.execute("SELECT pg_reload_conf()")
            connection.execute("DROP ROLE IF EXISTS guest")
            connection.execute(
                "CREATE ROLE guest; GRANT ALL ON plain TO guest; GRANT USAGE ON FOREIGN SERVER far TO guest"
            )
            connection.execute("SET ROLE guest")
            assert _error(connection, "SELECT * FROM plain") == ("42704", 'user mapping not found for "guest"', None)
            connection.execute("CREATE USER MAPPING FOR guest SERVER far OPTIONS (user 'scrammed')")
            lacking = "Non-superusers must provide a password in the user mapping."
            assert _error(connection, "SELECT * FROM plain") == ("2F003", "password is required", lacking)
            connection.execute("ALTER USER MAPPING FOR guest SERVER far OPTIONS (ADD password 'wrong')")
            state, _, detail = _error(connection, "SELECT * FROM plain")
            assert state == "08001" and detail is not None and 'failed for user "scrammed"' in detail
            connection.execute("ALTER USER MAPPING FOR guest SERVER far OPTIONS (SET password 'open sesame')")
            for name in ("scrammed", "hashed", "clear"):
                connection.execute(f"ALTER USER MAPPING FOR guest SERVER far OPTIONS (SET user '{name}')")
                assert connection.execute("SELECT count(*) FROM plain").fetchall() == [(3,)]
            connection.execute("ALTER USER MAPPING FOR guest SERVER far OPTIONS (SET user 'postgres')")
            trusted = "Non-superuser cannot connect if the server does not request a password."
            assert _error(connection, "SELECT * FROM plain") == ("2F003", "password is required", trusted)
            shown = connection.execute("SELECT umoptions FROM pg_user_mappings WHERE usename = 'postgres'").fetchall()
            assert shown == [(None,)]
            connection.execute("RESET ROLE; DROP OWNED BY guest; DROP ROLE guest")
        finally:
            rules.write_bytes(before)
            remote.execute("SELECT pg_reload_conf()")
            connection.execute("RESET ROLE")
            for name in ("scrammed", "hashed", "clear"):
                remote.execute(f"DROP ROLE IF EXISTS {name}")
    if isinstance(near, ShoalServer):
        assert b"sesame" not in near.log.read_bytes()


def test_conditions_are_sent(shoal: ShoalServer, postgres_server: PostgresServer) -> None:
    with _make(shoal, postgres_server) as connection:
        connection.execute("CREATE FOREIGN TABLE plain (id int, v text) SERVER far")
        connection.execute("CREATE TABLE here (a int)")
        for query, sent in (
            ("SELECT id FROM plain WHERE id = 1", "SELECT id FROM public.plain WHERE (id = 1)"),
            ("SELECT v FROM plain WHERE v = 'x' LIMIT 2", "SELECT v FROM public.plain WHERE (v = 'x') LIMIT 2::bigint"),
            ("SELECT v FROM plain WHERE v > 'x' LIMIT 2", "SELECT v FROM public.plain"),
            ("SELECT 1 FROM plain WHERE random() > 2 LIMIT 1", "SELECT NULL FROM public.plain"),
            ("SELECT 1 FROM here LEFT JOIN plain ON id = a WHERE id IS NULL", "SELECT id FROM public.plain"),
            ("SELECT 1 FROM here LEFT JOIN plain ON id = a AND id > 1", "SELECT id FROM public.plain WHERE (id > 1)"),
            ("SELECT 1 FROM here JOIN plain ON id = a AND id IN (1, 2)",
             "SELECT id FROM public.plain WHERE (id = ANY (ARRAY[1, 2]))"),
            ("DELETE FROM plain WHERE id = 3", "SELECT id, ctid FROM public.plain WHERE (id = 3) FOR UPDATE"),
        ):  # fmt: skip
            lines = [row[0].strip() for row in connection.execute(f"EXPLAIN (VERBOSE) {query}".encode()).fetchall()]
            assert lines[-1] == f"Remote SQL: {sent}", query
    _drop(shoal)
    _drop(postgres_server)
