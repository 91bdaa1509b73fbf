"""Schemas in Shoal and in the oracle, each in a database of its own."""

from __future__ import annotations

import contextlib
import pathlib
from collections.abc import Iterator, Sequence

import psycopg
import pytest

from tests.oracle import PostgresServer
from tests.server import ShoalServer

HERE = pathlib.Path(__file__).parent
DATABASE = "described"
KINDS = "objects_of_all_kinds"
ROLES = ("rich_reader", "rich_writer")


@pytest.fixture(scope="module")
def described(shoal: ShoalServer, postgres_server: PostgresServer) -> Iterator[tuple[str, str]]:
    """Connection strings of two databases with the same objects in them: Shoal's and the oracle's."""
    strings = []
    for server in (shoal, postgres_server):
        with psycopg.connect(server.dsn, autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {DATABASE}")
        strings.append(server.dsn.replace("dbname=postgres", f"dbname={DATABASE}"))
        with psycopg.connect(strings[-1], autocommit=True) as connection:
            for statement in (HERE / "schema.sql").read_text().splitlines():
                connection.execute(statement)
    yield strings[0], strings[1]
    for server in (shoal, postgres_server):  # whatever the servers show to the tests of other packages
        with psycopg.connect(server.dsn, autocommit=True) as connection:
            connection.execute(f"DROP DATABASE {DATABASE}")
            for role in ("bob", "team"):
                connection.execute(f"DROP ROLE {role}")


Pair = tuple[psycopg.Connection, psycopg.Connection]


def _without_rich(server: ShoalServer | PostgresServer) -> None:
    """What `rich_pair` makes goes, however far it came: roles are the server's, and other tests make them again."""
    with psycopg.connect(server.dsn, autocommit=True) as connection:
        connection.execute(f"DROP DATABASE IF EXISTS {KINDS} WITH (FORCE)")
        found = connection.execute("SELECT rolname FROM pg_roles WHERE rolname = ANY(%s)", (list(ROLES),)).fetchall()
        for (role,) in found:
            connection.execute(f"DROP OWNED BY {role}")
            connection.execute(f"DROP ROLE {role}")


@contextlib.contextmanager
def rich_pair(shoal: ShoalServer, postgres_server: PostgresServer, more: Sequence[str] = ()) -> Iterator[Pair]:
    """Connections to two databases with rich.sql and `more` in them: Shoal's and the oracle's."""
    servers = (shoal, postgres_server)
    for server in servers:
        _without_rich(server)
    try:
        with contextlib.ExitStack() as stack:
            opened = []
            for server in servers:
                with psycopg.connect(server.dsn, autocommit=True) as connection:
                    connection.execute(f"CREATE DATABASE {KINDS}")
                dsn = server.dsn.replace("dbname=postgres", f"dbname={KINDS}")
                opened.append(stack.enter_context(psycopg.connect(dsn, autocommit=True)))
                opened[-1].execute((HERE / "rich.sql").read_text())
                for statement in more:
                    opened[-1].execute(statement)
            yield opened[0], opened[1]
    finally:
        for server in servers:
            _without_rich(server)
