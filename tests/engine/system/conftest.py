"""One schema, in Shoal and in the oracle."""

from __future__ import annotations

import pathlib
from collections.abc import Iterator

import psycopg
import pytest

from tests.oracle import PostgresServer
from tests.server import ShoalServer

HERE = pathlib.Path(__file__).parent
DATABASE = "described"


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
