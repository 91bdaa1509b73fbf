"""A schema of its own for each test, on Shoal, on PostgreSQL, and on a node of Shoal that follows another one."""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pytest

from tests.oracle import PostgresServer
from tests.server import ShoalServer
from tests.two_nodes import ScriptedNode, TwoNodes

SCHEMA = "drivers"
AnyServer = ShoalServer | PostgresServer | ScriptedNode


@pytest.fixture(scope="session")
def two_nodes() -> Iterator[TwoNodes]:
    with TwoNodes() as nodes:
        yield nodes


@pytest.fixture(params=["shoal", "follower", "postgres"])
def server(request: pytest.FixtureRequest) -> AnyServer:
    """A driver sees no difference between them, not even at a node that carries nearly everything elsewhere."""
    if request.param == "follower":
        nodes: TwoNodes = request.getfixturevalue("two_nodes")
        return nodes.b
    found: AnyServer = request.getfixturevalue("shoal" if request.param == "shoal" else "postgres_server")
    return found


@pytest.fixture
def schema(server: AnyServer) -> Iterator[str]:
    """An empty schema, dropped afterwards; drivers put it into search_path."""
    with psycopg.connect(server.dsn, autocommit=True) as connection:
        connection.execute(f"DROP SCHEMA IF EXISTS {SCHEMA} CASCADE".encode())
        connection.execute(f"CREATE SCHEMA {SCHEMA}".encode())
        yield SCHEMA
        connection.execute(f"DROP SCHEMA {SCHEMA} CASCADE".encode())
