"""What those may do who are not superusers, and what comes of it: CREATEROLE, predefined roles, default privileges."""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pytest
from psycopg import errors

from tests.oracle import PostgresServer
from tests.server import ShoalServer

Server = ShoalServer | PostgresServer
Connection = psycopg.Connection[tuple[object, ...]]


@pytest.fixture
def superuser(server: Server) -> Iterator[Connection]:
    """A superuser's connection in a block that is rolled back."""
    with psycopg.connect(server.dsn) as connection:
        yield connection
        connection.rollback()


def refused(connection: Connection, statement: str, sqlstate: str = "42501") -> psycopg.Error:
    with pytest.raises(psycopg.Error) as caught, connection.transaction():
        connection.execute(statement.encode())
    assert caught.value.sqlstate == sqlstate, (statement, caught.value)
    return caught.value


@pytest.mark.parametrize(
    ("defaults", "called"),
    [
        ("REVOKE EXECUTE ON FUNCTIONS FROM PUBLIC", False),
        ("IN SCHEMA made REVOKE EXECUTE ON FUNCTIONS FROM PUBLIC", True),  # takes nothing away that is not its own
        ("REVOKE EXECUTE ON FUNCTIONS FROM PUBLIC; IN SCHEMA made GRANT EXECUTE ON FUNCTIONS TO caller", True),
        ("REVOKE EXECUTE ON FUNCTIONS FROM PUBLIC; IN SCHEMA other GRANT EXECUTE ON FUNCTIONS TO caller", False),
        ("FOR ROLE caller REVOKE EXECUTE ON FUNCTIONS FROM PUBLIC", True),
        ("REVOKE EXECUTE ON ROUTINES FROM PUBLIC", False),
    ],
)
def test_functions_begin_with_default_privileges(superuser: Connection, defaults: str, called: bool) -> None:
    superuser.execute(
        "CREATE ROLE caller; CREATE SCHEMA made; CREATE SCHEMA other; GRANT USAGE ON SCHEMA made TO PUBLIC"
    )
    for one in defaults.split("; "):
        superuser.execute(f"ALTER DEFAULT PRIVILEGES {one}".encode())
    superuser.execute("CREATE FUNCTION made.f() RETURNS int LANGUAGE sql AS 'SELECT 1'")
    superuser.execute("CREATE FUNCTION made.g() RETURNS int LANGUAGE sql RETURN 1")
    superuser.execute("CREATE PROCEDURE made.p() LANGUAGE sql AS 'SELECT 1'")
    superuser.execute("SET LOCAL ROLE caller")
    for statement in ("SELECT made.f()", "SELECT made.g()", "CALL made.p()"):
        if called:
            superuser.execute(statement)
        else:
            refused(superuser, statement)
    asked = superuser.execute("SELECT has_function_privilege('made.f()', 'EXECUTE')").fetchone()
    assert asked == (called,)


def test_a_role_with_large_objects_stays(superuser: Connection) -> None:
    superuser.execute("CREATE ROLE keeper; CREATE ROLE heir; SET LOCAL ROLE keeper")
    (oid,) = superuser.execute("SELECT lo_from_bytea(0, 'kept')").fetchone() or (0,)
    superuser.execute("RESET ROLE")
    error = refused(superuser, "DROP ROLE keeper", "2BP01")
    assert f"owner of large object {oid}" in (error.diag.message_detail or "")
    superuser.execute("REASSIGN OWNED BY keeper TO heir; DROP ROLE keeper; SET LOCAL ROLE heir")
    assert superuser.execute("SELECT lo_get(%s)", (oid,)).fetchone() == (b"kept",)
    superuser.execute("RESET ROLE; DROP OWNED BY heir; DROP ROLE heir")
    refused(superuser, f"SELECT lo_get({oid})", "42704")


def test_no_setting_for_superusers_comes_with_a_role_of_its_own_making(superuser: Connection) -> None:
    superuser.execute("CREATE ROLE sly LOGIN; SET LOCAL SESSION AUTHORIZATION sly")
    refused(superuser, "ALTER ROLE sly SET log_min_duration_statement = 0")
    superuser.execute("ALTER ROLE sly SET work_mem = '5MB'")


def test_whoever_creates_roles_makes_no_superuser(superuser: Connection) -> None:
    superuser.execute("CREATE ROLE maker CREATEROLE; CREATE ROLE boss SUPERUSER; SET LOCAL SESSION AUTHORIZATION maker")
    superuser.execute("CREATE ROLE made LOGIN PASSWORD 'x'; ALTER ROLE made VALID UNTIL '2030-01-01'; DROP ROLE made")
    for statement in (
        "CREATE ROLE made SUPERUSER", "ALTER ROLE maker SUPERUSER", "GRANT boss TO maker", "DROP ROLE boss",
        "CREATE ROLE made IN ROLE boss", "ALTER ROLE boss PASSWORD 'x'", "ALTER ROLE boss RENAME TO other",
        "ALTER ROLE boss SET work_mem = '5MB'", "SET ROLE boss",
    ):  # fmt: skip
        refused(superuser, statement)


def test_a_new_password_of_ones_own_lets_in(server: Server) -> None:
    with psycopg.connect(server.dsn, autocommit=True) as admin:
        admin.execute("CREATE ROLE plain LOGIN PASSWORD 'old'")
        try:
            user = psycopg.connect(server.dsn.replace("user=postgres", "user=plain"), password="old", autocommit=True)
            with user:
                user.execute("ALTER ROLE plain PASSWORD 'new'")
                user.execute("ALTER USER CURRENT_USER PASSWORD 'newer'")
                refused(user, "ALTER ROLE plain PASSWORD 'new' CREATEDB")
        finally:
            admin.execute("DROP ROLE plain")


@pytest.mark.parametrize(
    "call",
    ["CHECKPOINT", "SELECT shoal_backup('file:///nowhere')", "SELECT shoal_backup_progress()", "SELECT shoal_check()",
     "SELECT shoal_checkpoint()", "CREATE CHANGE STREAM z FOR ALL TABLES",
     "SET log_min_duration_statement = 0", "CREATE DATABASE z", "CREATE ROLE z", "ALTER TABLE boss OWNER TO postgres",
     "SELECT * FROM boss", "CREATE TABLESPACE z"],
)  # fmt: skip
def test_a_superuser_that_is_none_any_more_loses_all_at_once(shoal: ShoalServer, call: str) -> None:
    with psycopg.connect(shoal.dsn, autocommit=True) as admin:
        admin.execute("CREATE ROLE fallen LOGIN SUPERUSER; CREATE TABLE boss (a int)")
        try:
            with psycopg.connect(shoal.dsn.replace("user=postgres", "user=fallen"), autocommit=True) as session:
                session.execute("SELECT * FROM boss")
                admin.execute("ALTER ROLE fallen NOSUPERUSER")
                with pytest.raises(errors.InsufficientPrivilege):
                    session.execute(call.encode())
        finally:
            admin.execute("DROP TABLE boss; DROP ROLE fallen")


def test_predefined_roles_are_everywhere_and_stay(superuser: Connection) -> None:
    names = superuser.execute("SELECT rolname, oid FROM pg_roles WHERE rolname LIKE 'pg\\_%' ORDER BY 1").fetchall()
    assert [name for name, _ in names] == [
        "pg_checkpoint", "pg_database_owner", "pg_execute_server_program", "pg_monitor", "pg_read_all_data",
        "pg_read_all_settings", "pg_read_all_stats", "pg_read_server_files", "pg_signal_backend", "pg_stat_scan_tables",
        "pg_write_all_data", "pg_write_server_files",
    ]  # fmt: skip
    groups = superuser.execute(
        "SELECT roleid::regrole::text FROM pg_auth_members WHERE member = 'pg_monitor'::regrole ORDER BY 1"
    ).fetchall()
    assert groups == [("pg_read_all_settings",), ("pg_read_all_stats",), ("pg_stat_scan_tables",)]
    for statement, sqlstate in (
        ("DROP ROLE pg_monitor", "2BP01"),
        ("ALTER ROLE pg_monitor LOGIN", "42939"),
        ("ALTER ROLE pg_monitor RENAME TO z", "42939"),
        ("CREATE ROLE pg_z", "42939"),
    ):
        refused(superuser, statement, sqlstate)


@pytest.mark.parametrize("path", ["row", "columnar"])
def test_rights_of_roles_have_one_answer_on_both_paths(shoal: ShoalServer, path: str) -> None:
    with psycopg.connect(shoal.dsn) as connection:
        connection.execute(
            "CREATE ROLE g1; CREATE ROLE lazy NOINHERIT IN ROLE g1; CREATE ROLE g2 ADMIN lazy;"
            "CREATE FUNCTION mine() RETURNS int LANGUAGE sql AS 'SELECT 1';"
            "REVOKE EXECUTE ON FUNCTION mine() FROM PUBLIC; SET LOCAL ROLE lazy"
        )
        connection.execute(f"SET LOCAL shoal.path = '{path}'".encode() if path == "columnar" else b"SELECT 1")
        for role, word, expected in (
            ("g1", "USAGE", False),
            ("g1", "MEMBER", True),
            ("g1", "MEMBER WITH ADMIN OPTION", False),
            ("g2", "MEMBER WITH ADMIN OPTION", True),
            ("lazy", "USAGE", True),
        ):
            rows = connection.execute(
                f"SELECT pg_has_role(oid, '{word}'), pg_has_role('lazy'::regrole::oid, oid, '{word}') FROM pg_roles "
                f"WHERE rolname = '{role}'".encode()
            ).fetchall()
            assert [row[0] for row in rows] == [expected], (role, word)
            assert "ADMIN" in word or rows[0][1] == expected, (role, word)
        rows = connection.execute("SELECT has_function_privilege(oid, 'EXECUTE') FROM pg_proc WHERE proname = 'mine'")
        assert rows.fetchall() == [(False,)]
        connection.rollback()


@pytest.mark.parametrize(
    ("locked", "also"), [("seen", "base"), ("seen", "below"), ("over", "base"), ("base", "below"), ("ONLY base", "")]
)
def test_a_lock_reaches_what_a_view_reads_and_what_inherits(server: Server, locked: str, also: str) -> None:
    with psycopg.connect(server.dsn, autocommit=True) as admin, psycopg.connect(server.dsn) as holder:
        admin.execute(
            "CREATE TABLE base (a int); CREATE TABLE below () INHERITS (base); CREATE TABLE apart (a int);"
            "CREATE VIEW seen AS SELECT a FROM base; CREATE VIEW over AS SELECT 1 WHERE EXISTS (SELECT FROM seen)"
        )
        try:
            holder.execute(f"LOCK TABLE {locked} IN SHARE MODE".encode())
            for table in ("base", "below", "apart"):
                held = table == also or (table == "below" and also == "base") or table in locked
                with psycopg.connect(server.dsn) as other:
                    if held:
                        with pytest.raises(errors.LockNotAvailable):
                            other.execute(f"LOCK TABLE ONLY {table} IN ROW EXCLUSIVE MODE NOWAIT".encode())
                    elif table == "apart" or "ONLY" in locked:
                        other.execute(f"LOCK TABLE ONLY {table} IN ROW EXCLUSIVE MODE NOWAIT".encode())
            holder.rollback()
        finally:
            holder.rollback()
            admin.execute("DROP TABLE base, below, apart CASCADE")
