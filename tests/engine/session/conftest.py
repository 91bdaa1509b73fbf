"""Two connections, one to Shoal and one to PostgreSQL, each in a schema of its own that is thrown away."""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pytest

from tests.engine.bulk.conftest import Connection, failure, open_schema
from tests.oracle import PostgresServer
from tests.server import ShoalServer

SCHEMA = "statements"


class Pair:
    """The same statements on both servers."""

    def __init__(self, shoal: Connection, postgres: Connection) -> None:
        self.shoal = shoal
        self.postgres = postgres

    def run(self, *statements: str) -> None:
        """Statements that succeed on both."""
        for statement in statements:
            self.shoal.execute(statement.encode())
            self.postgres.execute(statement.encode())

    def same(self, *statements: str) -> None:
        """Runs statements on both and compares what comes of each: tags, rows in any order, errors."""
        for sql in statements:
            ours, theirs = outcome(self.shoal, sql), outcome(self.postgres, sql)
            assert ours == theirs, sql


def outcome(connection: Connection, sql: str) -> tuple[object, ...]:
    try:
        cursor = connection.execute(sql.encode())
    except psycopg.Error as error:
        return (*failure(error), error.diag.statement_position)
    rows = sorted(cursor.fetchall(), key=repr) if cursor.description else None
    return cursor.statusmessage, rows, [column.name for column in cursor.description or ()]


@pytest.fixture
def pair(shoal: ShoalServer, postgres_server: PostgresServer) -> Iterator[Pair]:
    with open_schema(shoal.dsn, SCHEMA) as ours, open_schema(postgres_server.dsn, SCHEMA) as theirs:
        yield Pair(ours, theirs)
        for connection in (ours, theirs):
            connection.rollback()
            connection.execute("RESET ROLE")
            connection.execute(f"DROP SCHEMA {SCHEMA} CASCADE".encode())


@pytest.fixture(params=["auto", "columnar"])
def both_paths(pair: Pair, request: pytest.FixtureRequest) -> Pair:
    """The pair with Shoal on the path that it chooses, and with everything that can be on the columnar path."""
    pair.shoal.execute(f"SET shoal.path = {request.param}".encode())
    return pair
