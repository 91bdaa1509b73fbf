"""To whom objects may be given, and into which schemas they may be moved."""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pytest
from psycopg import errors

from tests.oracle import PostgresServer
from tests.server import ShoalServer

Connection = psycopg.Connection[tuple[object, ...]]
OBJECTS = {
    "TABLE g.o": "CREATE TABLE g.o (a int)",
    "VIEW g.o": "CREATE VIEW g.o AS SELECT 1 AS a",
    "MATERIALIZED VIEW g.o": "CREATE MATERIALIZED VIEW g.o AS SELECT 1 AS a",
    "SEQUENCE g.o": "CREATE SEQUENCE g.o",
    "FUNCTION g.o()": "CREATE FUNCTION g.o() RETURNS int LANGUAGE sql AS 'SELECT 1'",
    "PROCEDURE g.o()": "CREATE PROCEDURE g.o() LANGUAGE sql AS 'SELECT 1'",
    "TYPE g.o": "CREATE TYPE g.o AS ENUM ('a')",
    "TYPE g.o ": "CREATE TYPE g.o AS (a int)",
    "DOMAIN g.o": "CREATE DOMAIN g.o AS int",
    "COLLATION g.o": "CREATE COLLATION g.o (provider = icu, locale = 'de')",
}
ABSENT = "3F000"  # pg_toast comes with the first change stream
REACHED = ("pg_catalog", "information_schema", "pg_toast", "closed")


@pytest.fixture
def giver(server: ShoalServer | PostgresServer) -> Iterator[Connection]:
    """A connection of an ordinary role that owns the schema g, in a block that is rolled back."""
    with psycopg.connect(server.dsn) as connection:
        connection.execute(
            "CREATE ROLE giver; CREATE ROLE friend ROLE giver; CREATE SCHEMA g AUTHORIZATION giver;"
            "CREATE SCHEMA closed; GRANT USAGE ON SCHEMA closed TO giver;"
            "CREATE SCHEMA open; GRANT ALL ON SCHEMA open TO giver; SET LOCAL ROLE giver"
        )
        yield connection
        connection.rollback()


@pytest.mark.parametrize("item", OBJECTS)
def test_an_object_goes_to_roles_of_its_owner_alone(giver: Connection, item: str) -> None:
    giver.execute(OBJECTS[item])
    for stranger in ("postgres", "pg_monitor"):
        refused = pytest.raises(errors.InsufficientPrivilege, match=f'must be member of role "{stranger}"')
        with refused, giver.transaction():
            giver.execute(f"ALTER {item} OWNER TO {stranger}")
    with pytest.raises(errors.InsufficientPrivilege, match="permission denied for schema g"), giver.transaction():
        giver.execute(f"ALTER {item} OWNER TO friend")
    giver.execute("GRANT CREATE ON SCHEMA g TO friend")
    giver.execute(f"ALTER {item} OWNER TO friend")


@pytest.mark.parametrize("item", OBJECTS)
@pytest.mark.parametrize("schema", REACHED)
def test_an_object_enters_no_schema_without_create_on_it(giver: Connection, item: str, schema: str) -> None:
    giver.execute(OBJECTS[item])
    with pytest.raises(psycopg.Error) as caught, giver.transaction():
        giver.execute(f"ALTER {item} SET SCHEMA {schema}")
    assert caught.value.sqlstate in ("42501", ABSENT if schema == "pg_toast" else "")
    giver.execute(f"ALTER {item} SET SCHEMA open")


@pytest.mark.parametrize("schema", REACHED[:3])
def test_no_superuser_puts_a_relation_into_a_system_schema(shoal: ShoalServer, schema: str) -> None:
    with psycopg.connect(shoal.dsn) as connection:
        connection.execute("CREATE TABLE moved (a int)")
        for statement in (f"ALTER TABLE moved SET SCHEMA {schema}", f"CREATE TABLE {schema}.made (a int)"):
            with pytest.raises(psycopg.Error) as caught, connection.transaction():
                connection.execute(statement)
            assert caught.value.sqlstate in ("42501", ABSENT if schema == "pg_toast" else "")
        connection.rollback()


def test_schemas_and_databases_go_to_roles_of_their_owner_alone(giver: Connection) -> None:
    for statement, sqlstate in (
        ("ALTER SCHEMA g OWNER TO postgres", "42501"),
        ("CREATE SCHEMA AUTHORIZATION postgres", "42501"),
        ("ALTER DATABASE postgres OWNER TO giver", "42501"),
        ("REASSIGN OWNED BY giver TO postgres", "42501"),
        ("REASSIGN OWNED BY postgres TO giver", "42501"),
        ("DROP OWNED BY postgres", "42501"),
        ("COMMENT ON SCHEMA closed IS 'mine'", "42501"),
        ("COMMENT ON DATABASE postgres IS 'mine'", "42501"),
    ):
        with pytest.raises(psycopg.Error) as caught, giver.transaction():
            giver.execute(statement)
        assert caught.value.sqlstate == sqlstate, statement


def test_a_member_that_does_not_inherit_owns_nothing_before_set_role(server: ShoalServer | PostgresServer) -> None:
    with psycopg.connect(server.dsn) as connection:
        connection.execute(
            "CREATE ROLE family; CREATE ROLE eve NOINHERIT IN ROLE family; CREATE SCHEMA f;"
            "GRANT ALL ON SCHEMA f TO family, eve; SET LOCAL ROLE family; CREATE TABLE f.t (a int);"
            "CREATE SEQUENCE f.s; CREATE FUNCTION f.o() RETURNS int LANGUAGE sql AS 'SELECT 1'; RESET ROLE;"
            "SET LOCAL SESSION AUTHORIZATION eve"
        )
        statements = (
            "ALTER TABLE f.t OWNER TO eve", "DROP TABLE f.t", "CREATE INDEX ON f.t (a)", "ALTER TABLE f.t RENAME TO u",
            "ALTER SEQUENCE f.s RESTART", "COMMENT ON TABLE f.t IS 'x'", "DROP FUNCTION f.o()", "SELECT * FROM f.t",
        )  # fmt: skip
        for statement in statements:
            with pytest.raises(errors.InsufficientPrivilege), connection.transaction():
                connection.execute(statement)
        connection.execute("SET LOCAL ROLE family")
        for statement in statements:
            if statement != "DROP TABLE f.t" and "OWNER" not in statement:
                with connection.transaction(force_rollback=True):
                    connection.execute(statement)
        connection.rollback()
