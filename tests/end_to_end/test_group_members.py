"""ALTER GROUP ... ADD USER and DROP USER, on both servers."""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pytest

from tests.oracle import PostgresServer
from tests.server import ShoalServer

_ROLES = ("club", "ann", "bob", "clerk")


@pytest.fixture
def roles(server: ShoalServer | PostgresServer) -> Iterator[psycopg.Connection]:
    with psycopg.connect(server.dsn, autocommit=True) as connection:
        for role in _ROLES:
            connection.execute(f"CREATE ROLE {role}".encode())
        yield connection
        connection.execute("RESET ROLE")
        for role in _ROLES:
            connection.execute(f"DROP ROLE {role}".encode())


def _members(connection: psycopg.Connection) -> list[str]:
    found = connection.execute(
        "SELECT m.rolname FROM pg_auth_members a JOIN pg_roles m ON m.oid = a.member"
        " JOIN pg_roles r ON r.oid = a.roleid WHERE r.rolname = 'club' ORDER BY 1"
    )
    return [name for (name,) in found]


def _refused(connection: psycopg.Connection, statement: str) -> tuple[str | None, str | None]:
    with pytest.raises(psycopg.Error) as raised:
        connection.execute(statement.encode())
    return raised.value.sqlstate, raised.value.diag.message_primary


def test_members_come_and_go(roles: psycopg.Connection) -> None:
    assert roles.execute("ALTER GROUP club ADD USER ann, bob").statusmessage == "ALTER ROLE"
    assert _members(roles) == ["ann", "bob"]
    roles.execute("ALTER GROUP club ADD USER ann")  # a notice
    roles.execute("ALTER GROUP club DROP USER ann")
    roles.execute("ALTER GROUP club DROP USER ann")  # a warning
    assert _members(roles) == ["bob"]
    assert roles.execute("SELECT pg_has_role('bob', 'club', 'member')").fetchone() == (True,)


def test_what_is_refused_changes_nothing(roles: psycopg.Connection) -> None:
    for action in ("ADD", "DROP"):
        assert _refused(roles, f"ALTER GROUP club {action} USER ann, nobody") == (
            "42704",
            'role "nobody" does not exist',
        )
        assert _refused(roles, f"ALTER GROUP nobody {action} USER ann") == ("42704", 'role "nobody" does not exist')
    assert _refused(roles, "ALTER GROUP club ADD USER club") == ("0LP01", 'role "club" is a member of role "club"')
    assert _members(roles) == []


def test_it_takes_createrole(roles: psycopg.Connection) -> None:
    roles.execute("SET ROLE clerk")
    assert _refused(roles, "ALTER GROUP club ADD USER ann") == ("42501", "permission denied")
    roles.execute("RESET ROLE")
    roles.execute("ALTER ROLE clerk CREATEROLE")
    roles.execute("SET ROLE clerk")
    roles.execute("ALTER GROUP club ADD USER ann")
    assert _members(roles) == ["ann"]
