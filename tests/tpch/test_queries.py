"""The 22 queries of TPC-H give what PostgreSQL gives on the same data (scale factor 0.01)."""

from __future__ import annotations

import pathlib
import re
import subprocess
import sys
from collections.abc import Iterator
from typing import TypeAlias

import psycopg
import pytest

from tests.oracle import PostgresServer
from tests.server import ShoalServer

Connection: TypeAlias = "psycopg.Connection[tuple[object, ...]]"
HERE = pathlib.Path(__file__).parent
TABLES = ("region", "nation", "part", "supplier", "partsupp", "customer", "orders", "lineitem")
QUERIES = dict(re.findall(r"-- Q(\d+)\n(.*?;)", (HERE / "queries.sql").read_text(), re.DOTALL))
SCALE = "0.01"


@pytest.fixture(scope="module")
def servers(
    postgres_server: PostgresServer, shoal: ShoalServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Connection, Connection]]:
    """Connections to PostgreSQL and to Shoal with the tables loaded."""
    directory = tmp_path_factory.mktemp("tpch")
    generator = pathlib.Path(sys.executable).with_name("tpchgen-cli")
    subprocess.run([generator, "-s", SCALE, f"--output-dir={directory}"], check=True, capture_output=True)
    with (
        psycopg.connect(postgres_server.dsn, autocommit=True) as postgres,
        psycopg.connect(shoal.dsn, autocommit=True) as ours,
    ):
        for connection in (postgres, ours):
            _load(connection, directory)
        postgres.execute("ANALYZE")
        yield postgres, ours
        for connection in (postgres, ours):
            connection.execute("DROP SCHEMA tpch CASCADE")


def _load(connection: Connection, directory: pathlib.Path) -> None:
    connection.execute("CREATE SCHEMA tpch")
    connection.execute("SET search_path TO tpch")
    connection.execute((HERE / "schema.sql").read_bytes())
    for table in TABLES:
        with connection.cursor().copy(f"COPY {table} FROM STDIN (DELIMITER '|')".encode()) as copy:
            copy.write((directory / f"{table}.tbl").read_text().replace("|\n", "\n"))


def test_all_queries_are_there() -> None:
    assert [int(number) for number in QUERIES] == list(range(1, 23))


@pytest.mark.parametrize("number", QUERIES)
def test_query(servers: tuple[Connection, Connection], number: str) -> None:
    cursors = [connection.execute(QUERIES[number].encode()) for connection in servers]
    expected, found = cursors
    assert [column.type_code for column in found.description or ()] == [
        column.type_code for column in expected.description or ()
    ]
    assert found.fetchall() == expected.fetchall()
