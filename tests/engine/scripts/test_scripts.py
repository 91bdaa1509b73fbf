"""Scripts of statements over types, each run on PostgreSQL and on Shoal, on both of its paths.

What comes of every statement is compared: its tag, its rows (in any order where there is no ORDER BY), the names of its
columns, and errors with detail, hint and position.
"""

from __future__ import annotations

import pathlib

import psycopg
import pytest
from psycopg.pq import DiagnosticField, ExecStatus

from tests.engine.sql.parser.corpus import statements_of
from tests.oracle import PostgresServer
from tests.samples import some
from tests.server import ShoalServer

HERE = pathlib.Path(__file__).parent
ERROR_FIELDS = (
    DiagnosticField.SQLSTATE,
    DiagnosticField.MESSAGE_PRIMARY,
    DiagnosticField.MESSAGE_DETAIL,
    DiagnosticField.MESSAGE_HINT,
    DiagnosticField.STATEMENT_POSITION,
)
SCRIPTS = sorted(path.stem for path in HERE.glob("*.sql"))


def outcome(connection: psycopg.Connection, sql: str) -> object:
    """By the simple protocol, so that values come as text."""
    result = connection.pgconn.exec_(sql.encode())
    if result.status == ExecStatus.FATAL_ERROR:
        return tuple((result.error_field(field) or b"").decode() for field in ERROR_FIELDS)
    if result.status != ExecStatus.TUPLES_OK:
        return result.command_status
    columns, count = range(result.nfields), range(result.ntuples)
    rows = [[result.get_value(row, column) for column in columns] for row in count]
    if "order by" not in sql.lower():
        rows.sort(key=repr)
    return [result.fname(column) for column in columns], rows


def outcomes(dsn: str, name: str, path: str | None) -> list[tuple[str, object]]:
    """What each statement of the script gives in a database of its own."""
    database = f"script_{name}_{path or 'oracle'}"
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {database}".encode())
    with psycopg.connect(dsn, dbname=database, autocommit=True) as connection:
        if path is not None:
            connection.execute(f"SET shoal.path = {path}".encode())
        return [(sql, outcome(connection, sql)) for sql in statements_of((HERE / f"{name}.sql").read_text())]


@pytest.fixture(scope="session")
def expected(postgres_server: PostgresServer) -> dict[str, list[tuple[str, object]]]:
    return {name: outcomes(postgres_server.dsn, name, None) for name in SCRIPTS}


# Scripts whose names end in _row have what the columnar path refuses.
RUNS = [
    (name, path) for name in SCRIPTS for path in ("auto", "columnar") if path == "auto" or not name.endswith("_row")
]


@pytest.mark.parametrize(("name", "path"), some(RUNS, 5))
def test_every_statement_gives_what_it_gives_in_postgresql(
    name: str, path: str, expected: dict[str, list[tuple[str, object]]], shoal: ShoalServer
) -> None:
    found = outcomes(shoal.dsn, name, path)
    wrong = [
        (sql, ours, theirs) for (sql, ours), (_, theirs) in zip(found, expected[name], strict=True) if ours != theirs
    ]
    assert not wrong
