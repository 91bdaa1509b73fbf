"""Who a session is, what it may touch, and the settings that come with the role and the database."""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pytest
from psycopg import errors

from tests.oracle import PostgresServer
from tests.server import ShoalServer

Connection = psycopg.Connection[tuple[object, ...]]


@pytest.fixture
def superuser(server: ShoalServer | PostgresServer) -> Iterator[Connection]:
    """A superuser's connection; roles ann and bob exist meanwhile, and table secret, which is the superuser's."""
    with psycopg.connect(server.dsn, autocommit=True) as connection:
        connection.execute("CREATE ROLE ann LOGIN")
        connection.execute("CREATE ROLE bob LOGIN")
        connection.execute("CREATE TABLE secret (a int)")
        connection.execute("CREATE VIEW window_on_it AS SELECT * FROM secret")
        yield connection
        connection.execute("RESET SESSION AUTHORIZATION")
        connection.execute("DROP VIEW window_on_it")
        connection.execute("DROP TABLE secret")
        connection.execute("DROP ROLE ann")
        connection.execute("DROP ROLE bob")


def as_role(server: ShoalServer | PostgresServer, role: str, **given: str) -> Connection:
    return psycopg.connect(server.dsn.replace("user=postgres", f"user={role}"), autocommit=True, **given)  # type: ignore[arg-type]


def whoami(connection: Connection) -> object:
    return connection.execute("SELECT current_user, session_user, current_setting('role')").fetchone()


@pytest.mark.parametrize(
    "statement",
    [
        "SELECT * FROM secret",
        "SELECT count(*) FROM secret s JOIN pg_class c ON true",
        "SELECT * FROM window_on_it",
        "INSERT INTO secret VALUES (1)",
        "UPDATE secret SET a = 1",
        "DELETE FROM secret",
        "TRUNCATE secret",
        "SELECT * FROM secret FOR UPDATE",
        "COPY secret TO STDOUT",
        "COPY secret FROM STDIN",
        "COPY (SELECT * FROM secret) TO STDOUT",
        "LOCK TABLE secret",
        "EXPLAIN ANALYZE SELECT * FROM secret",
        "CREATE VIEW pg_temp.v AS SELECT * FROM secret; SELECT * FROM pg_temp.v",
        "DROP TABLE secret",
        "ALTER TABLE secret ADD COLUMN b int",
        "CREATE INDEX ON secret (a)",
        "COMMENT ON TABLE secret IS 'x'",
        "CREATE TABLE public.mine (a int)",
        "CREATE SCHEMA mine",
        "CREATE ROLE eve",
        "ALTER ROLE ann SUPERUSER",
        "ALTER ROLE bob LOGIN",
        "DROP ROLE bob",
        "SET ROLE postgres",
        "SET ROLE bob",
        "SET SESSION AUTHORIZATION postgres",
        "SELECT set_config('role', 'postgres', false)",
        "CHECKPOINT",
    ],
)
def test_an_ordinary_role_may_not(server: ShoalServer | PostgresServer, superuser: Connection, statement: str) -> None:
    with as_role(server, "ann") as ann:
        result = ann.pgconn.exec_(b"BEGIN; " + statement.encode())
        assert result.status == psycopg.pq.ExecStatus.FATAL_ERROR
        assert result.error_field(psycopg.pq.DiagnosticField.SQLSTATE) == b"42501", result.error_message
        ann.execute("ROLLBACK")
        assert whoami(ann) == ("ann", "ann", "none")


def test_what_a_role_makes_is_its_own(server: ShoalServer | PostgresServer, superuser: Connection) -> None:
    superuser.execute("CREATE SCHEMA anns AUTHORIZATION ann")
    with as_role(server, "ann") as ann, as_role(server, "bob") as bob:
        ann.execute("CREATE TABLE anns.t (a int)")
        ann.execute("INSERT INTO anns.t VALUES (1)")
        assert ann.execute("SELECT tableowner FROM pg_tables WHERE schemaname = 'anns'").fetchall() == [("ann",)]
        with pytest.raises(errors.InsufficientPrivilege):
            bob.execute("SELECT * FROM anns.t")
        ann.execute("DROP TABLE anns.t")
    superuser.execute("DROP SCHEMA anns")


def test_a_superuser_may_be_anybody(superuser: Connection) -> None:
    superuser.execute("SET ROLE ann")
    assert whoami(superuser) == ("ann", "postgres", "ann")
    with pytest.raises(errors.InsufficientPrivilege):
        superuser.execute("SELECT * FROM secret")
    superuser.execute("SET ROLE bob")
    superuser.execute("RESET ALL")
    assert whoami(superuser) == ("bob", "postgres", "bob")
    superuser.execute("RESET ROLE")
    assert whoami(superuser) == ("postgres", "postgres", "none")
    superuser.execute("SET SESSION AUTHORIZATION ann")
    assert whoami(superuser) == ("ann", "ann", "none")
    superuser.execute("RESET SESSION AUTHORIZATION")
    assert whoami(superuser) == ("postgres", "postgres", "none")
    with pytest.raises(errors.InvalidParameterValue):
        superuser.execute("SET ROLE nobody")


def test_a_role_set_in_a_transaction_ends_with_it(superuser: Connection) -> None:
    superuser.execute("BEGIN")
    superuser.execute("SET ROLE ann")
    assert whoami(superuser) == ("ann", "postgres", "ann")
    superuser.execute("ROLLBACK")
    assert whoami(superuser) == ("postgres", "postgres", "none")
    superuser.execute("BEGIN")
    superuser.execute("SET LOCAL ROLE ann")
    assert whoami(superuser) == ("ann", "postgres", "ann")
    superuser.execute("COMMIT")
    assert whoami(superuser) == ("postgres", "postgres", "none")


def test_settings_of_the_role_and_of_the_database(server: ShoalServer | PostgresServer, superuser: Connection) -> None:
    superuser.execute("ALTER DATABASE postgres SET statement_timeout = '7s'")
    superuser.execute("ALTER DATABASE postgres SET search_path = one, two")
    superuser.execute("ALTER ROLE ann SET search_path = three")
    superuser.execute("ALTER ROLE ann SET TimeZone = 'Europe/Berlin'")
    try:
        with as_role(server, "ann") as ann, as_role(server, "bob") as bob:
            assert ann.execute("SHOW statement_timeout").fetchone() == ("7s",)
            assert ann.execute("SHOW search_path").fetchone() == ("three",)
            assert ann.info.parameter_status("TimeZone") == "Europe/Berlin"
            ann.execute("SET search_path = x")
            ann.execute("RESET search_path")
            assert ann.execute("SHOW search_path").fetchone() == ("three",)
            assert bob.execute("SHOW search_path").fetchone() == ("one, two",)
        with as_role(server, "ann", options="-c search_path=four") as ann:
            assert ann.execute("SHOW search_path").fetchone() == ("four",)
    finally:
        superuser.execute("ALTER DATABASE postgres RESET ALL")
        superuser.execute("ALTER ROLE ann RESET ALL")
    with as_role(server, "ann") as ann:
        assert ann.execute("SHOW statement_timeout").fetchone() == ("0",)


def test_a_role_without_login(server: ShoalServer | PostgresServer, superuser: Connection) -> None:
    superuser.execute("ALTER ROLE ann NOLOGIN")
    with pytest.raises(psycopg.OperationalError, match='role "ann" is not permitted to log in'):
        as_role(server, "ann")


@pytest.mark.parametrize(
    ("setting", "sqlstate"),
    [
        ("SET nonsense = 'true'", "42704"),
        ("SET statement_timeout = 'soon'", "22023"),
        ("SET server_version = '1'", "55P02"),
    ],
)
def test_settings_that_no_session_could_have_are_refused(superuser: Connection, setting: str, sqlstate: str) -> None:
    for subject in ("ROLE postgres", "DATABASE postgres"):
        with pytest.raises(psycopg.Error) as caught:
            superuser.execute(f"ALTER {subject} {setting}".encode())
        assert caught.value.sqlstate == sqlstate
