"""ALTER SYSTEM: what it writes, what is in force when, what it refuses; pg_settings, pg_file_settings,
pg_hba_file_rules."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from tests.end_to_end.test_reload import ConfiguredServer, until
from tests.oracle import PostgresServer
from tests.server import ShoalServer

FILE = "postgresql.auto.conf"


@pytest.fixture(scope="module")
def shoal() -> Iterator[ShoalServer]:
    with ShoalServer() as server:
        yield server


@pytest.fixture(scope="module")
def postgresql() -> Iterator[PostgresServer]:
    with PostgresServer() as server:
        yield server


def connect(server: ShoalServer | PostgresServer) -> psycopg.Connection:
    return psycopg.connect(server.dsn, autocommit=True)


def one(connection: psycopg.Connection, query: str, *parameters: object) -> Any:
    row = connection.execute(query.encode(), parameters).fetchone()
    return None if row is None else row[0]


def outcome(connection: psycopg.Connection, statement: str) -> tuple[str, str]:
    """SQLSTATE and message."""
    try:
        done = connection.execute(statement.encode())
    except psycopg.Error as error:
        return error.sqlstate or "", (error.diag.message_primary or "")
    return "", done.statusmessage or ""


STATEMENTS = (
    "ALTER SYSTEM SET work_mem = '64MB'",
    "ALTER SYSTEM SET work_mem TO DEFAULT",
    "ALTER SYSTEM RESET work_mem",
    'ALTER SYSTEM SET search_path = a, "B", public',
    "ALTER SYSTEM SET DateStyle = 'German'",
    "ALTER SYSTEM SET statement_timeout = '2min'",
    "ALTER SYSTEM SET statement_timeout = 'soon'",
    "ALTER SYSTEM SET statement_timeout = -5",
    "ALTER SYSTEM SET enable_seqscan = maybe",
    "ALTER SYSTEM SET default_transaction_isolation = 'none'",
    "ALTER SYSTEM SET extra_float_digits = 99",
    "ALTER SYSTEM SET max_connections = 0",
    "ALTER SYSTEM SET max_connections = 77",
    "ALTER SYSTEM SET superuser_reserved_connections = 2",
    "ALTER SYSTEM SET application_name = 'it''s'",
    "ALTER SYSTEM SET application_name = E'a\\nb'",
    "ALTER SYSTEM SET no_such_thing = 1",
    "ALTER SYSTEM RESET no_such_thing",
    "ALTER SYSTEM SET no.such = 1",
    "ALTER SYSTEM SET server_version = '1'",
    "ALTER SYSTEM SET block_size = 1",
    "ALTER SYSTEM SET transaction_isolation = 'serializable'",
    "ALTER SYSTEM SET session_authorization = 'postgres'",
    "ALTER SYSTEM SET role = 'postgres'",
    "ALTER SYSTEM RESET is_superuser",
    "ALTER SYSTEM SET LOCAL work_mem = '1MB'",
    "ALTER SYSTEM SET work_mem FROM CURRENT",
    "ALTER SYSTEM SET TIME ZONE 'UTC'",
    "ALTER SYSTEM SET ALL = 1",
    "ALTER SYSTEM",
    "ALTER SYSTEM RESET ALL",
)


@pytest.mark.parametrize("statement", STATEMENTS)
def test_as_in_postgresql(shoal: ShoalServer, postgresql: PostgresServer, statement: str) -> None:
    with connect(shoal) as ours, connect(postgresql) as theirs:
        wanted = outcome(theirs, statement)
        got = outcome(ours, statement)
        assert got[0] == wanted[0]
        if wanted[0] not in ("42601", "22023"):  # the units of ranges are not the same everywhere
            assert got == wanted
        ours.execute("ALTER SYSTEM RESET ALL")
        theirs.execute("ALTER SYSTEM RESET ALL")


def test_in_a_block(shoal: ShoalServer, postgresql: PostgresServer) -> None:
    for server in (shoal, postgresql):
        with connect(server) as connection:
            connection.execute("BEGIN")
            assert outcome(connection, "ALTER SYSTEM SET work_mem = '1MB'") == (
                "25001",
                "ALTER SYSTEM cannot run inside a transaction block",
            )
            connection.execute("ROLLBACK")


def test_only_superusers(shoal: ShoalServer, postgresql: PostgresServer) -> None:
    found = []
    for server in (shoal, postgresql):
        with connect(server) as connection:
            connection.execute("CREATE ROLE nobody")
            connection.execute("SET ROLE nobody")
            found.append([
                outcome(connection, statement)
                for statement in (
                    "ALTER SYSTEM SET work_mem = '1MB'", "ALTER SYSTEM RESET work_mem", "ALTER SYSTEM RESET ALL",
                    "ALTER SYSTEM SET no_such_thing = 1", "SELECT * FROM pg_file_settings",
                    "SELECT * FROM pg_hba_file_rules",
                )
            ])  # fmt: skip
    assert found[0] == found[1]
    assert {state for state, _ in found[0]} == {"42501"}


SHOWN = """SELECT setting, source, boot_val, reset_val, sourcefile LIKE '%/postgresql.auto.conf', sourceline,
pending_restart FROM pg_settings WHERE name = 'statement_timeout'"""


def test_sessions_follow(shoal: ShoalServer, postgresql: PostgresServer) -> None:
    """Those that are there, those that come; the session that has said otherwise does not."""
    found = []
    for server in (shoal, postgresql):
        seen: list[object] = []
        with connect(server) as connection, connect(server) as other:
            other.execute("SET statement_timeout = '9s'")
            connection.execute("ALTER SYSTEM SET statement_timeout = '70s'")
            seen.append(one(connection, "SHOW statement_timeout"))
            connection.execute("SELECT pg_reload_conf()")
            assert until(lambda c=connection: one(c, "SHOW statement_timeout") == "70s")  # type: ignore[misc]
            with connect(server) as third:
                seen += [connection.execute(SHOWN).fetchone(), one(third, "SHOW statement_timeout")]
                third.execute("SET statement_timeout = '1s'")
                seen.append(third.execute(SHOWN).fetchone()[:4])  # type: ignore[index]
                third.execute("RESET statement_timeout")
                seen.append(one(third, "SHOW statement_timeout"))
            seen.append(one(other, "SHOW statement_timeout"))
            connection.execute("ALTER SYSTEM RESET statement_timeout")
            connection.execute("SELECT pg_reload_conf()")
            assert until(lambda c=connection: one(c, "SHOW statement_timeout") == "0")  # type: ignore[misc]
            seen += [connection.execute(SHOWN).fetchone(), one(other, "SHOW statement_timeout")]
        found.append(seen)
    assert found[0] == found[1]


def test_on_disk() -> None:
    """It outlives the server's death at once, and the next start has it."""
    with ShoalServer() as server:
        with connect(server) as connection:
            connection.execute("ALTER SYSTEM SET application_name = 'it''s \"here\"'")
            connection.execute('ALTER SYSTEM SET search_path = a, "B c"')
            connection.execute("ALTER SYSTEM SET max_connections = 33")
            assert one(connection, "SHOW application_name") == ""
        server.kill()
        server.start()
        with connect(server) as connection:
            assert one(connection, "SHOW application_name") == 'it\'s "here"'
            assert one(connection, "SHOW search_path") == 'a, "B c"'
            assert one(connection, "SHOW max_connections") == "33"
            connection.execute("ALTER SYSTEM RESET ALL")
            assert [line for line in (server.data / FILE).read_text().splitlines() if line[0] != "#"] == []


def test_settings_of_the_server() -> None:
    """What follows at once, what waits for a restart, and where pg_settings says that it is from."""
    query = "SELECT setting, context, source, pending_restart FROM pg_settings WHERE name = %s"
    files = "SELECT setting, applied, error FROM pg_file_settings WHERE name = %s"
    with ShoalServer() as server:
        with connect(server) as connection:

            def row(statement: str, name: str) -> object:
                return connection.execute(statement.encode(), (name,)).fetchone()

            assert row(query, "max_connections") == ("500", "sighup", "default", False)
            connection.execute("ALTER SYSTEM SET max_connections = 40")
            connection.execute("ALTER SYSTEM SET columnar_threads = 1")
            connection.execute("ALTER SYSTEM SET log_min_duration_statement = '1min'")
            assert row(query, "max_connections") == ("500", "sighup", "default", False)
            assert one(connection, "SELECT pg_reload_conf()")
            assert row(query, "max_connections") == ("40", "sighup", "configuration file", False)
            assert row(query, "columnar_threads") == ("2", "postmaster", "default", True)
            assert row(query, "log_min_duration_statement") == ("60000", "superuser", "configuration file", False)
            assert row(files, "max_connections") == ("40", True, None)
            assert row(files, "columnar_threads") == ("1", False, "setting could not be applied")
            assert outcome(connection, "SET max_connections = 9")[0] == "55P02"
        server.restart()
        with connect(server) as connection:
            assert row(query, "columnar_threads") == ("1", "postmaster", "configuration file", False)
            connection.execute("CREATE ROLE nobody")
            connection.execute("SET ROLE nobody")
            assert outcome(connection, "SHOW host_rules")[0] == "42501"
            assert one(connection, "SELECT count(*) FROM pg_settings WHERE sourcefile IS NOT NULL") == 0
            assert one(connection, "SHOW max_connections") == "40"


def test_what_is_stronger(tmp_path: Path) -> None:
    """The file of ALTER SYSTEM wins over the configuration file; what the command line says wins over both."""
    with ConfiguredServer(tmp_path) as server:
        server.write(max_connections=60)
        with connect(server) as connection:
            connection.execute("SELECT pg_reload_conf()")
            sources = "SELECT sourcefile, sourceline FROM pg_settings WHERE name = 'max_connections'"
            assert one(connection, "SHOW max_connections") == "60"
            assert connection.execute(sources).fetchone() == (str(server.config), 5)
            connection.execute("ALTER SYSTEM SET max_connections = 50")
            connection.execute("ALTER SYSTEM SET listen = '127.0.0.1:1'")
            connection.execute("SELECT pg_reload_conf()")
            assert one(connection, "SHOW max_connections") == "50"
            assert one(connection, "SELECT source FROM pg_settings WHERE name = 'listen'") == "command line"
            found = connection.execute(
                "SELECT setting, applied FROM pg_file_settings WHERE name = 'max_connections' ORDER BY seqno"
            ).fetchall()
            assert found == [("60", False), ("50", True)]


def test_a_damaged_file(tmp_path: Path) -> None:
    with ConfiguredServer(tmp_path) as server, connect(server) as connection:
        (server.data / FILE).write_text("max_connections = 50 or so\n")
        assert one(connection, "SELECT pg_reload_conf()") is False
        assert server.logged("line 1 is not NAME = 'VALUE'")
        assert one(connection, "SHOW max_connections") == "500"
        assert outcome(connection, "ALTER SYSTEM SET max_connections = 9")[0] == "F0000"
        assert "line 1" in one(connection, "SELECT error FROM pg_file_settings WHERE error IS NOT NULL")
        (server.data / FILE).write_text("max_connections = '0'\n")
        assert one(connection, "SELECT pg_reload_conf()") is False
        assert server.logged("outside the valid range")
        connection.execute("ALTER SYSTEM RESET ALL")
        assert one(connection, "SELECT pg_reload_conf()") is True


def test_host_rules(tmp_path: Path) -> None:
    query = """SELECT line_number, type, database, user_name, address, netmask, auth_method, error IS NULL
    FROM pg_hba_file_rules ORDER BY 1"""
    with ConfiguredServer(tmp_path) as server, connect(server) as connection:
        server.rules.write_text("# first\nhost all all 127.0.0.1/32 trust\nhostssl a,b +c all reject\nlocal all\n")
        assert connection.execute(query.encode()).fetchall() == [
            (2, "host", ["all"], ["all"], "127.0.0.1", "255.255.255.255", "trust", True),
            (3, "hostssl", ["a", "b"], ["+c"], "all", None, "reject", True),
            (4, None, None, None, None, None, None, False),
        ]


def test_two_at_once(shoal: ShoalServer) -> None:
    """Neither is lost."""
    names = ["work_mem", "maintenance_work_mem", "effective_cache_size", "default_statistics_target"]
    connections = [connect(shoal) for _ in names]
    for round_number in range(1, 6):
        for name, connection in zip(names, connections, strict=True):
            connection.pgconn.send_query(f"ALTER SYSTEM SET {name} = {round_number * 2000}".encode())
        for connection in connections:
            while (result := connection.pgconn.get_result()) is not None:
                assert result.status == psycopg.pq.ExecStatus.COMMAND_OK
        text = (shoal.data / FILE).read_text()
        assert all(f"{name} = '{round_number * 2000}'" in text for name in names)
    for connection in connections:
        connection.close()
