"""Fixtures shared by all tests: a real PostgreSQL beside us, as the oracle."""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pytest

from tests.oracle import PostgresServer


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[PostgresServer]:
    """A PostgreSQL of this machine in a directory of its own, stopped and removed at the end of the run."""
    with PostgresServer() as server:
        yield server


@pytest.fixture
def postgres(postgres_server: PostgresServer) -> Iterator[psycopg.Connection]:
    """An open autocommit connection to the oracle."""
    with psycopg.connect(postgres_server.dsn, autocommit=True) as connection:
        yield connection
