"""A schema of its own for each test, on Shoal and on PostgreSQL."""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pytest

from tests.oracle import PostgresServer
from tests.server import ShoalServer

SCHEMA = "drivers"


@pytest.fixture
def schema(server: ShoalServer | PostgresServer) -> Iterator[str]:
    """An empty schema, dropped afterwards; drivers put it into search_path."""
    with psycopg.connect(server.dsn, autocommit=True) as connection:
        connection.execute(f"DROP SCHEMA IF EXISTS {SCHEMA} CASCADE".encode())
        connection.execute(f"CREATE SCHEMA {SCHEMA}".encode())
        yield SCHEMA
        connection.execute(f"DROP SCHEMA {SCHEMA} CASCADE".encode())
