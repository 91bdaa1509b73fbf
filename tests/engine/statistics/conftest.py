"""A PostgreSQL that has pg_stat_statements loaded, which needs a server of its own."""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pytest

from tests.oracle import PostgresServer


@pytest.fixture(scope="package")
def counting_postgres() -> Iterator[psycopg.Connection]:
    settings = ("fsync=off", "shared_preload_libraries=pg_stat_statements")
    with PostgresServer(settings) as server, psycopg.connect(server.dsn, autocommit=True) as connection:
        connection.execute("CREATE EXTENSION pg_stat_statements")
        yield connection
