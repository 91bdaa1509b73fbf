"""What is not everybody's: relations and functions of the system, limits of memory, what REVOKE has taken since."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from catalog.functions import registry
from tests.oracle import PostgresServer
from tests.samples import Part, parts
from tests.server import ShoalServer

Connection = psycopg.Connection[Any]
RELATIONS = """SELECT n.nspname, c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = relnamespace
    WHERE nspname IN ('pg_catalog', 'information_schema') AND relkind IN ('r', 'v') ORDER BY 1, 2"""
READING = (
    "SELECT 1 FROM {} LIMIT 1", "SELECT * FROM {} LIMIT 1", "SELECT x FROM {} x LIMIT 1",
    "SELECT count(*) FROM {} x, {} y WHERE false", "SELECT (SELECT count(*) FROM {})",
)  # fmt: skip
FUNCTIONS = """SELECT oid, proname FROM pg_proc
    WHERE pronamespace = 'pg_catalog'::regnamespace AND NOT has_function_privilege('plain', oid, 'EXECUTE')"""


@pytest.fixture
def plain(shoal: ShoalServer, postgres_server: PostgresServer) -> Iterator[tuple[Connection, Connection]]:
    """A connection to each server, as a role without rights."""
    with (
        psycopg.connect(shoal.dsn, autocommit=True) as ours,
        psycopg.connect(postgres_server.dsn, autocommit=True) as theirs,
    ):
        for connection in (ours, theirs):
            connection.execute("CREATE ROLE plain")
            connection.execute("SET ROLE plain")
        yield ours, theirs
        for connection in (ours, theirs):
            connection.execute("RESET ROLE")
            connection.execute("DROP ROLE plain")


def state(connection: Connection, sql: str) -> str:
    """The SQLSTATE and the message of a statement, '' if it succeeds."""
    try:
        found = connection.execute(sql.encode())
        if found.description:
            found.fetchall()
    except psycopg.Error as error:
        return f"{error.sqlstate} {error.diag.message_primary}"
    return ""


@pytest.mark.parametrize("part", parts(3))
def test_system_relations_are_as_open_as_postgresqls(plain: tuple[Connection, Connection], part: Part) -> None:
    ours, theirs = plain
    known = set(ours.execute(RELATIONS.encode()).fetchall())
    wrong, hidden = [], 0
    for number, (schema, name) in part.of(enumerate(theirs.execute(RELATIONS.encode()).fetchall())):
        if (schema, name) not in known:
            continue
        for sql in (READING[0], READING[1 + number % (len(READING) - 1)]):
            found = [state(connection, sql.format(*[f'{schema}."{name}"'] * 2)) for connection in plain]
            hidden += found[1].startswith("42501")
            if found[0] != found[1] and not found[0].startswith("0A000"):
                wrong.append((sql, name, found))
    assert not wrong
    assert hidden > 7, "nothing was hidden: the trial cannot fail"


def test_reserved_functions_are_postgresqls(plain: tuple[Connection, Connection]) -> None:
    found = {oid for oid, _ in plain[1].execute(FUNCTIONS.encode()).fetchall()}
    reserved = {oid for oid in registry.function_oids() if registry.function(oid).reserved}
    assert {oid for oid in found if oid < 16384} == reserved  # others are of other tests, which share the server
    for sql in ("SELECT pg_stat_reset()", "SELECT pg_reload_conf()", "SELECT 1 WHERE pg_reload_conf()",
                "SELECT * FROM pg_ls_dir('.')"):  # fmt: skip
        ours, theirs = (state(connection, sql) for connection in plain)
        assert ours == theirs
        assert ours.startswith("42501")


def test_superusers_read_everything(shoal: ShoalServer) -> None:
    with psycopg.connect(shoal.dsn, autocommit=True) as connection:
        for name in ("pg_authid", "pg_shadow", "pg_statistic", "pg_subscription"):
            assert not state(connection, f"SELECT * FROM {name}")


@pytest.mark.parametrize("name", ["query_memory_limit", "connection_memory_limit"])
def test_only_superusers_raise_a_memory_limit(shoal: ShoalServer, name: str) -> None:
    with psycopg.connect(shoal.dsn, autocommit=True) as connection:
        connection.execute("CREATE ROLE plain LOGIN")
        try:
            connection.execute(f"ALTER ROLE plain SET {name} = '64MB'".encode())
            with psycopg.connect(shoal.dsn, user="plain", autocommit=True) as other:
                for value in ("0", "65MB", "100GB"):
                    assert state(other, f"SET {name} = '{value}'").startswith("42501"), value
                    assert state(other, f"SELECT set_config('{name}', '{value}', true)").startswith("42501"), value
                    assert state(other, f"ALTER ROLE plain SET {name} = '{value}'").startswith("42501"), value
                    with pytest.raises(psycopg.OperationalError, match="permission denied to set parameter"):
                        psycopg.connect(shoal.dsn, user="plain", options=f"-c {name}={value}")
                for sql in (f"SET {name} = '2MB'", f"SET {name} = '64MB'", f"RESET {name}"):
                    other.execute(sql.encode())
            connection.execute(f"SET {name} = 0".encode())
        finally:
            connection.execute("DROP ROLE plain")


def test_a_connection_without_a_limit_of_its_own_has_its_share(shoal: ShoalServer) -> None:
    """connection_memory_limit = 0 stands for half of what all may have: more than that is for superusers."""
    with psycopg.connect(shoal.dsn, autocommit=True) as connection:
        connection.execute("CREATE ROLE plain LOGIN")
        try:
            with psycopg.connect(shoal.dsn, user="plain", autocommit=True) as other:
                assert state(other, "SET connection_memory_limit = '2000GB'").startswith("42501")
                for value in ("0", "1MB", "64MB"):
                    other.execute(f"SET connection_memory_limit = '{value}'".encode())
            connection.execute("SET connection_memory_limit = '2000GB'")
        finally:
            connection.execute("DROP ROLE plain")


def test_settings_that_a_session_makes_up_are_its_memory(shoal: ShoalServer) -> None:
    for _ in range(2):  # the second connection finds what the first one had
        with psycopg.connect(shoal.dsn, autocommit=True) as connection:
            connection.execute("SET connection_memory_limit = '2MB'")
            value = "x" * 500_000
            found = [state(connection, f"SET my.a{number} = '{value}'") for number in range(6)]
            assert [text[:5] for text in found] == ["", "", "", "", "53200", "53200"]
            connection.execute("SET my.a0 = ''")
            assert not state(connection, f"SET my.a5 = '{value}'")


def test_a_session_of_a_dropped_role_makes_no_table(shoal: ShoalServer) -> None:
    with psycopg.connect(shoal.dsn, autocommit=True) as connection:
        connection.execute("CREATE ROLE gone LOGIN")
        with psycopg.connect(shoal.dsn, user="gone", autocommit=True) as other:
            connection.execute("DROP ROLE gone")
            assert state(other, "CREATE TEMP TABLE t (a int)").startswith("42704")


def test_the_past_is_read_by_those_who_may_today(shoal: ShoalServer) -> None:
    with psycopg.connect(shoal.dsn, autocommit=True) as connection:
        connection.execute("CREATE ROLE reader")
        connection.execute("CREATE TABLE of_then (a int, b int)")
        connection.execute("INSERT INTO of_then VALUES (1, 2)")
        connection.execute("GRANT SELECT ON of_then TO reader")
        (lsn,) = connection.execute("SELECT pg_current_wal_lsn()").fetchone() or ("",)
        try:
            read = f"SELECT a FROM of_then AS OF LSN '{lsn}'"
            connection.execute("SET ROLE reader")
            assert connection.execute(read.encode()).fetchall() == [(1,)]
            connection.execute("RESET ROLE")
            connection.execute("REVOKE SELECT ON of_then FROM reader")
            connection.execute("SET ROLE reader")
            for sql in (read, f"SELECT count(*) FROM of_then AS OF LSN '{lsn}'"):
                assert state(connection, sql) == "42501 permission denied for table of_then"
            connection.execute("RESET ROLE")
            connection.execute("GRANT SELECT (b) ON of_then TO reader")
            connection.execute("SET ROLE reader")
            assert state(connection, read).startswith("42501")
            assert not state(connection, read.replace("a FROM", "b FROM"))
        finally:
            connection.execute("RESET ROLE")
            connection.execute("DROP TABLE of_then")
            connection.execute("DROP ROLE reader")
