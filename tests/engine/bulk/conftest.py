"""Two connections, one to Shoal and one to PostgreSQL, each in a schema of its own that is thrown away."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from tests.oracle import PostgresServer
from tests.server import ShoalServer

SCHEMA = "bulk"
Connection = psycopg.Connection[Any]


class Pair:
    """The same statement on both servers."""

    def __init__(self, shoal: Connection, postgres: Connection) -> None:
        self.shoal = shoal
        self.postgres = postgres

    def run(self, *statements: str) -> None:
        """Runs statements that succeed on both."""
        for statement in statements:
            self.shoal.execute(statement.encode())
            self.postgres.execute(statement.encode())

    def same(self, sql: str) -> object:
        """Runs a statement on both and compares what comes of it: rows, counts, errors. Gives it."""
        ours, theirs = outcome(self.shoal, sql), outcome(self.postgres, sql)
        assert ours == theirs, sql
        return ours

    def same_copy_in(self, sql: str, data: bytes, table: str) -> object:
        """COPY FROM STDIN on both: the error with its context, or the table's rows."""
        ours, theirs = copy_in(self.shoal, sql, data, table), copy_in(self.postgres, sql, data, table)
        assert ours == theirs, (sql, data)
        return ours

    def same_copy_out(self, sql: str) -> bytes:
        """COPY TO STDOUT on both, byte for byte; the bytes."""
        ours, theirs = copy_out(self.shoal, sql), copy_out(self.postgres, sql)
        assert ours == theirs, sql
        return ours


def failure(error: psycopg.Error) -> tuple[object, ...]:
    found = error.diag
    return (
        found.sqlstate,
        found.message_primary,
        found.message_detail,
        found.message_hint,
        found.context,
        found.table_name,
        found.column_name,
        found.constraint_name,
    )


def outcome(connection: Connection, sql: str) -> object:
    try:
        cursor = connection.execute(sql.encode())
    except psycopg.Error as error:
        return failure(error)
    return cursor.statusmessage, cursor.fetchall() if cursor.description else None


def copy_in(connection: Connection, sql: str, data: bytes, table: str) -> tuple[Any, object]:
    cursor = connection.cursor()
    try:
        with cursor.copy(sql.encode()) as copy:
            copy.write(data)
        status: Any = cursor.statusmessage
    except psycopg.Error as error:
        status = failure(error)
    found = connection.execute(f"SELECT * FROM {table}".encode()).pgresult
    assert found is not None
    rows = [[found.get_value(row, place) for place in range(found.nfields)] for row in range(found.ntuples)]
    return status, sorted(rows, key=repr)


def copy_out(connection: Connection, sql: str) -> bytes:
    with connection.cursor().copy(sql.encode()) as copy:
        return b"".join(bytes(part) for part in copy)


def open_schema(dsn: str, schema: str = SCHEMA) -> Connection:
    connection = psycopg.connect(dsn, autocommit=True)
    connection.execute(f"DROP SCHEMA IF EXISTS {schema} CASCADE".encode())
    connection.execute(f"CREATE SCHEMA {schema}".encode())
    connection.execute(f"SET search_path = {schema}".encode())
    return connection


@pytest.fixture
def pair(shoal: ShoalServer, postgres_server: PostgresServer) -> Iterator[Pair]:
    with open_schema(shoal.dsn) as ours, open_schema(postgres_server.dsn) as theirs:
        yield Pair(ours, theirs)
        for connection in (ours, theirs):
            connection.execute(f"DROP SCHEMA {SCHEMA} CASCADE".encode())


@pytest.fixture
def ours(shoal: ShoalServer) -> Iterator[Connection]:
    """Shoal alone."""
    with open_schema(shoal.dsn) as connection:
        yield connection
        connection.execute(f"DROP SCHEMA {SCHEMA} CASCADE".encode())
