"""GRANT and REVOKE ON PARAMETER, what they leave in pg_parameter_acl, and what has_parameter_privilege() tells."""

from __future__ import annotations

import psycopg
import pytest
from psycopg import sql

from tests.oracle import PostgresServer
from tests.server import ShoalServer

_SCRIPT = """
GRANT SET ON PARAMETER work_mem, log_min_messages TO setter
GRANT ALTER SYSTEM, SET ON PARAMETER DateStyle TO setter WITH GRANT OPTION
GRANT ALTER SYSTEM ON PARAMETER my.own TO "o'x y"
GRANT SET ON PARAMETER no_such TO setter
GRANT SET ON PARAMETER "no name" TO setter
GRANT SELECT ON PARAMETER work_mem TO setter
GRANT SET (a) ON PARAMETER work_mem TO setter
GRANT SET ON PARAMETER work_mem TO nobody_of_that_name
GRANT SET ON PARAMETER work_mem TO PUBLIC WITH GRANT OPTION
GRANT ALL ON PARAMETER enable_sort TO PUBLIC
SET ROLE setter
SET log_min_messages = 'error'
SET log_min_error_statement = 'fatal'
GRANT SET ON PARAMETER datestyle TO PUBLIC
GRANT SET ON PARAMETER work_mem TO PUBLIC
GRANT SET ON PARAMETER log_min_error_statement TO PUBLIC
ALTER SYSTEM SET datestyle = 'ISO'
ALTER SYSTEM RESET datestyle
ALTER SYSTEM SET work_mem = '5MB'
ALTER SYSTEM SET no_such = '5MB'
ALTER SYSTEM RESET ALL
RESET ROLE
DROP ROLE setter
REVOKE SET ON PARAMETER datestyle FROM setter
REVOKE GRANT OPTION FOR SET ON PARAMETER datestyle FROM setter
REVOKE SET ON PARAMETER datestyle FROM setter CASCADE
REVOKE SET ON PARAMETER geqo FROM setter
REVOKE SET ON PARAMETER log_min_messages FROM setter
ALTER ROLE setter RENAME TO renamed_setter
DROP OWNED BY renamed_setter
DROP ROLE renamed_setter
REVOKE ALL ON PARAMETER enable_sort FROM PUBLIC
REVOKE ALL ON PARAMETER my.own FROM "o'x y"
REVOKE SET ON PARAMETER my.own FROM "o'x y"
DROP ROLE "o'x y"
SELECT has_parameter_privilege('work_mem', 'SELECT')
SELECT has_parameter_privilege('nobody_of_that_name', 'work_mem', 'SET')
"""


_NAMES = "unnest(ARRAY['log_min_messages', 'work_mem', 'DateStyle', 'my.own', 'enable_sort', 'no_such']) n"
_WORDS = "unnest(ARRAY['SET', 'ALTER SYSTEM', 'SET WITH GRANT OPTION', 'alter system, set']) w"
_ASKED = {
    "others": f"SELECT n, w, has_parameter_privilege('pg_monitor', n, w) FROM {_NAMES}, {_WORDS} ORDER BY 1, 2",
    "auto": f"SELECT n, w, has_parameter_privilege(n, w) FROM {_NAMES}, {_WORDS} ORDER BY 1, 2",
    "columnar": f"SELECT n, w, has_parameter_privilege(n, w) FROM {_NAMES}, {_WORDS} ORDER BY 1, 2",
}
"""By path."""


def _outcome(connection: psycopg.Connection, statement: str) -> object:
    try:
        cursor = connection.execute(sql.SQL(statement))  # type: ignore[arg-type]
    except psycopg.Error as error:
        lines = sorted((error.diag.message_detail or "").splitlines())
        return error.sqlstate, error.diag.message_primary, lines, error.diag.message_hint
    return cursor.statusmessage, cursor.fetchall() if cursor.description else None


def _told(connection: psycopg.Connection) -> list[object]:
    """What is granted, and what the functions say of it, after a statement."""
    found = [_outcome(connection, "SELECT parname, paracl FROM pg_parameter_acl ORDER BY 1")]
    for path, question in _ASKED.items():
        connection.execute(b"SET shoal.path = columnar" if path == "columnar" else b"SET shoal.path = auto")
        found.append(_outcome(connection, question))
    connection.execute("SET shoal.path = auto")
    return found


def test_privileges_on_settings_are_postgresqls(shoal: ShoalServer, postgres_server: PostgresServer) -> None:
    found = []
    for server in (shoal, postgres_server):
        with psycopg.connect(server.dsn, autocommit=True) as connection:
            for role in ("setter", '"o\'x y"'):
                connection.execute(f"CREATE ROLE {role}".encode())
            found.append([])
            for statement in filter(None, _SCRIPT.splitlines()):
                found[-1].append((statement, _outcome(connection, statement), _told(connection)))
    for ours, theirs in zip(*found, strict=True):
        assert ours == theirs


@pytest.mark.parametrize("restart", [False, True])
def test_grants_outlive_the_server(restart: bool) -> None:
    with ShoalServer() as server:
        with psycopg.connect(server.dsn, autocommit=True) as connection:
            connection.execute("CREATE ROLE setter LOGIN")
            connection.execute("GRANT SET, ALTER SYSTEM ON PARAMETER log_min_messages TO setter")
        if restart:
            server.restart()
        with psycopg.connect(server.dsn.replace("user=postgres", "user=setter"), autocommit=True) as connection:
            connection.execute("SET log_min_messages = 'error'")
            connection.execute("ALTER SYSTEM SET log_min_messages = 'error'")
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                connection.execute("ALTER SYSTEM SET log_min_error_statement = 'fatal'")
        options = " options='-c log_min_messages=fatal'"
        with psycopg.connect(server.dsn.replace("user=postgres", "user=setter") + options) as connection:
            assert connection.execute("SHOW log_min_messages").fetchone() == ("fatal",)
